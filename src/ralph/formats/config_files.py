"""Readers of the configuration files: YAML, TOML and KEY=VALUE, with the line of every value.

A value has the type that its key declares; a mismatch is reported with file and line.
"""

import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, cast

from ralph.errors import ConfigError
from ralph.formats.text import Problem

if TYPE_CHECKING:
    from yaml.events import Event, ScalarEvent

BOM = "\ufeff"
FLOW_ROOT = "flow-root"
Value = str | int | float | bool | None | tuple["ConfigNode", ...] | Mapping[str, "ConfigNode"]

_DEPTH = 50
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,3})?")
_TRUE, _FALSE, _NULL = {"true", "yes", "on"}, {"false", "no", "off"}, {"", "~", "null"}
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_SHELL_PIECE = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^\s'\"\\;&|<>()]+)", re.DOTALL)
_TOML_LINE = re.compile(r"[ \t]*(?:\[\[?[ \t]*([\w.-]+)[ \t]*\]|([\w.-]+)[ \t]*=)")


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A value and where it stands: `text[start:end]`, under the key at `text[key_start:key_end]`.

    `source` is a YAML scalar as written; `style` is plain, quoted, literal, flow or block;
    `shared` says that an anchor, alias, tag or merge is involved, so it must not be edited.
    """

    value: Value
    line: int = 0
    source: str = ""
    start: int = 0
    end: int = 0
    key_start: int = 0
    key_end: int = 0
    style: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """A file's root mapping and what is odd in it."""

    entries: Mapping[str, ConfigNode]
    problems: tuple[Problem, ...] = ()


def config_node(value: object, line: int = 0) -> ConfigNode:
    """A plain Python value as a tree; what has no place in settings becomes its text."""
    if isinstance(value, Mapping):
        return ConfigNode({str(name): config_node(item, line) for name, item in value.items()}, line)
    if isinstance(value, list | tuple):
        return ConfigNode(tuple(config_node(item, line) for item in value), line)
    if isinstance(value, str | int | float | None):
        return ConfigNode(value, line)
    return ConfigNode(str(value), line)


def parse_yaml(text: str, where: str) -> ParsedConfig:
    """The settings of a YAML text; ConfigError with `where:line` when it is not YAML."""
    return _Builder(text.removeprefix(BOM), where).build()


