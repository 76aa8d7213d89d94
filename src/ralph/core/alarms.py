"""Interrupt the main thread after some time, even within a regular expression.

POSIX has timers that send a signal. Windows has none, so there a thread waits and then simulates
Ctrl+C, whose handler raises the error.
"""

from __future__ import annotations

import signal
import sys
from enum import Enum

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    RaiseError = Callable[[], None]


class Clock(Enum):
    """Which time an alarm measures."""

    WALL = "wall"
    CPU = "cpu"  # of this process; on Windows, wall time


if sys.platform == "win32":
    import _thread
    import threading

    _timers: dict[Clock, threading.Timer] = {}

    def set_alarm(seconds: float, raise_error: RaiseError, clock: Clock = Clock.WALL) -> None:
        """Call `raise_error` in the main thread after `seconds`.

        A later call with the same clock replaces an earlier one, and 0 seconds mean never. Raises
        ValueError in other threads than the main one.
        """
        previous = _timers.pop(clock, None)
        if previous is not None:
            previous.cancel()
        if seconds <= 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            return

        def handle(_number: int, _frame: object) -> None:
            raise_error()

        signal.signal(signal.SIGINT, handle)
        timer = threading.Timer(seconds, _thread.interrupt_main)
        timer.daemon = True
        _timers[clock] = timer
        timer.start()

else:
    _SIGNALS = {
        Clock.WALL: (signal.SIGALRM, signal.ITIMER_REAL),
        Clock.CPU: (signal.SIGVTALRM, signal.ITIMER_VIRTUAL),
    }

    def set_alarm(seconds: float, raise_error: RaiseError, clock: Clock = Clock.WALL) -> None:
        """Call `raise_error` in the main thread after `seconds`.

        A later call with the same clock replaces an earlier one, and 0 seconds mean never. Raises
        ValueError in other threads than the main one.
        """

        def handle(_number: int, _frame: object) -> None:
            raise_error()

        number, timer = _SIGNALS[clock]
        signal.signal(number, handle)
        signal.setitimer(timer, seconds)
