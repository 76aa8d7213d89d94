"""Import and export tasks.

An import reads the stories in a prd.json, or a tasks.jsonl with one task per line. It adds either
everything or nothing. Importing the same file again adds nothing, because a task is identified by
its id, and a story by its id and its PRD. If a story passes, its task is marked as done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.documents import Problem
from ralph.core.errors import Refused
from ralph.core.json_text import read_json
from ralph.core.work import Story, Task, TaskStatus
from ralph.formats.prd import parse_prd
from ralph.formats.task_files import parse_task_line, render_task_line
from ralph.privacy import privacy
from ralph.storage import board, task_files
from ralph.storage.board import Board, parse_time, status_of
from ralph.tasks import parents

_STORY = "story"  # the member of task.json with the id and PRD of the story it was made from
_MAX_REPORTED_PROBLEMS = 20
_MAX_QUOTED_ID = 80  # characters
_IMPORTED_STATES = (TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED)


class TaskImport(NamedTuple):
    """The result of an import: the tasks that were added, marked as done, or existed before."""

    added: tuple[Task, ...] = ()
    finished: tuple[Task, ...] = ()
    existing: tuple[Task, ...] = ()
    warnings: tuple[Problem, ...] = ()
    private_parts: int = 0


class _ReadTask(NamedTuple):
    """A task in the file, and its line number, which is 0 for a story."""

    line: int
    task: Task


class _ReadFile(NamedTuple):
    """The tasks in a file, and the problems with it."""

    tasks: list[_ReadTask]
    problems: list[Problem]


class _CleanTask(NamedTuple):
    """A task cleaned for storage, and the number of private sections removed from it."""

    task: Task
    private_parts: int


class _ExistingTask(NamedTuple):
    """A task in the project, and the same task as read from the file."""

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
    root: Path,
    text: str,
    name: str,
    *,
    really: bool = True,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> TaskImport:
    """Import the tasks in a file with the given text and name.

    The format is detected from the content, or from `name` if the content is not valid JSON. If
    anything is wrong, nothing is imported, and Refused is raised with the problems and their lines.
    Without `really`, nothing is written, and the result says what would be imported.
    """
    content = _read_stories(text, name) if _is_prd(text, name) else _read_lines(text)
    errors = [problem for problem in content.problems if problem.level == "error"]
    warnings = [problem for problem in content.problems if problem.level != "error"]
    if not content.tasks and not errors:
        raise Refused(
            f"{name} contains no tasks", hint="give a prd.json with userStories, or a tasks.jsonl"
        )
    folder = paths.tasks_folder(root)
    with task_files.lock_board(root) as everything:
        plan = _make_plan(content.tasks, everything, folder, allow_secret, patterns)
        errors += plan.errors
        errors += _link_problems(everything, plan.new.values())
        if errors:
            raise _refused(name, errors)
        if really:
            for new in plan.new.values():
                task_files.create_task(root, new.task)
    finished = _unfinished_stories(plan.existing)
    if really:
        finished = _finish_stories(root, finished)
    return TaskImport(
        added=tuple(new.task for new in plan.new.values()),
        finished=finished,
        existing=tuple(existing.stored for existing in plan.existing),
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
    """Sort the tasks in a file into new, existing and refused ones."""
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
            task = replace(task, id=task_files.unused_id(everything, folder))
        plan.new[task.id] = _ReadTask(line, _with_times(task, now, len(plan.new)))
        plan.private_parts += private_parts
    return plan


def _label(task: Task) -> str:
    """Return the label for a task of the file in a message."""
    story = task.extra.get(_STORY)
    if not task.id and isinstance(story, dict):
        return f"story {story['id']}"
    return task.id[:_MAX_QUOTED_ID]


def _with_times(task: Task, now: datetime, number: int) -> Task:
    """Return a task with its missing timestamps filled in.

    The timestamps of consecutive tasks differ by a microsecond, so that tasks stay in file order.
    """
    time = ids.timestamp(now + timedelta(microseconds=number), "microseconds")
    return replace(task, created_at=task.created_at or time, updated_at=task.updated_at or time)


def _refused(name: str, errors: list[Problem]) -> Refused:
    """Return the error that lists the first few problems in a file, ordered by line."""
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
    """Read the tasks in a tasks.jsonl file."""
    tasks: dict[str, _ReadTask] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        task, line_problems = parse_task_line(line)
        problems += [problem._replace(line=number) for problem in line_problems]
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
    """Read the stories in a prd.json file as tasks without ids."""
    document = parse_prd(text)
    source = "/".join(part for part in (document.project, document.branch) if part) or name
    tasks: dict[str, _ReadTask] = {}
    for story in document.stories:
        tasks.setdefault(story.id, _ReadTask(0, _task_of(story, source)))
    problems = []
    for problem in document.problems:
        if problem.code == "duplicate-id":
            problem = problem._replace(level="error")
        problems.append(problem)
    return _ReadFile(list(tasks.values()), problems)


def _task_of(story: Story, source: str) -> Task:
    """Return the task for a story. `source` identifies the PRD of the story."""
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
    """Return a key for the story that a task was made from, or "" if there is no story."""
    story = task.extra.get(_STORY)
    if isinstance(story, dict):
        return f"{story.get('prd')}\n{story.get('id')}"
    return ""


# --- check ---------------------------------------------------------------------------------------


def _clean(task: Task, allow_secret: bool, patterns: Sequence[str]) -> _CleanTask:
    """Remove secrets, private sections, and whatever only applies to the project it comes from.

    Raises Refused if the title, description or id contains a secret, or if the id cannot be used as
    a folder name.
    """
    title = privacy.clean_title(task.title, allow_secret=allow_secret, patterns=patterns)
    description = privacy.clean_description(
        task.description, "description", allow_secret=allow_secret, patterns=patterns
    )
    privacy.clean_description(task.id, "id", patterns=patterns)
    if task.id and not task_files.is_folder_name(task.id):
        raise Refused(f"the id {task.id[:_MAX_QUOTED_ID]!r} cannot be the name of a folder")
    status = status_of(task)
    if status not in _IMPORTED_STATES:
        status = TaskStatus.PENDING  # nobody is working on it here
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
    """Return the text if it is a valid timestamp, otherwise ""."""
    if parse_time(text).year > 1:  # an invalid time is parsed as year 1
        return text
    return ""


def _link_problems(everything: Board, new: Collection[_ReadTask]) -> Iterator[Problem]:
    """Yield a problem for each new task that refers to an unknown task or would wait for itself."""
    if not new:
        return
    after = everything.with_tasks(item.task for item in new)
    has_cycle = bool(after.cycle(*(item.task.id for item in new)))
    for line, task in new:
        linked = [*task.blocked_by, task.parent]
        unknown = [name for name in linked if name and name not in after.locations]
        if unknown:
            name = unknown[0][:_MAX_QUOTED_ID]
            yield Problem(line, f"{task.id}: names {name!r}, but there is no such task", "")
            continue
        cycle = after.cycle(task.id) if has_cycle else ()
        if cycle:
            yield Problem(line, f"{task.id}: would wait for itself: {' -> '.join(cycle)}", "")


# --- finish --------------------------------------------------------------------------------------


def _unfinished_stories(existing: Iterable[_ExistingTask]) -> tuple[Task, ...]:
    """Return the existing tasks that are not done although their story passes."""
    unfinished = []
    for stored, imported in existing:
        passes = _story_key(imported) and imported.status == TaskStatus.DONE.value
        # A task in an unknown state (None) is left to a person.
        if passes and status_of(stored) not in (None, TaskStatus.DONE):
            unfinished.append(stored)
    return tuple(unfinished)


def _finish_stories(root: Path, unfinished: Iterable[Task]) -> tuple[Task, ...]:
    """Mark tasks whose story passes as done."""

    def end(task: Task) -> Task:
        if status_of(task) is TaskStatus.DONE:
            return task
        return board.with_status(task, TaskStatus.DONE, note="its story passes")

    finished = [task_files.change_task(root, task.id, end) for task in unfinished]
    if finished:
        parents.close_finished(root)
    return tuple(finished)


# --- export --------------------------------------------------------------------------------------


def export(root: Path) -> str:
    """Return all tasks as the content of a tasks.jsonl file, without claims and worktrees."""
    lines = []
    for task in task_files.read_board(root).tasks:
        lines.append(render_task_line(replace(task, claim=None, worktree=None)))
    return "".join(lines)
