"""List the agents, check which of them are installed and respond, and create the one for a loop.

In a loop, Claude Code runs without the MCP servers that do not respond, that require a login, or
that came with the repository and are not trusted.
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
from ralph.core.spelling import did_you_mean
from ralph.core.work import Agent, Ask, StopReason, ignore_text
from ralph.loop import mcp_status
from ralph.loop.agents import claude, codex, scripted
from ralph.loop.agents.claude import as_claude
from ralph.loop.agents.command import CommandAgent, split_command

NAMES = ("claude", "codex", "acp", "command", "scripted")
AUTO = "auto"
_OFFERED = (AUTO, "claude", "codex", "acp", "command")
"""The names that an error offers. `scripted` is for demonstrations and tests."""
ACP_PROGRAM = "claude-agent-acp"
_PROGRAMS = {"claude": "claude", "codex": "codex", "acp": ACP_PROGRAM}
"""The default program of each agent that has one."""
_VERSION_SECONDS = 20.0  # how long `--version` may take
_ANSWER_SECONDS = 60.0  # how long an agent may take to answer
_QUESTION = "Answer with the single word READY. Use no tools and change nothing."


# --- creating -------------------------------------------------------------------------------------


def create_agent(
    name: str,
    *,
    command: str | Sequence[str] = (),
    permission: str = "",
    script: Path | None = None,
) -> Agent:
    """Return the agent with this name.

    `command` replaces its default program. Raises UsageError if there is no such agent, or if its
    program, script or extra is missing.
    """
    name = resolve_name(name)
    if name == "claude":
        return claude.Claude(_agent_program(name, command), permission or claude.PERMISSION)
    if name == "codex":
        return codex.Codex(_agent_program(name, command), permission or codex.SANDBOX)
    if name == "acp":
        with needs_extra("acp", "the agent 'acp'"):
            from ralph.loop.agents.acp import Acp
        return Acp(_agent_program(name, command), permission)
    if name == "command":
        return CommandAgent(command)
    if name == "scripted":
        if script is None:
            raise UsageError(
                "the agent 'scripted' needs a script",
                hint="name a JSON file that contains a list of steps",
            )
        return scripted.load_script(script)
    raise UsageError(
        f"Agent not found: {name}{did_you_mean(name, (AUTO, *NAMES))}",
        hint=f"one of: {', '.join(_OFFERED)}",
    )


def _agent_program(name: str, command: str | Sequence[str]) -> Sequence[str]:
    if command:
        return split_command(command)
    return (_PROGRAMS[name],)


def resolve_name(name: str) -> str:
    """Return the name of an agent, resolving `auto` to claude or codex.

    For `auto` or "", the first of the two that is installed is returned. Raises UsageError if
    neither of them is.
    """
    if name not in ("", AUTO):
        return name
    for installed in ("claude", "codex"):
        if shutil.which(installed):
            return installed
    raise UsageError(
        "neither claude nor codex is installed",
        hint="install one of them, or choose another agent: `ralph doctor --agents` lists them",
    )


# --- checking -------------------------------------------------------------------------------------


def list_agents(folder: Path) -> list[dict[str, Any]]:
    """Return a description of every agent.

    A description has the members `name`, `usable`, `version`, `path` (of the program) and `note`,
    which explains what is missing or needed.
    """
    agents = {
        "claude": _find_program("claude", folder),
        "codex": _find_program("codex", folder),
        "acp": _find_acp(folder),
        "command": {"usable": True, "note": "any program, by --command"},
        "scripted": {"usable": True, "note": "plays a file of steps, by --command FILE"},
    }
    defaults = {"usable": False, "version": "", "path": "", "note": ""}
    return [{"name": name, **defaults, **agent} for name, agent in agents.items()]


def _find_acp(folder: Path) -> dict[str, Any]:
    if not has_extra("acp"):
        return {"usable": False, "note": f"needs the extra 'acp': {add_command('acp')}"}
    if shutil.which(ACP_PROGRAM):
        return _find_program(ACP_PROGRAM, folder)
    return {"usable": True, "note": "any program that speaks the protocol, by --command"}


def _find_program(program: str, folder: Path) -> dict[str, Any]:
    path = shutil.which(program)
    if path is None:
        return {"note": f"{program} is not on the PATH"}
    result = process.run([path, "--version"], cwd=folder, timeout=_VERSION_SECONDS)
    if result.code != 0:
        error_lines = result.err.strip().splitlines() or ["no error message"]
        return {"path": path, "note": f"it does not start: {error_lines[-1]}"}
    version_lines = result.out.strip().splitlines() or [""]
    return {"usable": True, "path": path, "version": version_lines[0]}


def check_agents(root: Path, name: str = "", command: str = "") -> list[dict[str, Any]]:
    """Ask the named agent, or every installed agent, to answer with one word.

    Each result contains the agent's `answer`, or a `note` with the reason why there is none. Raises
    UsageError if there is no agent with that name.
    """
    if name and name not in NAMES:
        raise UsageError(
            f"Agent not found: {name}{did_you_mean(name, NAMES)}",
            hint=f"one of: {', '.join(NAMES)}",
        )
    checks: list[dict[str, Any]] = []
    for listed in list_agents(root):
        if name:
            is_chosen = listed["name"] == name
        else:
            is_chosen = bool(listed["path"])
        if is_chosen:
            checks.append({**listed, **_check_agent(root, listed["name"], command)})
    return checks


def _check_agent(root: Path, name: str, command: str) -> dict[str, str]:
    try:
        agent = loop_agent(root, Loop(agent=name, agent_command=command))
        reply = agent.run(
            Ask(
                _QUESTION,
                root,
                read_only=agent.enforces_read_only,
                timeout=_ANSWER_SECONDS,
                environment={"RALPH_DISABLE": "1"},
            )
        )
    except RalphError as error:
        return {"answer": "", "note": error.message}
    answer = reply.text.strip()
    if reply.stop is StopReason.END_TURN and answer:
        return {"answer": answer, "note": ""}
    return {"answer": "", "note": reply.error or f"it ended without an answer ({reply.stop})"}


# --- the agent of a loop --------------------------------------------------------------------------


def loop_agent(root: Path, loop: Loop, tell: Callable[[str], None] = ignore_text) -> Agent:
    """Return the agent that the config selects for loops.

    `tell` is called with lines about the MCP servers that Claude Code must not use. Raises
    UsageError if the agent's program is missing.
    """
    if loop.agent == "scripted":
        script = None
        if loop.agent_command:
            script = root / loop.agent_command
        return create_agent(loop.agent, script=script)
    _check_program(root, loop)
    name = resolve_name(loop.agent)
    permission = loop.permission
    if permission == Loop().permission and name != "claude":
        permission = ""  # the default is a Claude Code mode that other agents do not have
    agent = create_agent(name, command=loop.agent_command, permission=permission)
    _deny_servers(root, agent, tell)
    return agent


def _check_program(root: Path, loop: Loop) -> None:
    """Raise UsageError if the configured agent's program is not installed."""
    program = _PROGRAMS.get(loop.agent, "")
    if loop.agent_command:
        program = split_command(loop.agent_command)[0]
    if not program:
        return
    location = program
    if "/" in program or os.sep in program:
        location = str(root / program)
    if shutil.which(location) is None:
        raise UsageError(
            f"{program}: there is no such program",
            hint="`ralph doctor --agents` lists the agents; choose another one with --agent"
            " or --command",
        )


def _deny_servers(root: Path, agent: Agent, tell: Callable[[str], None]) -> None:
    """Disable the MCP servers that Claude Code must not use, and report them."""
    claude_agent = as_claude(agent)
    if claude_agent is None:
        return
    try:
        states = mcp_status.server_status(root, os.environ, refresh=True, check_ralph=False)[0]
    except RalphError:  # Claude Code reports a broken server file itself
        return
    for line in mcp_status.describe_denied(states):
        tell(line)
    claude_agent.settings = mcp_status.denying_settings(states)
