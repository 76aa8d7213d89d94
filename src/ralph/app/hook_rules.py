"""The expressions of the rules, compiled beforehand: for a hook that runs them, compiling takes longer than all else.

`.ralph/cache/rules` has a line of JSON that says for which Python it is and where each expression's code stands
in the line below, as Python's own compiler made it, in hexadecimal digits.
Which expressions there are is found by letting the rules look at a few texts; one that is missing is compiled
when it is needed. Only what gives the very same pattern again is written. The settings cache names the file
by number, time and size, and a hook believes no other: whoever can write that can write our code as well.
The user's own patterns are few, and other ones in each checkout: their code stands in the settings cache itself.
`tests/hooks/test_prepared.py` proves it.
"""

import json
import re
import sys
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

from ralph import __version__, paths
from ralph.store import files

_MOST_OWN = 20_000
"""Characters of the compiled patterns: a hook reads the whole settings cache at every event."""
_BODY = "A1b2C3d4e5" * 6
_WORDS = (
    *("kw9Zr4tQ", "Tr0ub4dor&3", "lower9value", "Horse-Battery-42", "one-two-three-four", "$VARIABLE", "qwrtplkjhgfd"),
    *("q%40R7%2FzC5vV1n", f"{_BODY}==", f"{_BODY}/{_BODY}", "12345678901", "[redacted: password]", "Ab1{x}%s$HOME_DIR"),
)
_LEADS = """ghp_ github_pat_ ghs_ glpat- xoxb- sk- sk-ant- sk_ SK rk_ AKIA ASIA AIza eyJ npm_ hf_ key- pat EAA EAAA AAAA
secret_ sntrys_ 0/ 1/ 2/ hooks.slack.com/ b3BlbnNzaC1rZXktdjE pscale_pw_""".split()
_LINES = """a <private>b</private> c
export TOKEN=abc d=e\n-x y-z \\u001b[1m \x1b[0mm [32m é\r
Authorization: Bearer {0}\nAuthorization: Basic {0}= integrity=sha256-{0}
curl -u a:{0} https://a:{0}@c.d/ -H "Cookie: a={0}" sig={0}\nmysql -p{0} -p {0}; mysql://u:{0}@h:5432/d
docker login -u a -p {0}; login a password {0}; gh auth login --with-token <<< {0}; h:5432:d:u:{0}
-----BEGIN PRIVATE KEY-----\n{0}\n-----END PRIVATE KEY-----
the password is {0} and more words, see tests/test_a.py::test_b PASSED in 2.31s; 비밀번호: {0} 密码：{0}
"""
"""What secrets stand in, of all kinds; the words in the places of secrets are made up."""


def _samples() -> Iterator[str]:
    for word in _WORDS:
        for given in (
            "PASSWORD={}",
            'token: "{}"',
            '"api_key": "{}"',
            "db_password = '{}'  # x=y",
            "KEY={} A=b",
            "go on PASSWORD={}",
        ):
            yield given.format(word)
    yield from (f"{lead}{_BODY}" for lead in _LEADS)
    yield _LINES.format(_BODY)


def file(root: Path) -> Path:
    """Where the compiled expressions are."""
    return paths.cache_folder(root) / "rules"


def made_for() -> list[object]:
    """For which Python, and by which Ralph; the first two are all that a hook compares."""
    import _sre  # type: ignore[import-not-found]  # noqa: PLC0415 - private, hence here, and not described

    return [_sre.MAGIC, sys.hexversion, __version__]


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


def own(patterns: Sequence[str]) -> str:
    """The user's patterns compiled, as JSON on one line; nothing for too many, or where that cannot be had."""
    try:
        found = {source: made for source in patterns if (made := _compiled(source)) is not None}
        text = json.dumps({"for": made_for()[:2], "expressions": found}) if found else ""
    except (ImportError, AttributeError, TypeError, re.error):  # another layout of the library: hooks compile
        return ""
    return text if len(text) <= _MOST_OWN else ""


def _text() -> str:
    from ralph.capture import values  # noqa: PLC0415 - where the rules are broken, failures must still be counted
    from ralph.capture.redactor import Redactor, without_secrets  # noqa: PLC0415 - the same

    for sample in _samples():
        without_secrets(Redactor(())(sample))
    found, codes = {}, ""
    for source in sorted(values._EXPRESSIONS):
        made = _compiled(source)
        if made is not None:
            code, *rest = made
            found[source] = (len(codes), len(codes) + len(code), *rest)
            codes += code
    return f"{json.dumps({'for': made_for(), 'expressions': found})}\n{codes}\n"


def _compiled(source: str) -> tuple[str, int, int, dict[str, int]] | None:
    """An expression's code, flags, and groups, if these give the same pattern again."""
    import _sre  # noqa: PLC0415 - private, hence here
    from re import _compiler, _parser  # type: ignore[attr-defined]  # noqa: PLC0415 - the same

    parsed = _parser.parse(source, 0)
    code, flags, names = _compiler._code(parsed, 0), parsed.state.flags, dict(parsed.state.groupdict)
    groups = parsed.state.groups - 1
    order = {number: name for name, number in names.items()}
    again = _sre.compile(source, flags, code, groups, names, tuple(order.get(number) for number in range(groups + 1)))
    return (array("I", code).tobytes().hex(), flags, groups, names) if again == re.compile(source) else None
