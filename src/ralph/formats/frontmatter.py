"""YAML front matter: read as real YAML, changed value by value.

PyYAML composes the nodes (where each key and value stands), and this module makes values of
them itself: a date stays the words it was written in, `yes` in a title stays `yes`, and nothing
is built that a tag asks for. A change replaces the characters of one value, so that comments,
order, quoting and unknown keys elsewhere stay. What is written is quoted so that any YAML
reader gives the same words back. PyYAML is imported where it is needed: most commands never do.
Proved by `tests/formats/test_knowledge.py`.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ralph.errors import Refused
from ralph.formats.lines import BOM

if TYPE_CHECKING:
    import yaml

LARGEST = 16_384
"""Front matter is a few lines; a larger one is an accident, and YAML is not linear in all its corners."""

_DEEPEST = 20
_MARKS = 500  # brackets in the whole, list marks in a line: the C parser recurses into them without a check
_PLAIN_TAG = re.compile(r"[a-z][a-z0-9]*(?:[-_/.][a-z0-9]+)*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_UNPRINTABLE = re.compile(
    "[^\\x20-\\x7e\\xa0-\\u2027\\u202a-\\ud7ff\\ue000-\\ufefe\\uff00-\\ufffd\\U00010000-\\U0010ffff]"
)
_TAG = "tag:yaml.org,2002:"
_NULL = _TAG + "null"


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a text has no front matter that can be read, and at which line."""

    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Field:
    """One key: its value, the words as they were written, and where they stand in the text."""

    name: str
    value: object
    raw: str | None
    """A scalar's words; None for null, lists and mappings."""
    items: tuple[str, ...] | None
    """A list's scalars in their own words; None when the value is no list."""
    line_start: int
    start: int
    end: int
    column: int
    """The column of a block list's dashes; -1 for every other value."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields, and where the front matter and the body stand."""

    fields: tuple[Field, ...]
    doubled: tuple[tuple[str, int], ...]
    """Keys that stand there twice, with the line of the later one, which counts."""
    end: int
    body: int

    def get(self, name: str) -> Field | None:
        """The field of that name."""
        return next((field for field in self.fields if field.name == name), None)


def read(text: str) -> FrontMatter | Flaw:
    """The front matter at the top of a text, or why there is none."""
    begin = len(BOM) if text.startswith(BOM) else 0
    opening = text.find("\n", begin)
    if text[begin : begin + 3] != "---" or text[begin : max(opening, 0)].rstrip("\r") != "---":
        return Flaw(1, "the first line must be `---`, the start of the front matter")
    end, body = _closing(text, opening)
    if end < 0:
        return Flaw(1, "the front matter is not closed by a line `---`")
    if end - opening > LARGEST:
        return Flaw(1, f"the front matter is larger than {LARGEST} characters")
    front = text[opening + 1 : end]
    import yaml  # noqa: PLC0415 - loading PyYAML takes longer than most commands

    try:
        fields = _fields(_compose(front), front, opening + 1)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark.index if error.problem_mark is not None else 0
        return Flaw(_line(text, opening + 1 + at), f"this is not YAML: {error.problem or error.context}")
    except yaml.reader.ReaderError as error:
        return Flaw(_line(text, opening + 1 + error.position), "a character that YAML does not allow")
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        return Flaw(2, f"this front matter cannot be read: {str(error)[:80]}")
    names = {field.name: field for field in fields}
    doubled = [(field.name, _line(text, field.start)) for field in fields if names[field.name] is not field]
    late = tuple((name, _line(text, names[name].start)) for name, _ in doubled)
    return FrontMatter(tuple(names.values()), late, end, body)


def _closing(text: str, opening: int) -> tuple[int, int]:
    """Where the closing line begins and where the body begins, or (-1, -1)."""
    at = opening
    while (at := text.find("\n---", at)) >= 0:
        stop = text.find("\n", at + 1)
        line = text[at + 1 : stop if stop >= 0 else len(text)]
        if line in ("---", "---\r"):
            return at + 1, stop + 1 if stop >= 0 else len(text)
        at += 1
    return -1, -1


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, min(at, len(text))) + 1


