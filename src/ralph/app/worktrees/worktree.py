"""Create the worktrees of tasks, and find what is wrong with them.

A task's worktree is a checkout in `.worktrees/<id>/` on the branch `ralph/<id>`; the task itself, its logs and the
index belong to the main checkout and outlive the folder. What a person or git did to a worktree meanwhile (deleted the
folder, moved the repository, rewrote the branch) is reported with the command that repairs it; `create` repairs it,
too. One process at a time creates, merges or drops a worktree.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import runs
from ralph.app.config import hide_from_git
from ralph.app.repository import Repository, first_line
from ralph.app.tasks import board
from ralph.app.tasks.board import is_live
from ralph.capture.similarity import TextMatcher
from ralph.context.render import looks_like_instructions
from ralph.errors import Conflict, RalphError, Refused, Unreadable
from ralph.formats.pages import parse_region
from ralph.loop.state import Run
from ralph.model import ids
from ralph.model.record import Record
from ralph.model.work import Task, ignore_text
from ralph.store import files

FOLDER = ".worktrees"
BRANCH = "ralph/"
STATE = "worktree_state"
"""The member of task.json with the commit a worktree began at, the newest known one, and who made its branch."""
PRD_BRANCH = "prd_branch"
"""The member of task.json that names the branch of the PRD that progress.txt belongs to."""
PAGE = "AGENTS.md"
MEMORY = (
    ".agent",
    ".ralph/agent",
    ".ralph/guardrails.md",
    ".ralph/knowledge",
    ".ralph/global-patterns.md",
    "guardrails.md",
)
"""Where memory is stored in a checkout."""
PATIENCE = 120.0
"""Seconds to wait for another process that merges; it may run hooks."""
_PAUSE = 0.05
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Worktree:
    """A task's worktree: where the agent works, on which branch, and whether it is new."""

    task: Task
    place: Path
    branch: str
    new: bool = True


@dataclass(frozen=True, slots=True)
class WorktreeProblem:
    """What is wrong with a task's worktree, and what to do about it."""

    task: str
    what: str
    hint: str


@dataclass(frozen=True, slots=True)
class OtherBranch:
    """A worktree that is not on its task's branch: on which one it is ("" for none), and its commit."""

    branch: str
    head: str

    @property
    def description(self) -> str:
        """The branch or the commit, for a sentence."""
        return self.branch or f"no branch, at {self.head[:12]}"


def member(task: Task, key: str) -> str:
    """A text of the stored state of a task's worktree."""
    state = task.extra.get(STATE)
    value = state.get(key) if isinstance(state, dict) else None
    return value if isinstance(value, str) else ""


def with_state(task: Task, **values: str) -> Task:
    """The task with changed state of its worktree."""
    state = task.extra.get(STATE)
    merged = {**state, **values} if isinstance(state, dict) else values
    return replace(task, extra={**task.extra, STATE: {key: value for key, value in merged.items() if value}})


@contextmanager
def repository_lock(
    root: Path, what: str, *, tell: Callable[[str], None] = ignore_text, patience: float = PATIENCE
) -> Iterator[None]:
    """Lock the project's repository while `what` is done; Conflict when another process has it for too long.

    The kernel releases the lock when its process ends in whatever way.
    """
    state = paths.main_checkout(root)
    owner = f"{what}, process {os.getpid()}, since {ids.timestamp()}"
    path = paths.cache_folder(state) / "repository"
    until = time.monotonic() + patience
    waiting = False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(files.process_lock(path, owner, root=paths.state_boundary(root)))
                break
            except files.LockTaken as taken:
                if time.monotonic() > until:
                    hint = "nothing was changed; run it again when that one has ended"
                    raise Conflict(f"another process is at this repository's worktrees{taken.by}", hint=hint) from taken
                if not waiting and taken.by:
                    tell(f"waiting for another process{taken.by}")
                    waiting = True
                time.sleep(_PAUSE)  # a wait in the kernel has no time limit
        yield


# --- paths and problems -------------------------------------------------------------------------------


def folder_of(root: Path, task: Task) -> Path | None:
    """The folder where an agent works on a task that has a worktree, whether it exists or not; None without one."""
    return Path(os.path.normpath(paths.main_checkout(root) / task.worktree)) if task.worktree else None


def checkout_folder(root: Path, task_id: str) -> Path:
    """The folder of a task's checkout, in the main one."""
    return paths.main_checkout(root) / FOLDER / task_id


