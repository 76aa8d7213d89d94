"""How a loop speaks and listens: lines on the terminal and in the run's log, Ctrl-C, and what a person says then.

The first Ctrl-C asks the agent to stop and a person for a word; the second leaves at once. SIGTERM is a Ctrl-C
without a question. The log holds what was printed, redacted: an agent's words are kept back until a line ends
and no `<private>` part or key block is open in them, so that nothing is written which would not be allowed to.
"""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from ralph import paths
from ralph.app.loop_parts import Teller
from ralph.capture.privacy import redact
from ralph.cli.output import visible
from ralph.store import files

_MOST = 200_000
"""Characters that are kept back at most."""
_OPEN = (("<private", "</private"), ("-----BEGIN", "-----END"))


class Voice:
    """One run's terminal and log."""

    def __init__(self, root: Path, run: str, patterns: Sequence[str], *, quiet: bool = False) -> None:
        self.root, self.run, self.quiet = root, run, quiet
        self._patterns = tuple(patterns)
        self._interrupts = 0
        self._kept = ""
        self._at_line_start = True

    def teller(self) -> Teller:
        """The same, as the loop wants it."""
        return Teller(self.tell, self.show, self.interrupted, self.feedback, self.calm)

    def tell(self, line: str) -> None:
        """One line of the loop's own."""
        self._write(self._kept)
        self._kept = ""
        lines = [f"ralph: {part}" for part in line.split("\n")]
        if not self.quiet:
            end = "" if self._at_line_start else "\n"
            click.echo(end + "\n".join(click.style(visible(each), fg="cyan") for each in lines), err=True)
            self._at_line_start = True
        self._write("\n".join(lines) + "\n")

    def show(self, text: str) -> None:
        """The agent's words, as they come."""
        if not text:
            return
        if not self.quiet:
            click.echo(visible(text), nl=False)
            self._at_line_start = text.endswith("\n")
        self._kept += text
        low = self._kept.lower()
        unfinished = any(low.rfind(begin.lower()) > low.rfind(end.lower()) for begin, end in _OPEN)
        if (self._kept.endswith("\n") and not unfinished) or len(self._kept) > _MOST:
            self._write(self._kept)
            self._kept = ""

    def _write(self, text: str) -> None:
        if text:
            clean = redact(text, self._patterns).text
            ended = clean if clean.endswith("\n") else clean + "\n"
            files.append(paths.run_output(self.root, self.run), ended, root=paths.state_root(self.root))

    def interrupted(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._interrupts > 0

    def calm(self) -> None:
        """Go on as if nothing had been."""
        self._interrupts = 0

    def feedback(self) -> str:
        """What a person wants the agent to know; "" when nobody is there or nothing is said."""
        if self.quiet or not sys.stdin.isatty():
            return ""
        click.echo("\nWhat should the agent know? An empty line ends the run here (it can be resumed).", err=True)
        try:
            return str(click.prompt("feedback", default="", show_default=False, err=True))
        except click.Abort:
            raise KeyboardInterrupt from None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM for the time of a run."""
        before = {number: signal.signal(number, self._signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self._interrupts += 1
        if self._interrupts > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt
