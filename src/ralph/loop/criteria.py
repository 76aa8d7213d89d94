"""Parse, check and report the criteria that must hold before work counts as done.

A criterion is a command with an expected exit code, such as `custom:./check.sh =3`, or a marker
that the agent puts on a line of its own, by default `[RALPH_SUCCESS]`. All criteria are checked
even after one has failed, so that the agent sees every problem in one iteration. A failing command
rarely prints the same bytes twice, because times, addresses and the order of tests vary, so these
parts are masked before outputs are compared.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import NotFound, UsageError
from ralph.core.record import CriterionKind
from ralph.core.text import scan_lines
from ralph.core.work import ProcessResult, never_stop

MARKER = "[RALPH_SUCCESS]"
TIMEOUT = 600.0  # seconds for a criterion without a timeout of its own
OUTPUT_LENGTH = 3_000  # characters of output in a report, or slightly more if it has long numbers
_MAX_OUTPUT_READ = 40_000  # characters at the end of each stream
_MAX_LINE_LENGTH = 500  # characters
_MAX_EXIT_CODE = 255
_NOT_STARTED_CODES = (126, 127)  # what shells, npm and env return for a program they cannot start
_SIGNATURE_DIGITS = 12
_MAX_GIST_LENGTH = 160  # characters
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


def check(
    criteria: Sequence[Criterion],
    *,
    folder: Path,
    run: Runner,
    text: str = "",
    echo: str = "",
    outputs: Sequence[str] = (),
    timeout: float = TIMEOUT,
    stopped: Callable[[], bool] = never_stop,
) -> CriteriaVerdict:
    """Check all criteria in a folder.

    `text` is the agent's answer. It might repeat `echo`, which is the prompt, or `outputs`, which
    is what its tools printed, so markers from there do not count. Raises NotFound if a criterion
    has no command.
    """
    answer = _Answer(text, echo, outputs)
    marked = _is_marked(criteria, answer)
    checks: list[CheckResult] = []
    for criterion in criteria:
        if criterion.kind is CriterionKind.MARKER:
            checks.append(_check_marker(criterion, answer))
            continue
        argv = criterion.argv or command_argv(criterion.command)
        if not argv:
            hint = f'name it: --criteria "{criterion.kind}:..."'
            raise NotFound(f"{criterion.kind}: no command is known for it", hint=hint)
        if stopped():
            return CriteriaVerdict(tuple(checks), marked, stopped=True)
        limit = criterion.timeout or timeout
        ran = run(argv, cwd=folder, timeout=limit, stopped=stopped)
        if ran.stopped:
            return CriteriaVerdict(tuple(checks), marked, stopped=True)
        checks.append(_judge_process(criterion, argv[0], ran, limit))
    return CriteriaVerdict(tuple(checks), marked)


class _Answer(NamedTuple):
    """The agent's text, and the prompt and tool outputs that it might repeat."""

    text: str
    echo: str
    outputs: Sequence[str]

    def has(self, marker: str) -> bool:
        return has_marker(self.text, marker, self.echo, self.outputs)


def _is_marked(criteria: Sequence[Criterion], answer: _Answer) -> bool:
    """Return whether the answer contains the marker of any criterion.

    If no criterion is a marker, the default marker is looked for.
    """
    markers = [criterion.marker for criterion in criteria if criterion.kind is CriterionKind.MARKER]
    if not markers:
        markers = [MARKER]
    return any(answer.has(marker) for marker in markers)


def _check_marker(criterion: Criterion, answer: _Answer) -> CheckResult:
    if answer.has(criterion.marker):
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


class _MarkerLine(NamedTuple):
    """A line that contains only the marker."""

    is_markdown: bool  # whether it is outside code blocks and comments, and so not an example
    line_before: str


def has_marker(
    text: str, marker: str = MARKER, echo: str = "", outputs: Sequence[str] = ()
) -> bool:
    """Return whether the marker is on a line of its own in the text.

    It does not count if the text merely repeats the prompt (`echo`), or if a tool's output
    (`outputs`) contains the marker.
    """
    for output in outputs:
        if any(True for _ in _marker_lines(output, marker)):
            return False
    repeated = {line.line_before for line in _marker_lines(echo, marker) if line.line_before}
    return any(
        line.is_markdown and line.line_before not in repeated
        for line in _marker_lines(text, marker)
    )


