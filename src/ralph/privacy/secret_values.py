"""Judge values and names: is a value a password, a reference, a placeholder or a generated token?

After a name that says password, every value counts unless it is a reference, a placeholder, a type,
a state or prose (`is_password`). After other names, only generated values count, because
`token: str` is common. A grade says how much a value looks generated (`grade`), and a place says
how certain the syntax makes it that a value is a password. Every step is bounded, and a regex is
compiled when it is first needed, because hooks load this module.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from ralph.lean import TYPE_CHECKING, record
from ralph.privacy import secret_rules as rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Span = tuple[int, int, str]
"""The start, end and kind of a secret in a text."""

# Grades: how much a value looks as if a program generated it.
NONE = 0
FAIR = 1
STRONG = 2
GRADES = {"fair": FAIR, "strong": STRONG}

# Places: how certain it is that the value `x` is a password.
PROSE = 0  # `password x`
COPULA = 1  # `the password is x`
LITERAL = 2  # `login(user, "x")`
SURE = 3  # `PASSWORD=x`

_HEAD_LENGTH = 128
"""How many characters of a value are examined: enough to judge it, and a bound for hostile text."""
_SEQUENCE_LENGTH = 48
"""How many characters are examined for a sequence such as `abcdef`."""
_CACHED_VALUES = 1024
"""How many judged values to cache, because program output repeats its values."""

NAMING = frozenset(
    {
        "password",
        "passwd",
        "passwort",
        "pwd",
        "secret",
        "secrets",
        "token",
        "pass",
        "passphrase",
        "kennwort",
        "credential",
    }
)
"""Words that name a secret instead of being one."""
_DEFAULTS = frozenset(rules.DEFAULT_PASSWORDS.split())
_NAME_WORDS = _DEFAULTS | {
    *rules.STATES_AND_PRODUCTS.split(),
    *rules.NOTICE_WORDS.split(),
    *rules.LABEL_WORDS.split(),
}
_TECHNICAL = frozenset(rules.TECHNICAL_WORDS.split())
KNOWN = _NAME_WORDS | _TECHNICAL
SENTENCE = KNOWN.union(rules.PHRASE_WORDS.split())

CHUNK = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z0-9]"
"""One part of a name or value: a word, a number or a single other character."""
UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
FINGERPRINT = r"\d{16,}|[0-9A-F]{16}(?:[0-9A-F]{24})?"
"""A fingerprint or a key. Which one it is depends on the name."""
_SYMBOLS = frozenset("!@#$%^&*+=~?")
_CHOSEN_SYMBOLS = _SYMBOLS - {"=", "+"}
"""The symbols that base64 does not use."""


def has_both_cases(value: str) -> bool:
    """Return whether a value has uppercase and lowercase letters."""
    return value.lower() != value and value.upper() != value


def has_digit(value: str) -> bool:
    """Return whether a value has at least one digit."""
    return any(map(str.isdigit, value))


# --- placeholders ---------------------------------------------------------------------------------

_SEPARATORS_REMOVED = str.maketrans("", "", "-_. ")
_MIN_DISTINCT_CHARACTERS = 4
_MIN_RUN_LENGTH = 16
_MIN_PLACEHOLDER_IN_RUN = 6
"""A random run may contain a placeholder shorter than this by chance."""
_EXTENDED = r"(?=.*[a-z]{2}).*\d{2}"
"""What somebody added to a weak password to make it their own."""
_PLACEHOLDER_WORDS_IN_PASSWORDS = frozenset({"your", "here", "some", "hidden"})

# The share of steps to the same or the next character above which text is a sequence.
_SEQUENCE_SHARE = 0.5
_SEQUENCE_SHARE_IN_LONG_VALUE = 0.6
_SEQUENCE_SHARE_IN_NUMBER = 0.75
_SEQUENCE_SHARE_IN_TOKEN = 0.8


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder: `changeme`, `xxxx`, `your-key-here`, `abc123`."""
    if _has_placeholder_word(value[:_HEAD_LENGTH]):
        return True
    head = value[:_SEQUENCE_LENGTH]
    return _is_sequence(head, _sequence_share(head))


