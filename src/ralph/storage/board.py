"""Read and change task.json files, and compute which tasks are ready.

A task is ready when it is pending (or its worker died), all its blockers are done, it has no open children, and nothing
holds its parent. It changes only through `update`, under its lock.
"""

from __future__ import annotations

import contextlib
import itertools
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, paths, process
from ralph.core.errors import Conflict, Hint, NotFound, RalphError, Refused, Unreadable
from ralph.core.work import Claim, Task, TaskStatus
from ralph.formats.work import parse_task, render_task
from ralph.storage import files
from ralph.storage.files import hide_state

_STATES = {status.value: status for status in TaskStatus}
_STATES |= dict.fromkeys(("open", "todo", "new", "ready"), TaskStatus.PENDING)
_STATES |= dict.fromkeys(("doing", "started", "active"), TaskStatus.IN_PROGRESS)
_STATES |= dict.fromkeys(("complete", "completed", "closed", "finished"), TaskStatus.DONE)
"""The five states, and other words that people and tools write for them."""

HISTORY = "history"
FAILURE = "last_failure"
REASON = "blocked_reason"
ATTEMPT = "last_attempt"
"""Members of task.json beside those that the format names."""
MAX_HISTORY = 100  # changes of state that a task's history holds; older ones go
_OPEN = (TaskStatus.PENDING, TaskStatus.IN_PROGRESS)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
host_name = platform.node
_FOLDER = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
)  # an id that can be a folder's name on every system
Edit = Callable[[Task], Task]  # a pure function, as it may be called again


class TaskLocation(NamedTuple):
    """A task and the file that holds it."""

    task: Task
    path: Path


class UnreadableFile(NamedTuple):
    """A task.json that says no task, and why."""

    path: Path
    what: str


def status_of(task: Task) -> TaskStatus | None:
    """Return a task's state; None when the file has an unknown word."""
    return _STATES.get(task.status.strip().casefold().replace("-", "_").replace(" ", "_"))


def parse_time(text: str) -> datetime:
    """Parse a time of a file; what is no time counts as long ago."""
    return ids.parse_time(text) or _LONG_AGO


def is_live(claim: Claim | None, now: datetime) -> bool:
    """Whether a claim has not expired, and its process is not known to be dead."""
    if claim is None or parse_time(claim.expires_at) <= now:
        return False
    return claim.host != host_name() or bool(process.started_at(claim.pid))