def working_folder(root: Path, task: Task) -> Path:
    """Where to work on a task: its worktree, else the project; Refused when the worktree is not other."""
    at = folder_of(root, task)
    if at is None:
        return root
    wrong = problem_of(root, task, quick=True)
    if wrong is not None:
        raise Refused(f"{task.id}: {wrong.what}", hint=wrong.hint)
    return at


def problem_of(root: Path, task: Task, *, quick: bool = False) -> WorktreeProblem | None:
    """What is wrong with the worktree of a task; `quick` asks git nothing."""
    at = folder_of(root, task)
    if at is None:
        return None
    again = f"`ralph task start {task.id} --worktree`"
    main = paths.main_checkout(root)
    if not at.is_dir():
        branch = task.branch or ""
        lost = f"its worktree {task.worktree} is gone; what was committed is in the branch {branch}"
        if not quick and branch and not Repository(main).is_branch(branch):
            tip = member(task, "tip")
            lost = f"its worktree {task.worktree} and its branch {branch} are gone"
            again = f"`git branch {branch} {tip}` brings back what was committed; then {again}" if tip else again
            return WorktreeProblem(task.id, lost, f"{again} makes the worktree again")
        return WorktreeProblem(
            task.id, lost, f"{again} makes it again; `git worktree prune` forgets it, `ralph task drop` both"
        )
    if not _belongs_to(at, main):
        what = f"its worktree {task.worktree} leads to another place than this repository, which was moved or copied"
        return WorktreeProblem(
            task.id, what, f"{again} repairs it (`git worktree repair {task.worktree}`); nothing is lost"
        )
    if quick:
        return None
    return _branch_problem(main, task) or _switched_problem(root, task) or _prd_problem(task)


def _belongs_to(folder: Path, main: Path) -> bool:
    try:
        return paths.main_checkout(folder) == main
    except Unreadable:  # its pointer file leads to where the repository was before
        return False


def other_branch(root: Path, task: Task) -> OtherBranch | None:
    """Where the worktree of a task is that somebody has switched to another branch; None while it is on its own."""
    folder = checkout_folder(root, task.id)
    own = Repository(folder)
    if not task.worktree or not folder.is_dir() or own.top is None:
        return None
    branch, head = own.branch(), own.commit("HEAD")
    return OtherBranch(branch, head) if head and branch != (task.branch or "") else None


def _switched_problem(root: Path, task: Task) -> WorktreeProblem | None:
    other = other_branch(root, task)
    if other is None:
        return None
    what = f"its worktree {task.worktree} is on {other.description} instead of {task.branch}"
    back = f"`git switch {task.branch}` there goes back"
    return WorktreeProblem(
        task.id, what, f"{back}; `git merge {other.branch or other.head[:12]}` then takes its commits along"
    )


def _prd_problem(task: Task) -> WorktreeProblem | None:
    """A PRD that names another branch than the worktree is on."""
    wanted = task.extra.get(PRD_BRANCH)
    if not isinstance(wanted, str) or not wanted or wanted == task.branch:
        return None
    what = f"its PRD names the branch {wanted}, its worktree is on {task.branch}"
    again = f"`ralph task start {task.id} --worktree` goes on on {wanted}"
    return WorktreeProblem(
        task.id, what, f"`ralph task merge {task.id}` and `ralph task drop {task.id}` first; then {again}"
    )


def _branch_problem(main: Path, task: Task) -> WorktreeProblem | None:
    """A branch that no longer has the commits that were seen on it."""
    git, tip, branch = Repository(main), member(task, "tip"), task.branch or ""
    if not git.is_branch(branch):
        return WorktreeProblem(
            task.id, f"its branch {branch} is gone", f"`git branch {branch} {tip or 'COMMIT'}` brings it back"
        )
    if not tip or git.has(f"refs/heads/{branch}", tip) or is_reachable(git, tip):
        return None
    if not git.commit(tip):
        what = f"its branch {branch} was rewritten, and {tip[:12]} is no longer in this repository"
        return WorktreeProblem(task.id, what, "another clone or its reflog may have it")
    what = f"its branch {branch} was rewritten: {tip[:12]} is no longer in it"
    return WorktreeProblem(task.id, what, f"`git branch rescued-{task.id} {tip}` keeps what was there before")


def is_reachable(git: Repository, commit: str) -> bool:
    """Whether some branch or tag has a commit, so that git never throws it away."""
    return bool(git.answer("for-each-ref", "--count=1", "--contains", commit))


