"""`ralph doctor` and `ralph status`: problems in a project's files and hooks, repairs, and the project in numbers.

Every file that Ralph knows is read through its codec, which reports its Problems; then come the checks that no codec
can make. `fix` keeps a backup of every file whose text it changes. `project_status` leaves nothing behind.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

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
from ralph.storage.files import missing_lines
from ralph.storage.library import Collection, Library
from ralph.storage.sources import Format, log_folders, parse_source, scan_logs, sources
from ralph.tasks import worktree

_FIXABLE = [
    "duplicate-id",
    "leftover",
    "permissions",
    "hook-failures",
    "launcher",
    "host-entry",
    "merge-driver",
    "merge",
]
_SKIPPED = [
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
]
"""Folders that are not searched for a second store."""
_MAX_FOLDERS = 20_000
_LEVELS = ["error", "warning", "note"]
_ENTRY = re.compile(r"^### (\S+-\d+-\w+)$", re.MULTILINE)
_MARKER = re.compile("^<<<<<<< ", re.MULTILINE)
_MARKERS = re.compile(r"^(?:[<>]{7} .*|\|{7}.*\n(?:(?!={7}$).*\n)*={7}|={7})\n", re.MULTILINE)


class Finding(NamedTuple):
    """A problem and the file it is in."""

    path: Path
    problem: Problem

    @property
    def fixable(self) -> bool:
        """Whether `fix` repairs it."""
        return self.problem.code in _FIXABLE

    @property
    def needs_a_person(self) -> bool:
        """Whether somebody should look; notes only explain."""
        return self.problem.level != "note"


class Repair(NamedTuple):
    """One repair, and the copy of the file as it was, if its text changed."""

    path: Path
    what: str
    backup: Path | None = None


def _finding(path: Path, what: str, hint: str, level: str, code: str, line: int = 1) -> Finding:
    return Finding(path, Problem(line, what, hint, level, code))


def examine(
    root: Path,
    *,
    secrets: bool = False,
    custom: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Return all problems by file and line."""
    findings = [*_check_files(root), *_check_folders(root), *_leftovers(root), *_permissions(root)]
    findings += [*_second_stores(root), *_find_forgotten(root)]
    findings += [
        Finding(path, problem) for path, problem in hook_state.find_problems(root, env or {})
    ]
    if (config := merge_registration.is_missing(root, env or {})) is not None:
        what = "has no merge driver that starts, but .gitattributes names one: git merges memories by lines"
        findings.append(
            _finding(
                config, what, "run `ralph doctor --fix` to register it", "warning", "merge-driver"
            )
        )
    if unions := _find_unions(root):
        what = f"says merge=union for {', '.join(unions)}: git doubles entries and brings deleted ones back"
        hint = "run `ralph merge-driver --register`: it names Ralph's driver below"
        findings.append(_finding(paths.git_attributes(root), what, hint, "warning", "merge-union"))
    for damage in _find_damage(root):
        hint = "run `ralph doctor --fix` to merge the file by entry"
        findings.append(_finding(damage.path, f"has {damage.what}", hint, "error", "merge"))
    for path in files_to_scan(root) if secrets else ():
        hint = "change the secret where it is used, then remove it here and from git history"
        for secret in privacy.find_secrets(
            "" if _unreadable(path) else files.read(path) or "", custom
        ):
            what = f"looks like a secret ({secret.kind})"
            findings.append(_finding(path, what, hint, "error", "secret", secret.line))
    return sorted(
        findings,
        key=lambda item: (str(item.path), item.problem.line, _LEVELS.index(item.problem.level)),
    )


def examine_installation(root: Path, env: Mapping[str, str]) -> list[Finding]:
    """Return the problems of hooks and MCP entries in the user's coding agents."""
    return [Finding(path, problem) for path, problem in hook_state.installation_problems(root, env)]


