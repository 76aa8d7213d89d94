"""Record, the one value that index, search, budget and renderers share, and the Query that finds it.

Four kinds of memory are enough; an author's own word (gotcha, sign, tip) is kept as the label. A
record knows nothing of files. Times are ISO 8601 strings; "" is unknown, never today.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from ralph.model import ids


class MemoryKind(StrEnum):
    """What a memory is about: how we do it, why we chose it, what solves it, what one must know."""

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
    """What a criterion of the loop checks; the commands of the first four can be detected from the project's files."""

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
    """The kind that somebody's word means, or None; `## Contextual` is not `## Context`."""
    return KIND_OF_WORD.get(" ".join(word.lower().split()))


def label_of(word: str) -> str:
    """The label to keep for a section's heading: the kind itself for ours, the author's word for others."""
    kind = kind_of(word)
    return kind.value if kind is not None and SECTIONS[kind] == word else word


class Family(StrEnum):
    """The three families of records."""

    MEMORY = "memory"
    OBSERVATION = "observation"
    JOURNAL = "journal"


class Status(StrEnum):
    """How far a record has climbed; retired ones are kept but no longer offered."""

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


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record came from, and who said it: `human`, `agent`, `tool` or `import` (empty: unknown)."""

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
    """The empty mapping that records without further members share; hashable, as a field's default must be."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict says that it has none
        return 0


AT = "at"  # the instant of adding: it makes an entry's line unique for git, and decides in a merge
NOWHERE = Origin()
NO_EXTRA = NoExtra()


@dataclass(frozen=True)
class Record:
    """One thing that Ralph remembers."""

    id: str
    kind: MemoryKind | ObservationKind | Outcome
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
    """How much of a hit is shown: a line, what happened around it, or everything."""

    INDEX = 1
    TIMELINE = 2
    FULL = 3


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody wants to find; an empty text asks for everything that passes the filters."""

    text: str = ""
    kinds: tuple[MemoryKind | ObservationKind | Outcome, ...] = ()
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
        """Whether a record is of the families, kinds, tags (any of them), scope and time that are asked for."""
        if self.kinds and record.kind not in self.kinds:
            return False
        if self.families and record.family not in self.families:
            return False
        if self.scope is not None and record.scope is not self.scope:
            return False
        if self.since or self.until:
            added = record.added_at
            if added < self.since or (self.until and added[: len(self.until)] > self.until):
                return False
        if record.status is Status.RETIRED:
            return False
        if self.tags:
            own = {tag.lower() for tag in record.tags}
            return any(tag.lower() in own for tag in self.tags)
        return True


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer: the record, how well it fits, which words fit where, and whether it is good enough unasked.

    It is `weak` where nothing certain was found, and this is among the nearest.
    """

    record: Record
    score: float
    why: tuple[str, ...] = ()
    handed: bool = False
    weak: bool = False


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits that were asked for and how many there are in all.

    `instead` are words that were replaced, `terms` the indexed terms that were looked for, with their weights.
    """

    hits: tuple[Hit, ...]
    total: int
    instead: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())
    terms: Mapping[str, float] = field(default_factory=dict, compare=False)
