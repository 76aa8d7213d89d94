"""`ralph task merge`: a task's branch into the branch of the main checkout, with what was learned on the way.

Memory files that were written in the worktree are committed there first; other uncommitted work is named and stops the
merge, unless it is to be committed, too. The merge is the user's own git, in a checkout of its own (`merge_bench`), and
the main checkout gets its result as a whole. Where both sides only added entries (to the marked region of AGENTS.md, to
memories, guardrails, global patterns), both sides' entries are kept (`task_union`); every other conflict is shown with
both sides' words, and nothing is merged: no text is ever chosen away. A dry run goes the same way up to the last step,
with commits that no branch knows of. What git was told to ignore is carried over by itself.
`tests/app/worktrees/test_task_merge.py`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import promote, task_file
from ralph.app.repository import Repository, first_line, listed
from ralph.app.worktrees import index_trees, merge_bench, merge_hooks, staging, task_union, tree_hold, worktree
from ralph.app.worktrees.merge_bench import Landing
from ralph.app.worktrees.worktree import PAGE
from ralph.errors import Conflict, NotFound, Refused
from ralph.formats.pages import parse_region
from ralph.model.work import Task, ignore_text
from ralph.store import db, files

_PLAIN = ("-c", "merge.conflictStyle=merge")
_UNHOOKED = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false")


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
    stops: tuple[str, ...] = ()
    """Of a dry run: why the real one would be refused."""

    @property
    def is_new(self) -> bool:
        """Whether there was anything to merge."""
        return bool(self.commits or self.kept)


@dataclass(frozen=True, slots=True)
class _Sides:
    """A task's branch and the branch it goes into; `tip` is what is merged."""

    task: Task
    main: Repository
    branch: str
    into: str
    inside: str
    """The project's folder within the repository, with a slash at its end; "" at the top."""
    tip: str
    state: Path
    """The project in the main checkout."""

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.branch}"

    def base(self) -> str:
        """Where the two parted; "" when they have no past in common."""
        return self.main.answer("merge-base", "HEAD", self.tip)

    def named(self, path: str) -> str:
        """A path within the project; "" for one outside of it."""
        return path.removeprefix(self.inside) if path.startswith(self.inside) else ""

    def versions(self, path: str) -> tuple[str, str, str]:
        """A file where the sides parted, here and there; "" where it is not."""
        base = self.base()
        names = (f"{base}:{path}" if base else "", f"HEAD:{path}", f"{self.tip}:{path}")
        first, ours, theirs = ((self.main.text(name) or "") if name else "" for name in names)
        return first, ours, theirs


@dataclass(frozen=True, slots=True)
class _Dirt:
    """What is uncommitted in a worktree that is on its task's branch: memory files, and others."""

    own: Repository
    memory: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def merge(
    root: Path,
    task_id: str,
    *,
    dry_run: bool = False,
    commit: bool = False,
    verify: bool = True,
    tell: Callable[[str], None] = ignore_text,
) -> Merged:
    """Merge a task's branch; `commit` commits first what is uncommitted in its worktree, `verify` asks the hooks."""
    with tree_hold.held(root, f"merging {task_id}", tell=tell):
        sides = _sides(root, task_id)
        wrong = worktree.trouble(root, sides.task)
        notes = worktree.summed([wrong] if wrong is not None else [])
        if staging.left(root).get(task_id) and not dry_run:  # what was staged in a folder that somebody deleted
            made = worktree.make(root, task_id)
            sides = replace(sides, task=made.task)
            notes += [f"{each}: could not be joined with the branch; look at it" for each in made.restored.apart]
        dirt = _dirt(root, sides)
        if dry_run:
            return _tried(root, sides, dirt, notes, commit)
        return _done(root, sides, dirt, notes, commit=commit, verify=verify)


def _done(root: Path, sides: _Sides, dirt: _Dirt, notes: list[str], *, commit: bool, verify: bool) -> Merged:
    """The merge itself."""
    if stop := _unwanted(sides, dirt, commit):
        raise stop
    _check_clean(_with_tip(sides, _as_committed(sides, dirt)))
    _commit(sides, dirt, verify)
    sides = _with_tip(sides, sides.main.commit(sides.ref))
    outcome = _outlook(root, sides)
    if not outcome.commits:
        _check_astray(root, sides)
    else:
        before = sides.main.commit("HEAD")
        with merge_bench.checkout(sides.main, sides.state, before) as bench:
            after = _merged(sides, bench, verify)
        merge_bench.land(sides.main, sides.state, Landing(sides.task.id, before, after))
    carried, left = _carried(root, sides)
    if outcome.commits:
        _tidied(root, sides)
    return replace(outcome, kept=(*dirt.memory, *carried), notes=(*notes, *left))


