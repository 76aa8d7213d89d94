"""Load the settings: keys from `ralph.settings`, values from files and the environment; later layers win.

`.ralph/config.sh` is never executed. What a project names (`TRUSTED`) counts only when the user's trust file has it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from ralph import paths
from ralph.errors import ConfigError, UsageError
from ralph.formats import config_files
from ralph.formats.config_files import ConfigKey, ConfigNode, ValueMismatch, ValueType
from ralph.model.record import CriterionKind
from ralph.settings import Config, CriterionSetting


class Layer(StrEnum):
    """Where a value may come from, lowest first."""

    DEFAULT = "default"
    USER = "user config"
    SHELL = ".ralph/config.sh"
    TOML = ".ralph.toml"
    PROJECT = "ralph.yml"
    LOCAL = "ralph.local.yml"
    ENVIRONMENT = "environment"
    FLAG = "flag"


def _fields(tree: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for part in fields(tree):
        if "section" in part.metadata:
            yield from _fields(part.default, f"{prefix}{part.metadata['section']}.")
        else:
            yield prefix + part.name, part


def _keys(tree: Any) -> Iterator[ConfigKey]:
    for name, part in _fields(tree):
        limits = {
            limit: value for limit, value in part.metadata["limits"].items() if limit != "trusted"
        }
        if "parts" in limits:
            limits |= {"make": limits["parts"], "parts": tuple(_keys(limits["parts"]()))}
        yield ConfigKey(name, part.metadata["kind"], part.default, part.metadata["doc"], **limits)


def _build(tree: Any, values: Mapping[str, object], prefix: str = "") -> Any:
    members = {}
    for part in fields(tree):
        inner = part.metadata.get("section")
        name = prefix + (inner or part.name)
        members[part.name] = _build(part.default, values, name + ".") if inner else values[name]
    return type(tree)(**members)


_LEARN = ConfigKey(
    "execution.learn", ValueType.FLAG, True, "Accepted and ignored: learning is on.", ignored=True
)
KEYS = (*_keys(Config()), _LEARN)
BY_NAME: Mapping[str, ConfigKey] = {key.name: key for key in KEYS}
TRUSTED: Mapping[
    str, Callable[[object], bool]
] = {  # for each key that needs trust in a project: which values do
    name: part.metadata["limits"]["trusted"]
    for name, part in _fields(Config())
    if "trusted" in part.metadata["limits"]
}
_SECTIONS = {name[:end] for name in BY_NAME for end in range(len(name)) if name[end] == "."}
_FOREIGN = frozenset(
    {
        "cli",
        "event_loop",
        "core",
        "hats",
        "events",
        "tasks",
        "skills",
        "features",
        "hooks",
        "adapters",
        "tui",
        "RObot",
    }
)
"""Sections of ralph-orchestrator, which reads a `ralph.yml`, too."""
_FILES = (Layer.SHELL, Layer.TOML, Layer.PROJECT, Layer.LOCAL)
PERSONAL = "set it in your own config (`ralph config KEY VALUE --user`) or in the environment"
CRITERIA = "ralph.success_criteria"
TRUST = "`ralph trust` shows what it is and records that you trust it"
trust_file = paths.trust_file


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where a value was set: the layer, the file or variable, and the line (0: none)."""

    layer: Layer
    where: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.where}:{self.line}" if self.line else self.where or self.layer.value


class ConfigProblem(ConfigError):
    """A problem at a place of the config: raised when it is fatal, else reported as a warning."""

    def __init__(self, place: ConfigSource, what: str, *, hint: str = "") -> None:
        super().__init__(f"{place}: {what}", hint=hint)
        self.place = place
        self.what = what


@dataclass(frozen=True, slots=True)
class TrustedValue:
    """A command or server that a file of the project names, and whether its user trusts that value."""

    key: str
    value: object
    place: ConfigSource
    trusted: bool

    @property
    def digest(self) -> str:
        """The value's fingerprint: another value needs trust of its own."""
        import hashlib

        text = json.dumps(as_json(self.value), ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True, order=True)
