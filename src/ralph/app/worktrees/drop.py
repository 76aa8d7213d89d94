"""`ralph task drop`: remove a task's worktree; what exists nowhere else is named before it goes.

That is: uncommitted files, files that git ignores, and commits that no other branch, tag or remote has. What the user
agreed to lose is compared with what would be lost at the moment when it goes. Uncommitted memory is never dropped.
Caches that tools make again are no loss.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import index
from ralph.app.repository import Repository, first_line, join_names
from ralph.app.tasks import board
from ralph.app.worktrees import worktree
from ralph.app.worktrees.worktree import BRANCH, FOLDER, PRD_BRANCH, STATE, member
from ralph.errors import NotFound, RalphError, Refused
from ralph.model.work import Task, ignore_text
from ralph.store import files

_CACHES = frozenset(("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"))
"""Folders that tools make again by themselves."""
_OURS = (".ralph/cache/", ".ralph/local/", ".ralph/tasks/", ".ralph/ralph.db")
_OUR_NAMES = ("scratchpad.md", ".gitignore", ".ralph-lock", files.TEMP_SUFFIX)


@dataclass(frozen=True, slots=True)
class Losses:
    """What is only in a worktree: files that are not committed or that git ignores, and commits with their tips."""

    uncommitted: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    tips: tuple[str, ...] = ()
    """The newest of those commits, each with what it is."""
    switched: str = ""
    """The branch that it was switched to, which stays."""
    unknown: str = ""
    """Why the losses cannot be determined."""

    def __bool__(self) -> bool:
        return bool(self.uncommitted or self.ignored or self.commits or self.switched or self.unknown)

    @property
    def description(self) -> str:
        """The losses in a sentence."""
        parts = [f"{len(self.uncommitted)} uncommitted: {join_names(self.uncommitted)}"] if self.uncommitted else []
        parts += [f"{len(self.ignored)} that git ignores: {join_names(self.ignored)}"] if self.ignored else []
        parts += [f"{len(self.commits)} unmerged commits: {join_names(self.commits)}"] if self.commits else []
        parts += [f"which end at {join_names(self.tips)}"] if self.tips else []
        parts += [f"the worktree is on {self.switched}, which stays"] if self.switched else []
        return "; ".join([*parts, *([self.unknown] if self.unknown else [])])

    @property
    def as_json(self) -> dict[str, object]:
        """The losses for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def losses(root: Path, task_id: str) -> Losses:
    """What would be lost with a task's worktree."""
    task = board.find(root, task_id).task
    main, folder = Repository(paths.main_checkout(root)), worktree.checkout_folder(root, task_id)
    if not task.worktree and not folder.exists():
        raise NotFound(f"{task_id} has no worktree", hint=f"`ralph task start {task_id} --worktree` makes one")
    own = Repository(folder)
    top = own.top if folder.exists() else None
    is_ours = top is not None and os.path.realpath(top) == os.path.realpath(folder)
    lost = _commits(main, task, own.commit("HEAD") if is_ours else "")
    if not folder.exists():
        return lost
    if not is_ours:
        return replace(lost, unknown=f"{FOLDER}/{task_id} is no worktree of this repository any more")
    other = worktree.other_branch(root, task)
    try:
        uncommitted = tuple(worktree.uncommitted(own))
        switched = other.branch if other is not None else ""
        return replace(lost, uncommitted=uncommitted, ignored=tuple(_ignored(own)), switched=switched)
    except RalphError as error:
        return replace(lost, unknown=error.message)


def _commits(main: Repository, task: Task, head: str) -> Losses:
    """The commits that nothing else has, and the tips that would be forgotten."""
    goes = task.branch if task.branch and member(task, "branch_by") and main.is_branch(task.branch) else ""
    seen = member(task, "tip")
    tips = {
        head: "where the worktree is",
        main.commit(seen) if seen else "": "where Ralph last saw the branch",
        main.commit(f"refs/heads/{goes}") if goes else "": f"the branch {goes}",
    }  # one commit may be all of these: then the last word stands
    only = {tip: name for tip, name in tips.items() if tip and not _is_elsewhere(main, tip, goes)}
    if not only:
        return Losses()
    own = (f"--exclude=refs/heads/{goes}",) if goes else ()
    commits = main.answer("log", "--format=%h %s", *only, "--not", *own, "--glob=refs/heads", "--remotes", "--tags")
    return Losses(commits=tuple(commits.splitlines()), tips=tuple(f"{tip[:12]} ({name})" for tip, name in only.items()))


