"""Merge a knowledge file, which has one entry with front matter and a body.

git can usually merge such a file line by line. If it cannot, the fields are merged one by one
(`merge_records`), and only the body is merged line by line.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ralph.core.errors import Refused
from ralph.core.record import UNCONFIRMED, mark_unconfirmed
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.merge_lines import Merged, MergeLines
from ralph.formats.merge_records import age_of, merge_fields, pick_changed


def merge_knowledge(base: str, ours: str, theirs: str, merge_lines: MergeLines) -> Merged:
    """Merge a knowledge file. Raises Refused if one side has no front matter."""
    text, conflicts = merge_lines(base, ours, theirs)
    if not conflicts and parse_knowledge(text).entries:
        return Merged(text)
    our_document = parse_knowledge(ours)
    their_document = parse_knowledge(theirs)
    if not our_document.entries or not their_document.entries:
        raise Refused("one side has no front matter")
    our_record = our_document.entries[0].record
    their_record = their_document.entries[0].record
    base_entries = parse_knowledge(base).entries
    base_record = base_entries[0].record if base_entries else None
    base_body = f"{base_record.text}\n" if base_record is not None else ""
    body, conflicts = merge_lines(base_body, f"{our_record.text}\n", f"{their_record.text}\n")
    older = our_record
    newer = their_record
    newer_document = their_document
    if age_of(their_record) < age_of(our_record):
        older = their_record
        newer = our_record
        newer_document = our_document
    fields: dict[str, Any] = {}
    for name in ("title", "kind", "label", "created_at"):
        base_value = getattr(base_record, name, None)
        fields[name] = pick_changed(base_value, getattr(older, name), getattr(newer, name))
    merged = merge_fields(base_record, older, newer)
    record = replace(merged, **fields, text=body.removesuffix("\n"))
    if older.text != newer.text:  # the merged text has lines of both
        reasons = [str(side.extra.get(UNCONFIRMED) or "") for side in (newer, older)]
        record = mark_unconfirmed(record, reasons[0] or reasons[1])
    return Merged(str(newer_document.replace(newer.id, record)), conflicts)
