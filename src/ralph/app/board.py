"""Board: all tasks of a project at once, and which of them may be begun.

Every task.json is read once, whatever its folder is called; all else is computed from these values, in time
linear in their number. A task is ready when it is pending (or its worker died), all its blockers are done, it has
no children (or was reset after they were done), and nothing holds its parent: a blocker of the parent holds the
children too, and so does a parent that is done, failed or blocked. A parent whose children are all done is not
ready but `late`: it is about to be ended by whoever ended the last one, or by the next who looks.
Priority 1 comes first, then 2, 3 ...; a task without one (0) comes last; then the older one, then the smaller id.
So that something can always be begun, no task may wait for itself: `cycle` looks at blockers and parents
together, for a child that waits for its own parent never ends.
`tests/app/test_board.py` compares with a slow search on random boards.
"""

import os
import platform
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from ralph import paths
from ralph.errors import RalphError
from ralph.formats.work import parse_task, read_task
from ralph.model.work import Claim, Task, TaskStatus
from ralph.store import files

_ALIASES = {
    "open": TaskStatus.PENDING, "todo": TaskStatus.PENDING, "new": TaskStatus.PENDING, "ready": TaskStatus.PENDING,
    "doing": TaskStatus.IN_PROGRESS, "started": TaskStatus.IN_PROGRESS, "active": TaskStatus.IN_PROGRESS,
    "complete": TaskStatus.DONE, "completed": TaskStatus.DONE, "closed": TaskStatus.DONE, "finished": TaskStatus.DONE,
}  # fmt: skip
"""Words that people and other tools write for the five states."""

ALONE = "alone"
"""The member of a parent that was reset after its children were done: it is to be done for itself."""

_STATES = {status.value: status for status in TaskStatus} | _ALIASES
_UNPRIORITISED = 2**63
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_Node = tuple[str, bool]
"""A task's beginning (False) or its end (True)."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A task and the file that holds it."""

    task: Task
    path: Path


@dataclass(frozen=True, slots=True)
class Unread:
    """A task.json that says no task, and why."""

    path: Path
    what: str


def status_of(task: Task) -> TaskStatus | None:
    """A task's state; None when the file has a word that nobody knows."""
    return _STATES.get(task.status.strip().casefold().replace("-", "_").replace(" ", "_"))


def moment(text: str) -> datetime:
    """A time that a file holds; what is no time counts as long ago."""
    try:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return _LONG_AGO


def is_time(text: str) -> bool:
    """Whether a text is a time."""
    return moment(text) is not _LONG_AGO


def order(task: Task) -> tuple[int, datetime, str]:
    """What tasks are sorted by: priority (1 first, none last), age, id."""
    return task.priority if task.priority > 0 else _UNPRIORITISED, moment(task.created_at), task.id


def host() -> str:
    """The name of this machine, as claims have it."""
    return platform.node()


def is_live(claim: Claim | None, now: datetime) -> bool:
    """Whether somebody works on the task: the claim has not expired, and its process is not known to be dead."""
    if claim is None or moment(claim.expires_at) <= now:
        return False
    return claim.host != host() or _is_running(claim.pid)


def _is_running(pid: int) -> bool:
    if pid <= 0:  # to the kernel those are whole groups of processes
        return False
    if sys.platform == "win32":
        return True  # asking would end it; the claim expires
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


