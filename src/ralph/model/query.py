"""A search: the Query, and the Hits that answer it, each with its reason.

`Query.accepts` applies the filters to one record. Visibility by task is decided by the index
alone, because only the index knows which tasks are finished.
"""

from dataclasses import dataclass, field
from enum import IntEnum

from ralph.model.record import Family, MemoryKind, ObservationKind, Outcome, Record, Scope, Status


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
        if self.since and record.created_at < self.since:
            return False
        if self.until and record.created_at[: len(self.until)] > self.until:
            return False
        if record.status is Status.RETIRED:
            return False
        if self.tags:
            own = {tag.lower() for tag in record.tags}
            return any(tag.lower() in own for tag in self.tags)
        return True


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer: the record, how well it fits, which words fit where, and whether it is good enough unasked."""

    record: Record
    score: float
    why: tuple[str, ...] = ()
    handed: bool = False


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits that were asked for and how many there are in all; `instead` are words that were replaced."""

    hits: tuple[Hit, ...]
    total: int
    instead: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())
