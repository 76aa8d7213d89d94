"""`ralph task merge`: merge a task's branch into the branch of the main checkout.

The merge is `git merge --no-ff` in the main checkout, with the user's hooks. Where both branches only added entries to
AGENTS.md, memories, guardrails or global patterns, both sides' entries are kept; after any other conflict, and when a
hook refuses, the merge is aborted. Nothing is merged while the worktree has uncommitted changes, memory included.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import promote
from ralph.app.repository import Repository, first_line, join_names
from ralph.app.tasks import board
from ralph.app.worktrees import worktree
from ralph.app.worktrees.worktree import PAGE
from ralph.errors import Conflict, NotFound, RalphError, Refused
from ralph.formats.memories import GUARDRAILS, parse_memories
from ralph.formats.pages import parse_patterns, parse_region
from ralph.formats.text import Document, normalise_text
from ralph.model.record import Record
from ralph.model.work import ProcessResult, Task, ignore_text
from ralph.store import files

NO_VERIFY = "--no-verify"
_LINES, _WIDTH = 30, 300
"""How much of a hook's output or of a conflict a message quotes."""

Parse = Callable[[str], Document]
_PATTERNS = ".ralph/global-patterns.md"
_PARSERS: dict[str, Parse] = {
    "AGENTS.md": parse_region,
    "CLAUDE.md": parse_region,
    ".agent/memories.md": parse_memories,
    ".ralph/agent/memories.md": parse_memories,
    ".ralph/guardrails.md": lambda text: parse_memories(text, GUARDRAILS),
    "guardrails.md": lambda text: parse_memories(text, GUARDRAILS),
    _PATTERNS: parse_patterns,
}
"""Files of which both sides' new entries can be kept."""
_FOOTER = re.compile(r"[_*]+Last updated: (\d{4}-\d{2}-\d{2}) by ([^\s_*]+)[_*]+")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What a merge did or, in a dry run, would do."""

    task: Task
    branch: str
    into: str
    commits: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    learned: tuple[str, ...] = ()
    """Entries that are new in AGENTS.md."""
    committed: tuple[str, ...] = ()
    """Files of the worktree that `--commit` committed first."""
    diff: str = ""
    notes: tuple[str, ...] = ()
    stops: tuple[str, ...] = ()
    """Why the merge after a dry run would be refused."""

    @property
    def is_new(self) -> bool:
        """Whether there was anything to merge."""
        return bool(self.commits or self.committed)


@dataclass(frozen=True, slots=True)
class _Branches:
    """A task's branch, and the branch of the main checkout that it is merged into."""

    task: Task
    main: Repository
    branch: str
    into: str
    prefix: str
    """The project's folder within the repository, with a slash at its end; "" at the top."""

    def base(self) -> str:
        """The merge base; "" without one."""
        return self.main.answer("merge-base", "HEAD", self.branch)

    def versions(self, path: str) -> tuple[str, str, str]:
        """A file as it is in the merge base, here and on the task's branch."""
        base, ours, theirs = (
            self.main.text(f"{commit}:{path}") if commit else None for commit in (self.base(), "HEAD", self.branch)
        )
        return base or "", ours or "", theirs or ""

    def changed(self) -> list[str]:
        """The files that the task's branch changes."""
        return self.main.names("diff", "--name-only", "-z", "--no-renames", self.base() or "HEAD", self.branch)


def merge(
    root: Path,
    task_id: str,
    *,
    dry_run: bool = False,
    commit: bool = False,
    verify: bool = True,
    tell: Callable[[str], None] = ignore_text,
) -> MergeResult:
    """Merge a task's branch; `commit` commits what is uncommitted in its worktree first, `verify` runs the hooks."""
    with worktree.repository_lock(root, f"merging {task_id}", tell=tell):
        sides = _branches(root, task_id)
        problem = worktree.problem_of(root, sides.task)
        notes = tuple(worktree.describe([problem] if problem is not None else []))
        folder = worktree.checkout_folder(root, task_id)
        own = Repository(folder)
        dirty = worktree.uncommitted(own) if folder.is_dir() and own.branch() == sides.branch else []
        refusal = None if commit or not dirty else _uncommitted(sides, dirty)
        if dry_run:
            return _preview(root, sides, dirty if commit else [], notes, refusal)
        if refusal is not None:
            raise refusal
        _check_clean(sides, dirty)
        if dirty:
            _commit(own, sides, dirty, verify)
        outcome = replace(_summary(root, sides), committed=tuple(dirty), notes=notes)
        if not outcome.commits:
            _check_other_branch(root, sides)
        else:
            _merge(sides, verify)
        return outcome


def _uncommitted(sides: _Branches, dirty: Sequence[str]) -> Refused:
    return Refused(
        f"the worktree of {sides.task.id} has uncommitted changes: {join_names(dirty)}",
        hint=f"commit them in {worktree.FOLDER}/{sides.task.id}, or use --commit",
    )


