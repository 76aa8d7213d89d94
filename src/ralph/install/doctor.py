"""Find and repair problems in a project's files and hooks, and report the project's status.

This implements `ralph doctor` and `ralph status`. Every file that Ralph knows is read by its codec,
which reports the problems it finds. Checks that no codec can make follow. `fix` backs up every file
whose text it changes. `project_status` writes nothing.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ralph.capture import recorder
from ralph.core import ids, paths
from ralph.core.config import ConfigProblem, Layer
from ralph.core.errors import RalphError
from ralph.core.repository import Repository
from ralph.core.text import Problem
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.log import parse_log
from ralph.formats.memories import Layout, parse_memories
from ralph.formats.merge import can_merge, merge
from ralph.formats.pages import parse_patterns
from ralph.formats.progress import parse_progress
from ralph.formats.work import parse_insights, parse_prd, parse_task
from ralph.install import hook_state, merge_registration
from ralph.install.clients import CLIENTS, Host
from ralph.install.merge_registration import ATTRIBUTES
from ralph.memory.memory import backup
from ralph.memory.merge_driver import merge_lines
from ralph.privacy import privacy
from ralph.recall import usage
from ralph.search import index
from ralph.storage import files, forgotten
from ralph.storage.changes import ReadLog
from ralph.storage.files import missing_lines
from ralph.storage.library import Collection, Library
from ralph.storage.sources import Format, log_folders, parse_source, scan_logs, sources
from ralph.tasks import worktree

Parser = Callable[[str], Any]
"""Parses the text of a file. The result has a `problems` attribute."""

_FIXABLE_CODES = (
    "duplicate-id",
    "leftover",
    "permissions",
    "hook-failures",
    "launcher",
    "host-entry",
    "merge-driver",
    "merge",
)
_LEVELS = ("error", "warning", "note")  # most severe first
_SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        "node_modules",
        ".venv",
        "venv",
        ".worktrees",
        "__pycache__",
        "target",
        "dist",
        "build",
        ".tox",
    }
)
"""Folders that are not searched for second stores."""
_MAX_SEARCHED_FOLDERS = 20_000
_STORE_FILES = ("guardrails.md", "memories.md")
_OTHERS_PERMISSIONS = stat.S_IRWXG | stat.S_IRWXO
_PRIVATE_FOLDER_MODE = 0o700
_MERGES_EXAMINED = "20"  # latest merge commits that are searched for damaged knowledge files
_ATTRIBUTES_PATIENCE = 2.0  # seconds to wait for git's attributes
_MAX_FIELD_LENGTH = 200  # characters of a session's id, time or host in the status
_ENTRY_HEADING = re.compile(r"^### (\S+-\d+-\w+)$", re.MULTILINE)
_CONFLICT_START = re.compile("^<<<<<<< ", re.MULTILINE)
_CONFLICT_MARKERS = re.compile(
    r"^(?:[<>]{7} .*|\|{7}.*\n(?:(?!={7}$).*\n)*={7}|={7})\n", re.MULTILINE
)
_REPLACEMENT_CHARACTER = "\ufffd"  # stands for bytes that are not UTF-8


class Finding(NamedTuple):
    """A problem, and the file it was found in."""

    path: Path
    problem: Problem

    @property
    def fixable(self) -> bool:
        """Whether `fix` can repair this."""
        return self.problem.code in _FIXABLE_CODES

    @property
    def needs_a_person(self) -> bool:
        """Whether a person should look at this. A note is only information."""
        return self.problem.level != "note"


class Repair(NamedTuple):
    """A repair that was made, with the file's backup if its text changed."""

    path: Path
    what: str
    backup: Path | None = None


def _finding(path: Path, what: str, hint: str, level: str, code: str, line: int = 1) -> Finding:
    return Finding(path, Problem(line, what, hint, level, code))


# --- examine ------------------------------------------------------------------------------------


