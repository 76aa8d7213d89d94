"""Create a project's files, and manage trust, older file formats and the scratchpad.

`init` creates what is missing. It changes nothing that exists, and nothing outside the project. If
a project's config names a program or an address, it is used only after the user has approved
exactly that value in exactly that folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Refused
from ralph.core.record import MemoryKind, Record
from ralph.core.repository import Repository
from ralph.formats.memories import GUARDRAILS, MEMORIES, is_sign, parse_memories
from ralph.formats.pages import patterns_template
from ralph.memory.memory import backup, new_id
from ralph.privacy.privacy import clean_memory, clean_tags
from ralph.storage import files
from ralph.storage.config import hide_from_git, template
from ralph.storage.files import GITIGNORE, UNTIL_INIT, missing_lines
from ralph.storage.library import Collection, Library, check_folders

# --- ralph init ---------------------------------------------------------------------------------


def init(root: Path) -> list[str]:
    """Create what is missing in a project, and return one line for each change."""
    main = paths.main_checkout(root)
    curated = ((paths.memories_files(root), MEMORIES), (paths.guardrails_files(root), GUARDRAILS))
    changes = []
    for places, layout in curated:  # a worktree gets its own files
        file = Collection(layout.title, root, places, layout).home
        changes += _create_file(root, file, layout.template())
    changes += _create_gitignore(root, main)
    changes += _create_file(root, paths.global_patterns(root), patterns_template())
    changes += _create_file(root, paths.config_file(root), template())
    for folder, top in ((paths.knowledge_folder(root), root), (paths.tasks_folder(root), main)):
        if files.make_folder(folder, root=top):
            changes.append(f"created {paths.shown(folder, root)}/")
    missing = missing_lines(root)
    if missing:
        ignore = paths.shown(paths.gitignore(root), root)
        changes.append(
            f"kept {ignore}: git does not ignore {', '.join(missing)}; add these lines to it"
        )
    try:
        changes += _move_skills(root)
    except Refused as error:
        changes.append(f"skipped the skills: {error.message}")
    hidden = hide_from_git(paths.local_config_file(root), root)
    if hidden:
        changes.append(hidden)
    return changes


def _create_gitignore(root: Path, main: Path) -> list[str]:
    changes = []
    ignore = paths.gitignore(root)
    if main == root and files.read(ignore) == UNTIL_INIT:
        files.write(ignore, GITIGNORE, root=root, expect=UNTIL_INIT)
        changes.append(f"made {paths.shown(ignore, root)} visible to git")
    changes += _create_file(root, ignore, GITIGNORE)
    if main != root:
        changes += _create_file(root, paths.gitignore(main), UNTIL_INIT, within=main)
    return changes


def _create_file(root: Path, path: Path, text: str, *, within: Path | None = None) -> list[str]:
    """Create a file unless it exists, and return what was done."""
    check_folders(path, root)
    name = paths.shown(path, root)
    if path.is_symlink() and not path.exists():
        return [
            f"skipped {name}: a symbolic link to {path.readlink()}, which does not exist; "
            "restore the target or remove the link, and run again"
        ]
    if path.exists():
        return []
    files.write(path, text, root=within or root, expect="")
    return [f"created {name}"]


def _move_skills(root: Path) -> list[str]:
    """Create the folder where Claude Code finds skills, and move those of older loops there."""
    old_folder = paths.old_skills_folder(root)
    new_folder = paths.skills_folder(root)
    changes = []
    if files.make_folder(new_folder, root=root):
        changes.append(f"created {paths.shown(new_folder, root)}/")
    if not old_folder.is_dir() or old_folder.is_symlink():
        return changes
    for skill in sorted(old_folder.iterdir()):
        target = new_folder / skill.name
        source_name = paths.shown(skill, root)
        target_name = paths.shown(target, root)
        if target.exists() or target.is_symlink():
            changes.append(f"skipped {source_name}: {target_name} exists; merge them by hand")
        else:
            files.move(skill, target, root=root)
            changes.append(f"moved {source_name} to {target_name}")
    if not any(old_folder.iterdir()):
        files.remove_folder(old_folder)
    return changes


# --- state from earlier versions ----------------------------------------------------------------


def move_old_state(root: Path) -> list[str]:
    """Move logs and caches from earlier versions out of the work tree, and return a note.

    It is impossible to tell whether they came with an archive. The logs are therefore treated as
    another machine's until `ralph trust` accepts them.
    """
    log_folder, cache_folder, index = paths.old_state(root)
    if not paths.has_old_state(root) or _is_old_state_tracked(root):
        return []
    state = paths.state_folder(root).with_name("earlier")
    has_index = index.exists() and not index.is_symlink()
    is_moved = has_index
    with files.lock(index):
        if not index.is_symlink():
            for path in (index, *index.parent.glob("ralph.db-*")):
                files.delete(path)
        for folder in (log_folder, cache_folder):
            if folder.is_dir() and not folder.is_symlink():
                moved = _move_contents(folder, state / folder.name, paths.mcp_status_file(root))
                is_moved = is_moved or moved
    if not is_moved:
        return []
    old_name = paths.shown(log_folder.parent, root)
    new_name = paths.shown(state, root)
    return [f"moved logs and caches from {old_name} to {new_name}; `ralph trust` accepts the logs"]


def _is_old_state_tracked(root: Path) -> bool:
    """Return whether git tracks old state, which came with the repository and is never read."""
    names = (".ralph/log", ".ralph/cache", ".ralph/ralph.db")
    return bool(Repository(paths.main_checkout(root)).answer("ls-files", "--", *names))


def _move_contents(folder: Path, target: Path, kept: Path) -> bool:
    """Move all files except `kept`, remove empty folders, and return whether a file was moved."""
    is_moved = False
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                files.remove_folder(path)
        elif path != kept:
            _move_log(path, target / path.relative_to(folder))
            is_moved = True
    return is_moved


def _move_log(path: Path, target: Path) -> None:
    """Move a file. If the target exists, the lines of an old log are put before the target's."""
    if not target.exists():
        files.make_folder(target.parent, 0o700)
        files.move(path, target)
        return
    if path.name.endswith(paths.LOG_SUFFIXES):
        old_lines = files.read(path) or ""
        files.update(target, lambda text: old_lines + text)
    files.delete(path)


