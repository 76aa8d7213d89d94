"""The MCP servers that an agent in a project would get, who named them, and whether they work.

Claude Code's order counts. Servers of `.mcp.json`, which came with the repository, count once `ralph trust` has
recorded that value. Answers are cached for five minutes.
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

from ralph.core import paths
from ralph.core.config import ConfigSource, Layer, TrustedValue
from ralph.core.errors import Conflict, Refused, Unreadable, WriteFailed
from ralph.core.extras import missing_extra
from ralph.core.work import UNUSABLE, McpServer, ServerAnswer, ServerScope, ServerStatus, Transport
from ralph.install import project
from ralph.loop.agents.client import get_object, parse_object
from ralph.privacy.privacy import redact
from ralph.storage import files

TTL_MS = 300_000
SECONDS = 5.0  # how long one server may take to answer
_VERSION = 1
_NO_SDK = "the extra 'mcp' is not installed"
_PROJECT_FILE = ".mcp.json"
_TRANSPORTS = {"stdio": Transport.STDIO, "http": Transport.HTTP, "sse": Transport.SSE}
_TRANSPORTS["streamable-http"] = Transport.HTTP
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


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


def list_servers(root: Path, env: Mapping[str, str]) -> tuple[list[McpServer], list[str]]:
    """Return every server that an agent would get, and problems of their files."""
    reader = _ServerReader(root, env)
    servers: dict[str, McpServer] = {}
    for path, scope, keys in reader.server_files():
        for name, spec in reader.read_specs(path, keys):
            servers.setdefault(name, reader.build_server(path, scope, name, spec))
    return list(servers.values()), list(dict.fromkeys(reader.problems))


def trust_candidates(root: Path, env: Mapping[str, str]) -> tuple[TrustedValue, ...]:
    """Return the servers of the project's own file, for `ralph trust`."""
    specs = _ServerReader(root, env).read_specs(root / _PROJECT_FILE, ("mcpServers",))
    return tuple(_trust_candidate(root, env, name, spec) for name, spec in specs)


def _trust_candidate(
    root: Path, env: Mapping[str, str], name: str, spec: Mapping[str, object]
) -> TrustedValue:
    value = TrustedValue(
        f"mcp.{name}", dict(spec), ConfigSource(Layer.PROJECT, _PROJECT_FILE), trusted=False
    )
    trusted = {(entry.root, entry.key, entry.digest) for entry in project.trusted_values(env)}
    return replace(value, trusted=(os.path.realpath(root), value.key, value.digest) in trusted)


class _ServerReader:
    """Reads each file once; one that cannot be read never ends a loop."""

    def __init__(self, root: Path, env: Mapping[str, str]) -> None:
        self.root = root
        self.env = env
        self.roots = tuple(map(str, dict.fromkeys((root, paths.main_checkout(root)))))
        self.problems: list[str] = []
        home = env.get("HOME", "")
        configured = env.get("CLAUDE_CONFIG_DIR", "")
        self.user_file = Path(configured or home) / ".claude.json" if configured or home else None
        self.read = cache(self._read)

    def _read(self, path: Path) -> object:
        try:
            return json.loads((files.read(path) or "").removeprefix("\ufeff").strip() or "{}")
        except Unreadable as error:
            self.problems.append(error.message)
        except (ValueError, RecursionError) as error:
            self.problems.append(f"{paths.shown(path, self.root)}: is no JSON: {error}")
        return {}

    def server_files(self) -> Iterator[tuple[Path, ServerScope, tuple[str, ...]]]:
        own = [self.user_file] if self.user_file is not None else []
        yield from (
            (path, ServerScope.LOCAL, ("projects", root, "mcpServers"))
            for path in own
            for root in self.roots
        )
        yield self.root / _PROJECT_FILE, ServerScope.PROJECT, ("mcpServers",)
        yield from ((path, ServerScope.USER, ("mcpServers",)) for path in own)

    def read_specs(
        self, path: Path, keys: tuple[str, ...]
    ) -> Iterator[tuple[str, Mapping[str, object]]]:
        for name, spec in get_object(self.read(path), *keys).items():
            if isinstance(spec, dict):
                yield name, spec
            else:
                self.problems.append(f"{paths.shown(path, self.root)}: {name} is no server")

    def build_server(
        self, path: Path, scope: ServerScope, name: str, spec: Mapping[str, object]
    ) -> McpServer:
        env = {**self.env, "CLAUDE_PROJECT_DIR": str(self.root)}
        args = spec.get("args")
        arguments = [_expand(argument, env) for argument in args] if isinstance(args, list) else []
        command = (_expand(spec.get("command"), env), *arguments) if spec.get("command") else ()
        url = _expand(spec.get("url"), env)
        kind = spec.get("type")
        transport = Transport.HTTP if url and not command else Transport.STDIO
        if isinstance(kind, str):
            transport = _TRANSPORTS.get(kind, Transport.OTHER)
        trusted = (
            scope is not ServerScope.PROJECT
            or _trust_candidate(self.root, self.env, name, spec).trusted
        )
        why_not = (
            "" if trusted else "the project names it and you have not trusted it: `ralph trust`"
        )
        if transport is Transport.OTHER:
            why_not = "Ralph cannot speak with a server of this type"
        elif not (command if transport is Transport.STDIO else url):
            why_not = "it names neither a command nor an address"
        elif spec.get("headersHelper"):
            why_not = "its headers come from a command of its own"
        own, headers = (_expand_pairs(spec.get(member), env) for member in ("env", "headers"))
        where = paths.shown(path, self.root)
        return McpServer(
            name, scope, transport, command, own, url, headers, where, why_not, trusted
        )


