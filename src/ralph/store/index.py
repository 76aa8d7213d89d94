"""The index: SQLite over the sources, brought up to date before it is read.

`sync` compares time and size of every source and reads only those that changed, of a log only the new lines. One
process writes at a time; another one gives up, since the same is being written already. A database that is damaged,
deleted or of another version is made again: nothing is stored only here. Where it cannot be written, an index in
memory answers. Search terms and the meaning of raw lines are passed in, so that this layer knows no language.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ralph import paths
from ralph.errors import RalphError, Unreadable, WriteFailed
from ralph.store import db, files
from ralph.store.files import hide_state
from ralph.store.index_writer import IndexWriter
from ralph.store.lookup import SCHEMA_VERSION
from ralph.store.queries import FAMILIES, TABLES, Terms, digest_of, search_columns, select_records
from ralph.store.sources import SHARED, Contents, Interpret, Source, read_source, sources

__all__ = ("FAMILIES", "SCHEMA_VERSION", "Index", "Progress", "Synced", "digest_of", "in_memory", "search_columns")

PATIENCE = 5.0
"""Seconds to wait for another process that makes the index for the first time."""
_LARGE = 50_000_000
"""Bytes: a database up to that size is made again rather than checked when another program touched it."""
_BATCH = 1_000_000
"""Bytes of files that are read in one transaction; the full-text index writes a segment for each."""

Progress = Callable[[int, int], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of a sync: how many sources were read, and whether everything is up to date now."""

    read: int = 0
    removed: int = 0
    complete: bool = True
    busy: bool = False