def _tried(root: Path, sides: _Sides, dirt: _Dirt, notes: list[str], commit: bool) -> Merged:
    """What a merge would do, up to its last step; what would refuse it is told."""
    unwanted = _unwanted(sides, dirt, commit)
    stops = [unwanted.message] if unwanted is not None else []
    taken = _Dirt(dirt.own, dirt.memory, dirt.others if commit else ())
    sides = _with_tip(sides, _as_committed(sides, taken))
    outcome = _outlook(root, sides)
    try:
        if not outcome.commits:
            _check_astray(root, sides)
        else:
            _check_clean(sides)
            with merge_bench.checkout(sides.main, sides.state, "HEAD") as bench:
                _merged(sides, bench, verify=False, is_dry=True)
    except (Refused, Conflict) as error:
        stops.append(error.message)
    pages = [promote.difference(name, sides.versions(name)[1], text) for name, text in _page(sides).items()]
    stat = sides.main.answer("diff", "--stat", sides.base() or "HEAD", sides.tip)
    diff = "\n".join(filter(None, [stat, *pages]))
    return replace(outcome, kept=dirt.memory, notes=tuple(notes), diff=diff, stops=tuple(stops))


def _with_tip(sides: _Sides, tip: str) -> _Sides:
    return replace(sides, tip=tip)


def _tidied(root: Path, sides: _Sides) -> None:
    """Throw away the index of the worktree, whose memory is the project's now; one that is in use stays."""
    at = worktree.place(root, sides.task)
    if at is not None and (name := paths.worktree_name(at)):
        staging.discard(root, name)
        staging.keep(at)
        with suppress(db.Busy):
            index_trees.discard_one(at)


def _sides(root: Path, task_id: str) -> _Sides:
    task = task_file.find(root, task_id).task
    worktree.check_free(root, task)
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
    merge_bench.complete(main, at)
    inside = at.resolve().relative_to(top.resolve()).as_posix()
    tip = main.commit(f"refs/heads/{branch}")
    return _Sides(task, main, branch, into, "" if inside == "." else f"{inside}/", tip, at)


def _check_astray(root: Path, sides: _Sides) -> None:
    """Refuse to say that there is nothing to merge while the worktree is elsewhere, with commits of its own."""
    there = worktree.astray(root, sides.task)
    if there is None:
        return
    commits = sides.main.answer("log", "--format=%h %s", there.head, "--not", "HEAD", sides.ref).splitlines()
    if commits:
        raise Refused(
            f"{sides.into} has all of {sides.branch}, but the worktree is on {there.named}, with commits that neither "
            f"has: {listed(commits)}",
            hint=f"`git merge {there.branch or there.head[:12]}` in {worktree.FOLDER}/{sides.task.id}, on "
            f"{sides.branch}; then run this again",
        )


# --- before ------------------------------------------------------------------------------------


def _dirt(root: Path, sides: _Sides) -> _Dirt:
    folder = worktree.top(root, sides.task.id)
    own = Repository(folder)
    if not folder.is_dir() or own.branch() != sides.branch:
        return _Dirt(own)
    dirty = worktree.uncommitted(own)
    memory = tuple(path for path in dirty if _is_memory(own, sides, path))
    return _Dirt(own, memory, tuple(path for path in dirty if path not in memory))


def _unwanted(sides: _Sides, dirt: _Dirt, commit: bool) -> Refused | None:
    """Why uncommitted work stops a merge; None where there is none, or where it is to be committed."""
    if not dirt.others or commit:
        return None
    return Refused(
        f"the worktree of {sides.task.id} has uncommitted changes: {listed(dirt.others)}",
        hint=f"commit them in {worktree.FOLDER}/{sides.task.id}, or let --commit do it",
    )


def _portions(sides: _Sides, dirt: _Dirt) -> list[tuple[tuple[str, ...], str]]:
    """What is committed together, and with which words."""
    both = ((dirt.memory, f"What {sides.task.id} learned"), (dirt.others, sides.task.title))
    return [(some, words) for some, words in both if some]


def _commit(sides: _Sides, dirt: _Dirt, verify: bool) -> None:
    """Commit what is uncommitted in the worktree on its branch; hooks are asked about what is not Ralph's own."""
    for some, words in _portions(sides, dirt):
        names = [f":(top,literal){path}" for path in some]
        ours = _UNHOOKED[:2] if some == dirt.memory else ()
        quiet = merge_hooks.unverified(verify)
        for told in (("add", "--", *names), (*ours, "commit", "--quiet", *quiet, "-m", words, "--", *names)):
            ran = dirt.own.tell(*told)
            if ran.code != 0:
                raise merge_hooks.refused(ran, f"{listed(some)} in {dirt.own.folder}", "nothing was merged")


