"""Check who may store a text, and whether a file may be added to.

A text that reads like an instruction to an agent is stored only if a person wrote or accepted it.
Otherwise it is held for review. A text that was forgotten can be added again only by a person.
Nothing is added to a file that a person must repair first, because the repair could lose it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.core import paths
from ralph.core.documents import EditableDocument
from ralph.core.errors import Refused
from ralph.core.record import SESSION, UNCONFIRMED, WHO, Record, is_confirmed
from ralph.memory import held_memories, quarantine
from ralph.memory.author import WriteContext
from ralph.memory.confirmation import describe_reason
from ralph.storage import forgotten

if TYPE_CHECKING:
    from ralph.memory.memory import SavedMemory

_DAMAGE = {
    "conflict": "has git conflict markers",
    "not-utf8": "is not UTF-8 text, or has a NUL character",
}
"""The problems, by code, that a person must repair before an entry is added to the file."""


def check_undamaged(root: Path, path: Path, document: EditableDocument) -> None:
    """Raise Refused if a file has conflict markers or is not UTF-8 text."""
    for problem in document.problems:
        if problem.code in _DAMAGE:
            raise Refused(
                f"{paths.shown(path, root)}:{problem.line}: the file {_DAMAGE[problem.code]}",
                hint=f"nothing was added; {problem.hint} (`ralph doctor` checks all files)",
            )


def check_author(
    root: Path, record: Record, context: WriteContext, *, in_: str = "", feature: str = ""
) -> None:
    """Hold a new entry for review if it reads like an instruction and was not added by a person.

    Raises Refused if the entry is held.
    """
    if context.is_trusted or not quarantine.is_suspicious(record):
        return
    raise held_memories.hold(root, _as_held(record, context, in_, feature))


def hold_unconfirmed(root: Path, record: Record, context: WriteContext, *, in_: str) -> None:
    """Hold an unconfirmed entry of a file that cannot store its mark.

    Raises Refused if the entry is held.
    """
    if is_confirmed(record):
        return
    held = _as_held(record, context, in_)
    reason = describe_reason(str(record.extra[UNCONFIRMED]))
    raise held_memories.hold(root, replace(held, reason=reason))


def _as_held(
    record: Record, context: WriteContext, in_: str, feature: str = ""
) -> held_memories.HeldMemory:
    return held_memories.HeldMemory(
        id="",
        at="",
        text=record.text,
        in_=in_,
        kind=record.kind.value,
        title=record.title,
        feature=feature,
        tags=record.tags,
        by=context.author.by,
        via=context.author.via,
        who=str(record.extra.get(WHO) or ""),
        session=str(record.extra.get(SESSION) or ""),
    )


def accept_by_author(root: Path, saved: SavedMemory, context: WriteContext) -> SavedMemory:
    """Record that a person has accepted an entry that would otherwise wait.

    The result has `is_order` set if it reads like an instruction.
    """
    record = saved.stored.record
    if not context.is_decided_by_person or not quarantine.needs_acceptance(root, record):
        return saved
    quarantine.remember_accepted(record, context.observer)
    return replace(saved, is_order=quarantine.is_suspicious(record))


def check_forgotten(text: str, context: WriteContext) -> None:
    """Check that a text was not forgotten. A person who adds it again lifts the ban.

    Raises Refused for any other author, even if a person has accepted the text.
    """
    if not forgotten.load().has(text):
        return
    if not context.author.is_trusted:
        raise Refused(
            "this text was forgotten by `ralph forget` and is not stored again",
            hint="a person can restore it with `ralph memory add`",
        )
    if context.is_real:
        forgotten.lift(text)
