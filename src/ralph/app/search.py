"""`ralph search` and `ralph search --around`: everything that Ralph knows, at three levels of detail.

Layer 1 is a line for each hit, layer 2 what happened around it and what it is linked to, layer 3 the complete record.
What a session did several times in the same words is one hit with a count.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.app import filters, index, meaning, outdated
from ralph.context import render, tokens
from ralph.context.render import NEIGHBOUR_TOKENS, SPEECH_TITLES, record_moment
from ralph.errors import NotFound
from ralph.model import ids
from ralph.model.record import Detail, Family, Hit, Query, Record, SearchResult
from ralph.search import rank
from ralph.search.terms import best_place
from ralph.store import lookup, queries
from ralph.store.index import Progress

if TYPE_CHECKING:
    from ralph.settings import Embedding

_KNOWLEDGE_IDS = ("know-", "ins-")
_RUN = "run"  # the label of the record that sums up a run
PART = 290
FULL = 1000
"""Tokens of a hit at most, with the line's end: in layer 2 and in layer 3."""
_REACH = 2
_RELATED = 2
_REPEATS = 4
"""Times the limit that is searched, so that repeats leave enough."""


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A rendered hit, the ids of repeats, why its record no longer holds, and the short id that a line begins with.

    `member` is who of the team shared it.
    """

    hit: Hit
    text: str
    repeats: tuple[str, ...] = ()
    note: str = ""
    name: str = ""
    member: str = ""

    @property
    def count(self) -> int:
        """The number of records with this text."""
        return 1 + len(self.repeats)

    @property
    def tokens(self) -> int:
        """The estimated cost."""
        return tokens.estimate(self.text + "\n")


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The result of a search, rendered, with warnings and with notes about what is left out."""

    found: SearchResult
    shown: tuple[ShownHit, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_weak(self) -> bool:
        """Whether nothing certain was found, and the hits are the nearest."""
        return bool(self.shown) and all(hit.hit.weak for hit in self.shown)

    @property
    def tokens(self) -> int:
        """The estimated cost of all hits."""
        return sum(hit.tokens for hit in self.shown)


def search(
    root: Path,
    query: Query,
    progress: Progress | None = None,
    *,
    embedding: Embedding | None = None,
    fit: bool = False,
) -> SearchAnswer:
    """Return the best records for a query, by meaning with an embedding.

    To `fit` the tokens of layer 1, fewer than the query's limit are shown. Ids, also short ones, give their records.
    """
    limited = query
    if query.project:
        project = os.path.abspath(query.project)  # noqa: PTH100 - links are not followed, as hosts record it
        limited = replace(query, project=project)
        if not root.is_relative_to(project):  # memories belong to the project
            if query.families and Family.OBSERVATION not in query.families:
                return SearchAnswer(SearchResult((), 0), ())
            limited = replace(limited, families=(Family.OBSERVATION,))
    limit = query.limit
    wider = (
        limited if limit is None else replace(limited, limit=max(limit, min(_REPEATS * limit, 60)))
    )

    def question(connection: sqlite3.Connection) -> SearchAnswer:
        def is_id(word: str) -> bool:
            return (
                bool(ids.date_of(word))
                or filters.is_minted(word)
                or queries.key_of(connection, word) is not None
            )

        names = query.text.split()
        if all(filters.is_short_id(word) or is_id(word) for word in names):
            names = [filters.resolve_id(connection, word) for word in names]
        names = names if all(map(is_id, names)) else []  # ids alone, in full
        if names and (query.layer > Detail.INDEX or len(names) > 1):
            return _show_records(connection, names, query.layer, query.task)
        if names and queries.key_of(connection, names[0]) is None:
            return SearchAnswer(SearchResult((), 0), ())
        asked = replace(wider, text=names[0]) if names else wider
        warnings: list[str] = []
        near = (
            None
            if embedding is None
            else meaning.meaning_for(root, embedding, connection, limited, warnings.append)
        )
        found = rank.search(connection, asked, today=ids.now().date(), meaning=near)
        past = outdated.describe_outdated(connection, [hit.record for hit in found.hits])
        found = replace(
            found, hits=outdated.demote_outdated(outdated.demote_stale(root, found.hits), past)
        )
        single = merge_repeats(found.hits)[:limit]
        shown = _show_hits(connection, single, query, past, found.terms, fit)
        notes = tuple(filters.hidden_notes(connection, asked))
        instead = (
            found.instead if found.hits or not notes else ()
        )  # they may be words of another task
        found = replace(found, hits=tuple(each.hit for each in shown), instead=instead)
        return SearchAnswer(found, shown, tuple(warnings), notes)

    return index.ask(root, question, progress)


def _show_hits(
    connection: sqlite3.Connection,
    hits: Sequence[tuple[Hit, tuple[str, ...]]],
    query: Query,
    past: Mapping[str, str],
    terms: Mapping[str, float],
    fit: bool,
) -> tuple[ShownHit, ...]:
    """Render hits with their repeats in the query's detail."""
    notes = [past.get(hit.record.id, "") for hit, _ in hits]
    if query.layer is not Detail.INDEX:
        shown = []
        for (hit, repeats), note in zip(hits, notes, strict=True):
            text = _render_hit(connection, hit, query, note, 1 + len(repeats))
            if query.layer is Detail.FULL:
                text = render.cut_details(text, FULL, hit.record.id)
            shown.append(ShownHit(hit, text, repeats, note))
        return tuple(shown)
    short = filters.shorten_ids(connection, [hit.record.id for hit, _ in hits])
    names = [short.get(hit.record.id, hit.record.id) for hit, _ in hits]
    lines = []
    for (hit, repeats), name, note in zip(hits, names, notes, strict=True):
        text = render.line_text(hit.record)
        head = render.line_head(hit.record, name, 1 + len(repeats), note)
        lines.append((head, text, best_place(text, terms)))
    rows = zip(render.hit_lines(lines, fit=fit), hits, names, notes, strict=False)
    return tuple(
        ShownHit(hit, line, repeats, note, name) for line, (hit, repeats), name, note in rows
    )


def show_hits(root: Path, found: SearchResult, *, fit: bool = False) -> tuple[ShownHit, ...]:
    """Render the hits of another search on one line each."""
    hits = [(hit, ()) for hit in found.hits]
    return index.ask(
        root, lambda connection: _show_hits(connection, hits, Query(), {}, found.terms, fit)
    )


def merge_repeats(hits: Sequence[Hit]) -> list[tuple[Hit, tuple[str, ...]]]:
    """Merge hits with the same text in a session, an insight with its knowledge, and a run with its journal.

    Of each group the best is returned, and the ids of the others.
    """
    found: dict[object, tuple[Hit, list[str]]] = {}
    for number, hit in enumerate(hits):
        record = hit.record
        content = (record.title, record.text)
        if record.id.startswith(_KNOWLEDGE_IDS):
            same: object = render.titled_text(record)
        elif record.family is Family.JOURNAL and record.origin.run:
            same = ("run", record.origin.run)
            first = found.get(same)
            if first is not None and _RUN not in (record.label, first[0].record.label):
                same = number  # two iterations
        elif record.title in SPEECH_TITLES:
            same = content
        else:
            same = (record.origin.session, *content) if record.origin.session else number
        found.setdefault(same, (hit, []))[1].append(record.id)
    return [(hit, tuple(names[1:])) for hit, names in found.values()]


def show(
    root: Path, record_ids: Sequence[str], layer: Detail = Detail.FULL, *, task: str = ""
) -> SearchAnswer:
    """Return records by their ids, never truncated in full detail."""
    return index.ask(root, lambda connection: _show_records(connection, record_ids, layer, task))


def timeline(
    root: Path,
    record_id: str = "",
    *,
    since: str = "",
    until: str = "",
    limit: int = 20,
    task: str = "",
) -> SearchAnswer:
    """Return what happened around one record, or in a stretch of time, in order; as far as a task may see it."""

    def question(connection: sqlite3.Connection) -> SearchAnswer:
        if record_id:
            around = _around(
                connection, _find_record(connection, record_id, task), limit // 2, task
            )
        else:
            keys = queries.newest_keys(
                connection, Query(since=since, until=until, task=task), limit
            )
            records = queries.records(connection, keys)
            around = [records[key] for key in reversed(keys) if key in records]
        shown = tuple(ShownHit(Hit(record, 0.0), record_moment(record)) for record in around)
        return SearchAnswer(SearchResult(tuple(entry.hit for entry in shown), len(shown)), shown)

    return index.ask(root, question)


def _show_records(
    connection: sqlite3.Connection, record_ids: Sequence[str], layer: Detail, task: str
) -> SearchAnswer:
    hits = tuple(
        Hit(_find_record(connection, record_id, task), 1.0, ("id",)) for record_id in record_ids
    )
    past = outdated.describe_outdated(connection, [hit.record for hit in hits])
    query = Query(layer=layer, task=task)
    if layer is Detail.INDEX:
        shown = _show_hits(connection, [(hit, ()) for hit in hits], query, past, {}, fit=False)
    else:
        notes = ((hit, past.get(hit.record.id, "")) for hit in hits)
        shown = tuple(
            ShownHit(hit, _render_hit(connection, hit, query, note), note=note)
            for hit, note in notes
        )
    return SearchAnswer(SearchResult(hits, len(hits)), shown)


def _render_hit(
    connection: sqlite3.Connection, hit: Hit, query: Query, note: str, count: int = 1
) -> str:
    """Return the text of a hit in layer 2 or 3; the note says why its record no longer holds."""
    if query.layer is Detail.FULL:
        text = render.record_details(hit.record, count)
        return f"({note})\n{text}" if note else text
    around = _around(connection, hit.record, _REACH, query.task)
    lines = ["" if record is hit.record else record_moment(record) for record in around]
    for link in hit.record.links[:_RELATED]:  # only the id of a record that the task may not see
        keys = filters.visible_keys(
            connection, queries.keys_of(connection, link.target)[:1], query.task
        )
        other = next(iter(queries.records(connection, keys).values()), None)
        head = f"{link.relation.replace('_', ' ')}:"
        lines.append(
            render.linked_line(f"{head} {other.id}" if other else head, other or link.target)
        )
    rest = PART - sum(tokens.estimate(line + "\n") for line in lines)
    budget = max(rest, NEIGHBOUR_TOKENS)
    lines[lines.index("")] = record_moment(hit.record, hit.score, count, budget=budget, note=note)
    return "\n".join(lines)


def _around(connection: sqlite3.Connection, record: Record, reach: int, task: str) -> list[Record]:
    """Return a record between its neighbours that a task may see: those of its session, else the nearest in time."""
    key = queries.key_of(connection, record.id)
    near = (
        [other for _, other, _ in lookup.neighbours(connection, [key], reach)]
        if key is not None
        else []
    )
    near = filters.visible_keys(connection, near, task)
    if not near and key is not None:
        near = queries.adjacent_keys(connection, key, record, reach, task)
    everything = {**queries.records(connection, near), key or 0: record}
    return [
        other
        for _, other in sorted(everything.items(), key=lambda pair: (pair[1].added_at, pair[0]))
    ]


def _find_record(connection: sqlite3.Connection, record_id: str, task: str) -> Record:
    key = filters.find_visible(connection, filters.resolve_id(connection, record_id), task)
    records = queries.records(connection, [key]) if key is not None else {}
    if key is None or key not in records:
        raise NotFound(
            f"there is no record {record_id}", hint='`ralph search "words"` shows the ids'
        )
    return records[key]
