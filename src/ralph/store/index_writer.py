"""Writes the rows of the index, and the full-text index with them.

The contents of a source are written in batches: ids that are taken and the state of a session are selected once, not
once a line, since a log has thousands of lines about one session. Lines about a session or a run have only what
changed; they are folded into one row, with the same result in any portions. Keys only grow within a batch, as the
full-text index wants them. `metadata` has only what no column has, so that the database stays small.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ralph.model.record import NOWHERE, Family, Record
from ralph.store.lookup import placeholders
from ralph.store.queries import (
    BEARER,
    FAMILIES,
    ORIGIN,
    TABLES,
    USUAL,
    Terms,
    digest_of,
    safe,
    search_columns,
    select_records,
)
from ralph.store.sources import Contents, Format, Interpret, Placed, Source, contents

_ALLOWED = {"mode": ("plan", "agent"), "status": ("running", "success", "failed", "stopped")}
_SESSION = (
    "id project_path task_id session_id mode started_at ended_at reason host summary tags messages created_at "
    "updated_at"
)
_RUN = "id session_id goal iterations status reason context_snapshots started_at ended_at"
_TASK = "id title description status priority blocked_by parent feature attempts worktree branch created_at updated_at"
_EARLIEST = ("started_at", "created_at")
_LATEST = ("updated_at",)
_MAX_VALUES = 900
"""SQLite takes a limited number of values in one statement."""
_METADATA = {
    Family.MEMORY: ORIGIN,
    Family.OBSERVATION: ("run", "iteration", "task", "agent", "commit"),
    Family.JOURNAL: ("session", "agent", "commit"),
}
"""The members of a record's origin that have no column."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)
"""SQLite reads this JSON, too: it knows no infinite numbers."""
_LARGEST = 2**63

Columns = dict[str, str | int | float | None]
Row = tuple[object, ...]


