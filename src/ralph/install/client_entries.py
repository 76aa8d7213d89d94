"""The entries and files that Ralph adds to a client.

For example, this is our hook for one event in the settings of Claude Code:

    "Stop": [{"hooks": [{"type": "command", "command": "<launcher>", "args": ["claude", "Stop"],
                         "timeout": 20}]}]

The other clients expect the same information in other forms. On Windows, where the words that start
our hook are an interpreter and a script, the form also depends on the shell of the client
(`docs/clients.md` says which one that is).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import Refused
from ralph.core.json_text import dump_json
from ralph.install import shell_words
from ralph.install.clients import CLIENTS, HookForm, Host
from ralph.install.launcher_scripts import StartWords
from ralph.install.slash_commands import (
    SLASH_COMMANDS,
    find_delimiter,
    new_delimiter,
    sign_text,
    slash_command,
)
from ralph.storage import files

_TIMEOUTS = {
    "SessionStart": 30,
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


def hook_settings(
    host: Host, start: Sequence[str], platform: str = sys.platform
) -> dict[str, object]:
    """Return the hooks for the client's settings, by event. `start` are the words before the host.

    Each hook is one short command, so that people can read it before they trust it. Raises Refused
    if the client or its shell would misread a path.
    """
    client = CLIENTS[host]
    if host is Host.GEMINI and any("$" in word for word in start):
        raise Refused(
            f"{start[-1]}: Gemini would read the `$` in this path as a variable",
            hint="set XDG_STATE_HOME to a folder without `$` in its name; nothing was written",
        )
    settings: dict[str, object] = {}
    if client.form not in (HookForm.GROUPS, HookForm.ENTRIES):
        return settings
    for event, our_event in client.events.items():
        hook = _hook_entry(host, [*start, host.value, our_event], timeout_of(our_event), platform)
        if client.form is HookForm.GROUPS:
            settings[event] = {"hooks": [hook]}
        else:
            settings[event] = hook
    return settings


def timeout_of(event: str) -> int:
    """Return how many seconds a host waits for the hook of an event."""
    return _TIMEOUTS.get(event, _DEFAULT_TIMEOUT)


def _hook_entry(host: Host, words: Sequence[str], seconds: int, platform: str) -> dict[str, object]:
    if host is Host.CLAUDE:  # it starts a program with arguments, while the others use a shell
        program, *arguments = words
        return {"type": "command", "command": program, "args": arguments, "timeout": seconds}
    if platform == "win32":
        command = _windows_command(host, words)
    else:
        command = {"command": shlex.join(words)}
    if host is Host.GEMINI:
        milliseconds = seconds * 1000
        return {"type": "command", "name": "ralph", **command, "timeout": milliseconds}
    if host is Host.WINDSURF:
        return {**command, "show_output": False}
    return {"type": "command", **command, "timeout": seconds}


def _windows_command(host: Host, words: Sequence[str]) -> dict[str, object]:
    """Return the members that name a hook's command line, for the shell of the client."""
    if host is Host.GEMINI:  # always PowerShell
        return {"command": shell_words.powershell_line(words)}
    if host is Host.QWEN:
        return {"command": shell_words.powershell_line(words), "shell": "powershell"}
    if host is Host.COPILOT:
        line = shell_words.powershell_line(words)
        return {"command": line, "powershell": line}
    return {"command": shell_words.any_shell_line(words)}


def status_line_entry(start: Sequence[str], platform: str = sys.platform) -> dict[str, object]:
    """Return the entry for our status line in the settings of Claude Code.

    On Windows, Claude Code runs it with Git Bash, or else with PowerShell.
    """
    words = [*start, "statusline"]
    if platform != "win32":
        return {"type": "command", "command": shlex.join(words)}
    line = shell_words.bash_or_powershell_line(words)
    if line is not None:
        return {"type": "command", "command": line}
    return {
        "type": "command",
        "command": shell_words.powershell_line(words),
        "shell": "powershell",
    }


def server_entry(host: Host, start: Sequence[str]) -> dict[str, object]:
    """Return the entry for our MCP server, in the form that the client expects."""
    program, *arguments = [*start, "mcp", "serve"]
    if host is Host.OPENCODE:
        return {"type": "local", "command": [program, *arguments], "enabled": True}
    entry: dict[str, object] = {"command": program, "args": arguments}
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


def own_files(
    host: Host, folder: Path, start: StartWords, platform: str = sys.platform
) -> dict[Path, OwnFile]:
    """Return the files in a client's folder that belong entirely to Ralph, by path.

    Slash commands that are installed keep their delimiter (see `slash_commands`).
    """
    client = CLIENTS[host]
    if host is Host.CLAUDE:
        return _slash_command_files(folder, start.command, platform)
    if client.form is HookForm.PLUGIN:
        source = _PLUGIN_FILE.read_text(encoding="utf-8")
        text = sign_text(source.replace('"LAUNCHER"', dump_json(list(start.hook))), host, "//")
        return {folder / client.hooks: OwnFile(text, "plugin")}
    if client.form is HookForm.SCRIPTS:
        return _hook_scripts(host, (folder / client.hooks).parent, start.hook)
    return {}


def _slash_command_files(folder: Path, start: Sequence[str], platform: str) -> dict[Path, OwnFile]:
    paths = {name: folder / f"commands/{name}.md" for name in SLASH_COMMANDS}
    if platform == "win32":
        # Without Git Bash, Claude Code runs scripts with PowerShell, which has no heredocs.
        delimiter = ""
        words = [shell_words.with_slashes(word) for word in start]
        program = shell_words.bash_or_powershell_line(start) or shlex.join(words)
    else:
        installed_texts = [files.read(path) or "" for path in paths.values()]
        delimiter = find_delimiter(installed_texts) or new_delimiter()
        program = shlex.join(start)
    own: dict[Path, OwnFile] = {}
    for name, path in paths.items():
        text = sign_text(slash_command(name, program, delimiter))
        own[path] = OwnFile(text, f"/{name}")
    return own


def _hook_scripts(host: Host, folder: Path, start: Sequence[str]) -> dict[Path, OwnFile]:
    """Return one script per event. On Windows, the client runs them with Git Bash."""
    own: dict[Path, OwnFile] = {}
    words = [shell_words.with_slashes(word) for word in start]
    for event, our_event in CLIENTS[host].events.items():
        command = shlex.join([*words, host, our_event])
        text = sign_text(f"#!/bin/sh\nexec {command}\n", host)
        own[folder / event] = OwnFile(text, f"hook {event}", files.PRIVATE_PROGRAM)
    return own
