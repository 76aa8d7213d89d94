"""Describe which coding agents are connected, whether their hooks fire, and what to do next.

`ralph status` and `ralph doctor` use the same rules: `hook_state` finds the installed hooks and
their problems, and `status` counts what they have recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ralph.capture import recorder
from ralph.core.errors import RalphError
from ralph.core.settings import Config
from ralph.install import hook_state
from ralph.install.clients import CLIENTS, Client, Host, has_client
from ralph.install.hook_state import Installed
from ralph.install.setup_state import setup_state
from ralph.install.status import hooks_status
from ralph.lean import discovery
from ralph.search import index
from ralph.storage import sessions

Env = Mapping[str, str]

_REPAIR = "ralph doctor --fix"


class ConnectionState(StrEnum):
    """How well a client is connected."""

    RECORDING = "recording"
    SILENT = "silent"  # its hooks are installed, but none has fired in this project
    BROKEN = "broken"  # its entries are outdated, or they cannot start Ralph
    SEARCH_ONLY = "search only"  # it has no hooks, only the MCP server
    NOT_CONNECTED = "not connected"  # it is on this machine


@dataclass(frozen=True, slots=True)
class Connection:
    """A client on this machine, and the command that connects or repairs it."""

    host: str
    title: str
    state: ConnectionState
    note: str = ""
    command: str = ""
    files: tuple[str, ...] = ()  # in which Ralph is installed
    sessions: int = 0  # that were recorded in this project
    last_recorded_at: str = ""


@dataclass(frozen=True, slots=True)
class Connections:
    """All clients that are connected or found, and the failures of their hooks."""

    clients: tuple[Connection, ...]
    others: tuple[str, ...]  # titles of supported clients that are not on this machine
    recorded: int  # events
    failures: int
    last_failure: str = ""
    last_failure_at: str = ""


def list_connections(root: Path, env: Env) -> Connections:
    """Return the clients that are connected or found on this machine, connected ones first."""
    recorded = index.ask(root, sessions.recorded_hosts)  # syncs the index, so it comes first
    hooks = hooks_status(root, env)
    installed = hook_state.find_installed(root, env)
    launcher_problems = [
        finding.what for _, finding in hook_state.launcher_problems(env, installed)
    ]
    connected: list[Connection] = []
    not_connected: list[Connection] = []
    others: list[str] = []
    for host, client in CLIENTS.items():
        count, last_at = recorded.get(host.value, (0, ""))
        entries = [entry for entry in installed if entry.host == host.value]
        if entries:
            judgement = _judge(
                client,
                [*launcher_problems, *_entry_problems(entries)],
                is_firing=host.value in hooks["hosts"],
            )
            files = tuple(_short_path(entry.file, env) for entry in entries)
            connected.append(
                Connection(host.value, client.title, *judgement, files, count, last_at)
            )
        elif count or _is_here(host, env):
            not_connected.append(
                Connection(
                    host.value,
                    client.title,
                    ConnectionState.NOT_CONNECTED,
                    command=f"ralph install {host.value}",
                    sessions=count,
                    last_recorded_at=last_at,
                )
            )
        else:
            others.append(client.title)
    return Connections(
        (*connected, *not_connected),
        tuple(others),
        recorded=hooks["recorded"],
        failures=hooks["failures"],
        last_failure=hooks["last_failure"],
        last_failure_at=hooks["last_failure_at"],
    )


def _is_here(host: Host, env: Env) -> bool:
    """Return whether a client is on this machine. Without a home folder, none is."""
    with suppress(RalphError):
        return has_client(host, env)
    return False


def _entry_problems(entries: Iterable[Installed]) -> list[str]:
    problems = []
    for entry in entries:
        problems += [finding.what for _, finding in hook_state.entry_problems(entry)]
    return problems


def _short_path(path: Path, env: Env) -> str:
    """Return a path, with the user's home folder as `~`."""
    home = env.get(discovery.HOME_VARIABLE, "")
    if home and path.is_relative_to(home):
        return f"~/{path.relative_to(home).as_posix()}"
    return str(path)


class _Judgement(NamedTuple):
    state: ConnectionState
    note: str = ""
    command: str = ""


def _judge(client: Client, problems: Sequence[str], *, is_firing: bool) -> _Judgement:
    """Judge a client in whose settings Ralph is installed."""
    if problems:
        return _Judgement(ConnectionState.BROKEN, problems[0], _REPAIR)
    if not client.events:
        note = "it has no hooks: its agent can search and add memories, but is not recorded"
        return _Judgement(ConnectionState.SEARCH_ONLY, note)
    if is_firing:
        return _Judgement(ConnectionState.RECORDING)
    note = client.first_step or "start a new session with it in this folder"
    return _Judgement(ConnectionState.SILENT, note)


# --- the next step ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetupStep:
    """What is missing before sessions are recorded here, and the command that provides it."""

    title: str
    text: str
    command: str = ""


def next_step(root: Path, env: Env, config: Config, *, has_sessions: bool) -> SetupStep | None:
    """Return the next step towards recording sessions in this folder, or None if all is done."""
    installed = hook_state.find_installed(root, env)
    with_hooks = [entry for entry in installed if CLIENTS[Host(entry.host)].events]
    if not setup_state(root, env, config).is_recorded:
        return SetupStep(
            "This folder is not set up yet",
            "Hooks record nothing in a folder that is not initialised.",
            "ralph init" if with_hooks else "ralph setup",
        )
    if not with_hooks:
        return _connect_step(env)
    if recorder.paused_since(root) is not None:
        return SetupStep(
            "Recording is paused", "Agents are given nothing, and nothing is recorded.",
            "ralph capture on",
        )  # fmt: skip
    if any(hook_state.installation_problems(root, env)):
        return SetupStep(
            "The hooks need a repair", "Entries in an agent's settings are out of date.", _REPAIR
        )
    if has_sessions:
        return None
    clients = [CLIENTS[Host(name)] for name in dict.fromkeys(entry.host for entry in with_hooks)]
    titles = " and ".join(client.title for client in clients)
    text = f"{titles} will be recorded here. Start a session in this folder, and it appears."
    for client in clients:
        if client.first_step:
            text += f" {client.title}: {client.first_step}."
    return SetupStep("No sessions yet", text)


def _connect_step(env: Env) -> SetupStep:
    found = [host for host, client in CLIENTS.items() if client.events and _is_here(host, env)]
    title = "No coding agent is connected"
    if not found:
        text = "Install a coding agent such as Claude Code or Codex, then connect it."
        return SetupStep(title, text, "ralph install")
    names = ", ".join(CLIENTS[host].title for host in found)
    command = f"ralph install {found[0].value}" if len(found) == 1 else "ralph install"
    text = f"Found on this machine: {names}. Connect it, and its sessions are recorded."
    if len(found) > 1:
        text = f"Found on this machine: {names}. Connect them, and their sessions are recorded."
    return SetupStep(title, text, command)
