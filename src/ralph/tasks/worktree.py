"""Create, check, merge and drop the worktrees of tasks: checkouts in `.worktrees/<id>/` on the branch `ralph/<id>`.

What a person or git did to a worktree is reported with the command that repairs it. One process at a time creates,
merges or drops a worktree. A merge runs the user's hooks; Ralph's files are merged by their entries
(`formats/merge.py`), and after any other conflict, or when a hook refuses, the merge is aborted.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Conflict, NotFound, RalphError, Refused, Unreadable
from ralph.core.record import Record
from ralph.core.render import looks_like_instructions
from ralph.core.repository import Repository, first_line, join_names
from ralph.core.similarity import TextMatcher
from ralph.core.text import normalise_text
from ralph.core.work import ProcessResult, Task, ignore_text
from ralph.formats import merge as merging
from ralph.formats.pages import parse_region
from ralph.loop import runs
from ralph.memory.merge_driver import merge_lines
from ralph.search import index
from ralph.storage import board, files
from ralph.storage.board import is_live
from ralph.storage.config import hide_from_git

FOLDER = ".worktrees"
BRANCH = "ralph/"
PAGE = "AGENTS.md"
PATIENCE = 120.0  # seconds to wait for another process that merges; it may run hooks
_PAUSE = 0.05
_BRANCH_BY = "branch_by"  # the member of task.json: who made its branch
_MEMORY = re.compile(
    r"(\.agent|\.ralph/agent|\.ralph/guardrails\.md|\.ralph/knowledge|\.ralph/global-patterns\.md|guardrails\.md)(/.*)?",
    re.DOTALL,
)
_CACHES = frozenset(
    ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")
)  # tools make them again
_OUR_FOLDERS = (".ralph/cache/", ".ralph/local/", ".ralph/tasks/", ".ralph/ralph.db")
_OUR_FILES = ("scratchpad.md", ".gitignore", ".ralph-lock", files.TEMP_SUFFIX)
NO_VERIFY = "--no-verify"
# how much of a hook's output or of a conflict a message quotes
_LINES = 30
_WIDTH = 300


class Worktree(NamedTuple):
    """A task's worktree: where the agent works, on which branch, and whether it is new."""

    task: Task
    place: Path
    branch: str
    new: bool = True


class WorktreeProblem(NamedTuple):
    """What is wrong with a task's worktree, and what to do about it."""

    task: str
    what: str
    hint: str

    def __str__(self) -> str:
        return f"{f'{self.task}: ' if self.task else ''}{self.what}; {self.hint}"


@contextmanager
def repository_lock(
    root: Path, what: str, *, tell: Callable[[str], None] = ignore_text, patience: float = PATIENCE
) -> Iterator[None]:
    """Lock the project's repository while `what` is done; Conflict when another process has it for too long."""
    owner = f"{what}, process {os.getpid()}, since {ids.timestamp()}"
    path = paths.cache_folder(paths.main_checkout(root)) / "repository"
    until = time.monotonic() + patience
    waiting = False
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(
                    files.process_lock(path, owner, root=paths.state_boundary(root))
                )
                break
            except files.LockTaken as taken:
                if time.monotonic() > until:
                    hint = "nothing was changed; run it again when that one has ended"
                    raise Conflict(
                        f"another process is at this repository's worktrees{taken.by}", hint=hint
                    ) from taken
                if not waiting and taken.by:
                    tell(f"waiting for another process{taken.by}")
                    waiting = True
                time.sleep(_PAUSE)  # a wait in the kernel has no time limit
        yield


def folder_of(root: Path, task: Task) -> Path | None:
    """Return the folder where an agent works on a task that has a worktree, whether it exists or not."""
    return (
        Path(os.path.normpath(paths.main_checkout(root) / task.worktree)) if task.worktree else None
    )


def checkout_folder(root: Path, task_id: str) -> Path:
    """Return the top folder of a task's checkout."""
    return paths.main_checkout(root) / FOLDER / task_id


def working_folder(root: Path, task: Task) -> Path:
    """Return where to work on a task; Refused when its worktree cannot be used."""
    if (problem := problem_of(root, task, quick=True)) is not None:
        raise Refused(f"{task.id}: {problem.what}", hint=problem.hint)
    return folder_of(root, task) or root


