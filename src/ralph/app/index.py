"""`ralph index ...`: the SQLite index over the files, kept up to date by whoever needs it.

`opened` is how every search begins: bring the index up to date, then read it. Where it cannot be
written (a read-only disk) an index in memory does the same work; where it is found damaged while
it is read, it is made again and the question is asked once more. Where `.ralph` is a link that leads out
of the project there is no index file at all: none is written behind the link, and none is opened there.
Raw lines are read by the rules of today (`privacy.*`), which are asked for when the first such line is met.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from ralph import paths
from ralph.app import logs
from ralph.app.worktrees import indexes
from ralph.capture.pipeline import interpret
from ralph.errors import RalphError, Refused, Unreadable, WriteFailed
from ralph.model import ids
from ralph.model.record import Record
from ralph.search import terms
from ralph.settings import Privacy
from ralph.store import db, files, rows
from ralph.store.index import Index, Progress, Synced, in_memory
from ralph.store.sources import Contents, Interpret, Source, sources, told

T = TypeVar("T")

MOMENT = 0.2
"""Seconds that a hook may spend on it."""
PATIENCE = 5.0
"""Seconds to wait for another process that makes the index for the first time."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is (rows by table, the database's bytes and the logs'), and how fresh the database is.

    `behind` is how many files have changed since it was written.
    """

    counts: dict[str, int]
    database: int
    logs: int
    complete: bool
    updated_at: str = ""
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Prunable:
    """A log that retention would remove, or what is left of a worktree that is gone: why, and how large it is."""

    path: Path
    why: str
    size: int


def of(root: Path, privacy: Privacy | None = None) -> Index:
    """The index of a project: its terms, and what raw events in its logs mean; Refused when it would be outside.

    Who knows what must not be kept (`privacy`) saves reading the settings again.
    """
    away = outside(root)
    if away is not None:
        hint = "make .ralph a folder of the project; `ralph search` does without an index until then"
        raise Refused(f"{paths.index_file(root)}: leads out of the project, to {away}", hint=hint)
    start = None if paths.main_checkout(root) == root else partial(_are_alike, root)
    return Index(root, terms.index_terms, by_todays_rules(root, privacy), start)


def _are_alike(root: Path) -> bool:
    """Whether a worktree and its main checkout read raw lines by the same rules, so that one's rows do for both."""
    from ralph.app import config  # noqa: PLC0415 - when an index is begun, and not in every hook

    try:
        return config.private(root, os.environ) == config.private(paths.main_checkout(root), os.environ)
    except RalphError:  # a config that cannot be read: its owner hears of it elsewhere
        return False


def outside(root: Path) -> Path | None:
    """Where a link leads to that takes the index out of the project; None when it is inside, as it should be."""
    real = Path(os.path.realpath(paths.index_file(root)))
    return None if real.is_relative_to(os.path.realpath(paths.state_boundary(root))) else real


def by_todays_rules(root: Path, privacy: Privacy | None = None) -> Interpret:
    """What raw lines mean, by the rules that the settings have now: also lines that are older than a rule."""

    @cache
    def rules() -> Privacy:
        if privacy is not None:
            return privacy
        from ralph.app import config  # noqa: PLC0415 - a hook has read the settings already

        return config.private(root, os.environ)

    def read(value: Mapping[str, object]) -> tuple[Sequence[Record], Mapping[str, object] | None]:
        return interpret(value, patterns=rules().patterns, paths=rules().paths)

    return read


def catch_up(root: Path, seconds: float, privacy: Privacy | None = None) -> Synced:
    """Read what changed, for so long at most; nothing when another process is at it."""
    return _hidden(root, privacy).sync(within=seconds)


def sync(root: Path, progress: Progress | None = None) -> Synced:
    """Read what changed."""
    return _hidden(root).sync(progress=progress)


def rebuild(root: Path, progress: Progress | None = None) -> Synced:
    """Make the index anew."""
    return _hidden(root).rebuild(progress)


