"""The settings: each key is a field with its default and a sentence about it.

A `personal` key is ignored in a project's files. A value there for which `trusted` returns True
takes effect only after `ralph trust`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TypeVar, dataclass_transform

from ralph.core.config_files import ValueType
from ralph.core.record import CriterionKind, MemoryKind
from ralph.lean import record

T = TypeVar("T")


class Inject(StrEnum):
    """When memories reach the agent."""

    AUTO = "auto"
    MANUAL = "manual"
    NONE = "none"


class Trimming(StrEnum):
    """What is dropped first when memories do not fit. `auto` depends on the situation."""

    AUTO = "auto"
    RECENCY = "recency"
    RELEVANCE = "relevance"
    COMPRESSION = "compression"
    SELECTIVE = "selective"


class Provider(StrEnum):
    """The source of embeddings. All but the first three are servers."""

    AUTO = "auto"
    NONE = "none"
    LOCAL = "local"
    OPENAI = "openai"
    VOYAGE = "voyage"
    OLLAMA = "ollama"
    COMPATIBLE = "compatible"
    ANTHROPIC = "anthropic"


class Presence(StrEnum):
    """Where a session shows what Ralph injected."""

    FULL = "full"
    START = "start"
    OFF = "off"


class StateHome(StrEnum):
    """Where logs, index and caches are kept."""

    GIT = "git"
    PROJECT = "project"


def _always(value: object) -> bool:
    return True


def _is_server(value: object) -> bool:
    return value not in (Provider.AUTO, Provider.NONE, Provider.LOCAL)


def _has_command(value: object) -> bool:
    if not isinstance(value, tuple):
        return False
    return any(isinstance(item, CriterionSetting) and item.command for item in value)


_VALUE_TYPES = (  # in this order: a bool is an int, and a StrEnum is a str
    (bool, ValueType.FLAG),
    (int, ValueType.NUMBER),
    (float, ValueType.FRACTION),
    (Enum, ValueType.CHOICE),
    (str, ValueType.TEXT),
)


def setting(default: T, doc: str, kind: ValueType | None = None, **limits: object) -> T:
    """Declare a field that is a key. Its kind is derived from the default unless it is given."""
    if isinstance(default, Enum):
        limits["choices"] = tuple(type(default))
    if kind is None:
        kind = _infer_kind(default, has_choices="choices" in limits)
    return field(default=default, metadata={"kind": kind, "doc": doc, "limits": limits})


def _infer_kind(default: object, *, has_choices: bool) -> ValueType:
    for python_type, value_type in _VALUE_TYPES:
        if isinstance(default, python_type):
            return value_type
    if has_choices:
        return ValueType.CHOICES
    return ValueType.TEXTS


def section(default: T, name: str) -> T:
    """Declare a field that is a section of keys, with its name in the files."""
    return field(default=default, metadata={"section": name})


@dataclass_transform(frozen_default=True)
def section_class(cls: type[T]) -> type[T]:
    """Turn a class into a section of keys: a dataclass with the methods of a `record`.

    `dataclass` would compile six methods for every section, which takes a tenth of a search.
    """
    return record(dataclass(init=False, repr=False, eq=False)(cls))


@section_class
class Filter:
    """Which memories are injected. An empty filter means all."""

    types: tuple[MemoryKind, ...] = setting(
        (), "Give only memories of these types.", choices=tuple(MemoryKind)
    )
    tags: tuple[str, ...] = setting((), "Give only memories with one of these tags.")
    recent: int = setting(0, "Give only memories from the last N days; 0 means no limit.")


@section_class
class Memories:
    """The section `memories`."""

    enabled: bool = setting(True, "Keep memories and offer them to agents.")
    inject: Inject = setting(
        Inject.AUTO, "Give memories to agents automatically, on request, or never."
    )
    budget: int = setting(
        2000, "Token limit for the memories that agents are given; 0 means no limit."
    )
    skill_injection: bool = setting(
        True, "Tell agents how to use Ralph: in one line at session start, in full in the loop."
    )
    filter: Filter = section(Filter(), "filter")


@section_class
class CriterionSetting:
    """One condition that must hold before the loop considers its work done."""

    type: CriterionKind = setting(CriterionKind.CUSTOM, "What is checked.")
    command: str = setting("", "The command to run; by default, detected from the project.")
    expected_exit_code: int = setting(0, "The exit code that means success.", highest=255)
    marker: str = setting("", "The text to look for in the agent's output.")
    timeout: float = setting(
        0.0, "Seconds after which the command is stopped; 0 means `ralph.check_seconds`."
    )


@section_class
class Loop:
    """The section `ralph`: the loop."""

    max_iterations: int = setting(10, "Maximum number of iterations.", lowest=1)
    success_criteria: tuple[CriterionSetting, ...] = setting(
        (),
        "What must hold for the work to be done. Commands in a project's files need `ralph trust`.",
        ValueType.TABLES,
        parts=CriterionSetting,
        trusted=_has_command,
    )
    context_budget: float = setting(
        0.6, "The maximum share of the context window for a prompt.", highest=1
    )
    cooldown_ms: int = setting(1000, "Milliseconds to wait between iterations.")
    agent: str = setting(
        "auto",
        "The agent: claude, codex, acp or command; auto picks claude or, if it is missing, codex.",
    )
    agent_command: str = setting(
        "", "The program to run for the agents `command` and `acp`.", personal=True, trusted=_always
    )
    permission: str = setting(
        "acceptEdits",
        "The permission mode of Claude Code: what it may do without asking.",
        personal=True,
        trusted=_always,
    )
    model: str = setting("", "The agent's model; empty means its default.")
    max_minutes: int = setting(0, "Maximum minutes of work; 0 means no limit.")
    max_cost: float = setting(0.0, "Maximum cost in dollars; 0 means no limit.")
    iteration_minutes: int = setting(
        60, "Maximum minutes for one iteration of the agent; 0 means no limit."
    )
    check_seconds: int = setting(600, "Maximum seconds for one criterion's command.", lowest=1)


@section_class
class Execution:
    """The section `execution`."""

    verify: bool = setting(True, "Verify a task that an agent reports as done.")
    max_retries: int = setting(3, "How many times to retry a failed task.")


@section_class
class Shares:
    """How much of the context window Ralph may fill."""

    memory: float = setting(0.15, "The maximum share of the window for memories.", highest=1)


@section_class
class Context:
    """The section `context`."""

    window: int = setting(200_000, "The size of the agent's context window, in tokens.", lowest=1)
    strategy: Trimming = setting(
        Trimming.AUTO,
        "What to drop first if the memories in a brief do not fit: "
        "old ones, the least useful, details, or all but fixes.",
    )
    shares: Shares = section(Shares(), "shares")


@section_class
class Privacy:
    """The section `privacy`."""

    patterns: Sequence[str] = setting(
        (), "Text that matches one of these is never stored.", ValueType.PATTERNS
    )
    paths: tuple[str, ...] = setting(
        (), "Nothing about files that match one of these globs is stored."
    )


@section_class
class Embedding:
    """The section `embedding`: the model for search by meaning."""

    provider: Provider = setting(
        Provider.AUTO,
        "The model for search by meaning; auto uses the local model if it is installed. "
        "A server in a project's files needs `ralph trust`.",
        trusted=_is_server,
    )
    model: str = setting("", "The server's model; empty means the provider's default.")
    url: str = setting(
        "", "The server's address; empty means the provider's own.", personal=True, trusted=_always
    )
    key_env: str = setting(
        "",
        "The environment variable that contains the server's key.",
        personal=True,
        trusted=_always,
    )


@section_class
class Init:
    """The section `init`: how projects are set up."""

    auto: bool = setting(
        False,
        "Set up every git repository when an agent's session first uses it, "
        "without touching its work tree.",
        personal=True,
    )


@section_class
class Capture:
    """The section `capture`: where sessions are recorded."""

    everywhere: bool = setting(
        False, "Also record in folders without Ralph's files.", personal=True
    )


@section_class
class State:
    """The section `state`: where logs, index and caches are kept."""

    home: StateHome = setting(
        StateHome.GIT,
        "Keep logs, index and caches in the git directory or in the project's `.ralph/local/`.",
        personal=True,
    )


@section_class
class Summarize:
    """The section `summarize`: a command that improves summaries and shortens notes."""

    command: str = setting(
        "",
        "A command that prints a better summary of a session, or shortens notes.",
        personal=True,
        trusted=_always,
    )


MIN_LEARNING_BUDGET = 1_000  # tokens; less leaves no room for a session


@section_class
class Learning:
    """The section `learning`: how sessions become memories."""

    remember: tuple[str, ...] = setting(
        (),
        "Prompts that begin with one of these become memories; "
        "empty means Ralph's own prefixes, in seven languages.",
        ValueType.PREFIXES,
        personal=True,
    )
    budget: int = setting(
        8_000,
        "Maximum tokens in one digest for the agent in `ralph learn`.",
        lowest=MIN_LEARNING_BUDGET,
    )
    prompt: str = setting(
        "",
        "A file with your own prompt for `ralph learn`; empty means Ralph's.",
        personal=True,
        trusted=_always,
    )
    loop: bool = setting(False, "Run `ralph learn` when a loop ends.")


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


@section_class
class Team:
    """The section `team`: one memory for several machines."""

    url: str = setting("", "The team's PostgreSQL server.", personal=True, trusted=bool)
    search_url: str = setting(
        "", "A replica for searches; empty means team.url.", personal=True, trusted=bool
    )
    project: str = setting(
        "", "The project's name on the server; empty means the name of its folder."
    )
    share: tuple[Shared, ...] = setting(
        tuple(Shared)[:-1],
        "What to push; recorded activity (`observations`) must be listed.",
        choices=tuple(Shared),
    )
    search: TeamSearch = setting(
        TeamSearch.PULLED,
        "Search what was pulled, or on the server, where recorded activity then stays.",
    )
    loop: bool = setting(False, "Push and pull when a loop ends.")


@section_class
class Config:
    """All settings, with their effective values."""

    memories: Memories = section(Memories(), "memories")
    loop: Loop = section(Loop(), "ralph")
    execution: Execution = section(Execution(), "execution")
    context: Context = section(Context(), "context")
    privacy: Privacy = section(Privacy(), "privacy")
    embedding: Embedding = section(Embedding(), "embedding")
    init: Init = section(Init(), "init")
    capture: Capture = section(Capture(), "capture")
    state: State = section(State(), "state")
    summarize: Summarize = section(Summarize(), "summarize")
    learning: Learning = section(Learning(), "learning")
    team: Team = section(Team(), "team")
    presence: Presence = setting(
        Presence.START,
        "Report what agents are given: at session start, at each prompt as well (full), or never.",
    )
    retention_days: int = setting(0, "Days after which session logs can be removed; 0 keeps them.")
