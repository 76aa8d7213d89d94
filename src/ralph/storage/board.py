"""Compute which tasks are ready, what the others wait for, and which state changes are allowed.

A task is ready when it is pending (or its worker died), all its blockers are done, it has no open
children, and nothing holds up its parent. The rules here work on values only. Files are read and
written by `task_files.py`.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids, process
from ralph.core.errors import Hint, Refused
from ralph.core.work import Claim, Task, TaskStatus

_STATES = {status.value: status for status in TaskStatus}
_STATES |= dict.fromkeys(("open", "todo", "new", "ready"), TaskStatus.PENDING)
_STATES |= dict.fromkeys(("doing", "started", "active"), TaskStatus.IN_PROGRESS)
_STATES |= dict.fromkeys(("complete", "completed", "closed", "finished"), TaskStatus.DONE)
"""Maps the names of the states, and common synonyms for them, to the states."""
_OPEN_STATES = (TaskStatus.PENDING, TaskStatus.IN_PROGRESS)

# Members of task.json that the format does not define.
HISTORY_MEMBER = "history"
FAILURE_MEMBER = "last_failure"
REASON_MEMBER = "blocked_reason"
ATTEMPT_MEMBER = "last_attempt"

MAX_HISTORY = 100  # state changes kept in a task's history; older ones are dropped
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def host_name() -> str:
    """Return the name of this machine. `platform.node` would query WMI, which can take seconds."""
    if sys.platform == "win32":
        return os.environ.get("COMPUTERNAME", "")
    return os.uname().nodename


class TaskLocation(NamedTuple):
    """A task and the file that contains it."""

    task: Task
    path: Path


class UnreadableFile(NamedTuple):
    """A file without a valid task, and what is wrong with it."""

    path: Path
    what: str


def status_of(task: Task) -> TaskStatus | None:
    """Return a task's state, or None if its file uses an unknown word for it."""
    word = task.status.strip().casefold().replace("-", "_").replace(" ", "_")
    return _STATES.get(word)


def parse_time(text: str) -> datetime:
    """Parse a time read from a file. An invalid time counts as long ago."""
    return ids.parse_time(text) or _LONG_AGO


def is_live(claim: Claim | None, now: datetime) -> bool:
    """Return whether a claim has not expired and its process is not known to be dead."""
    if claim is None or parse_time(claim.expires_at) <= now:
        return False
    if claim.host != host_name():
        return True  # processes on another machine cannot be checked
    return bool(process.started_at(claim.pid))


# --- the board ----------------------------------------------------------------------------------


class _Milestone(NamedTuple):
    """The start or end of a task, as a node in the graph that is searched for cycles."""

    task_id: str
    is_end: bool


@dataclass(frozen=True)
class Board:
    """All tasks of a project by id, and the task files that could not be read."""

    locations: Mapping[str, TaskLocation]
    unreadable: tuple[UnreadableFile, ...] = ()

    @cached_property
    def tasks(self) -> list[Task]:
        """Every task, sorted by priority (1 first, none last), then by age, then by id."""
        tasks = [location.task for location in self.locations.values()]
        return sorted(tasks, key=_work_order)

    @cached_property
    def children(self) -> Mapping[str, list[str]]:
        """The ids of each task's children."""
        children: dict[str, list[str]] = {}
        for location in self.locations.values():
            task = location.task
            if task.parent:
                children.setdefault(task.parent, []).append(task.id)
        return children

    @cached_property
    def done(self) -> frozenset[str]:
        """The ids of the tasks that are done."""
        return frozenset(task.id for task in self.tasks if status_of(task) is TaskStatus.DONE)

    def get(self, task_id: str) -> Task | None:
        """Return the task with this id, or None if there is none."""
        location = self.locations.get(task_id)
        if location is None:
            return None
        return location.task

    def has_all_children_done(self, task_id: str) -> bool:
        """Return whether a task has children and all of them are done."""
        children = self.children.get(task_id, [])
        return bool(children) and self.done.issuperset(children)

    def with_tasks(self, tasks: Iterable[Task]) -> Board:
        """Return a copy of the board with these tasks added, replacing those with the same ids."""
        new = {task.id: TaskLocation(task, Path()) for task in tasks}
        return Board({**self.locations, **new}, self.unreadable)

    def waits_for(self, task: Task) -> tuple[str, ...]:
        """Return the ids of everything a task waits for.

        These are its unfinished blockers and children, and its parent if that is held up.
        """
        prerequisites = (*task.blocked_by, *self.children.get(task.id, ()))
        waiting = [task_id for task_id in prerequisites if task_id not in self.done]
        if task.parent and task.parent in self._stopped_parents:
            waiting.append(task.parent)
        return tuple(dict.fromkeys(waiting))

    def ready(self, now: datetime) -> list[Task]:
        """Return the tasks that can be started now, in the order in which to work on them."""
        return [
            task for task in self.tasks if self._is_free(task, now) and not self.waits_for(task)
        ]

    def _is_free(self, task: Task, now: datetime) -> bool:
        """Return whether a task is open, has no children, and nobody is working on it."""
        status = status_of(task)
        if status is TaskStatus.IN_PROGRESS and task.claim is None:
            return False  # a person is working on it
        if status not in _OPEN_STATES or task.id in self.children:
            return False
        return not is_live(task.claim, now)

    def parents_to_close(self) -> list[Task]:
        """Return the parents that are still open although all their children are done."""
        parents = []
        for task_id in self.children:
            task = self.get(task_id)
            if task is None or not self.has_all_children_done(task_id):
                continue
            if status_of(task) in _OPEN_STATES:
                parents.append(task)
        return parents

    @cached_property
    def _stopped_parents(self) -> set[str]:
        """The ids of the parents whose children cannot start, and of all tasks below them."""
        stopped: set[str] = set()
        pending = [task_id for task_id in self.children if self._is_stopped(task_id)]
        while pending:
            task_id = pending.pop()
            if task_id not in stopped:
                stopped.add(task_id)
                pending += self.children.get(task_id, ())
        return stopped

    def _is_stopped(self, task_id: str) -> bool:
        """Return whether a task is missing, is not open, or waits for a blocker."""
        task = self.get(task_id)
        if task is None or status_of(task) not in _OPEN_STATES:
            return True
        return not self.done.issuperset(task.blocked_by)

    def cycle(self, *names: str) -> tuple[str, ...]:
        """Return the ids along a dependency cycle, or an empty tuple if there is none.

        With `names`, only cycles that these tasks are part of or wait for are considered.
        """
        graph: dict[_Milestone, list[_Milestone]] = {}
        pending = [_Milestone(name, is_end=True) for name in names or self.locations]
        while pending:
            milestone = pending.pop()
            task = self.get(milestone.task_id)
            if milestone in graph or task is None:
                continue
            graph[milestone] = self._needed_for(milestone, task)
            pending += graph[milestone]
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            milestones: list[_Milestone] = error.args[1]
            task_ids = [milestone.task_id for milestone in reversed(milestones)]
            # The start and the end of one task count once.
            cycle = [task_id for task_id, _ in itertools.groupby(task_ids)]
            if len(cycle) == 1:
                return (cycle[0], cycle[0])
            return tuple(cycle)
        return ()

    def _needed_for(self, milestone: _Milestone, task: Task) -> list[_Milestone]:
        """Return the milestones that must come directly before the start or end of a task."""
        if milestone.is_end:
            needed = [_Milestone(task.id, is_end=False)]
            for child in self.children.get(task.id, ()):
                needed.append(_Milestone(child, is_end=True))
            return needed
        needed = [_Milestone(blocker, is_end=True) for blocker in task.blocked_by]
        if task.parent:
            needed.append(_Milestone(task.parent, is_end=False))
        return needed


