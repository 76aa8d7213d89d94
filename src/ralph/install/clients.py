"""The coding agents (clients) that Ralph installs into, with their files and the events they send.

A client's events determine what it can do. Each event is mapped to the name that our hook receives.
For example, `AfterTool` is recorded and answered, while `beforeSubmitPrompt` is only recorded, for
clients that ignore the answer to a prompt. To add a client, add a row here. If its payloads differ
from Claude Code's, also add an adapter in `hooks/adapters.py`. Commands and docs are derived from
the table.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import UsageError
from ralph.core.launchers import folder_in
from ralph.lean import discovery

Env = Mapping[str, str]


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
    """The settings into which Ralph is installed."""

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
    variable: str = ""  # environment variable that overrides where the folder is
    below: str = ""  # path of the client's folder inside the variable's folder
    windows_folder: str = ""  # in %APPDATA%, for a client that keeps its settings there
    tool_prefix: str = ""  # in front of the names of our MCP tools, as its agent sees them
    tool_loader: str = ""  # the tool with which its agent must load MCP tools before it calls them
    tested_version: str = ""  # in the end-to-end tests
    first_step: str = ""  # that its user must take before it runs hooks

    @property
    def abilities(self) -> dict[str, bool]:
        """The abilities that Ralph has with this client, by name."""
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
        tool_prefix="mcp__ralph__",
        tool_loader="ToolSearch",
        tested_version="2.1.325",
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
        tool_prefix="mcp__ralph__",
        tested_version="0.166.0",
        first_step="it runs hooks after you have trusted them once, in its /hooks",
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
        tool_prefix="mcp_ralph_",
        tested_version="0.61.0",
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
        tool_prefix="ralph_",
        tested_version="1.18.33",
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
        tool_prefix="mcp__ralph__",
        tested_version="0.24.4",
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
        tool_prefix="ralph-",
        tested_version="1.0.102",
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
        tested_version="3.0.65",
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
        windows_folder="Zed",
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
        windows_folder="Code/User",
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
            "found": has_client(host, env),
            **client.abilities,
            "tested": client.tested_version or None,
        }
        rows.append(row)
    return rows


# --- where a client's files are -----------------------------------------------------------------


class _UserFolder(NamedTuple):
    """A client's folder in the user's home: an environment variable, and the path below it."""

    variable: str
    below: str


def _user_folder(client: Client, env: Env, platform: str) -> _UserFolder:
    if platform == "win32" and client.windows_folder:
        return _UserFolder("APPDATA", client.windows_folder)
    if client.variable and env.get(client.variable):
        return _UserFolder(client.variable, client.below)
    return _UserFolder(discovery.HOME_VARIABLE, client.folder)


def host_folder(
    host: Host, scope: InstallScope, root: Path, env: Env, platform: str = sys.platform
) -> Path:
    """Return the client's folder for a scope, in the user's home or in the project."""
    client = CLIENTS[host]
    if scope is not InstallScope.USER:
        return root / client.project
    place = _user_folder(client, env, platform)
    return folder_in(env, place.variable) / place.below


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
        folder = folder_in(env, discovery.HOME_VARIABLE)
    keys = client.keys
    if scope is InstallScope.LOCAL:
        keys = ("projects", str(root), *client.keys)
    return ServersFile(folder / client.servers, keys)


class InstallLocation(NamedTuple):
    """The project and the environment of an installation."""

    root: Path
    env: dict[str, str]


def locate_installation(
    host: Host, scope: InstallScope, settings: Path, env: Env
) -> InstallLocation:
    """Return the project and environment for which `settings_file` returns this file."""
    client = CLIENTS[host]
    folder = _folder_above(settings, client.hooks or client.servers)
    if scope is not InstallScope.USER:
        return InstallLocation(_folder_above(folder, client.project), {**env})
    place = _UserFolder(discovery.HOME_VARIABLE, client.folder)
    if sys.platform == "win32" and client.windows_folder:
        place = _UserFolder("APPDATA", client.windows_folder)
    elif client.variable:
        place = _UserFolder(client.variable, client.below)
    named_folder = _folder_above(folder, place.below)
    return InstallLocation(folder.parent, {**env, place.variable: str(named_folder)})


def _folder_above(path: Path, relative: str) -> Path:
    """Return the folder in which `path` has this relative path."""
    levels = len(Path(relative).parts)
    if levels == 0:
        return path
    return path.parents[levels - 1]


def has_client(host: Host, env: Env) -> bool:
    """Return whether the user has this client's settings folder, or its program on the PATH."""
    folder = host_folder(host, InstallScope.USER, Path(), env)
    program = "code" if host is Host.VSCODE else host.value
    if folder.is_dir():
        return True
    import shutil  # loads compressors

    return shutil.which(program, path=env.get("PATH", "")) is not None
