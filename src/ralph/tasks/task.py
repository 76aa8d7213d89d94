"""Implement `ralph task`, and the claims with which runs reserve tasks.

A claim is valid until it expires or its process dies. A person who starts a task by hand makes no
claim, and runs do not pick up such a task on their own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Hint, RalphError, Refused
from ralph.core.record import Family, Record
from ralph.core.work import Claim, Story, Task, TaskStatus, ignore_text
from ralph.formats.work import parse_prd
from ralph.storage import board, files, queries, query_filters, task_files

if TYPE_CHECKING:
    import sqlite3

    from ralph.learning.review import Promotion

LEASE = 1800.0  # seconds for which a claim is valid unless it is renewed
_ENDED = (TaskStatus.DONE, TaskStatus.FAILED)


class ListedTask(NamedTuple):
    """A task in a listing, with what it waits for and whether it can be started."""

    task: Task
    waits_for: tuple[str, ...] = ()
    is_ready: bool = False
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task after an operation, whether it changed, and the parents that changed with it."""

    task: Task
    changed: bool = True
    parents: tuple[Task, ...] = ()
    private_parts: int = 0


class TaskView(NamedTuple):
    """A task with its blockers, subtasks and stories."""

    listed: ListedTask
    path: Path
    blockers: tuple[tuple[str, Task | None], ...] = ()
    children: tuple[Task, ...] = ()
    stories: tuple[Story, ...] = ()


# --- claims --------------------------------------------------------------------------------------


def claim_of(run: str, *, now: datetime | None = None, lease: float = LEASE) -> Claim:
    """Return a claim for a run that is executed by this process."""
    expires_at = (now or ids.now()) + timedelta(seconds=lease)
    return Claim(run, board.host_name(), os.getpid(), ids.timestamp(expires_at))


def _holds(run: str, task: Task) -> bool:
    return task.claim is not None and task.claim.run == run


def claim(
    root: Path, task_id: str, claim: Claim, *, now: datetime | None = None, named: bool = False
) -> Task | None:
    """Claim a task, and return it with the claim.

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
    """Return whether a run may claim a task in this state. The task must have no live claim."""
    if status is TaskStatus.PENDING:
        return True
    if status is TaskStatus.IN_PROGRESS and holder:  # its run died
        return True
    return named and status not in (None, TaskStatus.DONE)


def renew(
    root: Path, task_id: str, run: str, *, now: datetime | None = None, lease: float = LEASE
) -> bool:
    """Extend a run's claim. Returns False if the run no longer holds the task."""
    extended = claim_of(run, now=now, lease=lease)

    def edit(task: Task) -> Task:
        if not _holds(run, task):
            return task
        return replace(task, claim=extended)

    return _holds(run, task_files.change_task(root, task_id, edit))


def release_run(root: Path, run: str) -> list[str]:
    """Release all tasks held by a run that has ended, and return their ids.

    Parents whose subtasks are all done are marked as done.
    """

    def release(task: Task) -> Task:
        if not _holds(run, task):
            return task
        if board.status_of(task) is not TaskStatus.IN_PROGRESS:
            return replace(task, claim=None)
        return board.with_status(task, TaskStatus.PENDING, by=run, note="its run ended")

    released = []
    for task in task_files.read_board(root).tasks:
        if not _holds(run, task):
            continue
        before, _ = task_files.update_task(root, task.id, release)
        if _holds(run, before):  # otherwise another process was faster
            released.append(task.id)
    close_parents(root)
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
    from ralph.privacy import privacy

    note = privacy.redact_note(note, patterns)

    def edit(task: Task) -> Task:
        current = board.status_of(task)
        is_settled = task.claim is not None or current in _ENDED or current is status
        if is_settled and not _holds(run, task):
            return task
        if current is status and status is not TaskStatus.PENDING:
            return replace(task, claim=None)
        after = board.with_status(task, status, by=run, note=note)
        if status is TaskStatus.DONE:
            return after
        after = board.with_member(after, board.FAILURE, note)
        if status is TaskStatus.BLOCKED:
            after = board.with_member(after, board.REASON, note)
        return after

    task = task_files.change_task(root, task_id, edit)
    if task.parent and board.status_of(task) is TaskStatus.DONE:
        close_parents(root, by=run)
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
    from ralph.privacy import privacy

    note = privacy.redact_note(note, patterns)
    attempt = f"{run}/{iteration}" if iteration else ""

    def edit(task: Task) -> Task:
        if attempt and task.extra.get(board.ATTEMPT) == attempt:
            return task  # already counted; the process was killed before it could record that
        if task.claim is not None and not _holds(run, task):
            return task
        after = board.with_member(replace(task, attempts=task.attempts + 1), board.FAILURE, note)
        return board.with_member(after, board.ATTEMPT, attempt)

    return task_files.change_task(root, task_id, edit).attempts