def fix(root: Path, env: Mapping[str, str], *, project: bool = True) -> list[Repair]:
    """Repair what is safe to repair, in the project if there is one and in the user's coding agents."""
    repairs = [*_fix_project(root, env)] if project else []
    return [
        *repairs,
        *(Repair(path, what) for path, what in hook_state.repair_installation(root, env)),
    ]


def _fix_project(root: Path, env: Mapping[str, str]) -> Iterator[Repair]:
    for damage in _find_damage(root):  # first: doubled entries must not get ids of their own
        copy = backup(damage.path, root)
        files.write(damage.path, damage.text, root=root)
        if damage.is_settled:
            Repository(root).tell(
                "add", "--", f":(literal){damage.path.relative_to(root).as_posix()}"
            )
        yield Repair(damage.path, f"merged it by entry: it had {damage.what}", copy)
    library = Library(root)
    for collection in _readable_collections(library):

        def edit(text: str, layout: Layout = collection.layout) -> str:
            return str(parse_memories(text, layout).with_unique_ids(ids.mint_like))

        for path, _ in library.documents(collection):
            document = parse_memories(files.read(path) or "", collection.layout)
            is_unique = all(problem.code != "duplicate-id" for problem in document.problems)
            if (
                not document.has_conflict and not is_unique
            ):  # else a person decides which side's entries stay
                copy = backup(path, collection.root)
                files.update(path, edit, root=collection.root)
                yield Repair(path, "gave entries with a used id their own", copy)
    for finding in _leftovers(root):
        with files.lock(finding.path):
            files.delete(finding.path)
        yield Repair(finding.path, "removed a leftover of a writer that was killed")
    for finding in _permissions(root):
        files.restrict(finding.path, 0o700 if finding.path.is_dir() else files.PRIVATE)
        yield Repair(finding.path, "made it readable by its owner only")
    if (failures := hook_state.reset_failures(root)) is not None:
        yield Repair(hook_state.failures_file(root), f"set the count of failures back ({failures})")
    if (config := merge_registration.register_missing(root, env)) is not None:
        yield Repair(config, "registered the merge driver that .gitattributes names")


def _check_files(root: Path) -> Iterator[Finding]:
    """Yield what the codecs report, files that cannot be read, and ids that two files of a collection have."""
    library = Library(root)
    for collection in _readable_collections(library):
        for path, document in library.documents(collection):
            yield from (Finding(path, problem) for problem in document.problems)
        first: dict[str, Path] = {}
        for stored in library.read(collection):
            other = first.setdefault(stored.record.id, stored.path)
            if other != stored.path:
                what = f"the id {stored.record.id} is also in {paths.shown(other, root)}"
                hint = "delete one of the two, or give it another id"
                yield _finding(stored.path, what, hint, "error", "id-in-two-files", stored.line)
    for path in _curated_files(root):
        yield from (Finding(path, problem) for problem in _unreadable(path))
    read = index.read_logs(root) if index.outside(root) is None else {}
    trusted = {  # a log in which the index has found no problem is not read again, as far as it is unchanged
        path: known.offset == size
        for path, (known, size) in read.items()
        if known.offset and not known.problems and os.access(path, os.R_OK)
    }
    for path, parse in _other_files(
        root, without={path for path, whole in trusted.items() if whole}
    ):
        if os.fspath(path) in trusted:
            known = read[os.fspath(path)][0]
            with suppress(OSError), files.open_unpacked(path) as file:
                file.seek(known.offset)
                problems = parse_log(file.read().decode("utf-8", "surrogateescape")).problems
                yield from (
                    Finding(path, replace(each, line=each.line + known.lines)) for each in problems
                )
            continue
        unreadable = _unreadable(path)
        text = None if unreadable else files.read(path)
        yield from (
            Finding(path, problem)
            for problem in (unreadable if text is None else parse(text).problems)
        )


def _curated_files(root: Path) -> list[Path]:
    return [*paths.memories_files(root), *paths.guardrails_files(root)]


