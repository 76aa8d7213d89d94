"""Find the MCP servers that an agent would get in a project, who configured them, and their status.

The order of precedence is the same as in Claude Code. Servers in `.mcp.json`, which came with the
repository, are used only after `ralph trust` has recorded their exact configuration. A server's
status is cached for five minutes.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.config import ConfigSource, Layer, TrustedValue
from ralph.core.errors import Conflict, Refused, Unreadable, WriteFailed
from ralph.core.extras import missing_extra
from ralph.core.work import UNUSABLE, McpServer, ServerAnswer, ServerScope, ServerStatus, Transport
from ralph.loop.agents.client import get_object, parse_object
from ralph.privacy.privacy import redact
from ralph.storage import files, trust_records

TTL_MS = 300_000  # milliseconds for which a cached status is used
SECONDS = 5.0  # how long one server may take to answer
_NANOSECONDS_PER_MILLISECOND = 1_000_000
_CACHE_VERSION = 1
_NO_SDK = "the extra 'mcp' is not installed"
_PROJECT_FILE = ".mcp.json"
_SERVERS_KEY = "mcpServers"
_TRANSPORTS = {
    "stdio": Transport.STDIO,
    "http": Transport.HTTP,
    "streamable-http": Transport.HTTP,
    "sse": Transport.SSE,
}
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
Specification = Mapping[str, object]  # one server, as written in its file


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server and its status, which was either just `checked` or is from the cache."""

    server: McpServer
    status: ServerStatus
    cached_at: int = 0  # milliseconds since 1970
    why: str = ""
    checked: bool = False

    @property
    def usable(self) -> bool:
        """Whether an agent gets this server."""
        return self.server.trusted and self.status not in UNUSABLE


# --- reading the configuration -------------------------------------------------------------------


def list_servers(root: Path, env: Mapping[str, str]) -> tuple[list[McpServer], list[str]]:
    """Return every server that an agent would get, and the problems in the server files."""
    reader = _ServerReader(root, env)
    servers: dict[str, McpServer] = {}
    for source in reader.sources():
        for name, specification in reader.read_specifications(source.path, source.keys):
            server = reader.build_server(source, name, specification)
            servers.setdefault(name, server)
    return list(servers.values()), list(dict.fromkeys(reader.problems))


def trust_candidates(root: Path, env: Mapping[str, str]) -> tuple[TrustedValue, ...]:
    """Return the servers listed in the project's own file, for `ralph trust`."""
    reader = _ServerReader(root, env)
    specifications = reader.read_specifications(root / _PROJECT_FILE, (_SERVERS_KEY,))
    return tuple(
        _trust_candidate(root, env, name, specification) for name, specification in specifications
    )


def _trust_candidate(
    root: Path, env: Mapping[str, str], name: str, specification: Specification
) -> TrustedValue:
    source = ConfigSource(Layer.PROJECT, _PROJECT_FILE)
    value = TrustedValue(f"mcp.{name}", dict(specification), source, trusted=False)
    trusted = {(entry.root, entry.key, entry.digest) for entry in trust_records.trusted_values(env)}
    is_trusted = (os.path.realpath(root), value.key, value.digest) in trusted
    return replace(value, trusted=is_trusted)


class _Source(NamedTuple):
    """A place where servers are configured: a JSON file and the keys that lead to an object."""

    path: Path
    scope: ServerScope
    keys: tuple[str, ...]