def _marker_lines(text: str, marker: str) -> Iterator[_MarkerLine]:
    if marker not in text:
        return
    line_before = ""
    for line in scan_lines(text):
        stripped = line.text.strip()
        if marker in (stripped, stripped.strip("*")):
            yield _MarkerLine(line.is_markdown, line_before)
        line_before = stripped or line_before


# --- parsing -------------------------------------------------------------------------------------

FORMS = (
    "test_pass, build_success, lint_clean, type_check "
    '(detected from the project; or "test_pass:COMMAND"), '
    '"custom:COMMAND", "custom:COMMAND =3" (expected exit code), marker, "marker:TEXT", '
    "or a command"
)
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
_KIND = re.compile(r"\s*([A-Za-z][A-Za-z_-]*)\s*:(?!//)\s*(.*)", re.DOTALL)
_CODE = re.compile(r"(.*\S)\s+=\s*(\d{1,4})", re.DOTALL)


def command_argv(command: str) -> tuple[str, ...]:
    """Split a command into its arguments, or wrap it in a shell if it needs one.

    Raises UsageError if the command contains an unclosed quote.
    """
    command = command.strip()
    if _needs_shell(command):
        return ("/bin/sh", "-c", command)
    try:
        return tuple(shlex.split(command))
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


def parse_criteria(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """Parse the values of `--criteria`, dropping duplicates.

    Raises UsageError if one of them is not a valid criterion.
    """
    return tuple(dict.fromkeys(_parse_criterion(text) for text in texts))


def _parse_criterion(text: str) -> Criterion:
    hint = f"valid criteria: {FORMS}"
    text = text.strip()
    if not text or "\x00" in text:
        raise UsageError("a criterion is empty", hint=hint)
    match = _KIND.fullmatch(text)
    if match is None:
        kind = _find_kind(text)
        if kind is None:
            return _parse_command(CriterionKind.CUSTOM, text)
        return Criterion(kind)
    word = match[1]
    value = match[2].strip()
    kind = _find_kind(word)
    if kind is None:
        raise UsageError(
            f"{word}: there is no such criterion",
            hint=f'{hint}; to run a command, put "custom:" before it',
        )
    if not value:
        raise UsageError(f"{text}: nothing follows the colon", hint=hint)
    if kind is CriterionKind.MARKER:
        return Criterion(kind, marker=value)
    return _parse_command(kind, value)


def _find_kind(word: str) -> CriterionKind | None:
    name = word.lower().replace("-", "_")
    if name not in set(CriterionKind):
        return None
    return CriterionKind(name)


def _parse_command(kind: CriterionKind, text: str) -> Criterion:
    command = text
    expected = 0
    match = _CODE.fullmatch(text)
    if match is not None:
        command = match[1]
        expected = int(match[2])
    if expected > _MAX_EXIT_CODE:
        raise UsageError(
            f"{text}: an exit code is at most {_MAX_EXIT_CODE}",
            hint=f"name one from 0 to {_MAX_EXIT_CODE}",
        )
    command_argv(command)  # raises if a quote is not closed
    return Criterion(kind, command, expected=expected)


def add_detected_commands(
    criteria: Sequence[Criterion], detected: Mapping[CriterionKind, Criterion]
) -> tuple[Criterion, ...]:
    """Return the criteria, with detected commands filled in where a command is missing.

    Raises UsageError if a custom criterion has no command, and NotFound if another criterion has
    none and none was detected.
    """
    complete = []
    for criterion in criteria:
        if _lacks_command(criterion):
            criterion = _with_detected_command(criterion, detected)
        complete.append(criterion)
    return tuple(complete)


def _lacks_command(criterion: Criterion) -> bool:
    if criterion.kind is CriterionKind.MARKER:
        return False
    return not criterion.command.strip() and not criterion.argv


def _with_detected_command(
    criterion: Criterion, detected: Mapping[CriterionKind, Criterion]
) -> Criterion:
    kind = criterion.kind
    if kind is CriterionKind.CUSTOM:
        raise UsageError(
            "custom: there is no command", hint='write it after the colon: "custom:./check.sh"'
        )
    if kind not in detected:
        hint = f'name it: --criteria "{kind}:COMMAND", or `command:` of that criterion in ralph.yml'
        raise NotFound(f"{kind}: no command for it was found in this project's files", hint=hint)
    found = detected[kind]
    return replace(criterion, argv=found.argv, why=found.why)


# --- comparing and shortening output -------------------------------------------------------------

_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_=>]")
_VARYING = (  # in this order, because later patterns match what earlier ones insert
    (re.compile(r"\s+"), " "),
    (
        re.compile(r"(?:/private)?/(?:var/folders|tmp|var/tmp|dev/shm|run/user)/[^\s:'\"`)\]>,]*"),
        "<tmp>",
    ),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"\b(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}\b"), "<hex>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
    (
        re.compile(r"# ?(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|days?)\b"),
        "#",
    ),
    (re.compile(r"#(?: ?#)+"), "#"),
    (re.compile(r"[-=_*.~]{3,}"), "---"),
)
_FAILURE_LINE = re.compile(
    r"(?i:\bfail)|\b\w*(?:Error|Exception)\b|\berror\b|\bpanicked\b|\bassert|\bnot found\b"
    r"|\bno such\b"
)
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def mask_line(line: str) -> str:
    """Return a line with the parts masked that vary from run to run."""
    line = _COLOURS.sub("", line)
    for pattern, replacement in _VARYING:
        line = pattern.sub(replacement, line)
    return line.strip()