class Trusted:
    """One line of the trust file: this value of this key, in the project with this real path."""

    root: str
    key: str
    digest: str
    at: str = ""


def sources(root: Path | None, env: Mapping[str, str]) -> tuple[tuple[ConfigSource, Path], ...]:
    """The files that `load` reads, lowest layer first, and how messages name them."""
    user = paths.user_config_file(env)
    users = () if user is None else ((ConfigSource(Layer.USER, str(user)), user),)
    files = zip(
        _FILES, paths.settings_files(root) if root is not None else (), strict=root is not None
    )
    return users + tuple((ConfigSource(layer, layer.value), file) for layer, file in files)


def load(root: Path | None, *, env: Mapping[str, str]) -> Loaded:
    """Merge all layers; ConfigError for a wrong value or a file that cannot be read."""
    loaded = Loaded(root, env)
    loaded.merge_layers()
    return loaded


def parse_trust(text: str) -> tuple[Trusted, ...]:
    """The values of a trust file; one that is not as Ralph writes it trusts nothing."""
    try:
        rows = json.loads(text)["trusted"] if text.strip() else []
        return tuple(
            Trusted(**{part.name: str(row[part.name]) for part in fields(Trusted)}) for row in rows
        )
    except (ValueError, RecursionError, KeyError, TypeError):
        return ()


class PrivacyPatterns(tuple[str, ...]):
    """The patterns of a project; the search for secrets switches `off` one that takes too long."""

    places: tuple[str, str]  # the top of the state folder, and this folder
    off: set[str]


