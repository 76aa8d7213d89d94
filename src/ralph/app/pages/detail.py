"""One record with all that is known of it: what the Memory Explorer shows of a memory.

The record itself comes from the index; beside it stand its layers as an agent would be handed them, what it cites and
whether that is there, what took its place, where it was injected and whether it was used, what is near it in the graph,
and what can be done with it. Citations are looked at now, with git, as `ralph doctor --citations` does; what fails
there or in the graph costs the rest nothing. `tests/app/pages/test_detail.py` proves it on a real repository.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ralph.app import check, check_look, graph, index, insight, ledger, outdated
from ralph.app import search as searching
from ralph.app.check_git import Git
from ralph.app.pages.explore import Row
from ralph.context import tokens
from ralph.errors import NotFound, RalphError
from ralph.model.graph import Node, Relation
from ralph.model.record import Family, Record, Status
from ralph.search import citations
from ralph.search.citations import CheckedCitation
from ralph.store import lookup, rows
from ralph.store.sources import Format

_REACH = 2
_INJECTIONS = 200
_NEIGHBOURS = 200
_NAMED = 100
"""Characters of a text that stand for a title."""


class Action(StrEnum):
    """What can be done with a record."""

    EDIT = "edit"
    RETAG = "retag"
    RETIRE = "retire"
    RESTORE = "restore"
    DELETE = "delete"
    PROMOTE = "promote"
    ACCEPT = "accept"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Layer:
    """A record as one layer shows it, and what that costs."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Handed:
    """One time that a record was handed over, and whether that session used it."""

    injection: ledger.Injection
    used: bool


@dataclass(frozen=True, slots=True)
class Neighbour:
    """What a record is connected with in the graph; `outward` when the record says so itself."""

    relation: Relation
    outward: bool
    node: Node


class Successor(NamedTuple):
    """The record that took another one's place."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Detail:
    """A record and what is known of it."""

    row: Row
    form: Format
    line: Layer
    moment: Layer
    full: Layer
    links: tuple[tuple[str, str, str], ...]
    successor: Successor | None = None
    citations: tuple[CheckedCitation, ...] = ()
    injections: tuple[Handed, ...] = ()
    injected: int = 0
    used: int = 0
    neighbours: tuple[Neighbour, ...] = ()
    actions: tuple[Action, ...] = ()


def show(root: Path, record_id: str) -> Detail:
    """Everything about one record; NotFound when there is none."""
    found = index.ask(root, lambda connection: _from_index(root, connection, record_id))
    book = ledger.read(root)
    handed = tuple(_handed(book, record_id))
    injected, used = ledger.counted(book).get(record_id, (0, 0))
    return Detail(
        row=found[0],
        form=found[1],
        line=found[2],
        moment=found[3],
        full=_layer(searching.full(found[0].record)),
        links=found[4],
        successor=found[5],
        citations=_citations(root, found[0].record),
        injections=handed,
        injected=injected,
        used=used,
        neighbours=_neighbours(root, record_id),
        actions=actions(found[0].record, found[1]),
    )


def place(root: Path, record_id: str) -> tuple[Record, str, Format]:
    """A record, the name of its file and that file's format; NotFound when there is none."""
    row, form, *_ = index.ask(root, lambda connection: _from_index(root, connection, record_id))
    return row.record, row.source, form


def actions(record: Record, form: Format) -> tuple[Action, ...]:
    """What can be done with a record that stands in such a file."""
    if form is Format.INSIGHTS:
        judged = {Status.ACCEPTED: (Action.REJECT,), insight.REJECTED: (Action.ACCEPT,)}
        return (*judged.get(record.status, (Action.ACCEPT, Action.REJECT)), Action.PROMOTE)
    if form in (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE):
        if record.status is Status.RETIRED:
            return (Action.RESTORE, Action.DELETE)
        return (Action.EDIT, Action.RETAG, Action.RETIRE, Action.DELETE, Action.PROMOTE)
    return () if record.status is Status.RETIRED else (Action.PROMOTE,)


