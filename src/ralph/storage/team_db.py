"""Store rows pulled from other machines in `team.db`, and select rows of the index to share.

`team.db` has the same schema as the index and is written by the index's own writer, so pulled rows
are searched like local ones. A source in it corresponds to a source on the server. Three more
tables keep what was known about each source, the server and its machines at the last pull.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import NotFound, Refused
from ralph.core.record import Family, Record
from ralph.formats.log import encode_record
from ralph.storage import db, files, index_schema, queries
from ralph.storage.index import PATIENCE
from ralph.storage.index_files import sole_writer
from ralph.storage.index_schema import SCHEMA_VERSION
from ralph.storage.index_writer import IndexWriter
from ralph.storage.log_portions import ReadState
from ralph.storage.record_rows import Terms
from ralph.storage.source_contents import parse_contents
from ralph.storage.sources import Format, Source

PREFIX = "team/"
"""The prefix of the names of pulled sources."""

_INDEXED_SOURCES = """
SELECT key, path, format, digest, offset, lines,
    EXISTS (SELECT 1 FROM journal_rows WHERE source = s.key),
    EXISTS (SELECT 1 FROM observations WHERE source = s.key),
    key IN (SELECT source FROM session_rows WHERE coalesce(summary, '') <> '')
FROM sources s ORDER BY key
"""
_SUMMARIZED_SESSIONS = """
SELECT id, session_id, host, mode, task_id, started_at, ended_at, updated_at, summary
FROM session_rows WHERE source = ? AND coalesce(summary, '') <> ''
"""
_STATE_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS pulled_sources (
        name TEXT PRIMARY KEY,
        epoch TEXT NOT NULL,
        generation TEXT NOT NULL,
        last INTEGER NOT NULL,
        row_count INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        changed_at INTEGER NOT NULL,
        proof TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS pulled_server (
        epoch TEXT NOT NULL,
        highest_key INTEGER NOT NULL,
        proof TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS pulled_machines (
        name TEXT PRIMARY KEY,
        synced_at INTEGER NOT NULL,
        proof TEXT NOT NULL
    )
    """,
)
_SET_STATE = "INSERT OR REPLACE INTO pulled_sources VALUES (?, ?, ?, ?, ?, ?, ?, ?)"


# --- rows of other machines ---------------------------------------------------------------------


class PulledState(NamedTuple):
    """What was pulled of a source, as the server described it then.

    A source that was removed from the server has no rows here, the time of its removal, and the
    server's proof of that time.
    """

    epoch: str
    generation: str
    last: int  # the last key
    row_count: int
    checksum: int
    changed_at: int  # microseconds on the server's clock
    proof: str = ""


class PulledServer(NamedTuple):
    """The epoch of the server at the last pull, and the highest key seen in it with its proof."""

    epoch: str = ""
    highest_key: int = 0
    proof: str = ""


class PulledMachine(NamedTuple):
    """What the server knew about a machine at the last pull."""

    synced_at: int  # when it had last completed a push: microseconds on the server's clock
    proof: str  # of that time


