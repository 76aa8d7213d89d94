"""JSON with positions: read a text into nodes, read members by their types, and serialise values.

`json` forgets positions, which edits and reports need; a text without problems is decoded by `json` alone.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

from ralph.errors import Refused, Unreadable
from ralph.formats.text import BOM, Problem

Members = dict[str, Any]
Path = tuple[str | int, ...]

MAX_DEPTH = 200  # containers within containers that are read; people's files have five
_DEEPEST = (
    MAX_DEPTH // 2
)  # what is written stays well below what is read, as values are parts of others
_LARGEST = 10**4000  # Python itself reads no number that is much longer
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_AFTER = re.compile(r"[ \t\n\r]*([,\]}]?)[ \t\n\r]*")  # what follows a value; matches everywhere
_CONFLICT = re.compile(r"^(?:<{7} |>{7} |={7}\r?$)", re.MULTILINE)
_ESCAPED = re.compile("[\ud800-\udfff\x85\u2028\u2029]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class JsonNode(NamedTuple):
    """One JSON value at `text[start:end]`; containers have members or items."""

    start: int
    end: int
    value: object
    members: tuple[JsonMember, ...] = ()
    items: tuple[JsonNode, ...] = ()

    @property
    def children(self) -> Sequence[JsonMember | JsonNode]:
        """The members of an object or the elements of an array."""
        return self.members or self.items


class JsonMember(NamedTuple):
    """One member of an object, from its key to its value."""

    key: str
    start: int
    key_end: int
    node: JsonNode

    @property
    def end(self) -> int:
        """Where the value ends."""
        return self.node.end


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _skip_blanks(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t", "\n", "\r"):
        position += 1
    return position


def is_blank(text: str) -> bool:
    """Whether a text holds nothing; a byte order mark does not count."""
    return not text.removeprefix(BOM).strip(" \t\n\r")


def _read_scalar(text: str, start: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a constant such as NaN, or a number of thousands of digits
        raise json.JSONDecodeError(str(error).partition(";")[0], text, start) from error


def _read_value(text: str, start: int, depth: int = 0) -> JsonNode:
    if (closer := {"{": "}", "[": "]"}.get(text[start : start + 1])) is None:
        value, end = _read_scalar(text, start)
        return JsonNode(start, end, value)
    if depth >= MAX_DEPTH:
        raise json.JSONDecodeError(f"nested deeper than {MAX_DEPTH} levels", text, start)
    members: list[JsonMember] = []
    items: list[JsonNode] = []
    at = _skip_blanks(text, start + 1)
    more = not text.startswith(closer, at)
    while more:
        if closer == "]":
            node = _read_value(text, at, depth + 1)
            items.append(node)
        else:
            if not text.startswith('"', at):
                raise json.JSONDecodeError("expected a key in double quotes", text, at)
            key, key_end = _read_scalar(text, at)
            if (colon := _COLON.match(text, key_end)) is None:
                raise json.JSONDecodeError(
                    "expected a colon after the key", text, _skip_blanks(text, key_end)
                )
            node = _read_value(text, colon.end(), depth + 1)
            members.append(JsonMember(str(key), at, key_end, node))
        if (after := _AFTER.match(text, node.end)) is None or after[1] not in (",", closer):
            raise json.JSONDecodeError(
                f"expected a comma or {closer}", text, _skip_blanks(text, node.end)
            )
        more = after[1] == ","
        at = after.end() if more else after.start(1)
    values = (
        {member.key: member.node.value for member in members}
        if closer == "}"
        else [item.value for item in items]
    )
    return JsonNode(start, at + 1, values, tuple(members), tuple(items))


def read_json(text: str) -> JsonNode | Problem:
    """The value of a text with all positions; a Problem when it is not JSON."""
    try:
        root = _read_value(text, _skip_blanks(text, 1 if text.startswith(BOM) else 0))
        if (rest := _skip_blanks(text, root.end)) != len(text):
            raise json.JSONDecodeError("there is text after the end of the value", text, rest)
        return root
    except json.JSONDecodeError as error:
        if (conflict := _CONFLICT.search(text)) is not None:
            line = text.count("\n", 0, conflict.start()) + 1
            hint = "choose a side, delete the marker lines, and save the file"
            return Problem(
                line,
                "there is a git conflict marker in this JSON file",
                hint,
                "error",
                "conflict-marker",
            )
        what = f"this is not JSON: {error.msg} (column {error.colno})"
        hint = "mend the file by hand; until then it is left as it is and not read"
        return Problem(error.lineno, what, hint, "error", "not-json")


_EXPECTED: dict[str, tuple[type, str]] = {
    "text": (str, "text"),
    "number": (int, "a whole number"),
    "flag": (bool, "true or false"),
    "texts": (list, "a list of texts"),
    "list": (list, "a list"),
    "object": (dict, "an object"),
    "any": (object, ""),
}
_TYPE_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
}


def read_members(
    members: Members, kinds: Mapping[str, str], report: Callable[[Path, str, str, object], None]
) -> tuple[Members, Members]:
    """The members that a format names, and the others; `report` gets path, name, expected type and a wrong value."""
    values: Members = {}
    others: Members = {}
    for key, value in members.items():
        kind = kinds.get(key)
        expected, words = _EXPECTED[kind or "any"]
        if kind is None:
            others[key] = value
        elif value is None:
            continue
        elif expected is int and isinstance(value, float) and value.is_integer():
            values[key] = int(value)
        elif type(value) is not expected:
            report((key,), key, words, value)
        elif kind == "texts":
            items = cast("list[Any]", value)
            for number, item in enumerate(items):
                if not isinstance(item, str):
                    report((key, number), f"{key}[]", "text", item)
            values[key] = tuple(item for item in items if isinstance(item, str))
        else:
            values[key] = value
    return values, others


class JsonReader:
    """Typed reading of members; a wrong type is reported and counts as absent."""

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._text = text
        try:
            self.value = _DECODER.decode(text.removeprefix(BOM))
        except (ValueError, RecursionError):
            self.value = None if isinstance(self._root, Problem) else self._root.value

    @cached_property
    def _root(self) -> JsonNode | Problem:
        return read_json(self._text)

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self._text)]

    def node(self, path: Path) -> JsonNode:
        """The node at a path, for its position; of a duplicate key the last one."""
        node = JsonNode(0, 0, None) if isinstance(self._root, Problem) else self._root
        for key in path if node.children else ():
            nodes = {member.key: member.node for member in node.members}
            node = nodes[key] if isinstance(key, str) else node.items[key]
        return node

    def line_of(self, node: JsonNode) -> int:
        """The line at which a node starts."""
        return bisect_left(self._line_ends, node.start) + 1

    def report(
        self, path: Path, what: str, hint: str, level: str = "warning", code: str = ""
    ) -> None:
        """Add a Problem at the value of a path."""
        self.problems.append(Problem(self.line_of(self.node(path)), what, hint, level, code))

    def root_members(self) -> Members | None:
        """The members of the object; None, with a Problem, when there is none."""
        if is_blank(self._text):
            self.problems.append(
                Problem(1, "the file is empty", "delete it, or fill it in", "note", "empty-file")
            )
        elif self.value is None and isinstance(self._root, Problem):
            self.problems.append(self._root)
        elif not isinstance(self.value, dict):
            self.report_no_object((), "the file should hold one object", "not-an-object")
        return self.value if isinstance(self.value, dict) else None

    def report_no_object(self, path: Path, what: str, code: str = "wrong-type") -> None:
        """Report a value that should be an object."""
        self.report(
            path,
            what,
            "write it as { } with its members; the value is kept but not used",
            "error",
            code,
        )

    def read_members(
        self, members: Members, kinds: Mapping[str, str], path: Path = ()
    ) -> tuple[Members, Members]:
        """The members that the format names, of the right type, and the others."""

        def report(where: Path, name: str, expected: str, value: object) -> None:
            actual = "null" if value is None else _TYPE_NAMES.get(type(value), "an object")
            hint = f"write {expected}; the value is kept but not used"
            what = f"`{name}` should be {expected}, but is {actual}"
            self.report((*path, *where), what, hint, code="wrong-type")

        return read_members(members, kinds, report)

    def unreadable_error(self) -> Unreadable:
        """The first serious Problem as an error, for an edit."""
        serious = [
            problem for problem in self.problems if problem.level == "error"
        ] or self.problems
        return Unreadable(f"line {serious[0].line}: {serious[0].what}", hint=serious[0].hint)


def check_json(value: object, *, nul: bool = False, depth: int = 0) -> object:
    """A value as JSON can hold it, or Refused; `nul` allows NUL characters."""
    if depth > _DEEPEST:
        what = f"a value is nested deeper than {_DEEPEST} levels"
    elif isinstance(value, str):
        if (nul or "\x00" not in value) and not _PAIR.search(value):
            return str(value)
        what = "the text holds a NUL character, or two halves of a character that JSON would join into one"
    elif value is None or (isinstance(value, int | float) and abs(value) < _LARGEST):
        return value
    elif isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {
            str(check_json(key, nul=nul)): check_json(inner, nul=nul, depth=depth + 1)
            for key, inner in value.items()
        }
    elif isinstance(value, list | tuple):
        return [check_json(inner, nul=nul, depth=depth + 1) for inner in value]
    else:
        what = f"JSON has no form for this value of the type {type(value).__name__}"
    raise Refused(
        what,
        hint="use text, whole or finite numbers, true, false, null, lists and mappings with text keys",
    )


def dump_json(
    value: object,
    *,
    indent: str | None = None,
    separators: tuple[str, str] = (", ", ": "),
    ordered: bool = False,
) -> str:
    """Serialise a value; only lone surrogates and rare line ends are escaped."""
    text = json.dumps(
        value,
        ensure_ascii=False,
        allow_nan=False,
        indent=indent,
        separators=separators,
        sort_keys=ordered,
    )
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def dump_file(value: object, *, nul: bool = False) -> str:
    """Serialise a value as a file: key order, indentation 2."""
    return dump_json(check_json(value, nul=nul), indent="  ", separators=(",", ": ")) + "\n"


def dump_line(value: object, *, nul: bool = False, ordered: bool = False) -> str:
    """Serialise a value as one line; `ordered` sorts members."""
    return dump_json(check_json(value, nul=nul), separators=(",", ":"), ordered=ordered) + "\n"


def same_json(one: object, other: object) -> bool:
    """Whether two values are the same JSON; 1, 1.0 and true are three."""
    try:
        return one is other or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # no JSON at all: `check_json` explains it
        return False