# --- legacy Signs -------------------------------------------------------------------------------


def guardrail_formats(root: Path) -> list[tuple[Path, str]]:
    """Return each possible guardrails file with its format.

    The format is none (no file), empty, structured, legacy or mixed.
    """
    collection = Library(root).guardrails
    formats = []
    for path in collection.places:
        text = files.read(path)
        if text is None:
            formats.append((path, "none"))
        else:
            formats.append((path, parse_memories(text, collection.layout).format))
    return formats


class SignMigration(NamedTuple):
    """A file whose Signs were converted to entries, with their number and the file's backup.

    `kept` has the lines of the Signs that were not converted, with the reasons.
    """

    path: Path
    signs: int
    backup: Path | None
    private_parts: int
    kept: list[tuple[int, str]]


def migrate_signs(
    root: Path, *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> list[SignMigration]:
    """Convert legacy Signs to entries of type fix, keeping a backup of each changed file.

    A Sign that contains a secret is not converted unless `allow_secret` is set.
    """
    library = Library(root)
    migrations = []
    for path, _ in library.documents(library.guardrails):
        migration = _migrate_file(
            path, library.guardrails, allow_secret=allow_secret, patterns=patterns
        )
        if migration.signs or migration.kept:
            migrations.append(migration)
    return migrations


def _migrate_file(
    path: Path, collection: Collection, *, allow_secret: bool, patterns: Sequence[str]
) -> SignMigration:
    text = files.read(path) or ""
    document = parse_memories(text, collection.layout)
    sign_ids = []
    fixes = []
    kept = []
    private_parts = 0
    for entry in document.entries:
        sign = entry.record
        if not is_sign(sign):
            continue
        content = f"{sign.title}\n{sign.text}".strip("\n").replace("\r", "")
        try:
            clean_text, parts = clean_memory(
                content, sign.tags, allow_secret=allow_secret, patterns=patterns
            )
        except Refused as error:
            kept.append((entry.line, str(error).replace("\n  ", "; ")))
            continue
        private_parts += parts
        sign_ids.append(sign.id)
        fixes.append(_as_fix(sign, clean_text))
    if not fixes:
        return SignMigration(path, 0, None, private_parts, kept)
    for sign_id in reversed(sign_ids):  # Signs with the same name are numbered from the top
        document = document.remove(sign_id)
    for fix in fixes:
        existing = [entry.record for entry in document.entries]
        fix_id = new_id(collection, MemoryKind.FIX, existing)
        document = document.add(replace(fix, id=fix_id))
    copy = backup(path, collection.root, text)
    files.write(path, str(document), root=collection.root, expect=text)
    return SignMigration(path, len(fixes), copy, private_parts, kept)


def _as_fix(sign: Record, text: str) -> Record:
    return replace(
        sign,
        kind=MemoryKind.FIX,
        text=text,
        label=MemoryKind.FIX.value,
        title="",
        tags=clean_tags(sign.tags),
        created_at=sign.created_at or ids.today(),
    )
