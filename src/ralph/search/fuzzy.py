"""The nearest indexed terms for a word that occurs nowhere: a prefix, one typo, a part.

Terms are looked up in the index's own vocabulary, in alphabetical ranges, so that a large index
costs no more than a small one: what begins like the word, and what differs by one letter.
"""

import sqlite3

from ralph.search.terms import Word, one_typo
from ralph.store import rows

_SHORTEST = 3
_MOST = 8
_RANGE = 20_000


def nearest(connection: sqlite3.Connection, word: Word) -> dict[str, int]:
    """Indexed terms to look for instead, with the number of records that hold them; often none."""
    found: dict[str, int] = {}
    for term in word.terms:
        if len(term) < _SHORTEST or not term.isascii():
            continue
        longer = rows.terms_between(connection, term, _after(term), 200)
        longer.sort(key=lambda pair: (len(pair[0]), -pair[1]))
        found.update(longer[:_MOST])
        if not longer:
            found.update(_typos(connection, term))
    return dict(sorted(found.items(), key=lambda pair: -pair[1])[:_MOST])


def _typos(connection: sqlite3.Connection, term: str) -> dict[str, int]:
    """Terms one letter away: those with the same beginning first, then any with the same first letter."""
    if len(term) <= _SHORTEST:
        return {}
    for start in dict.fromkeys((term[:2], term[:1], term[1:2])):
        near = {
            other: count
            for other, count in rows.terms_between(connection, start, _after(start), _RANGE)
            if -1 <= len(other) - len(term) <= 1 and one_typo(term, other)
        }
        if near:
            return near
    return {}


def _after(prefix: str) -> str:
    """The first text that sorts after everything with this prefix."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
