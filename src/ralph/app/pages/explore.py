"""Lists records page by page for the Memory Explorer, with a count for every value of each facet.

A search uses the ranking of `ralph search` for the best hits; everything else that has one of the terms follows by its
full-text score, so that a list of thousands can be paged. Without a search it is everything, the newest first. Facets
are counted over the whole list, each under the choices of the others, from a view in memory that follows the index.
"""

import sqlite3
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.app import index, meaning, outdated
from ralph.app.json_shapes import STATUS_WORDS, record_json
from ralph.app.search import merge_repeats
from ralph.context import tokens
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.query import Hit, Query
from ralph.model.record import Record, Status
from ralph.search import question, terms
from ralph.search.rank import STANDARD, RankedRow, Ranking, explain, match_words, rank, readable_terms
from ralph.store import lookup, queries, sessions
from ralph.store.queries import FacetValues, SourceState

if TYPE_CHECKING:
    from ralph.settings import Embedding
    from ralph.store.lookup import Filter

_SHAPE_FACETS = ("family", "type", "tag", "scope", "source", "status")
FACETS = (*_SHAPE_FACETS, "age")
AGES = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}
SORTS = ("relevance", "newest", "oldest")
MAX_FACET_VALUES = 40
"""The most frequent values of a facet that are listed; chosen values are always listed."""
MAX_RANKED = 60
"""The hits that are ranked in full; the rest of the list is in full-text order and has no score."""
PREVIEW_LENGTH = 280
"""Characters of a record's text in a list."""

_CACHED_COUNTS = 64
_MAX_UNUSED_SHAPES = 1000
"""The view is rebuilt once it has so many more shapes than records."""
_FILTER_FUNCTION = "explored"
"""The SQL function that tells whether a key passes the chosen facets."""
_SUPERSEDED, _EXPIRED = "superseded by ", "expired "
"""How the notes of `outdated.describe_outdated` begin."""

FacetFilter = Mapping[str, Collection[str]]
"""The chosen values of each facet; a facet without any lets everything through."""
FacetCounts = Mapping[str, Sequence[tuple[str, int]]]


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A search text, the chosen values of each facet, a task, the order, and the page."""

    text: str = ""
    chosen: FacetFilter = field(default_factory=dict)
    task: str = ""
    sort: str = ""
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record in a list; `outdated` says why it no longer holds, `stale` which citation is wrong."""

    record: Record
    source: str
    line: int
    task: str
    tokens: int
    score: float | None = None
    why: tuple[str, ...] = ()
    count: int = 1
    stale: str = ""
    outdated: str = ""

    @property
    def superseded_by(self) -> str:
        """The id of the record that replaced it."""
        return self.outdated.removeprefix(_SUPERSEDED) if self.outdated.startswith(_SUPERSEDED) else ""

    def to_json(self, *, full: bool = False) -> dict[str, object]:
        """Return the record for a list, or for its own page with the full text."""
        text = self.record.text
        return {
            **record_json(self.record, f"{self.source}:{self.line}" if self.line else self.source),
            "text": text if full else " ".join(text[: PREVIEW_LENGTH * 4].split())[:PREVIEW_LENGTH],
            "family": self.record.family.value,
            "scope": self.record.scope.value,
            "task": self.task,
            "session": self.record.origin.session,
            "tokens": self.tokens,
            "score": self.score,
            "why": self.why,
            "count": self.count,
            "stale": self.stale,
            "superseded_by": self.superseded_by,
            "expired": self.outdated.removeprefix(_EXPIRED) if self.outdated.startswith(_EXPIRED) else "",
        }


@dataclass(frozen=True, slots=True)
class RecordList:
    """One page of a list, the length of the list, the facet counts, and notes for the reader."""

    rows: tuple[RecordRow, ...]
    total: int
    facets: FacetCounts
    notes: tuple[str, ...] = ()


def date_days_ago(days: int) -> str:
    """Return the date of some days ago."""
    return (ids.now() - timedelta(days=days)).date().isoformat()


