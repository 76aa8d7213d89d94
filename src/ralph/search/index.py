"""Manage a project's SQLite index for `ralph index`, and remove what retention no longer keeps.

Raw lines are interpreted under the current privacy rules, so that a stricter rule also applies to
old logs. Each worktree has its own index, in the main checkout's state folder.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from functools import cache, partial
from itertools import starmap, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ralph.core import ids, paths, terms
from ralph.core.errors import Hint, RalphError, Refused, Unreadable, WriteFailed
from ralph.core.record import Family, Record
from ralph.core.settings import Privacy
from ralph.privacy import injection
from ralph.search.unknown_names import names_unknown
from ralph.storage import changes, db, files, queries
from ralph.storage.index import PATIENCE, Index, Progress, Synced
from ralph.storage.index_files import current_seal, discard
from ralph.storage.index_schema import SCHEMA_VERSION
from ralph.storage.judgements import Judge
from ralph.storage.lookup import RecordRow
from ralph.storage.read_progress import LogProgress, log_progress
from ralph.storage.sources import FoundLog, log_folders, scan_logs, sources

if TYPE_CHECKING:
    from ralph.storage.log_helper import HelpRules
    from ralph.storage.log_portions import LogReader
    from ralph.storage.source_contents import Interpret, IsRalphCall

T = TypeVar("T")

MOMENT = 0.2  # seconds that a hook may spend on a sync
JUDGING = 0.05  # seconds that a hook may spend on judging observations: about 130 of them
_TAIL_BYTES = 1 << 18  # read from the end of a log; longer than any line that hooks write


class Prunable(NamedTuple):
    """An old log or the index of a removed worktree, with its size and the reason to remove it."""

    path: Path
    why: str
    size: int


def of(root: Path, privacy: Privacy | None = None) -> Index:
    """Return the index of a project. Pass `privacy` to avoid reading the settings.

    Raises Refused if a symlink leads out of the project.
    """
    index = _index(root, privacy)
    target = index.outside()
    if target is not None:
        raise Refused(
            f"{index.path}: leads out of the project, to {target}",
            hint=(
                "make .ralph a folder of the project",
                Hint("find-record", "until then, `ralph search` works without an index"),
            ),
        )
    return index


def outside(root: Path) -> Path | None:
    """Return the target of a symlink that puts the index outside the project, or None."""
    return _index(root).outside()


def _index(root: Path, privacy: Privacy | None = None) -> Index:
    main = paths.main_checkout(root)

    def has_same_rules() -> bool:
        """Return whether rows can be copied from the main checkout."""
        from ralph.storage.config import privacy_rules

        with suppress(RalphError):  # an unreadable config is reported elsewhere
            return privacy_rules(root) == privacy_rules(main)
        return False

    return Index(
        root,
        terms.index_terms,
        interpreter(root, privacy),
        None if main == root else has_same_rules,
        is_order=partial(_is_order, root),
        is_ralph_call=_is_own_traffic,
        judge=Judge(injection.GUARD_VERSION, _is_order_row),
        help_rules=partial(_help_rules, root, privacy),
    )


def _help_rules(root: Path, privacy: Privacy | None) -> HelpRules:
    from ralph.storage.log_helper import HelpRules  # most syncs read little

    return HelpRules(partial(_log_reader, root, privacy))


def _log_reader(root: Path, privacy: Privacy | None) -> LogReader:
    """Return the reader of a project's logs. Another process calls this."""
    from ralph.storage.log_portions import LogReader

    return LogReader(
        terms.index_terms,
        interpreter(root, privacy),
        partial(_is_order, root),
        _is_own_traffic,
    )


def _is_own_traffic(record: Record) -> bool:
    return _own_traffic_test()(record)


@cache
def _own_traffic_test() -> IsRalphCall:
    from ralph.capture.own_traffic import is_own_traffic  # an up-to-date index does not need it

    return is_own_traffic


