"""Read a log in portions, whose rows can then be written to the index.

The result does not depend on the size of the portions. Reading a portion needs only the file and
the position where the one before it ended, not the database.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from ralph.core import paths
from ralph.core.record import Record
from ralph.storage import files
from ralph.storage.prepared_rows import PreparedContents, RowPreparer
from ralph.storage.read_progress import digest_to
from ralph.storage.record_rows import Terms
from ralph.storage.source_contents import Interpret, IsRalphCall, parse_contents
from ralph.storage.sources import Source

SLICE_BYTES = 1_000_000  # of a log, read at a time


class ReadState(NamedTuple):
    """The state of a source's file when it was read, and how far it was read."""

    mtime_ns: int = 0
    size: int = 0
    inode: int = 0
    digest: str = ""
    offset: int = 0
    lines: int = 0


class LogPosition(NamedTuple):
    """Where the next portion of a log begins.

    `in_ralph_turn` says that the log so far ends in a turn in which the agent only called Ralph,
    because the answer to such a turn may follow.
    """

    offset: int = 0
    lines: int = 0
    in_ralph_turn: bool = False


LOG_START = LogPosition()


@dataclass(frozen=True, slots=True)
class LogPortion:
    """The contents of a portion of a log, and the state in which the log was read."""

    start: LogPosition
    end: LogPosition
    state: ReadState
    contents: PreparedContents | None  # None if no line was read
    is_last: bool

    @property
    def size(self) -> int:
        """The number of bytes that were read."""
        return self.end.offset - self.start.offset


class LogChanged(Exception):
    """Raised if a log no longer begins with the portions that were read from it."""


class LogReader:
    """Reads logs. The other values are described in `source_contents.py`."""

    def __init__(
        self,
        terms: Terms,
        interpret: Interpret | None = None,
        is_order: Callable[[Record], bool] | None = None,
        is_ralph_call: IsRalphCall | None = None,
    ) -> None:
        self.preparer = RowPreparer(terms, is_order)
        self._interpret = interpret
        self._is_ralph_call = is_ralph_call

    def portions(self, source: Source) -> Iterator[LogPortion]:
        """Read a log from its start to its end.

        Raises OSError if the file cannot be read, and LogChanged if it is not the one whose first
        portions were read, because somebody has rewritten it in the meantime.
        """
        position = LOG_START
        digest = ""
        is_last = False
        while not is_last:
            # Taken before reading, so that anything written in the meantime is read next time.
            status = source.path.stat()
            with files.open_unpacked(source.path) as file:
                if position != LOG_START and digest_to(file, position.offset) != digest:
                    raise LogChanged
                portion = self.read(source, file, status, position)
            yield portion
            position = portion.end
            digest = portion.state.digest
            is_last = portion.is_last

    def read(
        self,
        source: Source,
        file: BinaryIO,
        status: os.stat_result,
        start: LogPosition,
        slice_bytes: int = SLICE_BYTES,
    ) -> LogPortion:
        """Read the next portion of a log."""
        length = status.st_size
        if source.path.name.endswith(paths.PACKED):
            length = file.seek(0, os.SEEK_END)
        file.seek(start.offset)
        # Python allocates as many bytes as it is asked to read, and most logs are shorter.
        unread_bytes = max(0, length - start.offset)
        payload = _read_lines(file, min(slice_bytes, unread_bytes))
        is_last = file.tell() >= length
        end_offset = start.offset + len(payload)
        # Taken before parsing, so that the digest is of the lines that were read.
        digest = digest_to(file, end_offset)
        contents = None
        in_ralph_turn = start.in_ralph_turn
        if payload:
            parsed = parse_contents(
                source,
                payload.decode("utf-8", "surrogateescape"),
                self._interpret,
                self._is_ralph_call,
                in_ralph_turn=in_ralph_turn,
            )
            contents = self.preparer.prepare(parsed)
            in_ralph_turn = parsed.in_ralph_turn
        end = LogPosition(end_offset, start.lines + payload.count(b"\n"), in_ralph_turn)
        state = ReadState(
            mtime_ns=status.st_mtime_ns,
            # Until the end is reached, a size that no file has makes the next sync continue.
            size=status.st_size if is_last else -end.offset,
            inode=status.st_ino,
            digest=digest,
            offset=end.offset,
            lines=end.lines,
        )
        return LogPortion(start, end, state, contents, is_last)


def _read_lines(file: BinaryIO, slice_bytes: int) -> bytes:
    """Read about one slice of a log. A last line that is still being written is left out."""
    payload = file.read(slice_bytes)
    while b"\n" not in payload:  # the line is longer than a slice
        more = file.read(slice_bytes)
        if not more:
            break
        payload += more
    return payload[: payload.rfind(b"\n") + 1]
