"""Change one key in a YAML config file and leave every other byte as it is.

This implements `ralph config KEY VALUE`, and holds the template for a new ralph.yml. A *splice* is
the replacement of one range of the text. Its result is parsed again and refused unless exactly that
key has changed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.core import config, paths
from ralph.core.config import ConfigSource, Layer
from ralph.core.config_files import (
    FLOW_ROOT,
    ConfigNode,
    ParsedConfig,
    config_node,
    parse_scalar,
    parse_yaml,
)
from ralph.core.errors import ConfigError, Refused, UsageError
from ralph.core.settings import Privacy
from ralph.core.text import BOM, newline_of
from ralph.storage import files
from ralph.storage.pattern_limit import PatternLimit

_PLAIN_WORD = re.compile(r"[^\W\d][\w./-]*")
# Compiled when it is first used, because it takes 2 ms and most commands and hooks set nothing.
_UNSAFE_CHARACTER = r"[^ -~\xa1-\u1fff\u3000-\ud7ff\U0001f000-\U0001faff]"
_INDENT = 2  # spaces per level in added lines
_TEMPLATE_KEYS = ("memories.budget", "memories.inject")


class ConfigChange(NamedTuple):
    """What `set_` did: the file, the key's new value, and whether the file changed."""

    path: Path
    value: object
    changed: bool
    note: str = ""


def privacy_rules(root: Path) -> Privacy:
    """Return the current privacy settings. Raises ConfigError if they cannot be read."""
    return config.load(root, env=os.environ, limit=PatternLimit).config.privacy


def set_(
    root: Path, name: str, text: str, *, env: Mapping[str, str], layer: Layer = Layer.PROJECT
) -> ConfigChange:
    """Set one key in ralph.yml, ralph.local.yml or the user's config.

    Raises ConfigProblem for an invalid value, UsageError for an unknown key or a layer in which the
    key cannot be set, and Refused if the file cannot be changed safely.
    """
    key = config.key_named(name)
    node = config.from_text(key, text)
    setting = config.check_setting(key, node, ConfigSource(Layer.FLAG, "ralph config"))
    value = config.as_json(setting)
    if key.personal and name not in config.TRUSTED and layer is not Layer.USER:
        raise UsageError(f"{name} has no effect in a project's files", hint=config.PERSONAL)
    if layer not in (Layer.USER, Layer.PROJECT, Layer.LOCAL):
        raise UsageError(f"{layer.value} cannot be changed by Ralph", hint="edit it by hand")
    sources = {source.layer: (source, path) for source, path in config.sources(root, env)}
    if layer not in sources:
        raise UsageError(
            "there is no folder for the user's config", hint=paths.user_folder_hint("CONFIG")
        )
    source, path = sources[layer]
    before = files.read(path) or ""
    after = set_key(before, name, value, source.where)
    note = ""
    if layer is Layer.LOCAL:
        note = hide_from_git(path, root)
    if after != before:
        boundary = None if layer is Layer.USER else root
        files.write(path, after, root=boundary, expect=before)
    return ConfigChange(path, value, after != before, note)


def value_in(root: Path, name: str, *, env: Mapping[str, str], layer: Layer) -> object:
    """Return the value that one layer's file gives a key, or None if it does not set the key.

    The value may be one that has no effect, because the user has not trusted it. Raises ConfigError
    if the file cannot be read.
    """
    for source, path in config.sources(root, env):
        if source.layer is layer:
            parsed = parse_yaml(files.read(path) or "", source.where)
            return _value_at(_plain_value(ConfigNode(parsed.entries)), name.split("."))
    return None


def _value_at(tree: object, path: Sequence[str]) -> object:
    """Return the value at `path` in a tree of plain values, or None."""
    for name in path:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(name)
    return tree


def hide_from_git(path: Path, root: Path, *, numbered: bool = False) -> str:
    """Add a file to this clone's git exclude file.

    Return a note for the user, or "" if nothing was added. With `numbered`, names that start with
    the file's name are excluded as well.
    """
    missing = missing_exclusion(path, numbered=numbered)
    if missing is None:
        return ""

    def add_pattern(text: str) -> str:
        if text and not text.endswith("\n"):
            text += "\n"
        return f"{text}{missing.pattern}\n"

    files.update(missing.file, add_pattern)
    return f"added {path.name} to {paths.shown(missing.file, root)}"


class Exclusion(NamedTuple):
    """A pattern for a clone's git exclude file."""

    file: Path
    pattern: str


def missing_exclusion(path: Path, *, numbered: bool = False) -> Exclusion | None:
    """Return what is missing from this clone's git exclude file to hide a file, or None."""
    entry = paths.git_exclude(path)
    if entry is None:
        return None
    exclude_file, pattern = entry
    if numbered:
        pattern += "*"
    lines = (files.read(exclude_file) or "").splitlines()
    if path.name in lines or pattern in lines:
        return None
    return Exclusion(exclude_file, pattern)


def template() -> str:
    """Return the text of a `ralph.yml` that sets nothing and explains how to change a key."""
    lines = [
        "## Ralph's settings for this project. `ralph config` lists every key with its value.",
        "## `ralph config KEY VALUE` changes one, or remove the `# ` here:",
        "# memories:",
    ]
    for name in _TEMPLATE_KEYS:
        key = config.BY_NAME[name]
        default = config.as_json(key.default)
        lines.append(f"#   {name.partition('.')[2]}: {default}  # {key.doc}")
    return "\n".join(lines) + "\n"


