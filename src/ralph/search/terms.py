"""Words: how a query and a text are brought to one form.

One set of rules for both sides, so that what was written is found however it is asked for:
lowercase, accents folded, light English stemming (so that a stem is a substring of its
forms), words that say nothing dropped from queries, and the nearest known words for one that
occurs nowhere. No dictionary, no model. `tests/search/test_terms.py` proves the rules.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ralph.search.stem import stem as stemmed

STOP_WORDS = frozenset(
    (
        "a an and are as at be but by can did do does for from had has have how i if in into is it its me my no not "
        "of on or our so that the their them then there these they this to us was we were what when where which who "
        "why will with you your"
    ).split()
)

_ACCENTS = re.compile("[\u0300-\u036f]+")
_EDGE = " \t\r\n\"'`“”‘’«»()[]{}<>,;:!?.…。、，！？「」『』"
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+")
_PARTS = re.compile(r"[^\W_]+")
_VOWEL = re.compile("[aeiouy]")
_VOWELS = "aeiou"
_WORD = re.compile(r"[A-Za-z](?:\+\+|\#)(?!\w)|[^\W_]+(?:[_\-./:'’@\\]+[^\W_]+)*")
_HUMPS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\da-zA-Z_]+")
_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)
_LONGEST_QUERY = 4000
_SHORTEST = 4
_SUFFIXES = (("ies", 3), ("ing", 3), ("ions", 5), ("ion", 5), ("ed", 3), ("es", 4), ("s", 3), ("e", 4), ("y", 4))


def fold(text: str) -> str:
    """Lowercase, with accents and width variants folded."""
    return unaccented(text).lower()


def unaccented(text: str) -> str:
    """Without accents, and with one width for all letters; the case stays."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a query as it was written, and the search terms that stand for it."""

    text: str
    terms: tuple[str, ...]


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


def _mixed(word: str) -> Iterator[str]:
    """The terms of a word that has Chinese, Japanese or Korean characters."""
    for run in _CJK.findall(word):
        yield from (run[at : at + 2] for at in range(len(run) - 1)) if len(run) > 1 else (run,)
    for rest in _PARTS.findall(_CJK.sub(" ", word)):
        yield stemmed(rest)


def query_words(text: str) -> list[str]:
    """The distinct words of a query, folded; stop words go unless nothing else is left."""
    words = list(dict.fromkeys(word for raw in text.split() if (word := fold(raw).strip(_EDGE))))
    telling = [word for word in words if word not in STOP_WORDS]
    return telling or words


def stem(word: str) -> str:
    """The part of an English word that its other forms begin with: failing, failed, fails -> fail."""
    if not word.isascii() or not word.isalpha():
        return word
    for suffix, keep in _SUFFIXES:
        base = word[: -len(suffix)]
        if suffix == "y" and base[-1:] in _VOWELS:  # retry, retries -> retr; but deploy stays
            continue
        if word.endswith(suffix) and len(base) >= keep and _VOWEL.search(base) and not word.endswith("ss"):
            doubled = suffix in ("ing", "ed") and len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsz"
            return stem(base[:-1] if doubled else base) if suffix == "s" else base[:-1] if doubled else base
    return word


def parts(word: str) -> list[str]:
    """The distinct alphanumeric pieces of a compound such as `foo-bar` or `src/db/schema.ts`, if there are several."""
    found = _PARTS.findall(word)
    return list(dict.fromkeys(found)) if len(found) > 1 else []


def bigrams(word: str) -> list[str]:
    """The overlapping pairs of characters in the Korean, Chinese and Japanese runs of a word."""
    return [run[i : i + 2] for run in _CJK.findall(word) for i in range(len(run) - 1)]


def vocabulary(texts: Iterable[str]) -> set[str]:
    """Every word of at least four letters in folded texts; compound words by their pieces."""
    raw: set[str] = set()
    for text in texts:
        raw.update(text.split())
    plain = {word for word in raw if len(word) >= _SHORTEST and word.isalnum()}
    mixed = " ".join(word for word in raw.difference(plain) if len(word) > _SHORTEST)
    plain.update(piece for piece in _PARTS.findall(mixed) if len(piece) >= _SHORTEST)
    return plain


def nearest(word: str, known: Collection[str]) -> tuple[str, ...]:
    """The known words nearest to one that occurs nowhere: one typo away, else the longest part of it."""
    size, half = len(word), max(_SHORTEST, (len(word) + 1) // 2)
    if size < _SHORTEST:
        return ()
    start = (word[0], word[1])
    near = [
        other
        for other in known
        if -1 <= len(other) - size <= 1 and (other[0] in start or other[1] in start) and one_typo(word, other)
    ]
    inside = [] if near else [other for other in known if half <= len(other) < size and other in word]
    longest = max(map(len, inside), default=0)
    return tuple(sorted(near or [other for other in inside if len(other) == longest]))


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
