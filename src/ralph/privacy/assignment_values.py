"""Decide whether a value is a secret, given that its name suggests one.

The name says what to expect. A password may be anything that is not a constant, a placeholder or a
reference, whereas a token must look generated. The place of the value (see `assignment_places`)
says how much proof is needed:

    DB_PASSWORD=kettle        a secret
    RESET_PASSWORD="reset"    a constant, not a secret
    token: str                not a secret, because it does not look generated
    SECRET=Zx9kLm             a secret, because a name in capitals is enough for a short value
"""

from __future__ import annotations

import re

from ralph.lean import TYPE_CHECKING
from ralph.privacy.assignment_places import NOWHERE, VARIABLE, is_identifier
from ralph.privacy.harmless_values import KNOWN_WORDS, NAMING_WORDS, SENTENCE_WORDS
from ralph.privacy.passwords import COPULA, LITERAL, PROSE, SURE, is_basic_login, is_password
from ralph.privacy.secret_names import API_KEY, CONSTANTS, secret_name
from ralph.privacy.secret_values import (
    CHUNK,
    FAIR,
    FINGERPRINT,
    STRONG,
    UUID,
    grade,
    has_both_cases,
    has_digit,
    is_long_run,
    is_placeholder,
    is_random,
    is_wordy,
)

if TYPE_CHECKING:
    from ralph.privacy.assignment_places import Assignment

_CHOSEN_KEY = r"(?i)(?:jwt|session|cookie|webhook|signing|hs256)[_-]?(?:secret|key)$"
"""Names of secrets that people often make up themselves."""

_ENVIRONMENT_ASSIGNMENT = r"[A-Z_]{4,40}="
_DIGITS_APART = r"\d\D+\d"
_SHA1 = r"[0-9a-f]{40}"
_MAX_PIN_LENGTH = 8
_MIN_PROSE_TOKEN_LENGTH = 20
_MAX_KEY_JOINTS_IN_PROSE = 1
_SHORT_SECRET_LENGTHS = range(6, 9)
_MIN_MIXED_LENGTH = 9


def is_secret(assignment: Assignment, value: str, place: int, *, is_quoted: bool) -> bool:
    """Return whether the value assigned to a name is a secret."""
    if place == NOWHERE or "[redacted" in value:
        return False
    if "=" in value and re.match(_ENVIRONMENT_ASSIGNMENT, value):
        return False
    if assignment.name.kind == "password":
        return _is_assigned_password(assignment.key, value, place, is_quoted=is_quoted)
    if assignment.name.kind == "credential":
        if is_basic_login(value):
            return True
        if re.fullmatch(_SHA1, value):
            return False
    if place == PROSE and not re.fullmatch(UUID, value):
        return _is_token_in_prose(assignment.key, value)
    return _is_assigned_token(assignment, value, place, is_quoted=is_quoted)


def _is_assigned_password(key: str, value: str, place: int, *, is_quoted: bool) -> bool:
    is_run = is_long_run(value)
    if place == VARIABLE:
        if is_run:
            return grade(value) >= FAIR
        return grade(value) == STRONG
    if _is_constant(key, value, is_run=is_run) or _is_test_result(key, value):
        return False
    if is_quoted and "phrase" in key.lower() and _is_quoted_passphrase(value):
        return True
    if not is_run and _is_name_of_secret(value):
        is_mixed = is_quoted and has_both_cases(value) and has_digit(value[:-1])
        if not is_mixed and re.search(_DIGITS_APART, value) is None:
            return False
    return is_password(value, place)


def _is_constant(key: str, value: str, *, is_run: bool) -> bool:
    """Return whether a name is that of a constant, and its value a plain word.

    Examples are `RESET_PASSWORD = "resetting"` and `PASS: test-names`.
    """
    if is_run or has_digit(value):
        return False
    words = key.lower().replace("-", "_").split("_")
    if not CONSTANTS.isdisjoint(words):
        return True
    return key.upper() == "PASS" and key[0].isupper()


