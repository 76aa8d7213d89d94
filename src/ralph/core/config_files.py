"""Read configuration files in YAML, TOML and shell syntax (`KEY=VALUE`).

Values carry their line numbers. Every value must have the type that its key declares, and a
mismatch is reported with the file and the line.
"""

from __future__ import annotations

import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, cast

from ralph.core.documents import Problem
from ralph.core.errors import ConfigError
from ralph.core.text import BOM

FLOW_ROOT = "flow-root"
Value = str | int | float | bool | None | tuple["ConfigNode", ...] | Mapping[str, "ConfigNode"]

MAX_FILE_BYTES = 64 * 1024  # of a config file; a larger one is not parsed
_MAX_DEPTH = 20  # levels of nested containers
_MAX_SHOWN_VALUE = 40  # characters of a value that an error shows
_NO_LIMIT = 10**12  # the maximum for a setting without a limit of its own
_UNPRINTABLE = "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]"
_INT = r"[-+]?(?:0|[1-9][0-9_]{0,17})"
_FLOAT = r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,3})?"
_TRUE = {"true", "yes", "on"}
_FALSE = {"false", "no", "off"}
_NULL = {"", "~", "null"}
_SCALAR_STYLES = {None: "plain", "": "plain", "|": "literal", ">": "literal"}
_TOML_HEADER = r"[ \t]*\[\[?([^\[\]#]+)\]"
_TOML_KEY = r"[ \t]*([A-Za-z0-9_\-.\"' \t]+?)[ \t]*="
_TOML_QUOTES = "\"{3}|'{3}"  # around text of several lines
_TOML_LINE = r"\(at line (\d+)"
_ASSIGNMENT = r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)="
_SHELL_PIECE = r"(?s)'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^\s'\"\\;&|<>()]+)"
_SHELL_ESCAPE = r'\\([\\"$`\n])'
_SHELL_EXPANSION = r"[$`]"


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A value and the positions of the value and its key.

    A `shared` node has an anchor or a tag and must not be edited.
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


class ParsedConfig(NamedTuple):
    """The root mapping of a file, and the problems found in it."""

    entries: Mapping[str, ConfigNode]
    problems: tuple[Problem, ...] = ()


def config_node(value: object, line: int = 0) -> ConfigNode:
    """Convert a Python value to a tree of nodes. A value of an unknown type becomes text."""
    if isinstance(value, Mapping):
        members = {str(name): config_node(item, line) for name, item in value.items()}
        return ConfigNode(members, line)
    if isinstance(value, list | tuple):
        return ConfigNode(tuple(config_node(item, line) for item in value), line)
    if isinstance(value, str | int | float | None):
        return ConfigNode(value, line)
    return ConfigNode(str(value), line)


# --- YAML --------------------------------------------------------------------------------------