def _is_order(root: Path, record: Record) -> bool:
    """Return whether a memory or a journal entry reads like an instruction to an agent.

    Observations are judged later: the newest ones by hooks (`storage/judgements.py`), the others
    when they are about to be given to a session (`recall/eligibility.py`).
    """
    if record.family is Family.OBSERVATION:
        return False
    return injection.is_order(record) or names_unknown(root, record)


def _is_order_row(row: RecordRow) -> bool:
    """Return whether what a session could be given of an observation reads like an instruction."""
    return injection.looks_like_instructions(row.given_text())


def interpreter(root: Path, privacy: Privacy | None = None) -> Interpret:
    """Return a function that interprets raw lines under the current privacy settings.

    The settings are read when the first line is interpreted.
    """

    @cache
    def interpret_by_rules() -> Interpret:
        from ralph.capture.pipeline import interpret  # an up-to-date index needs no interpreter
        from ralph.storage.config import privacy_rules

        rules = privacy_rules(root) if privacy is None else privacy
        return partial(interpret, patterns=rules.patterns, paths=rules.paths)

    def read(value: Mapping[str, object]) -> tuple[Sequence[Record], Mapping[str, object] | None]:
        return interpret_by_rules()(value)

    return read


def ask(
    root: Path, question: Callable[[sqlite3.Connection], T], progress: Progress | None = None
) -> T:
    """Call `question` with a connection to the up-to-date index, and return the result.

    A damaged index is rebuilt, and the call is repeated.
    """
    return _index(root).ask(question, progress)


def wait_until_current(root: Path) -> None:
    """Bring the index up to date, after waiting for any other process that is updating it.

    That process may have read a file before it changed.
    """
    index = _index(root)
    if index.is_needed():
        index.sync(patience=PATIENCE)


def sync(root: Path, progress: Progress | None = None) -> Synced:
    """Update the index from the files that have changed."""
    return of(root).sync(progress=progress)


def rebuild(root: Path, progress: Progress | None = None) -> Synced:
    """Rebuild the index from the files."""
    return of(root).rebuild(progress)


def verify(root: Path) -> list[str]:
    """Compare the index with the files, record by record.

    Return one line for each difference. Raises Busy if another process is writing.
    """
    index = of(root)
    try:
        if index.sync(keep_touched=True, patience=PATIENCE).busy:
            raise db.Busy(f"{index.path}: another process is writing", hint="try again in a moment")
        with db.explained(index.path), closing(index.connect()) as connection:
            if not db.is_intact(connection):
                return ["the database is damaged"]
            return list(_differences(index, connection))
    except (db.Damaged, Unreadable, ValueError) as error:
        return [f"the database is damaged: {error}"]


def _differences(index: Index, connection: sqlite3.Connection) -> Iterator[str]:
    """Index each source in memory, and compare the result with its rows in the real index."""
    from ralph.storage.index_update import in_memory  # only `verify` needs it

    source_keys = queries.source_keys(connection)
    indexed_terms = queries.fingerprints(connection)
    for source in sources(index.root):
        with closing(
            in_memory([index.read(source)], terms.index_terms, is_order=index.is_order)
        ) as fresh:
            expected = _comparable_rows(fresh, 1, queries.fingerprints(fresh))
        source_key = source_keys.pop(source.name, 0)
        indexed = _comparable_rows(connection, source_key, indexed_terms)
        for found, wanted in zip_longest(indexed, expected):
            if found != wanted:
                row = wanted or found
                yield f"{source.name}: {row.record_id} differs in the index"
    for name in source_keys:
        yield f"{name} is in the index but is not a file"
    for key in indexed_terms:
        yield f"the words of record {key} are in the index, the record is not"


class _ComparableRow(NamedTuple):
    """A row of the index in a form that does not depend on its key."""

    terms: int
    record_id: str
    values: tuple[object, ...]


