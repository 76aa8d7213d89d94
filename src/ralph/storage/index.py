"""The index: a SQLite database over the sources, brought up to date before it is read.

`sync` reads only the sources that have changed. It reads only the new lines of a log, in slices
small enough to keep a deadline. One process writes at a time. Nothing is stored only here, so a
database is rebuilt if it is damaged, has another version, or was touched by another program. If the
database cannot be written, an in-memory database takes its place.

A *source* is a file that contains records. The index is *sealed* after each sync: a file next to
it records the database's size, time and inode, and the state of the list of forgotten texts. A
*folded* table has one row for many lines of a log, such as all lines about one session.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from ralph.core import discovery, paths
from ralph.core.errors import RalphError, Unreadable, WriteFailed
from ralph.core.record import Family, Record
from ralph.storage import changes, db, files, forgotten, gitignore, queries, totals
from ralph.storage.changes import digest_to, file_digest
from ralph.storage.index_schema import FAMILIES, KEY_STEP, SCHEMA_VERSION, TABLES, make_key
from ralph.storage.record_filters import placeholders
from ralph.storage.record_rows import (
    Row,
    Terms,
    column_value,
    row_values,
    search_columns,
    storable_text,
)
from ralph.storage.sources import (
    SHARED,
    Contents,
    Format,
    Interpret,
    IsOwn,
    Placed,
    Source,
    contents,
    has_own,
    read_source,
    sources,
)

__all__ = (
    "FAMILIES",
    "SCHEMA_VERSION",
    "Index",
    "Progress",
    "Synced",
    "in_memory",
    "search_columns",
)

PATIENCE = 5.0  # seconds to wait while another process builds the index for the first time
_BATCH_BYTES = 1_000_000  # per transaction; each transaction adds a segment to the full-text index
_SLICE_BYTES = 64 * 1024  # of a log, read between two checks of the clock
_COMPACT_PAGES = 64  # a database that has doubled and grown by more pages than this is compacted
_DATABASE_SEAL_FIELDS = 3  # in a seal file: size, time and inode, followed by the forgotten mark

Progress = Callable[[int, int], None]
"""Called with the number of sources read so far, and the number of sources to read."""
T = TypeVar("T")


# --- the index of a project ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of a sync: how many sources were read and removed, and what is left.

    `complete` says that everything is up to date now, and `busy` that another process was writing.
    """

    read: int = 0
    removed: int = 0
    complete: bool = True
    busy: bool = False


class _Pace(NamedTuple):
    """How much to read at a time, and when to stop by the monotonic clock."""

    slice_bytes: int = _BATCH_BYTES
    deadline: float = math.inf