def _is_test_result(key: str, value: str) -> bool:
    """Return whether `pass` is followed by the number or the name of tests that passed."""
    if key.lower() != "pass":
        return False
    is_count = value.isdigit() and len(value) <= _MAX_PIN_LENGTH
    is_test_file = key.isupper() and "/" in value
    return is_count or is_test_file


def _is_quoted_passphrase(value: str) -> bool:
    """Return whether words form a passphrase: `BORG_PASSPHRASE="the kettle is singing again"`."""
    if value.count(" ") < 2 or is_placeholder(value):
        return False
    words = value.lower().split()
    if not NAMING_WORDS.isdisjoint(words):
        return False
    return 2 * len(SENTENCE_WORDS.intersection(words)) <= len(words) + 1


def _is_name_of_secret(value: str) -> bool:
    return is_identifier(value) and secret_name(value) is not None


def _is_assigned_token(assignment: Assignment, value: str, place: int, *, is_quoted: bool) -> bool:
    name = assignment.name
    is_run = is_long_run(value)
    if _is_fingerprint_or_name(assignment, value, place, is_run=is_run):
        return False
    if place == SURE and _is_short_secret(assignment.key, value):
        return has_digit(value) and not is_wordy(value)  # `SECRET=Zx9kLm`
    if name == API_KEY and _is_words_of_code(assignment.key, value):
        return False
    if place != SURE and grade(value) == FAIR and re.fullmatch(UUID, value):
        return name.weakest_grade == FAIR
    if place >= COPULA and _is_chosen_secret(assignment, value, place, is_quoted=is_quoted):
        return True
    if place == SURE or is_run:
        return grade(value) >= name.weakest_grade
    return grade(value) == STRONG


def _is_token_in_prose(key: str, value: str) -> bool:
    if len(value) < _MIN_PROSE_TOKEN_LENGTH:
        return False
    if key.count(".") + key.count("-") > _MAX_KEY_JOINTS_IN_PROSE:
        return False
    return grade(value) == STRONG and is_random(value)


def _is_fingerprint_or_name(
    assignment: Assignment, value: str, place: int, *, is_run: bool
) -> bool:
    """Return whether a value is a fingerprint, or the name of a secret rather than a secret."""
    if is_run:
        is_signature = "sign" in assignment.key.lower()
        return is_signature and re.fullmatch(FINGERPRINT, value) is not None
    if place == SURE and is_random(value):
        return False
    return _is_name_of_secret(value)


def _is_short_secret(key: str, value: str) -> bool:
    if len(value) not in _SHORT_SECRET_LENGTHS or not key.isupper():
        return False
    return has_both_cases(value) and not is_placeholder(value)


def _is_words_of_code(key: str, value: str) -> bool:
    """Return whether a value is words from code: `some-name_1` in `cacheKey: some-name_1`.

    Such a value has separators, and all its letters have the same case.
    """
    if key.isupper() or value.isalnum():
        return False
    return not has_both_cases(value)


def _is_chosen_secret(assignment: Assignment, value: str, place: int, *, is_quoted: bool) -> bool:
    """Return whether a person made up the secret like a password: `secret: "keyboard-Cat-2025"`."""
    is_secret = assignment.name.kind.startswith("secret")
    may_be_chosen = is_secret and _looks_chosen(assignment.key, value, is_quoted=is_quoted)
    if not may_be_chosen and re.search(_CHOSEN_KEY, assignment.key) is None:
        return False
    return is_password(value, min(place, LITERAL))


def _looks_chosen(key: str, value: str, *, is_quoted: bool) -> bool:
    if is_quoted and " " in value and value.islower():
        return True
    if not has_digit(value):
        return False
    if has_both_cases(value) and len(value) >= _MIN_MIXED_LENGTH:
        return True
    # `APP_SECRET=kettle_drum_9`
    return key.isupper() and KNOWN_WORDS.isdisjoint(re.findall(CHUNK, value.lower()))
