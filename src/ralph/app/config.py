"""`ralph config ...`: the effective settings, where they were set, and changing one key of a YAML file.

`set_` checks the key and the value, then splices one key into the file: simple rules decide where the change goes, then
the result is parsed again and refused unless exactly that key changed. So every other byte of the file stays.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ralph import config, paths
from ralph.config import ConfigSource, Layer, Loaded
from ralph.errors import ConfigError, Refused, UsageError
from ralph.formats.config_files import BOM, FLOW_ROOT, ConfigNode, ParsedConfig, config_node, parse_scalar, parse_yaml
from ralph.formats.text import newline_of
from ralph.settings import Privacy
from ralph.store import files

_SIZE = 100_000
_WORD = re.compile(r"[^\W\d][\w./-]*")
_UNSAFE = re.compile(r"[^ -~\xa1-\u1fff\u3000-\ud7ff\U0001f000-\U0001faff]")


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """One effective setting."""

    name: str
    value: object
    place: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """What `set_` did: the file, the value it now has, and whether that changed anything."""

    path: Path
    value: object
    changed: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file that may hold settings."""

    layer: Layer
    path: Path
    exists: bool


def show(loaded: Loaded) -> tuple[EffectiveSetting, ...]:
    """Every key with the value that counts and its place."""
    return tuple(
        EffectiveSetting(name, config.as_json(loaded.values[name]), loaded.origins[name]) for name in loaded.values
    )


def get(loaded: Loaded, name: str) -> object:
    """The value that counts, as JSON has it; UsageError for an unknown key."""
    return config.as_json(loaded.values[config.key_named(name).name])


def privacy_rules(root: Path, env: Mapping[str, str]) -> Privacy:
    """What must not be kept or shown, as the settings say it now; ConfigError when they cannot be read."""
    return config.load(root, env=env).config.privacy


def path(root: Path | None, env: Mapping[str, str]) -> tuple[ConfigFile, ...]:
    """The files that are read, the highest last."""
    return tuple(ConfigFile(place.layer, file, file.is_file()) for place, file in config.sources(root, env))


def set_(root: Path, name: str, text: str, *, env: Mapping[str, str], layer: Layer = Layer.PROJECT) -> ConfigChange:
    """Set one key in ralph.yml, in ralph.local.yml or in the user's config, keeping every other byte."""
    key = config.key_named(name)
    value = config.as_json(
        config.check_setting(key, config.from_text(key, text), ConfigSource(Layer.FLAG, "ralph config set"))
    )
    if key.personal and name not in config.TRUSTED and layer is not Layer.USER:
        raise UsageError(f"{name} does not count in a project's files", hint=config.PERSONAL)
    if layer not in (Layer.USER, Layer.PROJECT, Layer.LOCAL):
        raise UsageError(f"{layer.value} cannot be changed by Ralph", hint="edit it by hand")
    found = [(place, file) for place, file in config.sources(root, env) if place.layer is layer]
    if not found:
        raise UsageError("there is no folder for the user's config", hint="set HOME or XDG_CONFIG_HOME")
    place, file = found[0]
    before = files.read(file) or ""
    after = set_key(before, name, value, place.where)
    note = hide_local_config(root) if layer is Layer.LOCAL else ""
    if after != before:
        files.write(file, after, root=None if layer is Layer.USER else root, expect=before)
    return ConfigChange(file, value, after != before, note)


def hide_local_config(root: Path) -> str:
    """Keep ralph.local.yml out of git without touching anybody's .gitignore; says what was done, if anything."""
    return hide_from_git(paths.local_config_file(root), root)


def hide_from_git(path: Path, root: Path, *, numbered: bool = False) -> str:
    """Name a file in git's own list of what this clone ignores; `numbered` means whatever follows its name, too."""
    found = paths.git_exclude(path)
    if found is None:
        return ""
    exclude, pattern = found[0], found[1] + "*" * numbered
    if {path.name, pattern} & set((files.read(exclude) or "").splitlines()):
        return ""
    files.update(exclude, lambda text: text + ("\n" if text and not text.endswith("\n") else "") + pattern + "\n")
    return f"told git to ignore {path.name} (in {paths.shown(exclude, root)})"


def template() -> str:
    """A `ralph.yml` in which every key is commented out: its default, and a line about it."""
    lines = ["## The defaults. To change one, remove the `# ` before it and before the section it is in."]
    above: list[str] = []
    for key in (key for key in config.KEYS if not key.ignored and not key.personal):
        *path, last = key.name.split(".")
        lines += [""] * (path[:1] != above[:1])
        new = [at for at in range(len(path)) if path[: at + 1] != above[: at + 1]]
        lines += [f"# {'  ' * at}{path[at]}:" for at in new]
        default = json.dumps(config.as_json(key.default)).strip('"') or '""'
        lines.append(f"# {'  ' * len(path)}{last}: {default}  # {key.doc}")
        above = path
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