def _readable_collections(library: Library) -> list[Collection]:
    """Return the collections without files that cannot be read, so that one of them does not hide the rest."""
    return [
        replace(
            collection, places=tuple(path for path in collection.places if not _unreadable(path))
        )
        for collection in (library.memories, library.guardrails, library.personal)
    ]


def _unreadable(path: Path) -> list[Problem]:
    try:
        files.read(path)
    except RalphError as error:
        return [
            Problem(
                1,
                error.message.removeprefix(f"{path}: "),
                error.hint or "look at it",
                "error",
                "unreadable",
            )
        ]
    return []


def _other_files(
    root: Path, *, without: Container[str] = ()
) -> Iterator[tuple[Path, Callable[[str], Any]]]:
    tasks = paths.tasks_folder(root)
    logs = (
        f"{folder}{os.sep}{name}"
        for folder, *inside in os.walk(paths.log_folder(root))
        for name in chain(*inside)
    )
    groups: list[tuple[Iterable[Path], Callable[[str], Any]]] = [
        (sorted(paths.knowledge_folder(root).glob("*.md")), parse_knowledge),
        ([paths.global_patterns(root)], parse_patterns),
        (paths.progress_files(root), parse_progress),
        (sorted(tasks.glob("*/task.json")), parse_task),
        (sorted(tasks.glob("*/prd.json")), parse_prd),
        (sorted(tasks.glob("*/progress.txt")), parse_progress),
        (sorted(tasks.glob("*/memory/insights.json")), parse_insights),
        (
            [
                Path(path)
                for path in sorted(logs)
                if path.endswith(paths.LOG_SUFFIXES) and path not in without
            ],
            parse_log,
        ),
    ]
    return ((path, parse) for group, parse in groups for path in group)


def _find_forgotten(root: Path) -> Iterator[Finding]:
    """Find files in which a pull or a restore has put back what was forgotten."""
    hidden = forgotten.load()
    for source in sources(root) if hidden.hashes else ():
        if source.format not in (Format.LOG, Format.TASK) and not _unreadable(source.path):
            entries = parse_source(source, files.read(source.path) or "").entries
            if back := [entry for entry in entries if hidden.hides(entry.record)]:
                what = f"{len(back)} forgotten {'entry is' if len(back) == 1 else 'entries are'} back; Ralph hides them"
                names = " ".join(dict.fromkeys(entry.record.id for entry in back))
                hint = f"`ralph forget {names} --yes` removes them"
                yield _finding(source.path, what, hint, "warning", "forgotten", back[0].line)


def _check_folders(root: Path) -> Iterator[Finding]:
    """Find problems of folders, links, worktrees of tasks and their indexes, and of what git ignores or tracks."""
    for folder in sorted({path.parent for path in _curated_files(root)}):
        if folder.exists() and not folder.is_dir():
            hint = "move it away, then run `ralph init`"
            yield _finding(
                folder, "is a file, but a folder is needed here", hint, "error", "no-folder"
            )
    trees = paths.main_checkout(root) / worktree.FOLDER
    for tree in worktree.problems(root):
        yield _finding(trees, tree.what, tree.hint, "warning", "worktree")
    for old in index.stale_indexes(root):
        hint = "`ralph index prune --yes` removes it"
        yield _finding(
            old.path, "the index of a worktree that is gone", hint, "note", "worktree-index"
        )
    if missing := missing_lines(root):
        what = f"git does not ignore {', '.join(missing)}: what happened on this machine could be committed"
        yield _finding(
            paths.gitignore(root), what, "add these lines to it", "warning", "not-ignored"
        )
    if paths.has_old_state(root):  # neither read nor moved
        what = "came with the repository: Ralph does not read it"
        hint = "`git rm -r --cached` it, or delete it; `ralph status` prints the folder of this machine's logs"
        yield _finding(paths.old_state(root)[0], what, hint, "warning", "tracked-state")
    main = paths.main_checkout(root)
    boundary = paths.state_boundary(root)
    folders = {
        paths.ralph_folder(root): root,
        root / ".agent": root,
        paths.ralph_folder(main): main,
    }
    folders |= {paths.log_folder(root): boundary, paths.index_file(root): boundary}
    for folder, top in folders.items():
        if folder.is_symlink() and not Path(os.path.realpath(folder)).is_relative_to(
            os.path.realpath(top)
        ):
            hint = "hooks record nothing through such a link: make it a folder of the project"
            yield _finding(
                folder,
                f"a link that leads outside, to {folder.readlink()}",
                hint,
                "error",
                "bad-link",
            )
    for path in filter(Path.is_symlink, _curated_files(root)):
        try:
            files.target(path, root)
        except RalphError as error:
            yield _finding(path, error.message.partition(": ")[2], error.hint, "error", "bad-link")
        else:
            hint = "git merges may replace it by its text; a real file is safer"
            yield _finding(path, f"a symbolic link to {path.readlink()}", hint, "note", "link")


