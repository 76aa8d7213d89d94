"""Remove everything that Ralph created in a project, for `ralph deinit`.

This includes Ralph's state, and its entries in the project's agent settings. The plan lists every
file and folder before anything is removed. Files that Ralph did not create are kept and listed, and
so is a `ralph.yml` that contains another program's settings. Git's history keeps what was
committed.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ralph.core import config, paths
from ralph.core.config_files import parse_yaml
from ralph.core.errors import Conflict, NotFound, RalphError, UsageError
from ralph.formats.regions import REGION_START
from ralph.install import automatic_setup
from ralph.install.clients import InstallScope
from ralph.install.hook_state import find_installed
from ralph.install.host_edits import FileEdit, Step, Verb
from ralph.install.hosts import InstallPlan, apply_plan, plan_uninstall
from ralph.install.merge_registration import repository_edits
from ralph.loop import runs
from ralph.storage import files, trust_records
from ralph.tasks import worktree

_OWNED_FOLDERS = ("tasks", "features", "local", "log", "cache")
"""Folders in `.ralph` that belong to Ralph, including everything in them."""


class DeinitPlan(NamedTuple):
    """The files, whole folders (`trees`) and entries in other files to remove.

    `stays` lists the files that are kept, with the reasons.
    """

    root: Path
    files: tuple[Path, ...]
    trees: tuple[Path, ...]
    edits: InstallPlan
    stays: tuple[tuple[Path, str], ...]

    def describe(self, *, preview: bool) -> list[tuple[Path, str]]:
        """Return the affected paths, each with what would happen to it, or will have happened."""
        removed = "would be removed" if preview else "removed"
        changes = [(path, removed) for path in self.files]
        for tree in self.trees:
            count = sum(1 for path in tree.rglob("*") if path.is_file())
            changes.append((tree, f"{removed} with {count} file(s)"))
        for edit in self.edits.edits:
            if edit.after is None:
                changes.append((edit.path, removed))
            else:
                changes.append((edit.path, edit.preview if preview else edit.done))
        for folder in self.edits.folders:
            changes.append((folder, f"{removed} (empty)"))
        return changes


def plan_deinit(root: Path, env: Mapping[str, str]) -> DeinitPlan:
    """Plan what to remove from a project.

    Raises UsageError in a worktree, Conflict while a loop is running or a task has a worktree, and
    NotFound if Ralph created nothing here.
    """
    _check_removable(root)
    removed_files = []
    for path in _created_files(root):
        if os.path.lexists(path) and _is_inside(path, root):
            removed_files.append(path)
    stays: list[tuple[Path, str]] = []
    for path in (paths.config_file(root), paths.local_config_file(root)):
        if not os.path.lexists(path):
            continue
        reason = _reason_to_keep(path)
        if reason:
            stays.append((path, reason))
        else:
            removed_files.append(path)
    trees = []
    for folder in _owned_folders(root):
        if folder.is_symlink():
            removed_files.append(folder)  # only the link is removed, not its target
        else:
            trees.append(folder)
    if not removed_files and not trees:
        raise NotFound(
            f"{root}: nothing here was created by Ralph",
            hint="run it in a project, or name one with --root",
        )
    stays += _remaining_files(root, {*removed_files, *trees})
    edits = _plan_edits(root, env)
    return DeinitPlan(root, tuple(removed_files), tuple(trees), edits, tuple(stays))


def deinit(plan: DeinitPlan, env: Mapping[str, str]) -> None:
    """Apply a plan, remove the folders that are left empty, and revoke all trust.

    Hooks leave a repository alone afterwards, even with `init.auto`.
    """
    apply_plan(plan.edits)
    for tree in plan.trees:
        files.remove_tree(tree)
    for path in plan.files:
        files.delete(path)
    ralph = paths.ralph_folder(plan.root)
    possibly_empty = (
        ralph / "agent",
        paths.knowledge_folder(plan.root),
        ralph,
        plan.root / ".agent",
        plan.root / worktree.FOLDER,
        paths.skills_folder(plan.root),
        paths.claude_folder(plan.root),
        _project_state(plan.root).parent,
    )
    for folder in possibly_empty:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            files.remove_folder(folder)
    trust_records.revoke_trust(plan.root, env)
    if paths.location(plan.root).common:
        automatic_setup.note_removed(plan.root)


def _check_removable(root: Path) -> None:
    """Raise UsageError in a worktree, or Conflict if a loop is running or a task has a worktree."""
    main = paths.main_checkout(root)
    if main != root:
        raise UsageError(f"{root} is a worktree of {main}", hint=f"run `ralph deinit` in {main}")
    running = runs.list_alive(root)
    if running:
        raise Conflict(
            f"{running[0].id} is running here",
            hint="`ralph loop stop` ends it after its current iteration",
        )
    worktrees = root / worktree.FOLDER
    if worktrees.is_dir() and any(worktrees.iterdir()):
        raise Conflict(
            f"{worktrees} contains worktrees of tasks, which may hold unmerged work",
            hint="run `ralph task merge ID` or `ralph task drop ID` for each first",
        )


def _reason_to_keep(config_file: Path) -> str:
    """Return why a config file must be kept, or "" if all its settings are ours."""
    our_sections = {name.partition(".")[0] for name in config.BY_NAME}
    try:
        entries = parse_yaml(files.read(config_file) or "", config_file.name).entries
    except RalphError as error:
        return f"it cannot be read: {error.message}"
    foreign = [name for name in entries if name not in our_sections]
    if foreign:
        return f"it has settings of another program: {', '.join(foreign)}"
    return ""


def _created_files(root: Path) -> Iterator[Path]:
    """Yield the files that Ralph may have created outside the folders that it owns.

    These are its own files, their backups, and what killed processes left behind.
    """
    ralph = paths.ralph_folder(root)
    written = [
        *paths.memories_files(root),
        paths.guardrails_files(root)[0],
        paths.global_patterns(root),
    ]
    for path in written:
        yield path
        yield from sorted(path.parent.glob(f"{path.name}.bak*"))
    yield paths.scratchpad(root)
    yield paths.gitignore(root)
    yield paths.index_link(root)
    yield from sorted((*ralph.glob("ralph.db-*"), *paths.knowledge_folder(root).glob("*.md*")))
    for folder in sorted({path.parent for path in written}):
        yield folder / files.LOCK_NAME
        yield from files.leftovers(folder)


def _owned_folders(root: Path) -> Iterator[Path]:
    """Yield the existing folders that belong to Ralph, including everything in them."""
    boundaries = (root, paths.state_boundary(root))
    candidates = [paths.ralph_folder(root) / name for name in _OWNED_FOLDERS]
    candidates.append(_project_state(root))
    for folder in dict.fromkeys(candidates):
        if folder.is_dir() and any(_is_inside(folder, top) for top in boundaries):
            yield folder


def _project_state(root: Path) -> Path:
    """Return the folder with the project's state on all machines."""
    return Path(paths.location(root).home)