class _Builder:
    """Takes events one by one; an open mapping's items are key, value, key, value."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.breaks = [match.start() for match in re.finditer("\n", text)]
        self.anchors: dict[str, ConfigNode] = {}
        self.problems: list[Problem] = []
        self.stack: list[tuple[Event, list[ConfigNode]]] = []
        self.roots: list[ConfigNode] = []

    def line(self, index: int) -> int:
        return bisect_left(self.breaks, index) + 1

    def wrong(self, index: int, what: str) -> ConfigError:
        message = f"{self.where}:{self.line(index)}: not valid YAML: {' '.join(what.split())}"
        return ConfigError(message, hint="mend this line, or quote a value that has special characters")

    def build(self) -> ParsedConfig:
        bad = _UNPRINTABLE.search(self.text)
        if bad is not None:
            raise self.wrong(bad.start(), f"the character U+{ord(bad[0]):04X} may not stand in it")
        for event in self.events():
            self.take(event)
        root = self.roots[0] if self.roots else ConfigNode(None)
        if root.value is None:
            return ParsedConfig({}, ())
        if not isinstance(root.value, Mapping):
            message = f"{self.where}:{root.line}: expected settings, got {describe_value(root)}"
            raise ConfigError(message, hint="write `key: value` lines; see `ralph config show`")
        if root.style != "block" or root.shared:
            self.problems.append(Problem(root.line, "the file is one flow value", "", "note", FLOW_ROOT))
        return ParsedConfig(root.value, tuple(self.problems))

    def events(self) -> Iterator["Event"]:
        if all(line.lstrip(" ")[:1] in ("", "#") for line in self.text.splitlines()):
            return  # a file as `ralph init` makes it, in which nobody has set anything yet
        import yaml  # noqa: PLC0415 - 15 ms that only a project with a YAML file should pay

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            yield from yaml.parse(self.text, Loader=loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self.wrong(mark.index if mark else 0, error.problem or error.context or "") from error
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            raise self.wrong(0, str(error)) from error

    def take(self, event: "Event") -> None:
        kind = type(event).__name__
        start, end = _span(event)
        if kind == "DocumentStartEvent" and self.roots:
            raise self.wrong(start, "a second document begins here; one file holds one document")
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            self.stack.append((event, []))
            if len(self.stack) > _DEPTH:
                raise self.wrong(start, f"nested deeper than {_DEPTH} levels")
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            opened, items = self.stack.pop()
            self.put(self.closed(opened, items, end), getattr(opened, "anchor", None))
        elif kind == "ScalarEvent":
            self.put(self.scalar(cast("ScalarEvent", event), start, end), getattr(event, "anchor", None))
        elif kind == "AliasEvent":
            name = str(getattr(event, "anchor", ""))
            if name not in self.anchors:
                raise self.wrong(start, f"*{name} stands for nothing above it")
            known = self.anchors[name]
            self.put(replace(known, line=self.line(start), start=start, end=end, shared=True), None)

    def put(self, node: ConfigNode, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node = replace(node, shared=True)
        (self.stack[-1][1] if self.stack else self.roots).append(node)

    def scalar(self, event: "ScalarEvent", start: int, end: int) -> ConfigNode:
        style = {None: "plain", "": "plain", "|": "literal", ">": "literal"}.get(event.style, "quoted")
        tagged = event.tag is not None
        value = parse_scalar(event.value) if style == "plain" and not tagged else event.value
        return ConfigNode(value, self.line(start), event.value, start, end, style=style, shared=tagged)

    def closed(self, event: "Event", items: list[ConfigNode], end: int) -> ConfigNode:
        start, _ = _span(event)
        flow = bool(getattr(event, "flow_style", False))
        return ConfigNode(
            self.mapping(items) if "Mapping" in type(event).__name__ else tuple(items),
            self.line(start),
            start=start,
            end=items[-1].end if items and not flow else end,
            style="flow" if flow else "block",
            shared=getattr(event, "tag", None) is not None,
        )

    def mapping(self, items: list[ConfigNode]) -> Mapping[str, ConfigNode]:
        found: dict[str, ConfigNode] = {}
        merged: list[ConfigNode] = []
        for key, item in zip(items[::2], items[1::2], strict=True):
            if isinstance(key.value, tuple | Mapping):
                raise self.wrong(key.start, "a key must be a word, not a list or mapping")
            if key.source == "<<" and key.style == "plain":
                merged.append(item)
                continue
            if key.source in found:
                what = f"{key.source}: also at line {found[key.source].line}; the last one counts"
                self.problems.append(Problem(key.line, what, "remove one of them", code="duplicate-key"))
            spot = replace(item, line=key.line, key_start=key.start, key_end=key.end)
            found[key.source] = replace(spot, shared=True) if key.shared else spot
        for item in merged:
            self.merge(found, item)
        return found

    def merge(self, found: dict[str, ConfigNode], item: ConfigNode) -> None:
        for source in item.value if isinstance(item.value, tuple) else (item,):
            if not isinstance(source.value, Mapping):
                raise self.wrong(item.start, "`<<` takes a mapping or a list of mappings")
            for name, node in source.value.items():
                found.setdefault(name, replace(node, shared=True))


def _span(event: "Event") -> tuple[int, int]:
    return (event.start_mark.index if event.start_mark else 0, event.end_mark.index if event.end_mark else 0)


def parse_scalar(text: str) -> str | int | float | bool | None:
    """What a word means when nothing says that it is text."""
    if (word := text.lower()) in _NULL:
        return None
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    return float(text) if _FLOAT.fullmatch(text) else text


def describe_value(node: ConfigNode) -> str:
    """A value in a few words, for "expected ..., got ..."."""
    if isinstance(node.value, Mapping):
        return "a mapping"
    if isinstance(node.value, tuple):
        return "a list"
    if node.value is None:
        return "nothing"
    if isinstance(node.value, bool) and not node.source:
        return "true" if node.value else "false"
    shown = repr(node.source or node.value)
    return shown if len(shown) <= 40 else shown[:37] + "..."


def parse_toml(text: str, where: str) -> ParsedConfig:
    """The settings of a TOML text; ConfigError with `where:line` when it is not TOML."""
    import tomllib  # noqa: PLC0415 - only a project with a TOML file should pay for it

    body = text.removeprefix(BOM).replace("\r\n", "\n")
    try:
        entries = _toml_nodes(tomllib.loads(body), "", _toml_lines(body))
    except (ValueError, RecursionError) as error:
        found = re.search(r"\(at line (\d+)", str(error))
        line = int(found[1]) if found else body.count("\n") + 1
        what = " ".join(str(error).partition(" (at ")[0].split()) or "nested too deep"
        hint = "mend this line, or quote the value"
        raise ConfigError(f"{where}:{line}: not valid TOML: {what}", hint=hint) from error
    return ParsedConfig(entries)


def _toml_nodes(table: Mapping[str, object], prefix: str, lines: Mapping[str, int]) -> dict[str, ConfigNode]:
    nodes = {}
    for name, value in table.items():
        here = f"{prefix}.{name}" if prefix else name
        line = lines.get(here, lines.get(prefix, 1))
        inner = _toml_nodes(value, here, lines) if isinstance(value, Mapping) else None
        nodes[name] = config_node(value, line) if inner is None else ConfigNode(inner, line)
    return nodes


def _toml_lines(text: str) -> dict[str, int]:
    """The line of every bare key (tomllib does not tell); what it misses gets its section's line."""
    lines: dict[str, int] = {}
    header = ""
    for number, line in enumerate(text.split("\n"), 1):
        if (match := _TOML_LINE.match(line)) is not None:
            header = match[1] or header
            lines.setdefault(match[1] or f"{header}.{match[2]}".removeprefix("."), number)
    return lines


