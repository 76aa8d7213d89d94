"""The terminal of a loop: lines on the terminal and in the run's log, Ctrl-C, and a person's feedback.

The first Ctrl-C asks the agent to stop and a person for feedback; the second leaves at once. SIGTERM and SIGHUP are a
Ctrl-C without a question. When the output is closed the run goes on in its log. The log is redacted: an agent's text
waits until its line ends and no `<private>` part or key block is open in it.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from ralph import paths
from ralph.cli.output import visible
from ralph.errors import WriteFailed
from ralph.store import files

if TYPE_CHECKING:
    from ralph.app.loop_parts import LoopPrinter

_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_MOST = 200_000  # characters that wait at most
_BLOCKS = (("<private", "</private", ">"), ("-----begin", "-----end", "\n"))
"""How a private block begins and ends, and what closes its first line."""


@contextmanager
def handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let a function handle Ctrl-C, SIGTERM and SIGHUP for a while."""
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class LoopTerminal:
    """One run's terminal and log."""

    def __init__(
        self, root: Path, run: str, patterns: Sequence[str], *, quiet: bool = False
    ) -> None:
        self.root = root
        self.run = run
        self.quiet = quiet
        self._patterns = patterns
        self._interrupts = 0
        self._asked = False  # by a signal that asks no question
        self._pending = ""
        self._at_line_start = True

    def printer(self) -> LoopPrinter:
        """Return the functions that the loop takes."""
        from ralph.app.loop_parts import LoopPrinter

        return LoopPrinter(
            self.print_line, self.show, lambda: self._interrupts > 0, self.feedback, self.calm
        )

    def print_line(self, line: str) -> None:
        """Print one line of the loop itself."""
        lines = [f"ralph: {part}" for part in line.split("\n")]
        if not self.quiet:
            end = "" if self._at_line_start else "\n"
            self._print(
                end + "\n".join(click.style(visible(each), fg="cyan") for each in lines) + "\n",
                err=True,
            )
            self._at_line_start = True
        self._write(self._pending)
        self._write("\n".join(lines))
        self._pending = ""

    def show(self, text: str) -> None:
        """Print the agent's text as it comes."""
        if not text:
            return
        if not self.quiet:
            self._print(visible(text))
            self._at_line_start = text.endswith("\n")
        self._pending += text
        opening = self._open_block()
        if (text.endswith("\n") and not opening) or len(self._pending) > _MOST:
            self._write(self._pending)
            self._pending = opening  # what follows is still a part of it

    def _open_block(self) -> str:
        """The opening of a private block that is not closed yet; "" when all are."""
        low = self._pending.lower()
        for begin, end, close in _BLOCKS:
            at = low.rfind(begin)
            if at > low.rfind(end):
                return self._pending[at : at + 100].partition("\n")[0].partition(">")[0] + close
        return ""

    def _print(self, text: str, *, err: bool = False) -> None:
        try:
            click.echo(text, nl=False, err=err)
        except OSError:
            from ralph.cli.main import drop_output

            self.quiet = True
            with suppress(OSError):
                drop_output()

    def _write(self, text: str) -> None:
        if text:
            from ralph.capture.privacy import redact

            line = redact(text, self._patterns).text.removesuffix("\n") + "\n"
            with suppress(
                WriteFailed
            ):  # what a run does is in its journal, which would not do without the disk
                files.append(
                    paths.run_output(self.root, self.run),
                    line,
                    root=paths.state_boundary(self.root),
                )

    def calm(self) -> None:
        """Forget the interruption."""
        self._interrupts = 0
        self._asked = False

    def feedback(self) -> str:
        """Ask a person what the agent should know; "" when nobody is there or nothing is said."""
        if self.quiet or self._asked or sys.stdin is None or not sys.stdin.isatty():
            return ""
        question = (
            "What should the agent know? An empty line ends the run here (it can be resumed)."
        )
        self._print(f"\n{question}\nfeedback: ", err=True)
        with suppress(OSError):  # the terminal has gone
            return sys.stdin.readline().strip()
        return ""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM for the time of a run."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            self._interrupts += 1
            self._asked = self._asked or number != signal.SIGINT
            if self._interrupts > 1 and number == signal.SIGINT:
                raise KeyboardInterrupt

        with handling_signals(interrupt):
            yield
