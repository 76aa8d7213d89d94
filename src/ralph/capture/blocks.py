r"""Secrets that only their surroundings tell: the end of a key, a column of a table, what is piped into a login.

A key of which only the last lines are shown (`tail`, a cut log) is followed back from its END line, line by
line. A table's head names its columns, as `psql`, `mysql` and Markdown draw them; a value there is judged like
one that is assigned to that name. A word that `echo` hands to a program that reads a password is one.
Each is bounded by the place before it, so the work grows with the text and no faster. Loaded only where one of
the few words stands that all of this needs. `tests/capture/test_blocks.py` holds examples and look-alikes.
"""

from ralph.capture.assignments import holder
from ralph.capture.values import (
    Strength,
    cased_password,
    login_password,
    plain_password,
    plausible,
    regex,
    strength,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ralph.capture.assignments import Holder

Span = tuple[int, int, str]
RECEIVERS = (
    "password-stdin", "token-stdin", "secret-stdin", "key-stdin", "passwd --stdin", "login --stdin", "with-token",
    "sudo -s", "chpasswd", "pass stdin", "vault login -", "passphrase-fd 0",
)  # fmt: skip
"""How programs are told to read a password; `privacy` and `hooks/screen` know them by a part of each."""


def told_by_surroundings(text: str, lowered: str) -> "Iterator[Span]":
    """Everything that is a secret because of where it stands."""
    if "PRIVATE KEY" in text:
        yield from key_tails(text)
    yield from handed_over(text, lowered)
    if "|" in text or " row" in text:
        yield from columns(text)


# --- the end of a key ---------------------------------------------------------------------------

_END = r"-{4,5} ?END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_ENCODED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_BETWEEN = " \t\r\n\"',;>|#*\\"
_LONGEST_KEY = 20_000
_SHORT = 16


def key_tails(text: str) -> "Iterator[Span]":
    """The lines of base64 before an END line, however much of the key was cut off."""
    floor = 0
    for end in regex(_END).finditer(text):
        start, body = _lines_before(text, end.start(), max(floor, end.start() - _LONGEST_KEY))
        if len(body) >= 40 and plausible(body[-400:]):
            yield start, end.end(), "private key"
        floor = end.end()


def _lines_before(text: str, at: int, floor: int) -> tuple[int, str]:
    """Where the lines of base64 that end here begin, and what they say; only the last two may be short."""
    start, said, number = at, list[str](), 0
    while at > floor:
        gap, line = _line_before(text, at, floor)
        if not line or (len(line) < _SHORT and number > 1):
            break
        at = start = gap - len(line)
        said.append(line)
        number += 1
    return start, "".join(reversed(said))


def _line_before(text: str, at: int, floor: int) -> tuple[int, str]:
    """Where the last line before a place ends, and that line; a line end may also be written `\\n`."""
    while at > floor and (text[at - 1] in _BETWEEN or (text[at - 1] in "nr" and text[at - 2 : at - 1] == "\\")):
        at -= 1
    first = at
    while first > floor and text[first - 1] in _ENCODED:
        first -= 1
    if first > floor and text[first - 1] == "\\" and text[first : first + 1] in ("n", "r"):
        first += 1
    return at, text[first:at]


# --- a table ------------------------------------------------------------------------------------

_RULE = r"[|+]?[ ]?:?-{3,}:?[ ]?(?:[|+][ ]?:?-{3,}:?[ ]?)*[|+]?"
_COUNT = r"\((?:1 row|\d{1,9} rows)\)"
_RECORD = "-[ RECORD"
_CELL = " \t\r*`\"'"
_WIDEST_CELL = 300


def columns(text: str) -> "Iterator[Span]":
    """The values below a head that names a secret, and those beside a name in the long form of `psql`."""
    lines = _Lines(text)
    for number, line in enumerate(lines.lines):
        bare = line.strip()
        if bare.startswith("(") and regex(_COUNT).fullmatch(bare):
            yield from _unaligned(lines, number)
        elif "--" not in bare:
            continue
        elif bare.startswith(_RECORD):
            yield from _record(lines, number + 1)
        elif number and _is_rule(lines, number):
            yield from _below(lines, number - 1, number + 1, drawn="+" in bare)


class _Lines:
    """The lines of a text and where they begin; a line end may also be written `\\n`."""

    __slots__ = ("lines", "starts")

    def __init__(self, text: str) -> None:
        self.lines = (text.replace("\\n", " \n") if "\\n" in text else text).split("\n")
        self.starts, at = list[int](), 0
        for line in self.lines:
            self.starts.append(at)
            at += len(line) + 1


def _below(lines: _Lines, head: int, first: int, *, drawn: bool) -> "Iterator[Span]":
    """The values of the columns that the line `head` names, from the line `first` to the end of the table."""
    names = lines.lines[head].split("|")
    held = [(number, found) for number, name in enumerate(names) if (found := _named(name)) is not None]
    if not held or (len(names) == 1 and not _counted(lines, first)):
        return
    for row in range(first, len(lines.lines)):
        cells = lines.lines[row].split("|")
        if len(cells) != len(names):
            if _is_rule(lines, row):
                continue
            return
        places = [lines.starts[row]]
        for cell in cells:
            places.append(places[-1] + len(cell) + 1)
        for number, found in held:
            yield from _secret_cell(cells[number], places[number], found, drawn=drawn)
        if _is_rule(lines, row + 1) and any(map(_named, cells)):
            return  # the head of another table: what is below it is looked at from there, and only once


def _is_rule(lines: _Lines, number: int) -> bool:
    line = lines.lines[number].strip() if number < len(lines.lines) else ""
    return "--" in line and regex(_RULE).fullmatch(line) is not None


def _counted(lines: _Lines, first: int) -> bool:
    """Whether a table of one column ends with the number of its rows: else it may be any underlined title."""
    for line in lines.lines[first : first + 1000]:
        if regex(_COUNT).fullmatch(line.strip()):
            return True
        if not line.strip() or "--" in line:
            return False
    return False


def _unaligned(lines: _Lines, end: int) -> "Iterator[Span]":
    """`id|name|password` above its rows, without a rule: only the number of rows tells that it is a table."""
    width = lines.lines[end - 1].count("|") if end else 0
    head = end - 1
    while width and head > 0 and lines.lines[head - 1].count("|") == width and "--" not in lines.lines[head - 1]:
        head -= 1
    if width and head < end - 1 and not (head and "--" in lines.lines[head - 1]):
        yield from _below(lines, head, head + 1, drawn=True)


def _record(lines: _Lines, first: int) -> "Iterator[Span]":
    """`password | hunter2` in the long form."""
    for row in range(first, min(first + 400, len(lines.lines))):
        name, bar, value = lines.lines[row].partition("|")
        if not bar or "--" in name:
            return
        found = _named(name)
        if found is not None:
            yield from _secret_cell(value, lines.starts[row] + len(name) + 1, found, drawn=True)


def _named(cell: str) -> "Holder | None":
    name = cell.strip(_CELL)
    return holder(name) if 0 < len(name) <= 40 and name.count(" ") < 2 else None


def _secret_cell(cell: str, at: int, held: "Holder", *, drawn: bool) -> "Iterator[Span]":
    """The value of a cell, if it is a secret; in the table of a database also one that is a mere word."""
    value = cell.strip(_CELL)
    if not 4 <= len(value) <= _WIDEST_CELL or "[redacted" in value:
        return
    password = held.kind == "password"
    least = held.least if password or drawn else Strength.STRONG
    if strength(value) >= least or (drawn and password and (plain_password(value) or cased_password(value))):
        start = at + cell.index(value)
        yield start, start + len(value), held.kind


# --- what is handed over ------------------------------------------------------------------------

_PIPED = (
    r"(?i)\b(?:echo|printf)[ \t]+(?:-[neE]{1,3}[ \t]+)?(?:[\"']?%s(?:\\{1,2}n)?[\"']?[ \t]+)?"
    r"(?P<s>\"[^\"\n]{1,256}\"|'[^'\n]{1,256}'|\\\"[^\"\n\\]{1,256}\\\"|[^\s\"'|;&]{1,256})[ \t]*\|[^|;\n]{0,200}\Z"
)
_HERE = r"<<<[ \t]*(?P<s>\"[^\"\n]{1,256}\"|'[^'\n]{1,256}'|[^\s\"'|;&]{1,256})"
_FAR = 500


def handed_over(text: str, lowered: str) -> "Iterator[Span]":
    """`echo secret | docker login --password-stdin`, and `<<< secret` behind it."""
    for word in RECEIVERS:
        floor, at = 0, lowered.find(word)
        while at >= 0:
            line = max(floor, at - _FAR, lowered.rfind("\n", max(0, at - _FAR), at) + 1)
            piped = _last(text, line, at)
            here = regex(_HERE).search(text, at, min(at + 200, _line_end(lowered, at)))
            for first, value in (found for found in (piped, here and (here.start("s"), here["s"])) if found):
                if word != "sudo -s" or text.startswith("sudo -S", at):
                    yield from _handed(first, value, users=word == "chpasswd")
            floor = at + len(word)
            at = lowered.find(word, floor)


def _last(text: str, start: int, end: int) -> tuple[int, str] | None:
    """What the last `echo` before a place says."""
    piece = text[start:end]
    for word in ("echo", "printf"):
        at = piece.lower().rfind(word)
        found = regex(_PIPED).match(piece, at) if at >= 0 else None
        if found:
            return start + found.start("s"), found["s"]
    return None


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return found if found >= 0 else len(text)


def _handed(start: int, value: str, *, users: bool) -> "Iterator[Span]":
    bare = value.strip("\"'\\")
    start += value.index(bare) if bare else 0
    if users and ":" in bare:
        name, _, bare = bare.partition(":")
        start += len(name) + 1
    if login_password("", bare) and " " not in bare:
        yield start, start + len(bare), "password"
