"""Print one line about this project and session for a client's status line.

For example: `Ralph: 12 memories, 3 given (240 tokens)`. This runs on every turn, so it imports
only what recording imports. The client sends JSON on standard input. Without it, the line is about
the current folder. In a repository where Ralph is not set up, it says so. Elsewhere outside
projects, nothing is printed.
"""

from __future__ import annotations

import os
import sys

from ralph.hooks.handler import Payload, Project, user_config
from ralph.lean import TYPE_CHECKING, discovery, hook_files, record

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_BYTES = 1 << 20  # to read from the input, the memory file and the end of the ledger

_SILENCING_WORDS = (b"everywhere", b"auto", b"presence")
"""Words in the user's config that may mean that a repository needs no setup, or no report."""
_SILENCING_VARIABLES = ("RALPH_CAPTURE_EVERYWHERE", "RALPH_INIT_AUTO", "RALPH_PRESENCE")


@record
class _Injected:
    """How many distinct records a session was given, and the tokens they cost."""

    records: int
    tokens: int


def main() -> None:
    """Print the line, or nothing if anything fails."""
    try:
        raw = b"" if os.isatty(0) else os.read(0, _MAX_BYTES)
        line = status_line(raw, os.environ)
    except (OSError, ValueError, hook_files.Unsure):
        line = ""
    if line:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def status_line(raw: bytes, env: Mapping[str, str]) -> str:
    """Return the status line: how much is remembered here, and what this session was given.

    Returns "" outside projects and repositories.
    """
    payload = Payload(raw)
    project = Project(_folder(payload, env))
    if not project.root:
        return _report_not_set_up(project.folder, env)
    if os.path.exists(f"{project.state}/{discovery.LOG}/paused"):
        return "Ralph: paused"
    memories = hook_files.read_file(f"{project.root}/.agent/memories.md", _MAX_BYTES) or b""
    count = (b"\n" + memories).count(b"\n### mem-")
    noun = "memory" if count == 1 else "memories"
    line = f"Ralph: {count} {noun}"
    injected = _read_injected(project, payload.text("session_id"))
    if injected.records:
        line += f", {injected.records} given ({injected.tokens} tokens)"
    return line


def _report_not_set_up(folder: str, env: Mapping[str, str]) -> str:
    """Return that Ralph is not set up in a repository, or "" if that may be wrong or unwanted."""
    if any(name in env for name in _SILENCING_VARIABLES):
        return ""
    config = hook_files.read_file(user_config(env)) or b""
    # Only the YAML parser can tell what a config says, and loading it takes too long for each turn.
    if any(word in config for word in _SILENCING_WORDS):
        return ""
    if discovery.find_unset_up(folder, env) is None:
        return ""
    return discovery.NOT_SET_UP


def _folder(payload: Payload, env: Mapping[str, str]) -> str:
    candidates = (
        env.get("CLAUDE_PROJECT_DIR") or "",
        payload.object("workspace").text("project_dir"),
        payload.text("cwd"),
    )
    for folder in candidates:
        if os.path.isabs(folder):
            return discovery.with_slashes(folder)
    return discovery.with_slashes(os.getcwd())


def _read_injected(project: Project, session: str) -> _Injected:
    """Return what a session was given, according to the end of the ledger."""
    records: set[str] = set()
    tokens = 0
    if session:
        path = f"{project.state}/{discovery.LOG}/injections.jsonl"
        ledger = hook_files.read_file(path, _MAX_BYTES, end=True) or b""
        for line in ledger.split(b"\n"):
            if session.encode() not in line:
                continue
            entry = Payload(line)
            if entry.text("type") == "injection" and entry.text("session") == session:
                records.add(entry.text("record"))
                tokens += int(entry.value("tokens") or 0)
    return _Injected(len(records), tokens)
