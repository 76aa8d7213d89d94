"""`ralph index ...`: the SQLite index over the files of a project, and what retention removes.

Raw lines are read by the present privacy rules. Each worktree has an index of its own in the main checkout's state.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ralph import paths
from ralph.capture.pipeline import interpret, is_own_traffic
from ralph.context import render
from ralph.errors import RalphError, Refused, Unreadable, WriteFailed
from ralph.model import ids
from ralph.model.record import Record
from ralph.search import terms
from ralph.settings import Privacy
from ralph.store import db, files, queries
from ralph.store.changes import ReadLog
from ralph.store.changes import read_logs as read_logs_of
from ralph.store.index import PATIENCE, SCHEMA_VERSION, Index, Progress, Synced, discard, in_memory
from ralph.store.sources import Interpret, log_folders, scan_logs, sources

T = TypeVar("T")

MOMENT = 0.2  # seconds that a hook may spend on a sync
_TAIL = 1 << 18  # bytes at the end of a log: more than any line that hooks write


class Prunable(NamedTuple):
    """A log that retention removes, or the index of a worktree that is gone: why, and how large it is."""

    path: Path
    why: str
    size: int


def of(root: Path, privacy: Privacy | None = None) -> Index:
    """Return the index of a project; Refused when a link leads out of it. `privacy` saves reading the settings."""
    index = _index(root, privacy)
    if (target := index.outside()) is not None:
        hint = (
            "make .ralph a folder of the project; `ralph search` does without an index until then"
        )
        raise Refused(f"{index.path}: leads out of the project, to {target}", hint=hint)
    return index


def outside(root: Path) -> Path | None:
    """Return the target of a link that takes the index out of the project; None when it is inside."""
    return _index(root).outside()


def _index(root: Path, privacy: Privacy | None = None) -> Index:
    main = paths.main_checkout(root)

    def has_main_rules() -> bool:  # else the main checkout's rows cannot be copied
        from ralph.app.config import privacy_rules

        with suppress(RalphError):  # a config that cannot be read is reported elsewhere
            return privacy_rules(root) == privacy_rules(main)
        return False

    rules = interpreter(root, privacy)
    copy_main = None if main == root else has_main_rules
    return Index(
        root, terms.index_terms, rules, copy_main, is_order=render.is_order, is_own=is_own_traffic
    )


def interpreter(root: Path, privacy: Privacy | None = None) -> Interpret:
    """Return the function that interprets raw lines by the present settings, which are read with the first line."""

    @cache
    def rules() -> Privacy:
        if privacy is not None:
            return privacy
        from ralph.app.config import privacy_rules

        return privacy_rules(root)

    def read(value: Mapping[str, object]) -> tuple[Sequence[Record], Mapping[str, object] | None]:
        return interpret(value, patterns=rules().patterns, paths=rules().paths)

    return read


def ask(
    root: Path, question: Callable[[sqlite3.Connection], T], progress: Progress | None = None
) -> T:
    """Ask the up-to-date index something; a damaged one is made again and asked once more."""
    return _index(root).ask(question, progress)


def wait_until_current(root: Path) -> None:
    """Bring the index up to date, also while another one is at it, which may have read a file before its change."""
    index = _index(root)
    if index.is_needed():
        index.sync(patience=PATIENCE)


def sync(root: Path, progress: Progress | None = None) -> Synced:
    """Read what changed."""
    return of(root).sync(progress=progress)


def rebuild(root: Path, progress: Progress | None = None) -> Synced:
    """Make the index anew."""
    return of(root).rebuild(progress)


def verify(root: Path) -> list[str]:
    """Compare index and files record by record; one line for each difference."""
    index = of(root)
    try:
        if index.sync(trusting=True, patience=PATIENCE).busy:
            raise db.Busy(f"{index.path}: another process is writing", hint="try again in a moment")
        with db.explained(index.path), closing(index.connect()) as connection:
            return (
                list(_differences(index, connection))
                if db.is_intact(connection)
                else ["the database is damaged"]
            )
    except (db.Damaged, Unreadable, ValueError) as error:
        return [f"the database is damaged: {error}"]


def _differences(index: Index, connection: sqlite3.Connection) -> Iterator[str]:
    """Read each source into an index of its own, and compare that with the source's rows in the real one."""
    keys = queries.source_keys(connection)
    indexed_terms = queries.fingerprints(connection)
    for source in sources(index.root):
        with closing(
            in_memory([index.read(source)], terms.index_terms, is_order=index.is_order)
        ) as fresh:
            expected_terms = queries.fingerprints(fresh)
            expected = [
                (expected_terms.get(row[0], 0), *row[1:]) for row in queries.rows_of(fresh, 1)
            ]
        rows = queries.rows_of(connection, keys.pop(source.name, 0))
        indexed = [(indexed_terms.pop(row[0], 0), *row[1:]) for row in rows]
        for ours, theirs in zip_longest(indexed, expected):
            if ours != theirs:
                yield f"{source.name}: {(theirs or ours)[1]} differs in the index"
    yield from (f"{name} is in the index but is no file" for name in keys)
    yield from (
        f"the words of record {key} are in the index, the record is not" for key in indexed_terms
    )