def _facet_values(shape: FacetValues, facet: str) -> Sequence[str]:
    if facet == "tag":
        return shape.tag
    if facet == "status":
        return (STATUS_WORDS.get(shape.status, shape.status),)
    return (shape.kind if facet == "type" else getattr(shape, facet),)


# --- facets ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FacetView:
    """Every record of one state of the index: its shape, of which there are few, and its time."""

    stands: Mapping[int, SourceState]
    sizes: tuple[int, ...]
    keys: Mapping[int, tuple[int, ...]]
    shape_of: Mapping[int, int]
    created: Mapping[int, str]
    shapes: tuple[FacetValues, ...]
    _counted: dict[object, tuple[list[int], FacetCounts]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def newest(self) -> tuple[int, ...]:
        """All keys, the newest first; of one time, the last in its file first."""
        created, shapes, shape_of = self.created, self.shapes, self.shape_of
        return tuple(sorted(created, key=lambda key: (created[key], shapes[shape_of[key]].source, key), reverse=True))

    @cached_property
    def position(self) -> Mapping[int, int]:
        """The index of each key in `newest`."""
        return {key: number for number, key in enumerate(self.newest)}

    def everything(self, chosen: FacetFilter) -> tuple[list[int], FacetCounts]:
        """Return all records that pass, the newest first, and the counts; cached, since every visit starts here."""
        cache_key = (date_days_ago(0), *((facet, tuple(sorted(chosen[facet]))) for facet in sorted(chosen)))
        if cache_key not in self._counted:
            if len(self._counted) >= _CACHED_COUNTS:
                self._counted.clear()
            self._counted[cache_key] = self.counts(self.newest, chosen)
        return self._counted[cache_key]

    def passing(self, keys: Iterable[int], chosen: FacetFilter) -> list[int]:
        """Return the keys that pass every facet; archived records pass only where that is chosen."""
        return self._select(self._young(keys, chosen), self._fitting(chosen))

    def counts(self, keys: Collection[int], chosen: FacetFilter) -> tuple[list[int], FacetCounts]:
        """Return the keys that pass, and the values of each facet, counted under the choices of the others."""
        young = self._young(keys, chosen)
        by_shape = Counter(map(self.shape_of.__getitem__, young))
        facets: dict[str, Sequence[tuple[str, int]]] = {}
        for facet in _SHAPE_FACETS:
            under = self._fitting(chosen, but=facet)
            count: Counter[str] = Counter()
            for number, several in by_shape.items():
                if number in under:
                    for value in _facet_values(self.shapes[number], facet):
                        count[value] += several
            facets[facet] = _top_values(count, {_fold(facet, value) for value in chosen.get(facet, ())})
        fitting = self._fitting(chosen)
        selected = self._select(young, fitting)
        ages = selected if young is keys else self._select(keys, fitting)
        positions = list(map(self.position.__getitem__, ages))
        facets["age"] = [
            (age, sum(map(self._count_since(date_days_ago(days)).__gt__, positions))) for age, days in AGES.items()
        ]
        return selected, facets

    def _young(self, keys: Iterable[int], chosen: FacetFilter) -> Iterable[int]:
        days = [AGES[age] for age in chosen.get("age", ()) if age in AGES]
        if not days:
            return keys
        position, limit = self.position, self._count_since(date_days_ago(max(days)))
        return [key for key in keys if position[key] < limit]

    def _fitting(self, chosen: FacetFilter, *, but: str = "") -> Collection[int]:
        """Return the numbers of the shapes that pass every facet except one."""
        wanted = {
            facet: {_fold(facet, value) for value in chosen[facet]}
            for facet in _SHAPE_FACETS
            if facet != but and chosen.get(facet)
        }
        hide_archived = but != "status" and "status" not in wanted
        if not wanted and not hide_archived:
            return range(len(self.shapes))
        return {
            number
            for number, shape in enumerate(self.shapes)
            if not (hide_archived and shape.status == Status.RETIRED)
            and all(not values.isdisjoint(_facet_values(shape, facet)) for facet, values in wanted.items())
        }

    def _select(self, keys: Iterable[int], fitting: Collection[int]) -> list[int]:
        if len(fitting) == len(self.shapes):
            return list(keys)
        shape_of = self.shape_of
        return [key for key in keys if shape_of[key] in fitting]

    def _count_since(self, day: str) -> int:
        return bisect_left(self.newest, True, key=lambda key: self.created[key] < day)


def _fold(facet: str, value: str) -> str:
    return value.lower() if facet == "tag" else value


def _top_values(count: Counter[str], chosen: set[str]) -> list[tuple[str, int]]:
    best = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
    top = best[:MAX_FACET_VALUES] + [pair for pair in best[MAX_FACET_VALUES:] if pair[0] in chosen]
    return top + [(value, 0) for value in sorted(chosen - {value for value, _ in top})]


_EMPTY_VIEW = FacetView({}, (), {}, {}, {}, ())


def _build_view(
    old: FacetView, connection: sqlite3.Connection, stands: Mapping[int, SourceState], sizes: tuple[int, ...]
) -> FacetView:
    """Return the view of another state of the index; only sources that changed are read."""
    same = {key for key, stand in stands.items() if stand.mtime_ns and old.stands.get(key) == stand}
    shape_of, created = dict(old.shape_of), dict(old.created)
    for source, numbers in old.keys.items():
        if source not in same:
            for number in numbers:
                shape_of.pop(number, None)
                created.pop(number, None)
    keys = {source: list(numbers) for source, numbers in old.keys.items() if source in same}
    known = {shape: number for number, shape in enumerate(old.shapes)}
    names = {key: stand.path for key, stand in stands.items()}
    for source, number, shape, time in queries.facet_values(connection, stands.keys() - same, names):
        shape_of[number] = known.setdefault(shape, len(known))
        created[number] = time
        keys.setdefault(source, []).append(number)
    view = FacetView(
        stands, sizes, {source: tuple(numbers) for source, numbers in keys.items()}, shape_of, created, tuple(known)
    )
    complete = len(created) == sum(sizes[::2]) and len(known) <= _MAX_UNUSED_SHAPES + 2 * len(created)
    return view if complete or old is _EMPTY_VIEW else _build_view(_EMPTY_VIEW, connection, stands, sizes)


# --- lists -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Hits:
    """The hits of a search: all keys, the ranked ones, and the best in order with how many repeat each.

    `ranking` is None for a search by id.
    """

    keys: tuple[int, ...] = ()
    records: Mapping[int, Record] = field(default_factory=dict)
    ranked: Mapping[int, RankedRow] = field(default_factory=dict)
    best: Mapping[int, tuple[Hit, int]] = field(default_factory=dict)
    ranking: Ranking | None = None
    match: str = ""
    keep: "Filter" = ()
    outdated: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


_NO_HITS = _Hits()


class Explorer:
    """The records of a project, listed; one for the lifetime of a server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = threading.Lock()
        self._cached_view = _EMPTY_VIEW
        self._owners: tuple[FacetView, Mapping[int, str]] | None = None

    def _view(self, connection: sqlite3.Connection) -> FacetView:
        stands, sizes = queries.source_states(connection), queries.table_sizes(connection)
        with self._lock:
            old = self._cached_view
        if (old.stands, old.sizes) == (stands, sizes) and all(stand.mtime_ns for stand in stands.values()):
            return old
        view = _build_view(old, connection, stands, sizes)
        with self._lock:
            self._cached_view = view
        return view

    def page(self, request: ListRequest, *, embedding: "Embedding | None" = None) -> RecordList:
        """Return one page; UsageError for an unknown order or age."""
        if request.sort and request.sort not in SORTS:
            raise UsageError(f"{request.sort!r} is no order", hint=f"valid ones: {', '.join(SORTS)}")
        ages = [age for age in request.chosen.get("age", ()) if age not in AGES]
        if ages:
            raise UsageError(f"{ages[0]!r} is no age", hint=f"valid ones: {', '.join(AGES)}")
        return index.ask(self.root, lambda connection: self._page(connection, request, embedding))

    def tags(self, begin: str, limit: int) -> list[tuple[str, int]]:
        """Return tags that contain some letters, those that begin with them first, then the most frequent."""
        part = begin.strip().lstrip("#").lower()

        def question(connection: sqlite3.Connection) -> list[tuple[str, int]]:
            view = self._view(connection)
            counts: Counter[str] = Counter()
            for number, several in Counter(view.shape_of.values()).items():
                for tag in view.shapes[number].tag:
                    if part in tag:
                        counts[tag] += several
            return sorted(counts.items(), key=lambda pair: (not pair[0].startswith(part), -pair[1], pair[0]))[:limit]

        return index.ask(self.root, question)

    def sizes(self) -> tuple[int, int]:
        """Return how many records are listed without a filter, and how many tasks there are."""

        def question(connection: sqlite3.Connection) -> tuple[int, int]:
            return len(self._view(connection).everything({})[0]), sessions.count_tasks(connection)

        return index.ask(self.root, question)

    def _page(self, connection: sqlite3.Connection, request: ListRequest, embedding: "Embedding | None") -> RecordList:
        view = self._view(connection)
        own: Collection[int] | None = None
        if request.task:
            if self._owners is None or self._owners[0] is not view:
                self._owners = (view, queries.tasks_of(connection, list(view.created)))
            own = {key for key, owner in self._owners[1].items() if owner == request.task}
        end = request.offset + request.limit
        if not request.text.strip():
            if own is None:
                order, counts = view.everything(request.chosen)
            else:
                order, counts = view.counts([key for key in view.newest if key in own], request.chosen)
            order = order[::-1] if request.sort == "oldest" else order
            return RecordList(self._rows(connection, order[request.offset : end]), len(order), counts)
        hits = self._hits(connection, view, request, own, embedding)
        passing, counts = view.counts(hits.keys, request.chosen)
        if not hits.best or hits.ranking is None:
            passing = list(hits.best)
        total = len(passing)
        if request.sort in ("newest", "oldest"):
            order = sorted(passing, key=view.position.__getitem__, reverse=request.sort == "oldest")
        else:
            order, total = list(hits.best), total - len(hits.records) + len(hits.best)
            if end > len(order) and total > len(order) and hits.match:
                more = lookup.matching(connection, hits.match, STANDARD.fields, end + len(hits.records), hits.keep)
                order += [key for key, _ in more if key not in hits.records]
        found = RecordList(self._rows(connection, order[request.offset : end], hits), total, counts, hits.notes)
        return found if total or request.chosen else self._prefix_page(connection, view, request, own) or found

    def _prefix_page(
        self, connection: sqlite3.Connection, view: FacetView, request: ListRequest, own: Collection[int] | None
    ) -> RecordList | None:
        """Return what has a word that begins with the letters typed so far, the newest first."""
        letters = terms.fold(request.text).split()
        if len(letters) != 1 or not letters[0].isalnum() or request.text[-1:].isspace():
            return None
        keys = [key for key in queries.matching_keys(connection, f'"{letters[0]}"*') if key in view.created]
        passing, counts = view.counts([key for key in keys if own is None or key in own], request.chosen)
        if not passing:
            return None
        order = sorted(passing, key=view.position.__getitem__, reverse=request.sort == "oldest")
        shown = self._rows(connection, order[request.offset : request.offset + request.limit])
        return RecordList(shown, len(order), counts, (f"Words that begin with {letters[0]!r}, newest first.",))

    def _hits(
        self,
        connection: sqlite3.Connection,
        view: FacetView,
        request: ListRequest,
        own: Collection[int] | None,
        embedding: "Embedding | None",
    ) -> _Hits:
        text = request.text.strip()
        if queries.key_of(connection, text) is not None or ids.date_of(text):  # an id also finds archived records
            keys = [key for key in queries.keys_of(connection, text) if own is None or key in own]
            records = queries.records(connection, [key for key in keys if key in view.created])
            best = {key: (Hit(record, 1.0, ("id",)), 1) for key, record in records.items()}
            return _Hits(tuple(records), records, best=best)
        warnings: list[str] = []
        near = None
        if embedding is not None:
            near = meaning.meaning_for(self.root, embedding, connection, Query(text), warnings.append)
        keep = _sql_filter(connection, view, request, own)
        ranking = rank(connection, text, today=ids.today(), keep=keep, limit=MAX_RANKED, meaning=near)
        ranked = [row for row in ranking.best if row.matched or row.link or row.close >= STANDARD.close]
        records = queries.records(connection, [row.row.key for row in ranked])
        hits = [Hit(records[row.row.key], round(row.score, 4)) for row in ranked if row.row.key in records]
        notes = outdated.describe_outdated(connection, [hit.record for hit in hits])
        merged = merge_repeats(outdated.demote_outdated(outdated.demote_stale(self.root, hits), notes))
        key_of = {id(record): key for key, record in records.items()}
        match = " OR ".join(f'"{term}"' for term in question.rarest_terms(ranking.words, STANDARD.common))
        matching = (
            queries.matching_keys(connection, match) if match and (ranked or any(request.chosen.values())) else []
        )
        return _Hits(
            tuple({key for key in matching if key in view.created and (own is None or key in own)} | records.keys()),
            records,
            {row.row.key: row for row in ranked},
            {key_of[id(hit.record)]: (hit, 1 + len(others)) for hit, others in merged},
            ranking,
            match,
            keep,
            notes,
            (*_replacement_notes(ranking, hits), *warnings),
        )

    def _rows(
        self, connection: sqlite3.Connection, keys: Sequence[int], hits: _Hits = _NO_HITS
    ) -> tuple[RecordRow, ...]:
        records = {**hits.records, **queries.records(connection, [key for key in keys if key not in hits.records])}
        keys = [key for key in keys if key in records]
        locations, owners = queries.locations(connection, keys), queries.tasks_of(connection, keys)
        others = [records[key] for key in keys if hits.ranking is None or key not in hits.records]
        stale = outdated.citation_notes(self.root, [records[key] for key in keys])
        notes = {**hits.outdated, **outdated.describe_outdated(connection, others)}
        reasons = _reasons(connection, keys, hits)
        listed: list[RecordRow] = []
        for key in keys:
            record = records[key]
            hit, count = hits.best.get(key, (None, 1))
            problems = (stale.get(record.id, ""), notes.get(record.id, ""))
            why = (*reasons.get(key, ()), *(each for each in (hit.why if hit else ()) if each not in problems))
            owner = record.origin.task or owners.get(key, "")
            score = hit.score if hit is not None else None
            cost = tokens.estimate(record.text)
            listed.append(RecordRow(record, *locations[key], owner, cost, score, why, count, *problems))
        return tuple(listed)


def _sql_filter(
    connection: sqlite3.Connection, view: FacetView, request: ListRequest, own: Collection[int] | None
) -> "Filter":
    """Return the filter of the ranking: SQLite asks for each key whether it passes the chosen facets."""
    if own is None and not any(request.chosen.values()):
        return lookup.EVERYTHING
    keys = view.created.keys() if own is None else view.created.keys() & own
    passing = frozenset(view.passing(keys, request.chosen))
    connection.create_function(_FILTER_FUNCTION, 1, passing.__contains__, deterministic=True)
    return [(number, f"{_FILTER_FUNCTION}({key})", ()) for number, (_, key) in enumerate(lookup.TABLES)]


def _reasons(connection: sqlite3.Connection, keys: Sequence[int], hits: _Hits) -> dict[int, tuple[str, ...]]:
    """Return which of the terms each record has, and where."""
    if hits.ranking is None:
        return {}
    words, today = hits.ranking.words, ids.today()
    ranked = dict(hits.ranked)
    others = [key for key in keys if key not in ranked]
    for key, row in lookup.fetch_rows(connection, others).items() if others else ():
        ranked[key] = RankedRow(row)
        ranked[key].matched = match_words(row, words)
    return {key: tuple(explain(ranked[key], words, today)) for key in keys if key in ranked}


def _replacement_notes(ranking: Ranking, hits: Sequence[Hit]) -> list[str]:
    """Return a note for each term that occurs nowhere, with the terms that were searched instead."""
    replaced = [(each.word, tuple(each.counts)) for each in ranking.words if each.replaced and hits]
    readable = [(word, readable_terms(counts, hits)) for word, counts in replaced]
    return [f"nothing has {word!r}; looked for {', '.join(other[:5])} instead" for word, other in readable if other]
