"""A record as a row of a list, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ralph.core import tokens
from ralph.core.record import Record
from ralph.memory.record_shapes import mark_weak, record_json, session_of
from ralph.recall.injection_ledger import Injection

if TYPE_CHECKING:
    pass

PREVIEW_LENGTH = 280  # characters of a record's text in a list
_MAX_PREVIEW_SOURCE = 4 * PREVIEW_LENGTH  # characters that are read, before whitespace is collapsed
_SUPERSEDED = "superseded by "  # the prefix of a note from `outdated.describe_outdated`
_EXPIRED = "expired "


@dataclass(frozen=True, slots=True)
class RowMarks:
    """Additional facts about a record that a list shows next to it.

    `count` is the number of records with the same content. `stale` is a note about outdated
    citations, and `past` is a note about why the record is no longer valid.
    """

    score: float | None = None
    why: Sequence[str] = ()
    count: int = 1
    stale: str = ""
    past: str = ""
    weak: bool = False


NO_MARKS = RowMarks()


def record_row(
    record: Record,
    location: tuple[str, int],
    task: str,
    marks: RowMarks = NO_MARKS,
    *,
    full: bool = False,
) -> dict[str, Any]:
    """Return a record as JSON for a list, with its whole text if `full` is set.

    `location` is the name of its file and the line, or 0 if there is no line. `task` is the task
    that its session or folder belongs to.
    """
    source, line = location
    if line:
        source = f"{source}:{line}"
    text = record.text
    if not full:
        text = " ".join(text[:_MAX_PREVIEW_SOURCE].split())[:PREVIEW_LENGTH]
    return {
        **record_json(record, source),
        "text": text,
        "family": record.family.value,
        "scope": record.scope.value,
        "task": record.origin.task or task,
        "session": session_of(record),
        "tokens": tokens.estimate(record.text),
        "score": marks.score,
        "why": marks.why,
        "count": marks.count,
        "stale": marks.stale,
        "superseded_by": _rest_after(_SUPERSEDED, marks.past),
        "expired": _rest_after(_EXPIRED, marks.past),
        **mark_weak(marks.weak),
    }


def _rest_after(beginning: str, note: str) -> str:
    """Return the part of a note after its beginning, or "" if it begins differently."""
    if note.startswith(beginning):
        return note.removeprefix(beginning)
    return ""


def injection_json(injection: Injection, *, used: bool) -> dict[str, Any]:
    """Return an injection as JSON. `used` is whether its session used the record."""
    return {"at": injection.at, "event": injection.event, "tokens": injection.tokens, "used": used}