class YamlError(ValueError):
    """The input is not valid YAML. `line` is where the error is."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


def check_size(size: int, where: str) -> None:
    """Raise ConfigError, which names `where:1`, if a config file of this size is too large."""
    if size > MAX_FILE_BYTES:
        raise ConfigError(
            f"{where}:1: larger than {MAX_FILE_BYTES // 1024} KB, so it is not read",
            hint="a config file contains settings only; move everything else out of it",
        )


def parse_yaml(text: str, where: str) -> ParsedConfig:
    """Parse YAML settings.

    Raises ConfigError, which names `where:line`, if the text is too large or not valid.
    """
    check_size(len(text), where)
    try:
        root, problems = read_yaml(text.removeprefix(BOM))
    except YamlError as error:
        raise ConfigError(
            f"{where}:{error.line}: not valid YAML: {error}",
            hint="fix this line, or quote a value that has special characters",
        ) from error
    if root.value is None:
        return ParsedConfig({}, ())
    if not isinstance(root.value, Mapping):
        raise ConfigError(
            f"{where}:{root.line}: expected settings, got {_describe_value(root)}",
            hint="write `key: value` lines; see `ralph config`",
        )
    if root.style != "block" or root.shared:
        problems.append(Problem(root.line, "the file is one flow value", "", "note", FLOW_ROOT))
    return ParsedConfig(root.value, tuple(problems))


def read_yaml(text: str) -> tuple[ConfigNode, list[Problem]]:
    """Parse YAML, and return the root with all positions and a problem for each duplicate key.

    Raises YamlError if the text is not valid YAML or uses aliases.
    """
    reader = _YamlReader(text)
    forbidden = re.search(_UNPRINTABLE, text)
    if forbidden is not None:
        what = f"the character U+{ord(forbidden[0]):04X} is not allowed in it"
        raise reader.error(forbidden.start(), what)
    # `ralph init` writes a file of comments only. Until something is set, YAML need not be loaded.
    if all(line.lstrip(" ")[:1] in ("", "#") for line in text.splitlines()):
        return ConfigNode(None), []
    root = reader.compose()
    if root is None:
        return ConfigNode(None), []
    node = reader.convert(root)
    return node, reader.problems


_MERGE_CONFLICT = "(?m)^(<{7}|={7}|>{7})"
_YAML_PROBLEMS = {
    "second occurrence": "an anchor (&name) that is already defined above",
    "found undefined alias": "an alias (*name) without an anchor (&name) above it",
    "did not find expected ',' or ']'": "a list that begins with [ and is not closed",
    "did not find expected ',' or '}'": "a section that begins with { and is not closed",
    "did not find expected node content": "a value that is missing, or a [ that is not closed",
    "found unexpected end of stream": "a quoted value that is not closed",
    "found character that cannot start any token": (
        "a tab in the indentation, or a value that must be quoted because it begins with @ or `"
    ),
    "mapping values are not allowed in this context": (
        "a second `key:` on the line, or an indentation that does not fit the lines above"
    ),
    "did not find expected key": (
        "an indentation that does not fit the lines above, or a quote inside a quoted value"
    ),
}
"""PyYAML's names for problems, in words that do not assume its grammar."""


class _YamlReader:
    """Converts PyYAML's node tree into nodes with values and positions."""

    def __init__(self, text: str) -> None:
        self.problems: list[Problem] = []
        self._text = text
        self._line_breaks = [match.start() for match in re.finditer("\n", text)]
        self._converted: set[int] = set()

    def compose(self) -> Any:
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            self._check_depth(yaml, loader)
            return yaml.compose(self._text, Loader=loader)
        except YamlError:
            raise
        except yaml.MarkedYAMLError as failure:
            conflict = re.search(_MERGE_CONFLICT, self._text)
            if conflict is not None:
                what = "a conflict of a git merge that is not resolved"
                raise self.error(conflict.start(), what) from failure
            mark = failure.problem_mark or failure.context_mark
            index = mark.index if mark else 0
            what = failure.problem or failure.context or ""
            raise self.error(index, _YAML_PROBLEMS.get(what, what)) from failure
        except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as failure:
            raise self.error(0, str(failure)) from failure

    def _check_depth(self, yaml: Any, loader: Any) -> None:
        """Raise YamlError if containers are nested too deeply.

        Composing nested containers is recursive in C and would end the process. Events are read one
        at a time.
        """
        depth = 0
        for event in yaml.parse(self._text, Loader=loader):
            if isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > _MAX_DEPTH:
                    what = f"nested deeper than {_MAX_DEPTH} levels"
                    raise self.error(event.start_mark.index, what)

    def error(self, index: int, what: str) -> YamlError:
        return YamlError(self._line_of(index), " ".join(what.split()))

    def _line_of(self, index: int) -> int:
        return bisect_left(self._line_breaks, index) + 1

    def convert(self, node: Any) -> ConfigNode:
        start = node.start_mark.index
        if id(node) in self._converted:  # aliases of aliases would grow without bound
            raise self.error(
                start,
                "an alias repeats this value, and aliases are not supported: "
                "write the value itself",
            )
        self._converted.add(id(node))
        if isinstance(node.value, str):
            return self._convert_scalar(node)
        value: Value
        if node.id == "sequence":
            items = [self.convert(item) for item in node.value]
            value = tuple(items)
        else:
            members = self._convert_members(node)
            items = list(members.values())
            value = members
        return ConfigNode(
            value,
            self._line_of(start),
            start=start,
            end=self._container_end(node, items),
            style="flow" if node.flow_style else "block",
            shared=self._is_shared(start),
        )

    def _convert_scalar(self, node: Any) -> ConfigNode:
        start = node.start_mark.index
        shared = self._is_shared(start)
        style = _SCALAR_STYLES.get(node.style, "quoted")
        value: Value = node.value
        if style == "plain" and not shared:
            value = parse_scalar(node.value)
        return ConfigNode(
            value,
            self._line_of(start),
            node.value,
            start,
            node.end_mark.index,
            style=style,
            shared=shared,
        )

    def _convert_members(self, node: Any) -> dict[str, ConfigNode]:
        members: dict[str, ConfigNode] = {}
        for key_node, item_node in node.value:
            key = self.convert(key_node)
            item = self.convert(item_node)
            if isinstance(key.value, tuple | Mapping):
                raise self.error(key.start, "a key must be a word, not a list or mapping")
            name = key.source
            previous = members.get(name)
            if previous is not None:
                what = f"{name}: also at line {previous.line}; the last one counts"
                self.problems.append(
                    Problem(key.line, what, "remove one of them", code="duplicate-key")
                )
            members[name] = replace(
                item,
                line=key.line,
                key_start=key.start,
                key_end=key.end,
                shared=item.shared or key.shared,
            )
        return members

    def _container_end(self, node: Any, items: list[ConfigNode]) -> int:
        """Return the end of a container. A block ends with its last value, not on a later line."""
        if items and not node.flow_style:
            return max(item.end for item in items)
        end: int = node.end_mark.index
        return end

    def _is_shared(self, start: int) -> bool:
        return self._text[start : start + 1] in ("&", "!")  # an anchor or a tag


