"""`ralph deinit`: remove what Ralph made in a project, its state and its entries in the project's agent settings.

The plan names every file and folder before anything goes. A file that Ralph did not make stays and is named, and so
does a `ralph.yml` with settings of another program. What git has committed stays in its history.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ralph.core import config, paths
from ralph.core.config_files import parse_yaml
from ralph.core.errors import Conflict, NotFound, RalphError, UsageError
from ralph.formats.pages import REGION_START
from ralph.install import project
from ralph.install.clients import InstallScope
from ralph.install.hook_state import find_installed
from ralph.install.hosts import FileEdit, InstallPlan, apply_plan, plan_uninstall
from ralph.install.merge_registration import repository_edits
from ralph.loop import runs
from ralph.storage import files
from ralph.tasks import worktree

_TREES = ("tasks", "features", "local", "log", "cache")
"""Folders in `.ralph` that are Ralph's with everything in them."""


class DeinitPlan(NamedTuple):
    """What goes: files, whole folders, folders that are empty then, and edits; `stays`: what does not, and why."""

    root: Path
    files: tuple[Path, ...]
    trees: tuple[Path, ...]
    edits: InstallPlan
    stays: tuple[tuple[Path, str], ...]

    @property
    def changes(self) -> list[tuple[Path, str]]:
        """Each path, and what happens to it."""
        counts = [(tree, sum(path.is_file() for path in tree.rglob("*"))) for tree in self.trees]
        trees = [(tree, f"removed with {count} file(s)") for tree, count in counts]
        edits = [(Path(path), what) for path, what in self.edits.changes]
        return [*((path, "removed") for path in self.files), *trees, *edits]


def plan_deinit(root: Path, env: Mapping[str, str]) -> DeinitPlan:
    """Return what would go; an error in a worktree, while a loop runs, and where worktrees of tasks are."""
    main = paths.main_checkout(root)
    if main != root:
        raise UsageError(f"{root}: is a worktree of {main}", hint=f"run `ralph deinit` in {main}")
    running = runs.living(root)
    trees = root / worktree.FOLDER
    if running:
        raise Conflict(
            f"{running[0].id} is running here", hint="`ralph loop stop` ends it after its iteration"
        )
    if trees.is_dir() and any(trees.iterdir()):
        hint = "`ralph task merge ID` or `ralph task drop ID` first: they may hold work that is not merged"
        raise Conflict(f"{trees}: there are worktrees of tasks", hint=hint)
    stays = list[tuple[Path, str]]()
    ours = {name.partition(".")[0] for name in config.BY_NAME}
    own = [path for path in _own_files(root) if os.path.lexists(path) and _is_inside(path, root)]
    for path in filter(os.path.lexists, (paths.config_file(root), paths.local_config_file(root))):
        try:
            foreign = [
                name
                for name in parse_yaml(files.read(path) or "", path.name).entries
                if name not in ours
            ]
            why = f"it has settings of another program: {', '.join(foreign)}" if foreign else ""
        except RalphError as error:
            why = f"it cannot be read: {error.message}"
        if why:
            stays.append((path, why))
        own += [] if why else [path]
    boundaries = (root, paths.state_boundary(root))
    folders = dict.fromkeys([*(paths.ralph_folder(root) / name for name in _TREES), _home(root)])
    there = [
        each
        for each in folders
        if each.is_dir() and any(_is_inside(each, top) for top in boundaries)
    ]
    gone = [each for each in there if not each.is_symlink()]
    own += [each for each in there if each.is_symlink()]
    if not (own or gone):
        raise NotFound(
            f"{root}: there is nothing of Ralph's",
            hint="run it in a project, or name one with --root",
        )
    stays += _foreign_files(root, {*own, *gone})
    installed = [each.target for each in find_installed(root, env) if each.target is not None]
    targets = [target for target in installed if target.scope is not InstallScope.USER]
    hosts = plan_uninstall(*targets) if targets else InstallPlan(())
    own_edits = (*_exclude_edit(root), *repository_edits(root, attributes=True))
    edits = InstallPlan((*hosts.edits, *own_edits), hosts.folders, hosts.notes)
    return DeinitPlan(root, tuple(own), tuple(gone), edits, tuple(stays))


def deinit(plan: DeinitPlan, env: Mapping[str, str]) -> None:
    """Remove what a plan names, the folders that are empty then, and what is trusted in this project."""
    apply_plan(plan.edits)
    for tree in plan.trees:
        files.remove_tree(tree)
    for path in plan.files:
        files.delete(path)
    ralph = paths.ralph_folder(plan.root)
    knowledge = paths.knowledge_folder(plan.root)
    empty = [ralph / "agent", knowledge, ralph, plan.root / ".agent", plan.root / worktree.FOLDER]
    empty += [
        paths.skills_folder(plan.root),
        paths.claude_folder(plan.root),
        _home(plan.root).parent,
    ]
    for folder in empty:
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            files.remove_folder(folder)
    project.revoke_trust(plan.root, env)


def _home(root: Path) -> Path:
    """Return the folder with the project's state of every machine."""
    return Path(paths.location(root).home)


def _own_files(root: Path) -> Iterator[Path]:
    """Yield the files that Ralph may have made outside of its folders, their backups, and what killed writers left."""
    ralph = paths.ralph_folder(root)
    written = [
        *paths.memories_files(root),
        paths.guardrails_files(root)[0],
        paths.global_patterns(root),
    ]
    for path in written:
        yield path
        yield from sorted(path.parent.glob(f"{path.name}.bak*"))
    yield from (paths.scratchpad(root), paths.gitignore(root), paths.index_link(root))
    yield from sorted((*ralph.glob("ralph.db-*"), *paths.knowledge_folder(root).glob("*.md*")))
    for folder in sorted({path.parent for path in written}):
        yield from (folder / files.LOCK_NAME, *files.leftovers(folder))


def _is_inside(path: Path, top: Path) -> bool:
    """Return whether a file or link is in a folder, whatever links lead there."""
    return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(top))


def _foreign_files(root: Path, gone: set[Path]) -> Iterator[tuple[Path, str]]:
    """Yield what stays in Ralph's folders, and the files of the project that Ralph has written into."""
    ralph = paths.ralph_folder(root)
    folders = (root / ".agent", ralph, ralph / "agent", paths.knowledge_folder(root))
    for folder in folders:
        if folder.is_symlink():
            yield folder, "it is a link"
        elif folder.is_dir():
            rest = sorted(
                path for path in folder.iterdir() if path not in gone and path not in folders
            )
            yield from ((path, "Ralph did not make it") for path in rest)
    for name in ("AGENTS.md", "CLAUDE.md"):
        if REGION_START in (files.read(root / name) or ""):
            yield (
                root / name,
                f"the lines from `{REGION_START}` on are yours since they were promoted",
            )


def _exclude_edit(root: Path) -> Iterator[FileEdit]:
    """Yield the change of git's list of what this clone ignores: without the lines that Ralph added."""
    names = [paths.local_config_file(root), root / worktree.FOLDER]
    names += [path.with_name(f"{path.name}.bak") for path in _own_files(root)]
    entries = [entry for name in names if (entry := paths.git_exclude(name)) is not None]
    if not entries:
        return
    path = entries[0][0]
    lines = {line for _, pattern in entries for line in (pattern, f"{pattern}*")}
    before = files.read(path)
    after = "".join(
        line
        for line in (before or "").splitlines(keepends=True)
        if line.rstrip("\r\n") not in lines
    )
    if before is not None and after != before:
        yield FileEdit(path, before, after, "without the lines of Ralph")
