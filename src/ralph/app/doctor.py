"""`ralph doctor`: everything odd in a project's memory files, and what to do about it.

Reads every file that Ralph knows through its codec and collects the codec's Problems, then looks
at what no codec sees: links, permissions, leftovers of killed writers, a second store below the
root, the config, the hooks. `fix` mends only what is safe (duplicate ids, leftovers, permissions,
missing sections, the count of failures) and keeps a backup of every file whose text it changes.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app import hook_state, superseded
from ralph.app.memory import backup
from ralph.app.project import not_ignored
from ralph.app.worktrees import indexes, worktree
from ralph.capture import privacy
from ralph.config import ConfigProblem
from ralph.errors import RalphError
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.log import parse_log
from ralph.formats.memories import parse_memories
from ralph.formats.pages import parse_patterns
from ralph.formats.progress import parse_progress
from ralph.formats.text import Problem
from ralph.formats.work import parse_insights, parse_prd, parse_task
from ralph.model import ids
from ralph.store import files
from ralph.store.library import Collection, Library

SKIPPED = {".git", "node_modules", ".venv", "venv", ".worktrees", "__pycache__", "target", "dist", "build", ".tox"}
"""Folders that are never searched for a second store."""

_MAX_FOLDERS = 20_000
_LEVELS = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One odd thing: a Problem and the file it is in."""

    path: Path
    problem: Problem
    fixable: bool = False

    @property
    def needs_a_person(self) -> bool:
        """Whether somebody should look; notes only explain."""
        return self.problem.level != "note"


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that `fix` did, and the copy of the file as it was, if its text changed."""

    path: Path
    what: str
    backup: Path | None = None


FIXABLE = {"duplicate-id", "missing-section", "leftover", "permissions", "hook-failures"}


def examine(
    root: Path,
    *,
    secrets: bool = False,
    custom: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    logs: bool = True,
) -> list[Finding]:
    """Everything odd, the files in order, each file's findings by line; `env` says where hosts keep their settings.

    Without `logs` their lines are not read: there may be thousands of files.
    """
    found: list[Finding] = []
    for path, problems in _read_everything(root, logs=logs):
        found += [Finding(path, problem, problem.code in FIXABLE) for problem in problems]
    found += _across_files(root)
    found += _check_links(root)
    found += _leftovers(root)
    found += _permissions(root)
    found += _second_stores(root)
    found += _not_folders(root)
    found += _tracked_by_git(root)
    found += _worktrees(root)
    elsewhere = (*hook_state.find_problems(root, env or {}), *superseded.circle_problems(root))
    found += [Finding(path, each, each.code in FIXABLE) for path, each in elsewhere]
    if secrets:
        found += _secrets(root, custom)
    return sorted(found, key=lambda one: (str(one.path), one.problem.line, _LEVELS[one.problem.level]))


def fix(root: Path) -> list[Repair]:
    """Mend what is safe to mend."""
    library = Library(root)
    done: list[Repair] = []
    for shelf in _shelves(library):
        for path, _ in library.documents(shelf):
            done += _repair_file(root, path, shelf)
    for finding in _leftovers(root):
        with files.lock(finding.path):
            files.delete(finding.path)
        done.append(Repair(finding.path, "removed a leftover of a writer that was killed"))
    for finding in _permissions(root):
        files.restrict(finding.path)
        done.append(Repair(finding.path, "made it readable by its owner only"))
    counted = hook_state.reset_failures(root)
    if counted is not None:
        what = f"set the count of failures back ({counted})"
        done.append(Repair(hook_state.failures_file(root), what))
    return done


def _repair_file(root: Path, path: Path, shelf: Collection) -> list[Repair]:
    document = parse_memories(files.read(path) or "", shelf.layout)
    if document.has_conflict:
        return []  # the merge comes first: a person decides which side's entries stay
    codes = {problem.code for problem in document.problems}
    what = []
    if "duplicate-id" in codes:
        what.append("gave entries with a used id their own")
    if "missing-section" in codes:
        what.append("added the missing sections")
    if not what:
        return []
    copy = backup(path, root)

    def edit(text: str) -> str:
        document = parse_memories(text, shelf.layout).with_unique_ids(ids.mint_like)
        return str(document.with_all_sections() if "missing-section" in codes else document)

    files.update(path, edit, root=root)
    return [Repair(path, "; ".join(what), copy)]


def _read_everything(root: Path, *, logs: bool) -> Iterator[tuple[Path, Sequence[Problem]]]:
    """Every file that has a codec, with what the codec found odd."""
    library = Library(root)
    for shelf in _shelves(library):
        for path, document in library.documents(shelf):
            yield path, document.problems
    for path in (*paths.memories_files(root), *paths.guardrails_files(root)):
        yield path, _unreadable(path)
    for path, look in _other_files(root, logs=logs):
        problems = _unreadable(path)
        text = None if problems else files.read(path)
        yield path, problems if text is None else look(text)


def _shelves(library: Library) -> list[Collection]:
    """The shelves without the places that cannot be read, so that one of them does not hide the rest."""
    return [
        replace(shelf, places=tuple(place for place in shelf.places if not _unreadable(place)))
        for shelf in (library.memories, library.guardrails)
    ]


def _unreadable(path: Path) -> list[Problem]:
    try:
        files.read(path)
    except RalphError as error:
        return [Problem(1, error.message.removeprefix(f"{path}: "), error.hint or "look at it", "error", "unreadable")]
    return []


def _other_files(root: Path, *, logs: bool = True) -> Iterator[tuple[Path, Callable[[str], Sequence[Problem]]]]:
    for path in sorted(paths.knowledge_folder(root).glob("*.md")):
        yield path, lambda text: parse_knowledge(text).problems
    yield paths.global_patterns(root), lambda text: parse_patterns(text).problems
    for path in paths.progress_files(root):
        yield path, lambda text: parse_progress(text).problems
    tasks = paths.tasks_folder(root)
    for path in sorted(tasks.glob("*/task.json")):
        yield path, lambda text: parse_task(text).problems
    for path in sorted(tasks.glob("*/prd.json")):
        yield path, lambda text: parse_prd(text).problems
    for path in sorted(tasks.glob("*/progress.txt")):
        yield path, lambda text: parse_progress(text).problems
    for path in sorted(tasks.glob("*/memory/insights.json")):
        yield path, lambda text: parse_insights(text).problems
    for path in sorted(paths.log_folder(root).rglob("*.jsonl")) if logs else ():
        yield path, lambda text: parse_log(text).problems


def _across_files(root: Path) -> Iterable[Finding]:
    """One id in two files of a shelf."""
    library = Library(root)
    for shelf in _shelves(library):
        first: dict[str, Path] = {}
        for stored in library.read(shelf):
            other = first.setdefault(stored.record.id, stored.path)
            if other != stored.path:
                what = f"the id {stored.record.id} is also in {paths.shown(other, root)}"
                hint = "delete one of the two, or give it another id"
                yield Finding(stored.path, Problem(stored.line, what, hint, "error", "id-in-two-files"))


def _check_links(root: Path) -> Iterable[Finding]:
    state = paths.main_checkout(root)
    boundary = paths.state_boundary(root)
    ours = (
        (paths.ralph_folder(root), root),
        (root / ".agent", root),
        (paths.ralph_folder(state), state),
        (paths.log_folder(root), boundary),
        (paths.index_file(root), boundary),
    )
    for folder, top in dict.fromkeys(ours):
        if folder.is_symlink() and not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(top)):
            hint = "hooks record nothing through such a link: make it a folder of the project"
            yield Finding(
                folder, Problem(1, f"a link that leads outside, to {folder.readlink()}", hint, "error", "bad-link")
            )
    for path in (*paths.memories_files(root), *paths.guardrails_files(root)):
        if path.is_symlink():
            try:
                files.target(path, root)
            except RalphError as error:
                yield Finding(path, Problem(1, error.message.partition(": ")[2], error.hint, "error", "bad-link"))
            else:
                yield Finding(
                    path,
                    Problem(
                        1,
                        f"a symbolic link to {path.readlink()}",
                        "git merges may replace it by its text; a real file is safer",
                        "note",
                        "link",
                    ),
                )


def _leftovers(root: Path) -> list[Finding]:
    what = "left by a writer that was killed"
    hint = "run `ralph doctor --fix` to remove it"
    return [
        Finding(path, Problem(1, what, hint, "warning", "leftover"), fixable=True)
        for folder in paths.written_folders(root)
        for path in files.leftovers(folder)
        if _is_ours(path, root)
    ]


def _permissions(root: Path) -> list[Finding]:
    state = paths.state_folder(root)
    trees = paths.tree_caches(root).glob("*/ralph.db*")
    private = [*paths.log_folder(root).rglob("*.jsonl"), *state.glob("ralph.db*"), *trees]
    return [
        Finding(
            path,
            Problem(
                1,
                f"others may read it (mode {stat.S_IMODE(path.stat().st_mode):o})",
                "run `ralph doctor --fix` to make it 600",
                "warning",
                "permissions",
            ),
            fixable=True,
        )
        for path in sorted(private)
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077 and _is_ours(path, root)
    ]


def _is_ours(path: Path, root: Path) -> bool:
    """Whether a file is in the project; what a link leads to outside of it is not ours to mend."""
    tops = (os.path.realpath(top) for top in (root, paths.main_checkout(root), paths.state_boundary(root)))
    return any(Path(os.path.realpath(path)).is_relative_to(top) for top in tops)


def _not_folders(root: Path) -> list[Finding]:
    """Files where a folder of ours should be: nothing below them can be read or written."""
    wanted = {place.parent for place in (*paths.memories_files(root), *paths.guardrails_files(root))}
    hint = "move it away, then run `ralph init`"
    return [
        Finding(path, Problem(1, "is a file, but a folder is needed here", hint, "error", "no-folder"))
        for path in sorted(wanted)
        if path.exists() and not path.is_dir()
    ]


def _tracked_by_git(root: Path) -> list[Finding]:
    missing = not_ignored(root)
    if not missing:
        return []
    what = f"git does not ignore {', '.join(missing)}: what happened on this machine could be committed"
    return [Finding(paths.gitignore(root), Problem(1, what, "add these lines to it", "warning", "not-ignored"))]


def _worktrees(root: Path) -> list[Finding]:
    """What is wrong with the worktrees of tasks, and indexes of some that are gone."""
    folder = paths.main_checkout(root) / worktree.FOLDER
    wrong = [
        Finding(folder, Problem(1, each.what, each.hint, "warning", "worktree")) for each in worktree.problems(root)
    ]
    what, hint = "the index of a worktree that is gone", "`ralph index prune --yes` removes it"
    stale = [Finding(each.path, Problem(1, what, hint, "note", "worktree-index")) for each in indexes.stale(root)]
    return [*wrong, *stale]


def _second_stores(root: Path) -> Iterable[Finding]:
    """Stores that a command made in a sub-folder: what they hold is not read from here."""
    own = {place.parent for place in (*paths.memories_files(root), *paths.guardrails_files(root))} | {root}
    worktrees = {paths.claude_folder(root) / "worktrees", paths.log_folder(root), paths.cache_folder(root)}
    for number, (folder, names, plain) in enumerate(os.walk(root)):
        here = Path(folder)
        if number > _MAX_FOLDERS:
            return
        if here != root and ".git" in (*names, *plain):
            names.clear()  # a repository or a worktree of its own
            continue
        names[:] = sorted(name for name in names if name not in SKIPPED and here / name not in worktrees)
        if here in own or not paths.is_store(here):
            continue
        for name in ("memories.md", "guardrails.md"):
            if name in plain:
                yield Finding(
                    here / name,
                    Problem(
                        1,
                        "a second store: it is not read from the project's root",
                        f"move its entries into the project's own {name}, then delete it",
                        "warning",
                        "second-store",
                    ),
                )


def _secrets(root: Path, custom: Sequence[str]) -> Iterable[Finding]:
    for path in files_to_scan(root):
        yield from secrets_in(path, custom)


def files_to_scan(root: Path) -> list[Path]:
    """Every file in which a secret may stand, those that people write first, each once; copies of them as well."""
    library = Library(root)
    shelves = [path for shelf in (library.memories, library.guardrails) for path in shelf.places]
    others = [path for path, _ in _other_files(root)]
    places = [*shelves, paths.scratchpad(root), *others]
    names: dict[Path, set[str]] = {}
    for place in places:
        names.setdefault(place.parent, set()).add(place.name)
    copies = [copy for folder in names for copy in sorted(folder.glob("*.bak*")) if _copy_name(copy) in names[folder]]
    return [place for place in (*_unique_files(places), *copies) if place.exists()]


def _copy_name(copy: Path) -> str:
    """The name of the file that a backup is of."""
    return copy.name.partition(".bak")[0]


def secrets_in(path: Path, custom: Sequence[str]) -> list[Finding]:
    """What looks like a secret in a file; nothing where it cannot be read, which is told elsewhere."""
    hint = "change the secret where it is used, then remove it here and from git history"
    text = "" if _unreadable(path) else files.read(path) or ""
    return [
        Finding(path, Problem(found.line, f"looks like a secret ({found.kind})", hint, "error", "secret"))
        for found in privacy.find_secrets(text, custom)
    ]


def _unique_files(places: Iterable[Path]) -> list[Path]:
    """Without a second name of the same file."""
    return list({os.path.realpath(place): place for place in reversed(list(places))}.values())[::-1]


def config_finding(root: Path, complaint: ConfigProblem, level: str = "warning") -> Finding:
    """A complaint about the config as a finding; one about a variable stands at the project's settings."""
    place = complaint.place
    if not place.line:
        hint = "see `ralph config show --origin`"
        return Finding(paths.config_file(root), Problem(1, complaint.message, hint, level, "config"))
    hint = "see `ralph config show --origin` and docs/config.md"
    return Finding(root / place.where, Problem(place.line, complaint.what, hint, level, "config"))
