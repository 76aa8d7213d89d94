"""Find, check, create and repair the worktrees of tasks.

A task's worktree is a checkout in `.worktrees/<id>/`, by default on the branch `ralph/<id>`. If
somebody has moved or deleted it, the problem is reported together with the command that repairs it.
`worktree_merge.py` merges the branch of a worktree, and `worktree_drop.py` removes a worktree. A
lock ensures that only one process at a time does any of this.

The project may be a subfolder of its repository. The checkout always contains the whole repository,
so there are two folders. For a project in `shop/` and the task t-1, `checkout_folder` is
`.worktrees/t-1`, and `working_folder` is `.worktrees/t-1/shop`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Conflict, RalphError, Refused, Unreadable
from ralph.core.repository import Repository, first_line, is_git_installed, no_repository
from ralph.core.work import Task, ignore_text
from ralph.loop import runs
from ralph.storage import files, task_files
from ralph.storage.board import is_live
from ralph.storage.config import hide_from_git

FOLDER = ".worktrees"
BRANCH_PREFIX = "ralph/"  # of branches that Ralph creates
BRANCH_CREATOR = "branch_by"  # a member of task.json, set if Ralph created the task's branch

LOCK_SECONDS = 120.0  # how long to wait for another process, because a merge may run slow hooks
_LOCK_POLL_SECONDS = 0.05


class Worktree(NamedTuple):
    """A task's worktree: the folder the agent works in, its branch, and whether it is new."""

    task: Task
    folder: Path
    branch: str
    is_new: bool = True


class WorktreeProblem(NamedTuple):
    """A problem with a task's worktree, and how to repair it."""

    task: str
    what: str
    hint: str

    def __str__(self) -> str:
        if self.task:
            return f"{self.task}: {self.what}; {self.hint}"
        return f"{self.what}; {self.hint}"


# --- find and check ------------------------------------------------------------------------------


def folder_of(root: Path, task: Task) -> Path | None:
    """Return the folder where an agent works on a task, or None if the task has no worktree.

    The folder may be missing.
    """
    if not task.worktree:
        return None
    return Path(os.path.normpath(paths.main_checkout(root) / task.worktree))


def checkout_folder(root: Path, task_id: str) -> Path:
    """Return the top-level folder of a task's checkout."""
    return paths.main_checkout(root) / FOLDER / task_id


def working_folder(root: Path, task: Task) -> Path:
    """Return the folder in which to work on a task.

    Raises Refused if the task's worktree cannot be used.
    """
    problem = find_problem(root, task, quick=True)
    if problem is not None:
        raise Refused(f"{task.id}: {problem.what}", hint=problem.hint)
    return folder_of(root, task) or root


def find_problem(root: Path, task: Task, *, quick: bool = False) -> WorktreeProblem | None:
    """Return the problem with a task's worktree, or None if it can be used.

    With `quick`, checks that run git are skipped.
    """
    folder = folder_of(root, task)
    if folder is None:
        return None
    quick = quick or not is_git_installed()
    main = paths.main_checkout(root)
    branch = task.branch or ""
    recreate = f"`ralph task start {task.id} --worktree`"
    branch_is_gone = not quick and bool(branch) and not Repository(main).is_branch(branch)
    if not folder.is_dir():
        if branch_is_gone:
            return WorktreeProblem(
                task.id,
                f"its worktree {task.worktree} and its branch {branch} are gone",
                f"{recreate} creates both again",
            )
        return WorktreeProblem(
            task.id,
            f"its worktree {task.worktree} is gone; its commits are still in the branch {branch}",
            f"{recreate} creates it again; `git worktree prune` forgets the worktree, "
            "`ralph task drop` removes the worktree and the branch",
        )
    if not _belongs_to(folder, main):
        return WorktreeProblem(
            task.id,
            f"its worktree {task.worktree} does not point to this repository, "
            "which was moved or copied",
            f"{recreate} repairs it (`git worktree repair {task.worktree}`); nothing is lost",
        )
    if quick:
        return None
    if branch_is_gone:
        return WorktreeProblem(
            task.id, f"its branch {branch} is gone", f"`git branch {branch} COMMIT` restores it"
        )
    checked_out = Repository(folder).branch() or "no branch"
    if checked_out != branch:
        return WorktreeProblem(
            task.id,
            f"its worktree {task.worktree} is on {checked_out} instead of {branch}",
            f"`git switch {branch}` there switches back; `git merge` then brings its commits along",
        )
    return None


