"""Export a project's memory for other tools (`ralph export`).

`json`, `markdown` and `agents-md` are single files. `claude-memory` and `basic-memory` are folders
with one note per record. `exported_records` describes how records are embedded in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ralph.core import ids
from ralph.core.errors import Hint, NotFound, Refused
from ralph.core.record import SECTIONS, MemoryKind, Record, Status
from ralph.formats.front_matter import write_field
from ralph.memory import reading
from ralph.sharing.exported_records import (
    ExportedRecord,
    curated_records,
    json_export,
    logged_records,
    record_comment,
)
from ralph.storage import files
from ralph.storage.library import Library
from ralph.tasks import transfer

ONE_FILE = ("json", "markdown", "agents-md")
FOLDERS = ("claude-memory", "basic-memory")
FORMATS = (*ONE_FILE, *FOLDERS)
TASKS = "tasks"
"""The export of tasks. The other formats export memories."""

_MAX_TITLE_CHARACTERS = 80


def export(root: Path, form: str) -> dict[str, str]:
    """Return the texts of an export's files by name.

    `form` is `TASKS` or one of `FORMATS`. The name of a single file is "".
    """
    if form == TASKS:
        return {"": transfer.export(root)}
    records = curated_records(Library(root))
    if form == "json":
        return {"": json_export([*records, *logged_records(root)])}
    if form == "markdown":
        return {"": _markdown_export(records)}
    outdated = _outdated(records)
    if form == "agents-md":
        return {"": _agents_export(records, outdated)}
    notes = {}
    for named in records:
        notes[_note_name(named.record)] = _note(form, named, outdated.get(named.record.id, ""))
    if form == "claude-memory":
        notes["MEMORY.md"] = _memory_index(records, outdated)
    return notes


def _markdown_export(records: Iterable[ExportedRecord]) -> str:
    blocks = ["# Memory\n"]
    for named in records:
        record = named.record
        blocks.append(f"## {_title(record)}\n\n{record.text}\n\n{record_comment(named)}\n")
    return "\n".join(blocks)


def _outdated(records: Sequence[ExportedRecord]) -> dict[str, str]:
    """Map the ids of records that are no longer valid to the reason."""
    current = {record.id for record in reading.current_records([named.record for named in records])}
    reasons = {}
    for named in records:
        if named.record.id not in current:
            reasons[named.record.id] = "superseded or expired"
    for named in records:
        if named.record.status is Status.RETIRED:
            reasons[named.record.id] = "archived"
    return reasons


def _agents_export(records: Sequence[ExportedRecord], outdated: Collection[str]) -> str:
    """Return the export as a page for AGENTS.md.

    Agents follow everything on such a page, so outdated records appear only in comments.
    """
    parts = ["# Memory\n"]
    for kind in MemoryKind:
        lines = []
        for named in records:
            if named.record.kind is kind and named.record.id not in outdated:
                lines.append(f"- {' '.join(named.record.text.split())} {record_comment(named)}\n")
        if lines:
            parts.append(f"## {SECTIONS[kind]}\n\n{''.join(lines)}")
    for named in records:
        if named.record.id in outdated:
            parts.append(f"{record_comment(named)}\n")
    return "\n".join(parts)


def _memory_index(records: Iterable[ExportedRecord], outdated: Collection[str]) -> str:
    """Return the text of MEMORY.md, which lists the notes that are still valid."""
    lines = ["# Memory\n"]
    for _, record in records:
        if record.id not in outdated:
            lines.append(f"- [{_title(record)}]({_note_name(record)})")
    return "\n".join([*lines, ""])


def _title(record: Record) -> str:
    return " ".join((record.title or record.text).split())[:_MAX_TITLE_CHARACTERS]


def _note_name(record: Record) -> str:
    return f"{ids.slug(record.id)}.md"


def _note(form: str, named: ExportedRecord, outdated: str) -> str:
    """Return a record as a note for another tool.

    `outdated` is the reason why the record is no longer valid, or "".
    """
    record = named.record
    title = _title(record)
    if outdated:
        title = f"({outdated}) {title}"
    slug = ids.slug(record.id)
    fields: dict[str, object]
    if form == "claude-memory":
        kind = "feedback" if record.kind is MemoryKind.FIX else "project"
        fields = {"name": slug, "description": title, "type": kind}
        body = record.text
        if outdated:
            body = f"({outdated})\n\n{record.text}"
    else:
        fields = {"title": title, "type": "note", "permalink": slug, "tags": list(record.tags)}
        tags = [f"#{tag}" for tag in record.tags]
        observation = " ".join([f"[{record.kind.value}]", *record.text.split(), *tags])
        body = f"# {title}\n\n## Observations\n\n- {observation}"
    front_matter = "".join(write_field(key, value) + "\n" for key, value in fields.items())
    return f"---\n{front_matter}---\n\n{body}\n\n{record_comment(named)}\n"


def write_export(root: Path, form: str, target: Path, *, force: bool = False) -> int:
    """Write an export to a file or folder, and return the number of files written.

    Raises NotFound if the target's parent folder does not exist, and Refused if the target exists
    and `force` is not set.
    """
    check_parent_folder(target)
    contents = export(root, form)
    if not force and target.exists() and (target.is_file() or any(target.iterdir())):
        raise Refused(
            f"{target} already exists",
            hint=Hint("force", "name another target, or use --force to overwrite it"),
        )
    for name, text in contents.items():
        files.write(target / name if name else target, text)
    return len(contents)


def check_parent_folder(target: Path) -> None:
    """Raise NotFound if the folder into which a file is to be written does not exist."""
    if not target.parent.is_dir():
        raise NotFound(
            f"{target.parent}: no such folder", hint="create it first, or name another target"
        )
