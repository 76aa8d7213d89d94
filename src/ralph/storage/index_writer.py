"""Write the rows of the index, source by source.

A log is read in portions, and the result does not depend on their size. For each source, the index
remembers how far it was read (`offset`) and the digest of everything up to there. If a log still
begins with the same bytes, reading continues at the offset. Otherwise all rows of the source are
removed, and it is read again from the start.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import BinaryIO, NamedTuple

from ralph.core import paths
from ralph.core.record import Family, Record
from ralph.storage import files, forgotten, queries, totals
from ralph.storage.folded_rows import (
    FOLDED_TABLES,
    fold_lines,
)
from ralph.storage.index_schema import FAMILIES, KEY_STEP, TABLES, make_key
from ralph.storage.read_progress import digest_to
from ralph.storage.record_filters import placeholders
from ralph.storage.record_rows import (
    Row,
    Terms,
    column_value,
    row_values,
    search_columns,
    storable_text,
)
from ralph.storage.source_contents import (
    Contents,
    Interpret,
    IsRalphCall,
    PlacedRecord,
    parse_contents,
)
from ralph.storage.sources import Format, Source

BATCH_BYTES = 1_000_000  # per transaction; each transaction adds a segment to the full-text index
_TASK_COLUMNS = (
    "id",
    "title",
    "description",
    "status",
    "priority",
    "blocked_by",
    "parent",
    "feature",
    "attempts",
    "worktree",
    "branch",
    "created_at",
    "updated_at",
)
_UPDATE_SOURCE = """
UPDATE sources SET mtime_ns = ?, size = ?, inode = ?, digest = ?, offset = ?, lines = ?
WHERE key = ?
"""
_ADD_SOURCE = """
INSERT INTO sources(path, format, mtime_ns, size, inode, digest, offset, lines)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_TERMS = "INSERT INTO search(rowid, title, tags, text, files) VALUES (?, ?, ?, ?, ?)"
_DELETE_TERMS = """
INSERT INTO search(search, rowid, title, tags, text, files) VALUES ('delete', ?, ?, ?, ?, ?)
"""
_LAST_POSITION = "SELECT coalesce(max(seq), 0) FROM observations WHERE session_id = ?"


class _TextIndex(NamedTuple):
    """A full-text table, the table or view whose rows it covers, and their key and text columns."""

    table: str
    covered: str
    key: str
    text: str


TEXT_INDEXES = {
    Family.OBSERVATION: _TextIndex("observations_fts", "observations", "key", "content"),
    Family.JOURNAL: _TextIndex("journal_fts", "journal", "id", "notes"),
}
"""Full-text tables for people who use `sqlite3`. Ralph does not read them."""


class ReadState(NamedTuple):
    """The state of a source's file when it was read, and how far it was read."""

    mtime_ns: int = 0
    size: int = 0
    inode: int = 0
    digest: str = ""
    offset: int = 0
    lines: int = 0


class LoadedPortion(NamedTuple):
    """How many bytes were loaded, and whether the end of the source was reached."""

    size: int
    complete: bool


class _Portion(NamedTuple):
    payload: bytes
    complete: bool


