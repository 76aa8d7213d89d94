"""The question and its answers: Query in, Hits out, each with the reason why.

`Query` is what every search takes, whoever asks (command line, MCP, web); `Hit` is one answer.
"""

from dataclasses import dataclass

from ralph.model.kinds import MemoryKind
from ralph.model.record import Record


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody wants to find; an empty text asks for everything that passes the filters."""

    text: str = ""
    kinds: tuple[MemoryKind, ...] = ()
    tags: tuple[str, ...] = ()
    since: str = ""
    limit: int | None = 5

    def accepts(self, record: Record) -> bool:
        """Whether a record is of the kinds, tags (any of them) and time that are asked for."""
        if self.kinds and record.kind not in self.kinds:
            return False
        if self.since and record.created_at < self.since:
            return False
        if self.tags:
            own = {tag.lower() for tag in record.tags}
            return any(tag.lower() in own for tag in self.tags)
        return True


@dataclass(frozen=True, slots=True)
class Hit:
    """One answer: the record, how well it fits, and which words fit where."""

    record: Record
    score: float
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The hits that were asked for and how many there are in all; `instead` are words that were replaced."""

    hits: tuple[Hit, ...]
    total: int
    instead: tuple[tuple[str, tuple[str, ...]], ...] = ()
