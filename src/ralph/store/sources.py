"""Lists the files that have records, and reads them.

A layer above passes `interpret`, which makes records of one raw line: a log reads the same at once or in portions.
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

from ralph import paths
from ralph.formats.memories import GUARDRAILS, MEMORIES, parse_memories
from ralph.formats.text import Document, EditableDocument
from ralph.model.record import Family, ObservationKind, Record, Scope
from ralph.store import files

if TYPE_CHECKING:
    from ralph.model.work import Task

Interpret = Callable[[Mapping[str, object]], tuple[Sequence[Record], Mapping[str, object] | None]]
"""What a raw line means: its records, and what it says of its session (the members of a `session` line)."""

SHARED = (f"{paths.LOG}/", ".ralph/tasks/")
"""Prefixes of the sources that all worktrees share: those in the state folder, and tasks in the main checkout."""

FileState = tuple[int, int, int]  # time of the last change, size and inode of a file
NO_FILE: FileState = (0, 0, 0)

IsOwn = Callable[
    [Record], bool
]  # whether an observation is a call of Ralph itself, which is not worth remembering

EVENT = "event"  # the type of a raw line


class Format(StrEnum):
    """The codec of a source."""

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
"""Memory files that a project reads and that are not its own, with the scope of their records."""


class Source(NamedTuple):
    """A file that holds records, and its name relative to the project."""

    path: Path
    name: str
    format: Format


class Placed(NamedTuple):
    """A record and its line."""

    record: Record
    line: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What one source has: records, tasks, and the other lines of a log by their type."""

    records: tuple[Placed, ...] = ()
    tasks: tuple[Task, ...] = ()
    lines: tuple[tuple[str, Mapping[str, object]], ...] = ()
    in_own_turn: bool = (
        False  # it ends in the turn of a slash command of Ralph's that did nothing else
    )
    problems: int = 0
    events: int = 0  # lines of hooks
    hosts: frozenset[str] = frozenset()  # their agents


def sources(root: Path) -> Iterator[Source]:
    """Yield every existing source in a fixed order; two names of one file count once."""
    return (source for source, _ in scan(root))


def scan(root: Path, *, logs: bool = True) -> Iterator[tuple[Source, FileState]]:
    """Yield every source with its file's state, one `stat` each; or all but logs."""
    seen: set[str] = set()
    folders: dict[str, str] = {}
    name = source_names(root)
    for path, form in _places(root):
        real, state = _file(os.fspath(path), folders)
        if real and real not in seen:
            seen.add(real)
            yield Source(path, name(path), form), state
    for place, log_name, state in scan_logs(root) if logs else ():
        yield Source(Path(place), log_name, Format.LOG), state


def scan_logs(root: Path) -> Iterator[tuple[str, str, FileState]]:
    """Yield path, name and state of every log; there may be thousands."""
    seen: set[str] = set()
    folders: dict[str, str] = {}
    name = source_names(root)
    for folder in sorted(log_folders(root)):
        try:
            entries = [entry for entry in os.listdir(folder) if entry.endswith(paths.LOG_SUFFIXES)]  # noqa: PTH208 - thousands of logs: no Path for each
        except OSError:
            continue
        beginning = name(folder)
        entries.sort(
            key=lambda entry: (entry.removesuffix(".gz"), not entry.endswith(".gz"))
        )  # imports are older
        for entry in entries:
            path = f"{folder}{os.sep}{entry}"
            real, state = _file(path, folders)
            if real and real not in seen:
                seen.add(real)
                yield path, f"{beginning}/{entry}" if entry.isascii() else name(Path(path)), state


def file_state(status: os.stat_result) -> FileState:
    """Return time, size and inode."""
    return status.st_mtime_ns, status.st_size, status.st_ino


