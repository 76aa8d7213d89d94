"""JSON with its places: where each value of a text stands, so that an edit can touch one of them.

`json` forgets what a person sees in the file: indentation, key order, `1.0` against `1`, a key
that stands twice. So `read` gives a tree of Nodes with their places; `jsonedit.py` changes one.
Scalars are left to the C scanner; the containers are walked with a list instead of recursion,
so that a deep text is a Problem and not a RecursionError, and the time is linear. `Fields`
reads an object's members by type: what has the wrong type is told, stays in the text, and
counts as absent.
`tests/formats/test_jsontext.py` edits random texts and compares with `json.loads`.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ralph.errors import Unreadable
from ralph.formats.document import Problem

MAX_DEPTH = 200
"""Containers within containers that are read or written; people's files have five."""

BOM = "\ufeff"

_SPACE = re.compile(r"[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_AFTER = re.compile(r"[ \t\n\r]*([,\]}]?)[ \t\n\r]*")  # what stands after a value; matches everywhere
_CONFLICT = re.compile(r"^(?:<{7} |>{7} |={7}\r?$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Node:
    """One JSON value: its place `text[start:end]`, what it means, and for containers their children."""

    start: int
    end: int
    value: object
    members: tuple["Member", ...] = ()
    items: tuple["Node", ...] = ()

    @property
    def children(self) -> Sequence["Member | Node"]:
        """The members of an object or the elements of an array, each with `start` and `end`."""
        return self.members or self.items

    def get(self, key: str) -> "Node | None":
        """The value of a member, or None; of a key that stands twice the last one, as `json` has it."""
        return next((member.node for member in reversed(self.members) if member.key == key), None)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: it starts at its key and ends with its value."""

    key: str
    start: int
    key_end: int
    node: Node

    @property
    def end(self) -> int:
        """Where the value ends."""
        return self.node.end


class Lines:
    """The line number (from 1) of any place in a text."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def __call__(self, place: int) -> int:
        """The line on which this place stands."""
        return bisect_left(self._ends, place) + 1


# --- reading -----------------------------------------------------------------------------------


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


DECODER = json.JSONDecoder(parse_constant=_no_constant)
"""Reads one value at a place; NaN and Infinity, which only Python accepts, are refused."""
LENIENT = json.JSONDecoder(parse_constant=lambda _: None)
"""The same for what a host wrote into a log: there NaN and Infinity are no number, and no reason to lose a line."""


@dataclass(slots=True)
class _Open:
    """A container whose end has not been seen yet."""

    start: int
    closer: str
    members: list[Member] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)
    key: tuple[str, int, int] = ("", 0, 0)

    def take(self, node: Node) -> None:
        if self.closer == "}":
            self.members.append(Member(*self.key, node))
        else:
            self.items.append(node)

    def closed(self, end: int) -> Node:
        if self.closer == "}":
            values = {member.key: member.node.value for member in self.members}
            return Node(self.start, end, values, members=tuple(self.members))
        return Node(self.start, end, [item.value for item in self.items], items=tuple(self.items))


def skip_blanks(text: str, place: int) -> int:
    """The next place that is not white space."""
    match = _SPACE.match(text, place)
    return match.end() if match else place


def _scalar(text: str, place: int) -> tuple[object, int]:
    try:
        return DECODER.raw_decode(text, place)
    except json.JSONDecodeError:
        raise
    except ValueError as error:  # a constant such as NaN, or a number of thousands of digits
        raise json.JSONDecodeError(str(error).partition(";")[0], text, place) from error


def _to_value(text: str, place: int, frame: _Open) -> int:
    """Where the next value of this container starts; an object's key and colon stand before it."""
    if frame.closer == "]":
        return place
    if not text.startswith('"', place):
        raise json.JSONDecodeError("expected a key in double quotes", text, place)
    key, end = _scalar(text, place)
    frame.key = (str(key), place, end)
    colon = _COLON.match(text, end)
    if colon is None:
        raise json.JSONDecodeError("expected a colon after the key", text, skip_blanks(text, end))
    return colon.end()


def _opened(text: str, place: int, depth: int) -> _Open | None:
    """The container that starts at this place, if one does."""
    closer = {"{": "}", "[": "]"}.get(text[place : place + 1])
    if closer is None:
        return None
    if depth >= MAX_DEPTH:
        raise json.JSONDecodeError(f"nested deeper than {MAX_DEPTH} levels", text, place)
    return _Open(place, closer)


def _tree(text: str) -> Node:
    stack: list[_Open] = []
    place = skip_blanks(text, 1 if text.startswith(BOM) else 0)
    while True:
        frame = _opened(text, place, len(stack))
        if frame is None:
            value, end = _scalar(text, place)
            node = Node(place, end, value)
        else:
            place = skip_blanks(text, place + 1)
            if not text.startswith(frame.closer, place):
                stack.append(frame)
                place = _to_value(text, place, frame)
                continue
            end = place + 1
            node = frame.closed(end)
        while stack:  # the value is complete: give it to its container, and close what ends here
            frame = stack[-1]
            frame.take(node)
            after = _AFTER.match(text, end)
            char = after[1] if after else ""
            if after and char == ",":
                place = _to_value(text, after.end(), frame)
                break
            if after is None or char != frame.closer:
                raise json.JSONDecodeError(f"expected a comma or {frame.closer}", text, skip_blanks(text, end))
            stack.pop()
            end = after.end(1)
            node = frame.closed(end)
        else:
            if (rest := skip_blanks(text, end)) != len(text):
                raise json.JSONDecodeError("something stands after the end of the value", text, rest)
            return node


