"""Find the line of an output that names the error: the exception, the assertion, the diagnostic.

Each test runner and each compiler says it in its own form, so there is a rule for each form. The
first rule that finds something decides:

    E   ImportError: cannot import name 'notset'      ->  ImportError: cannot import name 'notset'
    ERROR tests/test_cli.py

    > shop@1.0.0 test                                 ->  a.ts(1,7): error TS2322: Type 'string' ...
    > tsc --noEmit
    a.ts(1,7): error TS2322: Type 'string' ...

Lines that only report that something failed, such as `make: *** [test] Error 1` or `1 failed`, name
nothing, and neither do banners. If there is nothing else, the result is "". Hooks load this module.
"""

from __future__ import annotations

import re

from ralph.capture.uninformative_lines import names_nothing
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Lines = Sequence[str]

_SEARCHED_END = 20_000  # characters to search at each end of an output
_MAX_LINE_CHARACTERS = 1_000  # characters of a line that are read
_MAX_DETAIL_LINES = 8  # lines after an error in which its details are looked for

_ANNOUNCEMENT = re.compile(r":$|(?:^|\s)\w*(?:Error|Exception)(?:: [A-Z]\d+)?$")
"""A line that only announces an error: `Could not resolve:`, `Error: P1010`, `FAILED x  Error`."""
_FRAME = re.compile(r"^[│╷╵] ?")  # around the messages of Terraform
_FRAME_STARTS = ("│", "╷", "╵")
_BANNER_LINE = re.compile(r"[>$] \S")
_TERMINAL_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def name_error(output: str) -> str:
    """Return the line that names the error in an output, or "" if no line does."""
    if len(output) > 2 * _SEARCHED_END:
        output = f"{output[:_SEARCHED_END]}\n{output[-_SEARCHED_END:]}"
    lines = []
    for line in _TERMINAL_CODE.sub("", output).splitlines():
        start = line[:_MAX_LINE_CHARACTERS]
        if start.startswith(_FRAME_STARTS):
            start = _FRAME.sub("", start)
        lines.append(start.rstrip())
    for rule in _RULES:
        found = " ".join(rule(lines).split())
        if found:
            return found
    return ""


def without_banner(lines: Lines) -> Lines:
    """Return the lines of an output without the banner of npm or a similar runner above them.

    A banner repeats the command: a blank line, `> shop@1.0.0 test`, `> node test.js`.
    """
    for number, line in enumerate(lines):
        if line.strip() and not _BANNER_LINE.match(line):
            return lines[number:]
    return []


def _first(lines: Lines, pattern: re.Pattern[str]) -> int | None:
    """Return the number of the first line that a pattern matches."""
    for number, match in enumerate(map(pattern.match, lines)):
        if match:
            return number
    return None


def _next_text(lines: Lines, number: int) -> str:
    """Return the first line from `number` on that is not blank, or ""."""
    for line in lines[number:]:
        if line.strip():
            return line.strip()
    return ""


def _with_next_line(lines: Lines, number: int) -> str:
    """Return a line. If it only announces the error, the next lines are added."""
    line = lines[number].strip().removesuffix(" |-")  # YAML, as in TAP
    for following in lines[number + 1 : number + 1 + _MAX_DETAIL_LINES]:
        if not _ANNOUNCEMENT.search(line):
            break
        if following.strip():
            line = f"{line.rstrip(':')}: {following.strip()}"
    return line


# --- Python -------------------------------------------------------------------------------------

# In front of each line of an error. A line of progress such as `E    [100%]` has none.
_PYTEST_MARK = re.compile(r"E {2,}(?=\S)(?!\[ *\d+%\]$)|E$")
_PYTEST_SUMMARY = re.compile(r"(?:FAILED|ERROR) \S+(?: .*)? - (?P<reason>.+)")
_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = (
    "The above exception was the direct cause of the following exception",
    "During handling of the above exception, another exception occurred",
)