_Found = tuple[Row, Format, Layer, Layer, tuple[tuple[str, str, str], ...], Successor | None]


def _from_index(root: Path, connection: sqlite3.Connection, record_id: str) -> _Found:
    key = rows.key_of(connection, record_id)
    held = rows.records(connection, [key]) if key is not None else {}
    if key is None or key not in held:
        raise NotFound(f"there is no record {record_id}", hint='`ralph search "words"` shows the ids')
    record = held[key]
    name, line = rows.places(connection, [key])[key]
    form = connection.execute("SELECT format FROM sources WHERE path = ?", (name,)).fetchone()[0]
    owner = record.origin.task or rows.tasks_of(connection, [key]).get(key, "")
    stale = check.marks(root, [record]).get(record.id, "")
    past = outdated.notes(connection, [record]).get(record.id, "")
    row = Row(record, name, line, owner, tokens.estimate(record.text), stale=stale, past=past)
    newer = row.superseded_by
    links = tuple((link.relation, link.target, _title(connection, link.target)) for link in record.links)
    return (
        row,
        Format(form) if form else _guessed(name),
        _layer(searching.line(record, None)),
        _around(connection, key, record),
        links,
        Successor(newer, _title(connection, newer)) if newer else None,
    )


def _guessed(name: str) -> Format:
    """The format of a file in an index that is made for one question, which does not say it."""
    for end, form in (
        ("insights.json", Format.INSIGHTS), ("memories.md", Format.MEMORIES), ("guardrails.md", Format.GUARDRAILS),
        ("global-patterns.md", Format.PATTERNS), (".jsonl", Format.LOG), ("progress.txt", Format.PROGRESS),
    ):  # fmt: skip
        if name.endswith(end):
            return form
    return Format.KNOWLEDGE if "/knowledge/" in name else Format.PROGRESS


def _around(connection: sqlite3.Connection, key: int, record: Record) -> Layer:
    """What happened just before and after, with the record in between, as layer 2 tells it."""
    near = [other for _, other, _ in lookup.neighbours(connection, [key], _REACH)]
    near = near or rows.beside(connection, key, record, _REACH)
    everything = {**rows.records(connection, near), key: record}
    ordered = sorted(everything.items(), key=lambda pair: (pair[1].created_at, pair[0]))
    return _layer("\n".join(searching.moment(each) for _, each in ordered))


def _layer(text: str) -> Layer:
    return Layer(text, tokens.estimate(text + "\n"))


def _title(connection: sqlite3.Connection, name: str) -> str:
    key = rows.key_of(connection, name)
    other = rows.records(connection, [key]).get(key) if key is not None else None
    return "" if other is None else titled(other)


def titled(record: Record) -> str:
    """How a record is called: its title, else how its text begins."""
    if record.title:
        return record.title
    line = " ".join(record.text[: 4 * _NAMED].split())
    return line if len(line) <= _NAMED else f"{line[:_NAMED].rpartition(' ')[0] or line[:_NAMED]}…"


def _citations(root: Path, record: Record) -> tuple[CheckedCitation, ...]:
    if record.family is not Family.MEMORY:
        return ()
    with suppress(RalphError, OSError):
        return tuple(check_look.look(Git(root), [(record, citations.find_citations(record))])[0])
    return ()


def _handed(book: ledger.Ledger, record_id: str) -> Sequence[Handed]:
    used = {use.session for use in book.uses if use.record == record_id}
    found = [each for each in book.injections if each.record == record_id]
    return [Handed(each, each.session in used) for each in reversed(found[-_INJECTIONS:])]


def _neighbours(root: Path, record_id: str) -> tuple[Neighbour, ...]:
    with suppress(RalphError, sqlite3.Error):
        shown = graph.show(root, record_id)
        return tuple(
            Neighbour(edge.relation, edge.source == shown.node.id, other) for edge, other in shown.edges[:_NEIGHBOURS]
        )
    return ()
