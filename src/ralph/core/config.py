"""Load the settings from the config files and the environment.

`core.settings` defines the keys. Layers are merged in order, and a later layer overrides an earlier
one. `.ralph/config.sh` is parsed and never executed. Some values that a project sets (see
`TRUSTED`) take effect only once they are listed in the user's trust file.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralph.core import config_files, paths
from ralph.core.config_files import ConfigKey, ConfigNode, ValueMismatch, ValueType
from ralph.core.errors import ConfigError, UsageError
from ralph.core.patterns import PrivacyPatterns
from ralph.core.record import CriterionKind
from ralph.core.settings import Config, CriterionSetting

if TYPE_CHECKING:
    from ralph.core.patterns import SearchLimit


class Layer(StrEnum):
    """The sources of a setting, in ascending order of precedence."""

    DEFAULT = "default"
    USER = "user config"
    SHELL = ".ralph/config.sh"
    TOML = ".ralph.toml"
    PROJECT = "ralph.yml"
    LOCAL = "ralph.local.yml"
    ENVIRONMENT = "environment"
    FLAG = "flag"


def _named_fields(section: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the dataclass field of every key in a section."""
    for member in fields(section):
        if "section" in member.metadata:
            subsection = member.metadata["section"]
            yield from _named_fields(member.default, f"{prefix}{subsection}.")
        else:
            yield prefix + member.name, member


def _keys(section: Any) -> Iterator[ConfigKey]:
    for name, member in _named_fields(section):
        limits = dict(member.metadata["limits"])
        limits.pop("trusted", None)
        if "parts" in limits:
            make_part = limits["parts"]
            limits["make"] = make_part
            limits["parts"] = tuple(_keys(make_part()))
        kind = member.metadata["kind"]
        yield ConfigKey(name, kind, member.default, member.metadata["doc"], **limits)


def _build(section: Any, values: Mapping[str, object], prefix: str = "") -> Any:
    """Return a copy of a section with every key set to its entry in `values`."""
    members = {}
    for member in fields(section):
        subsection = member.metadata.get("section")
        if subsection:
            members[member.name] = _build(member.default, values, f"{prefix}{subsection}.")
        else:
            members[member.name] = values[prefix + member.name]
    return type(section)(**members)


def _trust_tests() -> dict[str, Callable[[object], bool]]:
    tests = {}
    for name, member in _named_fields(Config()):
        limits = member.metadata["limits"]
        if "trusted" in limits:
            tests[name] = limits["trusted"]
    return tests


def _section_names(key_names: Iterable[str]) -> set[str]:
    sections = set()
    for name in key_names:
        section = name.rpartition(".")[0]
        while section:
            sections.add(section)
            section = section.rpartition(".")[0]
    return sections


