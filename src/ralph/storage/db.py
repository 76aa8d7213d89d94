"""Open SQLite databases, run transactions, and recognise damaged files.

Every database is a cache or is derived from files, so one that is damaged or has another version is
rebuilt. SQLite does not notice all damage, so a *seal* records the file's size, modification time
and inode, and the inode of its folder, after the last write. A database that no longer fits its
seal was touched by another program.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from ralph.core.errors import RalphError, WriteFailed
from ralph.lean import hook_files
from ralph.storage import files
from ralph.storage.index_schema import COUNT_FOREIGN_TABLES

_BUSY_SECONDS = 5.0  # how long a statement waits for another writer
_READ_SECONDS = 60.0  # how long a reader's queries may take
_IDLE_SECONDS = 1.0  # a pause of this length between queries restarts that time
_DEADLINE_INSTRUCTIONS = 20_000  # of SQLite's virtual machine, between two checks of the clock
_PAGE_BYTES = 16_384  # a row has about 1,000 bytes, and few of those fill a default page
_LOG_SUFFIX = "-wal"  # of the write-ahead log
_CHECKPOINT_PAGES = 256  # 4 MB of write-ahead log, as with default pages
_RETRY_HINT = "try again in a moment"
_REBUILD_HINT = "Ralph rebuilds it automatically"
_DAMAGE_MESSAGES = [
    "malformed",
    "not a database",
    "corrupt",
    "disk image",
    "vtable constructor failed",
    "no such table",
    "no such column",
    "values were supplied",
    "values for",
    "could not decode",
    "unsupported file format",
    "constraint failed",
    "datatype mismatch",
    "unable to delete/modify",
    "no query solution",
]
"""Substrings of SQLite's messages about a file that is damaged or belongs to another program."""


class Busy(RalphError):
    """Another process is writing to this database right now."""


class Damaged(RalphError):
    """The file is not an intact database of this version."""


# --- opening ------------------------------------------------------------------------------------


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a database.

    Unless `read_only`, a missing file is created with mode 0600. Raises Damaged if Ralph did not
    create the file.
    """
    if path.exists() and not path.is_file():  # opening a FIFO would wait for a writer
        raise Damaged(f"{path}: is not a regular file", hint=_REBUILD_HINT)
    connection = _open_to_read(path) if read_only else _open_to_write(path)
    connection.row_factory = sqlite3.Row
    try:
        with explained(path):
            connection.execute("PRAGMA trusted_schema = OFF")
            if read_only:
                restart_deadline(connection)
            else:
                # The page size only takes effect in an empty file.
                connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
            if connection.execute(COUNT_FOREIGN_TABLES).fetchone()[0]:
                raise Damaged(
                    f"{path}: has tables, views or triggers of another program",
                    hint=_REBUILD_HINT,
                )
    except BaseException:
        connection.close()
        raise
    return connection


def _open_to_read(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    if not os.access(path.parent, os.W_OK):
        uri += "&immutable=1"  # otherwise SQLite needs to create files next to the database
    timeout = files.limit_patience(_BUSY_SECONDS)
    return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)


def _open_to_write(path: Path) -> sqlite3.Connection:
    files.make_folder(path.parent, 0o700)
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, files.PRIVATE))
    timeout = files.limit_patience(_BUSY_SECONDS)
    return sqlite3.connect(path, timeout=timeout, isolation_level=None)


def restart_deadline(connection: sqlite3.Connection) -> None:
    """Interrupt queries that take too long, counting from now.

    A pause between queries restarts the count, so a long job made of many short queries is not
    interrupted.
    """
    started_at = time.monotonic()
    last_checked_at = started_at

    def is_overdue() -> bool:
        nonlocal started_at, last_checked_at
        now = time.monotonic()
        if now - last_checked_at > _IDLE_SECONDS:
            started_at = now
        last_checked_at = now
        return now - started_at > _READ_SECONDS

    connection.set_progress_handler(is_overdue, _DEADLINE_INSTRUCTIONS)


def connect_foreign(path: Path) -> sqlite3.Connection:
    """Open another program's database for reading.

    No file is created next to the database unless that program has it open.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    log = path.with_name(f"{path.name}{_LOG_SUFFIX}")
    if not log.exists() or not log.stat().st_size:
        uri += "&immutable=1"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def connect_memory() -> sqlite3.Connection:
    """Create an in-memory database that lasts as long as its connection."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


def connect_cache(path: Path, schema: str, version: int) -> sqlite3.Connection:
    """Open a database that has the tables defined in a schema file.

    A damaged or outdated database is deleted and created again. Raises Damaged if the new one is
    damaged as well.
    """
    try:
        return _connect_with_tables(path, schema, version)
    except Damaged:
        remove(path)
    try:
        return _connect_with_tables(path, schema, version)
    except Damaged:
        remove(path)
        raise


def _connect_with_tables(path: Path, schema: str, version: int) -> sqlite3.Connection:
    with contextlib.ExitStack() as stack, explained(path):
        connection = stack.enter_context(contextlib.closing(connect(path)))
        create_tables(connection, schema, version)
        stack.pop_all()  # the connection stays open
    return connection


def create_tables(connection: sqlite3.Connection, schema: str, version: int) -> None:
    """Create the tables defined in a schema file in an empty database.

    Does nothing if they exist already. Raises Damaged if the database has another version.
    """
    if version_of(connection) == version:
        return
    with atomic(connection):
        if version_of(connection) == version:  # another process was faster
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise Damaged(
                "the database was created by another version of Ralph", hint=_REBUILD_HINT
            )
        from importlib import resources

        script = resources.files("ralph.storage").joinpath(schema).read_text(encoding="utf-8")
        for statement in script.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version}")


def version_of(connection: sqlite3.Connection) -> int:
    """Return the schema version of a database, or 0 if it has no tables yet."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection commits to the database."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


