"""Turn an accepted proposal into a memory, or apply the change to a memory that it proposes.

A proposal adds a memory. One from `ralph learn` may also supersede, merge or archive memories. The
memory files are written first and the proposal is marked last. After a crash in between, accepting
it again finds what was written and completes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.core.record import NO_EXTRA, SESSION, MemoryKind, Record, Status
from ralph.learning import insights, learned, removal
from ralph.learning.candidates import Operation
from ralph.learning.insights import Insight
from ralph.learning.propose import evidence, operation, targets
from ralph.memory import memory, reading
from ralph.memory.author import Author, WriteContext
from ralph.memory.memory import NewEntry
from ralph.recall import successors
from ralph.storage.library import Stored

VIA_REVIEW = "review"


def accept_proposal(root: Path, found: Insight, context: WriteContext, text: str = "") -> Stored:
    """Apply a proposal, and return the memory that it added or archived.

    `text` replaces the proposal's wording. Raises Refused if the caller is not a person.
    """
    check_is_person(found, context)
    proposal = found.record
    if operation(proposal) is Operation.DELETE:
        stored = removal.archive(root, targets(proposal)[0], context.observer).stored
        _mark_accepted(root, found, stored, context)
        return stored
    stored = _add_memory(root, proposal, text, context)
    for target in targets(proposal):
        if target != stored.record.id:
            successors.supersede(root, target, stored.record.id, context=context)
    _mark_learned(root, found, stored, context)
    return stored


def merge_proposal(
    root: Path, found: Insight, into: str, text: str | None, context: WriteContext
) -> Stored:
    """Reword an existing memory so that it covers a proposal, and return the memory.

    The memory gets the tags of the proposal and, without `text`, keeps its wording. Raises Refused
    if the caller is not a person, and NotFound for an unknown memory.
    """
    check_is_person(found, context)
    kept = reading.get_entry(root, into).record
    tags = tuple(dict.fromkeys((*kept.tags, *found.record.tags)))
    stored = memory.edit(root, kept.id, text=text, tags=tags, context=context).stored
    _mark_learned(root, found, stored, context)
    return stored


def check_is_person(found: Insight, context: WriteContext) -> None:
    """Raise Refused unless a person decides: an agent must not confirm its own proposals."""
    if not context.author.is_person:
        raise Refused(
            f"{found.record.id} waits for a person",
            hint="decide it at a terminal of your own, not through an agent",
        )


def _add_memory(root: Path, proposal: Record, text: str, context: WriteContext) -> Stored:
    """Return the memory for a proposal, which is added unless an earlier acceptance did that."""
    existing = _find_memory(root, proposal)
    if existing is not None:
        if text and text != existing.record.text:
            return memory.edit(root, existing.record.id, text=text, context=context).stored
        return existing
    author = Author(proposal.origin.by, VIA_REVIEW, {SESSION: proposal.origin.session})
    entry = NewEntry(text or proposal.text, MemoryKind(proposal.kind), proposal.tags)
    return memory.add_entry(root, entry, replace(context, author=author, accepted=True)).stored


def _find_memory(root: Path, proposal: Record) -> Stored | None:
    """Return the memory that a proposal has become, unless it was archived or deleted since."""
    memory_id = str(proposal.extra.get(insights.MEMORY) or "")
    for stored in reading.list_entries(root):
        if stored.record.id == memory_id and stored.record.status is not Status.RETIRED:
            return stored
    return None


def _mark_learned(root: Path, found: Insight, stored: Stored, context: WriteContext) -> None:
    """Note that a proposal became a memory, which replaces the proposal's evidence in recall."""
    memory_id = stored.record.id
    learned.note_evidence(root, memory_id, evidence(found.record), context.observer)
    _mark_accepted(root, found, stored, context, {insights.MEMORY: memory_id})


def _mark_accepted(
    root: Path,
    found: Insight,
    stored: Stored,
    context: WriteContext,
    members: Mapping[str, object] = NO_EXTRA,
) -> None:
    """Mark a proposal as accepted. `members` are added to its own."""
    file = paths.shown(stored.path, root)

    def mark(record: Record) -> Record:
        marked = insights.add_promotion(record, file)
        return replace(marked, extra={**marked.extra, **members})

    insights.change(root, found, mark, context.observer)
