"""Create, check, merge and drop task worktrees.

A task's worktree is a checkout in `.worktrees/<id>/`, by default on the branch `ralph/<id>`. If
somebody has moved or deleted it, the problem is reported together with the command that repairs it.
A lock ensures that only one process at a time creates, merges or drops a worktree.

A merge runs the user's hooks. Ralph's own files are merged entry by entry (`formats/merge.py`). Any
other conflict, or a hook that rejects the commit, aborts the merge.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Conflict, NotFound, RalphError, Refused, Unreadable
from ralph.core.record import Record
from ralph.core.repository import Repository, first_line, join_names
from ralph.core.similarity import TextMatcher
from ralph.core.text import normalise_text
from ralph.core.work import ProcessResult, Task, ignore_text
from ralph.formats import merge as merging
from ralph.formats.regions import parse_region
from ralph.loop import runs
from ralph.memory.merge_driver import merge_lines
from ralph.privacy.injection import looks_like_instructions
from ralph.search import index
from ralph.storage import board, files
from ralph.storage.board import is_live
from ralph.storage.config import hide_from_git

FOLDER = ".worktrees"
BRANCH = "ralph/"  # the prefix of branches that Ralph creates
PAGE = "AGENTS.md"
NO_VERIFY = "--no-verify"

PATIENCE = 120.0  # seconds to wait for another process; a merge may run slow hooks
_LOCK_POLL_SECONDS = 0.05

_BRANCH_CREATOR = "branch_by"  # a member of task.json, set if Ralph created the task's branch
_MEMORY_PATH = re.compile(
    r"(\.agent|\.ralph/agent|\.ralph/guardrails\.md|\.ralph/knowledge"
    r"|\.ralph/global-patterns\.md|guardrails\.md)(/.*)?",
    re.DOTALL,
)
# Ignored files that can be lost, because tools rebuild their caches and Ralph its own files.
_TOOL_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
_RALPH_FOLDERS = (".ralph/cache/", ".ralph/local/", ".ralph/tasks/", ".ralph/ralph.db")
_RALPH_FILE_SUFFIXES = ("scratchpad.md", ".gitignore", ".ralph-lock", files.TEMP_SUFFIX)
_RALPH_STATE = (".ralph/", ".agent/")

# Limits on how much of a hook's output or a conflict a message quotes.
_MAX_QUOTED_LINES = 30
_MAX_QUOTED_COLUMNS = 300
_UNDECODABLE = "\ufffd"  # stands for bytes that are not UTF-8
_DIFF_HEADERS = ("diff ", "index ", "--- ", "* Unmerged")


class Worktree(NamedTuple):
    """A task's worktree: the folder the agent works in, its branch, and whether it is new."""

    task: Task
    place: Path
    branch: str
    new: bool = True


class WorktreeProblem(NamedTuple):
    """A problem with a task's worktree, and how to repair it."""

    task: str
    what: str
    hint: str

    def __str__(self) -> str:
        if self.task:
            return f"{self.task}: {self.what}; {self.hint}"
        return f"{self.what}; {self.hint}"


@contextmanager
def repository_lock(
    root: Path, what: str, *, tell: Callable[[str], None] = ignore_text, patience: float = PATIENCE
) -> Iterator[None]:
    """Hold the lock on the project's repository. `what` describes the operation to others.

    Raises Conflict if another process still holds the lock after `patience` seconds.
    """
    owner = f"{what}, process {os.getpid()}, since {ids.timestamp()}"
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


# --- find and check ------------------------------------------------------------------------------


