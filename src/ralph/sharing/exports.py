"""Export, back up and restore everything (`ralph export`, `ralph backup`, `ralph restore`).

Besides the readable text, every export format contains the complete records, as JSON or in HTML
comments, so that importing an export yields the same records.

A backup is a compressed tar file of the canonical files, which are those that Ralph cannot rebuild.
The last member of the archive lists a digest of each file. A restore checks all digests and names
before it writes anything.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Hint, NotFound, RalphError, Refused, Unreadable
from ralph.core.record import SECTIONS, WHO, Family, MemoryKind, Record, Status
from ralph.core.text import normalise_text
from ralph.formats.knowledge import render_knowledge, write_field
from ralph.formats.log import encode_record, parse_log, put_record
from ralph.learning.forget import without_forgotten
from ralph.memory import memory, quarantine
from ralph.privacy.privacy import find_secrets
from ralph.search import index
from ralph.sharing.imports import Found
from ralph.sharing.session_import import SessionLog
from ralph.storage import files, forgotten
from ralph.storage.library import AlreadyThere, Library
from ralph.storage.sources import Format, sources

ONE_FILE = ("json", "markdown", "agents-md")
FOLDERS = ("claude-memory", "basic-memory")
FORMATS = (*ONE_FILE, *FOLDERS)
CURATED = ("memories", "guardrails", "patterns", "knowledge")
LEFT = "left to a person:"  # the state of a file that only a person may restore

_VERSION = "ralph_export"
_VERSION_CHARACTERS = 100  # at the start of a JSON export, which contain its version
_RECORD_COMMENT = re.compile(r"<!-- ralph-record: (\{.*?\}) -->")
_MAX_TITLE_CHARACTERS = 80
_MAX_QUOTED_CHARACTERS = 60
_MANIFEST = "manifest.json"
_PROJECT_FILES = ("ralph.yml", "ralph.local.yml", "guardrails.md", "progress.txt", ".ralph.toml")
_PROJECT_FOLDERS = (".agent", ".ralph")
_DERIVED = ("local", "cache", "ralph.db")  # name prefixes of what Ralph can rebuild
_MAX_BACKUP_FILE_BYTES = 1 << 30


class _NamedRecord(NamedTuple):
    """A record, and the name of its collection, which is "" for a record from a log."""

    collection: str
    record: Record


# --- export --------------------------------------------------------------------------------------


def export(root: Path, form: str) -> dict[str, str]:
    """Return the contents of an export's files by name.

    If the format `form` uses a single file, its name is "".
    """
    records = _curated(Library(root))
    if form == "json":
        return {"": _json_export([*records, *_logged(root)])}
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


def _json_export(records: Iterable[_NamedRecord]) -> str:
    lines = [json.dumps(_value(named), ensure_ascii=False) for named in records]
    text = ",\n".join(lines)
    return f'{{"{_VERSION}": 1, "records": [\n{text}\n]}}\n'


def _markdown_export(records: Iterable[_NamedRecord]) -> str:
    blocks = ["# Memory\n"]
    for named in records:
        record = named.record
        blocks.append(f"## {_title(record)}\n\n{record.text}\n\n{_comment(named)}\n")
    return "\n".join(blocks)


def _outdated(records: Sequence[_NamedRecord]) -> dict[str, str]:
    """Return the ids of the records that no longer hold, each with the reason."""
    current = {record.id for record in memory.current([named.record for named in records])}
    reasons = {}
    for named in records:
        if named.record.id not in current:
            reasons[named.record.id] = "superseded or expired"
    for named in records:
        if named.record.status is Status.RETIRED:
            reasons[named.record.id] = "archived"
    return reasons


def _agents_export(records: Sequence[_NamedRecord], outdated: Collection[str]) -> str:
    """Return the export as a page for AGENTS.md.

    Agents follow everything that such a page says, so outdated records are in it only as comments.
    """
    parts = ["# Memory\n"]
    for kind in MemoryKind:
        lines = []
        for named in records:
            if named.record.kind is kind and named.record.id not in outdated:
                lines.append(f"- {' '.join(named.record.text.split())} {_comment(named)}\n")
        if lines:
            parts.append(f"## {SECTIONS[kind]}\n\n{''.join(lines)}")
    for named in records:
        if named.record.id in outdated:
            parts.append(f"{_comment(named)}\n")
    return "\n".join(parts)


def _memory_index(records: Iterable[_NamedRecord], outdated: Collection[str]) -> str:
    """Return the MEMORY.md page, which lists the notes that still hold."""
    lines = ["# Memory\n"]
    for _, record in records:
        if record.id not in outdated:
            lines.append(f"- [{_title(record)}]({_note_name(record)})")
    return "\n".join([*lines, ""])


def _curated(library: Library) -> list[_NamedRecord]:
    """Return the records in the files that people curate."""
    records = []
    for name in CURATED:
        for stored in library.read(library.collection(name)):
            records.append(_NamedRecord(name, stored.record))
    return records


def _logged(root: Path) -> list[_NamedRecord]:
    """Return the observations and journal entries from the logs."""
    current = index.of(root)
    records = []
    for source in sources(root):
        if source.format is not Format.LOG or source.name == f"{paths.LOG}/knowledge.jsonl":
            continue
        for placed in current.read(source).records:
            if placed.record.family is not Family.MEMORY:
                records.append(_NamedRecord("", placed.record))
    return records


def _value(named: _NamedRecord) -> dict[str, Any]:
    """Return a record as a JSON object, whose member `in` names the collection."""
    value: dict[str, Any] = json.loads(encode_record(named.record))
    if named.collection:
        return {"in": named.collection, **value}
    return value


def _comment(named: _NamedRecord) -> str:
    """Return an HTML comment that contains a record, escaped so that it cannot end the comment."""
    text = json.dumps(_value(named), ensure_ascii=False)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<!-- ralph-record: {text} -->"


def _title(record: Record) -> str:
    return " ".join((record.title or record.text).split())[:_MAX_TITLE_CHARACTERS]


def _note_name(record: Record) -> str:
    return f"{ids.slug(record.id)}.md"


def _note(form: str, named: _NamedRecord, outdated: str) -> str:
    """Return a record as a note for another tool.

    `outdated` says why the record no longer holds, and is "" if it still does.
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
    return f"---\n{front_matter}---\n\n{body}\n\n{_comment(named)}\n"


