"""Check the text of every file that Ralph reads.

The codec of each file reports the problems in its text. The remaining checks cover what no single
codec can see: unreadable files, an id that occurs in two files, and forgotten entries that a pull
or a restore has brought back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import paths
from ralph.core.documents import Problem
from ralph.core.errors import RalphError
from ralph.formats.insight_files import parse_insights
from ralph.formats.knowledge import parse_knowledge
from ralph.formats.log import parse_log
from ralph.formats.patterns import parse_patterns
from ralph.formats.prd import parse_prd
from ralph.formats.progress import parse_progress
from ralph.formats.task_files import parse_task
from ralph.install.check_limits import UNLIMITED, TimeLimit, left_out, walk_folders
from ralph.install.findings import Finding, new_finding
from ralph.search import index
from ralph.storage import files, forgotten
from ralph.storage.library import Collection, Library
from ralph.storage.read_progress import LogProgress
from ralph.storage.source_contents import parse_source
from ralph.storage.sources import Format, sources

Parser = Callable[[str], Any]
"""Parses the text of a file. The result has a `problems` attribute."""


def files_to_scan(root: Path, *, logs: bool = True) -> list[Path]:
    """Return every file that may contain a secret, without duplicates.

    Files that people write come first, and backups come last. Logs are left out unless `logs` is
    set.
    """
    library = Library(root)
    candidates: list[Path] = []
    for collection in (library.memories, library.guardrails, library.personal):
        candidates += collection.places
    candidates.append(paths.scratchpad(root))
    candidates += [path for path, _ in _other_files(root, logs=logs)]
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


def check_files(root: Path, limit: TimeLimit = UNLIMITED) -> Iterator[Finding]:
    """Report problems that codecs find, unreadable files, and ids that occur in two files."""
    library = Library(root)
    for collection in readable_collections(library):
        for path, document in library.documents(collection):
            for problem in document.problems:
                yield Finding(path, problem)
        yield from _check_ids(root, library, collection)
    for path in paths.curated_files(root):
        unreadable = read_problem(path)
        if unreadable is not None:
            yield Finding(path, unreadable)
    yield from _check_other_files(root, limit)


def _check_ids(root: Path, library: Library, collection: Collection) -> Iterator[Finding]:
    first_files: dict[str, Path] = {}
    for stored in library.read(collection):
        first_file = first_files.setdefault(stored.record.id, stored.path)
        if first_file != stored.path:
            what = f"the id {stored.record.id} is also in {paths.shown(first_file, root)}"
            hint = "delete one of the two entries, or give it a different id"
            yield new_finding(
                stored.path,
                what,
                hint=hint,
                level="error",
                code="id-in-two-files",
                line=stored.line,
            )


def _check_other_files(root: Path, limit: TimeLimit) -> Iterator[Finding]:
    clean_logs = _clean_logs(root)
    unchanged = {path for path, log in clean_logs.items() if log.is_unchanged}
    others = list(_other_files(root, without=unchanged))
    for number, (path, parse) in enumerate(others):
        if limit.is_over:
            yield from _unchecked_files([other for other, _ in others[number:]], limit)
            return
        log = clean_logs.get(os.fspath(path))
        if log is None:
            problems = _file_problems(path, parse)
        else:
            problems = _new_log_problems(path, log.read)
        for problem in problems:
            yield Finding(path, problem)


def _unchecked_files(unchecked: Sequence[Path], limit: TimeLimit) -> Iterator[Finding]:
    """Yield one note about the existing files that there was no time for."""
    existing = [path for path in unchecked if path.exists()]
    if not existing:
        return
    what = f"was not checked within {limit.seconds:g} seconds"
    if len(existing) > 1:
        count = len(existing) - 1
        what = f"and {count} more files were not checked within {limit.seconds:g} seconds"
    yield left_out(existing[0], what)


class _CleanLog(NamedTuple):
    """A log in which the index has found no problem so far."""

    read: LogProgress
    is_unchanged: bool


def _clean_logs(root: Path) -> dict[str, _CleanLog]:
    """Return the logs that need to be checked only after the position that the index has read."""
    if index.outside(root) is not None:
        return {}
    logs = {}
    for path, read in index.read_logs(root).items():
        if read.offset and not read.problems and os.access(path, os.R_OK):
            logs[path] = _CleanLog(read, is_unchanged=read.unread_bytes == 0)
    return logs


def _new_log_problems(path: Path, read: LogProgress) -> list[Problem]:
    """Return problems in the lines that the index has not read yet."""
    with suppress(OSError), files.open_unpacked(path) as file:
        file.seek(read.offset)
        text = file.read().decode("utf-8", "surrogateescape")
        problems = parse_log(text).problems
        return [problem._replace(line=problem.line + read.lines) for problem in problems]
    return []


def _file_problems(path: Path, parse: Parser) -> Sequence[Problem]:
    try:
        text = files.read(path)
    except RalphError as error:
        return (_unreadable(path, error),)
    if text is None:
        return ()
    problems: Sequence[Problem] = parse(text).problems
    return problems


def readable_collections(library: Library) -> list[Collection]:
    """Return the curated collections without their unreadable files."""
    collections = []
    for collection in (library.memories, library.guardrails, library.personal):
        readable = tuple(path for path in collection.places if read_problem(path) is None)
        collections.append(collection._replace(places=readable))
    return collections


def read_problem(path: Path) -> Problem | None:
    """Return a problem that explains why a file cannot be read, or None if it can be read."""
    try:
        files.read(path)
    except RalphError as error:
        return _unreadable(path, error)
    return None


def _unreadable(path: Path, error: RalphError) -> Problem:
    what = error.message.removeprefix(f"{path}: ")
    hint = error.hint or "open the file to see what is wrong"
    return Problem(1, what, hint, "error", "unreadable")


def _other_files(
    root: Path, *, without: Container[str] = (), logs: bool = True
) -> Iterator[tuple[Path, Parser]]:
    """Yield each file except memories and guardrails, together with its parser."""
    tasks = paths.tasks_folder(root)
    groups: list[tuple[Iterable[Path], Parser]] = [
        (sorted(paths.knowledge_folder(root).glob("*.md")), parse_knowledge),
        ([paths.global_patterns(root)], parse_patterns),
        (paths.progress_files(root), parse_progress),
        (sorted(tasks.glob("*/task.json")), parse_task),
        (sorted(tasks.glob("*/prd.json")), parse_prd),
        (sorted(tasks.glob("*/progress.txt")), parse_progress),
        (sorted(tasks.glob("*/memory/insights.json")), parse_insights),
    ]
    if logs:
        groups.append((_logs(root, without), parse_log))
    for group, parse in groups:
        for path in group:
            yield path, parse


def _logs(root: Path, without: Container[str]) -> list[Path]:
    """Return the logs, except those in `without`.

    A folder that is named like a log is included, so that it is reported as unreadable.
    """
    names = []
    for folder in walk_folders(paths.log_folder(root)):
        for name in (*folder.subfolders, *folder.files):
            path = f"{folder.path}{os.sep}{name}"
            if path.endswith(paths.LOG_SUFFIXES) and path not in without:
                names.append(path)
    return [Path(name) for name in sorted(names)]


def find_forgotten(root: Path, limit: TimeLimit = UNLIMITED) -> Iterator[Finding]:
    """Find files into which a pull or a restore has brought back forgotten records."""
    hidden = forgotten.load()
    if not hidden.hashes:
        return
    searched = [source for source in sources(root, logs=False) if source.format is not Format.TASK]
    for number, source in enumerate(searched):
        if limit.is_over:
            yield from _unchecked_files([other.path for other in searched[number:]], limit)
            return
        if read_problem(source.path) is not None:
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
        yield new_finding(
            source.path, what, hint=hint, level="warning", code="forgotten", line=restored[0].line
        )
