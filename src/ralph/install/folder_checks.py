"""Check folders, links and permissions, and find files in the wrong place.

A second store is a guardrails.md or memories.md that a command created in a subfolder. A leftover
is the temporary file of a process that was killed while writing.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.install.check_limits import UNLIMITED, TimeLimit, walk_folders, walk_within
from ralph.install.findings import Finding, new_finding
from ralph.search import index
from ralph.storage import files
from ralph.storage.gitignore import missing_lines
from ralph.tasks import worktree

_SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        "node_modules",
        ".venv",
        "venv",
        ".worktrees",
        "__pycache__",
        "target",
        "dist",
        "build",
        ".tox",
    }
)
"""Names of folders that are not searched for second stores."""
_STORE_FILES = ("guardrails.md", "memories.md")
_OTHERS_PERMISSIONS = stat.S_IRWXG | stat.S_IRWXO


def check_folders(root: Path) -> Iterator[Finding]:
    """Report problems with folders, links, task worktrees, and what git tracks or ignores."""
    for folder in sorted({path.parent for path in paths.curated_files(root)}):
        if folder.exists() and not folder.is_dir():
            hint = "move it away, then run `ralph init`"
            yield new_finding(
                folder, "is a file but must be a folder", hint=hint, level="error", code="no-folder"
            )
    yield from _check_worktrees(root)
    yield from _check_git_files(root)
    yield from _check_folder_links(root)
    yield from _check_file_links(root)


def _check_worktrees(root: Path) -> Iterator[Finding]:
    worktrees = paths.main_checkout(root) / worktree.FOLDER
    for problem in worktree.find_problems(root):
        yield new_finding(
            worktrees, problem.what, hint=problem.hint, level="warning", code="worktree"
        )
    for stale in index.stale_indexes(root):
        what = "is the index of a worktree that no longer exists"
        hint = "run `ralph forget --old-logs --yes` to remove it"
        yield new_finding(stale.path, what, hint=hint, level="note", code="worktree-index")


def _check_git_files(root: Path) -> Iterator[Finding]:
    """Report this machine's files if git tracks them or does not ignore them."""
    missing = missing_lines(root)
    if missing:
        what = f"git does not ignore {', '.join(missing)}: this machine's data could be committed"
        hint = "add these lines to the file"
        yield new_finding(
            paths.gitignore(root), what, hint=hint, level="warning", code="not-ignored"
        )
    if paths.has_old_state(root):  # these logs are neither read nor moved
        what = "came with the repository; Ralph does not read it"
        hint = (
            "run `git rm -r --cached` on it, or delete it; "
            "`ralph status` prints the folder of this machine's logs"
        )
        yield new_finding(
            paths.old_state(root)[0], what, hint=hint, level="warning", code="tracked-state"
        )


def _check_folder_links(root: Path) -> Iterator[Finding]:
    """Find folders that are symbolic links to somewhere outside the project."""
    main = paths.main_checkout(root)
    boundary = paths.state_boundary(root)
    boundaries = {
        paths.ralph_folder(root): root,
        root / ".agent": root,
        paths.ralph_folder(main): main,
        paths.log_folder(root): boundary,
        paths.index_file(root): boundary,
    }
    for folder, top in boundaries.items():
        if folder.is_symlink() and not _is_below(folder, top):
            what = f"is a symbolic link to {folder.readlink()}, outside the project"
            hint = "hooks record nothing through it; replace it with a folder in the project"
            yield new_finding(folder, what, hint=hint, level="error", code="bad-link")


def _check_file_links(root: Path) -> Iterator[Finding]:
    for path in paths.curated_files(root):
        if not path.is_symlink():
            continue
        try:
            files.target(path, root)
        except RalphError as error:
            what = error.message.partition(": ")[2]
            yield new_finding(path, what, hint=error.hint, level="error", code="bad-link")
        else:
            what = f"is a symbolic link to {path.readlink()}"
            hint = "a git merge may replace it with its text; a regular file is safer"
            yield new_finding(path, what, hint=hint, level="note", code="link")


def find_leftovers(root: Path) -> list[Finding]:
    """Find temporary files left behind by processes that were killed while writing."""
    what = "is a leftover of a process that was killed while writing"
    hint = "run `ralph doctor --fix` to remove it"
    findings = []
    for folder in paths.written_folders(root):
        for path in files.leftovers(folder):
            if _is_inside(path, root):
                findings.append(
                    new_finding(path, what, hint=hint, level="warning", code="leftover")
                )
    return findings


def find_shared_files(root: Path) -> list[Finding]:
    """Find files and folders in this machine's state that other users can access."""
    state = paths.state_folder(root)
    names = [os.fspath(state)]
    for folder in walk_folders(state):
        for name in (*folder.subfolders, *folder.files):
            names.append(f"{folder.path}{os.sep}{name}")
    hint = "run `ralph doctor --fix` to restrict it to its owner"
    findings: list[Finding] = []
    if sys.platform == "win32":
        return findings  # files have no modes there; the user's folder protects them
    for name in sorted(names):
        try:
            mode = os.lstat(name).st_mode
        except OSError:
            continue  # deleted in the meantime
        is_shared = bool(mode & _OTHERS_PERMISSIONS)
        has_own_mode = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
        if is_shared and has_own_mode and _is_inside(Path(name), root):
            what = f"is accessible to other users (mode {stat.S_IMODE(mode):o})"
            findings.append(
                new_finding(Path(name), what, hint=hint, level="warning", code="permissions")
            )
    return findings


def _is_inside(path: Path, root: Path) -> bool:
    """Return whether a file is in the project. Link targets outside it are not repaired."""
    tops = (root, paths.main_checkout(root), paths.state_boundary(root))
    return any(_is_below(path, top) for top in tops)


def _is_below(path: Path, top: Path) -> bool:
    """Return whether a path is in a folder, after resolving all links."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(top))


def find_second_stores(root: Path, limit: TimeLimit = UNLIMITED) -> Iterator[Finding]:
    """Find stores that a command created in a subfolder, where the project ignores them."""
    project_folders = {path.parent for path in paths.curated_files(root)} | {root}
    skipped = {
        paths.claude_folder(root) / "worktrees",
        paths.log_folder(root),
        paths.cache_folder(root),
    }
    for walked in walk_within(root, limit):
        if isinstance(walked, Finding):
            yield walked
            continue
        folder = Path(walked.path)
        names = (*walked.subfolders, *walked.files)
        project_markers = {".git", paths.config_file(folder).name}
        if folder != root and not project_markers.isdisjoint(names):
            # A repository, a worktree or a package is a project of its own.
            walked.subfolders.clear()
            continue
        walked.subfolders[:] = [
            name
            for name in walked.subfolders
            if name not in _SKIPPED_FOLDERS and folder / name not in skipped
        ]
        if folder in project_folders or not paths.is_store(folder):
            continue
        for name in _STORE_FILES:
            if name in walked.files:
                what = "is a second store, which is not read from the project's root"
                hint = f"move its entries into the project's own {name}, then delete it"
                yield new_finding(
                    folder / name, what, hint=hint, level="warning", code="second-store"
                )
