"""Lists records page by page for the Memory Explorer, with a count for every value of each facet.

A search uses the ranking of `ralph search` for the best hits; the rest follows by its full-text score. Each facet is
counted under the choices of the others, from a view that is cached until the index changes.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralph.app import index, meaning, outdated
from ralph.app.json_shapes import STATUS_WORDS, record_json
from ralph.app.search import merge_repeats
from ralph.context import tokens
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.record import Hit, Query, Record, Status
from ralph.search import question
from ralph.search.rank import (
    STANDARD,
    WEAK,
    RankedRow,
    Ranking,
    describe_replacements,
    explain,
    match_words,
    rank,
    replacements,
)
from ralph.store import lookup, queries, sessions
from ralph.store.queries import FacetValues

if TYPE_CHECKING:
    from ralph.settings import Embedding
    from ralph.store.lookup import Filter

FACETS = (*FacetValues._fields, "age")
AGES = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}
SORTS = ("relevance", "newest", "oldest")
_ARCHIVED = STATUS_WORDS[Status.RETIRED]
MAX_FACET_VALUES = 40
"""The most frequent values of a facet that are listed; chosen values are always listed."""
MAX_RANKED = 60
"""The hits that are ranked in full; the rest of the list is in full-text order and has no score."""
PREVIEW_LENGTH = 280
_FILTER_FUNCTION = "explored"

FacetFilter = Mapping[str, Collection[str]]
"""The chosen values of each facet; a facet without any lets everything through."""
Shape = Mapping[str, Sequence[str]]
"""The values of a record in each facet but its age."""
FacetCounts = dict[str, list[tuple[str, int]]]
Page = dict[str, Any]
"""One page of a list: `items`, `total`, `facets`, and `notes` for the reader."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A search text, the chosen values of each facet, a task, the order, and the page."""

    text: str = ""
    chosen: FacetFilter = field(default_factory=dict)
    task: str = ""
    sort: str = ""
    limit: int = 100
    offset: int = 0


def record_row(
    record: Record,
    location: tuple[str, int],
    task: str,
    *,
    score: float | None = None,
    why: Sequence[str] = (),
    count: int = 1,
    stale: str = "",
    past: str = "",
    full: bool = False,
) -> dict[str, Any]:
    """Return a record for a list, or in full; `stale` names a wrong citation, `past` says why it no longer holds."""
    source, line = location
    text = record.text
    return {
        **record_json(record, f"{source}:{line}" if line else source),
        "text": text if full else " ".join(text[: PREVIEW_LENGTH * 4].split())[:PREVIEW_LENGTH],
        "family": record.family.value,
        "scope": record.scope.value,
        "task": record.origin.task or task,
        "session": record.origin.session,
        "tokens": tokens.estimate(text),
        "score": score,
        "why": why,
        "count": count,
        "stale": stale,
        "superseded_by": past.removeprefix("superseded by ") if past.startswith("superseded by ") else "",
        "expired": past.removeprefix("expired ") if past.startswith("expired ") else "",
    }


@dataclass(frozen=True)
class FacetView:
    """Every record of one state of the index: its time, its facet values, and its position from the newest."""

    stamp: object
    created: Mapping[int, str]
    shape_of: Mapping[int, int]
    shapes: Sequence[Shape]
    position: Mapping[int, int]

    def passing(self, keys: Iterable[int], chosen: FacetFilter) -> list[int]:
        """Return the keys that pass every facet; archived records pass only where that is chosen."""
        fitting, shape_of = self._fitting(chosen), self.shape_of
        return [key for key in self._young(keys, chosen) if shape_of[key] in fitting]

    def counts(self, keys: Collection[int], chosen: FacetFilter) -> tuple[list[int], FacetCounts]:
        """Return the keys that pass, and the values of each facet, counted under the choices of the others."""
        by_shape = Counter(map(self.shape_of.__getitem__, self._young(keys, chosen)))
        facets: FacetCounts = {}
        usual = self._fitting(chosen)
        for facet in FacetValues._fields:
            fitting = self._fitting(chosen, but=facet) if facet in (*chosen, "status") else usual
            count: Counter[str] = Counter()
            for number, several in by_shape.items():
                if number in fitting:
                    for value in self.shapes[number][facet]:
                        count[value] += several
            best = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
            values = set(chosen.get(facet, ()))
            top = best[:MAX_FACET_VALUES] + [pair for pair in best[MAX_FACET_VALUES:] if pair[0] in values]
            facets[facet] = top + [(value, 0) for value in sorted(values - {value for value, _ in top})]
        of_any_age = self.passing(keys, {facet: values for facet, values in chosen.items() if facet != "age"})
        days = Counter(self.created[key][:10] for key in of_any_age)
        first_days = {age: ids.first_day(count) for age, count in AGES.items()}
        facets["age"] = [
            (age, sum(several for day, several in days.items() if day >= first)) for age, first in first_days.items()
        ]
        return self.passing(of_any_age, chosen) if "age" in chosen else of_any_age, facets

    def _young(self, keys: Iterable[int], chosen: FacetFilter) -> Iterable[int]:
        if "age" not in chosen:
            return keys
        first = ids.first_day(max(AGES[age] for age in chosen["age"]))
        return [key for key in keys if self.created[key] >= first]

    def _fitting(self, chosen: FacetFilter, *, but: str = "") -> Collection[int]:
        required = {facet: values for facet, values in chosen.items() if facet not in (but, "age")}
        hide_archived = but != "status" and "status" not in required
        return {
            number
            for number, shape in enumerate(self.shapes)
            if not (hide_archived and _ARCHIVED in shape["status"])
            and all(any(value in values for value in shape[facet]) for facet, values in required.items())
        }