def parse_scalar(text: str) -> str | int | float | bool | None:
    """Return the value that an unquoted YAML scalar stands for."""
    word = text.lower()
    if word in _NULL:
        return None
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    if re.fullmatch(_INT, text):
        return int(text.replace("_", ""))
    if re.fullmatch(_FLOAT, text):
        return float(text)
    return text


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
    if len(text) > _MAX_SHOWN_VALUE:
        text = text[: _MAX_SHOWN_VALUE - len("...")] + "..."
    return text


# --- TOML and shell ----------------------------------------------------------------------------


def parse_toml(text: str, where: str) -> ParsedConfig:
    """Parse TOML settings.

    Raises ConfigError, which names `where:line`, if the text is too large or not valid.
    """
    import tomllib

    check_size(len(text), where)
    body = text.removeprefix(BOM).replace("\r\n", "\n")
    try:
        table = tomllib.loads(body)
    except (ValueError, RecursionError) as error:
        match = re.search(_TOML_LINE, str(error))
        line = int(match[1]) if match else body.count("\n") + 1
        what = " ".join(str(error).partition(" (at ")[0].split()) or "nested too deeply"
        raise ConfigError(
            f"{where}:{line}: not valid TOML: {what}", hint="fix this line, or quote the value"
        ) from error
    lines = _toml_lines(body)
    return ParsedConfig({name: _toml_node(value, name, lines) for name, value in table.items()})


def _toml_node(value: object, path: str, lines: Mapping[str, int]) -> ConfigNode:
    """Convert a TOML value to nodes with the lines on which their keys are."""
    line = lines.get(path, 0)
    if not isinstance(value, Mapping):
        return config_node(value, line)
    members = {}
    for name, member in value.items():
        members[name] = _toml_node(member, f"{path}.{name}", lines)
    return ConfigNode(members, line)


def _toml_lines(body: str) -> dict[str, int]:
    """Return the line of each table and key in a valid TOML text, by its dotted name.

    `tomllib` does not tell. A key inside an inline table is not found.
    """
    lines: dict[str, int] = {}
    table = ""
    open_quotes = ""
    for number, line in enumerate(body.split("\n"), 1):
        if not open_quotes:
            header = re.match(_TOML_HEADER, line)
            key = re.match(_TOML_KEY, line)
            if header is not None:
                table = _toml_name(header[1])
                lines.setdefault(table, number)
            elif key is not None:
                lines.setdefault(_toml_name(f"{table}.{key[1]}".lstrip(".")), number)
        for quotes in re.findall(_TOML_QUOTES, line):
            if open_quotes == quotes:
                open_quotes = ""
            elif not open_quotes:
                open_quotes = quotes
    return lines


def _toml_name(name: str) -> str:
    return ".".join(part.strip(" \t\"'") for part in name.split("."))


class _ShellWord(NamedTuple):
    """The word assigned to a variable, where it ends, and whether it needs no expansion."""

    text: str
    end: int
    is_literal: bool