def _branches(root: Path, task_id: str) -> _Branches:
    task = board.find(root, task_id).task
    worktree.check_free(root, task)
    at = paths.main_checkout(root)
    top = Repository(at).top
    if top is None:
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


def _summary(root: Path, sides: _Branches) -> MergeResult:
    """What the branch brings."""
    commits = sides.main.answer("log", "--format=%h %s", f"HEAD..{sides.branch}").splitlines()
    base, ours, theirs = sides.versions(f"{sides.prefix}{PAGE}")
    known = {normalise_text(entry.record.text) for text in (base, ours) for entry in parse_region(text).entries}
    new = [
        entry.record.text for entry in parse_region(theirs).entries if normalise_text(entry.record.text) not in known
    ]
    task = board.find(root, sides.task.id).task
    return MergeResult(task, sides.branch, sides.into, tuple(commits), tuple(sides.changed()), tuple(new))


def _preview(
    root: Path, sides: _Branches, dirty: Sequence[str], notes: Sequence[str], refusal: Refused | None
) -> MergeResult:
    """What a merge would do, and what would refuse it; git merges without a checkout here, and runs no hook."""
    stops = [refusal.message] if refusal is not None else []
    outcome = _summary(root, sides)
    try:
        _check_clean(sides, dirty)
        if not outcome.commits:
            _check_other_branch(root, sides)
        else:
            tree = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "HEAD", sides.branch)
            conflicts = [name for name in sides.main.ask(*tree).out.split("\0")[1:] if name]
            if unresolved := [name for name in conflicts if _merged_entries(sides, name) is None]:
                stops.append(f"{sides.branch} and {sides.into} both changed {join_names(unresolved)}")
    except (Refused, Conflict) as error:
        stops.append(error.message)
    stat = sides.main.answer("diff", "--stat", sides.base() or "HEAD", sides.branch)
    page = f"{sides.prefix}{PAGE}"
    ours = sides.versions(page)[1]
    shown = promote.unified_diff(page, ours, (_merged_entries(sides, page) or ours) if outcome.learned else ours)
    diff = "\n".join(filter(None, [stat, shown]))
    return replace(outcome, committed=tuple(dirty), notes=tuple(notes), diff=diff, stops=tuple(stops))


# --- checks ------------------------------------------------------------------------------------


def _check_clean(sides: _Branches, committed_first: Sequence[str]) -> None:
    """Refuse while files that the merge writes have uncommitted changes in the main checkout."""
    names = {*sides.changed(), *committed_first}
    dirty = [each.path for each in sides.main.dirt() if each.path in names]
    if dirty:
        raise Refused(
            f"the main checkout has uncommitted changes where {sides.branch} writes: {join_names(dirty)}",
            hint="commit them first; nothing was merged",
        )


def _check_other_branch(root: Path, sides: _Branches) -> None:
    """Refuse to say that there is nothing to merge while the worktree has commits on another branch."""
    other = worktree.other_branch(root, sides.task)
    if other is None:
        return
    ours = f"refs/heads/{sides.branch}"
    commits = sides.main.answer("log", "--format=%h %s", other.head, "--not", "HEAD", ours).splitlines()
    if commits:
        raise Refused(
            f"{sides.into} has all of {sides.branch}, but the worktree is on {other.description}, with commits that "
            f"neither has: {join_names(commits)}",
            hint=f"`git merge {other.branch or other.head[:12]}` in {worktree.FOLDER}/{sides.task.id}, on "
            f"{sides.branch}; then run this again",
        )


# --- the merge ---------------------------------------------------------------------------------


def _commit(own: Repository, sides: _Branches, dirty: Sequence[str], verify: bool) -> None:
    """Commit what is uncommitted in the worktree."""
    names = [f":(top,literal){path}" for path in dirty]
    flags = () if verify else (NO_VERIFY,)
    for command in (("add", "--", *names), ("commit", "--quiet", *flags, "-m", sides.task.title, "--", *names)):
        ran = own.tell(*command)
        if ran.code != 0:
            raise _refused(ran, f"git did not commit {join_names(dirty)} in {own.folder}")


def _merge(sides: _Branches, verify: bool) -> None:
    """Merge in the main checkout; whatever stops it is reported after the merge was aborted."""
    main, flags = sides.main, () if verify else (NO_VERIFY,)
    message = f"Merge {sides.branch}: {sides.task.title}"
    style = ("-c", "merge.conflictStyle=merge")
    ran = main.tell(*style, "merge", "--no-ff", "--quiet", *flags, "-m", message, sides.branch)
    if ran.code == 0 and main.has("HEAD", sides.branch):
        return
    if not main.commit("MERGE_HEAD"):
        raise Refused(f"nothing was merged: git says {first_line(ran)}", hint=f"try `git merge {sides.branch}` by hand")
    conflicts = main.names("diff", "--name-only", "-z", "--diff-filter=U")
    merged = {name: _merged_entries(sides, name) for name in conflicts}
    unresolved = [name for name, text in merged.items() if text is None]
    if unresolved:
        error = _conflict(sides, unresolved)
    elif conflicts:
        for name, text in merged.items():
            files.write(main.folder / name, text or "", root=main.folder)
            main.tell("add", "--", f":(top,literal){name}")
        ran = main.tell("commit", "--quiet", *flags, "-m", message)
        if ran.code == 0:
            return
    aborted = main.tell("merge", "--abort")
    if aborted.code != 0:
        raise Refused(
            f"git could not abort the merge of {sides.branch}: {first_line(aborted)}",
            hint="`git status` in the main checkout shows what is half merged",
        )
    raise error if unresolved else _refused(ran, "git did not commit the merge")


