"""How many tokens a text is likely to cost: the one estimate of the product.

It is an estimate. Current Claude models have no public tokenizer, so nobody can count exactly; the
public o200k vocabulary is the yardstick. Each character costs a weight that depends on its class and
on the group of the character before it: a letter within a word is nearly free, one after a digit
begins a token. The weights were fitted by a regression on the logarithm of estimate / exact over 7,000
excerpts (15 tokens and more: prose, code, JSON, logs, ids, memory files, 20 languages), leaning to the
high side. Measured estimate / exact on the texts of `tests/context/samples.py`, which the regression did not see
(the weight of Han characters was set by hand after looking at the Chinese ones, so those rows are not blind):
the whole text, then the lowest and highest of its excerpts of 20 tokens (`test_tokens.py` holds bounds):

    English prose         1.06 0.95-1.11    Chinese               1.22 1.04-1.42
    Python                1.07 0.89-1.21    Chinese, traditional  0.90 0.73-1.05
    TypeScript            1.13 0.95-1.26    Japanese              0.97 0.82-1.15
    Rust                  1.06 0.92-1.21    French                1.06 0.89-1.32
    JSON, compact         1.02 0.89-1.05    German                0.95 0.70-1.11
    JSON, indented        1.00 0.84-1.09    Russian               1.19 0.90-1.26
    JSON, Korean          1.03 0.77-1.21    emoji                 1.02 0.90-1.15
    memory blocks         1.05 0.89-1.21    URLs, paths, ids      1.14 0.92-1.36
    Korean                1.05 0.79-1.21    logs                  1.06 0.95-1.21

The work is done by C over whole strings: bytes to classes, pairs by shifting one large integer, pairs
to weights, and the sum; of a long text by Adler-32, whose lower half is the sum of the bytes. All weights
are >= 0 and the first character pays the least, so a longer text never costs less than a part of it.

Hooks estimate what they hand over, so nothing is imported here until a long text comes.
"""

import sys

_UNIT = 64  # weights are counted in 1/64 of a token


class _Class:
    """Characters that cost the same; `first` are ASCII characters or the first bytes of UTF-8 ones."""

    __slots__ = ("first", "group", "weights")

    def __init__(self, first: bytes, group: int, weights: tuple[int, ...]) -> None:
        self.first = first
        self.group = group
        self.weights = weights


_REST, _LOWER, _UPPER, _DIGIT, _SPACE, _LINE, _MARK, _SIGN = range(8)
_CONTROLS = bytes(code for code in (*range(32), 127) if chr(code) not in "\n\r")