def _comparable_rows(
    connection: sqlite3.Connection, source_key: int, fingerprints: dict[int, int]
) -> list[_ComparableRow]:
    """Return the rows of a source, removing their terms from `fingerprints`."""
    rows = []
    for key, record_id, values in queries.rows_of(connection, source_key):
        rows.append(_ComparableRow(fingerprints.pop(key, 0), record_id, values))
    return rows


def read_logs(root: Path, logs: Sequence[FoundLog] | None = None) -> dict[str, LogProgress]:
    """Return how far the index has read each log, by path, without syncing.

    A caller that has scanned the logs passes them.
    """
    if logs is None:
        logs = list(scan_logs(root))
    index = _index(root)
    # If the index is missing or damaged, no part of any log has been read.
    with suppress(RalphError, sqlite3.Error):
        if index.outside() is None and index.path.exists():
            with db.explained(index.path), closing(index.connect()) as connection:
                if db.version_of(connection) == SCHEMA_VERSION:
                    return log_progress(connection, logs)
    return {log.path: LogProgress(unread_bytes=log.state.size) for log in logs}


def is_known_to_be_current(root: Path) -> bool:
    """Return whether this process has synced the index, and nothing has changed since then."""
    index = _index(root)
    return index.outside() is None and changes.is_unchanged(root, current_seal(index.path))


def status(root: Path, logs: Sequence[FoundLog] | None = None) -> dict[str, Any]:
    """Measure the index and the logs. `indexed` holds the number of rows by table.

    A caller that has scanned the logs passes them.
    """
    index = _index(root)
    size: dict[str, Any] = {
        "indexed": {},
        "index_complete": False,
        "database_bytes": 0,
        "log_bytes": 0,
    }
    if index.outside() is not None:
        return size
    for path in paths.log_folder(root).glob("*.jsonl"):
        size["log_bytes"] += path.stat().st_size
    if logs is None:
        logs = list(scan_logs(root))
    size["log_bytes"] += sum(log.state.size for log in logs)
    if not index.path.exists():
        return size
    for path in index.path.parent.glob("ralph.db*"):
        if path.is_file():
            size["database_bytes"] += path.stat().st_size
    with suppress(db.Damaged, db.Busy, WriteFailed):
        with db.explained(index.path), closing(index.connect()) as connection:
            size["indexed"] = queries.count_rows(connection)
        size["index_complete"] = True
    return size


def peek(root: Path, question: Callable[[sqlite3.Connection], T]) -> T | None:
    """Call `question` with a connection to the index as it is, without updating it.

    Return None if there is no index, or if it cannot be read.
    """
    index = _index(root)
    if index.outside() is not None or not index.path.exists():
        return None
    with (
        suppress(db.Damaged, db.Busy, WriteFailed),
        db.explained(index.path),
        closing(index.connect()) as connection,
    ):
        if db.version_of(connection) == SCHEMA_VERSION:
            return question(connection)
    return None


def indexed_digests(root: Path) -> set[str]:
    """Return the digests of the indexed records, without updating the index.

    The result is empty if there is no index, or if it cannot be read.
    """
    return set((peek(root, queries.digests) or {}).values())


def state_of(root: Path) -> str:
    """Return a string that changes whenever the index does."""
    path = paths.index_file(root)
    return f"{current_seal(path)} {db.log_state(path)}"


def prune(root: Path, *, days: int = 0, really: bool = False) -> list[Prunable]:
    """List old logs and the indexes of removed worktrees, and remove them if `really` is set.

    A log is old if it has not changed for `days` days. If that is 0, no log is old. Raises Refused
    if the index is outside the project and something would be removed.
    """
    if really:
        of(root)
    old_logs = _logs_older_than(root, days) if days > 0 else []
    stale = stale_indexes(root)
    if really:
        for item in old_logs:
            files.delete(item.path)
        sync(root)
        for item in stale:
            remove_worktree_index(root, item.path.name)
    return [*old_logs, *stale]