def flow(value: object) -> str:
    """Format a plain value as YAML on one line."""
    if isinstance(value, Mapping):
        members = [f"{flow(name)}: {flow(item)}" for name, item in value.items()]
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN_WORD.fullmatch(value) and isinstance(parse_scalar(value), str):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(_UNSAFE_CHARACTER, lambda match: f"\\U{ord(match[0]):08X}", escaped) + '"'


# --- changing one key ---------------------------------------------------------------------------


class _Splice(NamedTuple):
    """A range of the text, and the string that replaces it."""

    start: int
    end: int
    text: str


class _CannotSpliceError(Exception):
    """A key cannot be changed safely."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


def set_key(text: str, name: str, value: object, where: str) -> str:
    """Return the YAML text with one key set. Raises Refused if that cannot be done safely."""
    path = name.split(".")
    try:
        return _with_key(text, path, value, where)
    except _CannotSpliceError as error:
        raise Refused(
            f"{where}:{error.line}: cannot be changed here: {error.reason}",
            hint="edit the file by hand",
        ) from error


def _with_key(text: str, path: Sequence[str], value: object, where: str) -> str:
    parsed = parse_yaml(text, where)
    body = text.removeprefix(BOM)
    bom = text[: len(text) - len(body)]
    splice = _find_splice(body, parsed, path, value)
    after = bom + body[: splice.start] + splice.text + body[splice.end :]
    line = body.count("\n", 0, splice.start) + 1
    try:
        result = parse_yaml(after, where)
    except ConfigError as error:
        raise _CannotSpliceError(line, "the result would not be valid YAML") from error
    expected = _with_value(_plain_value(ConfigNode(parsed.entries)), path, value)
    actual = _plain_value(ConfigNode(result.entries))
    if json.dumps(actual, sort_keys=True) != json.dumps(expected, sort_keys=True):
        raise _CannotSpliceError(line, "other settings would change with it")
    return after


def _plain_value(node: ConfigNode) -> object:
    """Return a node's value as plain dicts, lists and scalars, without positions."""
    if isinstance(node.value, Mapping):
        return {name: _plain_value(item) for name, item in node.value.items()}
    if isinstance(node.value, tuple):
        return [_plain_value(item) for item in node.value]
    return node.value


def _with_value(tree: object, path: Sequence[str], value: object) -> object:
    """Return a tree of plain values with the value at `path` set."""
    if not path:
        return _plain_value(config_node(value))
    table = tree if isinstance(tree, dict) else {}
    name = path[0]
    return {**table, name: _with_value(table.get(name), path[1:], value)}


def _find_splice(text: str, parsed: ParsedConfig, path: Sequence[str], value: object) -> _Splice:
    """Return the splice that sets a key, or that adds it to its deepest existing parent."""
    for problem in parsed.problems:
        if problem.code == FLOW_ROOT:
            raise _CannotSpliceError(problem.line, problem.what)
    entries = parsed.entries
    block_end = len(text)
    last_depth = len(path) - 1
    for depth, name in enumerate(path):
        node = entries.get(name)
        if node is None:
            column = _entry_column(text, entries, depth)
            return _insert_lines(text, block_end, column, path[depth:], value)
        if node.shared:
            raise _CannotSpliceError(node.line, "it has an anchor or a tag")
        if depth == last_depth:
            return _replace_value(text, node, value)
        is_empty = node.value is None and node.start == node.end
        if is_empty:
            column = _column(text, node.key_start) + _INDENT
            return _insert_lines(text, node.key_end, column, path[depth + 1 :], value)
        if not isinstance(node.value, Mapping) or node.style != "block":
            raise _CannotSpliceError(node.line, f"{name} is not a block of `key: value` lines")
        entries = node.value
        block_end = node.end
    raise ValueError("the path of a key is empty")


def _replace_value(text: str, node: ConfigNode, value: object) -> _Splice:
    if node.style == "literal" or isinstance(node.value, Mapping):
        raise _CannotSpliceError(node.line, "its value is a mapping or a block of text")
    start = node.start
    is_block_list = isinstance(node.value, tuple) and node.style == "block"
    if is_block_list:
        start = text.index(":", node.key_end) + 1  # the list becomes one line, after the colon
    replaced = text[start : node.end]
    if "#" in replaced and "\n" in replaced:
        raise _CannotSpliceError(node.line, "comments inside its value would be lost")
    space = " " if text[start - 1] == ":" else ""
    return _Splice(start, node.end, space + flow(value))


def _entry_column(text: str, entries: Mapping[str, ConfigNode], depth: int) -> int:
    """Return the column for a new key, taken from its first sibling that can be edited."""
    for sibling in entries.values():
        if not sibling.shared:
            return _column(text, sibling.key_start)
    return _INDENT * depth


def _column(text: str, position: int) -> int:
    line_start = text.rfind("\n", 0, position) + 1
    return position - line_start


def _insert_lines(
    text: str, position: int, column: int, path: Sequence[str], value: object
) -> _Splice:
    """Return the splice that adds a key and its parents at the start of the next line."""
    newline = newline_of(text)
    lines = []
    for depth, name in enumerate(path):
        indent = " " * (column + _INDENT * depth)
        lines.append(f"{indent}{name}:")
    lines[-1] += f" {flow(value)}"
    line_start = position
    if position and not text[:position].endswith("\n"):
        line_start = text.find("\n", position) + 1
    if line_start == 0 and text:  # the last line does not end in a line break
        return _Splice(len(text), len(text), newline + newline.join(lines))
    return _Splice(line_start, line_start, newline.join(lines) + newline)
