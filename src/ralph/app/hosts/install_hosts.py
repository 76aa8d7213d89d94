"""What each host wants: where its settings are, which events it has, and how a hook is written there.

Claude Code starts a program with arguments. Codex and Gemini hand a string to a shell, so theirs is quoted,
and begins with `exec` so that a timeout ends our process and no shell stays behind. The program is not the
file `run.py` but a line that runs it if it is there: Python exits with 2 for a missing script, and 2 makes a
host block the prompt or the tool, which must not happen to somebody who only uninstalled a package.
Timeouts are seconds, for Gemini milliseconds. `tests/app/hosts/test_install.py` runs what is written here.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ralph.errors import Refused, UsageError

STUB = (
    "import posix, sys; del sys.argv[0]; __file__ = sys.argv[0]; "
    "posix.access(__file__, 4) and exec(open(__file__, 'rb').read())"
)
"""Runs the file that its first argument names, as if Python had been started with it; exits 0 when it is gone."""


class Host(StrEnum):
    """A coding agent that has hooks."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"


class Scope(StrEnum):
    """For whom something is installed."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Program:
    """What a hook starts: an interpreter, and the file that it runs."""

    interpreter: Path
    runner: Path


_SECONDS = {
    "SessionStart": 15,
    "UserPromptSubmit": 10,
    "PreToolUse": 5,
    "PostToolUse": 10,
    "PostToolUseFailure": 5,
    "PreCompact": 20,
    "Stop": 20,
    "SubagentStop": 10,
    "SessionEnd": 2,
}
"""Claude's events, and how long each may take at the very most."""

_GEMINI = {
    "SessionStart": "SessionStart",
    "BeforeAgent": "UserPromptSubmit",
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
    "PreCompress": "PreCompact",
    "AfterAgent": "Stop",
    "SessionEnd": "SessionEnd",
}
"""Gemini's events, and which of Claude's each is."""

_SERVERS = "mcpServers"
_NOT_IN_CODEX = {"PostToolUseFailure"}


def events(host: Host) -> tuple[str, ...]:
    """The events of a host that Ralph listens to, by the host's own names."""
    if host is Host.GEMINI:
        return tuple(_GEMINI)
    return tuple(event for event in _SECONDS if host is Host.CLAUDE or event not in _NOT_IN_CODEX)


def groups(host: Host, program: Program) -> dict[str, object]:
    """What is written into the host's settings, by event."""
    return {event: {"hooks": [_hook(host, event, program)]} for event in events(host)}


def _hook(host: Host, event: str, program: Program) -> dict[str, object]:
    words = [str(program.interpreter), "-I", "-S", "-c", STUB, str(program.runner), host.value, event]
    if host is Host.CLAUDE:
        return {"type": "command", "command": words[0], "args": words[1:], "timeout": _SECONDS[event]}
    command = f"exec {shlex.join(words)}"
    if host is Host.CODEX:
        return {"type": "command", "command": command, "timeout": _SECONDS[event]}
    if "$" in command:
        raise Refused(
            f"{program.interpreter}: Gemini would read the `$` in this path as a variable",
            hint="install Ralph in a folder without `$` in its name; nothing was written",
        )
    return {"type": "command", "name": "ralph", "command": command, "timeout": _SECONDS[_GEMINI[event]] * 1000}


def server(host: Host, program: Program, *, always: bool = False) -> dict[str, object]:
    """How our MCP server is written into the host's settings."""
    words = [str(program.interpreter), "-I", "-m", "ralph", "mcp", "serve"]
    entry: dict[str, object] = {"command": words[0], "args": words[1:]}
    if host is not Host.CLAUDE:
        return entry
    return {"type": "stdio", **entry, **({"alwaysLoad": True} if always else {})}


def servers_file(host: Host, scope: Scope, root: Path, env: Mapping[str, str]) -> tuple[Path, tuple[str, ...]]:
    """The file that holds MCP servers, and the keys that lead to them (for Codex none: its file is TOML)."""
    folder = folder_of(host, scope, root, env)
    if host is Host.CODEX:
        return folder / "config.toml", ()
    if host is Host.GEMINI:
        return folder / "settings.json", (_SERVERS,)
    if scope is Scope.PROJECT:
        return root / ".mcp.json", (_SERVERS,)
    own = folder_of(host, Scope.USER, root, env) if env.get("CLAUDE_CONFIG_DIR") else home(env)
    keys = (_SERVERS,) if scope is Scope.USER else ("projects", str(root), _SERVERS)
    return own / ".claude.json", keys


def has_comments(host: Host) -> bool:
    """Whether the host reads comments in its settings."""
    return host is Host.GEMINI


def settings_file(host: Host, scope: Scope, root: Path, env: Mapping[str, str]) -> Path:
    """The file that holds the hooks; UsageError where the host has no such scope."""
    if scope is Scope.LOCAL and host is not Host.CLAUDE:
        raise UsageError(f"{host} has no local settings", hint="use --scope user or --scope project")
    folder = folder_of(host, scope, root, env)
    if host is Host.CODEX:
        return folder / "hooks.json"
    return folder / ("settings.local.json" if scope is Scope.LOCAL else "settings.json")


def folder_of(host: Host, scope: Scope, root: Path, env: Mapping[str, str]) -> Path:
    """The host's folder: the user's, or the project's."""
    if scope is not Scope.USER:
        return root / f".{host}"
    named = {Host.CLAUDE: "CLAUDE_CONFIG_DIR", Host.CODEX: "CODEX_HOME"}.get(host)
    if named and env.get(named):
        return absolute(env[named], named)
    if host is Host.GEMINI and env.get("GEMINI_CLI_HOME"):
        return absolute(env["GEMINI_CLI_HOME"], "GEMINI_CLI_HOME") / ".gemini"
    return home(env) / f".{host}"


def home(env: Mapping[str, str]) -> Path:
    """The user's home; UsageError when there is none."""
    return absolute(env.get("HOME") or "", "HOME")


def absolute(value: str, name: str) -> Path:
    """A folder that a variable names."""
    if not Path(value).is_absolute():
        raise UsageError(f"{name} names no folder: {value!r}", hint=f"set {name} to an absolute path")
    return Path(value)
