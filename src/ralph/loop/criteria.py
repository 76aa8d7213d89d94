"""Criteria that must hold before work counts as done: how they are parsed, run and reported.

All criteria run, also after one has failed: the agent gets everything at once. Two runs of a failing command never
print the same bytes (times, addresses, order of tests), so output is compared with these masked.
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
TIMEOUT = 600.0  # seconds for a criterion without its own timeout
OUTPUT_LENGTH = 3_000  # characters of output in a report; a little more where numbers are long
_OUTPUT_READ = 40_000
_LONGEST_LINE = 500
Runner = Callable[..., ProcessResult]
"""Runs a program to its end, without a shell: argv, cwd, timeout (0 is none), stopped."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """A user's command, a detected one (`argv`), or a marker in the agent's text."""

    kind: CriterionKind
    command: str = ""
    argv: tuple[str, ...] = ()
    expected: int = 0
    marker: str = MARKER
    timeout: float = 0.0
    why: str = ""  # where the command was detected: `package.json:7: the script "test"`

    @property
    def label(self) -> str:
        """Its kind, and what is run or searched for."""
        what = (
            self.marker
            if self.kind is CriterionKind.MARKER
            else self.command or shlex.join(self.argv)
        )
        code = f" (exit code {self.expected})" if self.expected else ""
        return f"{self.kind}: {what}{code}" if what else self.kind.value


class CheckResult(NamedTuple):
    """The result of one criterion; `missing`: a program that is not there and no file of the project."""

    criterion: Criterion
    passed: bool
    message: str
    tail: str = ""
    missing: bool = False

    @property
    def report(self) -> str:
        """The result with its output, for the next prompt and the journal."""
        return f"{self.criterion.label}: {self.message}" + (
            f"\n{self.tail}" if self.tail and not self.passed else ""
        )


class CriteriaVerdict(NamedTuple):
    """The results of all criteria; without any, the verdict is passed."""

    checks: tuple[CheckResult, ...] = ()
    marked: bool = False  # whether the agent's text has the marker
    stopped: bool = False  # before all were run

    @property
    def passed(self) -> bool:
        """Whether all hold."""
        return not self.stopped and all(check.passed for check in self.checks)

    @property
    def failures(self) -> str:
        """A report of every criterion that does not hold; "" when all do."""
        parts = [check.report for check in self.checks if not check.passed]
        return "\n\n".join(
            [*parts, *(["stopped before all criteria were checked"] if self.stopped else [])]
        )


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
    """Run all criteria; `text` is the agent's, `echo` and `outputs` are what it might repeat."""
    markers = [
        criterion.marker for criterion in criteria if criterion.kind is CriterionKind.MARKER
    ] or [MARKER]
    marked = any(has_marker(text, marker, echo, outputs) for marker in markers)
    checks: list[CheckResult] = []
    for criterion in criteria:
        if criterion.kind is CriterionKind.MARKER:
            passed = has_marker(text, criterion.marker, echo, outputs)
            message = "is there" if passed else "is not alone on a line of the agent's answer"
            checks.append(CheckResult(criterion, passed, message))
            continue
        argv = criterion.argv or command_argv(criterion.command)
        if not argv:
            hint = f'name it: --criteria "{criterion.kind}:..."'
            raise NotFound(f"{criterion.kind}: no command is known for it", hint=hint)
        limit = criterion.timeout or timeout
        ran = None if stopped() else run(argv, cwd=folder, timeout=limit, stopped=stopped)
        if ran is None or ran.stopped:
            return CriteriaVerdict(tuple(checks), marked, stopped=True)
        passed = not ran.timed_out and ran.code == criterion.expected
        not_found = not passed and (
            ran.missing or ran.code in (126, 127)
        )  # the codes of shells, npm and env
        if ran.timed_out:
            message = f"took longer than {limit:g} s and was stopped"
        elif not_found:
            program = argv[0] if ran.missing else "a program that it needs"
            advice = f"install it, or name another command for {criterion.kind}"
            message = f"{program} is missing or cannot be started; {advice}"
        else:
            message = (
                "passed" if passed else f"ended with {ran.code} instead of {criterion.expected}"
            )
        missing = not_found and "/" not in argv[0]
        checks.append(
            CheckResult(criterion, passed, message, output_tail(ran.out, ran.err), missing)
        )
    return CriteriaVerdict(tuple(checks), marked)


def has_marker(
    text: str, marker: str = MARKER, echo: str = "", outputs: Sequence[str] = ()
) -> bool:
    """Whether the marker is alone on a line, and repeats neither the prompt (`echo`) nor a tool (`outputs`)."""
    if any(True for output in outputs for _ in _marker_lines(output, marker)):
        return False
    repeated = {before for _, before in _marker_lines(echo, marker) if before}
    return any(
        is_markdown and before not in repeated
        for is_markdown, before in _marker_lines(text, marker)
    )


def _marker_lines(text: str, marker: str) -> Iterator[tuple[bool, str]]:
    """Yield for each line with the marker whether it is no example, and the line before it."""
    before = ""
    for line in scan_lines(text) if marker in text else ():
        words = line.text.strip()
        if marker in (words, words.strip("*")):
            yield line.is_markdown, before
        before = words or before


