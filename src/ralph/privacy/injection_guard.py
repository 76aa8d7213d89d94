"""Detect prompt injection: text that gives orders to the agent that reads it.

This is a linear classifier. Its features are phrases (words, pairs of words, and the words that
open a clause) and parts of words. A feature's weight is stored in the bucket that its hash selects.
`bench/injection.py` trains the weights on texts by many authors, and tests each author's texts with
weights trained on the others'. Hidden and encoded text is decoded first.

Hooks load this module when they are about to give something to a session, so it imports neither
`typing` nor `pathlib`, and patterns that few texts need are compiled when they are first used.
"""

from __future__ import annotations

import binascii
import os
import re
import struct
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise
from math import sqrt
from zlib import crc32

from ralph.lean import hook_files, record

WEIGHTS = "injection_weights.bin"
"""The file with the weights, next to this module."""
BUCKETS = 1 << 20  # weights in the file, one byte each; the bias, a float, follows them
_MAX_WEIGHTS_BYTES = 2 * BUCKETS  # to read
EXTRA = 5, 25  # added to the counts of phrases and parts, so that few words decide little
_MAX_CACHED_WORDS = 50_000

# Features.
_TOKEN = re.compile(r"\w+|[^\w\s]")
_OPENING = re.compile(r"(?:\A|[.!?;:\n])\s*(\w+|[^\w\s.!?;:])(?:[^\S\n]*(\w+|[^\w\s.!?;:]))?")
_MIN_PART_CHARACTERS = 2
_MAX_PART_CHARACTERS = 5
_HASH_OF_BLANK = crc32(b" ")  # every part begins with a blank
_MAX_WORD_CHARACTERS = 40

# Windows: the pieces of text that get a score.
_WINDOW_CHARACTERS = 400  # sentences judged together; most training texts are shorter
_MIN_SENTENCE_CHARACTERS = 20  # a sentence no longer than this is not judged alone
_NOTE_THRESHOLD = 0
_SENTENCE_THRESHOLD = 10  # higher, because a single sentence says less than a note
_BREAK = re.compile(r"\n\s*\n|(?<=[.!?])\s+(?=[^\W_])|(?<=[。！？])|\n")

_HOST = (
    r"(?i)\b(?:(?:\d{1,3}\.){3}\d{1,3}|"
    r"[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev|app|ai|co|sh|xyz|example|test))\b"
)
"""Host names and addresses.

They are replaced before scoring, because invented texts use different hosts from real ones.
"""
_QUOTED = r"\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]{0,400}”|„[^“\n]{0,400}“|«[^»\n]{0,400}»|'[^'\n]{8,}'"
_OVERRIDE = (
    r"(?:\A|[\n.!?:;,(*>-]\s*|\b(?:please|now|and|then|must|should|to)\s+)\W{0,3}"
    r"(?:ignore|disregard|forget|override|bypass|discard)\b[^.\n]{0,24}"
    r"\b(?:previous|prior|above|earlier|preceding|former|your|all|any|everything)\b[^.\n]{0,40}"
    r"\b(?:instructions?|rules|guidelines|guardrails|directives?|system prompt|told)\b"
    r"|<\|im_start\|>|\[inst\]|</?system>"
)
"""The best-known form of prompt injection: `ignore all previous instructions`.

Notes about prompt injection quote it, so training gives its words no weight. Quoted text is
therefore removed before this pattern is searched.
"""

_OVERRIDE_STARTS = (
    "ignore",
    "disregard",
    "forget",
    "override",
    "bypass",
    "discard",
    "<|im_start|>",
    "[inst]",
    "system>",
)
"""One of these is in every text that the pattern matches. Most texts contain none."""

