"""Print memories: as a table, as JSON, as Markdown, or one of them in full."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ralph.cli import output
from ralph.cli.invocation import Invocation
from ralph.cli.output import ago, cut_cell, one_line, say, visible
from ralph.core import ids
from ralph.core.record import UNCONFIRMED, MemoryKind, Record, Status, is_confirmed, record_marks
from ralph.formats.memories import GUARDRAILS, MEMORIES
from ralph.formats.memories_writer import render_memories
from ralph.memory import quarantine, reading
from ralph.memory.harmless_texts import judged_once
from ralph.memory.reading import ListedEntries
from ralph.memory.record_shapes import describe_author, memory_json, status_word
from ralph.storage.library import Stored

if TYPE_CHECKING:
    from ralph.memory.memory import SavedMemory

_TAGS_WIDTH = 24  # terminal columns for the tags in a table
_DAY_LENGTH = len("2026-01-31")
_KNOWLEDGE_PREFIX = "know-"
_FILES_WITH_FORCE = ("memories", "guardrails", "personal")
"""Files for which `--force` adds text even if an entry already contains it."""


def print_list(
    call: Invocation,
    entries: Sequence[Stored],
    *,
    in_: Sequence[str],
    form: str,
    empty: str,
    listed: ListedEntries | None = None,
) -> None:
    """Print memories as a table, as JSON, as Markdown or as bare ids.

    `in_` names their files, and `empty` replaces an empty table. A caller that has listed the ids
    in these files passes them as `listed`.
    """
    if form == "markdown":
        kinds = GUARDRAILS.kinds if tuple(in_) == ("guardrails",) else MEMORIES.kinds
        output.print_raw(render_markdown([stored.record for stored in entries], kinds))
        return
    short: Mapping[str, str] = {}
    superseded: Mapping[str, str] = {}
    held: set[str] = set()
    if form == "table":
        if listed is None:
            listed = reading.list_ids(call.root, in_=in_)
        short = ids.short_ids((stored.record.id for stored in entries), listed.ids)
        superseded = listed.successors
        held = _held_ids(call, entries)

    def row(stored: Stored) -> Sequence[object]:
        record = stored.record
        text = record_marks(record)
        if record.id in held:
            text += "(held) "
        if record.title:
            text += f"{record.title}: "
        text += record.text
        if record.id in superseded:
            text = f"(superseded) {text}"
        return (
            short.get(record.id, record.id),
            record.kind.value,
            ago(record.created_at),
            cut_cell(one_line(", ".join(record.tags)), _TAGS_WIDTH) or "-",
            text,
        )

    output.print_rows(
        entries,
        form,
        to_json=lambda stored: stored_json(stored, call),
        headings=("ID", "TYPE", "CREATED", "TAGS", "CONTENT"),
        row=row,
        empty=empty,
    )


def _held_ids(call: Invocation, entries: Iterable[Stored]) -> set[str]:
    """Return the ids of confirmed entries that wait for a person to accept them."""
    held = set()
    with judged_once(call.root) as texts:
        may_inject = quarantine.injection_filter(call.root, judge=texts.is_suspicious)
        for stored in entries:
            record = stored.record
            if is_confirmed(record) and not may_inject(record):
                held.add(record.id)
    return held


def render_markdown(records: Iterable[Record], kinds: Sequence[MemoryKind] = MEMORIES.kinds) -> str:
    """Render memories in sections by type, followed by knowledge entries."""
    from ralph.memory import knowledge_match

    memories = []
    entries = []
    for record in records:
        if record.id.startswith(_KNOWLEDGE_PREFIX):
            entries.append(record)
        else:
            memories.append(record)
    parts = []
    if memories:
        parts.append(render_memories(memories, kinds))
    if entries:
        parts.append(knowledge_match.render(entries, 0))
    return "\n".join(parts)


def print_memory(stored: Stored, call: Invocation) -> None:
    """Print a memory with its fields, its links and its text."""
    from ralph.memory.confirmation import describe_reason

    record = stored.record
    kind = record.kind.value
    if record.label not in ("", kind):
        kind += f" ({record.label})"
    created = ago(record.created_at)
    if created != record.created_at:
        created = f"{record.created_at} ({created})"
    everything = [entry.record for entry in reading.list_entries(call.root)]
    fields = {
        "id": record.id,
        "type": kind,
        "status": status_word(record) if record.status is Status.RETIRED else "",
        "tags": ", ".join(record.tags) or "-",
        "created": created,
        "updated": record.updated_at[:_DAY_LENGTH],
        "supersedes": ", ".join(reading.predecessors(record)),
        "superseded by": reading.successors(everything).get(record.id, ""),
        "why": str(record.extra.get("why") or ""),
        "valid until": record.valid_until,
        "unconfirmed": describe_reason(str(record.extra.get(UNCONFIRMED) or "")),
        "origin": describe_author(record),
        **_links(record, call),
        "file": source_of(stored, call),
    }
    click.echo(click.style(one_line(record.title or record.id), bold=True))
    output.print_fields(fields)
    click.echo(f"\n{visible(record.text)}")
    _print_evidence(record, call)


def _print_evidence(record: Record, call: Invocation) -> None:
    """Print one line for each record that a memory was learned from."""
    from ralph.learning import evidence, learned

    lines = evidence.quoted_lines(call.root, learned.evidence_of(call.root, record.id))
    if lines:
        click.echo("\nLearned from:")
    for line in lines:
        text = line.text or "(no longer recorded)"
        click.echo(f"  {one_line(line.id)}  {one_line(text)}")


def evidence_json(stored: Stored, call: Invocation) -> dict[str, object]:
    """Return the ids of the records that a memory was learned from, if it has any."""
    from ralph.learning import learned

    ids_of_evidence = learned.evidence_of(call.root, stored.record.id)
    if not ids_of_evidence:
        return {}
    return {"evidence": ids_of_evidence}


def _links(record: Record, call: Invocation) -> dict[str, str]:
    """Return the `[[links]]` in a knowledge entry, and the entries that link to it."""
    if not record.id.startswith(_KNOWLEDGE_PREFIX):
        return {}
    from ralph.memory import knowledge

    targets = []
    sources = []
    for link in knowledge.links(call.root, record.id):
        if link.source.id != record.id:
            sources.append(link.source.id)
        elif link.target is not None:
            targets.append(link.target.id)
        else:
            targets.append(f"{link.words} (no entry has this title)")
    return {"links to": ", ".join(targets), "linked from": ", ".join(sources)}


def describe_addition(saved: SavedMemory, source: str, file: str) -> str:
    """Describe how an addition ended, with the location of the entry."""
    from ralph.memory.memory import Change

    record = saved.stored.record
    name = one_line(record.id)
    if saved.change is Change.NEW:
        return f"Added {record.kind.value} {name} ({source})"
    if saved.change is Change.UPDATED:
        text = f"Updated {name} ({source})"
        if saved.replaced:
            text += f"; the previous text is kept as {saved.replaced}"
        return text
    text = f"Already there: {name} ({source}); not added"
    if file in _FILES_WITH_FORCE:
        text += ". Use --force to add it anyway"
    return text


def print_notes(saved: SavedMemory) -> None:
    """Print notes about a memory that was stored, such as an entry with the same text."""
    from ralph.memory.confirmation import note_unconfirmed

    output.print_private(saved.private_parts)
    if saved.shortened:
        say("the text was cut to about 500 words")
    if saved.same_as:
        say(f"note: {saved.same_as} already says the same")
    if saved.is_order:
        say("note: it reads like an instruction; agents get it because you wrote it")
    note = note_unconfirmed(saved.stored.record)
    if note:
        say(f"note: {note}")


def print_change(verb: str, unchanged: str, saved: SavedMemory, call: Invocation) -> None:
    """Print that a memory was changed, or `unchanged` with its id if it was not."""
    name = one_line(saved.stored.record.id)
    if saved.changed:
        click.echo(f"{verb} {name} ({source_of(saved.stored, call)})")
    else:
        click.echo(unchanged.format(name))


def source_of(stored: Stored, call: Invocation) -> str:
    """Return the location of a stored record as `file:line`."""
    return f"{call.show_path(stored.path)}:{stored.line}"


def stored_json(stored: Stored, call: Invocation) -> dict[str, object]:
    """Return a stored record as JSON, with its location."""
    return memory_json(stored.record, source_of(stored, call))
