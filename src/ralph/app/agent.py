"""Which agents there are, which are installed, and whether one answers.

A name stands for a way to run an agent, not for a model: `claude` and `codex` are those programs, `acp` is any
program that speaks the protocol, `command` is any other one, and `scripted` plays a file. `auto` is the first of
claude and codex that is installed. The protocol's SDK is an extra and is loaded only for `acp`. A check really
asks, with nothing recorded and in a mode that writes nothing where there is one, since what can be wrong (not
logged in, no network, no such model) shows only then. Proof: `tests/app/test_agent.py`, `tests/cli/test_agent.py`.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ralph.agents import claude, codex, process, scripted
from ralph.agents.command import Command, split_command
from ralph.errors import UsageError
from ralph.model.work import Agent, Ask, Reply, StopReason

NAMES = ("claude", "codex", "acp", "command", "scripted")
AUTO = "auto"
ACP_PROGRAM = "claude-agent-acp"
QUESTION = "Answer with the single word READY. Use no tools and change nothing."
TIMEOUT = 60.0

_VERSION_TIME = 20.0
_INSTALL = {
    "claude": "install Claude Code, then run `claude` once to log in",
    "codex": "install Codex, then run `codex` once to log in",
    "acp": "name its program, for example --command 'gemini --acp'",
}


@dataclass(frozen=True, slots=True)
class Found:
    """One agent: whether it can be used here, where its program is, which version, and what is missing."""

    name: str
    installed: bool
    path: str = ""
    version: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """Whether an agent answered; `problem` and `hint` are in words when it did not."""

    name: str
    ok: bool
    reply: Reply
    problem: str = ""
    hint: str = ""


def named(
    name: str,
    *,
    command: str | Sequence[str] = (),
    in_shell: bool = False,
    permission: str = "",
    script: Path | None = None,
) -> Agent:
    """The agent of this name; `command` is its program where that is not the usual one."""
    name = chosen(name)
    if in_shell and name != "command":
        raise UsageError(f"the agent {name!r} is never started through a shell", hint="leave the shell out")
    if name == "claude":
        return claude.Claude(split_command(command) if command else ("claude",), permission or claude.PERMISSION)
    if name == "codex":
        return codex.Codex(split_command(command) if command else ("codex",), permission or codex.SANDBOX)
    if name == "acp":
        return _acp(split_command(command) if command else (ACP_PROGRAM,), permission)
    if name == "command":
        return Command(command, in_shell)
    if name == "scripted":
        if script is None:
            raise UsageError("the agent 'scripted' needs a script", hint="name a JSON file with a list of steps")
        return scripted.load_script(script)
    raise UsageError(f"there is no agent {name!r}", hint=f"one of: {', '.join((AUTO, *NAMES))}")


def chosen(name: str) -> str:
    """The agent that is meant by a name; of `auto`, the first of claude and codex that is installed."""
    return name if name not in ("", AUTO) else _first_installed()


def _first_installed() -> str:
    for name in ("claude", "codex"):
        if shutil.which(name):
            return name
    raise UsageError(
        "neither claude nor codex is installed",
        hint="install one of them, or name an agent: `ralph loop agents` shows what there is",
    )


def _acp(program: Sequence[str], permission: str) -> Agent:
    try:
        from ralph.agents.acp import Acp  # noqa: PLC0415  (an extra, and slow to import)
    except ModuleNotFoundError as error:
        raise UsageError(
            "the agent 'acp' needs the extra 'acp', which is not installed",
            hint="uv tool install 'ralph-memory[acp]'   (or: pipx install 'ralph-memory[acp]')",
        ) from error
    return Acp(program, permission)


def found(folder: Path) -> list[Found]:
    """Every agent, and whether it can be used here."""
    agents = [_program("claude", "claude", folder), _program("codex", "codex", folder)]
    if find_spec("acp") is None:
        agents.append(Found("acp", False, note="needs the extra 'acp'"))
    elif shutil.which(ACP_PROGRAM):
        agents.append(_program("acp", ACP_PROGRAM, folder))
    else:
        agents.append(Found("acp", True, note="any program that speaks it, by --command"))
    agents.append(Found("command", True, note="any program, by --command"))
    agents.append(Found("scripted", True, note="plays a file of steps, by --script"))
    return agents


def _program(name: str, program: str, folder: Path) -> Found:
    path = shutil.which(program)
    if path is None:
        return Found(name, False, note=f"{program} is not on the PATH")
    done = process.run([path, "--version"], cwd=folder, timeout=_VERSION_TIME)
    if done.code != 0:
        return Found(
            name, False, path, note="it does not start: " + (done.err.strip().splitlines() or ["no words"])[-1]
        )
    return Found(name, True, path, (done.out.strip().splitlines() or [""])[0])


def check(agent: Agent, folder: Path, *, model: str = "", timeout: float = TIMEOUT) -> Check:
    """Really ask an agent for one word."""
    ask = Ask(
        QUESTION,
        folder,
        model=model,
        read_only=agent.reads_only,
        timeout=timeout,
        environment={"RALPH_DISABLE": "1"},
    )
    reply = agent.run(ask)
    if reply.stop is StopReason.END_TURN and reply.text.strip():
        return Check(agent.name, True, reply)
    if reply.stop is StopReason.END_TURN:
        return Check(agent.name, False, reply, "it answered without a word", "ask it by hand, with the same program")
    return Check(agent.name, False, reply, reply.error or f"it ended with {reply.stop}", _advice(agent.name, reply))


def _advice(name: str, reply: Reply) -> str:
    """What to do about an agent that did not answer."""
    if reply.stop is StopReason.TIMEOUT:
        return "give it more time with --timeout, or see by hand what it waits for"
    if reply.stop is StopReason.UNAVAILABLE and "no such program" in reply.error:
        return _INSTALL.get(name, "check the program's name and the PATH")
    if reply.stop is StopReason.UNAVAILABLE:
        return "check the login, the network and the model's name; then try again"
    return "run the same program by hand to see more of it"