_IGNORED = (
    ConfigKey(
        "execution.learn",
        ValueType.FLAG,
        True,
        "Accepted but ignored: learning is always on.",
        ignored=True,
    ),
    *(
        ConfigKey(
            f"context.shares.{name}",
            ValueType.FRACTION,
            share,
            "Accepted but ignored: `ralph.context_budget` limits the whole prompt.",
            ignored=True,
            highest=1,
        )
        for name, share in (("system", 0.10), ("task", 0.35), ("response", 0.40))
    ),
)
KEYS = (*_keys(Config()), *_IGNORED)
BY_NAME: Mapping[str, ConfigKey] = {key.name: key for key in KEYS}
TRUSTED: Mapping[str, Callable[[object], bool]] = _trust_tests()
"""The keys that need trust when a project sets them, each with a test for the values that do."""
_SECTIONS = _section_names(BY_NAME)
_SECTION_VARIABLES = tuple(f"RALPH_{section.upper()}_" for section in _SECTIONS)
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
"""Sections used by ralph-orchestrator, which also reads a `ralph.yml`."""
_PROJECT_LAYERS = (Layer.SHELL, Layer.TOML, Layer.PROJECT, Layer.LOCAL)
_PRIVATE_KEYS = ("privacy.patterns", "privacy.paths")
_MAX_SHOWN_CHARACTERS = 200
_MIN_SUFFIX_SIMILARITY = 0.75  # difflib ratio at which the last part of a key counts as a typo
PERSONAL = "set it in your own config (`ralph config KEY VALUE --user`) or in the environment"
CRITERIA = "ralph.success_criteria"
TRUST = "`ralph trust` shows the value and records that you trust it"
trust_file = paths.trust_file


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Where a value was set: the layer, the file or variable, and the line (0 if unknown)."""

    layer: Layer
    where: str = ""
    line: int = 0

    def __str__(self) -> str:
        if self.line:
            return f"{self.where}:{self.line}"
        return self.where or self.layer.value


class ConfigProblem(ConfigError):
    """A problem in the config. Fatal ones are raised, others are reported as warnings."""

    def __init__(self, place: ConfigSource, what: str, *, hint: str = "") -> None:
        super().__init__(f"{place}: {what}", hint=hint)
        self.place = place
        self.what = what


@dataclass(frozen=True, slots=True)
class TrustedValue:
    """A command or server named in a project's config file, and whether the user trusts it."""

    key: str
    value: object
    place: ConfigSource
    trusted: bool

    @property
    def digest(self) -> str:
        """The fingerprint of the value. A different value must be trusted separately."""
        import hashlib

        text = json.dumps(as_json(self.value), ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True, order=True)
class Trusted:
    """One entry in the trust file.

    The user trusts the value with this digest for `key` in the project at `root`, which is a real
    path.
    """

    root: str
    key: str
    digest: str
    at: str = ""


def sources(root: Path | None, env: Mapping[str, str]) -> tuple[tuple[ConfigSource, Path], ...]:
    """Return the files that `load` reads, lowest layer first.

    Each file comes with the source that messages refer to.
    """
    found = []
    user_file = paths.user_config_file(env)
    if user_file is not None:
        found.append((ConfigSource(Layer.USER, str(user_file)), user_file))
    if root is not None:
        for layer, path in zip(_PROJECT_LAYERS, paths.settings_files(root), strict=True):
            found.append((ConfigSource(layer, layer.value), path))
    return tuple(found)


def load(
    root: Path | None,
    *,
    env: Mapping[str, str],
    limit: Callable[[Path], SearchLimit] | None = None,
    last_good: Callable[[Path], str | None] | None = None,
) -> Loaded:
    """Load all layers and merge them.

    `limit` creates the time limit for searches with the project's privacy patterns. Without it, the
    searches are not limited. `last_good` returns the last text of a config file that could be used,
    and makes loading succeed in any case: see `Loaded.unusable`. Without it, raises ConfigError if
    a value is wrong or a file cannot be read.
    """
    loaded = Loaded(root, env, limit, last_good)
    loaded.merge_layers()
    return loaded


def parse_trust(text: str) -> tuple[Trusted, ...]:
    """Return the entries in a trust file, or none if Ralph did not write the file."""
    if not text.strip():
        return ()
    names = [member.name for member in fields(Trusted)]
    try:
        rows = json.loads(text)["trusted"]
        return tuple(Trusted(**{name: str(row[name]) for name in names}) for row in rows)
    except (ValueError, RecursionError, KeyError, TypeError):
        return ()


@dataclass(frozen=True, slots=True)
class Unusable:
    """A config file or an environment variable that cannot be used, and why."""

    problem: ConfigProblem
    path: Path | None = None  # None for a variable
    has_last_good: bool = False  # whether its last good text is used instead


