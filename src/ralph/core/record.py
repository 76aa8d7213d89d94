"""Record, the value shared by the index, search, budget and renderers, and Query, which finds it.

A memory has one of four kinds. The author's own word for the kind, such as gotcha or tip, is kept
as the label. Times are ISO 8601 strings, and "" means unknown, never today.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import NamedTuple

from ralph.core import ids
from ralph.core.family import Family as Family  # noqa: PLC0414 - imported from here as well


class MemoryKind(StrEnum):
    """The kinds of memories: how we work, why we chose something, what fixes it, and background."""

    PATTERN = "pattern"
    DECISION = "decision"
    FIX = "fix"
    CONTEXT = "context"


class ObservationKind(StrEnum):
    """The kinds of events in a session."""

    TOOL_USE = "tool_use"
    ERROR = "error"
    SUCCESS = "success"
    NOTE = "note"


class Outcome(StrEnum):
    """How a loop iteration ended."""

    DONE = "done"
    FAILED = "failed"
    RETRIED = "retried"
    BLOCKED = "blocked"
    INTERRUPTED = "interrupted"


class CriterionKind(StrEnum):
    """What a criterion checks. For the first four, the command can be detected."""

    TEST_PASS = "test_pass"  # noqa: S105 - a kind of criterion, not a password
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

KIND_OF_WORD = {
    "pattern": MemoryKind.PATTERN,
    "patterns": MemoryKind.PATTERN,
    "convention": MemoryKind.PATTERN,
    "conventions": MemoryKind.PATTERN,
    "codebase pattern": MemoryKind.PATTERN,
    "codebase patterns": MemoryKind.PATTERN,
    "decision": MemoryKind.DECISION,
    "decisions": MemoryKind.DECISION,
    "adr": MemoryKind.DECISION,
    "adrs": MemoryKind.DECISION,
    "fix": MemoryKind.FIX,
    "fixes": MemoryKind.FIX,
    "gotcha": MemoryKind.FIX,
    "gotchas": MemoryKind.FIX,
    "sign": MemoryKind.FIX,
    "signs": MemoryKind.FIX,
    "guardrail": MemoryKind.FIX,
    "guardrails": MemoryKind.FIX,
    "failure": MemoryKind.FIX,
    "failures": MemoryKind.FIX,
    "context": MemoryKind.CONTEXT,
    "tip": MemoryKind.CONTEXT,
    "tips": MemoryKind.CONTEXT,
    "discovery": MemoryKind.CONTEXT,
    "discoveries": MemoryKind.CONTEXT,
    "knowledge": MemoryKind.CONTEXT,
    "note": MemoryKind.CONTEXT,
    "notes": MemoryKind.CONTEXT,
}
"""Maps every word that people use for a kind, in lowercase, to the kind."""


def kind_of(word: str) -> MemoryKind | None:
    """Return the kind that a word stands for, or None.

    Only whole words match, so `Contextual` is not `Context`.
    """
    return KIND_OF_WORD.get(" ".join(word.lower().split()))


def label_of(word: str) -> str:
    """Return the label for entries below a section heading.

    This is the name of the kind for a standard heading, and otherwise the author's own word.
    """
    kind = kind_of(word)
    if kind is not None and SECTIONS[kind] == word:
        return kind.value
    return word


class Status(StrEnum):
    """The stage that a record has reached. Retired records are no longer offered."""

    RAW = "raw"
    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    RETIRED = "retired"


class Scope(StrEnum):
    """How widely a record applies, from the narrowest scope to the widest."""

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
USUAL = {  # the usual status, scope and author, which the index does not store in every row
    Family.MEMORY: (Status.ACCEPTED, Scope.PROJECT, ""),
    Family.OBSERVATION: (Status.RAW, Scope.SESSION, "tool"),
    Family.JOURNAL: (Status.ACCEPTED, Scope.RUN, ""),
}


class Origin(NamedTuple):
    """Where a record came from. `by` is `human`, `agent`, `tool`, `import`, or "" if unknown."""

    by: str = ""
    session: str = ""
    run: str = ""
    iteration: int | None = None
    task: str = ""
    agent: str = ""
    files: tuple[str, ...] = ()
    commit: str = ""


class Link(NamedTuple):
    """A relation to another record, such as `supersedes`, `links_to` or `promoted_to`."""

    relation: str
    target: str


class NoExtra(dict[str, object]):
    """The empty mapping that records share as a default, which must be hashable."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict declares that it has none
        return 0


