"""Create a project's files (`ralph init`).

Only missing files are created. Nothing that exists is changed, except that skills of older loops
move to the folder where Claude Code finds them. Outside the project, only the note that
`ralph deinit` left in the user's state folder is removed.
"""

from __future__ import annotations

import os
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.formats.memories import GUARDRAILS, MEMORIES
from ralph.formats.patterns import patterns_template
from ralph.install import automatic_setup
from ralph.storage import files
from ralph.storage.config import hide_from_git, missing_exclusion, template
from ralph.storage.gitignore import GITIGNORE, SELF_IGNORING_GITIGNORE, missing_lines
from ralph.storage.library import Collection, check_folders


def init(root: Path) -> list[str]:
    """Create the missing files and folders, and return one line for each change."""
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
    automatic_setup.note_wanted(root)
    hidden = hide_from_git(paths.local_config_file(root), root)
    if hidden:
        changes.append(hidden)
    return changes


def plan_init(root: Path) -> list[str]:
    """Return the names of the files and folders that `init` would create or change."""
    main = paths.main_checkout(root)
    new_files = []
    for places, layout in (
        (paths.memories_files(root), MEMORIES),
        (paths.guardrails_files(root), GUARDRAILS),
    ):
        new_files.append(Collection(layout.title, root, places, layout).home)
    new_files += [paths.gitignore(root), paths.gitignore(main)]
    new_files += [paths.global_patterns(root), paths.config_file(root)]
    new_folders = [
        paths.knowledge_folder(root),
        paths.tasks_folder(root),
        paths.skills_folder(root),
    ]
    names = [paths.shown(path, root) for path in new_files if not os.path.lexists(path)]
    names += [f"{paths.shown(path, root)}/" for path in new_folders if not path.is_dir()]
    exclusion = missing_exclusion(paths.local_config_file(root))
    if exclusion is not None:
        names.append(paths.shown(exclusion.file, root))
    return list(dict.fromkeys(names))


def _create_gitignore(root: Path, main: Path) -> list[str]:
    changes = []
    ignore = paths.gitignore(root)
    if main == root and files.read(ignore) == SELF_IGNORING_GITIGNORE:
        files.write(ignore, GITIGNORE, root=root, expect=SELF_IGNORING_GITIGNORE)
        changes.append(f"made {paths.shown(ignore, root)} visible to git")
    changes += _create_file(root, ignore, GITIGNORE)
    if main != root:
        changes += _create_file(root, paths.gitignore(main), SELF_IGNORING_GITIGNORE, within=main)
    return changes


def _create_file(root: Path, path: Path, text: str, *, within: Path | None = None) -> list[str]:
    """Create a file unless it exists, and return the lines to report."""
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