def _has_placeholder_word(head: str) -> bool:
    lowered = head.lower()
    is_run = is_long_run(head)
    placeholder = _find_placeholder(lowered, is_run=is_run)
    is_mixed = has_both_cases(head) and has_digit(head)
    if placeholder:
        if placeholder not in rules.WEAK_PASSWORDS:
            return True
        is_extended = is_mixed or re.search(_EXTENDED, lowered.replace(placeholder, ""))
        return not is_extended  # `changeit-Acme-91` is a password
    if len(set(lowered)) < _MIN_DISTINCT_CHARACTERS:
        return True
    if is_run:
        return False
    words = {word.lower() for word in re.findall(CHUNK, head)}
    if is_mixed and NAMING.isdisjoint(words) and "key" not in words:
        words -= _PLACEHOLDER_WORDS_IN_PASSWORDS  # `Wint3r_is_here` is a password
    return not rules.PLACEHOLDER_WORDS.isdisjoint(words)


def _find_placeholder(lowered: str, *, is_run: bool) -> str:
    """Return the first placeholder found in a value, or "".

    The value is searched both with and without its separators.
    """
    searched = f"{lowered}\n{lowered.translate(_SEPARATORS_REMOVED)}"
    for placeholder in rules.PLACEHOLDERS:
        if placeholder in searched:
            may_be_chance = is_run and len(placeholder) < _MIN_PLACEHOLDER_IN_RUN
            if not may_be_chance:
                return placeholder
    return ""


def is_long_run(head: str) -> bool:
    """Return whether a value is a long run of random letters and digits.

    In such a run, three or four characters may spell a word by chance.
    """
    if len(head) < _MIN_RUN_LENGTH or not head.isascii():
        return False
    if not head.isalnum():
        joined = head.replace("-", "").replace("_", "")
        if not (has_both_cases(head) and joined.isalnum()):
            return False
    return not is_wordy(head)


def _sequence_share(head: str) -> float:
    if head.isdigit():
        return _SEQUENCE_SHARE_IN_NUMBER
    if len(head) >= _MIN_RUN_LENGTH:
        return _SEQUENCE_SHARE_IN_LONG_VALUE
    return _SEQUENCE_SHARE


def _is_sequence(head: str, min_share: float) -> bool:
    """Return whether most characters repeat the one before or follow it in the alphabet."""
    steps = sum(ord(right) - ord(left) in (0, 1) for left, right in pairwise(head))
    return steps / max(1, len(head) - 1) > min_share


# --- references -----------------------------------------------------------------------------------

_REFERENCE = (
    r"\A(?:![a-z]|\$(?:\d|[a-z_]\w*(?:\Z|\())|%\w+%\Z|:'|[a-z][a-z0-9+._-]*://|s?sha\d*[}:$-]"
    r"|\.[a-z0-9]|[a-z]:[/\\])|\{\w*\}|%[sd]\b"
)
"""Variables, templates, tags, URLs, paths and hashes."""
_SHELL_VARIABLE = r"\$[A-Z][A-Z_]{3,}"
_BASE64_RUN = r"[A-Za-z0-9+/]{32,}={0,2}"


def is_reference(value: str) -> bool:
    """Return whether a value only refers to a secret: a variable, path, URL, vault or hash."""
    head = value[:_HEAD_LENGTH]
    if head.isalnum() or _is_password_after_symbol(head):
        return False
    lowered = head.lower()
    if lowered.startswith(rules.REFERENCE_STARTS):
        return True
    if any(mark in lowered for mark in rules.TEMPLATES):
        return True
    if re.search(_REFERENCE, lowered):
        return True
    if "$" in head and re.search(_SHELL_VARIABLE, head):
        return True
    return _is_path(head, lowered)


def _is_password_after_symbol(head: str) -> bool:
    """Return whether only the first character makes a value look like a reference: `&x9Kp2-Lm`."""
    if head[:1] not in ("(", "@", "&", "!", "~"):
        return False
    return has_digit(head) and has_both_cases(head) and {*head[1:]}.isdisjoint("()/. ")


def _is_path(head: str, lowered: str) -> bool:
    if not lowered.startswith(rules.PATH_STARTS):
        if not lowered.endswith(rules.PATH_ENDS):
            return False
        if "/" not in head and lowered.endswith(rules.HOST_ENDS) and has_digit(head):
            return False  # a password may end like a host name
    return re.fullmatch(_BASE64_RUN, head) is None or is_wordy(head)


