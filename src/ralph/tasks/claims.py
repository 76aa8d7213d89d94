"""The claims with which runs reserve tasks, and the results that runs report.

A claim belongs to a run and its process. It is valid until it expires or the process dies, and the
run renews it while it works. A claim that is no longer valid can be taken over by another run.

Every function here may be called by a run that has lost its claim without knowing it. Such a call
must not change a task that another run holds by now.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from ralph.core import ids
from ralph.core.work import Claim, Task, TaskStatus
from ralph.privacy import privacy
from ralph.storage import board, task_files
from ralph.tasks import parents

LEASE_SECONDS = 1800.0  # how long a claim is valid unless it is renewed
_ENDED = (TaskStatus.DONE, TaskStatus.FAILED)


def make_claim(run: str, *, now: datetime | None = None, lease: float = LEASE_SECONDS) -> Claim:
    """Return a claim for a run that is executed by this process."""
    expires_at = (now or ids.now()) + timedelta(seconds=lease)
    return Claim(run, board.host_name(), os.getpid(), ids.timestamp(expires_at))


def _is_held_by(run: str, task: Task) -> bool:
    return task.claim is not None and task.claim.run == run


def acquire(
    root: Path, task_id: str, claim: Claim, *, now: datetime | None = None, named: bool = False
) -> Task | None:
    """Claim a task for a run, and return the task with its claim.

    Returns None if the task has ended, is blocked, or is being worked on by someone else. `named`
    means that a person chose the task, so it may have failed, be blocked, or have been started by
    hand. The tasks in `blocked_by` are not checked.
    """

    def edit(task: Task) -> Task:
        status = board.status_of(task)
        holder = task.claim.run if task.claim is not None else ""
        if holder == claim.run and status is TaskStatus.IN_PROGRESS:
            return replace(task, claim=claim)
        if holder not in ("", claim.run) and board.is_live(task.claim, now or ids.now()):
            return task
        if not _can_be_claimed(status, holder, named):
            return task
        if status is TaskStatus.IN_PROGRESS:
            task = replace(task, status=TaskStatus.PENDING.value)
        note = f"left by {holder}" if holder else ""
        return board.with_status(task, TaskStatus.IN_PROGRESS, by=claim.run, note=note, claim=claim)

    after = task_files.change_task(root, task_id, edit)
    if after.claim != claim:
        return None
    return after


def _can_be_claimed(status: TaskStatus | None, holder: str, named: bool) -> bool:
    """Return whether a run may claim a task with this status that has no live claim.

    `holder` is the run of its dead claim, or "". `named` means that a person chose the task.
    """
    if status is TaskStatus.PENDING:
        return True
    if status is TaskStatus.IN_PROGRESS and holder:  # its run died
        return True
    return named and status not in (None, TaskStatus.DONE)


def renew(
    root: Path, task_id: str, run: str, *, now: datetime | None = None, lease: float = LEASE_SECONDS
) -> bool:
    """Extend a run's claim. Returns False if the run no longer holds the task."""
    extended = make_claim(run, now=now, lease=lease)

    def edit(task: Task) -> Task:
        if not _is_held_by(run, task):
            return task
        return replace(task, claim=extended)

    return _is_held_by(run, task_files.change_task(root, task_id, edit))


def release_all(root: Path, run: str) -> list[str]:
    """Release all tasks held by a run that has ended, and return their ids.

    Parents whose subtasks are all done are marked as done.
    """

    def release(task: Task) -> Task:
        if not _is_held_by(run, task):
            return task
        if board.status_of(task) is not TaskStatus.IN_PROGRESS:
            return replace(task, claim=None)
        return board.with_status(task, TaskStatus.PENDING, by=run, note="its run ended")

    released = []
    for task in task_files.read_board(root).tasks:
        if not _is_held_by(run, task):
            continue
        before, _ = task_files.update_task(root, task.id, release)
        if _is_held_by(run, before):  # otherwise another process was faster
            released.append(task.id)
    parents.close_finished(root)
    return released


def finish(
    root: Path,
    task_id: str,
    status: TaskStatus,
    *,
    run: str,
    note: str = "",
    patterns: Sequence[str] = (),
) -> Task:
    """Store how a run's work on a task ended, and release the task.

    A task that is held by another run, or that has already ended, is left unchanged.
    """
    note = privacy.redact_note(note, patterns)

    def edit(task: Task) -> Task:
        current = board.status_of(task)
        is_settled = task.claim is not None or current in _ENDED or current is status
        if is_settled and not _is_held_by(run, task):
            return task
        if current is status and status is not TaskStatus.PENDING:
            return replace(task, claim=None)
        after = board.with_status(task, status, by=run, note=note)
        if status is TaskStatus.DONE:
            return after
        after = board.with_member(after, board.FAILURE_MEMBER, note)
        if status is TaskStatus.BLOCKED:
            after = board.with_member(after, board.REASON_MEMBER, note)
        return after

    task = task_files.change_task(root, task_id, edit)
    if task.parent and board.status_of(task) is TaskStatus.DONE:
        parents.close_finished(root, by=run)
    return task


def count_attempt(
    root: Path,
    task_id: str,
    run: str,
    *,
    iteration: int = 0,
    note: str = "",
    patterns: Sequence[str] = (),
) -> int:
    """Count a failed attempt and store its reason, and return the number of attempts.

    The same iteration of a run is counted only once.
    """
    note = privacy.redact_note(note, patterns)
    attempt = f"{run}/{iteration}" if iteration else ""

    def edit(task: Task) -> Task:
        if attempt and task.extra.get(board.ATTEMPT_MEMBER) == attempt:
            return task  # already counted; the process was killed before it could record that
        if task.claim is not None and not _is_held_by(run, task):
            return task
        after = board.with_member(
            replace(task, attempts=task.attempts + 1), board.FAILURE_MEMBER, note
        )
        return board.with_member(after, board.ATTEMPT_MEMBER, attempt)

    return task_files.change_task(root, task_id, edit).attempts
