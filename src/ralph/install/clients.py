"""The coding agents (clients) that Ralph installs into, with their files and the events they send.

A client's events determine what it can do. Each event is mapped to the name that our hook receives.
For example, `AfterTool` is recorded and answered, while `beforeSubmitPrompt` is only recorded, for
clients that ignore the answer to a prompt. To add a client, add a row here. If its payloads differ
from Claude Code's, also add an adapter in `hooks/adapters.py`. Commands and docs are derived from
the table.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import Refused, UsageError
from ralph.core.json_text import dump_json
from ralph.core.launchers import folder_in
from ralph.install.slash_commands import SLASH_COMMANDS, sign_text, slash_command

Env = Mapping[str, str]

_TIMEOUTS = {
    "SessionStart": 15,
    "PreToolUse": 5,
    "PostToolUseFailure": 5,
    "SubagentStart": 5,
    "SessionEnd": 2,
    "PreCompact": 20,
    "PreCompress": 20,
    "Stop": 20,
    "AfterAgent": 20,
}
"""How many seconds a host waits for a hook, keyed by our name for the event."""
_DEFAULT_TIMEOUT = 10  # seconds, for all other events
_CLINE_SERVER_TIMEOUT = 60  # seconds; by default, Cline drops a server that starts slowly
_SCRIPT_MODE = 0o755
_PLUGIN_FILE = Path(__file__).parents[1] / "hooks" / "opencode.js"


class Host(StrEnum):
    """A coding agent that Ralph can be installed into."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    QWEN = "qwen"
    COPILOT = "copilot"
    CLINE = "cline"
    CURSOR = "cursor"
    WINDSURF = "windsurf"
    ZED = "zed"
    VSCODE = "vscode"


class InstallScope(StrEnum):
    """Where something is installed."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


class HookForm(StrEnum):
    """How a client stores its hooks.

    Hooks are groups or entries in a JSON file, scripts, or a plugin. Some clients have none.
    """

    GROUPS = "groups"
    ENTRIES = "entries"
    SCRIPTS = "scripts"
    PLUGIN = "plugin"
    NONE = "none"


# --- the table ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A row in the table of clients."""

    title: str
    folder: str  # in the user's home folder
    project: str  # folder in a project, or "" if we do not write there
    hooks: str  # file with the hooks, in these folders, or "" if the client has none
    servers: str  # file with the MCP servers, in these folders
    events: Mapping[str, str] = field(default_factory=dict)  # from the client's names to ours
    keys: tuple[str, ...] = ("mcpServers",)  # path to the MCP servers in their file
    form: HookForm = HookForm.GROUPS
    variable: str = ""  # environment variable that overrides the home or the folder
    below: str = ""  # the client's folder inside the one that the variable names
    proof: str = ""  # version used in the end-to-end tests

    @property
    def abilities(self) -> dict[str, bool]:
        """What the client can do with Ralph, by name."""
        events = set(self.events.values())
        return {
            "record": bool(events),
            "start": "SessionStart" in events,
            "prompt": not events.isdisjoint(("UserPromptSubmit", "BeforeAgent")),
            "tool": not events.isdisjoint(("PreToolUse", "AfterTool")),
            "mcp": bool(self.servers),
        }


def _same_names(*events: str) -> dict[str, str]:
    """Map events to themselves, for clients that use the same names as our hook."""
    return {event: event for event in events}