# --- words ----------------------------------------------------------------------------------------

_WORD_SEPARATORS = frozenset("-_./: ")
_NAME_SEPARATORS = frozenset("-_")
_VOWELS = frozenset("aeiouy")
_UNNATURAL = r"[bcdfghjklmnpqrstvwxz]{5,}|[aeiou]{4,}|q(?!u)|[jvwxz][jqxz]|(.)\1\1|\A[^aeiouy]*\Z"
"""Sequences of letters that do not occur in words."""
_MAX_NUMBERS = 2
_MAX_DIGITS = 4
_MIN_MEAN_WORD_LENGTH = 3
_MAX_WORDS_WITHOUT_VOWEL = 1
_MIN_JUDGED_WORD_LENGTH = 5
"""The length from which a word is judged by its spelling. A shorter one may be any name."""
_MAX_UPPERCASE_WORD_LENGTH = 14
_MIN_LONG_NAME_LENGTH = 16

_LONG_WORDS = frozenset(word for word in SENTENCE.union(rules.NEAR_WORDS.split()) if len(word) > 5)
_ALPHABET_LENGTH = 26
_EXPECTED_FREQUENCY = 4
"""The digit in `rules.FOLLOWERS` for a pair of letters that is as frequent as by chance."""

# How far above chance the letter pairs in a name must be for it to count as English.
_MIN_POINTS_WITH_SEPARATORS = 5
_MIN_POINTS_WITH_KNOWN_WORD = 9
_MIN_POINTS_WITH_BOTH_CASES = 13


def is_wordy(value: str) -> bool:
    """Return whether a value consists of words with few digits."""
    chunks = re.findall(CHUNK, value[:_HEAD_LENGTH])
    words = [chunk for chunk in chunks if chunk[0].isalpha()]
    numbers = [chunk for chunk in chunks if chunk[0].isdigit()]
    separators = {chunk for chunk in chunks if not chunk[0].isalnum()}
    if not words or not separators <= _WORD_SEPARATORS:
        return False
    if len(numbers) > _MAX_NUMBERS or sum(map(len, numbers)) > _MAX_DIGITS:
        return False
    if not separators and len(numbers) > 1:
        return False
    if not _are_natural(words, are_separated=bool(separators)):
        return False
    if len(value) < _MIN_LONG_NAME_LENGTH or not separators <= _NAME_SEPARATORS:
        return True
    return _are_english(value, words)


def _are_natural(words: list[str], *, are_separated: bool) -> bool:
    if sum(map(len, words)) / len(words) < _MIN_MEAN_WORD_LENGTH:
        return False
    if not are_separated:
        vowelless = sum(len(word) > 1 and _VOWELS.isdisjoint(word.lower()) for word in words)
        if vowelless > _MAX_WORDS_WITHOUT_VOWEL:
            return False
    return not any(map(_is_unnatural, words))


def _is_unnatural(word: str) -> bool:
    if len(word) < _MIN_JUDGED_WORD_LENGTH:
        return False
    if len(word) > _MAX_UPPERCASE_WORD_LENGTH and word.isupper():
        return True
    return re.search(_UNNATURAL, word.lower()) is not None


def _are_english(value: str, words: list[str]) -> bool:
    """Return whether the letter pairs in a long name are those of English words.

    This is needed because random letters may form syllables.
    """
    points = 0
    for word in words:
        if not word.isascii():
            continue  # a letter such as `ü` is a chunk of its own and is not in the table
        for first, second in pairwise(word.lower().encode()):
            pair = _ALPHABET_LENGTH * (first - ord("a")) + second - ord("a")
            points += int(rules.FOLLOWERS[pair]) - _EXPECTED_FREQUENCY
    if not value.isalnum():
        return points >= _MIN_POINTS_WITH_SEPARATORS
    joined = "".join(words).lower()
    if any(word in joined for word in _LONG_WORDS):
        return points >= _MIN_POINTS_WITH_KNOWN_WORD
    if has_both_cases(value):
        return points >= _MIN_POINTS_WITH_BOTH_CASES
    return False


# --- generated values -----------------------------------------------------------------------------

