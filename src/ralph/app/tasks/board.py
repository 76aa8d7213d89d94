"""Read and change task.json files, and compute which tasks are ready.

A task is ready when it is pending (or its worker died), all its blockers are done, it has no open children, and
nothing holds its parent. A parent whose children are all done is ended by whoever ends the last one. Priority 1 comes
first, no priority last, then the older task. No task may wait for itself, through blockers and parents together.
A task changes only through `update`, under the lock of its file, with a line in its history.
"""

import contextlib
import os
import platform
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.errors import Conflict, NotFound, RalphError, Refused, Unreadable
from ralph.formats.work import parse_task, read_task, render_task
from ralph.model import ids
from ralph.model.work import Claim, Task, TaskStatus
from ralph.store import files
from ralph.store.gitignore import hide_state

_ALIASES = {
    "open": TaskStatus.PENDING, "todo": TaskStatus.PENDING, "new": TaskStatus.PENDING, "ready": TaskStatus.PENDING,
    "doing": TaskStatus.IN_PROGRESS, "started": TaskStatus.IN_PROGRESS, "active": TaskStatus.IN_PROGRESS,
    "complete": TaskStatus.DONE, "completed": TaskStatus.DONE, "closed": TaskStatus.DONE, "finished": TaskStatus.DONE,
}  # fmt: skip
"""Words that people and other tools write for the five states."""

RESET_PARENT = "alone"
"""The member of a parent that was reset after its children were done: it is to be done for itself."""

_STATES = {status.value: status for status in TaskStatus} | _ALIASES
_UNPRIORITISED = 2**63
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

_Node = tuple[str, bool]
"""A task's beginning (False) or its end (True)."""


@dataclass(frozen=True, slots=True)
class TaskLocation:
    """A task and the file that holds it."""

    task: Task
    path: Path


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A task.json that says no task, and why."""

    path: Path
    what: str


def status_of(task: Task) -> TaskStatus | None:
    """A task's state; None when the file has a word that nobody knows."""
    return _STATES.get(task.status.strip().casefold().replace("-", "_").replace(" ", "_"))


def parse_time(text: str) -> datetime:
    """A time that a file holds; what is no time counts as long ago."""
    try:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return _LONG_AGO


def is_time(text: str) -> bool:
    """Whether a text is a time."""
    return parse_time(text) is not _LONG_AGO


def sort_key(task: Task) -> tuple[int, datetime, str]:
    """What tasks are sorted by: priority (1 first, none last), age, id."""
    return task.priority if task.priority > 0 else _UNPRIORITISED, parse_time(task.created_at), task.id


def host_name() -> str:
    """The name of this machine, as claims have it."""
    return platform.node()


def is_live(claim: Claim | None, now: datetime) -> bool:
    """Whether somebody works on the task: the claim has not expired, and its process is not known to be dead."""
    if claim is None or parse_time(claim.expires_at) <= now:
        return False
    return claim.host != host_name() or _is_running(claim.pid)


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

    placed: Mapping[str, TaskLocation]
    unread: tuple[UnreadableFile, ...] = ()

    @cached_property
    def tasks(self) -> list[Task]:
        """Every task, in the order in which they should be done."""
        return sorted((each.task for each in self.placed.values()), key=sort_key)

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
        new = {
            task.id: TaskLocation(task, self.placed[task.id].path if task.id in self.placed else Path())
            for task in tasks
        }
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
            and (RESET_PARENT in task.extra or task.id not in self.children)
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
    return status_of(task) in (TaskStatus.PENDING, TaskStatus.IN_PROGRESS) and RESET_PARENT not in task.extra


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
    placed: dict[str, TaskLocation] = {}
    unread: list[UnreadableFile] = []
    for path in sorted(paths.tasks_folder(root).glob("*/task.json")):
        try:
            text = files.read(path)
        except RalphError as error:
            unread.append(UnreadableFile(path, error.message.removeprefix(f"{path}: ")))
            continue
        task = read_task(text) if text is not None else None
        if task is None:
            unread.append(UnreadableFile(path, _why(text or "")))
        elif task.id in placed and path.parent.name != task.id:
            unread.append(
                UnreadableFile(path, f"a second task has the id {task.id}, after {placed[task.id].path.parent.name}")
            )
        else:
            if task.id in placed:
                unread.append(UnreadableFile(placed[task.id].path, f"a second task has the id {task.id}"))
            placed[task.id] = TaskLocation(task, path)
    return Board(placed, tuple(unread))


def _why(text: str) -> str:
    """Why a text says no task."""
    problems = parse_task(text).problems
    serious = [problem for problem in problems if problem.level == "error"] or problems
    return f"line {serious[0].line}: {serious[0].what}" if serious else "it holds no task"


# --- one task's file ---------------------------------------------------------------------------

Edit = Callable[[Task], Task]
"""What becomes of a task; a pure function, as it may be called again."""

MAX_HISTORY = 100
"""Changes of state that a task's history holds; older ones go."""

HISTORY, FAILURE, REASON, ATTEMPT = "history", "last_failure", "blocked_reason", "last_attempt"
"""Members of task.json beside those that the format names."""

ALLOWED = {
    TaskStatus.PENDING: frozenset(TaskStatus),
    TaskStatus.IN_PROGRESS: frozenset({TaskStatus.PENDING, TaskStatus.BLOCKED, TaskStatus.FAILED}),
    TaskStatus.BLOCKED: frozenset({TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.FAILED}),
    TaskStatus.DONE: frozenset({TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED, TaskStatus.FAILED}),
    TaskStatus.FAILED: frozenset({TaskStatus.PENDING, TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED}),
}
"""From which states one may come to each; to pending (a reset) from everywhere, even from a word nobody knows."""

