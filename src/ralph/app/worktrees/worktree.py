"""Worktrees of tasks: a checkout of its own for each, in `.worktrees/<id>/` on the branch `ralph/<id>`.

A task's worktree holds the code and the memory files that git tracks, so that what is learned there is seen there
and nowhere else until it is merged; the task itself, its log and the index stand in the main checkout, and outlive
the folder. `.worktrees/` is hidden through git's own list of what this clone ignores. What a person or git did to a
worktree meanwhile (deleted the folder, moved the repository, rewrote the branch) is found by looking, and told with
the command that mends it; making the worktree again mends it, too. One process at a time makes, merges or drops one.
`tests/app/worktrees/test_worktree.py` uses real repositories.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ralph import paths
from ralph.app import board, runs, task_file
from ralph.app.board import is_live
from ralph.app.config import hide_from_git
from ralph.app.repository import Repository, first_line, listed
from ralph.app.worktrees import rescue, staging, tree_hold
from ralph.app.worktrees.staging import Restored
from ralph.capture.alike import Shelf
from ralph.context.render import looks_like_instructions
from ralph.errors import Conflict, RalphError, Refused
from ralph.formats.pages import parse_region
from ralph.loop.state import Run
from ralph.model import ids
from ralph.model.record import Record
from ralph.model.work import Task, ignore_text
from ralph.store import files

FOLDER = ".worktrees"
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BRANCH = "ralph/"
TREE = "worktree_state"
"""The member of task.json that says what was made: the commit it began at, the last that was seen, whose branch."""
PRD_BRANCH = "prd_branch"
"""The member of task.json that names the branch of the PRD that progress.txt belongs to."""
PAGE = "AGENTS.md"
"""What agents read in every checkout, and where a worktree gathers what was learned."""


@dataclass(frozen=True, slots=True)
class Made:
    """A task's worktree: where the agent works, on which branch, and whether it is new."""

    task: Task
    place: Path
    branch: str
    new: bool = True
    restored: Restored = field(default_factory=Restored)
    """What was staged in one that was deleted, and stands in this one again."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a task's worktree, and what to do about it."""

    task: str
    what: str
    hint: str


@dataclass(frozen=True, slots=True)
class Astray:
    """A worktree that is not on its task's branch: on which one it is ("" for none), and its commit."""

    branch: str
    head: str

    @property
    def named(self) -> str:
        """Where it is, in words."""
        return self.branch or f"no branch, at {self.head[:12]}"


def member(task: Task, key: str) -> str:
    """A text of what is known of a task's worktree."""
    held = task.extra.get(TREE)
    value = held.get(key) if isinstance(held, dict) else None
    return value if isinstance(value, str) else ""


def with_state(task: Task, **values: str) -> Task:
    """The task with more of what is known of its worktree."""
    held = task.extra.get(TREE)
    known = {**held, **values} if isinstance(held, dict) else values
    return replace(task, extra={**task.extra, TREE: {key: value for key, value in known.items() if value}})


# --- where it is -------------------------------------------------------------------------------


def place(root: Path, task: Task) -> Path | None:
    """Where an agent works on a task that has a worktree, whether it is there or not; None without one."""
    return Path(os.path.normpath(paths.state_root(root) / task.worktree)) if task.worktree else None


def top(root: Path, task_id: str) -> Path:
    """The folder of a task's checkout, in the main one."""
    return paths.state_root(root) / FOLDER / task_id


def workplace(root: Path, task: Task) -> Path:
    """Where to work on a task: its worktree, else the project; Refused when the worktree is not there."""
    at = place(root, task)
    if at is None:
        return root
    wrong = trouble(root, task, is_quick=True)
    if wrong is not None:
        raise Refused(f"{task.id}: {wrong.what}", hint=wrong.hint)
    return at


def trouble(root: Path, task: Task, *, is_quick: bool = False) -> Trouble | None:
    """What is wrong with the worktree of a task; `is_quick` asks git nothing."""
    at = place(root, task)
    if at is None:
        return None
    again = f"`ralph task start {task.id} --worktree`"
    main = paths.state_root(root)
    if not at.is_dir():
        branch = task.branch or ""
        lost = f"its worktree {task.worktree} is gone; what was committed is in the branch {branch}"
        if not is_quick and branch and not Repository(main).is_branch(branch):
            tip = member(task, "tip")
            lost = f"its worktree {task.worktree} and its branch {branch} are gone"
            again = f"`git branch {branch} {tip}` brings back what was committed; then {again}" if tip else again
            return Trouble(task.id, lost, f"{again} makes the worktree again")
        return Trouble(
            task.id, lost, f"{again} makes it again; `git worktree prune` forgets it, `ralph task drop` both"
        )
    if paths.state_root(at) != main:
        what = f"its worktree {task.worktree} leads to another place than this repository, which was moved or copied"
        return Trouble(task.id, what, f"{again} mends it (`git worktree repair {task.worktree}`); nothing is lost")
    if is_quick:
        return None
    return _rewritten(main, task) or _stranded(at, task) or _elsewhere(root, task) or _turned(task)