_UNBROKEN_RUN = r"[a-z]{18}|[A-Z]{16}|\d{16}"
"""More letters of one case, or more digits, in a row than any word has."""
_DOTTED_NAME = r"[a-z][A-Za-z]{0,15}\d{0,2}(?:[._][A-Za-z]{1,16}\d{0,2}){2,}$"
_MIN_GRADED_LENGTH = 6
_MIN_GRADED_CHARACTERS = 5
_MIN_UUID_CHARACTERS = 6
_UUID_HYPHENS = 4
_UUID_VERSION = 14  # position in a UUID
_UUID_VARIANT = 19  # position in a UUID

# The lengths from which a value with a digit has a grade.
_STRONG_LENGTH = 16
_STRONG_LENGTH_OF_VARIED = 8
_FAIR_LENGTH = 10

# The lengths from which a value that consists of letters has a grade.
_STRONG_LENGTH_OF_CASED_LETTERS = 20
_FAIR_LENGTH_OF_CASED_LETTERS = 8
_FAIR_LENGTH_OF_LETTERS = 16


def is_token_body(body: str) -> bool:
    """Return whether the text after a vendor prefix is a token rather than a placeholder."""
    head = body[:_HEAD_LENGTH]
    if re.search(rules.DUMMY_BODY, head):
        return False
    if _is_sequence(head[:_SEQUENCE_LENGTH], _SEQUENCE_SHARE_IN_TOKEN):
        return False
    return len(set(head)) >= _MIN_DISTINCT_CHARACTERS


def is_random(body: str) -> bool:
    """Return whether text looks generated by a program, not made up by the author of a manual."""
    head = body[:_HEAD_LENGTH]
    if not is_token_body(head):
        return False
    if re.search(_UNBROKEN_RUN, head):
        return True
    is_varied = has_both_cases(head) or has_digit(head) or is_long_run(head)
    return is_varied and not is_placeholder(head) and not is_wordy(head)


def grade(value: str) -> int:
    """Return how much a value looks as if a program generated it: NONE, FAIR or STRONG."""
    return _grade(value[:_HEAD_LENGTH])


@lru_cache(_CACHED_VALUES)
def _grade(head: str) -> int:
    if head.count("-") == _UUID_HYPHENS and re.fullmatch(UUID, head):
        return _grade_uuid(head)
    if _is_something_else(head):
        return NONE
    if re.fullmatch(FINGERPRINT, head):
        return FAIR
    if is_wordy(head) or len(set(head)) < _MIN_GRADED_CHARACTERS:
        return NONE
    if not any(map(str.isalpha, head)):
        return NONE
    if has_digit(head):
        return _grade_with_digit(head)
    return _grade_without_digit(head)


def _is_something_else(head: str) -> bool:
    if len(head) < _MIN_GRADED_LENGTH or any(map(str.isspace, head)):
        return True
    if "[redacted: " in head or head.startswith(rules.PUBLIC_KEY_STARTS):
        return True
    if is_placeholder(head) or _is_other_format(head):
        return True
    return re.match(_DOTTED_NAME, head) is not None or is_reference(head)


def _grade_uuid(head: str) -> int:
    lowered = head.lower()
    if lowered.startswith(rules.EXAMPLE_UUIDS) or len(set(lowered)) < _MIN_UUID_CHARACTERS:
        return NONE
    # A random UUID (version 4) may contain a sequence by chance.
    is_random_uuid = lowered[_UUID_VERSION] == "4" and lowered[_UUID_VARIANT] in "89ab"
    if is_random_uuid or not is_placeholder(head):
        return FAIR
    return NONE


def _grade_with_digit(head: str) -> int:
    if len(head) >= _STRONG_LENGTH:
        return STRONG
    is_varied = has_both_cases(head) or not _SYMBOLS.isdisjoint(head)
    if is_varied and len(head) >= _STRONG_LENGTH_OF_VARIED:
        return STRONG
    if len(head) >= _FAIR_LENGTH:
        return FAIR
    return NONE


