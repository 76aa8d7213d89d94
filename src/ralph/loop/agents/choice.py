"""Which agents exist, which are installed and answer, and which one a loop uses.

In a loop, Claude Code leaves out MCP servers that do not answer, need a login, or came with the repository untrusted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ralph.core import process
from ralph.core.errors import RalphError, UsageError
from ralph.core.extras import add_command, has_extra, needs_extra
from ralph.core.settings import Loop
from ralph.core.work import Agent, Ask, StopReason, ignore_text
from ralph.loop import mcp_servers as servers
from ralph.loop.agents import claude, codex, scripted
from ralph.loop.agents.claude import as_claude
from ralph.loop.agents.client import CommandAgent, split_command

NAMES = ("claude", "codex", "acp", "command", "scripted")
AUTO = "auto"
ACP_PROGRAM = "claude-agent-acp"
_VERSION_TIMEOUT = 20.0
_ANSWER_TIMEOUT = 60.0
_QUESTION = "Answer with the single word READY. Use no tools and change nothing."


def create_agent(
    name: str,
    *,
    command: str | Sequence[str] = (),
    permission: str = "",
    script: Path | None = None,
) -> Agent:
    """Return the agent of this name; `command` is its program where that is not the usual one."""
    name = resolve_name(name)
    if name == "claude":
        return claude.Claude(
            split_command(command) if command else ("claude",), permission or claude.PERMISSION
        )
    if name == "codex":
        return codex.Codex(
            split_command(command) if command else ("codex",), permission or codex.SANDBOX
        )
    if name == "acp":
        with needs_extra("acp", "the agent 'acp'"):
            from ralph.loop.agents.acp import Acp
        return Acp(split_command(command) if command else (ACP_PROGRAM,), permission)
    if name == "command":
        return CommandAgent(command)
    if name == "scripted":
        if script is None:
            raise UsageError(
                "the agent 'scripted' needs a script", hint="name a JSON file with a list of steps"
            )
        return scripted.load_script(script)
    raise UsageError(f"there is no agent {name!r}", hint=f"one of: {', '.join((AUTO, *NAMES))}")


def resolve_name(name: str) -> str:
    """Return the agent's name; for `auto`, the first of claude and codex that is installed."""
    if name not in ("", AUTO):
        return name
    for installed in ("claude", "codex"):
        if shutil.which(installed):
            return installed
    hint = "install one of them, or name an agent: `ralph loop agents` shows what there is"
    raise UsageError("neither claude nor codex is installed", hint=hint)


def list_agents(folder: Path) -> list[dict[str, Any]]:
    """Return every agent with whether it is usable here, its version and path, and a note on what is missing."""
    acp = {"usable": True, "note": "any program that speaks it, by --command"}
    if not has_extra("acp"):
        acp = {"usable": False, "note": f"needs the extra 'acp': {add_command('acp')}"}
    elif shutil.which(ACP_PROGRAM):
        acp = _find_program(ACP_PROGRAM, folder)
    agents = {
        "claude": _find_program("claude", folder),
        "codex": _find_program("codex", folder),
        "acp": acp,
        "command": {"usable": True, "note": "any program, by --command"},
        "scripted": {"usable": True, "note": "plays a file of steps, by --command FILE"},
    }
    unknown = {"usable": False, "version": "", "path": "", "note": ""}
    return [{"name": name, **unknown, **agent} for name, agent in agents.items()]


def _find_program(program: str, folder: Path) -> dict[str, Any]:
    if (path := shutil.which(program)) is None:
        return {"note": f"{program} is not on the PATH"}
    result = process.run([path, "--version"], cwd=folder, timeout=_VERSION_TIMEOUT)
    if result.code != 0:
        error = (result.err.strip().splitlines() or ["no words"])[-1]
        return {"path": path, "note": f"it does not start: {error}"}
    return {"usable": True, "path": path, "version": (result.out.strip().splitlines() or [""])[0]}


def check_agents(root: Path, name: str = "", command: str = "") -> list[dict[str, Any]]:
    """Ask this agent, or each that is installed, for one word: its `answer`, or in `note` why there is none."""
    if name and name not in NAMES:
        raise UsageError(f"there is no agent {name!r}", hint=f"one of: {', '.join(NAMES)}")
    checks = []
    for listed in list_agents(root):
        if listed["name"] == name if name else listed["path"]:
            try:
                agent = loop_agent(root, Loop(agent=listed["name"], agent_command=command))
                about: dict[str, Any] = {
                    "read_only": agent.reads_only,
                    "environment": {"RALPH_DISABLE": "1"},
                }
                reply = agent.run(Ask(_QUESTION, root, timeout=_ANSWER_TIMEOUT, **about))
                answer = reply.text.strip() if reply.stop is StopReason.END_TURN else ""
                note = "" if answer else reply.error or f"it ended without an answer ({reply.stop})"
            except RalphError as error:
                answer = ""
                note = error.message
            checks.append({**listed, "answer": answer, "note": note})
    return checks


def loop_agent(root: Path, loop: Loop, tell: Callable[[str], None] = ignore_text) -> Agent:
    """Return the agent that the config names for loops; UsageError when its program is missing."""
    if loop.agent == "scripted":
        return create_agent(
            loop.agent, script=root / loop.agent_command if loop.agent_command else None
        )
    programs = {"claude": "claude", "codex": "codex", "acp": ACP_PROGRAM}
    program = (
        split_command(loop.agent_command)[0] if loop.agent_command else programs.get(loop.agent, "")
    )
    if program and shutil.which(str(root / program) if "/" in program else program) is None:
        hint = (
            "`ralph loop agents` shows which agents there are; --agent and --command name another"
        )
        raise UsageError(f"{program}: there is no such program", hint=hint)
    name = resolve_name(loop.agent)
    is_default = loop.permission == Loop().permission  # which is Claude Code's mode
    permission = "" if is_default and name != "claude" else loop.permission
    agent = create_agent(name, command=loop.agent_command, permission=permission)
    if (claude_agent := as_claude(agent)) is not None:
        try:
            states = servers.server_status(root, os.environ, refresh=True)[0]
        except RalphError:  # Claude Code reports a broken file of servers itself
            return agent
        for line in servers.describe_denied(states):
            tell(line)
        claude_agent.settings = servers.denying_settings(states)
    return agent