# Weights by the group of the character before:   rest/start lower upper digit space line mark sign
_CLASSES = (
    _Class(b"bcdfghlmnprst", _LOWER, (4, 4, 29, 50, 15, 39, 30, 49)),
    _Class(b"aeiou", _LOWER, (8, 8, 21, 60, 21, 63, 35, 43)),
    _Class(b"jkqvwxyz", _LOWER, (17, 23, 74, 98, 46, 71, 17, 63)),
    _Class(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", _UPPER, (16, 28, 16, 70, 20, 45, 27, 53)),
    _Class(b"0123456789", _DIGIT, (18, 86, 75, 18, 110, 21, 49, 102)),
    _Class(b" ", _SPACE, (0, 28, 14, 0, 4, 62, 24, 0)),
    _Class(_CONTROLS, _SPACE, (12, 95, 12, 37, 19, 95, 52, 48)),
    _Class(b"\n\r", _LINE, (0, 79, 77, 67, 17, 20, 0, 28)),
    _Class(b".,;:!?", _MARK, (18, 47, 83, 83, 67, 30, 18, 38)),
    _Class(b"'\"", _MARK, (18, 38, 42, 24, 56, 46, 18, 23)),
    _Class(b"()[]{}", _MARK, (16, 47, 87, 53, 50, 24, 16, 54)),
    _Class(b"/\\", _SIGN, (0, 26, 19, 0, 54, 29, 56, 4)),
    _Class(b"_", _SIGN, (0, 0, 21, 0, 0, 7, 20, 30)),
    _Class(b"-", _SIGN, (8, 31, 51, 23, 94, 81, 26, 8)),
    _Class(b"#*`~=", _SIGN, (5, 22, 14, 44, 56, 18, 38, 5)),
    _Class(b"<>|&$%@^+", _SIGN, (35, 58, 50, 35, 53, 71, 43, 76)),
    # From here on `first` is the first byte in UTF-8: it names the script closely enough.
    _Class(bytes(range(0xC0, 0xC3)), _REST, (80, 115, 92, 80, 80, 80, 83, 96)),  # Latin-1 signs
    _Class(bytes(range(0xC3, 0xCA)), _REST, (33, 79, 145, 68, 76, 57, 79, 108)),  # Latin letters
    _Class(bytes(range(0xCA, 0xCE)), _REST, (117, 119, 119, 119, 119, 119, 119, 119)),  # phonetic, combining
    _Class(bytes(range(0xCE, 0xD0)), _REST, (22, 25, 25, 25, 65, 28, 37, 24)),  # Greek
    _Class(bytes(range(0xD0, 0xD4)), _REST, (14, 18, 18, 18, 57, 114, 89, 159)),  # Cyrillic
    _Class(bytes(range(0xD4, 0xD8)), _REST, (37, 37, 37, 37, 37, 37, 37, 37)),  # Armenian, Hebrew
    _Class(bytes(range(0xD8, 0xE0)), _REST, (25, 25, 70, 25, 25, 89, 65, 71)),  # Arabic and its kin
    _Class(b"\xe0", _REST, (28, 28, 28, 28, 28, 84, 55, 80)),  # Indic scripts, Thai, Lao
    _Class(b"\xe1", _REST, (30, 30, 70, 30, 30, 30, 84, 34)),  # Georgian, Khmer, Vietnamese
    _Class(b"\xe2", _REST, (75, 97, 75, 84, 127, 85, 96, 81)),  # dashes, arrows, symbols
    _Class(b"\xee\xef", _REST, (33, 36, 33, 33, 47, 45, 33, 47)),  # full width forms
    _Class(b"\xe3", _REST, (44, 66, 65, 50, 84, 72, 81, 44)),  # kana
    _Class(bytes(range(0xE4, 0xEA)), _REST, (54, 119, 54, 117, 113, 98, 102, 54)),  # Han
    _Class(bytes(range(0xEA, 0xEE)), _REST, (35, 37, 37, 59, 83, 88, 81, 95)),  # Hangul
    _Class(bytes(range(0xF0, 0x100)), _REST, (117, 119, 126, 126, 149, 131, 126, 126)),  # emoji
)

_GROUP_BITS, _CLASS_BITS = 0xE0, 0x1F  # a character is one byte: its group above, its class (from 1) below


def _codes() -> bytes:
    codes = bytearray(256)
    for number, members in enumerate(_CLASSES, start=1):
        for byte in members.first:
            codes[byte] = members.group << 5 | number
    return bytes(codes)


def _pair_weights() -> bytes:
    weights = bytearray(256)
    for number, members in enumerate(_CLASSES, start=1):
        for group, weight in enumerate(members.weights):
            weights[group << 5 | number] = weight
    return bytes(weights)


_CODES = _codes()
_WEIGHTS = _pair_weights()
_CONTINUATION = bytes(range(0x80, 0xC0))
_STRIDE = 65_520 // max(_WEIGHTS)  # so many bytes cannot wrap Adler-32's sum, which is modulo 65,521


def _mask(bits: int, length: int) -> int:
    return int.from_bytes(bytes((bits,)) * length, "little")


_SHORT, _SHOWN = 1_024, 16_384  # so many bytes are added up where the library for it is loaded, and where it is not
_READY = 2_048
_READY_GROUPS, _READY_CLASSES = _mask(_GROUP_BITS, _READY), _mask(_CLASS_BITS, _READY)


def estimate(text: str) -> int:
    """The likely number of tokens in a text; 0 for the empty one, at least 1 for any other."""
    if not text:
        return 0
    codes = text.encode("utf-8", "surrogatepass").translate(_CODES, _CONTINUATION)
    size = len(codes) + 1  # the last byte holds a group before nothing, which weighs nothing
    if size <= _READY:
        groups, classes = _READY_GROUPS, _READY_CLASSES
    else:
        groups, classes = _mask(_GROUP_BITS, size), _mask(_CLASS_BITS, size)
    number = int.from_bytes(codes, "little")
    pairs = (number << 8) & groups | number & classes
    weights = pairs.to_bytes(size, "little").translate(_WEIGHTS)
    short = size <= _SHORT or (size <= _SHOWN and "zlib" not in sys.modules)
    total = sum(weights) if short else _sum(weights)
    return max(1, -(-total // _UNIT))


def _sum(weights: bytes) -> int:
    """The sum of many bytes."""
    from zlib import adler32  # noqa: PLC0415  (a shared library; what a hook shows is short)

    return sum(adler32(weights[at : at + _STRIDE], 0) & 0xFFFF for at in range(0, len(weights), _STRIDE))
