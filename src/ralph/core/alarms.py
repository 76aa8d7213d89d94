"""Interrupt the main thread after some time.

POSIX has timers that send a signal, which also interrupts a regular expression. Windows has none.
There, a thread waits and then simulates Ctrl+C, and the handler raises the error. That cannot
interrupt a regular expression, because the thread does not get to run during one. Patterns that may
take long are therefore searched for in another process (`pattern_process.py`).
"""

from __future__ import annotations

import signal
import sys
from enum import Enum

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    RaiseError = Callable[[], None]


class Clock(Enum):
    """Which time an alarm measures."""

    WALL = "wall"
    PROCESSOR = "processor"  # in which this process works; on Windows, estimated from wall time
    CPU = "cpu"  # the same, without the time in which the system works for it


if sys.platform == "win32":
    import _thread
    import threading

    # A CPU second takes about this many seconds on a busy machine.
    _WALL_SECONDS_PER_CPU_SECOND = 4.0

    class _Alarm:
        """An alarm that is set, and the thread that waits for it."""

        def __init__(self, seconds: float, raise_error: RaiseError) -> None:
            self.raise_error = raise_error
            self.has_expired = False
            self._timer = threading.Timer(seconds, self._expire)
            self._timer.daemon = True
            self._timer.start()

        def _expire(self) -> None:
            with _lock:
                if self in _alarms.values():  # otherwise it was cancelled at the last moment
                    self.has_expired = True
                    _simulated_interrupts.append(self)
                    _thread.interrupt_main()

        def cancel(self) -> None:
            self._timer.cancel()

    _lock = threading.RLock()  # the handler may run while the main thread holds it
    _alarms: dict[Clock, _Alarm] = {}
    _simulated_interrupts: list[_Alarm] = []  # those that the handler has not seen yet
    _replaced_handlers: list[signal._HANDLER] = []

    def set_alarm(seconds: float, raise_error: RaiseError, clock: Clock = Clock.WALL) -> None:
        """Call `raise_error` in the main thread after `seconds`.

        A later call with the same clock replaces an earlier one, and 0 seconds mean never. Raises
        ValueError in other threads than the main one.
        """
        if threading.current_thread() is not threading.main_thread():
            raise ValueError("alarms only work in the main thread")
        with _lock:
            previous = _alarms.pop(clock, None)
        if previous is not None:
            previous.cancel()
        if seconds > 0 and clock is not Clock.WALL:
            seconds *= _WALL_SECONDS_PER_CPU_SECOND
        if seconds > 0:
            if not _replaced_handlers:
                _replaced_handlers.append(signal.signal(signal.SIGINT, _handle_interrupt))
            with _lock:
                _alarms[clock] = _Alarm(seconds, raise_error)
        elif not _alarms and _replaced_handlers:
            # This first handles an interrupt that has just been simulated.
            signal.signal(signal.SIGINT, _replaced_handlers[0])
            _replaced_handlers.clear()

    def _handle_interrupt(number: int, frame: FrameType | None) -> None:
        """Raise the errors of expired alarms, or else treat Ctrl+C as it was before."""
        with _lock:
            is_simulated = bool(_simulated_interrupts)
            _simulated_interrupts.clear()
            expired = [clock for clock, alarm in _alarms.items() if alarm.has_expired]
            raise_errors = [_alarms.pop(clock).raise_error for clock in expired]
        for raise_error in raise_errors:
            raise_error()
        handler = _replaced_handlers[0] if _replaced_handlers else signal.default_int_handler
        if not is_simulated and callable(handler):
            handler(number, frame)

else:
    _SIGNALS = {
        Clock.WALL: (signal.SIGALRM, signal.ITIMER_REAL),
        Clock.PROCESSOR: (signal.SIGPROF, signal.ITIMER_PROF),
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
