"""Classify a tool call as a success, an error or neither, by its command, exit code and output.

Hosts do not always report an exit code, and the code of a command line is not always that of the
check in it (`pytest | tail`). The output then decides: a line such as `3 failed` or
`src/app.go:10:2: undefined` reports a failure. Output that only displays existing text, such as a
log, does not count. `error_lines` finds the line that names the error.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ralph.capture.command_lines import find_programs
from ralph.capture.commands import NO_CHECK, CommandCheck, find_check
from ralph.capture.events import WRITERS, Action, Event
from ralph.core.record import ObservationKind

_SEARCHED_END = 40_000  # characters to search at each end of an output
_FAILURE_LINE = r"""(?x)
    # Counts and single tests: `1 error generated`, `FAILED tests/test_a.py::test_b`, `not ok 3`.
    [ ]*[1-9]\d{0,6}[ ]errors?(?:,|$|[ ]generated)|\#[ ]fail[ ][1-9]
    |(?:FAILED|FAIL|ERRORS!|FAILURES!)(?:[ ]\(|\b[:!]|[ \t]+\S|$)|ERROR[ ]\S+(?:::|\.py)
    |[ ]*---[ ]FAIL:|[ ]*✖[ ]|not[ ]ok[ ]\d
    # Compilers and linters: `error[E0382]: `, `a.c:3:1: error`, `a.py:3:1: F401`.
    |[ ]*error(?:\[E\d{4}\])?:[ ]
    |[^\s:][^\n:]{0,300}:\d{1,7}:(?:\d{1,7}:)?[ ](?:fatal[ ])?error\b
    |[^\s:]{1,300}:\d{1,7}:\d{1,7}:[ ][A-Z]{1,4}\d{1,4}\b
    |(?:\./)?[^\s:]{1,300}\.go:\d{1,7}:\d{1,7}:[ ]
    # Package managers and build tools: `npm ERR!`, `make: *** [all] Error 2`, `CMake Error`.
    |npm[ ](?:ERR!|error\b)|error[ ]Command[ ]failed|[ ]?(?:ERR_PNPM|ELIFECYCLE)
    |g?make(?:\[\d+\])?:[ ]\*\*\*|ninja:[ ]build[ ]stopped|CMake[ ]Error|\#\#\[error\]
    # Crashes, and programs that are not installed.
    |Traceback[ ]\(most[ ]recent[ ]call[ ]last\)
    |(?:Uncaught[ ])?(?:Syntax|Reference|ModuleNotFound|Import)Error:[ ]
    |[^\n]{0,300}:[ ](?:command[ ])?not[ ]found$
"""
"""How a line begins that a test run, a build, a linter or a type checker prints if it fails."""
_FAILURE_PART = r"""(?x)
    # Counts: `3 failed`, `2 test suites failing`, `Failures: 1`, `= 4 errors in 2s`, `(1 error)`.
    \b[1-9]\d{0,6}[ ](?:(?:tests?|specs?|suites?|test[ ]suites?)[ ])?
      (?:failed|failures?|failing|fails|errored)\b
    |\b(?:[Ff]ailures|[Ee]rrors|[Ff]ailed):?[ =]{1,8}[1-9]
    |=[ ][^=\n]{0,80}\b[1-9]\d{0,6}[ ]errors?\b
    |\bFound[ ][1-9]\d{0,6}[ ]errors?\b(?![ ]\(\d+[ ]fixed,[ ]0[ ]remaining)
    |\([1-9]\d{0,6}[ ]errors?[,)]
    |\b(?:test[ ]result:[ ]FAILED|Failed!|The[ ]following[ ]tests[ ]FAILED|FAILED[ ]\|
      # Compilers, package managers and build tools: `error TS2304`, `Missing script:`.
      |error[ ]?(?:TS|CS|FS|BC|MSB|NU|LNK|C)\d{2,6}\b|Missing[ ]script:
      |exited[ ]with[ ]code[ ][1-9]|did[ ]NOT[ ]complete[ ]successfully
      |BUILD[ ]FAIL(?:ED|URE)\b|Build[ ]FAILED\b|FAILED[ ]TO[ ]BUILD\b
      # Formatters that only check: `would reformat a.py`, `Code style issues found`.
      |would[ ]reformat\b|Code[ ]style[ ]issues\b)
    |\*\*[ ](?:BUILD|TEST)[ ]FAILED
"""
"""What such a line contains anywhere. One pattern for both would take twice as long."""
_PLAIN_FAILURE = r"""(?mx)
    ^npm[ ](?:ERR!|error[ ]code)|^[^\n]{0,300}:[ ](?:command[ ])?not[ ]found$|^fatal:[ ]
    |^error:[ ](?:failed|could[ ]not|cannot|unable)\b|^ERROR:[ ](?:Could[ ]not|Failed|No[ ]matching)
    |^Traceback[ ]\(most[ ]recent[ ]call[ ]last\):
"""
"""What any other command prints only if it fails."""
_FAILURE_SIGNS = (
    "fail",
    "err",
    "✖",
    "not ok",
    "***",
    "build stopped",
    "elifecycle",
    "missing script",
    "exited with code",
    "did not complete",
    "would reformat",
    "code style",
    "traceback",
    "not found",
    "fatal:",
    ".go:",
)
"""A line that one of the patterns matches contains one of these in lowercase, or a place."""
_PLACE = r":\d{1,7}:\d{1,7}:[ ][A-Z]"  # of a linter's report
_VIEWERS = frozenset(
    {
        "cat",
        "bat",
        "less",
        "more",
        "head",
        "tail",
        "grep",
        "rg",
        "ag",
        "sed",
        "awk",
        "jq",
        "yq",
        "echo",
        "printf",
        "ls",
        "find",
        "fd",
        "tree",
        "diff",
        "git",
        "gh",
        "journalctl",
        "docker",
        "kubectl",
        "wc",
        "sort",
        "uniq",
        "cut",
        "strings",
        "xxd",
        "curl",
        "wget",
        "history",
        "man",
    }
)


def reports_failure(output: str, *, check: bool = True) -> bool:
    """Return whether an output reports a failure.

    `check` says that the output comes from a check, such as a test run.
    """
    text = output
    if len(output) > 2 * _SEARCHED_END:
        text = f"{output[:_SEARCHED_END]}\n{output[-_SEARCHED_END:]}"
    lines = _lines_with_signs(text)
    if not check:
        return bool(lines) and re.search(_PLAIN_FAILURE, "\n".join(lines)) is not None
    if any(map(re.compile(_FAILURE_LINE).match, lines)):
        return True
    return bool(lines) and re.search(_FAILURE_PART, "\n".join(lines)) is not None


def _lines_with_signs(text: str) -> list[str]:
    """Return the lines that may report a failure. The patterns take long on ordinary output."""
    if re.search(_PLACE, text):
        return text.split("\n")
    lowered = text.lower()
    signs = [sign for sign in _FAILURE_SIGNS if sign in lowered]
    if not signs:
        return []
    found = []
    for line, lowered_line in zip(text.split("\n"), lowered.split("\n"), strict=True):
        for sign in signs:
            if sign in lowered_line:
                found.append(line)
                break
    return found


class Verdict(NamedTuple):
    """An event's kind, and what it checked."""

    kind: ObservationKind
    check: CommandCheck | None = None


def classify(event: Event) -> Verdict:
    """Classify an event by its command, exit code and output."""
    if event.kind in WRITERS:
        return Verdict(ObservationKind.NOTE)
    command = ""
    if event.action is Action.SHELL:
        command = event.text_parameter("command")
    found = find_check(command) if command else NO_CHECK
    check = found.kind
    output = event.error or event.response
    if event.failed or event.exit_code:
        return Verdict(ObservationKind.ERROR, check)
    if not command or _runs_in_background(event):
        return Verdict(ObservationKind.TOOL_USE)
    # The exit code is conclusive only if it is the check's own.
    is_conclusive = event.exit_code == 0 and (check is None or found.decides_exit_code)
    can_tell = not is_conclusive and not _is_viewer(command, check)
    if can_tell and reports_failure(output, check=check is not None):
        return Verdict(ObservationKind.ERROR, check)
    if check is None:
        return Verdict(ObservationKind.TOOL_USE)
    return Verdict(ObservationKind.SUCCESS, check)


def _runs_in_background(event: Event) -> bool:
    flags = ("run_in_background", "is_background")
    return any(event.parameters.get(flag) is True for flag in flags)


def _is_viewer(command: str, check: CommandCheck | None) -> bool:
    """Return whether a command only displays existing text, which may mention old failures."""
    return check is None and any(program[0] in _VIEWERS for program in find_programs(command))
