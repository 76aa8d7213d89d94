"""Find secrets that a phrase reveals: a header, a call, a command line or a sentence.

The rules are the rows of `secret_rules.phrase_rules()`. Each has keywords, a regex that is tried
where a keyword occurs, and the name of a condition that the value must meet. For example, the
keyword `sshpass ` belongs to a regex that takes the value from `sshpass -p VALUE`, and the value
must be a plausible password of a login.
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING, secret_prefilter, secret_rules
from ralph.privacy.harmless_values import NAMING_WORDS, SENTENCE_WORDS
from ralph.privacy.passwords import (
    COPULA,
    LITERAL,
    PROSE,
    is_basic_login,
    is_login_password,
    is_password,
)
from ralph.privacy.secret_values import FAIR, STRONG, grade, is_placeholder, is_random
from ralph.privacy.word_splitters import lowercase

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from ralph.privacy.secret_values import Span

_BEFORE_KEYWORD = ("piped", "before")
"""Conditions of rules in which the password precedes the keyword on its line."""
_MAX_DISTANCE_BEFORE = 500  # characters
_MAX_DISTANCE_AFTER = 700  # characters


def phrase_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield the value of every phrase that meets the condition of its rule."""
    present = secret_prefilter.phrase_keywords(lowered)
    if present:
        yield from _rule_secrets(text, lowered, present, secret_rules.phrase_rules())


def printed_secrets(command: str, output: str) -> list[Span]:
    """Return the secrets in the output of a command that prints one, such as `openssl rand`."""
    command = secret_prefilter.one_line(command)
    text = f"{command}{output}"
    lowered = lowercase(text)
    present = secret_prefilter.phrase_keywords(lowered)
    rules = secret_rules.output_rules()
    spans = _rule_secrets(text, lowered, present, rules)
    offset = len(command)
    return [(start - offset, end - offset, kind) for start, end, kind in spans if start >= offset]


def _rule_secrets(
    text: str, lowered: str, present: Collection[str], rules: Sequence[secret_rules.PhraseRule]
) -> Iterator[Span]:
    for kind, condition, keywords, follows, regex in rules:
        for keyword in keywords:
            if keyword not in present:
                continue
            if condition in _BEFORE_KEYWORD:
                matches = _matches_before_keyword(text, lowered, keyword, regex)
            else:
                matches = _matches_at_keyword(text, lowered, keyword, regex, follows)
            for match in matches:
                group = "s" if match["s"] else "t"
                if _meets(condition, match[group]):
                    yield match.start(group), match.end(group), kind


def _matches_before_keyword(
    text: str, lowered: str, keyword: str, regex: str
) -> Iterator[re.Match[str]]:
    pattern = re.compile(secret_rules.phrase_regex(regex))
    floor = 0
    position = lowered.find(keyword)
    while position >= 0:
        start = max(floor, position - _MAX_DISTANCE_BEFORE)
        line_start = max(start, lowered.rfind("\n", start, position) + 1)
        floor = position + len(keyword)
        yield from pattern.finditer(text, line_start, floor)
        position = lowered.find(keyword, floor)


def _matches_at_keyword(
    text: str, lowered: str, keyword: str, regex: str, follows: str
) -> Iterator[re.Match[str]]:
    full_regex = secret_rules.phrase_regex(regex)
    position = lowered.find(keyword)
    while position >= 0:
        next_position = position + 1
        keyword_end = position + len(keyword)
        rest = text[keyword_end : keyword_end + _MAX_DISTANCE_AFTER]
        if not follows or secret_prefilter.has_follower(rest, follows):
            match = re.compile(full_regex).match(text, position)  # compiled only when needed
            if match:
                next_position = max(next_position, match.end())
                yield match
        position = lowered.find(keyword, next_position)


# --- conditions -----------------------------------------------------------------------------------

_ENGLISH_ENDING = (
    r"(?:ed|ing|[ai]ble|ly|al|[oa]ry|[ea]nt|ive|ous|ful|less|[ts]ion|ic|ty|ment|tten"
    r"|words?|keys?)\Z"
)
"""Endings of English words that may follow `the password is` but are not passwords: `required`."""
_MIN_WORDS_WITH_SENTENCE_WORD = 4
_MAX_SENTENCE_WORDS = 1


def _meets(condition: str, value: str) -> bool:
    return _CONDITIONS[condition](value)


def is_plain_password(value: str) -> bool:
    """Return whether lowercase words after `the password is` are a password."""
    words = re.split(r"[.-]", value)
    if any(re.search(_ENGLISH_ENDING, word) for word in words):
        return False
    if is_placeholder(value) or not NAMING_WORDS.isdisjoint(words):
        return False
    sentence_words = len(SENTENCE_WORDS.intersection(words))
    if len(words) >= _MIN_WORDS_WITH_SENTENCE_WORD:
        return sentence_words <= _MAX_SENTENCE_WORDS
    return sentence_words == 0


def _is_words(value: str) -> bool:
    """Return whether no word of a phrase is one that occurs in sentences about passwords."""
    words = value.split()
    if any(re.search(_ENGLISH_ENDING, word) for word in words):
        return False
    return SENTENCE_WORDS.isdisjoint(words)


def _is_printed_secret(value: str) -> bool:
    """Return whether a line that a command printed is a secret."""
    if grade(value) == STRONG:
        return True
    return is_password(value, COPULA) and not value.isalpha()


def _is_login_secret(value: str) -> bool:
    return is_login_password("", value)


def _is_any_value(_value: str) -> bool:
    return True


def _is_fair_and_random(value: str) -> bool:
    return grade(value) >= FAIR and is_random(value)


def is_strong_and_random(value: str) -> bool:
    """Return whether a value looks generated, both by its grade and by its letters."""
    return grade(value) >= STRONG and is_random(value)


def _is_password_in_literal(value: str) -> bool:
    return is_password(value, LITERAL)


def _is_password_after_copula(value: str) -> bool:
    return is_password(value, COPULA)


def _is_password_in_prose(value: str) -> bool:
    return is_password(value, PROSE)


_CONDITIONS: dict[str, Callable[[str], bool]] = {
    "any": _is_any_value,
    "basic login": is_basic_login,
    "before": _is_password_after_copula,
    "fair": _is_fair_and_random,
    "literal": _is_password_in_literal,
    "login": _is_login_secret,
    "output": _is_printed_secret,
    "password": is_password,
    "piped": _is_login_secret,
    "plain": is_plain_password,
    "prose": _is_password_in_prose,
    "random": is_random,
    "spoken": _is_password_after_copula,
    "strong": is_strong_and_random,
    "words": _is_words,
}
