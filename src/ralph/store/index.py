"""The index: SQLite over the sources, brought up to date by whoever needs it next.

`sync` looks at each source's time and size, and reads only those that changed, of a log only the new lines. One
process writes at a time; another one gives up, since what it would write is being written. A database that is damaged,
deleted or of another version is made again: nothing is stored only here. How text becomes search terms is passed in, so
that this layer knows nothing of language.
"""

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.errors import RalphError, Unreadable, WriteFailed
from ralph.store import db, files
from ralph.store.lookup import SCHEMA_VERSION
from ralph.store.rows import FAMILIES, TABLES, Terms, digest_of, search_columns, stored
from ralph.store.sources import SHARED, Contents, Interpret, Source, sources
from ralph.store.writer import Writer

# --- the first index of a worktree ---------------------------------------------------------------


def seal_of(path: Path) -> Path:
    """The file beside a database that says how its last writer left it."""
    return path.with_name(path.name + "-seal")


def copy_main_index(path: Path, main: Path, present: Iterable[Source], terms: Terms) -> bool:
    """Begin a worktree's index as a copy of the main checkout's; False when it has to be made from the files.

    What the other checkout's files say goes before the copy gets its name: nobody ever reads it there.
    """
    fresh = path.with_name(path.name + "-new")
    try:
        if not _is_sealed(main):
            return False
        db.remove(fresh)
        with db.explained(main), closing(db.connect(main, read_only=True)) as held:
            if held.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
                return False
            with closing(db.connect(fresh)) as copy:
                held.backup(copy)
                _without_others(copy, present, terms)
        files.move(fresh, path)
    except (RalphError, OSError, sqlite3.Error):
        return False
    finally:
        with suppress(RalphError):
            db.remove(fresh)
    return True


def _is_sealed(main: Path) -> bool:
    """Whether an index is as its last writer left it."""
    return main.is_file() and seal_of(main).is_file() and files.read(seal_of(main)) == db.seal(main)


def _without_others(copy: sqlite3.Connection, present: Iterable[Source], terms: Terms) -> None:
    """Take out what this checkout does not say in the same bytes; logs and tasks are the same ones."""
    own = {source.name: source.path for source in present}
    writer = Writer(copy, terms)
    with db.atomic(copy):
        for row in copy.execute("SELECT key, path, digest FROM sources").fetchall():
            path = own.get(row["path"])
            if path is None or (not row["path"].startswith(SHARED) and _digest(path) != row["digest"]):
                writer.clear(row["key"])


def _digest(path: Path) -> str:
    try:
        return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return ""


__all__ = ("FAMILIES", "SCHEMA_VERSION", "Index", "Progress", "Synced", "digest_of", "discard", "in_memory",
           "search_columns")  # fmt: skip

_LARGE = 50_000_000
"""Bytes: a database up to that size is made again rather than checked when somebody else touched it."""

_BATCH = 1_000_000
"""Bytes of files that are read in one transaction; the full-text index writes a segment for each."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did: how many sources were read, and whether everything is up to date now."""

    read: int = 0
    removed: int = 0
    complete: bool = True
    busy: bool = False


