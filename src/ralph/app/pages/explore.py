"""Everything that is remembered, page by page: what the Memory Explorer shows while somebody types.

With words it is the ranking of `ralph search`: the best are judged as there, with what is stale or superseded behind
what holds; what else has one of the words follows in the order of its full-text score, so that a list of thousands can
be walked through and every page of it is the same whoever asks. Each row says where its record stands, so that nothing
passes for true that is not. Without words it is everything, the newest first. Facets are counted over all of it
(`app/pages/explore.py`), each under what is chosen of the others. Nothing is read from the records' files.
`tests/app/pages/test_explore.py` compares with the slow way; `tests/web/test_records.py` over HTTP.
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
from ralph.app.search import merge_repeats
from ralph.context import tokens
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.query import Hit, Query
from ralph.model.record import Record, Status
from ralph.search import engine, question, terms
from ralph.search.rank import STANDARD, RankedRow, Ranking, explain, rank
from ralph.store import lookup, queries, sessions
from ralph.store.queries import FacetValues, SourceState

# NOTE: What facets count of every record, in memory, in step with the index.

_SHAPE_FACETS = ("family", "kind", "tag", "scope", "source", "status")
FACETS = (*_SHAPE_FACETS, "age")
AGES = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}
MAX_FACET_VALUES = 40
"""So many values of a facet are told, the most frequent ones; what is chosen is always among them."""

_CACHED_COUNTS = 64
_MAX_UNUSED_SHAPES = 1000
"""Shapes that no record has any more are forgotten once they are so many more than the records."""
_VISIBLE_STATUSES = frozenset(status.value for status in Status if status is not Status.RETIRED)
"""What is retired is shown only to who asks for it."""

FacetFilter = Mapping[str, Collection[str]]
"""The values that were chosen of each facet; a facet without any lets everything through."""

FacetCounts = Mapping[str, Sequence[tuple[str, int]]]
"""Each facet's values with the number of records that have them."""