class TeamDatabase:
    """The rows from other machines, opened for writing by a single process."""

    def __init__(self, connection: sqlite3.Connection, writer: IndexWriter) -> None:
        self.connection = connection
        self.writer = writer

    def set_server(self, server: PulledServer, machines: Mapping[str, PulledMachine]) -> None:
        """Keep what is known about the server and its machines after a pull."""
        rows = [(name, *machine) for name, machine in machines.items()]
        with db.atomic(self.connection):
            self.connection.execute("DELETE FROM pulled_server")
            self.connection.execute("INSERT INTO pulled_server VALUES (?, ?, ?)", server)
            self.connection.execute("DELETE FROM pulled_machines")
            self.connection.executemany("INSERT INTO pulled_machines VALUES (?, ?, ?)", rows)

    def states(self) -> dict[str, PulledState]:
        """Return what was pulled of each source, by the source's name."""
        return pulled_states(self.connection)

    def set_state(self, name: str, state: PulledState) -> None:
        """Keep what was pulled of a source."""
        self.connection.execute(_SET_STATE, (name, *state))

    def drop_state(self, name: str) -> None:
        """Forget that a source was ever pulled."""
        self.connection.execute("DELETE FROM pulled_sources WHERE name = ?", (name,))

    def formats(self) -> dict[str, str]:
        """Return the format of each stored source, by the source's name."""
        return pulled_formats(self.connection)

    def memory_ids(self, names: Iterable[str]) -> set[str]:
        """Return the ids of the memories in the stored sources with these names."""
        sql = "SELECT id FROM records WHERE source = (SELECT key FROM sources WHERE path = ?)"
        found: set[str] = set()
        for name in names:
            found.update(row["id"] for row in self.connection.execute(sql, (name,)))
        return found

    def remove(self, name: str) -> None:
        """Remove the rows of a source."""
        rows = self.connection.execute("SELECT key FROM sources WHERE path = ?", (name,)).fetchall()
        for row in rows:
            self.writer.remove_source(row["key"])

    def remove_ids(self, name: str, forgotten: set[str]) -> None:
        """Remove the records with these ids from a source.

        Others that Ralph would not write, such as one with the number 1e999, are removed with them.
        """
        sql = "SELECT key, format FROM sources WHERE path = ?"
        row = self.connection.execute(sql, (name,)).fetchone()
        if row is None:
            return
        lines = []
        has_forgotten = False
        for family in Family:
            found = queries.select_records(self.connection, family, "source = ?", (row["key"],))
            for _, record in found:
                if record.id in forgotten:
                    has_forgotten = True
                    continue
                with suppress(Refused):
                    lines.append((record.id, encode_record(record).rstrip("\n")))
        if has_forgotten:
            self.remove(name)
            self.add(name, row["format"], lines)

    def add(self, name: str, form: str, lines: Sequence[tuple[str, str]]) -> None:
        """Add lines, each paired with its id, to a source, which is created if it is missing.

        A line whose id differs from the one given by the server is dropped, because nobody could
        forget it later.
        """
        row = self.connection.execute("SELECT key FROM sources WHERE path = ?", (name,)).fetchone()
        if row is None:
            key = self.writer.add_source(name, form, ReadState(lines=len(lines)))
        else:
            key = int(row["key"])
            sql = "UPDATE sources SET lines = lines + ? WHERE key = ?"
            self.connection.execute(sql, (len(lines), key))
        text = "".join(f"{line}\n" for _, line in lines)
        read = parse_contents(Source(Path(name), name, Format.LOG), text)
        named_ids = {record_id for record_id, _ in lines}
        records = [item for item in read.records if item.record.id in named_ids]
        others = [(kind, line) for kind, line in read.lines if line.get("id") in named_ids]
        self.writer.add_contents(key, replace(read, records=tuple(records), lines=tuple(others)))


@contextmanager
def open_team(
    path: Path, terms: Terms, is_order: Callable[[Record], bool]
) -> Iterator[TeamDatabase]:
    """Open `team.db` for writing.

    It is created if it is missing, and created again if it is damaged or has another version.
    Raises Busy if another process keeps writing to it.
    """
    with (
        sole_writer(path, patience=PATIENCE),
        db.explained(path),
        closing(db.connect_cache(path, "schema.sql", SCHEMA_VERSION)) as connection,
    ):
        for statement in _STATE_TABLES:
            connection.execute(statement)
        yield TeamDatabase(connection, IndexWriter(connection, terms, is_order=is_order))


@contextmanager
def read_team(path: Path) -> Iterator[sqlite3.Connection]:
    """Open `team.db` for reading. Raises NotFound if it is missing or has another version."""
    with (
        suppress(sqlite3.OperationalError),
        closing(db.connect(path, read_only=True)) as connection,
    ):
        if db.version_of(connection) == SCHEMA_VERSION:
            yield connection
            return
    raise NotFound(
        "nothing has been pulled yet", hint="`ralph team sync` fetches what the team shares"
    )


