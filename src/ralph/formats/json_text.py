"""JSON with positions: read a text into nodes, edit one container, and serialise values.

`json` forgets indentation, key order and duplicate keys; an edit here copies everything that did
not change, byte for byte.
"""

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ralph.errors import Refused, Unreadable
from ralph.formats.text import BOM, Problem

MAX_DEPTH = 200  # containers within containers that are read; people's files have five

_SPACE = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_AFTER = re.compile(r"[ \t\n\r]*([,\]}]?)[ \t\n\r]*")  # what follows a value; matches everywhere
_CONFLICT = re.compile(r"^(?:<{7} |>{7} |={7}\r?$)", re.MULTILINE)


class JsonNode(NamedTuple):
    """One JSON value at `text[start:end]`; containers have members or items."""

    start: int
    end: int
    value: object
    members: tuple["JsonMember", ...] = ()
    items: tuple["JsonNode", ...] = ()

    @property
    def children(self) -> Sequence["JsonMember | JsonNode"]:
        """The members of an object or the elements of an array."""
        return self.members or self.items

    def get(self, key: str) -> "JsonNode | None":
        """The value of a member, or None; of a duplicate key the last one, as `json` has it."""
        return next((member.node for member in reversed(self.members) if member.key == key), None)


class JsonMember(NamedTuple):
    """One member of an object: it starts at its key and ends with its value."""

    key: str
    start: int
    key_end: int
    node: JsonNode

    @property
    def end(self) -> int:
        """Where the value ends."""
        return self.node.end


class LineNumbers:
    """The line number (from 1) of any position in a text."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def __call__(self, position: int) -> int:
        """The line of this position."""
        return bisect_left(self._ends, position) + 1


# --- reading -----------------------------------------------------------------------------------


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


STRICT_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
LENIENT_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
"""For what a host wrote into a log: NaN and Infinity, which only Python accepts, are read as null."""


def skip_blanks(text: str, position: int) -> int:
    """The next position that is not white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _read_scalar(text: str, start: int) -> tuple[object, int]:
    try:
        return STRICT_DECODER.raw_decode(text, start)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a constant such as NaN, or a number of thousands of digits
        raise json.JSONDecodeError(str(error).partition(";")[0], text, start) from error


def _read_value(text: str, start: int, depth: int = 0) -> JsonNode:
    closer = {"{": "}", "[": "]"}.get(text[start : start + 1])
    if closer is None:
        value, end = _read_scalar(text, start)
        return JsonNode(start, end, value)
    if depth >= MAX_DEPTH:
        raise json.JSONDecodeError(f"nested deeper than {MAX_DEPTH} levels", text, start)
    members: list[JsonMember] = []
    items: list[JsonNode] = []
    at = skip_blanks(text, start + 1)
    more = not text.startswith(closer, at)
    while more:
        if closer == "]":
            node = _read_value(text, at, depth + 1)
            items.append(node)
        else:
            if not text.startswith('"', at):
                raise json.JSONDecodeError("expected a key in double quotes", text, at)
            key, key_end = _read_scalar(text, at)
            colon = _COLON.match(text, key_end)
            if colon is None:
                raise json.JSONDecodeError("expected a colon after the key", text, skip_blanks(text, key_end))
            node = _read_value(text, colon.end(), depth + 1)
            members.append(JsonMember(str(key), at, key_end, node))
        after = _AFTER.match(text, node.end)
        if after is None or after[1] not in (",", closer):
            raise json.JSONDecodeError(f"expected a comma or {closer}", text, skip_blanks(text, node.end))
        more = after[1] == ","
        at = after.end() if more else after.start(1)
    values = {member.key: member.node.value for member in members} if closer == "}" else [item.value for item in items]
    return JsonNode(start, at + 1, values, tuple(members), tuple(items))


def read_json(text: str) -> JsonNode | Problem:
    """The value of a text, with all positions; a Problem when it is not JSON."""
    try:
        root = _read_value(text, skip_blanks(text, 1 if text.startswith(BOM) else 0))
        if (rest := skip_blanks(text, root.end)) != len(text):
            raise json.JSONDecodeError("there is text after the end of the value", text, rest)
        return root
    except json.JSONDecodeError as error:
        conflict = _CONFLICT.search(text)
        if conflict is not None:
            line = text.count("\n", 0, conflict.start()) + 1
            hint = "choose a side, delete the marker lines, and save the file"
            return Problem(line, "there is a git conflict marker in this JSON file", hint, "error", "conflict-marker")
        what = f"this is not JSON: {error.msg} (column {error.colno})"
        hint = "mend the file by hand; until then it is left as it is and not read"
        return Problem(error.lineno, what, hint, "error", "not-json")


def is_blank(text: str) -> bool:
    """Whether a text holds nothing at all (a byte order mark does not count)."""
    return skip_blanks(text, 1 if text.startswith(BOM) else 0) == len(text)


def unreadable_error(problems: Sequence[Problem]) -> Unreadable:
    """The error for an edit of a text that could not be read: its first serious Problem."""
    serious = [problem for problem in problems if problem.level == "error"] or problems
    if not serious:
        return Unreadable("this file does not have the expected form")
    return Unreadable(f"line {serious[0].line}: {serious[0].what}", hint=serious[0].hint)


# --- members by type ---------------------------------------------------------------------------

_TYPE_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