def _pytest_error(lines: Lines) -> str:
    """Return the exception of the first failure. Of chained exceptions, the last one counts."""
    found = ""
    is_chained = True
    was_marked = False
    for number, line in enumerate(lines):
        is_marked = _PYTEST_MARK.match(line) is not None
        if is_marked and not was_marked:
            if not is_chained:
                break  # the next failure
            found = _pytest_line(lines, number)
            is_chained = False
        elif line.startswith(_CHAINED):
            is_chained = True
        was_marked = is_marked
    if not found.startswith("assert "):
        return found
    for line in lines:  # the summary also names the test
        summary = _PYTEST_SUMMARY.match(line)
        if summary and summary["reason"] == found:
            return line
    return found


def _pytest_line(lines: Lines, number: int) -> str:
    """Return a marked line without its mark. If it ends in a colon, the next one is added."""
    line = _PYTEST_MARK.sub("", lines[number])
    following = "".join(lines[number + 1 : number + 2])
    if line.endswith(":") and _PYTEST_MARK.match(following):
        line += f" {_PYTEST_MARK.sub('', following)}"
    return line


def _pytest_summary(lines: Lines) -> str:
    number = _first(lines, _PYTEST_SUMMARY)
    return "" if number is None else lines[number]


def _traceback(lines: Lines) -> str:
    """Return the exception of the first traceback. Of chained exceptions, the last one counts."""
    found = ""
    number = 0
    is_chained = True
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith(_CHAINED):
            is_chained = True
        elif is_chained and _TRACEBACK in line:
            prefix = line.partition(_TRACEBACK)[0]
            while number < len(lines) and lines[number].startswith(f"{prefix} "):
                number += 1
            if number < len(lines):
                found = _with_next_line(lines, number).removeprefix(prefix)
            is_chained = False
    return found


# --- JavaScript ---------------------------------------------------------------------------------

_JEST_TEST = re.compile(r" *● (?!Console\b)(?P<name>.+)")
_JEST_DETAIL = re.compile(r"\s*(?:Expected|Received)\b[^:]*: *\S")
_NPM = re.compile(r"npm (?:ERR!|error)(?P<text>.*)")
_NPM_UNINFORMATIVE = re.compile(
    r"\s*(?:(?:code|errno|path|syscall|command|location|workspace|signal)\b.*"
    r"|(?:404|enoent|notarget|network|peerinvalid)?"
    r"|Lifecycle script.*|Test failed\..*|A complete log.*|Failed at the .*"
    r"|(?:.* )?(?:Exit|ELIFECYCLE)\b.*|[\w@./-]+: `.*`)"
)


def _jest_error(lines: Lines) -> str:
    """Return the error of the first failed test. An assertion is joined with its two values."""
    number = _first(lines, _JEST_TEST)
    if number is None:
        return ""
    headline = _next_text(lines, number + 1)
    if not headline.startswith("expect("):
        return headline
    parts = [headline.partition(" // ")[0]]
    for line in lines[number + 2 : number + 2 + _MAX_DETAIL_LINES]:
        if _JEST_DETAIL.match(line):
            parts.append(line.strip())
    return f"{lines[number].strip()}: {', '.join(parts)}"


def _npm_error(lines: Lines) -> str:
    """Return what npm itself complains about, rather than the script that it ran."""
    for line in lines:
        reported = _NPM.match(line)
        if reported and not _NPM_UNINFORMATIVE.fullmatch(reported["text"]):
            return line
    return ""


# --- Go and Rust --------------------------------------------------------------------------------

_GO_FAILURE = re.compile(r"\s*--- FAIL: ")
_GO_REPORT = re.compile(r"\s*--- |FAIL|===")  # between the messages of two tests
_GO_MESSAGE = re.compile(r"\s+(?P<place>\w+\.go:\d+): ?(?P<text>.*)")
_TESTIFY_LABEL = re.compile(r"\s*\t(?P<label>Error Trace|Error|Test|Messages): *\t(?P<text>.*)")
_PANIC = re.compile(r"(?:panic|fatal error): \S")
_RUST_PANIC = re.compile(r"thread '[^']*'(?P<id> \(\d+\))? panicked at ")
_RUST_DETAIL = re.compile(r" +(?:left|right): ")