def folder_of(root: Path, task: Task) -> Path | None:
    """Return the folder where an agent works on a task, or None if the task has no worktree.

    The folder does not have to exist.
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
    problem = problem_of(root, task, quick=True)
    if problem is not None:
        raise Refused(f"{task.id}: {problem.what}", hint=problem.hint)
    return folder_of(root, task) or root


def problem_of(root: Path, task: Task, *, quick: bool = False) -> WorktreeProblem | None:
    """Return the problem with a task's worktree, or None if there is none.

    With `quick`, the checks that run git are skipped.
    """
    folder = folder_of(root, task)
    if folder is None:
        return None
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


def problems(root: Path) -> list[WorktreeProblem]:
    """Return the problems with all task worktrees, including folders without a task."""
    tasks = [task for task in board.read(root).tasks if task.worktree]
    found = []
    for task in tasks:
        problem = problem_of(root, task)
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


# --- create --------------------------------------------------------------------------------------


def create(root: Path, task_id: str, *, tell: Callable[[str], None] = ignore_text) -> Worktree:
    """Create a task's worktree, or repair and reuse the existing one.

    Raises Refused if there is no commit to start from, if the branch cannot be used, or if the
    folder exists but is not a worktree.
    """
    with repository_lock(root, f"creating the worktree of {task_id}", tell=tell):
        main = paths.main_checkout(root)
        git = Repository(main)
        top = _repository_with_commit(git)
        task = board.find(root, task_id).task
        branch = task.branch or f"{BRANCH}{task.id}"
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
            extra = _without_branch_creator(old)
            was_created = old.branch == branch and old.extra.get(_BRANCH_CREATOR)
            if creates_branch or was_created:
                extra[_BRANCH_CREATOR] = "ralph"
            return replace(old, worktree=worktree, branch=branch, extra=extra)

        return Worktree(board.change(root, task_id, edit), main / worktree, branch, is_new)


def _repository_with_commit(git: Repository) -> Path:
    """Return the repository's top-level folder. Raises Refused if it has no commits."""
    top = git.top
    if top is None:
        raise Refused(
            f"{git.folder} is not in a git repository", hint="run `git init` and commit something"
        )
    if not git.commit("HEAD"):
        raise Refused(
            f"{git.folder} has no commit to start a worktree from", hint="commit something first"
        )
    return top


def _check_branch_is_usable(git: Repository, branch: str) -> None:
    if branch.startswith("-") or not git.holds("check-ref-format", "--branch", branch):
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


def _without_branch_creator(task: Task) -> dict[str, object]:
    """Return a task's extra members without the note that Ralph created its branch."""
    return {key: value for key, value in task.extra.items() if key != _BRANCH_CREATOR}


def _repair(git: Repository, folder: Path) -> bool:
    """Repair a worktree that was moved, or make git forget one that was deleted.

    Returns whether the worktree exists. Raises Refused if the folder is not a worktree.
    """
    registered = _registered(git)
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
        if not _is_connected(folder, _registered(git)):
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


def _registered(git: Repository) -> set[str]:
    """Return the real paths of the worktrees that git has registered."""
    folders = set()
    for line in git.names("worktree", "list", "--porcelain", "-z"):
        if line.startswith("worktree "):
            folders.add(os.path.realpath(line.removeprefix("worktree ")))
    return folders


# --- learnings -----------------------------------------------------------------------------------


def record_learnings(folder: Path, learned: Iterable[Record]) -> list[Record]:
    """Add learnings to a worktree's AGENTS.md, and return those that were not there yet.

    The page is committed unless it already had uncommitted changes.
    """
    # Agents trust this page, so text that reads like instructions is kept out of it.
    records = [record for record in learned if not looks_like_instructions(record.text)]
    if not records:
        return []

    def edit(text: str) -> tuple[str, list[Record]]:
        document = parse_region(text)
        matcher = TextMatcher(entry.record.text for entry in document.entries)
        added = []
        for record in records:
            if matcher.nearest(record.text) is not None:
                continue
            try:
                document = document.add(record)
            except Refused:
                # The page cannot hold it or has unpaired markers, but progress.txt has it.
                continue
            matcher.add(record.text)
            added.append(record)
        return str(document), added

    git = Repository(folder)
    status = git.ask("status", "--porcelain", "--", PAGE)
    added = files.update(folder / PAGE, edit, root=folder)[1]
    if added and status.code == 0 and not status.out:
        _commit_page(git, folder.name)
    return added


def _commit_page(git: Repository, task_id: str) -> None:
    git.tell("add", "--", PAGE)
    # Ralph wrote this text itself, so neither hooks nor a signature are needed.
    settings = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false")
    message = f"Record what {task_id} learned"
    git.tell(*settings, "commit", "--quiet", "--only", "-m", message, "--", PAGE)


# --- drop ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Losses:
    """What exists only in a worktree: uncommitted files, ignored files and unmerged commits."""

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


