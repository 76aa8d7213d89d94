"""The coding agents that Ralph installs into: one row each with their files, and the events that they send.

What a client can do follows from its events, each with the name that our hook gets: `AfterTool` is recorded and
answered, `beforeSubmitPrompt` only recorded, for clients that read no answer to a prompt. A new client is a row here
and an adapter in `hooks/adapters.py` if its payloads are not Claude Code's; commands and docs follow.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ralph.core.errors import Refused, UsageError
from ralph.core.json_text import dump_json
from ralph.install.slash_commands import SLASH_COMMANDS, sign_text, slash_command

Env = Mapping[str, str]
_CLAUDE = (
    "SessionStart UserPromptSubmit PreToolUse PostToolUse PostToolUseFailure PreCompact Stop SubagentStart "
    "SubagentStop SessionEnd"
)
_TIMEOUTS = {
    "SessionStart": 15,
    "PreToolUse": 5,
    "PostToolUseFailure": 5,
    "SubagentStart": 5,
    "SessionEnd": 2,
}
_TIMEOUTS |= dict.fromkeys(("PreCompact", "PreCompress", "Stop", "AfterAgent"), 20)
_TIMEOUT = 10  # seconds for all other events
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
    """How a client has its hooks: in groups or as entries of a JSON file, as scripts, as a plugin, or not at all."""

    GROUPS = "groups"
    ENTRIES = "entries"
    SCRIPTS = "scripts"
    PLUGIN = "plugin"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Client:
    """A row: `folder` in the home (or `below` a variable's), `project` in a project ("" where we write nothing there).

    `hooks` and `servers` are files in these. A name in `names` is the client's, with ours behind a colon where that is
    another. `keys` lead to the MCP servers; `proof` is the version that the end-to-end tests run.
    """

    title: str
    folder: str
    project: str
    hooks: str
    names: str
    servers: str
    keys: tuple[str, ...] = ("mcpServers",)
    form: HookForm = HookForm.GROUPS
    variable: str = ""
    below: str = ""
    proof: str = ""

    @property
    def events(self) -> dict[str, str]:
        """The client's events, each with our name for it."""
        pairs = (name.partition(":") for name in self.names.split())
        return {theirs: ours or theirs for theirs, _, ours in pairs}

    @property
    def abilities(self) -> dict[str, bool]:
        """What the client can do with Ralph."""
        events = set(self.events.values())
        injects = {"start": ("SessionStart",), "prompt": ("UserPromptSubmit", "BeforeAgent")}
        injects["tool"] = ("PreToolUse", "AfterTool")
        can = {place: not events.isdisjoint(names) for place, names in injects.items()}
        return {"record": bool(events), **can, "mcp": bool(self.servers)}


_CODEX = " ".join(
    event for event in _CLAUDE.split() if event not in ("PostToolUseFailure", "SubagentStart")
)
_GEMINI = "SessionStart BeforeAgent AfterTool PreCompress AfterAgent SessionEnd"
_PROMPTED = "SessionStart UserPromptSubmit PreCompact Stop SessionEnd"
_AFTER_TOOL = f"{_PROMPTED} PostToolUse:AfterTool PostToolUseFailure"
# Cline reads no answer to TaskStart: this brings the index up to date.
_CLINE = "TaskStart:PreCompact UserPromptSubmit:beforeSubmitPrompt PostToolUse:AfterTool TaskComplete:Stop"
_CURSOR = """sessionStart:SessionStart beforeSubmitPrompt postToolUse:AfterTool postToolUseFailure:PostToolUse
    preCompact:PreCompact afterAgentResponse:Stop sessionEnd:SessionEnd"""
_WINDSURF = """pre_user_prompt:beforeSubmitPrompt post_write_code:PostToolUse post_run_command:PostToolUse
    post_mcp_tool_use:PostToolUse post_cascade_response:Stop"""
_FILE = "settings.json"
_XDG = "XDG_CONFIG_HOME"
CLIENTS: Mapping[Host, Client] = {
    Host.CLAUDE: Client("Claude Code", ".claude", ".claude", _FILE, _CLAUDE, ".claude.json",
        variable="CLAUDE_CONFIG_DIR", proof="2.1.325"),
    Host.CODEX: Client("Codex", ".codex", ".codex", "hooks.json", _CODEX, "config.toml", (),
        variable="CODEX_HOME", proof="0.166.0"),
    Host.GEMINI: Client("Gemini CLI", ".gemini", ".gemini", _FILE, _GEMINI, _FILE,
        variable="GEMINI_CLI_HOME", below=".gemini", proof="0.61.0"),
    Host.OPENCODE: Client("OpenCode", ".config/opencode", ".opencode", "plugins/ralph.js",
        f"{_PROMPTED} AfterTool PostToolUse", "opencode.json", ("mcp",), HookForm.PLUGIN, _XDG, "opencode", "1.18.33"),
    Host.QWEN: Client("Qwen Code", ".qwen", ".qwen", _FILE, _AFTER_TOOL, _FILE, variable="QWEN_HOME", proof="0.24.4"),
    Host.COPILOT: Client("Copilot CLI", ".copilot", ".github", "hooks/ralph.json", _AFTER_TOOL, "mcp-config.json",
        variable="COPILOT_HOME", proof="1.0.102"),
    Host.CLINE: Client("Cline CLI", ".cline", "", "hooks/TaskComplete", _CLINE, "data/settings/cline_mcp_settings.json",
        form=HookForm.SCRIPTS, proof="3.0.65"),
    Host.CURSOR: Client("Cursor", ".cursor", ".cursor", "hooks.json", _CURSOR, "mcp.json", form=HookForm.ENTRIES),
    Host.WINDSURF: Client("Windsurf", ".codeium/windsurf", "", "hooks.json", _WINDSURF, "mcp_config.json",
        form=HookForm.ENTRIES),
    Host.ZED: Client("Zed", ".config/zed", "", "", "", _FILE, ("context_servers",), HookForm.NONE, _XDG, "zed"),
    Host.VSCODE: Client("VS Code", ".config/Code/User", ".vscode", "", "", "mcp.json", ("servers",), HookForm.NONE,
        _XDG, "Code/User"),
}  # fmt: skip


def client_rows(env: Env) -> list[dict[str, object]]:
    """Return each client with its folder, what it can do, and the version that is tested; null: it is not run."""
    rows: list[dict[str, object]] = []
    for host, client in CLIENTS.items():
        folder = host_folder(host, InstallScope.USER, Path(), env)
        row = {
            "host": host.value,
            "client": client.title,
            "folder": str(folder),
            "found": is_there(host, env),
        }
        rows.append({**row, **client.abilities, "tested": client.proof or None})
    return rows


# --- files ------------------------------------------------------------------------------------------


def host_folder(host: Host, scope: InstallScope, root: Path, env: Env) -> Path:
    """Return the client's folder: the user's, or the project's."""
    client = CLIENTS[host]
    if scope is not InstallScope.USER:
        return root / client.project
    if client.variable and env.get(client.variable):
        return folder_in(env, client.variable) / client.below
    return folder_in(env, "HOME") / client.folder


def folder_in(env: Env, variable: str) -> Path:
    """Return the folder that a variable names; UsageError where it names none."""
    folder = env.get(variable) or ""
    if not Path(folder).is_absolute():
        raise UsageError(
            f"{variable} names no folder: {folder!r}", hint=f"set {variable} to an absolute path"
        )
    return Path(folder)


def settings_file(host: Host, scope: InstallScope, root: Path, env: Env) -> Path:
    """Return the file of hooks, or of MCP servers where there are none; UsageError for a scope that is not there."""
    client = CLIENTS[host]
    if scope is InstallScope.LOCAL and host is not Host.CLAUDE:
        raise UsageError(
            f"{host} has no local settings", hint="use --scope user or --scope project"
        )
    if scope is InstallScope.PROJECT and not client.project:
        raise UsageError(
            f"Ralph writes no project settings of {client.title}", hint="use --scope user"
        )
    if not client.hooks:
        return servers_file(host, scope, root, env)[0]
    folder = host_folder(host, scope, root, env)
    return folder / ("settings.local.json" if scope is InstallScope.LOCAL else client.hooks)


def servers_file(
    host: Host, scope: InstallScope, root: Path, env: Env
) -> tuple[Path, tuple[str, ...]]:
    """Return the file of MCP servers and the keys that lead to them (none for Codex: its file is TOML)."""
    client = CLIENTS[host]
    is_project = scope is InstallScope.PROJECT
    folder = host_folder(host, scope, root, env)
    if is_project and host is Host.CLAUDE:
        return root / ".mcp.json", client.keys
    if is_project and host is Host.COPILOT:
        return folder / "mcp.json", client.keys
    if host is Host.OPENCODE:
        folder = root if is_project else folder
        commented = folder / "opencode.jsonc"
        return commented if commented.is_file() else folder / client.servers, client.keys
    if host is not Host.CLAUDE:
        return folder / client.servers, client.keys
    folder = (
        host_folder(host, InstallScope.USER, root, env)
        if env.get(client.variable)
        else folder_in(env, "HOME")
    )
    return folder / client.servers, client.keys if scope is InstallScope.USER else (
        "projects",
        str(root),
        *client.keys,
    )


def installed_at(
    host: Host, scope: InstallScope, settings: Path, env: Env
) -> tuple[Path, dict[str, str]]:
    """Return the project and the environment with which `settings_file` gives this file."""
    client = CLIENTS[host]
    folder = settings.parents[len(Path(client.hooks or client.servers).parts) - 1]
    if scope is not InstallScope.USER:
        return folder.parents[len(Path(client.project).parts) - 1], {**env}
    name, below = (client.variable, client.below) if client.variable else ("HOME", client.folder)
    return folder.parent, {
        **env,
        name: str(folder.parents[len(Path(below).parts) - 1] if below else folder),
    }


def is_there(host: Host, env: Env) -> bool:
    """Return whether the user has this client: its settings folder, or its program on the PATH."""
    folder = host_folder(host, InstallScope.USER, Path(), env)
    program = "code" if host is Host.VSCODE else host.value
    return folder.is_dir() or shutil.which(program, path=env.get("PATH", "")) is not None


# --- entries and files of ours ----------------------------------------------------------------------


def hook_settings(host: Host, launcher: Path) -> dict[str, object]:
    """Return the hooks for the client's settings, by event: one line that a person can read before they trust it."""
    program = str(launcher)
    client = CLIENTS[host]
    if host is Host.GEMINI and "$" in program:
        hint = "set XDG_STATE_HOME to a folder without `$` in its name; nothing was written"
        raise Refused(f"{program}: Gemini would read the `$` in this path as a variable", hint=hint)
    settings: dict[str, object] = {}
    for event, ours in (
        client.events.items() if client.form in (HookForm.GROUPS, HookForm.ENTRIES) else ()
    ):
        command = shlex.join([program, host.value, ours])
        seconds = _TIMEOUTS.get(ours, _TIMEOUT)
        hook: dict[str, object] = {"type": "command", "command": command, "timeout": seconds}
        if (
            host is Host.CLAUDE
        ):  # it starts a program with arguments; the others pass a string to a shell
            hook = {
                "type": "command",
                "command": program,
                "args": [host.value, ours],
                "timeout": seconds,
            }
        elif host is Host.GEMINI:
            hook = {
                "type": "command",
                "name": "ralph",
                "command": command,
                "timeout": seconds * 1000,
            }
        elif host is Host.WINDSURF:
            hook = {"command": command, "show_output": False}
        settings[event] = hook if client.form is HookForm.ENTRIES else {"hooks": [hook]}
    return settings


def server_entry(host: Host, ralph: Path) -> dict[str, object]:
    """Return the entry of our MCP server, as the client has it."""
    words = ["mcp", "serve"]
    if host is Host.OPENCODE:
        return {"type": "local", "command": [str(ralph), *words], "enabled": True}
    entry: dict[str, object] = {"command": str(ralph), "args": words}
    if host is Host.COPILOT:
        return {"type": "local", **entry, "tools": ["*"]}
    if host is Host.CLINE:  # without it, a server that takes a moment to start is left out
        return {**entry, "timeout": 60}
    return {"type": "stdio", **entry} if host in (Host.CLAUDE, Host.VSCODE) else entry


def own_files(
    host: Host, folder: Path, hook: Path, ralph: Path
) -> dict[Path, tuple[str, str, int | None]]:
    """Return the files of ours in a client's folder: path, then text, what it is, and its mode."""
    client = CLIENTS[host]
    if host is Host.CLAUDE:
        texts = {name: slash_command(name, shlex.quote(str(ralph))) for name in SLASH_COMMANDS}
        return {
            folder / f"commands/{name}.md": (sign_text(text), f"/{name}", None)
            for name, text in texts.items()
        }
    if client.form is HookForm.PLUGIN:
        text = _PLUGIN_FILE.read_text(encoding="utf-8").replace('"LAUNCHER"', dump_json(str(hook)))
        return {folder / client.hooks: (sign_text(text, host, "//"), "the plugin", None)}
    if client.form is not HookForm.SCRIPTS:
        return {}
    commands = {event: shlex.join([str(hook), host, ours]) for event, ours in client.events.items()}
    scripts = {
        event: sign_text(f"#!/bin/sh\nexec {command}\n", host)
        for event, command in commands.items()
    }
    parent = (folder / client.hooks).parent
    return {parent / event: (text, f"hook {event}", 0o755) for event, text in scripts.items()}
