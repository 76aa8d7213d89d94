"""Search over parsed records: every word, in any order, anywhere in the text.

The files are small enough to be read whole; an index will take over behind the same function.
A word matches as a substring of the folded text (`auth` finds `authentication`), by its stem
(`failing tests` finds "test fails"); a word that occurs nowhere is replaced by the nearest
ones that do. Records with every word come first, then by how rare and how exact the matches
are, then the newest. Substring tests run at C speed, so 20,000 records take less than
splitting their text into words three times (`bench/parse.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ralph.model.query import Found, Hit, Query
from ralph.model.record import Record
from ralph.search import terms

_TAG, _ID, _WORD, _START, _INSIDE = 3.0, 2.5, 2.0, 1.5, 1.0
_NAMES = {_TAG: "tag", _ID: "id", _WORD: "word", _START: "beginning of a word", _INSIDE: "inside a word"}


@dataclass(frozen=True, slots=True)
class _Term:
    """One word of the query, the substrings that stand for it, and the records that hold one."""

    word: str
    needles: tuple[str, ...]
    rows: tuple[int, ...]
    replaced: bool = False


def search(records: Sequence[Record], query: Query) -> Found:
    """The records that fit, best first; with an empty text the newest that pass the filters."""
    kept = [record for record in records if query.accepts(record)]
    words = terms.query_words(query.text)
    if not words:
        if query.text.strip():
            return Found((), 0)
        newest = sorted(range(len(kept)), key=lambda row: (kept[row].created_at, row), reverse=True)
        return Found(tuple(Hit(kept[row], 0.0) for row in newest[: query.limit]), len(kept))
    texts = [terms.fold(f"{record.text}\n{record.title}\n{' '.join(record.tags)}\n{record.id}") for record in kept]
    found = _terms(words, texts)
    scores: list[dict[int, float]] = [_qualities(term, kept, texts) for term in found]
    ranked = _ranked(found, scores, kept)
    hits = [_hit(row, score, kept[row], found, scores) for row, score in ranked[: query.limit]]
    instead = tuple((term.word, term.needles) for term in found if term.replaced)
    return Found(tuple(hits), len(ranked), instead)


def _terms(words: Sequence[str], texts: Sequence[str]) -> list[_Term]:
    found: list[_Term] = []
    known: set[str] | None = None
    for word in words:
        needle = terms.stem(word)
        rows = _holding((needle,), texts)
        if rows:
            found.append(_Term(word, (needle,), rows))
            continue
        smaller = terms.parts(word)
        if smaller and any(_holding((terms.stem(part),), texts) for part in smaller):
            found.extend(_terms(smaller, texts))
            continue
        pairs = terms.bigrams(word)
        if not pairs and known is None:
            known = terms.vocabulary(texts)
        others = tuple(dict.fromkeys(pairs)) if pairs else terms.nearest(word, known or ())
        found.append(_Term(word, others, _holding(others, texts), replaced=bool(others)))
    return found


def _holding(needles: Sequence[str], texts: Sequence[str]) -> tuple[int, ...]:
    if len(needles) == 1:
        needle = needles[0]
        return tuple([row for row, text in enumerate(texts) if needle in text])
    return tuple(sorted({row for needle in needles for row in _holding((needle,), texts)}))


def _qualities(term: _Term, records: Sequence[Record], texts: Sequence[str]) -> dict[int, float]:
    """How exactly each record holds the word: as a tag, its id, a word, the beginning or the inside of one."""
    if not term.rows:
        return {}
    tags = {
        tag
        for tag in set().union(*(records[row].tags for row in term.rows))
        if terms.stem(terms.fold(tag)) in term.needles or terms.fold(tag) == term.word
    }
    found: dict[int, float] = {}
    for row in term.rows:
        if tags and not tags.isdisjoint(records[row].tags):
            found[row] = _TAG
        elif term.word == records[row].id.lower():
            found[row] = _ID
        else:
            found[row] = max([_exactness(texts[row], needle) for needle in term.needles])
    return found


def _exactness(text: str, needle: str) -> float:
    """A word (an ending of up to three letters is the same word), the beginning of one, or the inside."""
    at = text.find(needle)
    while at >= 0:
        if at == 0 or not text[at - 1].isalnum():
            rest = text[at + len(needle) : at + len(needle) + 4]
            return _START if len(rest) == 4 and rest.isalnum() else _WORD
        at = text.find(needle, at + 1)
    return _INSIDE


def _ranked(found: Sequence[_Term], scores: Sequence[dict[int, float]], records: Sequence[Record]) -> list[tuple[int, float]]:
    """The rows with a match: those with the most words first, then the best score, then the newest."""
    counts: dict[int, int] = {}
    totals: dict[int, float] = {}
    for term, qualities in zip(found, scores, strict=True):
        weight = math.log(1 + len(records) / len(term.rows)) if term.rows else 0.0
        for row, quality in qualities.items():
            counts[row] = counts.get(row, 0) + 1
            totals[row] = totals.get(row, 0.0) + weight * quality
    keys = [(counts[row], totals[row], records[row].created_at, row) for row in counts]
    keys.sort(reverse=True)
    return [(row, total) for _, total, _, row in keys]


def _hit(row: int, score: float, record: Record, found: Sequence[_Term], scores: Sequence[dict[int, float]]) -> Hit:
    why = [f"{term.word}: {_NAMES[each[row]]}" for term, each in zip(found, scores, strict=True) if row in each]
    return Hit(record, round(score, 4), tuple(why))