class Index:
    """The database of one project."""

    def __init__(
        self, root: Path, terms: Terms, interpret: Interpret | None = None, start: Callable[[], bool] | None = None
    ) -> None:
        self.root = root
        self.path = paths.index_file(root)
        self._terms = terms
        self._interpret = interpret
        self._start = start

    def connect(self) -> sqlite3.Connection:
        """A connection for reading; the database must be there (see `sync`)."""
        return db.connect(self.path, read_only=True)

    def sync(
        self,
        *,
        within: float | None = None,
        progress: Progress | None = None,
        patience: float = 0.0,
        trusting: bool = False,
    ) -> Synced:
        """Bring the index up to date; at most so many seconds, the rest is left to the next call.

        With `trusting` a database that somebody else touched is taken as it is, and stays unsealed: `verify` looks
        at it, and the next sync has its doubts again.
        """
        try:
            with db.sole_writer(self.path, patience=patience):
                ours = db.seal(self.path) == self._sealed() or not self.path.exists()
                if not self.path.exists():
                    files.delete(self._seal)  # before the new one is there: `built` asks in the other order
                elif not ours and not trusting and not self._sound():
                    self._remove()
                if not self.path.exists() and self._start is not None and self._start():
                    copy_main_index(self.path, self._main, sources(self.root), self._terms)
                try:
                    done = self._sync(within, progress)
                except db.Damaged:
                    self._remove()
                    done = self._sync(within, progress)
                self._link()
                if (ours or not trusting) and db.seal(self.path) != self._sealed():
                    files.write(self._seal, db.seal(self.path), mode=files.PRIVATE)
                return done
        except db.Busy:
            return Synced(complete=False, busy=True)

    def _link(self) -> None:
        """Make the link for people with sqlite3, where git does not see it."""
        link = paths.index_link(self.root)
        target = os.path.relpath(self.path, link.parent)
        if paths.gitignore(self.root).is_file() and (link.is_symlink() or not link.exists()):
            with suppress(OSError, WriteFailed):
                if not link.is_symlink() or os.fspath(link.readlink()) != target:
                    files.delete(link)
                    files.link(link, Path(target))

    def rebuild(self, progress: Progress | None = None) -> Synced:
        """Delete the database and make it again, of the files alone."""
        self.discard()
        self._start = None
        return self.sync(progress=progress)

    def discard(self) -> None:
        """Delete the database; Busy when another process is at it."""
        discard(self.path)

    def built(self) -> bool:
        """Whether it was ever brought up to date: one that is being made for the first time holds but a part."""
        return self.path.exists() and bool(self._sealed())

    @property
    def _main(self) -> Path:
        """The index of the main checkout."""
        return paths.index_file(paths.main_checkout(self.root))

    @property
    def _seal(self) -> Path:
        return seal_of(self.path)

    def _sealed(self) -> str:
        return (files.read(self._seal) or "") if self._seal.is_file() else ""

    def _remove(self) -> None:
        _remove(self.path)

    def _sound(self) -> bool:
        """Whether a large database that somebody touched can be kept; a small one is sooner made again."""
        if self.path.is_file() and self.path.stat().st_size <= _LARGE:
            return False
        try:
            with db.explained(self.path), closing(db.connect(self.path)) as connection:
                return _version(connection) == SCHEMA_VERSION and _intact(connection)
        except (db.Damaged, Unreadable):
            return False

    def snapshot(self) -> sqlite3.Connection:
        """Return a copy in memory that is up to date, for a state folder that cannot be written."""
        copy = db.connect_memory()
        with db.explained(self.path):
            with closing(self.connect()) as connection:
                connection.backup(copy)
            self._update(copy, None, None)
        return copy

    def _sync(self, within: float | None, progress: Progress | None) -> Synced:
        with db.explained(self.path), closing(db.connect(self.path)) as connection:
            return self._update(connection, within, progress)

    def _update(self, connection: sqlite3.Connection, within: float | None, progress: Progress | None) -> Synced:
        """Bring a database up to date with the sources."""
        if _version(connection) != SCHEMA_VERSION:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise db.Damaged(f"{self.path}: made by another version", hint="it is made again")
            _create(connection)
        writer = Writer(connection, self._terms, self._interpret)
        known = {row["path"]: row for row in connection.execute("SELECT * FROM sources")}
        present = list(sources(self.root))
        missing = [known[name] for name in known.keys() - {source.name for source in present}]
        changed = [source for source in present if _differs(source, known.get(source.name))]
        gone = [row["key"] for row in missing]
        if not gone and not changed:
            return Synced()
        deadline = None if within is None else time.monotonic() + within
        return _apply(writer, gone, changed, known, deadline, progress)


def discard(path: Path, patience: float = 0.0) -> None:
    """Delete an index; Busy when another process is at it for longer than that."""
    with db.sole_writer(path, patience=patience):
        _remove(path)


def _remove(path: Path) -> None:
    files.delete(seal_of(path))
    db.remove(path)


def _intact(connection: sqlite3.Connection) -> bool:
    """Whether SQLite, the full-text index and every row's fingerprint agree that nothing was changed."""
    if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        return False
    connection.execute("INSERT INTO search(search) VALUES ('integrity-check')")
    for family in FAMILIES:
        table, key = TABLES[family]
        sql = f"SELECT {key} AS key, lower(hex(digest)) AS digest FROM {table}"  # noqa: S608  (our own names)
        digests = {row["key"]: row["digest"] for row in connection.execute(sql)}
        if any(digests.get(number) != digest_of(record) for number, record in stored(connection, family, "1", ())):
            return False
    return True


def in_memory(told: Iterable[Contents], terms: Terms, names: Sequence[str] = ()) -> sqlite3.Connection:
    """An index that is never written to disk: where the disk is read-only, and for measuring."""
    connection = db.connect_memory()
    _create(connection)
    writer = Writer(connection, terms)
    with db.atomic(connection):
        for number, each in enumerate(told):
            name = names[number] if names else str(number)
            writer.put(writer.add_source(name, "", (0, 0, 0, "", 0)), each)
    return connection


def _create(connection: sqlite3.Connection) -> None:
    from importlib import resources  # noqa: PLC0415 - when a database is made, and not in every hook

    script = resources.files("ralph.store").joinpath("schema.sql").read_text(encoding="utf-8")
    with db.atomic(connection):
        if _version(connection) != SCHEMA_VERSION:
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _apply(
    writer: Writer,
    gone: list[int],
    changed: list[Source],
    known: dict[str, sqlite3.Row],
    deadline: float | None,
    progress: Progress | None,
) -> Synced:
    """A few sources in a transaction: a reader soon sees something, a kill loses little, and commits are not all."""
    for key in gone:
        with db.atomic(writer.connection):
            writer.clear(key)
    done = 0
    for batch in _batches(changed):
        with db.atomic(writer.connection):
            for source in batch:
                with suppress(OSError):  # gone meanwhile, or not ours to read: then nothing of it was written
                    writer.load(source, known.get(source.name))
                done += 1
                if progress is not None:
                    progress(done, len(changed))
                if deadline is not None and done < len(changed) and time.monotonic() > deadline:
                    return Synced(done, len(gone), complete=False)
    return Synced(done, len(gone))


def _batches(changed: Sequence[Source]) -> Iterator[list[Source]]:
    """Sources in portions of about the same number of bytes."""
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


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    pending = ""
    for line in script.split("\n"):
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _differs(source: Source, row: sqlite3.Row | None) -> bool:
    if row is None:
        return True
    try:
        stat = source.path.stat()
    except OSError:
        return True
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino) != (row["mtime_ns"], row["size"], row["inode"])
