"""The nearest indexed terms for a word that occurs nowhere: a prefix, one typo, a part.

Terms are looked up in the index's own vocabulary, in alphabetical ranges, so that a large index
costs no more than a small one: what begins like the word, and what differs by one letter.
"""

from ralph.search.terms import Word, is_cjk, one_typo
from ralph.store import lookup

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_SHORTEST = 3
_LONGEST = 40
"""Longer terms are hashes, or no words at all, and trying every part of one takes for ever."""
_MOST = 8
_PAIRS = 50
_RANGE = 20_000
_SMALL = 10_000
"""Records: only in an index of up to so many are terms looked for by what is inside of them; it reads them all."""


def nearest(connection: "sqlite3.Connection", word: Word, *, hurried: bool = False) -> dict[str, int]:
    """Indexed terms to look for instead, with the number of records that hold them; often none.

    When `hurried`, only those that begin with it, or like it and differ by one letter further on.
    """
    found: dict[str, int] = {}
    for term in word.terms:
        if len(term) < _SHORTEST or is_cjk(term):
            continue
        longer = lookup.terms_between(connection, term, _after(term), 200)
        longer.sort(key=lambda pair: (len(pair[0]), -pair[1]))
        found.update(longer[:_MOST])
        if not longer:
            near = _typos(connection, term, (term[:3],) if hurried else (term[:2], term[:1], term[1:2]))
            found.update(near or ({} if hurried else _inside(connection, term)))
    return dict(sorted(found.items(), key=lambda pair: -pair[1])[:_MOST])


def beginning_with(connection: "sqlite3.Connection", term: str) -> dict[str, int]:
    """Indexed terms that begin with a term and are longer, the shortest first."""
    if len(term) < _SHORTEST or is_cjk(term):
        return {}
    longer = [pair for pair in lookup.terms_between(connection, term, _after(term), 200) if pair[0] != term]
    return dict(sorted(longer, key=lambda pair: (len(pair[0]), -pair[1]))[:_MOST])


def around(connection: "sqlite3.Connection", character: str) -> dict[str, int]:
    """The indexed pairs that a Chinese, Japanese or Korean character is part of."""
    if lookup.size(connection) > _SMALL:
        return dict(lookup.terms_between(connection, character, _after(character), _PAIRS))
    return dict(lookup.terms_with(connection, character, _PAIRS))


def _inside(connection: "sqlite3.Connection", term: str) -> dict[str, int]:
    """Terms that contain the word, else the longest ones that are part of it."""
    if not _SHORTEST < len(term) <= _LONGEST:
        return {}
    known = dict(lookup.terms_with(connection, term, _MOST)) if lookup.size(connection) <= _SMALL else {}
    if known:
        return known
    for size in range(len(term) - 1, max(_SHORTEST, len(term) // 2), -1):
        parts = [term[at : at + size] for at in range(len(term) - size + 1)]
        known = lookup.frequencies(connection, parts)
        if known:
            return known
    return {}


def _typos(connection: "sqlite3.Connection", term: str, starts: tuple[str, ...]) -> dict[str, int]:
    """Terms one letter away that begin in one of these ways: those of the first way that has any."""
    if len(term) <= _SHORTEST:
        return {}
    for start in dict.fromkeys(starts):
        near = {
            other: count
            for other, count in lookup.terms_as_long(connection, start, _after(start), len(term), _RANGE)
            if one_typo(term, other)
        }
        if near:
            return near
    return {}


def _after(prefix: str) -> str:
    """The first text that sorts after everything with this prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
