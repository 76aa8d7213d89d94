"""Recognise lines of a command's output that do not name an error, such as banners and counts.

A prompt that is given a recorded error checks its line. Compiling the regexes of all forms would
take longer than ranking the records, so each form says how its lines begin or what they contain,
and few are compiled. For the same reason, this module is small: `error_lines` has many more
regexes.
"""

from __future__ import annotations

import re

from ralph.lean import record

_DIGITS = tuple("0123456789")
_ANY = ("",)


@record
class _Form:
    """A form of lines, as a regex for a whole line without the blanks in front of it.

    Every line of this form begins with one of `starts` and contains one of `parts`, in lowercase.
    """

    regex: str
    starts: tuple[str, ...] = _ANY
    parts: tuple[str, ...] = _ANY

    def matches(self, line: str, lowered: str) -> bool:
        """Return whether a line has this form. `lowered` is the line without blanks in front."""
        if not lowered.startswith(self.starts) or not any(part in lowered for part in self.parts):
            return False
        return re.match(rf"\s*(?:{self.regex})$", line) is not None


FORMS = (
    # Banners: `> jest`, `$ tsc`, `# example.com/shop`, `=== FAILURES ===`, `NAME  STATUS  ERROR`.
    _Form(r"[>$#] .*", starts=("> ", "$ ", "# ")),
    _Form(r"[=_\-~─⎯*]{3,}.*", starts=("=", "_", "-", "~", "─", "⎯", "*")),
    _Form(r"!{3,} Interrupted.*", starts=("!!!",)),
    _Form(r"[A-Z ]+"),
    _Form(r"npm (?:warn|notice)\b.*", starts=("npm ",)),
    _Form(r"Traceback\b.*", starts=("traceback",)),
    # How another program ended: `exit status 2`, `FATAL ERROR: command exited with status 1: ...`.
    _Form(
        r"(?i:.{0,200}?\bexit(?:ed)? (?:with )?(?:code|status):?\s*\d+\W*)",
        parts=("code", "status"),
    ),
    _Form(
        r"(?i:(?:fatal )?error:? (?:command|script|recipe|process)\b.*(?:failed|exit).*)",
        starts=("fatal error", "error"),
        parts=(" command", " script", " recipe", " process"),
    ),
    _Form(r"g?make(?:\[\d+\])?: (?!\*\*\* No rule).*", starts=("make", "gmake")),
    _Form(r"ninja: build stopped.*", starts=("ninja: ",)),
    _Form(r"npm (?:ERR!|error)\b.*", starts=("npm ",)),
    _Form(r"(?:ERR_PNPM|ELIFECYCLE)\b.*", starts=("err_pnpm", "elifecycle")),
    _Form(
        r"error: (?:could not compile|aborting due to|test failed, to rerun|build failed).*",
        starts=("error: ",),
    ),
    _Form(r"\W*(?:FAILURE: )?B(?:UILD|uild) (?i:fail(?:ed|ure))\b.*", parts=("build fail",)),
    # Counts: `Tests: 2 failed`, `1 failed, 3 passed`, `Found 2 errors`, `[ERROR] Tests run: 3`.
    _Form(
        r"(?:Tests?(?: Suites?| Files?)?|Snapshots|Time|Ran)\b[^a-z]*\d.*",
        starts=("test", "snapshots", "time", "ran"),
    ),
    _Form(
        r"(?:Failures|Errors|Failed|Passed)\b[^a-z]*\d.*",
        starts=("failures", "errors", "failed", "passed"),
    ),
    _Form(
        r"[= ]*(?:[0-9]+ \w+,? )*[0-9]+ "
        r"(?:failed|fail(?:ures?|ing)|pass(?:ed|ing)|errors?|problems?)\b.*",
        starts=("=", *_DIGITS),
    ),
    _Form(r"[0-9]+ (?:deselected|tests?|examples?|targets?)\b.*", starts=_DIGITS),
    _Form(r"Found \d+ .*", starts=("found ",)),
    _Form(r"no tests ran.*", starts=("no tests ran",)),
    _Form(r"test result:.*", starts=("test result:",)),
    _Form(r"done\. pass=.*", starts=("done. pass=",)),
    _Form(
        r"\[ERROR\](?: (?:Tests run|COMPILATION ERROR|Failures?|Errors?|->|\[Help|There are).*)?",
        starts=("[error]",),
    ),
    # Tests that failed for no stated reason: `ERROR tests/test_cli.py`, `FAIL  example.com/a  1s`.
    _Form(r"[.EFsxX]+\s*\[ *\d+%\]", parts=("%]",)),
    _Form(
        r"(?:FAILED|FAIL|ERROR)(?:\s+(?!\S+::)\S+(?:\s+[\d.]+m?s| \[.*\])?)?",
        starts=("failed", "fail", "error"),
    ),
    _Form(r"FAILED \(.*\)", starts=("failed (",)),
    _Form(r"FAIL: .*", starts=("fail: ",)),
    _Form(r"(?:ERRORS|FAILURES)!", starts=("errors!", "failures!")),
    _Form(r"not ok \d.*", starts=("not ok ",)),
    _Form(r".* \.\.\. (?:FAILED|ERROR|ok)", parts=("... ",)),
    # Positions in code, and advice: `at f (a.js:1:2)`, `--> src/lib.rs:1:5`, `3 | x = 1`.
    _Form(r"at \S.*", starts=("at ",)),
    _Form(r"--> .*", starts=("--> ",)),
    _Form(r'File ".*', starts=('file "',)),
    _Form(r"[0-9]* *\|.*", starts=("|", *_DIGITS)),
    _Form(r"\^[\^~ ]*", starts=("^",)),
    _Form(r"(?:throw|raise) .*", starts=("throw ", "raise ")),
    _Form(r"Node\.js v\d.*", starts=("node.js v",)),
    _Form(r"(?:[Hh]int|note|help): .*", starts=("hint: ", "note: ", "help: ")),
    _Form(r"ERROR: usage:.*", starts=("error: usage:",)),
)
"""The forms of lines that name no error."""


def names_nothing(line: str) -> bool:
    """Return whether a line is blank, a banner, a count, or a report without a reason."""
    lowered = line.lstrip().lower()
    return not lowered or any(form.matches(line, lowered) for form in FORMS)
