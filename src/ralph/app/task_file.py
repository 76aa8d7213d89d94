"""One task's file: where it is, how it changes under its lock, and which change of state is allowed.

`change` is the only way from a task to its next state: the file is read under the lock of its folder, a pure
function says what becomes of the task, and the codec writes the members that differ. What the function saw is
what is replaced, so two processes never both win. A change of state leaves a line in the task's `history`, in
the same write, so that state and history cannot disagree. New tasks and new dependencies are checked under the
lock of the folder of all tasks (`together`), as they depend on what others say at that moment.
`tests/app/test_task_claims.py` runs processes against each other and kills one at every line.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ralph import paths
from ralph.app import board
from ralph.app.board import Board, Placed, status_of
from ralph.errors import Conflict, NotFound, Refused, Unreadable
from ralph.formats.work import parse_task, read_task, render_task
from ralph.model import ids
from ralph.model.work import Claim, Task, TaskStatus
from ralph.store import files

Edit = Callable[[Task], Task]
"""What becomes of a task; a pure function, as it may be called again."""

KEPT = 100
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


def is_name(task_id: str) -> bool:
    """Whether an id can be a folder's name."""
    return _FOLDER.fullmatch(task_id) is not None and not task_id.endswith(".")


def find(root: Path, task_id: str) -> Placed:
    """The task with this id: in the folder of its name, else wherever it stands; NotFound when nowhere."""
    if is_name(task_id):
        path = paths.tasks_folder(root) / task_id / "task.json"
        text = files.read(path)
        task = read_task(text) if text is not None else None
        if task is not None and task.id == task_id:
            return Placed(task, path)
    everything = board.read(root)
    if task_id in everything.placed:
        return everything.placed[task_id]
    for unread in everything.unread:
        if unread.path.parent.name == task_id:
            raise Unreadable(f"{unread.path}: {unread.what}", hint="mend the file by hand; it was left as it is")
    raise NotFound(f"there is no task {task_id}", hint="`ralph task list` names them")


def change(root: Path, task_id: str, edit: Edit) -> Task:
    """Replace a task by what `edit` makes of it, under the lock of its file; the same task writes nothing."""
    place = find(root, task_id).path
    result: list[Task] = []

    def edited(text: str) -> str:
        document = parse_task(text)
        if document.task is None or document.task.id != task_id:
            raise Conflict(f"{place}: no longer holds the task {task_id}", hint="look at it and run the command again")
        after = edit(document.task)
        if after != document.task:
            after = replace(after, updated_at=stamp())
        result[:] = [after]
        return document.with_task(after).text

    files.update(place, edited, root=paths.main_checkout(root))
    return result[0]


def moved(task: Task, to: TaskStatus, *, by: str = "", note: str = "", claim: Claim | None = None) -> Task:
    """The task in another state, with a line in its history; Refused when it cannot come there from where it is."""
    now = status_of(task)
    if now not in ALLOWED[to] and to is not TaskStatus.PENDING:
        state = now.value.replace("_", " ") if now is not None else f"in a state that nobody knows ({task.status!r})"
        raise Refused(
            f"{task.id} is {state}: it cannot be {_SPOKEN[to]}",
            hint=f"`ralph task reset {task.id}` makes it pending again",
        )
    extra = {key: value for key, value in task.extra.items() if key not in (REASON, board.ALONE)}
    if to is TaskStatus.DONE:
        extra.pop(FAILURE, None)
    line = {"at": stamp(), "from": task.status, "to": to.value, "by": by, "note": note}
    history = extra.get(HISTORY, [])
    if isinstance(history, list):  # else somebody has a member of his own by that name
        extra[HISTORY] = [*history, {key: value for key, value in line.items() if value}][-KEPT:]
    return replace(task, status=to.value, claim=claim, extra=extra)


def with_member(task: Task, key: str, value: str) -> Task:
    """The task with one member beside those of the format; an empty text leaves it as it is."""
    return replace(task, extra={**task.extra, key: value}) if value else task


@contextlib.contextmanager
def together(root: Path) -> Iterator[Board]:
    """All tasks as they are, while nobody else adds one or lets one wait for another."""
    folder = paths.tasks_folder(root)
    files.make_folder(folder, root=paths.main_checkout(root))
    keep_out_of_git(root)
    with files.lock(folder / "task.json"):
        yield board.read(root)


def keep_out_of_git(root: Path) -> None:
    """Tasks stay on this machine also where `ralph init` has not been yet."""
    ignore = paths.gitignore(paths.main_checkout(root))
    if not ignore.exists() and not ignore.is_symlink():
        with contextlib.suppress(Conflict):  # another process was faster
            from ralph.app.project import UNTIL_INIT  # noqa: PLC0415  (listing does without it)

            files.write(ignore, UNTIL_INIT, root=paths.main_checkout(root), expect="")


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


def take_back(root: Path, task_id: str) -> None:
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