@dataclass(frozen=True)
class Board:
    """The tasks by their ids, and the files that could not be read."""

    placed: Mapping[str, TaskLocation]
    unread: tuple[UnreadableFile, ...] = ()

    @cached_property
    def tasks(self) -> list[Task]:
        """Every task in the order to do them: by priority (1 first, none last), age and id."""

        def sort_key(task: Task) -> tuple[int, datetime, str]:
            return (
                task.priority if task.priority > 0 else sys.maxsize,
                parse_time(task.created_at),
                task.id,
            )

        return sorted((location.task for location in self.placed.values()), key=sort_key)

    @cached_property
    def children(self) -> Mapping[str, list[str]]:
        """The ids of each task's children."""
        children: dict[str, list[str]] = {}
        for location in self.placed.values():
            if location.task.parent:
                children.setdefault(location.task.parent, []).append(location.task.id)
        return children

    @cached_property
    def done(self) -> frozenset[str]:
        """The ids of the tasks that are done."""
        return frozenset(each.id for each in self.tasks if status_of(each) is TaskStatus.DONE)

    def get(self, task_id: str) -> Task | None:
        """Return the task with this id."""
        location = self.placed.get(task_id)
        return None if location is None else location.task

    def has_done_all(self, task_id: str) -> bool:
        """Whether a task has children, and all of them are done."""
        children = self.children.get(task_id, [])
        return bool(children) and all(each in self.done for each in children)

    def with_tasks(self, tasks: Iterable[Task]) -> Board:
        """Return the board as it would be with these tasks in their new state."""
        new = {task.id: TaskLocation(task, Path()) for task in tasks}
        return Board({**self.placed, **new}, self.unread)

    def waits_for(self, task: Task) -> tuple[str, ...]:
        """Return the blockers and children that are not done, and the parent when something holds that."""
        needed = [
            each
            for each in (*task.blocked_by, *self.children.get(task.id, ()))
            if each not in self.done
        ]
        above = [task.parent] if task.parent and task.parent in self._stopped_parents else []
        return tuple(dict.fromkeys([*needed, *above]))

    def ready(self, now: datetime) -> list[Task]:
        """Return the tasks that may be begun now, the next one first."""

        def is_free(task: Task) -> bool:
            if status_of(task) is TaskStatus.IN_PROGRESS and task.claim is None:  # a person does it
                return False
            return (
                task.id not in self.children
                and status_of(task) in _OPEN
                and not is_live(task.claim, now)
            )

        return [task for task in self.tasks if is_free(task) and not self.waits_for(task)]

    def late(self) -> list[Task]:
        """Return the parents that are open though all their children are done."""
        parents = [
            task for name in self.children if self.has_done_all(name) and (task := self.get(name))
        ]
        return [task for task in parents if status_of(task) in _OPEN]

    @cached_property
    def _stopped_parents(self) -> set[str]:
        stopped = set[str]()
        pending = []
        for name in self.children:
            task = self.get(name)
            if (
                task is None
                or status_of(task) not in _OPEN
                or not self.done.issuperset(task.blocked_by)
            ):
                pending.append(name)
        while pending:
            name = pending.pop()
            if name not in stopped:
                stopped.add(name)
                pending += self.children.get(name, ())
        return stopped

    def cycle(self, *names: str) -> tuple[str, ...]:
        """Return the names along a cycle that these tasks (or any) are in or wait for."""
        graph: dict[
            tuple[str, bool], list[tuple[str, bool]]
        ] = {}  # what a task's beginning or end needs
        pending = [(name, True) for name in names or self.placed]
        while pending:
            name, is_end = node = pending.pop()
            task = self.get(name)
            if node in graph or task is None:
                continue
            if is_end:
                graph[node] = [
                    (name, False),
                    *((child, True) for child in self.children.get(name, ())),
                ]
            else:
                graph[node] = [(each, True) for each in task.blocked_by]
                if task.parent:
                    graph[node].append((task.parent, False))
            pending += graph[node]
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            way = [
                name for name, _ in itertools.groupby(name for name, _ in reversed(error.args[1]))
            ]
            return tuple(way) if len(way) > 1 else (way[0], way[0])
        return ()


def read(root: Path) -> Board:
    """Read every task of a project, each in the folder of its name."""
    contents = {
        path: _read_task(path) for path in sorted(paths.tasks_folder(root).glob("*/task.json"))
    }
    placed = {
        task.id: TaskLocation(task, path)
        for path, task in contents.items()
        if isinstance(task, Task)
    }
    return Board(
        placed, tuple(each for each in contents.values() if isinstance(each, UnreadableFile))
    )


def _read_task(path: Path) -> Task | UnreadableFile:
    try:
        document = parse_task(files.read(path) or "")
    except RalphError as error:
        return UnreadableFile(path, error.message.removeprefix(f"{path}: "))
    if document.task is None:
        problems = sorted(document.problems, key=lambda problem: problem.level != "error")
        return UnreadableFile(
            path, f"line {problems[0].line}: {problems[0].what}" if problems else "it holds no task"
        )
    if document.task.id != path.parent.name:
        return UnreadableFile(
            path, f"its id is {document.task.id}, which is not the name of its folder"
        )
    return document.task


def stamp() -> str:
    """Return the time in microseconds, so that tasks made in one second keep their order."""
    return ids.timestamp(precision="microseconds")


def is_folder_name(task_id: str) -> bool:
    """Whether an id can be a folder's name."""
    return _FOLDER.fullmatch(task_id) is not None and not task_id.endswith(".")


def find(root: Path, task_id: str) -> TaskLocation:
    """Find a task by id; NotFound, or Unreadable when its file is damaged."""
    path = task_file(root, task_id)
    if not is_folder_name(task_id) or not path.exists():
        raise NotFound(
            f"there is no task {task_id}", hint=Hint("find-task", "`ralph task list` names them")
        )
    task = _read_task(path)
    if isinstance(task, UnreadableFile):
        raise Unreadable(f"{path}: {task.what}", hint="mend the file by hand; it was left as it is")
    return TaskLocation(task, path)


