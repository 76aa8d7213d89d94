"""The MCP servers that an agent in a project would get, who named them, and whether they work.

Claude Code's order counts: the user's for this project, `.mcp.json`, the user's for all projects, installed plugins.
`.mcp.json` came with the repository: its servers are checked and passed on only once `ralph trust` has recorded that
very value, or the user's own settings of Claude Code enable it; `.claude/` of a repository enables nothing. Answers
are cached for five minutes (spec 4), until the clock goes back or the file that names the server changes. Without
the extra `mcp` nothing is checked. A file that cannot be read is a problem to report and never ends a loop.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import config, paths
from ralph.agents.client import get_object, parse_object
from ralph.capture.privacy import redact
from ralph.config import ConfigSource, Layer, Trusted, TrustedValue
from ralph.errors import Conflict, Refused, Unreadable, UsageError, WriteFailed
from ralph.model.work import UNUSABLE, McpServer, ServerAnswer, ServerScope, ServerStatus, Transport
from ralph.store import files

PROJECT_FILE = ".mcp.json"
KEY = "mcp"  # the key of a server in the trust file: `mcp.<server>`
_TRANSPORTS = {
    "stdio": Transport.STDIO,
    "http": Transport.HTTP,
    "streamable-http": Transport.HTTP,
    "sse": Transport.SSE,
}
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_UNTRUSTED = "the project names it and you have not trusted it: `ralph trust`"
_HELPER = "its headers come from a command of its own"
_OTHER = "Ralph cannot speak with a server of this type"
_NOTHING = "it names neither a command nor an address"

VERSION = 1
TTL_MS = 300_000
SECONDS = 5.0  # how long one server may take to answer
NO_SDK = "the extra 'mcp' is not installed"


@dataclass(frozen=True, slots=True)
class ServerList:
    """The servers, each name once, and problems of the files that name them."""

    servers: tuple[McpServer, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ServerFile:
    """One file of servers; a plugin's values may use the plugin's folder."""

    path: Path
    whose: ServerScope
    keys: tuple[str, ...] = ()
    prefix: str = ""
    plugin: str = ""


def list_servers(root: Path, env: Mapping[str, str]) -> ServerList:
    """Return every server that an agent in this project would get."""
    reader = _ServerReader(root, env)
    servers: dict[str, McpServer] = {}
    for file in _server_files(root, env, reader):
        for name, spec in reader.servers(file):
            servers.setdefault(file.prefix + name, reader.server(file, name, spec))
    return ServerList(tuple(servers.values()), tuple(dict.fromkeys(reader.problems)))


def trust_candidates(root: Path, env: Mapping[str, str]) -> tuple[TrustedValue, ...]:
    """Return the servers of the project's own file, for `ralph trust`."""
    reader = _ServerReader(root, env)
    return tuple(reader.trust_candidate(name, spec) for name, spec in reader.servers(_project_file(root)))


def _project_file(root: Path) -> _ServerFile:
    return _ServerFile(root / PROJECT_FILE, ServerScope.PROJECT, ("mcpServers",))


def _server_files(root: Path, env: Mapping[str, str], reader: "_ServerReader") -> Iterator[_ServerFile]:
    folder, user_file = _claude_config(env)
    if folder:
        for project in dict.fromkeys((root, paths.main_checkout(root))):
            yield _ServerFile(user_file, ServerScope.LOCAL, ("projects", str(project), "mcpServers"))
    yield _project_file(root)
    if folder:
        yield _ServerFile(user_file, ServerScope.USER, ("mcpServers",))
        yield from _plugin_files(root, Path(folder), reader)


def _plugin_files(root: Path, folder: Path, reader: "_ServerReader") -> Iterator[_ServerFile]:
    enabled = get_object(reader.read(folder / "settings.json"), "enabledPlugins")
    plugins = get_object(reader.read(folder / "plugins" / "installed_plugins.json"), "plugins")
    for name, installations in plugins.items():
        for installed in installations if isinstance(installations, list) else ():
            if not isinstance(installed, dict) or not isinstance(installed.get("installPath"), str):
                continue
            here = installed.get("projectPath") in (str(root), str(paths.main_checkout(root)))
            if here or (installed.get("scope") == "user" and enabled.get(name) is True):
                plugin = installed["installPath"]
                prefix = f"plugin:{name.partition('@')[0]}:"
                yield _ServerFile(Path(plugin) / PROJECT_FILE, ServerScope.PLUGIN, ("mcpServers",), prefix, plugin)
                break


def _claude_config(env: Mapping[str, str]) -> tuple[str, Path]:
    """Return Claude Code's folder ("" when there is none) and the user's file of servers."""
    home, configured = env.get("HOME", ""), env.get("CLAUDE_CONFIG_DIR", "")
    return configured or (f"{home}/.claude" if home else ""), Path(configured or home) / ".claude.json"


