"""Readers of the configuration files: YAML and KEY=VALUE, with the line of every value, and TOML.

A value has the type that its key declares; a mismatch is reported with file and line.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, cast

from ralph.errors import ConfigError
from ralph.formats.text import BOM, Problem

FLOW_ROOT = "flow-root"
Value = str | int | float | bool | None | tuple["ConfigNode", ...] | Mapping[str, "ConfigNode"]

_DEPTH = 50
_UNPRINTABLE = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
)
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,3})?")
_TRUE = {"true", "yes", "on"}
_FALSE = {"false", "no", "off"}
_NULL = {"", "~", "null"}
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_SHELL_PIECE = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^\s'\"\\;&|<>()]+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A value and its key with their positions; `shared` ones (anchor, tag) must not be edited."""

    value: Value
    line: int = 0
    source: str = ""
    start: int = 0
    end: int = 0
    key_start: int = 0
    key_end: int = 0
    style: str = ""
    shared: bool = False


class ParsedConfig(NamedTuple):
    """A file's root mapping and its problems."""

    entries: Mapping[str, ConfigNode]
    problems: tuple[Problem, ...] = ()


def config_node(value: object, line: int = 0) -> ConfigNode:
    """A Python value as a tree; an unknown type becomes its text."""
    if isinstance(value, Mapping):
        return ConfigNode(
            {str(name): config_node(item, line) for name, item in value.items()}, line
        )
    if isinstance(value, list | tuple):
        return ConfigNode(tuple(config_node(item, line) for item in value), line)
    if isinstance(value, str | int | float | None):
        return ConfigNode(value, line)
    return ConfigNode(str(value), line)