CLIENTS: Mapping[Host, Client] = {
    Host.CLAUDE: Client(
        title="Claude Code",
        folder=".claude",
        project=".claude",
        hooks="settings.json",
        servers=".claude.json",
        events=_same_names(
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "PreCompact",
            "Stop",
            "SubagentStart",
            "SubagentStop",
            "SessionEnd",
        ),
        variable="CLAUDE_CONFIG_DIR",
        proof="2.1.325",
    ),
    Host.CODEX: Client(
        title="Codex",
        folder=".codex",
        project=".codex",
        hooks="hooks.json",
        servers="config.toml",
        events=_same_names(
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "PreCompact",
            "Stop",
            "SubagentStop",
            "SessionEnd",
        ),
        keys=(),
        variable="CODEX_HOME",
        proof="0.166.0",
    ),
    Host.GEMINI: Client(
        title="Gemini CLI",
        folder=".gemini",
        project=".gemini",
        hooks="settings.json",
        servers="settings.json",
        events=_same_names(
            "SessionStart",
            "BeforeAgent",
            "AfterTool",
            "PreCompress",
            "AfterAgent",
            "SessionEnd",
        ),
        variable="GEMINI_CLI_HOME",
        below=".gemini",
        proof="0.61.0",
    ),
    Host.OPENCODE: Client(
        title="OpenCode",
        folder=".config/opencode",
        project=".opencode",
        hooks="plugins/ralph.js",
        servers="opencode.json",
        events=_same_names(
            "SessionStart",
            "UserPromptSubmit",
            "PreCompact",
            "Stop",
            "SessionEnd",
            "AfterTool",
            "PostToolUse",
        ),
        keys=("mcp",),
        form=HookForm.PLUGIN,
        variable="XDG_CONFIG_HOME",
        below="opencode",
        proof="1.18.33",
    ),
    Host.QWEN: Client(
        title="Qwen Code",
        folder=".qwen",
        project=".qwen",
        hooks="settings.json",
        servers="settings.json",
        events={
            "SessionStart": "SessionStart",
            "UserPromptSubmit": "UserPromptSubmit",
            "PreCompact": "PreCompact",
            "Stop": "Stop",
            "SessionEnd": "SessionEnd",
            "PostToolUse": "AfterTool",
            "PostToolUseFailure": "PostToolUseFailure",
        },
        variable="QWEN_HOME",
        proof="0.24.4",
    ),
    Host.COPILOT: Client(
        title="Copilot CLI",
        folder=".copilot",
        project=".github",
        hooks="hooks/ralph.json",
        servers="mcp-config.json",
        events={
            "SessionStart": "SessionStart",
            "UserPromptSubmit": "UserPromptSubmit",
            "PreCompact": "PreCompact",
            "Stop": "Stop",
            "SessionEnd": "SessionEnd",
            "PostToolUse": "AfterTool",
            "PostToolUseFailure": "PostToolUseFailure",
        },
        variable="COPILOT_HOME",
        proof="1.0.102",
    ),
    Host.CLINE: Client(
        title="Cline CLI",
        folder=".cline",
        project="",
        hooks="hooks/TaskComplete",
        servers="data/settings/cline_mcp_settings.json",
        events={
            # Cline ignores the answer to TaskStart, so this event only updates the index.
            "TaskStart": "PreCompact",
            "UserPromptSubmit": "beforeSubmitPrompt",
            "PostToolUse": "AfterTool",
            "TaskComplete": "Stop",
        },
        form=HookForm.SCRIPTS,
        proof="3.0.65",
    ),
    Host.CURSOR: Client(
        title="Cursor",
        folder=".cursor",
        project=".cursor",
        hooks="hooks.json",
        servers="mcp.json",
        events={
            "sessionStart": "SessionStart",
            "beforeSubmitPrompt": "beforeSubmitPrompt",
            "postToolUse": "AfterTool",
            "postToolUseFailure": "PostToolUse",
            "preCompact": "PreCompact",
            "afterAgentResponse": "Stop",
            "sessionEnd": "SessionEnd",
        },
        form=HookForm.ENTRIES,
    ),
    Host.WINDSURF: Client(
        title="Windsurf",
        folder=".codeium/windsurf",
        project="",
        hooks="hooks.json",
        servers="mcp_config.json",
        events={
            "pre_user_prompt": "beforeSubmitPrompt",
            "post_write_code": "PostToolUse",
            "post_run_command": "PostToolUse",
            "post_mcp_tool_use": "PostToolUse",
            "post_cascade_response": "Stop",
        },
        form=HookForm.ENTRIES,
    ),
    Host.ZED: Client(
        title="Zed",
        folder=".config/zed",
        project="",
        hooks="",
        servers="settings.json",
        keys=("context_servers",),
        form=HookForm.NONE,
        variable="XDG_CONFIG_HOME",
        below="zed",
    ),
    Host.VSCODE: Client(
        title="VS Code",
        folder=".config/Code/User",
        project=".vscode",
        hooks="",
        servers="mcp.json",
        keys=("servers",),
        form=HookForm.NONE,
        variable="XDG_CONFIG_HOME",
        below="Code/User",
    ),
}


