"""SQLite, opened in one place: pragmas, transactions, and what to do with a broken file.

What is in a database here is derived or a cache, so there are no migrations: a file that is
damaged, or was made by another version, is deleted and made again. The file is readable by its
owner only. Writers take an immediate transaction, so that two never wait for each other in the
middle; readers of a write-ahead log are never blocked. SQLite notices most damage but not all: a
seal (size and time of the file as its last writer left it) tells when somebody else touched it.
"""

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from ralph.errors import RalphError
from ralph.store import files

if sys.platform != "win32":
    import fcntl

BUSY_MS = 5000
_BROKEN = ("malformed", "not a database", "corrupt", "disk image", "vtable constructor failed", "no such table")


class Busy(RalphError):
    """Another process is writing to this database right now."""


class Damaged(RalphError):
    """The file is not a sound database of this version; its owner makes it again."""


def connect(path: Path, *, read_only: bool = False, busy_ms: int = BUSY_MS) -> sqlite3.Connection:
    """Open a database; a new one is made with mode 0600 unless it is opened for reading."""
    if read_only:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=busy_ms / 1000, isolation_level=None)
    else:
        files.make_folder(path.parent)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, files.PRIVATE))
        connection = sqlite3.connect(path, timeout=busy_ms / 1000, isolation_level=None)
    connection.row_factory = sqlite3.Row
    if not read_only:
        with explained(path):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def connect_memory() -> sqlite3.Connection:
    """A database that lives as long as its connection."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


@contextlib.contextmanager
def atomic(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """One transaction: all of it or nothing."""
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
    """Turn SQLite's complaints into ours: Busy, Damaged, or the error itself."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        words = str(error).lower()
        if "locked" in words or "busy" in words:
            raise Busy(f"{path}: another process is writing", hint="try again in a moment") from error
        if any(broken in words for broken in _BROKEN) or type(error) is sqlite3.DatabaseError:
            raise Damaged(f"{path}: {error}", hint="it is made again from the files") from error
        raise


@contextlib.contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Hold the right to write to a database; Busy when another process has it. Released also by a kill."""
    files.make_folder(path.parent)
    handle = os.open(path.with_name(path.name + "-lock"), os.O_RDWR | os.O_CREAT, files.PRIVATE)
    try:
        if sys.platform != "win32":
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise Busy(f"{path}: another process is writing", hint="try again in a moment") from error
    finally:
        os.close(handle)


def seal(path: Path) -> str:
    """What tells that nobody but us has touched the file: its size and time of change."""
    if not path.exists():
        return ""
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns}"


def remove(path: Path) -> None:
    """Delete a database with its log files."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        files.delete(path.with_name(path.name + suffix))
