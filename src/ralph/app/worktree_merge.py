"""`ralph task merge`: merge a task's branch into the branch of the main checkout, with the user's hooks.

Ralph's files are merged by their entries (`formats/merge.py`). After any other conflict, and when a hook refuses, the
merge is aborted.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import worktree
from ralph.app.merge_driver import merge_lines
from ralph.app.repository import Repository, first_line, join_names
from ralph.app.tasks import board
from ralph.app.worktree import FOLDER, PAGE
from ralph.errors import Conflict, NotFound, Refused
from ralph.formats import merge as merging
from ralph.formats.pages import parse_region
from ralph.formats.text import normalise_text
from ralph.model.work import ProcessResult, Task, ignore_text
from ralph.store import files

NO_VERIFY = "--no-verify"
_LINES, _WIDTH = 30, 300  # how much of a hook's output or of a conflict a message quotes


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
    prefix: str  # the project's folder within the repository, with a slash at its end; "" at the top

    def base(self) -> str:
        return self.main.answer("merge-base", "HEAD", self.branch)

    def versions(self, path: str) -> tuple[str, str, str]:
        base = self.base()
        texts = (self.main.text(f"{commit}:{path}") if commit else None for commit in (base, "HEAD", self.branch))
        base_text, ours, theirs = (text or "" for text in texts)
        return base_text, ours, theirs

    def changed(self) -> list[str]:
        return self.main.names("diff", "--name-only", "-z", "--no-renames", self.base() or "HEAD", self.branch)

    def merged_entries(self, path: str) -> str | None:
        """Return a memory file merged by its entries; None for others, and when a conflict is left."""
        name, versions = path.removeprefix(self.prefix), self.versions(path)
        if not (path.startswith(self.prefix) and merging.can_merge(name)) or "\ufffd" in "".join(versions):
            return None
        merged = merging.merge(name, *versions, merge_lines)
        return None if merged.conflicts else merged.text


def merge(
    root: Path, task_id: str, *, commit: bool = False, verify: bool = True, tell: Callable[[str], None] = ignore_text
) -> MergeResult:
    """Merge a task's branch (`commit`: commit its worktree first)."""
    with worktree.repository_lock(root, f"merging {task_id}", tell=tell):
        sides = _find_branches(root, task_id)
        problem = worktree.problem_of(root, sides.task)
        folder = worktree.checkout_folder(root, task_id)
        own = Repository(folder)
        dirty = worktree.uncommitted(own) if folder.is_dir() and own.branch() == sides.branch else []
        if dirty and not commit:
            hint = f"commit them in {FOLDER}/{task_id}, or use --commit"
            raise Refused(f"the worktree of {task_id} has uncommitted changes: {join_names(dirty)}", hint=hint)
        written = {*sides.changed(), *dirty}
        if in_the_way := [path for path in sides.main.uncommitted() if path in written]:
            what = f"the main checkout has uncommitted changes where {sides.branch} writes: {join_names(in_the_way)}"
            raise Refused(what, hint="commit them first; nothing was merged")
        flags, names = () if verify else (NO_VERIFY,), [f":(top,literal){path}" for path in dirty]
        for words in (("add",), ("commit", "--quiet", *flags, "-m", sides.task.title)) if dirty else ():
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
        return MergeResult(sides.branch, sides.into, tuple(commits), changed, learned, tuple(dirty), notes)


def _find_branches(root: Path, task_id: str) -> _Branches:
    task = board.find(root, task_id).task
    worktree.check_free(root, task)
    at = paths.main_checkout(root)
    if (top := Repository(at).top) is None:
        raise Refused(f"{at}: is not in a git repository", hint="a merge needs one")
    main = Repository(top)
    branch, into = task.branch or "", main.branch()
    if not branch or not main.is_branch(branch):
        what = f"the branch {branch} of {task_id} does not exist" if branch else f"{task_id} has no branch"
        raise NotFound(what, hint=f"`ralph task start {task_id} --worktree` makes one")
    if not into:
        raise Refused("the main checkout is on no branch", hint="check out the branch to merge into")
    if branch == into:
        raise Refused(f"{branch} is checked out in the main checkout", hint="check out the branch to merge into")
    if main.commit("MERGE_HEAD"):
        raise Refused("a merge is going on in the main checkout", hint="`git merge --abort`, or end it with a commit")
    inside = at.resolve().relative_to(top.resolve()).as_posix()
    return _Branches(task, main, branch, into, "" if inside == "." else f"{inside}/")


def _merge(sides: _Branches, flags: Sequence[str]) -> None:
    """Merge in the main checkout; whatever stops it is reported after the merge was aborted."""
    main, message = sides.main, f"Merge {sides.branch}: {sides.task.title}"
    style = ("-c", "merge.conflictStyle=merge")
    ran = main.tell(*style, "merge", "--no-ff", "--quiet", *flags, "-m", message, sides.branch)
    if ran.code == 0 and main.has("HEAD", sides.branch):
        return
    if not main.commit("MERGE_HEAD"):
        raise Refused(f"nothing was merged: git says {first_line(ran)}", hint=f"try `git merge {sides.branch}` by hand")
    conflicts = main.names("diff", "--name-only", "-z", "--diff-filter=U")
    merged = {name: sides.merged_entries(name) for name in conflicts}
    if unresolved := [name for name, text in merged.items() if text is None]:  # both sides, while the merge is open
        diff = main.ask("diff", "--no-ext-diff", "--diff-filter=U", "--", *unresolved).out.splitlines()
        lines = [line for line in diff if not line.startswith(("diff ", "index ", "--- ", "* Unmerged"))][:_LINES]
        names, tree = join_names(unresolved), f"{FOLDER}/{sides.task.id}"
        what = f"{sides.branch} and {sides.into} both changed {names}; nothing was merged{_quote(lines)}"
        hint = f"merge {sides.into} into the worktree ({tree}) and resolve it there, "
        error = Conflict(what, hint=f"{hint}or `git merge {sides.branch}` here; then run this again")
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
        raise Refused(f"git could not abort the merge of {sides.branch}: {first_line(aborted)}", hint=hint)
    raise error if unresolved else _refused(ran, "git did not commit the merge")


def _refused(ran: ProcessResult, what: str) -> Refused:
    output = [line.rstrip() for line in f"{ran.out}\n{ran.err}".splitlines() if line.strip()]
    more = _quote(output[-_LINES:]) if len(output) > 1 else ""
    hint = "a hook of this repository may have refused it: fix what it names in the worktree, and run this again; "
    hint += f"{NO_VERIFY} skips the hooks, as in git"
    return Refused(f"{what}, and nothing was merged: {first_line(ran)}{more}", hint=hint)


def _quote(lines: Sequence[str]) -> str:
    return "".join(f"\n  {''.join(char if char.isprintable() else ' ' for char in line)[:_WIDTH]}" for line in lines)