class _ServerReader:
    """Reads each file once and collects problems."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.problems: list[str] = []
        self._root, self._env = root, env
        self._texts: dict[Path, object] = {}
        self._trusted: frozenset[Trusted] | None = None

    def read(self, path: Path) -> object:
        """Return the value of a JSON file; an empty object when it is missing or broken."""
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

    def servers(self, file: _ServerFile) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Yield the servers of a file; a plugin's file may omit the outer key."""
        value = self.read(file.path)
        servers = get_object(value, *file.keys)
        if not servers and file.whose is ServerScope.PLUGIN and isinstance(value, dict) and "mcpServers" not in value:
            servers = value
        for name, spec in servers.items():
            if isinstance(spec, dict):
                yield name, spec
            else:
                self.problems.append(f"{paths.shown(file.path, self._root)}: {name} is no server")

    def server(self, file: _ServerFile, name: str, spec: Mapping[str, object]) -> McpServer:
        env = {**self._env, "CLAUDE_PROJECT_DIR": str(self._root), "CLAUDE_PLUGIN_ROOT": file.plugin}
        args = spec.get("args")
        arguments = tuple(_expand(argument, env) for argument in args) if isinstance(args, list) else ()
        command = (_expand(spec.get("command"), env), *arguments) if spec.get("command") else ()
        url = _expand(spec.get("url"), env)
        kind = spec.get("type")
        if isinstance(kind, str):
            transport = _TRANSPORTS.get(kind, Transport.OTHER)
        else:
            transport = Transport.HTTP if url and not command else Transport.STDIO
        written = 0  # Claude Code writes its own files at every turn
        if file.whose not in (ServerScope.LOCAL, ServerScope.USER):
            with suppress(OSError):
                written = file.path.stat().st_mtime_ns // 1_000_000
        server = McpServer(
            name=file.prefix + name,
            whose=file.whose,
            way=transport,
            command=command,
            url=url,
            env=_expand_pairs(spec.get("env"), env),
            headers=_expand_pairs(spec.get("headers"), env),
            where=paths.shown(file.path, self._root),
            written=written,
        )
        is_project = file.whose is ServerScope.PROJECT
        trusted = not is_project or self._is_enabled(name) or self.trust_candidate(name, spec).trusted
        why_not = "" if trusted else _UNTRUSTED
        if transport is Transport.OTHER:
            why_not = _OTHER
        elif not (command if transport is Transport.STDIO else url):
            why_not = _NOTHING
        elif spec.get("headersHelper"):
            why_not = _HELPER
        return replace(server, why_not=why_not, trusted=trusted)

    def _is_enabled(self, name: str) -> bool:
        """Whether the user's own settings of Claude Code enable a server of the project, or all of them."""
        folder, user_file = _claude_config(self._env)
        if not folder:
            return False
        user = self.read(user_file)
        projects = [get_object(user, "projects", str(path)) for path in (self._root, paths.main_checkout(self._root))]
        for settings in (get_object(self.read(Path(folder) / "settings.json")), *projects):
            enabled, disabled = settings.get("enabledMcpjsonServers"), settings.get("disabledMcpjsonServers")
            if isinstance(disabled, list) and name in disabled:
                return False
            if settings.get("enableAllProjectMcpServers") is True or (isinstance(enabled, list) and name in enabled):
                return True
        return False

    def trust_candidate(self, name: str, spec: Mapping[str, object]) -> TrustedValue:
        if self._trusted is None:
            path = config.trust_file(self._env)
            self._trusted = frozenset(config.parse_trust((files.read(path) if path is not None else None) or ""))
        value = TrustedValue(f"{KEY}.{name}", dict(spec), ConfigSource(Layer.PROJECT, PROJECT_FILE), trusted=False)
        key = (config.real_root(self._root), value.key, value.digest)
        return replace(value, trusted=any((entry.root, entry.key, entry.digest) == key for entry in self._trusted))


def _expand(value: object, env: Mapping[str, str]) -> str:
    """Expand `${NAME}` and `${NAME:-default}`; one without a value stays. "" for what is no text."""
    if not isinstance(value, str):
        return ""
    return _VARIABLE.sub(lambda match: env.get(match[1]) or (match[0] if match[2] is None else match[2]), value)


