"""Plan which entries to remove from memory files, patterns, knowledge and progress files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from ralph.core import paths
from ralph.core.documents import Entry
from ralph.core.errors import NotFound, RalphError, Refused
from ralph.core.record import Family, Record
from ralph.formats.progress_blocks import JOURNAL_KEY
from ralph.learning.forget_matching import text_values
from ralph.learning.forget_plan import (
    EDIT_ADVICE,
    FileChange,
    ForgetPlan,
    ForgottenRecord,
    Leftover,
    preview,
)
from ralph.storage import files
from ralph.storage.source_contents import parse_source
from ralph.storage.sources import Format, Source, sources


def plan_entries(root: Path, record_ids: set[str], needle: str) -> ForgetPlan:
    """Plan the removal of entries with one of these ids, or of those that contain `needle`.

    The needle must be in lower case.
    """
    if not record_ids and not needle:
        return ForgetPlan()
    records: list[ForgottenRecord] = []
    leftovers: list[Leftover] = []
    changes: list[FileChange] = []
    for source in sources(root):
        if source.format in (Format.LOG, Format.TASK):
            continue
        text = files.read(source.path) or ""
        chosen: dict[Entry, str] = {}
        for entry in parse_source(source, text).entries:
            requested_id = _requested_id(entry.record, record_ids)
            if needle:
                is_chosen = _has_needle(entry.record, needle)
            else:
                is_chosen = requested_id in record_ids
            if is_chosen:
                chosen[entry] = requested_id
        if chosen:
            plan = _plan_source(root, source, text, chosen)
            records += plan.records
            leftovers += plan.leftovers
            changes += plan.changes
    return ForgetPlan(tuple(records), tuple(leftovers), tuple(changes))


def _requested_id(record: Record, record_ids: set[str]) -> str:
    """Return the id under which a record was requested.

    A block in a progress file can be requested by its own id or by that of its journal entry.
    """
    if record.family is Family.JOURNAL:
        journal_id = str(record.extra.get(JOURNAL_KEY, ""))
        if journal_id in record_ids:
            return journal_id
    return record.id


def _has_needle(record: Record, needle: str) -> bool:
    extra = json.dumps({"extra": dict(record.extra)}, default=str)
    values = (
        record.title,
        record.text,
        *record.tags,
        *record.origin.files,
        *text_values(extra),
    )
    return any(needle in value.casefold() for value in values)


def _plan_source(root: Path, source: Source, text: str, chosen: Mapping[Entry, str]) -> ForgetPlan:
    """Plan the removal of entries from one file. `chosen` maps them to their requested ids."""
    edit = partial(remove_entries, source, {entry.record.id for entry in chosen})
    try:
        files.target(source.path, paths.write_boundary(source.path, root))
        after, refused = edit(text)
    except Refused as error:
        after = text
        refused = {entry.record.id: error.message for entry in chosen}
    records = []
    leftovers = []
    for entry, requested_id in chosen.items():
        record = entry.record
        if record.id in refused:
            why = f"{refused[record.id]}; {EDIT_ADVICE}"
            leftovers.append(Leftover(source.path, entry.line, why, requested_id))
            continue
        what = f"{source.format.value} {record.kind.value}"
        records.append(
            ForgottenRecord(
                path=source.path,
                line=entry.line,
                id=requested_id,
                what=what,
                text=preview(record),
                hashed=(record.text,),
            )
        )
    if after == text:
        return ForgetPlan(tuple(records), tuple(leftovers))
    # A knowledge file has only one entry, so nothing useful remains without it.
    deletes = source.format is Format.KNOWLEDGE
    change = FileChange(source.path, edit, after, deletes=deletes)
    return ForgetPlan(tuple(records), tuple(leftovers), (change,))


def remove_entries(
    source: Source, record_ids: Iterable[str], text: str
) -> tuple[str, dict[str, str]]:
    """Remove entries from a file's text.

    Returns the remaining text. For each entry that cannot be removed, the second value maps its id
    to the reason.
    """
    document = parse_source(source, text)
    refused: dict[str, str] = {}
    for record_id in record_ids:
        try:
            document = document.remove(record_id)
        except NotFound:  # removed together with another entry, or by somebody else
            continue
        except RalphError as error:
            refused[record_id] = error.message
    return document.text, refused