def losses(root: Path, task_id: str) -> Losses:
    """Return what would be lost if a task's worktree were dropped.

    Raises NotFound if the task has no worktree.
    """
    task = board.find(root, task_id).task
    main = Repository(paths.main_checkout(root))
    folder = checkout_folder(root, task_id)
    if not task.worktree and not folder.exists():
        raise NotFound(
            f"{task_id} has no worktree",
            hint=f"`ralph task start {task_id} --worktree` creates one",
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
        return replace(lost, uncommitted=tuple(_uncommitted(git)), ignored=_ignored(git))
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
    return tuple(main.answer("log", "--format=%h %s", *tips, "--not", *others).splitlines())


def _branch_to_delete(main: Repository, task: Task) -> str:
    """Return the task's branch if Ralph created it and it still exists, otherwise ""."""
    if task.branch and task.extra.get(_BRANCH_CREATOR) and main.is_branch(task.branch):
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


def _uncommitted(git: Repository) -> list[str]:
    """Return the uncommitted files in a checkout, except the scratchpad."""
    return [path for path in git.uncommitted() if not path.endswith(".ralph/scratchpad.md")]


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
        task = board.find(root, task_id).task
        _check_free(root, task)
        main = paths.main_checkout(root)
        files.target(main / FOLDER, main, folder=True)
        _check_losses(task_id, losses(root, task_id), agreed)
        git = Repository(main)
        folder = checkout_folder(root, task.id)
        name = paths.worktree_name(folder) if folder.exists() else ""
        _remove_worktree(git, folder)
        _delete_branch(git, _branch_to_delete(git, task))
        if name:
            index.remove_worktree_index(root, name)

        def edit(old: Task) -> Task:
            # A branch named in the PRD is kept, because the next worktree uses it again.
            branch = old.branch
            if old.extra.get(_BRANCH_CREATOR) and branch == f"{BRANCH}{old.id}":
                branch = None
            return replace(old, worktree=None, branch=branch, extra=_without_branch_creator(old))

        return board.change(root, task_id, edit)


def _check_free(root: Path, task: Task) -> None:
    """Raise Conflict if a run is working on the task."""
    run_id = _run_working_on(root, task)
    if run_id:
        raise Conflict(
            f"{run_id} is working on {task.id}",
            hint=f"stop it with `ralph loop stop {run_id}`, then try again",
        )


def _run_working_on(root: Path, task: Task) -> str:
    """Return the id of the run that is working on a task, or "" if there is none.

    A run still counts after somebody else has ended the task.
    """
    if task.claim is not None and is_live(task.claim, ids.now()):
        return task.claim.run
    run_id = ""
    for run in runs.list_unfinished(root):
        is_planned = task.id in run.only and task.id not in (*run.done, *run.failed)
        if (run.task == task.id or is_planned) and runs.is_alive(root, run):
            run_id = run.id
    return run_id


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
    elif os.path.realpath(folder) not in _registered(git):
        return
    result = git.tell("worktree", "remove", "--force", str(folder))
    if result.code != 0:
        raise Refused(
            f"git did not remove the worktree: {first_line(result)}", hint=f"look at {folder}"
        )


def _delete_branch(git: Repository, branch: str) -> None:
    if not branch:
        return
    result = git.tell("branch", "--quiet", "-D", branch)
    if result.code != 0:
        raise Refused(
            f"git did not delete {branch}: {first_line(result)}",
            hint="look at `git worktree list`",
        )


# --- merge ---------------------------------------------------------------------------------------


class MergeResult(NamedTuple):
    """The result of a merge."""

    branch: str
    into: str
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()  # new entries in AGENTS.md
    committed: tuple[str, ...] = ()  # files in the worktree that `--commit` committed first
    notes: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether there was anything to merge."""
        return bool(self.commits or self.committed)


class _Versions(NamedTuple):
    """A file's text in the three commits of a merge, or "" where the file does not exist."""

    base: str
    ours: str
    theirs: str


class _Branches(NamedTuple):
    """A task's branch, and the branch in the main checkout that it is merged into."""

    task: Task
    main: Repository
    branch: str
    into: str
    prefix: str  # the project's folder in the repository, ending with "/", or "" for the top

    def base(self) -> str:
        return self.main.answer("merge-base", "HEAD", self.branch)

    def versions(self, path: str) -> _Versions:
        base = self.base()
        return _Versions(
            base=self._text(base, path) if base else "",
            ours=self._text("HEAD", path),
            theirs=self._text(self.branch, path),
        )

    def _text(self, commit: str, path: str) -> str:
        return self.main.text(f"{commit}:{path}") or ""

    def changed(self) -> list[str]:
        return self.main.names(
            "diff", "--name-only", "-z", "--no-renames", self.base() or "HEAD", self.branch
        )

    def new_learnings(self) -> tuple[str, ...]:
        """Return the entries in AGENTS.md that are only on the task's branch."""
        versions = self.versions(f"{self.prefix}{PAGE}")
        existing = set()
        for text in (versions.base, versions.ours):
            for entry in parse_region(text).entries:
                existing.add(normalise_text(entry.record.text))
        learned = [entry.record.text for entry in parse_region(versions.theirs).entries]
        return tuple(text for text in learned if normalise_text(text) not in existing)

    def merged_entries(self, path: str) -> str | None:
        """Merge a memory file entry by entry.

        Returns None if it is not a memory file, or if a conflict remains.
        """
        name = path.removeprefix(self.prefix)
        if not path.startswith(self.prefix) or not merging.can_merge(name):
            return None
        versions = self.versions(path)
        if any(_UNDECODABLE in text for text in versions):
            return None
        merged = merging.merge(name, *versions, merge_lines)
        if merged.conflicts:
            return None
        return merged.text


def merge(
    root: Path,
    task_id: str,
    *,
    commit: bool = False,
    verify: bool = True,
    tell: Callable[[str], None] = ignore_text,
) -> MergeResult:
    """Merge a task's branch into the branch that the main checkout is on.

    With `commit`, the worktree's changes are committed first. Without `verify`, git skips its
    hooks. Raises NotFound if the task has no branch, Conflict if both sides changed the same text
    or a run is working on the task, and Refused if anything else prevents the merge. In all these
    cases, nothing is merged.
    """
    with repository_lock(root, f"merging {task_id}", tell=tell):
        branches = _find_branches(root, task_id)
        problem = problem_of(root, branches.task)
        worktree = Repository(checkout_folder(root, task_id))
        dirty = _files_to_commit(worktree, branches)
        if dirty and not commit:
            raise Refused(
                f"the worktree of {task_id} has uncommitted changes: {join_names(dirty)}",
                hint=f"commit them in {FOLDER}/{task_id}, or use --commit",
            )
        _check_main_checkout(branches, {*branches.changed(), *dirty})
        flags = () if verify else (NO_VERIFY,)
        if dirty:
            _commit_worktree(worktree, dirty, branches.task.title, flags)
        commits = branches.main.answer("log", "--format=%h %s", f"HEAD..{branches.branch}")
        result = MergeResult(
            branches.branch,
            branches.into,
            commits=tuple(commits.splitlines()),
            files=tuple(branches.changed()),
            learned=branches.new_learnings(),
            committed=tuple(dirty),
            notes=(str(problem),) if problem is not None else (),
        )
        if result.commits:
            _merge(branches, flags)
        return result


def _find_branches(root: Path, task_id: str) -> _Branches:
    task = board.find(root, task_id).task
    _check_free(root, task)
    checkout = paths.main_checkout(root)
    top = Repository(checkout).top
    if top is None:
        raise Refused(f"{checkout} is not in a git repository", hint="a merge needs one")
    main = Repository(top)
    branch = task.branch or ""
    into = main.branch()
    _check_branch_exists(main, branch, task_id)
    if not into:
        raise Refused(
            "the main checkout is not on a branch", hint="check out the branch to merge into"
        )
    if branch == into:
        raise Refused(
            f"{branch} is checked out in the main checkout",
            hint="check out the branch to merge into",
        )
    if main.commit("MERGE_HEAD"):
        raise Refused(
            "a merge is in progress in the main checkout",
            hint="run `git merge --abort`, or finish it with a commit",
        )
    inside = checkout.resolve().relative_to(top.resolve()).as_posix()
    prefix = "" if inside == "." else f"{inside}/"
    return _Branches(task, main, branch, into, prefix)


def _check_branch_exists(main: Repository, branch: str, task_id: str) -> None:
    hint = f"`ralph task start {task_id} --worktree` creates one"
    if not branch:
        raise NotFound(f"{task_id} has no branch", hint=hint)
    if not main.is_branch(branch):
        raise NotFound(f"the branch {branch} of {task_id} does not exist", hint=hint)


def _files_to_commit(worktree: Repository, branches: _Branches) -> list[str]:
    """Return the uncommitted files in a worktree, provided that it is on its task's branch."""
    if worktree.folder.is_dir() and worktree.branch() == branches.branch:
        return _uncommitted(worktree)
    return []


def _check_main_checkout(branches: _Branches, written: set[str]) -> None:
    """Raise Refused if the merge would write to uncommitted files in the main checkout."""
    in_the_way = [path for path in branches.main.uncommitted() if path in written]
    if in_the_way:
        raise Refused(
            "the main checkout has uncommitted changes in files that "
            f"{branches.branch} changes: {join_names(in_the_way)}",
            hint="commit them first; nothing was merged",
        )


def _commit_worktree(
    worktree: Repository, dirty: Sequence[str], title: str, flags: Sequence[str]
) -> None:
    names = [f":(top,literal){path}" for path in dirty]
    result = worktree.tell("add", "--", *names)
    if result.code == 0:
        result = worktree.tell("commit", "--quiet", *flags, "-m", title, "--", *names)
    if result.code != 0:
        raise _git_refused(result, f"git did not commit {join_names(dirty)} in {worktree.folder}")


def _merge(branches: _Branches, flags: Sequence[str]) -> None:
    """Merge in the main checkout. If that fails, the merge is aborted and an error is raised."""
    main = branches.main
    message = f"Merge {branches.branch}: {branches.task.title}"
    style = ("-c", "merge.conflictStyle=merge")
    options = ("--no-ff", "--quiet", *flags, "-m", message)
    result = main.tell(*style, "merge", *options, branches.branch)
    if result.code == 0 and main.has("HEAD", branches.branch):
        return
    if not main.commit("MERGE_HEAD"):
        raise Refused(
            f"nothing was merged; git says: {first_line(result)}",
            hint=f"try `git merge {branches.branch}` by hand",
        )
    resolved: dict[str, str] = {}
    unresolved = []
    for name in main.names("diff", "--name-only", "-z", "--diff-filter=U"):
        text = branches.merged_entries(name)
        if text is None:
            unresolved.append(name)
        else:
            resolved[name] = text
    failure: RalphError
    if unresolved:
        # Read the conflict before aborting, because git has both sides only during the merge.
        failure = _conflict(branches, unresolved)
    else:
        if resolved:
            result = _commit_resolved(main, resolved, message, flags)
            if result.code == 0:
                return
        failure = _git_refused(result, "git did not commit the merge")
    _abort_merge(branches)
    raise failure


def _conflict(branches: _Branches, unresolved: Sequence[str]) -> Conflict:
    diff = branches.main.ask("diff", "--no-ext-diff", "--diff-filter=U", "--", *unresolved)
    lines = [line for line in diff.out.splitlines() if not line.startswith(_DIFF_HEADERS)]
    return Conflict(
        f"{branches.branch} and {branches.into} both changed {join_names(unresolved)}; "
        f"nothing was merged{_quote(lines[:_MAX_QUOTED_LINES])}",
        hint=f"merge {branches.into} into the worktree ({FOLDER}/{branches.task.id}) and resolve "
        f"it there, or run `git merge {branches.branch}` here; then run this again",
    )


def _commit_resolved(
    main: Repository, resolved: Mapping[str, str], message: str, flags: Sequence[str]
) -> ProcessResult:
    """Write and commit the files that were merged entry by entry."""
    for name, text in resolved.items():
        files.write(main.folder / name, text, root=main.folder)
        main.tell("add", "--", f":(top,literal){name}")
    return main.tell("commit", "--quiet", *flags, "-m", message)


def _abort_merge(branches: _Branches) -> None:
    result = branches.main.tell("merge", "--abort")
    if result.code != 0:
        raise Refused(
            f"git could not abort the merge of {branches.branch}: {first_line(result)}",
            hint="`git status` in the main checkout shows what is half merged",
        )


def _git_refused(result: ProcessResult, what: str) -> Refused:
    """Return the error for a commit that git or a hook rejected, quoting the end of the output."""
    output = f"{result.out}\n{result.err}".splitlines()
    lines = [line.rstrip() for line in output if line.strip()]
    quoted = ""
    if len(lines) > 1:
        quoted = _quote(lines[-_MAX_QUOTED_LINES:])
    return Refused(
        f"{what}, and nothing was merged: {first_line(result)}{quoted}",
        hint="a hook of this repository may have refused it: fix what it names in the worktree "
        f"and run this again; {NO_VERIFY} skips the hooks, as in git",
    )


def _quote(lines: Sequence[str]) -> str:
    """Indent lines for quoting below a message, shortened and without control characters."""
    quoted = ""
    for line in lines:
        printable = "".join(char if char.isprintable() else " " for char in line)
        quoted += f"\n  {printable[:_MAX_QUOTED_COLUMNS]}"
    return quoted
