"""Decide whether a value is a password that a person chose, given that its name says so.

After a name that says password, every value counts unless it is a reference, a placeholder, a type,
a state or prose. How much proof is needed depends on the place, which says how certain the syntax
makes it that a value is a password:

    is_password("kettle", SURE)   ->  True   `PASSWORD=kettle`
    is_password("kettle", PROSE)  ->  False  `the password kettle`
    is_password("changeme", SURE) ->  False  a placeholder
"""

from __future__ import annotations

import re
from functools import lru_cache

from ralph.privacy import harmless_values
from ralph.privacy.harmless_values import KNOWN_WORDS, NAMING_WORDS, SENTENCE_WORDS
from ralph.privacy.secret_values import (
    CACHED_VALUES,
    CHUNK,
    HEAD_LENGTH,
    STRONG,
    SYMBOLS,
    decode_text,
    grade,
    has_both_cases,
    has_digit,
    has_placeholder_word,
    is_long_run,
    is_other_format,
    is_placeholder,
    is_reference,
    is_sequence,
    is_wordy,
)

PROSE = 0  # `password x`
COPULA = 1  # `the password is x`
LITERAL = 2  # `login(user, "x")`
SURE = 3  # `PASSWORD=x`

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
        self.has_inner_symbol = not SYMBOLS.isdisjoint(head[1:-1])
        self.separator_count = head.count("-") + head.count("_") + head.count(".")


def is_password(value: str, place: int = SURE) -> bool:
    """Return whether a value is a password, given that its name says so.

    `place` says how certain the syntax makes it, such as SURE.
    """
    return _is_password(value[:HEAD_LENGTH], place)


@lru_cache(CACHED_VALUES)
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
    if grade(head) == STRONG:
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
    if len(head) == HEAD_LENGTH and head.startswith(_SEALED_SECRET_STARTS):
        return True
    if has_placeholder_word(head):
        return True
    if is_sequence(head) and not _meets_policy(head):
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
    sentence_words = len(SENTENCE_WORDS & words)
    if sentence_words == 0:
        return True
    may_have_sentence_word = candidate.has_digit or len(candidate.words) >= _MANY_WORDS
    if may_have_sentence_word and sentence_words <= _MAX_SENTENCE_WORDS:
        return True
    if not (candidate.has_digit and has_mark and candidate.place == SURE):
        return False
    return sentence_words < len(words) and NAMING_WORDS.isdisjoint(words)


def _is_plain_phrase(candidate: _Candidate) -> bool:
    if not candidate.head.replace(" ", "").isalpha() or not NAMING_WORDS.isdisjoint(
        candidate.words
    ):
        return False
    return candidate.place < SURE or candidate.head[0].islower()


def _is_certain_run(head: str, place: int) -> bool:
    if not is_long_run(head):
        return False
    if place > PROSE:
        return True
    return len(head) >= _MIN_RUN_LENGTH_IN_PROSE and grade(head) == STRONG


def _is_ordinary_word(candidate: _Candidate) -> bool:
    head = candidate.head
    if is_other_format(head) or candidate.lowered in harmless_values.NAME_WORDS:
        return True
    is_short = len(head) < _MIN_PLAIN_PASSWORD_LENGTH
    if not candidate.words and (candidate.place < SURE or is_short):
        return True
    if candidate.has_digit:
        return False
    # `Password*`, `errors.mismatch`
    return harmless_values.NAME_WORDS.issuperset(candidate.words) or bool(
        re.fullmatch(_MESSAGE_KEY, head)
    )


def _is_made_of_known_words(candidate: _Candidate) -> bool:
    words = candidate.words
    is_composed = _is_composed(candidate)
    has_symbol = candidate.has_inner_symbol or candidate.head[-1] in "!@#$%^&*?"
    if words and not has_symbol:
        if KNOWN_WORDS.issuperset(words) and not is_composed:
            return True
        if candidate.lowered.translate(_LEET) in NAMING_WORDS:
            return True
    if is_composed or NAMING_WORDS.isdisjoint(words):
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
    return is_spoken and harmless_values.TECHNICAL_WORDS.isdisjoint(candidate.words)


def _belongs_to_sentence(candidate: _Candidate) -> bool:
    if len(candidate.head) < _MIN_PLAIN_PASSWORD_LENGTH:
        return True
    if not harmless_values.TECHNICAL_WORDS.isdisjoint(candidate.words):
        return True
    return re.fullmatch(_SENTENCE_PART, candidate.head) is not None


def _is_chosen(candidate: _Candidate) -> bool:
    """Return whether a value in a literal or after `is` looks like a password a person chose."""
    if candidate.has_digit or (candidate.has_inner_symbol and candidate.has_both_cases):
        return True
    words = {*candidate.words}
    strange_words = words - KNOWN_WORDS
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
    if not KNOWN_WORDS.isdisjoint(candidate.words):
        return False
    if candidate.digit_count > 1:
        return True
    if candidate.separator_count < 2 or len(candidate.words) < 2:
        return False
    return min(map(len, candidate.words)) >= _MIN_LONG_WORD_IN_PROSE


# --- logins and encoded values --------------------------------------------------------------------

_MIN_LOGIN_PASSWORD_LENGTH = 4
_LOGIN_NAMES = NAMING_WORDS | {"test", "demo", "user", "key"}


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
        if is_composed or not words <= KNOWN_WORDS:
            return True
    return _LOGIN_NAMES.isdisjoint(words) or not is_wordy(password)


def _is_default_login(user: str, password: str) -> bool:
    lowered = password.lower()
    return lowered == user.lower() or lowered in harmless_values.DEFAULT_PASSWORDS


def is_basic_login(encoded: str) -> bool:
    """Return whether a value is the base64 encoding of `user:password`."""
    user, colon, password = decode_text(encoded).partition(":")
    return bool(colon) and is_login_password(user, password)