class Index:
    """The index of one project.

    `copy_main` returns whether a worktree's index may start as a copy of the main checkout's.
    """

    def __init__(
        self,
        root: Path,
        terms: Terms,
        interpret: Interpret | None = None,
        copy_main: Callable[[], bool] | None = None,
        is_order: Callable[[Record], bool] | None = None,
        is_own: IsOwn | None = None,
    ) -> None:
        self.root = root
        self.path = paths.index_file(root)
        self._terms = terms
        self._interpret = interpret
        self.is_order = is_order
        self._is_own = is_own
        self._copy_main = copy_main

    # --- asking ---------------------------------------------------------------------------------

    def outside(self) -> Path | None:
        """Return where the index really is if a link puts it outside the project, or None."""
        real = Path(os.path.realpath(self.path))
        if real.is_relative_to(os.path.realpath(paths.state_boundary(self.root))):
            return None
        return real

    def connect(self) -> sqlite3.Connection:
        """Open the database for reading. It must exist (see `sync`)."""
        return db.connect(self.path, read_only=True)

    def ask(
        self, question: Callable[[sqlite3.Connection], T], progress: Progress | None = None
    ) -> T:
        """Return `question(connection)` for the up-to-date index.

        If the index turns out to be damaged, it is rebuilt and asked again.
        """
        for _ in range(2):
            with self.open_current(progress) as connection:
                try:
                    return question(connection)
                except (sqlite3.DatabaseError, UnicodeDecodeError, Unreadable):
                    pass
            if self.outside() is None:
                with suppress(db.Busy, WriteFailed):  # another process is rebuilding it already
                    discard(self.path)
        with closing(self._from_files()) as connection:
            return question(connection)

    @contextmanager
    def open_current(self, progress: Progress | None = None) -> Iterator[sqlite3.Connection]:
        """Connect to the up-to-date index in a single transaction.

        If the index cannot be written, connect to an in-memory one instead.
        """
        try:
            connection = self._connect_current(progress)
        except (RalphError, OSError, sqlite3.DatabaseError):
            connection = self._snapshot() or self._from_files()
        with closing(connection):
            with suppress(sqlite3.DatabaseError):
                connection.execute("BEGIN")
            yield connection

    def _connect_current(self, progress: Progress | None) -> sqlite3.Connection:
        if not self.is_needed():
            return self._from_files()
        if self.sync(progress=progress).busy and not self.built():
            self.sync(progress=progress, patience=PATIENCE)
        return self.connect()

    def is_needed(self) -> bool:
        """Return whether there is anything to index. Otherwise nothing should be written."""
        return self.outside() is None and (self.path.parent.exists() or has_own(self.root))

    def read(self, source: Source) -> Contents:
        """Return the contents of a source, or empty contents if it cannot be read."""
        try:
            return read_source(source, self._interpret, self._is_own)
        except Unreadable:
            return Contents()

    def _from_files(self) -> sqlite3.Connection:
        """Build an in-memory index from the files."""
        present = list(sources(self.root))
        return in_memory(
            map(self.read, present),
            self._terms,
            [source.name for source in present],
            self.is_order,
            [source.format.value for source in present],
        )

    def _snapshot(self) -> sqlite3.Connection | None:
        """Copy an index that cannot be written into memory, and update the copy.

        Return None if there is no complete index, if it can be written, or if copying fails.
        """
        if not self.built() or os.access(self.path.parent, os.W_OK):
            return None
        copy = db.connect_memory()
        with suppress(RalphError, OSError, sqlite3.DatabaseError), db.explained(self.path):
            with closing(self.connect()) as connection:
                connection.backup(copy)
            self._update(copy, changes.Look(self.root), None, None)
            return copy
        return None

    # --- bringing it up to date -----------------------------------------------------------------

    def sync(
        self,
        *,
        within: float | None = None,
        progress: Progress | None = None,
        patience: float = 0.0,
        trusting: bool = False,
    ) -> Synced:
        """Bring the index up to date.

        After `within` seconds, the rest is left for the next call. `patience` is how many seconds
        to wait for another writer. With `trusting`, a database that another program has touched is
        kept and stays unsealed, so that `verify` can compare it.
        """
        gitignore.ensure_gitignore(self.root)
        try:
            with sole_writer(self.path, patience=patience):
                with suppress(RalphError, OSError):  # still locked: the next sync tries again
                    files.collect_spilled(self.root)
                return self._sync_alone(within, progress, trusting=trusting)
        except db.Busy:
            return Synced(complete=False, busy=True)

    def rebuild(self, progress: Progress | None = None) -> Synced:
        """Delete the database and build it again from the files only."""
        discard(self.path)
        self._copy_main = None
        return self.sync(progress=progress)

    def built(self) -> bool:
        """Return whether the index has ever been complete. It is not while first being built."""
        return self.path.exists() and bool(self._read_seal())

    def _sync_alone(
        self, within: float | None, progress: Progress | None, *, trusting: bool
    ) -> Synced:
        """Bring the index up to date, with the right to write held by the caller."""
        sealed = not self.path.exists() or _current_seal(self.path) == self._read_seal()
        self._prepare_database(keep=sealed or trusting)
        if sealed and changes.none_since(self.root, _current_seal(self.path)):
            self._link()
            return Synced()
        look = changes.Look(self.root)
        try:
            result = self._update_file(look, within, progress)
        except db.Damaged:
            _remove(self.path)
            result = self._update_file(look, within, progress)
        self._link()
        if (sealed or not trusting) and _current_seal(self.path) != self._read_seal():
            write_seal(self.path)
        if result.complete:
            look.remember(_current_seal(self.path))
        return result

    def _prepare_database(self, *, keep: bool) -> None:
        """Remove rows that must not be kept, and start a missing database as a copy if possible."""
        if not self.path.exists():
            # Before a new database exists, because `built` checks the database before the seal.
            files.delete(_seal_of(self.path))
        elif not keep:
            self._drop_forgotten()
        if not self.path.exists() and self._copy_main is not None and self._copy_main():
            self._copy_from_main()

    def _read_seal(self) -> str:
        seal = _seal_of(self.path)
        if not seal.is_file():
            return ""
        return files.read(seal) or ""

    def _copy_from_main(self) -> None:
        """Start a worktree's index as a copy of the main checkout's.

        Rows from files that differ here are removed. If anything fails, the index is built from the
        files instead.
        """
        main = paths.index_file(paths.main_checkout(self.root))
        new = self.path.with_name(self.path.name + "-new")
        try:
            seal = _seal_of(main)
            is_sealed = (
                main.is_file() and seal.is_file() and files.read(seal) == _current_seal(main)
            )
            if is_sealed and self._copy_database(main, new):
                files.move(new, self.path)
        except (RalphError, OSError, sqlite3.Error):
            return
        finally:
            with suppress(RalphError):
                db.remove(new)

    def _copy_database(self, main: Path, new: Path) -> bool:
        """Copy the main checkout's index. Return False if it has another version."""
        db.remove(new)
        with db.explained(main), closing(db.connect(main, read_only=True)) as original:
            if db.version_of(original) != SCHEMA_VERSION:
                return False
            with closing(db.connect(new)) as copy:
                original.backup(copy)
                self._clear_differing(copy)
        return True

    def _clear_differing(self, copy: sqlite3.Connection) -> None:
        """Remove the rows of sources that are missing or different in this checkout."""
        present = {source.name: source.path for source in sources(self.root)}
        writer = IndexWriter(copy, self._terms)
        with db.atomic(copy):
            for row in copy.execute("SELECT key, path, digest FROM sources").fetchall():
                path = present.get(row["path"])
                is_shared = row["path"].startswith(SHARED)
                if path is None or (not is_shared and file_digest(path) != row["digest"]):
                    writer.clear(row["key"])

    def _drop_forgotten(self) -> None:
        """Remove the rows of sources that contain forgotten text.

        If the database itself was touched, not just the list of forgotten texts, delete it.
        """
        recorded_seal = self._read_seal().split()[:_DATABASE_SEAL_FIELDS]
        if recorded_seal != db.seal(self.path).split():
            _remove(self.path)
            return
        with (
            db.explained(self.path),
            closing(db.connect(self.path)) as connection,
            db.atomic(connection),
        ):
            writer = IndexWriter(connection, self._terms)
            for key in _sources_with_forgotten(connection):
                writer.clear(key)

    def _link(self) -> None:
        """Link `.ralph/ralph.db` to the database, for people who use `sqlite3`."""
        link = paths.index_link(self.root)
        target = os.path.relpath(self.path, link.parent)
        if not paths.gitignore(self.root).is_file():
            return
        if link.exists() and not link.is_symlink():
            return
        with suppress(OSError, WriteFailed):
            if not link.is_symlink() or os.fspath(link.readlink()) != target:
                files.delete(link)
                files.link(link, Path(target))

    def _update_file(
        self, look: changes.Look, within: float | None, progress: Progress | None
    ) -> Synced:
        with db.explained(self.path), closing(db.connect(self.path)) as connection:
            pages_before = db.count_pages(connection)
            result = self._update(connection, look, within, progress)
            has_grown = db.count_pages(connection) > 2 * pages_before + _COMPACT_PAGES
            if within is None and has_grown:
                with suppress(sqlite3.OperationalError):  # no space for a copy: leave it as it is
                    _compact(connection)
            return result

    def _update(
        self,
        connection: sqlite3.Connection,
        look: changes.Look,
        within: float | None,
        progress: Progress | None,
    ) -> Synced:
        """Update the rows of all changed sources. With a deadline, the newest files come first."""
        db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
        writer = IndexWriter(connection, self._terms, self._interpret, self.is_order, self._is_own)
        known = changes.known_states(connection)
        gone = known.keys() - look.scan()
        differing = look.differing(known)
        pace = _Pace()
        if within is not None:
            pace = _Pace(_SLICE_BYTES, time.monotonic() + within)
            differing.sort(key=lambda found: found.state.mtime_ns, reverse=True)
        changed = [found.source for found in differing]
        stored_names = [*gone, *(source.name for source in changed if source.name in known)]
        rows = _source_rows(connection, stored_names)
        for name in gone:
            with db.atomic(connection):
                writer.clear(rows[name]["key"])
        loaded = _load_sources(writer, changed, rows, pace, progress)
        return Synced(loaded, len(gone), complete=loaded == len(changed))


