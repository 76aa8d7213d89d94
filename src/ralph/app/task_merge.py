"""`ralph task merge`: a task's branch into the branch of the main checkout, with what was learned on the way.

Memory files that were written in the worktree are committed there first; other uncommitted work is named and stops the
merge, unless it is to be committed, too. The merge is the user's own git. Where both sides only added entries (to the
marked region of AGENTS.md, to memories, guardrails, global patterns), both sides' entries are kept (`task_union`);
every other conflict is shown, and the merge taken back: no text is ever chosen away. A dry run asks git for the result
without touching a file. What git was told to ignore is carried over by itself. `tests/app/test_task_merge.py`.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.app import index_trees, promote, task_file, task_union, worktree
from ralph.app.repository import Repository, first_line, listed
from ralph.app.worktree import PAGE
from ralph.errors import Conflict, NotFound, Refused
from ralph.formats import region
from ralph.model.work import Task
from ralph.store import db, files


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did or would do."""

    task: Task
    branch: str
    into: str
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    """What is new in the region of AGENTS.md."""
    kept: tuple[str, ...] = ()
    """Memory files that were committed first, and those that git ignores and that were carried over."""
    diff: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether there was anything to merge."""
        return bool(self.commits or self.kept)


@dataclass(frozen=True, slots=True)
class _Sides:
    """A task's branch and the branch it goes into."""

    task: Task
    main: Repository
    branch: str
    into: str
    inside: str
    """The project's folder within the repository, with a slash at its end; "" at the top."""

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def base(self) -> str:
        """Where the two parted; "" when they have no past in common."""
        return self.main.answer("merge-base", "HEAD", self.ref)

    def named(self, path: str) -> str:
        """A path within the project; "" for one outside of it."""
        return path.removeprefix(self.inside) if path.startswith(self.inside) else ""

    def versions(self, path: str) -> tuple[str, str, str]:
        """A file where the sides parted, here and there; "" where it is not."""
        base = self.base()
        names = (f"{base}:{path}" if base else "", f"HEAD:{path}", f"{self.ref}:{path}")
        first, ours, theirs = ((self.main.text(name) or "") if name else "" for name in names)
        return first, ours, theirs


def merge(root: Path, task_id: str, *, dry_run: bool = False, commit: bool = False) -> Merged:
    """Merge a task's branch; `commit` commits first what is uncommitted in its worktree."""
    sides = _sides(root, task_id)
    wrong = worktree.trouble(root, sides.task)
    notes = (*worktree.summed([wrong] if wrong is not None else []), *_astray(root, sides))
    if dry_run:
        return _tried(root, sides, notes)
    kept = _committed(root, sides, commit=commit)
    carried, left = _carried(root, sides)
    outcome = _outlook(root, sides, (*notes, *left), (*kept, *carried))
    if not outcome.commits:
        return outcome
    _check_clean(sides, outcome.files)
    _merged(sides)
    _tidied(root, sides)
    return outcome


def _tidied(root: Path, sides: _Sides) -> None:
    """Throw away the index of the worktree, whose memory is the project's now; one that is in use stays."""
    at = worktree.place(root, sides.task)
    if at is not None and paths.worktree_name(at):
        with suppress(db.Busy):
            index_trees.discard_one(at)


def _sides(root: Path, task_id: str) -> _Sides:
    task = task_file.find(root, task_id).task
    worktree.check_free(task)
    at = paths.state_root(root)
    top = Repository(at).top
    if top is None:
        raise Refused(f"{at}: is not in a git repository", hint="a merge needs one")
    main = Repository(top)
    branch, into = task.branch or "", main.branch()
    if not branch or not main.is_branch(branch):
        what = f"the branch {branch} of {task_id} is not there" if branch else f"{task_id} has no branch"
        raise NotFound(what, hint=f"`ralph task start {task_id} --worktree` makes one; `ralph task show` tells more")
    if not into:
        raise Refused("the main checkout is on no branch", hint="check out the branch to merge into")
    if branch == into:
        raise Refused(f"{branch} is checked out in the main checkout", hint="check out the branch to merge into")
    if main.commit("MERGE_HEAD"):
        raise Refused("a merge is going on in the main checkout", hint="`git merge --abort`, or end it with a commit")
    inside = at.resolve().relative_to(top.resolve()).as_posix()
    return _Sides(task, main, branch, into, "" if inside == "." else f"{inside}/")


