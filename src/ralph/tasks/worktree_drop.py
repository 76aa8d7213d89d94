"""Remove a task's worktree, after checking that no work is lost with it.

Uncommitted memory is never dropped. Other losses must be agreed to: a caller shows the user what
`losses` returns and passes it to `drop`, which refuses if there is more to lose by then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import NotFound, RalphError, Refused
from ralph.core.repository import Repository, first_line, join_names
from ralph.core.work import Task, ignore_text
from ralph.search import index
from ralph.storage import files, task_files
from ralph.tasks.worktree import (
    BRANCH_CREATOR,
    BRANCH_PREFIX,
    FOLDER,
    check_no_run_is_working,
    checkout_folder,
    registered_folders,
    repository_lock,
    uncommitted_files,
    without_branch_creator,
)

# The files and folders of curated memory, relative to the project.
_MEMORY_PATH = re.compile(
    r"""
    (
        \.agent
      | \.ralph/agent
      | \.ralph/guardrails\.md
      | \.ralph/knowledge
      | \.ralph/global-patterns\.md
      | guardrails\.md
    )
    (/.*)?  # anything below one of the folders
    """,
    re.DOTALL | re.VERBOSE,
)
# Ignored files that can be lost, because tools rebuild their caches and Ralph its own files.
_TOOL_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_RALPH_FOLDERS = (".ralph/cache/", ".ralph/local/", ".ralph/tasks/", ".ralph/ralph.db")
_RALPH_FILE_SUFFIXES = ("scratchpad.md", ".gitignore", ".ralph-lock", files.TEMP_SUFFIX)
_RALPH_STATE = (".ralph/", ".agent/")


@dataclass(frozen=True, slots=True)
class Losses:
    """Work that exists only in a worktree: uncommitted and ignored files, and unmerged commits."""

    uncommitted: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    unknown: str = ""  # why the losses cannot be determined

    def __bool__(self) -> bool:
        return bool(self.uncommitted or self.ignored or self.commits or self.unknown)

    @property
    def description(self) -> str:
        """The losses in words, on one line."""
        parts = []
        if self.uncommitted:
            parts.append(f"{len(self.uncommitted)} uncommitted: {join_names(self.uncommitted)}")
        if self.ignored:
            parts.append(f"{len(self.ignored)} that git ignores: {join_names(self.ignored)}")
        if self.commits:
            parts.append(f"{len(self.commits)} unmerged commits: {join_names(self.commits)}")
        if self.unknown:
            parts.append(self.unknown)
        return "; ".join(parts)


def find_losses(root: Path, task_id: str) -> Losses:
    """Return the work that would be lost if a task's worktree were dropped.

    Raises NotFound if the task has no worktree.
    """
    task = task_files.find_task(root, task_id).task
    main = Repository(paths.main_checkout(root))
    folder = checkout_folder(root, task_id)
    if not task.worktree and not folder.exists():
        raise NotFound(
            f"{task_id} has no worktree",
            hint=f"there is nothing to drop; `ralph task show {task_id}` shows the task",
        )
    if not folder.exists():
        return Losses(commits=_unmerged_commits(main, "", _branch_to_delete(main, task)))
    git = Repository(folder)
    top = git.top
    is_checkout = top is not None and os.path.realpath(top) == os.path.realpath(folder)
    head = git.commit("HEAD") if is_checkout else ""
    lost = Losses(commits=_unmerged_commits(main, head, _branch_to_delete(main, task)))
    if not is_checkout:
        return replace(
            lost, unknown=f"{FOLDER}/{task_id} is no longer a worktree of this repository"
        )
    try:
        return replace(lost, uncommitted=tuple(uncommitted_files(git)), ignored=_ignored(git))
    except RalphError as error:
        return replace(lost, unknown=error.message)


def _unmerged_commits(main: Repository, head: str, branch_to_delete: str) -> tuple[str, ...]:
    """Return the commits that are only on the worktree's HEAD or on the branch to delete."""
    tips = []
    exclusions = []
    if head:
        tips.append(head)
    if branch_to_delete:
        tips.append(f"refs/heads/{branch_to_delete}")
        exclusions.append(f"--exclude=refs/heads/{branch_to_delete}")
    if not tips:
        return ()
    others = (*exclusions, "--glob=refs/heads", "--remotes", "--tags")
    return tuple(
        main.output_or_empty("log", "--format=%h %s", *tips, "--not", *others).splitlines()
    )


