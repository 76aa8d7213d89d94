"""WordPiece: a text as the token numbers that BERT-like models were trained on.

Pure Python, because the compiled tokenizer that usually does this brings a downloader and a dozen
packages with it, and a memory is a few hundred words. The steps are those of the uncased models:
drop control characters, lowercase, strip accents, set punctuation and Chinese characters apart,
then take the longest known piece from the left of each word. A word that cannot be covered by
pieces, or is absurdly long, is one unknown token.
`tests/search/test_wordpiece.py` pins the steps on a small vocabulary and whole sentences in several
scripts on the real one.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping

UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100
_DROPPED = frozenset(("Cc", "Cf", "Cs", "Co"))  # but not Cn: what this Python does not know may be a letter
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece:
    """A vocabulary, and the encoding of texts with it; the words that were met are remembered."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._numbers = vocabulary
        self._unknown = vocabulary[UNKNOWN]
        self._start, self._end = vocabulary[START], vocabulary[END]
        self._longest = max(len(piece) for piece in vocabulary)
        self._met: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, limit: int) -> list[int]:
        """The token numbers of a text between the start and end marks, `limit` at most with the marks."""
        tokens = [self._start]
        for word in words(text):
            tokens.extend(self._pieces(word))
            if len(tokens) >= limit:
                break
        return [*tokens[: limit - 1], self._end]

    def _pieces(self, word: str) -> tuple[int, ...]:
        known = self._met.get(word)
        if known is None:
            known = self._met[word] = self._split(word)
        return known

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest pieces from the left; the unknown token when a rest has none."""
        if len(word) > LONGEST_WORD:
            return (self._unknown,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._numbers.get(mark + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(pieces)


def vocabulary_of(pieces: Iterable[str]) -> dict[str, int]:
    """A vocabulary from its pieces in the order of their numbers."""
    return {piece: number for number, piece in enumerate(pieces)}


def words(text: str) -> Iterator[str]:
    """Lowercase words without accents; each punctuation mark and Chinese character is a word of its own."""
    for chunk in _spaced(text).split():
        plain = chunk.lower() if chunk.isascii() else _without_accents(chunk)
        yield from (plain,) if plain.isalnum() and plain.isascii() else _parted(plain)


def _spaced(text: str) -> str:
    """The text without control characters, and with spaces for every kind of blank and around Chinese."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_cleaned, text))


def _cleaned(char: str) -> str:
    if char in "\t\n\r":
        return " "
    category = unicodedata.category(char)
    if category in _DROPPED or char == "\ufffd":
        return ""
    if category == "Zs":
        return " "
    return f" {char} " if _is_chinese(char) else char


def _without_accents(word: str) -> str:
    apart = unicodedata.normalize("NFD", word)
    return "".join(char for char in apart if unicodedata.category(char) != "Mn").lower()


def _parted(word: str) -> Iterator[str]:
    """A word cut at its punctuation marks, which are kept."""
    start = 0
    for at, char in enumerate(word):
        if char in _ASCII_PUNCTUATION or (char > "\x7f" and unicodedata.category(char)[0] == "P"):
            if start < at:
                yield word[start:at]
            yield char
            start = at + 1
    if start < len(word):
        yield word[start:]


def _is_chinese(char: str) -> bool:
    point = ord(char)
    return point >= 0x3400 and any(first <= point <= last for first, last in _CHINESE)