def read(text: str) -> Node | Problem:
    """The value that a text holds, with all places; a Problem when it is not JSON."""
    try:
        return _tree(text)
    except json.JSONDecodeError as error:
        conflict = _CONFLICT.search(text)
        if conflict is not None:
            line = text.count("\n", 0, conflict.start()) + 1
            hint = "choose a side, delete the marker lines, and save the file"
            return Problem(line, "a git conflict marker stands in this JSON file", hint, "error", "conflict-marker")
        what = f"this is not JSON: {error.msg} (column {error.colno})"
        hint = "mend the file by hand; until then it is left as it is and not read"
        return Problem(error.lineno, what, hint, "error", "not-json")


def is_blank(text: str) -> bool:
    """Whether a text holds nothing at all (a byte order mark does not count)."""
    return skip_blanks(text, 1 if text.startswith(BOM) else 0) == len(text)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems in file order."""
    return tuple(sorted(problems, key=lambda problem: problem.line))


def unreadable(problems: Sequence[Problem]) -> Unreadable:
    """The error for an edit of a text that could not be read: its first serious Problem."""
    serious = [problem for problem in problems if problem.level == "error"] or problems
    if not serious:
        return Unreadable("this file does not have the shape that it should have")
    return Unreadable(f"line {serious[0].line}: {serious[0].what}", hint=serious[0].hint)


# --- members by type ---------------------------------------------------------------------------

_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
}


class Fields:
    """Typed reading of one object's members; what is odd goes to the list of problems."""

    def __init__(self, node: Node, line_of: Callable[[int], int], problems: list[Problem]) -> None:
        self.node = node
        self._line_of = line_of
        self._problems = problems
        self._nodes: dict[str, Node] = {}
        for member in node.members:
            if member.key in self._nodes:
                what = f"the key `{member.key}` stands twice in one object; the last one counts"
                self.tell(member.start, what, "delete the one that is wrong", code="duplicate-key")
            self._nodes[member.key] = member.node

    def tell(self, place: int, what: str, hint: str, level: str = "warning", code: str = "") -> None:
        """Adds a Problem at a place of the text."""
        self._problems.append(Problem(self._line_of(place), what, hint, level, code))

    def _wrong(self, key: str, node: Node, expected: str) -> None:
        found = _NAMES.get(type(node.value), "null")
        what = f"`{key}` should be {expected}, but is {found}"
        self.tell(node.start, what, f"write {expected}; the value is kept but not used", code="wrong-type")

    def present(self, key: str) -> Node | None:
        """The node of a member, None when it is not there or null."""
        node = self._nodes.get(key)
        return node if node is not None and node.value is not None else None

    def text(self, key: str) -> str | None:
        """A text member."""
        node = self.present(key)
        if node is None or isinstance(node.value, str):
            return None if node is None else str(node.value)
        self._wrong(key, node, "text")
        return None

    def number(self, key: str) -> int | None:
        """A whole number, however it is spelled (3, 3.0, 3e0)."""
        node = self.present(key)
        if node is None:
            return None
        if isinstance(node.value, int) and not isinstance(node.value, bool):
            return node.value
        if isinstance(node.value, float) and node.value.is_integer():
            return int(node.value)
        self._wrong(key, node, "a whole number")
        return None

    def flag(self, key: str) -> bool | None:
        """A member that is true or false."""
        node = self.present(key)
        if node is None or isinstance(node.value, bool):
            return None if node is None else bool(node.value)
        self._wrong(key, node, "true or false")
        return None

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; elements of another type are told and left out."""
        node = self.present(key)
        if node is None or not isinstance(node.value, list):
            if node is not None:
                self._wrong(key, node, "a list of texts")
            return ()
        for item in node.items:
            if not isinstance(item.value, str):
                self._wrong(f"{key}[]", item, "text")
        return tuple(value for value in node.value if isinstance(value, str))

    def inner(self, key: str) -> "Fields | None":
        """The members of a member that is an object."""
        node = self.present(key)
        if node is None or isinstance(node.value, dict):
            return None if node is None else Fields(node, self._line_of, self._problems)
        self._wrong(key, node, "an object")
        return None

    def items(self, key: str, expected: str) -> tuple[Node, ...] | None:
        """The elements of a list, None when it is not there or not a list."""
        node = self.present(key)
        if node is None or isinstance(node.value, list):
            return None if node is None else node.items
        self._wrong(key, node, expected)
        return None

    def rest(self, known: Collection[str]) -> dict[str, object]:
        """The members that the format does not name, with their values, in file order."""
        return {key: node.value for key, node in self._nodes.items() if key not in known}