class IndexWriter:
    """Adds and removes the rows of sources on one connection."""

    def __init__(self, connection: sqlite3.Connection, terms: Terms, interpret: Interpret | None = None) -> None:
        self.connection = connection
        self._terms = terms
        self._interpret = interpret
        self._next: dict[Family, int] = {}
        self._bearers: dict[tuple[Family, str], int] = {}

    def load(self, source: Source, row: sqlite3.Row | None) -> None:
        """Read a source: the new lines of a log that only grew, anything else completely."""
        stat = source.path.stat()  # before reading, so that what is written meanwhile is read next time
        payload = source.path.read_bytes()
        is_log = source.format is Format.LOG
        end = payload.rfind(b"\n") + 1 if is_log else len(payload)
        start = 0
        if row is not None:
            offset = int(row["offset"])
            if (is_log or len(payload) == offset) and _digest(payload[:offset]) == row["digest"]:
                start = offset
            if not start:
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
            new = contents(source, payload[start:end].decode("utf-8", "surrogateescape"), self._interpret)
            self.put(key, new, lines_before=payload.count(b"\n", 0, start))

    def add_source(self, name: str, form: str, values: tuple[int, int, int, str, int]) -> int:
        """Add a row for a source and return its key."""
        sql = "INSERT INTO sources(path, format, mtime_ns, size, inode, digest, offset) VALUES (?, ?, ?, ?, ?, ?, ?)"
        return int(self.connection.execute(sql, (name, form, *values)).lastrowid or 0)

    def put(self, source: int, new: Contents, lines_before: int = 0) -> None:
        """Add rows for the contents of a source."""
        for family in FAMILIES:
            if placed := [item for item in new.records if item.record.family is family]:
                self._add_records(source, family, placed, lines_before)
        for task in new.tasks:
            values = [column_value(getattr(task, name)) for name in _TASK.split()]
            sql = f"INSERT OR IGNORE INTO tasks VALUES (NULL, ?, ?, {placeholders(values[1:])})"
            self.connection.execute(sql, (values[0], source, *values[1:]))
        self._merge("sessions", source, _folded(_SESSION.split(), new.lines, "session"), {})
        self._merge("loop_runs", source, _folded(_RUN.split(), new.lines, "run"), {"goal": "", "status": "running"})

    def clear(self, source: int) -> None:
        """Remove every row of a source."""
        sql = "INSERT INTO search(search, rowid, title, tags, text, files) VALUES ('delete', ?, ?, ?, ?, ?)"
        for family in FAMILIES:
            rows = select_records(self.connection, family, "source = ?", (source,))
            self.connection.executemany(sql, ((key, *search_columns(record, self._terms)) for key, record in rows))
        for table in ("records", "observations", "journal", "sessions", "loop_runs", "tasks"):
            self.connection.execute(f"DELETE FROM {table} WHERE source = ?", (source,))
        self.connection.execute("DELETE FROM sources WHERE key = ?", (source,))

    def _add_records(self, source: int, family: Family, placed: Sequence[Placed], lines_before: int) -> None:
        names = self._unique_ids(family, [safe(item.record.id) for item in placed])
        positions = self._positions(placed) if family is Family.OBSERVATION else iter([0] * len(placed))
        rows: list[Row] = []
        terms: list[Row] = []
        for item, key, name, position in zip(
            placed, self._new_keys(family, len(placed)), names, positions, strict=True
        ):
            values = _row_values(item.record, name, position)
            rows.append((key, name, source, item.line + lines_before, *values))
            terms.append((key, *search_columns(item.record, self._terms)))
        sql = f"INSERT INTO {TABLES[family][0]} VALUES ({placeholders(rows[0])})"
        self.connection.executemany(sql, rows)
        sql = "INSERT INTO search(rowid, title, tags, text, files) VALUES (?, ?, ?, ?, ?)"
        self.connection.executemany(sql, terms)

    def _merge(self, table: str, source: int, folded: Mapping[str, Columns], defaults: Columns) -> None:
        """Add a session or run, or fold what changed into its row."""
        for name, new in folded.items():
            sql = f"SELECT {', '.join(new)} FROM {table} WHERE id = ?"
            row = self.connection.execute(sql, (name,)).fetchone()
            if row is None:
                values = {**defaults, **new, "source": source}
                sql = f"INSERT INTO {table}({', '.join(values)}) VALUES ({placeholders([*values])})"
                self.connection.execute(sql, tuple(values.values()))
                continue
            values = {column: row[column] for column in new if row[column] is not None}
            _fold(values, new)
            sets = ", ".join(f"{column} = ?" for column in values)
            self.connection.execute(f"UPDATE {table} SET {sets} WHERE id = ?", (*values.values(), name))

    def _new_keys(self, family: Family, count: int) -> range:
        """Return the next free keys of a family, which count in steps of three."""
        step = len(FAMILIES)
        if family not in self._next:
            table, column = TABLES[family]
            highest = self.connection.execute(f"SELECT max({column}) FROM {table}").fetchone()[0]
            self._next[family] = FAMILIES.index(family) + step if highest is None else highest + step
        first = self._next[family]
        self._next[family] = first + count * step
        return range(first, first + count * step, step)

    def _unique_ids(self, family: Family, names: Sequence[str]) -> Iterator[str]:
        """Return ids for rows; a second record with the same id gets a number, since both are kept."""
        taken = set(self._taken(family, names))
        for original in names:
            name, number = original, self._bearers.get((family, original), 1)
            while name in taken or (number > 1 and any(self._taken(family, [name]))):
                number += 1
                name = f"{original}{BEARER}{number}"
            if number > 1:
                self._bearers[family, original] = number
            taken.add(name)
            yield name

    def _taken(self, family: Family, names: Sequence[str]) -> Iterator[str]:
        column = "record_id" if family is Family.JOURNAL else "id"
        for start in range(0, len(names), _MAX_VALUES):
            part = names[start : start + _MAX_VALUES]
            sql = f"SELECT {column} FROM {TABLES[family][0]} WHERE {column} IN ({placeholders(part)})"
            yield from (row[0] for row in self.connection.execute(sql, part).fetchall())

    def _positions(self, placed: Sequence[Placed]) -> Iterator[int]:
        """Return the position of each observation within its session."""
        last: dict[str, int] = {}
        sql = "SELECT coalesce(max(seq), 0) FROM observations WHERE session_id = ?"
        for item in placed:
            session = safe(item.record.origin.session)
            if session not in last:
                last[session] = self.connection.execute(sql, (session,)).fetchone()[0]
            last[session] += 1
            yield last[session]