def parse_shell(text: str) -> tuple[tuple[str, ConfigNode], ...]:
    """The assignments of a shell file, in order; the value is None where it is not a literal."""
    found, position, line, counted = [], 0, 1, 0
    while (match := _ASSIGNMENT.search(text, position)) is not None:
        line, counted = line + text.count("\n", counted, match.start(1)), match.start(1)
        value, position = _shell_word(text, match.end())
        found.append((match[1], ConfigNode(value, line)))
    return tuple(found)


def _shell_word(text: str, start: int) -> tuple[str | None, int]:
    """The literal word at `start` and where it ends; None when a shell would have to work it out."""
    word, position, literal = "", start, True
    while (piece := _SHELL_PIECE.match(text, position)) is not None:
        single, double, escaped, bare = piece.groups()
        literal &= not re.search(r"[$`]", double or bare or "")
        word += single or re.sub(r'\\([\\"$`\n])', r"\1", double or "") or escaped or bare or ""
        position = piece.end()
    ends_well = position == len(text) or text[position] in " \t\r\n;&|"
    return (word if literal and ends_well else None), position


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
    """One setting: its name in the files, what it must be, its default and one line about it."""

    name: str
    kind: ValueType
    default: object
    doc: str
    choices: tuple[StrEnum, ...] = ()
    lowest: float = 0
    highest: float = 10**12
    parts: tuple["ConfigKey", ...] = ()
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
        return f"{self.kind.value} from {self.lowest:g} {'up' if upward else f'to {self.highest:g}'}"


class ValueMismatch(Exception):
    """A value is not what its key expects; `ralph.config` knows the file and makes an error of it."""

    def __init__(self, expected: str, node: "ConfigNode") -> None:
        super().__init__(f"expected {expected}, got {describe_value(node)}")
        self.line = node.line


def check_value(key: ConfigKey, node: ConfigNode) -> object:
    """The value for this key; Mismatch when the node is not what it expects."""
    value, many = node.value, _EACH.get(key.kind)
    if many is not None and isinstance(value, tuple):
        return tuple(many(key, item) for item in value)
    if key.kind is ValueType.TEXT:
        return _text(key, node)
    if key.kind is ValueType.CHOICE:
        return _choice(key, node)
    if key.kind is ValueType.FLAG and isinstance(value, bool):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if key.kind is ValueType.NUMBER and number and isinstance(value, int) and key.lowest <= value <= key.highest:
        return value
    if key.kind is ValueType.FRACTION and number and key.lowest <= cast("float", value) <= key.highest:
        return value
    raise ValueMismatch(key.expected, node)


def _text(key: ConfigKey, node: ConfigNode) -> str:
    """Text as written: in YAML, `1.10` and `yes` are what their author typed."""
    if isinstance(node.value, str) or (node.source and isinstance(node.value, int | float)):
        return node.source or str(node.value)
    raise ValueMismatch(key.expected, node)


def _choice(key: ConfigKey, node: ConfigNode) -> StrEnum:
    word = (node.source or str(node.value)).strip().lower()
    found = [choice for choice in key.choices if choice.value == word]
    if not found:
        raise ValueMismatch(key.expected, node)
    return found[0]


def _pattern(key: ConfigKey, node: ConfigNode) -> str:
    text = _text(key, node)
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueMismatch(f"a regular expression ({error})", node) from error
    return text


def _table(key: ConfigKey, node: ConfigNode) -> object:
    """One mapping of a list; a bare word is its first part."""
    known = {part.name: part for part in key.parts}
    first = key.parts[0].name
    given = node.value if isinstance(node.value, Mapping) else {first: node}
    unknown = [ConfigNode(name, item.line) for name, item in given.items() if name not in known]
    if unknown:
        raise ValueMismatch(f"one of the keys {', '.join(known)}", unknown[0])
    if first not in given:
        raise ValueMismatch(f"a mapping with {first}", node)
    return key.make(**{name: check_value(known[name], item) for name, item in given.items()})


_EACH: Mapping[ValueType, Callable[[ConfigKey, ConfigNode], object]] = {
    ValueType.TEXTS: _text, ValueType.CHOICES: _choice, ValueType.PATTERNS: _pattern, ValueType.TABLES: _table,
}  # fmt: skip