def _work_order(task: Task) -> tuple[int, datetime, str]:
    priority = task.priority if task.priority > 0 else sys.maxsize
    return priority, parse_time(task.created_at), task.id


# --- changing -----------------------------------------------------------------------------------


def precise_timestamp() -> str:
    """Return the current time to the microsecond.

    This keeps tasks in order that are created within the same second.
    """
    return ids.timestamp(precision="microseconds")


def with_status(
    task: Task, to: TaskStatus, *, by: str = "", note: str = "", claim: Claim | None = None
) -> Task:
    """Return the task in the state `to`, with a new entry in its history.

    Raises Refused if the task is done, is already in that state, or is in an unknown state. Such a
    task can only become pending.
    """
    _check_transition(task, to)
    extra = {key: value for key, value in task.extra.items() if key != REASON_MEMBER}
    if to is TaskStatus.DONE:
        extra.pop(FAILURE_MEMBER, None)
    line = {"at": precise_timestamp(), "from": task.status, "to": to.value, "by": by, "note": note}
    history = extra.get(HISTORY_MEMBER, [])
    if isinstance(history, list):  # otherwise another program wrote this member
        history = [*history, {key: value for key, value in line.items() if value}]
        extra[HISTORY_MEMBER] = history[-MAX_HISTORY:]
    return replace(task, status=to.value, claim=claim, extra=extra)


def _check_transition(task: Task, to: TaskStatus) -> None:
    status = status_of(task)
    if to is TaskStatus.PENDING or status not in (None, to, TaskStatus.DONE):
        return
    if status is None:
        state = f"in an unknown state ({task.status!r})"
    else:
        state = status.value.replace("_", " ")
    verb = {TaskStatus.IN_PROGRESS: "started", TaskStatus.DONE: "finished"}.get(to, to.value)
    raise Refused(
        f"{task.id} is {state}: it cannot be {verb}",
        hint=f"`ralph task set {task.id} pending` makes it pending again",
    )


def with_member(task: Task, key: str, value: str) -> Task:
    """Return the task with one extra member set. An empty value changes nothing."""
    if not value:
        return task
    return replace(task, extra={**task.extra, key: value})


def check_links(board: Board, task: Task) -> None:
    """Check that a task's blockers and parent exist and form no cycle.

    Raises NotFound if one of them does not exist, and Refused if the task would wait for itself.
    """
    after = board.with_tasks([task])
    for task_id in (*task.blocked_by, task.parent):
        if task_id and not after.get(task_id):
            raise ids.not_found(
                "task",
                task_id,
                hint=Hint("find-task", "`ralph task list` shows all tasks"),
                known=board.locations,
            )
    cycle = after.cycle(task.id)
    if cycle:
        hint = "nothing was changed; choose another task"
        if len(set(cycle)) > 1:
            hint += ", or remove one of these links from its task.json"
        raise Refused(f"{task.id} would wait for itself: {' -> '.join(cycle)}", hint=hint)