def _grade_without_digit(head: str) -> int:
    is_cased = has_both_cases(head)
    symbol_count = sum(map(_CHOSEN_SYMBOLS.__contains__, head[1:-1]))
    if symbol_count and head.isascii() and (is_cased or symbol_count > 1):
        return FAIR
    if not (head.isascii() and head.isalpha()):
        if is_long_run(head):
            return FAIR
        return NONE
    if is_cased:
        if len(head) >= _STRONG_LENGTH_OF_CASED_LETTERS:
            return STRONG
        if len(head) >= _FAIR_LENGTH_OF_CASED_LETTERS:
            return FAIR
        return NONE
    if len(head) >= _FAIR_LENGTH_OF_LETTERS:
        return FAIR
    return NONE


def _is_other_format(head: str) -> bool:
    if head.isalnum() and not head[0].isdigit():
        return False
    return re.match(rules.OTHER_FORMAT, head) is not None


# --- passwords ------------------------------------------------------------------------------------

_LAST_LATIN_CHARACTER = "\u024f"
_SEALED_SECRET_STARTS = ("AgA", "AgB")
_POLICY_LENGTHS = range(8, 11)
"""Lengths of passwords that are sequences and yet meet a password policy: `Abcd1234`."""
_LEET = str.maketrans("0@134$5", "oaieass")
_MESSAGE_KEY = r"[a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)+"
_STEP = r"[a-z]{1,5}-?\d{1,3}"
_SENTENCE_PART = (
    r"[A-Z]{2,10}-\d+|\d+\+?[a-z]{1,6}|\d+-[a-z]+|[A-Z]\w*\(.*|.*[\w)!?]\(.*|[a-z_]+=.*"
)
"""What a sentence about a password may contain: a ticket number, `12-character`, or a call."""
_CHOSEN_WORDS = r".*[a-z][-_][A-Z][a-z]|.*[a-z]_|[a-z]{20,40}\Z"
_GENERATED_WORD = r"(?i)(?=(?:[a-z]+\d+){2})[a-z0-9]+"

_MIN_PASSWORD_LENGTH = 5
_MIN_PLAIN_PASSWORD_LENGTH = 6
_MIN_RUN_LENGTH_IN_PROSE = 20
_MAX_PASSPHRASE_WORDS = 8
_MAX_SENTENCE_WORDS = 1
"""How many words typical of sentences a passphrase with a digit or many words may contain."""
_MANY_WORDS = 4
_MIN_DIGITS_OF_LOWERCASE = 4
_MIN_STRANGE_WORDS = 3
_MIN_CASED_LENGTH_IN_PROSE = 8
_MIN_NUMBERED_LENGTH_IN_PROSE = 10
_MIN_LONG_WORD_IN_PROSE = 4


class _Candidate:
    """A value that may be a password, with the traits that several checks need."""

    __slots__ = (
        "digit_count",
        "has_both_cases",
        "has_digit",
        "has_inner_symbol",
        "head",
        "lowered",
        "place",
        "separator_count",
        "words",
    )

    def __init__(self, head: str, place: int) -> None:
        self.head = head
        self.place = place
        self.lowered = head.lower()
        self.words = [chunk.lower() for chunk in re.findall(CHUNK, head) if chunk.isalpha()]
        self.digit_count = sum(map(str.isdigit, head))
        self.has_digit = self.digit_count > 0
        self.has_both_cases = has_both_cases(head)
        self.has_inner_symbol = not _SYMBOLS.isdisjoint(head[1:-1])
        self.separator_count = head.count("-") + head.count("_") + head.count(".")


def is_password(value: str, place: int = SURE) -> bool:
    """Return whether a value is a password, given that its name says so.

    `place` says how certain the syntax makes it, such as SURE.
    """
    return _is_password(value[:_HEAD_LENGTH], place)


@lru_cache(_CACHED_VALUES)
def _is_password(head: str, place: int) -> bool:
    if _cannot_be_password(head):
        return False
    candidate = _Candidate(head, place)
    if len(head.split()) > 1:
        return _is_passphrase(candidate)
    if _is_certain_run(head, place):
        return True
    if _is_ordinary_word(candidate) or _is_made_of_known_words(candidate):
        return False
    if place == SURE:
        if len(head) >= _MIN_PLAIN_PASSWORD_LENGTH:
            return True
        return candidate.has_digit and not head.isdigit()
    if _belongs_to_sentence(candidate):
        return False
    if _grade(head) == STRONG:
        return True
    if place < LITERAL and re.fullmatch(_STEP, head):
        return False
    if place > PROSE:
        return _is_chosen(candidate)
    return _is_chosen_in_prose(candidate)