def _expand_pairs(value: object, env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    members = value.items() if isinstance(value, dict) else ()
    return tuple((name, _expand(text, env)) for name, text in members if isinstance(text, str))


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server and its status; `checked` when that was just now, else of `cached_at`."""

    server: McpServer
    status: ServerStatus
    cached_at: int = 0
    why: str = ""
    checked: bool = False

    @property
    def usable(self) -> bool:
        """Whether an agent gets this server."""
        return self.server.trusted and self.status not in UNUSABLE


@dataclass(frozen=True, slots=True)
class ServerOverview:
    """Every server with its status, and problems of the files that name them."""

    servers: tuple[ServerState, ...] = ()
    problems: tuple[str, ...] = ()


def cache_file(root: Path) -> Path:
    """Return the cache file, in the main checkout."""
    return paths.mcp_status_file(root)


def server_status(
    root: Path,
    env: Mapping[str, str],
    *,
    refresh: bool = False,
    seconds: float = SECONDS,
    patterns: Sequence[str] = (),
    now: int | None = None,
    needed: bool = False,
) -> ServerOverview:
    """Return the status of every server; those without a fresh answer are checked, with `refresh` all of them.

    `needed`: UsageError when servers must be checked and the SDK is not installed.
    """
    overview = list_servers(root, env)
    now = time.time_ns() // 1_000_000 if now is None else now
    cache = {} if refresh else _read_cache(root)
    states = [_cached_state(server, cache.get(server.name, {}), now) for server in overview.servers]
    pending = [state.server for state in states if state.status is ServerStatus.UNKNOWN and not state.server.why_not]
    answers = _check_servers(pending, root, env, seconds, needed) if pending else {}
    for position, state in enumerate(states):
        if answer := answers.get(state.server.name):
            why = redact(answer.why, tuple(patterns)).text  # it has a program's output
            checked = answer.status is not ServerStatus.UNKNOWN
            states[position] = replace(state, status=answer.status, why=why, cached_at=now, checked=checked)
    statuses = {state.server.name: state.status.value for state in states}
    cached = {name: server.get("status") for name, server in cache.items()}
    if statuses != cached or any(state.checked for state in states):
        _write_cache(root, states, now)
    return ServerOverview(tuple(states), overview.problems)


def denying_settings(states: Sequence[ServerState]) -> str:
    """Return settings for `claude --settings` that deny the unusable servers; "" for none."""
    denied = [{"serverName": state.server.name} for state in states if not state.usable]
    return json.dumps({"deniedMcpServers": denied}, ensure_ascii=False) if denied else ""


def describe_denied(states: Sequence[ServerState]) -> list[str]:
    """Return a line for each reason why servers are denied."""
    untrusted = ", ".join(state.server.name for state in states if not state.server.trusted)
    unusable = (state for state in states if state.server.trusted and not state.usable)
    failed = ", ".join(f"{state.server.name} ({state.status})" for state in unusable)
    lines = [f"MCP servers left out, since you have not trusted them (`ralph trust`): {untrusted}"] if untrusted else []
    return [*lines, *([f"MCP servers left out: {failed}"] if failed else [])]


def untrusted_servers(root: Path, env: Mapping[str, str]) -> tuple[ServerState, ...]:
    """Return the project's servers that the user has not trusted, without checking any."""
    servers = list_servers(root, env).servers
    return tuple(ServerState(each, ServerStatus.UNKNOWN, why=each.why_not) for each in servers if not each.trusted)


def _check_servers(
    servers: Sequence[McpServer], root: Path, env: Mapping[str, str], seconds: float, needed: bool
) -> Mapping[str, ServerAnswer]:
    try:
        from ralph.agents import mcp_client
    except ModuleNotFoundError as error:
        if needed:
            hint = "uv tool install 'ralph-memory[mcp]'   (or: pipx install 'ralph-memory[mcp]')"
            raise UsageError(f"`ralph mcp status` needs {NO_SDK[4:]}", hint=hint) from error
        return {server.name: ServerAnswer(ServerStatus.UNKNOWN, NO_SDK) for server in servers}
    return mcp_client.check_servers(servers, root, env, seconds=seconds)


def _cached_state(server: McpServer, cached: Mapping[str, object], now: int) -> ServerState:
    status, at = cached.get("status"), cached.get("cachedAt")
    is_fresh = type(at) is int and 0 <= now - at < TTL_MS and server.written <= at
    if server.why_not or not is_fresh or status not in list(ServerStatus):
        return ServerState(server, ServerStatus.UNKNOWN, now, server.why_not)
    return ServerState(server, ServerStatus(str(status)), int(str(at)))


def _read_cache(root: Path) -> dict[str, Mapping[str, object]]:
    try:
        cache = _parse_cache(files.read(cache_file(root)) or "")
    except Unreadable:
        return {}
    servers = get_object(cache, "entries", str(root.resolve()), "servers")
    return {name: server for name, server in servers.items() if isinstance(server, dict)}


def _write_cache(root: Path, states: Sequence[ServerState], now: int) -> None:
    """Write this project's entry; other entries and unknown members stay."""
    key = str(root.resolve())

    def edit(text: str) -> str:
        cache = _parse_cache(text)
        entries = get_object(cache, "entries")
        entry = get_object(entries, key)
        servers = {
            each.server.name: {
                **get_object(entry, "servers", each.server.name),
                "status": each.status.value,
                "cachedAt": each.cached_at,
            }
            for each in states
        }
        entries = {**entries, key: {**entry, "servers": servers, "updatedAt": now}}
        return json.dumps({**cache, "version": VERSION, "entries": entries}, ensure_ascii=False, indent=2) + "\n"

    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.update(cache_file(root), edit, root=paths.main_checkout(root), mode=files.PRIVATE)


def _parse_cache(text: str) -> Mapping[str, object]:
    """Return the cache; empty when it is damaged or of another version."""
    cache = parse_object(text) or {}
    return cache if cache.get("version") == VERSION else {}