def _go_test_error(lines: Lines) -> str:
    """Return the last message of the first failed test."""
    failed_at = _first(lines, _GO_FAILURE)
    if failed_at is None:
        return ""
    panicked_at = _first(lines, _PANIC)
    if panicked_at is not None:
        return lines[panicked_at]
    number = _go_message(lines, failed_at + 1)
    if number is None:  # with -v, the messages come first
        number = _go_message(lines, 0)
    if number is None:
        return ""
    message = lines[number].strip()
    if not message.endswith(":"):
        return message
    error = _testify_error(lines[number + 1 :]) or _next_text(lines, number + 1)
    return f"{message} {error}"


def _go_message(lines: Lines, start: int) -> int | None:
    """Return the number of the last message of the test whose report begins at `start`."""
    found = None
    for number in range(start, len(lines)):
        if _GO_MESSAGE.match(lines[number]):
            found = number
        elif found is not None and _GO_REPORT.match(lines[number]):
            break
    return found


def _testify_error(lines: Lines) -> str:
    """Return the members `Error` and `Messages` of an assertion by testify."""
    parts: list[str] = []
    label = ""
    for line in lines:
        labelled = _TESTIFY_LABEL.match(line)
        if labelled:
            label = labelled["label"]
            line = labelled["text"]
        elif not line.startswith(" ") or not line.strip():
            break
        if label in ("Error", "Messages"):
            parts.append(line.strip())
    return " ".join(parts)


def _panic(lines: Lines) -> str:
    """Return a panic of Go or Rust with its message."""
    number = _first(lines, _PANIC)
    if number is not None:
        return lines[number]
    number = _first(lines, _RUST_PANIC)
    if number is None:
        return ""
    panic = _RUST_PANIC.match(lines[number])
    place = lines[number].replace(panic["id"] or "", "") if panic else lines[number]
    if not place.endswith(":"):
        return place  # before Rust 1.73, the message is on the same line
    parts = [_next_text(lines, number + 1)]
    for line in lines[number + 2 : number + 2 + _MAX_DETAIL_LINES]:
        if not _RUST_DETAIL.match(line):
            break
        parts.append(line.strip())
    return f"{place} {', '.join(parts)}"


# --- compilers and build tools ------------------------------------------------------------------

_DIAGNOSTIC = re.compile(
    # `error[E0277]: ...`, `a.ts(1,7): error TS2322: ...`, `a.ts:1:7 - error TS2322: ...`
    r"\s*error\[E\d{4}\]: |.{0,300}?\berror:? ?(?:TS|CS|FS|BC|MSB|NU|LNK|C)\d{2,6}: "
    # `a.c:3:1: error: ...`, `App.java:5: error: ...`, `a.py:3: error: ...`
    r"|[^\s:][^:]{0,300}:\d{1,7}:(?:\d{1,7}:)? (?:fatal )?error: "
    # `a.go:3:27: undefined: x`, `vet: a.go:3:27: ...`, `a.py:1:1: F401 ...`
    r"|(?:vet: )?[^\s:]{1,300}\.go:\d{1,7}:(?:\d{1,7}:)? \S"
    r"|[^\s:]{1,300}:\d{1,7}:\d{1,7}: [A-Z]{1,4}\d{1,4}\b"
    # `F401 [*] ...`, `e: file:///app/App.kt:5:13 ...`, `[ERROR] /app/App.java:[5,9] ...`
    r"|[A-Z]{1,3}\d{3,4} (?:\[\*\] )?[A-Z`]|e: \S+\.kts?\b|\[ERROR\] \S+:\[\d+,\d+\] "
)
_GRADLE_REASON = re.compile(r"\* What went wrong:")
_GRADLE_UNINFORMATIVE = re.compile(
    r"\s*>? *(?:Execution failed for task|Compilation (?:failed|error)|There were failing tests"
    r"|Process '.*' finished with non-zero|A failure occurred while executing)"
)
_GRADLE_TEST = re.compile(r"\S.* > .* FAILED$")