def _leftovers(root: Path) -> list[Finding]:
    hint = "run `ralph doctor --fix` to remove it"
    leftovers = [path for folder in paths.written_folders(root) for path in files.leftovers(folder)]
    what = "left by a writer that was killed"
    return [
        _finding(path, what, hint, "warning", "leftover")
        for path in leftovers
        if _is_inside(path, root)
    ]


def _permissions(root: Path) -> list[Finding]:
    state = paths.state_folder(root)
    names = [os.fspath(state)]
    for folder, folders, files_in in os.walk(state):
        names += (f"{folder}{os.sep}{name}" for name in (*folders, *files_in))
    hint = "run `ralph doctor --fix` to make it its owner's alone"
    findings = []
    for name in sorted(names):
        try:
            mode = os.lstat(name).st_mode
        except OSError:
            continue  # deleted meanwhile
        if (
            mode & 0o077
            and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
            and _is_inside(Path(name), root)
        ):
            what = f"others may read it (mode {stat.S_IMODE(mode):o})"
            findings.append(_finding(Path(name), what, hint, "warning", "permissions"))
    return findings


def _is_inside(path: Path, root: Path) -> bool:
    """Whether a file is in the project; the target of a link outside of it is not ours to repair."""
    tops = (
        os.path.realpath(top)
        for top in (root, paths.main_checkout(root), paths.state_boundary(root))
    )
    return any(Path(os.path.realpath(path)).is_relative_to(top) for top in tops)


def _second_stores(root: Path) -> Iterator[Finding]:
    """Find stores that a command created in a sub-folder: the project does not read them."""
    own = {path.parent for path in _curated_files(root)} | {root}
    skipped = {
        paths.claude_folder(root) / "worktrees",
        paths.log_folder(root),
        paths.cache_folder(root),
    }
    for number, (name, folders, names) in enumerate(os.walk(root)):
        folder = Path(name)
        if number > _MAX_FOLDERS:
            return
        if folder != root and {".git", paths.config_file(folder).name} & {*folders, *names}:
            folders.clear()  # a repository, a worktree, or a package that was made a project on purpose
            continue
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and folder / name not in skipped
        )
        if folder in own or not paths.is_store(folder):
            continue
        for name in {"memories.md", "guardrails.md"} & set(names):
            hint = f"move its entries into the project's own {name}, then delete it"
            what = "a second store: it is not read from the project's root"
            yield _finding(folder / name, what, hint, "warning", "second-store")


def files_to_scan(root: Path) -> list[Path]:
    """Return every file that may contain a secret, those that people write first, each once; their backups too."""
    library = Library(root)
    collections = (library.memories, library.guardrails, library.personal)
    candidates = [path for collection in collections for path in collection.places]
    candidates += [paths.scratchpad(root), *(path for path, _ in _other_files(root))]
    unique = list({os.path.realpath(path): path for path in reversed(candidates)}.values())[::-1]
    copies = [
        copy
        for folder in {path.parent: 1 for path in candidates}
        for copy in sorted(folder.glob("*.bak*"))
    ]
    backups = [
        copy for copy in copies if copy.with_name(copy.name.partition(".bak")[0]) in set(candidates)
    ]
    return [path for path in (*unique, *backups) if path.exists()]


