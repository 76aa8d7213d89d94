"""Add the records in an export to a project (`ralph import PATH`).

An export claims an id, an author and a collection for each of its records, and anybody can write an
export. Secrets, forgotten records and unknown collections are therefore skipped, memories that read
like instructions are held for review, and an agent's import does not keep the claimed authors.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError, Refused
from ralph.core.record import WHO, Family, Record
from ralph.formats.knowledge import render_knowledge
from ralph.formats.log import put_record
from ralph.memory import held_memories, quarantine
from ralph.memory.author import Author, WriteContext
from ralph.memory.confirmation import mark_new
from ralph.memory.write_checks import check_undamaged, hold_unconfirmed
from ralph.privacy.privacy import find_secrets
from ralph.search import index
from ralph.sharing.exported_records import (
    CURATED,
    ExportedRecord,
    curated_records,
    logged_records,
    read_export,
)
from ralph.sharing.imports import Found
from ralph.sharing.session_import import SessionLog
from ralph.storage import files, forgotten
from ralph.storage.library import AlreadyThere, Library

_BY_IMPORT = WriteContext(Author(quarantine.IMPORT))


def import_records(
    root: Path, path: Path, notes: list[str], *, really: bool, by: str = "human"
) -> Found:
    """Add the records in an export that the project does not have yet, with their ids.

    Records that contain a secret or that were forgotten are skipped. Without `really`, nothing is
    written. Raises Unreadable if `path` is not an export.
    """
    found = Found(str(path), "records")
    hidden = forgotten.load()
    library = Library(root)
    known = {named.record.id for named in [*curated_records(library), *logged_records(root)]}
    held_before = [held.text for held in held_memories.list_held(root)]
    logs: dict[str, SessionLog] = {}
    for name, record in read_export(path, notes):
        found.count += 1
        found.bytes += len(record.text)
        if record.id in known or record.text in held_before or hidden.hides(record):
            continue
        problem = _reason_to_skip(name, record)
        if problem:
            notes.append(f"{record.id}: skipped, {problem}")
            continue
        found.new += 1
        if not really:
            continue
        if by != "human" and record.family is Family.MEMORY:
            record = _without_author(record)
        try:
            if _add_record(root, library, ExportedRecord(name, record), logs):
                found.added += 1
        except RalphError as error:
            notes.append(f"{record.id}: skipped, {error.message}")
    for log in logs.values():
        log.finish()
    newly_held = len(held_memories.list_held(root)) - len(held_before)
    if newly_held:
        notes.append(
            f"{newly_held} of them read like instructions to an agent "
            "and wait for you in `ralph review`"
        )
    return found


def _reason_to_skip(collection: str, record: Record) -> str:
    """Return why a record must not be imported, or ""."""
    if find_secrets(f"{record.title}\n{record.text}"):
        return "it contains what looks like a secret"
    if record.family is Family.MEMORY and collection not in CURATED:
        return "it does not belong to any file"
    return ""


def _without_author(record: Record) -> Record:
    """Return a record with the import as its author, because an export could claim any author."""
    extra = {name: value for name, value in record.extra.items() if name != WHO}
    return replace(record, origin=record.origin._replace(by=quarantine.IMPORT), extra=extra)


def _add_record(
    root: Path, library: Library, named: ExportedRecord, logs: dict[str, SessionLog]
) -> bool:
    """Add a record where it belongs. Returns False if a collection already has its text."""
    record = named.record
    if record.family is Family.OBSERVATION:
        _add_observation(root, record, logs)
        return True
    if record.family is Family.JOURNAL:
        _add_journal_entry(root, record)
        return True
    if quarantine.is_suspicious(record):
        _hold(root, named)
        return True
    if record.origin.by == quarantine.IMPORT:
        record = mark_new(root, record, _BY_IMPORT)
        named = named._replace(record=record)
        if named.collection == "patterns":
            hold_unconfirmed(root, record, _BY_IMPORT, in_=named.collection)
    if named.collection == "knowledge":
        _add_knowledge(root, library, record)
        return True
    return _add_memory(library, named)


def _add_observation(root: Path, record: Record, logs: dict[str, SessionLog]) -> None:
    session = record.origin.session
    if session not in logs:
        logs[session] = SessionLog(root, session, index.interpreter(root))
        logs[session].fields.update(
            {"id": session, "session_id": session, "host": record.origin.agent}
        )
    logs[session].add(record, "")


def _add_journal_entry(root: Path, record: Record) -> None:
    log = paths.run_log(root, record.origin.run or "imported")
    files.update(
        log,
        lambda text: put_record(text, record),
        root=paths.state_boundary(root),
        mode=files.PRIVATE,
    )


def _hold(root: Path, named: ExportedRecord) -> None:
    """Hold a suspicious memory for review."""
    record = named.record
    held = held_memories.HeldMemory(
        id="",
        at="",
        text=record.text,
        in_=named.collection,
        kind=record.kind.value,
        title=record.title,
        tags=record.tags,
        by=quarantine.IMPORT,
        via="an export",
    )
    held_memories.hold_all(root, [held])


def _add_knowledge(root: Path, library: Library, record: Record) -> None:
    if "/" in record.id:
        raise Refused(f"{record.id!r} is not the name of a knowledge file")
    folder = library.knowledge.places[0]
    path = folder / f"{record.id.removeprefix('know-')}.md"
    files.write(path, render_knowledge(record), root=root, expect="")


def _add_memory(library: Library, named: ExportedRecord) -> bool:
    try:
        library.add(
            library.collection(named.collection),
            lambda _: named.record,
            unless_text=named.record.text,
            check=partial(check_undamaged, library.root),
        )
    except AlreadyThere:
        return False
    return True