@dataclass(frozen=True)
class FacetView:
    """Every record of one state of the index: the number of its shape, and its time."""

    stands: Mapping[int, SourceState]
    sizes: tuple[int, ...]
    keys: Mapping[int, tuple[int, ...]]
    shape_of: Mapping[int, int]
    created: Mapping[int, str]
    shapes: tuple[FacetValues, ...]
    _counted: dict[object, tuple[list[int], FacetCounts]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def newest(self) -> tuple[int, ...]:
        """All keys, the newest first; of one time, the last in its file."""
        created, shapes, shape_of = self.created, self.shapes, self.shape_of
        return tuple(sorted(created, key=lambda key: (created[key], shapes[shape_of[key]].source, key), reverse=True))

    @cached_property
    def position(self) -> Mapping[int, int]:
        """The place of each key among the newest."""
        return {key: place for place, key in enumerate(self.newest)}

    def everything(self, chosen: FacetFilter) -> tuple[list[int], FacetCounts]:
        """All records that pass, the newest first, and the counts; remembered, since every visit begins with it."""
        asked = (
            date_days_ago(0),
            *((facet, tuple(sorted(values))) for facet, values in sorted(chosen.items()) if values),
        )
        if asked not in self._counted:
            if len(self._counted) >= _CACHED_COUNTS:
                self._counted.clear()
            self._counted[asked] = self.counts(self.newest, chosen)
        return self._counted[asked]

    def passing(self, keys: Iterable[int], chosen: FacetFilter) -> list[int]:
        """Those of some keys that pass every facet; what is retired only where that is chosen."""
        return self._passing(self._young(keys, chosen), self._fitting(chosen))

    def counts(self, keys: Collection[int], chosen: FacetFilter) -> tuple[list[int], FacetCounts]:
        """Those of some keys that pass, and each facet's values, counted under what is chosen of the others.

        Keys are counted by their shapes once, and shapes, which are few, by their values.
        """
        young = self._young(keys, chosen)
        fitting = self._fitting(chosen)
        by_shape = Counter(map(self.shape_of.__getitem__, young))
        found: dict[str, Sequence[tuple[str, int]]] = {}
        for facet in _SHAPE_FACETS:
            under = self._fitting(chosen, but=facet)
            found[facet] = _top_values(self._values(by_shape, under, facet), facet, chosen.get(facet, ()))
        passing = self._passing(young, fitting)
        found["age"] = self._ages(passing if young is keys else self._passing(keys, fitting))
        return passing, found

    def _young(self, keys: Iterable[int], chosen: FacetFilter) -> Iterable[int]:
        """Those of some keys that are not too old; all, when no age is chosen."""
        days = [AGES[age] for age in chosen.get("age", ()) if age in AGES]
        if not days:
            return keys
        position, first = self.position, self._newer(date_days_ago(max(days)))
        return [key for key in keys if position[key] < first]

    def _fitting(self, chosen: FacetFilter, *, but: str = "") -> Collection[int]:
        """The numbers of the shapes that pass every facet but one."""
        limits = {"status": _VISIBLE_STATUSES, **{facet: values for facet, values in chosen.items() if values}}
        found: Iterable[int] = range(len(self.shapes))
        for facet, values in limits.items():
            if facet in _SHAPE_FACETS and facet != but:
                found = [number for number in found if _has_facet_value(self.shapes[number], facet, values)]
        return found if isinstance(found, range) else set(found)

    def _passing(self, keys: Iterable[int], fitting: Collection[int]) -> list[int]:
        if len(fitting) == len(self.shapes):
            return list(keys)
        shape_of = self.shape_of
        return [key for key in keys if shape_of[key] in fitting]

    def _values(self, by_shape: Mapping[int, int], fitting: Collection[int], facet: str) -> Counter[str]:
        count: Counter[str] = Counter()
        for number, several in by_shape.items():
            if number in fitting:
                value = getattr(self.shapes[number], facet)
                for each in value if facet == "tag" else (value,):
                    count[each] += several
        return count

    def _ages(self, keys: Iterable[int]) -> list[tuple[str, int]]:
        """How many are not older than so many days: those that stand before a place among the newest."""
        places = list(map(self.position.__getitem__, keys))
        return [(age, sum(map(self._newer(date_days_ago(days)).__gt__, places))) for age, days in AGES.items()]

    def _newer(self, day: str) -> int:
        """How many records in all are of this day or newer."""
        return bisect_left(self.newest, True, key=lambda key: self.created[key] < day)


_EMPTY_VIEW = FacetView({}, (), {}, {}, {}, ())


class FacetCache:
    """The view of the index as somebody last saw it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view = _EMPTY_VIEW

    def view(self, connection: sqlite3.Connection) -> FacetView:
        """Every record as this connection sees it."""
        stands, sizes = queries.source_states(connection), queries.table_sizes(connection)
        with self._lock:
            old = self._view
        if (old.stands, old.sizes) == (stands, sizes) and all(stand.mtime_ns for stand in stands.values()):
            return old
        made = _refresh_view(old, connection, stands, sizes)
        with self._lock:
            self._view = made
        return made


def _refresh_view(
    old: FacetView, connection: sqlite3.Connection, stands: Mapping[int, SourceState], sizes: tuple[int, ...]
) -> FacetView:
    """The view of another state; only sources that are not as they were are read."""
    same = {key for key, stand in stands.items() if stand.mtime_ns and old.stands.get(key) == stand}
    made = _build_view(old, same, connection, stands, sizes)
    whole = len(made.created) == sum(sizes[::2]) and len(made.shapes) <= _MAX_UNUSED_SHAPES + 2 * len(made.created)
    return made if whole else _build_view(_EMPTY_VIEW, set(), connection, stands, sizes)


def _build_view(
    old: FacetView,
    same: set[int],
    connection: sqlite3.Connection,
    stands: Mapping[int, SourceState],
    sizes: tuple[int, ...],
) -> FacetView:
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
    placed = {source: tuple(numbers) for source, numbers in keys.items()}
    return FacetView(stands, sizes, placed, shape_of, created, tuple(known))


def date_days_ago(days: int) -> str:
    """The day so many days ago."""
    return (ids.now() - timedelta(days=days)).date().isoformat()


def _has_facet_value(shape: FacetValues, facet: str, values: Collection[str]) -> bool:
    if facet == "tag":
        return any(value.lower() in shape.tag for value in values)
    return getattr(shape, facet) in values


def _top_values(count: Counter[str], facet: str, chosen: Collection[str]) -> list[tuple[str, int]]:
    """The values of a facet that most records have."""
    best = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
    named = {value.lower() if facet == "tag" else value for value in chosen}
    told = best[:MAX_FACET_VALUES] + [pair for pair in best[MAX_FACET_VALUES:] if pair[0] in named]
    return told + [(value, 0) for value in sorted(named - {value for value, _ in told})]


if TYPE_CHECKING:
    from ralph.settings import Embedding
    from ralph.store.lookup import Filter

MAX_RANKED = 60
"""So many of the best are judged; what follows has a word of the question, and no score."""

SORTS = ("relevance", "newest", "oldest")
_FILTER_FUNCTION = "explored"
"""The name under which SQLite asks whether a key passes what was chosen."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What somebody wants to see: words, the values chosen of each facet, a task's own, the order, and which page."""

    text: str = ""
    chosen: FacetFilter = field(default_factory=dict)
    task: str = ""
    sort: str = ""
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record in a list: where it stands, whose it is, what it costs, why it is there, and what is wrong with it.

    `past` says why it no longer holds ("superseded by X", "expired 2025-06-01"), `stale` what it cites that is not so.
    """

    record: Record
    source: str
    line: int
    task: str
    tokens: int
    score: float | None = None
    why: tuple[str, ...] = ()
    count: int = 1
    stale: str = ""
    past: str = ""

    @property
    def superseded_by(self) -> str:
        """The id of what took its place."""
        return self.past.removeprefix(_SUPERSEDED) if self.past.startswith(_SUPERSEDED) else ""

    @property
    def expired(self) -> str:
        """Its last day, when that is over."""
        return self.past.removeprefix(_EXPIRED) if self.past.startswith(_EXPIRED) else ""


_SUPERSEDED, _EXPIRED = "superseded by ", "expired "
"""How `outdated.notes` begins."""


@dataclass(frozen=True, slots=True)
class RecordList:
    """Some rows of a list, how long the whole is, how its facets count, and what a reader should know about it."""

    rows: tuple[RecordRow, ...]
    total: int
    facets: FacetCounts
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Hits:
    """What words found: all keys, those that were judged, and of these the best in their order with how many are alike.

    `ranked` has the words as they were understood; None for an id.
    """

    keys: tuple[int, ...] = ()
    held: Mapping[int, Record] = field(default_factory=dict)
    judged: Mapping[int, RankedRow] = field(default_factory=dict)
    best: tuple[tuple[int, Hit, int], ...] = ()
    ranked: Ranking | None = None
    match: str = ""
    keep: "Filter" = ()
    past: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


_NO_HITS = _Hits()


class Explorer:
    """A project's records, ready to be leafed through; one for as long as somebody looks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._catalogue = FacetCache()
        self._owners: tuple[FacetView, Mapping[int, str]] | None = None

    def page(self, wanted: ListRequest, *, embedding: "Embedding | None" = None) -> RecordList:
        """The rows that are wanted."""
        _check_request(wanted)
        return index.ask(self.root, lambda connection: self._page(connection, wanted, embedding))

    def tags(self, begin: str, limit: int) -> list[tuple[str, int]]:
        """Tags that contain some letters, those that begin with them first, the most frequent first."""
        part = begin.strip().lstrip("#").lower()

        def question(connection: sqlite3.Connection) -> list[tuple[str, int]]:
            counts: dict[str, int] = {}
            view = self._catalogue.view(connection)
            for shape in view.shape_of.values():
                for tag in view.shapes[shape].tag:
                    if part in tag:
                        counts[tag] = counts.get(tag, 0) + 1
            return sorted(counts.items(), key=lambda pair: (not pair[0].startswith(part), -pair[1], pair[0]))[:limit]

        return index.ask(self.root, question)

    def sizes(self) -> tuple[int, int]:
        """How many records are offered, and how many tasks there are."""

        def question(connection: sqlite3.Connection) -> tuple[int, int]:
            tasks = sessions.count_tasks(connection)
            return len(self._catalogue.view(connection).everything({})[0]), tasks

        return index.ask(self.root, question)

    def _page(self, connection: sqlite3.Connection, wanted: ListRequest, embedding: "Embedding | None") -> RecordList:
        view = self._catalogue.view(connection)
        own = self._of_task(connection, view, wanted.task) if wanted.task else None
        if not wanted.text.strip():
            if own is None:
                order, counts = view.everything(wanted.chosen)
            else:
                order, counts = view.counts([key for key in view.newest if key in own], wanted.chosen)
            order = order[::-1] if wanted.sort == "oldest" else order
            keys = order[wanted.offset : wanted.offset + wanted.limit]
            return RecordList(self._rows(connection, keys), len(order), counts)
        found = self._searched(connection, view, wanted, own, embedding)
        return found if found.total or wanted.chosen else self._begun(connection, view, wanted, own) or found

    def _begun(
        self, connection: sqlite3.Connection, view: FacetView, wanted: ListRequest, own: Collection[int] | None
    ) -> RecordList | None:
        """What has a word that begins with the letters typed so far, newest first: it may not be typed out yet."""
        letters = terms.fold(wanted.text).split()
        if len(letters) != 1 or not letters[0].isalnum() or wanted.text[-1:].isspace():
            return None
        keys = [key for key in queries.matching_keys(connection, f'"{letters[0]}"*') if key in view.created]
        passing, counts = view.counts([key for key in keys if own is None or key in own], wanted.chosen)
        if not passing:
            return None
        order = sorted(passing, key=view.position.__getitem__, reverse=wanted.sort == "oldest")
        shown = self._rows(connection, order[wanted.offset : wanted.offset + wanted.limit])
        return RecordList(shown, len(order), counts, (f"Words that begin with {letters[0]!r}, newest first.",))

    def _searched(
        self,
        connection: sqlite3.Connection,
        view: FacetView,
        wanted: ListRequest,
        own: Collection[int] | None,
        embedding: "Embedding | None",
    ) -> RecordList:
        hits = self._hits(connection, view, wanted, own, embedding)
        known = {key: (hit, count) for key, hit, count in hits.best}
        passing, counts = view.counts(hits.keys, wanted.chosen)
        if not known or hits.ranked is None:
            passing = list(known)
        total = len(passing)
        if wanted.sort in ("newest", "oldest"):
            order = sorted(passing, key=view.position.__getitem__, reverse=wanted.sort == "oldest")
        else:
            order, total = list(known), total - len(hits.held) + len(known)
            if wanted.offset + wanted.limit > len(order) and total > len(order):
                order += _unranked_keys(connection, hits, wanted.offset + wanted.limit)
        keys = order[wanted.offset : wanted.offset + wanted.limit]
        shown = self._rows(connection, keys, hits)
        return RecordList(shown, total, counts, hits.notes)

    def _hits(
        self,
        connection: sqlite3.Connection,
        view: FacetView,
        wanted: ListRequest,
        own: Collection[int] | None,
        embedding: "Embedding | None",
    ) -> _Hits:
        """What the words find, with the best of it in order."""
        text = wanted.text.strip()
        if queries.key_of(connection, text) is not None or ids.date_of(text):
            return self._named(connection, view, wanted, own)
        told: list[str] = []
        near = None
        if embedding is not None:
            near = meaning.meaning_for(self.root, embedding, connection, Query(text), told.append)
        keep = _filter(connection, view, wanted, own)
        ranked = rank(connection, text, today=ids.today(), keep=keep, limit=MAX_RANKED, meaning=near)
        judged = [each for each in ranked.best if each.matched or each.link or each.close >= STANDARD.close]
        held = queries.records(connection, [each.row.key for each in judged])
        hits = [Hit(held[each.row.key], round(each.score, 4)) for each in judged if each.row.key in held]
        past = outdated.describe_outdated(connection, [hit.record for hit in hits])
        best = merge_repeats(outdated.demote_outdated(outdated.demote_stale(self.root, hits), past))
        key_of = {id(held[key]): key for key in held}
        placed = tuple((key_of[id(hit.record)], hit, 1 + len(others)) for hit, others in best)
        match = " OR ".join(f'"{term}"' for term in question.rarest_terms(ranked.words, STANDARD.common))
        some = bool(match and (judged or any(wanted.chosen.values())))
        found = queries.matching_keys(connection, match) if some else []
        keys = {key for key in found if key in view.created and (own is None or key in own)} | held.keys()
        by_key = {each.row.key: each for each in judged}
        return _Hits(
            tuple(keys), held, by_key, placed, ranked, match, keep, past, (*_replacement_notes(ranked, hits), *told)
        )

    def _named(
        self, connection: sqlite3.Connection, view: FacetView, wanted: ListRequest, own: Collection[int] | None
    ) -> _Hits:
        """The records that have this very id; whoever knows it may see them also when they are retired."""
        keys = [key for key in queries.keys_of(connection, wanted.text.strip()) if own is None or key in own]
        held = queries.records(connection, [key for key in keys if key in view.created])
        best = tuple((key, Hit(record, 1.0, ("id",)), 1) for key, record in held.items())
        return _Hits(tuple(held), held, best=best)

    def _of_task(self, connection: sqlite3.Connection, view: FacetView, task: str) -> Collection[int]:
        """The keys of what is a task's own."""
        if self._owners is None or self._owners[0] is not view:
            self._owners = (view, queries.tasks_of(connection, list(view.created)))
        return {key for key, owner in self._owners[1].items() if owner == task}

    def _rows(
        self, connection: sqlite3.Connection, keys: Sequence[int], hits: _Hits = _NO_HITS
    ) -> tuple[RecordRow, ...]:
        """Records as a list shows them."""
        known = {key: (hit, count) for key, hit, count in hits.best}
        held = {**hits.held, **queries.records(connection, [key for key in keys if key not in hits.held])}
        places, owners = queries.locations(connection, keys), queries.tasks_of(connection, keys)
        shown = [held[key] for key in keys if key in held]
        others = shown if hits.ranked is None else [held[key] for key in keys if key in held and key not in hits.held]
        stale, past = (
            outdated.citation_notes(self.root, shown),
            {**hits.past, **outdated.describe_outdated(connection, others)},
        )
        reasons = _reasons(connection, keys, hits)
        found: list[RecordRow] = []
        for key in keys:
            if key in held:
                record = held[key]
                hit, count = known.get(key, (None, 1))
                wrong = (stale.get(record.id, ""), past.get(record.id, ""))
                own = () if hit is None else (each for each in hit.why if each not in wrong)
                because = (*reasons.get(key, ()), *own)
                cost, score = tokens.estimate(record.text), hit.score if hit is not None else None
                owner = record.origin.task or owners.get(key, "")
                found.append(RecordRow(record, *places[key], owner, cost, score, because, count, *wrong))
        return tuple(found)


def _check_request(wanted: ListRequest) -> None:
    if wanted.sort and wanted.sort not in SORTS:
        raise UsageError(f"{wanted.sort!r} is no order", hint=f"valid ones: {', '.join(SORTS)}")
    ages = [age for age in wanted.chosen.get("age", ()) if age not in AGES]
    if ages:
        raise UsageError(f"{ages[0]!r} is no age", hint=f"valid ones: {', '.join(AGES)}")


def _filter(
    connection: sqlite3.Connection, view: FacetView, wanted: ListRequest, own: Collection[int] | None
) -> "Filter":
    """What the ranking may see: SQLite asks for each key that it meets whether it is among those that pass."""
    if own is None and not any(wanted.chosen.values()):
        return lookup.EVERYTHING
    keys = view.created.keys() if own is None else view.created.keys() & own
    passing = frozenset(view.passing(keys, wanted.chosen))
    connection.create_function(_FILTER_FUNCTION, 1, passing.__contains__, deterministic=True)
    return [(place, f"{_FILTER_FUNCTION}({key})", ()) for place, (_, key) in enumerate(lookup.TABLES)]


def _unranked_keys(connection: sqlite3.Connection, hits: _Hits, most: int) -> list[int]:
    """What has a word of the question and was not judged, in the order of its full-text score, as far as wanted."""
    if not hits.match:
        return []
    found = lookup.matching(connection, hits.match, STANDARD.fields, most + len(hits.held), hits.keep)
    return [key for key, _ in found if key not in hits.held]


def _reasons(connection: sqlite3.Connection, keys: Sequence[int], hits: _Hits) -> dict[int, tuple[str, ...]]:
    """Why records are there: which of the words they have, and where."""
    if hits.ranked is None:
        return {}
    words, today = hits.ranked.words, ids.today()
    judged = dict(hits.judged)
    others = [key for key in keys if key not in judged]
    for key, row in lookup.fetch_rows(connection, others).items() if others else ():
        judged[key] = RankedRow(row)
        text = terms.TermMatcher(f"{row.title} {row.tags} {row.files} {row.id} {row.text}")
        judged[key].matched = {each.word: share for each in words if (share := each.match(text))}
    return {key: tuple(explain(judged[key], words, today)) for key in keys if key in judged}


def _replacement_notes(ranked: Ranking, hits: Sequence[Hit]) -> list[str]:
    """Which words occur nowhere, and what was looked for instead."""
    spoken = (
        (each.word, engine.readable_terms(tuple(each.counts), hits)) for each in ranked.words if each.replaced and hits
    )
    return [f"nothing has {word!r}; looked for {', '.join(others[:5])} instead" for word, others in spoken if others]