def _sources_with_forgotten(connection: sqlite3.Connection) -> set[int]:
    """Return the keys of the sources to read again.

    These are all sources that are not logs, and the logs that contain forgotten text.
    """
    hidden = forgotten.load()
    rows = connection.execute("SELECT key FROM sources WHERE format <> ?", (Format.LOG,))
    keys = {row["key"] for row in rows}
    for columns in (
        "text, id FROM records",
        "content, id FROM observations",
        "notes, record_id FROM journal",
    ):
        for source, text, record_id in connection.execute(f"SELECT source, {columns}"):
            if hidden.has(text) or hidden.has(forgotten.event_key(record_id)):
                keys.add(source)
    return keys


def _source_rows(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, sqlite3.Row]:
    """Return the rows of the named sources, by name."""
    sql = "SELECT * FROM sources WHERE path IN (SELECT value FROM json_each(?))"
    return {row["path"]: row for row in connection.execute(sql, (json.dumps(names),))}


def _load_sources(
    writer: IndexWriter,
    changed: Sequence[Source],
    rows: dict[str, sqlite3.Row],
    pace: _Pace,
    progress: Progress | None,
) -> int:
    """Load sources in batches, with one transaction per batch.

    Return how many sources were loaded completely.
    """
    count = 0
    while count < len(changed):
        batch_bytes = 0
        with db.atomic(writer.connection):
            while count < len(changed) and batch_bytes <= _BATCH_BYTES:
                source = changed[count]
                loaded = LoadedPortion(0, complete=True)
                # If the file is gone or cannot be read, none of it was written.
                with suppress(OSError):
                    loaded = writer.load(source, rows.get(source.name), pace.slice_bytes)
                batch_bytes += loaded.size
                if loaded.complete:
                    count += 1
                else:
                    rows |= _source_rows(writer.connection, [source.name])
                if progress is not None:
                    progress(count, len(changed))
                if time.monotonic() > pace.deadline:
                    return count
    return count


