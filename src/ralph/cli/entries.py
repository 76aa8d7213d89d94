"""Printing what memories and guardrails have in common."""

from collections.abc import Sequence

import click

from ralph import paths
from ralph.app.entries import VIA, Added, Primed, to_json
from ralph.cli.context import Invocation, say
from ralph.cli.output import ago, cut, json_text, one_line, print_raw, table, visible
from ralph.formats.memories import render_memories
from ralph.model.query import SearchResult
from ralph.model.record import MemoryKind, Record, Status
from ralph.store.library import Stored

_TAGS_COLUMNS = 24


def print_added(added: Added, form: str, call: Invocation) -> None:
    """What `add` did."""
    stored = added.stored
    print_private(added.private_parts)
    if form == "quiet":
        click.echo(stored.record.id)
    elif form == "json":
        click.echo(json_text({**to_json(stored), "added": added.is_new}))
    elif added.is_new:
        click.echo(f"Added {stored.record.kind.value} {stored.record.id} ({place(stored, call)})")
    else:
        click.echo(
            f"Already there: {stored.record.id} ({place(stored, call)}); nothing was added. --force adds it anyway"
        )


def print_private(parts: int) -> None:
    """How many private parts were left out, if any."""
    if parts:
        say(f"left out {parts} private part(s)")


def print_list(entries: Sequence[Stored], form: str, nothing: str, kinds: Sequence[MemoryKind]) -> None:
    """A listing; as markdown, its sections in the order of the kinds."""
    if form == "json":
        click.echo(json_text([to_json(stored) for stored in entries]))
    elif form == "markdown":
        print_raw(render_memories([stored.record for stored in entries], kinds))
    elif form == "quiet":
        for stored in entries:
            click.echo(stored.record.id)
    elif not entries:
        click.echo(nothing)
    else:
        click.echo(table(["ID", "TYPE", "CREATED", "TAGS", "CONTENT"], [_row(stored) for stored in entries]))


def print_found(
    found: SearchResult, entries: Sequence[Stored], form: str, nothing: str, kinds: Sequence[MemoryKind]
) -> None:
    """Search results, and a note of how many more there are."""
    if form == "json":
        scored = zip(entries, found.hits, strict=True)
        click.echo(json_text([{**to_json(stored), "score": hit.score, "why": list(hit.why)} for stored, hit in scored]))
    else:
        print_list(entries, form, nothing, kinds)
    notes = [f"nothing has {word!r}; looked for {', '.join(others[:5])} instead" for word, others in found.instead]
    if found.total > len(found.hits):
        notes.append(f"{found.total - len(found.hits)} more; --all shows every one")
    for note in notes:
        click.echo(note, err=form != "table")


def print_one(stored: Stored, form: str, call: Invocation) -> None:
    """One entry, whole."""
    record = stored.record
    if form == "json":
        click.echo(json_text(to_json(stored)))
    elif form == "markdown":
        print_raw(render_memories([record]))
    else:
        click.echo(click.style(visible(record.title or record.id), bold=True))
        lines = [
            ("id", record.id),
            ("type", record.kind.value + (f" ({record.label})" if record.label not in ("", record.kind.value) else "")),
            ("status", record.status.value if record.status is Status.RETIRED else ""),
            ("tags", ", ".join(record.tags) or "-"),
            ("created", _dated(record.created_at)),
            ("updated", record.updated_at),
            ("valid until", record.valid_until),
            ("origin", _origin(record)),
            ("file", place(stored, call)),
        ]
        for name, value in lines:
            if value:
                click.echo(f"  {name + ':':12} {visible(value)}")
        click.echo("")
        click.echo(visible(record.text))


def _origin(record: Record) -> str:
    """Whose words they are and which way they came, as far as that is known."""
    by = record.origin.by or str(record.extra.get("by") or "")
    via = str(record.extra.get(VIA) or "")
    return one_line(", ".join(filter(None, (by, f"via {via}" if via else ""))))


def print_primed(primed: Primed, form: str) -> None:
    """What is handed to an agent; nothing at all when there is nothing to hand over (JSON: an empty array)."""
    print_raw(primed.text or ("[]\n" if form == "json" else ""))
    left_out = primed.total - len(primed.records)
    if left_out:
        say(f"{len(primed.records)} of {primed.total} shown: {left_out} did not fit the budget")


def place(stored: Stored, call: Invocation) -> str:
    """`file:line`, relative to the project."""
    return f"{paths.shown(stored.path, call.root)}:{stored.line}"


def _dated(day: str) -> str:
    spoken = ago(day)
    return f"{day} ({spoken})" if day and spoken != day else day or "unknown"


def _row(stored: Stored) -> list[str]:
    record = stored.record
    text = f"{record.title}: {record.text}" if record.title else record.text
    tags = cut(one_line(", ".join(record.tags)), _TAGS_COLUMNS)
    return [one_line(record.id), record.kind.value, ago(record.created_at), tags or "-", one_line(text)]
