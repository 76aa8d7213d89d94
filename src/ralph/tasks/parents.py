"""Close parents whose subtasks are all done, and reopen those of a task that was reset."""

from __future__ import annotations

from pathlib import Path

from ralph.core import ids
from ralph.core.work import Task, TaskStatus
from ralph.storage import board, task_files


def close_finished(root: Path, *, by: str = "") -> list[Task]:
    """Mark every parent whose subtasks are all done as done, up the tree, and return them.

    Parents that a run is working on are left alone.
    """

    def close(task: Task) -> Task:
        is_open = board.status_of(task) in (TaskStatus.PENDING, TaskStatus.IN_PROGRESS)
        if not is_open or board.is_live(task.claim, ids.now()):
            return task
        return board.with_status(task, TaskStatus.DONE, by=by, note="its last child is done")

    # Closing a parent may complete the parent above it, so repeat until nothing changes.
    closed: list[Task] = []
    while True:
        ended = []
        for task in task_files.read_board(root).parents_to_close():
            before, after = task_files.update_task(root, task.id, close)
            if after != before:
                ended.append(after)
        if not ended:
            return closed
        closed += ended


def reopen(root: Path, task: Task) -> list[Task]:
    """Make the finished parents above a task pending again, and return them."""

    def reopen_one(parent: Task) -> Task:
        if board.status_of(parent) is not TaskStatus.DONE:
            return parent
        return board.with_status(parent, TaskStatus.PENDING, note=f"{task.id} was reset")

    everything = task_files.read_board(root)
    reopened: list[Task] = []
    parent = everything.get(task.parent or "")
    while parent is not None and board.status_of(parent) is TaskStatus.DONE:
        reopened.append(task_files.change_task(root, parent.id, reopen_one))
        if len(reopened) >= len(everything.locations):  # the parents form a cycle
            break
        parent = everything.get(parent.parent or "")
    return reopened