@dataclass(frozen=True)
class Board:
    """The tasks by their ids, and the files that could not be read."""

    placed: Mapping[str, Placed]
    unread: tuple[Unread, ...] = ()

    @cached_property
    def tasks(self) -> list[Task]:
        """Every task, in the order in which they should be done."""
        return sorted((each.task for each in self.placed.values()), key=order)

    @cached_property
    def children(self) -> Mapping[str, list[str]]:
        """The ids of each task's children."""
        found: dict[str, list[str]] = {}
        for each in self.placed.values():
            if each.task.parent:
                found.setdefault(each.task.parent, []).append(each.task.id)
        return found

    @cached_property
    def done(self) -> frozenset[str]:
        """The ids of the tasks that are done."""
        return frozenset(each.id for each in self.tasks if status_of(each) is TaskStatus.DONE)

    def get(self, task_id: str) -> Task | None:
        """The task with this id."""
        each = self.placed.get(task_id)
        return None if each is None else each.task

    def has_done_all(self, task_id: str) -> bool:
        """Whether a task has children, and all of them are done."""
        children = self.children.get(task_id, [])
        return bool(children) and all(each in self.done for each in children)

    def with_tasks(self, tasks: Iterable[Task]) -> "Board":
        """The board as it would be with these tasks in their new state."""
        new = {task.id: Placed(task, self.placed[task.id].path if task.id in self.placed else Path()) for task in tasks}
        return Board({**self.placed, **new}, self.unread)

    def waits_for(self, task: Task) -> tuple[str, ...]:
        """What holds a task: blockers that are not done, open children, its parent when something holds that."""
        blockers = [each for each in task.blocked_by if each not in self.done]
        open_children = [each for each in self.children.get(task.id, ()) if each not in self.done]
        above = [task.parent] if task.parent and task.parent in self._held else []
        return tuple(dict.fromkeys([*blockers, *open_children, *above]))

    def ready(self, now: datetime) -> list[Task]:
        """The tasks that may be begun now, the next one first."""
        return [
            task
            for task in self.tasks
            if _is_free(task, now)
            and not self.waits_for(task)
            and (ALONE in task.extra or task.id not in self.children)
        ]

    def late(self) -> list[Task]:
        """The parents that are open though all their children are done."""
        ids = [each for each in self.children if each in self.placed and self.has_done_all(each)]
        return [task for task in map(self.get, ids) if task is not None and can_end(task)]

    @cached_property
    def _held(self) -> set[str]:
        """The parents whose children cannot be begun: ended, blocked, waiting, gone, or below such a one."""
        known: dict[str, bool] = {}
        for start in self.children:
            chain: list[str] = []
            at: str | None = start
            while at and at not in known:
                known[at] = self._is_held(at)
                chain.append(at)
                task = self.get(at)
                at = task.parent if task is not None else None
            held = bool(at) and known.get(at or "", False)
            for each in reversed(chain):
                known[each] = held = known[each] or held
        return {each for each, held in known.items() if held}

    def _is_held(self, task_id: str) -> bool:
        """Whether a parent by itself holds its children."""
        task = self.get(task_id)
        if task is None or status_of(task) not in (TaskStatus.PENDING, TaskStatus.IN_PROGRESS):
            return True
        return any(each not in self.done for each in task.blocked_by)

    def cycle(self, task_id: str) -> tuple[str, ...]:
        """The tasks through which one waits for itself, from it to itself again; () when it does not."""
        for start in ((task_id, False), (task_id, True)):
            before: dict[_Node, _Node] = {}
            queue = deque([start])
            while queue:
                node = queue.popleft()
                for needed in self._needs(node):
                    if needed == start:
                        return _named(start, node, before)
                    if needed not in before:
                        before[needed] = node
                        queue.append(needed)
        return ()

    def tangled(self) -> set[str]:
        """The ids of tasks that can never end because they, or what they wait for, wait for themselves."""
        needs = {(name, end): list(self._needs((name, end))) for name in self.placed for end in (False, True)}
        needed_by: dict[_Node, list[_Node]] = {}
        for node, others in needs.items():
            for other in others:
                needed_by.setdefault(other, []).append(node)
        missing = {node: len(others) for node, others in needs.items()}
        free = [node for node, count in missing.items() if count == 0]
        while free:
            for node in needed_by.get(free.pop(), ()):
                missing[node] -= 1
                if missing[node] == 0:
                    free.append(node)
        return {name for (name, _), count in missing.items() if count}

    def _needs(self, node: _Node) -> Iterator[_Node]:
        """What must be so before a task begins (its blockers ended, its parent may begin) or ends (its children)."""
        name, is_end = node
        task = self.get(name)
        if task is None:
            return
        if is_end:
            yield name, False
            yield from ((child, True) for child in self.children.get(name, ()))
        else:
            yield from ((each, True) for each in task.blocked_by if each in self.placed)
            if task.parent and task.parent in self.placed:
                yield task.parent, False


def can_end(task: Task) -> bool:
    """Whether a parent ends by itself once its children are done; not when somebody stopped it or wants it alone."""
    return status_of(task) in (TaskStatus.PENDING, TaskStatus.IN_PROGRESS) and ALONE not in task.extra


def _named(start: _Node, last: _Node, before: Mapping[_Node, _Node]) -> tuple[str, ...]:
    """The names along a way that was found, without a task's beginning after its end."""
    way = [start, last]
    while way[-1] != start:
        way.append(before[way[-1]])
    names = [name for name, _ in reversed(way)]
    told = [name for place, name in enumerate(names) if place == 0 or name != names[place - 1]]
    return tuple(told) if len(told) > 1 else (told[0], told[0])


def _is_free(task: Task, now: datetime) -> bool:
    """Whether nobody works on it, and nobody has ended or stopped it."""
    status = status_of(task)
    if status is TaskStatus.IN_PROGRESS:  # without a claim a person does it
        return task.claim is not None and not is_live(task.claim, now)
    return status is TaskStatus.PENDING and not is_live(task.claim, now)


def read(root: Path) -> Board:
    """Read every task of a project; the folder's name does not matter, of two with one id the first counts."""
    placed: dict[str, Placed] = {}
    unread: list[Unread] = []
    for path in sorted(paths.tasks_folder(root).glob("*/task.json")):
        try:
            text = files.read(path)
        except RalphError as error:
            unread.append(Unread(path, error.message.removeprefix(f"{path}: ")))
            continue
        task = read_task(text) if text is not None else None
        if task is None:
            unread.append(Unread(path, _why(text or "")))
        elif task.id in placed and path.parent.name != task.id:
            unread.append(Unread(path, f"a second task has the id {task.id}, after {placed[task.id].path.parent.name}"))
        else:
            if task.id in placed:
                unread.append(Unread(placed[task.id].path, f"a second task has the id {task.id}"))
            placed[task.id] = Placed(task, path)
    return Board(placed, tuple(unread))


def _why(text: str) -> str:
    """Why a text says no task."""
    problems = parse_task(text).problems
    serious = [problem for problem in problems if problem.level == "error"] or problems
    return f"line {serious[0].line}: {serious[0].what}" if serious else "it holds no task"