def update(root: Path, task_id: str, edit: Edit) -> tuple[Task, Task]:
    """Replace a task by what `edit` makes of it, under the lock of its file; return it before and after."""
    path = find(root, task_id).path

    def edit_text(text: str) -> tuple[str, tuple[Task, Task]]:
        document = parse_task(text)
        before = document.task
        if before is None or before.id != task_id:
            raise Conflict(
                f"{path}: no longer holds the task {task_id}",
                hint="look at it and run the command again",
            )
        after = edit(before)
        if after != before:
            after = replace(after, updated_at=stamp())
        return document.with_task(after).text, (before, after)

    return files.update(path, edit_text, root=paths.main_checkout(root))[1]


def change(root: Path, task_id: str, edit: Edit) -> Task:
    """Update a task, and return it as it is then."""
    return update(root, task_id, edit)[1]


def with_status(
    task: Task, to: TaskStatus, *, by: str = "", note: str = "", claim: Claim | None = None
) -> Task:
    """Return the task in another state, with a line in its history; Refused when it is done."""
    now = status_of(task)
    if to is not TaskStatus.PENDING and now in (None, to, TaskStatus.DONE):
        state = (
            now.value.replace("_", " ")
            if now is not None
            else f"in a state that nobody knows ({task.status!r})"
        )
        hint = f"`ralph task reset {task.id}` makes it pending again"
        verb = {TaskStatus.IN_PROGRESS: "started", TaskStatus.DONE: "finished"}.get(to, to.value)
        raise Refused(f"{task.id} is {state}: it cannot be {verb}", hint=hint)
    extra = {key: value for key, value in task.extra.items() if key != REASON}
    if to is TaskStatus.DONE:
        extra.pop(FAILURE, None)
    line = {"at": stamp(), "from": task.status, "to": to.value, "by": by, "note": note}
    history = extra.get(HISTORY, [])
    if isinstance(history, list):  # else somebody has a member of his own by that name
        extra[HISTORY] = [*history, {key: value for key, value in line.items() if value}][
            -MAX_HISTORY:
        ]
    return replace(task, status=to.value, claim=claim, extra=extra)


def with_member(task: Task, key: str, value: str) -> Task:
    """Return the task with one extra member; an empty text leaves it as it is."""
    return replace(task, extra={**task.extra, key: value}) if value else task


@contextlib.contextmanager
def lock_all(root: Path) -> Iterator[Board]:
    """Lock the links between all tasks, and yield the board."""
    folder = paths.tasks_folder(root)
    files.make_folder(folder, root=paths.main_checkout(root))
    hide_state(root)
    with files.lock(folder / "task.json"):
        yield read(root)


def fresh_id(everything: Board, folder: Path) -> str:
    """Return an id that neither a task nor a folder has; called within `lock_all`."""
    while (minted := ids.short("t")) in everything.placed or (folder / minted).exists():
        pass
    return minted


def task_file(root: Path, task_id: str) -> Path:
    """Return the file of a task in the folder of its name, where new ones are written."""
    return paths.tasks_folder(root) / task_id / "task.json"


def create(root: Path, task: Task) -> None:
    """Write a new task's file into a folder of its name; called within `lock_all`."""
    files.write(
        task_file(root, task.id), render_task(task), root=paths.main_checkout(root), expect=""
    )


def delete_task(root: Path, task_id: str) -> None:
    """Remove the folder of a new task that could not be completed."""
    folder = find(root, task_id).path.parent
    for path in sorted(folder.rglob("*"), reverse=True):  # what is within a folder comes before it
        if path.is_dir():
            files.remove_folder(path)
        else:
            files.delete(path)
    files.remove_folder(folder)


def check_links(everything: Board, task: Task) -> None:
    """Refuse a task that waits for what is not there, or in the end for itself."""
    after = everything.with_tasks([task])
    if unknown := [
        each for each in (*task.blocked_by, task.parent) if each and not after.get(each)
    ]:
        raise NotFound(
            f"{task.id} names {unknown[0]}, and there is no such task",
            hint=Hint("find-task", "`ralph task list`"),
        )
    if way := after.cycle(task.id):
        hint = "nothing was changed; choose another one, or take one of these links out of its task.json"
        raise Refused(f"{task.id} would wait for itself: {' -> '.join(way)}", hint=hint)
