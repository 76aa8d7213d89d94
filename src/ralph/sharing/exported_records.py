"""Records as they are stored in an export.

Every format contains the complete records in addition to the readable text, so that importing an
export yields the same records. The JSON format lists them:

    {"ralph_export": 1, "records": [
    {"in": "memories", "v": 1, "type": "memory", "id": "mem-1", ...}
    ]}

All other formats are Markdown, in which each record is an HTML comment:

    <!-- ralph-record: {"in": "memories", "v": 1, "type": "memory", "id": "mem-1", ...} -->
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import paths
from ralph.core.errors import Unreadable
from ralph.core.record import Family, Record
from ralph.formats.log import encode_record, parse_log
from ralph.search import index
from ralph.storage import files
from ralph.storage.library import Library
from ralph.storage.sources import Format, sources

CURATED = ("memories", "guardrails", "patterns", "knowledge")
_VERSION_KEY = "ralph_export"
_VERSION_CHARACTERS = 100  # at the start of a JSON export, where the version must be
_MAX_QUOTED_CHARACTERS = 60  # of a value that is not a record, in a note
_RECORD_COMMENT = re.compile(r"<!-- ralph-record: (\{.*?\}) -->")


class ExportedRecord(NamedTuple):
    """A record and its collection."""

    collection: str  # "" for a record from a log
    record: Record


def json_export(records: Iterable[ExportedRecord]) -> str:
    """Return the text of an export in JSON format, with one record per line."""
    lines = [json.dumps(_value(exported), ensure_ascii=False) for exported in records]
    text = ",\n".join(lines)
    return f'{{"{_VERSION_KEY}": 1, "records": [\n{text}\n]}}\n'


def curated_records(library: Library) -> list[ExportedRecord]:
    """Return the records in a project's curated files."""
    records = []
    for name in CURATED:
        for stored in library.read(library.collection(name)):
            records.append(ExportedRecord(name, stored.record))
    return records


def logged_records(root: Path) -> list[ExportedRecord]:
    """Return the observations and journal entries from the logs."""
    current = index.of(root)
    records = []
    for source in sources(root):
        if source.format is not Format.LOG or source.name == f"{paths.LOG}/knowledge.jsonl":
            continue
        for placed in current.read(source).records:
            if placed.record.family is not Family.MEMORY:
                records.append(ExportedRecord("", placed.record))
    return records


def _value(exported: ExportedRecord) -> dict[str, Any]:
    """Return a record as a JSON object. The collection is its member `in`."""
    value: dict[str, Any] = json.loads(encode_record(exported.record))
    if exported.collection:
        return {"in": exported.collection, **value}
    return value


def record_comment(exported: ExportedRecord) -> str:
    """Return an HTML comment that contains a record.

    The record is escaped, so that none of its text can end the comment.
    """
    text = json.dumps(_value(exported), ensure_ascii=False)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<!-- ralph-record: {text} -->"


def read_export(path: Path, notes: list[str]) -> list[ExportedRecord]:
    """Return the records in an exported file or folder.

    Raises Unreadable if a file cannot be read, or if there are no records.
    """
    found: dict[tuple[str, str], ExportedRecord] = {}
    export_files = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    for file in export_files:
        for value in _exported_values(file):
            entries = parse_log(value).entries
            if not entries:
                quoted = value[:_MAX_QUOTED_CHARACTERS]
                notes.append(f"{file}: skipped {quoted!r}, which is not a record")
                continue
            exported = _separate_collection(entries[0].record)
            found[exported.collection, exported.record.id] = exported
    if not found:
        raise Unreadable(
            f"{path}: contains no records of Ralph",
            hint="`ralph import --tasks FILE` imports tasks; without a file, "
            "`ralph import` looks for the memories of other tools",
        )
    return list(found.values())


def _exported_values(path: Path) -> list[str]:
    """Return the records in an exported file as JSON strings."""
    text = files.read(path)
    if text is None:
        raise Unreadable(
            f"{path}: no such file", hint="name a file or folder that `ralph export` wrote"
        )
    values: list[str] = _RECORD_COMMENT.findall(text)
    if values or f'"{_VERSION_KEY}"' not in text[:_VERSION_CHARACTERS]:
        return values
    try:
        return [json.dumps(value) for value in json.loads(text)["records"]]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Unreadable(
            f"{path}: is not a complete export: {error}", hint="export it again"
        ) from error


def _separate_collection(record: Record) -> ExportedRecord:
    """Separate a record from the member `in`, which is its collection."""
    collection = ""
    if record.family is Family.MEMORY:
        collection = str(record.extra.get("in") or "")
    extra = {key: value for key, value in record.extra.items() if key != "in"}
    return ExportedRecord(collection, replace(record, extra=extra))