# --- transactions and errors --------------------------------------------------------------------


@contextlib.contextmanager
def atomic(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run one transaction. It takes the write lock immediately, so that no writer fails halfway."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise Busy, Damaged or WriteFailed instead of SQLite's errors. Others pass through."""
    try:
        yield
    except UnicodeDecodeError as error:  # raised for SQLite's own message about a damaged file
        raise Damaged(f"{path}: contains invalid text", hint=_REBUILD_HINT) from error
    except sqlite3.DatabaseError as error:
        message = str(error).lower()
        if "locked" in message or "busy" in message:
            raise Busy(f"{path}: another process is writing", hint=_RETRY_HINT) from error
        if _means_damage(error):
            raise Damaged(f"{path}: {error}", hint=_REBUILD_HINT) from error
        # No write permission, no space left, or a folder where the file should be.
        if isinstance(error, sqlite3.OperationalError):
            raise WriteFailed(
                f"{path}: {error}", hint="make it and its folder writable, or delete it"
            ) from error
        raise


def _means_damage(error: sqlite3.DatabaseError) -> bool:
    if type(error) is sqlite3.DatabaseError:
        return True
    message = str(error).lower()
    return any(part in message for part in _DAMAGE_MESSAGES)


# --- the state of a database --------------------------------------------------------------------


def is_intact(connection: sqlite3.Connection) -> bool:
    """Return whether SQLite's integrity check finds no damage."""
    return bool(connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok")


def count_pages(connection: sqlite3.Connection) -> int:
    """Return the size of a database in pages."""
    return int(connection.execute("PRAGMA page_count").fetchone()[0])


def is_in_memory(connection: sqlite3.Connection) -> bool:
    """Return whether a database exists only in memory."""
    return not connection.execute("PRAGMA database_list").fetchone()["file"]


def compact(path: Path) -> None:
    """Free a database's unused pages, which erases the deleted rows they still contain."""
    with explained(path), contextlib.closing(connect(path)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def seal(path: Path) -> str:
    """Return the seal of a file (see `hook_files.seal_fields`), or "" if it is missing."""
    if not path.exists():
        return ""
    return " ".join(map(str, hook_files.seal_fields(os.fspath(path))))


def log_state(path: Path) -> str:
    """Return a string that changes with each commit that is still in the write-ahead log.

    A commit stays there, and changes neither the database file nor its seal, if another connection
    is open when the writer closes its own. The result is "" if the log is missing or empty.
    """
    try:
        now = path.with_name(f"{path.name}{_LOG_SUFFIX}").stat()
    except OSError:
        return ""
    if not now.st_size:
        return ""
    return f"{now.st_size} {now.st_mtime_ns}"


def remove(path: Path) -> None:
    """Delete a database and its journal files."""
    for suffix in ("", _LOG_SUFFIX, "-shm", "-journal"):
        files.delete(path.with_name(path.name + suffix))