def astray(root: Path, task: Task) -> Astray | None:
    """Where the worktree of a task is that somebody has switched to another branch; None while it is on its own."""
    folder = top(root, task.id)
    own = Repository(folder)
    if not task.worktree or not folder.is_dir() or own.top is None:
        return None
    branch, head = own.branch(), own.commit("HEAD")
    return Astray(branch, head) if head and branch != (task.branch or "") else None


def _elsewhere(root: Path, task: Task) -> Trouble | None:
    there = astray(root, task)
    if there is None:
        return None
    what = f"its worktree {task.worktree} is on {there.named} instead of {task.branch}: what is done there stays there"
    back = f"`git switch {task.branch}` there goes back"
    return Trouble(task.id, what, f"{back}; `git merge {there.branch or there.head[:12]}` then takes its commits along")


def _turned(task: Task) -> Trouble | None:
    """A PRD that names another branch than the worktree is on."""
    wanted = task.extra.get(PRD_BRANCH)
    if not isinstance(wanted, str) or not wanted or wanted == task.branch:
        return None
    what = f"its PRD names the branch {wanted}, its worktree is on {task.branch}"
    again = f"`ralph task start {task.id} --worktree` goes on on {wanted}"
    return Trouble(task.id, what, f"`ralph task merge {task.id}` and `ralph task drop {task.id}` first; then {again}")


def _rewritten(main: Path, task: Task) -> Trouble | None:
    """A branch that no longer has the commits that were seen on it."""
    git, tip, branch = Repository(main), member(task, "tip"), task.branch or ""
    if not git.is_branch(branch):
        return Trouble(
            task.id, f"its branch {branch} is gone", f"`git branch {branch} {tip or 'COMMIT'}` brings it back"
        )
    if not tip or git.has(f"refs/heads/{branch}", tip) or is_kept(git, tip):
        return None
    if not git.commit(tip):
        what = f"its branch {branch} was rewritten, and {tip[:12]} is no longer in this repository"
        return Trouble(task.id, what, "another clone or its reflog may have it")
    what = f"its branch {branch} was rewritten: {tip[:12]} is no longer in it"
    return Trouble(task.id, what, f"`git branch rescued-{task.id} {tip}` keeps what was there before")


def is_kept(git: Repository, commit: str) -> bool:
    """Whether some branch or tag has a commit, so that git never throws it away."""
    return bool(git.answer("for-each-ref", "--count=1", "--contains", commit))


def stranded(at: Path) -> list[str]:
    """Logs within a worktree: they belong into the main checkout, and were written while git's pointers were broken."""
    return sorted(path.relative_to(at).as_posix() for path in (at / ".ralph" / "log").rglob("*.jsonl"))


def _stranded(at: Path, task: Task) -> Trouble | None:
    found = stranded(at)
    if not found:
        return None
    what = f"its worktree {task.worktree} has logs of its own, written while it led to another place: {listed(found)}"
    hint = "move what is in its .ralph/log to the same places in the main checkout; they are read there"
    return Trouble(task.id, what, hint)


def troubles(root: Path) -> list[Trouble]:
    """What is wrong with any task's worktree, and folders in `.worktrees/` that are no task's."""
    everything = board.read(root)
    found = [each for task in everything.tasks if task.worktree for each in [trouble(root, task)] if each is not None]
    known = {Path(task.worktree).parts[1:2] for task in everything.tasks if task.worktree}
    folder = paths.state_root(root) / FOLDER
    try:
        files.target(folder, folder.parent, folder=True)
    except RalphError as error:
        return [*found, Trouble("", error.message, error.hint)]
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and (path.name,) not in known:
            what = f"{FOLDER}/{path.name} is the worktree of no task"
            found.append(Trouble("", what, f"look into it; `git worktree remove {FOLDER}/{path.name}` removes it"))
    return found


# --- making it ---------------------------------------------------------------------------------


def make(root: Path, task_id: str, *, tell: Callable[[str], None] = ignore_text) -> Made:
    """Give a task a worktree; one that is there is taken, and mended where it has to be."""
    with tree_hold.held(root, f"making the worktree of {task_id}", tell=tell):
        return _made(root, task_id)