# Hidden text. Each minimum is a number of characters or words.
_ZERO_WIDTH = frozenset((0xAD, 0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF))
_OVERLAYS = range(0x334, 0x339)  # strike out a letter
_TAGS = range(0xE0000, 0xE01F0)  # tags and variation selectors
_DIRECTIONS = range(0x202A, 0x202F)  # change the direction of writing
_INVISIBLE = dict.fromkeys((*_ZERO_WIDTH, *_OVERLAYS, *_TAGS, *_DIRECTIONS))
_STYLED_LETTERS = (
    "[\u1d00-\u1d2b\u24b6-\u24e9\uff21-\uff5a\U0001d400-\U0001d7ff\U0001f130-\U0001f189ɪʀɴʙɢʜʟʏꜰꜱ]"
)
"""Styled letters that look like plain ones: small capitals, circled, full-width, bold and so on."""
_DIRECTION_WEIGHT = 2  # how many hidden characters a change of direction counts as
_MIN_HIDDEN = 2
_MIN_STYLED = 6
_MIN_MIXED_WORDS = 2  # words with both Latin and Greek or Cyrillic letters
_MIN_SPACED_LETTERS = 8  # single letters in a row, as in `i g n o r e`
_INVISIBLE_STYLE = "\x1b[8m"

# Encoded text.
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
_DIGITS = str.maketrans("013457@$", "oieastas")
_MIN_ENTITIES = 4
_MIN_WORDS_WITH_DIGITS = 3
_MIN_DIGIT_WORD_CHARACTERS = 3
_MIN_BLOB_CHARACTERS = 16


@record
class _Weights:
    buckets: memoryview[int]
    bias: float


@record
class _WordParts:
    """The total weight of a word's parts, and how many there are."""

    weight: int
    number: int


# --- the classifier ------------------------------------------------------------------------------


def is_injection(text: str) -> bool:
    """Return whether text gives orders to the agent that reads it, rather than information."""
    plain = normalize(text)
    if plain is None:
        return True
    for variant in _variants(plain):
        if _has_override(variant):
            return True
        if any(score(window) > threshold for window, threshold in windows(variant)):
            return True
    return False


def _has_override(text: str) -> bool:
    """Return whether a lowercase text contains the best-known form outside quotes."""
    if not any(start in text for start in _OVERRIDE_STARTS):
        return False
    # Runs of blank lines would make the search quadratic.
    lines = filter(None, map(str.strip, text.split("\n")))
    return re.search(_OVERRIDE, re.sub(_QUOTED, " ", "\n".join(lines))) is not None


def normalize(text: str) -> str | None:
    """Return text in plain letters and without host names.

    Returns None if its characters are chosen to hide what it says.
    """
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text.translate(_INVISIBLE))
        if _hides_text(text, plain):
            return None
        text = plain
    if _INVISIBLE_STYLE in text or _is_spaced_out(text):
        return None
    if "." not in text:
        return text
    return re.sub(_HOST, "host", text)


def features(text: str) -> tuple[list[str], list[str]]:
    """Return the phrases in a lowercase text, and the parts of its words.

    Phrases are words, pairs of words, and the words that open a clause. Each part begins with a
    blank, so that it is never equal to a phrase.
    """
    parts: list[str] = []
    for word in set(text.split()):
        parts += _parts(word)
    return _phrases(text), parts


def hash_bucket(feature: str) -> int:
    """Return the number of the bucket that holds a feature's weight."""
    return crc32(feature.encode("utf-8", "replace")) % BUCKETS


def score(text: str) -> float:
    """Return how much a lowercase text resembles prompt injection.

    A note with a score above 0 counts as one.
    """
    weights = _load_weights()
    phrases = _phrases(text)
    words = [_weigh_parts(word) for word in set(text.split())]
    phrase_weight = sum(weights.buckets[hash_bucket(phrase)] for phrase in phrases)
    part_weight = sum(word.weight for word in words)
    part_count = sum(word.number for word in words)
    return (
        weights.bias
        + phrase_weight / sqrt(len(phrases) + EXTRA[0])
        + part_weight / sqrt(part_count + EXTRA[1])
    )


