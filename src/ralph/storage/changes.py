"""Find the files that have changed since the index read them.

A file counts as changed if its modification time, size or inode differs from the one that the index
stored. Comparing them all takes long in a project with thousands of logs, so a process that syncs
repeatedly takes a shortcut:

1. After a complete sync, `FileScan.remember` takes a *snapshot*: the state of the files, and the
   *seal* of the index. The seal is a string that changes when a commit by any process reaches the
   database file.
2. Before the next sync, `is_unchanged` compares the project with the snapshot. It looks at the
   curated files, at the two log folders, and at the logs that changed in the last two days. A log
   that is older is looked at only if its folder has changed, as it does if the log is replaced. The
   same applies to packed logs, such as the hundreds that an import has just written.
3. If nothing has changed, the sync is skipped. Otherwise a new `FileScan` lists everything.

A snapshot is used for a minute at most, which limits the harm if an old log is changed in place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.storage.sources import (
    NO_FILE,
    FileState,
    Format,
    FoundSource,
    Source,
    file_state,
    log_folders,
    memory_states,
    scan,
    scan_logs,
)

_MAX_SNAPSHOT_SECONDS = 60.0  # an older snapshot is not used
_ACTIVE_SECONDS = 2 * 24 * 3600  # a log that changed within this time may well change again
_CLOCK_TICK_SECONDS = 0.1  # two changes within this time may have the same modification time
_NANOSECONDS = 1e9  # in a second


class _PathState(NamedTuple):
    path: str
    state: FileState


class _Snapshot(NamedTuple):
    """The state of a project's files when the index was last complete."""

    index_seal: str
    taken_at: float  # by the monotonic clock
    folder_times: tuple[int, ...]  # modification times of the log folders; see `_settled`
    folder_hashes: tuple[int, ...]  # of the names and inodes in the log folders
    curated_files: tuple[_PathState, ...]  # all sources except logs
    active_logs: tuple[_PathState, ...]
    other_logs: tuple[_PathState, ...]


_snapshots: dict[Path, _Snapshot] = {}  # by project, for the lifetime of this process


class FileScan:
    """The sources of a project, as listed when this object was created.

    Without `logs`, the log folders are not listed.
    """

    def __init__(self, root: Path, *, logs: bool = True) -> None:
        self.root = root
        self.has_logs = logs
        # The log folders come first, so that a log added during the scan is noticed next time.
        self._folder_times = _folder_times(root)
        self._folder_hashes = _folder_hashes(root)
        self._started_at = time.time()
        self.memory_states = memory_states(root)
        self._curated_files = list(scan(root, logs=False))
        self._logs = list(scan_logs(root)) if logs else []

    def gone(self, known: Iterable[str]) -> set[str]:
        """Return the names that have no file any more. Logs that were not listed are left out."""
        names = {found.source.name for found in self._curated_files}
        names.update(log.name for log in self._logs)
        gone = set(known) - names
        if self.has_logs:
            return gone
        return {name for name in gone if not name.startswith(f"{paths.LOG}/")}

    def differing_from(self, known: Mapping[str, FileState]) -> list[FoundSource]:
        """Return the sources whose state differs from their state in `known`, or is missing."""
        differing = []
        for found in self._curated_files:
            if known.get(found.source.name) != found.state:
                differing.append(found)
        for log in self._logs:
            if known.get(log.name) != log.state:
                source = Source(Path(log.path), log.name, Format.LOG)
                differing.append(FoundSource(source, log.state))
        return differing

    def remember(self, index_seal: str) -> None:
        """Take a snapshot. The index with this seal must contain everything that was listed."""
        active_since = (self._started_at - _ACTIVE_SECONDS) * _NANOSECONDS
        active_logs = []
        other_logs = []
        for log in self._logs:
            is_packed = log.path.endswith(paths.PACKED)  # nobody appends to it
            if log.state.mtime_ns >= active_since and not is_packed:
                active_logs.append(_PathState(log.path, log.state))
            else:
                other_logs.append(_PathState(log.path, log.state))
        _snapshots[self.root] = _Snapshot(
            index_seal=index_seal,
            taken_at=time.monotonic(),
            folder_times=_settled(self._folder_times),
            folder_hashes=self._folder_hashes,
            curated_files=_path_states(self._curated_files),
            active_logs=tuple(active_logs),
            other_logs=tuple(other_logs),
        )


def is_unchanged(root: Path, index_seal: str) -> bool:
    """Return whether a project and its index are still as this process remembers them.

    False may also mean that this is not known. `index_seal` is the index's current seal.
    """
    snapshot = _snapshots.get(root)
    if snapshot is None or snapshot.index_seal != index_seal:
        return False
    if time.monotonic() - snapshot.taken_at > _MAX_SNAPSHOT_SECONDS:
        return False
    if not _has_same_logs(root, snapshot):
        return False
    if not _are_unchanged(snapshot.active_logs):
        return False
    return snapshot.curated_files == _path_states(list(scan(root, logs=False)))


def _has_same_logs(root: Path, snapshot: _Snapshot) -> bool:
    """Compare the entries of the log folders, but only if the folders' times differ.

    A log that was replaced twice may have its first inode again, so its state is compared as well.
    """
    times = _folder_times(root)
    if snapshot.folder_times == times:
        return True
    if snapshot.folder_hashes != _folder_hashes(root) or not _are_unchanged(snapshot.other_logs):
        return False
    # For example, a log was added and removed again. The next comparison can use the new times.
    _snapshots[root] = snapshot._replace(folder_times=_settled(times))
    return True


def _are_unchanged(logs: tuple[_PathState, ...]) -> bool:
    return all(_state_of(log.path) == log.state for log in logs)


def _path_states(found_sources: list[FoundSource]) -> tuple[_PathState, ...]:
    return tuple(_PathState(os.fspath(found.source.path), found.state) for found in found_sources)


def _folder_times(root: Path) -> tuple[int, ...]:
    return tuple(_state_of(os.fspath(folder)).mtime_ns for folder in log_folders(root))


def _settled(folder_times: tuple[int, ...]) -> tuple[int, ...]:
    """Return the times, or () if a folder has changed within the last clock tick.

    Such a folder may change once more without its time changing, so its time proves nothing. An
    empty tuple equals no actual times, so the entries of the folders are compared instead.
    """
    if time.time() - max(folder_times) / _NANOSECONDS >= _CLOCK_TICK_SECONDS:
        return folder_times
    return ()


def _folder_hashes(root: Path) -> tuple[int, ...]:
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
