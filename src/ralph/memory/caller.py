"""Find out whether a person or an agent runs a command, and what to call them.

Agents set environment variables for the commands that they run. A command that has one of these
variables, in its own environment or in that of a parent process, was started by an agent. So was a
command without a terminal. `terminals` judges the terminal of any other command.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path

from ralph.core.record import SESSION, WHO

_AGENT_VARIABLES = {
    "CLAUDECODE": "claude",
    "CLAUDE_CODE_ENTRYPOINT": "claude",
    "CLAUDE_CODE_SESSION_ID": "claude",
    "CODEX_": "codex",
    "GEMINI_CLI": "gemini",
    "OPENCODE": "opencode",
    "CURSOR_AGENT": "cursor",
    "COPILOT_AGENT": "copilot",
    "AIDER_": "aider",
    "GOOSE_": "goose",
    "CLINE_": "cline",
    "AMP_THREAD": "amp",
    "RALPH_RUN": "loop",
    "RALPH_TASK": "loop",
    "QWEN_CODE": "qwen",
}
"""Prefixes of the environment variables that agents set for their commands."""
_PERSON_VARIABLES = ("CODEX_HOME", "AIDER_MODEL", "RALPH_TASKS")
"""Exceptions: people set variables with these prefixes themselves."""
_SESSION_VARIABLES = ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "AMP_THREAD_ID", "RALPH_RUN")
_GIT_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")  # where git finds its user config
_NOT_IN_A_NAME = re.compile(r"[^\w .,'@/+-]+")
_MAX_NAME_CHARACTERS = 40
_GIT_SECONDS = 2.0  # to wait for git
_MAX_PARENTS = 40  # how many parent processes to examine


class Caller(Enum):
    """Who runs a command."""

    PERSON = "person"
    UNSURE = "unsure"  # a terminal that an agent may have made; a person there can prove it
    AGENT = "agent"


_TRUE_IN_CI = ("1", "true", "True")


def identify_caller(env: Mapping[str, str], terminal: int | None) -> Caller:
    """Return who runs this command.

    `terminal` is the descriptor of standard input, or None if that is not a terminal.
    """
    if terminal is None or is_called_by_agent(env):
        return Caller.AGENT
    from ralph.memory import terminals  # a command without a terminal does not need it

    if terminals.is_at_own_terminal(terminal):
        return Caller.PERSON
    return Caller.UNSURE


def is_unattended(env: Mapping[str, str]) -> bool:
    """Return whether this is a CI job that no agent runs, by the variable that CI systems set.

    Whoever writes a CI job has decided what it does. Outside CI, an agent could set the variable
    as well, so this counts only for what is documented for CI.
    """
    return env.get("CI") in _TRUE_IN_CI and not is_called_by_agent(env)


def is_called_by_agent(env: Mapping[str, str]) -> bool:
    """Return whether an agent's variable is set, here or in a parent process."""
    return _has_agent_variable(list(env)) or any(map(_has_agent_variable, _parent_variables()))


def signature(root: Path, by: str, env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the members of `extra` that identify the author of a memory.

    For a person, this is the name in the git config. For an agent, it is its host and session.
    """
    who = ""
    session = ""
    if by == "human":
        who = _git_name(root, *map(os.environ.get, _GIT_VARIABLES))
    elif by == "agent":
        who = _agent_name(env)
        session = current_session(env)
    members = {WHO: clean_name(who), SESSION: clean_name(session)}
    return {name: value for name, value in members.items() if value}


def current_session(env: Mapping[str, str]) -> str:
    """Return the id of the session in which an agent runs this command, or ""."""
    return _first_set(env, _SESSION_VARIABLES)


def _agent_name(env: Mapping[str, str]) -> str:
    if not _has_agent_variable(list(env)):
        return ""
    for prefix, agent in _AGENT_VARIABLES.items():
        if any(name.startswith(prefix) for name in env):
            return agent
    return ""


def _first_set(env: Mapping[str, str], names: Sequence[str]) -> str:
    for name in names:
        value = env.get(name)
        if value:
            return value
    return ""


@cache  # an import may store hundreds of memories
def _git_name(root: Path, *_user: str | None) -> str:
    """Return the user's name in the git config. The arguments `_user` are only a cache key."""
    from ralph.core.repository import Repository

    return Repository(root, _GIT_SECONDS).output_or_empty(
        "config", "--global", "--includes", "--get", "user.name"
    )


def clean_name(words: str) -> str:
    """Shorten a name that somebody chose to one line that is safe in a comment."""
    return " ".join(_NOT_IN_A_NAME.sub(" ", words).split())[:_MAX_NAME_CHARACTERS].strip()


def _has_agent_variable(names: Sequence[str]) -> bool:
    """Return whether any of these variables was set by an agent."""
    prefixes = tuple(_AGENT_VARIABLES)
    return any(
        name.startswith(prefixes) and not name.startswith(_PERSON_VARIABLES) for name in names
    )


def _parent_variables() -> list[list[str]]:
    """Return the names of each parent process's environment variables.

    The list is empty or incomplete where the system does not show them.
    """
    found: list[list[str]] = []
    if sys.platform == "win32":
        return found
    process = os.getppid()
    try:
        while process > 1 and len(found) < _MAX_PARENTS:
            folder = Path(f"/proc/{process}")
            environment = (folder / "environ").read_bytes().decode("utf-8", "replace")
            found.append([line.partition("=")[0] for line in environment.split("\0")])
            status = (folder / "stat").read_text(encoding="utf-8")
            fields = status.rpartition(")")[2].split()  # after the name, which may contain blanks
            process = int(fields[1])
    except (OSError, ValueError, IndexError):
        pass  # another user's process, or a system without /proc
    return found