_SPOKEN = {
    TaskStatus.PENDING: "reset",
    TaskStatus.IN_PROGRESS: "started",
    TaskStatus.BLOCKED: "blocked",
    TaskStatus.DONE: "finished",
    TaskStatus.FAILED: "failed",
}
_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""An id that can be a folder's name on every system."""


def stamp() -> str:
    """The present moment as RFC 3339 text, fine enough that tasks made in one second keep their order."""
    return ids.now().isoformat(timespec="microseconds").replace("+00:00", "Z")


def is_folder_name(task_id: str) -> bool:
    """Whether an id can be a folder's name."""
    return _FOLDER.fullmatch(task_id) is not None and not task_id.endswith(".")


def find(root: Path, task_id: str) -> TaskLocation:
    """The task with this id: in the folder of its name, else wherever it stands; NotFound when nowhere."""
    if is_folder_name(task_id):
        path = paths.tasks_folder(root) / task_id / "task.json"
        text = files.read(path)
        task = read_task(text) if text is not None else None
        if task is not None and task.id == task_id:
            return TaskLocation(task, path)
    everything = read(root)
    if task_id in everything.placed:
        return everything.placed[task_id]
    for unread in everything.unread:
        if unread.path.parent.name == task_id:
            raise Unreadable(f"{unread.path}: {unread.what}", hint="mend the file by hand; it was left as it is")
    raise NotFound(f"there is no task {task_id}", hint="`ralph task list` names them")


class TaskUpdate(NamedTuple):
    """A task before and after a change."""

    before: Task
    after: Task


def update(root: Path, task_id: str, edit: Edit) -> TaskUpdate:
    """Replace a task by what `edit` makes of it, under the lock of its file; the same task writes nothing."""
    path = find(root, task_id).path

    def edit_text(text: str) -> tuple[str, TaskUpdate]:
        document = parse_task(text)
        before = document.task
        if before is None or before.id != task_id:
            raise Conflict(f"{path}: no longer holds the task {task_id}", hint="look at it and run the command again")
        after = edit(before)
        if after != before:
            after = replace(after, updated_at=stamp())
        return document.with_task(after).text, TaskUpdate(before, after)

    return files.update(path, edit_text, root=paths.main_checkout(root))


def change(root: Path, task_id: str, edit: Edit) -> Task:
    """Update a task, and return it as it is then."""
    return update(root, task_id, edit).after


def with_status(task: Task, to: TaskStatus, *, by: str = "", note: str = "", claim: Claim | None = None) -> Task:
    """The task in another state, with a line in its history; Refused when it cannot come there from where it is."""
    now = status_of(task)
    if now not in ALLOWED[to] and to is not TaskStatus.PENDING:
        state = now.value.replace("_", " ") if now is not None else f"in a state that nobody knows ({task.status!r})"
        raise Refused(
            f"{task.id} is {state}: it cannot be {_SPOKEN[to]}",
            hint=f"`ralph task reset {task.id}` makes it pending again",
        )
    extra = {key: value for key, value in task.extra.items() if key not in (REASON, RESET_PARENT)}
    if to is TaskStatus.DONE:
        extra.pop(FAILURE, None)
    line = {"at": stamp(), "from": task.status, "to": to.value, "by": by, "note": note}
    history = extra.get(HISTORY, [])
    if isinstance(history, list):  # else somebody has a member of his own by that name
        extra[HISTORY] = [*history, {key: value for key, value in line.items() if value}][-MAX_HISTORY:]
    return replace(task, status=to.value, claim=claim, extra=extra)


def with_member(task: Task, key: str, value: str) -> Task:
    """The task with one member beside those of the format; an empty text leaves it as it is."""
    return replace(task, extra={**task.extra, key: value}) if value else task


@contextlib.contextmanager
def lock_all(root: Path) -> Iterator[Board]:
    """All tasks as they are, while nobody else adds one or lets one wait for another."""
    folder = paths.tasks_folder(root)
    files.make_folder(folder, root=paths.main_checkout(root))
    hide_state(root)
    with files.lock(folder / "task.json"):
        yield read(root)


def fresh_id(everything: Board, folder: Path) -> str:
    """An id that neither a task nor a folder has; called within `together`."""
    while (minted := ids.short("t")) in everything.placed or (folder / minted).exists():
        pass
    return minted


def create(root: Path, task: Task) -> Path:
    """Write a new task's file into a folder of its name; called within `together`."""
    path = paths.tasks_folder(root) / task.id / "task.json"
    files.write(path, render_task(task), root=paths.main_checkout(root), expect="")
    return path


def delete_task(root: Path, task_id: str) -> None:
    """Remove a new task that could not be made whole, so that whoever tries again has it once."""
    folder = find(root, task_id).path.parent
    for path in sorted(folder.rglob("*"), reverse=True):  # what is within a folder comes before it
        if path.is_dir():
            files.remove_folder(path)
        else:
            files.delete(path)
    files.remove_folder(folder)


def check_links(everything: Board, tasks: Iterable[Task]) -> None:
    """Refuse tasks that wait for what is not there, or in the end for themselves."""
    after = everything.with_tasks(tasks)
    for task in tasks:
        unknown = [each for each in (*task.blocked_by, *([task.parent] if task.parent else [])) if not after.get(each)]
        if unknown:
            raise NotFound(f"{task.id} names {unknown[0]}, and there is no such task", hint="`ralph task list`")
        if way := after.cycle(task.id):
            raise Refused(
                f"{task.id} would wait for itself: {' -> '.join(way)}",
                hint="nothing was changed; choose another one, or take one of these links out of its task.json",
            )
