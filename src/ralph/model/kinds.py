"""The closed sets of kinds, and the one table that maps people's words to them.

Four kinds of memory are enough for ranking and budgets; everybody's own vocabulary (gotcha,
convention, sign, tip ...) is kept as the record's `label`. Nobody else may map words to kinds.
`tests/model/test_kinds.py` proves that every alias leads to a kind and every kind to a section.
"""

from enum import StrEnum


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


SECTIONS = {
    MemoryKind.PATTERN: "Patterns",
    MemoryKind.DECISION: "Decisions",
    MemoryKind.FIX: "Fixes",
    MemoryKind.CONTEXT: "Context",
}
"""The heading under which each kind is written in memories.md and guardrails.md."""

_ALIASES = {
    MemoryKind.PATTERN: ("pattern", "patterns", "convention", "conventions", "codebase pattern", "codebase patterns"),
    MemoryKind.DECISION: ("decision", "decisions", "adr", "adrs"),
    MemoryKind.FIX: (
        "fix", "fixes", "gotcha", "gotchas", "sign", "signs", "guardrail", "guardrails", "failure", "failures",
    ),
    MemoryKind.CONTEXT: (
        "context", "tip", "tips", "discovery", "discoveries", "knowledge", "note", "notes",
    ),
}  # fmt: skip

KIND_OF_WORD = {word: kind for kind, words in _ALIASES.items() for word in words}
"""Every word that people use for a kind, lowercase, singular and plural."""


def kind_of(word: str) -> MemoryKind | None:
    """The kind that somebody's word means, or None; `## Contextual` is not `## Context`."""
    return KIND_OF_WORD.get(" ".join(word.lower().split()))


def label_of(word: str) -> str:
    """The label to keep for a section's heading: the kind itself for ours, the author's word for others."""
    kind = kind_of(word)
    return kind.value if kind is not None and SECTIONS[kind] == word else word
