"""Record, the one value that index, search, budget and renderers share, and the Query that finds it.

An author's own word for a kind (gotcha, tip) is kept as the label. Times are ISO 8601; "" is unknown, never today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from ralph.model import ids


class MemoryKind(StrEnum):
    """How we do it, why we chose it, what solves it, what one must know."""

    PATTERN = "pattern"
    DECISION = "decision"
    FIX = "fix"
    CONTEXT = "context"


class ObservationKind(StrEnum):
    """What happened in a session."""

    TOOL_USE = "tool_use"
    ERROR = "error"
    SUCCESS = "success"
    NOTE = "note"


class Outcome(StrEnum):
    """How an iteration of the loop ended."""

    DONE = "done"
    FAILED = "failed"
    RETRIED = "retried"
    BLOCKED = "blocked"
    INTERRUPTED = "interrupted"


class CriterionKind(StrEnum):
    """What a criterion checks; commands of the first four can be detected."""

    TEST_PASS = "test_pass"  # noqa: S105 - a kind of criterion, no password
    BUILD_SUCCESS = "build_success"
    LINT_CLEAN = "lint_clean"
    TYPE_CHECK = "type_check"
    CUSTOM = "custom"
    MARKER = "marker"


SECTIONS = {
    MemoryKind.PATTERN: "Patterns",
    MemoryKind.DECISION: "Decisions",
    MemoryKind.FIX: "Fixes",
    MemoryKind.CONTEXT: "Context",
}
"""The heading under which each kind is written in memories.md and guardrails.md."""

_ALIASES = {
    MemoryKind.PATTERN: "pattern, patterns, convention, conventions, codebase pattern, codebase patterns",
    MemoryKind.DECISION: "decision, decisions, adr, adrs",
    MemoryKind.FIX: "fix, fixes, gotcha, gotchas, sign, signs, guardrail, guardrails, failure, failures",
    MemoryKind.CONTEXT: "context, tip, tips, discovery, discoveries, knowledge, note, notes",
}
KIND_OF_WORD = {word: kind for kind, words in _ALIASES.items() for word in words.split(", ")}
"""Every word that people use for a kind, lowercase, singular and plural."""


def kind_of(word: str) -> MemoryKind | None:
    """The kind that a word means; `## Contextual` is not `## Context`."""
    return KIND_OF_WORD.get(" ".join(word.lower().split()))


def label_of(word: str) -> str:
    """The label for a section's heading: our kind, or the author's word."""
    kind = kind_of(word)
    return kind.value if kind is not None and SECTIONS[kind] == word else word


class Family(StrEnum):
    """The three families of records."""

    MEMORY = "memory"
    OBSERVATION = "observation"
    JOURNAL = "journal"


class Status(StrEnum):
    """How far a record has climbed; retired ones are no longer offered."""

    RAW = "raw"
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    RETIRED = "retired"


class Scope(StrEnum):
    """How far a record applies, from the narrowest to the widest."""

    ITERATION = "iteration"
    SESSION = "session"
    RUN = "run"
    TASK = "task"
    PROJECT = "project"
    ENCLOSING = "enclosing"
    PERSONAL = "personal"


Kind = MemoryKind | ObservationKind | Outcome
KINDS: Mapping[Family, Mapping[str, Kind]] = {
    Family.MEMORY: {kind.value: kind for kind in MemoryKind},
    Family.OBSERVATION: {kind.value: kind for kind in ObservationKind},
    Family.JOURNAL: {kind.value: kind for kind in Outcome},
}
USUAL = {  # status, scope and author that a row of the index does not repeat
    Family.MEMORY: (Status.ACCEPTED, Scope.PROJECT, ""),
    Family.OBSERVATION: (Status.RAW, Scope.SESSION, "tool"),
    Family.JOURNAL: (Status.ACCEPTED, Scope.RUN, ""),
}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record came from; `by`: `human`, `agent`, `tool`, `import` or unknown."""

    by: str = ""
    session: str = ""
    run: str = ""
    iteration: int | None = None
    task: str = ""
    agent: str = ""
    files: tuple[str, ...] = ()
    commit: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One relation to another record: `supersedes`, `superseded_by`, `links_to`, `promoted_to` ..."""

    relation: str
    target: str


class NoExtra(dict[str, object]):
    """The empty mapping that records share; hashable, as a default must be."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict says that it has none
        return 0


AT = "at"  # the instant of adding: it makes an entry's line unique for git, and decides in a merge
NOWHERE = Origin()
NO_EXTRA = NoExtra()


@dataclass(frozen=True)
class Record:
    """One thing that Ralph remembers."""

    id: str
    kind: Kind
    text: str
    family: Family = Family.MEMORY
    label: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    status: Status = Status.ACCEPTED
    scope: Scope = Scope.PROJECT
    origin: Origin = NOWHERE
    created_at: str = ""
    updated_at: str = ""
    valid_until: str = ""
    links: tuple[Link, ...] = ()
    extra: Mapping[str, object] = field(default=NO_EXTRA, hash=False)

    @property
    def added_at(self) -> str:
        """When it was added, as exactly as it is known: its place in a file says nothing about that."""
        at = str(self.extra.get(AT) or "")
        return at if at[:10] == self.created_at[:10] else ids.instant(self.id, self.created_at)


class Detail(IntEnum):
    """How much of a hit is shown."""

    INDEX = 1
    TIMELINE = 2
    FULL = 3


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody wants to find; without text all that passes the filters."""

    text: str = ""
    kinds: tuple[Kind, ...] = ()
    tags: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    families: tuple[Family, ...] = ()
    scope: Scope | None = None
    project: str = ""
    sources: tuple[str, ...] = ()
    limit: int | None = 5
    layer: Detail = Detail.INDEX
    task: str = ""

    def accepts(self, record: Record) -> bool:
        """Whether a record passes the filters."""
        added = record.added_at
        tags = {tag.lower() for tag in record.tags}
        return (
            record.status is not Status.RETIRED
            and (not self.kinds or record.kind in self.kinds)
            and (not self.families or record.family in self.families)
            and self.scope in (None, record.scope)
            and added >= self.since
            and (not self.until or added[: len(self.until)] <= self.until)
            and (not self.tags or not tags.isdisjoint(tag.lower() for tag in self.tags))
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer: record, score, words that fit; `weak`: only among the nearest."""

    record: Record
    score: float
    why: tuple[str, ...] = ()
    handed: bool = False
    weak: bool = False


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits and how many there are; `instead`: replaced words, `terms`: weights of terms."""

    hits: tuple[Hit, ...]
    total: int
    instead: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())
    terms: Mapping[str, float] = field(default_factory=dict, compare=False)