class Loaded:
    """The value and source of each key, warnings, and the values that need trust; later layers overwrite."""

    def __init__(self, root: Path | None, env: Mapping[str, str]) -> None:
        self.root = root
        self.env = env
        self.trusted_values: list[TrustedValue] = []
        self.values: dict[str, object] = {key.name: key.default for key in KEYS if not key.ignored}
        self.origins = dict.fromkeys(self.values, ConfigSource(Layer.DEFAULT))
        self.complaints: list[ConfigProblem] = []

    @cached_property
    def config(self) -> Config:
        """The values that count, without patterns that took too long on this machine."""
        patterns = self.values["privacy.patterns"]
        off = ""
        if self.root is not None and isinstance(patterns, tuple) and patterns:
            with contextlib.suppress(ConfigProblem):
                off = _read(paths.slow_patterns_file(self.root), ConfigSource(Layer.DEFAULT)) or ""
            lines = {
                each: each.replace("\\", "\\\\").replace("\n", "\\n") for each in patterns
            }  # `hook_files.escape`
            patterns = PrivacyPatterns(
                each for each in patterns if lines[each] not in off.split("\n")
            )
            patterns.places = (
                str(paths.state_boundary(self.root)),
                str(paths.state_folder(self.root)),
            )
            patterns.off = set()
        config: Config = _build(Config(), {**self.values, "privacy.patterns": patterns})
        return config

    @property
    def warnings(self) -> tuple[str, ...]:
        """The messages of the complaints."""
        return tuple(problem.message for problem in self.complaints)

    @property
    def json_values(self) -> dict[str, object]:
        """Every key with the value that counts, as JSON has it."""
        return {name: as_json(value) for name, value in self.values.items()}

    def merge_layers(self) -> None:
        """Read all layers; what the main checkout calls private is so in its worktrees."""
        for place, path in sources(self.root, self.env):
            self.read(place, path)
        main = paths.config_files(paths.main_checkout(self.root)) if self.root is not None else ()
        if self.root is not None and paths.settings_files(self.root) != main:
            above = Loaded(None, self.env)
            for layer, path in zip(_FILES, main, strict=True):
                above.read(ConfigSource(layer, str(path)), path)
            for name in ("privacy.patterns", "privacy.paths"):
                values = self.values[name]
                more = above.values[name]
                if (
                    isinstance(values, tuple)
                    and isinstance(more, tuple)
                    and not set(more) <= set(values)
                ):
                    self.values[name] = tuple(dict.fromkeys((*values, *more)))
                    self.origins[name] = above.origins[name]
        names = {key.variable: key for key in KEYS}
        for name, value in self.env.items():
            if name in names:
                self._put_text(names[name], value, ConfigSource(Layer.ENVIRONMENT, name))
            elif name.startswith(tuple(f"RALPH_{section.upper()}_" for section in _SECTIONS)):
                self._report(ConfigSource(Layer.ENVIRONMENT), _unknown(name, names))

    def _report(self, place: ConfigSource, what: str, hint: str = "") -> None:
        self.complaints.append(ConfigProblem(place, what, hint=hint))

    def _put(self, key: ConfigKey, node: ConfigNode, place: ConfigSource) -> None:
        in_project = place.layer in _FILES
        name = key.name
        if in_project and name in TRUSTED:
            value = check_setting(key, node, place)
            if TRUSTED[name](value) and not self._is_trusted(
                TrustedValue(name, value, place, trusted=False)
            ):
                what = (
                    f"{name} is ignored here: what a project names is not used until you trust it"
                )
                self._report(place, what, TRUST)
                if name == CRITERIA and isinstance(
                    value, tuple
                ):  # those that name no command need no trust
                    self.values[name] = tuple(item for item in value if not item.command)
                return
        elif in_project and key.personal:
            self._report(
                place,
                f"{name} is ignored here: a project must not decide this for its users",
                PERSONAL,
            )
            return
        if not key.ignored:
            self.values[name] = check_setting(key, node, place)
            self.origins[name] = place

    def _is_trusted(self, value: TrustedValue) -> bool:
        """The trust file is read only when a project names a value."""
        path = trust_file(self.env)
        text = _read(path, ConfigSource(Layer.USER, str(path))) if path is not None else None
        folders = (self.root, paths.main_checkout(self.root)) if self.root is not None else ()
        roots = {os.path.realpath(folder) for folder in folders}
        rows = {(row.key, row.digest) for row in parse_trust(text or "") if row.root in roots}
        trusted = (value.key, value.digest) in rows
        self.trusted_values.append(replace(value, trusted=trusted))
        return trusted

    def read(self, place: ConfigSource, path: Path) -> None:
        """Read one file, if it exists."""
        if (text := _read(path, place)) is None:
            return
        if place.layer is Layer.SHELL:
            names = {
                key.variable.removeprefix("RALPH_"): key
                for key in KEYS
                if key.name.startswith("memories.")
            }
            for name, node in config_files.parse_shell(text):
                here = replace(place, line=node.line)
                if name in names and isinstance(node.value, str):
                    self._put_text(names[name], node.value, here)
                elif name in names:
                    self._report(here, f"{name} is ignored: not a literal, and nothing is executed")
                elif name.startswith("MEMORIES_"):
                    self._report(here, _unknown(name, names))
            return
        try:
            parse = (
                config_files.parse_toml if place.layer is Layer.TOML else config_files.parse_yaml
            )
            parsed = parse(text, place.where)
        except ConfigError as error:
            line, _, what = error.message.removeprefix(f"{place.where}:").partition(": ")
            raise ConfigProblem(replace(place, line=int(line)), what, hint=error.hint) from error
        for problem in parsed.problems:
            if problem.level == "warning":
                self._report(replace(place, line=problem.line), _printable(problem.what))
        self._read_table(place, parsed.entries, "")

    def _read_table(
        self, file: ConfigSource, entries: Mapping[str, ConfigNode], prefix: str
    ) -> None:
        for part, node in entries.items():
            name = prefix + part
            place = replace(file, line=node.line)
            if node.value is None or (name in _FOREIGN and file.layer is Layer.PROJECT):
                continue
            if name not in BY_NAME and name not in _SECTIONS:
                self._report(place, _unknown(name, (*BY_NAME, *sorted(_SECTIONS))))
            elif name in BY_NAME:
                self._put(BY_NAME[name], node, place)
            elif isinstance(node.value, Mapping):
                self._read_table(file, node.value, name + ".")
            else:
                raise _mismatch(name, ValueMismatch("a section of `key: value` lines", node), place)

    def _put_text(self, key: ConfigKey, text: str, place: ConfigSource) -> None:
        if text.strip() or isinstance(key.default, tuple):
            self._put(key, from_text(key, text), place)


