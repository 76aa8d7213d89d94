"""Supersede an entry by another one (`ralph memory supersede`).

The successor gets a `supersedes` link and, optionally, a reason. The old entry stays in its file
and is valid until today. Only memories and guardrails can be superseded: a knowledge entry keeps
its earlier texts, and a pattern is deleted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ralph.core import ids
from ralph.core.errors import Conflict, Refused
from ralph.core.record import Link, MemoryKind, Record
from ralph.formats.memories_metadata import CONFLICTS, WHY
from ralph.memory import memory, reading
from ralph.memory.author import BY_RALPH, WriteContext
from ralph.privacy import injection
from ralph.privacy.privacy import clean_memory
from ralph.search import record_ids
from ralph.storage import supersession
from ralph.storage.library import Library
from ralph.storage.write_observers import WriteObserver

_SUPERSEDABLE = {"memories", "guardrails", "personal"}


def supersede(
    root: Path,
    old: str,
    new: str,
    *,
    why: str = "",
    context: WriteContext = BY_RALPH,
) -> memory.SavedMemory:
    """Supersede an entry by another entry, and return the successor.

    `new` is the id of an existing entry, or the text of a new one. The old entry is valid until
    today. Raises Refused for knowledge and patterns, for a cycle, and for an agent's reason that
    reads like an instruction. Raises Conflict if an entry already has the new text.
    """
    library = Library(root, context.observer)
    collection, before = reading.find_entry(library, old)
    old_id = before.record.id
    reason = _clean_reason(why, context)
    _check_supersedable(collection.name)
    # The successor is written first. If the second write fails, the link already marks the old
    # entry as superseded.
    if record_ids.is_short_id(new) or ids.ID.fullmatch(new.strip()) is not None:
        saved = _link_successor(
            root, library, old_id=old_id, new_id=new.strip(), why=reason, observer=context.observer
        )
    else:
        entry = memory.NewEntry(
            new,
            MemoryKind(before.record.kind),
            before.record.tags,
            in_=collection.name,
            links=(Link("supersedes", old_id),),
        )
        saved = _add_successor(root, entry, old_id=old_id, why=reason, context=context)
    memory.change_entry(root, library, collection, old_id, _end_today, context.observer)
    return saved


def _clean_reason(why: str, context: WriteContext) -> str:
    if not why.strip():
        return ""
    reason = " ".join(clean_memory(why, patterns=context.patterns)[0].split())
    if not context.author.is_trusted and injection.looks_like_instructions(reason):
        raise Refused(
            "the reason reads like an instruction to an agent", hint="reword --why, or leave it out"
        )
    return reason


def _add_successor(
    root: Path, entry: memory.NewEntry, *, old_id: str, why: str, context: WriteContext
) -> memory.SavedMemory:
    author = context.author
    signed = replace(author, signed={**author.signature(root), WHY: why})
    saved = memory.add_entry(root, entry, replace(context, author=signed))
    if not saved.is_new:
        name = saved.stored.record.id
        raise Conflict(f"{name} already says this", hint=f"ralph memory supersede {old_id} {name}")
    return saved


def _end_today(record: Record) -> Record:
    today = ids.today()
    return replace(record, valid_until=min(record.valid_until or today, today))


def _check_supersedable(collection_name: str) -> None:
    if collection_name not in _SUPERSEDABLE:
        raise Refused(
            "only memories and guardrails supersede each other",
            hint="edit a knowledge entry (its earlier text is kept), or archive it; "
            "a pattern is deleted",
        )


def _link_successor(
    root: Path,
    library: Library,
    *,
    old_id: str,
    new_id: str,
    why: str,
    observer: WriteObserver | None,
) -> memory.SavedMemory:
    """Link an existing entry to the entry that it supersedes."""
    collection, successor = library.find(new_id)
    _check_supersedable(collection.name)
    pairs = []
    for stored in reading.list_entries(root, in_=(reading.ALL,)):
        for predecessor in reading.predecessors(stored.record):
            pairs.append((stored.record.id, predecessor))
    if supersession.leads_to(supersession.successors_of(pairs), successor.record.id, old_id):
        what = f"{successor.record.id} is already superseded by {old_id}"
        if successor.record.id == old_id:
            what = f"{old_id} cannot supersede itself"
        raise Refused(
            what,
            hint="name the entry that is out of date first, then its successor",
        )
    link = Link("supersedes", old_id)

    def add_link(record: Record) -> Record:
        links = record.links
        if link not in links:
            links = (*links, link)
        extra = dict(record.extra)
        if extra.get(CONFLICTS) == old_id:
            del extra[CONFLICTS]
        if why:
            extra[WHY] = why
        return replace(record, links=links, extra=extra)

    return memory.change_entry(root, library, collection, successor.record.id, add_link, observer)