class _ServerReader:
    """Reads server files, each one once. An unreadable file is reported rather than an error."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.root = root
        self.env = env
        self.folders = tuple(dict.fromkeys((root, paths.main_checkout(root))))
        self.problems: list[str] = []
        self.read = cache(self._read)

    def _read(self, path: Path) -> object:
        try:
            return json.loads((files.read(path) or "").removeprefix("\ufeff").strip() or "{}")
        except Unreadable as error:
            self.problems.append(error.message)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{paths.shown(path, self.root)}: is not JSON: {error}")
        return {}

    def sources(self) -> Iterator[_Source]:
        """Yield the places where servers are configured. Earlier ones take precedence."""
        user_file = self._user_file()
        if user_file is not None:
            for folder in self.folders:
                keys = ("projects", str(folder), _SERVERS_KEY)
                yield _Source(user_file, ServerScope.LOCAL, keys)
        yield _Source(self.root / _PROJECT_FILE, ServerScope.PROJECT, (_SERVERS_KEY,))
        if user_file is not None:
            yield _Source(user_file, ServerScope.USER, (_SERVERS_KEY,))

    def _user_file(self) -> Path | None:
        folder = self.env.get("CLAUDE_CONFIG_DIR", "") or self.env.get("HOME", "")
        if not folder:
            return None
        return Path(folder) / ".claude.json"

    def read_specifications(
        self, path: Path, keys: tuple[str, ...]
    ) -> Iterator[tuple[str, Specification]]:
        """Yield the name and specification of each server under these keys in a file."""
        for name, specification in get_object(self.read(path), *keys).items():
            if isinstance(specification, dict):
                yield name, specification
            else:
                self.problems.append(f"{paths.shown(path, self.root)}: {name} is not a server")

    def build_server(self, source: _Source, name: str, specification: Specification) -> McpServer:
        """Build a server from its specification, with variables expanded.

        If the server cannot be used, its `why_not` says why.
        """
        env = {**self.env, "CLAUDE_PROJECT_DIR": str(self.root)}
        command = _expand_command(specification, env)
        url = _expand(specification.get("url"), env)
        transport = _find_transport(specification, has_url_only=bool(url and not command))
        trusted = (
            source.scope is not ServerScope.PROJECT
            or _trust_candidate(self.root, self.env, name, specification).trusted
        )
        target = command if transport is Transport.STDIO else url
        if transport is Transport.OTHER:
            why_not = "Ralph does not support this type of server"
        elif not target:
            why_not = "it has neither a command nor a URL"
        elif specification.get("headersHelper"):
            why_not = "its headers come from a command of its own"
        elif not trusted:
            why_not = "the project configures it and you have not trusted it: `ralph trust`"
        else:
            why_not = ""
        return McpServer(
            name,
            source.scope,
            transport,
            command,
            env=_expand_pairs(specification.get("env"), env),
            url=url,
            headers=_expand_pairs(specification.get("headers"), env),
            where=paths.shown(source.path, self.root),
            why_not=why_not,
            trusted=trusted,
        )


def _find_transport(specification: Specification, *, has_url_only: bool) -> Transport:
    kind = specification.get("type")
    if isinstance(kind, str):
        return _TRANSPORTS.get(kind, Transport.OTHER)
    if has_url_only:
        return Transport.HTTP
    return Transport.STDIO


def _expand_command(specification: Specification, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return a server's program and arguments, or () if it has no command."""
    if not specification.get("command"):
        return ()
    program = _expand(specification.get("command"), env)
    arguments = specification.get("args")
    if not isinstance(arguments, list):
        return (program,)
    return (program, *(_expand(argument, env) for argument in arguments))


def _expand(value: object, env: Mapping[str, str]) -> str:
    """Expand `${NAME}` and `${NAME:-default}`. Variables without a value are left as they are."""
    if not isinstance(value, str):
        return ""

    def expand_variable(match: re.Match[str]) -> str:
        name, default = match.groups()
        if env.get(name):
            return env[name]
        if default is None:
            return match[0]
        return str(default)

    return _VARIABLE.sub(expand_variable, value)


