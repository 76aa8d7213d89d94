"""Search results as tools return them, one line each or in full.

The output of a program or a web page that was recorded may contain a prompt injection. Such text is
withheld unless the caller asked for the record by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.core import render
from ralph.core.record import Detail, Family, Record, confirm
from ralph.mcp.answers import JsonObject, ToolAnswer, quoted_answer
from ralph.memory import quarantine
from ralph.memory.record_shapes import mark_weak
from ralph.privacy import injection
from ralph.recall.search import SearchAnswer, ShownHit
from ralph.search.explanations import WEAK

HIT_LIMIT = 5
"""The number of results unless the caller sets a limit.

With this limit, results are also cut to a token budget. A caller who sets another one gets all of
them.
"""
_WITHHELD = (
    "(withheld: it came from a tool and reads like an instruction; "
    "search for its id with layer 3 to see it)"
)


def lines_answer(
    shown: Sequence[ShownHit], total: int, notes: Sequence[str], nothing: str
) -> ToolAnswer:
    """Return an answer with one line for each hit, or the note `nothing` if there is none."""
    content = "\n".join(hit.text for hit in shown)
    structured: JsonObject = {"hits": [hit_json(hit) for hit in shown], "total": total}
    return quoted_answer(content, structured, notes, nothing)


def hit_json(shown: ShownHit) -> JsonObject:
    """Return a hit as JSON. Its text does not repeat the id and the type."""
    record = shown.hit.record
    name = shown.name or record.id
    text = shown.text
    is_one_line = "\n" not in text
    if is_one_line:
        text = text.removeprefix(name).strip().removeprefix(record.kind.value)
    return {
        "id": name,
        "type": record.kind.value,
        "text": render.clean(text.strip()),
        **mark_weak(shown.hit.weak),
    }


def count_shown(answer: SearchAnswer) -> int:
    """Count the records that an answer shows, including those merged into others."""
    return sum(hit.count for hit in answer.shown)


def hits_answer(
    root: Path, answer: SearchAnswer, layer: Detail, notes: Sequence[str] = ()
) -> ToolAnswer:
    """Return an answer with the hits of a search, its warnings and its notes."""
    hits = safe_hits(root, answer, layer)
    structured: JsonObject = {
        "hits": [hit_json(hit) for hit in hits],
        "total": max(answer.found.total, len(hits)),
        "tokens": answer.tokens,
    }
    all_notes = [*answer.warnings, *answer.notes, *notes]
    if answer.is_weak:
        all_notes.append(WEAK)
    separator = "\n"
    if any("\n" in hit.text for hit in hits):
        separator = "\n\n"
    content = separator.join(hit.text for hit in hits)
    return quoted_answer(content, structured, all_notes, "Nothing found.")


def safe_hits(root: Path, answer: SearchAnswer, layer: Detail) -> list[ShownHit]:
    """Return the hits with prompt injections withheld, except in a record requested by id."""
    may_inject = quarantine.injection_filter(root)
    safe = []
    for shown in answer.shown:
        is_requested = shown.hit.why == ("id",)
        if not is_requested:
            shown = replace(shown, text=_safe_text(shown, layer, may_inject))
        safe.append(shown)
    return safe


def _safe_text(shown: ShownHit, layer: Detail, may_inject: Callable[[Record], bool]) -> str:
    record = shown.hit.record
    if record.family is Family.MEMORY:
        is_withheld = not may_inject(confirm(record))  # a caller who asks sees the mark
    else:
        is_withheld = injection.withheld(record.origin.by, f"{record.title}\n{record.text}")
    if is_withheld:
        return f"{shown.name or record.id} {_WITHHELD}"
    if layer is Detail.TIMELINE:
        return _safe_lines(shown.text, record.id)
    return shown.text


def _safe_lines(text: str, record_id: str) -> str:
    """Withhold the lines around a record that look like instructions, whoever wrote them."""
    if "\n" not in text:
        return text
    lines = []
    for line in text.split("\n"):
        name, _, _ = line.partition(" ")
        if name != record_id and injection.looks_like_instructions(line):
            line = f"{name} {_WITHHELD}"
        lines.append(line)
    return "\n".join(lines)
