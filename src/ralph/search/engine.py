"""Answer a `Query` with hits: by id, by date, by ranking, or by literal text.

`search` is what commands, tools and the loop call. Hooks call `rank.rank` instead, which needs
fewer modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ralph.core import ids
from ralph.core.record import Hit, SearchResult
from ralph.search.explanations import explain, replacements
from ralph.search.rank import rank
from ralph.search.scoring import SEARCH
from ralph.storage import lookup, queries, query_filters, record_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date
    from sqlite3 import Connection

    from ralph.core.record import Query, Record
    from ralph.search.candidates import Meaning
    from ralph.search.question import WeightedWord
    from ralph.search.rank import Ranking
    from ralph.search.scoring import Recipe
    from ralph.storage.record_filters import Filter

_HIT_SCORE_DIGITS = 4  # decimals of a score shown to users


def search(
    connection: Connection,
    query: Query,
    *,
    today: date,
    recipe: Recipe = SEARCH,
    meaning: Meaning | None = None,
) -> SearchResult:
    """Return the records that answer a query, best first.

    If the query is an id, the records with that id are returned. If it has no text, the newest
    records that pass the filters are returned. If no word matches, the records that contain the
    text literally are returned, newest first.
    """
    text = query.text.strip()
    if not text:
        return _newest(connection, query)
    if queries.key_of(connection, text) is not None or ids.date_of(text):
        return _with_id(connection, query, text)
    day = today.isoformat()
    record_filter = query_filters.filter_of(query)
    ranking = rank(
        connection,
        query.text,
        today=day,
        record_filter=record_filter,
        limit=query.limit,
        recipe=recipe,
        meaning=meaning,
    )
    if all(ranked.meaning_alone for ranked in ranking.best):
        literal = _containing_literally(connection, query, text, record_filter)
        if literal is not None:
            return literal
    keys = [ranked.row.key for ranked in ranking.best]
    hits = make_hits(ranking, queries.records(connection, keys), query, day, recipe)
    replaced = replacements(connection, ranking.words, record_filter)
    return SearchResult(hits, ranking.total, replaced, matched_terms(ranking.words))


def _newest(connection: Connection, query: Query) -> SearchResult:
    keys = queries.newest_keys(connection, query, query.limit)
    found = queries.records(connection, keys)
    if query.limit is None:
        total = len(keys)
    else:
        total = queries.count(connection, query)
    return SearchResult(tuple(Hit(record, 0.0) for record in found.values()), total)


def _with_id(connection: Connection, query: Query, record_id: str) -> SearchResult:
    keys = queries.keys_of(connection, record_id, query)
    found = queries.records(connection, keys[: query.limit])
    return SearchResult(tuple(Hit(record, 1.0, ("id",)) for record in found.values()), len(keys))


def _containing_literally(
    connection: Connection, query: Query, text: str, record_filter: Filter
) -> SearchResult | None:
    """Return the records that contain every word of the text literally, or None."""
    keys = lookup.literal_matches(
        connection, record_rows.storable_text(text).split(), record_filter
    )
    if not keys:
        return None
    found = queries.records(connection, keys[: query.limit])
    hits = tuple(Hit(record, 0.0, ("letters",)) for record in found.values())
    weights = dict.fromkeys(text.lower().split(), 1.0)
    return SearchResult(hits, len(keys), (), weights)


def make_hits(
    ranking: Ranking,
    records: Mapping[int, Record],
    query: Query,
    day: str,
    recipe: Recipe = SEARCH,
) -> tuple[Hit, ...]:
    """Turn a ranking into hits, leaving out records that the query does not accept."""
    hits = []
    for ranked in ranking.best:
        record = records.get(ranked.row.key)
        if record is None or not query.accepts(record):
            continue
        reasons = tuple(explain(ranked, ranking.words, day, recipe))
        score = round(ranked.score, _HIT_SCORE_DIGITS)
        hits.append(Hit(record, score, reasons, ranked.weak))
    return tuple(hits)


def matched_terms(words: Sequence[WeightedWord]) -> dict[str, float]:
    """Return the indexed terms that were searched for, with the weights of their words."""
    weights: dict[str, float] = {}
    for word in words:
        for term in (*word.counts, *word.longer):
            weights[term] = word.weight
    return weights