def verify(root: Path) -> list[str]:
    """Compare index and files record by record; one line for each difference, none when they agree."""
    index = _hidden(root)
    try:
        if index.sync(trusting=True, patience=PATIENCE).busy:
            raise db.Busy(f"{index.path}: another process is writing", hint="try again in a moment")
        with db.explained(index.path), closing(index.connect()) as connection:
            if not db.is_intact(connection):
                return ["the database is damaged"]
            return list(_differences(root, connection))
    except (db.Damaged, Unreadable, ValueError) as error:
        return [f"the database is damaged: {error}"]


def _differences(root: Path, connection: sqlite3.Connection) -> Iterator[str]:
    """Each source is read anew into an index of its own, and compared with its rows in the real one."""
    known = {stand.path: key for key, stand in rows.stands(connection).items()}
    words = rows.fingerprints(connection)
    read = by_todays_rules(root)
    for source in sources(root):
        with closing(in_memory([_told(source, read)], terms.index_terms)) as fresh:
            searchable = rows.fingerprints(fresh)
            said = list(rows.rows_of(fresh, 1))
        held = list(rows.rows_of(connection, known.pop(source.name, 0)))
        for ours, theirs in zip_longest(held, said):
            words_held = words.pop(ours[0], 0) if ours is not None else 0
            if ours is None:
                yield f"{source.name}: {theirs[1]} is not in the index"
            elif theirs is None:
                yield f"{source.name}: {ours[1]} is in the index but not in the file"
            elif ours[1:] != theirs[1:]:
                yield f"{source.name}: {theirs[1]} is not in the index as it stands"
            elif words_held != searchable.get(theirs[0], 0):
                yield f"{source.name}: {theirs[1]} is not found by its words"
    yield from (f"{name} is in the index but is no file" for name in known)
    yield from (f"the words of record {key} are in the index, the record is not" for key in words)


def status(root: Path) -> Size:
    """How large everything is, without changing anything; nothing of what is behind a link that leads outside."""
    index = paths.index_file(root)
    if outside(root) is not None:
        return Size({}, 0, 0, complete=False)
    logs = sum(path.stat().st_size for path in paths.log_folder(root).rglob("*.jsonl"))
    size = sum(path.stat().st_size for path in index.parent.glob("ralph.db*") if path.is_file())
    if not index.exists():
        return Size({}, 0, logs, complete=False)
    updated = _written(index)  # before it is opened, which touches the files beside it
    try:
        with db.explained(index), closing(db.connect(index, read_only=True)) as connection:
            return Size(rows.counts(connection), size, logs, True, updated, _behind(root, connection))
    except (db.Damaged, db.Busy, WriteFailed):
        return Size({}, size, logs, complete=False)


def _written(index: Path) -> str:
    """When the database was last written to."""
    beside = [index, *(index.with_name(index.name + end) for end in ("-wal", "-seal"))]
    times = [path.stat().st_mtime for path in beside if path.is_file() and path.stat().st_size]
    return datetime.fromtimestamp(int(max(times)), UTC).isoformat().replace("+00:00", "Z") if times else ""


def _behind(root: Path, connection: sqlite3.Connection) -> int:
    """How many files are not as the database knows them: changed, new or gone."""
    known = {stand.path: (stand.mtime_ns, stand.size) for stand in rows.stands(connection).values()}
    changed = 0
    for source in sources(root):
        now = source.path.stat()
        changed += known.pop(source.name, None) != (now.st_mtime_ns, now.st_size)
    return changed + len(known)


def prune(root: Path, *, days: int = 0, most_bytes: int = 0, really: bool = False) -> list[Prunable]:
    """Session and run logs that are too old or too many; they are removed only when it is meant.

    Memories are never touched. Only whole logs go, the oldest first; to compress a log makes it no younger. With them
    goes what was made for worktrees that are gone.
    """
    if really:
        of(root)  # Refused, where the logs are somebody else's
    ages = {log: logs.last_time(log) for log in paths.log_folder(root).glob("*/*.jsonl")}
    found: list[Prunable] = []
    if days > 0:
        before = (ids.now() - timedelta(days=days)).timestamp()
        old = (log for log in sorted(ages, key=ages.__getitem__) if ages[log] < before)
        found = [Prunable(log, f"older than {days} days", log.stat().st_size) for log in old]
    left = [log for log in sorted(ages, key=ages.__getitem__) if log not in {one.path for one in found}]
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
    return [*found, *_stale_indexes(root, really)]