def _as_committed(sides: _Sides, dirt: _Dirt) -> str:
    """The commit that the branch would have if that were committed; no branch and no index of anybody knows of it."""
    tip = sides.tip
    index = paths.cache_folder(sides.state) / "merging-index"
    try:
        for some, words in _portions(sides, dirt):
            dirt.own.ask("read-tree", tip, index=index)
            dirt.own.ask("add", "--", *some, index=index)
            tree = dirt.own.ask("write-tree", index=index).out.strip()
            named = ("-c", "user.name=Ralph", "-c", "user.email=ralph@localhost")
            tip = dirt.own.answer(*named, "commit-tree", tree, "-p", tip, "-m", words) or tip
    finally:
        files.delete(index)
    return tip


def _is_memory(own: Repository, sides: _Sides, path: str) -> bool:
    """Whether a changed file is one of ours; of AGENTS.md, only if nothing but its region has changed."""
    name = sides.named(path)
    if name != PAGE:
        return any(name == each or name.startswith(f"{each}/") for each in worktree.MEMORY)
    texts = (own.text(f"HEAD:{path}") or "", files.read(own.folder / path) or "")
    before, now = (task_union.bare(parse_region, "", text)[0].strip() for text in texts)
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


def _check_clean(sides: _Sides) -> None:
    """Refuse while files that the merge writes have uncommitted changes in the main checkout."""
    names = set(_touched(sides))
    dirty = [each.path for each in sides.main.dirt() if each.path in names]
    if dirty:
        raise Refused(
            f"the main checkout has uncommitted changes where {sides.branch} writes: {listed(dirty)}",
            hint="commit them first; nothing was merged",
        )


def _touched(sides: _Sides) -> list[str]:
    return sides.main.names("diff", "--name-only", "-z", "--no-renames", sides.base() or "HEAD", sides.tip)


def _outlook(root: Path, sides: _Sides) -> Merged:
    """What the merge brings."""
    commits = sides.main.answer("log", "--format=%h %s", f"HEAD..{sides.tip}")
    learned = task_union.new(parse_region, *sides.versions(f"{sides.inside}{PAGE}"))
    return Merged(
        task_file.find(root, sides.task.id).task, sides.branch, sides.into, tuple(commits.splitlines()),
        tuple(_touched(sides)), tuple(each.text for each in learned),
    )  # fmt: skip


# --- the merge ---------------------------------------------------------------------------------


def _merged(sides: _Sides, bench: Repository, verify: bool, *, is_dry: bool = False) -> str:
    """The commit that the merge ends with, made where nobody works; Conflict where both sides have changed words."""
    unhooked = _UNHOOKED if is_dry else ()
    wanted = _page(sides)
    ran = bench.tell(*unhooked, *_PLAIN, "merge", "--no-ff", "--no-commit", "--quiet", sides.tip)
    if not bench.commit("MERGE_HEAD"):
        raise Refused(f"git merged nothing: {first_line(ran)}", hint=f"try `git merge {sides.branch}` by hand")
    open_ = bench.names("diff", "--name-only", "-z", "--diff-filter=U")
    wanted |= {name: text for name in open_ if (text := _united(sides, name)) is not None}
    if left := [name for name in open_ if name not in wanted]:
        raise Conflict(
            f"{sides.branch} and {sides.into} both changed {listed(left)}; nothing was merged"
            f"{merge_bench.words_of_both(bench, left, sides.into, sides.branch)}",
            hint=f"merge {sides.into} into the worktree ({worktree.FOLDER}/{sides.task.id}) and settle it there, "
            f"or `git merge {sides.branch}` here; then run this again",
        )
    for name, text in wanted.items():
        _put(bench, name, text)
    message = f"Merge {sides.branch}: {sides.task.title}"
    if not is_dry:
        merge_hooks.concluded(sides.main, bench, message, is_clean=not wanted, verify=verify)
    elif (ran := bench.tell(*unhooked, "commit", "--quiet", "-m", message)).code != 0:
        raise merge_hooks.refused(ran, "the merge", "nothing was merged")
    return bench.commit("HEAD")


def _put(bench: Repository, name: str, text: str) -> None:
    """Write a file of the merge."""
    files.update(bench.folder / name, lambda _: text, root=bench.folder)
    bench.tell("add", "--", f":(top,literal){name}")


def _page(sides: _Sides) -> dict[str, str]:
    """AGENTS.md as it should be after the merge, by its path; nothing when the branch has not touched it."""
    path = f"{sides.inside}{PAGE}"
    base, _, theirs = sides.versions(path)
    text = _united(sides, path) if theirs and theirs != base else None
    return {path: text} if text is not None else {}


def _united(sides: _Sides, path: str) -> str | None:
    """A file with the new entries of both sides; None when it is not that kind of file, or more has changed."""
    name = sides.named(path)
    return task_union.joined(name, *sides.versions(path)) if name in task_union.JOINABLE else None