def examine(
    root: Path,
    *,
    secrets: bool = False,
    custom: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Return all problems in a project, sorted by file and line.

    If `secrets` is set, everything that is stored is also searched for secrets. `custom` has the
    project's own patterns.
    """
    env = env or {}
    findings = [
        *_check_files(root),
        *_check_folders(root),
        *_leftovers(root),
        *_permissions(root),
        *_second_stores(root),
        *_find_forgotten(root),
    ]
    for path, problem in hook_state.find_problems(root, env):
        findings.append(Finding(path, problem))
    findings += _check_merging(root, env)
    if secrets:
        findings += _find_secrets(root, custom)
    return sorted(findings, key=_sort_key)


def _sort_key(finding: Finding) -> tuple[str, int, int]:
    return str(finding.path), finding.problem.line, _LEVELS.index(finding.problem.level)


def examine_installation(root: Path, env: Mapping[str, str]) -> list[Finding]:
    """Return problems with the hooks and MCP entries in the user's coding agents."""
    return [Finding(path, problem) for path, problem in hook_state.installation_problems(root, env)]


def config_findings(
    root: Path, problems: Iterable[ConfigProblem], level: str = "warning"
) -> list[Finding]:
    """Return problems in the config as findings.

    A problem with an environment variable is reported for the project's config file.
    """
    hint = "see `ralph config --origin` and docs/config.md"
    findings = []
    for problem in problems:
        place = problem.place
        if place.layer is Layer.ENVIRONMENT:
            path = paths.config_file(root)
            what = problem.message
        else:
            path = root / place.where
            what = problem.what
        findings.append(_finding(path, what, hint, level, "config", place.line or 1))
    return findings


def files_to_scan(root: Path) -> list[Path]:
    """Return every file that may contain a secret, without duplicates.

    Files that people write come first, and backups come last.
    """
    library = Library(root)
    candidates: list[Path] = []
    for collection in (library.memories, library.guardrails, library.personal):
        candidates += collection.places
    candidates.append(paths.scratchpad(root))
    candidates += [path for path, _ in _other_files(root)]
    unique: dict[str, Path] = {}
    for path in candidates:
        unique.setdefault(os.path.realpath(path), path)
    scanned = [*unique.values(), *_backups_of(candidates)]
    return [path for path in scanned if path.exists()]


def _backups_of(originals: Sequence[Path]) -> Iterator[Path]:
    folders = dict.fromkeys(path.parent for path in originals)
    backed_up = set(originals)
    for folder in folders:
        for copy in sorted(folder.glob("*.bak*")):
            original_name = copy.name.partition(".bak")[0]
            if copy.with_name(original_name) in backed_up:
                yield copy


def _find_secrets(root: Path, custom: Sequence[str]) -> Iterator[Finding]:
    hint = "replace the secret where it is used, then remove it here and from git's history"
    for path in files_to_scan(root):
        if _unreadable(path):
            continue
        for secret in privacy.find_secrets(files.read(path) or "", custom):
            what = f"looks like a secret ({secret.kind})"
            yield _finding(path, what, hint, "error", "secret", secret.line)


# --- repair -------------------------------------------------------------------------------------


def fix(root: Path, env: Mapping[str, str], *, project: bool = True) -> list[Repair]:
    """Repair what can safely be repaired in the user's agents and, with `project`, in `root`."""
    repairs: list[Repair] = []
    if project:
        repairs += _fix_project(root, env)
    for path, what in hook_state.repair_installation(root, env):
        repairs.append(Repair(path, what))
    return repairs


def _fix_project(root: Path, env: Mapping[str, str]) -> Iterator[Repair]:
    # Repair merges first, so that entries duplicated by a merge do not get ids of their own.
    yield from _fix_merges(root)
    yield from _fix_duplicate_ids(root)
    for finding in _leftovers(root):
        with files.lock(finding.path):
            files.delete(finding.path)
        yield Repair(finding.path, "removed a leftover of a killed process")
    for finding in _permissions(root):
        mode = _PRIVATE_FOLDER_MODE if finding.path.is_dir() else files.PRIVATE
        files.restrict(finding.path, mode)
        yield Repair(finding.path, "made it accessible only to its owner")
    failures = recorder.reset_failures(root)
    if failures is not None:
        yield Repair(recorder.failures_file(root), f"reset the failure count ({failures})")
    config = merge_registration.register_missing(root, env)
    if config is not None:
        yield Repair(config, "registered the merge driver that .gitattributes names")


def _fix_merges(root: Path) -> Iterator[Repair]:
    for damage in _find_damage(root):
        copy = backup(damage.path, root)
        files.write(damage.path, damage.text, root=root)
        if damage.is_settled:
            name = damage.path.relative_to(root).as_posix()
            Repository(root).tell("add", "--", f":(literal){name}")
        yield Repair(damage.path, f"merged it by entry: it had {damage.what}", copy)


def _fix_duplicate_ids(root: Path) -> Iterator[Repair]:
    library = Library(root)
    for collection in _readable_collections(library):

        def edit(text: str, layout: Layout = collection.layout) -> str:
            return str(parse_memories(text, layout).with_unique_ids(ids.mint_like))

        for path, _ in library.documents(collection):
            document = parse_memories(files.read(path) or "", collection.layout)
            if document.has_conflict:
                continue  # a person must decide which side's entries to keep
            if any(problem.code == "duplicate-id" for problem in document.problems):
                copy = backup(path, collection.root)
                files.update(path, edit, root=collection.root)
                yield Repair(path, "gave entries with a duplicate id a new one", copy)


# --- the text of files --------------------------------------------------------------------------


def _check_files(root: Path) -> Iterator[Finding]:
    """Yield the codecs' reports, unreadable files, and ids that occur in two files."""
    library = Library(root)
    for collection in _readable_collections(library):
        for path, document in library.documents(collection):
            for problem in document.problems:
                yield Finding(path, problem)
        yield from _check_ids(root, library, collection)
    for path in _curated_files(root):
        for problem in _unreadable(path):
            yield Finding(path, problem)
    yield from _check_other_files(root)


def _check_ids(root: Path, library: Library, collection: Collection) -> Iterator[Finding]:
    first_files: dict[str, Path] = {}
    for stored in library.read(collection):
        first_file = first_files.setdefault(stored.record.id, stored.path)
        if first_file != stored.path:
            what = f"the id {stored.record.id} is also in {paths.shown(first_file, root)}"
            hint = "delete one of the two entries, or give it a different id"
            yield _finding(stored.path, what, hint, "error", "id-in-two-files", stored.line)


def _check_other_files(root: Path) -> Iterator[Finding]:
    clean_logs = _clean_logs(root)
    unchanged = {path for path, log in clean_logs.items() if log.is_unchanged}
    for path, parse in _other_files(root, without=unchanged):
        log = clean_logs.get(os.fspath(path))
        if log is None:
            problems = _file_problems(path, parse)
        else:
            problems = _new_log_problems(path, log.read)
        for problem in problems:
            yield Finding(path, problem)


class _CleanLog(NamedTuple):
    """A log in which the index has found no problem, up to the position it has read."""

    read: ReadLog
    is_unchanged: bool


def _clean_logs(root: Path) -> dict[str, _CleanLog]:
    """Return the logs that only need to be checked after the position the index has read."""
    if index.outside(root) is not None:
        return {}
    logs = {}
    for path, (read, size) in index.read_logs(root).items():
        if read.offset and not read.problems and os.access(path, os.R_OK):
            logs[path] = _CleanLog(read, is_unchanged=read.offset == size)
    return logs


def _new_log_problems(path: Path, read: ReadLog) -> list[Problem]:
    """Return problems in the lines that the index has not read yet."""
    with suppress(OSError), files.open_unpacked(path) as file:
        file.seek(read.offset)
        text = file.read().decode("utf-8", "surrogateescape")
        problems = parse_log(text).problems
        return [replace(problem, line=problem.line + read.lines) for problem in problems]
    return []


def _file_problems(path: Path, parse: Parser) -> Sequence[Problem]:
    unreadable = _unreadable(path)
    if unreadable:
        return unreadable
    text = files.read(path)
    if text is None:
        return ()
    problems: Sequence[Problem] = parse(text).problems
    return problems


def _curated_files(root: Path) -> list[Path]:
    return [*paths.memories_files(root), *paths.guardrails_files(root)]


def _readable_collections(library: Library) -> list[Collection]:
    """Return the collections without their unreadable files, so that the rest can be checked."""
    collections = []
    for collection in (library.memories, library.guardrails, library.personal):
        readable = tuple(path for path in collection.places if not _unreadable(path))
        collections.append(replace(collection, places=readable))
    return collections


def _unreadable(path: Path) -> list[Problem]:
    """Return a problem that says why a file cannot be read, or nothing if it can."""
    try:
        files.read(path)
    except RalphError as error:
        what = error.message.removeprefix(f"{path}: ")
        hint = error.hint or "open the file to see what is wrong"
        return [Problem(1, what, hint, "error", "unreadable")]
    return []


def _other_files(root: Path, *, without: Container[str] = ()) -> Iterator[tuple[Path, Parser]]:
    """Yield every file except memories and guardrails, with the parser for it."""
    tasks = paths.tasks_folder(root)
    groups: list[tuple[Iterable[Path], Parser]] = [
        (sorted(paths.knowledge_folder(root).glob("*.md")), parse_knowledge),
        ([paths.global_patterns(root)], parse_patterns),
        (paths.progress_files(root), parse_progress),
        (sorted(tasks.glob("*/task.json")), parse_task),
        (sorted(tasks.glob("*/prd.json")), parse_prd),
        (sorted(tasks.glob("*/progress.txt")), parse_progress),
        (sorted(tasks.glob("*/memory/insights.json")), parse_insights),
        (_logs(root, without), parse_log),
    ]
    for group, parse in groups:
        for path in group:
            yield path, parse


def _logs(root: Path, without: Container[str]) -> list[Path]:
    """Return the logs, including folders that are named like a log, which are then reported."""
    names = []
    for folder, subfolders, file_names in os.walk(paths.log_folder(root)):
        for name in (*subfolders, *file_names):
            path = f"{folder}{os.sep}{name}"
            if path.endswith(paths.LOG_SUFFIXES) and path not in without:
                names.append(path)
    return [Path(name) for name in sorted(names)]


def _find_forgotten(root: Path) -> Iterator[Finding]:
    """Find files into which a pull or a restore has brought back forgotten records."""
    hidden = forgotten.load()
    if not hidden.hashes:
        return
    for source in sources(root):
        if source.format in (Format.LOG, Format.TASK) or _unreadable(source.path):
            continue
        entries = parse_source(source, files.read(source.path) or "").entries
        restored = [entry for entry in entries if hidden.hides(entry.record)]
        if not restored:
            continue
        what = f"{len(restored)} forgotten entries are back; Ralph hides them"
        if len(restored) == 1:
            what = "1 forgotten entry is back; Ralph hides it"
        names = " ".join(dict.fromkeys(entry.record.id for entry in restored))
        hint = f"run `ralph forget {names} --yes` to remove them from the file"
        yield _finding(source.path, what, hint, "warning", "forgotten", restored[0].line)


# --- folders, links and permissions -------------------------------------------------------------


def _check_folders(root: Path) -> Iterator[Finding]:
    """Find problems with folders, links, task worktrees, and ignored or tracked files."""
    for folder in sorted({path.parent for path in _curated_files(root)}):
        if folder.exists() and not folder.is_dir():
            hint = "move it away, then run `ralph init`"
            yield _finding(folder, "is a file but must be a folder", hint, "error", "no-folder")
    yield from _check_worktrees(root)
    yield from _check_git_files(root)
    yield from _check_folder_links(root)
    yield from _check_file_links(root)


def _check_worktrees(root: Path) -> Iterator[Finding]:
    worktrees = paths.main_checkout(root) / worktree.FOLDER
    for problem in worktree.problems(root):
        yield _finding(worktrees, problem.what, problem.hint, "warning", "worktree")
    for stale in index.stale_indexes(root):
        what = "is the index of a worktree that no longer exists"
        hint = "run `ralph index prune --yes` to remove it"
        yield _finding(stale.path, what, hint, "note", "worktree-index")


def _check_git_files(root: Path) -> Iterator[Finding]:
    """Find machine-specific files that git tracks or does not ignore."""
    missing = missing_lines(root)
    if missing:
        what = f"git does not ignore {', '.join(missing)}: this machine's data could be committed"
        hint = "add these lines to the file"
        yield _finding(paths.gitignore(root), what, hint, "warning", "not-ignored")
    if paths.has_old_state(root):  # these logs are neither read nor moved
        what = "came with the repository; Ralph does not read it"
        hint = (
            "run `git rm -r --cached` on it, or delete it; "
            "`ralph status` prints the folder of this machine's logs"
        )
        yield _finding(paths.old_state(root)[0], what, hint, "warning", "tracked-state")


def _check_folder_links(root: Path) -> Iterator[Finding]:
    """Find folders that are symbolic links to somewhere outside the project."""
    main = paths.main_checkout(root)
    boundary = paths.state_boundary(root)
    boundaries = {
        paths.ralph_folder(root): root,
        root / ".agent": root,
        paths.ralph_folder(main): main,
        paths.log_folder(root): boundary,
        paths.index_file(root): boundary,
    }
    for folder, top in boundaries.items():
        if folder.is_symlink() and not _is_below(folder, top):
            what = f"is a symbolic link to {folder.readlink()}, outside the project"
            hint = "hooks record nothing through it; replace it with a folder in the project"
            yield _finding(folder, what, hint, "error", "bad-link")


def _check_file_links(root: Path) -> Iterator[Finding]:
    for path in _curated_files(root):
        if not path.is_symlink():
            continue
        try:
            files.target(path, root)
        except RalphError as error:
            what = error.message.partition(": ")[2]
            yield _finding(path, what, error.hint, "error", "bad-link")
        else:
            what = f"is a symbolic link to {path.readlink()}"
            hint = "a git merge may replace it with its text; a regular file is safer"
            yield _finding(path, what, hint, "note", "link")


def _leftovers(root: Path) -> list[Finding]:
    """Find temporary files left behind by processes that were killed while writing."""
    what = "is a leftover of a process that was killed while writing"
    hint = "run `ralph doctor --fix` to remove it"
    findings = []
    for folder in paths.written_folders(root):
        for path in files.leftovers(folder):
            if _is_inside(path, root):
                findings.append(_finding(path, what, hint, "warning", "leftover"))
    return findings


def _permissions(root: Path) -> list[Finding]:
    """Find files and folders in this machine's state that other users can access."""
    state = paths.state_folder(root)
    names = [os.fspath(state)]
    for folder, subfolders, file_names in os.walk(state):
        for name in (*subfolders, *file_names):
            names.append(f"{folder}{os.sep}{name}")
    hint = "run `ralph doctor --fix` to restrict it to its owner"
    findings = []
    for name in sorted(names):
        try:
            mode = os.lstat(name).st_mode
        except OSError:
            continue  # deleted in the meantime
        is_shared = bool(mode & _OTHERS_PERMISSIONS)
        has_own_mode = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
        if is_shared and has_own_mode and _is_inside(Path(name), root):
            what = f"is accessible to other users (mode {stat.S_IMODE(mode):o})"
            findings.append(_finding(Path(name), what, hint, "warning", "permissions"))
    return findings


def _is_inside(path: Path, root: Path) -> bool:
    """Return whether a file is in the project. We do not repair link targets outside it."""
    tops = (root, paths.main_checkout(root), paths.state_boundary(root))
    return any(_is_below(path, top) for top in tops)


def _is_below(path: Path, top: Path) -> bool:
    """Return whether a path is in a folder, after resolving all links."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(top))


def _second_stores(root: Path) -> Iterator[Finding]:
    """Find stores that a command created in a subfolder, where the project does not read them."""
    project_folders = {path.parent for path in _curated_files(root)} | {root}
    skipped = {
        paths.claude_folder(root) / "worktrees",
        paths.log_folder(root),
        paths.cache_folder(root),
    }
    for count, (folder_name, subfolders, file_names) in enumerate(os.walk(root)):
        if count > _MAX_SEARCHED_FOLDERS:
            return
        folder = Path(folder_name)
        project_markers = {".git", paths.config_file(folder).name}
        if folder != root and not project_markers.isdisjoint((*subfolders, *file_names)):
            subfolders.clear()  # a repository, a worktree or a package is a project of its own
            continue
        subfolders[:] = sorted(
            name
            for name in subfolders
            if name not in _SKIPPED_FOLDERS and folder / name not in skipped
        )
        if folder in project_folders or not paths.is_store(folder):
            continue
        for name in _STORE_FILES:
            if name in file_names:
                what = "is a second store, which is not read from the project's root"
                hint = f"move its entries into the project's own {name}, then delete it"
                yield _finding(folder / name, what, hint, "warning", "second-store")


# --- merges -------------------------------------------------------------------------------------


def _check_merging(root: Path, env: Mapping[str, str]) -> Iterator[Finding]:
    """Find a merge driver that cannot start, `merge=union`, and files damaged by a merge."""
    config = merge_registration.is_missing(root, env)
    if config is not None:
        what = (
            "has no working merge driver, but .gitattributes names one: "
            "git merges memories by lines"
        )
        hint = "run `ralph doctor --fix` to register it"
        yield _finding(config, what, hint, "warning", "merge-driver")
    unions = _find_unions(root)
    if unions:
        what = (
            f"sets merge=union for {', '.join(unions)}: "
            "git duplicates entries and brings back deleted ones"
        )
        hint = "run `ralph merge-driver --register` to add Ralph's driver below it"
        yield _finding(paths.git_attributes(root), what, hint, "warning", "merge-union")
    for damage in _find_damage(root):
        hint = "run `ralph doctor --fix` to merge the file by entry"
        yield _finding(damage.path, f"has {damage.what}", hint, "error", "merge")


def _find_unions(root: Path) -> list[str]:
    """Return the names of Ralph's files for which git's attributes say `merge=union`."""
    if not paths.location(root).common:
        return []
    names = []
    for line in ATTRIBUTES:
        # git takes paths rather than patterns, so `x` stands for `*`
        name = line.split()[0].lstrip("/").replace("*", "x")
        if can_merge(name):
            names.append(name)
    repository = Repository(root, _ATTRIBUTES_PATIENCE)
    # for each path, git prints the path, the attribute's name and its value
    fields = repository.names("check-attr", "-z", "merge", "--", *names)
    unions = []
    for name, value in zip(fields[::3], fields[2::3], strict=True):
        if value == "union":
            unions.append(name.replace("/x", "/*"))
    return unions


class _MergeDamage(NamedTuple):
    """A file damaged by a line-by-line merge, and its text when merged entry by entry.

    `is_settled` is true if the file belongs to an open merge and has no conflict left.
    """

    path: Path
    what: str
    text: str
    is_settled: bool


def _find_damage(root: Path) -> Iterator[_MergeDamage]:
    """Yield each file that an entry-by-entry merge would change.

    An open merge is read from the three stages in git's index, and a committed one from its
    parents.
    """
    if not paths.location(root).common:
        return
    repository = Repository(root)
    unmerged = {line.partition("\t")[2] for line in repository.names("ls-files", "-u", "-z")}
    yield from _find_open_damage(root, repository, unmerged)
    yield from _find_committed_damage(root, repository, unmerged)


def _find_open_damage(
    root: Path, repository: Repository, unmerged: Iterable[str]
) -> Iterator[_MergeDamage]:
    for name in filter(can_merge, sorted(unmerged)):
        base = repository.text(f":1:./{name}")
        ours = repository.text(f":2:./{name}")
        theirs = repository.text(f":3:./{name}")
        current = files.read(root / name)
        if ours is None or theirs is None or current is None:
            continue
        if not _CONFLICT_START.search(current):
            continue
        merged = merge(name, base or "", ours, theirs, merge_lines)
        if merged.text != current and _REPLACEMENT_CHARACTER not in merged.text:
            what = "conflict markers of an open merge"
            yield _MergeDamage(root / name, what, merged.text, is_settled=not merged.conflicts)


def _find_committed_damage(
    root: Path, repository: Repository, unmerged: Container[str]
) -> Iterator[_MergeDamage]:
    candidates = [
        *paths.memories_files(root),
        *paths.guardrails_files(root),
        paths.global_patterns(root),
        root / "AGENTS.md",
        root / "CLAUDE.md",
        *_merged_knowledge_files(root, repository),
    ]
    for path in candidates:
        name = path.relative_to(root).as_posix()
        if name in unmerged or not path.is_file():
            continue
        text = _repaired(repository, name, files.read(path))
        if text is not None:
            what = "entries that a merge by lines duplicated, damaged or brought back"
            yield _MergeDamage(path, what, text, is_settled=False)


def _merged_knowledge_files(root: Path, repository: Repository) -> list[Path]:
    """Return the knowledge files that differ from both parents in a recent merge."""
    names = repository.names(
        "log",
        "--merges",
        "-n",
        _MERGES_EXAMINED,
        "-c",
        "--name-only",
        "--format=",
        "-z",
        "--relative",
        "--",
        str(paths.knowledge_folder(root)),
    )
    return sorted({root / name for name in names if can_merge(name)})


class _CommittedMerge(NamedTuple):
    """The versions of a file in a merge commit and in its parents."""

    base: str
    ours: str
    theirs: str
    result: str


def _repaired(repository: Repository, name: str, current: str | None) -> str | None:
    """Return a file as its last merge should have left it, with later edits applied.

    Returns None if nothing is wrong with the file, or if it cannot be repaired.
    """
    if current is None:
        return None
    last_merge = _last_merge(repository, name)
    if last_merge is None:
        return None
    merged = merge(name, last_merge.base, last_merge.ours, last_merge.theirs, merge_lines)
    if merged.conflicts and "/knowledge/" in name:
        merged = merge(
            name, last_merge.base, last_merge.ours, last_merge.theirs, _merge_keeping_both
        )
    if merged.conflicts or merged.text == last_merge.result:
        return None
    if _REPLACEMENT_CHARACTER in f"{last_merge.result}{merged.text}{current}":
        return None
    if not _is_damaged(last_merge):
        return None
    text = _apply_later_edits(name, last_merge.result, current, merged.text)
    if text == current:
        return None
    return text


def _last_merge(repository: Repository, name: str) -> _CommittedMerge | None:
    """Return the last merge of two branches that changed a file, or None."""
    words = ("rev-list", "--merges", "--parents", "-n", "1", "HEAD", "--", name)
    commits = repository.answer(*words).split()
    if len(commits) != 3:  # the merge and its two parents
        return None
    merge_commit, our_parent, their_parent = commits
    base_commit = repository.answer("merge-base", our_parent, their_parent)
    base: str | None = ""
    if base_commit:
        base = repository.text(f"{base_commit}:./{name}")
    ours = repository.text(f"{our_parent}:./{name}")
    theirs = repository.text(f"{their_parent}:./{name}")
    result = repository.text(f"{merge_commit}:./{name}")
    if ours is None or theirs is None or result is None:
        return None
    return _CommittedMerge(base or "", ours, theirs, result)


def _merge_keeping_both(base: str, ours: str, theirs: str) -> tuple[str, int]:
    """Merge line by line. In the body of a knowledge file, lines from both sides are kept."""
    is_front_matter = base.startswith("---")
    return merge_lines(base, ours, theirs, union=not is_front_matter)


def _is_damaged(last_merge: _CommittedMerge) -> bool:
    """Return whether a merge left conflict markers or duplicate entries, or was a union."""
    result = last_merge.result
    if _CONFLICT_START.search(result):
        return True
    entries = _ENTRY_HEADING.findall(result)
    if len(entries) != len(set(entries)):
        return True
    union, _ = merge_lines(last_merge.base, last_merge.ours, last_merge.theirs, union=True)
    return result == union


def _apply_later_edits(name: str, result: str, current: str, merged: str) -> str | None:
    """Apply the edits made after the merge to `merged`. Returns None if they conflict."""
    if current == result:
        return merged
    text, conflicts = merge_lines(result, current, merged)
    if conflicts and _CONFLICT_START.search(current):
        without_markers = (_CONFLICT_MARKERS.sub("", result), _CONFLICT_MARKERS.sub("", current))
        text, conflicts, _ = merge(name, *without_markers, merged, merge_lines)
    if conflicts:
        return None
    return text


# --- status -------------------------------------------------------------------------------------


def project_status(root: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what `ralph status --format json` prints.

    `outside` is the folder outside the project that the logs are linked to, or None.
    """
    library = Library(root)
    outside = index.outside(root)
    paused = recorder.paused_since(root)
    recent_session = None
    recording_problem = None
    if outside is None:
        recent_session = last_session(root)
        recording_problem = recorder.recording_problem(root) or None
    return {
        "root": str(root),
        "state": str(paths.state_folder(root)),
        "other_machines": len(paths.other_state_folders(root)),
        "memories": len(library.read(library.memories)),
        "guardrails": len(library.read(library.guardrails)),
        "memory_bytes": _memory_bytes(root),
        **index.status(root),
        "last_session": recent_session,
        "hooks": _hooks_status(root, env),
        "outside": None if outside is None else str(outside),
        "recording_problem": recording_problem,
        "paused": paused is not None,
        "paused_since": paused or None,
    }


def _memory_bytes(root: Path) -> int:
    curated = [
        *_curated_files(root),
        *paths.knowledge_folder(root).glob("*.md"),
        paths.global_patterns(root),
    ]
    return sum(path.stat().st_size for path in curated if path.is_file())


def _hooks_status(root: Path, env: Mapping[str, str]) -> dict[str, Any]:
    hook_usage = usage.hook_usage(root)
    installed = []
    for entry in hook_state.find_installed(root, env):
        if not CLIENTS[Host(entry.host)].events:
            continue  # the client has only MCP, without hooks
        installed.append(
            {
                "host": entry.host,
                "scope": entry.scope,
                "file": str(entry.file),
                "events": entry.host in hook_usage["hosts"],
            }
        )
    problems = []
    for _, problem in hook_state.installation_problems(root, env):
        if problem.level == "warning":
            problems.append(problem.what)
    return {"installed": installed, "problems": problems, **hook_usage}


def last_session(root: Path) -> dict[str, str] | None:
    """Return the id, time and host of the session with the latest event, or None.

    They are read from the end of its log, because the index may be stale.
    """
    log = _newest_log(root)
    if log is None:
        return None
    session = ""
    at = ""
    host = ""
    for line in index.last_lines(log):
        session = session or _session_of(line)
        at = at or _time_of(line)
        host = host or _host_of(line)
        if session and at and host:
            break
    if not at:
        changed_at = datetime.fromtimestamp(int(log.stat().st_mtime), UTC)
        at = changed_at.isoformat().replace("+00:00", "Z")
    return {"id": session or log.stem, "at": at, "host": host}


def _newest_log(root: Path) -> Path | None:
    """Return the session log that was written to last, or None."""
    folder = f"{log_folders(root)[0]}/"
    logs = []
    for log in scan_logs(root):
        if log.path.startswith(folder):
            logs.append((log.state.mtime_ns, log.path))
    if not logs:
        return None
    _, path = max(logs)
    return Path(path)


def _session_of(line: Mapping[str, object]) -> str:
    session: object = None
    match line.get("type"):
        case "event":
            session = _member(line, "payload").get("session_id")
        case "observation":
            session = _member(line, "origin").get("session")
        case "session":
            session = line.get("id")
    return str(session or "")[:_MAX_FIELD_LENGTH]


def _time_of(line: Mapping[str, object]) -> str:
    for key in ("at", "updated_at", "created_at", "ended_at"):
        time = line.get(key)
        if isinstance(time, str) and time:
            return time[:_MAX_FIELD_LENGTH]
    return ""


def _host_of(line: Mapping[str, object]) -> str:
    host = line.get("host") or _member(line, "origin").get("agent") or ""
    return str(host)[:_MAX_FIELD_LENGTH]


def _member(line: Mapping[str, object], name: str) -> dict[str, object]:
    value = line.get(name)
    if isinstance(value, dict):
        return value
    return {}
