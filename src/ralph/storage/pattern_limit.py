"""The time limit for searches with a user's pattern.

A pattern that takes too long is switched off: it is noted in the state folder, so that later
processes skip it and `ralph doctor` names it.

Only a signal can interrupt a regular expression, and Python runs signal handlers in the main
thread. A server whose requests run in worker threads must therefore say how such a thread reaches
the main thread, see `PatternLimit.use_main_thread`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ralph.core import paths
from ralph.storage import hook_files

T = TypeVar("T")

_SEARCH_SECONDS = 0.5
"""CPU seconds for one pattern in one text; less after others were too slow."""


class PatternLimit:
    """Limits the CPU time of searches in a project, and notes patterns that are too slow."""

    _run_in_main_thread: ClassVar[Callable[..., Any] | None] = None

    def __init__(self, root: Path) -> None:
        self._boundary = str(paths.state_boundary(root))
        self._state = str(paths.state_folder(root))
        self._slow_patterns: set[str] = set()

    @classmethod
    def use_main_thread(cls, run: Callable[..., Any]) -> None:
        """Set how the worker threads of this process run a function in the main thread.

        `run` is called with the function and its arguments. It raises RuntimeError in a thread that
        cannot reach the main thread; a search there has no time limit.
        """
        cls._run_in_main_thread = staticmethod(run)

    def run(self, pattern: str, search: Callable[[], T]) -> T | None:
        """Return what the search returns, or None if the pattern is too slow to search for."""
        if pattern in self._slow_patterns:
            return None
        seconds = _SEARCH_SECONDS / (1 + len(self._slow_patterns))
        try:
            return self._run_in_time(search, seconds)
        except TimeoutError:
            self._slow_patterns.add(pattern)
            hook_files.switch_off_pattern(self._boundary, self._state, pattern)
            return None

    def _run_in_time(self, search: Callable[[], T], seconds: float) -> T:
        """Run a search in the main thread; raise TimeoutError if it takes more CPU seconds."""
        try:
            signal.signal(signal.SIGVTALRM, _give_up)
        except ValueError:  # not the main thread
            return self._run_from_worker(search, seconds)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            found = search()
            # Stopped inside the `try`, so that a late signal is raised here as well.
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            return found
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _run_from_worker(self, search: Callable[[], T], seconds: float) -> T:
        """Search in the main thread; a regex lets no other thread run in the meantime."""
        if self._run_in_main_thread is None:
            return search()
        try:
            found: T = self._run_in_main_thread(self._run_in_time, search, seconds)
        except RuntimeError:  # a thread of another library
            return search()
        return found


def _give_up(_number: int, _frame: object) -> None:
    raise TimeoutError
