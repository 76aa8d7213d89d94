"""Values that describe work: tasks, features, stories, runs, the journal, agents and MCP servers.

An agent never raises an exception because its program failed. `Reply.stop` reports the failure
instead, because the loop must record every iteration in the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from ralph.core.record import Outcome


class TaskStatus(StrEnum):
    """The state of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Claim:
    """Who is working on a task, and when the claim expires."""

    run: str
    host: str
    pid: int
    expires_at: str


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work, stored in `.ralph/tasks/<id>/task.json`."""

    id: str
    title: str
    description: str = ""
    status: str = "pending"
    priority: int = 0
    blocked_by: tuple[str, ...] = ()
    parent: str | None = None
    feature: str | None = None
    attempts: int = 0
    worktree: str | None = None
    branch: str | None = None
    claim: Claim | None = None
    created_at: str = ""
    updated_at: str = ""
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Story:
    """One user story of a PRD, stored in `.ralph/tasks/<id>/prd.json`."""

    id: str
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    priority: int = 0
    passes: bool = False
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Feature:
    """A goal that several tasks implement together, in `.ralph/features/<id>/feature.json`."""

    id: str
    title: str
    description: str = ""
    status: str = "open"
    created_at: str = ""
    updated_at: str = ""
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)


class RunStatus(StrEnum):
    """The state of a loop run, as stored in the index."""

    RUNNING = "running"
    SUCCESS = "success"
    UNCHECKED = "unchecked"  # the work is done, but not every criterion was checked
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """How one iteration ended, stored as a line in `log/runs/<run>.jsonl`."""

    run: str
    iteration: int
    outcome: Outcome
    task: str = ""
    title: str = ""  # the task's title, so that search can find the entry by it
    feature: str = ""
    agent: str = ""
    model: str = ""
    duration: float = 0.0
    cost: float = 0.0
    files: tuple[str, ...] = ()
    notes: str = ""
    created_at: str = ""
    session: str = ""  # the id that the client gave the conversation
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)


class StopReason(StrEnum):
    """Why an agent stopped."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURNS = "max_turns"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"  # `Ask.stopped` returned True
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    UNAVAILABLE = (
        "unavailable"  # not installed, not logged in, offline or overloaded; try again later
    )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call: the tool's name, the files it was given, and whether it succeeded."""

    name: str
    files: tuple[str, ...] = ()
    ok: bool = True
    writes: bool = False


def never_stop() -> bool:
    """Return False, so that nothing is ever stopped."""
    return False


def ignore_text(text: str) -> None:
    """Do nothing with the text."""


class ProcessResult(NamedTuple):
    """A program's exit code and output.

    `code` is None if the program could not be started, and negative if a signal ended it.
    """

    code: int | None
    out: str
    err: str
    timed_out: bool = False
    stopped: bool = False
    cut: bool = False
    missing: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """A prompt for an agent. `session` is the id of a conversation to resume."""

    prompt: str
    folder: Path
    model: str = ""
    session: str = ""
    read_only: bool = False
    timeout: float = 0.0  # seconds; 0 means no limit
    allowed: tuple[str, ...] = ()  # commands that the agent may run without asking
    folders: tuple[Path, ...] = ()  # further folders whose files it may read and edit
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)  # added to ours
    show: Callable[[str], None] = ignore_text
    stopped: Callable[[], bool] = never_stop


@dataclass(frozen=True, slots=True)
class Reply:
    """An agent's answer, with its stop reason, its tool calls and its cost in dollars."""

    text: str
    stop: StopReason = StopReason.END_TURN
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    cost: float = 0.0
    session: str = ""
    error: str = ""  # what went wrong, if anything did
    final: int = 0  # where in the text the message after the last tool call starts
    outputs: tuple[str, ...] = ()  # tool results, as far as the agent reports them
    refused: tuple[str, ...] = ()  # actions that were not permitted

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the agent's tools wrote, without duplicates."""
        written: dict[str, None] = {}
        for call in self.calls:
            if call.writes:
                written.update(dict.fromkeys(call.files))
        return tuple(written)


class Agent(Protocol):
    """A program that works on a prompt."""

    name: str
    enforces_read_only: bool  # whether it cannot write if `Ask.read_only` is set

    def run(self, ask: Ask) -> Reply:
        """Work on the prompt until done, and return the reply."""
        ...


class ServerStatus(StrEnum):
    """The state of a server, as spelled in the cache file."""

    RUNNING = "running"
    FAILED = "failed"
    NEEDS_AUTH = "needs-auth"
    UNKNOWN = "unknown"


UNUSABLE = (ServerStatus.FAILED, ServerStatus.NEEDS_AUTH)
"""Servers in these states are not passed to agents."""


class Transport(StrEnum):
    """How to talk to a server."""

    STDIO = "stdio"
    HTTP = "http"
    SSE = "sse"
    OTHER = "other"


class ServerScope(StrEnum):
    """The level at which a server was configured. An earlier scope takes precedence."""

    LOCAL = "local"
    PROJECT = "project"
    USER = "user"


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server. One configured by a project is `trusted` only once the user approves it."""

    name: str
    scope: ServerScope
    transport: Transport
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    where: str = ""
    why_not: str = ""
    trusted: bool = True

    @property
    def is_ralph(self) -> bool:
        """Whether this is Ralph's own server."""
        if not self.command:
            return False
        return Path(self.command[0]).name == "ralph" and self.command[1:3] == ("mcp", "serve")


class ServerAnswer(NamedTuple):
    """A server's state, and if it is not running, why not."""

    status: ServerStatus
    why: str = ""
    timed_out: bool = False  # it may only be slow