def from_text(key: ConfigKey, text: str) -> ConfigNode:
    """A value from a variable or the command line; a list is JSON, YAML or separated by commas."""
    word = text.strip()
    if isinstance(key.default, tuple):
        if word.startswith("["):
            with contextlib.suppress(ValueError, RecursionError):
                return config_files.config_node(json.loads(word))
            if word.endswith("]") and not key.name.endswith(
                "patterns"
            ):  # a regex may begin with a bracket
                word = word[1:-1]
        parts = [part.strip().strip("\"'") for part in word.split(",")]
        return ConfigNode(tuple(ConfigNode(part) for part in parts if part))
    if key.kind is ValueType.FLAG and word in ("0", "1"):
        return ConfigNode(word == "1")
    return ConfigNode(
        text if key.kind is ValueType.TEXT else config_files.parse_scalar(word), source=text
    )


def check_setting(key: ConfigKey, node: ConfigNode, place: ConfigSource) -> object:
    """The value for a key; ConfigError with its place when it is wrong."""
    try:
        value = config_files.check_value(key, node)
    except ValueMismatch as error:
        raise _mismatch(key.name, error, place) from error
    for item in value if isinstance(value, tuple) else ():
        if (
            isinstance(item, CriterionSetting)
            and item.type is CriterionKind.CUSTOM
            and not item.command
        ):
            raise _mismatch(
                key.name, ValueMismatch("a command for the type custom", ConfigNode(None)), place
            )
    return value


def _mismatch(name: str, error: ValueMismatch, place: ConfigSource) -> ConfigProblem:
    hint = "correct the value; `ralph config --files` lists the files that are read"
    return ConfigProblem(
        replace(place, line=error.line or place.line),
        f"{name}: {_printable(str(error))}",
        hint=hint,
    )


def _read(path: Path, place: ConfigSource) -> str | None:
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "is not a regular file")  # a FIFO would wait for a writer
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigProblem(
            replace(place, line=line), "not UTF-8 text", hint="save the file as UTF-8"
        ) from error
    except OSError as error:
        hint = "check its type and permissions"
        raise ConfigProblem(
            replace(place, line=1), f"cannot be read: {error.strerror}", hint=hint
        ) from error


def key_named(name: str) -> ConfigKey:
    """The key of that name; UsageError with the nearest one otherwise."""
    if (key := BY_NAME.get(name)) is None or key.ignored:
        hint = "`ralph config` lists every key"
        raise UsageError(
            _unknown(name) if key is None else f"{name} is accepted and ignored", hint=hint
        )
    return key


def _unknown(name: str, names: Iterable[str] = BY_NAME) -> str:
    from difflib import get_close_matches

    ends = {other.rpartition(".")[2]: other for other in names}
    near = get_close_matches(name, names, 1)
    near += [ends[end] for end in get_close_matches(name.rpartition(".")[2], ends, 1, 0.75)]
    return f"unknown key {_printable(name)}" + (f"; did you mean {near[0]}?" if near else "")


def _printable(text: str) -> str:
    line = "".join(char if char.isprintable() else "?" for char in text)
    return line if len(line) <= 200 else line[:197] + "..."


def as_json(value: object) -> object:
    """A value as JSON and YAML have it; of a criterion, what differs from the default."""
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if isinstance(value, CriterionSetting):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        return {name: as_json(item) for name, item in parts.items() if name == "type" or item}
    return value.value if isinstance(value, StrEnum) else value
