"""The answers of tools. Each has two forms that say the same thing, an object and text.

Remembered text is marked as data, so that a host does not take it for instructions. Notes tell the
reader what is missing or uncertain. They are a list in the object, and lines after the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ralph.core import render
from ralph.core.prompts import NOTE
from ralph.core.record import Record
from ralph.memory.record_shapes import record_json

JsonObject = dict[str, object]

_ABOUT = render.INTRO.removeprefix(NOTE)
_REQUIRED_MEMORY_KEYS = ("id", "type", "text", "tags")
_OPTIONAL_MEMORY_KEYS = ("title", "created_at", "updated_at", "source", "by", "via")


class ToolAnswer(NamedTuple):
    """A tool's answer, as an object for programs and as text for readers."""

    structured: Mapping[str, object]
    text: str


def report_answer(
    sentence: str, structured: Mapping[str, object], notes: Sequence[str] = ()
) -> ToolAnswer:
    """Return an answer with one sentence about the result. Empty notes are left out."""
    shown_notes = [note for note in notes if note]
    text = "\n".join([sentence, *shown_notes])
    return ToolAnswer(with_notes(structured, shown_notes), text)


def quoted_answer(
    content: str, structured: Mapping[str, object], notes: Sequence[str] = (), nothing: str = ""
) -> ToolAnswer:
    """Return an answer that contains remembered text, marked as data.

    Empty notes are left out. If there is no content, `nothing` becomes the first note.
    """
    shown_notes = [render.one_line(note) for note in notes if note]
    if not content:
        if nothing:
            shown_notes.insert(0, nothing)
        text = render.notes(shown_notes).rstrip("\n")
        return ToolAnswer(with_notes(structured, shown_notes), text)
    text = render.framed(render.INTRO, render.clean(content)) + render.notes(shown_notes)
    structured = with_notes({"about": _ABOUT, **structured}, shown_notes)
    return ToolAnswer(structured, text.rstrip("\n"))


def with_notes(structured: Mapping[str, object], notes: Sequence[str]) -> JsonObject:
    """Return a copy of the object, with `notes` added if there are any."""
    if notes:
        return {**structured, "notes": notes}
    return dict(structured)


def add_notes(answer: ToolAnswer, notes: Sequence[str]) -> ToolAnswer:
    """Return an answer with more notes, at the end of its list and of its text."""
    if not notes:
        return answer
    structured = dict(answer.structured)
    earlier: Any = structured.get("notes", [])
    structured["notes"] = [*earlier, *notes]
    return ToolAnswer(structured, "\n".join([answer.text, *notes]))


def note_omitted(count: int) -> str:
    """Return a note about the number of items that a limit left out, or "" if there are none."""
    if count <= 0:
        return ""
    return f"{count} more; use a higher limit to see them"


def note_private(parts: int) -> str:
    """Return a note about private sections that were left out, or "" if there are none."""
    if not parts:
        return ""
    return f"left out {parts} private section(s)"


def one_line(text: str, limit: int = 0) -> str:
    """Return cleaned text on one line, cut to `limit` characters. A limit of 0 means no limit."""
    line = render.one_line(text)
    if not limit or len(line) <= limit:
        return line
    return f"{line[: limit - 1].rstrip()}…"


def memory_json(record: Record, source: str) -> JsonObject:
    """Return a memory in full, without empty values or anything that a host might obey."""
    complete = record_json(record, source)
    complete["text"] = render.clean(record.text)
    complete["title"] = one_line(record.title)
    shown = {key: complete[key] for key in _REQUIRED_MEMORY_KEYS}
    for key in _OPTIONAL_MEMORY_KEYS:
        if complete[key]:
            shown[key] = complete[key]
    return shown