def _phrases(text: str) -> list[str]:
    """Return the distinct words, pairs of words, and words that open a clause.

    The last kind is marked with `^`: `^ignore`.
    """
    tokens = _TOKEN.findall(text)
    phrases = set(tokens)
    phrases.update(f"{first} {second}" for first, second in pairwise(tokens))
    for first, second in _OPENING.findall(text):
        phrases.add(f"^{first}")
        phrases.add(f"^{first} {second}")
    return list(phrases)


def _parts(word: str) -> list[str]:
    padded = f" {word[:_MAX_WORD_CHARACTERS]} "
    parts: list[str] = []
    for size in range(_MIN_PART_CHARACTERS, _MAX_PART_CHARACTERS + 1):
        for start in range(max(1, len(padded) - size + 1)):
            parts.append(f" {padded[start : start + size]}")
    return parts


@lru_cache(_MAX_CACHED_WORDS)
def _weigh_parts(word: str) -> _WordParts:
    buckets = _load_weights().buckets
    if word.isascii():
        hashes = _hash_ascii_parts(word)
        return _WordParts(sum([buckets[number % BUCKETS] for number in hashes]), len(hashes))
    parts = _parts(word)
    return _WordParts(sum(buckets[hash_bucket(part)] for part in parts), len(parts))


def _hash_ascii_parts(word: str) -> list[int]:
    """Return the hashes of a word's parts. Slices of bytes are hashed twice as fast as strings."""
    padded = f" {word[:_MAX_WORD_CHARACTERS]} ".encode("ascii")
    hashes: list[int] = []
    for size in range(_MIN_PART_CHARACTERS, _MAX_PART_CHARACTERS + 1):
        starts = range(max(1, len(padded) - size + 1))
        hashes += [crc32(padded[start : start + size], _HASH_OF_BLANK) for start in starts]
    return hashes


@cache
def _load_weights() -> _Weights:
    folder = os.path.dirname(__file__)  # noqa: PTH120 - hooks do not load pathlib
    data = hook_files.read_file(f"{folder}{os.sep}{WEIGHTS}", _MAX_WEIGHTS_BYTES) or b""
    return _Weights(
        memoryview(data)[:BUCKETS].cast("b"), struct.unpack_from("<f", data, BUCKETS)[0]
    )


def windows(text: str) -> list[tuple[str, int]]:
    """Return the pieces of a text to score, each with its threshold.

    Sentences are joined to notes of limited length. Each note is scored, and each longer sentence
    also on its own.
    """
    sentences = [piece for piece in _BREAK.split(text) if piece]
    notes = sentences[:1]
    for sentence in sentences[1:]:
        if len(notes[-1]) + len(sentence) < _WINDOW_CHARACTERS:
            notes[-1] += f"\n{sentence}"
        else:
            notes.append(sentence)
    thresholds: dict[str, int] = {}
    for sentence in sentences:
        if len(sentence) > _MIN_SENTENCE_CHARACTERS:
            thresholds[sentence] = _SENTENCE_THRESHOLD
    for note in notes:
        thresholds[note] = _NOTE_THRESHOLD
    return list(thresholds.items())


# --- hidden text ---------------------------------------------------------------------------------


def _hides_text(text: str, plain: str) -> bool:
    """Return whether a text uses special characters to hide what it says.

    `plain` is the text without them.
    """
    if _count_hidden(text) >= _MIN_HIDDEN:
        return True
    if len(re.findall(_STYLED_LETTERS, text)) >= _MIN_STYLED:
        return True
    mixed_words = [word for word in plain.split() if _is_mixed(word)]
    return len(mixed_words) >= _MIN_MIXED_WORDS


def _count_hidden(text: str) -> int:
    """Count the invisible characters. Zero-width ones count only after an ASCII letter."""
    hidden = 0
    previous = ""  # the last visible character
    for char in text:
        code = ord(char)
        if code not in _INVISIBLE:
            previous = char
        elif code in _DIRECTIONS:
            hidden += _DIRECTION_WEIGHT
        elif code not in _ZERO_WIDTH or (previous.isascii() and previous.isalpha()):
            hidden += 1
    return hidden


