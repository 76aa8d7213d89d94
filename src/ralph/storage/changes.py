"""Find the files that have changed since the index read them.

A file is compared by modification time, size and inode, and by digest if any of these differ. A
project may have thousands of logs, so a log that has not changed in the last two days is checked
only if its folder has changed, and otherwise once a minute.

The vocabulary of this module:

- A *source* is a file that contains records. A *log* is a source that grows line by line. The
  sources that are not logs are the *others*.
- The *state* of a file is its modification time, size and inode.
- A *seal* is a string that identifies one version of the index on disk. It changes whenever any
  program writes to the index, so a snapshot can tell which index it belongs to.
- A *look* is one pass over a project's files. It notes the state of the log folders before it lists
  any file, so that a file added in the meantime is noticed later.
- A *snapshot* is what a look leaves behind in this process: the state of the files when the index
  was complete, and the seal of that index. While it still fits, nothing has to be listed again.
- A folder's modification time has *settled* if it is older than one clock tick. A folder that has
  just changed may change again without its time changing, so an unsettled time proves nothing.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ralph.storage import files
from ralph.storage.sources import (
    NO_FILE,
    FileState,
    Format,
    FoundLog,
    FoundSource,
    Source,
    file_state,
    log_folders,
    scan,
    scan_logs,
)

_FULL_SECONDS = 60.0  # after this long, every log is checked again
_ACTIVE_SECONDS = 2 * 24 * 3600  # a log that changed within this time may change again soon
_CLOCK_TICK_SECONDS = 0.1  # two changes within this time may have the same modification time
_NANOSECONDS = 1e9  # in a second
_MAX_DIGESTED_BYTES = 4_000_000  # a longer file is compared by its two ends only
_DIGESTED_END_BYTES = 65_536  # at each end


# --- whether anything has changed ---------------------------------------------------------------


class _PathState(NamedTuple):
    path: str
    state: FileState


class _Snapshot(NamedTuple):
    """The state of a project's files when the index was last complete."""

    index_seal: str
    taken_at: float  # by the monotonic clock
    folder_times: tuple[int, ...]  # of the log folders; empty if not settled
    folder_names: tuple[int, ...]  # hashes of the log folders' entries
    others: tuple[_PathState, ...]  # all sources except logs
    active_logs: tuple[_PathState, ...]


_snapshots: dict[Path, _Snapshot] = {}