def _row_values(record: Record, name: str, position: int) -> Row:
    """Return the values of a record's row after key, id, source and line."""
    origin, extra, original = record.origin, record.extra, safe(record.id)
    metadata = safe(_metadata(record, "" if original == name else original))
    is_usual = record.family is not Family.MEMORY and record.scope is USUAL[record.family][1]
    scope = "" if is_usual else record.scope.value
    tags, files = safe(_list_text(record.tags)), safe(_list_text(origin.files))
    kind, title, text, created = record.kind.value, safe(record.title), safe(record.text), safe(record.created_at)
    digest = bytes.fromhex(digest_of(record))
    if record.family is Family.MEMORY:
        return (kind, title, text, tags, files, record.status.value, scope, created, metadata, digest)
    if record.family is Family.OBSERVATION:
        return (safe(origin.session), position, kind, title, text, tags, files, scope, metadata, created, digest)
    feature, model, seconds = (column_value(extra.get(key)) for key in ("feature", "model", "duration_secs"))
    cost = column_value(extra.get("cost_usd")) or 0.0
    run, iteration, task = safe(origin.run), column_value(origin.iteration), safe(origin.task) or None
    work = (run, iteration, task, feature, kind, model, seconds, cost, files)
    return (*work, title, text, tags, scope, created, metadata, digest)


def _list_text(items: Sequence[str]) -> str:
    return _ENCODER.encode(items) if items else ""


def _metadata(record: Record, original_id: str) -> str:
    """Return what no column has as a JSON object, or ""; `original_id` is the id when its column has another."""
    family, origin = record.family, record.origin
    status, _, author = USUAL[family]
    rest: dict[str, object] = {"id": original_id} if original_id else {}
    if family is not Family.MEMORY and record.status is not status:
        rest["status"] = record.status.value
    if origin.by != author:
        rest["by"] = origin.by
    if origin is not NOWHERE:
        for name in _METADATA[family]:
            if (value := getattr(origin, name)) or value == 0:
                rest[name] = value
        if origin.iteration is not None and abs(origin.iteration) >= _LARGEST:
            rest["iteration"] = origin.iteration  # too large for its column
    for name in ("label", "updated_at", "valid_until"):
        if value := getattr(record, name):
            rest[name] = value
    if record.links:
        rest["links"] = [[link.relation, link.target] for link in record.links]
    if record.extra:
        rest["extra"] = dict(record.extra)
    try:
        return _ENCODER.encode(rest) if rest else ""
    except (ValueError, RecursionError):  # nested too deeply, or no finite number; the file still has it
        rest.pop("extra", None)
        return _ENCODER.encode(rest) if rest else ""


def column_value(value: object) -> str | int | float | None:
    """Return what a column can store of a JSON value: lists and objects as text, too large a number not at all."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _LARGEST else None
    return value if value is None or isinstance(value, float) else safe(json.dumps(value, ensure_ascii=False))


def _folded(
    columns: Sequence[str], lines: Iterable[tuple[str, Mapping[str, object]]], wanted: str
) -> dict[str, Columns]:
    """Fold all lines of a type, by id."""
    folded: dict[str, Columns] = {}
    for line_type, line in lines:
        name = line.get("id")
        if line_type != wanted or not isinstance(name, str):
            continue
        values = {column: line[column] for column in columns if line.get(column) is not None}
        new = {
            column: column_value(value)
            for column, value in values.items()
            if (column not in _ALLOWED or value in _ALLOWED[column]) and column_value(value) is not None
        }
        _fold(folded.setdefault(safe(name), {}), new)
    return folded


def _fold(values: Columns, new: Columns) -> None:
    """Change values in place: the earliest start and the latest change count, of everything else the last value."""
    for column, value in new.items():
        current = values.get(column)
        if isinstance(current, str) and current and column in (*_EARLIEST, *_LATEST):
            if not isinstance(value, str) or not value:
                continue
            value = min(current, value) if column in _EARLIEST else max(current, value)
        values[column] = value


def _digest(payload: bytes) -> str:
    return hashlib.sha1(payload, usedforsecurity=False).hexdigest()
