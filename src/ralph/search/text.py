"""Search over parsed records: every word, in any order, anywhere in the text.

The files are small enough to be read whole; an index will take over behind the same function.
A word matches as a substring of the folded text (`auth` finds `authentication`), by its stem
(`failing tests` finds "test fails"); a word that occurs nowhere is replaced by the nearest
ones that do. Records with every word come first, then by how rare and how exact the matches
are, then the newest. Substring tests run at C speed, so 20,000 records take less than
splitting their text into words three times (`bench/parse.py`).
"""

import math
import re
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
    rows: frozenset[int]
    replaced: bool = False


def search(records: Sequence[Record], query: Query) -> Found:
    """The records that fit, best first; with an empty text the newest that pass the filters."""
    kept = [record for record in records if passes(record, query)]
    words = terms.query_words(query.text)
    if not words:
        if query.text.strip():
            return Found((), 0)
        newest = sorted(range(len(kept)), key=lambda row: (kept[row].created_at, row), reverse=True)
        return Found(tuple(Hit(kept[row], 0.0) for row in newest[: query.limit]), len(kept))
    texts = [_haystack(record) for record in kept]
    found = _terms(words, texts)
    hits = _rank(kept, texts, found)
    instead = tuple((term.word, term.needles) for term in found if term.replaced)
    return Found(tuple(hits[: query.limit]), len(hits), instead)


def passes(record: Record, query: Query) -> bool:
    """Whether a record is of the kinds, tags (any of them) and time that the query asks for."""
    if query.kinds and record.kind not in query.kinds:
        return False
    if query.since and record.created_at < query.since:
        return False
    if query.tags:
        own = {tag.lower() for tag in record.tags}
        return any(tag.lower() in own for tag in query.tags)
    return True


def _haystack(record: Record) -> str:
    return terms.fold(f"{record.text}\n{record.title}\n{' '.join(record.tags)}\n{record.id}")


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


def _holding(needles: Sequence[str], texts: Sequence[str]) -> frozenset[int]:
    return frozenset(row for needle in needles for row, text in enumerate(texts) if needle in text)


def _rank(records: Sequence[Record], texts: Sequence[str], found: Sequence[_Term]) -> list[Hit]:
    counts: dict[int, int] = {}
    scores: dict[int, float] = {}
    why: dict[int, list[str]] = {}
    for term in found:
        weight = math.log(1 + len(records) / len(term.rows)) if term.rows else 0.0
        edge = re.compile(r"(?<![^\W_])(" + "|".join(map(re.escape, term.needles)) + r")(\w*)") if term.needles else None
        for row in term.rows:
            counts[row] = counts.get(row, 0) + 1
            quality = _quality(records[row], texts[row], term, edge)
            scores[row] = scores.get(row, 0.0) + weight * quality
            why.setdefault(row, []).append(f"{term.word}: {_NAMES[quality]}")
    order = sorted(counts, key=lambda row: (counts[row], scores[row], records[row].created_at, row), reverse=True)
    return [Hit(records[row], round(scores[row], 4), tuple(why[row])) for row in order]


def _quality(record: Record, text: str, term: _Term, edge: re.Pattern[str] | None) -> float:
    for tag in record.tags:
        if terms.stem(terms.fold(tag)) in term.needles or terms.fold(tag) == term.word:
            return _TAG
    if term.word == record.id.lower():
        return _ID
    match = edge.search(text) if edge is not None else None
    if match is None:
        return _INSIDE
    return _WORD if len(match[2]) <= 3 else _START
