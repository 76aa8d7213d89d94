"""Find out which MCP servers respond, and leave the others out of Claude Code's sessions.

A server's status is cached for five minutes in `.ralph/cache/mcp-status.json`:

    {"version": 1, "entries": {"/home/ann/shop": {"servers": {
        "docs": {"status": "running", "cachedAt": 1700000000000}}, "updatedAt": 1700000000000}}}

A server that does not answer in time is asked once more, with more time. If it is still silent, it
is left out of this session, but its status is cached as unknown, because the machine may only be
busy. Ralph's own server is never left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Conflict, Refused, Unreadable, WriteFailed
from ralph.core.extras import missing_extra
from ralph.core.work import UNUSABLE, McpServer, ServerAnswer, ServerStatus
from ralph.loop.agents.json_members import get_object, parse_object
from ralph.loop.mcp_servers import list_servers
from ralph.privacy.privacy import redact
from ralph.storage import files

TTL_MS = 300_000  # milliseconds for which a cached status is used
SECONDS = 5.0  # how long one server may take to answer
SLOW_FACTOR = 4.0  # how many times as long it may take when it is asked again
_NANOSECONDS_PER_MILLISECOND = 1_000_000
_CACHE_VERSION = 1
_NO_SDK = "the extra 'mcp' is not installed"


@dataclass(frozen=True, slots=True)
class ServerState:
    """A server and its status, which was either just `checked` or is from the cache."""

    server: McpServer
    status: ServerStatus
    cached_at: int = 0  # milliseconds since 1970
    why: str = ""
    checked: bool = False
    timed_out: bool = False

    @property
    def usable(self) -> bool:
        """Whether an agent gets this server."""
        return self.server.trusted and (self.server.is_ralph or self.status not in UNUSABLE)


def server_status(
    root: Path,
    env: Mapping[str, str],
    *,
    refresh: bool = False,
    seconds: float = SECONDS,
    patterns: Sequence[str] = (),
    now: int | None = None,
    needed: bool = False,
    check_ralph: bool = True,
) -> tuple[list[ServerState], list[str]]:
    """Return every server with its status, and the problems in the server files.

    Servers without a fresh status in the cache are contacted. With `refresh`, every server is.
    `now` is in milliseconds since 1970. If servers must be contacted but the extra `mcp` is
    missing, their status is unknown, or an error is raised if the status is `needed`. Without
    `check_ralph`, Ralph's own server is not contacted.
    """
    servers, problems = list_servers(root, env)
    if now is None:
        now = time.time_ns() // _NANOSECONDS_PER_MILLISECOND
    cached: Mapping[str, object] = {}
    if not refresh:
        cached = _read_cache(root)
    states = [_cached_state(server, get_object(cached, server.name), now) for server in servers]
    pending = [state.server for state in states if _is_unchecked(state)]
    if not check_ralph:
        pending = [server for server in pending if not server.is_ralph]
    if pending:
        answers = _ask_servers(pending, root, env, seconds=seconds, needed=needed)
        states = [_apply_answer(state, answers, now, patterns) for state in states]
    if _has_changed(states, cached):
        _write_cache(root, states, now)
    return states, problems


def _is_unchecked(state: ServerState) -> bool:
    return state.status is ServerStatus.UNKNOWN and not state.server.why_not


def _ask_servers(
    pending: Sequence[McpServer],
    root: Path,
    env: Mapping[str, str],
    *,
    seconds: float,
    needed: bool,
) -> Mapping[str, ServerAnswer]:
    """Contact the servers, those without an answer twice, and return their answers by name."""
    try:
        from ralph.loop.agents.mcp_client import check_servers
    except ModuleNotFoundError as error:
        if needed:
            raise missing_extra("mcp", "`ralph doctor --mcp`") from error
        return {server.name: ServerAnswer(ServerStatus.UNKNOWN, _NO_SDK) for server in pending}
    answers = check_servers(pending, root, env, seconds=seconds)
    slow = [server for server in pending if answers[server.name].timed_out]
    if slow:
        answers |= check_servers(slow, root, env, seconds=seconds * SLOW_FACTOR)
    return answers


def _apply_answer(
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
        timed_out=answer.timed_out,
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
            unusable.append(_describe_unusable(state))
    lines = []
    if untrusted:
        names = ", ".join(untrusted)
        lines.append(
            f"MCP servers left out because you have not trusted them (`ralph trust`): {names}"
        )
    if unusable:
        lines.append(f"MCP servers left out: {', '.join(unusable)}")
    return lines


def _describe_unusable(state: ServerState) -> str:
    if not state.checked:
        return (
            f"{state.server.name} ({state.status}; `ralph doctor --mcp --refresh` checks it again)"
        )
    if not state.why:
        return f"{state.server.name} ({state.status})"
    return f"{state.server.name} ({state.status}: {state.why})"


# --- the cache -----------------------------------------------------------------------------------


def _read_cache(root: Path) -> Mapping[str, object]:
    """Return the cached servers of a project. An unreadable cache counts as empty."""
    try:
        text = files.read(paths.mcp_status_file(root)) or ""
    except Unreadable:
        return {}
    return get_object(_parse_cache(text), "entries", _cache_key(root), "servers")


def _cached_state(server: McpServer, cached: Mapping[str, object], now: int) -> ServerState:
    # The cache lists every server, so one of unknown status needs a time as well.
    unknown = ServerState(server, ServerStatus.UNKNOWN, cached_at=now, why=server.why_not)
    cached_at = cached.get("cachedAt")
    if server.why_not or not isinstance(cached_at, int) or not 0 <= now - cached_at < TTL_MS:
        return unknown
    try:
        status = ServerStatus(str(cached.get("status")))
    except ValueError:  # written by another program or version
        return unknown
    return ServerState(server, status, cached_at)


def _write_cache(root: Path, states: Sequence[ServerState], now: int) -> None:
    """Write the status of a project's servers to the cache, keeping members unknown to Ralph."""
    key = _cache_key(root)

    def edit(text: str) -> str:
        cached = _parse_cache(text)
        entries = get_object(cached, "entries")
        entry = get_object(entries, key)
        servers = {}
        for state in states:
            status = ServerStatus.UNKNOWN if state.timed_out else state.status
            servers[state.server.name] = {
                **get_object(entry, "servers", state.server.name),
                "status": status.value,
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