class Loaded:
    """The merged settings: the value and source of each key, the warnings, and the use of trust.

    With `last_good`, the last good text of a file replaces one that cannot be used, and a variable
    that cannot be used is left out. Both are listed in `unusable`. What can still be read of their
    privacy rules is added to the others, so that a broken file never makes anything public.
    `texts` has the files that could be used.
    """

    def __init__(
        self,
        root: Path | None,
        env: Mapping[str, str],
        limit: Callable[[Path], SearchLimit] | None = None,
        last_good: Callable[[Path], str | None] | None = None,
    ) -> None:
        self.root = root
        self.env = env
        self._limit = limit
        self._last_good = last_good
        self.unusable: list[Unusable] = []
        self.texts: dict[Path, str] = {}
        self._rescued: dict[str, tuple[str, ...]] = {}
        self.trusted_values: list[TrustedValue] = []
        self.values: dict[str, object] = {key.name: key.default for key in KEYS if not key.ignored}
        self.origins = dict.fromkeys(self.values, ConfigSource(Layer.DEFAULT))
        self.complaints: list[ConfigProblem] = []

    @cached_property
    def config(self) -> Config:
        """The effective settings, without the privacy patterns that timed out on this machine."""
        values = dict(self.values)
        patterns = values["privacy.patterns"]
        if self.root is not None and isinstance(patterns, tuple) and patterns:
            values["privacy.patterns"] = self._usable_patterns(self.root, patterns)
        config: Config = _build(Config(), values)
        return config

    def _usable_patterns(self, root: Path, patterns: tuple[str, ...]) -> Sequence[str]:
        """Return the patterns not on record as slow, with the time limit for searches attached."""
        slow: list[str] = []
        with contextlib.suppress(ConfigProblem):
            text = _read(paths.slow_patterns_file(root), ConfigSource(Layer.DEFAULT))
            slow = (text or "").split("\n")
        usable = tuple(pattern for pattern in patterns if _escape_line(pattern) not in slow)
        if self._limit is None:
            return usable
        return PrivacyPatterns(usable, self._limit(root))

    @property
    def warnings(self) -> tuple[str, ...]:
        """The messages for the problems that are not fatal."""
        return tuple(problem.message for problem in self.complaints)

    @property
    def json_values(self) -> dict[str, object]:
        """Every key with its effective value, converted to JSON types."""
        return {name: as_json(value) for name, value in self.values.items()}

    def merge_layers(self) -> None:
        """Read all layers.

        Everything that the main checkout marks as private is also private in its worktrees.
        """
        for place, path in sources(self.root, self.env):
            self.read(place, path)
        if self.root is not None:
            self._add_private_of_main_checkout(self.root)
        self._read_environment()
        for name, rules in self._rescued.items():
            self._add_private(name, rules, ConfigSource(Layer.DEFAULT))

    def _add_private_of_main_checkout(self, root: Path) -> None:
        main_files = paths.config_files(paths.main_checkout(root))
        if paths.settings_files(root) == main_files:
            return
        main = Loaded(None, self.env, last_good=self._last_good)
        for layer, path in zip(_PROJECT_LAYERS, main_files, strict=True):
            main.read(ConfigSource(layer, str(path)), path)
        self.unusable += main.unusable
        self.texts |= main.texts
        for name in _PRIVATE_KEYS:
            self._add_private(name, main.values[name], main.origins[name])
            self._add_private(name, main._rescued.get(name, ()), main.origins[name])

    def _add_private(self, name: str, rules: object, place: ConfigSource) -> None:
        """Add privacy rules to those of the layers read so far."""
        ours = self.values[name]
        if not isinstance(ours, tuple) or not isinstance(rules, tuple):
            return
        if not set(rules) <= set(ours):
            self.values[name] = tuple(dict.fromkeys((*ours, *rules)))
            self.origins[name] = place

    def _read_environment(self) -> None:
        key_of_variable = {key.variable: key for key in KEYS}
        for name, value in self.env.items():
            if name in key_of_variable:
                self._read_variable(key_of_variable[name], name, value)
            elif name.startswith(_SECTION_VARIABLES):
                self._report(ConfigSource(Layer.ENVIRONMENT), _unknown(name, key_of_variable))

    def _read_variable(self, key: ConfigKey, name: str, value: str) -> None:
        try:
            self._put_text(key, value, ConfigSource(Layer.ENVIRONMENT, name))
        except ConfigProblem as problem:
            if self._last_good is None:
                raise
            self.unusable.append(Unusable(problem))
            if key.name in _PRIVATE_KEYS:
                from ralph.core import config_rescue  # few values are unusable

                self._rescue({key.name: config_rescue.texts_in(from_text(key, value))})

    def _rescue(self, rules: Mapping[str, Iterable[str]]) -> None:
        """Keep those privacy rules that can be used."""
        for name in _PRIVATE_KEYS:
            usable = list(self._rescued.get(name, ()))
            for text in rules.get(name, ()):
                item = ConfigNode((ConfigNode(text, source=text),))
                with contextlib.suppress(ValueMismatch):
                    config_files.check_value(BY_NAME[name], item)
                    usable.append(text)
            self._rescued[name] = tuple(dict.fromkeys(usable))

    def _report(self, place: ConfigSource, what: str, hint: str = "") -> None:
        self.complaints.append(ConfigProblem(place, what, hint=hint))

    def _put(self, key: ConfigKey, node: ConfigNode, place: ConfigSource) -> None:
        if place.layer in _PROJECT_LAYERS:
            self._put_project_value(key, node, place)
        else:
            self._set(key, node, place)

    def _set(self, key: ConfigKey, node: ConfigNode, place: ConfigSource) -> None:
        if not key.ignored:
            self.values[key.name] = check_setting(key, node, place)
            self.origins[key.name] = place

    def _put_project_value(self, key: ConfigKey, node: ConfigNode, place: ConfigSource) -> None:
        """Use a value from a project's file, or report that it is ignored.

        A repository must not run programs or choose for its users before they trust it.
        """
        if key.name in TRUSTED:
            value = check_setting(key, node, place)
            needs_trust = TRUSTED[key.name](value)
            if needs_trust and not self._look_up_trust(key.name, value, place):
                self._ignore_untrusted(key, value, place)
                return
        elif key.personal:
            what = f"{key.name} is ignored here: a project cannot decide this for its users"
            self._report(place, what, PERSONAL)
            return
        self._set(key, node, place)

    def _ignore_untrusted(self, key: ConfigKey, value: object, place: ConfigSource) -> None:
        """Report a value that is not used. Criteria without a command need no trust."""
        ignored = key.name
        if key.name == CRITERIA and isinstance(value, tuple):
            self.values[key.name] = tuple(item for item in value if not item.command)
            commands = [_printable(item.command) for item in value if item.command]
            ignored = f"{key.name} ({', '.join(commands)})"
        what = f"{ignored} is ignored here: a project's value is not used until you trust it"
        self._report(place, what, TRUST)

    def _look_up_trust(self, name: str, value: object, place: ConfigSource) -> bool:
        """Look up a value in the trust file, and add the result to `trusted_values`."""
        wanted = TrustedValue(name, value, place, trusted=False)
        trusted = (name, wanted.digest) in self._trusted_digests()
        self.trusted_values.append(replace(wanted, trusted=trusted))
        return trusted

    def _trusted_digests(self) -> set[tuple[str, str]]:
        path = trust_file(self.env)
        if path is None or self.root is None:
            return set()
        text = _read(path, ConfigSource(Layer.USER, str(path))) or ""
        folders = (self.root, paths.main_checkout(self.root))
        roots = {os.path.realpath(folder) for folder in folders}
        return {(row.key, row.digest) for row in parse_trust(text) if row.root in roots}

    def read(self, place: ConfigSource, path: Path) -> None:
        """Read one file, if it exists."""
        values_before = dict(self.values)
        origins_before = dict(self.origins)
        try:
            text = _read(path, place, is_config=True)
            if text is not None:
                self._read_text(place, text)
                self.texts[path] = text
        except ConfigProblem as problem:
            if self._last_good is None:
                raise
            self.values = values_before
            self.origins = origins_before
            good_text = self._last_good(path)
            self.unusable.append(Unusable(problem, path, good_text is not None))
            if good_text is not None:
                # An earlier version of Ralph may have accepted what this one does not.
                with contextlib.suppress(ConfigProblem):
                    self._read_text(place, good_text)
            from ralph.core import config_rescue  # few files are unusable

            self._rescue(config_rescue.privacy_rules(_read_beginning(path)))

    def _read_text(self, place: ConfigSource, text: str) -> None:
        if place.layer is Layer.SHELL:
            self._read_shell(place, text)
            return
        parse = config_files.parse_yaml
        if place.layer is Layer.TOML:
            parse = config_files.parse_toml
        try:
            parsed = parse(text, place.where)
        except ConfigError as error:
            raise _problem_at(place, error) from error
        for problem in parsed.problems:
            if problem.level == "warning":
                self._report(replace(place, line=problem.line), _printable(problem.what))
        self._read_table(place, parsed.entries, "")

    def _read_shell(self, file: ConfigSource, text: str) -> None:
        key_of_variable = {}
        for key in KEYS:
            if key.name.startswith("memories."):
                key_of_variable[key.variable.removeprefix("RALPH_")] = key
        for name, node in config_files.parse_shell(text):
            place = replace(file, line=node.line)
            if name in key_of_variable and isinstance(node.value, str):
                self._put_text(key_of_variable[name], node.value, place)
            elif name in key_of_variable:
                self._report(place, f"{name} is ignored: not a literal, and nothing is executed")
            elif name.startswith("MEMORIES_"):
                self._report(place, _unknown(name, key_of_variable))

    def _read_table(
        self, file: ConfigSource, entries: Mapping[str, ConfigNode], prefix: str
    ) -> None:
        for part, node in entries.items():
            name = prefix + part
            place = replace(file, line=node.line)
            is_foreign = name in _FOREIGN and file.layer is Layer.PROJECT
            if node.value is None or is_foreign:
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
    """Parse a value given in an environment variable or on the command line.

    A list may be JSON, a bracketed YAML list, or comma-separated.
    """
    word = text.strip()
    if isinstance(key.default, tuple):
        return _list_from_text(key, word)
    if key.kind is ValueType.FLAG and word in ("0", "1"):
        return ConfigNode(word == "1")
    if key.kind is ValueType.TEXT:
        return ConfigNode(text, source=text)
    return ConfigNode(config_files.parse_scalar(word), source=text)