def client_rows(env: Env) -> list[dict[str, object]]:
    """Return each client with its folder, its abilities, and the tested version.

    `tested` is None for a client that the tests do not run.
    """
    rows: list[dict[str, object]] = []
    for host, client in CLIENTS.items():
        row: dict[str, object] = {
            "host": host.value,
            "client": client.title,
            "folder": str(host_folder(host, InstallScope.USER, Path(), env)),
            "found": is_there(host, env),
            **client.abilities,
            "tested": client.proof or None,
        }
        rows.append(row)
    return rows


# --- where a client's files are -----------------------------------------------------------------


def host_folder(host: Host, scope: InstallScope, root: Path, env: Env) -> Path:
    """Return the client's folder for a scope, in the user's home or in the project."""
    client = CLIENTS[host]
    if scope is not InstallScope.USER:
        return root / client.project
    if client.variable and env.get(client.variable):
        return folder_in(env, client.variable) / client.below
    return folder_in(env, "HOME") / client.folder


def settings_file(host: Host, scope: InstallScope, root: Path, env: Env) -> Path:
    """Return the file with the hooks, or with the MCP servers if the client has no hooks.

    Raises UsageError for a scope that the client does not support.
    """
    client = CLIENTS[host]
    if scope is InstallScope.LOCAL and host is not Host.CLAUDE:
        raise UsageError(
            f"{host} has no local settings", hint="use --scope user or --scope project"
        )
    if scope is InstallScope.PROJECT and not client.project:
        raise UsageError(
            f"Ralph does not write project settings for {client.title}", hint="use --scope user"
        )
    if not client.hooks:
        return servers_file(host, scope, root, env).path
    folder = host_folder(host, scope, root, env)
    if scope is InstallScope.LOCAL:
        return folder / "settings.local.json"
    return folder / client.hooks


class ServersFile(NamedTuple):
    """A file with a client's MCP servers, and the keys that lead to them.

    Codex has no keys, because its file is TOML.
    """

    path: Path
    keys: tuple[str, ...]


def servers_file(host: Host, scope: InstallScope, root: Path, env: Env) -> ServersFile:
    """Return the file with the MCP servers, and the keys that lead to them."""
    client = CLIENTS[host]
    if host is Host.CLAUDE:
        return _claude_servers_file(scope, root, env)
    is_project = scope is InstallScope.PROJECT
    folder = host_folder(host, scope, root, env)
    if is_project and host is Host.COPILOT:
        return ServersFile(folder / "mcp.json", client.keys)
    if host is Host.OPENCODE:
        if is_project:
            folder = root
        with_comments = folder / "opencode.jsonc"
        if with_comments.is_file():
            return ServersFile(with_comments, client.keys)
    return ServersFile(folder / client.servers, client.keys)


def _claude_servers_file(scope: InstallScope, root: Path, env: Env) -> ServersFile:
    client = CLIENTS[Host.CLAUDE]
    if scope is InstallScope.PROJECT:
        return ServersFile(root / ".mcp.json", client.keys)
    if env.get(client.variable):
        folder = host_folder(Host.CLAUDE, InstallScope.USER, root, env)
    else:
        folder = folder_in(env, "HOME")
    keys = client.keys
    if scope is InstallScope.LOCAL:
        keys = ("projects", str(root), *client.keys)
    return ServersFile(folder / client.servers, keys)


class InstalledPlace(NamedTuple):
    """A project and an environment to pass to `settings_file`."""

    root: Path
    env: dict[str, str]


def installed_at(host: Host, scope: InstallScope, settings: Path, env: Env) -> InstalledPlace:
    """Return the project and environment for which `settings_file` returns the given file."""
    client = CLIENTS[host]
    folder = _folder_above(settings, client.hooks or client.servers)
    if scope is not InstallScope.USER:
        return InstalledPlace(_folder_above(folder, client.project), {**env})
    if client.variable:
        variable = client.variable
        below = client.below
    else:
        variable = "HOME"
        below = client.folder
    named_folder = _folder_above(folder, below)
    return InstalledPlace(folder.parent, {**env, variable: str(named_folder)})


def _folder_above(path: Path, relative: str) -> Path:
    """Return the folder in which `path` has this relative path."""
    levels = len(Path(relative).parts)
    if levels == 0:
        return path
    return path.parents[levels - 1]


