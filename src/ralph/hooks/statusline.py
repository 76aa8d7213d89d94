"""`ralph statusline`: one line for a client's status line, about this project and this session.

It starts at every turn, so it imports what recording imports. A client gives JSON on stdin; without it the line is
about the current folder. Outside of a project nothing is printed.
"""

from __future__ import annotations

import os
import sys

from ralph import discovery
from ralph.hooks.handler import Payload, Project
from ralph.lean import TYPE_CHECKING
from ralph.store import hook_files

if TYPE_CHECKING:
    from collections.abc import Mapping

_LARGEST = 1 << 20  # bytes of the input, of the memory file and of the ledger's end that are read


def main() -> None:
    """Print the line; whatever fails prints nothing."""
    try:
        raw = b"" if os.isatty(0) else os.read(0, _LARGEST)
        line = status_line(raw, os.environ)
    except (OSError, ValueError, hook_files.Unsure):
        line = ""
    if line:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def status_line(raw: bytes, env: Mapping[str, str]) -> str:
    """Return what is remembered here and what this session was given, or why nothing is."""
    payload = Payload(raw)
    places = payload.object("workspace")
    folders = [
        env.get("CLAUDE_PROJECT_DIR"),
        places.text("project_dir"),
        payload.text("cwd"),
        os.getcwd(),
    ]
    project = Project(next(folder for folder in folders if folder and folder.startswith("/")))
    if not project.root:
        return ""
    if os.path.exists(f"{project.state}/{discovery.LOG}/paused"):
        return "Ralph: paused"
    memories = b"\n" + (hook_files.read_file(f"{project.root}/.agent/memories.md", _LARGEST) or b"")
    parts = [
        f"{count} {'memory' if count == 1 else 'memories'}"
        for count in (memories.count(b"\n### mem-"),)
    ]
    count, tokens = _injected(project, payload.text("session_id"))
    if count:
        parts.append(f"{count} injected ({tokens} tokens)")
    return f"Ralph: {', '.join(parts)}"


def _injected(project: Project, session: str) -> tuple[int, int]:
    """Return how many records this session was given, and their tokens."""
    text = (
        session
        and hook_files.read_file(
            f"{project.state}/{discovery.LOG}/injections.jsonl", _LARGEST, end=True
        )
    ) or b""
    lines = [Payload(line) for line in text.split(b"\n") if session.encode() in line]
    given = [
        line
        for line in lines
        if line.text("type") == "injection" and line.text("session") == session
    ]
    return len({line.text("record") for line in given}), sum(
        int(line.value("tokens") or 0) for line in given
    )