def _file(path: str, folders: dict[str, str]) -> tuple[str, FileState]:
    """The file that a path leads to, "" for none; each folder is followed once."""
    folder, sep, name = path.rpartition(os.sep)
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            real = os.path.realpath(path)
            status = os.stat(real)  # noqa: PTH116 - as above
            return (real, file_state(status)) if stat.S_ISREG(status.st_mode) else ("", NO_FILE)
    except (OSError, ValueError):
        return "", NO_FILE
    if folder not in folders:
        folders[folder] = os.path.realpath(folder + sep)
    return f"{folders[folder]}{os.sep}{name}", file_state(status)


def source_names(root: Path) -> Callable[[Path], str]:
    """Return the function that names sources alike in all checkouts."""
    location = paths.location(root)
    state, here, main = (f"{folder}/" for folder in (location.state, location.root, location.main))
    top = f"{location.top}/" if location.top else main

    def name(path: Path) -> str:
        text = path.as_posix()
        if text.startswith(state):
            text = text[len(state) :]
        elif text.startswith(here):
            text = text[len(here) :]
        elif text.startswith(main) and text[len(main) :].startswith(SHARED):
            text = text[len(main) :]
        elif text.startswith((main, top)):
            text = Path(os.path.relpath(path, root)).as_posix()
        return text.encode("utf-8", "backslashreplace").decode("utf-8")

    return name


def read_source(
    source: Source, interpret: Interpret | None = None, is_own: IsOwn | None = None
) -> Contents:
    """Read a source; of a log without a last line that is still being written."""
    text = files.read(source.path) or ""
    text = text[: text.rfind("\n") + 1] if source.format is Format.LOG else text
    return contents(source, text, interpret, is_own)


def memory_files(root: Path) -> Iterator[tuple[Path, Format]]:
    """Yield the files that may have memories; a worktree may have the main checkout's."""
    yield from _entry_files(root, Format.MEMORIES, Format.GUARDRAILS)
    for path in sorted(paths.knowledge_folder(paths.knowledge_root(root)).glob("*.md")):
        yield path, Format.KNOWLEDGE
    yield paths.patterns_file(root), Format.PATTERNS


def _entry_files(root: Path, memories: Format, guardrails: Format) -> Iterator[tuple[Path, Format]]:
    for files_of, form in ((paths.memories_files, memories), (paths.guardrails_files, guardrails)):
        for path in files_of(paths.memory_root(root, files_of(root))):
            yield path, form


def has_own(root: Path) -> bool:
    """Whether a project has a source of its own."""
    return any(source.format not in OUTSIDE for source in sources(root))


def log_folders(root: Path) -> tuple[Path, Path]:
    """Return the folders of the logs of sessions and of runs."""
    log = paths.log_folder(root)
    return log / "sessions", log / "runs"


def _places(root: Path) -> Iterator[tuple[Path, Format]]:
    yield from memory_files(root)
    for outer in paths.enclosing_projects(root):
        yield from _entry_files(outer, Format.ENCLOSING_MEMORIES, Format.ENCLOSING_GUARDRAILS)
    if personal := paths.personal_memories():
        yield personal, Format.PERSONAL
    for path in paths.progress_files(root):
        yield path, Format.PROGRESS
    tasks = paths.tasks_folder(root)
    for name, form in _TASK_FILES.items():
        for path in sorted(tasks.glob(f"*/{name}")):
            yield path, form
    # bodies that were replaced: retired, so that search does not offer them
    yield paths.log_folder(root) / "knowledge.jsonl", Format.LOG


def format_of(root: Path, path: Path) -> Format | None:
    """Return the format of a source by its path, also where there is no file yet; None for another file."""
    if path.name.endswith(paths.LOG_SUFFIXES):
        return Format.LOG
    if path.suffix == ".md" and path.parent == paths.knowledge_folder(paths.knowledge_root(root)):
        return Format.KNOWLEDGE
    tasks = paths.tasks_folder(root)
    of_task = (
        form
        for name, form in _TASK_FILES.items()
        if tasks in path.parents and path.match(f"*/{name}")
    )
    return next(of_task, None) or dict(_places(root)).get(path)