def config_findings(
    root: Path, problems: Iterable[ConfigProblem], level: str = "warning"
) -> list[Finding]:
    """Return the problems of the config; one of an environment variable is reported at the settings file."""
    findings = []
    hint = "see `ralph config --origin` and docs/config.md"
    for problem in problems:
        place = problem.place
        is_file = place.layer is not Layer.ENVIRONMENT
        path, what = (
            (root / place.where, problem.what)
            if is_file
            else (paths.config_file(root), problem.message)
        )
        findings.append(_finding(path, what, hint, level, "config", place.line or 1))
    return findings


# --- files that a merge by lines has damaged ---------------------------------------------------------


class _MergeDamage(NamedTuple):
    """A damaged file and its text by entry; `is_settled`: of an open merge, without a conflict."""

    path: Path
    what: str
    text: str
    is_settled: bool


def _find_damage(root: Path) -> Iterator[_MergeDamage]:
    """Yield each file that the merge by entry would change, with its text after it.

    An open merge is read from the index's three stages, a committed one from its parents.
    """
    if not paths.location(root).common:
        return
    repository = Repository(root)
    unmerged = {line.partition("\t")[2] for line in repository.names("ls-files", "-u", "-z")}
    for name in filter(can_merge, sorted(unmerged)):
        versions = [repository.text(f":{stage}:./{name}") for stage in (1, 2, 3)]
        current = files.read(root / name)
        if None not in versions[1:] and current is not None and _MARKER.search(current):
            merged = merge(
                name, versions[0] or "", versions[1] or "", versions[2] or "", merge_lines
            )
            if merged.text != current and "\ufffd" not in merged.text:
                yield _MergeDamage(
                    root / name,
                    "conflict markers of an open merge",
                    merged.text,
                    not merged.conflicts,
                )
    tracked = [
        *paths.memories_files(root),
        *paths.guardrails_files(root),
        paths.global_patterns(root),
    ]
    both = [
        "log",
        "--merges",
        "-n",
        "20",
        "-c",
        "--name-only",
        "--format=",
        "-z",
        "--relative",
    ]  # what differs from both sides
    folder = paths.knowledge_folder(root)
    knowledge = sorted(
        {root / name for name in repository.names(*both, "--", str(folder)) if can_merge(name)}
    )
    for path in (*tracked, root / "AGENTS.md", root / "CLAUDE.md", *knowledge):
        name = path.relative_to(root).as_posix()
        text = (
            _repaired(repository, name, files.read(path))
            if name not in unmerged and path.is_file()
            else None
        )
        if text is not None:
            yield _MergeDamage(
                path, "entries that a merge by lines doubled, stripped or brought back", text, False
            )


def _find_unions(root: Path) -> list[str]:
    """Return the files of Ralph for which git's attributes say `merge=union`, by their names in the project."""
    names = [
        name
        for name in (line.split()[0].lstrip("/").replace("*", "x") for line in ATTRIBUTES)
        if can_merge(name)
    ]
    found = (
        Repository(root, 2).names("check-attr", "-z", "merge", "--", *names)
        if paths.location(root).common
        else []
    )
    return [
        name.replace("/x", "/*")
        for name, value in zip(found[::3], found[2::3], strict=True)
        if value == "union"
    ]