def _conflict(sides: _Branches, unresolved: Sequence[str]) -> Conflict:
    """The conflict with the lines of both sides, read while the merge is still open."""
    status = sides.main.names("status", "--porcelain=v1", "-z", "--untracked-files=no", "--no-renames")
    codes = {entry[3:]: entry[:2] for entry in status}
    deleted_by = {"DU": (sides.into, sides.branch), "UD": (sides.branch, sides.into)}
    quoted: list[str] = []
    for name in unresolved:
        if codes.get(name) in deleted_by:
            first, second = deleted_by[codes[name]]
            quoted.append(f"{name}: {first} has deleted it, {second} has changed it")
    diff = sides.main.ask("diff", "--no-ext-diff", "--diff-filter=U", "--", *unresolved).out.splitlines()
    quoted += [line for line in diff if not line.startswith(("diff ", "index ", "--- ", "* Unmerged"))][:_LINES]
    return Conflict(
        f"{sides.branch} and {sides.into} both changed {join_names(unresolved)}; nothing was merged{_quote(quoted)}",
        hint=f"merge {sides.into} into the worktree ({worktree.FOLDER}/{sides.task.id}) and resolve it there, "
        f"or `git merge {sides.branch}` here; then run this again",
    )


def _refused(ran: ProcessResult, what: str) -> Refused:
    """A commit that git or a hook refused, with the end of its output."""
    output = [line.rstrip() for line in f"{ran.out}\n{ran.err}".splitlines() if line.strip()]
    more = _quote(output[-_LINES:]) if len(output) > 1 else ""
    return Refused(
        f"{what}, and nothing was merged: {first_line(ran)}{more}",
        hint="a hook of this repository may have refused it: fix what it names in the worktree, and run this again; "
        f"{NO_VERIFY} skips the hooks, as in git",
    )


def _quote(lines: Sequence[str]) -> str:
    """Lines of a file or a program, indented, as a terminal may show them."""
    return "".join(f"\n  {''.join(char if char.isprintable() else ' ' for char in line)[:_WIDTH]}" for line in lines)


# --- both sides' entries -----------------------------------------------------------------------


def _merged_entries(sides: _Branches, path: str) -> str | None:
    """A memory file with the new entries of both branches; None for other files, and when more has changed."""
    name = path.removeprefix(sides.prefix) if path.startswith(sides.prefix) else ""
    return merge_entries(name, *sides.versions(path))


def merge_entries(name: str, base: str, ours: str, theirs: str) -> str | None:
    """A memory file with what both sides added, each entry once; None when both sides changed more than that."""
    parse = _PARSERS.get(name)
    if parse is None or "\ufffd" in f"{base}{ours}{theirs}":
        return None
    dates = [match for text in (ours, theirs) if (match := _FOOTER.search(text))] if name == _PATTERNS else []
    if dates:  # the footer is derived: the newest date counts
        newest = max(dates, key=lambda match: match[1])[0]
        base, ours, theirs = (_FOOTER.sub(lambda _: newest, text) for text in (base, ours, theirs))
    try:
        (our_rest, our_new), (their_rest, their_new) = (_without_new(parse, base, text) for text in (ours, theirs))
        if their_rest.split() in (base.split(), our_rest.split()):
            return _with_entries(parse, ours, their_new)
        return _with_entries(parse, theirs, our_new) if our_rest.split() == base.split() else None
    except RalphError:
        return None


def _without_new(parse: Parse, base: str, text: str) -> tuple[str, list[Record]]:
    """A text without the entries that its merge base does not have, and those entries."""
    known = {entry.record.id for entry in parse(base).entries}
    document = parse(text)
    new = [entry.record for entry in document.entries if entry.record.id not in known]
    for record in reversed(new):
        document = document.remove(record.id)
    return str(document), new


def _with_entries(parse: Parse, text: str, new: Sequence[Record]) -> str | None:
    """A text with more entries; None when an id is there with another text."""
    document = parse(text)
    known = {entry.record.id: normalise_text(entry.record.text) for entry in document.entries}
    for record in new:
        if known.get(record.id, normalise_text(record.text)) != normalise_text(record.text):
            return None
        if record.id not in known:
            document = document.add(record)
            known[record.id] = normalise_text(record.text)
    return str(document)