AT = "at"  # when the entry was added; keeps entries distinct for git, and decides merges
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

    @cached_property  # lists are sorted by it more than once
    def added_at(self) -> str:
        """When the record was added, as precisely as it is known."""
        at = str(self.extra.get(AT) or "")
        if at[:10] == self.created_at[:10]:
            return at
        return ids.instant(self.id, self.created_at)


class Detail(IntEnum):
    """How much of a hit to show."""

    INDEX = 1
    TIMELINE = 2
    FULL = 3


class Query(NamedTuple):
    """What to search for. Without text, everything that passes the filters matches.

    `excluded` has the ids of observations that are left out.
    """

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
    excluded: tuple[str, ...] = ()

    def accepts(self, record: Record) -> bool:
        """Return whether a record passes the filters."""
        if record.status is Status.RETIRED:
            return False
        if self.kinds and record.kind not in self.kinds:
            return False
        if self.families and record.family not in self.families:
            return False
        if self.scope is not None and self.scope != record.scope:
            return False
        return self._accepts_time(record) and self._accepts_tags(record.tags)

    def _accepts_time(self, record: Record) -> bool:
        if not self.since and not self.until:
            return True
        added = record.added_at
        if added < self.since:
            return False
        return not self.until or added[: len(self.until)] <= self.until

    def _accepts_tags(self, tags: tuple[str, ...]) -> bool:
        if not self.tags:
            return True
        wanted = {tag.lower() for tag in self.tags}
        return any(tag.lower() in wanted for tag in tags)


NO_TERMS: Mapping[str, float] = {}


class Hit(NamedTuple):
    """A search result: a record, its score and the matching words.

    A `weak` hit is similar to the query rather than an actual match.
    """

    record: Record
    score: float
    why: tuple[str, ...] = ()
    weak: bool = False


class SearchResult(NamedTuple):
    """The hits for a query.

    `total` counts all matches. `instead` lists the query words that were replaced, each with its
    replacements, and `terms` holds the weight of each search term.
    """

    hits: tuple[Hit, ...]
    total: int
    instead: tuple[tuple[str, tuple[str, ...]], ...] = ()
    terms: Mapping[str, float] = NO_TERMS


# Keys in `Record.extra`.
VIA = "via"  # how an entry was added, unless on the command line


WHO = "who"  # the person or agent who said it


SESSION = "session"  # the agent's session


UNCONFIRMED = "unconfirmed"  # why no agent sees an entry unasked until a person has accepted it


TAINT = "taint"  # the kind of foreign text that a tool call has read (see `lean/taint.py`)


def is_confirmed(record: Record) -> bool:
    """Return whether an entry may be shown to an agent that has not asked for it.

    An entry is unconfirmed if an agent added it after reading something foreign, or if it names
    something that the project does not know. The reason is in `extra`.
    """
    return not record.extra.get(UNCONFIRMED)


def mark_unconfirmed(record: Record, reason: str) -> Record:
    """Return an entry that waits for a person. Without a reason, it is returned unchanged."""
    if not reason:
        return record
    return replace(record, extra={**record.extra, UNCONFIRMED: reason})


def confirm(record: Record) -> Record:
    """Return an entry without the mark of an unconfirmed one."""
    if UNCONFIRMED not in record.extra:
        return record
    extra = {name: value for name, value in record.extra.items() if name != UNCONFIRMED}
    return replace(record, extra=extra or NO_EXTRA)


def scope_mark(record: Record) -> str:
    """Return the mark for a memory from another scope, or "" if it needs none.

    It is `(personal) `, or `(enclosing) ` for a memory from an enclosing project.
    """
    scope = record.scope.value
    if scope in ("enclosing", "personal"):
        return f"({scope}) "
    return ""


def record_marks(record: Record) -> str:
    """Return what a reader must know before the words of a record: its scope, and its state.

    It is `(unconfirmed) ` for a record that waits for a person.
    """
    marks = scope_mark(record)
    if not is_confirmed(record):
        marks += "(unconfirmed) "
    return marks