def _logs_older_than(root: Path, days: int) -> list[Prunable]:
    """Return the logs that have not changed for `days` days, oldest first."""
    limit = (ids.now() - timedelta(days=days)).timestamp()
    times: dict[Path, float] = {}
    for folder in log_folders(root):
        for log in paths.log_files(folder):
            times[log] = log.stat().st_mtime
    old = [log for log, changed in times.items() if changed < limit]
    old.sort(key=times.__getitem__)
    return [Prunable(log, f"older than {days} days", log.stat().st_size) for log in old]


def stale_indexes(root: Path) -> list[Prunable]:
    """List the cache folders of worktrees that git has removed or pruned."""
    git = paths.git_worktrees(root)
    stale = []
    for folder in sorted(paths.tree_caches(root).glob("*")):
        is_used = (git / folder.name).exists()
        if is_used or not folder.is_dir() or folder.is_symlink():
            continue
        size = sum(path.lstat().st_size for path in folder.glob("*"))
        stale.append(Prunable(folder, "the index of a worktree that is gone", size))
    return stale


def remove_worktree_index(root: Path, name: str) -> None:
    """Remove the cache folder of a removed worktree. `name` is git's name for the worktree."""
    folder = paths.tree_caches(root) / name
    for path in folder.glob("*"):
        files.delete(path)
    if folder.is_dir():
        files.remove_folder(folder)


def discard_all(root: Path) -> None:
    """Delete the index and graph of every checkout.

    Raises Busy if another process is writing to one of them, and Refused like `of`.
    """
    of(root)
    for path in _databases(root):
        discard(path, PATIENCE)
    for path in (
        paths.graph_file(paths.main_checkout(root)),
        *paths.tree_caches(root).glob("*/graph.db"),
    ):
        db.remove(path)


def digests_of_others(root: Path) -> set[str]:
    """Return the digests of all records indexed in other checkouts.

    Indexes that cannot be read are skipped.
    """
    digests = set[str]()
    own = paths.index_file(root)
    for path in _databases(root):
        if path == own:
            continue
        with (
            suppress(RalphError, sqlite3.Error),
            closing(db.connect(path, read_only=True)) as connection,
        ):
            digests.update(queries.digests(connection).values())
    return digests


class StoredText(NamedTuple):
    """A text in the index, with the name of its source and its line there (1 if unknown)."""

    source: str
    line: int
    text: str


def stored_texts(root: Path) -> Iterator[StoredText]:
    """Yield every text in the indexes of all checkouts, as they are.

    Indexes that cannot be read are skipped.
    """
    if outside(root) is not None:
        return
    for path in _databases(root):
        with (
            suppress(RalphError, sqlite3.Error),
            closing(db.connect(path, read_only=True)) as connection,
        ):
            if db.version_of(connection) == SCHEMA_VERSION:
                yield from starmap(StoredText, queries.stored_texts(connection))


def _databases(root: Path) -> list[Path]:
    """Return the index files of all checkouts."""
    candidates = (
        paths.index_file(paths.main_checkout(root)),
        *sorted(paths.tree_caches(root).glob("*/ralph.db")),
    )
    return [path for path in candidates if path.is_file()]


def last_lines(log: Path) -> Iterator[dict[str, object]]:
    """Yield the JSON objects at the end of a log, last first."""
    with suppress(OSError), files.open_unpacked(log) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        for line in reversed(file.read(_TAIL_BYTES).splitlines()):
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


def ends_with_summary(root: Path, session: str) -> bool:
    """Return whether a session's log ends with a summary, which then covers the whole session."""
    log = paths.session_log(root, session)
    if not log.exists():
        log = paths.packed_log(root, session)
    for line in last_lines(log):
        if line.get("type") != "session":
            return False
        if line.get("summary"):
            return True
    return False
