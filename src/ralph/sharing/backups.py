"""Back up a project's memory and restore it (`ralph backup`, `ralph restore`).

A backup is a compressed tar file of the canonical files, which are those that Ralph cannot rebuild:

    project/.agent/memories.md
    project/.ralph/guardrails.md
    state/log/sessions/s1.jsonl
    manifest.json

The manifest, which is the last member, lists a digest of each file. A restore checks all digests
and names before it writes anything.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import Refused, Unreadable
from ralph.learning.forget import without_forgotten
from ralph.memory import memory_files
from ralph.search import index
from ralph.sharing.exports import check_parent_folder
from ralph.storage import files

LEFT = "left to a person:"  # the state of a file that only a person may restore
_MANIFEST = "manifest.json"
_PROJECT_FILES = ("ralph.yml", "ralph.local.yml", "guardrails.md", "progress.txt", ".ralph.toml")
_PROJECT_FOLDERS = (".agent", ".ralph")
_DERIVED = ("local", "cache", "ralph.db")  # how the names of files that Ralph can rebuild start
_MAX_BACKUP_FILE_BYTES = 1 << 30


def create_backup(root: Path, target: Path) -> int:
    """Write a backup of all canonical files, and return the number of files.

    Raises Refused if the target exists, and NotFound if its parent folder does not.
    """
    if target.exists():
        raise Refused(f"{target} already exists", hint="name another file")
    check_parent_folder(target)
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
        if _is_canonical(path):
            found[f"project/{path.relative_to(main).as_posix()}"] = path
    log = paths.log_folder(root)
    for path in sorted(log.rglob("*")):
        if _is_canonical(path):
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


def _is_canonical(path: Path) -> bool:
    """Return whether a path is a regular file, and not one that Ralph only works with."""
    is_temporary = path.name == files.LOCK_NAME or path.name.endswith(files.TEMP_SUFFIX)
    return path.is_file() and not path.is_symlink() and not is_temporary


def _append(archive: tarfile.TarFile, name: str, raw: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(raw)
    member.mode = files.PRIVATE
    archive.addfile(member, io.BytesIO(raw))


class RestoredFile(NamedTuple):
    """The result of restoring one file."""

    path: Path
    state: str  # new, same, replaced, forgotten or LEFT
    forgotten: int  # number of entries and lines that were forgotten since the backup


def restore_backup(
    root: Path, source: Path, *, really: bool, by: str = "human"
) -> list[RestoredFile]:
    """Check a backup and, with `really`, write its files.

    Whatever was forgotten since the backup is left out. Files that are replaced are copied first.
    Raises Unreadable if the backup is damaged, and Refused if it contains a name that is not
    allowed. In both cases, nothing is written.
    """
    names = _check_backup(source)
    # The first pass writes nothing. It raises an error if a file cannot be read or cleaned.
    restored = _restore_files(root, source, names, really=False, by=by)
    if really:
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
    if by != "human" and path == paths.kept_items(root):
        # Only a person may restore what a person let stay.
        return RestoredFile(path, LEFT, forgotten_count)
    if really:
        boundary = paths.write_boundary(path, root)
        if state == "replaced":
            memory_files.backup(path, boundary or root)
        mode = files.PRIVATE if top == "state" else None
        files.write(path, text, root=boundary, mode=mode)
    return RestoredFile(path, state, forgotten_count)


def _compare(present: str | None, restored: str) -> str:
    """Return the state of a file whose text `present` is to become `restored`."""
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
            f"{source}: is not a complete backup: {error}",
            hint="nothing was written; name a file that `ralph backup` wrote",
        ) from error
    if digests != expected:
        raise Unreadable(
            f"{source}: does not match its own list of digests",
            hint="the backup is damaged; nothing was written",
        )
    return list(digests)


def _is_allowed_name(name: str) -> bool:
    """Return whether a backup may contain a file with this name."""
    parts = PurePosixPath(name).parts
    if ".." in parts:
        return False
    if parts[:2] == ("state", "log"):
        return len(parts) > 2
    if parts[:1] == ("project",) and len(parts) > 1:
        return parts[1] in (*_PROJECT_FOLDERS, *_PROJECT_FILES)
    return False