def problems(root: Path) -> list[WorktreeProblem]:
    """What is wrong with any task's worktree, and folders in `.worktrees/` that are no task's."""
    everything = board.read(root)
    found = [
        each for task in everything.tasks if task.worktree for each in [problem_of(root, task)] if each is not None
    ]
    known = {Path(task.worktree).parts[1:2] for task in everything.tasks if task.worktree}
    folder = paths.main_checkout(root) / FOLDER
    try:
        files.target(folder, folder.parent, folder=True)
    except RalphError as error:
        return [*found, WorktreeProblem("", error.message, error.hint)]
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and (path.name,) not in known:
            what = f"{FOLDER}/{path.name} is the worktree of no task"
            found.append(
                WorktreeProblem("", what, f"look into it; `git worktree remove {FOLDER}/{path.name}` removes it")
            )
    return found


# --- creating it ---------------------------------------------------------------------------------


def create(root: Path, task_id: str, *, tell: Callable[[str], None] = ignore_text) -> Worktree:
    """Create a task's worktree; one that exists is used, and repaired where it has to be."""
    with repository_lock(root, f"making the worktree of {task_id}", tell=tell):
        return _create(root, task_id)


def _create(root: Path, task_id: str) -> Worktree:
    main = paths.main_checkout(root)
    git = Repository(main)
    head, above = git.commit("HEAD"), git.top
    if above is None or not head:
        what = f"{main}: there is no commit to begin a worktree at" if above else f"{main}: is not in a git repository"
        raise Refused(what, hint="`git init`, and commit something first" if not above else "commit something first")
    task = board.find(root, task_id).task
    branch = _branch(git, task)
    inside = main.resolve().relative_to(above.resolve())
    folder = checkout_folder(root, task_id)
    files.target(main / FOLDER, main, folder=True)  # Refused: a link that leads out of the project
    hide_from_git(main / FOLDER, main)
    new = not _exists(git, folder)
    made = new and _check_out(git, folder, branch)
    where = (folder / inside).relative_to(main).as_posix()

    def edit(old: Task) -> Task:
        base = member(old, "base") if old.worktree and old.branch == branch else head
        after = replace(old, worktree=where, branch=branch)
        owner = "ralph" if made else member(old, "branch_by") if old.branch == branch else ""
        tip = member(old, "tip")
        newest = tip if old.branch == branch and git.commit(tip) and not is_reachable(git, tip) else ""
        return with_state(after, base=base, tip=newest or git.commit(f"refs/heads/{branch}"), branch_by=owner)

    return Worktree(board.change(root, task_id, edit), main / where, branch, new)


def _branch(git: Repository, task: Task) -> str:
    branch = task.branch or f"{BRANCH}{task.id}"
    if branch.startswith("-") or not git.holds("check-ref-format", "--branch", branch):
        raise Refused(f"{branch!r} cannot be the name of a branch", hint='mend "branchName" in its prd.json')
    if branch == git.branch():
        raise Refused(
            f"the branch {branch} is checked out in the main checkout",
            hint="check out another one there, or name another one in its prd.json",
        )
    return branch


def _exists(git: Repository, folder: Path) -> bool:
    """Whether the worktree is there and is this repository's; a moved one is repaired, a deleted one forgotten."""
    known = registered(git)
    if not folder.exists():
        if os.path.realpath(folder) in known:  # deleted by hand: only git's note of it goes
            git.tell("worktree", "remove", "--force", str(folder))
        return False
    if folder.is_symlink() or not (folder / ".git").is_file():
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            return False
        raise Refused(f"{folder}: is there and is no worktree", hint="move it away; nothing was changed")
    if Repository(folder).top is None or os.path.realpath(folder) not in known:
        ran = git.tell("worktree", "repair", str(folder))
        if Repository(folder).top is None or os.path.realpath(folder) not in registered(git):
            raise Refused(
                f"{folder}: is no worktree of this repository any more: {first_line(ran)}",
                hint="its files are as they were: move the folder away and run the command again",
            )
    return True


def registered(git: Repository) -> set[str]:
    """The folders of all checkouts that git knows."""
    out = git.ask("worktree", "list", "--porcelain", "-z").out
    return {
        os.path.realpath(word.removeprefix("worktree ")) for word in out.split("\0") if word.startswith("worktree ")
    }


