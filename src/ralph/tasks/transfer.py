"""Import and export tasks: the stories of a prd.json, or a tasks.jsonl with one task per line.

An import adds either everything or nothing. Importing the same file again adds nothing: a task is
identified by its id, a story by its id and its PRD. A story that passes marks its task done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Refused
from ralph.core.json_text import read_json
from ralph.core.text import Problem
from ralph.core.work import Story, Task, TaskStatus
from ralph.formats.work import parse_prd, parse_task_line, render_task_line
from ralph.privacy import privacy
from ralph.storage import board
from ralph.storage.board import Board, parse_time, status_of
from ralph.tasks.task import close_parents

_STORY = "story"  # member of a task.json: the id and the PRD of the story that it was made from
_MAX_REPORTED_PROBLEMS = 20
_MAX_QUOTED_ID = 80  # characters
_IMPORTED_STATES = (TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED)


class TaskImport(NamedTuple):
    """The result of an import: tasks that are new, finished by it, or already there."""

    added: tuple[Task, ...] = ()
    finished: tuple[Task, ...] = ()
    there: tuple[Task, ...] = ()
    warnings: tuple[Problem, ...] = ()
    private_parts: int = 0


class _ReadTask(NamedTuple):
    """A task of the file, and its line; 0 for a story."""

    line: int
    task: Task


class _ReadFile(NamedTuple):
    """The tasks of a file, and the problems with it."""

    tasks: list[_ReadTask]
    problems: list[Problem]


class _CleanTask(NamedTuple):
    """A task as it may be stored, and the number of private parts removed from it."""

    task: Task
    private_parts: int


class _ExistingTask(NamedTuple):
    """A task of the project, and the same task as the file has it."""

    stored: Task
    imported: Task


@dataclass(slots=True)
class _Plan:
    """What an import will do."""

    new: dict[str, _ReadTask] = field(default_factory=dict)
    existing: list[_ExistingTask] = field(default_factory=list)
    errors: list[Problem] = field(default_factory=list)
    private_parts: int = 0


# --- import --------------------------------------------------------------------------------------


def import_(
    root: Path, text: str, name: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> TaskImport:
    """Import the tasks of a file.

    The content determines the format, or `name` if the content is not valid JSON. Raises
    Refused with every problem and its line, and then imports nothing.
    """
    content = _read_stories(text, name) if _is_prd(text, name) else _read_lines(text)
    errors = [problem for problem in content.problems if problem.level == "error"]
    warnings = [problem for problem in content.problems if problem.level != "error"]
    if not content.tasks and not errors:
        raise Refused(
            f"{name} contains no tasks", hint="give a prd.json with userStories, or a tasks.jsonl"
        )
    folder = paths.tasks_folder(root)
    with board.lock_all(root) as everything:
        plan = _make_plan(content.tasks, everything, folder, allow_secret, patterns)
        errors += plan.errors
        errors += _link_problems(everything, plan.new.values())
        if errors:
            raise _refused(name, errors)
        for new in plan.new.values():
            board.create(root, new.task)
    return TaskImport(
        added=tuple(new.task for new in plan.new.values()),
        finished=_finish_stories(root, plan.existing),
        there=tuple(existing.stored for existing in plan.existing),
        warnings=tuple(warnings),
        private_parts=plan.private_parts,
    )


def _is_prd(text: str, name: str) -> bool:
    content = read_json(text)
    if isinstance(content, Problem):
        return name.lower().endswith(".json")
    return isinstance(content.value, dict) and "id" not in content.value


def _make_plan(
    tasks: Iterable[_ReadTask],
    everything: Board,
    folder: Path,
    allow_secret: bool,
    patterns: Sequence[str],
) -> _Plan:
    """Sort the tasks of a file into new, existing and refused ones."""
    plan = _Plan()
    now = ids.now()
    stories = {_story_key(task): task for task in everything.tasks if _story_key(task)}
    for line, raw in tasks:
        try:
            task, private_parts = _clean(raw, allow_secret, patterns)
            stored = everything.get(task.id) if task.id else stories.get(_story_key(task))
            if stored is None and task.id and (folder / task.id / "task.json").exists():
                raise Refused("its folder contains another task, or one that cannot be read")
        except Refused as error:
            plan.errors.append(Problem(line, f"{_label(raw)}: {error.message}", error.hint))
            continue
        if stored is not None:
            plan.existing.append(_ExistingTask(stored, task))
            continue
        while not task.id or task.id in plan.new:
            task = replace(task, id=board.fresh_id(everything, folder))
        plan.new[task.id] = _ReadTask(line, _with_times(task, now, len(plan.new)))
        plan.private_parts += private_parts
    return plan


def _label(task: Task) -> str:
    """Return how a message names a task of the file."""
    story = task.extra.get(_STORY)
    if not task.id and isinstance(story, dict):
        return f"story {story['id']}"
    return task.id[:_MAX_QUOTED_ID]


def _with_times(task: Task, now: datetime, number: int) -> Task:
    """Return a task with the times that it lacks.

    The times of consecutive tasks differ by a microsecond, so that they keep the file's order.
    """
    time = ids.timestamp(now + timedelta(microseconds=number), "microseconds")
    return replace(task, created_at=task.created_at or time, updated_at=task.updated_at or time)


def _refused(name: str, errors: list[Problem]) -> Refused:
    """Return the error that lists the first problems of a file, by line."""
    parts = []
    for problem in sorted(errors, key=lambda problem: problem.line)[:_MAX_REPORTED_PROBLEMS]:
        if problem.line:
            parts.append(f"line {problem.line}: {problem.what}")
        else:
            parts.append(problem.what)
    if len(errors) > _MAX_REPORTED_PROBLEMS:
        parts.append(f"and {len(errors) - _MAX_REPORTED_PROBLEMS} more")
    return Refused(f"{name}: nothing was imported: {'; '.join(parts)}", hint="fix the file")


# --- read a file ---------------------------------------------------------------------------------


def _read_lines(text: str) -> _ReadFile:
    """Read a tasks.jsonl."""
    tasks: dict[str, _ReadTask] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        task, line_problems = parse_task_line(line)
        problems += [replace(problem, line=number) for problem in line_problems]
        if task is None:
            continue
        if task.id in tasks:
            what = f"a second task has the id {task.id}"
            problems.append(
                Problem(number, what, "give each task its own id", "error", "duplicate-id")
            )
        else:
            tasks[task.id] = _ReadTask(number, task)
    return _ReadFile(list(tasks.values()), problems)


def _read_stories(text: str, name: str) -> _ReadFile:
    """Read the stories of a prd.json as tasks without ids."""
    document = parse_prd(text)
    source = "/".join(part for part in (document.project, document.branch) if part) or name
    tasks: dict[str, _ReadTask] = {}
    for story in document.stories:
        tasks.setdefault(story.id, _ReadTask(0, _task_of(story, source)))
    problems = []
    for problem in document.problems:
        if problem.code == "duplicate-id":
            problem = replace(problem, level="error")
        problems.append(problem)
    return _ReadFile(list(tasks.values()), problems)


def _task_of(story: Story, source: str) -> Task:
    """Return the task of a story; `source` names its PRD."""
    paragraphs = []
    if story.description:
        paragraphs.append(story.description)
    if story.acceptance_criteria:
        criteria = "".join(f"\n- {criterion}" for criterion in story.acceptance_criteria)
        paragraphs.append(f"Acceptance criteria:{criteria}")
    if story.notes:
        paragraphs.append(f"Notes: {story.notes}")
    status = TaskStatus.DONE if story.passes else TaskStatus.PENDING
    return Task(
        "",
        story.title,
        "\n\n".join(paragraphs),
        status=status.value,
        priority=max(story.priority, 0),
        extra={_STORY: {"id": story.id, "prd": source}},
    )


def _story_key(task: Task) -> str:
    """Return what identifies the story that a task was made from, or ""."""
    story = task.extra.get(_STORY)
    if isinstance(story, dict):
        return f"{story.get('prd')}\n{story.get('id')}"
    return ""


# --- check ---------------------------------------------------------------------------------------


def _clean(task: Task, allow_secret: bool, patterns: Sequence[str]) -> _CleanTask:
    """Remove secrets, private parts and everything that holds only in the other project.

    Raises Refused for a secret, and for an id that cannot be the name of a folder.
    """
    title = privacy.clean_title(task.title, allow_secret=allow_secret, patterns=patterns)
    description = privacy.clean_description(
        task.description, "description", allow_secret=allow_secret, patterns=patterns
    )
    privacy.clean_description(task.id, "id", patterns=patterns)
    if task.id and not board.is_folder_name(task.id):
        raise Refused(f"the id {task.id[:_MAX_QUOTED_ID]!r} cannot be the name of a folder")
    status = status_of(task)
    if status not in _IMPORTED_STATES:
        status = TaskStatus.PENDING  # nobody works on it here
    extra = privacy.redact_value(dict(task.extra), patterns)
    clean = replace(
        task,
        title=title.text,
        description=description.text,
        status=status.value,
        worktree=None,
        claim=None,
        feature=privacy.redact_note(task.feature or "", patterns) or None,
        branch=privacy.redact_note(task.branch or "", patterns) or None,
        created_at=_valid_time(task.created_at),
        updated_at=_valid_time(task.updated_at),
        extra=extra if isinstance(extra, dict) else {},
    )
    return _CleanTask(clean, title.private + description.private)


def _valid_time(text: str) -> str:
    """Return a timestamp, or "" if it is not one."""
    if parse_time(text).year > 1:  # an invalid time is parsed as year 1
        return text
    return ""


def _link_problems(everything: Board, new: Collection[_ReadTask]) -> Iterator[Problem]:
    """Yield the new tasks that name unknown tasks or would wait for themselves."""
    if not new:
        return
    after = everything.with_tasks(item.task for item in new)
    has_cycle = bool(after.cycle(*(item.task.id for item in new)))
    for line, task in new:
        linked = [*task.blocked_by, task.parent]
        unknown = [name for name in linked if name and name not in after.placed]
        if unknown:
            name = unknown[0][:_MAX_QUOTED_ID]
            yield Problem(line, f"{task.id}: names {name!r}, but there is no such task", "")
            continue
        cycle = after.cycle(task.id) if has_cycle else ()
        if cycle:
            yield Problem(line, f"{task.id}: would wait for itself: {' -> '.join(cycle)}", "")


# --- finish --------------------------------------------------------------------------------------


def _finish_stories(root: Path, existing: Iterable[_ExistingTask]) -> tuple[Task, ...]:
    """Mark the existing tasks done whose story passes; return those that were not done."""

    def end(task: Task) -> Task:
        if status_of(task) is TaskStatus.DONE:
            return task
        return board.with_status(task, TaskStatus.DONE, note="its story passes")

    finished = []
    for stored, imported in existing:
        passes = _story_key(imported) and imported.status == TaskStatus.DONE.value
        # A task in an unknown state (None) is left to a person.
        if passes and status_of(stored) not in (None, TaskStatus.DONE):
            finished.append(board.change(root, stored.id, end))
    if finished:
        close_parents(root)
    return tuple(finished)


# --- export --------------------------------------------------------------------------------------


def export(root: Path) -> str:
    """Return all tasks as the lines of a tasks.jsonl, without claims and worktrees."""
    lines = []
    for task in board.read(root).tasks:
        lines.append(render_task_line(replace(task, claim=None, worktree=None)))
    return "".join(lines)