def _branch_to_delete(main: Repository, task: Task) -> str:
    """Return the task's branch if Ralph created it and it still exists, otherwise ""."""
    if task.branch and task.extra.get(BRANCH_CREATOR) and main.is_branch(task.branch):
        return task.branch
    return ""


def _ignored(git: Repository) -> tuple[str, ...]:
    """Return the files that git ignores and that cannot be rebuilt."""
    status = git.names(
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignored=matching",
    )
    names = set()
    for line in status:
        name = line.removeprefix("!! ")
        if line.startswith("!! ") and not name.startswith(_RALPH_STATE):
            names.add(name)
    # `status` may list Ralph's folders as a whole, but only some of their files would be a loss.
    names.update(
        git.names(
            "ls-files",
            "-z",
            "--others",
            "--ignored",
            "--exclude-standard",
            "--",
            ".ralph",
            ".agent",
        )
    )
    return tuple(name for name in sorted(names) if not _can_be_rebuilt(name))


def _can_be_rebuilt(name: str) -> bool:
    """Return whether an ignored file is a tool's cache or a file that Ralph can recreate."""
    parts = name.rstrip("/").split("/")
    if not _TOOL_CACHES.isdisjoint(parts):
        return True
    if ".ralph" not in parts:
        return False
    if parts[-1].endswith(_RALPH_FILE_SUFFIXES):
        return True
    return any(folder in f"{name}/" for folder in _RALPH_FOLDERS)


def drop(
    root: Path,
    task_id: str,
    *,
    agreed: Losses | None = None,
    tell: Callable[[str], None] = ignore_text,
) -> Task:
    """Remove a task's worktree, and its branch if Ralph created it.

    Raises Refused if anything other than `agreed` would be lost, or if git refuses. Raises Conflict
    if a run is working on the task.
    """
    with repository_lock(root, f"dropping the worktree of {task_id}", tell=tell):
        task = task_files.find_task(root, task_id).task
        check_no_run_is_working(root, task)
        main = paths.main_checkout(root)
        files.target(main / FOLDER, main, folder=True)
        _check_losses(task_id, find_losses(root, task_id), agreed)
        git = Repository(main)
        folder = checkout_folder(root, task.id)
        name = paths.worktree_name(folder) if folder.exists() else ""
        _remove_worktree(git, folder)
        branch = _branch_to_delete(git, task)
        if branch:
            _delete_branch(git, branch)
        if name:
            index.remove_worktree_index(root, name)

        def edit(old: Task) -> Task:
            # A branch named in the PRD is kept, because the next worktree uses it again.
            branch = old.branch
            if old.extra.get(BRANCH_CREATOR) and branch == f"{BRANCH_PREFIX}{old.id}":
                branch = None
            return replace(old, worktree=None, branch=branch, extra=without_branch_creator(old))

        return task_files.change_task(root, task_id, edit)


def _check_losses(task_id: str, lost: Losses, agreed: Losses | None) -> None:
    """Raise Refused if uncommitted memory or anything not agreed to would be lost."""
    memory = [path for path in lost.uncommitted if _MEMORY_PATH.fullmatch(path)]
    if memory:
        raise Refused(
            f"the worktree of {task_id} has uncommitted memory: {join_names(memory)}",
            hint=f"commit it in {FOLDER}/{task_id} and run `ralph task merge {task_id}`, "
            "or undo it there with git",
        )
    if lost and lost != agreed:
        raise Refused(
            f"this would be lost with the worktree of {task_id}: {lost.description}",
            hint=f"run `ralph task merge {task_id}` first, or drop it anyway with --yes",
        )


def _remove_worktree(git: Repository, folder: Path) -> None:
    if folder.exists():
        git.tell("worktree", "repair", str(folder))
    elif os.path.realpath(folder) not in registered_folders(git):
        return
    result = git.tell("worktree", "remove", "--force", str(folder))
    if result.code != 0:
        raise Refused(
            f"git did not remove the worktree: {first_line(result)}", hint=f"look at {folder}"
        )


def _delete_branch(git: Repository, branch: str) -> None:
    result = git.tell("branch", "--quiet", "-D", branch)
    if result.code != 0:
        raise Refused(
            f"git did not delete {branch}: {first_line(result)}",
            hint="look at `git worktree list`",
        )
