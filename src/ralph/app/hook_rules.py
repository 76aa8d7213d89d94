"""The expressions of the rules, compiled beforehand: for a hook that runs them, compiling takes longer than all else.

`.ralph/cache/rules` is JSON with what Python's own compiler made of each expression, and for which Python.
Which expressions there are is found by letting the rules look at a few texts; one that is missing is compiled
when it is needed. Only what gives the very same pattern again is written. The settings cache names the file
by number, time and size, and a hook believes no other: whoever can write that can write our code as well.
`tests/hooks/test_prepared.py` proves it.
"""

import json
import re
import sys
from array import array
from pathlib import Path

import ralph
from ralph import paths
from ralph.capture import values
from ralph.capture.redactor import Redactor, without_secrets
from ralph.store import files

_WORDS = ("kw9" + "Zr4tQ", "Tr0ub4dor" + "&3", "s3cr" + "etvalue9", "[redacted: " + "password]")  # made up
_SAMPLES = (
    *(f"{name}{sign}{word}" for word in _WORDS for name in ("PASSWORD", '"api_key"') for sign in ("=", ': "')),
    "a <private>b</private> c\nexport TOKEN=abc\n-x y-z \\u001b[1m \x1b[0mm [32m é\r\n",
    "Authorization: Bearer abcdefghijkl1234567890\ncurl -u a:b https://a:b@c.d/ Cookie: a=b; sig=1\nmysql -px -p y",
    "the password is hunter" + "2x and more words, see tests/test_a.py::test_b PASSED in 2.31s\n" * 3,
)


def file(root: Path) -> Path:
    """Where the compiled expressions are."""
    return paths.cache_folder(root) / "rules"


def made_for() -> list[object]:
    """For which Python, and by which Ralph; the first two are all that a hook compares."""
    import _sre  # noqa: PLC0415 - private, hence here

    return [_sre.MAGIC, sys.hexversion, ralph.__version__]


def write(root: Path) -> str:
    """Write the file if it is not there for this Python; gives how it is named in the settings cache, or nothing."""
    try:
        here = file(root)
        if f'"for": {json.dumps(made_for())}' not in (files.read(here) or "")[:200]:
            files.write(here, _text(), root=paths.state_root(root), mode=files.PRIVATE)
        now = here.stat()
        return f"{now.st_ino} {now.st_mtime_ns} {now.st_size}"
    except (ImportError, AttributeError, TypeError, OSError):  # another layout of the library: hooks compile
        return ""


def _text() -> str:
    for sample in _SAMPLES:
        without_secrets(Redactor(())(sample))
    found = {source: made for source in sorted(values._EXPRESSIONS) if (made := _compiled(source))}
    return json.dumps({"for": made_for(), "expressions": found}) + "\n"


def _compiled(source: str) -> tuple[int, str, int, dict[str, int]] | None:
    """An expression's flags, code, and groups, if these give the same pattern again."""
    import _sre  # noqa: PLC0415 - private, hence here
    from re import _compiler, _parser  # type: ignore[attr-defined]  # noqa: PLC0415 - the same

    parsed = _parser.parse(source, 0)
    code, flags, names = _compiler._code(parsed, 0), parsed.state.flags, dict(parsed.state.groupdict)
    groups = parsed.state.groups - 1
    order = {number: name for name, number in names.items()}
    again = _sre.compile(source, flags, code, groups, names, tuple(order.get(number) for number in range(groups + 1)))
    return (flags, array("I", code).tobytes().hex(), groups, names) if again == re.compile(source) else None
