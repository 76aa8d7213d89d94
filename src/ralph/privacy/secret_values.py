"""Decide whether a value looks generated, or is a placeholder, a reference or a name.

After names such as `token`, only generated values count as secrets, because `token: str` is common.
A grade says how much a value looks as if a program generated it:

    grade("f3Kd82mQp0Zx7Lw1")  ->  STRONG
    grade("cb7e31fa9d")        ->  FAIR
    grade("refresh-token-v2")  ->  NONE     words
    grade("your-key-here")     ->  NONE     a placeholder
    grade("${API_KEY}")        ->  NONE     a reference

Every step is bounded, and a regex is compiled when it is first needed, because hooks load this
module. Passwords that people choose are judged by `passwords`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from ralph.lean import TYPE_CHECKING, secret_rules
from ralph.privacy import harmless_values
from ralph.privacy.harmless_values import NAMING_WORDS, SENTENCE_WORDS

if TYPE_CHECKING:
    pass

Span = tuple[int, int, str]
"""The start, end and kind of a secret in a text."""

# Grades: how much a value looks as if a program generated it.
NONE = 0
FAIR = 1
STRONG = 2
GRADES = {"fair": FAIR, "strong": STRONG}

HEAD_LENGTH = 128
"""How many characters of a value are examined: enough to judge it, and a bound for hostile text."""
_SEQUENCE_LENGTH = 48
"""How many characters are examined for a sequence such as `abcdef`."""
CACHED_VALUES = 1024
"""How many judged values to cache, because program output repeats its values."""

CHUNK = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^A-Za-z0-9]"
"""One part of a name or value: a word, a number or a single other character."""
UUID = r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
UUID_LENGTH = 36
FINGERPRINT = r"\d{16,}|[0-9A-F]{16}(?:[0-9A-F]{24})?"
"""A fingerprint or a key. Which one it is depends on the name."""
SYMBOLS = frozenset("!@#$%^&*+=~?")
_CHOSEN_SYMBOLS = SYMBOLS - {"=", "+"}
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
    if has_placeholder_word(value[:HEAD_LENGTH]):
        return True
    return is_sequence(value)


def is_sequence(value: str) -> bool:
    """Return whether a value is mostly a sequence, such as `abcdef` or `aaaa1111`."""
    head = value[:_SEQUENCE_LENGTH]
    return _has_steps(head, _sequence_share(head))


def has_placeholder_word(head: str) -> bool:
    """Return whether a value contains a placeholder, or too few different characters."""
    lowered = head.lower()
    is_run = is_long_run(head)
    placeholder = _find_placeholder(lowered, is_run=is_run)
    is_mixed = has_both_cases(head) and has_digit(head)
    if placeholder:
        if placeholder not in harmless_values.WEAK_PASSWORDS:
            return True
        is_extended = is_mixed or re.search(_EXTENDED, lowered.replace(placeholder, ""))
        return not is_extended  # `changeit-Acme-91` is a password
    if len(set(lowered)) < _MIN_DISTINCT_CHARACTERS:
        return True
    if is_run:
        return False
    words = {word.lower() for word in re.findall(CHUNK, head)}
    if is_mixed and NAMING_WORDS.isdisjoint(words) and "key" not in words:
        words -= _PLACEHOLDER_WORDS_IN_PASSWORDS  # `Wint3r_is_here` is a password
    return not harmless_values.PLACEHOLDER_WORDS.isdisjoint(words)


def _find_placeholder(lowered: str, *, is_run: bool) -> str:
    """Return the first placeholder found in a value, or "".

    The value is searched both with and without its separators.
    """
    searched = f"{lowered}\n{lowered.translate(_SEPARATORS_REMOVED)}"
    for placeholder in harmless_values.PLACEHOLDERS:
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


def _has_steps(head: str, min_share: float) -> bool:
    """Return whether most characters repeat the one before or follow it in the alphabet."""
    steps = sum(ord(right) - ord(left) in (0, 1) for left, right in pairwise(head))
    return steps / max(1, len(head) - 1) > min_share


# --- references -----------------------------------------------------------------------------------

_REFERENCE = (
    r"\A(?:![a-z]|\$(?:\d|[a-z_]\w*(?:\Z|\())|%\w+%\Z|:'|[a-z][a-z0-9+._-]*://|s?sha\d*[}:$-]"
    r"|\.[a-z0-9]|[a-z]:[/\\])|\{\w*\}|%(?:\d\$)?[sd]\b"
)
"""Variables, templates, tags, URLs, paths and hashes."""
_SHELL_VARIABLE = r"\$[A-Z][A-Z_]{3,}"
_BASE64_RUN = r"[A-Za-z0-9+/]{32,}={0,2}"


def is_reference(value: str) -> bool:
    """Return whether a value only refers to a secret: a variable, path, URL, vault or hash."""
    head = value[:HEAD_LENGTH]
    if head.isalnum() or _is_password_after_symbol(head):
        return False
    lowered = head.lower()
    if lowered.startswith(harmless_values.REFERENCE_STARTS):
        return True
    if any(mark in lowered for mark in harmless_values.TEMPLATES):
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
    if not lowered.startswith(harmless_values.PATH_STARTS):
        if not lowered.endswith(harmless_values.PATH_ENDS):
            return False
        if "/" not in head and lowered.endswith(harmless_values.HOST_ENDS) and has_digit(head):
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

_LONG_WORDS = frozenset(
    word for word in SENTENCE_WORDS.union(secret_rules.NEAR_WORDS.split()) if len(word) > 5
)
_ALPHABET_LENGTH = 26
_EXPECTED_FREQUENCY = 4
"""The digit in `FOLLOWERS` for a pair of letters that is as frequent as by chance."""

# How far above chance the letter pairs in a name must be for it to count as English.
_MIN_POINTS_WITH_SEPARATORS = 5
_MIN_POINTS_WITH_KNOWN_WORD = 9
_MIN_POINTS_WITH_BOTH_CASES = 13


def is_wordy(value: str) -> bool:
    """Return whether a value consists of words with few digits."""
    chunks = re.findall(CHUNK, value[:HEAD_LENGTH])
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
            points += int(harmless_values.FOLLOWERS[pair]) - _EXPECTED_FREQUENCY
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
    head = body[:HEAD_LENGTH]
    if re.search(harmless_values.DUMMY_BODY, head):
        return False
    if _has_steps(head[:_SEQUENCE_LENGTH], _SEQUENCE_SHARE_IN_TOKEN):
        return False
    return len(set(head)) >= _MIN_DISTINCT_CHARACTERS


def is_random(body: str) -> bool:
    """Return whether text looks generated by a program, not made up by the author of a manual."""
    head = body[:HEAD_LENGTH]
    if not is_token_body(head):
        return False
    if re.search(_UNBROKEN_RUN, head):
        return True
    is_varied = has_both_cases(head) or has_digit(head) or is_long_run(head)
    return is_varied and not is_placeholder(head) and not is_wordy(head)


def grade(value: str) -> int:
    """Return how much a value looks as if a program generated it: NONE, FAIR or STRONG."""
    return _grade(value[:HEAD_LENGTH])


@lru_cache(CACHED_VALUES)
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
    if "[redacted: " in head or head.startswith(harmless_values.PUBLIC_KEY_STARTS):
        return True
    if is_placeholder(head) or is_other_format(head):
        return True
    return re.match(_DOTTED_NAME, head) is not None or is_reference(head)


def _grade_uuid(head: str) -> int:
    lowered = head.lower()
    if (
        lowered.startswith(harmless_values.EXAMPLE_UUIDS)
        or len(set(lowered)) < _MIN_UUID_CHARACTERS
    ):
        return NONE
    # A random UUID (version 4) may contain a sequence by chance.
    is_random_uuid = lowered[_UUID_VERSION] == "4" and lowered[_UUID_VARIANT] in "89ab"
    if is_random_uuid or not is_placeholder(head):
        return FAIR
    return NONE


def _grade_with_digit(head: str) -> int:
    if len(head) >= _STRONG_LENGTH:
        return STRONG
    is_varied = has_both_cases(head) or not SYMBOLS.isdisjoint(head)
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


def is_other_format(head: str) -> bool:
    """Return whether a value is a date, version, colour, address or the like."""
    if head.isalnum() and not head[0].isdigit():
        return False
    return re.match(harmless_values.OTHER_FORMAT, head) is not None


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