def _list_from_text(key: ConfigKey, word: str) -> ConfigNode:
    if word.startswith("["):
        with contextlib.suppress(ValueError, RecursionError):
            return config_files.config_node(json.loads(word))
        is_regex = key.name.endswith("patterns")  # a regex may begin with a bracket
        if word.endswith("]") and not is_regex:
            word = word[1:-1]
    items = [item.strip().strip("\"'") for item in word.split(",")]
    return ConfigNode(tuple(ConfigNode(item) for item in items if item))


def check_setting(key: ConfigKey, node: ConfigNode, place: ConfigSource) -> object:
    """Check the value that a file or variable gives for a key, and return it.

    Raises ConfigProblem with the location of the value if it is wrong.
    """
    try:
        value = config_files.check_value(key, node)
    except ValueMismatch as error:
        raise _mismatch(key.name, error, place) from error
    if isinstance(value, tuple) and any(_lacks_command(item) for item in value):
        missing = ValueMismatch("a command for the type custom", ConfigNode(None))
        raise _mismatch(key.name, missing, place)
    return value


def _lacks_command(item: object) -> bool:
    if not isinstance(item, CriterionSetting):
        return False
    return item.type is CriterionKind.CUSTOM and not item.command


def _mismatch(name: str, error: ValueMismatch, place: ConfigSource) -> ConfigProblem:
    hint = "correct the value; `ralph config --files` lists the files that are read"
    if place.layer is Layer.FLAG:
        hint = f"correct the value; `ralph config {name}` shows the present one"
    return ConfigProblem(
        replace(place, line=error.line or place.line),
        f"{name}: {_printable(str(error))}",
        hint=hint,
    )


