"""What an agent is started in: its environment, and how the files that it names are told.

A user's key must reach the agent, so it gets our own environment. What an enclosing Claude Code session has put
there goes: with it the inner client would take itself for a part of the outer one, speak into its socket, and a
`ralph` that it calls would look for the wrong project. Settings of the user that begin in the same way stay. The
names are those that the real client hands to its shells and hooks. Proof: `tests/agents/test_surroundings.py`.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from ralph.model.work import Ask

_SESSION = {
    "AI_AGENT",
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
}
_BEGINNINGS = ("CLAUDE_CODE_MESSAGING_", "CLAUDE_CODE_SESSION_", "CLAUDE_PLUGIN_")


def environment(ask: Ask, ours: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without an enclosing session's marks, and on top of it what the prompt brings along."""
    mine = os.environ if ours is None else ours
    return {name: value for name, value in mine.items() if not is_mark(name)} | dict(ask.environment)


def is_mark(name: str) -> bool:
    """Whether a variable tells a program in which session it was started."""
    return name in _SESSION or name.startswith(_BEGINNINGS)


def place(path: str, folder: Path) -> str:
    """A file as it is told: relative to the folder where it lies inside, else as the agent named it."""
    if not path or "\0" in path:
        return path
    named = Path(os.path.normpath(folder / path))
    for root in (folder, Path(os.path.realpath(folder))):
        if named.is_relative_to(root):
            return named.relative_to(root).as_posix()
    real = Path(os.path.realpath(named))
    if real.is_relative_to(os.path.realpath(folder)):
        return real.relative_to(os.path.realpath(folder)).as_posix()
    return path


def is_inside(path: str, folder: Path) -> bool:
    """Whether a file really lies in the folder, links followed."""
    if not path or "\0" in path:
        return False
    return Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(folder))
