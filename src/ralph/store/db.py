"""SQLite, opened in one place: pragmas, transactions, and what to do with a damaged file.

Every database is derived or a cache: one that is damaged or of another version is made again. SQLite does not notice
all damage; a seal (size and time as the last writer left it) shows whether another program touched the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from ralph.errors import RalphError, WriteFailed
from ralph.store import files
from ralph.store.lookup import UNEXPECTED

_BUSY_SECONDS = 5.0
_READ_SECONDS = 60.0
_IDLE_SECONDS = 1.0
_PAGE = 16_384  # bytes: a row of ours has about a thousand, and few of those fill SQLite's usual page without waste
_LOG_PAGES = 256  # the write-ahead log is brought in after so many pages: four megabytes, as with the usual ones
_BROKEN = [
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
"""What SQLite says of a file that is damaged, or that another program filled with tables of its own."""


class Busy(RalphError):
    """Another process is writing to this database right now."""


class Damaged(RalphError):
    """The file is no sound database of this version."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a database, made with mode 0600; Damaged for what Ralph does not make."""
    if path.exists() and not path.is_file():
        raise Damaged(
            f"{path}: is not a regular file", hint="it is made again"
        )  # a FIFO would wait for a writer
    timeout = files.limit_patience(_BUSY_SECONDS)
    if read_only:
        fixed = (
            "" if os.access(path.parent, os.W_OK) else "&immutable=1"
        )  # SQLite needs files beside it otherwise
        uri = f"{path.absolute().as_uri()}?mode=ro{fixed}"
        connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
    else:
        files.make_folder(path.parent, 0o700)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, files.PRIVATE))
        connection = sqlite3.connect(path, timeout=timeout, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        with explained(path):
            connection.execute("PRAGMA trusted_schema = OFF")
            if read_only:
                restart_deadline(connection)
            else:
                connection.execute(f"PRAGMA page_size = {_PAGE}")  # counts for a file that is empty
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            if connection.execute(UNEXPECTED).fetchone()[0]:
                raise Damaged(
                    f"{path}: has tables, views or triggers of another program",
                    hint="it is made again",
                )
    except BaseException:
        connection.close()
        raise
    return connection


def restart_deadline(connection: sqlite3.Connection) -> None:
    """End queries that take too long, counted anew from now: a long job of many short ones is not ended."""
    start = last = time.monotonic()

    def is_over() -> bool:
        nonlocal start, last
        now = time.monotonic()
        # time between queries does not count
        start = now if now - last > _IDLE_SECONDS else start
        last = now
        return now - start > _READ_SECONDS

    connection.set_progress_handler(is_over, 20_000)


def connect_foreign(path: Path) -> sqlite3.Connection:
    """Open another program's database for reading; where nobody has it open, nothing is made beside it."""
    log = path.with_name(f"{path.name}-wal")
    fixed = "" if log.exists() and log.stat().st_size else "&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{fixed}", uri=True, timeout=_BUSY_SECONDS
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def connect_memory() -> sqlite3.Connection:
    """Make a database that lives as long as its connection."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.row_factory = sqlite3.Row
    return connection


def connect_cache(path: Path, schema: str, version: int) -> sqlite3.Connection:
    """Open a database; one that is damaged or of another version is made again."""
    for _ in range(2):
        try:
            with contextlib.ExitStack() as stack, explained(path):
                connection = stack.enter_context(contextlib.closing(connect(path)))
                create_tables(connection, schema, version)
                stack.pop_all()
                return connection
        except Damaged as error:
            damage = error
            remove(path)
    raise damage


def create_tables(connection: sqlite3.Connection, schema: str, version: int) -> None:
    """Make the tables of a schema in an empty database; Damaged for another version's."""
    if version_of(connection) == version:
        return
    with atomic(connection):
        if version_of(connection) == version:  # another process was faster
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise Damaged("the database was made by another version", hint="it is made again")
        script = resources.files("ralph.store").joinpath(schema).read_text(encoding="utf-8")
        for statement in script.split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {version}")


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of a database's tables; 0 while it has none."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextlib.contextmanager
def atomic(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Run one transaction; immediate, so that two writers never wait in the middle."""
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
    """Turn SQLite's complaints into ours: Busy, Damaged, WriteFailed, or the error itself."""
    try:
        yield
    except (
        UnicodeDecodeError
    ) as error:  # in the middle of SQLite's own complaint about a damaged file
        raise Damaged(
            f"{path}: holds what is no text", hint="it is made again from the files"
        ) from error
    except sqlite3.DatabaseError as error:
        message = str(error).lower()
        if "locked" in message or "busy" in message:
            raise Busy(
                f"{path}: another process is writing", hint="try again in a moment"
            ) from error
        if any(broken in message for broken in _BROKEN) or type(error) is sqlite3.DatabaseError:
            raise Damaged(f"{path}: {error}", hint="it is made again from the files") from error
        if isinstance(
            error, sqlite3.OperationalError
        ):  # no right to write, no space, a folder in its place
            raise WriteFailed(
                f"{path}: {error}", hint="make it and its folder writable, or delete it"
            ) from error
        raise


def is_intact(connection: sqlite3.Connection) -> bool:
    """Whether SQLite finds no damage."""
    return bool(connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok")


def count_pages(connection: sqlite3.Connection) -> int:
    """Return how large a database is."""
    return int(connection.execute("PRAGMA page_count").fetchone()[0])


def is_in_memory(connection: sqlite3.Connection) -> bool:
    """Whether a database has no file."""
    return not connection.execute("PRAGMA database_list").fetchone()[2]


def compact(path: Path) -> None:
    """Give free pages back, with what was deleted in them."""
    with explained(path), contextlib.closing(connect(path)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def seal(path: Path) -> str:
    """Return size, time and inode, which show whether another program touched the file."""
    if not path.exists():
        return ""
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"


def remove(path: Path) -> None:
    """Delete a database with its log files."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        files.delete(path.with_name(path.name + suffix))
