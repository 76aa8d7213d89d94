"""Everything that is remembered, page by page: what the Memory Explorer shows while somebody types.

With words it is the ranking of `ralph search`: the best are judged as there, with what is stale or superseded behind
what holds; what else has one of the words follows in the order of its full-text score, so that a list of thousands can
be walked through and every page of it is the same whoever asks. Each row says where its record stands, so that nothing
passes for true that is not. Without words it is everything, the newest first. Facets are counted over all of it
(`app/pages/catalogue.py`), each under what is chosen of the others. Nothing is read from the records' files.
`tests/app/pages/test_explore.py` compares with the slow way; `tests/web/test_records.py` over HTTP.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.app import check, index, meaning, outdated
from ralph.app.pages.catalogue import AGES, Catalogue, Chosen, Counts, View
from ralph.app.search import once_each
from ralph.context import tokens
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.query import Hit, Query
from ralph.model.record import Record
from ralph.search import engine, question, terms
from ralph.search.rank import STANDARD, RankedRow, Ranking, explain, rank
from ralph.store import facets, lookup, rows

if TYPE_CHECKING:
    from ralph.settings import Embedding
    from ralph.store.lookup import Filter

JUDGED = 60
"""So many of the best are judged; what follows has a word of the question, and no score."""

SORTS = ("relevance", "newest", "oldest")
_PASSES = "explored"
"""The name under which SQLite asks whether a key passes what was chosen."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants to see: words, the values chosen of each facet, a task's own, the order, and which page."""

    text: str = ""
    chosen: Chosen = field(default_factory=dict)
    task: str = ""
    sort: str = ""
    limit: int = 100
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Row:
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
class Page:
    """Some rows of a list, how long the whole is, how its facets count, and what a reader should know about it."""

    rows: tuple[Row, ...]
    total: int
    facets: Counts
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


_NOTHING = _Hits()


class Explorer:
    """A project's records, ready to be leafed through; one for as long as somebody looks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._catalogue = Catalogue()
        self._owners: tuple[View, Mapping[int, str]] | None = None

    def page(self, wanted: Wanted, *, embedding: "Embedding | None" = None) -> Page:
        """The rows that are wanted."""
        _check(wanted)
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
            tasks = int(connection.execute("SELECT count(*) FROM tasks").fetchone()[0])
            return len(self._catalogue.view(connection).everything({})[0]), tasks

        return index.ask(self.root, question)

    def _page(self, connection: sqlite3.Connection, wanted: Wanted, embedding: "Embedding | None") -> Page:
        view = self._catalogue.view(connection)
        own = self._of_task(connection, view, wanted.task) if wanted.task else None
        if not wanted.text.strip():
            if own is None:
                order, counts = view.everything(wanted.chosen)
            else:
                order, counts = view.counts([key for key in view.newest if key in own], wanted.chosen)
            order = order[::-1] if wanted.sort == "oldest" else order
            keys = order[wanted.offset : wanted.offset + wanted.limit]
            return Page(self._rows(connection, keys), len(order), counts)
        found = self._searched(connection, view, wanted, own, embedding)
        return found if found.total or wanted.chosen else self._begun(connection, view, wanted, own) or found

    def _begun(
        self, connection: sqlite3.Connection, view: View, wanted: Wanted, own: Collection[int] | None
    ) -> Page | None:
        """What has a word that begins with the letters typed so far, newest first: it may not be typed out yet."""
        letters = terms.fold(wanted.text).split()
        if len(letters) != 1 or not letters[0].isalnum() or wanted.text[-1:].isspace():
            return None
        keys = [key for key in facets.matching(connection, f'"{letters[0]}"*') if key in view.created]
        passing, counts = view.counts([key for key in keys if own is None or key in own], wanted.chosen)
        if not passing:
            return None
        order = sorted(passing, key=view.position.__getitem__, reverse=wanted.sort == "oldest")
        shown = self._rows(connection, order[wanted.offset : wanted.offset + wanted.limit])
        return Page(shown, len(order), counts, (f"Words that begin with {letters[0]!r}, newest first.",))

    def _searched(
        self,
        connection: sqlite3.Connection,
        view: View,
        wanted: Wanted,
        own: Collection[int] | None,
        embedding: "Embedding | None",
    ) -> Page:
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
                order += _rest(connection, hits, wanted.offset + wanted.limit)
        keys = order[wanted.offset : wanted.offset + wanted.limit]
        shown = self._rows(connection, keys, hits)
        return Page(shown, total, counts, hits.notes)

    def _hits(
        self,
        connection: sqlite3.Connection,
        view: View,
        wanted: Wanted,
        own: Collection[int] | None,
        embedding: "Embedding | None",
    ) -> _Hits:
        """What the words find, with the best of it in order."""
        text = wanted.text.strip()
        if rows.key_of(connection, text) is not None or ids.date_of(text):
            return self._named(connection, view, wanted, own)
        told: list[str] = []
        near = None
        if embedding is not None:
            near = meaning.meaning_for(self.root, embedding, connection, Query(text), told.append)
        keep = _filter(connection, view, wanted, own)
        ranked = rank(connection, text, today=ids.today(), keep=keep, limit=JUDGED, meaning=near)
        judged = [each for each in ranked.best if each.matched or each.link or each.close >= STANDARD.close]
        held = rows.records(connection, [each.row.key for each in judged])
        hits = [Hit(held[each.row.key], round(each.score, 4)) for each in judged if each.row.key in held]
        past = outdated.notes(connection, [hit.record for hit in hits])
        best = once_each(outdated.ranked(check.ranked(self.root, hits), past))
        key_of = {id(held[key]): key for key in held}
        placed = tuple((key_of[id(hit.record)], hit, 1 + len(others)) for hit, others in best)
        match = " OR ".join(f'"{term}"' for term in question.rarest_terms(ranked.words, STANDARD.common))
        some = bool(match and (judged or any(wanted.chosen.values())))
        found = facets.matching(connection, match) if some else []
        keys = {key for key in found if key in view.created and (own is None or key in own)} | held.keys()
        by_key = {each.row.key: each for each in judged}
        return _Hits(tuple(keys), held, by_key, placed, ranked, match, keep, past, (*_instead(ranked, hits), *told))

    def _named(self, connection: sqlite3.Connection, view: View, wanted: Wanted, own: Collection[int] | None) -> _Hits:
        """The records that have this very id; whoever knows it may see them also when they are retired."""
        keys = [key for key in rows.keys_of(connection, wanted.text.strip()) if own is None or key in own]
        held = rows.records(connection, [key for key in keys if key in view.created])
        best = tuple((key, Hit(record, 1.0, ("id",)), 1) for key, record in held.items())
        return _Hits(tuple(held), held, best=best)

    def _of_task(self, connection: sqlite3.Connection, view: View, task: str) -> Collection[int]:
        """The keys of what is a task's own."""
        if self._owners is None or self._owners[0] is not view:
            self._owners = (view, rows.tasks_of(connection, list(view.created)))
        return {key for key, owner in self._owners[1].items() if owner == task}

    def _rows(self, connection: sqlite3.Connection, keys: Sequence[int], hits: _Hits = _NOTHING) -> tuple[Row, ...]:
        """Records as a list shows them."""
        known = {key: (hit, count) for key, hit, count in hits.best}
        held = {**hits.held, **rows.records(connection, [key for key in keys if key not in hits.held])}
        places, owners = rows.places(connection, keys), rows.tasks_of(connection, keys)
        shown = [held[key] for key in keys if key in held]
        others = shown if hits.ranked is None else [held[key] for key in keys if key in held and key not in hits.held]
        stale, past = check.marks(self.root, shown), {**hits.past, **outdated.notes(connection, others)}
        reasons = _reasons(connection, keys, hits)
        found: list[Row] = []
        for key in keys:
            if key in held:
                record = held[key]
                hit, count = known.get(key, (None, 1))
                wrong = (stale.get(record.id, ""), past.get(record.id, ""))
                own = () if hit is None else (each for each in hit.why if each not in wrong)
                because = (*reasons.get(key, ()), *own)
                cost, score = tokens.estimate(record.text), hit.score if hit is not None else None
                owner = record.origin.task or owners.get(key, "")
                found.append(Row(record, *places[key], owner, cost, score, because, count, *wrong))
        return tuple(found)


