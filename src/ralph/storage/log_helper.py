"""Read new logs in a second process, while this one reads others and writes the rows of all.

A first index reads many logs, and most of its time goes into preparing their rows, which needs no
database. The portions arrive in the order of the logs, so the index is the same as without help. If
the helper ends early, the remaining logs are read by this process. The same applies to a log that
the helper cannot read, or that is rewritten in the meantime, as `ralph forget` does.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ralph.storage.log_portions import LogChanged, LogPortion, LogReader
from ralph.storage.sources import Format, FoundSource, Source

if TYPE_CHECKING:
    from ralph.core.side_process import SideProcess

_MIN_BYTES = 16_000_000  # of new logs: these take 2 seconds, and starting a helper takes 0.3
_HELPER_SHARE = 2.0  # of what this process reads: it also writes all rows
_BUSY_SHARE = 0.5  # of a core: if others use more of it, it is not free

MakeReader = Callable[[], LogReader]


def has_free_core() -> bool:
    """Return whether a core is free, as far as the system tells. Windows does not tell."""
    cores = os.cpu_count() or 1
    if sys.platform == "win32":
        return cores > 1
    if sys.platform == "linux":
        cores = len(os.sched_getaffinity(0))
    try:
        running, _, _ = os.getloadavg()
    except OSError:
        return cores > 1
    return running + _BUSY_SHARE < cores


class HelpRules(NamedTuple):
    """When a helper reads logs, and how it gets its reader. `make_reader` must be picklable."""

    make_reader: MakeReader
    min_bytes: int = _MIN_BYTES
    is_core_free: Callable[[], bool] = has_free_core


class LogHelper:
    """The portions of the logs that another process reads."""

    def __init__(self, process: SideProcess[LogPortion | None], assigned: Sequence[Source]) -> None:
        self._process = process
        self._unfinished = [source.name for source in reversed(assigned)]

    def next_portion(self, source: Source) -> LogPortion | None:
        """Return the next portion of a log, or None if this process has to read the rest of it."""
        if not self._unfinished or self._unfinished[-1] != source.name:
            return None
        try:
            portion = self._process.take()
        except EOFError:
            self._unfinished.clear()
            return None
        if portion is None or portion.is_last:
            self._unfinished.pop()
        return portion


@contextmanager
def log_helper(
    rules: HelpRules | None, differing: Sequence[FoundSource], known: Collection[str]
) -> Iterator[LogHelper | None]:
    """Start a helper for new logs, if there are enough of them and a core is free.

    `known` are the names of the sources that the index has.
    """
    new_logs = [
        found
        for found in differing
        if found.source.format is Format.LOG and found.source.name not in known
    ]
    new_bytes = sum(found.state.size for found in new_logs)
    if rules is None or new_bytes < rules.min_bytes or not rules.is_core_free():
        yield None
        return
    from ralph.core.side_process import SideProcess, choose_for_helper  # most syncs read little

    chosen = choose_for_helper(new_logs, lambda found: found.state.size, _HELPER_SHARE)
    assigned = [found.source for found in chosen]
    process: SideProcess[LogPortion | None] | None = None
    with suppress(OSError):
        process = SideProcess(partial(_read_logs, rules.make_reader, assigned))
    if process is None:
        yield None
        return
    with process:
        yield LogHelper(process, assigned)


def _read_logs(make_reader: MakeReader, assigned: Sequence[Source]) -> Iterator[LogPortion | None]:
    """Yield the portions of logs, and None if the rest of a log is left to the first process."""
    gc.disable()  # this process only reads logs, which creates no reference cycles
    reader = make_reader()
    for source in assigned:
        try:
            yield from reader.portions(source)
        except (OSError, LogChanged):
            yield None
