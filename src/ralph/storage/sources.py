"""List the files that contain records, and read them.

A *source* is such a file: a memory file, a task's files or a log. A *raw line* of a log is an event
as a hook received it. Callers pass `interpret`, which turns one raw line into records. Each line is
interpreted by itself, so a log yields the same records whether it is read whole or in portions.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.core import paths
from ralph.core.record import Family, ObservationKind, Record, Scope
from ralph.core.text import Document, EditableDocument
from ralph.formats.memories import GUARDRAILS, MEMORIES, parse_memories
from ralph.storage import files

if TYPE_CHECKING:
    from ralph.core.work import Task
    from ralph.formats.log import LogDocument

Interpret = Callable[[Mapping[str, object]], tuple[Sequence[Record], Mapping[str, object] | None]]
"""Returns the records in a raw line, and what the line says about its session.

The latter has the members of a `session` line, or is None if the line says nothing.
"""

IsOwn = Callable[[Record], bool]
"""Returns whether an observation is a call to Ralph itself, which is not worth remembering."""

EVENT = "event"  # the type of a raw line

SHARED = (f"{paths.LOG}/", ".ralph/tasks/")
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
OUTSIDE = {
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
    """A log and the state of its file. There may be thousands, so the path is a plain string."""

    path: str
    name: str
    state: FileState


class Placed(NamedTuple):
    """A record and the number of its line."""

    record: Record
    line: int


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of one source: records, tasks, and a log's other lines with their types."""

    records: tuple[Placed, ...] = ()
    tasks: tuple[Task, ...] = ()
    lines: tuple[tuple[str, Mapping[str, object]], ...] = ()
    in_own_turn: bool = False  # ends in a turn in which the agent only called Ralph
    problems: int = 0
    events: int = 0  # lines that hooks wrote
    hosts: frozenset[str] = frozenset()  # the agents whose hooks wrote them


# --- listing ------------------------------------------------------------------------------------


def sources(root: Path) -> Iterator[Source]:
    """Yield every existing source in a fixed order. A file with two names is yielded once."""
    for found in scan(root):
        yield found.source


def scan(root: Path, *, logs: bool = True) -> Iterator[FoundSource]:
    """Yield every source with the state of its file. Logs are left out unless `logs` is set."""
    seen: set[str] = set()
    real_folders: dict[str, str] = {}
    name_of = source_names(root)
    for path, form in _places(root):
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
    """Return a function that names sources. The names are the same in all checkouts."""
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
        elif text.startswith(main) and text.removeprefix(main).startswith(SHARED):
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


def _entry_files(root: Path, memories: Format, guardrails: Format) -> Iterator[tuple[Path, Format]]:
    for files_of, form in ((paths.memories_files, memories), (paths.guardrails_files, guardrails)):
        for path in files_of(paths.memory_root(root, files_of(root))):
            yield path, form


def has_own(root: Path) -> bool:
    """Return whether a project has a source of its own."""
    return any(source.format not in OUTSIDE for source in sources(root))


def log_folders(root: Path) -> tuple[Path, Path]:
    """Return the folders that hold session logs and run logs."""
    return paths.sessions_folder(root), paths.runs_folder(root)


def _places(root: Path) -> Iterator[tuple[Path, Format]]:
    """Yield every path where a source may be, except session logs and run logs."""
    yield from memory_files(root)
    for outer in paths.enclosing_projects(root):
        yield from _entry_files(outer, Format.ENCLOSING_MEMORIES, Format.ENCLOSING_GUARDRAILS)
    personal = paths.personal_memories()
    if personal:
        yield personal, Format.PERSONAL
    for path in paths.progress_files(root):
        yield path, Format.PROGRESS
    tasks = paths.tasks_folder(root)
    for name, form in _TASK_FILES.items():
        for path in sorted(tasks.glob(f"*/{name}")):
            yield path, form
    # The earlier versions of knowledge entries. They are retired, so search does not offer them.
    yield paths.log_folder(root) / "knowledge.jsonl", Format.LOG


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
    return dict(_places(root)).get(path)


# --- reading ------------------------------------------------------------------------------------


def read_source(
    source: Source, interpret: Interpret | None = None, is_own: IsOwn | None = None
) -> Contents:
    """Read a source. An unfinished last line of a log is left out."""
    text = files.read(source.path) or ""
    if source.format is Format.LOG:
        text = text[: text.rfind("\n") + 1]
    return contents(source, text, interpret, is_own)