def _made(root: Path, task_id: str) -> Made:
    main = paths.state_root(root)
    git = Repository(main)
    head, above = git.commit("HEAD"), git.top
    if above is None or not head:
        what = f"{main}: there is no commit to begin a worktree at" if above else f"{main}: is not in a git repository"
        raise Refused(what, hint="`git init`, and commit something first" if not above else "commit something first")
    task = task_file.find(root, task_id).task
    branch = _branch(git, task)
    inside = main.resolve().relative_to(above.resolve())
    folder = top(root, task_id)
    files.target(main / FOLDER, main, folder=True)  # Refused: a link that leads out of the project
    hide_from_git(main / FOLDER, main)
    if not folder.exists():
        rescue.clear(root)  # what was staged there: the new index would not have it
    new = not _is_there(git, folder)
    made = new and _checked_out(git, folder, branch)
    back = staging.restore(folder / inside) if new else Restored()
    where = (folder / inside).relative_to(main).as_posix()

    def edit(old: Task) -> Task:
        begun = member(old, "base") if old.worktree and old.branch == branch else head
        after = replace(old, worktree=where, branch=branch)
        owner = "ralph" if made else member(old, "branch_by") if old.branch == branch else ""
        tip = member(old, "tip")
        seen_last = tip if old.branch == branch and git.commit(tip) and not is_kept(git, tip) else ""
        return with_state(after, base=begun, tip=seen_last or git.commit(f"refs/heads/{branch}"), branch_by=owner)

    return Made(task_file.change(root, task_id, edit), main / where, branch, new, back)


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


def _is_there(git: Repository, folder: Path) -> bool:
    """Whether the worktree is there and belongs to this repository; a moved one is mended, a deleted one forgotten."""
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


def _checked_out(git: Repository, folder: Path, branch: str) -> bool:
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


def gather(at: Path, learned: Iterable[Record]) -> list[Record]:
    """Put what was learned into the marked region of a worktree's AGENTS.md; gives what is new there.

    What speaks to its reader in orders stays out: agents take this page as their user's word.
    """
    wanted = [each for each in learned if not looks_like_instructions(each.text)]
    added: list[Record] = []

    def edit(text: str) -> str:
        added.clear()
        document = parse_region(text)
        shelf = Shelf(entry.record.text for entry in document.entries)
        for record in wanted:
            if shelf.nearest(record.text) is not None:
                continue
            try:
                document = document.add(record)
            except Refused:  # its words cannot stand there, or the marks do not pair: progress.txt has it
                continue
            shelf.add(record.text)
            added.append(record)
        return str(document)

    if wanted:
        files.update(at / PAGE, edit, root=at)
    return added


def seen(root: Path, task: Task, head: str) -> None:
    """Note the newest commit of a task's branch, by which a rewritten branch is found."""
    if head and task.worktree and head != member(task, "tip"):
        task_file.change(root, task.id, lambda old: with_state(old, tip=head) if old.worktree else old)


def witness(root: Path) -> None:
    """After a command in a worktree: note its commit, unless its branch was rewritten; then doctor tells by the old."""
    head = _current_commit(root)
    task = task_file.find(root, paths.task_of(root)).task if head and paths.task_of(root) else None
    if task is None or head == (tip := member(task, "tip")):
        return
    if not tip or Repository(root).has(head, tip):
        seen(root, task, head)


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


def hidden(git: Repository) -> list[str]:
    """Memory files of a checkout that git was told to ignore."""
    found = git.names("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--", *MEMORY)
    return sorted(name for name in found if not name.endswith((".gitignore", ".ralph-lock")))


MEMORY = (
    ".agent", ".ralph/agent", ".ralph/guardrails.md", ".ralph/knowledge", ".ralph/global-patterns.md", "guardrails.md",
    PAGE,
)  # fmt: skip
"""Where memory stands in a checkout."""


def check_free(root: Path, task: Task) -> None:
    """Refuse a task that a run works on: one that claims it, or one that is at it though somebody ended the task."""
    claim = task.claim.run if task.claim is not None and is_live(task.claim, ids.now()) else ""
    at_it = (each.id for each in runs.running(root) if _is_at(each, task.id) and runs.lives(root, each))
    run = claim or next(at_it, "")
    if run:
        raise Conflict(f"{run} works on {task.id}", hint=f"`ralph loop stop {run}` stops it; then try again")


def _is_at(run: Run, task_id: str) -> bool:
    return run.task == task_id or (task_id in run.only and task_id not in (*run.done, *run.failed))


def summed(found: Sequence[Trouble]) -> list[str]:
    """Troubles as lines."""
    return [f"{f'{each.task}: ' if each.task else ''}{each.what}; {each.hint}" for each in found]
