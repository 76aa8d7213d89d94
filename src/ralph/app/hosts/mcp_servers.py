"""Which MCP servers an agent in this project would be given, and by whom: the files are read, never written.

Claude Code's own order counts: what a user named for this project, `.mcp.json`, what a user named for all projects, and
installed plugins, whose servers are called `plugin:<plugin>:<server>`. A user's own files and what a user installed
are the user's word. `.mcp.json` came with the repository: its commands and addresses are asked only once `ralph trust`
has recorded that very value, as it is with everything else that a project names (`config.Named`), or once the user's
own settings of Claude Code have agreed to it; what a repository says of itself in `.claude/` agrees to nothing. A file
that cannot be read is told and otherwise passed over, since a loop must not end over it.
`tests/app/hosts/test_mcp_servers.py`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import config, paths
from ralph.config import Layer, Named, Place, Trusted
from ralph.errors import Unreadable
from ralph.model.work import McpServer, ServerScope, Transport
from ralph.store import files

PROJECT_FILE = ".mcp.json"
KEY = "mcp"
"""What the trust file calls the values of this file: `mcp.<server>`."""

_WAYS = {"stdio": Transport.STDIO, "http": Transport.HTTP, "streamable-http": Transport.HTTP, "sse": Transport.SSE}
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_UNTRUSTED = "the project names it and you have not trusted it: `ralph trust`"
_HELPER = "its headers come from a command of its own"
_OTHER = "Ralph cannot speak with a server of this type"
_NOTHING = "it names neither a command nor an address"


@dataclass(frozen=True, slots=True)
class Listed:
    """The servers, each name once, and what is wrong with the files that name them."""

    servers: tuple[McpServer, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """One file with servers in it; its values may use the plugin's own folder."""

    path: Path
    whose: ServerScope
    keys: tuple[str, ...] = ()
    prefix: str = ""
    plugin: str = ""


def listed(root: Path, env: Mapping[str, str]) -> Listed:
    """Every server that an agent in this project would be given."""
    reading = _Reading(root, env)
    found: dict[str, McpServer] = {}
    for file in _files(root, env, reading):
        for name, spec in reading.servers(file):
            found.setdefault(file.prefix + name, reading.server(file, name, spec))
    return Listed(tuple(found.values()), tuple(dict.fromkeys(reading.problems)))


def named(root: Path, env: Mapping[str, str]) -> tuple[Named, ...]:
    """What the project's own file names to be run or sent to, for `ralph trust`."""
    reading = _Reading(root, env)
    return tuple(reading.named(name, spec) for name, spec in reading.servers(_project_file(root)))


def _project_file(root: Path) -> _File:
    return _File(root / PROJECT_FILE, ServerScope.PROJECT, ("mcpServers",))


