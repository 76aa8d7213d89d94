"""`ralph export`, `backup` and `restore`: take everything away, and bring it back unchanged.

Every format has the record itself beside the text for its readers (JSON, or an HTML comment), so that an import of it
gives the same records. A backup is a compressed tar of the canonical files with a digest of each at its end; a restore
checks all of them, and every name, before it writes anything.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Hint, NotFound, RalphError, Refused, Unreadable
from ralph.core.record import SECTIONS, Family, MemoryKind, Record, Status
from ralph.core.text import normalise_text
from ralph.formats.knowledge import render_knowledge, write_field
from ralph.formats.log import encode_record, parse_log, put_record
from ralph.learning.forget import without_forgotten
from ralph.memory import memory, quarantine
from ralph.privacy.privacy import find_secrets
from ralph.recall.json_shapes import WHO
from ralph.search import index
from ralph.sharing.imports import Found, SessionLog
from ralph.storage import files, forgotten
from ralph.storage.library import AlreadyThere, Library
from ralph.storage.sources import Format, sources

ONE_FILE = ("json", "markdown", "agents-md")
FOLDERS = ("claude-memory", "basic-memory")
FORMATS = (*ONE_FILE, *FOLDERS)
CURATED = ("memories", "guardrails", "patterns", "knowledge")
_VERSION = "ralph_export"
_COMMENT = re.compile(r"<!-- ralph-record: (\{.*?\}) -->")
_MANIFEST = "manifest.json"
LEFT = "left to a person:"
_PROJECT_FILES = ("ralph.yml", "ralph.local.yml", "guardrails.md", "progress.txt", ".ralph.toml")
_PROJECT_FOLDERS = (".agent", ".ralph")
_DERIVED = ("local", "cache", "ralph.db")
_LARGEST = 1 << 30  # bytes of one file in a backup


# --- export ---------------------------------------------------------------------------------------


def export(root: Path, form: str) -> dict[str, str]:
    """Return the files of an export by name; a format of one file has it under ""."""
    records = _curated(Library(root))
    if form == "json":
        values = [_value(name, record) for name, record in (*records, *_logged(root))]
        text = ",\n".join(json.dumps(value, ensure_ascii=False) for value in values)
        return {"": f'{{"{_VERSION}": 1, "records": [\n{text}\n]}}\n'}
    if form == "markdown":
        blocks = (
            f"## {_title(record)}\n\n{record.text}\n\n{_comment(name, record)}\n"
            for name, record in records
        )
        return {"": "\n".join(["# Memory\n", *blocks])}
    valid = {record.id for record in memory.current([record for _, record in records])}
    retired = {
        record.id: "superseded or expired" for _, record in records if record.id not in valid
    }
    retired |= {record.id: "archived" for _, record in records if record.status is Status.RETIRED}
    if form == "agents-md":  # agents follow whatever a file says: what is retired has no text here
        parts = ["# Memory\n"]
        for kind in MemoryKind:
            own = [
                (name, record)
                for name, record in records
                if record.kind is kind and record.id not in retired
            ]
            lines = [
                f"- {' '.join(record.text.split())} {_comment(name, record)}\n"
                for name, record in own
            ]
            if lines:
                parts.append(f"## {SECTIONS[kind]}\n\n{''.join(lines)}")
        parts += [f"{_comment(name, record)}\n" for name, record in records if record.id in retired]
        return {"": "\n".join(parts)}
    notes = {
        f"{ids.slug(record.id)}.md": _note(form, name, record, retired.get(record.id, ""))
        for name, record in records
    }
    if form == "claude-memory":
        lines = [
            f"- [{_title(record)}]({ids.slug(record.id)}.md)"
            for _, record in records
            if record.id not in retired
        ]
        notes["MEMORY.md"] = "\n".join(["# Memory\n", *lines, ""])
    return notes


def _curated(library: Library) -> list[tuple[str, Record]]:
    return [
        (name, stored.record)
        for name in CURATED
        for stored in library.read(library.collection(name))
    ]


def _logged(root: Path) -> list[tuple[str, Record]]:
    """Return observations and the journal."""
    current = index.of(root)
    logs = [
        each
        for each in sources(root)
        if each.format is Format.LOG and each.name != f"{paths.LOG}/knowledge.jsonl"
    ]
    records = (placed.record for source in logs for placed in current.read(source).records)
    return [("", record) for record in records if record.family is not Family.MEMORY]


def _value(name: str, record: Record) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(encode_record(record))
    return {"in": name, **value} if name else value


def _comment(name: str, record: Record) -> str:
    text = (
        json.dumps(_value(name, record), ensure_ascii=False)
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
    )
    return f"<!-- ralph-record: {text} -->"


def _title(record: Record) -> str:
    return " ".join((record.title or record.text).split())[:80]


def _note(form: str, name: str, record: Record, retired: str) -> str:
    title = _title(record)
    slug = ids.slug(record.id)
    if retired:
        title = f"({retired}) {title}"
    if form == "claude-memory":
        kind = "feedback" if record.kind is MemoryKind.FIX else "project"
        fields: dict[str, object] = {"name": slug, "description": title, "type": kind}
        body = f"({retired})\n\n{record.text}" if retired else record.text
    else:
        fields = {"title": title, "type": "note", "permalink": slug, "tags": list(record.tags)}
        line = " ".join(
            [f"[{record.kind.value}]", *record.text.split(), *(f"#{tag}" for tag in record.tags)]
        )
        body = f"# {title}\n\n## Observations\n\n- {line}"
    head = "".join(write_field(key, value) + "\n" for key, value in fields.items())
    return f"---\n{head}---\n\n{body}\n\n{_comment(name, record)}\n"


def write_export(root: Path, form: str, target: Path, *, force: bool = False) -> int:
    """Write an export; Refused over something that is there, unless by force. Return how many files."""
    _need_folder(target)
    made = export(root, form)
    if not force and target.exists() and (target.is_file() or any(target.iterdir())):
        raise Refused(
            f"{target}: is already there",
            hint=Hint("force", "name another one, or give --force to write over it"),
        )
    for name, text in made.items():
        files.write(target / name if name else target, text)
    return len(made)


def _need_folder(target: Path) -> None:
    if not target.parent.is_dir():
        raise NotFound(
            f"{target.parent}: there is no such folder", hint="make it first, or name another place"
        )


# --- import of an export --------------------------------------------------------------------------


def _read_export(path: Path, notes: list[str]) -> list[tuple[str, Record]]:
    """Return the records of an exported file or folder; Unreadable when there is none in it."""
    found: dict[tuple[str, str], Record] = {}
    for each in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
        if (text := files.read(each)) is None:
            raise Unreadable(
                f"{each}: there is no such file",
                hint="name a file or folder that `ralph export` wrote",
            )
        values: list[str] = _COMMENT.findall(text)
        if not values and f'"{_VERSION}"' in text[:100]:
            try:
                values = [json.dumps(value) for value in json.loads(text)["records"]]
            except (ValueError, LookupError, TypeError, RecursionError) as error:
                raise Unreadable(
                    f"{each}: is not a whole export: {error}", hint="export it again"
                ) from error
        for value in values:
            document = parse_log(value)
            if document.entries:
                record = document.entries[0].record
                name = str(record.extra.get("in") or "") if record.family is Family.MEMORY else ""
                extra = {key: member for key, member in record.extra.items() if key != "in"}
                found[name, record.id] = replace(record, extra=extra)
            else:
                notes.append(f"{each}: {value[:60]!r} is no record, left out")
    if not found:
        raise Unreadable(
            f"{path}: has no record of Ralph's",
            hint="`ralph import` without a file finds other stores",
        )
    return [(name, record) for (name, _), record in found.items()]


def import_records(
    root: Path, path: Path, notes: list[str], *, really: bool, by: str = "human"
) -> Found:
    """Add the records of an export that are not here, with their ids; secrets and what was forgotten are left out."""
    found = Found(str(path), "records")
    hidden = forgotten.load()
    library = Library(root)
    known = {record.id for _, record in [*_curated(library), *_logged(root)]}
    waiting = [each.text for each in quarantine.held(root)]
    logs: dict[str, SessionLog] = {}
    for name, record in _read_export(path, notes):
        found.count = found.count + 1
        found.bytes = found.bytes + len(record.text)
        if record.id in known or record.text in waiting or hidden.hides(record):
            continue
        if find_secrets(f"{record.title}\n{record.text}") or (
            record.family is Family.MEMORY and name not in CURATED
        ):
            notes.append(
                f"{record.id}: holds what looks like a secret, or belongs to no file, left out"
            )
            continue
        found.new += 1
        if by != "human" and record.family is Family.MEMORY:  # it may claim any author
            extra = {name: value for name, value in record.extra.items() if name != WHO}
            record = replace(
                record, origin=replace(record.origin, by=quarantine.IMPORT), extra=extra
            )
        if really:
            try:
                found.added += _add_record(root, library, name, record, logs)
            except RalphError as error:
                notes.append(f"{record.id}: {error.message}; left out")
    for log in logs.values():
        log.finish()
    if count := len(quarantine.held(root)) - len(waiting):
        notes.append(
            f"{count} of them read like instructions to an agent and wait for you in `ralph review`"
        )
    return found


def _add_record(
    root: Path, library: Library, name: str, record: Record, logs: dict[str, SessionLog]
) -> bool:
    if record.family is Family.OBSERVATION:
        session = record.origin.session
        if session not in logs:
            logs[session] = SessionLog(root, session, index.interpreter(root))
            logs[session].fields.update(
                {"id": session, "session_id": session, "host": record.origin.agent}
            )
        logs[session].add(record, "")
    elif record.family is Family.JOURNAL:
        log = paths.run_log(root, record.origin.run or "imported")
        files.update(
            log,
            lambda text: put_record(text, record),
            root=paths.state_boundary(root),
            mode=files.PRIVATE,
        )
    elif quarantine.is_suspicious(record):
        held = quarantine.HeldMemory(
            "", "", record.text, name, record.kind.value, record.title, "", record.tags
        )
        quarantine.hold_all(root, [replace(held, by=quarantine.IMPORT, via="an export")])
    elif name == "knowledge":
        folder = library.knowledge.places[0]
        if "/" in record.id:
            raise Refused(f"{record.id!r} is no name of a knowledge file")
        files.write(
            folder / f"{record.id.removeprefix('know-')}.md",
            render_knowledge(record),
            root=root,
            expect="",
        )
    else:
        collection = library.collection(name)
        same = normalise_text(record.text)
        try:
            library.add(
                collection,
                lambda _: record,
                unless=lambda other: normalise_text(other.text) == same,
            )
        except AlreadyThere:
            return False
    return True


# --- backup and restore ---------------------------------------------------------------------------


def backup(root: Path, target: Path) -> int:
    """Write a backup of everything canonical; return how many files are in it."""
    if target.exists():
        raise Refused(f"{target}: is already there", hint="name another file")
    _need_folder(target)
    part = target.with_name(f"{target.name}.part")
    digests = dict[str, str]()
    files.delete(part)
    main = paths.main_checkout(root)
    log = paths.log_folder(root)
    own = [path for top in _PROJECT_FOLDERS for path in sorted((main / top).rglob("*"))]
    own = [path for path in own if not path.relative_to(main).parts[1].startswith(_DERIVED)]
    own += [main / name for name in _PROJECT_FILES]
    names = [(f"project/{path.relative_to(main).as_posix()}", path) for path in own]
    names += [
        (f"state/log/{path.relative_to(log).as_posix()}", path) for path in sorted(log.rglob("*"))
    ]
    everything = [(name, path) for name, path in names if path.is_file() and not path.is_symlink()]
    with (
        os.fdopen(files.output(part), "wb") as out,
        tarfile.open(fileobj=out, mode="w:gz") as archive,
    ):
        for name, path in everything:
            with files.open_regular(path) as file:
                raw = file.read(_LARGEST)
            digests[name] = hashlib.sha256(raw).hexdigest()
            _append(archive, name, raw)
        _append(archive, _MANIFEST, json.dumps({"ralph_backup": 1, "files": digests}).encode())
    files.move(part, target)
    return len(digests)


def _append(archive: tarfile.TarFile, name: str, raw: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(raw)
    member.mode = files.PRIVATE
    archive.addfile(member, io.BytesIO(raw))


class RestoredFile(NamedTuple):
    """Where a file of a backup goes, whether it is `new`, `same`, `replaced`, `forgotten` or LEFT; what is left out."""

    path: Path
    state: str
    forgotten: int
    """Entries and lines that were forgotten since."""


def restore(root: Path, source: Path, *, really: bool, by: str = "human") -> list[RestoredFile]:
    """Check a backup, and with `really` write its files without what was forgotten; what they replace is copied."""
    names = _checked(source)
    restored = list[RestoredFile]()
    for is_written in (
        (False, True) if really else (False,)
    ):  # all are read before the first is written
        restored = []
        with tarfile.open(source, "r:gz") as archive:
            for name in names:
                file = archive.extractfile(name)
                raw = file.read() if file is not None else b""
                try:
                    text = files.unpack(raw) if name.endswith(paths.PACKED) else raw
                except OSError as error:
                    raise Unreadable(
                        f"{source}: {name} {error.strerror}", hint="nothing was written"
                    ) from error
                content = text.decode("utf-8", "surrogateescape")
                restored.append(_restore_file(root, name, content, really=is_written, by=by))
    if really:
        index.discard_all(root)
        index.sync(root)
    return restored


def _restore_file(root: Path, name: str, text: str, *, really: bool, by: str) -> RestoredFile:
    top, _, inner = name.partition("/")
    path = (paths.main_checkout(root) if top == "project" else paths.state_folder(root)) / inner
    text, count = without_forgotten(paths.main_checkout(root), path, text)
    present = files.read(path)
    state = "new" if present is None else "same" if present == text else "replaced"
    if count and not text.strip():
        return RestoredFile(path, "forgotten", count)
    if by != "human" and state != "same" and path == paths.accepted_texts(root):
        return RestoredFile(path, LEFT, count)  # only a person brings back what a person accepted
    if really and state != "same":
        boundary = paths.write_boundary(path, root)
        if state == "replaced":
            memory.backup(path, boundary or root)
        files.write(
            path, text, root=boundary, mode=files.PRIVATE if name.startswith("state/") else None
        )
    return RestoredFile(path, state, count)


def _checked(source: Path) -> list[str]:
    """Return the names in a backup; Refused for a name that leads elsewhere, Unreadable when it is not whole."""
    digests = dict[str, str]()
    expected = None
    try:
        with tarfile.open(source, "r:gz") as archive:
            for member in archive:
                parts = PurePosixPath(member.name).parts
                inner = parts[1:2] if parts[:1] == ("project",) else ()
                is_project = inner in {(each,) for each in (*_PROJECT_FOLDERS, *_PROJECT_FILES)}
                is_log = parts[:2] == ("state", "log") and len(parts) > 2
                if member.name != _MANIFEST and (
                    not member.isreg() or ".." in parts or not (is_project or is_log)
                ):
                    raise Refused(
                        f"{source}: {member.name!r} is no file of a backup",
                        hint="nothing was written",
                    )
                file = archive.extractfile(member)
                raw = file.read(_LARGEST) if file is not None else b""
                if member.name == _MANIFEST:
                    expected = json.loads(raw)["files"]
                else:
                    digests[member.name] = hashlib.sha256(raw).hexdigest()
    except FileNotFoundError as error:
        raise Unreadable(
            f"{source}: there is no such file", hint="name a file that `ralph backup` wrote"
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
            f"{source}: is not a whole backup: {error}", hint="nothing was written"
        ) from error
    if digests != expected:
        raise Unreadable(
            f"{source}: does not match its own list of digests",
            hint="it is damaged; nothing was written",
        )
    return list(digests)