def read_logs(root: Path) -> dict[str, tuple[ReadLog, int]]:
    """Return every log with what the index has read of it, and its size; nothing is brought up to date."""
    index = _index(root)
    with suppress(
        RalphError, sqlite3.Error
    ):  # no index yet, or a damaged one: then every log is read
        if index.outside() is None and index.path.exists():
            with db.explained(index.path), closing(index.connect()) as connection:
                if db.version_of(connection) == SCHEMA_VERSION:
                    return read_logs_of(connection, root)
    return {path: (ReadLog(), state[1]) for path, _, state in scan_logs(root)}


def status(root: Path) -> dict[str, Any]:
    """Measure index and logs: `indexed` counts rows by table."""
    index = _index(root)
    size: dict[str, Any] = {
        "indexed": {},
        "index_complete": False,
        "database_bytes": 0,
        "log_bytes": 0,
    }
    if index.outside() is not None:
        return size
    others = sum(path.stat().st_size for path in paths.log_folder(root).glob("*.jsonl"))
    size["log_bytes"] = others + sum(state[1] for _, _, state in scan_logs(root))
    if index.path.exists():
        databases = [path for path in index.path.parent.glob("ralph.db*") if path.is_file()]
        size["database_bytes"] = sum(path.stat().st_size for path in databases)
        with suppress(db.Damaged, db.Busy, WriteFailed):
            with db.explained(index.path), closing(index.connect()) as connection:
                size["indexed"] = queries.count_rows(connection)
            size["index_complete"] = True
    return size


def prune(root: Path, *, days: int = 0, really: bool = False) -> list[Prunable]:
    """List logs that are too old, and indexes of gone worktrees; with `really`, remove them."""
    if really:
        of(root)  # Refused, where the logs are outside of the project
    before = (ids.now() - timedelta(days=days)).timestamp() if days > 0 else -math.inf
    ages = {
        log: log.stat().st_mtime for folder in log_folders(root) for log in paths.log_files(folder)
    }
    old = (log for log in sorted(ages, key=ages.__getitem__) if ages[log] < before)
    prunable = [Prunable(log, f"older than {days} days", log.stat().st_size) for log in old]
    stale = stale_indexes(root)
    if really:
        for item in prunable:
            files.delete(item.path)
        sync(root)
        for item in stale:
            remove_worktree_index(root, item.path.name)
    return [*prunable, *stale]


def stale_indexes(root: Path) -> list[Prunable]:
    """List the cache folders of worktrees that git has removed or pruned."""
    git = paths.git_worktrees(root)
    folders = (
        path for path in sorted(paths.tree_caches(root).glob("*")) if not (git / path.name).exists()
    )
    return [
        Prunable(
            folder,
            "the index of a worktree that is gone",
            sum(path.lstat().st_size for path in folder.glob("*")),
        )
        for folder in folders
        if folder.is_dir() and not folder.is_symlink()
    ]


def remove_worktree_index(root: Path, name: str) -> None:
    """Remove the cache folder of a worktree that is gone, by git's name for it."""
    folder = paths.tree_caches(root) / name
    for path in folder.glob("*"):
        files.delete(path)
    if folder.is_dir():
        files.remove_folder(folder)


def discard_all(root: Path) -> None:
    """Delete the index and graph of every checkout; Busy when another process is writing one of them."""
    of(root)
    for path in _databases(root):
        discard(path, PATIENCE)
    for path in (
        paths.graph_file(paths.main_checkout(root)),
        *paths.tree_caches(root).glob("*/graph.db"),
    ):
        db.remove(path)


def digests_of_others(root: Path) -> set[str]:
    """Return the digests of the records in the other checkouts' indexes, as far as these can be read."""
    digests: set[str] = set()
    for path in _databases(root):
        if path != paths.index_file(root):
            with (
                suppress(RalphError, sqlite3.Error),
                closing(db.connect(path, read_only=True)) as connection,
            ):
                digests.update(queries.digests(connection).values())
    return digests


def _databases(root: Path) -> list[Path]:
    everything = (
        paths.index_file(paths.main_checkout(root)),
        *sorted(paths.tree_caches(root).glob("*/ralph.db")),
    )
    return [path for path in everything if path.is_file()]


def last_lines(log: Path) -> Iterator[dict[str, object]]:
    """Yield the objects at the end of a log, the last first."""
    with suppress(OSError), files.open_unpacked(log) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        for line in reversed(file.read(_TAIL).splitlines()):
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


def ends_with_summary(root: Path, session: str) -> bool:
    """Whether a summary is a session's last entry, so that it covers everything before it."""
    log = paths.session_log(root, session)
    for line in last_lines(log if log.exists() else paths.packed_log(root, session)):
        if line.get("type") != "session" or line.get("summary"):
            return line.get("type") == "session"
    return False
