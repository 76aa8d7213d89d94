"""Decide whether a new entry is unconfirmed, and confirm it.

An agent that has read something foreign may repeat what it read, and no rule can tell a false fact
from a true one. What such an agent adds is stored with the mark `unconfirmed`, which says why. No
agent sees an unconfirmed entry unasked until a person accepts it, or until a session that has read
nothing foreign adds the same text. A text that names a package, a host or a command that the
project does not know is unconfirmed as well, whatever its author has read.
"""

from __future__ import annotations

from pathlib import Path

from ralph.capture import foreign_reading
from ralph.core.errors import Refused
from ralph.core.record import (
    SESSION,
    UNCONFIRMED,
    Record,
    confirm,
    is_confirmed,
    mark_unconfirmed,
)
from ralph.lean import taint
from ralph.memory.author import WriteContext
from ralph.search.unknown_names import describe_unknown

_RUN = "run"  # the member of a knowledge entry that names the run of a loop


def mark_new(root: Path, record: Record, context: WriteContext) -> Record:
    """Return a new or changed text with the mark that it needs, which is often none."""
    return mark_unconfirmed(confirm(record), reason_to_wait(root, record, context))


def mark_edited(root: Path, record: Record, context: WriteContext) -> Record:
    """Return an entry with a new text. Only a person's edit confirms an unconfirmed entry."""
    if context.is_decided_by_person:
        return confirm(record)
    return mark_unconfirmed(record, reason_to_wait(root, record, context))


def reason_to_wait(root: Path, record: Record, context: WriteContext) -> str:
    """Return why a text by this author is unconfirmed, or "" if agents may see it unasked."""
    if context.is_trusted:
        return ""
    session = context.author.signature(root).get(SESSION, "")
    run = str(record.extra.get(_RUN) or "")
    unknown = describe_unknown(root, record)
    return unknown or foreign_reading.find_taint(root, session=session, run=run)


def note_unconfirmed(record: Record) -> str:
    """Return what the author of an unconfirmed entry should know, or "" for a confirmed one."""
    if is_confirmed(record):
        return ""
    reason = describe_reason(str(record.extra[UNCONFIRMED]))
    return f"it is unconfirmed ({reason}): no agent sees it unasked until a person accepts it"


def check_confirmed(root: Path, record: Record, context: WriteContext) -> None:
    """Check that an agent may pass a record on to files that have no mark for unconfirmed ones.

    Raises Refused if a person has to decide about the record, or about what this agent says.
    """
    if context.is_decided_by_person:
        return
    reason = str(record.extra.get(UNCONFIRMED) or "") or reason_to_wait(root, record, context)
    if reason:
        raise Refused(
            f"{record.id} waits for a person: {describe_reason(reason)}",
            hint=f"a person decides at a terminal: ralph review accept {record.id}",
        )


def describe_reason(reason: str) -> str:
    """Return a reason in words. A reason that is not a kind of taint is in words already."""
    source = taint.DESCRIPTIONS.get(reason)
    if source is None:
        return reason
    return f"it was added after reading {source}"