def _check_out(git: Repository, folder: Path, branch: str) -> bool:
    """Check a branch out into a folder; True when the branch was made for it."""
    there = git.is_branch(branch)
    words = [str(folder), branch] if there else ["-b", branch, str(folder), "HEAD"]
    ran = git.tell("worktree", "add", "--quiet", *words)
    if ran.code != 0:
        raise Refused(
            f"git made no worktree: {first_line(ran)}", hint=f"look at `git worktree list` and `git branch {branch}`"
        )
    return not there


# --- what was learned there --------------------------------------------------------------------


def record_learnings(folder: Path, learned: Iterable[Record]) -> list[Record]:
    """Put what was learned into the marked region of a worktree's AGENTS.md, and commit that; return what is new.

    Texts that read like prompt injection stay out: agents trust this page as their user's text. A page that somebody
    else has changed is not committed.
    """
    wanted = [each for each in learned if not looks_like_instructions(each.text)]
    if not wanted:
        return []
    git = Repository(folder)
    status = git.ask("status", "--porcelain", "--", PAGE)
    added: list[Record] = files.update(folder / PAGE, lambda text: _with_learnings(text, wanted), root=folder)
    if added and status.code == 0 and not status.out:
        git.tell("add", "--", PAGE)
        own = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false")  # Ralph's own text: no hook judges it
        git.tell(*own, "commit", "--quiet", "--only", "-m", f"Record what {folder.name} learned", "--", PAGE)
    return added


def _with_learnings(text: str, wanted: Sequence[Record]) -> tuple[str, list[Record]]:
    """AGENTS.md with what it does not say yet, and what was added."""
    document = parse_region(text)
    shelf = TextMatcher(entry.record.text for entry in document.entries)
    added: list[Record] = []
    for record in wanted:
        if shelf.nearest(record.text) is None:
            with suppress(Refused):  # its text cannot be stored there, or the marks do not pair: progress.txt has it
                document = document.add(record)
                shelf.add(record.text)
                added.append(record)
    return str(document), added


def note_commit(root: Path, task: Task, head: str) -> None:
    """Note the newest commit of a task's branch, by which a rewritten branch is found."""
    if head and task.worktree and head != member(task, "tip"):
        board.change(root, task.id, lambda old: with_state(old, tip=head) if old.worktree else old)


def note_current_commit(root: Path) -> None:
    """Note a worktree's commit after a command there, unless its branch was rewritten: doctor reports that."""
    head = _current_commit(root)
    task = board.find(root, paths.task_of(root)).task if head and paths.task_of(root) else None
    if task is None or head == (tip := member(task, "tip")):
        return
    if not tip or Repository(root).has(head, tip):
        note_commit(root, task, head)


def _current_commit(root: Path) -> str:
    """The commit that a worktree is on, read from git's files; "" where that takes more (a packed branch)."""
    folders = paths.git_folders(root)
    if folders is None:
        return ""
    head = (files.read(folders[0] / "HEAD") or "").strip()
    ref = folders[1] / head.removeprefix("ref: ")
    commit = head if ref == folders[1] / head else (files.read(ref) or "").strip() if ref.is_file() else ""
    return commit if _COMMIT.fullmatch(commit) else ""


# --- what is in it -----------------------------------------------------------------------------


def uncommitted(git: Repository) -> list[str]:
    """What is uncommitted in a checkout, but for the working memory of its iterations."""
    return [each.path for each in git.dirt() if not each.path.endswith(".ralph/scratchpad.md")]


def is_memory(path: str) -> bool:
    """Whether a path within a checkout is a memory file of its project."""
    return any(path == each or path.startswith(f"{each}/") for each in MEMORY)


def check_free(root: Path, task: Task) -> None:
    """Refuse a task that a run works on: one that claims it, or one that is at it though somebody ended the task."""
    claim = task.claim.run if task.claim is not None and is_live(task.claim, ids.now()) else ""
    working = (each.id for each in runs.running(root) if _works_on(each, task.id) and runs.lives(root, each))
    run = claim or next(working, "")
    if run:
        raise Conflict(f"{run} works on {task.id}", hint=f"`ralph loop stop {run}` stops it; then try again")


def _works_on(run: Run, task_id: str) -> bool:
    return run.task == task_id or (task_id in run.only and task_id not in (*run.done, *run.failed))


def describe(found: Sequence[WorktreeProblem]) -> list[str]:
    """Problems as lines."""
    return [f"{f'{each.task}: ' if each.task else ''}{each.what}; {each.hint}" for each in found]
