"""Interrupt the main thread after some time.

POSIX has timers that send a signal, which also interrupts a regular expression. Windows has none.
There, a thread waits and then simulates Ctrl+C, and the handler raises the error. That cannot
interrupt a regular expression, because the thread does not get to run during one.
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
    import time

    _pending: dict[Clock, tuple[float, RaiseError, threading.Timer]] = {}
    _replaced_handlers: list[signal._HANDLER] = []

    def set_alarm(seconds: float, raise_error: RaiseError, clock: Clock = Clock.WALL) -> None:
        """Call `raise_error` in the main thread after `seconds`.

        A later call with the same clock replaces an earlier one, and 0 seconds mean never. Raises
        ValueError in other threads than the main one.
        """
        previous = _pending.pop(clock, None)
        if previous is not None:
            previous[2].cancel()
        if seconds > 0:
            timer = threading.Timer(seconds, _thread.interrupt_main)
            timer.daemon = True
            _pending[clock] = (time.monotonic() + seconds, raise_error, timer)
            timer.start()
        if _pending and not _replaced_handlers:
            _replaced_handlers.append(signal.signal(signal.SIGINT, _raise_expired))
        elif not _pending and _replaced_handlers:
            signal.signal(signal.SIGINT, _replaced_handlers.pop())

    def _raise_expired(number: int, frame: object) -> None:
        """Raise the error of an alarm that has expired, or else treat Ctrl+C as it was before."""
        now = time.monotonic()
        for clock, (deadline, raise_error, _) in list(_pending.items()):
            if now >= deadline:
                del _pending[clock]
                raise_error()
                return
        handler = _replaced_handlers[0]
        if callable(handler):
            handler(number, None)

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