def problem_of(root: Path, task: Task, *, quick: bool = False) -> WorktreeProblem | None:
    """Return what is wrong with the worktree of a task; `quick` does not start git."""
    folder = folder_of(root, task)
    main = paths.main_checkout(root)
    branch = task.branch or ""
    if folder is None:
        return None
    again = f"`ralph task start {task.id} --worktree`"
    lost_branch = not quick and bool(branch) and not Repository(main).is_branch(branch)
    what = hint = ""
    if not folder.is_dir() and lost_branch:
        what = f"its worktree {task.worktree} and its branch {branch} are gone"
        hint = f"{again} makes both again"
    elif not folder.is_dir():
        what = f"its worktree {task.worktree} is gone; what was committed is in the branch {branch}"
        hint = f"{again} makes it again; `git worktree prune` forgets it, `ralph task drop` both"
    elif not _belongs_to(folder, main):
        what = f"its worktree {task.worktree} leads to another place than this repository, which was moved or copied"
        hint = f"{again} repairs it (`git worktree repair {task.worktree}`); nothing is lost"
    elif quick:
        return None
    elif lost_branch:
        what = f"its branch {branch} is gone"
        hint = f"`git branch {branch} COMMIT` brings it back"
    elif (other := Repository(folder).branch() or "no branch") != branch:
        what = f"its worktree {task.worktree} is on {other} instead of {branch}"
        hint = f"`git switch {branch}` there goes back; `git merge` then takes its commits along"
    return WorktreeProblem(task.id, what, hint) if what else None


def _belongs_to(folder: Path, main: Path) -> bool:
    try:
        return paths.main_checkout(folder) == main
    except Unreadable:  # its pointer file leads to where the repository was before
        return False


def problems(root: Path) -> list[WorktreeProblem]:
    """Return what is wrong with any task's worktree, and folders in `.worktrees/` that are no task's."""
    tasks = [task for task in board.read(root).tasks if task.worktree]
    results = [problem for task in tasks if (problem := problem_of(root, task)) is not None]
    folder = paths.main_checkout(root) / FOLDER
    try:
        files.target(folder, folder.parent, folder=True)
    except RalphError as error:
        return [*results, WorktreeProblem("", error.message, error.hint)]
    names = {
        Path(task.worktree or "").parts[1]
        for task in tasks
        if len(Path(task.worktree or "").parts) > 1
    }
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and path.name not in names:
            hint = f"look into it; `git worktree remove {FOLDER}/{path.name}` removes it"
            results.append(
                WorktreeProblem("", f"{FOLDER}/{path.name} is the worktree of no task", hint)
            )
    return results


def create(root: Path, task_id: str, *, tell: Callable[[str], None] = ignore_text) -> Worktree:
    """Create a task's worktree; one that exists is used, and repaired where it has to be."""
    with repository_lock(root, f"making the worktree of {task_id}", tell=tell):
        main = paths.main_checkout(root)
        git = Repository(main)
        head = git.commit("HEAD")
        top = git.top
        if top is None:
            raise Refused(
                f"{main}: is not in a git repository", hint="`git init`, and commit something first"
            )
        if not head:
            raise Refused(
                f"{main}: there is no commit to begin a worktree at", hint="commit something first"
            )
        task = board.find(root, task_id).task
        branch = task.branch or f"{BRANCH}{task.id}"
        if branch.startswith("-") or not git.holds("check-ref-format", "--branch", branch):
            raise Refused(
                f"{branch!r} cannot be the name of a branch",
                hint='mend "branchName" in its prd.json',
            )
        if branch == git.branch():
            hint = "check out another one there, or name another one in its prd.json"
            raise Refused(f"the branch {branch} is checked out in the main checkout", hint=hint)
        folder = checkout_folder(root, task_id)
        files.target(
            main / FOLDER, main, folder=True
        )  # Refused: a link that leads out of the project
        hide_from_git(main / FOLDER, main)
        is_new = not _repair(git, folder)
        is_our_branch = is_new and not git.is_branch(branch)
        if is_new:
            words = ("-b", branch, str(folder), "HEAD") if is_our_branch else (str(folder), branch)
            result = git.tell("worktree", "add", "--quiet", *words)
            if result.code != 0:
                hint = f"look at `git worktree list` and `git branch {branch}`"
                raise Refused(f"git made no worktree: {first_line(result)}", hint=hint)
        where = (folder / main.resolve().relative_to(top.resolve())).relative_to(main).as_posix()

        def edit(old: Task) -> Task:
            is_ours = is_our_branch or (old.branch == branch and old.extra.get(_BRANCH_BY))
            owner = {_BRANCH_BY: "ralph"} if is_ours else {}
            extra = {key: value for key, value in old.extra.items() if key != _BRANCH_BY} | owner
            return replace(old, worktree=where, branch=branch, extra=extra)

        return Worktree(board.change(root, task_id, edit), main / where, branch, is_new)


