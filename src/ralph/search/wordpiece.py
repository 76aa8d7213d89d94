"""WordPiece, the tokenizer of uncased BERT models.

Text is split into lowercase words, and each word into the longest pieces that the vocabulary
contains. Pieces that do not begin a word are marked with `##`:

    "Tokenizers, déjà vu"  ->  [CLS] token ##izer ##s , deja vu [SEP]

The usual compiled implementation is not used, because it depends on a dozen packages.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping

_MAX_WORD_CHARACTERS = 100  # a longer word becomes an unknown token
# Unicode categories of characters that are dropped. Cn is not among them, because a character that
# this version of Python does not know may be a letter.
_DROPPED_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Mn"))
_SEPARATE_PUNCTUATION = {ord(char): f" {char} " for char in string.punctuation}
_CHINESE = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)


class WordPiece:
    """Turns text into the token numbers of a vocabulary."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._numbers = vocabulary
        self._max_piece_characters = max(len(piece) for piece in vocabulary)
        self._cache: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, limit: int) -> list[int]:
        """Return at most `limit` token numbers for `text`, including the start and end marks."""
        tokens = [self._numbers["[CLS]"]]
        for word in wordpiece_words(text):
            if word not in self._cache:
                self._cache[word] = self._split(word)
            tokens += self._cache[word]
            if len(tokens) >= limit:
                break
        return [*tokens[: limit - 1], self._numbers["[SEP]"]]

    def _split(self, word: str) -> tuple[int, ...]:
        """Split a word into the longest known pieces, and return their numbers.

        If that is impossible, return the number of the unknown token.
        """
        unknown = (self._numbers["[UNK]"],)
        if len(word) > _MAX_WORD_CHARACTERS:
            return unknown
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end = self._piece_end(word, start)
            if end is None:
                return unknown
            pieces.append(self._numbers[_marked_piece(word, start, end)])
            start = end
        return tuple(pieces)

    def _piece_end(self, word: str, start: int) -> int | None:
        """Return the end of the longest known piece that begins at `start`, or None."""
        furthest = min(len(word), start + self._max_piece_characters)
        for end in range(furthest, start, -1):
            if _marked_piece(word, start, end) in self._numbers:
                return end
        return None


def _marked_piece(word: str, start: int, end: int) -> str:
    mark = "##" if start else ""
    return mark + word[start:end]


def wordpiece_words(text: str) -> list[str]:
    """Split text into lowercase words without accents.

    Every punctuation mark and every Chinese character is a word of its own.
    """
    if not (text.isascii() and text.isprintable()):
        text = _separate_symbols(_clean_text(text).lower())
    return text.lower().translate(_SEPARATE_PUNCTUATION).split()


def _clean_text(text: str) -> str:
    """Remove accents and control characters, and turn all whitespace into spaces."""
    kept = []
    for char in unicodedata.normalize("NFD", text):
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            kept.append(" ")
        elif category not in _DROPPED_CATEGORIES and char != "\ufffd":
            kept.append(char)
    return "".join(kept)


def _separate_symbols(text: str) -> str:
    """Put spaces around punctuation and Chinese characters."""
    separated = []
    for char in text:
        is_punctuation = unicodedata.category(char).startswith("P")
        separated.append(f" {char} " if is_punctuation else char)
    return _CHINESE.sub(r" \g<0> ", "".join(separated))
