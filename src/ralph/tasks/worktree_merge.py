"""Merge the branch of a task's worktree into the branch of the main checkout.

`git merge` does the work and runs the user's hooks. If both sides changed one of Ralph's own files,
the file is merged entry by entry (`formats/merge.py`). Any other conflict, or a hook that rejects
the commit, aborts the merge, so that the main checkout is as it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.errors import Conflict, NotFound, RalphError, Refused
from ralph.core.repository import Repository, first_line, join_names, no_repository
from ralph.core.text import normalise_text
from ralph.core.work import ProcessResult, Task, ignore_text
from ralph.formats import merge as entry_merge
from ralph.formats.regions import parse_region
from ralph.learning.promotion import reviewed_lessons
from ralph.memory.merge_driver import merge_lines
from ralph.storage import files, task_files
from ralph.tasks.worktree import (
    FOLDER,
    check_no_run_is_working,
    checkout_folder,
    find_problem,
    repository_lock,
    uncommitted_files,
)
from ralph.tasks.worktree_learnings import PAGE, add_learnings

NO_VERIFY = "--no-verify"

# Limits on how much of a hook's output or a conflict a message quotes.
_MAX_QUOTED_LINES = 30
_MAX_QUOTED_COLUMNS = 300
_UNDECODABLE = "\ufffd"  # stands for bytes that are not UTF-8
_DIFF_HEADERS = ("diff ", "index ", "--- ", "* Unmerged")


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

    def merge_base(self) -> str:
        return self.main.output_or_empty("merge-base", "HEAD", self.branch)

    def read_versions(self, path: str) -> _Versions:
        base = self.merge_base()
        return _Versions(
            base=self._read(base, path) if base else "",
            ours=self._read("HEAD", path),
            theirs=self._read(self.branch, path),
        )

    def _read(self, commit: str, path: str) -> str:
        return self.main.text(f"{commit}:{path}") or ""

    def changed_files(self) -> list[str]:
        return self.main.names(
            "diff", "--name-only", "-z", "--no-renames", self.merge_base() or "HEAD", self.branch
        )

    def new_learnings(self) -> tuple[str, ...]:
        """Return the entries in AGENTS.md that are only on the task's branch."""
        versions = self.read_versions(f"{self.prefix}{PAGE}")
        existing = set()
        for text in (versions.base, versions.ours):
            for entry in parse_region(text).entries:
                existing.add(normalise_text(entry.record.text))
        learned = [entry.record.text for entry in parse_region(versions.theirs).entries]
        return tuple(text for text in learned if normalise_text(text) not in existing)

    def merge_entries(self, path: str) -> str | None:
        """Merge a memory file entry by entry.

        Returns None if it is not a memory file, or if a conflict remains.
        """
        name = path.removeprefix(self.prefix)
        if not path.startswith(self.prefix) or not entry_merge.can_merge(name):
            return None
        versions = self.read_versions(path)
        if any(_UNDECODABLE in text for text in versions):
            return None
        merged = entry_merge.merge(name, versions.base, versions.ours, versions.theirs, merge_lines)
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
        problem = find_problem(root, branches.task)
        folder = checkout_folder(root, task_id)
        if folder.is_dir():
            # A person may have accepted an insight since the last iteration.
            add_learnings(folder, reviewed_lessons(root, task_id))
        worktree = Repository(folder)
        dirty = _files_to_commit(worktree, branches)
        if dirty and not commit:
            raise Refused(
                f"the worktree of {task_id} has uncommitted changes: {join_names(dirty)}",
                hint=f"commit them in {FOLDER}/{task_id}, or use --commit",
            )
        _check_main_checkout(branches, {*branches.changed_files(), *dirty})
        flags = () if verify else (NO_VERIFY,)
        if dirty:
            _commit_worktree(worktree, dirty, branches.task.title, flags)
        commits = branches.main.output_or_empty("log", "--format=%h %s", f"HEAD..{branches.branch}")
        result = MergeResult(
            branch=branches.branch,
            into=branches.into,
            commits=tuple(commits.splitlines()),
            files=tuple(branches.changed_files()),
            learned=branches.new_learnings(),
            committed=tuple(dirty),
            notes=(str(problem),) if problem is not None else (),
        )
        if result.commits:
            _merge_branches(branches, flags)
        return result


def _find_branches(root: Path, task_id: str) -> _Branches:
    task = task_files.find_task(root, task_id).task
    check_no_run_is_working(root, task)
    checkout = paths.main_checkout(root)
    top = Repository(checkout).top
    if top is None:
        raise no_repository(checkout, "a merge needs one")
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
    """Return the uncommitted files in a worktree, unless another branch is checked out there."""
    if worktree.folder.is_dir() and worktree.branch() == branches.branch:
        return uncommitted_files(worktree)
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
        raise _commit_refused(
            result, f"git did not commit {join_names(dirty)} in {worktree.folder}"
        )


def _merge_branches(branches: _Branches, flags: Sequence[str]) -> None:
    """Merge in the main checkout.

    If git finds conflicts, those in memory files are resolved entry by entry. If anything else is
    in conflict, or the merge cannot be committed, it is aborted and an error is raised.
    """
    main = branches.main
    message = f"Merge {branches.branch}: {branches.task.title}"
    style = ("-c", "merge.conflictStyle=merge")
    options = ("--no-ff", "--quiet", *flags, "-m", message)
    result = main.tell(*style, "merge", *options, branches.branch)
    if result.code == 0 and main.is_ancestor(branches.branch, of="HEAD"):
        return
    if not main.commit("MERGE_HEAD"):
        raise Refused(
            f"nothing was merged; git says: {first_line(result)}",
            hint=f"try `git merge {branches.branch}` by hand",
        )
    resolved: dict[str, str] = {}
    unresolved = []
    for name in main.names("diff", "--name-only", "-z", "--diff-filter=U"):
        text = branches.merge_entries(name)
        if text is None:
            unresolved.append(name)
        else:
            resolved[name] = text
    failure: RalphError
    if unresolved:
        # Read the conflict before aborting, because git has both sides only during the merge.
        failure = _conflict_error(branches, unresolved)
    else:
        if resolved:
            result = _commit_resolved(main, resolved, message, flags)
            if result.code == 0:
                return
        failure = _commit_refused(result, "git did not commit the merge")
    _abort_merge(branches)
    raise failure


def _conflict_error(branches: _Branches, unresolved: Sequence[str]) -> Conflict:
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


def _commit_refused(result: ProcessResult, what: str) -> Refused:
    """Build the error for a commit that git or a hook rejected, with the end of the output."""
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
    """Indent lines below a message, truncated and without control characters."""
    quoted = ""
    for line in lines:
        printable = "".join(char if char.isprintable() else " " for char in line)
        quoted += f"\n  {printable[:_MAX_QUOTED_COLUMNS]}"
    return quoted