def _files(root: Path, env: Mapping[str, str], reading: "_Reading") -> Iterator[_File]:
    home = env.get("HOME", "")
    folder = env.get("CLAUDE_CONFIG_DIR") or (f"{home}/.claude" if home else "")
    own = Path(env.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    if folder:
        for place in dict.fromkeys((root, paths.state_root(root))):
            yield _File(own, ServerScope.LOCAL, ("projects", str(place), "mcpServers"))
    yield _project_file(root)
    if folder:
        yield _File(own, ServerScope.USER, ("mcpServers",))
        yield from _plugins(root, Path(folder), reading)


def _plugins(root: Path, folder: Path, reading: "_Reading") -> Iterator[_File]:
    """The files of plugins that the user installed for all projects and enabled, or installed for this one."""
    on = _inner(reading.read(folder / "settings.json"), "enabledPlugins")
    for name, places in _inner(reading.read(folder / "plugins" / "installed_plugins.json"), "plugins").items():
        for place in places if isinstance(places, list) else ():
            if not isinstance(place, dict) or not isinstance(place.get("installPath"), str):
                continue
            here = place.get("projectPath") in (str(root), str(paths.state_root(root)))
            if here or (place.get("scope") == "user" and on.get(name) is True):
                plugin = place["installPath"]
                prefix = f"plugin:{name.partition('@')[0]}:"
                yield _File(Path(plugin) / PROJECT_FILE, ServerScope.PLUGIN, ("mcpServers",), prefix, plugin)
                break


class _Reading:
    """The files, each read once, and what is wrong with them."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.problems: list[str] = []
        self._root, self._env = root, env
        self._texts: dict[Path, object] = {}
        self._held: frozenset[Trusted] | None = None

    def read(self, path: Path) -> object:
        """What a JSON file says; an empty object when there is none, or none that can be read."""
        if path not in self._texts:
            self._texts[path] = {}
            try:
                text = files.read(path)
                if text and text.strip():
                    self._texts[path] = json.loads(text.removeprefix("\ufeff"))
            except Unreadable as error:
                self.problems.append(error.message)
            except (ValueError, RecursionError) as error:
                self.problems.append(f"{paths.shown(path, self._root)}: is no JSON: {error}")
        return self._texts[path]

    def servers(self, file: _File) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The servers of a file; a plugin's may stand there without the outer key."""
        said = self.read(file.path)
        found = _inner(said, *file.keys)
        if not found and file.whose is ServerScope.PLUGIN and isinstance(said, dict) and "mcpServers" not in said:
            found = said
        for name, spec in found.items():
            if isinstance(spec, dict):
                yield name, spec
            else:
                self.problems.append(f"{paths.shown(file.path, self._root)}: {name} is no server")

    def server(self, file: _File, name: str, spec: Mapping[str, object]) -> McpServer:
        """One server, its variables filled in; one without a value stays as it is written, as Claude Code has it."""
        fill = _Filling({**self._env, "CLAUDE_PROJECT_DIR": str(self._root), "CLAUDE_PLUGIN_ROOT": file.plugin})
        words = spec.get("args")
        args = tuple(fill.text(each) for each in words) if isinstance(words, list) else ()
        command = (fill.text(spec.get("command")), *args) if spec.get("command") else ()
        url = fill.text(spec.get("url"))
        kind = spec.get("type")
        way = (
            _WAYS.get(kind, Transport.OTHER)
            if isinstance(kind, str)
            else Transport.HTTP
            if url and not command
            else Transport.STDIO
        )
        made = McpServer(
            name=file.prefix + name, whose=file.whose, way=way, command=command, url=url,
            env=fill.pairs(spec.get("env")), headers=fill.pairs(spec.get("headers")),
            spec=json.dumps(_located(spec, file.plugin), ensure_ascii=False),
            where=paths.shown(file.path, self._root), written=_written(file),
        )  # fmt: skip
        trusted = file.whose is not ServerScope.PROJECT or self._agreed(name) or self.named(name, spec).trusted
        return replace(made, why_not=_why_not(made, spec, trusted), trusted=trusted)

    def _agreed(self, name: str) -> bool:
        """Whether the user's own settings of Claude Code agree to a server of the project, or to all of them."""
        home = self._env.get("HOME", "")
        folder = self._env.get("CLAUDE_CONFIG_DIR") or (f"{home}/.claude" if home else "")
        if not folder:
            return False
        own = self.read(Path(self._env.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json")
        here = [_inner(own, "projects", str(each)) for each in (self._root, paths.state_root(self._root))]
        for said in (_inner(self.read(Path(folder) / "settings.json")), *here):
            named, refused = said.get("enabledMcpjsonServers"), said.get("disabledMcpjsonServers")
            if isinstance(refused, list) and name in refused:
                return False
            if said.get("enableAllProjectMcpServers") is True or (isinstance(named, list) and name in named):
                return True
        return False

    def named(self, name: str, spec: Mapping[str, object]) -> Named:
        """A server of the project's file as `ralph trust` shows it."""
        if self._held is None:
            path = config.trust_file(self._env)
            self._held = frozenset(config.trusted((files.read(path) if path is not None else None) or ""))
        said = Named(f"{KEY}.{name}", dict(spec), Place(Layer.PROJECT, PROJECT_FILE), trusted=False)
        here = config.real_root(self._root)
        return replace(
            said, trusted=any((one.root, one.key, one.digest) == (here, said.key, said.digest) for one in self._held)
        )


def _why_not(server: McpServer, spec: Mapping[str, object], trusted: bool) -> str:
    if server.way is Transport.OTHER:
        return _OTHER
    if not (server.command if server.way is Transport.STDIO else server.url):
        return _NOTHING
    if spec.get("headersHelper"):
        return _HELPER
    return "" if trusted else _UNTRUSTED


def _located(spec: Mapping[str, object], plugin: str) -> object:
    """A plugin's server with the plugin's folder filled in, since only its own file may speak of it."""
    if not plugin:
        return spec
    quoted = json.dumps(plugin)[1:-1]
    return json.loads(json.dumps(spec).replace("${CLAUDE_PLUGIN_ROOT}", quoted))


def _written(file: _File) -> int:
    """When a file was written; of Claude Code's own, which it writes at every turn, that tells nothing."""
    if file.whose in (ServerScope.LOCAL, ServerScope.USER):
        return 0
    try:
        return file.path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


class _Filling:
    """`${NAME}` and `${NAME:-otherwise}`, filled in from an environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def text(self, value: object) -> str:
        """A text with its variables filled in; "" for what is no text."""
        return _VARIABLE.sub(self._value, value) if isinstance(value, str) else ""

    def pairs(self, value: object) -> tuple[tuple[str, str], ...]:
        """The members of an object of texts."""
        found = value.items() if isinstance(value, dict) else ()
        return tuple((name, self.text(each)) for name, each in found if isinstance(each, str))

    def _value(self, match: "re.Match[str]") -> str:
        otherwise = match[0] if match[2] is None else match[2]
        return self._env.get(match[1]) or otherwise


def _inner(value: object, *keys: str) -> Mapping[str, object]:
    """The object below these keys, or an empty one."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
