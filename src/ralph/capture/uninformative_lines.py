"""Recognise lines of a command's output that do not name an error, such as banners and counts.

A prompt that is given a recorded error checks its line, so this module is small: `error_lines` has
many more regexes.
"""

from __future__ import annotations

import re

_UNINFORMATIVE_FORMS = (
    # Banners: `> jest`, `$ tsc`, `# example.com/shop`, `=== FAILURES ===`, `NAME  STATUS  ERROR`.
    r"[>$#] .*",
    r"[=_\-~─⎯*]{3,}.*",
    r"!{3,} Interrupted.*",
    r"[A-Z ]+",
    r"npm (?:warn|notice)\b.*",
    r"Traceback\b.*",
    # How another program ended: `exit status 2`, `FATAL ERROR: command exited with status 1: ...`.
    r"(?i:.{0,200}?\bexit(?:ed)? (?:with )?(?:code|status):?\s*\d+\W*)",
    r"(?i:(?:fatal )?error:? (?:command|script|recipe|process)\b.*(?:failed|exit).*)",
    r"g?make(?:\[\d+\])?: (?!\*\*\* No rule).*",
    r"ninja: build stopped.*",
    r"npm (?:ERR!|error)\b.*",
    r"(?:ERR_PNPM|ELIFECYCLE)\b.*",
    r"error: (?:could not compile|aborting due to|test failed, to rerun|build failed).*",
    r"\W*(?:FAILURE: )?B(?:UILD|uild) (?i:fail(?:ed|ure))\b.*",
    # Counts: `Tests: 2 failed`, `1 failed, 3 passed`, `Found 2 errors`, `[ERROR] Tests run: 3`.
    r"(?:Tests?(?: Suites?| Files?)?|Snapshots|Time|Ran)\b[^a-z]*\d.*",
    r"(?:Failures|Errors|Failed|Passed)\b[^a-z]*\d.*",
    r"[= ]*(?:\d+ \w+,? )*\d+ (?:failed|fail(?:ures?|ing)|pass(?:ed|ing)|errors?|problems?)\b.*",
    r"\d+ (?:deselected|tests?|examples?|targets?)\b.*",
    r"Found \d+ .*",
    r"no tests ran.*",
    r"test result:.*",
    r"done\. pass=.*",
    r"\[ERROR\](?: (?:Tests run|COMPILATION ERROR|Failures?|Errors?|->|\[Help|There are).*)?",
    # Tests that failed for no stated reason: `ERROR tests/test_cli.py`, `FAIL  example.com/a  1s`.
    r"[.EFsxX]+\s*\[ *\d+%\]",
    r"(?:FAILED|FAIL|ERROR)(?:\s+(?!\S+::)\S+(?:\s+[\d.]+m?s| \[.*\])?)?",
    r"FAILED \(.*\)",
    r"FAIL: .*",
    r"(?:ERRORS|FAILURES)!",
    r"not ok \d.*",
    r".* \.\.\. (?:FAILED|ERROR|ok)",
    # Positions in code, and advice: `at f (a.js:1:2)`, `--> src/lib.rs:1:5`, `3 | x = 1`.
    r"at \S.*",
    r"--> .*",
    r'File ".*',
    r"\d* *\|.*",
    r"\^[\^~ ]*",
    r"(?:throw|raise) .*",
    r"Node\.js v\d.*",
    r"(?:[Hh]int|note|help): .*",
    r"ERROR: usage:.*",
)
"""Lines that name no error."""
UNINFORMATIVE = re.compile(rf"\s*(?:{'|'.join(_UNINFORMATIVE_FORMS)})$")


def names_nothing(line: str) -> bool:
    """Return whether a line is a banner, a count, or a report without a reason."""
    return not line.strip() or UNINFORMATIVE.match(line) is not None