def write_export(root: Path, form: str, target: Path, *, force: bool = False) -> int:
    """Write an export to a file or folder, and return the number of files written.

    Raises NotFound if the target's parent folder does not exist, and Refused if the target exists
    and `force` is not set.
    """
    _check_parent_folder(target)
    contents = export(root, form)
    if not force and target.exists() and (target.is_file() or any(target.iterdir())):
        raise Refused(
            f"{target} already exists",
            hint=Hint("force", "name another target, or use --force to overwrite it"),
        )
    for name, text in contents.items():
        files.write(target / name if name else target, text)
    return len(contents)


def _check_parent_folder(target: Path) -> None:
    if not target.parent.is_dir():
        raise NotFound(
            f"{target.parent}: no such folder", hint="create it first, or name another target"
        )


# --- import of an export -------------------------------------------------------------------------


def import_records(
    root: Path, path: Path, notes: list[str], *, really: bool, by: str = "human"
) -> Found:
    """Add the records in an export that the project does not have, keeping their ids.

    Records that contain a secret or that were forgotten are skipped. Without `really`, nothing is
    written. Raises Unreadable if `path` is not an export.
    """
    found = Found(str(path), "records")
    hidden = forgotten.load()
    library = Library(root)
    known = {named.record.id for named in [*_curated(library), *_logged(root)]}
    held_before = [held.text for held in quarantine.held(root)]
    logs: dict[str, SessionLog] = {}
    for name, record in _read_export(path, notes):
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
            if _add_record(root, library, _NamedRecord(name, record), logs):
                found.added += 1
        except RalphError as error:
            notes.append(f"{record.id}: skipped, {error.message}")
    for log in logs.values():
        log.finish()
    newly_held = len(quarantine.held(root)) - len(held_before)
    if newly_held:
        notes.append(
            f"{newly_held} of them read like instructions to an agent "
            "and wait for you in `ralph review`"
        )
    return found


def _reason_to_skip(collection: str, record: Record) -> str:
    """Return why a record must not be imported, or "" if it may be."""
    if find_secrets(f"{record.title}\n{record.text}"):
        return "it contains what looks like a secret"
    if record.family is Family.MEMORY and collection not in CURATED:
        return "it does not belong to any file"
    return ""


def _without_author(record: Record) -> Record:
    """Return a record with the import as its author, because an export could claim any author."""
    extra = {name: value for name, value in record.extra.items() if name != WHO}
    return replace(record, origin=replace(record.origin, by=quarantine.IMPORT), extra=extra)