def values_of(node: ConfigNode, left: Iterator[int] | None = None) -> object:
    """A tree as plain Python values; Refused when aliases blow it up."""
    left = iter(range(_SIZE)) if left is None else left
    if next(left, None) is None:
        raise Refused(f"line {node.line}: aliases expand to too many values", hint="edit the file by hand")
    if isinstance(node.value, Mapping):
        return {name: values_of(item, left) for name, item in node.value.items()}
    return [values_of(item, left) for item in node.value] if isinstance(node.value, tuple) else node.value


def set_key(text: str, name: str, value: object, where: str) -> str:
    """The YAML text with one key set and every other byte kept; Refused when that cannot be done safely."""
    before = parse_yaml(text, where)
    body = text.removeprefix(BOM)
    whole = values_of(ConfigNode(before.entries))
    splice = _Splice(body, where, before)
    start, end, new = splice.place(name.split("."), value)
    after = text[: len(text) - len(body)] + body[:start] + new + body[end:]
    line = body.count("\n", 0, start) + 1
    try:
        result = values_of(ConfigNode(parse_yaml(after, where).entries))
    except ConfigError as error:
        raise splice.refused(line, "the result would not be valid YAML") from error
    wanted = _with(whole, name.split("."), value)
    if json.dumps(result, sort_keys=True) != json.dumps(wanted, sort_keys=True):
        raise splice.refused(line, "other settings would change with it")
    return after


def _with(whole: object, path: list[str], value: object) -> object:
    if not path:
        return values_of(config_node(value))
    table = whole if isinstance(whole, dict) else {}
    return {**table, path[0]: _with(table.get(path[0]), path[1:], value)}


@dataclass(frozen=True, slots=True)
class _Splice:
    text: str
    where: str
    parsed: ParsedConfig

    def refused(self, line: int, why: str) -> Refused:
        return Refused(f"{self.where}:{line}: cannot be changed here: {why}", hint="edit the file by hand")

    def place(self, path: list[str], value: object) -> tuple[int, int, str]:
        """Which part of the text gives way to what."""
        flat = [problem for problem in self.parsed.problems if problem.code == FLOW_ROOT]
        if flat:
            raise self.refused(flat[0].line, flat[0].what)
        entries, end = self.parsed.entries, len(self.text)
        for depth, part in enumerate(path):
            child = entries.get(part)
            if child is None:
                own = [node for node in entries.values() if not node.shared]
                column = self.column(own[0].key_start) if own else 2 * depth
                return self.lines_after(end, column, path[depth:], value)
            if child.shared:
                raise self.refused(child.line, "it has an anchor, an alias, a merge or a tag")
            if depth == len(path) - 1:
                return self.replaced(child, flow(value))
            if child.value is None and child.start == child.end:
                column = self.column(child.key_start) + 2
                return self.lines_after(child.key_end, column, path[depth + 1 :], value)
            if not isinstance(child.value, Mapping) or child.style != "block":
                raise self.refused(child.line, f"{part} is not a block of `key: value` lines")
            entries, end = child.value, child.end
        raise self.refused(1, "no key was named")

    def column(self, index: int) -> int:
        return index - (self.text.rfind("\n", 0, index) + 1)

    def lines_after(self, index: int, column: int, path: list[str], value: object) -> tuple[int, int, str]:
        """New lines below the line that `index` is on."""
        newline = newline_of(self.text)
        lines = [f"{' ' * (column + 2 * depth)}{part}:" for depth, part in enumerate(path)]
        lines[-1] += f" {flow(value)}"
        fresh = index == 0 or self.text[index - 1] == "\n"
        at = index if fresh else self.text.find("\n", index) + 1
        if at == 0 and self.text:
            return len(self.text), len(self.text), newline + newline.join(lines)
        return at, at, newline.join(lines) + newline

    def replaced(self, node: ConfigNode, new: str) -> tuple[int, int, str]:
        """The value of a key that is there."""
        start, end = node.start, node.end
        if node.style == "literal" or isinstance(node.value, Mapping):
            raise self.refused(node.line, "its value is a mapping or a block of text")
        if isinstance(node.value, tuple) and node.style == "block":
            start = self.text.index(":", node.key_end) + 1
        if "#" in self.text[start:end] and "\n" in self.text[start:end]:
            raise self.refused(node.line, "comments inside its value would be lost")
        space = " " if self.text[start - 1] == ":" else ""
        return start, end, space + new