def contents(
    source: Source,
    text: str,
    interpret: Interpret | None = None,
    is_own: IsOwn | None = None,
    *,
    in_own_turn: bool = False,
) -> Contents:
    """Parse a source's text, or a portion of a log.

    `in_own_turn` is the value that the contents of the log's previous portion had.
    """
    if source.format is Format.LOG:
        log = _log_contents(text, interpret)
        if is_own is None:
            return log
        return _without_own(log, is_own, in_own_turn)
    if source.format is Format.TASK:
        from ralph.formats.work import parse_task

        task = parse_task(text).task
        return Contents(tasks=() if task is None else (task,))
    document = parse_source(source, text)
    entries = document.entries
    if source.format is Format.PROGRESS:
        from ralph.formats.progress import searchable_entries

        entries = searchable_entries(document)
    placed = [Placed(scoped(entry.record, source.format), entry.line) for entry in entries]
    return Contents(tuple(placed))


def scoped(record: Record, form: Format) -> Record:
    """Return a record with the scope implied by its file."""
    if form not in OUTSIDE:
        return record
    return replace(record, scope=OUTSIDE[form])


def parse_source(source: Source, text: str) -> Document:
    """Parse a curated file."""
    if source.format is Format.PROGRESS:
        from ralph.formats.progress import parse_progress

        return parse_progress(text)
    return parse_editable(source.format, text, source.path.stem)


def parse_editable(form: Format, text: str, slug: str = "") -> EditableDocument:
    """Parse a memory file. `slug` is the name of a knowledge file without its suffix."""
    # Codecs are imported when needed, because hooks only read logs.
    if form is Format.KNOWLEDGE:
        from ralph.formats.knowledge import parse_knowledge

        return parse_knowledge(text, slug)
    if form is Format.PATTERNS:
        from ralph.formats.patterns import parse_patterns

        return parse_patterns(text)
    if form is Format.INSIGHTS:
        from ralph.formats.work import parse_insights

        return parse_insights(text)
    if form in (Format.GUARDRAILS, Format.ENCLOSING_GUARDRAILS):
        return parse_memories(text, GUARDRAILS)
    return parse_memories(text, MEMORIES)


def _log_contents(text: str, interpret: Interpret | None) -> Contents:
    from ralph.formats.log import parse_log

    document = parse_log(text)
    placed: list[tuple[int, Placed]] = []  # each with its position in the text
    for entry in document.entries:
        placed.append((entry.start, Placed(entry.record, entry.line)))
    lines: list[tuple[str, Mapping[str, object]]] = []
    for line in document.lines:
        if line.type != EVENT or interpret is None:
            lines.append((line.type, line.value))
            continue
        records, session = interpret(line.value)
        for record in records:
            placed.append((line.start, Placed(record, line.line)))
        if session is not None:
            lines.append(("session", session))
    placed.sort(key=itemgetter(0))  # in the order in which things happened, whoever wrote the lines
    return Contents(
        records=tuple(record for _, record in placed),
        lines=tuple(lines),
        problems=len(document.problems),
        events=_count_events(document),
        hosts=_event_hosts(document),
    )


def _count_events(document: LogDocument) -> int:
    """Count the lines that hooks wrote: raw lines and observations."""
    events = 0
    for line in document.lines:
        if line.type == EVENT:
            events += 1
    for entry in document.entries:
        if entry.record.family is Family.OBSERVATION:
            events += 1
    return events


def _event_hosts(document: LogDocument) -> frozenset[str]:
    """Return the agents whose hooks wrote raw lines."""
    hosts: set[str] = set()
    for line in document.lines:
        if line.type == EVENT:
            host = line.value.get("host")
            if isinstance(host, str) and host.isidentifier():
                hosts.add(host)
    return frozenset(hosts)


def _without_own(log: Contents, is_own: IsOwn, in_own_turn: bool) -> Contents:
    """Leave out calls to Ralph itself, and the agent's answers in turns that only called Ralph."""
    kept: list[Placed] = []
    for placed in log.records:
        record = placed.record
        if record.family is not Family.OBSERVATION:
            kept.append(placed)
            continue
        is_note = record.kind is ObservationKind.NOTE
        if is_own(record):
            in_own_turn = in_own_turn or is_note
            continue
        is_answer = is_note and record.origin.by == "agent"
        if in_own_turn and is_answer:
            continue
        kept.append(placed)
        in_own_turn = False
    return replace(log, records=tuple(kept), in_own_turn=in_own_turn)