def close_parents(root: Path, *, by: str = "") -> list[Task]:
    """Mark every parent whose subtasks are all done as done, up the tree, and return them.

    Parents that a run is working on are left alone.
    """

    def end(task: Task) -> Task:
        is_open = board.status_of(task) in (TaskStatus.PENDING, TaskStatus.IN_PROGRESS)
        if not is_open or board.is_live(task.claim, ids.now()):
            return task
        return board.with_status(task, TaskStatus.DONE, by=by, note="its last child is done")

    closed: list[Task] = []
    while True:
        ended = []
        for task in task_files.read_board(root).late():
            before, after = task_files.update_task(root, task.id, end)
            if after != before:
                ended.append(after)
        if not ended:
            return closed
        closed += ended


# --- add and list --------------------------------------------------------------------------------


def add(
    root: Path,
    title: str,
    description: str = "",
    *,
    prd: str | None = None,
    in_worktree: bool = False,
    priority: int = 0,
    blocked_by: Sequence[str] = (),
    parent: str | None = None,
    feature_id: str | None = None,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
    tell: Callable[[str], None] = ignore_text,
    by: str = "",
) -> TaskChange:
    """Add a task, optionally with a PRD and a worktree.

    Raises Refused if the PRD, the priority, the parent or a blocker is invalid. If the PRD or the
    worktree cannot be created, no task is added.
    """
    from ralph.memory import quarantine
    from ralph.privacy import privacy
    from ralph.tasks import feature, progress

    requirements = None
    if prd is not None:
        requirements = progress.read_prd(prd, allow_secret, patterns)
        description = description or requirements.description
    clean_title = privacy.clean_title(title, allow_secret=allow_secret, patterns=patterns)
    clean_description = privacy.clean_description(
        description, "description", allow_secret=allow_secret, patterns=patterns
    )
    if priority < 0:
        raise Refused(
            f"{priority} is not a valid priority",
            hint="1 is the most urgent; 0 means none and comes last",
        )
    if feature_id:
        feature.find(root, feature_id)
    with task_files.lock_all(root) as everything:
        _check_parent(everything, parent)
        now = board.stamp()
        task = Task(
            task_files.fresh_id(everything, paths.tasks_folder(root)),
            clean_title.text,
            clean_description.text,
            priority=priority,
            blocked_by=tuple(dict.fromkeys(blocked_by)),
            parent=parent or None,
            feature=feature_id or None,
            created_at=now,
            updated_at=now,
        )
        board.check_links(everything, task)
        task_files.create_task(root, task)
    if requirements is not None or in_worktree:
        try:
            task = progress.set_up(root, task.id, requirements, in_worktree=in_worktree, tell=tell)
        except RalphError:
            task_files.delete_task(root, task.id)
            raise
    quarantine.accept_titles(root, by, task.title)
    return TaskChange(task, private_parts=clean_title.private + clean_description.private)


def _check_parent(everything: board.Board, parent_id: str | None) -> None:
    """Raise Refused if the parent has ended."""
    parent = everything.get(parent_id) if parent_id else None
    if parent is not None and board.status_of(parent) in _ENDED:
        raise Refused(
            f"{parent.id} is {parent.status} and cannot get more subtasks",
            hint=f"run `ralph task reset {parent.id}` first, or omit the parent",
        )


def list_(
    root: Path, *, status: TaskStatus | None = None, feature_id: str = "", only_ready: bool = False
) -> tuple[list[ListedTask], tuple[board.UnreadableFile, ...]]:
    """Return the tasks in the order to do them, and the files that could not be read."""
    everything = task_files.read_board(root)
    tasks = []
    for listed in _list_board(everything):
        if status is not None and board.status_of(listed.task) is not status:
            continue
        if feature_id and listed.task.feature != feature_id:
            continue
        if only_ready and not listed.is_ready:
            continue
        tasks.append(listed)
    return tasks, everything.unread


def _list_board(everything: board.Board) -> Iterator[ListedTask]:
    now = ids.now()
    ready_ids = {task.id for task in everything.ready(now)}
    for task in everything.tasks:
        waits_for = () if board.status_of(task) in _ENDED else everything.waits_for(task)
        yield ListedTask(task, waits_for, task.id in ready_ids, board.is_live(task.claim, now))


def ready(root: Path, *, now: datetime | None = None) -> list[Task]:
    """Return the tasks that can be started now, in the order to do them.

    Before that, parents whose subtasks are all done are marked as done.
    """
    close_parents(root)
    return task_files.read_board(root).ready(now or ids.now())