def _is_mixed(word: str) -> bool:
    """Return whether a word mixes Latin letters with Greek or Cyrillic ones."""
    if word.isascii():
        return False
    has_other = any("\u0370" <= char <= "\u052f" for char in word)
    return has_other and any("a" <= char <= "z" for char in word.lower())


def _is_spaced_out(text: str) -> bool:
    """Return whether a text has letters that are spaced out, as in `i g n o r e`."""
    run = 0
    for word in text.replace("-", " ").replace(".", " ").split():
        if len(word) == 1 and word.isalpha():
            run += 1
        else:
            run = 0
        if run >= _MIN_SPACED_LETTERS:
            return True
    return False


# --- encoded text --------------------------------------------------------------------------------


def _variants(text: str) -> list[str]:
    """Return a text in lowercase, followed by what it may encode.

    This decodes base64, hex, rot13, reversed text, and digits that stand for letters.
    """
    if text.count("&#") >= _MIN_ENTITIES:
        text = _decode_entities(text)
    lower = _unwrap(text.replace("&lt;", "<").replace("’", "'")).lower()
    words = lower.split()
    variants = [lower]
    if "rot13" in lower or ("rot" in lower and "decod" in lower):
        variants.append(lower.translate(_ROT13))
    if "revers" in lower or "backward" in lower or "right to left" in lower:
        variants.append(lower[::-1])
    with_digits = [word for word in words if _has_digits_in_word(word)]
    if len(with_digits) >= _MIN_WORDS_WITH_DIGITS:
        variants.append(lower.translate(_DIGITS))
    if "\\x" in lower:
        variants.append(_decode(lower.replace("\\x", "").replace(" ", "")))
    if len(max(words, key=len, default="")) >= _MIN_BLOB_CHARACTERS:
        variants += _decode_blobs(text)
    return variants


def _unwrap(text: str) -> str:
    """Join each line that continues a sentence to the line before it."""
    first, *rest = text.split("\n")
    lines = [first]
    for line in rest:
        if line[:1].islower() and lines[-1][-1:].isalpha():
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _has_digits_in_word(word: str) -> bool:
    return (
        len(word) >= _MIN_DIGIT_WORD_CHARACTERS
        and word.isalnum()
        and not word.isalpha()
        and not word.isdigit()
    )


def _decode_blobs(text: str) -> list[str]:
    """Return the texts that are encoded in long words."""
    for char in "'\"()`":
        text = text.replace(char, " ")
    decoded: list[str] = []
    for word in text.split():
        if len(word) >= _MIN_BLOB_CHARACTERS and word.isascii():
            plain = _decode(word)
            if plain:
                decoded.append(f"decoded : {plain}")
    return decoded


def _decode_entities(text: str) -> str:
    """Replace numeric HTML entities, `&#105;` or `&#x69;`, with the ASCII characters they name."""
    decoded, *pieces = text.split("&#")
    for piece in pieces:
        number, _, rest = piece.partition(";")
        code = _entity_code(number)
        if 31 < code < 127:  # printable
            decoded += chr(code) + rest
        else:
            decoded += "&#" + piece
    return decoded


def _entity_code(number: str) -> int:
    try:
        if number[:1] in "xX":
            return int(number[1:], 16)
        return int(number)
    except ValueError:
        return 0


def _decode(word: str) -> str:
    """Decode a word as hex or base64. Returns "" if the result is not readable text."""
    try:
        plain = _decode_bytes(word).decode("ascii")
    except ValueError:
        return ""
    if " " in plain and plain.isprintable():
        return plain.lower()
    return ""


def _decode_bytes(word: str) -> bytes:
    """Decode hex or base64. Returns b"" or raises ValueError for anything else."""
    try:
        return bytes.fromhex(word)
    except ValueError:
        pass
    if not word.replace("+", "").replace("/", "").rstrip("=").isalnum():
        return b""
    return binascii.a2b_base64(word + "=" * (-len(word) % 4))