def _is_inside(path: Path, top: Path) -> bool:
    """Return whether a file or link is inside a folder, after resolving the links in its path."""
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(top))


def _remaining_files(root: Path, removed: Collection[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the files that are kept in Ralph's folders, and project files that Ralph has edited."""
    ralph = paths.ralph_folder(root)
    folders = (root / ".agent", ralph, ralph / "agent", paths.knowledge_folder(root))
    for folder in folders:
        if folder.is_symlink():
            yield folder, "it is a symbolic link"
        elif folder.is_dir():
            for path in sorted(folder.iterdir()):
                if path not in removed and path not in folders:
                    yield path, "Ralph did not create it"
    for name in ("AGENTS.md", "CLAUDE.md"):
        if REGION_START in (files.read(root / name) or ""):
            reason = f"the promoted lines after `{REGION_START}` are yours"
            yield root / name, reason


def _plan_edits(root: Path, env: Mapping[str, str]) -> InstallPlan:
    """Plan the changes to files that are not ours: agent settings and git's files."""
    targets = []
    for installed in find_installed(root, env):
        target = installed.target
        if target is not None and target.scope is not InstallScope.USER:
            targets.append(target)
    hosts = InstallPlan(())
    if targets:
        hosts = plan_uninstall(*targets)
    git_edits = (*_exclude_edit(root), *repository_edits(root, attributes=True))
    return InstallPlan((*hosts.edits, *git_edits), hosts.folders, notes=hosts.notes)


def _exclude_edit(root: Path) -> Iterator[FileEdit]:
    """Yield the edit that removes our lines from the clone's own ignore list (`info/exclude`)."""
    ignored = [paths.local_config_file(root), root / worktree.FOLDER]
    for path in _created_files(root):
        ignored.append(path.with_name(f"{path.name}.bak"))
    exclude_file = None
    our_lines = set()
    for path in ignored:
        entry = paths.git_exclude(path)
        if entry is None:
            continue
        file, pattern = entry
        exclude_file = exclude_file or file
        our_lines |= {pattern, f"{pattern}*"}
    if exclude_file is None:
        return
    before = files.read(exclude_file)
    if before is None:
        return
    lines = before.splitlines(keepends=True)
    after = "".join(line for line in lines if line.rstrip("\r\n") not in our_lines)
    if after != before:
        yield FileEdit(exclude_file, before, after, (Step(Verb.REMOVE, "Ralph's lines"),))
