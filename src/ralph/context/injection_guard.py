"""Detect prompt injection: whether a text gives orders to the agent that reads it.

A linear classifier over words, pairs of words, openings of clauses and parts of words. Each feature has its weight in
the bucket of its hash. `bench/injection.py` trains the weights on texts of many authors and measures each author's
with weights from others. Hidden and encoded text is unfolded first.
"""

from __future__ import annotations

import re
import struct
import unicodedata
import zlib
from functools import cache, lru_cache
from itertools import pairwise
from math import sqrt
from pathlib import Path

_TOKEN = re.compile(r"\w+|[^\w\s]")
_SHORTEST_PART = 2
_LONGEST_PART = 5
_LONGEST_WORD = 40
EXTRA = 5, 25  # added to the number of phrases and of parts: a few words alone decide little
_WINDOW = 400  # characters that are judged together; most texts of the training are shorter
_SHORTEST = 20  # characters of a sentence that is judged alone
WEIGHTS = Path(__file__).with_name("injection_weights.bin")
BUCKETS = 1 << 20  # for weights, a byte each; a number that is added to every score follows
_SENTENCE_LIMIT = 10  # instead of 0: a sentence alone says less than a note
_BREAK = re.compile(r"\n\s*\n|(?<=[.!?])\s+(?=[^\W_])|(?<=[。！？])|\n")
_OPENING = re.compile(r"(?:\A|[.!?;:\n])\s*(\w+|[^\w\s.!?;:])(?:[^\S\n]*(\w+|[^\w\s.!?;:]))?")
_HOST = re.compile(
    r"(?i)\b(?:(?:\d{1,3}\.){3}\d{1,3}|[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|dev|app|ai|co|sh|xyz|example|test))\b"
)
"""Names and addresses of hosts: invented texts use others than real ones."""
_QUOTED = re.compile(
    r"\"[^\"\n]*\"|`[^`\n]*`|“[^”\n]{0,400}”|„[^“\n]{0,400}“|«[^»\n]{0,400}»|'[^'\n]{8,}'"
)
_OVERRIDE = re.compile(
    r"(?:\A|[\n.!?:;,(*>-]\s*|\b(?:please|now|and|then|must|should|to)\s+)\W{0,3}"
    r"(?:ignore|disregard|forget|override|bypass|discard)\b[^.\n]{0,24}"
    r"\b(?:previous|prior|above|earlier|preceding|former|your|all|any|everything)\b[^.\n]{0,40}"
    r"\b(?:instructions?|rules|guidelines|guardrails|directives?|system prompt|told)\b"
    r"|<\|im_start\|>|\[inst\]|</?system>"
)
"""The form that everybody knows. Notes about prompt injection quote it, so the training gives its words no weight."""
_ROT13 = str.maketrans("abcdefghijklmnopqrstuvwxyz", "nopqrstuvwxyzabcdefghijklm")
_DIGITS = str.maketrans("013457@$", "oieastas")
_BLOB_LENGTH = 16


def is_injection(text: str) -> bool:
    """Whether a text speaks to the agent that reads it instead of informing it."""
    plain = normalize(text)
    if plain is None:
        return True
    for variant in _variants(plain):
        lines = "\n".join(
            filter(None, map(str.strip, variant.split("\n")))
        )  # else blank lines take quadratic time
        if _OVERRIDE.search(_QUOTED.sub(" ", lines)):
            return True
        if any(score(window) > limit for window, limit in windows(variant)):
            return True
    return False


def normalize(text: str) -> str | None:
    """Return a text in plain letters and without hosts, None if characters were used to hide what it says."""
    if not text.isascii():
        text, is_hidden = _unfold(text)
        if is_hidden:
            return None
    return None if "\x1b[8m" in text or _is_spaced_out(text) else _HOST.sub("host", text)


def features(text: str) -> tuple[list[str], list[str]]:
    """Return the words of a text in lower case, its pairs of words and openings; and the parts, each after a blank."""
    return _phrases(text), [part for word in set(text.split()) for part in _parts(word)]


def hash_bucket(feature: str) -> int:
    """Return the bucket in which the weight of a feature is."""
    return zlib.crc32(feature.encode("utf-8", "replace")) % BUCKETS


def score(text: str) -> float:
    """Return how much a text in lower case resembles an injection; above 0 it counts as one."""
    (weights, bias), phrases = _load_weights(), _phrases(text)
    parts = [_weigh_parts(word) for word in set(text.split())]
    return (
        bias
        + sum(weights[hash_bucket(phrase)] for phrase in phrases) / sqrt(len(phrases) + EXTRA[0])
        + sum(weight for weight, _ in parts) / sqrt(sum(count for _, count in parts) + EXTRA[1])
    )


def _phrases(text: str) -> list[str]:
    """Return words, pairs of words, and after `^` the words with which a clause begins."""
    tokens = _TOKEN.findall(text)
    openings = [f"^{word}" for pair in _OPENING.findall(text) for word in (pair[0], " ".join(pair))]
    return list({*tokens, *openings, *(f"{first} {second}" for first, second in pairwise(tokens))})


def _parts(word: str) -> list[str]:
    padded = f" {word[:_LONGEST_WORD]} "
    return [
        f" {padded[start : start + size]}"
        for size in range(_SHORTEST_PART, _LONGEST_PART + 1)
        for start in range(max(1, len(padded) - size + 1))
    ]