def _repair(git: Repository, folder: Path) -> bool:
    """Return whether the worktree exists; a moved one is repaired, a deleted one forgotten."""
    registered = _registered(git)
    if not folder.exists():
        if os.path.realpath(folder) in registered:  # deleted by hand: only git's note of it goes
            git.tell("worktree", "remove", "--force", str(folder))
        return False
    if folder.is_symlink() or not (folder / ".git").is_file():
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            return False
        raise Refused(
            f"{folder}: is there and is no worktree", hint="move it away; nothing was changed"
        )
    if Repository(folder).top is None or os.path.realpath(folder) not in registered:
        result = git.tell("worktree", "repair", str(folder))
        if Repository(folder).top is None or os.path.realpath(folder) not in _registered(git):
            hint = "its files are as they were: move the folder away and run the command again"
            raise Refused(
                f"{folder}: is no worktree of this repository any more: {first_line(result)}",
                hint=hint,
            )
    return True


def _registered(git: Repository) -> set[str]:
    lines = git.names("worktree", "list", "--porcelain", "-z")
    return {
        os.path.realpath(line.removeprefix("worktree "))
        for line in lines
        if line.startswith("worktree ")
    }


def record_learnings(folder: Path, learned: Iterable[Record]) -> list[Record]:
    """Put what was learned into a worktree's AGENTS.md, and commit a page without other changes; return what is new."""
    records = [
        record for record in learned if not looks_like_instructions(record.text)
    ]  # agents trust this page
    if not records:
        return []

    def edit(text: str) -> tuple[str, list[Record]]:
        document = parse_region(text)
        matcher = TextMatcher(entry.record.text for entry in document.entries)
        added = []
        for record in records:
            if matcher.nearest(record.text) is None:
                with suppress(
                    Refused
                ):  # it cannot be stored there, or the marks do not pair: progress.txt has it
                    document = document.add(record)
                    matcher.add(record.text)
                    added.append(record)
        return str(document), added

    git = Repository(folder)
    status = git.ask("status", "--porcelain", "--", PAGE)
    added = files.update(folder / PAGE, edit, root=folder)[1]
    if added and status.code == 0 and not status.out:
        git.tell("add", "--", PAGE)
        options = (
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "commit.gpgSign=false",
        )  # Ralph's own text
        git.tell(
            *options,
            "commit",
            "--quiet",
            "--only",
            "-m",
            f"Record what {folder.name} learned",
            "--",
            PAGE,
        )
    return added


@dataclass(frozen=True, slots=True)
class Losses:
    """What is only in a worktree: files that are not committed or that git ignores, and commits."""

    uncommitted: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    unknown: str = ""  # why the losses cannot be determined

    def __bool__(self) -> bool:
        return bool(self.uncommitted or self.ignored or self.commits or self.unknown)

    @property
    def description(self) -> str:
        """The losses in a sentence."""
        parts = {
            f"{len(self.uncommitted)} uncommitted: {join_names(self.uncommitted)}": self.uncommitted,
            f"{len(self.ignored)} that git ignores: {join_names(self.ignored)}": self.ignored,
            f"{len(self.commits)} unmerged commits: {join_names(self.commits)}": self.commits,
            self.unknown: self.unknown,
        }
        return "; ".join(text for text, value in parts.items() if value)


