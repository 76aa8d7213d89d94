"""`team.db`, the rows of other machines in the schema of the index; and what of the index there is to share.

A source here is one of the server's: `digest` is its generation, `offset` the last key that was pulled. It is written
with the index's own writer, so that searching pulled rows is searching the same rows locally.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.errors import NotFound
from ralph.model.record import Family, Record
from ralph.store import db, queries
from ralph.store.index import PATIENCE, SCHEMA_VERSION, IndexWriter, sole_writer
from ralph.store.queries import Terms
from ralph.store.sources import Format, Source, contents

PREFIX = "team/"


class PulledState(NamedTuple):
    """What was pulled of a source."""

    key: int
    generation: str
    last: int


class TeamDatabase:
    """The rows of other machines, for one writer."""

    def __init__(self, connection: sqlite3.Connection, writer: IndexWriter) -> None:
        self.connection = connection
        self.writer = writer

    def states(self) -> dict[str, PulledState]:
        """Return what was pulled, by the names of the sources."""
        rows = self.connection.execute("SELECT path, key, digest, offset FROM sources")
        return {row[0]: PulledState(*row[1:]) for row in rows}

    def put(
        self, name: str, form: str, state: PulledState, lines: Sequence[tuple[str, str]]
    ) -> None:
        """Add lines with their ids to a source, behind those that it has, or instead of all where `state` has no key.

        A line of another id than the server says is dropped: nobody could forget it.
        """
        key = state.key
        values = (state.generation, state.last, len(lines))
        if key:
            sql = "UPDATE sources SET digest = ?, offset = ?, lines = lines + ? WHERE key = ?"
            self.connection.execute(sql, (*values, key))
        else:
            for row in self.connection.execute(
                "SELECT key FROM sources WHERE path = ?", (name,)
            ).fetchall():
                self.writer.clear(row[0])
            key = self.writer.add_source(name, form, (0, 0, 0, *values))
        source = Source(Path(name), name, Format.LOG)
        read = contents(source, "".join(f"{line}\n" for _, line in lines))
        names = {each for each, _ in lines}
        records = tuple(item for item in read.records if item.record.id in names)
        others = tuple(item for item in read.lines if item[1].get("id") in names)
        self.writer.put(key, replace(read, records=records, lines=others))


@contextmanager
def open_team(
    path: Path, terms: Terms, is_order: Callable[[Record], bool]
) -> Iterator[TeamDatabase]:
    """Open `team.db` for writing, which makes it, also anew after damage or a change of the schema."""
    with (
        sole_writer(path, patience=PATIENCE),
        db.explained(path),
        closing(db.connect_cache(path, "schema.sql", SCHEMA_VERSION)) as connection,
    ):
        yield TeamDatabase(connection, IndexWriter(connection, terms, is_order=is_order))


@contextmanager
def read_team(path: Path) -> Iterator[sqlite3.Connection]:
    """Open `team.db` for reading; NotFound when there is none, or one of another version."""
    with (
        suppress(sqlite3.OperationalError),
        closing(db.connect(path, read_only=True)) as connection,
    ):
        if db.version_of(connection) == SCHEMA_VERSION:
            yield connection
            return
    raise NotFound("nothing was pulled yet", hint="`ralph team pull` fetches what the team shares")


class IndexedSource(NamedTuple):
    """A source of the index: how far it was read, and what of it there is to share."""

    key: int
    path: str
    format: str
    digest: str
    size: int
    lines: int
    has_journal: bool
    has_observations: bool
    has_summary: bool


def indexed_sources(connection: sqlite3.Connection) -> Iterator[IndexedSource]:
    """Return every source of the index."""
    sql = (
        "SELECT key, path, format, digest, offset, lines, EXISTS (SELECT 1 FROM journal WHERE source = s.key), "
        "EXISTS (SELECT 1 FROM observations WHERE source = s.key), "
        "key IN (SELECT source FROM sessions WHERE coalesce(summary, '') <> '') FROM sources s ORDER BY key"
    )
    return map(IndexedSource._make, connection.execute(sql))


def records_behind(
    connection: sqlite3.Connection, source: int, family: Family, line: int
) -> Iterator[tuple[Record, int]]:
    """Yield the records of a family behind a line of a source, each with its place in its session."""
    places: dict[int, int] = {}
    if family is Family.OBSERVATION:
        sql = "SELECT key, seq FROM observations WHERE source = ? AND line > ?"
        places = {row[0]: row[1] for row in connection.execute(sql, (source, line))}
    key = queries.TABLES[family][1]
    for number, record in queries.select_records(
        connection, family, f"source = ? AND line > ? ORDER BY {key}", (source, line)
    ):
        yield record, places.get(number, 0)


_SESSION = "id, session_id, host, mode, task_id, started_at, ended_at, updated_at, summary"


def summarized_sessions(connection: sqlite3.Connection, source: int) -> Iterator[dict[str, str]]:
    """Yield the sessions of a source that have a summary."""
    sql = f"SELECT {_SESSION} FROM sessions WHERE source = ? AND coalesce(summary, '') <> ''"
    for row in connection.execute(sql, (source,)):
        yield {name: str(row[name]) for name in row.keys() if row[name]}  # noqa: SIM118  (a Row is no mapping)


def count_sources(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the rows of every pulled source, by its name."""
    return {row[0]: int(row[1]) for row in connection.execute("SELECT path, lines FROM sources")}


def texts(connection: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    """Yield id, title with tags, and text of every record and of the summaries of sessions."""
    for family in Family:
        for _, record in queries.select_records(connection, family, "1", ()):
            yield record.id, " ".join((record.title, *record.tags)), record.text
    yield from connection.execute(
        "SELECT id, '', summary FROM sessions WHERE summary > ''"
    ).fetchall()