def _cannot_be_password(head: str) -> bool:
    if len(head) < _MIN_PASSWORD_LENGTH or "[redacted" in head:
        return True
    if max(head) > _LAST_LATIN_CHARACTER:
        return True
    if len(head) == _HEAD_LENGTH and head.startswith(_SEALED_SECRET_STARTS):
        return True
    if _has_placeholder_word(head):
        return True
    sequence = head[:_SEQUENCE_LENGTH]
    if _is_sequence(sequence, _sequence_share(sequence)) and not _meets_policy(head):
        return True
    return is_reference(head)


def _meets_policy(head: str) -> bool:
    """Return whether a sequence may be a password made up to meet a policy: `Abcd1234`."""
    if len(head) not in _POLICY_LENGTHS or head.lower().startswith("abc123"):
        return False
    return has_both_cases(head) and has_digit(head)


def _is_passphrase(candidate: _Candidate) -> bool:
    """Return whether several words are a passphrase rather than a sentence."""
    head = candidate.head
    if candidate.place <= COPULA or len(candidate.words) > _MAX_PASSPHRASE_WORDS:
        return False
    if head[-1] in ".?:…":
        return False
    has_mark = candidate.has_inner_symbol or "&" in head or head[-1] in "!$#"
    if not _has_few_sentence_words(candidate, has_mark=has_mark):
        return False
    return candidate.has_digit or has_mark or _is_plain_phrase(candidate)


def _has_few_sentence_words(candidate: _Candidate, *, has_mark: bool) -> bool:
    words = {*candidate.words}
    sentence_words = len(SENTENCE & words)
    if sentence_words == 0:
        return True
    may_have_sentence_word = candidate.has_digit or len(candidate.words) >= _MANY_WORDS
    if may_have_sentence_word and sentence_words <= _MAX_SENTENCE_WORDS:
        return True
    if not (candidate.has_digit and has_mark and candidate.place == SURE):
        return False
    return sentence_words < len(words) and NAMING.isdisjoint(words)


def _is_plain_phrase(candidate: _Candidate) -> bool:
    if not candidate.head.replace(" ", "").isalpha() or not NAMING.isdisjoint(candidate.words):
        return False
    return candidate.place < SURE or candidate.head[0].islower()


def _is_certain_run(head: str, place: int) -> bool:
    if not is_long_run(head):
        return False
    if place > PROSE:
        return True
    return len(head) >= _MIN_RUN_LENGTH_IN_PROSE and _grade(head) == STRONG


def _is_ordinary_word(candidate: _Candidate) -> bool:
    head = candidate.head
    if _is_other_format(head) or candidate.lowered in _NAME_WORDS:
        return True
    is_short = len(head) < _MIN_PLAIN_PASSWORD_LENGTH
    if not candidate.words and (candidate.place < SURE or is_short):
        return True
    if candidate.has_digit:
        return False
    # `Password*`, `errors.mismatch`
    return _NAME_WORDS.issuperset(candidate.words) or bool(re.fullmatch(_MESSAGE_KEY, head))


def _is_made_of_known_words(candidate: _Candidate) -> bool:
    words = candidate.words
    is_composed = _is_composed(candidate)
    has_symbol = candidate.has_inner_symbol or candidate.head[-1] in "!@#$%^&*?"
    if words and not has_symbol:
        if KNOWN.issuperset(words) and not is_composed:
            return True
        if candidate.lowered.translate(_LEET) in NAMING:
            return True
    if is_composed or NAMING.isdisjoint(words):
        return False
    return is_wordy(candidate.head)


def _is_composed(candidate: _Candidate) -> bool:
    """Return whether known words are joined the way people compose a password: `old_Pw1`."""
    if not candidate.has_digit:
        return False
    if not candidate.has_both_cases and candidate.digit_count < _MIN_DIGITS_OF_LOWERCASE:
        return False
    if candidate.place == SURE:
        return candidate.separator_count > 0
    if candidate.separator_count < 2:
        return False
    if candidate.place > COPULA:
        return True
    is_spoken = candidate.place == COPULA and candidate.has_both_cases
    return is_spoken and _TECHNICAL.isdisjoint(candidate.words)