def contents(
    source: Source,
    text: str,
    interpret: Interpret | None = None,
    is_own: IsOwn | None = None,
    *,
    in_own_turn: bool = False,
) -> Contents:
    """Read a source's text; of a log a part will do, with the state before it."""
    if source.format is Format.LOG:
        read = _log_contents(text, interpret)
        return read if is_own is None else _without_own(read, is_own, in_own_turn)
    if source.format is Format.TASK:
        from ralph.formats.work import parse_task

        task = parse_task(text).task
        return Contents(tasks=(task,) if task is not None else ())
    document = parse_source(source, text)
    entries = document.entries
    if source.format is Format.PROGRESS:
        from ralph.formats.progress import searchable_entries

        entries = searchable_entries(document)
    return Contents(
        tuple(Placed(scoped(entry.record, source.format), entry.line) for entry in entries)
    )


def scoped(record: Record, form: Format) -> Record:
    """Return a record with the scope that its file gives it."""
    return replace(record, scope=OUTSIDE[form]) if form in OUTSIDE else record


def parse_source(source: Source, text: str) -> Document:
    """Parse a curated file."""
    if source.format is Format.PROGRESS:
        from ralph.formats.progress import parse_progress

        return parse_progress(text)
    return parse_editable(source.format, text, source.path.stem)


def parse_editable(form: Format, text: str, slug: str = "") -> EditableDocument:
    """Parse a file of memories; codecs are imported when needed: hooks read logs alone."""
    if form is Format.KNOWLEDGE:
        from ralph.formats.knowledge import parse_knowledge

        return parse_knowledge(text, slug)
    if form is Format.PATTERNS:
        from ralph.formats.pages import parse_patterns

        return parse_patterns(text)
    if form is Format.INSIGHTS:
        from ralph.formats.work import parse_insights

        return parse_insights(text)
    is_guardrails = form in (Format.GUARDRAILS, Format.ENCLOSING_GUARDRAILS)
    return parse_memories(text, GUARDRAILS if is_guardrails else MEMORIES)


def _log_contents(text: str, interpret: Interpret | None) -> Contents:
    from ralph.formats.log import parse_log

    document = parse_log(text)
    placed = [(entry.start, Placed(entry.record, entry.line)) for entry in document.entries]
    lines: list[tuple[str, Mapping[str, object]]] = []
    raw = [line.value for line in document.lines if line.type == EVENT]
    events = len(raw) + sum(entry.record.family is Family.OBSERVATION for entry in document.entries)
    hosts = frozenset(
        host for value in raw if isinstance(host := value.get("host"), str) and host.isidentifier()
    )
    for line in document.lines:
        if line.type != EVENT or interpret is None:
            lines.append((line.type, line.value))
            continue
        records, session = interpret(line.value)
        placed += ((line.start, Placed(record, line.line)) for record in records)
        if session is not None:
            lines.append(("session", session))
    placed.sort(key=itemgetter(0))  # as they happened, whoever wrote them
    ordered = tuple(each for _, each in placed)
    return Contents(
        ordered, (), tuple(lines), problems=len(document.problems), events=events, hosts=hosts
    )


def _without_own(read: Contents, is_own: IsOwn, in_own_turn: bool) -> Contents:
    """Leave out Ralph's own traffic, and the answer to a command that did nothing else."""
    kept: list[Placed] = []
    for each in read.records:
        record = each.record
        is_note = record.kind is ObservationKind.NOTE
        if record.family is not Family.OBSERVATION:
            kept.append(each)
        elif is_own(record):
            in_own_turn = in_own_turn or is_note
        elif not (in_own_turn and is_note and record.origin.by == "agent"):
            kept.append(each)
            in_own_turn = False
    return replace(read, records=tuple(kept), in_own_turn=in_own_turn)
