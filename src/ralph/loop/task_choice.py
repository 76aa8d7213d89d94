"""Choose the tasks that a run may work on, and explain why none is ready."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ralph.core.work import (
    Task,
    TaskStatus,
)
from ralph.loop.state import Run
from ralph.storage import board, task_files
from ralph.storage.board import Board
from ralph.tasks import task, worktree

_MAX_WAITING_TASKS = 3  # named when no task is ready


def remaining_tasks(root: Path, checkout: Path, run: Run) -> list[str]:
    """Return the ids of the tasks that a run may still work on, in order of preference.

    `root` is the project, and `checkout` is the folder that the run is working in. Tasks whose
    worktree cannot be used are skipped.
    """
    ended = {*run.done, *run.failed}
    return [name for name in _candidate_tasks(root, checkout, run) if name not in ended]


def _candidate_tasks(root: Path, checkout: Path, run: Run) -> list[str]:
    if run.only:
        return list(run.only)
    names = []
    if run.task:
        names.append(run.task)
    for work in task.ready(checkout):
        is_usable = worktree.find_problem(root, work, quick=True) is None
        if is_usable and _is_in_feature(work, run.feature):
            names.append(work.id)
    return names


def explain_waiting(root: Path, feature: str) -> str:
    """Explain why no task is ready, listing the unfinished tasks and their blockers."""
    everything = task_files.read_board(root)
    lines = []
    for work in everything.tasks:
        is_done = board.status_of(work) is TaskStatus.DONE
        if not is_done and _is_in_feature(work, feature):
            lines.append(_describe_waiting(everything, work))
    parts = ["no task is ready", *lines[:_MAX_WAITING_TASKS]]
    if len(lines) > _MAX_WAITING_TASKS:
        parts.append(f"{len(lines) - _MAX_WAITING_TASKS} more")
    return "; ".join(parts)


def _is_in_feature(work: Task, feature: str) -> bool:
    """Return whether a task belongs to the feature. Every task matches if no feature is given."""
    return not feature or work.feature == feature


def _describe_waiting(everything: Board, work: Task) -> str:
    """Describe the blockers of an unfinished task, and how to reopen it."""
    waits_for = list(_describe_prerequisites(everything, work))
    if waits_for:
        description = f"{work.id} waits for {', '.join(waits_for)}"
    else:
        description = f"{work.id} is {work.status}"
    if board.status_of(work) in (TaskStatus.FAILED, TaskStatus.BLOCKED):
        description += f"; `ralph task set {work.id} pending` reopens it"
    return description


def _describe_prerequisites(everything: Board, work: Task) -> Iterator[str]:
    for name in everything.waits_for(work):
        other = everything.get(name)
        if other is not None:
            yield f"{other.id} ({other.status})"