def _astray(root: Path, sides: _Sides) -> list[str]:
    """A note when somebody has checked out another branch in the worktree: what is uncommitted there stays there."""
    folder = worktree.top(root, sides.task.id)
    there = Repository(folder).branch() if folder.is_dir() else sides.branch
    if there == sides.branch:
        return []
    where = f"{worktree.FOLDER}/{folder.name} is on {there or 'no branch'}"
    return [f"{where}: what is uncommitted there does not belong to {sides.branch}"]


# --- before ------------------------------------------------------------------------------------


def _committed(root: Path, sides: _Sides, *, commit: bool) -> tuple[str, ...]:
    """Commit the memory files of the worktree on its branch, and all else if that is wanted; Refused if it is not."""
    folder = worktree.top(root, sides.task.id)
    own = Repository(folder)
    if not folder.is_dir() or own.branch() != sides.branch:
        return ()
    dirty = worktree.uncommitted(own)
    memory = tuple(path for path in dirty if _is_memory(own, sides, path))
    others = [path for path in dirty if path not in memory]
    if others and not commit:
        raise Refused(
            f"the worktree of {sides.task.id} has uncommitted changes: {listed(others)}",
            hint=f"commit them in {worktree.FOLDER}/{sides.task.id}, or let --commit do it",
        )
    for some, words in ((memory, f"What {sides.task.id} learned"), (tuple(others), sides.task.title)):
        if some:
            names = [f":(top,literal){path}" for path in some]
            for ran in (own.tell("add", "--", *names), own.tell("commit", "--quiet", "-m", words, "--", *names)):
                if ran.code != 0:
                    raise Refused(f"nothing was merged: git did not commit {listed(some)}: {first_line(ran)}",
                                  hint=f"commit it by hand in {folder}")  # fmt: skip
    return memory


def _is_memory(own: Repository, sides: _Sides, path: str) -> bool:
    """Whether a changed file is one of ours; of AGENTS.md, only if nothing but its region has changed."""
    name = sides.named(path)
    if name != PAGE:
        return any(name == each or name.startswith(f"{each}/") for each in worktree.MEMORY)
    texts = (own.text(f"HEAD:{path}") or "", files.read(own.folder / path) or "")
    before, now = (task_union.bare(region.parse, "", text)[0].strip() for text in texts)
    return before == now


def _carried(root: Path, sides: _Sides) -> tuple[list[str], list[str]]:
    """Take over memory files that git ignores: which, and a note for each that stands there with other words."""
    at = worktree.place(root, sides.task)
    main = paths.state_root(root)
    carried: list[str] = []
    notes: list[str] = []
    for name in worktree.hidden(Repository(at)) if at is not None and at.is_dir() else ():
        theirs, ours = files.read(at / name) if at is not None else None, files.read(main / name)
        if theirs is None or theirs == ours:
            continue
        joined = task_union.joined(name, "", ours, theirs) if ours is not None else None
        if ours is None or joined is not None:
            files.write(main / name, joined or theirs, root=main, expect=ours or "")
            carried += [name] if joined != ours else []
        else:
            notes.append(f"{name} is ignored by git and differs in the worktree; it was left there")
    return carried, notes


def _check_clean(sides: _Sides, changed: Sequence[str]) -> None:
    """Refuse while files that the merge writes have uncommitted changes in the main checkout."""
    names = set(changed)
    dirty = [each.path for each in sides.main.dirt() if each.path in names]
    if dirty:
        raise Refused(
            f"the main checkout has uncommitted changes where {sides.branch} writes: {listed(dirty)}",
            hint="commit them first; nothing was merged",
        )


def _outlook(root: Path, sides: _Sides, notes: tuple[str, ...] = (), kept: tuple[str, ...] = ()) -> Merged:
    """What the merge brings."""
    base = sides.base()
    names = sides.main.answer("diff", "--name-only", "-z", "--no-renames", base or "HEAD", sides.ref)
    commits = sides.main.answer("log", "--format=%h %s", f"HEAD..{sides.ref}")
    learned = task_union.new(region.parse, *sides.versions(f"{sides.inside}{PAGE}"))
    return Merged(
        task_file.find(root, sides.task.id).task, sides.branch, sides.into, tuple(commits.splitlines()),
        tuple(name for name in names.split("\0") if name), tuple(each.text for each in learned), kept, notes=notes,
    )  # fmt: skip