class Index:
    """The database of one project.

    `copy_main` decides whether a worktree's first index may begin as a copy of the main checkout's.
    """

    def __init__(
        self,
        root: Path,
        terms: Terms,
        interpret: Interpret | None = None,
        copy_main: Callable[[], bool] | None = None,
    ) -> None:
        self.root = root
        self.path = paths.index_file(root)
        self._terms = terms
        self._interpret = interpret
        self._copy_main = copy_main

    def outside(self) -> Path | None:
        """Return the target of a link that takes the index out of the project; None when it is inside."""
        real = Path(os.path.realpath(self.path))
        return None if real.is_relative_to(os.path.realpath(paths.state_boundary(self.root))) else real

    def connect(self) -> sqlite3.Connection:
        """Open the database for reading; it must exist (see `sync`)."""
        return db.connect(self.path, read_only=True)

    def ask(self, question: Callable[[sqlite3.Connection], T], progress: Progress | None = None) -> T:
        """Ask the up-to-date index something; a damaged one is made again and asked once more."""
        for _ in range(2):
            with self.open_current(progress) as connection:
                try:
                    return question(connection)
                except (sqlite3.DatabaseError, UnicodeDecodeError, Unreadable):
                    pass
            if self.outside() is None:
                with suppress(db.Busy, WriteFailed):  # another process is already making it again
                    self.discard()
        with closing(self._from_files()) as connection:
            return question(connection)

    @contextmanager
    def open_current(self, progress: Progress | None = None) -> Iterator[sqlite3.Connection]:
        """Connect to the index in one state, brought up to date first; in memory where it cannot be written."""
        with closing(self._open(progress)) as connection:
            yield connection

    def _open(self, progress: Progress | None) -> sqlite3.Connection:
        if not self.is_needed():
            return self._from_files()
        try:
            if self.sync(progress=progress).busy and not self.built():
                self.sync(progress=progress, patience=PATIENCE)
            connection = self.connect()
        except (RalphError, OSError, sqlite3.DatabaseError):
            if self.built() and not os.access(self.path.parent, os.W_OK):
                with suppress(RalphError, OSError, sqlite3.DatabaseError):
                    return self._snapshot()
            return self._from_files()
        with suppress(sqlite3.DatabaseError):
            connection.execute("BEGIN")
        return connection

    def is_needed(self) -> bool:
        """Whether there is anything to index here, in a folder of the project: otherwise nothing is written."""
        return self.outside() is None and (self.path.parent.exists() or any(True for _ in sources(self.root)))

    def _from_files(self) -> sqlite3.Connection:
        """Read everything into an index in memory."""
        present = list(sources(self.root))
        return in_memory((self.read(source) for source in present), self._terms, [source.name for source in present])

    def read(self, source: Source) -> Contents:
        """Return the contents of a source; nothing when it may not be read."""
        try:
            return read_source(source, self._interpret)
        except Unreadable:
            return Contents()

    def _snapshot(self) -> sqlite3.Connection:
        """Copy the database into memory and bring the copy up to date, for a folder that cannot be written."""
        copy = db.connect_memory()
        with db.explained(self.path):
            with closing(self.connect()) as connection:
                connection.backup(copy)
            self._update(copy, None, None)
        return copy

    def sync(
        self,
        *,
        within: float | None = None,
        progress: Progress | None = None,
        patience: float = 0.0,
        trusting: bool = False,
    ) -> Synced:
        """Bring the index up to date; after `within` seconds the rest is left to the next call.

        With `trusting` a database that another program touched is not replaced, and stays unsealed, so that `verify`
        can compare it.
        """
        hide_state(self.root)
        try:
            with db.sole_writer(self.path, patience=patience):
                sealed = not self.path.exists() or db.seal(self.path) == self._read_seal()
                if not self.path.exists():
                    files.delete(_seal_of(self.path))  # before there is a new one: `built` asks in the other order
                elif not sealed and not trusting and not self._is_sound():
                    _remove(self.path)
                if not self.path.exists() and self._copy_main is not None and self._copy_main():
                    self._copy_from_main()
                try:
                    result = self._sync(within, progress)
                except db.Damaged:
                    _remove(self.path)
                    result = self._sync(within, progress)
                self._link()
                if (sealed or not trusting) and db.seal(self.path) != self._read_seal():
                    files.write(_seal_of(self.path), db.seal(self.path), mode=files.PRIVATE)
                return result
        except db.Busy:
            return Synced(complete=False, busy=True)

    def rebuild(self, progress: Progress | None = None) -> Synced:
        """Delete the database and make it again, from the files alone."""
        self.discard()
        self._copy_main = None
        return self.sync(progress=progress)

    def discard(self) -> None:
        """Delete the database; Busy when another process is writing to it."""
        discard(self.path)

    def built(self) -> bool:
        """Whether it was ever brought up to date: one that is being made for the first time has only a part."""
        return self.path.exists() and bool(self._read_seal())

    def _read_seal(self) -> str:
        seal = _seal_of(self.path)
        return (files.read(seal) or "") if seal.is_file() else ""

    def _is_sound(self) -> bool:
        """Whether a database that another program touched can be used: a large one is checked, a small one made again.

        SQLite, the full-text index and the digest of every row must agree.
        """
        if self.path.is_file() and self.path.stat().st_size <= _LARGE:
            return False
        try:
            with db.explained(self.path), closing(db.connect(self.path)) as connection:
                if db.version_of(connection) != SCHEMA_VERSION or not db.is_intact(connection):
                    return False
                connection.execute("INSERT INTO search(search) VALUES ('integrity-check')")
                for family in FAMILIES:
                    table, key = TABLES[family]
                    sql = f"SELECT {key} AS key, lower(hex(digest)) AS digest FROM {table}"
                    digests = {row["key"]: row["digest"] for row in connection.execute(sql)}
                    records = select_records(connection, family, "1", ())
                    if any(digests.get(number) != digest_of(record) for number, record in records):
                        return False
                return True
        except (db.Damaged, Unreadable):
            return False

    def _copy_from_main(self) -> None:
        """Begin a worktree's index as a copy of the main checkout's, if that is sealed.

        Rows of files that this checkout does not have in the same bytes go before the copy gets its name. Logs and
        tasks are the same files in both.
        """
        main = paths.index_file(paths.main_checkout(self.root))
        new = self.path.with_name(self.path.name + "-new")
        try:
            seal = _seal_of(main)
            if not (main.is_file() and seal.is_file() and files.read(seal) == db.seal(main)):
                return
            db.remove(new)
            with db.explained(main), closing(db.connect(main, read_only=True)) as original:
                if db.version_of(original) != SCHEMA_VERSION:
                    return
                with closing(db.connect(new)) as copy:
                    original.backup(copy)
                    self._drop_other_files(copy)
            files.move(new, self.path)
        except (RalphError, OSError, sqlite3.Error):
            return  # it is made from the files
        finally:
            with suppress(RalphError):
                db.remove(new)

    def _drop_other_files(self, copy: sqlite3.Connection) -> None:
        present = {source.name: source.path for source in sources(self.root)}
        writer = IndexWriter(copy, self._terms)
        with db.atomic(copy):
            for row in copy.execute("SELECT key, path, digest FROM sources").fetchall():
                path = present.get(row["path"])
                if path is None or (not row["path"].startswith(SHARED) and _digest(path) != row["digest"]):
                    writer.clear(row["key"])

    def _link(self) -> None:
        """Make the link for people with sqlite3, where git ignores it."""
        link = paths.index_link(self.root)
        target = os.path.relpath(self.path, link.parent)
        if paths.gitignore(self.root).is_file() and (link.is_symlink() or not link.exists()):
            with suppress(OSError, WriteFailed):
                if not link.is_symlink() or os.fspath(link.readlink()) != target:
                    files.delete(link)
                    files.link(link, Path(target))

    def _sync(self, within: float | None, progress: Progress | None) -> Synced:
        with db.explained(self.path), closing(db.connect(self.path)) as connection:
            return self._update(connection, within, progress)

    def _update(self, connection: sqlite3.Connection, within: float | None, progress: Progress | None) -> Synced:
        """Bring a database up to date: a few sources in a transaction, so that a kill loses little."""
        db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
        writer = IndexWriter(connection, self._terms, self._interpret)
        rows = {row["path"]: row for row in connection.execute("SELECT * FROM sources")}
        present = list(sources(self.root))
        gone = rows.keys() - {source.name for source in present}
        changed = [source for source in present if _differs(source, rows.get(source.name))]
        deadline = None if within is None else time.monotonic() + within
        for name in gone:
            with db.atomic(connection):
                writer.clear(rows[name]["key"])
        count = 0
        for batch in _batches(changed):
            with db.atomic(connection):
                for source in batch:
                    with suppress(OSError):  # gone meanwhile, or not ours to read: then nothing of it was written
                        writer.load(source, rows.get(source.name))
                    count += 1
                    if progress is not None:
                        progress(count, len(changed))
                    if deadline is not None and count < len(changed) and time.monotonic() > deadline:
                        return Synced(count, len(gone), complete=False)
        return Synced(count, len(gone))