def losses(root: Path, task_id: str) -> Losses:
    """Return what would be lost with a task's worktree."""
    task = board.find(root, task_id).task
    main = Repository(paths.main_checkout(root))
    folder = checkout_folder(root, task_id)
    if not task.worktree and not folder.exists():
        raise NotFound(
            f"{task_id} has no worktree", hint=f"`ralph task start {task_id} --worktree` makes one"
        )
    git = Repository(folder)
    top = git.top if folder.exists() else None
    is_ours = top is not None and os.path.realpath(top) == os.path.realpath(folder)
    goes = _branch_to_delete(main, task)
    head = git.commit("HEAD") if is_ours else ""
    heads = [name for name in (head, f"refs/heads/{goes}" if goes else "") if name]
    others = (
        *([f"--exclude=refs/heads/{goes}"] if goes else []),
        "--glob=refs/heads",
        "--remotes",
        "--tags",
    )
    log = (
        main.answer("log", "--format=%h %s", *heads, "--not", *others).splitlines() if heads else []
    )
    lost = Losses(commits=tuple(log))
    if not folder.exists():
        return lost
    if not is_ours:
        return replace(
            lost, unknown=f"{FOLDER}/{task_id} is no worktree of this repository any more"
        )
    try:
        return replace(lost, uncommitted=tuple(uncommitted(git)), ignored=_ignored(git))
    except RalphError as error:
        return replace(lost, unknown=error.message)


def _branch_to_delete(main: Repository, task: Task) -> str:
    return (
        task.branch
        if task.branch and task.extra.get(_BRANCH_BY) and main.is_branch(task.branch)
        else ""
    )


def _ignored(git: Repository) -> tuple[str, ...]:
    status = git.names(
        "status",
        "--porcelain=v1",
        "-z",
        "--no-renames",
        "--untracked-files=all",
        "--ignored=matching",
    )
    names = {line.removeprefix("!! ") for line in status if line.startswith("!! ")}
    names = {name for name in names if not name.startswith((".ralph/", ".agent/"))}
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

    def is_lost(name: str) -> bool:
        parts = name.rstrip("/").split("/")
        is_ours = parts[-1].endswith(_OUR_FILES) or any(
            folder in f"{name}/" for folder in _OUR_FOLDERS
        )
        return _CACHES.isdisjoint(parts) and not (".ralph" in parts and is_ours)

    return tuple(filter(is_lost, sorted(names)))


def uncommitted(git: Repository) -> list[str]:
    """Return what is uncommitted in a checkout, but for the working memory of its iterations."""
    return [path for path in git.uncommitted() if not path.endswith(".ralph/scratchpad.md")]


def check_free(root: Path, task: Task) -> None:
    """Refuse a task that a run claims, or works on though somebody ended the task."""
    run_id = task.claim.run if task.claim is not None and is_live(task.claim, ids.now()) else ""
    for run in runs.running(root) if not run_id else ():
        is_open = task.id in run.only and task.id not in (*run.done, *run.failed)
        if (run.task == task.id or is_open) and runs.lives(root, run):
            run_id = run.id
    if run_id:
        raise Conflict(
            f"{run_id} works on {task.id}",
            hint=f"`ralph loop stop {run_id}` stops it; then try again",
        )


def drop(
    root: Path,
    task_id: str,
    *,
    agreed: Losses | None = None,
    tell: Callable[[str], None] = ignore_text,
) -> Task:
    """Remove a task's worktree and its own branch; Refused when more is lost than `agreed`."""
    with repository_lock(root, f"dropping the worktree of {task_id}", tell=tell):
        task = board.find(root, task_id).task
        check_free(root, task)
        main = paths.main_checkout(root)
        files.target(main / FOLDER, main, folder=True)
        lost = losses(root, task_id)
        if memory := [path for path in lost.uncommitted if _MEMORY.fullmatch(path)]:
            hint = f"commit it in {FOLDER}/{task_id} and `ralph task merge {task_id}`, or undo it there with git"
            raise Refused(
                f"the worktree of {task_id} has uncommitted memory: {join_names(memory)}", hint=hint
            )
        if lost and lost != agreed:
            hint = f"`ralph task merge {task_id}` first; --yes drops it all the same"
            raise Refused(
                f"this would be lost with the worktree of {task_id}: {lost.description}", hint=hint
            )
        git = Repository(main)
        folder = checkout_folder(root, task.id)
        name = paths.worktree_name(folder) if folder.exists() else ""
        if folder.exists() or os.path.realpath(folder) in _registered(git):
            if folder.exists():
                git.tell("worktree", "repair", str(folder))
            result = git.tell("worktree", "remove", "--force", str(folder))
            if result.code != 0:
                raise Refused(
                    f"git did not remove the worktree: {first_line(result)}",
                    hint=f"look at {folder}",
                )
        if branch := _branch_to_delete(git, task):
            result = git.tell("branch", "--quiet", "-D", branch)
            if result.code != 0:
                raise Refused(
                    f"git did not delete {branch}: {first_line(result)}",
                    hint="look at `git worktree list`",
                )
        if name:
            index.remove_worktree_index(root, name)

        def edit(old: Task) -> Task:  # a branch that its PRD names is the next worktree's, too
            is_ours = old.extra.get(_BRANCH_BY) and old.branch == f"{BRANCH}{old.id}"
            extra = {key: value for key, value in old.extra.items() if key != _BRANCH_BY}
            return replace(old, worktree=None, branch=None if is_ours else old.branch, extra=extra)

        return board.change(root, task_id, edit)


