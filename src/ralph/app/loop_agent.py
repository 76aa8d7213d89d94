"""Who works in a loop: the agent that the config names, and what is kept from it.

A program that is not there is an error before anything begins, since waiting would not bring it. Claude Code is told
to leave out MCP servers that do not answer or want somebody to log in, and those that the repository brought along and
nobody has trusted, which it would start where it asks nobody; what else nobody knows is left to it.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ralph.agents.claude import as_claude
from ralph.agents.command import split_command
from ralph.app import agent as agents
from ralph.app.hosts import servers
from ralph.errors import RalphError, UsageError
from ralph.model.work import Agent, ignore_text
from ralph.settings import Loop

_PROGRAMS = {"claude": "claude", "codex": "codex", "acp": agents.ACP_PROGRAM}


def agent_of(root: Path, loop: Loop, tell: Callable[[str], None] = ignore_text) -> Agent:
    """The agent that the config names; UsageError when its program is not there, since waiting would not bring it."""
    if loop.agent == "scripted":
        return agents.named(loop.agent, script=root / loop.agent_command if loop.agent_command else None)
    program = split_command(loop.agent_command)[0] if loop.agent_command else _PROGRAMS.get(loop.agent, "")
    if program and shutil.which(str(root / program) if "/" in program else program) is None:
        hint = "`ralph loop agents` shows which agents there are; --agent and --command name another"
        raise UsageError(f"{program}: there is no such program", hint=hint)
    name = agents.chosen(loop.agent)
    others = "" if loop.permission == Loop().permission else loop.permission  # the usual one is Claude Code's own word
    permission = loop.permission if name == "claude" else others
    found = agents.named(name, command=loop.agent_command, permission=permission)
    if (taker := as_claude(found)) is not None:
        taker.settings = _left_out(root, tell)
    return found


def _left_out(root: Path, tell: Callable[[str], None]) -> str:
    """Settings that keep MCP servers out, which is told once; "" for none."""
    try:
        known = servers.server_status(root, os.environ, refresh=True).servers
    except RalphError:  # a broken file of servers is Claude Code's to complain about
        return ""
    for line in servers.describe_denied(known):
        tell(line)
    return servers.denying_settings(known)
