"""A candidate is text found in the records that may be worth proposing as a memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ralph.core.record import Record


class InsightSource(StrEnum):
    """Where an insight comes from."""

    SIGIL = "sigil"
    """A `<knowledge>` or `<journal>` tag in an agent's answer."""
    HEADING = "heading"
    """A labelled line, or a bullet below a heading such as Learnings."""
    FIX = "fix"
    """A command that failed and passed after a change."""
    REPEATED = "repeated"
    """A correction or question that a person typed in several sessions."""
    AGENT = "agent"
    """Distilled by the user's agent (`ralph learn`)."""


class Operation(StrEnum):
    """What accepting a proposal does."""

    ADD = "add"
    SUPERSEDE = "supersede"
    MERGE = "merge"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Text that may become an insight, with the records that support it.

    Candidates are compared by `compared`, or by the whole text if that is empty.
    """

    text: str
    label: str
    source: InsightSource
    evidence: tuple[Record, ...]
    tags: tuple[str, ...] = ()
    compared: str = ""

    @property
    def is_summary(self) -> bool:
        """Whether this is a pattern in progress.txt, which does not count as a sighting."""
        return self.evidence[0].id.startswith("found-")