def _expand_pairs(value: object, env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    pairs = []
    for name, text in get_object(value).items():
        if isinstance(text, str):
            pairs.append((name, _expand(text, env)))
    return tuple(pairs)


# --- status --------------------------------------------------------------------------------------


def server_status(
    root: Path,
    env: Mapping[str, str],
    *,
    refresh: bool = False,
    seconds: float = SECONDS,
    patterns: Sequence[str] = (),
    now: int | None = None,
    needed: bool = False,
) -> tuple[list[ServerState], list[str]]:
    """Return every server with its status, and the problems in the server files.

    Servers without a fresh status in the cache are contacted. With `refresh`, every server is.
    `now` is in milliseconds since 1970. If servers must be contacted but the extra `mcp` is
    missing, their status is unknown, or an error is raised if the status is `needed`.
    """
    servers, problems = list_servers(root, env)
    if now is None:
        now = time.time_ns() // _NANOSECONDS_PER_MILLISECOND
    cached: Mapping[str, object] = {}
    if not refresh:
        cached = _read_cache(root)
    states = [_cached_state(server, get_object(cached, server.name), now) for server in servers]
    pending = [state.server for state in states if _must_be_asked(state)]
    if pending:
        answers = _ask_servers(pending, root, env, seconds=seconds, needed=needed)
        states = [_answered_state(state, answers, now, patterns) for state in states]
    if _has_changed(states, cached):
        _write_cache(root, states, now)
    return states, problems


def _must_be_asked(state: ServerState) -> bool:
    return state.status is ServerStatus.UNKNOWN and not state.server.why_not


def _ask_servers(
    pending: Sequence[McpServer],
    root: Path,
    env: Mapping[str, str],
    *,
    seconds: float,
    needed: bool,
) -> Mapping[str, ServerAnswer]:
    """Contact the servers, and return their answers by name."""
    try:
        from ralph.loop.agents.mcp_client import check_servers
    except ModuleNotFoundError as error:
        if needed:
            raise missing_extra("mcp", "`ralph mcp status`") from error
        return {server.name: ServerAnswer(ServerStatus.UNKNOWN, _NO_SDK) for server in pending}
    return check_servers(pending, root, env, seconds=seconds)


def _answered_state(
    state: ServerState,
    answers: Mapping[str, ServerAnswer],
    now: int,
    patterns: Sequence[str],
) -> ServerState:
    """Return the state updated by the server's answer, or unchanged if there is no answer."""
    answer = answers.get(state.server.name)
    if answer is None:
        return state
    return replace(
        state,
        status=answer.status,
        why=redact(answer.why, patterns).text,  # it may quote the output of a program
        cached_at=now,
        checked=answer.status is not ServerStatus.UNKNOWN,
    )


def _has_changed(states: Sequence[ServerState], cached: Mapping[str, object]) -> bool:
    if any(state.checked for state in states):
        return True
    statuses = {state.server.name: state.status.value for state in states}
    return statuses != {name: get_object(cached, name).get("status") for name in cached}


def untrusted_servers(root: Path, env: Mapping[str, str]) -> tuple[ServerState, ...]:
    """Return the project's servers that the user has not trusted, without contacting any."""
    servers, _ = list_servers(root, env)
    return tuple(
        ServerState(server, ServerStatus.UNKNOWN, why=server.why_not)
        for server in servers
        if not server.trusted
    )


# --- leaving servers out -------------------------------------------------------------------------


def denying_settings(states: Sequence[ServerState]) -> str:
    """Return settings for `claude --settings` that deny the unusable servers.

    Returns "" if all servers are usable.
    """
    denied = [{"serverName": state.server.name} for state in states if not state.usable]
    if not denied:
        return ""
    return json.dumps({"deniedMcpServers": denied}, ensure_ascii=False)


def describe_denied(states: Sequence[ServerState]) -> list[str]:
    """Return a line for each reason for denying servers, with the names of the servers."""
    untrusted = []
    unusable = []
    for state in states:
        if not state.server.trusted:
            untrusted.append(state.server.name)
        elif not state.usable:
            unusable.append(f"{state.server.name} ({state.status})")
    lines = []
    if untrusted:
        names = ", ".join(untrusted)
        lines.append(
            f"MCP servers left out because you have not trusted them (`ralph trust`): {names}"
        )
    if unusable:
        lines.append(f"MCP servers left out: {', '.join(unusable)}")
    return lines


# --- the cache -----------------------------------------------------------------------------------


def _read_cache(root: Path) -> Mapping[str, object]:
    """Return the cached servers of a project. An unreadable cache counts as empty."""
    try:
        text = files.read(paths.mcp_status_file(root)) or ""
    except Unreadable:
        return {}
    return get_object(_parse_cache(text), "entries", _cache_key(root), "servers")


def _cached_state(server: McpServer, cached: Mapping[str, object], now: int) -> ServerState:
    status = cached.get("status")
    cached_at = cached.get("cachedAt")
    is_fresh = type(cached_at) is int and 0 <= now - cached_at < TTL_MS
    if server.why_not or not is_fresh or status not in list(ServerStatus):
        return ServerState(server, ServerStatus.UNKNOWN, now, server.why_not)
    return ServerState(server, ServerStatus(str(status)), int(str(cached_at)))


def _write_cache(root: Path, states: Sequence[ServerState], now: int) -> None:
    """Write the status of a project's servers to the cache, keeping members unknown to Ralph."""
    key = _cache_key(root)

    def edit(text: str) -> str:
        cached = _parse_cache(text)
        entries = get_object(cached, "entries")
        entry = get_object(entries, key)
        servers = {}
        for state in states:
            servers[state.server.name] = {
                **get_object(entry, "servers", state.server.name),
                "status": state.status.value,
                "cachedAt": state.cached_at,
            }
        changed_entry = {**entry, "servers": servers, "updatedAt": now}
        changed = {
            **cached,
            "version": _CACHE_VERSION,
            "entries": {**entries, key: changed_entry},
        }
        return json.dumps(changed, ensure_ascii=False, indent=2) + "\n"

    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.update(
            paths.mcp_status_file(root), edit, root=paths.main_checkout(root), mode=files.PRIVATE
        )


def _cache_key(root: Path) -> str:
    return str(root.resolve())


def _parse_cache(text: str) -> Mapping[str, object]:
    cached = parse_object(text) or {}
    if cached.get("version") != _CACHE_VERSION:
        return {}
    return cached
