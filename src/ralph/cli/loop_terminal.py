"""The terminal of a loop: its output and log, Ctrl-C, and feedback from a person.

The first Ctrl-C stops the agent and asks the person for feedback. The second exits immediately.
SIGTERM and SIGHUP act like a Ctrl-C without the question. If the output is closed, the run
continues and writes only its log.

The log is redacted, and a secret can be recognised only in complete text. Text from the agent is
therefore held back until its line is complete and no `<private>` part or key block is open. If an
agent prints too much, the middle of the log is cut out.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import click

from ralph.cli.invocation import can_ask
from ralph.cli.output import visible
from ralph.core import paths
from ralph.core.errors import Unreadable, WriteFailed
from ralph.storage import files

if TYPE_CHECKING:
    from ralph.loop.printer import LoopPrinter

_SIGNAL_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # the last one only on Windows
_SIGNALS = tuple(getattr(signal, name) for name in _SIGNAL_NAMES if hasattr(signal, name))
# A log that grows beyond the first size is cut to its beginning and its end, in bytes.
_MAX_LOG_SIZE = 8_000_000
_LOG_BEGINNING = 1_000_000
_LOG_END = 3_000_000
_MAX_PENDING = 200_000  # characters held back until a private block ends
_MAX_OPENING = 100  # characters in the opening delimiter of a private block


class _Block(NamedTuple):
    """The delimiters of a private block, in lower case.

    `close` ends the opening delimiter: `>` in `<private reason="...">`, and the end of the line in
    `-----BEGIN RSA PRIVATE KEY-----`.
    """

    begin: str
    end: str
    close: str


_PRIVATE_BLOCKS = (
    _Block("<private", "</private", ">"),
    _Block("-----begin", "-----end", "\n"),
)


@contextmanager
def handling_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `handler` handle Ctrl-C, Ctrl-Break, SIGTERM and SIGHUP inside the block."""
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class LoopTerminal:
    """The terminal and log of one run."""

    def __init__(
        self, root: Path, run: str, patterns: Sequence[str], *, quiet: bool = False
    ) -> None:
        self.root = root
        self.run = run
        self.quiet = quiet
        self._patterns = patterns
        self._interrupts = 0
        self._is_unattended = False  # interrupted by a signal, after which nobody is asked
        self._pending = ""  # text from the agent that is not in the log yet
        self._at_line_start = True

    def printer(self) -> LoopPrinter:
        """Return the functions through which the loop prints and asks."""
        from ralph.loop.printer import LoopPrinter

        return LoopPrinter(
            print_line=self.print_line,
            show=self.show,
            interrupted=lambda: self._interrupts > 0,
            feedback=self.ask_feedback,
            clear_interrupt=self.clear_interrupt,
        )

    # --- printing ---------------------------------------------------------------------------------

    def print_line(self, line: str) -> None:
        """Print a message from the loop itself, which may have several lines."""
        lines = [f"ralph: {part}" for part in line.split("\n")]
        if not self.quiet:
            text = "" if self._at_line_start else "\n"
            text += "\n".join(click.style(visible(part), fg="cyan") for part in lines)
            self._print(text + "\n", err=True)
            self._at_line_start = True
        self._write_log(self._pending)
        self._write_log("\n".join(lines))
        self._pending = ""

    def show(self, text: str) -> None:
        """Print text from the agent as it arrives."""
        if not text:
            return
        if not self.quiet:
            self._print(visible(text))
            self._at_line_start = text.endswith("\n")
        self._pending += text
        opening = self._open_block()
        is_complete = text.endswith("\n") and not opening
        if is_complete or len(self._pending) > _MAX_PENDING:
            self._write_log(self._pending)
            # If the block is still open, the text so far was written because it became too long.
            # The opening is repeated, so that the rest is redacted as part of the same block.
            self._pending = opening

    def _open_block(self) -> str:
        """Return the opening delimiter of a private block that has not ended, or ""."""
        text = self._pending.lower()
        for block in _PRIVATE_BLOCKS:
            start = text.rfind(block.begin)
            if start > text.rfind(block.end):  # the last block has begun and has not ended
                opening = self._pending[start : start + _MAX_OPENING]
                return opening.partition("\n")[0].partition(">")[0] + block.close
        return ""

    def _print(self, text: str, *, err: bool = False) -> None:
        try:
            click.echo(text, nl=False, err=err)
        except OSError:
            from ralph.cli.main import drop_output

            self.quiet = True
            with suppress(OSError):
                drop_output()

    def _write_log(self, text: str) -> None:
        if not text:
            return
        from ralph.privacy.privacy import redact

        line = redact(text, self._patterns).text.removesuffix("\n") + "\n"
        log = paths.run_output(self.root, self.run)
        # The journal also records the run, and reports such errors.
        with suppress(WriteFailed, Unreadable, OSError):
            files.append(log, line, root=paths.state_boundary(self.root))
            if log.stat().st_size > _MAX_LOG_SIZE:
                files.cut_middle(log, keep_first=_LOG_BEGINNING, keep_last=_LOG_END)

    # --- interrupts -------------------------------------------------------------------------------

    def clear_interrupt(self) -> None:
        """Forget past interrupts, because the run continues."""
        self._interrupts = 0
        self._is_unattended = False

    def ask_feedback(self) -> str:
        """Ask a person what the agent should know. Returns "" if nobody answers."""
        if self.quiet or self._is_unattended or not can_ask():
            return ""
        question = (
            "What should the agent know? An empty line ends the run here (you can resume it)."
        )
        self._print(f"\n{question}\nfeedback: ", err=True)
        with suppress(OSError):  # the terminal is gone
            return sys.stdin.readline().strip()
        return ""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle Ctrl-C, Ctrl-Break, SIGTERM and SIGHUP while a run is active."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            self._interrupts += 1
            if number != signal.SIGINT:
                self._is_unattended = True
            elif self._interrupts > 1:
                raise KeyboardInterrupt

        with handling_signals(interrupt):
            yield
