"""`ralph config KEY VALUE` and the template of ralph.yml: change one key of a YAML file, and every other byte stays.

The result of a splice is parsed again and refused unless exactly that key changed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
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

_WORD = re.compile(r"[^\W\d][\w./-]*")
_UNSAFE = re.compile(r"[^ -~\xa1-\u1fff\u3000-\ud7ff\U0001f000-\U0001faff]")


class ConfigChange(NamedTuple):
    """What `set_` did: the file, the value it now has, and whether that changed anything."""

    path: Path
    value: object
    changed: bool
    note: str = ""


def privacy_rules(root: Path) -> Privacy:
    """Return what must not be kept or shown, as the settings say it now; ConfigError when they cannot be read."""
    return config.load(root, env=os.environ, limit=PatternLimit).config.privacy


def set_(
    root: Path, name: str, text: str, *, env: Mapping[str, str], layer: Layer = Layer.PROJECT
) -> ConfigChange:
    """Set one key in ralph.yml, in ralph.local.yml or in the user's config, keeping every other byte."""
    key = config.key_named(name)
    node = config.from_text(key, text)
    value = config.as_json(
        config.check_setting(key, node, ConfigSource(Layer.FLAG, "ralph config"))
    )
    if key.personal and name not in config.TRUSTED and layer is not Layer.USER:
        raise UsageError(f"{name} does not count in a project's files", hint=config.PERSONAL)
    if layer not in (Layer.USER, Layer.PROJECT, Layer.LOCAL):
        raise UsageError(f"{layer.value} cannot be changed by Ralph", hint="edit it by hand")
    sources = {source.layer: (source, path) for source, path in config.sources(root, env)}
    if layer not in sources:
        raise UsageError(
            "there is no folder for the user's config", hint="set HOME or XDG_CONFIG_HOME"
        )
    source, path = sources[layer]
    before = files.read(path) or ""
    after = set_key(before, name, value, source.where)
    note = hide_from_git(path, root) if layer is Layer.LOCAL else ""
    if after != before:
        files.write(path, after, root=None if layer is Layer.USER else root, expect=before)
    return ConfigChange(path, value, after != before, note)


def hide_from_git(path: Path, root: Path, *, numbered: bool = False) -> str:
    """Name a file (`numbered`: and what begins so) in git's list of this clone; return a note when it is new."""
    if (entry := paths.git_exclude(path)) is None:
        return ""
    exclude = entry[0]
    pattern = entry[1] + "*" * numbered
    if {path.name, pattern} & set((files.read(exclude) or "").splitlines()):
        return ""
    files.update(
        exclude,
        lambda text: text + ("\n" if text and not text.endswith("\n") else "") + pattern + "\n",
    )
    return f"added {path.name} to {paths.shown(exclude, root)}"


def template() -> str:
    """A `ralph.yml` of five lines that sets nothing: where the keys are listed, and two of them commented out."""
    keys = [config.BY_NAME[f"memories.{name}"] for name in ("budget", "inject")]
    lines = ["## Ralph's settings for this project. `ralph config` lists every key with its value."]
    lines += ["## `ralph config KEY VALUE` changes one, or remove the `# ` here:", "# memories:"]
    lines += [
        f"#   {key.name.partition('.')[2]}: {config.as_json(key.default)}  # {key.doc}"
        for key in keys
    ]
    return "\n".join(lines) + "\n"


def flow(value: object) -> str:
    """A plain value as YAML on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(name)}: {flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if _WORD.fullmatch(value) and isinstance(parse_scalar(value), str):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _UNSAFE.sub(lambda char: f"\\U{ord(char[0]):08X}", escaped) + '"'


def _values_of(node: ConfigNode) -> object:
    if isinstance(node.value, Mapping):
        return {name: _values_of(item) for name, item in node.value.items()}
    return (
        [_values_of(item) for item in node.value] if isinstance(node.value, tuple) else node.value
    )


def set_key(text: str, name: str, value: object, where: str) -> str:
    """Return the YAML text with one key set; Refused when that cannot be done safely."""
    parsed = parse_yaml(text, where)
    body = text.removeprefix(BOM)
    path = name.split(".")
    expected = _values_of(ConfigNode(parsed.entries))
    try:
        start, end, new = _splice(body, parsed, path, value)
        after = text[: len(text) - len(body)] + body[:start] + new + body[end:]
        line = body.count("\n", 0, start) + 1
        try:
            result = _values_of(ConfigNode(parse_yaml(after, where).entries))
        except ConfigError as error:
            raise _CannotSplice(line, "the result would not be valid YAML") from error
        if json.dumps(result, sort_keys=True) != json.dumps(
            _with(expected, path, value), sort_keys=True
        ):
            raise _CannotSplice(line, "other settings would change with it")
    except _CannotSplice as error:
        line, why = error.args
        raise Refused(
            f"{where}:{line}: cannot be changed here: {why}", hint="edit the file by hand"
        ) from error
    return after


def _with(tree: object, path: list[str], value: object) -> object:
    if not path:
        return _values_of(config_node(value))
    table = tree if isinstance(tree, dict) else {}
    return {**table, path[0]: _with(table.get(path[0]), path[1:], value)}


class _CannotSplice(Exception):
    """Its arguments are a line and the reason."""


def _splice(
    text: str, parsed: ParsedConfig, path: list[str], value: object
) -> tuple[int, int, str]:
    if problem := next((each for each in parsed.problems if each.code == FLOW_ROOT), None):
        raise _CannotSplice(problem.line, problem.what)
    entries = parsed.entries
    end = len(text)
    for depth, part in enumerate(path):
        if (node := entries.get(part)) is None:
            keys = [other.key_start for other in entries.values() if not other.shared]
            column = _column(text, keys[0]) if keys else 2 * depth
            return _insert_lines(text, end, column, path[depth:], value)
        if node.shared:
            raise _CannotSplice(node.line, "it has an anchor or a tag")
        if depth == len(path) - 1:
            if node.style == "literal" or isinstance(node.value, Mapping):
                raise _CannotSplice(node.line, "its value is a mapping or a block of text")
            is_list = isinstance(node.value, tuple) and node.style == "block"
            start = text.index(":", node.key_end) + 1 if is_list else node.start
            if "#" in text[start : node.end] and "\n" in text[start : node.end]:
                raise _CannotSplice(node.line, "comments inside its value would be lost")
            return start, node.end, (" " if text[start - 1] == ":" else "") + flow(value)
        if node.value is None and node.start == node.end:
            return _insert_lines(
                text, node.key_end, _column(text, node.key_start) + 2, path[depth + 1 :], value
            )
        if not isinstance(node.value, Mapping) or node.style != "block":
            raise _CannotSplice(node.line, f"{part} is not a block of `key: value` lines")
        entries = node.value
        end = node.end
    raise _CannotSplice(1, "no key was named")


def _column(text: str, position: int) -> int:
    return position - (text.rfind("\n", 0, position) + 1)


def _insert_lines(
    text: str, position: int, column: int, path: list[str], value: object
) -> tuple[int, int, str]:
    newline = newline_of(text)
    lines = [f"{' ' * (column + 2 * depth)}{part}:" for depth, part in enumerate(path)]
    lines[-1] += f" {flow(value)}"
    at = (
        position
        if text[:position].endswith("\n") or not position
        else text.find("\n", position) + 1
    )
    if at == 0 and text:
        return len(text), len(text), newline + newline.join(lines)
    return at, at, newline.join(lines) + newline