def _problem_at(place: ConfigSource, error: ConfigError) -> ConfigProblem:
    """Return the problem for an error whose message names `place.where` and a line."""
    line, _, what = error.message.removeprefix(f"{place.where}:").partition(": ")
    return ConfigProblem(replace(place, line=int(line)), what, hint=error.hint)


def _read(path: Path, place: ConfigSource, *, is_config: bool = False) -> str | None:
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "is not a regular file")  # reading a FIFO would block
        if is_config:
            config_files.check_size(path.stat().st_size, place.where)
        return path.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ConfigError as error:
        raise _problem_at(place, error) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        hint = "save the file as UTF-8"
        raise ConfigProblem(replace(place, line=line), "not UTF-8 text", hint=hint) from error
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        hint = "check its type and permissions"
        raise ConfigProblem(replace(place, line=0), what, hint=hint) from error


def _read_beginning(path: Path) -> str:
    """Return as much of a config file as may be parsed, or "" if it cannot be read."""
    try:
        if path.is_file():
            with path.open("rb") as file:
                return file.read(config_files.MAX_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        pass
    return ""


def key_named(name: str) -> ConfigKey:
    """Return the key with this name.

    Raises UsageError with the closest name as a suggestion if there is no such key.
    """
    key = BY_NAME.get(name)
    if key is None:
        raise UsageError(_unknown(name), hint="`ralph config` lists every key")
    if key.ignored:
        raise UsageError(f"{name} is accepted and ignored", hint="`ralph config` lists every key")
    return key


def _unknown(name: str, names: Iterable[str] = BY_NAME) -> str:
    from difflib import get_close_matches

    section, _, member = name.rpartition(".")
    members = [other.rpartition(".")[2] for other in names if other.rpartition(".")[0] == section]
    if section and members:
        close = [f"{section}.{match}" for match in get_close_matches(member, members, 1)]
        if not close:
            valid = [other for other in members if not _is_ignored(f"{section}.{other}")]
            return f"unknown key {_printable(name)}; {section} has {', '.join(valid)}"
    else:
        close = get_close_matches(name, names, 1)
    if not close:
        name_of_suffix: dict[str, str] = {}
        for other in names:
            # Of several keys with the same suffix, the first one declared is suggested.
            name_of_suffix.setdefault(other.rpartition(".")[2], other)
        suffix = name.rpartition(".")[2]
        for match in get_close_matches(suffix, name_of_suffix, 1, _MIN_SUFFIX_SIMILARITY):
            close.append(name_of_suffix[match])
    message = f"unknown key {_printable(name)}"
    if close:
        message += f"; did you mean {close[0]}?"
    return message


def _is_ignored(name: str) -> bool:
    key = BY_NAME.get(name)
    return key is not None and key.ignored


def _printable(text: str) -> str:
    line = "".join(char if char.isprintable() else "?" for char in text)
    if len(line) > _MAX_SHOWN_CHARACTERS:
        return line[: _MAX_SHOWN_CHARACTERS - 3] + "..."
    return line


def _escape_line(value: str) -> str:
    """Escape a value the way `hook_files.escape` does for the slow-patterns file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def as_json(value: object) -> object:
    """Convert a setting to JSON and YAML types.

    A criterion becomes a mapping of its type and those members that are not empty.
    """
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if isinstance(value, CriterionSetting):
        members = {}
        for member in fields(value):
            item = getattr(value, member.name)
            if item or member.name == "type":
                members[member.name] = as_json(item)
        return members
    if isinstance(value, StrEnum):
        return value.value
    return value