class Look:
    """One pass over a project's files.

    Creating it notes the state of the log folders, before any file is listed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folder_times = _folder_times(root)
        self._folder_names = _folder_names(root)
        self._started_at = time.time()
        self._others: list[FoundSource] = []
        self._logs: list[FoundLog] = []

    def scan(self) -> set[str]:
        """List the files and return the names of all sources."""
        self._others = list(scan(self.root, logs=False))
        self._logs = list(scan_logs(self.root))
        names = {found.source.name for found in self._others}
        names.update(log.name for log in self._logs)
        return names

    def differing(self, known: Mapping[str, FileState]) -> list[FoundSource]:
        """Return the sources whose state differs from the one in `known`. Call `scan` first."""
        differing = [found for found in self._others if known.get(found.source.name) != found.state]
        for log in self._logs:
            if known.get(log.name) != log.state:
                source = Source(Path(log.path), log.name, Format.LOG)
                differing.append(FoundSource(source, log.state))
        return differing

    def remember(self, seal: str) -> None:
        """Take a snapshot: the index with this seal contains everything that was seen."""
        active_since = (self._started_at - _ACTIVE_SECONDS) * _NANOSECONDS
        active_logs = []
        for log in self._logs:
            if log.state.mtime_ns >= active_since:
                active_logs.append(_PathState(log.path, log.state))
        _snapshots[self.root] = _Snapshot(
            index_seal=seal,
            taken_at=time.monotonic(),
            folder_times=_settled(self._folder_times),
            folder_names=self._folder_names,
            others=_path_states(self._others),
            active_logs=tuple(active_logs),
        )


def none_since(root: Path, seal: str) -> bool:
    """Return whether nothing has changed since this process last synced the index.

    `seal` is the index's current seal. The result is False if it differs from the snapshot's.
    """
    snapshot = _snapshots.get(root)
    if snapshot is None or snapshot.index_seal != seal:
        return False
    if time.monotonic() - snapshot.taken_at > _FULL_SECONDS:
        return False
    if not _same_log_folders(root, snapshot):
        return False
    for log in snapshot.active_logs:
        if _state_of(log.path) != log.state:
            return False
    return snapshot.others == _path_states(list(scan(root, logs=False)))


def _same_log_folders(root: Path, snapshot: _Snapshot) -> bool:
    """Return whether the log folders have the same entries as in the snapshot.

    The entries are compared only if the folders' modification times differ.
    """
    times = _folder_times(root)
    if snapshot.folder_times == times:
        return True
    if snapshot.folder_names != _folder_names(root):
        return False
    _snapshots[root] = snapshot._replace(folder_times=_settled(times))
    return True


def _path_states(found_sources: list[FoundSource]) -> tuple[_PathState, ...]:
    return tuple(_PathState(os.fspath(found.source.path), found.state) for found in found_sources)


def _folder_times(root: Path) -> tuple[int, ...]:
    return tuple(_state_of(os.fspath(folder)).mtime_ns for folder in log_folders(root))


def _settled(times: tuple[int, ...]) -> tuple[int, ...]:
    """Return the modification times of folders, or () if one of them has just changed.

    Such a folder may change again within the same clock tick.
    """
    if time.time() - max(times) / _NANOSECONDS >= _CLOCK_TICK_SECONDS:
        return times
    return ()


def _folder_names(root: Path) -> tuple[int, ...]:
    hashes = []
    for folder in log_folders(root):
        entries: frozenset[tuple[str, int]] = frozenset()
        with suppress(OSError), os.scandir(folder) as found:
            entries = frozenset((entry.name, entry.inode()) for entry in found)
        hashes.append(hash(entries))
    return tuple(hashes)


def _state_of(path: str) -> FileState:
    try:
        return file_state(os.stat(path))  # noqa: PTH116 - thousands of logs: no Path for each
    except OSError:
        return NO_FILE


# --- what the index has read --------------------------------------------------------------------


def known_states(connection: sqlite3.Connection) -> dict[str, FileState]:
    """Return the state each source was in when it was read, by source name."""
    cursor = connection.cursor()
    cursor.row_factory = None  # thousands of rows: plain tuples are faster
    rows = cursor.execute("SELECT path, mtime_ns, size, inode FROM sources")
    return {name: FileState(mtime_ns, size, inode) for name, mtime_ns, size, inode in rows}


class ReadLog(NamedTuple):
    """How far the index has read a log, and what it counted there."""

    offset: int = 0
    lines: int = 0
    problems: int = 0
    events: int = 0
    hosts: str = ""


class _IndexedLog(NamedTuple):
    state: FileState
    digest: str
    read: ReadLog


def read_logs(connection: sqlite3.Connection, root: Path) -> dict[str, tuple[ReadLog, int]]:
    """Return how far the index has read each log, and the log's size, by path.

    A log whose beginning has changed counts as unread.
    """
    indexed_logs = _indexed_logs(connection)
    logs: dict[str, tuple[ReadLog, int]] = {}
    for log in scan_logs(root):
        indexed = indexed_logs.get(log.name)
        if indexed is None:
            logs[log.path] = ReadLog(), log.state.size
        elif indexed.state == log.state:
            # The size of a packed log is not the number of bytes read from it.
            logs[log.path] = indexed.read, indexed.read.offset
        elif file_digest(Path(log.path), indexed.read.offset) == indexed.digest:
            logs[log.path] = indexed.read, log.state.size
        else:
            logs[log.path] = ReadLog(), log.state.size
    return logs


def _indexed_logs(connection: sqlite3.Connection) -> dict[str, _IndexedLog]:
    """Return the index's rows about logs, by name."""
    cursor = connection.cursor()
    cursor.row_factory = None
    rows = cursor.execute(
        "SELECT path, mtime_ns, size, inode, digest, offset, lines, problems, events, hosts "
        "FROM sources WHERE format = 'log'"
    )
    logs: dict[str, _IndexedLog] = {}
    for name, mtime_ns, size, inode, digest, offset, lines, problems, events, hosts in rows:
        state = FileState(mtime_ns, size, inode)
        read = ReadLog(offset, lines, problems, events, hosts)
        logs[name] = _IndexedLog(state, digest, read)
    return logs


# --- digests ------------------------------------------------------------------------------------


def digest_to(file: BinaryIO, end: int) -> str:
    """Return the digest of a file's first `end` bytes.

    If that is more than a few megabytes, only the length and the two ends are digested.
    """
    if end <= _MAX_DIGESTED_BYTES:
        digest = hashlib.sha1(b"", usedforsecurity=False)
        parts = [(0, end)]
    else:
        digest = hashlib.sha1(str(end).encode(), usedforsecurity=False)
        parts = [(0, _DIGESTED_END_BYTES), (end - _DIGESTED_END_BYTES, _DIGESTED_END_BYTES)]
    for start, length in parts:
        file.seek(start)
        digest.update(file.read(length))
    return digest.hexdigest()


def file_digest(path: Path, end: int | None = None) -> str:
    """Return the digest of a file's first `end` bytes, or of the whole file.

    The result is "" if the file cannot be read.
    """
    try:
        with files.open_unpacked(path) as file:
            if end is None:
                end = path.stat().st_size
            return digest_to(file, end)
    except OSError:
        return ""