def _repaired(repository: Repository, name: str, current: str | None) -> str | None:
    """Return a file as it would be after its last merge by entry, with later edits; None where nothing is wrong."""
    commits = repository.answer(
        "rev-list", "--merges", "--parents", "-n", "1", "HEAD", "--", name
    ).split()
    if len(commits) != 3 or current is None:
        return None
    base = repository.answer("merge-base", *commits[1:])
    texts = [
        repository.text(f"{commit}:./{name}") if commit else ""
        for commit in (base, *commits[1:], commits[0])
    ]
    before, one, two, result = (text or "" for text in texts)
    merged = merge(name, before, one, two, merge_lines)
    if merged.conflicts and "/knowledge/" in name:  # its body keeps the lines of both sides
        merged = merge(
            name,
            before,
            one,
            two,
            lambda *each: merge_lines(*each, union=not each[0].startswith("---")),
        )
    if (
        None in texts[1:]
        or merged.conflicts
        or merged.text == result
        or "\ufffd" in f"{result}{merged.text}{current}"
    ):
        return None
    entries = _ENTRY.findall(result)
    is_union = result == merge_lines(before, one, two, union=True)[0]
    if not is_union and not _MARKER.search(result) and len(entries) == len(set(entries)):
        return None
    text, conflicts = (
        (merged.text, 0) if current == result else merge_lines(result, current, merged.text)
    )
    if conflicts and _MARKER.search(current):
        text, conflicts, _ = merge(
            name, _MARKERS.sub("", result), _MARKERS.sub("", current), merged.text, merge_lines
        )
    return None if conflicts or text == current else text


# --- status ----------------------------------------------------------------------------------------


def project_status(root: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what `ralph status --format json` prints; `outside` is where a link takes the logs out of the project."""
    library = Library(root)
    outside = index.outside(root)
    paused = hook_state.paused_since(root)
    curated = [
        *_curated_files(root),
        *paths.knowledge_folder(root).glob("*.md"),
        paths.global_patterns(root),
    ]
    hooks = usage.hook_usage(root)
    installed = [
        {
            "host": each.host,
            "scope": each.scope,
            "file": str(each.file),
            "events": each.host in hooks["hosts"],
        }
        for each in hook_state.find_installed(root, env)
        if CLIENTS[Host(each.host)].names  # not MCP alone
    ]
    broken = [
        each.what
        for _, each in hook_state.installation_problems(root, env)
        if each.level == "warning"
    ]
    return {
        "root": str(root),
        "state": str(paths.state_folder(root)),
        "other_machines": len(paths.other_state_folders(root)),
        "memories": len(library.read(library.memories)),
        "guardrails": len(library.read(library.guardrails)),
        "memory_bytes": sum(path.stat().st_size for path in curated if path.is_file()),
        **index.status(root),
        "last_session": last_session(root) if outside is None else None,
        "hooks": {"installed": installed, "problems": broken, **hooks},
        "outside": None if outside is None else str(outside),
        "recording_problem": None
        if outside is not None
        else hook_state.recording_problem(root) or None,
        "paused": paused is not None,
        "paused_since": paused or None,
    }


def last_session(root: Path) -> dict[str, str] | None:
    """Return id, time and host of the session with the last event, from the end of its log: the index may be behind."""
    folder = f"{log_folders(root)[0]}/"
    if not (
        logs := [(state[0], path) for path, _, state in scan_logs(root) if path.startswith(folder)]
    ):
        return None
    log = Path(max(logs)[1])
    session = ""
    at = ""
    host = ""
    for line in index.last_lines(log):
        times = (line.get(key) for key in ("at", "updated_at", "created_at", "ended_at"))
        at = at or next((time[:200] for time in times if isinstance(time, str) and time), "")
        origin, payload = (
            value if isinstance(value := line.get(key), dict) else {}
            for key in ("origin", "payload")
        )
        sessions = {
            "event": payload.get("session_id"),
            "observation": origin.get("session"),
            "session": line.get("id"),
        }
        session = session or str(sessions.get(str(line.get("type"))) or "")[:200]
        host = host or str(line.get("host") or origin.get("agent") or "")[:200]
        if session and at and host:
            break
    changed_at = (
        datetime.fromtimestamp(int(log.stat().st_mtime), UTC).isoformat().replace("+00:00", "Z")
    )
    return {"id": session or log.stem, "at": at or changed_at, "host": host}
