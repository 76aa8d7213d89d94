"""Limit the time that searches with a user's pattern may take.

A pattern that takes too long is switched off: it is recorded in the state folder, so that later
processes skip it and `ralph doctor` reports it.

Only a signal can interrupt a regular expression, and Python runs signal handlers in the main
thread. A server that handles requests in worker threads must therefore call
`PatternLimit.use_main_thread` to say how such a thread reaches the main thread.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ralph.core import paths
from ralph.lean import hook_files

T = TypeVar("T")

_SEARCH_SECONDS = 0.5
"""CPU seconds for one search with one pattern. Each slow pattern reduces it for the others."""


class PatternLimit:
    """Limits the CPU time of searches in a project, and records patterns that are too slow."""

    _run_in_main_thread: ClassVar[Callable[..., Any] | None] = None

    def __init__(self, root: Path) -> None:
        self._boundary = str(paths.state_boundary(root))
        self._state = str(paths.state_folder(root))
        self._slow_patterns: set[str] = set()

    @classmethod
    def use_main_thread(cls, run: Callable[..., Any]) -> None:
        """Set how worker threads in this process run a function in the main thread.

        `run` is called with the function and its arguments. It raises RuntimeError in a thread that
        cannot reach the main thread. A search in such a thread has no time limit.
        """
        cls._run_in_main_thread = staticmethod(run)

    def run(self, pattern: str, search: Callable[[], T]) -> T | None:
        """Return the result of `search`, or None if the pattern is too slow."""
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
        """Run a search in the main thread. Raises TimeoutError after `seconds` of CPU time."""
        from ralph.core.alarms import Clock, set_alarm  # most projects have no patterns

        try:
            set_alarm(seconds, _give_up, Clock.CPU)
        except ValueError:  # not the main thread
            return self._run_from_worker(search, seconds)
        try:
            found = search()
            # Stopped inside the `try`, so that a late signal is raised here as well.
            set_alarm(0, _give_up, Clock.CPU)
            return found
        finally:
            set_alarm(0, _give_up, Clock.CPU)

    def _run_from_worker(self, search: Callable[[], T], seconds: float) -> T:
        """Run a search in the main thread on behalf of a worker thread.

        This costs no parallelism, because no other thread runs during a regex search anyway.
        """
        if self._run_in_main_thread is None:
            return search()
        try:
            found: T = self._run_in_main_thread(self._run_in_time, search, seconds)
        except RuntimeError:  # a thread that another library started
            return search()
        return found


def _give_up() -> None:
    raise TimeoutError
