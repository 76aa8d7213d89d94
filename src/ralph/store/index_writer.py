"""Writes rows, and keeps the full-text index in step with them.

What a source says is written in batches: ids that are taken, places within sessions and what is known of
a session are asked for once, not once a line, since a log has thousands of lines about one session. Lines
about a session or a run say only what changed; they are folded into one row, in any portions with the
same result. Keys only ever grow within a batch, as the full-text index wants them.
`tests/store/test_index.py` compares every state with an index made anew from the same files.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ralph.model.record import Family, Record
from ralph.store.columns import list_text, metadata_of, scope_text
from ralph.store.queries import (
    BEARER,
    FAMILIES,
    TABLES,
    Terms,
    column_value,
    digest_of,
    safe,
    search_columns,
    select_records,
)
from ralph.store.sources import Contents, Format, Interpret, Placed, Source, contents

if TYPE_CHECKING:
    from ralph.model.work import Task

_MODES = ("plan", "agent")
_STATUSES = ("running", "success", "failed", "stopped")
_SESSION = ("id", "project_path", "task_id", "session_id", "mode", "started_at", "ended_at", "reason", "host",
            "summary", "tags", "messages", "created_at", "updated_at")  # fmt: skip
_RUN = ("id", "session_id", "goal", "iterations", "status", "reason", "context_snapshots", "started_at", "ended_at")
_EARLIEST = ("started_at", "created_at")
_LATEST = ("updated_at",)
_MOST = 900
"""SQLite takes a limited number of values in one statement."""

_INSERT = {Family.MEMORY: 14, Family.OBSERVATION: 15, Family.JOURNAL: 20}
"""How many columns a row of each family has."""

Columns = dict[str, str | int | float | None]
Row = tuple[object, ...]


class IndexWriter:
    """One connection's writing: rows in, rows out, and their words."""

    def __init__(self, connection: sqlite3.Connection, terms: Terms, interpret: Interpret | None = None) -> None:
        self.connection = connection
        self._terms = terms
        self._interpret = interpret
        self._next: dict[Family, int] = {}
        self._bearers: dict[tuple[Family, str], int] = {}

    def load(self, source: Source, row: sqlite3.Row | None) -> None:
        """Read a source: the new lines of a log that only grew, anything else whole."""
        stat = source.path.stat()  # before reading, so that what is written meanwhile is seen next time
        payload = source.path.read_bytes()
        end = payload.rfind(b"\n") + 1 if source.format is Format.LOG else len(payload)
        start = _continues(source, payload, row)
        if row is not None and not start:
            self.clear(row["key"])
            row = None
        values = (stat.st_mtime_ns, stat.st_size, stat.st_ino, _digest(payload[:end]), end)
        if row is None:
            key = self.add_source(source.name, source.format, values)
        else:
            key = row["key"]
            sql = "UPDATE sources SET mtime_ns = ?, size = ?, inode = ?, digest = ?, offset = ? WHERE key = ?"
            self.connection.execute(sql, (*values, key))
        if start < end or row is None:
            told = contents(source, payload[start:end].decode("utf-8", "surrogateescape"), self._interpret)
            self.put(key, told, lines_before=payload.count(b"\n", 0, start))

    def add_source(self, name: str, form: str, values: tuple[int, int, int, str, int]) -> int:
        """A row for a source, and its key."""
        columns = "path, format, mtime_ns, size, inode, digest, offset"
        sql = f"INSERT INTO sources({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  (our own names)
        return int(self.connection.execute(sql, (name, form, *values)).lastrowid or 0)

    def put(self, source: int, told: Contents, lines_before: int = 0) -> None:
        """Add rows for everything a source says."""
        for family in FAMILIES:
            if placed := [each for each in told.records if each.record.family is family]:
                self._records(source, family, placed, lines_before)
        for task in told.tasks:
            self._task(source, task)
        self._merge("sessions", source, _folded(_SESSION, told.lines, "session"), {})
        self._merge("loop_runs", source, _folded(_RUN, told.lines, "run"), {"goal": "", "status": "running"})

    def clear(self, source: int) -> None:
        """Take away everything a source said."""
        sql = "INSERT INTO search(search, rowid, title, tags, text, files) VALUES ('delete', ?, ?, ?, ?, ?)"
        for family in FAMILIES:
            held = select_records(self.connection, family, "source = ?", (source,))
            self.connection.executemany(sql, ((key, *search_columns(record, self._terms)) for key, record in held))
        for table in ("records", "observations", "journal", "sessions", "loop_runs", "tasks"):
            self.connection.execute(f"DELETE FROM {table} WHERE source = ?", (source,))  # noqa: S608  (our own names)
        self.connection.execute("DELETE FROM sources WHERE key = ?", (source,))

    def _records(self, source: int, family: Family, placed: Sequence[Placed], lines_before: int) -> None:
        names = self._names(family, [safe(each.record.id) for each in placed])
        places = self._places(placed) if family is Family.OBSERVATION else [0] * len(placed)
        keys = self._keys(family, len(placed))
        rows: list[Row] = []
        words: list[Row] = []
        for each, key, name, place in zip(placed, keys, names, places, strict=True):
            row = _ROW[family](each.record, key, name, place, _shared(each.record, name))
            rows.append((*row[:2], source, each.line + lines_before, *row[2:]))
            words.append((key, *search_columns(each.record, self._terms)))
        marks = ", ".join("?" * _INSERT[family])
        self.connection.executemany(f"INSERT INTO {TABLES[family][0]} VALUES ({marks})", rows)  # noqa: S608 - our own words
        sql = "INSERT INTO search(rowid, title, tags, text, files) VALUES (?, ?, ?, ?, ?)"
        self.connection.executemany(sql, words)

    def _merge(self, table: str, source: int, folded: Mapping[str, Columns], unsaid: Columns) -> None:
        """Later lines about one session or run say only what changed."""
        for name, said in folded.items():
            sql = f"SELECT {', '.join(said)} FROM {table} WHERE id = ?"  # noqa: S608  (our own names)
            row = self.connection.execute(sql, (name,)).fetchone()
            if row is not None:
                values = {column: row[column] for column in said if row[column] is not None}
                _fold(values, said)
                sets = ", ".join(f"{column} = ?" for column in values)
                sql = f"UPDATE {table} SET {sets} WHERE id = ?"  # noqa: S608  (our own names)
                self.connection.execute(sql, (*values.values(), name))
                continue
            values = {**unsaid, **said, "source": source}
            sql = f"INSERT INTO {table}({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608 - our own words
            self.connection.execute(sql, tuple(values.values()))

    def _task(self, source: int, task: "Task") -> None:
        values = (task.id, source, task.title, task.description, task.status, task.priority, task.blocked_by,
                  task.parent, task.feature, task.attempts, task.worktree, task.branch, task.created_at,
                  task.updated_at)  # fmt: skip
        sql = "INSERT OR IGNORE INTO tasks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self.connection.execute(sql, [column_value(value) for value in values])

    def _keys(self, family: Family, count: int) -> range:
        """The next free keys of a family: they count in steps of three."""
        step = len(FAMILIES)
        if family not in self._next:
            table, column = TABLES[family]
            highest = self.connection.execute(f"SELECT max({column}) FROM {table}").fetchone()[0]  # noqa: S608 - our own words
            self._next[family] = FAMILIES.index(family) + step if highest is None else highest + step
        first = self._next[family]
        self._next[family] = first + count * step
        return range(first, first + count * step, step)

    def _names(self, family: Family, given: Sequence[str]) -> Iterator[str]:
        """Ids as rows have them; a second bearer of the same one gets a number, since both are kept."""
        taken = set(self._taken(family, given))
        for wanted in given:
            name, number = wanted, self._bearers.get((family, wanted), 1)
            while name in taken or (number > 1 and any(self._taken(family, [name]))):
                number += 1
                name = f"{wanted}{BEARER}{number}"
            if number > 1:
                self._bearers[family, wanted] = number
            taken.add(name)
            yield name

    def _taken(self, family: Family, names: Sequence[str]) -> Iterator[str]:
        """Those of some ids that rows have already."""
        column = "record_id" if family is Family.JOURNAL else "id"
        for start in range(0, len(names), _MOST):
            part = names[start : start + _MOST]
            marks = ", ".join("?" * len(part))
            sql = f"SELECT {column} FROM {TABLES[family][0]} WHERE {column} IN ({marks})"  # noqa: S608 - our own words
            yield from (row[0] for row in self.connection.execute(sql, part).fetchall())

    def _places(self, placed: Sequence[Placed]) -> Iterator[int]:
        """The place of each observation within its session."""
        last: dict[str, int] = {}
        sql = "SELECT coalesce(max(seq), 0) FROM observations WHERE session_id = ?"
        for each in placed:
            session = safe(each.record.origin.session)
            if session not in last:
                last[session] = self.connection.execute(sql, (session,)).fetchone()[0]
            last[session] += 1
            yield last[session]