class YamlError(ValueError):
    """A text is not YAML: at which line, and why."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def parse_yaml(text: str, where: str) -> ParsedConfig:
    """The settings of a YAML text; ConfigError with `where:line`."""
    try:
        root, problems = read_yaml(text.removeprefix(BOM))
    except YamlError as error:
        hint = "mend this line, or quote a value that has special characters"
        raise ConfigError(f"{where}:{error.line}: not valid YAML: {error}", hint=hint) from error
    if root.value is None:
        return ParsedConfig({}, ())
    if not isinstance(root.value, Mapping):
        message = f"{where}:{root.line}: expected settings, got {_describe_value(root)}"
        raise ConfigError(message, hint="write `key: value` lines; see `ralph config`")
    if root.style != "block" or root.shared:
        problems.append(Problem(root.line, "the file is one flow value", "", "note", FLOW_ROOT))
    return ParsedConfig(root.value, tuple(problems))


def read_yaml(text: str) -> tuple[ConfigNode, list[Problem]]:
    """The root of a YAML text with all positions, and duplicate keys as problems."""
    breaks = [match.start() for match in re.finditer("\n", text)]
    problems: list[Problem] = []
    composed: set[int] = set()

    def line(index: int) -> int:
        return bisect_left(breaks, index) + 1

    def error(index: int, what: str) -> YamlError:
        return YamlError(line(index), " ".join(what.split()))

    def convert(node: Any, depth: int) -> ConfigNode:
        start = node.start_mark.index
        end = node.end_mark.index
        if id(node) in composed:  # aliases of aliases would grow without bound
            raise error(
                start,
                "an alias repeats this value, and aliases are not read here: write the value itself",
            )
        if depth > _DEPTH:
            raise error(start, f"nested deeper than {_DEPTH} levels")
        composed.add(id(node))
        shared = text[start : start + 1] in ("&", "!")  # an anchor or a tag
        if isinstance(node.value, str):
            style = {None: "plain", "": "plain", "|": "literal", ">": "literal"}.get(
                node.style, "quoted"
            )
            value: Value = (
                parse_scalar(node.value) if style == "plain" and not shared else node.value
            )
            return ConfigNode(
                value, line(start), node.value, start, end, style=style, shared=shared
            )
        if node.id == "sequence":
            items = [convert(item, depth + 1) for item in node.value]
            value = tuple(items)
        else:
            items = []
            value = {}
            for key, item in (
                (convert(key, depth + 1), convert(item, depth + 1)) for key, item in node.value
            ):
                if isinstance(key.value, tuple | Mapping):
                    raise error(key.start, "a key must be a word, not a list or mapping")
                if (name := key.source) in value:
                    what = f"{name}: also at line {value[name].line}; the last one counts"
                    problems.append(
                        Problem(key.line, what, "remove one of them", code="duplicate-key")
                    )
                is_shared = item.shared or key.shared
                value[name] = replace(
                    item, line=key.line, key_start=key.start, key_end=key.end, shared=is_shared
                )
                items.append(item)
        end = items[-1].end if items and not node.flow_style else end
        style = "flow" if node.flow_style else "block"
        return ConfigNode(value, line(start), start=start, end=end, style=style, shared=shared)

    if (forbidden := _UNPRINTABLE.search(text)) is not None:
        raise error(
            forbidden.start(), f"the character U+{ord(forbidden[0]):04X} is not allowed in it"
        )
    if all(each.lstrip(" ")[:1] in ("", "#") for each in text.splitlines()):
        return ConfigNode(
            None
        ), []  # a file as `ralph init` makes it, in which nobody has set anything yet
    import yaml

    try:
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        raise error(
            mark.index if mark else 0, failure.problem or failure.context or ""
        ) from failure
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as failure:
        raise error(0, str(failure)) from failure
    return convert(root, 1) if root is not None else ConfigNode(None), problems


def parse_scalar(text: str) -> str | int | float | bool | None:
    """The value of an unquoted word."""
    if (word := text.lower()) in _NULL:
        return None
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    return float(text) if _FLOAT.fullmatch(text) else text


def _describe_value(node: ConfigNode) -> str:
    if isinstance(node.value, Mapping):
        return "a mapping"
    if isinstance(node.value, tuple):
        return "a list"
    if node.value is None:
        return "nothing"
    if isinstance(node.value, bool) and not node.source:
        return "true" if node.value else "false"
    text = repr(node.source or node.value)
    return text if len(text) <= 40 else text[:37] + "..."


def parse_toml(text: str, where: str) -> ParsedConfig:
    """The settings of a TOML text, without lines; ConfigError with `where:line`."""
    import tomllib

    body = text.removeprefix(BOM).replace("\r\n", "\n")
    try:
        table = tomllib.loads(body)
    except (ValueError, RecursionError) as error:
        match = re.search(r"\(at line (\d+)", str(error))
        line = int(match[1]) if match else body.count("\n") + 1
        what = " ".join(str(error).partition(" (at ")[0].split()) or "nested too deep"
        hint = "mend this line, or quote the value"
        raise ConfigError(f"{where}:{line}: not valid TOML: {what}", hint=hint) from error
    return ParsedConfig({name: config_node(value) for name, value in table.items()})


def parse_shell(text: str) -> tuple[tuple[str, ConfigNode], ...]:
    """The assignments of a shell file; None where a shell would have to expand."""
    assignments = []
    position = 0
    line = 1
    counted = 0
    while (match := _ASSIGNMENT.search(text, position)) is not None:
        line = line + text.count("\n", counted, match.start(1))
        counted = match.start(1)
        word = ""
        position = match.end()
        is_literal = True
        while (piece := _SHELL_PIECE.match(text, position)) is not None:
            single, double, escaped, unquoted = piece.groups()
            is_literal &= not re.search(r"[$`]", double or unquoted or "")
            word += (
                single or re.sub(r'\\([\\"$`\n])', r"\1", double or "") or escaped or unquoted or ""
            )
            position = piece.end()
        is_literal &= position == len(text) or text[position] in " \t\r\n;&|"
        assignments.append((match[1], ConfigNode(word if is_literal else None, line)))
    return tuple(assignments)


class ValueType(StrEnum):
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
class ConfigKey:
    """One setting: its name, what it must be, its default and one line about it."""

    name: str
    kind: ValueType
    default: object
    doc: str
    choices: tuple[StrEnum, ...] = ()
    lowest: float = 0
    highest: float = 10**12
    parts: tuple[ConfigKey, ...] = ()
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
        if self.kind not in (ValueType.NUMBER, ValueType.FRACTION):
            return self.kind.value
        upward = self.highest >= 10**12
        return (
            f"{self.kind.value} from {self.lowest:g} {'up' if upward else f'to {self.highest:g}'}"
        )


class ValueMismatch(Exception):
    """A value is not what its key expects; `ralph.config` knows the file."""

    def __init__(self, expected: str, node: ConfigNode) -> None:
        super().__init__(f"expected {expected}, got {_describe_value(node)}")
        self.line = node.line


def check_value(key: ConfigKey, node: ConfigNode) -> object:
    """The value for this key; ValueMismatch when it is not what it expects."""
    value = node.value
    check_item = _ITEM_CHECKS.get(key.kind)
    if check_item is not None and isinstance(value, tuple):
        return tuple(check_item(key, item) for item in value)
    if key.kind is ValueType.TEXT:
        return _check_text(key, node)
    if key.kind is ValueType.CHOICE:
        return _check_choice(key, node)
    if key.kind is ValueType.FLAG and isinstance(value, bool):
        return value
    types = {ValueType.NUMBER: int, ValueType.FRACTION: int | float}.get(key.kind)
    is_number = types is not None and isinstance(value, types) and not isinstance(value, bool)
    if is_number and key.lowest <= cast("float", value) <= key.highest:
        return value
    raise ValueMismatch(key.expected, node)


def _check_text(key: ConfigKey, node: ConfigNode) -> str:
    """Text as written: in YAML, `1.10` and `yes` are what was typed."""
    if isinstance(node.value, str) or (node.source and isinstance(node.value, int | float)):
        return node.source or str(node.value)
    raise ValueMismatch(key.expected, node)


def _check_choice(key: ConfigKey, node: ConfigNode) -> StrEnum:
    word = (node.source or str(node.value)).strip().lower()
    for choice in key.choices:
        if choice.value == word:
            return choice
    raise ValueMismatch(key.expected, node)


def _check_pattern(key: ConfigKey, node: ConfigNode) -> str:
    text = _check_text(key, node)
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueMismatch(f"a regular expression ({error})", node) from error
    return text


def _check_table(key: ConfigKey, node: ConfigNode) -> object:
    parts = {part.name: part for part in key.parts}
    first = key.parts[0].name
    members = node.value if isinstance(node.value, Mapping) else {first: node}
    for name, item in members.items():
        if name not in parts:
            raise ValueMismatch(f"one of the keys {', '.join(parts)}", ConfigNode(name, item.line))
    if first not in members:
        raise ValueMismatch(f"a mapping with {first}", node)
    return key.make(**{name: check_value(parts[name], item) for name, item in members.items()})


_ITEM_CHECKS: Mapping[ValueType, Callable[[ConfigKey, ConfigNode], object]] = {
    ValueType.TEXTS: _check_text,
    ValueType.CHOICES: _check_choice,
    ValueType.PATTERNS: _check_pattern,
    ValueType.TABLES: _check_table,
}