def _belongs_to(folder: Path, main: Path) -> bool:
    try:
        return paths.main_checkout(folder) == main
    except Unreadable:  # its `.git` file points to the repository's former location
        return False


def find_problems(root: Path) -> list[WorktreeProblem]:
    """Return the problems with all worktrees, including folders that belong to no task."""
    tasks = [task for task in task_files.read_board(root).tasks if task.worktree]
    found = []
    if tasks and not is_git_installed():
        what = "git was not found, so the branches of worktrees are not checked"
        found.append(WorktreeProblem("", what, "install git, or add its folder to PATH"))
    for task in tasks:
        problem = find_problem(root, task)
        if problem is not None:
            found.append(problem)
    folder = paths.main_checkout(root) / FOLDER
    try:
        files.target(folder, folder.parent, folder=True)
    except RalphError as error:
        found.append(WorktreeProblem("", error.message, error.hint))
        return found
    for name in _orphaned_folders(folder, tasks):
        what = f"{FOLDER}/{name} belongs to no task"
        hint = f"look into it; `git worktree remove {FOLDER}/{name}` removes it"
        found.append(WorktreeProblem("", what, hint))
    return found


def _orphaned_folders(folder: Path, tasks: Iterable[Task]) -> list[str]:
    """Return the names of the folders in `.worktrees/` that no task uses."""
    if not folder.is_dir():
        return []
    used = set()
    for task in tasks:
        parts = Path(task.worktree or "").parts
        if len(parts) > 1:
            used.add(parts[1])  # .worktrees/<name>/...
    return [
        path.name for path in sorted(folder.iterdir()) if path.is_dir() and path.name not in used
    ]


def uncommitted_files(git: Repository) -> list[str]:
    """Return the uncommitted files in a checkout, except the scratchpad."""
    return [path for path in git.uncommitted() if not path.endswith(".ralph/scratchpad.md")]


# --- create --------------------------------------------------------------------------------------


def create(root: Path, task_id: str, *, tell: Callable[[str], None] = ignore_text) -> Worktree:
    """Create a task's worktree, or repair and reuse the existing one.

    Raises Refused if there is no commit to start from, if the branch cannot be used, or if the
    folder exists but is not a worktree.
    """
    with repository_lock(root, f"creating the worktree of {task_id}", tell=tell):
        main = paths.main_checkout(root)
        git = Repository(main)
        top = _find_top_with_commit(git)
        task = task_files.find_task(root, task_id).task
        branch = task.branch or f"{BRANCH_PREFIX}{task.id}"
        _check_branch_is_usable(git, branch)
        folder = checkout_folder(root, task_id)
        files.target(main / FOLDER, main, folder=True)  # refuses a symlink that leaves the project
        hide_from_git(main / FOLDER, main)
        is_new = not _repair(git, folder)
        creates_branch = is_new and not git.is_branch(branch)
        if is_new:
            _add_worktree(git, folder, branch, creates_branch=creates_branch)
        project = folder / main.resolve().relative_to(top.resolve())
        worktree = project.relative_to(main).as_posix()

        def edit(old: Task) -> Task:
            extra = without_branch_creator(old)
            was_created = old.branch == branch and old.extra.get(BRANCH_CREATOR)
            if creates_branch or was_created:
                extra[BRANCH_CREATOR] = "ralph"
            return replace(old, worktree=worktree, branch=branch, extra=extra)

        return Worktree(
            task_files.change_task(root, task_id, edit), main / worktree, branch, is_new
        )


def _find_top_with_commit(git: Repository) -> Path:
    """Return the repository's top-level folder. Raises Refused if it has no commits."""
    top = git.top
    if top is None:
        raise no_repository(git.folder, "run `git init` and commit something")
    if not git.commit("HEAD"):
        raise Refused(
            f"{git.folder} has no commit to start a worktree from", hint="commit something first"
        )
    return top


def _check_branch_is_usable(git: Repository, branch: str) -> None:
    if branch.startswith("-") or not git.succeeds("check-ref-format", "--branch", branch):
        raise Refused(
            f"{branch!r} is not a valid branch name",
            hint='fix "branchName" in its prd.json',
        )
    if branch == git.branch():
        raise Refused(
            f"the branch {branch} is checked out in the main checkout",
            hint="check out another branch there, or name another one in its prd.json",
        )


