"""List records page by page for the Memory Explorer, with or without a search.

Without a search, the newest records come first, and facets are counted with totals kept in the
index. A search for an id finds that record. A search for words ranks the best hits as
`ralph search` does, and the other matches follow, ordered by full-text score. If nothing matches,
records whose text contains the words literally are listed.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.core import ids
from ralph.core.errors import UsageError
from ralph.core.record import Family, Hit, Query, Record, Status
from ralph.memory.record_shapes import STATUS_WORDS
from ralph.recall import outdated, stale_citations
from ralph.recall.search import merge_repeats
from ralph.search import explanations, index, meaning, question, rank, scoring
from ralph.search.explanations import WEAK
from ralph.search.rank import Ranking
from ralph.search.scoring import SEARCH, RankedRow
from ralph.storage import (
    db,
    lookup,
    queries,
    query_filters,
    record_filters,
    record_rows,
    sessions,
    totals,
)
from ralph.web.facets import AGES, FacetCounts, FacetFilter, count_facets, first_day_of
from ralph.web.record_rows import RowMarks, record_row

if TYPE_CHECKING:
    from ralph.core.settings import Embedding, Team

SORTS = ("relevance", "newest")
MAX_RANKED = 60  # fully ranked hits; the rest are in full-text order and have no scores
_SCORE_DIGITS = 4

Page = dict[str, Any]
"""One page of a list, with `items`, `total`, `facets`, and `notes` for the reader."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """The search text, the chosen facet values, the task, the sort order, and the page."""

    text: str = ""
    chosen: FacetFilter = field(default_factory=dict)
    task: str = ""
    sort: str = ""
    limit: int = 100
    offset: int = 0


def list_records(root: Path, request: ListRequest, *, embedding: Embedding | None = None) -> Page:
    """Return one page of the matching records. Raises UsageError for an unknown order or age."""
    if request.sort and request.sort not in SORTS:
        raise UsageError(f"{request.sort!r} is not an order", hint=f"one of {', '.join(SORTS)}")
    for age in request.chosen.get("age", ()):
        if age not in AGES:
            raise UsageError(f"{age!r} is not an age", hint=f"one of {', '.join(AGES)}")
    chosen = {facet: set(values) for facet, values in request.chosen.items() if values}
    if "tag" in chosen:
        chosen["tag"] = {tag.lower() for tag in chosen["tag"]}
    request = replace(request, chosen=chosen)

    def ask(connection: sqlite3.Connection) -> Page:
        # Read before anything else, so that what is counted is never older than this state.
        index_state = index.state_of(root)
        listing = _Listing(root, connection, request, index_state)
        if request.text.strip():
            return listing.search(embedding)
        return listing.everything()

    return index.ask(root, ask)


def newest_memories(root: Path, limit: int) -> tuple[list[Any], int]:
    """Return the newest memories that are in use, and the number of all memories.

    The cost does not depend on the number of memories.
    """
    chosen = {"family": {Family.MEMORY.value}, "status": {"active", "raw"}}

    def ask(connection: sqlite3.Connection) -> tuple[list[Any], int]:
        listing = _Listing(root, connection, ListRequest(chosen=chosen, limit=limit))
        total = totals.count_records(connection).get(Family.MEMORY.value, 0)
        return listing.newest(total), total

    return index.ask(root, ask)


def list_tags(root: Path, begin: str, limit: int) -> list[tuple[str, int]]:
    """Return the tags that contain the string `begin`, with their counts.

    Tags that start with it come first, then the most frequent ones.
    """
    letters = begin.strip().lstrip("#").lower()
    rows = index.ask(root, lambda connection: list(totals.facet_rows(connection)))
    counts: Counter[str] = Counter()
    for values, _, number in rows:
        for tag in values.tag:
            if letters in tag:
                counts[tag] += number

    def order(pair: tuple[str, int]) -> tuple[bool, int, str]:
        tag, count = pair
        return not tag.startswith(letters), -count, tag

    return sorted(counts.items(), key=order)[:limit]


def count_everything(root: Path) -> tuple[int, int]:
    """Return the number of records that are listed without a filter, and the number of tasks."""

    def count(connection: sqlite3.Connection) -> tuple[int, int]:
        records = sum(totals.count_records(connection).values())
        return records, sessions.count_tasks(connection)

    return index.ask(root, count)


@dataclass(frozen=True, slots=True)
class _BestHit:
    """A ranked hit, and the number of records with the same content, including itself."""

    hit: Hit
    count: int = 1


class _Matches(NamedTuple):
    """The results of a text search.

    `records` are the ranked records by key. `best` are their hits by key, best first, with repeats
    merged. `match` is the full-text expression that finds everything else, or "". `notes` are for
    the reader.
    """

    ranking: Ranking
    records: Mapping[int, Record]
    best: Mapping[int, _BestHit]
    match: str
    notes: Sequence[str]


class _Counted(NamedTuple):
    """What counts by facet are about. `found` are keys, or None for all records."""

    root: Path
    index_state: str
    task: str
    chosen: frozenset[tuple[str, ...]]
    days: tuple[str, ...]
    found: frozenset[int] | None


_LAST_COUNTS: dict[_Counted, tuple[int, FacetCounts]] = {}
"""The last counts by facet."""


class _Listing:
    """A list of records that is read over one connection to the index."""

    def __init__(
        self,
        root: Path,
        connection: sqlite3.Connection,
        request: ListRequest,
        index_state: str = "",
    ) -> None:
        self.root = root
        self.connection = connection
        self.request = request
        self._index_state = index_state
        stored = {facet: values for facet, values in request.chosen.items() if facet != "age"}
        if "tag" in stored:
            stored["tag"] = totals.tag_texts(connection, stored["tag"])
        if "status" in stored:
            stored["status"] = _stored_statuses(stored["status"])
        self.keep = query_filters.facet_filter(
            stored, since=first_day_of(request.chosen), task=request.task
        )
        # only the task, because each facet is counted with the filters on the others applied
        self.visible = query_filters.facet_filter(
            {"status": [status.value for status in Status]}, task=request.task
        )

    def everything(self) -> Page:
        """Return a page of all records that pass the filter, newest first."""
        request = self.request
        if request.task:
            total, facets = self._count(None)
        else:
            total, facets = count_facets(totals.facet_rows(self.connection), request.chosen)
        keys = queries.page(self.connection, self.keep, request.limit, request.offset)
        return self._page(keys, total, facets)

    def newest(self, total: int) -> list[Any]:
        """Return the first rows that pass the filter, newest first, without counting facets."""
        keys = queries.page(self.connection, self.keep, self.request.limit)
        rows: list[Any] = self._page(keys, total, {})["items"]
        return rows

    def search(self, embedding: Embedding | None) -> Page:
        """Return a page of search results, for an id, ranked words, or part of a word."""
        text = self.request.text.strip()
        if queries.key_of(self.connection, text) is not None or ids.date_of(text):
            return self._find_id(text)
        return self._find_words(text, embedding)

    def _find_id(self, record_id: str) -> Page:
        """Return a page of the records with this id, including archived ones."""
        keys = queries.keys_of(self.connection, record_id)
        order = queries.page(self.connection, self.visible, None, keys=keys)
        if self.request.sort in ("", "relevance"):
            visible = set(order)
            order = [key for key in keys if key in visible]
        best = {}
        for key, record in queries.records(self.connection, order).items():
            best[key] = _BestHit(Hit(record, 1.0, ("id",)))
        _, facets = self._count(order)
        return self._page(self._slice(order), len(order), facets, best=best)

    def _find_words(self, text: str, embedding: Embedding | None) -> Page:
        request = self.request
        keep = record_filters.EVERYTHING
        if request.task or request.chosen:
            keep = self.keep
        matches = self._rank(text, keep, embedding)
        found = self._all_matches(matches)
        total, facets = self._count(found)
        if not matches.best:
            total = 0
        if not total and not request.chosen:
            containing = self._find_part(text)
            if containing is not None:
                return containing
        if request.sort == "newest":
            order: Sequence[int] = ()
            if total:
                order = queries.page(self.connection, self.keep, None, keys=found)
        else:
            # a record that repeats a better hit is merged into it and not counted
            total = max(total - len(matches.records), 0) + len(matches.best)
            order = self._order_by_relevance(matches, total, keep)
        replaced: Sequence[str] = ()
        if matches.best:
            words = matches.ranking.words
            replaced = explanations.describe_replacements(
                explanations.replacements(self.connection, words, keep)
            )
        return self._page(
            self._slice(order),
            total,
            facets,
            [*replaced, *matches.notes],
            best=matches.best,
            ranking=matches.ranking,
        )

    def _rank(
        self, text: str, keep: record_filters.Filter, embedding: Embedding | None
    ) -> _Matches:
        """Rank the matches for a text by words and meaning."""
        connection = self.connection
        notes: list[str] = []
        nearness = None
        if embedding is not None:
            # There is a search for every letter, and the server embeds records while it is idle.
            nearness = meaning.meaning_for(
                self.root, embedding, connection, Query(text), notes.append, seconds=0
            )
        ranking = rank.rank(
            connection,
            text,
            today=ids.today(),
            record_filter=keep,
            limit=MAX_RANKED,
            meaning=nearness,
        )
        ranked = [row for row in ranking.best if _is_match(row)]
        records = queries.records(connection, [row.row.key for row in ranked])
        hits = []
        for row in ranked:
            record = records.get(row.row.key)
            if record is not None:
                hits.append(Hit(record, round(row.score, _SCORE_DIGITS), weak=row.weak))
        if hits and ranking.weak:
            notes.append(WEAK)
        match = ""
        if ranked or self.request.chosen:
            terms = question.rarest_terms(ranking.words, SEARCH.max_term_matches)
            match = " OR ".join(f'"{term}"' for term in terms)
        return _Matches(ranking, records, self._merge_hits(hits, records), match, notes)

    def _merge_hits(
        self, hits: Sequence[Hit], records: Mapping[int, Record]
    ) -> dict[int, _BestHit]:
        """Demote stale and outdated hits, and merge hits with the same content."""
        past = outdated.describe_outdated(self.connection, [hit.record for hit in hits])
        current = stale_citations.demote_stale(self.root, hits)
        key_of = {id(record): key for key, record in records.items()}
        best = {}
        for merged in merge_repeats(outdated.demote_outdated(current, past)):
            best[key_of[id(merged.hit.record)]] = _BestHit(merged.hit, 1 + len(merged.repeats))
        return best

    def _all_matches(self, matches: _Matches) -> list[int]:
        """Return the keys of the ranked records and of all full-text matches."""
        keys = set(matches.records)
        if matches.match:
            keys.update(queries.matching_keys(self.connection, matches.match))
        return list(keys)

    def _order_by_relevance(
        self, matches: _Matches, total: int, keep: record_filters.Filter
    ) -> Sequence[int]:
        """Return the best hits, followed by as many full-text matches as the page needs."""
        order = list(matches.best)
        end = self.request.offset + self.request.limit
        if len(order) < min(end, total) and matches.match:
            limit = end + len(matches.records)
            more = lookup.best_matches(
                self.connection, matches.match, SEARCH.weights.fields, limit, keep
            )
            order += [key for key, _ in more if key not in matches.records]
        return order

    def _find_part(self, text: str) -> Page | None:
        """Return a page of the records whose text contains the search text literally, or None."""
        text = record_rows.storable_text(text)
        containing = lookup.literal_matches(
            self.connection, text.split(), record_filters.EVERYTHING
        )
        total, facets = self._count(containing)
        if not total:
            return None
        request = self.request
        keys = queries.page(
            self.connection, self.keep, request.limit, request.offset, keys=containing
        )
        notes = [f"Texts that contain {text!r}, newest first."]
        return self._page(keys, total, facets, notes)

    def _count(self, keys: Sequence[int] | None) -> tuple[int, FacetCounts]:
        """Count records by facet: those with these keys, or all.

        The last counts are kept, because typing another letter often finds the same records, and
        scrolling always does.
        """
        days = [ids.first_day(count) for count in AGES.values()]
        chosen = frozenset((facet, *sorted(words)) for facet, words in self.request.chosen.items())
        found = None if keys is None else frozenset(keys)
        counted = _Counted(
            self.root, self._index_state, self.request.task, chosen, tuple(days), found
        )
        counts = _LAST_COUNTS.get(counted)
        if counts is None:
            rows = totals.facet_rows_of(self.connection, self.visible, keys, days)
            counts = count_facets(rows, self.request.chosen)
            _LAST_COUNTS.clear()
            if self._index_state and not db.is_in_memory(self.connection):
                _LAST_COUNTS[counted] = counts
        return counts

    def _slice(self, order: Sequence[int]) -> Sequence[int]:
        return order[self.request.offset : self.request.offset + self.request.limit]

    def _page(
        self,
        keys: Sequence[int],
        total: int,
        facets: FacetCounts,
        notes: Sequence[str] = (),
        *,
        best: Mapping[int, _BestHit] | None = None,
        ranking: Ranking | None = None,
    ) -> Page:
        """Return a page of the records with these keys. `best` has the ranked hits by key."""
        connection = self.connection
        if best is None:
            best = {}
        records = queries.records(connection, [key for key in keys if key not in best])
        for key in keys:
            if key in best:
                records[key] = best[key].hit.record
        keys = [key for key in keys if key in records]
        locations = queries.locations(connection, keys)
        owners = queries.tasks_of(connection, keys)
        stale = stale_citations.citation_notes(self.root, list(records.values()))
        past = outdated.describe_outdated(connection, list(records.values()))
        reasons: Mapping[int, Sequence[str]] = {}
        if ranking is not None:
            reasons = self._reasons(keys, ranking)
        items = []
        for key in keys:
            record = records[key]
            marks = _row_marks(
                best.get(key),
                reasons.get(key, ()),
                RowMarks(stale=stale.get(record.id, ""), past=past.get(record.id, "")),
            )
            items.append(record_row(record, locations[key], owners.get(key, ""), marks))
        return {"items": items, "total": total, "facets": facets, "notes": notes}

    def _reasons(self, keys: Sequence[int], ranking: Ranking) -> dict[int, tuple[str, ...]]:
        """Return why each record matches, whether it is ranked or not."""
        rows = {row.row.key: row for row in ranking.best}
        unranked = [key for key in keys if key not in rows]
        for key, row in lookup.fetch_rows(self.connection, unranked).items():
            rows[key] = RankedRow(row)
            rows[key].matched = scoring.match_words(row, ranking.words)
        reasons = {}
        for key in keys:
            if key in rows:
                reasons[key] = tuple(explanations.explain(rows[key], ranking.words, ids.today()))
        return reasons


def _stored_statuses(words: Collection[str]) -> list[str]:
    """Return the stored statuses that users see under these words."""
    return [status.value for status in Status if STATUS_WORDS.get(status, status.value) in words]


def _is_match(row: RankedRow) -> bool:
    return bool(row.matched or row.linked_from or row.outstanding)


def _row_marks(best: _BestHit | None, reasons: Sequence[str], marks: RowMarks) -> RowMarks:
    """Add a hit's score and reasons to the marks of its row."""
    if best is None:
        return replace(marks, why=list(reasons))
    problems = (marks.stale, marks.past)  # the row already shows these
    why = [*reasons, *(reason for reason in best.hit.why if reason not in problems)]
    return replace(marks, score=best.hit.score, why=why, count=best.count, weak=best.hit.weak)


def team_page(root: Path, request: ListRequest, team: Team) -> Page:
    """Return a page of this project's and the team's records, best hits or newest first."""
    from ralph.sharing import team_search

    known_families = set(Family)
    chosen = request.chosen.get("family", ())
    families = tuple(Family(name) for name in chosen if name in known_families)
    query = Query(request.text, families=families, limit=MAX_RANKED)
    answer = team_search.search(root, query, team)
    items = []
    for shown in answer.shown:
        source = ""
        if shown.member:
            source = f"team/{shown.member}"
        marks = RowMarks(
            score=shown.hit.score, why=list(shown.hit.why), count=shown.count, past=shown.note
        )
        items.append(record_row(shown.hit.record, (source, 0), "", marks))
    notes = []
    if answer.is_weak:
        notes.append(WEAK)
    return {
        "items": items[request.offset : request.offset + request.limit],
        "total": len(items),
        "facets": {},
        "notes": notes,
    }