def _read_export(path: Path, notes: list[str]) -> list[_NamedRecord]:
    """Return the records in an exported file or folder.

    Raises Unreadable if a file cannot be read, or if there are no records.
    """
    found: dict[tuple[str, str], _NamedRecord] = {}
    exported = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    for file in exported:
        for value in _exported_values(file):
            entries = parse_log(value).entries
            if not entries:
                quoted = value[:_MAX_QUOTED_CHARACTERS]
                notes.append(f"{file}: skipped {quoted!r}, which is not a record")
                continue
            named = _named_record(entries[0].record)
            found[named.collection, named.record.id] = named
    if not found:
        raise Unreadable(
            f"{path}: contains no records of Ralph",
            hint="`ralph import` without a file finds other stores",
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
    if values or f'"{_VERSION}"' not in text[:_VERSION_CHARACTERS]:
        return values
    try:
        return [json.dumps(value) for value in json.loads(text)["records"]]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise Unreadable(
            f"{path}: is not a complete export: {error}", hint="export it again"
        ) from error


def _named_record(record: Record) -> _NamedRecord:
    """Separate an exported record from the member `in`, which names its collection."""
    collection = ""
    if record.family is Family.MEMORY:
        collection = str(record.extra.get("in") or "")
    extra = {key: value for key, value in record.extra.items() if key != "in"}
    return _NamedRecord(collection, replace(record, extra=extra))


def _add_record(
    root: Path, library: Library, named: _NamedRecord, logs: dict[str, SessionLog]
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


def _hold(root: Path, named: _NamedRecord) -> None:
    """Put a suspicious memory into quarantine."""
    record = named.record
    held = quarantine.HeldMemory(
        "", "", record.text, named.collection, record.kind.value, record.title, "", record.tags
    )
    quarantine.hold_all(root, [replace(held, by=quarantine.IMPORT, via="an export")])


def _add_knowledge(root: Path, library: Library, record: Record) -> None:
    if "/" in record.id:
        raise Refused(f"{record.id!r} is not the name of a knowledge file")
    folder = library.knowledge.places[0]
    path = folder / f"{record.id.removeprefix('know-')}.md"
    files.write(path, render_knowledge(record), root=root, expect="")


def _add_memory(library: Library, named: _NamedRecord) -> bool:
    text = normalise_text(named.record.text)
    try:
        library.add(
            library.collection(named.collection),
            lambda _: named.record,
            unless=lambda other: normalise_text(other.text) == text,
        )
    except AlreadyThere:
        return False
    return True


# --- backup --------------------------------------------------------------------------------------


def backup(root: Path, target: Path) -> int:
    """Write a backup of all canonical files, and return the number of files.

    Raises Refused if the target exists, and NotFound if its parent folder does not.
    """
    if target.exists():
        raise Refused(f"{target} already exists", hint="name another file")
    _check_parent_folder(target)
    partial_target = target.with_name(f"{target.name}.part")
    files.delete(partial_target)
    digests: dict[str, str] = {}
    canonical = _canonical_files(root)
    with (
        os.fdopen(files.output(partial_target), "wb") as out,
        tarfile.open(fileobj=out, mode="w:gz") as archive,
    ):
        for name, path in canonical.items():
            with files.open_regular(path) as file:
                raw = file.read(_MAX_BACKUP_FILE_BYTES)
            digests[name] = hashlib.sha256(raw).hexdigest()
            _append(archive, name, raw)
        _append(archive, _MANIFEST, json.dumps({"ralph_backup": 1, "files": digests}).encode())
    files.move(partial_target, target)
    return len(digests)


def _canonical_files(root: Path) -> dict[str, Path]:
    """Return the files to back up, keyed by their names in the backup."""
    found = {}
    main = paths.main_checkout(root)
    for path in _project_paths(main):
        if _is_regular_file(path):
            found[f"project/{path.relative_to(main).as_posix()}"] = path
    log = paths.log_folder(root)
    for path in sorted(log.rglob("*")):
        if _is_regular_file(path):
            found[f"state/log/{path.relative_to(log).as_posix()}"] = path
    return found


def _project_paths(main: Path) -> Iterator[Path]:
    """Yield the paths in the project that Ralph cannot rebuild."""
    for folder in _PROJECT_FOLDERS:
        for path in sorted((main / folder).rglob("*")):
            name_in_folder = path.relative_to(main).parts[1]
            if not name_in_folder.startswith(_DERIVED):
                yield path
    for name in _PROJECT_FILES:
        yield main / name


def _is_regular_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _append(archive: tarfile.TarFile, name: str, raw: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(raw)
    member.mode = files.PRIVATE
    archive.addfile(member, io.BytesIO(raw))


# --- restore -------------------------------------------------------------------------------------


class RestoredFile(NamedTuple):
    """A file in a backup, with its path, its state, and how much of it is left out.

    The state is `new`, `same`, `replaced`, `forgotten` or LEFT.
    """

    path: Path
    state: str
    forgotten: int
    """The number of entries and lines that were forgotten since the backup."""


def restore(root: Path, source: Path, *, really: bool, by: str = "human") -> list[RestoredFile]:
    """Check a backup and, with `really`, write its files.

    Whatever was forgotten since the backup is left out. Files that are replaced are copied first.
    Raises Unreadable if the backup is damaged, and Refused if it contains a name that is not
    allowed. In both cases, nothing is written.
    """
    names = _check_backup(source)
    restored = _restore_files(root, source, names, really=False, by=by)
    if really:  # only reached if every file could be read
        restored = _restore_files(root, source, names, really=True, by=by)
        index.discard_all(root)
        index.sync(root)
    return restored


def _restore_files(
    root: Path, source: Path, names: Iterable[str], *, really: bool, by: str
) -> list[RestoredFile]:
    restored = []
    with tarfile.open(source, "r:gz") as archive:
        for name in names:
            raw = _member_bytes(archive, name)
            if name.endswith(paths.PACKED):
                try:
                    raw = files.unpack(raw)
                except OSError as error:
                    raise Unreadable(
                        f"{source}: {name} {error.strerror}", hint="nothing was written"
                    ) from error
            text = raw.decode("utf-8", "surrogateescape")
            restored.append(_restore_file(root, name, text, really=really, by=by))
    return restored


def _member_bytes(
    archive: tarfile.TarFile, member: str | tarfile.TarInfo, limit: int = -1
) -> bytes:
    file = archive.extractfile(member)
    if file is None:
        return b""
    return file.read(limit)


def _restore_file(root: Path, name: str, text: str, *, really: bool, by: str) -> RestoredFile:
    top, _, inner = name.partition("/")
    folder = paths.main_checkout(root) if top == "project" else paths.state_folder(root)
    path = folder / inner
    text, forgotten_count = without_forgotten(paths.main_checkout(root), path, text)
    state = _compare(files.read(path), text)
    if forgotten_count and not text.strip():
        return RestoredFile(path, "forgotten", forgotten_count)
    if state == "same":
        return RestoredFile(path, state, forgotten_count)
    if by != "human" and path == paths.accepted_texts(root):
        # Only a person may restore what a person accepted.
        return RestoredFile(path, LEFT, forgotten_count)
    if really:
        boundary = paths.write_boundary(path, root)
        if state == "replaced":
            memory.backup(path, boundary or root)
        mode = files.PRIVATE if top == "state" else None
        files.write(path, text, root=boundary, mode=mode)
    return RestoredFile(path, state, forgotten_count)


def _compare(present: str | None, restored: str) -> str:
    """Return the state of a file, given its present text and the text to restore."""
    if present is None:
        return "new"
    if present == restored:
        return "same"
    return "replaced"


def _check_backup(source: Path) -> list[str]:
    """Check all names and digests in a backup, and return the names.

    Raises Refused if a name is not allowed, and Unreadable if the backup is incomplete.
    """
    digests: dict[str, str] = {}
    expected: Mapping[str, str] | None = None
    try:
        with tarfile.open(source, "r:gz") as archive:
            for member in archive:
                if member.name == _MANIFEST:
                    raw = _member_bytes(archive, member, _MAX_BACKUP_FILE_BYTES)
                    expected = json.loads(raw)["files"]
                    continue
                if not member.isreg() or not _is_allowed_name(member.name):
                    raise Refused(
                        f"{source}: {member.name!r} is not a file of a backup",
                        hint="nothing was written",
                    )
                raw = _member_bytes(archive, member, _MAX_BACKUP_FILE_BYTES)
                digests[member.name] = hashlib.sha256(raw).hexdigest()
    except FileNotFoundError as error:
        raise Unreadable(
            f"{source}: no such file", hint="name a file that `ralph backup` wrote"
        ) from error
    except (
        OSError,
        EOFError,
        zlib.error,
        tarfile.TarError,
        ValueError,
        LookupError,
        TypeError,
    ) as error:
        raise Unreadable(
            f"{source}: is not a complete backup: {error}", hint="nothing was written"
        ) from error
    if digests != expected:
        raise Unreadable(
            f"{source}: does not match its own list of digests",
            hint="the backup is damaged; nothing was written",
        )
    return list(digests)


def _is_allowed_name(name: str) -> bool:
    """Return whether a name belongs to the files and folders that a backup may contain."""
    parts = PurePosixPath(name).parts
    if ".." in parts:
        return False
    if parts[:2] == ("state", "log"):
        return len(parts) > 2
    if parts[:1] == ("project",) and len(parts) > 1:
        return parts[1] in (*_PROJECT_FOLDERS, *_PROJECT_FILES)
    return False
