"""Print the progress of a run for the person who watches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ralph.core.work import (
    JournalEntry,
)

_MAX_REASON_LINES = 4  # printed to say why an iteration failed; the journal has all of them
_MAX_REFUSED_CALLS = 5  # printed after an iteration


class LoopPrinter(NamedTuple):
    """The loop's terminal, for its own lines, the agent's text, and interruptions by a person."""

    print_line: Callable[[str], None]
    show: Callable[[str], None]
    interrupted: Callable[[], bool]
    feedback: Callable[[], str]  # typed by a person after Ctrl-C, or "" to end the run
    clear_interrupt: Callable[[], None]  # a person wants to continue

    def warn(self, message: str) -> None:
        """Print a warning."""
        self.print_line(f"warning: {message}")

    def print_check(self, text: str, *, passed: bool) -> None:
        """Print the result of a check."""
        mark = "ok" if passed else "no"
        self.print_line(f"  {mark}  {text}")

    def print_refused_calls(self, calls: Sequence[str]) -> None:
        """Print the tool calls that the agent was not permitted to make."""
        for call in calls[:_MAX_REFUSED_CALLS]:
            self.print_line(f"  refused: {call}")
        if calls:
            self.print_line("  allow such calls in the agent's own settings, or with --permission")

    def print_iteration(self, entry: JournalEntry, reason: str) -> None:
        """Print how an iteration ended. `reason` explains why the task is not done."""
        details = f"{entry.duration:.1f} s"
        if entry.cost:
            details += f", ${entry.cost:.4f}"
        if entry.files:
            details += f", {count_noun(len(entry.files), 'file')}"
        self.print_line(f"iteration {entry.iteration}: {entry.outcome} ({details})")
        for line in reason.splitlines()[:_MAX_REASON_LINES]:
            self.print_line(f"  {line}")


def count_noun(number: int, noun: str) -> str:
    """Return a count with its noun, such as "1 file" or "2 files"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"
