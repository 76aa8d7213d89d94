"""The index: a SQLite database over the sources, brought up to date before it is read.

`Index.ask` is the usual entry. It syncs the index, runs a query, and rebuilds the index if the
query finds it damaged. `Index.sync` reads only the sources that have changed (`changes.py`), and
only the new lines of a log, in slices small enough to keep a deadline. `IndexWriter` in
`index_writer.py` writes the rows.

One process writes at a time. After each sync, the index is *sealed* (`index_files.py`). Nothing is
stored only here, so a database is rebuilt if it is damaged, has another version, or does not fit
its seal. If it cannot be written, an in-memory database takes its place.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from ralph.core import paths
from ralph.core.errors import DeadlineExceeded, RalphError, Unreadable, WriteFailed
from ralph.core.record import Family, Record
from ralph.storage import changes, db, files, forgotten, gitignore, read_progress
from ralph.storage.index_files import (
    current_seal,
    discard,
    is_sealed,
    read_seal,
    remove_database,
    seal_file,
    sole_writer,
    was_touched,
    write_memory_states,
    write_seal,
)
from ralph.storage.index_schema import SCHEMA_VERSION
from ralph.storage.index_writer import (
    SLICE_BYTES,
    TEXT_INDEXES,
    IndexWriter,
    LoadedPortion,
    ReadState,
)
from ralph.storage.judgements import Judge, judge_newest
from ralph.storage.read_progress import file_digest
from ralph.storage.record_rows import (
    Terms,
)
from ralph.storage.source_contents import (
    Contents,
    Interpret,
    IsRalphCall,
    read_source,
)
from ralph.storage.sources import (
    SHARED_PREFIXES,
    Format,
    FoundSource,
    Source,
    has_project_sources,
    sources,
)

PATIENCE = 5.0  # seconds to wait while another process builds the index for the first time
_SLICE_BYTES = 16 * 1024  # of a log, read between two checks of the clock; takes about 25 ms
_HURRIED_BATCH_BYTES = 1_000_000  # per transaction, if there is a deadline
_BATCH_BYTES = 8_000_000  # per transaction otherwise; each adds a segment to a full-text index
_LARGE_BYTES = 4_000_000  # a sync that reads more than this gathers full-text rows
_FTS_HASH_BYTES = 1 << 20  # what FTS5 gathers in memory before it writes a segment, by default
_FTS_AUTOMERGE = 4  # how many segments of one size FTS5 merges, by default
_GATHERED_HASH_BYTES = 8 << 20
_COMPACT_PAGES = 64  # a database that has doubled and grown by more pages than this is compacted

Progress = Callable[[int, int], None]
"""Called with the number of sources read so far, and the number of sources to read."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of a sync: how many sources were read and removed.

    `complete` is true if everything is up to date now, and `has_memories` if at least all sources
    that are not logs are. `busy` is true if another process was writing.
    """

    read: int = 0
    removed: int = 0
    complete: bool = True
    has_memories: bool = True
    busy: bool = False


class _Pace(NamedTuple):
    """How much to read at a time, and when to stop by the monotonic clock."""

    slice_bytes: int = SLICE_BYTES
    batch_bytes: int = _BATCH_BYTES
    deadline: float = math.inf


class Index:
    """The index of one project.

    `copy_main` returns whether a worktree's index may start as a copy of the main checkout's. The
    other functions are passed on to the `IndexWriter`.
    """

    def __init__(
        self,
        root: Path,
        terms: Terms,
        interpret: Interpret | None = None,
        copy_main: Callable[[], bool] | None = None,
        is_order: Callable[[Record], bool] | None = None,
        is_ralph_call: IsRalphCall | None = None,
        judge: Judge | None = None,
    ) -> None:
        self.root = root
        self.path = paths.index_file(root)
        self._terms = terms
        self._interpret = interpret
        self.is_order = is_order
        self._is_ralph_call = is_ralph_call
        self._copy_main = copy_main
        self._judge = judge

    # --- asking ---------------------------------------------------------------------------------

    def outside(self) -> Path | None:
        """Return the real path of the index if a link leads out of the project, or None."""
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
        if self.sync(progress=progress).busy and not self.is_built():
            self.sync(progress=progress, patience=PATIENCE)
        return self.connect()

    def is_needed(self) -> bool:
        """Return whether there is anything to index. If not, no database should be created."""
        return self.outside() is None and (
            self.path.parent.exists() or has_project_sources(self.root)
        )

    def read(self, source: Source) -> Contents:
        """Return the contents of a source, or empty contents if it cannot be read."""
        try:
            return read_source(source, self._interpret, self._is_ralph_call)
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
        if not self.is_built() or os.access(self.path.parent, os.W_OK):
            return None
        copy = db.connect_memory()
        with suppress(RalphError, OSError, sqlite3.DatabaseError), db.explained(self.path):
            with closing(self.connect()) as connection:
                connection.backup(copy)
            self._update(copy, changes.FileScan(self.root), None, None)
            return copy
        copy.close()
        return None

    # --- bringing it up to date -----------------------------------------------------------------

    def sync(
        self,
        *,
        within: float | None = None,
        progress: Progress | None = None,
        patience: float = 0.0,
        keep_touched: bool = False,
        logs: bool = True,
        judging: float = 0.0,
    ) -> Synced:
        """Bring the index up to date.

        After `within` seconds, the rest is left for the next call. `patience` is how many seconds
        to wait for another writer. With `keep_touched`, a database that another program has touched
        is kept and stays unsealed, so that `verify` can compare it. Without `logs`, the logs are
        left for the next call. An update that is complete judges observations for `judging`
        seconds more (see `judgements.py`).
        """
        gitignore.ensure_gitignore(self.root)
        try:
            with sole_writer(self.path, patience=patience):
                with suppress(RalphError, OSError):  # still locked: the next sync tries again
                    files.collect_spilled(self.root)
                return self._sync_alone(
                    within, progress, logs=logs, keep_touched=keep_touched, judging=judging
                )
        except db.Busy:
            return Synced(complete=False, has_memories=False, busy=True)

    def rebuild(self, progress: Progress | None = None) -> Synced:
        """Delete the database and build it again from the files only."""
        discard(self.path)
        self._copy_main = None
        return self.sync(progress=progress)

    def is_built(self) -> bool:
        """Return whether the index has ever been complete. While first being built, it is not."""
        return self.path.exists() and bool(read_seal(self.path))

    def _sync_alone(
        self,
        within: float | None,
        progress: Progress | None,
        *,
        logs: bool,
        keep_touched: bool,
        judging: float,
    ) -> Synced:
        """Bring the index up to date. The caller is its sole writer."""
        sealed = not self.path.exists() or is_sealed(self.path)
        self._prepare_database(keep=sealed or keep_touched)
        if sealed and changes.is_unchanged(self.root, current_seal(self.path)):
            self._link()
            return Synced()
        scan = changes.FileScan(self.root, logs=logs)
        may_seal = sealed or not keep_touched
        try:
            result = self._update_or_rebuild(scan, within, progress, judging)
            if may_seal and not is_sealed(self.path):
                write_seal(self.path)
        except DeadlineExceeded:
            if may_seal and self.path.exists():  # what was committed until then is valid
                write_seal(self.path)
            raise
        self._link()
        if result.has_memories:
            write_memory_states(self.path, scan.memory_states)
            files.delete(paths.catch_up_file(self.root))
        if result.complete:
            scan.remember(current_seal(self.path))
        return result

    def _update_or_rebuild(
        self,
        scan: changes.FileScan,
        within: float | None,
        progress: Progress | None,
        judging: float,
    ) -> Synced:
        try:
            return self._update_file(scan, within, progress, judging)
        except db.Damaged:
            remove_database(self.path)
            return self._update_file(scan, within, progress, judging)

    def _prepare_database(self, *, keep: bool) -> None:
        """Remove rows that must not be kept, and start a missing database as a copy if possible."""
        if not self.path.exists():
            # A seal left behind would make `is_built` true as soon as the new database exists.
            files.delete(seal_file(self.path))
        elif not keep:
            self._drop_forgotten()
        if not self.path.exists() and self._copy_main is not None and self._copy_main():
            self._copy_from_main()

    def _copy_from_main(self) -> None:
        """Start a worktree's index as a copy of the main checkout's.

        Rows from files that differ here are removed. If anything fails, the index is built from the
        files instead.
        """
        main = paths.index_file(paths.main_checkout(self.root))
        new = self.path.with_name(self.path.name + "-new")
        try:
            if is_sealed(main) and self._copy_database(main, new):
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
        """Remove the rows of sources that do not exist in this checkout, or differ there."""
        present = {source.name: source.path for source in sources(self.root)}
        writer = IndexWriter(copy, self._terms)
        with db.atomic(copy):
            for row in copy.execute("SELECT key, path, digest FROM sources").fetchall():
                path = present.get(row["path"])
                is_shared = row["path"].startswith(SHARED_PREFIXES)
                if path is None or (not is_shared and file_digest(path) != row["digest"]):
                    writer.remove_source(row["key"])

    def _drop_forgotten(self) -> None:
        """Remove the rows of sources that contain forgotten text.

        If another program has touched the database, delete it.
        """
        if was_touched(self.path):
            remove_database(self.path)
            return
        with (
            db.explained(self.path),
            closing(db.connect(self.path)) as connection,
            db.atomic(connection),
        ):
            writer = IndexWriter(connection, self._terms)
            for key in _sources_with_forgotten(connection):
                writer.remove_source(key)

    def _link(self) -> None:
        """Link `.ralph/ralph.db` to the database, for people who use `sqlite3`.

        In another user's checkout, the link is theirs.
        """
        link = paths.index_link(self.root)
        target = os.path.relpath(self.path, link.parent)
        if not paths.gitignore(self.root).is_file() or paths.is_state_outside(self.root):
            return
        if os.path.lexists(link) and not link.is_symlink():
            return
        with suppress(OSError, WriteFailed):
            if not link.is_symlink() or os.fspath(link.readlink()) != target:
                files.delete(link)
                files.link(link, Path(target))

    def _update_file(
        self,
        scan: changes.FileScan,
        within: float | None,
        progress: Progress | None,
        judging: float,
    ) -> Synced:
        with db.explained(self.path), closing(db.connect(self.path)) as connection:
            pages_before = db.count_pages(connection)
            result = self._update(connection, scan, within, progress)
            has_grown = db.count_pages(connection) > 2 * pages_before + _COMPACT_PAGES
            if within is None and has_grown:
                with suppress(sqlite3.OperationalError):  # no space for a copy: leave it as it is
                    _compact(connection)
            if self._judge is not None and result.complete:
                judge_newest(connection, self._judge, judging)
            return result

    def _update(
        self,
        connection: sqlite3.Connection,
        scan: changes.FileScan,
        within: float | None,
        progress: Progress | None,
    ) -> Synced:
        """Update the rows of all sources that have changed.

        With a deadline, memories come before logs, and newer files before older ones, because they
        matter most to a session.
        """
        db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
        writer = IndexWriter(
            connection, self._terms, self._interpret, self.is_order, self._is_ralph_call
        )
        known = read_progress.source_states(connection)
        gone = scan.gone(known)
        differing = scan.differing_from(known)
        pace = _Pace()
        if within is not None:
            pace = _Pace(_SLICE_BYTES, _HURRIED_BATCH_BYTES, time.monotonic() + within)
            differing.sort(key=_urgency)
        changed = [found.source for found in differing]
        stored_names = [*gone, *(source.name for source in changed if source.name in known)]
        rows = _source_rows(connection, stored_names)
        for name in gone:
            with db.atomic(connection):
                writer.remove_source(rows[name]["key"])
        unread_bytes = sum(found.state.size for found in differing)
        is_large = within is None and unread_bytes >= _LARGE_BYTES
        with _gathering_words(connection) if is_large else nullcontext():
            loaded = _load_sources(writer, changed, rows, pace, progress)
        return Synced(
            loaded,
            len(gone),
            complete=scan.has_logs and loaded == len(changed),
            has_memories=all(source.format is Format.LOG for source in changed[loaded:]),
        )


def _urgency(found: FoundSource) -> tuple[bool, int]:
    """Return a key that sorts memories before logs, and newer files before older ones."""
    return found.source.format is Format.LOG, -found.state.mtime_ns


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
        "notes, record_id FROM journal_rows",
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
        with writer.batch():
            while count < len(changed) and batch_bytes <= pace.batch_bytes:
                source = changed[count]
                loaded = LoadedPortion(0, complete=True)
                # If the file is gone or cannot be read, none of it was written.
                with suppress(OSError):
                    loaded = writer.load(
                        source, rows.get(source.name), pace.slice_bytes, pace.deadline
                    )
                batch_bytes += loaded.size
                if pace.deadline < math.inf:
                    writer.finish_rows()
                if loaded.complete:
                    count += 1
                else:
                    rows |= _source_rows(writer.connection, [source.name])
                if progress is not None:
                    progress(count, len(changed))
                if time.monotonic() > pace.deadline:
                    return count
    return count


@contextmanager
def _gathering_words(connection: sqlite3.Connection) -> Iterator[None]:
    """Let the full-text indexes write few large segments, and not merge them yet.

    FTS5 stores these settings in the database. If the process is killed, the database does not fit
    its seal and is rebuilt.
    """
    _set_gathering(connection, _GATHERED_HASH_BYTES, merged_segments=0)
    try:
        yield
    finally:
        _set_gathering(connection, _FTS_HASH_BYTES, _FTS_AUTOMERGE)


def _set_gathering(connection: sqlite3.Connection, hash_bytes: int, merged_segments: int) -> None:
    with db.atomic(connection):
        for table in ("search", TEXT_INDEXES[Family.OBSERVATION].table):
            sql = f"INSERT INTO {table}({table}, rank) VALUES (?, ?)"
            connection.execute(sql, ("hashsize", hash_bytes))
            connection.execute(sql, ("automerge", merged_segments))


def _compact(connection: sqlite3.Connection) -> None:
    """Merge the segments of each full-text index, and free unused pages."""
    text_indexes = [text_index.table for text_index in TEXT_INDEXES.values()]
    for table in ("search", *text_indexes):
        connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
    connection.execute("VACUUM")


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
    with ExitStack() as stack:
        connection = stack.enter_context(closing(db.connect_memory()))
        db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
        writer = IndexWriter(connection, terms, is_order=is_order)
        with db.atomic(connection):
            for number, content in enumerate(contents):
                name = names[number] if names else str(number)
                form = formats[number] if formats else ""
                writer.add_contents(writer.add_source(name, form, ReadState()), content)
        stack.pop_all()  # the caller closes it
    return connection