def _shared(record: Record, name: str) -> tuple[str, str, str, str, str, bytes]:
    """The values that every family has: title, tags, files, created_at, metadata and digest."""
    given = safe(record.id)
    metadata = safe(metadata_of(record, "" if given == name else given))
    tags, files = safe(list_text(record.tags)), safe(list_text(record.origin.files))
    return safe(record.title), tags, files, safe(record.created_at), metadata, bytes.fromhex(digest_of(record))


def _memory(record: Record, key: int, name: str, place: int, shared: tuple[object, ...]) -> Row:
    title, tags, files, created, metadata, digest = shared
    return (
        key,
        name,
        record.kind.value,
        title,
        safe(record.text),
        tags,
        files,
        record.status.value,
        scope_text(record),
        created,
        metadata,
        digest,
    )


def _observation(record: Record, key: int, name: str, place: int, shared: tuple[object, ...]) -> Row:
    title, tags, files, created, metadata, digest = shared
    return (key, name, safe(record.origin.session), place, record.kind.value, title, safe(record.text), tags, files,
            scope_text(record), metadata, created, digest)  # fmt: skip


def _journal(record: Record, key: int, name: str, place: int, shared: tuple[object, ...]) -> Row:
    title, tags, files, created, metadata, digest = shared
    origin, extra = record.origin, record.extra
    return (
        key,
        name,
        safe(origin.run),
        column_value(origin.iteration),
        safe(origin.task) or None,
        column_value(extra.get("feature")),
        record.kind.value,
        column_value(extra.get("model")),
        column_value(extra.get("duration_secs")),
        column_value(extra.get("cost_usd")) or 0.0,
        files,
        title,
        safe(record.text),
        tags,
        scope_text(record),
        created,
        metadata,
        digest,
    )


