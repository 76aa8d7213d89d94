"""Divide the time of a hook among its steps.

On a busy machine a step may take ten times as long as usual. A step that the answer does not need
gets a limit, so that it cannot use up the time of the others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ralph.core.errors import DeadlineExceeded

_SHORTEST_TIMER = 0.001  # seconds
_LOADING_SECONDS = 1.0  # ten times what it takes on a quiet machine


class Deadline:
    """The time at which a hook has to end.

    `set_timer` makes DeadlineExceeded be raised after that many seconds. A later call replaces an
    earlier one.
    """

    def __init__(self, set_timer: Callable[[float], None], seconds: float) -> None:
        self._set_timer = set_timer
        self._started_at = time.monotonic()
        self._ends_at = self._started_at + seconds
        set_timer(seconds)

    @property
    def is_behind(self) -> bool:
        """Whether more time has passed than loading Ralph takes on a machine that is not busy."""
        has_end = math.isfinite(self._ends_at)
        return has_end and time.monotonic() - self._started_at > _LOADING_SECONDS

    def shorten(self, seconds: float) -> None:
        """Leave at most this many seconds from now on."""
        if math.isfinite(self._ends_at):
            self._ends_at = min(self._ends_at, time.monotonic() + seconds)
            self._set_timer(self._seconds_left())

    @contextmanager
    def optional_step(self, seconds: float) -> Iterator[None]:
        """Give up a step after this many seconds, and continue after it.

        Raises DeadlineExceeded if no time is left at all.
        """
        self._set_timer(min(seconds, self._seconds_left()))
        try:
            yield
        except DeadlineExceeded:
            if time.monotonic() >= self._ends_at:
                raise
        self._set_timer(self._seconds_left())

    def _seconds_left(self) -> float:
        # A timer of 0 seconds would never end.
        return max(self._ends_at - time.monotonic(), _SHORTEST_TIMER)


NO_DEADLINE = Deadline(lambda _: None, math.inf)