@lru_cache(50_000)
def _weigh_parts(word: str) -> tuple[int, int]:
    weights = _load_weights()[0]
    parts = _parts(word)
    return sum(weights[hash_bucket(part)] for part in parts), len(parts)


@cache
def _load_weights() -> tuple[memoryview[int], float]:
    data = WEIGHTS.read_bytes()
    return memoryview(data)[:BUCKETS].cast("b"), struct.unpack_from("<f", data, BUCKETS)[0]


def windows(text: str) -> list[tuple[str, int]]:
    """Return what is judged alone and by which limit: sentences together up to the length of a note, and each."""
    sentences = [piece for piece in _BREAK.split(text) if piece]
    joined = sentences[:1]
    for sentence in sentences[1:]:
        if len(joined[-1]) + len(sentence) < _WINDOW:
            joined[-1] += f"\n{sentence}"
        else:
            joined.append(sentence)
    alone = (sentence for sentence in sentences if len(sentence) > _SHORTEST)
    return list((dict.fromkeys(alone, _SENTENCE_LIMIT) | dict.fromkeys(joined, 0)).items())


# --- hidden and encoded text -------------------------------------------------------------------


def _unfold(text: str) -> tuple[str, bool]:
    """Return a text in plain letters, and whether characters were used to hide it."""
    hidden = styled = 0
    kept: list[str] = []
    for char in text:
        code = ord(char)
        if code < 0x80:
            kept.append(char)
        elif code in (0xAD, 0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF):
            hidden += bool(kept) and kept[-1].isascii() and kept[-1].isalpha()
        elif (
            0x334 <= code <= 0x338 or 0xE0000 <= code <= 0xE01EF
        ):  # struck out, tags and variation selectors
            hidden += 1
        elif 0x202A <= code <= 0x202E:  # the direction of writing
            hidden += 2
        else:
            styled += (
                0x1D400 <= code <= 0x1D7FF or 0x24B6 <= code <= 0x24E9 or 0x1F130 <= code <= 0x1F189
            )
            styled += 0x1D00 <= code <= 0x1D2B or 0xFF21 <= code <= 0xFF5A or char in "ɪʀɴʙɢʜʟʏꜰꜱ"
            kept.append(char)
    text = unicodedata.normalize("NFKC", "".join(kept))
    mixed = sum(
        any("\u0370" <= char <= "\u052f" for char in word)
        and any("a" <= char <= "z" for char in word.lower())
        for word in text.split()
        if not word.isascii()
    )
    return text, hidden >= 2 or styled >= 6 or mixed >= 2


def _is_spaced_out(text: str) -> bool:
    """Whether there is a word whose letters are separated, `i g n o r e`."""
    run = 0
    for word in text.replace("-", " ").replace(".", " ").split():
        run = run + 1 if len(word) == 1 and word.isalpha() else 0
        if run >= 8:
            return True
    return False


def _variants(text: str) -> list[str]:
    """Return the text in lower case, and what it hides: base64, hex, rot13, reversed, digits for letters."""
    if text.count("&#") > 3:
        text = _decode_entities(text)
    lines = text.replace("&lt;", "<").replace("’", "'").split("\n")
    joined = lines[:1]
    for line in lines[1:]:
        if line[:1].islower() and joined[-1][-1:].isalpha():  # a wrapped line
            joined[-1] += " " + line
        else:
            joined.append(line)
    lower = "\n".join(joined).lower()
    variants = [lower]
    if "rot13" in lower or ("rot" in lower and "decod" in lower):
        variants.append(lower.translate(_ROT13))
    if "revers" in lower or "backward" in lower or "right to left" in lower:
        variants.append(lower[::-1])
    words = lower.split()
    if (
        sum(
            word.isalnum() and not word.isalpha() and not word.isdigit() and len(word) > 2
            for word in words
        )
        > 2
    ):
        variants.append(lower.translate(_DIGITS))
    if "\\x" in lower:
        variants.append(_decode(lower.replace("\\x", "").replace(" ", "")))
    if len(max(words, key=len, default="")) >= _BLOB_LENGTH:
        for char in "'\"()`":
            text = text.replace(char, " ")
        blobs = (
            _decode(word) for word in text.split() if len(word) >= _BLOB_LENGTH and word.isascii()
        )
        variants += [f"decoded : {plain}" for plain in blobs if plain]
    return variants


def _decode_entities(text: str) -> str:
    """Replace numeric HTML entities, `&#105;` or `&#x69;`, by the ASCII characters that they name."""
    first, *pieces = text.split("&#")
    for piece in pieces:
        number, _, rest = piece.partition(";")
        try:
            code = int(number[1:], 16) if number[:1] in "xX" else int(number)
        except ValueError:
            code = 0
        first += chr(code) + rest if 31 < code < 127 else "&#" + piece
    return first


def _decode(word: str) -> str:
    """Return the text in hex or base64, "" if it is none."""
    import binascii

    try:
        try:
            data = bytes.fromhex(word)
        except ValueError:
            if not word.replace("+", "").replace("/", "").rstrip("=").isalnum():
                return ""
            data = binascii.a2b_base64(word + "=" * (-len(word) % 4))
        plain = data.decode("ascii")
    except ValueError:
        return ""
    return plain.lower() if " " in plain and plain.isprintable() else ""
