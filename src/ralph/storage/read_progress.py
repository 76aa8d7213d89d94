"""What the index has read: the state of each source, and how far each log was read.

The index stores the *offset* up to which it read a log, and the digest of everything before it. If
a log still begins with the same bytes, it has only grown, and reading can continue at the offset.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ralph.storage import files
from ralph.storage.sources import FileState, FoundLog

_MAX_DIGESTED_BYTES = 4_000_000  # of a longer file, only the two ends are digested
_DIGESTED_END_BYTES = 65_536  # at each end


class LogProgress(NamedTuple):
    """How far the index has read a log, and what it counted up to there.

    `unread_bytes` is 0 if the log has not changed since it was read to its end. For a packed log
    that has changed, it is wrong, because the size on disk is the compressed size.
    """

    offset: int = 0
    lines: int = 0
    problems: int = 0
    events: int = 0
    hosts: str = ""
    unread_bytes: int = 0


class _IndexedLog(NamedTuple):
    state: FileState
    digest: str
    progress: LogProgress


def source_states(connection: sqlite3.Connection) -> dict[str, FileState]:
    """Return the state in which each source was read, by the source's name."""
    cursor = connection.cursor()
    cursor.row_factory = None  # thousands of rows: plain tuples are faster
    rows = cursor.execute("SELECT path, mtime_ns, size, inode FROM sources")
    return {name: FileState(mtime_ns, size, inode) for name, mtime_ns, size, inode in rows}


def log_progress(
    connection: sqlite3.Connection, logs: Sequence[FoundLog]
) -> dict[str, LogProgress]:
    """Return how far the index has read each of these logs, by path.

    A log whose beginning has changed counts as unread.
    """
    indexed_logs = _indexed_logs(connection)
    return {log.path: _progress_of(log, indexed_logs.get(log.name)) for log in logs}


def _progress_of(log: FoundLog, indexed: _IndexedLog | None) -> LogProgress:
    if indexed is None:
        return LogProgress(unread_bytes=log.state.size)
    progress = indexed.progress
    if indexed.state == log.state:
        return progress
    if file_digest(Path(log.path), progress.offset) == indexed.digest:
        return progress._replace(unread_bytes=log.state.size - progress.offset)
    return LogProgress(unread_bytes=log.state.size)


def _indexed_logs(connection: sqlite3.Connection) -> dict[str, _IndexedLog]:
    cursor = connection.cursor()
    cursor.row_factory = None
    rows = cursor.execute(
        "SELECT path, mtime_ns, size, inode, digest, offset, lines, problems, events, hosts "
        "FROM sources WHERE format = 'log'"
    )
    logs: dict[str, _IndexedLog] = {}
    for name, mtime_ns, size, inode, digest, offset, lines, problems, events, hosts in rows:
        state = FileState(mtime_ns, size, inode)
        progress = LogProgress(offset, lines, problems, events, hosts)
        logs[name] = _IndexedLog(state, digest, progress)
    return logs


def digest_to(file: BinaryIO, end: int) -> str:
    """Return the digest of a file's first `end` bytes.

    If that is more than a few megabytes, only the length and the two ends are digested.
    """
    import hashlib  # loads OpenSSL

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