def _stale_indexes(root: Path, really: bool) -> list[Prunable]:
    """The indexes of worktrees that are gone."""
    stale = indexes.stale(root)
    for each in stale if really else ():
        indexes.remove(root, each.path.name)
    return [Prunable(each.path, "the index of a worktree that is gone", each.size) for each in stale]


def ask(
    root: Path,
    question: Callable[[sqlite3.Connection], T],
    progress: Progress | None = None,
) -> T:
    """Ask the up-to-date index something; a damaged one is made again and asked once more."""
    for _ in range(2):
        with opened(root, progress) as connection:
            try:
                return question(connection)
            except (sqlite3.DatabaseError, UnicodeDecodeError, Unreadable):
                pass
        with suppress(db.Busy, WriteFailed, Refused):  # somebody else is already making it again, or there is none
            of(root).discard()
    with closing(_from_files(root)) as connection:
        return question(connection)


@contextmanager
def opened(root: Path, progress: Progress | None = None) -> Iterator[sqlite3.Connection]:
    """A connection to the index, brought up to date first; in memory where the disk does not let us write."""
    with closing(_connection(root, progress)) as connection:
        yield connection


@contextmanager
def one_look() -> Iterator[None]:
    """Within it an index is brought up to date once, for whoever only reads and asks several things for one answer.

    To look at a thousand files takes longer than most questions.
    """
    held = _LOOKED.get()
    before = _LOOKED.set(set() if held is None else held)
    try:
        yield
    finally:
        _LOOKED.reset(before)


_LOOKED: ContextVar[set[Path] | None] = ContextVar("looked", default=None)


@contextmanager
def patient() -> Iterator[None]:
    """Within it an index that somebody is just bringing up to date is waited for.

    Whoever is at it may have looked at a file before it was changed: who asks after a change must not be told what
    stood there before. A command takes what there is; a server, whose own threads ask at the same time, waits.
    """
    before = _PATIENCE.set(PATIENCE)
    try:
        yield
    finally:
        _PATIENCE.reset(before)


_PATIENCE: ContextVar[float] = ContextVar("patience", default=0.0)


def _connection(root: Path, progress: Progress | None) -> sqlite3.Connection:
    if outside(root) is not None:
        return _from_files(root)
    index = of(root)
    if not index.path.parent.exists() and not any(True for _ in sources(root)):
        return _from_files(root)  # nothing to remember: leave no trace of having looked
    try:
        looked = _LOOKED.get()
        if looked is None or root not in looked:
            keep_out_of_git(root)
            if index.sync(progress=progress, patience=_PATIENCE.get()).busy and not index.built():
                index.sync(progress=progress, patience=PATIENCE)
            if looked is not None:
                looked.add(root)
        connection = index.connect()
    except (RalphError, OSError, sqlite3.DatabaseError):
        if index.built() and not os.access(index.path.parent, os.W_OK):
            with suppress(RalphError, OSError, sqlite3.DatabaseError):
                return index.snapshot()
        return _from_files(root)
    with suppress(sqlite3.DatabaseError):  # one state of the index for all that is asked
        connection.execute("BEGIN")
    return connection


def _from_files(root: Path) -> sqlite3.Connection:
    """An index in memory, for one question."""
    found, read = list(sources(root)), by_todays_rules(root)
    return in_memory((_told(each, read) for each in found), terms.index_terms, [source.name for source in found])


def _told(source: Source, read: Interpret) -> Contents:
    """What a source says; nothing when it may not be read."""
    try:
        return told(source, read)
    except Unreadable:
        return Contents()


def _hidden(root: Path, privacy: Privacy | None = None) -> Index:
    """The index of a project, which git does not see."""
    index = of(root, privacy)
    keep_out_of_git(root)
    return index


def keep_out_of_git(root: Path) -> None:
    """Hide what is in `.ralph/` from git where `ralph init` has not been."""
    if not paths.gitignore(paths.main_checkout(root)).exists():
        from ralph.app import project  # noqa: PLC0415 - needed once in a project's life

        project.keep_out_of_git(root)


def names(found: Sequence[Prunable], root: Path) -> list[str]:
    """The paths of what was found, as people read them."""
    return [paths.shown(one.path, root) for one in found]