def _belongs_to_sentence(candidate: _Candidate) -> bool:
    if len(candidate.head) < _MIN_PLAIN_PASSWORD_LENGTH:
        return True
    if not _TECHNICAL.isdisjoint(candidate.words):
        return True
    return re.fullmatch(_SENTENCE_PART, candidate.head) is not None


def _is_chosen(candidate: _Candidate) -> bool:
    """Return whether a value in a literal or after `is` looks like a password a person chose."""
    if candidate.has_digit or (candidate.has_inner_symbol and candidate.has_both_cases):
        return True
    words = {*candidate.words}
    strange_words = words - KNOWN
    if "-" in candidate.head and len(strange_words) >= _MIN_STRANGE_WORDS:
        return True
    is_unknown = "." not in candidate.head and strange_words == words
    if is_unknown and re.match(_CHOSEN_WORDS, candidate.head):
        return True
    if candidate.place != LITERAL or not strange_words:
        return False
    return _is_chosen_literal(candidate, is_unknown=is_unknown)


def _is_chosen_literal(candidate: _Candidate, *, is_unknown: bool) -> bool:
    if candidate.has_inner_symbol or candidate.head[-1] in "!#$%&*":
        return True
    if candidate.separator_count == 0:
        return False
    return candidate.has_both_cases or len(candidate.words) > 2 or is_unknown


def _is_chosen_in_prose(candidate: _Candidate) -> bool:
    """Return whether a word after `password` in a sentence looks like a password."""
    head = candidate.head
    if candidate.has_inner_symbol and (candidate.has_digit or candidate.has_both_cases):
        return True
    if candidate.has_digit:
        if candidate.has_both_cases and len(head) >= _MIN_CASED_LENGTH_IN_PROSE:
            return True
        if _is_numbered_name(candidate):
            return True
    return re.fullmatch(_GENERATED_WORD, head) is not None


def _is_numbered_name(candidate: _Candidate) -> bool:
    """Return whether a value consists of unknown words and digits: `kettle_drum_9`."""
    if len(candidate.head) < _MIN_NUMBERED_LENGTH_IN_PROSE or "." in candidate.head:
        return False
    if not KNOWN.isdisjoint(candidate.words):
        return False
    if candidate.digit_count > 1:
        return True
    if candidate.separator_count < 2 or len(candidate.words) < 2:
        return False
    return min(map(len, candidate.words)) >= _MIN_LONG_WORD_IN_PROSE


# --- logins and encoded values --------------------------------------------------------------------

_MIN_LOGIN_PASSWORD_LENGTH = 4
_LOGIN_NAMES = NAMING | {"test", "demo", "user", "key"}


def is_login_password(user: str, password: str) -> bool:
    """Return whether the password in `user:password` is neither a default nor a placeholder."""
    if len(password) < _MIN_LOGIN_PASSWORD_LENGTH or _is_default_login(user, password):
        return False
    if any(map(str.isspace, password)) and not is_password(password):
        return False
    if is_placeholder(password) or is_reference(password) or "[redacted: " in password:
        return False
    words = {word.lower() for word in re.findall(CHUNK, password) if word.isalpha()}
    if has_digit(password):
        is_composed = password != password.lower() and len(words) > 1
        if is_composed or not words <= KNOWN:
            return True
    return _LOGIN_NAMES.isdisjoint(words) or not is_wordy(password)


def _is_default_login(user: str, password: str) -> bool:
    lowered = password.lower()
    return lowered == user.lower() or lowered in _DEFAULTS


def is_basic_login(encoded: str) -> bool:
    """Return whether a value is the base64 encoding of `user:password`."""
    user, colon, password = decode_text(encoded).partition(":")
    return bool(colon) and is_login_password(user, password)


def decode_text(encoded: str) -> str:
    """Decode base64. Returns "" if the result is not printable text."""
    import binascii  # few texts need it

    encoded = encoded.rstrip("=").replace("-", "+").replace("_", "/")
    padding = "=" * (-len(encoded) % 4)
    try:
        decoded = binascii.a2b_base64(encoded + padding).decode("utf-8")
    except ValueError:
        return ""
    visible = decoded.replace("\n", "").replace("\r", "").replace("\t", "")
    if not visible.isprintable():
        return ""
    return decoded