_ROW = {Family.MEMORY: _memory, Family.OBSERVATION: _observation, Family.JOURNAL: _journal}
"""The values of a row; source and line come after the first two."""


def _folded(
    columns: Sequence[str], lines: Iterable[tuple[str, Mapping[str, object]]], wanted: str
) -> dict[str, Columns]:
    """What all lines of a type say together, by id."""
    folded: dict[str, Columns] = {}
    allowed = {"mode": _MODES} if wanted == "session" else {"status": _STATUSES}
    for line_type, value in lines:
        name = value.get("id")
        if line_type != wanted or not isinstance(name, str):
            continue
        said: Columns = {}
        for column in columns:
            held = value.get(column)
            if held is None or (column in allowed and held not in allowed[column]) or column_value(held) is None:
                continue
            said[column] = column_value(held)
        _fold(folded.setdefault(safe(name), {}), said)
    return folded


def _fold(held: Columns, said: Columns) -> None:
    """The earliest start and the latest change count, of everything else what was said last."""
    for column, value in said.items():
        known = held.get(column)
        if isinstance(known, str) and known and column in (*_EARLIEST, *_LATEST):
            if not isinstance(value, str) or not value:
                continue
            value = min(known, value) if column in _EARLIEST else max(known, value)
        held[column] = value


def _continues(source: Source, payload: bytes, row: sqlite3.Row | None) -> int:
    """From where a log that only grew is to be read, or the end of a file that is as it was; else 0: read it whole."""
    if row is None or (source.format is not Format.LOG and len(payload) != row["offset"]):
        return 0
    return int(row["offset"]) if _digest(payload[: row["offset"]]) == row["digest"] else 0


def _digest(payload: bytes) -> str:
    return hashlib.sha1(payload, usedforsecurity=False).hexdigest()