# --- merge -----------------------------------------------------------------------------------------


class MergeResult(NamedTuple):
    """What a merge did."""

    branch: str
    into: str
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()  # entries that are new in AGENTS.md
    committed: tuple[str, ...] = ()  # files of the worktree that `--commit` committed first
    notes: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether there was anything to merge."""
        return bool(self.commits or self.committed)


class _Branches(NamedTuple):
    """A task's branch, and the branch of the main checkout that it is merged into."""

    task: Task
    main: Repository
    branch: str
    into: str
    prefix: (
        str  # the project's folder within the repository, with a slash at its end; "" at the top
    )

    def base(self) -> str:
        return self.main.answer("merge-base", "HEAD", self.branch)

    def versions(self, path: str) -> tuple[str, str, str]:
        base = self.base()
        texts = (
            self.main.text(f"{commit}:{path}") if commit else None
            for commit in (base, "HEAD", self.branch)
        )
        base_text, ours, theirs = (text or "" for text in texts)
        return base_text, ours, theirs

    def changed(self) -> list[str]:
        return self.main.names(
            "diff", "--name-only", "-z", "--no-renames", self.base() or "HEAD", self.branch
        )

    def merged_entries(self, path: str) -> str | None:
        """Return a memory file merged by its entries; None for others, and when a conflict is left."""
        name = path.removeprefix(self.prefix)
        versions = self.versions(path)
        if not (path.startswith(self.prefix) and merging.can_merge(name)) or "\ufffd" in "".join(
            versions
        ):
            return None
        merged = merging.merge(name, *versions, merge_lines)
        return None if merged.conflicts else merged.text


def merge(
    root: Path,
    task_id: str,
    *,
    commit: bool = False,
    verify: bool = True,
    tell: Callable[[str], None] = ignore_text,
) -> MergeResult:
    """Merge a task's branch (`commit`: commit its worktree first)."""
    with repository_lock(root, f"merging {task_id}", tell=tell):
        sides = _find_branches(root, task_id)
        problem = problem_of(root, sides.task)
        folder = checkout_folder(root, task_id)
        own = Repository(folder)
        dirty = uncommitted(own) if folder.is_dir() and own.branch() == sides.branch else []
        if dirty and not commit:
            hint = f"commit them in {FOLDER}/{task_id}, or use --commit"
            raise Refused(
                f"the worktree of {task_id} has uncommitted changes: {join_names(dirty)}", hint=hint
            )
        written = {*sides.changed(), *dirty}
        if in_the_way := [path for path in sides.main.uncommitted() if path in written]:
            what = f"the main checkout has uncommitted changes where {sides.branch} writes: {join_names(in_the_way)}"
            raise Refused(what, hint="commit them first; nothing was merged")
        flags = () if verify else (NO_VERIFY,)
        names = [f":(top,literal){path}" for path in dirty]
        for words in (
            (("add",), ("commit", "--quiet", *flags, "-m", sides.task.title)) if dirty else ()
        ):
            ran = own.tell(*words, "--", *names)
            if ran.code != 0:
                raise _refused(ran, f"git did not commit {join_names(dirty)} in {own.folder}")
        commits = sides.main.answer("log", "--format=%h %s", f"HEAD..{sides.branch}").splitlines()
        pages = map(parse_region, sides.versions(f"{sides.prefix}{PAGE}"))
        base, ours, theirs = ([entry.record.text for entry in page.entries] for page in pages)
        known = set(map(normalise_text, (*base, *ours)))
        learned = tuple(text for text in theirs if normalise_text(text) not in known)
        changed = tuple(sides.changed())
        if commits:
            _merge(sides, flags)
        notes = (str(problem),) if problem is not None else ()
        return MergeResult(
            sides.branch, sides.into, tuple(commits), changed, learned, tuple(dirty), notes
        )


