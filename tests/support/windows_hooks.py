"""Start an installed hook as its client does on Windows (docs/clients.md says how that was found)."""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

SETTINGS = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
}
"""The file with the hooks of each client, in the user's home."""
PROMPT_EVENTS = {"claude": "UserPromptSubmit", "codex": "UserPromptSubmit", "gemini": "BeforeAgent"}
TOOL_EVENTS = {"claude": "PostToolUse", "codex": "PostToolUse", "gemini": "AfterTool"}
SHELL_TOOLS = {"claude": "Bash", "codex": "Bash", "gemini": "run_shell_command"}
_POWERSHELL_WORD = re.compile(r"'((?:[^']|'')*)'|(\S+)")


def hook_command(home: Path, host: str, event: str) -> str | list[str]:
    """Return what a client passes to Windows for an event: words, or a command line.

    Claude Code starts the program itself, and Codex may use cmd.exe. Gemini CLI uses PowerShell,
    which Wine does not have, so its line is split as PowerShell would.
    """
    settings = json.loads((home / SETTINGS[host]).read_text(encoding="utf-8"))
    (hook,) = settings["hooks"][event][0]["hooks"]
    if host == "claude":
        return [hook["command"], *hook["args"]]
    if host == "codex":
        return f'cmd.exe /C "{hook["command"]}"'
    return powershell_words(hook["command"])


def powershell_words(line: str) -> list[str]:
    """Split a command line as PowerShell does, if it has only words and single quotes."""
    assert line.startswith("& ")
    words = []
    for quoted, plain in _POWERSHELL_WORD.findall(line.removeprefix("& ")):
        words.append(plain or quoted.replace("''", "'"))
    return words


def start_hook(
    command: str | list[str], payload: Mapping[str, object], folder: Path, env: Mapping[str, str]
) -> bytes:
    """Run a hook with a payload and return its answer. It always exits with 0."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env=dict(env),
        input=json.dumps(payload).encode(),
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended
    assert ended.stderr == b"", ended
    return ended.stdout