def _add_worktree(git: Repository, folder: Path, branch: str, *, creates_branch: bool) -> None:
    if creates_branch:
        arguments = ["-b", branch, str(folder), "HEAD"]
    else:
        arguments = [str(folder), branch]
    result = git.tell("worktree", "add", "--quiet", *arguments)
    if result.code != 0:
        raise Refused(
            f"git did not create the worktree: {first_line(result)}",
            hint=f"look at `git worktree list` and `git branch {branch}`",
        )


def without_branch_creator(task: Task) -> dict[str, object]:
    """Return a task's extra members without the note that Ralph created its branch."""
    return {key: value for key, value in task.extra.items() if key != BRANCH_CREATOR}


def _repair(git: Repository, folder: Path) -> bool:
    """Repair a worktree that was moved, or make git forget one that was deleted.

    Returns whether the worktree exists. Raises Refused if the folder is not a worktree.
    """
    registered = registered_folders(git)
    if not folder.exists():
        if os.path.realpath(folder) in registered:
            # Somebody deleted the folder, so this only removes git's record of it.
            git.tell("worktree", "remove", "--force", str(folder))
        return False
    if folder.is_symlink() or not (folder / ".git").is_file():
        if _is_empty_folder(folder):
            return False
        raise Refused(
            f"{folder} exists but is not a worktree", hint="move it away; nothing was changed"
        )
    if not _is_connected(folder, registered):
        result = git.tell("worktree", "repair", str(folder))
        if not _is_connected(folder, registered_folders(git)):
            raise Refused(
                f"{folder} is no longer a worktree of this repository: {first_line(result)}",
                hint="its files are unchanged; move the folder away and run the command again",
            )
    return True


def _is_empty_folder(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())


def _is_connected(folder: Path, registered: set[str]) -> bool:
    """Return whether a worktree and its repository point to each other."""
    return Repository(folder).top is not None and os.path.realpath(folder) in registered


def registered_folders(git: Repository) -> set[str]:
    """Return the real paths of the worktrees that git has registered."""
    folders = set()
    for line in git.names("worktree", "list", "--porcelain", "-z"):
        if line.startswith("worktree "):
            folders.add(os.path.realpath(line.removeprefix("worktree ")))
    return folders


# --- locks and runs at work ----------------------------------------------------------------------


@contextmanager
def repository_lock(
    root: Path,
    operation: str,
    *,
    tell: Callable[[str], None] = ignore_text,
    patience: float = LOCK_SECONDS,
) -> Iterator[None]:
    """Hold the lock on the project's repository.

    Processes that wait for the lock show `operation`, for example "merging t-0a1b", to their users.
    Raises Conflict if another process still holds the lock after `patience` seconds.
    """
    owner = f"{operation}, process {os.getpid()}, since {ids.timestamp()}"
    path = paths.cache_folder(paths.main_checkout(root)) / "repository"
    deadline = time.monotonic() + patience
    announced = False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(
                    files.process_lock(path, owner, root=paths.state_boundary(root))
                )
                break
            except files.LockTaken as taken:
                if time.monotonic() > deadline:
                    raise Conflict(
                        f"another process is using this repository's worktrees{taken.by}",
                        hint="nothing was changed; try again when that process has ended",
                    ) from taken
                if not announced and taken.by:
                    tell(f"waiting for another process{taken.by}")
                    announced = True
                # Poll, because waiting for the lock in the kernel has no time limit.
                time.sleep(_LOCK_POLL_SECONDS)
        yield


def check_no_run_is_working(root: Path, task: Task) -> None:
    """Raise Conflict if a run is working on a task, because it would lose its folder or branch."""
    run_id = _run_working_on(root, task)
    if run_id:
        raise Conflict(
            f"{run_id} is working on {task.id}",
            hint=f"stop it with `ralph loop stop {run_id}`, then try again",
        )


def _run_working_on(root: Path, task: Task) -> str:
    """Return the id of the run that is working on a task, or "" if there is none.

    A live claim is not the only sign. If somebody ends a task while a run works on it, the claim is
    gone, but the agent is still writing to the worktree.
    """
    if task.claim is not None and is_live(task.claim, ids.now()):
        return task.claim.run
    for run in runs.list_unfinished(root):
        is_planned = task.id in run.only and task.id not in (*run.done, *run.failed)
        if (run.task == task.id or is_planned) and runs.is_alive(root, run):
            return run.id
    return ""