class JsonFields:
    """Typed reading of one object's members; a member of the wrong type is reported and counts as absent."""

    def __init__(self, node: JsonNode, line_of: Callable[[int], int], problems: list[Problem]) -> None:
        self.node = node
        self._line_of = line_of
        self._problems = problems
        self.nodes: dict[str, JsonNode] = {}
        for member in node.members:
            if member.key in self.nodes:
                what = f"the key `{member.key}` occurs twice in one object; the last one counts"
                self.report(member.start, what, "delete the one that is wrong", code="duplicate-key")
            self.nodes[member.key] = member.node

    @property
    def values(self) -> dict[str, object]:
        """All members, in file order."""
        return {key: node.value for key, node in self.nodes.items()}

    def unknown(self, keys: Collection[str]) -> dict[str, object]:
        """The members that the format does not name, in file order."""
        return {key: value for key, value in self.values.items() if key not in keys}

    def report(self, position: int, what: str, hint: str, level: str = "warning", code: str = "") -> None:
        """Add a Problem at a position of the text."""
        self._problems.append(Problem(self._line_of(position), what, hint, level, code))

    def _report_type(self, key: str, node: JsonNode, expected: str) -> None:
        what = f"`{key}` should be {expected}, but is {_TYPE_NAMES.get(type(node.value), 'null')}"
        self.report(node.start, what, f"write {expected}; the value is kept but not used", code="wrong-type")

    def _member(self, key: str, kind: type, expected: str) -> JsonNode | None:
        node = self.nodes.get(key)
        if node is None or node.value is None:
            return None
        if type(node.value) is kind:
            return node
        self._report_type(key, node, expected)
        return None

    def text(self, key: str) -> str | None:
        """A text member."""
        node = self._member(key, str, "text")
        return None if node is None else str(node.value)

    def flag(self, key: str) -> bool:
        """A member that is true or false; an absent one is false."""
        node = self._member(key, bool, "true or false")
        return node is not None and bool(node.value)

    def number(self, key: str) -> int | None:
        """A whole number in any notation (3, 3.0, 3e0)."""
        node = self.nodes.get(key)
        if node is not None and isinstance(node.value, float) and node.value.is_integer():
            return int(node.value)
        node = self._member(key, int, "a whole number")
        return node.value if node is not None and isinstance(node.value, int) else None

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; elements of another type are reported and left out."""
        items = self.items(key, "a list of texts")
        for item in items:
            if not isinstance(item.value, str):
                self._report_type(f"{key}[]", item, "text")
        return tuple(item.value for item in items if isinstance(item.value, str))

    def inner(self, key: str) -> "JsonFields | None":
        """The members of a member that is an object."""
        node = self._member(key, dict, "an object")
        return None if node is None else JsonFields(node, self._line_of, self._problems)

    def items(self, key: str, expected: str) -> tuple[JsonNode, ...]:
        """The elements of a list; none when it is missing or no list."""
        node = self._member(key, list, expected)
        return () if node is None else node.items


# --- serialising -------------------------------------------------------------------------------

_DEEPEST = MAX_DEPTH // 2  # what is written stays well below what is read, as values are parts of others

_DIGITS = 4000  # Python itself reads no number that is much longer
_ESCAPED = re.compile("[\ud800-\udfff\x85\u2028\u2029]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def check_json(value: object, *, nul: bool = False, depth: int = 0) -> object:
    """A value as JSON can hold it (tuples become lists), or Refused; `nul` allows NUL characters."""
    if depth > _DEEPEST:
        raise Refused(f"a value is nested deeper than {_DEEPEST} levels", hint="store it as text instead")
    if isinstance(value, str):
        if not nul and "\x00" in value:
            raise Refused("the text holds a NUL character", hint="take the NUL characters out and try again")
        if _PAIR.search(value):
            raise Refused(
                "the text holds two halves of a character that JSON would join into one",
                hint="decode the text as UTF-16 or UTF-8 before storing it",
            )
        return str(value)
    if value is None or (isinstance(value, int) and value.bit_length() < 3 * _DIGITS):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise Refused(f"the key {key!r:.60} is not text", hint="JSON objects have text keys only")
        return {
            str(check_json(key, nul=nul)): check_json(inner, nul=nul, depth=depth + 1) for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [check_json(inner, nul=nul, depth=depth + 1) for inner in value]
    raise Refused(
        f"JSON has no form for this value of the type {type(value).__name__}",
        hint="use text, whole or finite numbers, true, false, null, lists and mappings with text keys",
    )


def dump_json(
    value: object, *, indent: str | None = None, separators: tuple[str, str] = (", ", ": "), ordered: bool = False
) -> str:
    """Serialise a value: readable letters of every script, but lone surrogates and rare line ends escaped."""
    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators, sort_keys=ordered
    )
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def dump_file(value: object, *, nul: bool = False) -> str:
    """Serialise a value as a file: key order kept, indentation 2, final newline."""
    return dump_json(check_json(value, nul=nul), indent="  ", separators=(",", ": ")) + "\n"


def dump_line(value: object, *, nul: bool = False, ordered: bool = False) -> str:
    """This value as one line of a file, with the line end; `ordered` sorts the members of every object."""
    return dump_json(check_json(value, nul=nul), separators=(",", ":"), ordered=ordered) + "\n"


def same_json(one: object, other: object) -> bool:
    """Whether two values are the same JSON; unlike in Python, 1, 1.0 and true are three."""
    try:
        return one is other or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # no JSON at all: `check_json` explains it
        return False