def _expand(value: object, env: Mapping[str, str]) -> str:
    """`${NAME}` and `${NAME:-default}`; one without a value stays."""
    if not isinstance(value, str):
        return ""
    return _VARIABLE.sub(
        lambda match: env.get(match[1]) or (match[0] if match[2] is None else match[2]), value
    )


def _expand_pairs(value: object, env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    members = get_object(value).items()
    return tuple((name, _expand(text, env)) for name, text in members if isinstance(text, str))


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
    """Return every server with its status, and problems; without a fresh answer (or to `refresh`) it is checked."""
    servers, problems = list_servers(root, env)
    now = time.time_ns() // 1_000_000 if now is None else now
    cached: Mapping[str, object] = {}
    with suppress(Unreadable):
        cache_text = "" if refresh else files.read(paths.mcp_status_file(root)) or ""
        cached = get_object(_parse_cache(cache_text), "entries", str(root.resolve()), "servers")
    states = [_cached_state(server, get_object(cached, server.name), now) for server in servers]
    pending = [
        state.server
        for state in states
        if state.status is ServerStatus.UNKNOWN and not state.server.why_not
    ]
    answers: Mapping[str, ServerAnswer] = {}
    if pending:
        try:
            from ralph.loop.agents.mcp_client import check_servers
        except ModuleNotFoundError as error:
            if needed:
                raise missing_extra("mcp", "`ralph mcp status`") from error
            answers = {
                server.name: ServerAnswer(ServerStatus.UNKNOWN, _NO_SDK) for server in pending
            }
        else:
            answers = check_servers(pending, root, env, seconds=seconds)
    for position, state in enumerate(states):
        if answer := answers.get(state.server.name):
            why = redact(answer.why, patterns).text  # it has a program's output
            checked = answer.status is not ServerStatus.UNKNOWN
            states[position] = replace(
                state, status=answer.status, why=why, cached_at=now, checked=checked
            )
    statuses = {state.server.name: state.status.value for state in states}
    before = {name: get_object(cached, name).get("status") for name in cached}
    if statuses != before or any(state.checked for state in states):
        _write_cache(root, states, now)
    return states, problems


def denying_settings(states: Sequence[ServerState]) -> str:
    """Return settings for `claude --settings` that deny the unusable servers; "" for none."""
    denied = [{"serverName": state.server.name} for state in states if not state.usable]
    return json.dumps({"deniedMcpServers": denied}, ensure_ascii=False) if denied else ""


def describe_denied(states: Sequence[ServerState]) -> list[str]:
    """Return a line for each reason why servers are denied."""
    untrusted = ", ".join(state.server.name for state in states if not state.server.trusted)
    unusable = (state for state in states if state.server.trusted and not state.usable)
    failed = ", ".join(f"{state.server.name} ({state.status})" for state in unusable)
    lines = (
        [f"MCP servers left out, since you have not trusted them (`ralph trust`): {untrusted}"]
        if untrusted
        else []
    )
    return [*lines, *([f"MCP servers left out: {failed}"] if failed else [])]


def untrusted_servers(root: Path, env: Mapping[str, str]) -> tuple[ServerState, ...]:
    """Return the project's servers that the user has not trusted, without checking any."""
    servers, _ = list_servers(root, env)
    return tuple(
        ServerState(each, ServerStatus.UNKNOWN, why=each.why_not)
        for each in servers
        if not each.trusted
    )


def _cached_state(server: McpServer, cached: Mapping[str, object], now: int) -> ServerState:
    status = cached.get("status")
    at = cached.get("cachedAt")
    is_fresh = type(at) is int and 0 <= now - at < TTL_MS
    if server.why_not or not is_fresh or status not in list(ServerStatus):
        return ServerState(server, ServerStatus.UNKNOWN, now, server.why_not)
    return ServerState(server, ServerStatus(str(status)), int(str(at)))


def _write_cache(root: Path, states: Sequence[ServerState], now: int) -> None:
    key = str(root.resolve())

    def edit(text: str) -> str:
        cached = _parse_cache(text)
        entries = get_object(cached, "entries")
        entry = get_object(entries, key)
        servers = {}
        for state in states:
            known = get_object(entry, "servers", state.server.name)
            servers[state.server.name] = {
                **known,
                "status": state.status.value,
                "cachedAt": state.cached_at,
            }
        entries = {**entries, key: {**entry, "servers": servers, "updatedAt": now}}
        return (
            json.dumps(
                {**cached, "version": _VERSION, "entries": entries}, ensure_ascii=False, indent=2
            )
            + "\n"
        )

    with suppress(Conflict, Refused, Unreadable, WriteFailed):
        files.update(
            paths.mcp_status_file(root), edit, root=paths.main_checkout(root), mode=files.PRIVATE
        )


def _parse_cache(text: str) -> Mapping[str, object]:
    cached = parse_object(text) or {}
    return cached if cached.get("version") == _VERSION else {}
