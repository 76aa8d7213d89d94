"""Read JSON along with positions, read members by type, and serialise values.

The standard `json` module does not keep positions, which edits and problem reports need. As long as
there are no problems to report, `json` alone does the decoding.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

from ralph.core.documents import Problem
from ralph.core.errors import Refused, Unreadable
from ralph.core.text import BOM

Members = dict[str, Any]
Path = tuple[str | int, ...]

MAX_DEPTH = 200  # levels of nesting that are read; real files have about five
# A written value may later be nested in another one, so it must stay well below that limit.
_MAX_WRITTEN_DEPTH = MAX_DEPTH // 2
_MAX_NUMBER = 10**4000  # Python refuses to parse much longer numbers
_WHITESPACE = (" ", "\t", "\n", "\r")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_AFTER_VALUE = re.compile(r"[ \t\n\r]*([,\]}]?)[ \t\n\r]*")  # matches everywhere
_CONFLICT_MARKER = re.compile(r"^(?:<{7} |>{7} |={7}\r?$)", re.MULTILINE)
_ESCAPED = re.compile("[\ud800-\udfff\x85\u2028\u2029]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class JsonNode(NamedTuple):
    """One JSON value, found at `text[start:end]`. A container has members or items."""

    start: int
    end: int
    value: object
    members: tuple[JsonMember, ...] = ()
    items: tuple[JsonNode, ...] = ()

    @property
    def children(self) -> Sequence[JsonMember | JsonNode]:
        """The members of an object or the items of an array."""
        return self.members or self.items


class JsonMember(NamedTuple):
    """One member of an object, from its key to its value."""

    key: str
    start: int
    key_end: int
    node: JsonNode

    @property
    def end(self) -> int:
        """The end of the value."""
        return self.node.end


# --- reading with positions --------------------------------------------------------------------


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def read_json(text: str) -> JsonNode | Problem:
    """Parse JSON into nodes with positions. If it is not valid, return the problem instead."""
    begin = len(BOM) if text.startswith(BOM) else 0
    try:
        root = _read_value(text, _skip_whitespace(text, begin))
        rest = _skip_whitespace(text, root.end)
        if rest != len(text):
            raise json.JSONDecodeError("there is text after the end of the value", text, rest)
        return root
    except json.JSONDecodeError as error:
        conflict = _CONFLICT_MARKER.search(text)
        if conflict is not None:
            return Problem(
                text.count("\n", 0, conflict.start()) + 1,
                "there is a git conflict marker in this JSON file",
                "choose a side, delete the marker lines, and save the file",
                "error",
                "conflict-marker",
            )
        return Problem(
            error.lineno,
            f"this is not JSON: {error.msg} (column {error.colno})",
            "fix the file by hand; until then it is left as it is and not read",
            "error",
            "not-json",
        )


def _skip_whitespace(text: str, position: int) -> int:
    while text[position : position + 1] in _WHITESPACE:
        position += 1
    return position


def is_blank(text: str) -> bool:
    """Return whether `text` is empty apart from whitespace and a byte order mark."""
    return not text.removeprefix(BOM).strip("".join(_WHITESPACE))


def _read_value(text: str, start: int, depth: int = 0) -> JsonNode:
    opening = text[start : start + 1]
    if opening not in ("{", "["):
        value, end = _read_scalar(text, start)
        return JsonNode(start, end, value)
    if depth >= MAX_DEPTH:
        raise json.JSONDecodeError(f"nested deeper than {MAX_DEPTH} levels", text, start)
    if opening == "{":
        return _read_object(text, start, depth)
    return _read_array(text, start, depth)


def _read_scalar(text: str, start: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a constant such as NaN, or a number with thousands of digits
        raise json.JSONDecodeError(str(error).partition(";")[0], text, start) from error


def _read_object(text: str, start: int, depth: int) -> JsonNode:
    members: list[JsonMember] = []
    position = _skip_whitespace(text, start + 1)
    has_more = not text.startswith("}", position)
    while has_more:
        member = _read_member(text, position, depth)
        members.append(member)
        position, has_more = _read_separator(text, member.end, "}")
    values = {member.key: member.node.value for member in members}
    return JsonNode(start, position + 1, values, members=tuple(members))


def _read_array(text: str, start: int, depth: int) -> JsonNode:
    items: list[JsonNode] = []
    position = _skip_whitespace(text, start + 1)
    has_more = not text.startswith("]", position)
    while has_more:
        item = _read_value(text, position, depth + 1)
        items.append(item)
        position, has_more = _read_separator(text, item.end, "]")
    values = [item.value for item in items]
    return JsonNode(start, position + 1, values, items=tuple(items))


def _read_member(text: str, start: int, depth: int) -> JsonMember:
    if not text.startswith('"', start):
        raise json.JSONDecodeError("expected a key in double quotes", text, start)
    key, key_end = _read_scalar(text, start)
    colon = _COLON.match(text, key_end)
    if colon is None:
        position = _skip_whitespace(text, key_end)
        raise json.JSONDecodeError("expected a colon after the key", text, position)
    return JsonMember(str(key), start, key_end, _read_value(text, colon.end(), depth + 1))


def _read_separator(text: str, end: int, closer: str) -> tuple[int, bool]:
    """Return the position of the next value or closing bracket, and whether a value follows."""
    after = _AFTER_VALUE.match(text, end)
    if after is None or after[1] not in (",", closer):
        position = _skip_whitespace(text, end)
        raise json.JSONDecodeError(f"expected a comma or {closer}", text, position)
    if after[1] == ",":
        return after.end(), True
    return after.start(1), False


# --- members by type ---------------------------------------------------------------------------


class _ExpectedType(NamedTuple):
    type: type
    words: str


_EXPECTED: dict[str, _ExpectedType] = {
    "text": _ExpectedType(str, "text"),
    "number": _ExpectedType(int, "a whole number"),
    "flag": _ExpectedType(bool, "true or false"),
    "texts": _ExpectedType(list, "a list of texts"),
    "list": _ExpectedType(list, "a list"),
    "object": _ExpectedType(dict, "an object"),
}
_TYPE_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
}


Report = Callable[[Path, str, str, object], None]
"""Called for a value of the wrong type, with its path, its name, the expected type and itself."""


def read_members(
    members: Members, kinds: Mapping[str, str], report: Report
) -> tuple[Members, Members]:
    """Split members into those that the format defines in `kinds`, and all others.

    A value of the wrong type is passed to `report` and left out. A null counts as absent.
    """
    values: Members = {}
    others: Members = {}
    for key, value in members.items():
        if key not in kinds:
            others[key] = value
            continue
        if value is None:
            continue
        kind = kinds[key]
        expected = _EXPECTED[kind]
        if expected.type is int and isinstance(value, float) and value.is_integer():
            values[key] = int(value)
        elif type(value) is not expected.type:
            report((key,), key, expected.words, value)
        elif kind == "texts":
            values[key] = _read_texts(key, cast("list[Any]", value), report)
        else:
            values[key] = value
    return values, others


def _read_texts(key: str, items: list[Any], report: Report) -> tuple[str, ...]:
    texts: list[str] = []
    for number, item in enumerate(items):
        if isinstance(item, str):
            texts.append(item)
        else:
            report((key, number), f"{key}[]", "text", item)
    return tuple(texts)


class JsonReader:
    """Reads members by type. A value of the wrong type is reported and counts as absent."""

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._text = text
        try:
            self.value = _DECODER.decode(text.removeprefix(BOM))
        except (ValueError, RecursionError):
            self.value = None
            if isinstance(self._root, JsonNode):
                self.value = self._root.value

    @cached_property
    def _root(self) -> JsonNode | Problem:
        return read_json(self._text)

    @cached_property
    def _line_ends(self) -> list[int]:
        return [match.start() for match in re.finditer("\n", self._text)]

    def node(self, path: Path) -> JsonNode:
        """Return the node at a path, for its position. If a key is duplicated, the last wins."""
        if isinstance(self._root, Problem):
            return JsonNode(0, 0, None)
        node = self._root
        if not node.children:
            return node
        for key in path:
            if isinstance(key, int):
                node = node.items[key]
            else:
                nodes = {member.key: member.node for member in node.members}
                node = nodes[key]
        return node

    def line_of(self, node: JsonNode) -> int:
        """Return the line at which a node starts."""
        return bisect_left(self._line_ends, node.start) + 1

    def report(
        self, path: Path, what: str, hint: str, level: str = "warning", code: str = ""
    ) -> None:
        """Add a problem, located at the value at `path`."""
        self.problems.append(Problem(self.line_of(self.node(path)), what, hint, level, code))

    def root_members(self) -> Members | None:
        """Return the members of the root object. If there is none, report it and return None."""
        if is_blank(self._text):
            self.problems.append(
                Problem(1, "the file is empty", "delete it, or fill it in", "note", "empty-file")
            )
        elif self.value is None and isinstance(self._root, Problem):
            self.problems.append(self._root)
        elif not isinstance(self.value, dict):
            self.report_no_object((), "the file should contain one object", "not-an-object")
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
        """Split members into those that the format defines, and all others.

        A value of the wrong type is reported and left out.
        """

        def report(where: Path, name: str, expected: str, value: object) -> None:
            actual = "null"
            if value is not None:
                actual = _TYPE_NAMES.get(type(value), "an object")
            hint = f"write {expected}; the value is kept but not used"
            what = f"`{name}` should be {expected}, but is {actual}"
            self.report((*path, *where), what, hint, code="wrong-type")

        return read_members(members, kinds, report)

    def unreadable_error(self) -> Unreadable:
        """Return the error to raise when an edit is refused because of the problems found.

        It describes the first problem with level "error", or else the first problem.
        """
        first = self.problems[0]
        for problem in self.problems:
            if problem.level == "error":
                first = problem
                break
        return Unreadable(f"line {first.line}: {first.what}", hint=first.hint)


# --- writing -----------------------------------------------------------------------------------


def check_json(value: object, *, nul: bool = False, depth: int = 0) -> object:
    """Convert a value to types that JSON can represent.

    NUL characters are allowed only if `nul` is set. Raises Refused if JSON cannot represent the
    value.
    """
    if depth > _MAX_WRITTEN_DEPTH:
        raise _not_json(f"a value is nested deeper than {_MAX_WRITTEN_DEPTH} levels")
    if isinstance(value, str):
        has_pair = not value.isascii() and _SURROGATE_PAIR.search(value)
        if ("\x00" in value and not nul) or has_pair:
            raise _not_json(
                "the text contains a NUL character, or two halves of a character "
                "that JSON would join into one"
            )
        return str(value)
    if value is None or (isinstance(value, int | float) and abs(value) < _MAX_NUMBER):
        return value
    # `isinstance(value, Mapping)` takes long, so a `dict` comes first.
    if isinstance(value, dict | Mapping) and all(isinstance(key, str) for key in value):
        members: Members = {}
        for key, item in value.items():
            members[str(check_json(key, nul=nul))] = check_json(item, nul=nul, depth=depth + 1)
        return members
    if isinstance(value, list | tuple):
        return [check_json(item, nul=nul, depth=depth + 1) for item in value]
    raise _not_json(f"JSON has no form for this value of the type {type(value).__name__}")


def _not_json(what: str) -> Refused:
    return Refused(
        what,
        hint="use text, whole or finite numbers, true, false, null, lists, "
        "and mappings with text keys",
    )


def dump_json(
    value: object,
    *,
    indent: str | None = None,
    separators: tuple[str, str] = (", ", ": "),
    ordered: bool = False,
) -> str:
    """Serialise a value. Non-ASCII text is kept, except surrogates and unusual line breaks."""
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
    """Serialise a value as a file, indented by two spaces, with members in their given order."""
    return dump_json(check_json(value, nul=nul), indent="  ", separators=(",", ": ")) + "\n"


def dump_line(value: object, *, nul: bool = False, ordered: bool = False) -> str:
    """Serialise a value as one line. If `ordered` is set, members are sorted."""
    return dump_json(check_json(value, nul=nul), separators=(",", ":"), ordered=ordered) + "\n"


def same_json(one: object, other: object) -> bool:
    """Return whether two values serialise to the same JSON.

    Unlike in Python, 1, 1.0 and true are three different values.
    """
    try:
        return one is other or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # not JSON: `check_json` explains it
        return False