# --- the conditions that rules name ---------------------------------------------------------------

_ENGLISH_ENDING = (
    r"(?:ed|ing|[ai]ble|ly|al|[oa]ry|[ea]nt|ive|ous|ful|less|[ts]ion|ic|ty|ment|tten"
    r"|words?|keys?)\Z"
)
"""Endings of English words that may follow `the password is` but are no password: `required`."""
_MIN_WORDS_WITH_SENTENCE_WORD = 4


def meets(condition: str, value: str) -> bool:
    """Return whether a value meets a condition, given by the name that rules use for it."""
    return _CONDITIONS[condition](value)


def _is_plain_password(value: str) -> bool:
    """Return whether lowercase words after `the password is` are a password."""
    words = re.split(r"[.-]", value)
    if any(re.search(_ENGLISH_ENDING, word) for word in words):
        return False
    if is_placeholder(value) or not NAMING.isdisjoint(words):
        return False
    sentence_words = len(SENTENCE.intersection(words))
    if len(words) >= _MIN_WORDS_WITH_SENTENCE_WORD:
        return sentence_words <= _MAX_SENTENCE_WORDS
    return sentence_words == 0


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


def _is_strong_and_random(value: str) -> bool:
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
    "plain": _is_plain_password,
    "prose": _is_password_in_prose,
    "random": is_random,
    "spoken": _is_password_after_copula,
    "strong": _is_strong_and_random,
}

# --- names ----------------------------------------------------------------------------------------


@record
class SecretName:
    """What a name says about the secret stored under it.

    `kind` is the kind of secret. `weakest_grade` is the lowest grade with which a value counts. It
    does not apply to passwords.
    """

    kind: str
    weakest_grade: int


API_KEY = SecretName("api key", STRONG)
_PASSWORD = SecretName("password", FAIR)
_PASSWORD_NAMES = ("pass", "pw", "psk", "mdp")
_CONSTANT_KEY_NAMES = ("pat", "key", "keys", "salt", "pepper")
"""Last words that name a key in a constant's name, such as `GITHUB_PAT`."""
_BEFORE = {
    "token": frozenset(rules.BEFORE_TOKEN.split()),
    "key": frozenset(rules.BEFORE_KEY.split()),
}
_BEFORE_ANY = frozenset(rules.BEFORE_ANY.split())
NEUTRAL = frozenset(rules.NEUTRAL_WORDS.split())
CONSTANTS = frozenset(rules.CONSTANT_WORDS.split())


def _read_names(rows: Iterable[tuple[str, str, str]]) -> list[tuple[tuple[str, ...], SecretName]]:
    names = []
    for kind, weakest_grade, endings in rows:
        names.append((tuple(endings.split()), SecretName(kind, GRADES[weakest_grade])))
    return names


_NAMES_BY_ENDING = _read_names(rules.NAMES)


def name_words(key: str) -> list[str]:
    """Return the words in a name, in lowercase and without trailing words that mean nothing."""
    words = [word.lower() for word in re.findall(CHUNK, key) if word.isalnum()]
    while len(words) > 1 and (words[-1] in NEUTRAL or words[-1].isdigit()):
        words.pop()
    return words


def is_public_name(before: str, last: str) -> bool:
    """Return whether a name's last two words name something public: `next_token`, `cache_key`."""
    if before in _BEFORE_ANY:
        return True
    return before in _BEFORE.get(last.removesuffix("s"), ())


def secret_name(key: str) -> SecretName | None:
    """Return what kind of secret is stored under a name, or None. The last words decide."""
    words = name_words(key)
    if not words:
        return None
    joined = "".join(words)
    if joined.endswith(rules.NOT_PASS):
        return None
    if len(words) > 1 and is_public_name(words[-2], words[-1]):
        return None
    for endings, name in _NAMES_BY_ENDING:
        if joined.endswith(endings):
            return name
    if words[-1] in _PASSWORD_NAMES:
        return _PASSWORD
    if len(words) > 1 and _is_key_name(key, words[-1]):
        return API_KEY
    return None


def _is_key_name(key: str, last_word: str) -> bool:
    if last_word == "key":
        return True
    is_constant = key.rpartition(".")[2].strip("-").isupper()
    return is_constant and last_word in _CONSTANT_KEY_NAMES
