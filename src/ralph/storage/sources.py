"""List the files that contain records.

A *source* is such a file: a memory file, a file of a task, or a log. A source has a *name*, which
is its path relative to the project or to the state folder, for example `.agent/memories.md` or
`log/sessions/s-1.jsonl`. Names are the same in all checkouts of a project.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.core.record import Scope
from ralph.lean import hook_files

_MAX_MEMORY_STATES = 500  # files; each prompt compares them, which takes about 1 µs for each
SHARED_PREFIXES = (f"{paths.LOG}/", ".ralph/tasks/")
"""Name prefixes of the sources that all worktrees share: logs, and the main checkout's tasks."""


class Format(StrEnum):
    """The format of a source, which determines its codec."""

    MEMORIES = "memories"
    GUARDRAILS = "guardrails"
    ENCLOSING_MEMORIES = "enclosing memories"
    ENCLOSING_GUARDRAILS = "enclosing guardrails"
    PERSONAL = "personal"
    KNOWLEDGE = "knowledge"
    PATTERNS = "patterns"
    PROGRESS = "progress"
    INSIGHTS = "insights"
    TASK = "task"
    LOG = "log"


_TASK_FILES = {
    "task.json": Format.TASK,
    "progress.txt": Format.PROGRESS,
    "memory/insights.json": Format.INSIGHTS,
}
OUTSIDE_SCOPES = {
    Format.ENCLOSING_MEMORIES: Scope.ENCLOSING,
    Format.ENCLOSING_GUARDRAILS: Scope.ENCLOSING,
    Format.PERSONAL: Scope.PERSONAL,
}
"""Memory files that a project reads but does not own, with the scope of their records."""


class Source(NamedTuple):
    """A file that contains records, and its name relative to the project."""

    path: Path
    name: str
    format: Format


class FileState(NamedTuple):
    """The properties of a file that reveal whether it has changed."""

    mtime_ns: int
    size: int
    inode: int


NO_FILE = FileState(0, 0, 0)


class FoundSource(NamedTuple):
    """A source and the state of its file."""

    source: Source
    state: FileState


class FoundLog(NamedTuple):
    """A log and the state of its file. The path is a plain string, as there may be thousands."""

    path: str
    name: str
    state: FileState


# --- listing ------------------------------------------------------------------------------------


def sources(root: Path, *, logs: bool = True) -> Iterator[Source]:
    """Yield every existing source in a fixed order. A file with two names is yielded once.

    Logs are left out unless `logs` is set.
    """
    for found in scan(root, logs=logs):
        yield found.source


def scan(root: Path, *, logs: bool = True) -> Iterator[FoundSource]:
    """Yield every source with the state of its file. Logs are left out unless `logs` is set."""
    seen: set[str] = set()
    real_folders: dict[str, str] = {}
    name_of = source_names(root)
    for path, form in _possible_sources(root):
        file = _regular_file(os.fspath(path), real_folders)
        if file is not None and file.path not in seen:
            seen.add(file.path)
            yield FoundSource(Source(path, name_of(path), form), file.state)
    if logs:
        for log in scan_logs(root):
            yield FoundSource(Source(Path(log.path), log.name, Format.LOG), log.state)


def scan_logs(root: Path) -> Iterator[FoundLog]:
    """Yield every log. A file with two names is yielded once."""
    seen: set[str] = set()
    real_folders: dict[str, str] = {}
    name_of = source_names(root)
    for folder in sorted(log_folders(root)):
        folder_name = name_of(folder)
        for entry in _log_entries(folder):
            path = f"{folder}{os.sep}{entry}"
            file = _regular_file(path, real_folders)
            if file is None or file.path in seen:
                continue
            seen.add(file.path)
            name = f"{folder_name}/{entry}" if entry.isascii() else name_of(Path(path))
            yield FoundLog(path, name, file.state)


def _log_entries(folder: Path) -> list[str]:
    """Return the names of the logs in a folder, sorted."""
    try:
        entries = os.listdir(folder)  # noqa: PTH208 - thousands of logs: no Path for each
    except OSError:
        return []
    logs = [entry for entry in entries if entry.endswith(paths.LOG_SUFFIXES)]
    # If two logs share a name, the packed one comes first: it was imported, so it is older.
    logs.sort(key=lambda entry: (entry.removesuffix(".gz"), not entry.endswith(".gz")))
    return logs


class _RegularFile(NamedTuple):
    path: str  # without symbolic links
    state: FileState