def _check(wanted: Wanted) -> None:
    if wanted.sort and wanted.sort not in SORTS:
        raise UsageError(f"{wanted.sort!r} is no order", hint=f"valid ones: {', '.join(SORTS)}")
    ages = [age for age in wanted.chosen.get("age", ()) if age not in AGES]
    if ages:
        raise UsageError(f"{ages[0]!r} is no age", hint=f"valid ones: {', '.join(AGES)}")


def _filter(connection: sqlite3.Connection, view: View, wanted: Wanted, own: Collection[int] | None) -> "Filter":
    """What the ranking may see: SQLite asks for each key that it meets whether it is among those that pass."""
    if own is None and not any(wanted.chosen.values()):
        return lookup.EVERYTHING
    keys = view.created.keys() if own is None else view.created.keys() & own
    passing = frozenset(view.passing(keys, wanted.chosen))
    connection.create_function(_PASSES, 1, passing.__contains__, deterministic=True)
    return [(place, f"{_PASSES}({key})", ()) for place, (_, key) in enumerate(lookup.TABLES)]


def _rest(connection: sqlite3.Connection, hits: _Hits, most: int) -> list[int]:
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
    for key, row in lookup.judged(connection, others).items() if others else ():
        judged[key] = RankedRow(row)
        text = terms.TermMatcher(f"{row.title} {row.tags} {row.files} {row.id} {row.text}")
        judged[key].matched = {each.word: share for each in words if (share := each.match(text))}
    return {key: tuple(explain(judged[key], words, today)) for key in keys if key in judged}


def _instead(ranked: Ranking, hits: Sequence[Hit]) -> list[str]:
    """Which words occur nowhere, and what was looked for instead."""
    spoken = (
        (each.word, engine.readable_terms(tuple(each.counts), hits)) for each in ranked.words if each.replaced and hits
    )
    return [f"nothing has {word!r}; looked for {', '.join(others[:5])} instead" for word, others in spoken if others]
