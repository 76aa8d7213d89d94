r"""Settings files as text: YAML, TOML and `KEY=VALUE` shell lines, each value with its line.

All three become one small tree of Nodes, so that the checks in `ralph.config` are written once.
YAML is read as a stream of events into our own tree: that gives offsets and lines (counted in
`\n`, as editors do), bounds the depth, and keeps aliases shared instead of copied, so a hostile
file cannot blow up. Plain scalars are read as people mean them (true, yes, 10, 0.5, null);
octal, base 60 and dates stay text. Shell files are never executed: what is not a literal is None.

What a value must be is said in `keys.py`. `tests/formats/test_settings.py` proves that no text
whatsoever gives anything but a tree or a ConfigError.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ralph.errors import ConfigError
from ralph.formats.document import Problem

if TYPE_CHECKING:
    from yaml.events import Event, ScalarEvent

BOM = "\ufeff"
FLOW_ROOT = "flow-root"
Value = str | int | float | bool | None | tuple["Node", ...] | Mapping[str, "Node"]

_DEPTH = 50
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,18}\.[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][-+]?[0-9]{1,3})?")
_TRUE, _FALSE, _NULL = {"true", "yes", "on"}, {"false", "no", "off"}, {"", "~", "null"}
_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_SHELL_PIECE = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^\s'\"\\;&|<>()]+)", re.DOTALL)
_TOML_LINE = re.compile(r"[ \t]*(?:\[\[?[ \t]*([\w.-]+)[ \t]*\]|([\w.-]+)[ \t]*=)")


@dataclass(frozen=True, slots=True)
class Node:
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
class Parsed:
    """A file's root mapping and what is odd in it."""

    entries: Mapping[str, Node]
    problems: tuple[Problem, ...] = ()


def node_of(value: object, line: int = 0) -> Node:
    """A plain Python value as a tree; what has no place in settings becomes its text."""
    if isinstance(value, Mapping):
        return Node({str(name): node_of(item, line) for name, item in value.items()}, line)
    if isinstance(value, list | tuple):
        return Node(tuple(node_of(item, line) for item in value), line)
    if isinstance(value, str | int | float | None):
        return Node(value, line)
    return Node(str(value), line)


def parse_yaml(text: str, where: str) -> Parsed:
    """The settings of a YAML text; ConfigError with `where:line` when it is not YAML."""
    return _Builder(text.removeprefix(BOM), where).build()


class _Builder:
    """Takes events one by one; an open mapping's items are key, value, key, value."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.breaks = [match.start() for match in re.finditer("\n", text)]
        self.anchors: dict[str, Node] = {}
        self.problems: list[Problem] = []
        self.stack: list[tuple[Event, list[Node]]] = []
        self.roots: list[Node] = []

    def line(self, index: int) -> int:
        return bisect_left(self.breaks, index) + 1

    def wrong(self, index: int, what: str) -> ConfigError:
        message = f"{self.where}:{self.line(index)}: not valid YAML: {' '.join(what.split())}"
        return ConfigError(message, hint="mend this line, or quote a value that has special characters")

    def build(self) -> Parsed:
        bad = _UNPRINTABLE.search(self.text)
        if bad is not None:
            raise self.wrong(bad.start(), f"the character U+{ord(bad[0]):04X} may not stand in it")
        for event in self.events():
            self.take(event)
        root = self.roots[0] if self.roots else Node(None)
        if root.value is None:
            return Parsed({}, ())
        if not isinstance(root.value, Mapping):
            message = f"{self.where}:{root.line}: expected settings, got {described(root)}"
            raise ConfigError(message, hint="write `key: value` lines; see `ralph config show`")
        if root.style != "block" or root.shared:
            self.problems.append(Problem(root.line, "the file is one flow value", "", "note", FLOW_ROOT))
        return Parsed(root.value, tuple(self.problems))

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

    def put(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node = replace(node, shared=True)
        (self.stack[-1][1] if self.stack else self.roots).append(node)

    def scalar(self, event: "ScalarEvent", start: int, end: int) -> Node:
        style = {None: "plain", "": "plain", "|": "literal", ">": "literal"}.get(event.style, "quoted")
        tagged = event.tag is not None
        value = scalar(event.value) if style == "plain" and not tagged else event.value
        return Node(value, self.line(start), event.value, start, end, style=style, shared=tagged)

    def closed(self, event: "Event", items: list[Node], end: int) -> Node:
        start, _ = _span(event)
        flow = bool(getattr(event, "flow_style", False))
        return Node(
            self.mapping(items) if "Mapping" in type(event).__name__ else tuple(items),
            self.line(start),
            start=start,
            end=items[-1].end if items and not flow else end,
            style="flow" if flow else "block",
            shared=getattr(event, "tag", None) is not None,
        )

    def mapping(self, items: list[Node]) -> Mapping[str, Node]:
        found: dict[str, Node] = {}
        merged: list[Node] = []
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

    def merge(self, found: dict[str, Node], item: Node) -> None:
        for source in item.value if isinstance(item.value, tuple) else (item,):
            if not isinstance(source.value, Mapping):
                raise self.wrong(item.start, "`<<` takes a mapping or a list of mappings")
            for name, node in source.value.items():
                found.setdefault(name, replace(node, shared=True))


def _span(event: "Event") -> tuple[int, int]:
    return (event.start_mark.index if event.start_mark else 0, event.end_mark.index if event.end_mark else 0)


def scalar(text: str) -> str | int | float | bool | None:
    """What a word means when nothing says that it is text."""
    if (word := text.lower()) in _NULL:
        return None
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    return float(text) if _FLOAT.fullmatch(text) else text


def described(node: Node) -> str:
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


def parse_toml(text: str, where: str) -> Parsed:
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
    return Parsed(entries)


def _toml_nodes(table: Mapping[str, object], prefix: str, lines: Mapping[str, int]) -> dict[str, Node]:
    nodes = {}
    for name, value in table.items():
        here = f"{prefix}.{name}" if prefix else name
        line = lines.get(here, lines.get(prefix, 1))
        inner = _toml_nodes(value, here, lines) if isinstance(value, Mapping) else None
        nodes[name] = node_of(value, line) if inner is None else Node(inner, line)
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


def parse_shell(text: str) -> tuple[tuple[str, Node], ...]:
    """The assignments of a shell file, in order; the value is None where it is not a literal."""
    found, position, line, counted = [], 0, 1, 0
    while (match := _ASSIGNMENT.search(text, position)) is not None:
        line, counted = line + text.count("\n", counted, match.start(1)), match.start(1)
        value, position = _shell_word(text, match.end())
        found.append((match[1], Node(value, line)))
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