def failure_signature(text: str) -> str:
    """Return a digest and a one-line gist of a failure, ignoring the numbers in it.

    Returns "" if the text is blank.
    """
    masked_lines = []
    for line in text.splitlines():
        masked = mask_line(line)
        if masked:
            masked_lines.append(masked)
    if not masked_lines:
        return ""
    unordered = "\n".join(sorted(set(masked_lines)))
    digest = hashlib.sha256(unordered.encode("utf-8", "surrogatepass")).hexdigest()
    # Take the smallest line rather than the first, because parallel tests end in any order.
    gist = min(filter(_FAILURE_LINE.search, masked_lines), default=masked_lines[0])
    return f"{digest[:_SIGNATURE_DIGITS]} {gist[:_MAX_GIST_LENGTH]}"


def output_tail(out: str, err: str) -> str:
    """Return the end of standard output followed by the end of standard error.

    The length is measured on masked lines, so that two runs are cut at the same line.
    """
    return "\n".join([*_last_lines(out), *_last_lines(err)])


def _last_lines(text: str) -> list[str]:
    """Return the last lines of a stream, as many as fit into half a report."""
    room = OUTPUT_LENGTH // 2
    newest_first = []
    for line in reversed(_clean_lines(text)):
        room -= len(mask_line(line)) + 1
        if room < 0:
            newest_first.append("...")
            break
        newest_first.append(line)
    return newest_first[::-1]


def _clean_lines(text: str) -> list[str]:
    """Return the last lines of the text as a terminal would show them, without colours."""
    end = _COLOURS.sub("", text[-_MAX_OUTPUT_READ:])
    lines = end.replace("\r\n", "\n").strip("\n").split("\n")
    if len(text) > _MAX_OUTPUT_READ and len(lines) > 1:
        del lines[0]  # it is probably incomplete
    cleaned = [_clean_line(line) for line in lines]
    if not any(cleaned):
        return []
    return cleaned


def _clean_line(line: str) -> str:
    overwritten = line.rstrip("\r").rpartition("\r")[2]  # what a progress bar showed last
    line = _CONTROL_CHARACTERS.sub("", overwritten).rstrip()
    if len(line) > _MAX_LINE_LENGTH:
        line = line[:_MAX_LINE_LENGTH] + " ..."
    return line
