"""What tests let a second process do."""

import os
import sys
from collections.abc import Iterable, Iterator
from threading import Event

from ralph.core import terms
from ralph.storage.log_portions import LogPortion, LogReader
from ralph.storage.sources import Source

LOGS_BEFORE_THE_END = 3
STDOUT = 1  # a file descriptor


def make_reader() -> LogReader:
    return LogReader(terms.index_terms)


class _EndingReader(LogReader):
    """A reader whose process ends while it reads a log."""

    def __init__(self) -> None:
        super().__init__(terms.index_terms)
        self._logs = 0

    def portions(self, source: Source) -> Iterator[LogPortion]:
        self._logs += 1
        for portion in super().portions(source):
            if self._logs > LOGS_BEFORE_THE_END:
                os._exit(1)
            yield portion


def make_ending_reader() -> LogReader:
    return _EndingReader()


class _ChangingReader(LogReader):
    """A reader of logs that are rewritten after their first portion was read."""

    def portions(self, source: Source) -> Iterator[LogPortion]:
        for portion in super().portions(source):
            yield portion
            if not portion.is_last:
                text = source.path.read_text(encoding="utf-8")
                source.path.write_text(text.replace("error", "warning"), encoding="utf-8")


def make_changing_reader() -> LogReader:
    return _ChangingReader(terms.index_terms)


def own_ids() -> Iterator[int]:
    """Yield the id of the process that runs this, without end."""
    while True:
        yield os.getpid()


def own_id_only() -> Iterator[int]:
    """Yield the id of the process that runs this, and then work without end."""
    yield os.getpid()
    Event().wait()


def count_to(end: int) -> Iterable[int]:
    return range(end)


def count_noisily(end: int) -> Iterator[int]:
    """Count, and print something between the numbers."""
    for number in range(end):
        sys.stdout.write("noise\n")
        sys.stdout.flush()
        os.write(STDOUT, b"noise that Python does not see\n")
        yield number


def fail() -> Iterable[int]:
    raise ValueError


def always() -> bool:
    return True
