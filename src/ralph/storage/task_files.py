"""Read and write task.json files.

Each task has a folder named after its id, below `.ralph/tasks/` of the main checkout. A task is
changed only through `update_task`, under the lock of its folder. Links between tasks are changed
only within `lock_board`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import Conflict, Hint, RalphError, Unreadable
from ralph.core.work import Task
from ralph.formats.task_files import parse_task, render_task
from ralph.storage import files
from ralph.storage.board import Board, TaskLocation, UnreadableFile, precise_timestamp
from ralph.storage.gitignore import ensure_gitignore

_FOLDER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")  # valid on every system
Edit = Callable[[Task], Task]
"""Returns the changed task. It must be pure, because it may be called again."""


def read_board(root: Path) -> Board:
    """Read every task of a project."""
    locations: dict[str, TaskLocation] = {}
    unreadable = []
    for path in sorted(paths.tasks_folder(root).glob("*/task.json")):
        task = _read_task(path)
        if isinstance(task, UnreadableFile):
            unreadable.append(task)
        else:
            locations[task.id] = TaskLocation(task, path)
    return Board(locations, tuple(unreadable))


def _read_task(path: Path) -> Task | UnreadableFile:
    try:
        document = parse_task(files.read(path) or "")
    except RalphError as error:
        return UnreadableFile(path, error.message.removeprefix(f"{path}: "))
    task = document.task
    if task is None:
        if not document.problems:
            return UnreadableFile(path, "it does not contain a task")
        worst = min(document.problems, key=lambda problem: problem.level != "error")
        return UnreadableFile(path, f"line {worst.line}: {worst.what}")
    if task.id != path.parent.name:
        return UnreadableFile(path, f"its id {task.id} is not the name of its folder")
    return task


def _task_ids(root: Path) -> list[str]:
    folder = task_file(root, "t-0").parent.parent
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir())


def find_task(root: Path, task_id: str) -> TaskLocation:
    """Find a task by id.

    Raises NotFound if there is no such task, and Unreadable if its file is damaged.
    """
    path = task_file(root, task_id)
    if not is_folder_name(task_id) or not path.exists():
        raise ids.not_found(
            "task",
            task_id,
            hint=Hint("find-task", "`ralph task list` shows the ids"),
            known=_task_ids(root),
        )
    task = _read_task(path)
    if isinstance(task, UnreadableFile):
        raise Unreadable(f"{path}: {task.what}", hint="fix the file by hand; it was not changed")
    return TaskLocation(task, path)


def task_file(root: Path, task_id: str) -> Path:
    """Return the path of a task's file, in the folder named after its id."""
    return paths.tasks_folder(root) / task_id / "task.json"


def is_folder_name(task_id: str) -> bool:
    """Return whether an id can be used as a folder name."""
    return _FOLDER_NAME.fullmatch(task_id) is not None and not task_id.endswith(".")


def update_task(root: Path, task_id: str, edit: Edit) -> tuple[Task, Task]:
    """Replace a task with `edit(task)` while holding its lock.

    Return the task as it was before and after. Raises the same errors as `find_task`, and Conflict
    if the file no longer contains this task.
    """
    path = find_task(root, task_id).path

    def edit_text(text: str) -> tuple[str, tuple[Task, Task]]:
        document = parse_task(text)
        before = document.task
        if before is None or before.id != task_id:
            raise Conflict(
                f"{path} no longer contains the task {task_id}",
                hint="check the file and run the command again",
            )
        after = edit(before)
        if after != before:
            after = replace(after, updated_at=precise_timestamp())
        return document.with_task(after).text, (before, after)

    _, changed = files.update(path, edit_text, root=paths.main_checkout(root))
    return changed


def change_task(root: Path, task_id: str, edit: Edit) -> Task:
    """Update a task and return the new version. Raises the same errors as `update_task`."""
    _, after = update_task(root, task_id, edit)
    return after


@contextlib.contextmanager
def lock_board(root: Path) -> Iterator[Board]:
    """Hold the lock on the links between all tasks, and yield the board."""
    folder = paths.tasks_folder(root)
    files.make_folder(folder, root=paths.main_checkout(root))
    ensure_gitignore(root)
    with files.lock(folder / "task.json"):
        yield read_board(root)


def unused_id(board: Board, folder: Path) -> str:
    """Return an id that no task or folder uses yet. Call this within `lock_board`."""
    while True:
        task_id = ids.short("t")
        if task_id not in board.locations and not (folder / task_id).exists():
            return task_id


def create_task(root: Path, task: Task) -> None:
    """Write the file of a new task. Call this within `lock_board`."""
    path = task_file(root, task.id)
    files.write(path, render_task(task), root=paths.main_checkout(root), expect="")


def delete_task(root: Path, task_id: str) -> None:
    """Remove the folder of a new task that could not be completed."""
    folder = find_task(root, task_id).path.parent
    for path in sorted(folder.rglob("*"), reverse=True):  # contents before their folder
        if path.is_dir():
            files.remove_folder(path)
        else:
            files.delete(path)
    files.remove_folder(folder)
