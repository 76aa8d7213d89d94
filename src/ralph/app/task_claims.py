"""Who works on which task: what the loop asks for, all of it atomic under the lock of the task's file.

The run is the owner: it may claim again what it holds (a resumed run has another process), and of two runs
exactly one gets a task. A claim counts until it expires, or until its process on this machine is dead; what no
longer counts is taken over by the next who needs it, never by mere readers. Whatever a run says about a task
that is no longer its own changes nothing: somebody else's word, or a person's, is newer. Each function may be
called again after a crash, with the same result. `tests/app/test_task_claims.py` proves it with processes.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from ralph.app import board, task_file
from ralph.app.board import Board, can_end, is_live, status_of
from ralph.app.task_file import ATTEMPT, FAILURE, REASON, moved, with_member
from ralph.model import ids
from ralph.model.work import Claim, Task, TaskStatus

LEASE = 1800.0
"""Seconds that a claim counts unless it is renewed."""

_OVER = (TaskStatus.DONE, TaskStatus.FAILED)


def claim_of(run: str, *, now: datetime | None = None, lease: float = LEASE) -> Claim:
    """The claim of a run that this process carries out."""
    return Claim(run, board.host(), os.getpid(), _until(now, lease))


def _until(now: datetime | None, lease: float) -> str:
    moment = (now or ids.now()) + timedelta(seconds=lease)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def claim(root: Path, task_id: str, claim: Claim, *, now: datetime | None = None, named: bool = False) -> Task | None:
    """Take a task to work on it; None when it is not to be had: done, ended, blocked, or in somebody else's hands.

    `named` says that a person named this task: then it is also taken when it failed, is blocked, or was begun by
    hand, but not from a run that lives. Whether its blockers are done is for `ready` to know.
    """
    moment = now or ids.now()
    got: list[bool] = []

    def edit(task: Task) -> Task:
        got[:] = [_is_free(task, claim.run, moment, named)]
        if not got[0]:
            return task
        if status_of(task) is TaskStatus.IN_PROGRESS and task.claim is not None and task.claim.run == claim.run:
            return replace(task, claim=claim)
        left = task.claim.run if task.claim is not None else ""
        base = task
        if status_of(task) is TaskStatus.IN_PROGRESS:  # its worker is gone; what is begun anew was pending
            base = replace(task, status=TaskStatus.PENDING.value)
        return moved(base, TaskStatus.IN_PROGRESS, by=claim.run, note=f"left by {left}" if left else "", claim=claim)

    task = task_file.change(root, task_id, edit)
    return task if got[0] else None


def _is_free(task: Task, run: str, now: datetime, named: bool) -> bool:
    if task.claim is not None and task.claim.run != run and is_live(task.claim, now):
        return False
    status = status_of(task)
    if status is TaskStatus.IN_PROGRESS:
        return task.claim is not None or named
    return status is TaskStatus.PENDING or (named and status in (TaskStatus.FAILED, TaskStatus.BLOCKED))


def renew(root: Path, task_id: str, run: str, *, now: datetime | None = None, lease: float = LEASE) -> bool:
    """Let the run's claim count for longer; False when the task is no longer its own."""
    return _if_held(root, task_id, run, lambda task, held: replace(task, claim=_longer(held, now, lease)))


def _longer(held: Claim, now: datetime | None, lease: float) -> Claim:
    return replace(held, host=board.host(), pid=os.getpid(), expires_at=_until(now, lease))


def release(root: Path, task_id: str, run: str, *, note: str = "") -> bool:
    """Give a task back unfinished: it is pending again; False when it was not the run's."""
    return _if_held(root, task_id, run, lambda task, _: _given_back(task, run, note))


def _given_back(task: Task, run: str, note: str = "") -> Task:
    if status_of(task) is not TaskStatus.IN_PROGRESS:
        return replace(task, claim=None)
    return moved(task, TaskStatus.PENDING, by=run, note=note or "given back")


