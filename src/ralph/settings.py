"""The settings: each key is one line with its default and a sentence about it.

A `personal` key is ignored in a project's files; a value there that `trusted` is true of counts after `ralph trust`.
"""

# ruff: noqa: RUF009 - `setting` and `section` return dataclass fields, as `field` itself does

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TypeVar

from ralph.formats.config_files import ValueType
from ralph.model.record import CriterionKind, MemoryKind

T = TypeVar("T")


class Inject(StrEnum):
    """When memories reach the agent."""

    AUTO = "auto"
    MANUAL = "manual"
    NONE = "none"


class Trimming(StrEnum):
    """What goes first when memories do not fit; auto: as the situation calls for."""

    AUTO = "auto"
    RECENCY = "recency"
    RELEVANCE = "relevance"
    COMPRESSION = "compression"
    SELECTIVE = "selective"


class Provider(StrEnum):
    """The source of embeddings; all but the first three are servers."""

    AUTO = "auto"
    NONE = "none"
    LOCAL = "local"
    OPENAI = "openai"
    VOYAGE = "voyage"
    OLLAMA = "ollama"
    COMPATIBLE = "compatible"
    ANTHROPIC = "anthropic"


class Presence(StrEnum):
    """Where a session says what Ralph injected."""

    FULL = "full"
    START = "start"
    OFF = "off"


class StateHome(StrEnum):
    """Where logs, index and caches are kept."""

    GIT = "git"
    PROJECT = "project"


def _always(value: object) -> bool:
    return True


def _has_command(value: object) -> bool:
    return isinstance(value, tuple) and any(
        isinstance(item, CriterionSetting) and item.command for item in value
    )


def setting(default: T, doc: str, kind: ValueType | None = None, **limits: object) -> T:
    """A field that is a key; its kind follows from the default unless it is named."""
    inferred = (
        (bool, ValueType.FLAG),
        (int, ValueType.NUMBER),
        (float, ValueType.FRACTION),
        (Enum, ValueType.CHOICE),
        (str, ValueType.TEXT),
        (tuple, ValueType.CHOICES if "choices" in limits else ValueType.TEXTS),
    )
    if isinstance(default, Enum):
        limits["choices"] = tuple(type(default))
    kind = kind or next(
        value_type for python, value_type in inferred if isinstance(default, python)
    )
    return field(default=default, metadata={"kind": kind, "doc": doc, "limits": limits})


def section(default: T, name: str) -> T:
    """A field that is a section of keys, with its name in the files."""
    return field(default=default, metadata={"section": name})


@dataclass(frozen=True, slots=True)
class Filter:
    """Which memories are injected; empty means all."""

    types: tuple[MemoryKind, ...] = setting(
        (), "Inject only these types.", choices=tuple(MemoryKind)
    )
    tags: tuple[str, ...] = setting((), "Inject only memories with one of these tags.")
    recent: int = setting(0, "Inject only memories of the last so many days; 0 is no limit.")


@dataclass(frozen=True, slots=True)
class Memories:
    """The section `memories`."""

    enabled: bool = setting(True, "Keep memories and offer them to agents.")
    inject: Inject = setting(Inject.AUTO, "Inject by itself, on request, or never.")
    budget: int = setting(2000, "At most so many tokens of memories are injected; 0 is unlimited.")
    skill_injection: bool = setting(True, "Also inject how to use the memories.")
    filter: Filter = section(Filter(), "filter")


@dataclass(frozen=True, slots=True)
class CriterionSetting:
    """One thing that must hold before the loop calls its work done."""

    type: CriterionKind = setting(CriterionKind.CUSTOM, "What is checked.")
    command: str = setting("", "The command to run; empty: found from the project.")
    expected_exit_code: int = setting(0, "The exit code that means success.", highest=255)
    marker: str = setting("", "The text to look for in the agent's output.")
    timeout: float = setting(0.0, "Seconds until the command is stopped; 0: the loop's own limit.")


@dataclass(frozen=True, slots=True)
class Loop:
    """The section `ralph`: the loop."""

    max_iterations: int = setting(10, "The loop ends after so many iterations.", lowest=1)
    success_criteria: tuple[CriterionSetting, ...] = setting(
        (),
        "What must hold before the work is done; commands in a project's files only after `ralph trust`.",
        ValueType.TABLES,
        parts=CriterionSetting,
        trusted=_has_command,
    )
    context_budget: float = setting(
        0.6, "The share of the context window that a prompt may fill.", highest=1
    )
    cooldown_ms: int = setting(1000, "Milliseconds to wait between two iterations.")
    agent: str = setting(
        "auto",
        "Who works: claude, codex, acp, command; auto: the first of claude and codex there is.",
    )
    agent_command: str = setting(
        "", "The program of the agents `command` and `acp`.", personal=True, trusted=_always
    )
    permission: str = setting(
        "acceptEdits",
        "What Claude Code may do without asking: one of its permission modes.",
        personal=True,
        trusted=_always,
    )
    model: str = setting("", "The agent's model; empty: its own choice.")
    max_minutes: int = setting(0, "The loop ends after so many minutes of work; 0 is no limit.")
    max_cost: float = setting(0.0, "The loop ends when it has cost so many dollars; 0 is no limit.")
    iteration_minutes: int = setting(
        60, "An agent that takes longer for one iteration is stopped; 0 is no limit."
    )
    check_seconds: int = setting(
        600, "A criterion's command that takes longer is stopped.", lowest=1
    )