def _diagnostic(lines: Lines) -> str:
    """Return the first error of a compiler, a type checker or a linter."""
    number = _first(lines, _DIAGNOSTIC)
    return "" if number is None else _with_next_line(lines, number)


def _gradle_error(lines: Lines) -> str:
    """Return the innermost reason that Gradle gives, or the exception of the first failed test."""
    start = _first(lines, _GRADLE_REASON)
    if start is None:
        return ""
    reasons = [line.strip() for line in _paragraph(lines, start + 1)]
    telling = [reason for reason in reasons if not _GRADLE_UNINFORMATIVE.match(reason)]
    test = _first(lines, _GRADLE_TEST)
    if test is not None and not telling:
        return f"{lines[test]}: {_next_text(lines, test + 1)}"
    nested = [reason for reason in telling if reason.startswith(">")]
    return "".join((nested or telling)[-1:]).lstrip("> ")


def _paragraph(lines: Lines, start: int) -> Iterator[str]:
    for line in lines[start:]:
        if not line.strip():
            return
        yield line


# --- anything else ------------------------------------------------------------------------------

_STATED = re.compile(
    r"(?:^|.*?[\s:(])[\w.]*(?:Error|ERROR|error|Exception|EXCEPTION|FATAL|fatal|Failure)"
    r"(?: \[\w+\]| \w+\d+)?: ?\S"
    r"|.*\bFailed asserting that\b|\s*! \[rejected\]|(?:Error|Exception)$"
)
"""An error with its message, such as `ImportError: no module x` or `initdb: error: no space`."""
_STATED_SIGNS = (
    "Error",
    "ERROR",
    "error",
    "Exception",
    "EXCEPTION",
    "FATAL",
    "fatal",
    "Failure",
    "Failed",
    "[rejected]",
)
"""A line that `_STATED` matches contains one of these. It takes long on other lines."""
_NAMED = re.compile(
    r".*(?:\b\w*(?:Error|Exception)\b|\b(?:error|fatal|panic)(?:\[\w+\])?:|\bERR(?:OR)?\b.*\d|\bERR_"
    r"|\bFAILED\b)"
)
_NAMED_SIGNS = ("Error", "Exception", "error", "fatal", "panic", "ERR", "FAILED")
"""A line that `_NAMED` matches contains one of these."""
_PROBLEM = re.compile(
    r"(?i).*\b(?:error|fail(?:ed|ure|s)?|cannot|could not|can't|not (?:found|set|installed)"
    r"|no such|refused|denied|undefined|unable|missing|must|would reformat|style issues)\b"
)


def _stated(lines: Lines) -> str:
    """Return the first error that is stated with a message."""
    return _first_informative(lines, _STATED, _STATED_SIGNS)


def _named(lines: Lines) -> str:
    return _first_informative(lines, _NAMED, _NAMED_SIGNS)


def _problem(lines: Lines) -> str:
    return _first_informative(lines, _PROBLEM)


def _first_informative(lines: Lines, pattern: re.Pattern[str], signs: Sequence[str] = ("",)) -> str:
    """Return the first line that a pattern matches and that names something.

    Such a line contains one of the `signs`.
    """
    text = "\n".join(lines)
    present = [sign for sign in signs if sign in text]
    if not present:
        return ""
    for number, line in enumerate(lines):
        has_sign = any(sign in line for sign in present)
        if has_sign and pattern.match(line) and not names_nothing(line):
            return _with_next_line(lines, number)
    return ""


def _last_line(lines: Lines) -> str:
    """Return the last line that says anything."""
    for line in reversed(lines):
        if not names_nothing(line):
            return line
    return ""


_RULES: Sequence[Callable[[Lines], str]] = (
    _pytest_error,
    _pytest_summary,
    _traceback,
    _jest_error,
    _go_test_error,
    _panic,
    _diagnostic,
    _gradle_error,
    _stated,
    _npm_error,
    _named,
    _problem,
    _last_line,
)