def _find_branches(root: Path, task_id: str) -> _Branches:
    task = board.find(root, task_id).task
    check_free(root, task)
    at = paths.main_checkout(root)
    if (top := Repository(at).top) is None:
        raise Refused(f"{at}: is not in a git repository", hint="a merge needs one")
    main = Repository(top)
    branch = task.branch or ""
    into = main.branch()
    if not branch or not main.is_branch(branch):
        what = (
            f"the branch {branch} of {task_id} does not exist"
            if branch
            else f"{task_id} has no branch"
        )
        raise NotFound(what, hint=f"`ralph task start {task_id} --worktree` makes one")
    if not into:
        raise Refused(
            "the main checkout is on no branch", hint="check out the branch to merge into"
        )
    if branch == into:
        raise Refused(
            f"{branch} is checked out in the main checkout",
            hint="check out the branch to merge into",
        )
    if main.commit("MERGE_HEAD"):
        raise Refused(
            "a merge is going on in the main checkout",
            hint="`git merge --abort`, or end it with a commit",
        )
    inside = at.resolve().relative_to(top.resolve()).as_posix()
    return _Branches(task, main, branch, into, "" if inside == "." else f"{inside}/")


def _merge(sides: _Branches, flags: Sequence[str]) -> None:
    """Merge in the main checkout; whatever stops it is reported after the merge was aborted."""
    main = sides.main
    message = f"Merge {sides.branch}: {sides.task.title}"
    style = ("-c", "merge.conflictStyle=merge")
    ran = main.tell(*style, "merge", "--no-ff", "--quiet", *flags, "-m", message, sides.branch)
    if ran.code == 0 and main.has("HEAD", sides.branch):
        return
    if not main.commit("MERGE_HEAD"):
        raise Refused(
            f"nothing was merged: git says {first_line(ran)}",
            hint=f"try `git merge {sides.branch}` by hand",
        )
    conflicts = main.names("diff", "--name-only", "-z", "--diff-filter=U")
    merged = {name: sides.merged_entries(name) for name in conflicts}
    if unresolved := [
        name for name, text in merged.items() if text is None
    ]:  # both sides, while the merge is open
        diff = main.ask(
            "diff", "--no-ext-diff", "--diff-filter=U", "--", *unresolved
        ).out.splitlines()
        lines = [
            line for line in diff if not line.startswith(("diff ", "index ", "--- ", "* Unmerged"))
        ][:_LINES]
        names = join_names(unresolved)
        tree = f"{FOLDER}/{sides.task.id}"
        what = f"{sides.branch} and {sides.into} both changed {names}; nothing was merged{_quote(lines)}"
        hint = f"merge {sides.into} into the worktree ({tree}) and resolve it there, "
        error = Conflict(
            what, hint=f"{hint}or `git merge {sides.branch}` here; then run this again"
        )
    elif conflicts:
        for name, text in merged.items():
            files.write(main.folder / name, text or "", root=main.folder)
            main.tell("add", "--", f":(top,literal){name}")
        ran = main.tell("commit", "--quiet", *flags, "-m", message)
        if ran.code == 0:
            return
    aborted = main.tell("merge", "--abort")
    if aborted.code != 0:
        hint = "`git status` in the main checkout shows what is half merged"
        raise Refused(
            f"git could not abort the merge of {sides.branch}: {first_line(aborted)}", hint=hint
        )
    raise error if unresolved else _refused(ran, "git did not commit the merge")


def _refused(ran: ProcessResult, what: str) -> Refused:
    output = [line.rstrip() for line in f"{ran.out}\n{ran.err}".splitlines() if line.strip()]
    more = _quote(output[-_LINES:]) if len(output) > 1 else ""
    hint = "a hook of this repository may have refused it: fix what it names in the worktree, and run this again; "
    hint += f"{NO_VERIFY} skips the hooks, as in git"
    return Refused(f"{what}, and nothing was merged: {first_line(ran)}{more}", hint=hint)


def _quote(lines: Sequence[str]) -> str:
    return "".join(
        f"\n  {''.join(char if char.isprintable() else ' ' for char in line)[:_WIDTH]}"
        for line in lines
    )
