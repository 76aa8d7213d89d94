"""Check the criteria that must hold before work counts as done.

A criterion is a command with an expected exit code, or a marker that the agent puts on a line of
its own, by default `[RALPH_SUCCESS]`. All criteria are checked even after one has failed, so that
the agent sees every problem in one iteration. `criteria_parser.py` parses the criteria that a user
writes, and `check_output.py` prepares the output of commands for reports.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ralph.core import process
from ralph.core.errors import NotFound, UsageError
from ralph.core.record import CriterionKind
from ralph.core.text import scan_lines
from ralph.core.work import ProcessResult, never_stop
from ralph.loop.check_output import output_tail

MARKER = "[RALPH_SUCCESS]"
_NOT_STARTED_CODES = (126, 127)  # returned by shells, npm and env if a program cannot be started

# A command with one of these characters, or whose first word is one of these words, needs a shell.
_SHELL_CHARACTERS = re.compile(r"[|&;<>()$`\\*?\[\]{}~#!\n]")
_SHELL_WORDS = frozenset(
    {
        "cd",
        "exit",
        "if",
        "for",
        "while",
        "until",
        "case",
        "set",
        "export",
        "unset",
        "eval",
        "exec",
        "source",
        ".",
        ":",
        "command",
        "type",
        "trap",
        "umask",
        "ulimit",
    }
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")

Runner = Callable[..., ProcessResult]
"""Runs a program without a shell and waits for it: argv, cwd, timeout (0 for none), stopped."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """One criterion: a user's `command`, a detected command (`argv`), or a marker."""

    kind: CriterionKind
    command: str = ""
    argv: tuple[str, ...] = ()
    expected: int = 0
    marker: str = MARKER
    timeout: float = 0.0  # seconds; 0 means the default
    why: str = ""  # where the command was detected, as in `package.json:7: the script "test"`

    @property
    def label(self) -> str:
        """The kind, followed by the command or marker."""
        if self.kind is CriterionKind.MARKER:
            what = self.marker
        else:
            what = self.command or shlex.join(self.argv)
        if not what:
            return self.kind.value
        if self.expected:
            what = f"{what} (exit code {self.expected})"
        return f"{self.kind}: {what}"


class CheckResult(NamedTuple):
    """The result of one criterion.

    `missing` means that a program was not found, and that its name is not a path in the project.
    """

    criterion: Criterion
    passed: bool
    message: str
    tail: str = ""
    missing: bool = False

    @property
    def report(self) -> str:
        """The result, with its output if it failed, for the next prompt and the journal."""
        report = f"{self.criterion.label}: {self.message}"
        if self.tail and not self.passed:
            report += f"\n{self.tail}"
        return report


class CriteriaVerdict(NamedTuple):
    """The results of all criteria. If there are no criteria, the verdict is a pass."""

    checks: tuple[CheckResult, ...] = ()
    marked: bool = False  # whether the agent's text contains the marker
    stopped: bool = False  # whether a person stopped the check before it was complete
    seconds: float = 0.0  # how long the check took

    @property
    def passed(self) -> bool:
        """Whether all criteria hold."""
        return not self.stopped and all(check.passed for check in self.checks)

    @property
    def failures(self) -> str:
        """A report on every criterion that does not hold, or "" if all of them do."""
        reports = [check.report for check in self.checks if not check.passed]
        if self.stopped:
            reports.append("stopped before all criteria were checked")
        return "\n\n".join(reports)


# --- checking ------------------------------------------------------------------------------------


def _no_limit() -> float:
    return 0.0


def shorter_timeout(first: float, second: float) -> float:
    """Return the shorter of two timeouts, where 0 means no limit."""
    if not first or not second:
        return first or second
    return min(first, second)


def check_criteria(
    criteria: Sequence[Criterion],
    *,
    folder: Path,
    run: Runner,
    timeout: float,
    text: str = "",
    echo: str = "",
    outputs: Sequence[str] = (),
    stopped: Callable[[], bool] = never_stop,
    seconds_left: Callable[[], float] = _no_limit,
) -> CriteriaVerdict:
    """Check all criteria in a folder.

    Markers are looked for in `text`, the agent's answer; see `has_marker` for `echo` and `outputs`.
    `timeout` is in seconds and applies to criteria that do not set their own. No command runs
    longer than `seconds_left` returns when it starts; 0 means no limit.
    Raises NotFound if a criterion has no command.
    """
    answer = _Answer(text, echo, outputs)
    marked = _is_marked(criteria, answer)
    results: list[CheckResult] = []
    for criterion in criteria:
        if criterion.kind is CriterionKind.MARKER:
            results.append(_check_marker(criterion, answer))
            continue
        argv = criterion.argv or command_argv(criterion.command)
        if not argv:
            hint = f'name it: --criteria "{criterion.kind}:..."'
            raise NotFound(f"{criterion.kind}: no command is known for it", hint=hint)
        if stopped():
            return CriteriaVerdict(tuple(results), marked, stopped=True)
        limit = shorter_timeout(criterion.timeout or timeout, seconds_left())
        ran = run(argv, cwd=folder, timeout=limit, stopped=stopped)
        if ran.stopped:
            return CriteriaVerdict(tuple(results), marked, stopped=True)
        results.append(_judge_process(criterion, argv[0], ran, limit))
    return CriteriaVerdict(tuple(results), marked)


