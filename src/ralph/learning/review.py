"""Decide what is waiting in the inbox (`learning/inbox.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import NotFound, RalphError, Refused
from ralph.core.record import (
    SESSION,
    WHO,
    MemoryKind,
    Record,
    Status,
    is_confirmed,
)
from ralph.core.work import TaskStatus
from ralph.formats.memories_metadata import CONFLICTS
from ralph.learning import acceptance, inbox, insights, promotion
from ralph.learning.inbox import ReviewItem
from ralph.learning.insights import Insight
from ralph.memory import held_memories, memory, quarantine, reading, waiting_entries
from ralph.memory.author import BY_PERSON, PERSON, Author, WriteContext
from ralph.memory.held_memories import HeldMemory
from ralph.memory.memory import NewEntry
from ralph.storage import board, task_files
from ralph.storage.library import Library, Stored
from ralph.storage.write_observers import WriteObserver


def accept(
    root: Path,
    name: str,
    *,
    kind: str = "",
    text: str = "",
    context: WriteContext = BY_PERSON,
) -> Stored:
    """Accept an insight, a held memory, or a memory that should stay as it is.

    `kind` limits that to one kind of item in the inbox, because a memory may be in several. A
    proposal without a task becomes a memory, with `text` instead of its own wording if that is
    given. An accepted insight of a task is promoted once the task is done, and is accepted in every
    task that noted it in the same words. Raises Refused if an agent accepts something that is
    waiting for a person, and NotFound for an unknown id.
    """
    observer = context.observer
    held = _find_held(root, name, context.author)
    if isinstance(held, Stored):
        if not is_confirmed(held.record):
            held = memory.confirm_entry(root, held.record.id, observer).stored
        quarantine.remember_accepted(held.record, observer)
        return held
    if held is not None:
        return _accept_held(root, held, observer)
    items = []
    for item in inbox.memory_items(root):
        if item.id == name and kind in ("", item.kind):
            items.append(item)
    if items:
        return _keep(root, items, context)
    return _accept_insight(root, name, text, context)


def find_proposal(root: Path, name: str) -> Insight | None:
    """Return the proposal with this id that belongs to no task, or None if there is none."""
    with suppress(NotFound):
        found = insights.find(root, name)
        if found.task == insights.NO_TASK:
            return found
    return None


def merge(
    root: Path, name: str, into: str, *, text: str | None, context: WriteContext = BY_PERSON
) -> Stored:
    """Merge a proposal into an existing memory, and return the memory.

    `text` is the new wording of the memory. Raises Refused if the caller is not a person, and
    NotFound for an unknown id.
    """
    return acceptance.merge_proposal(root, insights.find(root, name), into, text, context)


def _accept_held(root: Path, held: HeldMemory, observer: WriteObserver | None) -> Stored:
    """Add a memory that was held, signed by whoever wanted to add it."""
    entry = NewEntry(
        held.text,
        MemoryKind(held.kind) if held.kind else None,
        held.tags,
        in_=held.in_,
        title=held.title,
        feature=held.feature,
    )
    author = Author(held.by, held.via, {WHO: held.who, SESSION: held.session})
    context = WriteContext(author, accepted=True, allow_secret=True, observer=observer)
    added = memory.add_entry(root, entry, context)
    held_memories.release(root, held.id, observer)
    return added.stored


def _accept_insight(root: Path, name: str, text: str, context: WriteContext) -> Stored:
    found = insights.find(root, name)
    if found.task == insights.NO_TASK:
        return acceptance.accept_proposal(root, found, context, text)
    acceptance.check_is_person(found, context)
    for decided in _decide(root, name, Status.ACCEPTED, context.observer):
        with suppress(RalphError):  # nothing is promoted if the task is missing or unreadable
            if board.status_of(task_files.find_task(root, decided.task).task) is TaskStatus.DONE:
                promotion.promote_task(
                    root, decided.task, patterns=context.patterns, observer=context.observer
                )
    return insights.find(root, found.record.id).stored


def _keep(root: Path, items: Sequence[ReviewItem], context: WriteContext) -> Stored:
    """Let a memory stay as it is; a text that a merge set aside becomes an entry of its own."""
    name = items[0].id
    observer = context.observer
    if not context.author.is_person:
        raise Refused(
            f"{name} waits for a person", hint=f"to change it: {' or '.join(items[0].actions[1:])}"
        )
    keys = [item.key for item in items if item.kind != inbox.CONFLICT]
    if len(keys) < len(items):
        library = Library(root, observer)
        collection, _ = library.find(name)
        memory.change_entry(root, library, collection, name, _without_conflict, observer)
    quarantine.remember_kept(root, keys, observer)
    return reading.get_entry(root, name)


def _without_conflict(record: Record) -> Record:
    extra = {name: value for name, value in record.extra.items() if name != CONFLICTS}
    return replace(record, extra=extra)


def reject(root: Path, name: str, *, context: WriteContext = BY_PERSON) -> Stored:
    """Reject an insight, or drop a held memory.

    A rejected insight stays in its file and is not proposed again; it is rejected in every task
    that noted it in the same words. Raises Refused for an entry in a
    memory file, and if an agent rejects something that is waiting for a person.
    """
    held = _find_held(root, name, context.author)
    if held is None:
        with suppress(NotFound):  # `_decide` says what it is instead
            acceptance.check_is_person(insights.find(root, name), context)
        return _decide(root, name, insights.REJECTED, context.observer)[0].stored
    if isinstance(held, Stored):
        raise Refused(f"{name} is stored in a file", hint=f"ralph memory delete {name}")
    held_memories.release(root, held.id, context.observer)
    return Stored(Record(held.id, MemoryKind.CONTEXT, held.text), paths.held_memories(root), 0)


def is_waiting(root: Path, name: str) -> bool:
    """Return whether this is a memory that waits for a person."""
    if _find_held(root, name, PERSON) is not None:
        return True
    return any(item.id == name for item in inbox.memory_items(root))


def _find_held(root: Path, name: str, author: Author) -> Stored | HeldMemory | None:
    """Return what is held under an id. Raises Refused for an agent: only a person may decide."""
    found: Stored | HeldMemory | None = held_memories.find_held(root, name)
    if found is None:
        for stored in waiting_entries.find_all(root):
            if stored.record.id == name:
                found = stored
                break
    if found is not None and not author.is_person:
        raise Refused(
            f"{name} is held for a person",
            hint="decide it at a terminal of your own, not through an agent",
        )
    return found


def _decide(root: Path, name: str, status: Status, observer: WriteObserver | None) -> list[Insight]:
    """Set the status of an insight and of the same lesson in other tasks. Return it first."""
    try:
        found = insights.find(root, name)
    except NotFound:
        for item in inbox.memory_items(root):
            if item.id == name:
                what = f"{name} is a memory: {item.why}"
                raise Refused(what, hint=" or ".join(item.actions)) from None
        raise
    together = [found, *insights.find_equal(root, found)]
    return [
        insights.change(root, each, lambda record: replace(record, status=status), observer)
        for each in together
    ]