def show(root: Path, task_id: str) -> TaskView:
    """Return a task with its blockers, subtasks and stories."""
    location = task_files.find_task(root, task_id)
    everything = task_files.read_board(root)
    prd = files.read(location.path.with_name("prd.json"))
    return TaskView(
        listed=next(item for item in _list_board(everything) if item.task.id == task_id),
        path=location.path,
        blockers=tuple((blocker, everything.get(blocker)) for blocker in location.task.blocked_by),
        children=tuple(other for other in everything.tasks if other.parent == task_id),
        stories=parse_prd(prd).stories if prd is not None else (),
    )


# --- change the state ----------------------------------------------------------------------------


def start(root: Path, task_id: str) -> TaskChange:
    """Start a task by hand.

    Raises Refused if the task is waiting for another one, or if a run is working on it.
    """
    everything = task_files.read_board(root)

    def edit(task: Task) -> Task:
        _check_free(task)
        if board.status_of(task) is TaskStatus.IN_PROGRESS:
            return replace(task, claim=None)
        blockers = [blocker for blocker in task.blocked_by if blocker not in everything.done]
        if blockers:
            path = task_files.find_task(root, task_id).path
            raise Refused(
                f"{task_id} waits for {', '.join(blockers)}",
                hint=f"finish that first, or remove it from `blocked_by` in {path}",
            )
        return board.with_status(task, TaskStatus.IN_PROGRESS)

    return _change(root, task_id, edit)


def done(root: Path, task_id: str) -> TaskChange:
    """Mark a task as done, and its parent too if that was the last open subtask.

    Raises Refused if the task has subtasks that are not done.
    """
    everything = task_files.read_board(root)

    def edit(task: Task) -> Task:
        children = everything.children.get(task_id, ())
        unfinished = [child for child in children if child not in everything.done]
        if unfinished:
            raise Refused(
                f"{task_id} has subtasks that are not done: {', '.join(unfinished)}",
                hint=f"finish them, and {task_id} is done automatically; "
                "`ralph task fail` gives one up",
            )
        if board.status_of(task) is TaskStatus.DONE:
            return task
        return board.with_status(task, TaskStatus.DONE)

    after = _change(root, task_id, edit)
    if not after.task.parent:
        return after
    return replace(after, parents=tuple(close_parents(root)))


def complete(
    root: Path, task_id: str, *, patterns: Sequence[str] = ()
) -> tuple[TaskChange, Promotion | None, str]:
    """Mark a task as done, and promote its insights to the project.

    Returns the change, the promotion, and the reason if the promotion failed.
    """
    from ralph.tasks import progress

    after = done(root, task_id)
    promotion, problem = progress.promote_insights(root, after.task, patterns=patterns)
    return after, promotion, problem