def parse_shell(text: str) -> tuple[tuple[str, ConfigNode], ...]:
    """Return the variable assignments in a shell file.

    The value is None where a shell would have to expand it.
    """
    assignment = re.compile(_ASSIGNMENT)
    assignments: list[tuple[str, ConfigNode]] = []
    position = 0
    line = 1
    counted_to = 0
    while True:
        match = assignment.search(text, position)
        if match is None:
            return tuple(assignments)
        line += text.count("\n", counted_to, match.start(1))
        counted_to = match.start(1)
        word = _read_shell_word(text, match.end())
        position = word.end
        assignments.append((match[1], ConfigNode(word.text if word.is_literal else None, line)))


def _read_shell_word(text: str, position: int) -> _ShellWord:
    shell_piece = re.compile(_SHELL_PIECE)
    word = ""
    is_literal = True
    while (piece := shell_piece.match(text, position)) is not None:
        single, double, escaped, unquoted = piece.groups()
        if double is not None:
            word += re.sub(_SHELL_ESCAPE, r"\1", double)
        else:
            word += single or escaped or unquoted or ""
        if re.search(_SHELL_EXPANSION, double or unquoted or ""):
            is_literal = False
        position = piece.end()
    if position < len(text) and text[position] not in " \t\r\n;&|":
        is_literal = False
    return _ShellWord(word, position, is_literal)


# --- settings ----------------------------------------------------------------------------------


class ValueType(StrEnum):
    """The types that a setting can have."""

    FLAG = "true or false"
    NUMBER = "a whole number"
    FRACTION = "a number"
    TEXT = "text"
    CHOICE = "one"
    TEXTS = "a list of strings"
    CHOICES = "a list"
    PATTERNS = "a list of regular expressions"
    PREFIXES = "a list of prefixes"
    TABLES = "a list of mappings"


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One setting, with its name, type, default, limits and a line of documentation."""

    name: str
    kind: ValueType
    default: object
    doc: str
    choices: tuple[StrEnum, ...] = ()
    lowest: float = 0
    highest: float = _NO_LIMIT
    parts: tuple[ConfigKey, ...] = ()
    make: Callable[..., object] = dict
    ignored: bool = False
    personal: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that overrides the setting."""
        return "RALPH_" + self.name.upper().replace(".", "_")

    @property
    def expected(self) -> str:
        """A description of the values that the setting accepts."""
        if self.choices:
            return f"{self.kind.value} of {', '.join(self.choices)}"
        if self.kind not in (ValueType.NUMBER, ValueType.FRACTION):
            return self.kind.value
        if self.highest >= _NO_LIMIT:
            return f"{self.kind.value} of at least {self.lowest:g}"
        return f"{self.kind.value} from {self.lowest:g} to {self.highest:g}"


class ValueMismatch(Exception):
    """A value does not have the type that its key declares.

    `ralph.core.config` adds the name of the file.
    """

    def __init__(self, expected: str, node: ConfigNode) -> None:
        super().__init__(f"expected {expected}, got {_describe_value(node)}")
        self.line = node.line


def check_value(key: ConfigKey, node: ConfigNode) -> object:
    """Check a node's value against the type that its key declares, and return it.

    Raises ValueMismatch if it has another type.
    """
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
    if _is_number_for(key, value) and key.lowest <= cast("float", value) <= key.highest:
        return value
    raise ValueMismatch(key.expected, node)


def _is_number_for(key: ConfigKey, value: Value) -> bool:
    if isinstance(value, bool):
        return False
    if key.kind is ValueType.NUMBER:
        return isinstance(value, int)
    return key.kind is ValueType.FRACTION and isinstance(value, int | float)


def _check_text(key: ConfigKey, node: ConfigNode) -> str:
    """Return text as it was typed, so that `1.10` and `yes` in YAML remain strings."""
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


def _check_prefix(key: ConfigKey, node: ConfigNode) -> str:
    text = _check_text(key, node)
    if not text.strip():
        raise ValueMismatch("a prefix that is not blank", node)
    return text


def _check_table(key: ConfigKey, node: ConfigNode) -> object:
    parts = {part.name: part for part in key.parts}
    first = key.parts[0].name
    members: Mapping[str, ConfigNode] = {first: node}
    if isinstance(node.value, Mapping):
        members = node.value
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
    ValueType.PREFIXES: _check_prefix,
    ValueType.TABLES: _check_table,
}