@dataclass(frozen=True, slots=True)
class Execution:
    """The section `execution`."""

    verify: bool = setting(True, "Check a task that an agent calls done before believing it.")
    max_retries: int = setting(3, "How often a failed task is tried again.")


@dataclass(frozen=True, slots=True)
class Shares:
    """How the context window is shared out."""

    system: float = setting(0.10, "The part of the window for instructions.", highest=1)
    memory: float = setting(
        0.15, "The part of the window that injected memory may fill.", highest=1
    )
    task: float = setting(0.35, "The part of the window for the task at hand.", highest=1)
    response: float = setting(
        0.40, "The part of the window that is left for the answer.", highest=1
    )


@dataclass(frozen=True, slots=True)
class Context:
    """The section `context`."""

    window: int = setting(200_000, "The size of the agent's context window, in tokens.", lowest=1)
    strategy: Trimming = setting(
        Trimming.AUTO,
        "What goes first when a brief's memories do not fit: old ones, useless ones, details, or all but fixes.",
    )
    shares: Shares = section(Shares(), "shares")


@dataclass(frozen=True, slots=True)
class Privacy:
    """The section `privacy`."""

    patterns: tuple[str, ...] = setting(
        (), "Text that matches one of these is never stored.", ValueType.PATTERNS
    )
    paths: tuple[str, ...] = setting(
        (), "Nothing about files that match one of these globs is stored."
    )


@dataclass(frozen=True, slots=True)
class Embedding:
    """The section `embedding`: the model for search by meaning."""

    provider: Provider = setting(
        Provider.AUTO,
        "The model for search by meaning; auto: local where it is installed; a server in a project's files only "
        "after `ralph trust`.",
        trusted=lambda value: value not in (Provider.AUTO, Provider.NONE, Provider.LOCAL),
    )
    model: str = setting("", "The server's model; empty: the provider's usual one.")
    url: str = setting(
        "", "The server's address; empty: the provider's own.", personal=True, trusted=_always
    )
    key_env: str = setting(
        "", "The environment variable that holds the server's key.", personal=True, trusted=_always
    )


@dataclass(frozen=True, slots=True)
class Capture:
    """The section `capture`: where sessions are recorded."""

    everywhere: bool = setting(
        False, "Record in folders without Ralph's files, too.", personal=True
    )


@dataclass(frozen=True, slots=True)
class State:
    """The section `state`: where logs, index and caches are kept."""

    home: StateHome = setting(
        StateHome.GIT,
        "Keep logs, index and caches in the git directory, or in `.ralph/local/` of the project.",
        personal=True,
    )


@dataclass(frozen=True, slots=True)
class Summarize:
    """The section `summarize`: a command that improves summaries and shortens notes."""

    command: str = setting(
        "",
        "A command that prints a better summary of a session, or shortens notes.",
        personal=True,
        trusted=_always,
    )


class Shared(StrEnum):
    """What a team may share."""

    MEMORIES = "memories"
    GUARDRAILS = "guardrails"
    KNOWLEDGE = "knowledge"
    SUMMARIES = "summaries"
    JOURNAL = "journal"
    OBSERVATIONS = "observations"


class TeamSearch(StrEnum):
    """Where `ralph search --team` looks."""

    PULLED = "pulled"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class Team:
    """The section `team`: one memory for many machines."""

    url: str = setting("", "The team's PostgreSQL server.", personal=True, trusted=bool)
    search_url: str = setting(
        "", "A replica for searches; empty: team.url.", personal=True, trusted=bool
    )
    project: str = setting("", "The project's name there; empty: the name of its folder.")
    share: tuple[Shared, ...] = setting(
        tuple(Shared)[:-1],
        "What is pushed; observations only where they are named.",
        choices=tuple(Shared),
    )
    search: TeamSearch = setting(
        TeamSearch.PULLED,
        "Search what was pulled, or ask the server, which then keeps the observations.",
    )
    loop: bool = setting(False, "Push and pull when a loop ends.")


@dataclass(frozen=True, slots=True)
class Config:
    """The values that count."""

    memories: Memories = section(Memories(), "memories")
    loop: Loop = section(Loop(), "ralph")
    execution: Execution = section(Execution(), "execution")
    context: Context = section(Context(), "context")
    privacy: Privacy = section(Privacy(), "privacy")
    embedding: Embedding = section(Embedding(), "embedding")
    capture: Capture = section(Capture(), "capture")
    state: State = section(State(), "state")
    summarize: Summarize = section(Summarize(), "summarize")
    team: Team = section(Team(), "team")
    presence: Presence = setting(
        Presence.START,
        "Say what was injected: at a session's start, at each prompt too (full), or never (off).",
    )
    retention_days: int = setting(
        0, "Session logs older than so many days may be removed; 0 keeps them."
    )