def fail(
    root: Path,
    task_id: str,
    reason: str = "",
    *,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> TaskChange:
    """Give up on a task. The reason is included in the prompt for the next attempt."""
    return _stop(root, task_id, TaskStatus.FAILED, reason, allow_secret, patterns)


def block(
    root: Path,
    task_id: str,
    reason: str = "",
    *,
    by: Sequence[str] = (),
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> TaskChange:
    """Block a task until the tasks in `by` are done.

    If `by` is empty, the task is blocked until somebody starts or resets it. Raises Refused if `by`
    names tasks and the task is already done.
    """
    if not by:
        return _stop(root, task_id, TaskStatus.BLOCKED, reason, allow_secret, patterns)

    def edit(task: Task) -> Task:
        after = replace(task, blocked_by=tuple(dict.fromkeys([*task.blocked_by, *by])))
        if board.status_of(task) is TaskStatus.DONE:
            raise Refused(
                f"{task_id} is done and cannot wait for another task",
                hint=f"run `ralph task reset {task_id}` first",
            )
        if board.status_of(task) is TaskStatus.IN_PROGRESS:
            return board.with_status(after, TaskStatus.PENDING, note=f"waits for {', '.join(by)}")
        return after

    with task_files.lock_all(root) as everything:
        board.check_links(everything, edit(task_files.find_task(root, task_id).task))
        return _change(root, task_id, edit)


def _stop(
    root: Path,
    task_id: str,
    status: TaskStatus,
    reason: str,
    allow_secret: bool,
    patterns: Sequence[str],
) -> TaskChange:
    from ralph.privacy import privacy

    clean_reason = privacy.clean_description(
        reason, "reason", allow_secret=allow_secret, patterns=patterns
    )
    member = board.FAILURE if status is TaskStatus.FAILED else board.REASON

    def edit(task: Task) -> Task:
        if board.status_of(task) is not status:
            task = board.with_status(task, status, note=clean_reason.text)
        return board.with_member(task, member, clean_reason.text)

    return replace(_change(root, task_id, edit), private_parts=clean_reason.private)


def reset(root: Path, task_id: str, *, force: bool = False) -> TaskChange:
    """Make a task and its finished parents pending again, and reset its attempts to 0.

    Raises Refused if the task is done and so are all its subtasks. Also raises Refused if a run is
    working on the task, unless `force` is set.
    """
    everything = task_files.read_board(root)
    if task_id in everything.done and everything.has_done_all(task_id):
        raise Refused(
            f"{task_id} and all its subtasks are done",
            hint="reset the subtask that is not finished, or add another one",
        )

    def edit(task: Task) -> Task:
        if not force:
            _check_free(task)
        after = replace(task, attempts=0, claim=None)
        if board.status_of(task) is TaskStatus.PENDING:
            return after
        return board.with_status(after, TaskStatus.PENDING)

    after = _change(root, task_id, edit)
    return replace(after, parents=tuple(_reopen_parents(root, after.task)))


def _reopen_parents(root: Path, task: Task) -> list[Task]:
    """Make the finished parents above a task pending again, and return them."""

    def reopen(parent: Task) -> Task:
        if board.status_of(parent) is not TaskStatus.DONE:
            return parent
        return board.with_status(parent, TaskStatus.PENDING, note=f"{task.id} was reset")

    everything = task_files.read_board(root)
    reopened: list[Task] = []
    parent = everything.get(task.parent or "")
    while parent is not None and board.status_of(parent) is TaskStatus.DONE:
        reopened.append(task_files.change_task(root, parent.id, reopen))
        if len(reopened) >= len(everything.placed):  # the parents form a cycle
            break
        parent = everything.get(parent.parent or "")
    return reopened


def _check_free(task: Task) -> None:
    """Raise Refused if a run is working on the task."""
    if task.claim is not None and board.is_live(task.claim, ids.now()):
        process = f"process {task.claim.pid} on {task.claim.host}"
        raise Refused(
            f"{task.id} is being worked on by {task.claim.run} ({process})",
            hint=(
                "stop that run first",
                Hint("force", "`ralph task reset --force` takes the task away from it"),
            ),
        )


def _change(root: Path, task_id: str, edit: task_files.Edit) -> TaskChange:
    before, after = task_files.update_task(root, task_id, edit)
    return TaskChange(after, changed=after != before)


# --- history -------------------------------------------------------------------------------------


def prerequisites(root: Path, task: Task) -> list[Task]:
    """Return the finished tasks that blocked a task, in the order it lists them."""
    if not task.blocked_by:
        return []
    everything = task_files.read_board(root)
    return [everything.placed[name].task for name in task.blocked_by if name in everything.done]


def retry_note(task: Task) -> str:
    """Return why the last attempt at a task failed, or "" if none did."""
    note = task.extra.get(board.FAILURE)
    if isinstance(note, str):
        return note
    return ""


def log(root: Path, task_id: str) -> list[dict[str, str]]:
    """Return the events in a task's history, oldest first.

    An event's `by` is the id of a run, or "" for a person.
    """
    task = task_files.find_task(root, task_id).task
    events = []
    if task.created_at:
        events.append({"at": task.created_at, "what": "added", "by": "", "note": ""})
    events += _status_changes(task)
    for record in _iterations(root, task_id):
        events.append(
            {
                "at": record.created_at,
                "what": f"iteration {record.origin.iteration}: {record.kind.value}",
                "by": record.origin.run,
                "note": record.text,
            }
        )
    return sorted(events, key=lambda event: board.parse_time(event["at"]))


def _status_changes(task: Task) -> Iterator[dict[str, str]]:
    """Yield the valid entries of a task's history as events."""
    history = task.extra.get(board.HISTORY)
    if not isinstance(history, list):
        return
    for change in history:
        if not isinstance(change, dict):
            continue
        yield {
            "at": str(change.get("at", "")),
            "what": f"{change.get('from', '')} -> {change.get('to', '')}",
            "by": str(change.get("by", "")),
            "note": str(change.get("note", "")),
        }


def _iterations(root: Path, task_id: str) -> list[Record]:
    """Return the journal records for a task, oldest first."""
    from ralph.search import index

    where, values = query_filters.iteration_condition(task=task_id)

    def select(connection: sqlite3.Connection) -> list[Record]:
        rows = queries.select_records(connection, Family.JOURNAL, where, tuple(values))
        return [record for _, record in rows]

    records = index.ask(root, select)
    return sorted(records, key=lambda record: (record.created_at, record.origin.iteration or 0))
