"""`ralph index ...`: the SQLite index over the files, kept up to date by whoever needs it.

`opened` is how every search begins: bring the index up to date, then read it. Where it cannot be
written (a read-only disk) an index in memory does the same work; where it is found damaged while
it is read, it is made again and the question is asked once more.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from ralph import paths
from ralph.app.project import GITIGNORE
from ralph.errors import WriteFailed
from ralph.model import ids
from ralph.search import terms
from ralph.store import db, files, rows
from ralph.store.index import Index, Progress, Synced, digest_of, in_memory, stored
from ralph.store.index import FAMILIES
from ralph.store.sources import contents, sources

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is: rows by table, the database's bytes and the logs' bytes."""

    counts: dict[str, int]
    database: int
    logs: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Prunable:
    """A log that retention would remove: why, and how large it is."""

    path: Path
    why: str
    size: int


def sync(root: Path, progress: Progress | None = None) -> Synced:
    """Read what changed."""
    _keep_out_of_git(root)
    return Index(root, terms.index_terms).sync(progress=progress)


def rebuild(root: Path, progress: Progress | None = None) -> Synced:
    """Make the index anew."""
    _keep_out_of_git(root)
    return Index(root, terms.index_terms).rebuild(progress)


def verify(root: Path) -> list[str]:
    """Compare index and files record by record; one line for each difference, none when they agree."""
    sync(root)
    index = Index(root, terms.index_terms)
    problems: list[str] = []
    with closing(index.connect()) as connection, db.explained(index.path):
        if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            problems.append("the database is damaged")
        held: dict[tuple[str, str], int] = {}
        for family in FAMILIES:
            for _, record in stored(connection, family, "1", ()):
                held[record.id, digest_of(record)] = held.get((record.id, digest_of(record)), 0) + 1
        for source in sources(root):
            for placed in contents(source, files.read(source.path) or "").records:
                name = (placed.record.id, digest_of(placed.record))
                if held.get(name, 0) == 0:
                    problems.append(f"{source.name}:{placed.line}: {placed.record.id} is not in the index as it stands")
                held[name] = held.get(name, 0) - 1
        problems += [f"{name[0]} is in the index but in no file" for name, count in held.items() if count > 0]
    return problems


def status(root: Path) -> Size:
    """How large everything is, without changing anything."""
    index = paths.index_file(root)
    logs = sum(path.stat().st_size for path in paths.log_folder(root).rglob("*.jsonl"))
    size = sum(path.stat().st_size for path in index.parent.glob("ralph.db*") if path.is_file())
    if not index.exists():
        return Size({}, 0, logs, complete=False)
    with closing(db.connect(index, read_only=True)) as connection, db.explained(index):
        return Size(rows.counts(connection), size, logs, complete=True)


def prune(root: Path, *, days: int = 0, most_bytes: int = 0, really: bool = False) -> list[Prunable]:
    """Session and run logs that are too old or too many; they are removed only when it is meant.

    Memories are never touched. Only whole logs go, the oldest first.
    """
    logs = sorted(paths.log_folder(root).glob("*/*.jsonl"), key=lambda path: path.stat().st_mtime)
    found: list[Prunable] = []
    if days > 0:
        before = (ids.now() - timedelta(days=days)).timestamp()
        found = [Prunable(log, f"older than {days} days", log.stat().st_size) for log in logs if log.stat().st_mtime < before]
    left = [log for log in logs if log not in {one.path for one in found}]
    total = sum(log.stat().st_size for log in left)
    for log in left if most_bytes > 0 else []:
        if total <= most_bytes:
            break
        found.append(Prunable(log, f"all logs together are over {most_bytes} bytes", log.stat().st_size))
        total -= log.stat().st_size
    if really:
        for one in found:
            files.delete(one.path)
        sync(root)
    return found


def ask(root: Path, question: Callable[[sqlite3.Connection], T], progress: Progress | None = None) -> T:
    """Ask the up-to-date index something; a damaged one is made again and asked once more."""
    for _ in range(2):
        try:
            with opened(root, progress) as connection:
                return question(connection)
        except (db.Damaged, sqlite3.DatabaseError):
            db.remove(paths.index_file(root))
    with opened(root, progress) as connection:
        return question(connection)


@contextmanager
def opened(root: Path, progress: Progress | None = None) -> Iterator[sqlite3.Connection]:
    """A connection to the index, brought up to date first; in memory where the disk does not let us write."""
    index = Index(root, terms.index_terms)
    try:
        _keep_out_of_git(root)
        index.sync(progress=progress)
        connection = index.connect()
    except (WriteFailed, OSError, sqlite3.OperationalError):
        told = [contents(source, files.read(source.path) or "") for source in sources(root)]
        connection = in_memory(told, terms.index_terms)
    with closing(connection):
        yield connection


def _keep_out_of_git(root: Path) -> None:
    """The index must not show up in anybody's `git status`."""
    ignore = paths.state_root(root) / ".ralph" / ".gitignore"
    if not ignore.exists():
        files.write(ignore, GITIGNORE, expect="")


def names(found: Sequence[Prunable], root: Path) -> list[str]:
    """The paths of what was found, as people read them."""
    return [paths.shown(one.path, root) for one in found]
