"""The index of a worktree begins as a copy of the main checkout's, which has most of it: the logs are the same.

Copying takes a small part of the time that reading all logs again would. What the main checkout's own files say is
taken out of the copy first, unless this checkout's files hold the same bytes, and only then does the copy get its
name: nobody ever reads another checkout's memory in it, also not after a kill. A main index that is not there, that
somebody else touched or is writing to, or that was made by another version is not copied; then all is read from the
files. The copy is brought up to date by the sync that asked for it. `tests/store/test_copied.py` proves it.
"""

import hashlib
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

from ralph.errors import RalphError
from ralph.store import db, files
from ralph.store.lookup import SCHEMA_VERSION
from ralph.store.rows import Terms
from ralph.store.sources import SHARED, Source
from ralph.store.writer import Writer


def seal_of(path: Path) -> Path:
    """The file beside a database that says how its last writer left it."""
    return path.with_name(path.name + "-seal")


def begin(path: Path, main: Path, present: Iterable[Source], terms: Terms) -> bool:
    """Make an index that is not there of the main checkout's; False when it has to be made from the files."""
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
            if path is None or (not is_shared(row["path"]) and _digest(path) != row["digest"]):
                writer.clear(row["key"])


def is_shared(name: str) -> bool:
    """Whether a source stands in the main checkout for all of its worktrees."""
    return name.startswith(SHARED)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError:
        return ""
