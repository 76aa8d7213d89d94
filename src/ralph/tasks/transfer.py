"""Import and export tasks: the stories of a prd.json, and tasks.jsonl with a task a line.

Nothing is imported unless all can be. Importing again adds nothing: a task is known by its id, a story
by its id and its PRD; a story that passes makes its task done.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Refused
from ralph.core.json_text import read_json
from ralph.core.text import Problem
from ralph.core.work import Task, TaskStatus
from ralph.formats.work import parse_prd, parse_task_line, render_task_line
from ralph.privacy import privacy
from ralph.storage import board
from ralph.storage.board import Board, parse_time, status_of
from ralph.tasks.task import close_parents

_STORY = "story"  # the member of a task that says which story it was
_MAX_NAMED = 20
_IMPORTED = (TaskStatus.DONE, TaskStatus.FAILED, TaskStatus.BLOCKED)


class TaskImport(NamedTuple):
    """What an import did: new tasks, finished ones and known ones."""

    added: tuple[Task, ...] = ()
    finished: tuple[Task, ...] = ()
    there: tuple[Task, ...] = ()
    warnings: tuple[Problem, ...] = ()
    private_parts: int = 0


def import_(
    root: Path, text: str, name: str, *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> TaskImport:
    """Import the tasks of a file, whose `name` tells its format; Refused with every problem, by its line."""
    content = read_json(text)
    is_broken = isinstance(content, Problem)
    value = None if isinstance(content, Problem) else content.value
    is_prd = (
        name.lower().endswith(".json")
        if is_broken
        else isinstance(value, dict) and "id" not in value
    )
    rows, problems = _read_stories(text, name) if is_prd else _read_lines(text)
    bad = [problem for problem in problems if problem.level == "error"]
    if not rows and not bad:
        raise Refused(
            f"{name}: holds no tasks", hint="give a prd.json with userStories, or a tasks.jsonl"
        )
    folder = paths.tasks_folder(root)
    now = ids.now()
    new = dict[str, tuple[int, Task]]()
    there = list[tuple[Task, Task]]()
    private_parts = 0
    with board.lock_all(root) as everything:
        stories = {_story_key(task): task for task in everything.tasks if _story_key(task)}
        for line, raw in rows:
            try:
                task, removed = _clean(raw, allow_secret, patterns)
                known = everything.get(task.id) if task.id else stories.get(_story_key(task))
                if known is None and task.id and (folder / task.id / "task.json").exists():
                    raise Refused("its folder holds another task, or one that cannot be read")
            except Refused as error:
                story = raw.extra.get(_STORY)
                title = (
                    f"story {story['id']}"
                    if not raw.id and isinstance(story, dict)
                    else raw.id[:80]
                )
                bad.append(Problem(line, f"{title}: {error.message}", error.hint))
                continue
            if known is not None:
                there.append((known, task))
                continue
            while not task.id or task.id in new:
                task = replace(task, id=board.fresh_id(everything, folder))
            # a microsecond apart, so that they keep the file's order
            time = ids.timestamp(now + timedelta(microseconds=len(new)), "microseconds")
            task = replace(
                task, created_at=task.created_at or time, updated_at=task.updated_at or time
            )
            new[task.id] = (line, task)
            private_parts += removed
        if bad := sorted(
            [*bad, *_link_problems(everything, new.values())], key=lambda each: each.line
        ):
            parts = [
                f"line {each.line}: {each.what}" if each.line else each.what
                for each in bad[:_MAX_NAMED]
            ]
            if len(bad) > _MAX_NAMED:
                parts.append(f"and {len(bad) - _MAX_NAMED} more")
            raise Refused(f"{name}: nothing was imported: {'; '.join(parts)}", hint="mend the file")
        for _, task in new.values():
            board.create(root, task)
    added = tuple(task for _, task in new.values())
    existing = tuple(task for task, _ in there)
    warnings = tuple(problem for problem in problems if problem.level != "error")
    return TaskImport(added, _finish_stories(root, there), existing, warnings, private_parts)


def export(root: Path) -> str:
    """Return every task as a line of a tasks.jsonl; claims stay here."""
    tasks = board.read(root).tasks
    return "".join(render_task_line(replace(task, claim=None, worktree=None)) for task in tasks)


def _read_lines(text: str) -> tuple[list[tuple[int, Task]], list[Problem]]:
    rows = dict[str, tuple[int, Task]]()
    problems = list[Problem]()
    for number, line in enumerate(text.split("\n"), 1):
        task, warnings = parse_task_line(line)
        problems += (replace(problem, line=number) for problem in warnings)
        if task is not None and task.id in rows:
            hint = "give each of them its own id"
            problems.append(
                Problem(
                    number, f"a second task has the id {task.id}", hint, "error", "duplicate-id"
                )
            )
        elif task is not None:
            rows[task.id] = (number, task)
    return list(rows.values()), problems


def _read_stories(text: str, name: str) -> tuple[list[tuple[int, Task]], list[Problem]]:
    document = parse_prd(text)
    source = "/".join(part for part in (document.project, document.branch) if part) or name
    rows: dict[str, tuple[int, Task]] = {}
    for story in document.stories:
        criteria = "".join(f"\n- {each}" for each in story.acceptance_criteria)
        parts = [story.description] if story.description else []
        if criteria:
            parts.append(f"Acceptance criteria:{criteria}")
        if story.notes:
            parts.append(f"Notes: {story.notes}")
        status = TaskStatus.DONE if story.passes else TaskStatus.PENDING
        extra = {"id": story.id, "prd": source}
        task = Task(
            "",
            story.title,
            "\n\n".join(parts),
            status=status.value,
            priority=max(story.priority, 0),
        )
        rows.setdefault(story.id, (0, replace(task, extra={_STORY: extra})))
    problems = [
        replace(each, level="error") if each.code == "duplicate-id" else each
        for each in document.problems
    ]
    return list(rows.values()), problems


def _clean(task: Task, allow_secret: bool, patterns: Sequence[str]) -> tuple[Task, int]:
    """Without what only holds in the other project; and its private parts."""
    clean = partial(privacy.clean_description, patterns=patterns)
    title = privacy.clean_title(task.title, allow_secret=allow_secret, patterns=patterns)
    description = clean(task.description, "description", allow_secret=allow_secret)
    clean(task.id, "id")
    if task.id and not board.is_folder_name(task.id):
        raise Refused(f"the id {task.id[:80]!r} cannot be the name of a folder")
    status = status_of(task)
    extra = privacy.redact_value(dict(task.extra), patterns)
    status = status if status in _IMPORTED else TaskStatus.PENDING  # nobody works on it here
    feature, branch = (
        privacy.redact_note(name or "", patterns) or None for name in (task.feature, task.branch)
    )
    created, updated = (
        at if parse_time(at).year > 1 else "" for at in (task.created_at, task.updated_at)
    )
    task = replace(
        task,
        title=title.text,
        description=description.text,
        status=status.value,
        worktree=None,
        claim=None,
    )
    task = replace(task, feature=feature, branch=branch, created_at=created, updated_at=updated)
    return replace(
        task, extra=extra if isinstance(extra, dict) else {}
    ), title.private + description.private


def _story_key(task: Task) -> str:
    story = task.extra.get(_STORY)
    return f"{story.get('prd')}\n{story.get('id')}" if isinstance(story, dict) else ""


def _link_problems(everything: Board, new: Collection[tuple[int, Task]]) -> Iterator[Problem]:
    after = everything.with_tasks(task for _, task in new)
    has_cycle = bool(after.cycle(*(task.id for _, task in new))) if new else False
    for line, task in new:
        unknown = [
            name for name in (*task.blocked_by, task.parent) if name and name not in after.placed
        ]
        if unknown:
            yield Problem(
                line, f"{task.id}: names {unknown[0][:80]!r}, and there is no such task", ""
            )
        elif has_cycle and (way := after.cycle(task.id)):
            yield Problem(line, f"{task.id}: would wait for itself: {' -> '.join(way)}", "")


def _finish_stories(root: Path, there: Iterable[tuple[Task, Task]]) -> tuple[Task, ...]:
    def end(task: Task) -> Task:
        is_done = status_of(task) is TaskStatus.DONE
        return (
            task if is_done else board.with_status(task, TaskStatus.DONE, note="its story passes")
        )

    finished = []
    for task, story in there:
        passes = _story_key(story) and story.status == TaskStatus.DONE.value
        if passes and status_of(task) not in (
            None,
            TaskStatus.DONE,
        ):  # None: a word for a person to look at
            finished.append(board.change(root, task.id, end))
    if finished:
        close_parents(root)
    return tuple(finished)
