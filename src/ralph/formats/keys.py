"""What a value must be: a Key says it, `check` gives the value or a Mismatch, which knows its line.

The rules are apart from the reading of files (`settings.py`): they see a tree of Nodes, whatever kind of
file it came from. `tests/formats/test_settings.py` proves that no text gives anything else.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from ralph.formats.settings import Node, described


class Kind(StrEnum):
    """What a key's value must be."""

    FLAG = "true or false"
    NUMBER = "a whole number"
    FRACTION = "a number"
    TEXT = "text"
    CHOICE = "one"
    TEXTS = "a list of texts"
    CHOICES = "a list"
    PATTERNS = "a list of regular expressions"
    TABLES = "a list of mappings"


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: its name in the files, what it must be, its default and one line about it."""

    name: str
    kind: Kind
    default: object
    doc: str
    choices: tuple[StrEnum, ...] = ()
    lowest: float = 0
    highest: float = 10**12
    parts: tuple["Key", ...] = ()
    make: Callable[..., object] = dict
    ignored: bool = False
    personal: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return "RALPH_" + self.name.upper().replace(".", "_")

    @property
    def expected(self) -> str:
        """What the value must be, in words."""
        if self.choices:
            return f"{self.kind.value} of {', '.join(self.choices)}"
        if self.kind not in (Kind.NUMBER, Kind.FRACTION):
            return self.kind.value
        upward = self.highest >= 10**12
        return f"{self.kind.value} from {self.lowest:g} {'up' if upward else f'to {self.highest:g}'}"


class Mismatch(Exception):
    """A value is not what its key expects; `ralph.config` knows the file and makes an error of it."""

    def __init__(self, expected: str, node: "Node") -> None:
        super().__init__(f"expected {expected}, got {described(node)}")
        self.line = node.line


def check(key: Key, node: Node) -> object:
    """The value for this key; Mismatch when the node is not what it expects."""
    value, many = node.value, _EACH.get(key.kind)
    if many is not None and isinstance(value, tuple):
        return tuple(many(key, item) for item in value)
    if key.kind is Kind.TEXT:
        return _text(key, node)
    if key.kind is Kind.CHOICE:
        return _choice(key, node)
    if key.kind is Kind.FLAG and isinstance(value, bool):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key.kind is Kind.NUMBER and number and isinstance(value, int) and key.lowest <= value <= key.highest:
        return value
    if key.kind is Kind.FRACTION and number and key.lowest <= cast("float", value) <= key.highest:
        return value
    raise Mismatch(key.expected, node)


def _text(key: Key, node: Node) -> str:
    """Text as written: in YAML, `1.10` and `yes` are what their author typed."""
    if isinstance(node.value, str) or (node.source and isinstance(node.value, int | float)):
        return node.source or str(node.value)
    raise Mismatch(key.expected, node)


def _choice(key: Key, node: Node) -> StrEnum:
    word = (node.source or str(node.value)).strip().lower()
    found = [choice for choice in key.choices if choice.value == word]
    if not found:
        raise Mismatch(key.expected, node)
    return found[0]


def _pattern(key: Key, node: Node) -> str:
    text = _text(key, node)
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise Mismatch(f"a regular expression ({error})", node) from error
    return text


def _table(key: Key, node: Node) -> object:
    """One mapping of a list; a bare word is its first part."""
    known = {part.name: part for part in key.parts}
    first = key.parts[0].name
    given = node.value if isinstance(node.value, Mapping) else {first: node}
    unknown = [Node(name, item.line) for name, item in given.items() if name not in known]
    if unknown:
        raise Mismatch(f"one of the keys {', '.join(known)}", unknown[0])
    if first not in given:
        raise Mismatch(f"a mapping with {first}", node)
    return key.make(**{name: check(known[name], item) for name, item in given.items()})


_EACH: Mapping[Kind, Callable[[Key, Node], object]] = {
    Kind.TEXTS: _text, Kind.CHOICES: _choice, Kind.PATTERNS: _pattern, Kind.TABLES: _table,
}  # fmt: skip