def _facets_of(values: FacetValues) -> Shape:
    facets = values._replace(status=STATUS_WORDS.get(values.status, values.status))._asdict()
    return {facet: value if facet == "tag" else (value,) for facet, value in facets.items()}


class Explorer:
    """The records of a project, listed; one for the lifetime of a server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._cached_view = FacetView(None, {}, {}, (), {})

    def _view(self, connection: sqlite3.Connection) -> FacetView:
        states = queries.source_states(connection)
        stamp = (states, queries.table_sizes(connection))
        # an index in memory has no times, so its view is never the same
        if self._cached_view.stamp == stamp and all(state.mtime_ns for state in states.values()):
            return self._cached_view
        shapes: dict[FacetValues, int] = {}
        shape_of: dict[int, int] = {}
        order: list[tuple[str, str, int]] = []
        for key, shape, created in queries.facet_values(connection):
            shape_of[key] = shapes.setdefault(shape, len(shapes))
            order.append((created, shape.source, key))
        order.sort(reverse=True)
        created_at = {key: created for created, _, key in order}
        position = {key: number for number, key in enumerate(created_at)}
        self._cached_view = FacetView(stamp, created_at, shape_of, [_facets_of(each) for each in shapes], position)
        return self._cached_view

    def page(self, request: ListRequest, *, embedding: "Embedding | None" = None) -> Page:
        """Return one page; UsageError for an unknown order or age."""
        if request.sort and request.sort not in SORTS:
            raise UsageError(f"{request.sort!r} is no order", hint=f"valid ones: {', '.join(SORTS)}")
        ages = [age for age in request.chosen.get("age", ()) if age not in AGES]
        if ages:
            raise UsageError(f"{ages[0]!r} is no age", hint=f"valid ones: {', '.join(AGES)}")
        chosen = {facet: set(values) for facet, values in request.chosen.items() if values}
        if "tag" in chosen:
            chosen["tag"] = {tag.lower() for tag in chosen["tag"]}
        request = replace(request, chosen=chosen)

        def ask(connection: sqlite3.Connection) -> Page:
            listing = _Listing(self.root, connection, self._view(connection), request)
            return listing.search(embedding) if request.text.strip() else listing.everything()

        return index.ask(self.root, ask)

    def tags(self, begin: str, limit: int) -> list[tuple[str, int]]:
        """Return tags that contain some letters, those that begin with them first, then the most frequent."""
        part = begin.strip().lstrip("#").lower()
        view = index.ask(self.root, self._view)
        counts: Counter[str] = Counter()
        for number, several in Counter(view.shape_of.values()).items():
            for tag in view.shapes[number]["tag"]:
                if part in tag:
                    counts[tag] += several
        return sorted(counts.items(), key=lambda pair: (not pair[0].startswith(part), -pair[1], pair[0]))[:limit]

    def sizes(self) -> tuple[int, int]:
        """Return how many records are listed without a filter, and how many tasks there are."""

        def ask(connection: sqlite3.Connection) -> tuple[int, int]:
            view = self._view(connection)
            return len(view.passing(view.created, {})), sessions.count_tasks(connection)

        return index.ask(self.root, ask)


class _Listing:
    def __init__(self, root: Path, connection: sqlite3.Connection, view: FacetView, request: ListRequest) -> None:
        self.root, self.connection, self.view, self.request = root, connection, view, request
        self.keys: Collection[int] = view.created.keys()
        if request.task:
            owners = queries.tasks_of(connection, list(view.created))
            self.keys = {key for key in view.created if owners.get(key) == request.task}

    def everything(self) -> Page:
        """Return a page of all records that pass."""
        passing, facets = self.view.counts([key for key in self.view.position if key in self.keys], self.request.chosen)
        return self._page(self._by_time(passing), len(passing), facets)

    def _by_time(self, keys: Iterable[int]) -> list[int]:
        return sorted(keys, key=self.view.position.__getitem__, reverse=self.request.sort == "oldest")

    def _page(
        self,
        order: Sequence[int],
        total: int,
        facets: FacetCounts,
        notes: Sequence[str] = (),
        hits: Mapping[int, tuple[Hit, int]] | None = None,
        ranking: Ranking | None = None,
    ) -> Page:
        """Return the page of an order; `hits` are the best ones with how many repeat each."""
        connection, best = self.connection, hits or {}
        keys = order[self.request.offset : self.request.offset + self.request.limit]
        records = queries.records(connection, [key for key in keys if key not in best])
        records.update({key: best[key][0].record for key in keys if key in best})
        keys = [key for key in keys if key in records]
        locations, owners = queries.locations(connection, keys), queries.tasks_of(connection, keys)
        stale = outdated.citation_notes(self.root, list(records.values()))
        past = outdated.describe_outdated(connection, list(records.values()))
        reasons = self._reasons(keys, ranking) if ranking is not None else {}
        items = []
        for key in keys:
            record = records[key]
            hit, count = best.get(key, (None, 1))
            problems: dict[str, Any] = {"stale": stale.get(record.id, ""), "past": past.get(record.id, "")}
            why = [*reasons.get(key, ()), *(each for each in (hit.why if hit else ()) if each not in problems.values())]
            score = hit.score if hit is not None else None
            owner = owners.get(key, "")
            items.append(record_row(record, locations[key], owner, score=score, why=why, count=count, **problems))
        return {"items": items, "total": total, "facets": facets, "notes": notes}

    def search(self, embedding: "Embedding | None") -> Page:
        """Return a page of what a text finds: an id, words by rank, or the beginning of a word."""
        connection, request, text = self.connection, self.request, self.request.text.strip()
        if queries.key_of(connection, text) is not None or ids.date_of(text):  # an id also finds archived records
            keys = [key for key in queries.keys_of(connection, text) if key in self.keys]
            records = queries.records(connection, keys)
            by_id = {key: (Hit(record, 1.0, ("id",)), 1) for key, record in records.items()}
            order = list(records) if request.sort in ("", "relevance") else self._by_time(records)
            return self._page(order, len(order), self.view.counts(list(records), request.chosen)[1], hits=by_id)
        notes: list[str] = []
        near = None
        if embedding is not None:
            near = meaning.meaning_for(self.root, embedding, connection, Query(text), notes.append)
        keep = self._sql_filter()
        ranking = rank(connection, text, today=ids.today(), keep=keep, limit=MAX_RANKED, meaning=near)
        ranked = [row for row in ranking.best if row.matched or row.link or row.close > 0]
        records = queries.records(connection, [row.row.key for row in ranked])
        hits = [
            Hit(records[row.row.key], round(row.score, 4), weak=ranking.weak)
            for row in ranked
            if row.row.key in records
        ]
        notes += [WEAK] if hits and ranking.weak else []
        past = outdated.describe_outdated(connection, [hit.record for hit in hits])
        merged = merge_repeats(outdated.demote_outdated(outdated.demote_stale(self.root, hits), past))
        key_of = {id(record): key for key, record in records.items()}
        best = {key_of[id(hit.record)]: (hit, 1 + len(others)) for hit, others in merged}
        match = " OR ".join(f'"{term}"' for term in question.rarest_terms(ranking.words, STANDARD.common))
        is_counted = match and (ranked or request.chosen)
        matching = queries.matching_keys(connection, match) if is_counted else []
        everything = {key for key in matching if key in self.keys} | records.keys()
        passing, facets = self.view.counts(everything, request.chosen)
        if not best:
            passing = []
        if not passing and not request.chosen and (containing := self._containing()) is not None:
            return containing
        if request.sort in ("newest", "oldest"):
            order, total = self._by_time(passing), len(passing)
        else:
            order, total = list(best), len(passing) - len(records) + len(best)
            end = request.offset + request.limit
            if len(order) < min(end, total) and match:
                more = lookup.matching(connection, match, STANDARD.fields, end + len(records), keep)
                order += [key for key, _ in more if key not in records]
        replaced = replacements(connection, ranking.words, keep) if hits else ()
        notes = [*describe_replacements(replaced), *notes]
        return self._page(order, total, facets, notes, best, ranking)

    def _containing(self) -> Page | None:
        text = queries.safe(self.request.text.strip())
        keys = lookup.containing(self.connection, text.split(), lookup.EVERYTHING)
        passing, facets = self.view.counts([key for key in keys if key in self.keys], self.request.chosen)
        if not passing:
            return None
        return self._page(self._by_time(passing), len(passing), facets, [f"Texts that contain {text!r}, newest first."])

    def _sql_filter(self) -> "Filter":
        """Return the filter of the ranking: SQLite asks for each key whether it passes the chosen facets."""
        if not self.request.task and not self.request.chosen:
            return lookup.EVERYTHING
        passing = frozenset(self.view.passing(self.keys, self.request.chosen))
        self.connection.create_function(_FILTER_FUNCTION, 1, passing.__contains__, deterministic=True)
        return [(number, f"{_FILTER_FUNCTION}({key})", ()) for number, (_, key) in enumerate(lookup.TABLES)]

    def _reasons(self, keys: Sequence[int], ranking: Ranking) -> dict[int, tuple[str, ...]]:
        rows = {row.row.key: row for row in ranking.best}
        for key, row in lookup.fetch_rows(self.connection, [key for key in keys if key not in rows]).items():
            rows[key] = RankedRow(row)
            rows[key].matched = match_words(row, ranking.words)
        return {key: tuple(explain(rows[key], ranking.words, ids.today())) for key in keys if key in rows}