def _tried(root: Path, sides: _Sides, notes: tuple[str, ...]) -> Merged:
    """What a merge would do; conflicts that would stop it are notes."""
    folder = worktree.top(root, sides.task.id)
    own = Repository(folder)
    dirty = worktree.uncommitted(own) if folder.is_dir() and own.branch() == sides.branch else []
    memory = [path for path in dirty if _is_memory(own, sides, path)]
    told = [f"would be committed first: {listed(memory)}"] if memory else []
    if others := [path for path in dirty if path not in memory]:
        told.append(f"is uncommitted in the worktree and stops the merge: {listed(others)}")
    ran = sides.main.ask("merge-tree", "--write-tree", "--name-only", "-z", "--no-messages", "HEAD", sides.ref)
    if ran.code == 1:
        open_ = [name for name in ran.out.split("\0")[1:] if name and _united(sides, name) is None]
        told += [f"would be in conflict and stop the merge: {listed(open_)}"] if open_ else []
    elif ran.code != 0:
        told.append(f"git cannot tell whether there are conflicts: {first_line(ran)}")
    outcome = _outlook(root, sides, (*notes, *told))
    pages = [promote.difference(name, sides.versions(name)[1], text) for name, text in _page(sides).items()]
    stat = sides.main.answer("diff", "--stat", sides.base() or "HEAD", sides.ref)
    return Merged(outcome.task, outcome.branch, outcome.into, outcome.commits, outcome.files, outcome.learned,
                  diff="\n".join(filter(None, [stat, *pages])), notes=outcome.notes)  # fmt: skip


# --- the merge ---------------------------------------------------------------------------------


def _merged(sides: _Sides) -> None:
    """The merge itself, ended by a commit or taken back."""
    git = sides.main
    wanted = _page(sides)
    ran = git.tell("merge", "--no-ff", "--no-commit", "--quiet", sides.ref)
    if not git.commit("MERGE_HEAD"):
        raise Refused(f"git merged nothing: {first_line(ran)}", hint=f"try `git merge {sides.branch}` by hand")
    try:
        open_ = _unmerged(git)
        wanted |= {name: text for name in open_ if (text := _united(sides, name)) is not None}
        if left := [name for name in open_ if name not in wanted]:
            raise Conflict(
                f"{sides.branch} and {sides.into} both changed {listed(left)}; the merge was taken back",
                hint=f"merge {sides.into} into the worktree ({worktree.FOLDER}/{sides.task.id}) and settle it there, "
                f"or `git merge {sides.branch}` here; then run this again",
            )
        for name, text in wanted.items():
            _put(git, name, text)
        words = f"Merge {sides.branch}: {sides.task.title}"
        ran = git.tell("commit", "--quiet", "-m", words)
        if ran.code != 0:
            raise Refused(f"git did not commit the merge, which was taken back: {first_line(ran)}",
                          hint=f"`git merge {sides.branch}` by hand tells more")  # fmt: skip
    except BaseException:
        if git.commit("MERGE_HEAD"):
            git.tell("merge", "--abort")
        raise


def _put(git: Repository, name: str, text: str) -> None:
    """Write a file of the merge."""
    files.update(git.folder / name, lambda _: text, root=git.folder)
    git.tell("add", "--", f":(top,literal){name}")


def _page(sides: _Sides) -> dict[str, str]:
    """AGENTS.md as it should be after the merge, by its path; nothing when the branch has not touched it."""
    path = f"{sides.inside}{PAGE}"
    base, _, theirs = sides.versions(path)
    text = _united(sides, path) if theirs and theirs != base else None
    return {path: text} if text is not None else {}


def _unmerged(git: Repository) -> list[str]:
    out = git.answer("diff", "--name-only", "-z", "--diff-filter=U")
    return [name for name in out.split("\0") if name]


def _united(sides: _Sides, path: str) -> str | None:
    """A file with the new entries of both sides; None when it is not that kind of file, or more has changed."""
    name = sides.named(path)
    return task_union.joined(name, *sides.versions(path)) if name in task_union.JOINABLE else None
