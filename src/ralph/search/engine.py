"""Run a query: the ranking over what the query may see, with the records behind it.

An id as the query gives the records that have it; an empty text gives the newest that pass the filters.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import date

from ralph.model import ids
from ralph.model.query import Hit, Query, SearchResult
from ralph.search import terms
from ralph.search.rank import STANDARD, Ranking, Recipe, explain, gate, rank
from ralph.store import queries

__all__ = ("STANDARD", "Meaning", "Recipe", "search")

Meaning = Callable[[str, Sequence[int]], Mapping[int, float]]
"""The similarity in meaning (cosine) of records to a text, by key: for these keys and for the nearest of all."""

Related = Callable[[Sequence[int]], Sequence[tuple[int, int, float]]]
"""Records near others in the graph: source, target, and how near they are (1: directly linked)."""


def search(
    connection: sqlite3.Connection,
    query: Query,
    *,
    today: date,
    recipe: Recipe = STANDARD,
    meaning: Meaning | None = None,
    related: Related | None = None,
) -> SearchResult:
    """The records that answer the query, best first."""
    text = query.text.strip()
    if not text:
        return _newest(connection, query)
    if queries.key_of(connection, text) is not None or ids.date_of(text):
        return _by_id(connection, query)
    keep = queries.filter_of(query)
    day = today.isoformat()
    ranked = rank(
        connection, query.text, today=day, keep=keep, limit=query.limit, recipe=recipe, meaning=meaning, related=related
    )
    hits = tuple(_hits(connection, query, ranked, day, recipe))
    instead = tuple((each.word, readable_terms(tuple(each.counts), hits)) for each in ranked.words if each.replaced)
    return SearchResult(hits, ranked.total, tuple(pair for pair in instead if pair[1]))


def _hits(connection: sqlite3.Connection, query: Query, ranked: Ranking, today: str, recipe: Recipe) -> list[Hit]:
    found = queries.records(connection, [each.row.key for each in ranked.best])
    injectable = gate(ranked.best, recipe)
    return [
        Hit(
            found[each.row.key],
            round(each.score, 4),
            tuple(explain(each, ranked.words, today, recipe)),
            each in injectable,
        )
        for each in ranked.best
        if each.row.key in found and query.accepts(found[each.row.key])
    ]


def _by_id(connection: sqlite3.Connection, query: Query) -> SearchResult:
    """Every record that has the id."""
    keys = queries.keys_of(connection, query.text.strip(), query)
    found = queries.records(connection, keys[: query.limit])
    return SearchResult(tuple(Hit(found[key], 1.0, ("id",)) for key in keys[: query.limit] if key in found), len(keys))


def _newest(connection: sqlite3.Connection, query: Query) -> SearchResult:
    keys = queries.newest_keys(connection, query, query.limit)
    found = queries.records(connection, keys)
    total = len(keys) if query.limit is None else queries.count(connection, query)
    return SearchResult(tuple(Hit(found[key], 0.0) for key in keys if key in found), total)


def readable_terms(stems: Sequence[str], hits: Sequence[Hit]) -> tuple[str, ...]:
    """Terms as people write them: for each the shortest word of the hits; the stems when no hit has one."""
    words: dict[str, str] = {}
    for hit in hits[:5]:
        record = hit.record
        for word in terms.split_words(" ".join((record.title, *record.tags, record.text[:20_000]))):
            for term in terms.word_terms(word):
                if term in stems and len(word) < len(words.get(term, word + ".")):
                    words[term] = word.lower()
    return tuple(dict.fromkeys(words[term] for term in stems if term in words)) or tuple(stems)
