"""The index: a SQLite database over the sources, brought up to date before it is read.

`Index.ask` is the usual entry. It syncs the index, runs a query, and rebuilds the index if the
query finds it damaged. `Index.sync` reads only the sources that have changed (`changes.py`), and
only the new lines of a log, in slices small enough to keep a deadline. `index_update.py` decides
what to write, and `IndexWriter` in `index_writer.py` writes the rows. Both are loaded only if
something has changed, because most searches find an up-to-date index.

One process writes at a time. After each sync, the index is *sealed* (`index_files.py`). Nothing is
stored only here, so a database is rebuilt if it is damaged, has another version, or does not fit
its seal. If it cannot be written, an in-memory database takes its place.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ralph.core import paths
from ralph.core.errors import DeadlineExceeded, RalphError, Unreadable, WriteFailed
from ralph.core.record import Record
from ralph.storage import changes, db, files, gitignore, read_progress
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
from ralph.storage.judgements import Judge, judge_newest
from ralph.storage.record_rows import Terms
from ralph.storage.sources import Format, Source, has_project_sources, sources

if TYPE_CHECKING:
    from ralph.storage.index_writer import IndexWriter
    from ralph.storage.log_helper import HelpRules
    from ralph.storage.source_contents import Contents, Interpret, IsRalphCall

PATIENCE = 5.0  # seconds to wait while another process builds the index for the first time
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


class Index:
    """The index of one project.

    `copy_main` returns whether a worktree's index may start as a copy of the main checkout's.
    `help_rules` returns when another process reads logs. The other functions are passed on to the
    `IndexWriter`.
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
        help_rules: Callable[[], HelpRules] | None = None,
    ) -> None:
        self.root = root
        self.path = paths.index_file(root)
        self._terms = terms
        self._interpret = interpret
        self.is_order = is_order
        self._is_ralph_call = is_ralph_call
        self._copy_main = copy_main
        self._judge = judge
        self._help_rules = help_rules

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
        from ralph.storage.source_contents import Contents, read_source

        try:
            return read_source(source, self._interpret, self._is_ralph_call)
        except Unreadable:
            return Contents()

    def _from_files(self) -> sqlite3.Connection:
        """Build an in-memory index from the files."""
        from ralph.storage.index_update import in_memory

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
    ) -> Synced:
        """Bring the index up to date.

        After `within` seconds, the rest is left for the next call. `patience` is how many seconds
        to wait for another writer. With `keep_touched`, a database that another program has touched
        is kept and stays unsealed, so that `verify` can compare it. Without `logs`, the logs are
        left for the next call.
        """
        gitignore.ensure_gitignore(self.root)
        try:
            with sole_writer(self.path, patience=patience):
                with suppress(RalphError, OSError):  # still locked: the next sync tries again
                    files.collect_spilled(self.root)
                return self._sync_alone(within, progress, logs=logs, keep_touched=keep_touched)
        except db.Busy:
            return Synced(complete=False, has_memories=False, busy=True)

    def judge(self, seconds: float) -> None:
        """Judge the newest observations for some seconds (see `judgements.py`).

        This does nothing while another process writes to the index, if another program has touched
        it, or if it was built by another version of Ralph.
        """
        if self._judge is None:
            return
        with suppress(db.Busy), sole_writer(self.path):
            if not is_sealed(self.path):
                return
            try:
                with db.explained(self.path), closing(db.connect(self.path)) as connection:
                    if db.version_of(connection) == SCHEMA_VERSION:
                        judge_newest(connection, self._judge, seconds)
            finally:
                write_seal(self.path)  # what was committed until then is valid

    def rebuild(self, progress: Progress | None = None) -> Synced:
        """Delete the database and build it again from the files only."""
        discard(self.path)
        self._copy_main = None
        return self.sync(progress=progress)

    def is_built(self) -> bool:
        """Return whether the index has ever been complete. While first being built, it is not."""
        return self.path.exists() and bool(read_seal(self.path))

    def _sync_alone(
        self, within: float | None, progress: Progress | None, *, logs: bool, keep_touched: bool
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
            result = self._update_or_rebuild(scan, within, progress)
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
        self, scan: changes.FileScan, within: float | None, progress: Progress | None
    ) -> Synced:
        try:
            return self._update_file(scan, within, progress)
        except db.Damaged:
            remove_database(self.path)
            return self._update_file(scan, within, progress)

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
            if is_sealed(main):
                from ralph.storage.index_update import copy_of_other_checkout

                if copy_of_other_checkout(main, new, self.root, self._writer):
                    files.move(new, self.path)
        except (RalphError, OSError, sqlite3.Error):
            return
        finally:
            with suppress(RalphError):
                db.remove(new)

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
            from ralph.storage.index_update import remove_forgotten

            remove_forgotten(self._writer(connection))

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
        self, scan: changes.FileScan, within: float | None, progress: Progress | None
    ) -> Synced:
        with db.explained(self.path), closing(db.connect(self.path)) as connection:
            pages_before = db.count_pages(connection)
            result = self._update(connection, scan, within, progress)
            has_grown = db.count_pages(connection) > 2 * pages_before + _COMPACT_PAGES
            if within is None and has_grown:
                from ralph.storage.index_update import compact

                with suppress(sqlite3.OperationalError):  # no space for a copy: leave it as it is
                    compact(connection)
            return result

    def _update(
        self,
        connection: sqlite3.Connection,
        scan: changes.FileScan,
        within: float | None,
        progress: Progress | None,
    ) -> Synced:
        """Update the rows of all sources that have changed."""
        db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
        known = read_progress.source_states(connection)
        gone = scan.gone(known)
        differing = scan.differing_from(known)
        if not gone and not differing:
            return Synced(complete=scan.has_logs)
        from ralph.storage.index_update import update_sources

        help_rules = None
        if within is None and self._help_rules is not None:
            help_rules = self._help_rules()
        unread = update_sources(
            self._writer(connection), gone, differing, within, progress, help_rules
        )
        return Synced(
            len(differing) - len(unread),
            len(gone),
            complete=scan.has_logs and not unread,
            has_memories=all(source.format is Format.LOG for source in unread),
        )

    def _writer(self, connection: sqlite3.Connection) -> IndexWriter:
        from ralph.storage.index_writer import IndexWriter

        return IndexWriter(
            connection, self._terms, self._interpret, self.is_order, self._is_ralph_call
        )