def _is_elsewhere(main: Repository, commit: str, goes: str) -> bool:
    """Whether a branch or tag that stays has a commit."""
    kinds = ("refs/heads", "refs/remotes", "refs/tags")
    found = main.answer("for-each-ref", "--format=%(refname)", "--contains", commit, *kinds).splitlines()
    return any(name != f"refs/heads/{goes}" for name in found)


def _ignored(own: Repository) -> list[str]:
    """Files that git ignores, a folder of them as one, except caches."""
    status = own.names("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignored=matching")
    found = [line.removeprefix("!! ") for line in status if line.startswith("!! ")]
    found = [name for name in found if not name.startswith((".ralph/", ".agent/"))]
    found += own.names("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", ".ralph", ".agent")
    return sorted(name for name in dict.fromkeys(found) if not _is_cache(name))


def _is_cache(name: str) -> bool:
    """Whether a file or folder is a cache, or working state of Ralph's own."""
    parts = name.rstrip("/").split("/")
    return not _CACHES.isdisjoint(parts) or (
        ".ralph" in parts and (parts[-1].endswith(_OUR_NAMES) or any(each in f"{name}/" for each in _OURS))
    )


def drop(root: Path, task_id: str, *, agreed: Losses | None = None, tell: Callable[[str], None] = ignore_text) -> Task:
    """Remove a task's worktree, and its branch if it was made for it; Refused when more would be lost than `agreed`."""
    with worktree.repository_lock(root, f"dropping the worktree of {task_id}", tell=tell):
        task = board.find(root, task_id).task
        worktree.check_free(root, task)
        state = paths.main_checkout(root)
        files.target(state / FOLDER, state, folder=True)
        lost = losses(root, task_id)
        memory = [path for path in lost.uncommitted if worktree.is_memory(path)]
        if memory:
            raise Refused(
                f"the worktree of {task_id} has uncommitted memory: {join_names(memory)}",
                hint=f"commit it in {FOLDER}/{task_id} and `ralph task merge {task_id}`, or undo it there with git",
            )
        if lost and lost != agreed:
            raise Refused(
                f"this would be lost with the worktree of {task_id}: {lost.description}",
                hint=f"`ralph task merge {task_id}` first; --yes drops it all the same",
            )
        _remove(root, task)
        return board.change(root, task_id, _without_worktree)


def _remove(root: Path, task: Task) -> None:
    git, folder = Repository(paths.main_checkout(root)), worktree.checkout_folder(root, task.id)
    name = paths.worktree_name(folder) if folder.exists() else ""
    if folder.exists() or os.path.realpath(folder) in worktree.registered(git):
        if folder.exists():
            git.tell("worktree", "repair", str(folder))
        ran = git.tell("worktree", "remove", "--force", str(folder))
        if ran.code != 0:
            raise Refused(f"git did not remove the worktree: {first_line(ran)}", hint=f"look at {folder}")
    if task.branch and member(task, "branch_by") and git.is_branch(task.branch):
        ran = git.tell("branch", "--quiet", "-D", task.branch)
        if ran.code != 0:
            raise Refused(f"git did not delete {task.branch}: {first_line(ran)}", hint="look at `git worktree list`")
    if name:
        index.remove_worktree_index(root, name)


def _without_worktree(task: Task) -> Task:
    """The task without its worktree; the branch that its PRD names is the next one's."""
    made = bool(member(task, "branch_by"))
    extra = {key: value for key, value in task.extra.items() if key != STATE}
    wanted = task.extra.get(PRD_BRANCH)
    own = None if made and task.branch == f"{BRANCH}{task.id}" else task.branch
    return replace(task, worktree=None, branch=wanted if isinstance(wanted, str) and wanted else own, extra=extra)