def _regular_file(path: str, real_folders: dict[str, str]) -> _RegularFile | None:
    """Return the regular file that a path leads to, or None.

    `real_folders` caches the real paths of folders, so that each is resolved only once.
    """
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            real = os.path.realpath(path)
            status = os.stat(real)  # noqa: PTH116 - thousands of logs: no Path for each
            if not stat.S_ISREG(status.st_mode):
                return None
            return _RegularFile(real, file_state(status))
    except (OSError, ValueError):
        return None
    folder, separator, name = path.rpartition(os.sep)
    if folder not in real_folders:
        real_folders[folder] = os.path.realpath(folder + separator)
    return _RegularFile(f"{real_folders[folder]}{os.sep}{name}", file_state(status))


def file_state(status: os.stat_result) -> FileState:
    """Extract a file's state from its status."""
    return FileState(status.st_mtime_ns, status.st_size, status.st_ino)


def source_names(root: Path) -> Callable[[Path], str]:
    """Return a function that turns the path of a source into its name."""
    location = paths.location(root)
    state = f"{location.state}/"
    here = f"{location.root}/"
    main = f"{location.main}/"
    top = f"{location.top}/" if location.top else main

    def name(path: Path) -> str:
        text = path.as_posix()
        if text.startswith(state):
            text = text.removeprefix(state)
        elif text.startswith(here):
            text = text.removeprefix(here)
        elif text.startswith(main) and text.removeprefix(main).startswith(SHARED_PREFIXES):
            text = text.removeprefix(main)
        elif text.startswith((main, top)):
            text = Path(os.path.relpath(path, root)).as_posix()
        return text.encode("utf-8", "backslashreplace").decode("utf-8")

    return name


def memory_files(root: Path) -> Iterator[tuple[Path, Format]]:
    """Yield the files that may contain memories. A worktree may use the main checkout's."""
    yield from _entry_files(root, Format.MEMORIES, Format.GUARDRAILS)
    for path in sorted(paths.knowledge_folder(paths.knowledge_root(root)).glob("*.md")):
        yield path, Format.KNOWLEDGE
    yield paths.patterns_file(root), Format.PATTERNS


def memory_states(root: Path) -> list[str]:
    """Return the state of each file that may contain memories, and of the knowledge folder.

    A folder's state reveals files that were added. Of very many files, only the first are listed.
    """
    name_of = source_names(root)
    listed = [paths.knowledge_folder(paths.knowledge_root(root))]
    listed += [path for path, _ in _entries_outside(root)]
    listed += [path for path, _ in memory_files(root)]
    names = dict.fromkeys(name_of(path) for path in listed[:_MAX_MEMORY_STATES])
    top = os.fspath(root)
    return [hook_files.memory_state(top, name) for name in names if "\n" not in name]


def _entry_files(root: Path, memories: Format, guardrails: Format) -> Iterator[tuple[Path, Format]]:
    for files_of, form in ((paths.memories_files, memories), (paths.guardrails_files, guardrails)):
        for path in files_of(paths.memory_root(root, files_of(root))):
            yield path, form


def has_project_sources(root: Path) -> bool:
    """Return whether a project has any source, apart from those outside it."""
    return any(source.format not in OUTSIDE_SCOPES for source in sources(root))


def log_folders(root: Path) -> tuple[Path, Path]:
    """Return the folders of session logs and of run logs."""
    return paths.sessions_folder(root), paths.runs_folder(root)


def _possible_sources(root: Path) -> Iterator[tuple[Path, Format]]:
    """Yield every path where a source may exist, except session logs and run logs."""
    yield from memory_files(root)
    yield from _entries_outside(root)
    for path in paths.progress_files(root):
        yield path, Format.PROGRESS
    tasks = paths.tasks_folder(root)
    for name, form in _TASK_FILES.items():
        for path in sorted(tasks.glob(f"*/{name}")):
            yield path, form
    # The earlier versions of knowledge entries. They are retired, so search does not offer them.
    yield paths.log_folder(root) / "knowledge.jsonl", Format.LOG


def _entries_outside(root: Path) -> Iterator[tuple[Path, Format]]:
    """Yield the memory files of enclosing projects, and the personal one."""
    for outer in paths.enclosing_projects(root):
        yield from _entry_files(outer, Format.ENCLOSING_MEMORIES, Format.ENCLOSING_GUARDRAILS)
    personal = paths.personal_memories()
    if personal:
        yield personal, Format.PERSONAL


def format_of(root: Path, path: Path) -> Format | None:
    """Return the format of the source at a path, or None if it is not a source.

    The file does not have to exist.
    """
    if path.name.endswith(paths.LOG_SUFFIXES):
        return Format.LOG
    if path.suffix == ".md" and path.parent == paths.knowledge_folder(paths.knowledge_root(root)):
        return Format.KNOWLEDGE
    if paths.tasks_folder(root) in path.parents:
        for name, form in _TASK_FILES.items():
            if path.match(f"*/{name}"):
                return form
    return dict(_possible_sources(root)).get(path)