def pulled_states(connection: sqlite3.Connection) -> dict[str, PulledState]:
    """Return what was pulled of each source, by the source's name."""
    states: dict[str, PulledState] = {}
    for name, *values in connection.execute("SELECT * FROM pulled_sources"):
        states[name] = PulledState(*values)
    return states


def pulled_server(connection: sqlite3.Connection) -> PulledServer:
    """Return what was known about the server at the last pull."""
    row = connection.execute("SELECT * FROM pulled_server").fetchone()
    if row is None:
        return PulledServer()
    return PulledServer(*row)


def pulled_machines(connection: sqlite3.Connection) -> dict[str, PulledMachine]:
    """Return what was known about the other machines at the last pull."""
    machines: dict[str, PulledMachine] = {}
    for name, *values in connection.execute("SELECT * FROM pulled_machines"):
        machines[name] = PulledMachine(*values)
    return machines


def pulled_formats(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the format of each pulled source that has rows, by the source's name."""
    rows = connection.execute("SELECT path, format FROM sources")
    return {row["path"]: row["format"] for row in rows}


def count_sources(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the number of rows in each pulled source, by the source's name."""
    rows = connection.execute("SELECT path, lines FROM sources")
    return {row["path"]: int(row["lines"]) for row in rows}


def texts(connection: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    """Yield the id, title with tags, and text of every record and session summary."""
    for family in Family:
        for _, record in queries.select_records(connection, family, "1", ()):
            yield record.id, " ".join((record.title, *record.tags)), record.text
    sql = "SELECT id, '', summary FROM session_rows WHERE summary > ''"
    yield from connection.execute(sql).fetchall()


# --- rows of the index to share -----------------------------------------------------------------


class IndexedSource(NamedTuple):
    """An indexed source: how far it was read, and which kinds of rows it could share."""

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
    """Yield every source in the index."""
    return map(IndexedSource._make, connection.execute(_INDEXED_SOURCES))


def records_after(
    connection: sqlite3.Connection, source: int, family: Family, line: int
) -> Iterator[tuple[Record, int]]:
    """Yield the records after a given line of a source, with their positions in the session.

    The position is 0 for a record that is not an observation.
    """
    positions: dict[int, int] = {}
    if family is Family.OBSERVATION:
        sql = "SELECT key, seq FROM observations WHERE source = ? AND line > ?"
        positions = dict(connection.execute(sql, (source, line)).fetchall())
    _, key_column = index_schema.TABLES[family]
    condition = f"source = ? AND line > ? ORDER BY {key_column}"
    for key, record in queries.select_records(connection, family, condition, (source, line)):
        yield record, positions.get(key, 0)


def summarized_sessions(connection: sqlite3.Connection, source: int) -> Iterator[dict[str, str]]:
    """Yield the sessions in a source that have a summary, without their empty columns."""
    for row in connection.execute(_SUMMARIZED_SESSIONS, (source,)):
        yield {name: str(value) for name, value in dict(row).items() if value}


def _forgotten_ids(root: Path) -> set[str]:
    """Return the ids that were forgotten on this machine or on others."""
    text = files.read(paths.team_tombstones(root)) or ""
    return set(text.split("\n")) - {""}


def _remember_forgotten(root: Path, names: Iterable[str]) -> None:
    """Add ids to the list of forgotten ones. The file is created even if there are none."""
    path = paths.team_tombstones(root)
    new = set(names)
    if not path.exists() or new - _forgotten_ids(root):
        files.make_folder(path.parent, 0o700)
        files.update(
            path,
            lambda text: "\n".join(sorted(new | set(text.split("\n")))) + "\n",
            mode=files.PRIVATE,
        )


def note_forgotten(root: Path, names: Iterable[str]) -> None:
    """Keep the ids that `ralph forget` removed for the next push.

    This does nothing unless the project has joined a team.
    """
    root = paths.main_checkout(root)
    if paths.team_tombstones(root).exists():
        _remember_forgotten(root, [name for name in names if name and "\n" not in name])