def release_run(root: Path, run: str) -> list[str]:
    """Give back all that a dead run holds, and end what it left half ended; the ids of what was given back."""
    everything = board.read(root)
    held = [task.id for task in everything.tasks if task.claim is not None and task.claim.run == run]
    freed = [each for each in held if release(root, each, run, note="its run ended")]
    close_late(root)
    return freed


def finish(
    root: Path, task_id: str, status: TaskStatus, *, run: str, note: str = "", patterns: Sequence[str] = ()
) -> Task:
    """Say how a run's work on a task ended, and let go of it: done, failed, blocked, or pending to be tried again.

    The note of what did not work is kept as its last failure. When the task is another's by now, or a person has
    ended it, nothing changes: the task that is returned says how it stands.
    """
    from ralph.app import text_cleaning  # noqa: PLC0415  (listing does without it)

    words = text_cleaning.redact_note(note, patterns)

    def edit(task: Task) -> Task:
        held = task.claim is not None and task.claim.run == run
        now = status_of(task)
        if not held and (task.claim is not None or now in _OVER or now is status):
            return task
        if now is status and status is not TaskStatus.PENDING:
            return replace(task, claim=None)
        after = moved(task, status, by=run, note=words)
        if status is TaskStatus.DONE:
            return after
        after = with_member(after, FAILURE, words)
        return with_member(after, REASON, words) if status is TaskStatus.BLOCKED else after

    task = task_file.change(root, task_id, edit)
    close_parents(root, task, by=run)
    return task


def attempted(
    root: Path, task_id: str, run: str, *, iteration: int = 0, note: str = "", patterns: Sequence[str] = ()
) -> int:
    """Count one more attempt at a task that the run holds, with why it failed; how many there are now.

    An iteration counts once, however often it is told: a kill may come between counting it and noting that.
    """
    from ralph.app import text_cleaning  # noqa: PLC0415  (listing does without it)

    words = text_cleaning.redact_note(note, patterns)
    which = f"{run}/{iteration}" if iteration else ""

    def edit(task: Task) -> Task:
        if (task.claim is not None and task.claim.run != run) or (which and task.extra.get(ATTEMPT) == which):
            return task
        counted = with_member(replace(task, attempts=task.attempts + 1), FAILURE, words)
        return with_member(counted, ATTEMPT, which)

    return task_file.change(root, task_id, edit).attempts


def close_parents(root: Path, task: Task, *, by: str = "") -> list[Task]:
    """End the parents whose last child has been done, upward; gives those that were ended now.

    A parent that a person has failed or blocked, or that a run is working on, stays as it is.
    """
    closed: list[Task] = []
    seen: set[str] = set()
    at = task
    while at.parent and at.parent not in seen and status_of(at) is TaskStatus.DONE:
        seen.add(at.parent)
        everything = board.read(root)
        if at.parent not in everything.placed or not everything.has_done_all(at.parent):
            break
        at, did = _ended(root, at.parent, by)
        closed += [at] if did else []
    return closed


def close_late(root: Path) -> Board:
    """End the parents that somebody who was killed did not get to end; the board as it is then."""
    everything = board.read(root)
    while late := everything.late():
        ended = [did for task in late for _, did in [_ended(root, task.id, "")]]
        if not any(ended):
            break
        everything = board.read(root)
    return everything


def _ended(root: Path, task_id: str, by: str) -> tuple[Task, bool]:
    """A parent whose children are done, ended if it was still open; and whether it was."""
    did: list[bool] = []

    def edit(task: Task) -> Task:
        did[:] = [can_end(task) and not is_live(task.claim, ids.now())]
        return moved(task, TaskStatus.DONE, by=by, note="its last child is done") if did[0] else task

    return task_file.change(root, task_id, edit), did[0]


def _if_held(root: Path, task_id: str, run: str, edit: Callable[[Task, Claim], Task]) -> bool:
    """Change a task that the run holds; False, and no change, when it does not."""
    held: list[bool] = []

    def edited(task: Task) -> Task:
        held[:] = [task.claim is not None and task.claim.run == run]
        return edit(task, task.claim) if task.claim is not None and held[0] else task

    task_file.change(root, task_id, edited)
    return held[0]