def is_there(host: Host, env: Env) -> bool:
    """Return whether the user has this client's settings folder, or its program on the PATH."""
    folder = host_folder(host, InstallScope.USER, Path(), env)
    program = "code" if host is Host.VSCODE else host.value
    return folder.is_dir() or shutil.which(program, path=env.get("PATH", "")) is not None


# --- our entries and files ----------------------------------------------------------------------


def hook_settings(host: Host, launcher: Path) -> dict[str, object]:
    """Return the hooks for the client's settings, by event.

    Each hook is one short command, so that people can read it before they trust it. Raises Refused
    if the client would misread the launcher's path.
    """
    client = CLIENTS[host]
    if host is Host.GEMINI and "$" in str(launcher):
        raise Refused(
            f"{launcher}: Gemini would read the `$` in this path as a variable",
            hint="set XDG_STATE_HOME to a folder without `$` in its name; nothing was written",
        )
    settings: dict[str, object] = {}
    if client.form not in (HookForm.GROUPS, HookForm.ENTRIES):
        return settings
    for event, our_event in client.events.items():
        hook = _hook_entry(host, launcher, our_event)
        if client.form is HookForm.GROUPS:
            settings[event] = {"hooks": [hook]}
        else:
            settings[event] = hook
    return settings


def _hook_entry(host: Host, launcher: Path, event: str) -> dict[str, object]:
    seconds = _TIMEOUTS.get(event, _DEFAULT_TIMEOUT)
    if host is Host.CLAUDE:  # it starts a program with arguments, while the others use a shell
        return {
            "type": "command",
            "command": str(launcher),
            "args": [host.value, event],
            "timeout": seconds,
        }
    command = shlex.join([str(launcher), host.value, event])
    if host is Host.GEMINI:
        milliseconds = seconds * 1000
        return {"type": "command", "name": "ralph", "command": command, "timeout": milliseconds}
    if host is Host.WINDSURF:
        return {"command": command, "show_output": False}
    return {"type": "command", "command": command, "timeout": seconds}


def server_entry(host: Host, ralph: Path) -> dict[str, object]:
    """Return the entry for our MCP server, in the form that the client expects."""
    arguments = ["mcp", "serve"]
    if host is Host.OPENCODE:
        return {"type": "local", "command": [str(ralph), *arguments], "enabled": True}
    entry: dict[str, object] = {"command": str(ralph), "args": arguments}
    if host is Host.COPILOT:
        return {"type": "local", **entry, "tools": ["*"]}
    if host is Host.CLINE:
        return {**entry, "timeout": _CLINE_SERVER_TIMEOUT}
    if host in (Host.CLAUDE, Host.VSCODE):
        return {"type": "stdio", **entry}
    return entry


class OwnFile(NamedTuple):
    """A file that belongs entirely to Ralph. A `mode` of None means the usual permissions."""

    text: str
    name: str
    mode: int | None = None


def own_files(host: Host, folder: Path, hook: Path, ralph: Path) -> dict[Path, OwnFile]:
    """Return the files in a client's folder that belong entirely to Ralph, by path."""
    client = CLIENTS[host]
    if host is Host.CLAUDE:
        return _slash_command_files(folder, ralph)
    if client.form is HookForm.PLUGIN:
        source = _PLUGIN_FILE.read_text(encoding="utf-8")
        text = sign_text(source.replace('"LAUNCHER"', dump_json(str(hook))), host, "//")
        return {folder / client.hooks: OwnFile(text, "plugin")}
    if client.form is HookForm.SCRIPTS:
        return _hook_scripts(host, (folder / client.hooks).parent, hook)
    return {}


def _slash_command_files(folder: Path, ralph: Path) -> dict[Path, OwnFile]:
    own: dict[Path, OwnFile] = {}
    for name in SLASH_COMMANDS:
        text = sign_text(slash_command(name, shlex.quote(str(ralph))))
        own[folder / f"commands/{name}.md"] = OwnFile(text, f"/{name}")
    return own


def _hook_scripts(host: Host, folder: Path, hook: Path) -> dict[Path, OwnFile]:
    own: dict[Path, OwnFile] = {}
    for event, our_event in CLIENTS[host].events.items():
        command = shlex.join([str(hook), host, our_event])
        text = sign_text(f"#!/bin/sh\nexec {command}\n", host)
        own[folder / event] = OwnFile(text, f"hook {event}", _SCRIPT_MODE)
    return own