class _Answer(NamedTuple):
    """The agent's text, and the prompt and tool outputs that it might repeat."""

    text: str
    echo: str
    outputs: Sequence[str]

    def has_marker(self, marker: str) -> bool:
        return has_marker(self.text, marker, self.echo, self.outputs)


def _is_marked(criteria: Sequence[Criterion], answer: _Answer) -> bool:
    """Return whether the answer contains the marker of any criterion.

    If no criterion is a marker, the default marker is looked for.
    """
    markers = [criterion.marker for criterion in criteria if criterion.kind is CriterionKind.MARKER]
    if not markers:
        markers = [MARKER]
    return any(answer.has_marker(marker) for marker in markers)


def _check_marker(criterion: Criterion, answer: _Answer) -> CheckResult:
    if answer.has_marker(criterion.marker):
        return CheckResult(criterion, passed=True, message="found")
    message = "is not alone on a line of the agent's answer"
    return CheckResult(criterion, passed=False, message=message)


def _judge_process(
    criterion: Criterion, program: str, ran: ProcessResult, limit: float
) -> CheckResult:
    """Return the result of a criterion whose command has ended or timed out."""
    passed = not ran.timed_out and ran.code == criterion.expected
    not_started = not passed and (ran.missing or ran.code in _NOT_STARTED_CODES)
    if ran.timed_out:
        message = f"took longer than {limit:g} s and was stopped"
    elif not_started:
        missing_program = program if ran.missing else "a program that it needs"
        advice = f"install it, or name another command for {criterion.kind}"
        message = f"{missing_program} is missing or cannot be started; {advice}"
    elif passed:
        message = "passed"
    else:
        message = f"ended with {ran.code} instead of {criterion.expected}"
    tail = output_tail(ran.out, ran.err)
    missing = not_started and "/" not in program
    return CheckResult(criterion, passed, message, tail, missing)


def command_argv(command: str) -> tuple[str, ...]:
    """Split a command into its arguments, or wrap it in a shell if it needs one.

    Raises UsageError if the command contains an unclosed quote.
    """
    command = command.strip()
    if _needs_shell(command):
        return process.shell_words(command)
    try:
        return tuple(process.split_words(command))
    except ValueError:
        raise UsageError(
            f"{command}: a quote is not closed", hint="close the quote, or escape it"
        ) from None


def _needs_shell(command: str) -> bool:
    if not command:
        return False
    first_word = command.split(maxsplit=1)[0]
    return (
        _SHELL_CHARACTERS.search(command) is not None
        or first_word in _SHELL_WORDS
        or _ASSIGNMENT.match(first_word) is not None
    )


# --- markers -------------------------------------------------------------------------------------


class _MarkerLine(NamedTuple):
    """A line that contains only the marker."""

    is_markdown: bool  # whether it is outside code blocks and comments, and so not an example
    line_before: str  # the last line before it that is not blank


def has_marker(
    text: str, marker: str = MARKER, echo: str = "", outputs: Sequence[str] = ()
) -> bool:
    """Return whether the marker is on a line of its own in the text.

    Agents quote text that they have read, and a quoted marker is not a claim:

    - If one of `outputs`, the results of the agent's tools, contains the marker, no marker counts.
    - The prompt (`echo`) explains the marker. A marker in the text does not count if the line
      before it is the same as in the prompt.
    - A marker in a code block or a comment is an example.
    """
    for output in outputs:
        if _find_marker_lines(output, marker):
            return False
    quoted = {line.line_before for line in _find_marker_lines(echo, marker) if line.line_before}
    for line in _find_marker_lines(text, marker):
        if line.is_markdown and line.line_before not in quoted:
            return True
    return False


def _find_marker_lines(text: str, marker: str) -> list[_MarkerLine]:
    if marker not in text:
        return []
    found = []
    line_before = ""
    for line in scan_lines(text):
        stripped = line.text.strip()
        if marker in (stripped, stripped.strip("*")):
            found.append(_MarkerLine(line.is_markdown, line_before))
        line_before = stripped or line_before
    return found