def discard(path: Path, patience: float = 0.0) -> None:
    """Delete an index; Busy when another process writes to it for longer than `patience` seconds."""
    with db.sole_writer(path, patience=patience):
        _remove(path)


def in_memory(contents: Iterable[Contents], terms: Terms, names: Sequence[str] = ()) -> sqlite3.Connection:
    """Make an index that is never written to disk."""
    connection = db.connect_memory()
    db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
    writer = IndexWriter(connection, terms)
    with db.atomic(connection):
        for number, content in enumerate(contents):
            name = names[number] if names else str(number)
            writer.put(writer.add_source(name, "", (0, 0, 0, "", 0)), content)
    return connection


def _seal_of(path: Path) -> Path:
    """Return the file beside a database that describes how its last writer left it."""
    return path.with_name(path.name + "-seal")


def _remove(path: Path) -> None:
    files.delete(_seal_of(path))
    db.remove(path)


def _batches(changed: Sequence[Source]) -> Iterator[list[Source]]:
    """Split sources into batches of about the same number of bytes."""
    batch: list[Source] = []
    size = 0
    for source in changed:
        batch.append(source)
        with suppress(OSError):
            size += source.path.stat().st_size
        if size > _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _differs(source: Source, row: sqlite3.Row | None) -> bool:
    try:
        stat = source.path.stat()
    except OSError:
        return True
    return row is None or (stat.st_mtime_ns, stat.st_size, stat.st_ino) != (row["mtime_ns"], row["size"], row["inode"])


def _digest(path: Path) -> str:
    try:
        return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return ""