def _compose(front: str) -> "yaml.Node | None":
    import yaml  # noqa: PLC0415 - see above

    nested = max(front.count("[") + front.count("{"), *(_list_marks(line) for line in front.split("\n")))
    if nested > _MARKS:
        raise ValueError("it is nested too deeply")
    node: yaml.Node | None = yaml.compose(front, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return node


def _list_marks(line: str) -> int:
    return sum(line.count(mark) for mark in ("- ", "? ", "-\t", "?\t"))


def _fields(root: "yaml.Node | None", front: str, offset: int) -> list[Field]:
    import yaml  # noqa: PLC0415 - see above

    if not isinstance(root, yaml.MappingNode):
        raise ValueError("it is not a list of `key: value` lines")
    out = []
    seen: set[int] = set()
    for key, node in root.value:
        value = _value(node, seen, 0)
        if not isinstance(key, yaml.ScalarNode):
            continue
        items = None
        if isinstance(node, yaml.SequenceNode):
            items = tuple(item.value for item in node.value if isinstance(item, yaml.ScalarNode) and item.tag != _NULL)
        out.append(
            Field(
                key.value,
                value,
                node.value if isinstance(node, yaml.ScalarNode) and value is not None else None,
                items,
                offset + front.rfind("\n", 0, key.start_mark.index) + 1,
                offset + node.start_mark.index,
                offset + _end(node, front),
                node.start_mark.column if items is not None and not node.flow_style else -1,
            )
        )
    return out


def _value(node: "yaml.Node", seen: set[int], depth: int) -> object:
    """A node as plain values; ValueError for aliases, which can grow without bound, and for deep nesting."""
    import yaml  # noqa: PLC0415 - see above

    if id(node) in seen or depth > _DEEPEST:
        raise ValueError("YAML aliases and deep nesting are not read here")
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, seen, depth + 1) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {str(_value(key, seen, depth + 1)): _value(item, seen, depth + 1) for key, item in node.value}
    return _scalar(str(node.tag).removeprefix(_TAG), str(node.value))


def _scalar(tag: str, words: str) -> object:
    """A scalar's value: numbers only where writing them again gives the same words."""
    if tag == "null":
        return None
    if tag == "bool":
        return words.lower() in ("true", "yes", "on")
    if tag == "int" and re.fullmatch(r"-?[0-9]{1,18}", words) and str(int(words)) == words:
        return int(words)
    if tag == "float" and re.fullmatch(r"-?[0-9]+\.[0-9]+(?:e[-+][0-9]+)?", words):
        number = float(words)
        return number if math.isfinite(number) and _number(number) == words else words
    return words


def _end(node: "yaml.Node", front: str) -> int:
    """Where a value's own characters end; YAML counts the comments below a block as part of it."""
    import yaml  # noqa: PLC0415 - see above

    if isinstance(node, yaml.ScalarNode):
        if node.style not in ("|", ">"):
            return node.end_mark.index
        return len(front[: node.end_mark.index].rstrip())
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    return _end(last[1] if isinstance(node, yaml.MappingNode) else last, front)


def changed(text: str, matter: FrontMatter, values: Mapping[str, object], removed: Iterable[str], newline: str) -> str:
    """The text with other values in its front matter and without some keys; a new key goes to the end."""
    edits = []
    gone = [field for field in map(matter.get, removed) if field is not None]
    for field in gone:
        edits.append((field.line_start, text.find("\n", field.end) + 1, ""))
    new = [write_field(name, value) + newline for name, value in values.items() if matter.get(name) is None]
    edits.append((matter.end, matter.end, "".join(new)))
    for name, value in values.items():
        known = matter.get(name)
        if known is not None:
            words = _in_place(known, value, newline)
            edits.append((known.start, known.end, words if text[known.start - 1] in " \t\n" else f" {words}"))
    for start, end, words in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + words + text[end:]
    return text


def _in_place(field: Field, value: object, newline: str) -> str:
    if field.column >= 0 and isinstance(value, tuple):
        return f"{newline}{' ' * field.column}".join(f"- {write_tag(str(item))}" for item in value)
    return write_value(value)


def write_field(name: str, value: object) -> str:
    """One line `key: value`."""
    plain = _PLAIN_KEY.fullmatch(name) and name.lower() not in _RESERVED
    return f"{name if plain else write_value(name)}: {write_value(value)}"


def write_tag(tag: str) -> str:
    """A tag, quoted only where a YAML reader could take it for something else."""
    return tag if _PLAIN_TAG.fullmatch(tag) and tag not in _RESERVED else write_value(tag)


def write_value(value: object) -> str:
    """A value on one line; a tuple holds tags."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return _number(value)
    if isinstance(value, tuple):
        return f"[{', '.join(write_tag(str(item)) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_quoted(str(key))}: {write_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, Sequence):
        return f"[{', '.join(write_value(item) for item in value)}]"
    raise Refused(f"front matter cannot hold {value!r}", hint="use words, numbers, lists or mappings")


def _number(value: float) -> str:
    words = repr(value)
    return words if "." in words else words.replace("e", ".0e")


def _quoted(words: str) -> str:
    if any("\ud800" <= char <= "\udfff" or char == "\x00" for char in words):
        raise Refused(
            "the front matter would hold a character that YAML cannot: NUL or half of a surrogate pair",
            hint="remove it from the title, the tags or the other values",
        )
    escaped = words.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_UNPRINTABLE.sub(_escape, escaped)}"'


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
