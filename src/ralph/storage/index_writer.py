"""Write the rows of the index, source by source.

A log is read in portions (`log_portions.py`). For each source, the index remembers how far it was
read (`offset`) and the digest of everything up to there. If a log still begins with the same bytes,
reading continues at the offset. Otherwise all rows of the source are removed, and it is read again
from the start.

Any other source is parsed as a whole, and its entries are compared with their rows, so that only
those that have changed are removed and added (`entry_changes.py`). A deadline may end this early.
The `size` of the source is then one that no file has, and the next call continues.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from ralph.core.record import Family, Record
from ralph.storage import db, files, forgotten, queries, totals
from ralph.storage.entry_changes import IndexedEntry, compare_entries
from ralph.storage.folded_rows import (
    RUNS,
    SESSIONS,
    FoldedTable,
    add_long_messages,
    fold_lines,
)
from ralph.storage.index_schema import (
    FAMILIES,
    KEY_STEP,
    TABLES,
    family_of,
    keys_of_family,
    make_key,
)
from ralph.storage.log_portions import (
    LOG_START,
    SLICE_BYTES,
    LogPortion,
    LogPosition,
    LogReader,
    ReadState,
)
from ralph.storage.lookup import IS_ORDER
from ralph.storage.prepared_rows import PreparedContents, PreparedRecord
from ralph.storage.read_progress import digest_to
from ralph.storage.record_filters import placeholders
from ralph.storage.record_rows import (
    Row,
    Terms,
    column_value,
    search_columns,
    storable_text,
)
from ralph.storage.source_contents import (
    Contents,
    CuratedEntries,
    Interpret,
    IsRalphCall,
    parse_contents,
)
from ralph.storage.sources import Format, Source

_RECORDS_AT_ONCE = 500  # added or removed between two checks of the clock
_PARTLY_READ = -1  # the size of a source of which some entries are not in the index yet
_ENTRY_FAMILIES = (Family.MEMORY, Family.JOURNAL)  # progress.txt has entries of both
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


class LoadedPortion(NamedTuple):
    """How many bytes were loaded, and whether the end of the source was reached."""

    size: int
    complete: bool


@dataclass(slots=True)
class _HeldRows:
    """What follows at the end of a batch: terms, and what is computed from its other rows.

    `first_keys` are the keys of each family's first record in the batch.
    """

    terms: list[Row] = field(default_factory=list)
    first_keys: dict[Family, int] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)


class IndexWriter:
    """Adds and removes rows for sources, and keeps the full-text index in step.

    `terms` and `is_order` are described in `prepared_rows.py`, `interpret` and `is_ralph_call` in
    `source_contents.py`.
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
        self._terms = terms
        self._reader = LogReader(terms, interpret, is_order, is_ralph_call)
        self._forgotten = forgotten.load()
        self._next_keys: dict[Family, int] = {}
        self._held: _HeldRows | None = None

    # --- batches --------------------------------------------------------------------------------

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Write the rows that are added in one transaction.

        Full-text rows and totals follow at its end, all together. A statement that changes several
        rows makes FTS5 write what it has gathered, so mixing the two would give the full-text
        indexes a segment for each source.
        """
        with db.atomic(self.connection):
            self._held = _HeldRows()
            try:
                yield
                self._write_held(self._held)
            finally:
                self._held = None

    def finish_rows(self) -> None:
        """Write what the current batch still holds."""
        if self._held is not None:
            self._write_held(self._held)
            self._held = _HeldRows()

    def _write_held(self, held: _HeldRows) -> None:
        self.connection.executemany(_ADD_TERMS, held.terms)
        for family, first_key in held.first_keys.items():
            if family in TEXT_INDEXES:
                fts, covered, key_column, text = TEXT_INDEXES[family]
                self.connection.execute(
                    f"INSERT INTO {fts}(rowid, {text}) "
                    f"SELECT {key_column}, {text} FROM {covered} WHERE {key_column} >= ?",
                    (first_key,),
                )
            totals.add_records(self.connection, family, first_key)
        if held.sessions:
            totals.begin_sessions(self.connection, held.sessions)

    # --- sources --------------------------------------------------------------------------------

    def load(
        self,
        source: Source,
        row: sqlite3.Row | None,
        slice_size: int = SLICE_BYTES,
        deadline: float = math.inf,
    ) -> LoadedPortion:
        """Read the next slice of a log, or another source until the deadline, and add its rows.

        `row` is the source's row in the index, or None if it has none. `deadline` is a time of the
        monotonic clock. Raises OSError if the file cannot be read.
        """
        # Taken before reading, so that anything written in the meantime is read next time.
        status = source.path.stat()
        with files.open_unpacked(source.path) as file:
            if source.format is not Format.LOG:
                return self._load_curated(source, row, status, file, deadline)
            if row is not None and not _can_resume(file, row):
                self.remove_source(row["key"])
                row = None
            start = LOG_START
            if row is not None:
                start = LogPosition(row["offset"], row["lines"], bool(row["in_own_turn"]))
            portion = self._reader.read(source, file, status, start, slice_size)
        key = None if row is None else int(row["key"])
        self.add_portion(source, key, portion)
        return LoadedPortion(portion.size, portion.is_last)

    def add_portion(self, source: Source, key: int | None, portion: LogPortion) -> int:
        """Add the rows of a portion of a log, and return the key of the log.

        `key` is None for the first portion.
        """
        if key is None:
            key = self.add_source(source.name, source.format, portion.state)
        else:
            self.connection.execute(_UPDATE_SOURCE, (*portion.state, key))
        if portion.contents is None:
            return key
        self._add_prepared(key, portion.contents, portion.start.lines)
        totals.add_log(self.connection, key, portion.contents.others)
        if portion.end.in_ralph_turn != portion.start.in_ralph_turn:
            sql = "UPDATE sources SET in_own_turn = ? WHERE key = ?"
            self.connection.execute(sql, (int(portion.end.in_ralph_turn), key))
        return key

    def _load_curated(
        self,
        source: Source,
        row: sqlite3.Row | None,
        status: os.stat_result,
        file: BinaryIO,
        deadline: float,
    ) -> LoadedPortion:
        """Update the rows of a source that is not a log, as far as the deadline allows."""
        payload = file.read()
        state = ReadState(
            mtime_ns=status.st_mtime_ns,
            size=status.st_size,
            inode=status.st_ino,
            digest=digest_to(file, len(payload)),
            offset=len(payload),
            lines=payload.count(b"\n"),
        )
        if row is None:
            key = self.add_source(source.name, source.format, state)
        else:
            key = row["key"]
            self.connection.execute(_UPDATE_SOURCE, (*state, key))
            is_same = (row["digest"], row["offset"]) == (state.digest, state.offset)
            if is_same and row["size"] != _PARTLY_READ:  # only its time has changed
                return LoadedPortion(0, complete=True)
        text = payload.decode("utf-8", "surrogateescape")
        if source.format is Format.TASK:
            self.connection.execute("DELETE FROM tasks WHERE source = ?", (key,))
            self.add_contents(key, parse_contents(source, text))
            return LoadedPortion(len(payload), complete=True)
        is_continued = row is not None and row["size"] == _PARTLY_READ
        is_complete = self._update_entries(key, source, text, deadline, is_continued=is_continued)
        if not is_complete:
            sql = "UPDATE sources SET size = ? WHERE key = ?"
            self.connection.execute(sql, (_PARTLY_READ, key))
        return LoadedPortion(len(payload), is_complete)

    def _update_entries(
        self, key: int, source: Source, text: str, deadline: float, *, is_continued: bool
    ) -> bool:
        """Update the rows of the entries that have changed, and of those that read like orders.

        The latter may have named something that the project did not know and knows now. Return
        whether there was time for all of them.
        """
        entries = CuratedEntries(source, text)
        indexed = self._indexed_entries(key, is_continued=is_continued)
        changes = compare_entries(indexed, entries.lines, entries.fingerprints)
        for gone in _portions(changes.gone, deadline):
            self._remove_entries(gone)
            if time.monotonic() > deadline:
                return False
        for new in _portions(changes.new, deadline):
            self.add_contents(key, Contents(tuple(map(entries.placed, new))))
            if time.monotonic() > deadline:
                return False
        for family in _ENTRY_FAMILIES:
            table, key_column = TABLES[family]
            moved = [entry for entry in changes.moved if family_of(entry.key) is family]
            self.connection.executemany(
                f"UPDATE {table} SET line = ? WHERE {key_column} = ?", moved
            )
        return True

    def _indexed_entries(self, source: int, *, is_continued: bool) -> list[IndexedEntry]:
        """Return the entries of a source that the index has.

        Those to judge again have no fingerprint, unless an earlier call has begun with them.
        """
        fingerprint = "fingerprint" if is_continued else f"iif({IS_ORDER}, x'', fingerprint)"
        indexed: list[IndexedEntry] = []
        for family in _ENTRY_FAMILIES:
            table, key_column = TABLES[family]
            sql = f"SELECT {key_column}, line, {fingerprint} FROM {table} WHERE source = ?"
            indexed += map(IndexedEntry._make, self.connection.execute(sql, (source,)))
        return sorted(indexed, key=lambda entry: entry.line)

    def _remove_entries(self, keys: Sequence[int]) -> None:
        """Remove the rows of entries from the index."""
        self.finish_rows()
        for family in _ENTRY_FAMILIES:
            family_keys = keys_of_family(keys, family)
            if family_keys:
                self._remove_records(family, family_keys)

    def _remove_records(self, family: Family, keys: Sequence[int]) -> None:
        """Remove records of one family from the index."""
        table, key_column = TABLES[family]
        condition = f"{key_column} IN (SELECT value FROM json_each(?))"
        values = (json.dumps(keys),)
        totals.subtract_records(self.connection, family, condition, values)
        self._delete_terms(family, condition, values)
        self.connection.execute(f"DELETE FROM {table} WHERE {condition}", values)

    def add_source(self, name: str, form: str, state: ReadState) -> int:
        """Add a row for a source and return its key."""
        inserted = self.connection.execute(_ADD_SOURCE, (name, form, *state))
        return int(inserted.lastrowid or 0)

    def add_contents(self, source: int, new: Contents) -> None:
        """Add rows for the contents of a source, except forgotten records."""
        self._add_prepared(source, self._reader.preparer.prepare(new))

    def _add_prepared(self, source: int, new: PreparedContents, lines_before: int = 0) -> None:
        """Add prepared rows. `lines_before` is the number of lines read from the source earlier."""
        held = _HeldRows() if self._held is None else self._held
        for family in FAMILIES:
            if new.records[family]:
                self._add_records(source, family, new.records[family], lines_before, held)
        self._add_tasks(source, new.others)
        held.sessions |= self._fold_lines(source, SESSIONS, new.others, new.sessions)
        self._fold_lines(source, RUNS, new.others, new.runs)
        lines = [line for kind, line in new.others.lines if kind == SESSIONS.kind]
        add_long_messages(self.connection, source, lines, self._forgotten.has)
        if self._held is None:
            self._write_held(held)

    def _fold_lines(
        self, source: int, folded: FoldedTable, new: Contents, named: Collection[str]
    ) -> set[str]:
        """Fold the lines about sessions or runs into their rows, and complete these rows.

        `named` are the ids that the new records name. Return the ids of all rows that may have
        changed.
        """
        lines = []
        for kind, line in new.lines:
            if kind == folded.kind and isinstance(line.get("id"), str):
                lines.append(line)
        fold_lines(self.connection, folded, source, lines, self._forgotten.has)
        names = {storable_text(str(line["id"])) for line in lines}.union(named)
        names.discard("")
        if names:
            self.connection.execute(folded.complete, (json.dumps(sorted(names)),))
        return names

    def remove_source(self, source: int) -> None:
        """Remove every row that came from a source."""
        self.finish_rows()
        sessions = totals.subtract_source(self.connection, source)
        for family in FAMILIES:
            self._delete_terms(family, "source = ?", (source,))
        for table in (
            "records",
            "observations",
            "long_messages",
            "journal_rows",
            "session_rows",
            "loop_runs",
            "tasks",
        ):
            self.connection.execute(f"DELETE FROM {table} WHERE source = ?", (source,))
        self.connection.execute("DELETE FROM sources WHERE key = ?", (source,))
        totals.relist_sessions(self.connection, sessions)

    def _delete_terms(self, family: Family, condition: str, values: tuple[int | str, ...]) -> None:
        """Remove the records of one family that meet a condition from the full-text indexes."""
        rows = queries.select_records(self.connection, family, condition, values)
        self.connection.executemany(
            _DELETE_TERMS, ((key, *search_columns(record, self._terms)) for key, record in rows)
        )
        if family in TEXT_INDEXES:
            fts, covered, key, text = TEXT_INDEXES[family]
            self.connection.execute(
                f"INSERT INTO {fts}({fts}, rowid, {text}) "
                f"SELECT 'delete', {key}, {text} FROM {covered} WHERE {condition}",
                values,
            )

    # --- records and tasks ----------------------------------------------------------------------

    def _add_records(
        self,
        source: int,
        family: Family,
        records: Sequence[PreparedRecord],
        lines_before: int,
        held: _HeldRows,
    ) -> None:
        """Add the rows of a family's records, and hold their terms."""
        keys = self._reserve_keys(family, len(records))
        last_positions: dict[str, int] = {}
        rows: list[Row] = []
        for record, key in zip(records, keys, strict=True):
            line = record.line + lines_before
            if family is Family.OBSERVATION:
                session = record.session
                if session not in last_positions:
                    last_positions[session] = self._last_position(session)
                position = last_positions[session] + 1
                last_positions[session] = position
                row: Row = (key, record.record_id, source, line, session, position, *record.values)
            else:
                row = (key, record.record_id, source, line, *record.values)
            rows.append(row)
            held.terms.append((key, *record.terms))
        table, _ = TABLES[family]
        self.connection.executemany(f"INSERT INTO {table} VALUES ({placeholders(rows[0])})", rows)
        held.first_keys.setdefault(family, keys[0])

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


def _can_resume(file: BinaryIO, row: sqlite3.Row) -> bool:
    """Return whether reading a log can continue at the stored offset.

    The log must still begin with what was read.
    """
    offset = int(row["offset"])
    return offset > 0 and bool(digest_to(file, offset) == row["digest"])


def _portions(items: Sequence[int], deadline: float) -> Iterator[Sequence[int]]:
    """Divide changes into portions, after each of which the clock is checked."""
    if deadline == math.inf:
        if items:
            yield items
        return
    for start in range(0, len(items), _RECORDS_AT_ONCE):
        yield items[start : start + _RECORDS_AT_ONCE]
