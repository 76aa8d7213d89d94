"""Words: how a query and a text are brought to one form.

One set of rules for both sides, so that what was written is found however it is asked for:
lowercase, accents folded, English stemming, identifiers whole and in parts, pairs of Chinese,
Japanese and Korean characters, and words that say nothing dropped from queries. No dictionary, no
model. A hook loads this module, so it imports little. `tests/search/test_index_terms.py` proves the rules.
"""

import re
from functools import lru_cache

from ralph.search.stem import stem as stemmed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STOP_WORDS = frozenset(
    (
        "a an and are as at be but by can did do does for from had has have how i if in into is it its me my no not "
        "of on or our so that the their them then there these they this to us was we were what when where which who "
        "why will with you your"
    ).split()
)

_ACCENTS = re.compile("[\u0300-\u036f]+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_PARTS = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Za-z](?:\+\+|\#)(?!\w)|[^\W_]+(?:[_\-./:'’@\\]+[^\W_]+)*")
_HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\da-zA-Z_]+")
_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)
_AROUND = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SEPARATORS = {ord(char): None for char in "_-./:'’@\\"} | {ord("+"): "plus", ord("#"): "sharp"}
_TRIES = 50
_LONGEST_QUERY = 4000


def fold(text: str) -> str:
    """Lowercase, with accents and width variants folded."""
    return unaccented(text).lower()


def unaccented(text: str) -> str:
    """Without accents, and with one width for all letters; the case stays."""
    if text.isascii():
        return text
    import unicodedata  # noqa: PLC0415 - most texts need it not, and a hook would pay for it

    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


class Word:
    """One word of a query as it was written, and the search terms that stand for it."""

    __slots__ = ("terms", "text")

    def __init__(self, text: str, terms: tuple[str, ...]) -> None:
        self.text = text
        self.terms = terms


def words(text: str) -> list[str]:
    """The words of a text as they stand there; an identifier or a path is one."""
    return _WORD.findall(text)


def index_terms(text: str) -> str:
    """What the full-text index holds of a text: its terms, separated by spaces."""
    found: list[str] = []
    for match in _WORD.findall(text):
        found += word_terms(match)
    return " ".join(found)


def query_terms(text: str) -> list[Word]:
    """The distinct words of a query with their terms; words that say nothing go unless nothing else is left."""
    plain = text[:_LONGEST_QUERY].encode("utf-8", "replace").decode("utf-8")
    words = {match: Word(match, word_terms(match)) for match in _WORD.findall(plain)}
    unique: dict[tuple[str, ...], Word] = {}
    for word in words.values():
        if word.terms:
            unique.setdefault(word.terms, word)
    telling = [word for word in unique.values() if word.text.lower() not in STOP_WORDS]
    return telling or list(unique.values())


@lru_cache(maxsize=65536)
def word_terms(word: str) -> tuple[str, ...]:
    """The terms of one word: stemmed; an identifier whole and in parts; Chinese, Japanese, Korean in pairs."""
    if word.isascii() and word.isalpha() and word.islower():
        return (stemmed(word),)
    if word[-2:] == "++" or word[-1:] == "#":
        return (fold(word[0]) + ("plusplus" if word[-1] == "+" else "sharp"),)
    folded = fold(word)
    if _CJK.search(folded):
        return tuple(_mixed(folded))
    bare = _POSSESSIVE.sub("", unaccented(word)).replace("'", "").replace("’", "")
    pieces = _PARTS.findall(bare)
    found: dict[str, None] = {}
    for piece in pieces:
        found[stemmed(fold(piece))] = None
        humps = _HUMPS.findall(piece)
        if len(humps) > 1:
            found.update((stemmed(fold(hump)), None) for hump in humps)
    if len(pieces) > 1:
        found[fold("".join(pieces))] = None
    return tuple(term for term in found if term)


def is_cjk(word: str) -> bool:
    """Whether a word has Chinese, Japanese or Korean characters."""
    return not word.isascii() and _CJK.search(fold(word)) is not None


def _mixed(word: str) -> "Iterator[str]":
    """The terms of a word that has Chinese, Japanese or Korean characters."""
    for run in _CJK.findall(word):
        yield from (run[at : at + 2] for at in range(len(run) - 1)) if len(run) > 1 else (run,)
    for rest in _PARTS.findall(_CJK.sub(" ", word)):
        yield stemmed(rest)


def one_typo(left: str, right: str) -> bool:
    """Whether one letter was added, left out, changed, or swapped with its neighbour."""
    start = 0
    shortest = min(len(left), len(right))
    while start < shortest and left[start] == right[start]:
        start += 1
    a, b = left[start:], right[start:]
    if len(a) == len(b):
        return a[1:] == b[1:] or (a[:2] == b[:2][::-1] and a[2:] == b[2:])
    return a[1:] == b if len(a) > len(b) else a == b[1:]


class Text:
    """A text in which terms are looked for without bringing all of its words to their terms."""

    __slots__ = ("_low", "_squeezed", "_text", "_whole")

    def __init__(self, text: str) -> None:
        self._text = unaccented(text)
        self._low = self._text.lower()
        self._squeezed: str | None = None
        self._whole: frozenset[str] | None = None
        if len(self._low) != len(self._text):  # some letters have another length in lowercase
            self._whole = frozenset(index_terms(text).split())

    def holds(self, term: str) -> bool:
        """Whether a term is one of this text's terms."""
        if self._whole is not None:
            return term in self._whole
        if not term.isascii():
            return term in self._low if _CJK.match(term) else self._has_word(term)
        return self._has_word(term) or self._has_compound(term)

    def _has_word(self, term: str) -> bool:
        """Whether a word has this term: it begins like the term, all but the last letter."""
        start = term[:-1] if len(term) > 3 else term
        at = self._low.find(start)
        tries = 0
        while at >= 0 and tries < _TRIES:
            word = _AROUND.match(self._text, _begin(self._text, at))
            if word is not None and term in word_terms(word[0]):
                return True
            at = self._low.find(start, max(at + 1, word.end() if word else 0))
            tries += 1
        return False

    def _has_compound(self, term: str) -> bool:
        """Whether an identifier or path has this term when its separators are left out; `C++` and `C#` too."""
        if self._squeezed is None:
            self._squeezed = self._low.translate(_SEPARATORS)
        return len(term) > 5 and term in self._squeezed


def _begin(text: str, at: int) -> int:
    while at and (text[at - 1].isalnum() or text[at - 1] in "'’"):
        at -= 1
    return at