FORMS = (
    'test_pass, build_success, lint_clean, type_check (found from the project; or "test_pass:COMMAND"), '
    '"custom:COMMAND", "custom:COMMAND =3" (expected exit code), marker, "marker:TEXT", or a command'
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
    """Split a command without a shell, unless it needs one."""
    command = command.strip()
    first = command.split(maxsplit=1)[0] if command else ""
    if _SHELL_CHARACTERS.search(command) or first in _SHELL_WORDS or _ASSIGNMENT.match(first):
        return ("/bin/sh", "-c", command)
    try:
        return tuple(shlex.split(command))
    except ValueError:
        raise UsageError(
            f"{command}: a quote is not closed", hint="close it, or write it twice"
        ) from None


def parse_criteria(texts: Sequence[str]) -> tuple[Criterion, ...]:
    """Parse the values of `--criteria`, each once."""
    return tuple(dict.fromkeys(map(_parse_criterion, texts)))


def _parse_criterion(text: str) -> Criterion:
    hint = f"valid are: {FORMS}"
    text = text.strip()
    if not text or "\x00" in text:
        raise UsageError("an empty criterion", hint=hint)
    match = _KIND.fullmatch(text)
    word, rest = (match[1], match[2].strip()) if match else (text, "")
    name = word.lower().replace("-", "_")
    if name not in set(CriterionKind):
        if match is None:
            return _parse_command(CriterionKind.CUSTOM, text)
        raise UsageError(
            f"{word}: there is no such criterion",
            hint=f"{hint}; a command may need custom: before it",
        )
    kind = CriterionKind(name)
    if match is None:
        return Criterion(kind)
    if not rest:
        raise UsageError(f"{text}: nothing follows the colon", hint=hint)
    return (
        Criterion(kind, marker=rest) if kind is CriterionKind.MARKER else _parse_command(kind, rest)
    )


def _parse_command(kind: CriterionKind, text: str) -> Criterion:
    match = _CODE.fullmatch(text)
    command, code = match.groups() if match is not None else (text, "0")
    if int(code) > 255:
        raise UsageError(f"{text}: an exit code is at most 255", hint="name one from 0 to 255")
    command_argv(command)  # raises when a quote is not closed
    return Criterion(kind, command, expected=int(code))


def add_detected_commands(
    criteria: Sequence[Criterion], detected: Mapping[CriterionKind, Criterion]
) -> tuple[Criterion, ...]:
    """Return the criteria with detected commands; one without any command is an error."""
    complete = []
    for criterion in criteria:
        kind = criterion.kind
        if (
            kind is not CriterionKind.MARKER
            and not criterion.command.strip()
            and not criterion.argv
        ):
            if kind is CriterionKind.CUSTOM:
                raise UsageError(
                    "custom: no command", hint='write it behind a colon: "custom:./check.sh"'
                )
            if kind not in detected:
                hint = f'name it: --criteria "{kind}:COMMAND", or `command:` of that criterion in ralph.yml'
                raise NotFound(
                    f"{kind}: no command for it was found in this project's files", hint=hint
                )
            criterion = replace(criterion, argv=detected[kind].argv, why=detected[kind].why)
        complete.append(criterion)
    return tuple(complete)


_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_=>]")
_VARYING = (
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
    r"(?i:\bfail)|\b\w*(?:Error|Exception)\b|\berror\b|\bpanicked\b|\bassert|\bnot found\b|\bno such\b"
)


def mask_line(line: str) -> str:
    """Mask in a line what differs from run to run."""
    line = _COLOURS.sub("", line)
    for pattern, replacement in _VARYING:
        line = pattern.sub(replacement, line)
    return line.strip()


def failure_signature(text: str) -> str:
    """Return a short name of a failure, the same whatever the numbers in it."""
    if not (masked := [line for line in map(mask_line, text.splitlines()) if line]):
        return ""
    digest = hashlib.sha256(
        "\n".join(sorted(set(masked))).encode("utf-8", "surrogatepass")
    ).hexdigest()
    gist = min(
        filter(_FAILURE_LINE.search, masked), default=masked[0]
    )  # not the first: parallel tests have no order
    return f"{digest[:12]} {gist[:160]}"


def output_tail(out: str, err: str) -> str:
    """Return the end of both streams; masked lines count, so that cuts are stable."""
    lines: list[str] = []
    for text in (out, err):
        room = OUTPUT_LENGTH // 2
        end = []
        for line in reversed(_clean_lines(text)):
            room -= len(mask_line(line)) + 1
            if room < 0:
                end.append("...")
                break
            end.append(line)
        lines += reversed(end)
    return "\n".join(lines)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _clean_lines(text: str) -> list[str]:
    cleaned = []
    raw_lines = _COLOURS.sub("", text[-_OUTPUT_READ:]).replace("\r\n", "\n").strip("\n").split("\n")
    for line in raw_lines if len(text) <= _OUTPUT_READ else raw_lines[1:] or raw_lines:
        line = _CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip()
        cleaned.append(line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " ...")
    return cleaned if any(cleaned) else []