def _compact(connection: sqlite3.Connection) -> None:
    """Merge the segments of each full-text index, and free unused pages."""
    text_indexes = [text_index.table for text_index in _TEXT_INDEXES.values()]
    for table in ("search", *text_indexes):
        connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
    connection.execute("VACUUM")


@contextmanager
def sole_writer(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the exclusive right to write to a database.

    Raises Busy if another process still holds it after `patience` seconds.
    """
    files.make_folder(path.parent, 0o700)
    handle = files.lock_file(path.with_name(path.name + "-lock"), patience)
    if handle is None:
        raise db.Busy(f"{path}: another process is writing", hint="try again in a moment")
    try:
        yield
    finally:
        os.close(handle)


def discard(path: Path, patience: float = 0.0) -> None:
    """Delete an index. Raises Busy if another process is still writing after `patience` seconds."""
    with sole_writer(path, patience=patience):
        _remove(path)


def in_memory(
    contents: Iterable[Contents],
    terms: Terms,
    names: Sequence[str] = (),
    is_order: Callable[[Record], bool] | None = None,
    formats: Sequence[str] = (),
) -> sqlite3.Connection:
    """Build an index that is never written to disk.

    `names` and `formats` describe its sources, in the order of `contents`.
    """
    connection = db.connect_memory()
    db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
    writer = IndexWriter(connection, terms, is_order=is_order)
    with db.atomic(connection):
        for number, content in enumerate(contents):
            name = names[number] if names else str(number)
            form = formats[number] if formats else ""
            writer.put(writer.add_source(name, form, ReadState()), content)
    return connection


# --- seals --------------------------------------------------------------------------------------


def write_seal(path: Path) -> None:
    """Seal a database: record its state, so that the next sync trusts it."""
    files.write(_seal_of(path), _current_seal(path), mode=files.PRIVATE)


def _seal_of(path: Path) -> Path:
    return path.with_name(path.name + "-seal")


def _current_seal(path: Path) -> str:
    return f"{db.seal(path)} {forgotten.mark()}".rstrip()


def _remove(path: Path) -> None:
    files.delete(_seal_of(path))
    db.remove(path)


# --- the writer ---------------------------------------------------------------------------------

_ALLOWED_VALUES = {
    "mode": ("plan", "agent"),
    "status": ("running", "success", "failed", "stopped"),
}
"""The values that the schema allows in some columns."""
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
_SESSION_COLUMNS = (
    "project_path",
    "task_id",
    "session_id",
    "mode",
    "started_at",
    "ended_at",
    "reason",
    "host",
    "summary",
    "tags",
    "created_at",
    "updated_at",
)
_RUN_COLUMNS = ("goal", "iterations", "status", "reason", "started_at", "ended_at")
_COMPLETE_SESSIONS = """
UPDATE sessions SET
    created_at = min(
        coalesce(nullif(created_at, ''), started_at), coalesce(started_at, created_at)),
    task_id = coalesce(nullif(task_id, ''), (
        SELECT json_extract(metadata, '$.task') FROM observations
        WHERE session_id = sessions.id AND instr(metadata, '"task":') > 0
            AND json_extract(metadata, '$.task') > ''
        ORDER BY seq LIMIT 1)),
    messages = (
        SELECT json_group_array(json_object(
            'role', iif(title = 'prompt', 'user', 'assistant'), 'id', id,
            'text', substr(content, 1, 80)))
        FROM (SELECT * FROM observations WHERE session_id = sessions.id AND type = 'note'
            AND title IN ('prompt', 'answer') ORDER BY seq))
WHERE id IN (SELECT value FROM json_each(?))
"""
_COMPLETE_RUNS = f"""
UPDATE loop_runs SET
    session_id = (SELECT json_extract(metadata, '$.session') FROM journal
        WHERE run_id = loop_runs.id AND metadata <> '' ORDER BY iteration DESC LIMIT 1),
    context_snapshots = (
        SELECT json_group_array(printf('{discovery.RUNS}/%s/%04d.md', run_id, iteration))
        FROM (SELECT * FROM journal WHERE run_id = loop_runs.id AND iteration IS NOT NULL
            ORDER BY iteration))
WHERE id IN (SELECT value FROM json_each(?))
"""
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


class FoldedTable(NamedTuple):
    """A table in which each row combines several lines of a log.

    `kind` is the type of these lines, and also the member of a record's origin that names the row.
    `columns` are filled from these lines. The statement `complete` fills the `derived` columns from
    other tables.
    """

    kind: str
    table: str
    columns: tuple[str, ...]
    derived: tuple[str, ...]
    complete: str


FOLDED_TABLES = (
    FoldedTable("session", "sessions", _SESSION_COLUMNS, ("messages",), _COMPLETE_SESSIONS),
    FoldedTable(
        "run", "loop_runs", _RUN_COLUMNS, ("session_id", "context_snapshots"), _COMPLETE_RUNS
    ),
)
_FOLDS: Mapping[str, Callable[[str, str], str]] = {
    "started_at": min,
    "created_at": min,
    "updated_at": max,
}
"""How two values of a column are combined. In all other columns, the later value wins."""


class _TextIndex(NamedTuple):
    table: str
    column: str


_TEXT_INDEXES = {
    Family.OBSERVATION: _TextIndex("observations_fts", "content"),
    Family.JOURNAL: _TextIndex("journal_fts", "notes"),
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

    All lines about one session or run are folded into one row. The result does not depend on the
    size of the portions in which a log is read. Keys only increase, as the full-text index
    requires. The result of `is_order` is stored, so that hooks do not have to compute it.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        terms: Terms,
        interpret: Interpret | None = None,
        is_order: Callable[[Record], bool] | None = None,
        is_own: IsOwn | None = None,
    ) -> None:
        self.connection = connection
        self._is_own = is_own
        self._is_order = is_order or (lambda _: False)
        self._terms = terms
        self._interpret = interpret
        self._forgotten = forgotten.load()
        self._next_keys: dict[Family, int] = {}

    # --- sources --------------------------------------------------------------------------------

    def load(
        self, source: Source, row: sqlite3.Row | None, slice_size: int = _BATCH_BYTES
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
                self.clear(row["key"])
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
            # Until the end is reached, this is not the file's size, so the next sync continues.
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
            in_own_turn = row is not None and bool(row["in_own_turn"])
            self._put_text(source, key, portion.payload, lines_before, in_own_turn=in_own_turn)
        return LoadedPortion(len(portion.payload), portion.complete)

    def _put_text(
        self, source: Source, key: int, payload: bytes, lines_before: int, *, in_own_turn: bool
    ) -> None:
        """Add rows for a source's text, and note whether it ends in a turn that only used Ralph."""
        text = payload.decode("utf-8", "surrogateescape")
        new = contents(source, text, self._interpret, self._is_own, in_own_turn=in_own_turn)
        self.put(key, new, lines_before=lines_before)
        totals.add_log(self.connection, key, new)
        if new.in_own_turn != in_own_turn:
            sql = "UPDATE sources SET in_own_turn = ? WHERE key = ?"
            self.connection.execute(sql, (int(new.in_own_turn), key))

    def add_source(self, name: str, form: str, values: tuple[int, int, int, str, int, int]) -> int:
        """Add a row for a source and return its key. `values` is a `ReadState`."""
        inserted = self.connection.execute(_ADD_SOURCE, (name, form, *values))
        return int(inserted.lastrowid or 0)

    def put(self, source: int, new: Contents, lines_before: int = 0) -> None:
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
            self._fold_lines(folded, source, lines)
            names = {storable_text(str(line["id"])) for line in lines}
            names.update(
                storable_text(getattr(item.record.origin, folded.kind)) for item in records
            )
            names.discard("")
            if names:
                self.connection.execute(folded.complete, (json.dumps(sorted(names)),))
            if folded.kind == "session":
                totals.begin_sessions(self.connection, names)

    def clear(self, source: int) -> None:
        """Remove every row that came from a source."""
        sessions = totals.take_source(self.connection, source)
        for family in FAMILIES:
            self._delete_terms(source, family)
        for table in ("records", "observations", "journal", "sessions", "loop_runs", "tasks"):
            self.connection.execute(f"DELETE FROM {table} WHERE source = ?", (source,))
        self.connection.execute("DELETE FROM sources WHERE key = ?", (source,))
        totals.list_sessions_again(self.connection, sessions)

    def _delete_terms(self, source: int, family: Family) -> None:
        """Remove a source's records of one family from the full-text indexes."""
        rows = queries.select_records(self.connection, family, "source = ?", (source,))
        self.connection.executemany(
            _DELETE_TERMS, ((key, *search_columns(record, self._terms)) for key, record in rows)
        )
        if family in _TEXT_INDEXES:
            fts, column = _TEXT_INDEXES[family]
            table, key_column = TABLES[family]
            self.connection.execute(
                f"INSERT INTO {fts}({fts}, rowid, {column}) "
                f"SELECT 'delete', {key_column}, {column} FROM {table} WHERE source = ?",
                (source,),
            )

    # --- records and tasks ----------------------------------------------------------------------

    def _add_records(
        self, source: int, family: Family, placed: Sequence[Placed], lines_before: int
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
        table, key_column = TABLES[family]
        self.connection.executemany(f"INSERT INTO {table} VALUES ({placeholders(rows[0])})", rows)
        self.connection.executemany(_ADD_TERMS, terms)
        first_key = keys[0]
        if family in _TEXT_INDEXES:
            fts, column = _TEXT_INDEXES[family]
            self.connection.execute(
                f"INSERT INTO {fts}(rowid, {column}) "
                f"SELECT {key_column}, {column} FROM {table} WHERE {key_column} >= ?",
                (first_key,),
            )
        totals.add_records(self.connection, family, first_key)

    def _reserve_keys(self, family: Family, count: int) -> range:
        """Reserve keys for new records of a family. The keys of the families alternate."""
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
        """Return the position of a session's last observation, or 0 if it has none."""
        return int(self.connection.execute(_LAST_POSITION, (session,)).fetchone()[0])

    def _add_tasks(self, source: int, new: Contents) -> None:
        columns = ("source", *_TASK_COLUMNS)
        sql = f"INSERT OR IGNORE INTO tasks({', '.join(columns)}) VALUES ({placeholders(columns)})"
        for task in new.tasks:
            values = [column_value(getattr(task, name)) for name in _TASK_COLUMNS]
            self.connection.execute(sql, (source, *values))

    # --- sessions and runs ----------------------------------------------------------------------

    def _fold_lines(
        self, folded: FoldedTable, source: int, lines: Sequence[Mapping[str, object]]
    ) -> None:
        """Fold lines into the rows of the sessions or runs that they are about."""
        rows: dict[str, dict[str, object]] = {}
        for line in lines:
            if not isinstance(line.get("id"), str):
                continue
            name = storable_text(str(line["id"]))
            if name not in rows:  # once: a log has thousands of lines about one session
                rows[name] = self._folded_row(folded, source, name)
            rows[name] = self._fold_line(rows[name], line)
        assignments = ", ".join(f"{column} = ?" for column in folded.columns)
        self.connection.executemany(
            f"UPDATE {folded.table} SET {assignments} WHERE id = ?",
            [(*row.values(), name) for name, row in rows.items()],
        )

    def _folded_row(self, folded: FoldedTable, source: int, name: str) -> dict[str, object]:
        """Return the columns of a session or run, adding its row if it is new."""
        self.connection.execute(
            f"INSERT OR IGNORE INTO {folded.table}(id, source) VALUES (?, ?)", (name, source)
        )
        sql = f"SELECT {', '.join(folded.columns)} FROM {folded.table} WHERE id = ?"
        return dict(self.connection.execute(sql, (name,)).fetchone())

    def _fold_line(
        self, row: Mapping[str, object], line: Mapping[str, object]
    ) -> dict[str, object]:
        """Return the columns of a row after folding in one more line."""
        folded = dict(row)
        for column, current in row.items():
            member = line.get(column)
            if column == "summary" and self._forgotten.has(member):
                member = None
            value = column_value(member, _ALLOWED_VALUES.get(column))
            if column in _FOLDS and isinstance(current, str) and current:
                if not isinstance(value, str) or not value:
                    continue
                value = _FOLDS[column](current, value)
            if value is not None:
                folded[column] = value
        return folded


def _can_resume(file: BinaryIO, row: sqlite3.Row, length: int, *, is_log: bool) -> bool:
    """Return whether the index can continue where it stopped reading a file.

    The file must still begin with what was read. Only a log may have grown since.
    """
    offset = int(row["offset"])
    if offset == 0:
        return False
    if not is_log and offset != length:
        return False
    return bool(digest_to(file, offset) == row["digest"])


def _read_lines(file: BinaryIO, slice_bytes: int, length: int) -> _Portion:
    """Read about one slice of a log, leaving out a last line that is still being written."""
    payload = file.read(slice_bytes)
    while b"\n" not in payload:  # the line is longer than a slice
        more = file.read(slice_bytes)
        if not more:
            break
        payload += more
    is_at_end = file.tell() >= length
    return _Portion(payload[: payload.rfind(b"\n") + 1], complete=is_at_end)
