"""How a loop speaks and listens: lines on the terminal and in the run's log, Ctrl-C, and what a person says then.

The first Ctrl-C asks the agent to stop and a person for a word; the second leaves at once. SIGTERM and the end of the
terminal (SIGHUP) are a Ctrl-C without a question. Where nobody reads any more (a closed pipe or terminal) the run goes
on in its log. The log holds what was printed, redacted: an agent's words are kept back until a line ends
and no `<private>` part or key block is open in them, so that nothing is written which would not be allowed to.
"""

import signal
import sys
from collections.abc import Iterator, Sequence
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

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_MOST = 200_000
"""Characters that are kept back at most."""
_OPEN = (("<private", "</private"), ("-----begin", "-----end"))
_CLOSED = {"<private": ">", "-----begin": "\n"}
_SIGN = 100


class LoopTerminal:
    """One run's terminal and log."""

    def __init__(self, root: Path, run: str, patterns: Sequence[str], *, quiet: bool = False) -> None:
        self.root, self.run, self.quiet = root, run, quiet
        self._patterns = tuple(patterns)
        self._interrupts = 0
        self._asked = False  # by a signal that asks no question
        self._kept = ""
        self._at_line_start = True

    def printer(self) -> "LoopPrinter":
        """Return the same as the loop takes it."""
        from ralph.app.loop_parts import LoopPrinter

        return LoopPrinter(self.tell, self.show, self.interrupted, self.feedback, self.calm)

    def tell(self, line: str) -> None:
        """One line of the loop's own."""
        self._write(self._kept)
        self._kept = ""
        lines = [f"ralph: {part}" for part in line.split("\n")]
        if not self.quiet:
            end = "" if self._at_line_start else "\n"
            self._print(end + "\n".join(click.style(visible(each), fg="cyan") for each in lines) + "\n", err=True)
            self._at_line_start = True
        self._write("\n".join(lines) + "\n")

    def show(self, text: str) -> None:
        """The agent's words, as they come."""
        if not text:
            return
        if not self.quiet:
            self._print(visible(text))
            self._at_line_start = text.endswith("\n")
        self._kept += text
        opened = self._opened()
        if self._kept.endswith("\n") and not opened:
            self._write(self._kept)
            self._kept = ""
        elif len(self._kept) > _MOST:
            self._write(self._kept)
            self._kept = opened  # what follows is still a part of it

    def _opened(self) -> str:
        """The line that opened something which is not closed yet in what is kept back; "" when all is closed."""
        low = self._kept.lower()
        for begin, end in _OPEN:
            at = low.rfind(begin)
            if at > low.rfind(end):
                return self._kept[at : at + _SIGN].partition("\n")[0].partition(">")[0] + _CLOSED[begin]
        return ""

    def _print(self, text: str, *, err: bool = False) -> None:
        """Show something, as long as somebody reads."""
        try:
            click.echo(text, nl=False, err=err)
        except OSError:
            from ralph.cli.main import _drop_output

            self.quiet = True
            with suppress(OSError):
                _drop_output()

    def _write(self, text: str) -> None:
        if text:
            from ralph.capture.privacy import redact

            clean = redact(text, self._patterns).text
            ended = clean if clean.endswith("\n") else clean + "\n"
            with suppress(WriteFailed):  # what a run does is in its journal, which would not do without the disk
                files.append(paths.run_output(self.root, self.run), ended, root=paths.state_boundary(self.root))

    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._interrupts > 0

    def calm(self) -> None:
        """Go on as if nothing had been."""
        self._interrupts, self._asked = 0, False

    def feedback(self) -> str:
        """What a person wants the agent to know; "" when nobody is there or nothing is said."""
        if self.quiet or self._asked or sys.stdin is None or not sys.stdin.isatty():
            return ""
        self._print(
            "\nWhat should the agent know? An empty line ends the run here (it can be resumed).\nfeedback: ", err=True
        )
        try:
            return sys.stdin.readline().strip()
        except OSError:  # the terminal has gone
            return ""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM for the time of a run."""
        before = {number: signal.signal(number, self._signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        self._asked = self._asked or number != signal.SIGINT
        if self._interrupts > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt
