"""YAML front matter at the top of a Markdown file.

    ---
    title: Running the tests
    tags: [tests, ci]
    ---

The YAML is composed rather than loaded, because that preserves the positions of the values. An edit
can therefore change the lines of single fields, and leave comments and the other fields alone.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from ralph.core.config_files import ConfigNode, YamlError, read_yaml
from ralph.core.documents import Problem
from ralph.core.errors import Refused
from ralph.core.record import kind_of
from ralph.core.text import BOM
from ralph.formats.knowledge_text import clean_tags

# In characters. Larger front matter is an accident, and parsing YAML is not always linear.
_MAX_FRONT_MATTER = 16_384
_MAX_SHOWN_VALUE = 60  # characters of a value that an error shows
_CLOSING_LINE = re.compile(r"^---\r?(?:\n|\Z)", re.MULTILINE)
_PLAIN_TAG = re.compile(r"[a-z][a-z0-9]*(?:[-_/.][a-z0-9]+)*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields with their positions, and the problems that YAML has with them.

    `end` is the position of the closing `---`, and `body_start` that of the line below it.
    """

    fields: Mapping[str, ConfigNode]
    problems: tuple[Problem, ...]
    end: int
    body_start: int

    def text(self, name: str) -> str:
        """Return a scalar field as one line of text, or "" if there is none."""
        return " ".join(scalar_text(self.fields.get(name)).split())

    def kind_key(self) -> str:
        """Return the key whose value names a kind of memory, or "" if there is none."""
        for name in ("kind", "type"):
            if kind_of(self.text(name)) is not None:
                return name
        return ""

    def tags(self) -> tuple[str, ...]:
        """Return the tags, which may be a list or a comma-separated string."""
        field = self.fields.get("tags")
        if field is not None and isinstance(field.value, tuple):
            return clean_tags(scalar_text(item) for item in field.value)
        return clean_tags(scalar_text(field).split(","))


class FrontMatterFault(NamedTuple):
    """Why front matter cannot be read, and on which line."""

    line: int
    what: str


def scalar_text(node: ConfigNode | None) -> str:
    """Return a scalar as it is written in the file, or "" for any other value."""
    if node is None or node.value is None or isinstance(node.value, tuple | Mapping):
        return ""
    return node.source


def read_front_matter(text: str) -> FrontMatter | FrontMatterFault:
    """Parse the front matter of a file, or return the reason why that is not possible."""
    begin = len(bom_of(text))
    opening = text.find("\n", begin)
    if opening < 0 or text[begin:opening].rstrip("\r") != "---":
        return FrontMatterFault(1, "the first line must be `---`, the start of the front matter")
    closing = _CLOSING_LINE.search(text, opening + 1)
    if closing is None:
        return FrontMatterFault(1, "the front matter is not closed by a line `---`")
    if closing.start() - opening > _MAX_FRONT_MATTER:
        return FrontMatterFault(
            1, f"the front matter is larger than {_MAX_FRONT_MATTER} characters"
        )
    # A comment of the same length takes the place of the opening line, so positions stay valid.
    yaml = "#" * opening + text[opening : closing.start()]
    try:
        root, problems = read_yaml(yaml)
        if not isinstance(root.value, Mapping):
            raise YamlError(2, "it is not a list of `key: value` lines")
    except YamlError as error:
        return FrontMatterFault(error.line, f"this front matter cannot be read: {error}")
    return FrontMatter(root.value, tuple(problems), closing.start(), closing.end())


def bom_of(text: str) -> str:
    """Return the byte order mark of a text, or "" if it has none."""
    return BOM if text.startswith(BOM) else ""


def plain_value(node: ConfigNode) -> object:
    """Return the value of a node. A number not written in its shortest form remains text."""
    if isinstance(node.value, Mapping):
        return {name: plain_value(item) for name, item in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain_value(item) for item in node.value]
    if node.value is None or isinstance(node.value, bool) or node.style != "plain":
        return node.value
    with suppress(ValueError):
        number = json.loads(node.source)
        is_number = isinstance(number, int | float) and math.isfinite(number)
        if is_number and json.dumps(number) == node.source:
            return number
    return node.source


class _Edit(NamedTuple):
    """Text that replaces `text[start:end]`."""

    start: int
    end: int
    text: str


def change_fields(
    text: str,
    matter: FrontMatter,
    *,
    values: Mapping[str, object],
    removed: Iterable[str],
    newline: str,
) -> str:
    """Return the text with the given values set, and with the `removed` fields cut out."""
    edits: list[_Edit] = []
    for name in removed:
        field = matter.fields.get(name)
        if field is not None:
            line_start = text.rfind("\n", 0, field.key_start) + 1
            line_end = text.find("\n", _value_end(text, field)) + 1
            edits.append(_Edit(line_start, line_end, ""))
    for name, value in values.items():
        field = matter.fields.get(name)
        if field is not None:
            edits.append(_change_value(text, field, value, newline))
    added = [
        write_field(name, value) + newline
        for name, value in values.items()
        if name not in matter.fields
    ]
    edits.append(_Edit(matter.end, matter.end, "".join(added)))
    edits.sort(key=lambda edit: (edit.start, edit.end), reverse=True)
    for edit in edits:  # from the end, so that the positions before it stay valid
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _change_value(text: str, field: ConfigNode, value: object, newline: str) -> _Edit:
    is_block_list = isinstance(field.value, tuple) and field.style == "block"
    if is_block_list and isinstance(value, tuple):
        column = field.start - text.rfind("\n", 0, field.start) - 1
        items = [f"- {_write_tag(str(item))}" for item in value]
        written = f"{newline}{' ' * column}".join(items)
    else:
        written = _write_value(value)
    if text[field.start - 1] not in " \t\n":
        written = " " + written
    return _Edit(field.start, _value_end(text, field), written)


def _value_end(text: str, field: ConfigNode) -> int:
    """Return the end of a value, not counting blank lines that YAML adds to a block scalar."""
    if field.style == "literal":
        return len(text[: field.end].rstrip())
    return field.end


def write_field(name: str, value: object) -> str:
    """Render one line of front matter. Raises Refused if YAML cannot represent the value."""
    key = name
    if not _PLAIN_KEY.fullmatch(name) or name.lower() in _RESERVED:
        key = _write_value(name)
    return f"{key}: {_write_value(value)}"


def _write_tag(tag: str) -> str:
    if _PLAIN_TAG.fullmatch(tag) and tag not in _RESERVED:
        return tag
    return _write_value(tag)


def _write_value(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_write_tag(str(item)) for item in value)}]"
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(
            f"front matter cannot hold {repr(value)[:_MAX_SHOWN_VALUE]}",
            hint="use text, numbers, lists or mappings",
        ) from error
    has_nul = "\\u0000" in text.replace("\\\\", "")
    if has_nul or any("\ud800" <= char <= "\udfff" for char in text):
        raise Refused(
            "YAML cannot hold a character of this entry: a NUL or half of a surrogate pair",
            hint="remove it from the title, the tags or the other values",
        )
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
