"""Which files changed since the index read them: by time, size and inode, and by digest where these differ.

There may be thousands of logs: those quiet for two days are looked at when their folder changed, and once a minute.
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

from ralph.store import files
from ralph.store.sources import FileState, Format, Source, file_state, log_folders, scan, scan_logs

_FULL_SECONDS = 60.0
# of a longer log only this much of either end is compared
_WHOLE_DIGEST = 4_000_000
_DIGEST_ENDS = 65_536


class _Seen(NamedTuple):
    seal: str
    at: float
    folders: tuple[int, ...]
    names: tuple[int, ...]
    others: tuple[tuple[str, FileState], ...]
    active: tuple[tuple[str, FileState], ...]


_SEEN: dict[Path, _Seen] = {}


class Look:
    """One look at the files of a project, which begins before they are listed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders = _folder_times(root)
        self._names = _folder_names(root)
        self._at = time.time()
        self._others: list[tuple[Source, FileState]] = []
        self._logs: list[tuple[str, str, FileState]] = []

    def scan(self) -> set[str]:
        """List the files; return the names of all sources."""
        self._others = list(scan(self.root, logs=False))
        self._logs = list(scan_logs(self.root))
        return {source.name for source, _ in self._others} | {name for _, name, _ in self._logs}

    def differing(self, known: Mapping[str, FileState]) -> list[tuple[Source, FileState]]:
        """Return the sources whose state is not the one that was indexed."""
        others = [
            (source, state) for source, state in self._others if known.get(source.name) != state
        ]
        logs = (each for each in self._logs if known.get(each[1]) != each[2])
        return others + [
            (Source(Path(path), name, Format.LOG), state) for path, name, state in logs
        ]

    def remember(self, seal: str) -> None:
        """Remember that the index with this seal has all that was seen."""
        since = (self._at - 2 * 24 * 3600) * 1e9
        others = tuple((os.fspath(source.path), state) for source, state in self._others)
        active = tuple((path, state) for path, _, state in self._logs if state[0] >= since)
        _SEEN[self.root] = _Seen(
            seal, time.monotonic(), _settled(self._folders), self._names, others, active
        )


def none_since(root: Path, seal: str) -> bool:
    """Whether nothing has changed since this process last synced the index with this seal."""
    seen = _SEEN.get(root)
    if seen is None or seen.seal != seal or time.monotonic() - seen.at > _FULL_SECONDS:
        return False
    times = _folder_times(root)
    if seen.folders != times:
        if seen.names != _folder_names(root):
            return False
        _SEEN[root] = seen._replace(folders=_settled(times))
    if any(_state_of(path) != state for path, state in seen.active):
        return False
    return seen.others == tuple(
        (os.fspath(source.path), state) for source, state in scan(root, logs=False)
    )


def _folder_times(root: Path) -> tuple[int, ...]:
    return tuple(_state_of(os.fspath(folder))[0] for folder in log_folders(root))


def _settled(times: tuple[int, ...]) -> tuple[int, ...]:
    """Nothing when a folder changed just now: it may change again within one tick of the clock."""
    return times if time.time() - max(times) / 1e9 >= 0.1 else ()


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
        return 0, 0, 0


def known_states(connection: sqlite3.Connection) -> dict[str, FileState]:
    """Return the state in which each source was read, by its name."""
    cursor = connection.cursor()
    cursor.row_factory = None
    return {
        row[0]: row[1:] for row in cursor.execute("SELECT path, mtime_ns, size, inode FROM sources")
    }


class ReadLog(NamedTuple):
    """Up to where a log was read, and what was counted."""

    offset: int = 0
    lines: int = 0
    problems: int = 0
    events: int = 0
    hosts: str = ""


def read_logs(connection: sqlite3.Connection, root: Path) -> dict[str, tuple[ReadLog, int]]:
    """Return by path what the index has read of every log, and its size; a log that begins otherwise was not read."""
    columns = "path, mtime_ns, size, inode, digest, offset, lines, problems, events, hosts"
    cursor = connection.cursor()
    cursor.row_factory = None
    rows = {
        row[0]: row[1:]
        for row in cursor.execute(f"SELECT {columns} FROM sources WHERE format = 'log'")
    }
    logs: dict[str, tuple[ReadLog, int]] = {}
    for path, name, state in scan_logs(root):
        row = rows.get(name)
        is_same = row is not None and row[:3] == state
        is_read = row is not None and (is_same or file_digest(Path(path), row[4]) == row[3])
        size = row[4] if row is not None and is_same else state[1]  # a packed log has another one
        logs[path] = ReadLog(*row[4:]) if row is not None and is_read else ReadLog(), size
    return logs


def digest_to(file: BinaryIO, end: int) -> str:
    """Return the digest up to a position; of a very long part, of its ends and length."""
    digest = hashlib.sha1(str(end).encode() if end > _WHOLE_DIGEST else b"", usedforsecurity=False)
    parts = (
        [(0, end)]
        if end <= _WHOLE_DIGEST
        else [(0, _DIGEST_ENDS), (end - _DIGEST_ENDS, _DIGEST_ENDS)]
    )
    for start, length in parts:
        file.seek(start)
        digest.update(file.read(length))
    return digest.hexdigest()


def file_digest(path: Path, end: int | None = None) -> str:
    """Return the digest of a file, or of its beginning; "" when it cannot be read."""
    try:
        with files.open_unpacked(path) as file:
            return digest_to(file, path.stat().st_size if end is None else end)
    except OSError:
        return ""