class IndexWriter:
    """Adds and removes rows for sources, and keeps the full-text index in step.

    `terms` splits text into search terms, and `interpret` and `is_ralph_call` are described in
    `source_contents.py`. `is_order` returns whether a record reads like an instruction to an agent.
    Its result is stored, so that hooks do not have to compute it.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        terms: Terms,
        interpret: Interpret | None = None,
        is_order: Callable[[Record], bool] | None = None,
        is_ralph_call: IsRalphCall | None = None,
    ) -> None:
        self.connection = connection
        self._is_ralph_call = is_ralph_call
        self._is_order = is_order or (lambda _: False)
        self._terms = terms
        self._interpret = interpret
        self._forgotten = forgotten.load()
        self._next_keys: dict[Family, int] = {}

    # --- sources --------------------------------------------------------------------------------

    def load(
        self, source: Source, row: sqlite3.Row | None, slice_size: int = BATCH_BYTES
    ) -> LoadedPortion:
        """Read the next slice of a log, or the whole of any other source, and add its rows.

        `row` is the source's row in the index, or None if it has none. Raises OSError if the file
        cannot be read.
        """
        # Taken before reading, so that anything written in the meantime is read next time.
        status = source.path.stat()
        is_log = source.format is Format.LOG
        with files.open_unpacked(source.path) as file:
            length = status.st_size
            if source.path.name.endswith(paths.PACKED):
                length = file.seek(0, os.SEEK_END)
            if row is not None and not _can_resume(file, row, length, is_log=is_log):
                self.remove_source(row["key"])
                row = None
            start = 0 if row is None else int(row["offset"])
            lines_before = 0 if row is None else int(row["lines"])
            file.seek(start)
            if is_log:
                portion = _read_lines(file, slice_size, length)
            else:
                portion = _Portion(file.read(), complete=True)
            end = start + len(portion.payload)
            digest = digest_to(file, end)
        state = ReadState(
            mtime_ns=status.st_mtime_ns,
            # Until the end is reached, a size that no file has makes the next sync continue.
            size=status.st_size if portion.complete else -end,
            inode=status.st_ino,
            digest=digest,
            offset=end,
            lines=lines_before + portion.payload.count(b"\n"),
        )
        if row is None:
            key = self.add_source(source.name, source.format, state)
        else:
            key = row["key"]
            self.connection.execute(_UPDATE_SOURCE, (*state, key))
        if portion.payload or row is None:
            in_ralph_turn = row is not None and bool(row["in_own_turn"])
            self._add_text(source, key, portion.payload, lines_before, in_ralph_turn=in_ralph_turn)
        return LoadedPortion(len(portion.payload), portion.complete)

    def _add_text(
        self, source: Source, key: int, payload: bytes, lines_before: int, *, in_ralph_turn: bool
    ) -> None:
        """Add rows for a source's text.

        The index stores whether the text ends in a turn that only called Ralph, because the answer
        to such a turn may follow in the next portion.
        """
        text = payload.decode("utf-8", "surrogateescape")
        new = parse_contents(
            source, text, self._interpret, self._is_ralph_call, in_ralph_turn=in_ralph_turn
        )
        self.add_contents(key, new, lines_before=lines_before)
        totals.add_log(self.connection, key, new)
        if new.in_ralph_turn != in_ralph_turn:
            sql = "UPDATE sources SET in_own_turn = ? WHERE key = ?"
            self.connection.execute(sql, (int(new.in_ralph_turn), key))

    def add_source(self, name: str, form: str, state: ReadState) -> int:
        """Add a row for a source and return its key."""
        inserted = self.connection.execute(_ADD_SOURCE, (name, form, *state))
        return int(inserted.lastrowid or 0)

    def add_contents(self, source: int, new: Contents, lines_before: int = 0) -> None:
        """Add rows for the contents of a source, except forgotten records.

        `lines_before` is the number of lines that were read from the source earlier.
        """
        records = [item for item in new.records if not self._forgotten.hides(item.record)]
        for family in FAMILIES:
            placed = [item for item in records if item.record.family is family]
            if placed:
                self._add_records(source, family, placed, lines_before)
        self._add_tasks(source, new)
        for folded in FOLDED_TABLES:
            lines = [line for kind, line in new.lines if kind == folded.kind]
            fold_lines(self.connection, folded, source, lines, self._forgotten.has)
            names = {storable_text(str(line["id"])) for line in lines}
            names.update(
                storable_text(getattr(item.record.origin, folded.kind)) for item in records
            )
            names.discard("")
            if names:
                self.connection.execute(folded.complete, (json.dumps(sorted(names)),))
            if folded.kind == "session":
                totals.begin_sessions(self.connection, names)

    def remove_source(self, source: int) -> None:
        """Remove every row that came from a source."""
        sessions = totals.subtract_source(self.connection, source)
        for family in FAMILIES:
            self._delete_terms(source, family)
        for table in (
            "records",
            "observations",
            "journal_rows",
            "session_rows",
            "loop_runs",
            "tasks",
        ):
            self.connection.execute(f"DELETE FROM {table} WHERE source = ?", (source,))
        self.connection.execute("DELETE FROM sources WHERE key = ?", (source,))
        totals.relist_sessions(self.connection, sessions)

    def _delete_terms(self, source: int, family: Family) -> None:
        """Remove a source's records of one family from the full-text indexes."""
        rows = queries.select_records(self.connection, family, "source = ?", (source,))
        self.connection.executemany(
            _DELETE_TERMS, ((key, *search_columns(record, self._terms)) for key, record in rows)
        )
        if family in TEXT_INDEXES:
            fts, covered, key, text = TEXT_INDEXES[family]
            self.connection.execute(
                f"INSERT INTO {fts}({fts}, rowid, {text}) "
                f"SELECT 'delete', {key}, {text} FROM {covered} WHERE source = ?",
                (source,),
            )

    # --- records and tasks ----------------------------------------------------------------------

    def _add_records(
        self, source: int, family: Family, placed: Sequence[PlacedRecord], lines_before: int
    ) -> None:
        keys = self._reserve_keys(family, len(placed))
        last_positions: dict[str, int] = {}
        rows: list[Row] = []
        terms: list[Row] = []
        for item, key in zip(placed, keys, strict=True):
            record = item.record
            position = 0
            if family is Family.OBSERVATION:
                session = storable_text(record.origin.session)
                if session not in last_positions:
                    last_positions[session] = self._last_position(session)
                last_positions[session] += 1
                position = last_positions[session]
            values = row_values(record, position, is_order=self._is_order(record))
            rows.append((key, storable_text(record.id), source, item.line + lines_before, *values))
            terms.append((key, *search_columns(record, self._terms)))
        table, _ = TABLES[family]
        self.connection.executemany(f"INSERT INTO {table} VALUES ({placeholders(rows[0])})", rows)
        self.connection.executemany(_ADD_TERMS, terms)
        first_key = keys[0]
        if family in TEXT_INDEXES:
            fts, covered, key_column, text = TEXT_INDEXES[family]
            self.connection.execute(
                f"INSERT INTO {fts}(rowid, {text}) "
                f"SELECT {key_column}, {text} FROM {covered} WHERE {key_column} >= ?",
                (first_key,),
            )
        totals.add_records(self.connection, family, first_key)

    def _reserve_keys(self, family: Family, count: int) -> range:
        """Reserve keys for new records of a family (see `index_schema.py`).

        They are higher than all existing ones, as the full-text index requires.
        """
        if family not in self._next_keys:
            table, key_column = TABLES[family]
            row = self.connection.execute(f"SELECT max({key_column}) FROM {table}").fetchone()
            highest = row[0]
            if highest is None:
                highest = make_key(0, family)
            self._next_keys[family] = highest + KEY_STEP
        first = self._next_keys[family]
        end = first + count * KEY_STEP
        self._next_keys[family] = end
        return range(first, end, KEY_STEP)

    def _last_position(self, session: str) -> int:
        return int(self.connection.execute(_LAST_POSITION, (session,)).fetchone()[0])

    def _add_tasks(self, source: int, new: Contents) -> None:
        columns = ("source", *_TASK_COLUMNS)
        sql = f"INSERT OR IGNORE INTO tasks({', '.join(columns)}) VALUES ({placeholders(columns)})"
        for task in new.tasks:
            values = [column_value(getattr(task, name)) for name in _TASK_COLUMNS]
            self.connection.execute(sql, (source, *values))


def _can_resume(file: BinaryIO, row: sqlite3.Row, length: int, *, is_log: bool) -> bool:
    """Return whether reading can continue at the stored offset.

    The file must still begin with what was read, and only a log may have grown since.
    """
    offset = int(row["offset"])
    if offset == 0:
        return False
    if not is_log and offset != length:
        return False
    return bool(digest_to(file, offset) == row["digest"])


def _read_lines(file: BinaryIO, slice_bytes: int, length: int) -> _Portion:
    """Read about one slice of a log. A last line that is still being written is left out."""
    payload = file.read(slice_bytes)
    while b"\n" not in payload:  # the line is longer than a slice
        more = file.read(slice_bytes)
        if not more:
            break
        payload += more
    is_at_end = file.tell() >= length
    return _Portion(payload[: payload.rfind(b"\n") + 1], complete=is_at_end)
