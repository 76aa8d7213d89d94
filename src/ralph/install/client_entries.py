"""The entries and files that Ralph adds to a client.

For example, this is our hook for one event in the settings of Claude Code:

    "Stop": [{"hooks": [{"type": "command", "command": "<launcher>", "args": ["claude", "Stop"],
                         "timeout": 20}]}]

The other clients expect the same information in other forms.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import Refused
from ralph.core.json_text import dump_json
from ralph.install.clients import CLIENTS, HookForm, Host
from ralph.install.slash_commands import (
    SLASH_COMMANDS,
    find_delimiter,
    new_delimiter,
    sign_text,
    slash_command,
)
from ralph.storage import files

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
_PLUGIN_FILE = Path(__file__).parents[1] / "hooks" / "opencode.js"


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


def timeout_of(event: str) -> int:
    """Return how many seconds a host waits for the hook of an event."""
    return _TIMEOUTS.get(event, _DEFAULT_TIMEOUT)


def _hook_entry(host: Host, launcher: Path, event: str) -> dict[str, object]:
    seconds = timeout_of(event)
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
    """A file that belongs entirely to Ralph. See `HostEdits.put` for the mode."""

    text: str
    name: str
    mode: int | None = None


def own_files(host: Host, folder: Path, hook: Path, ralph: Path) -> dict[Path, OwnFile]:
    """Return the files in a client's folder that belong entirely to Ralph, by path.

    Slash commands that are installed keep their delimiter (see `slash_commands`).
    """
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
    paths = {name: folder / f"commands/{name}.md" for name in SLASH_COMMANDS}
    installed_texts = [files.read(path) or "" for path in paths.values()]
    delimiter = find_delimiter(installed_texts) or new_delimiter()
    own: dict[Path, OwnFile] = {}
    for name, path in paths.items():
        text = sign_text(slash_command(name, shlex.quote(str(ralph)), delimiter))
        own[path] = OwnFile(text, f"/{name}")
    return own


def _hook_scripts(host: Host, folder: Path, hook: Path) -> dict[Path, OwnFile]:
    own: dict[Path, OwnFile] = {}
    for event, our_event in CLIENTS[host].events.items():
        command = shlex.join([str(hook), host, our_event])
        text = sign_text(f"#!/bin/sh\nexec {command}\n", host)
        own[folder / event] = OwnFile(text, f"hook {event}", files.PRIVATE_PROGRAM)
    return own
