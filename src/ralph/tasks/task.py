"""Implement `ralph task`: add, list and show tasks, and change their status by hand.

A person who starts a task makes no claim, and runs do not pick up such a task on their own. Runs
use `claims.py` instead.

Listing tasks must be fast, so modules that only other verbs need are imported inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.core import ids, paths
from ralph.core.errors import Hint, RalphError, Refused
from ralph.core.work import Story, Task, TaskStatus, ignore_text
from ralph.formats.prd import parse_prd
from ralph.storage import board, files, task_files
from ralph.tasks import parents

if TYPE_CHECKING:
    from ralph.learning.promotion import Promotion

_ENDED = (TaskStatus.DONE, TaskStatus.FAILED)


class ListedTask(NamedTuple):
    """A task in a listing, with its unfinished blockers and whether it can be started."""

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
    from ralph.tasks import feature, lifecycle
    from ralph.tasks.prd_file import parse_given_prd

    requirements = None
    if prd is not None:
        requirements = parse_given_prd(prd, allow_secret=allow_secret, patterns=patterns)
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
    with task_files.lock_board(root) as everything:
        _check_parent(everything, parent)
        now = board.precise_timestamp()
        task = Task(
            task_files.unused_id(everything, paths.tasks_folder(root)),
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
            task = lifecycle.set_up(root, task.id, requirements, in_worktree=in_worktree, tell=tell)
        except RalphError:
            task_files.delete_task(root, task.id)
            raise
    quarantine.accept_titles(by, task.title)
    return TaskChange(task, private_parts=clean_title.private + clean_description.private)


def _check_parent(everything: board.Board, parent_id: str | None) -> None:
    """Raise Refused if the parent has ended."""
    parent = everything.get(parent_id) if parent_id else None
    if parent is not None and board.status_of(parent) in _ENDED:
        raise Refused(
            f"{parent.id} is {parent.status} and cannot get more subtasks",
            hint=f"run `ralph task set {parent.id} pending` first, or omit the parent",
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
    return tasks, everything.unreadable


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
    parents.close_finished(root)
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


def last_failure(task: Task) -> str:
    """Return why the last attempt at a task failed, or "" if none did."""
    note = task.extra.get(board.FAILURE_MEMBER)
    if isinstance(note, str):
        return note
    return ""


def prerequisites(root: Path, task: Task) -> list[Task]:
    """Return the finished tasks that blocked a task, in the order it lists them."""
    if not task.blocked_by:
        return []
    everything = task_files.read_board(root)
    return [everything.locations[name].task for name in task.blocked_by if name in everything.done]


# --- change the status ---------------------------------------------------------------------------


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
                "`ralph task set ID failed` gives one up",
            )
        if board.status_of(task) is TaskStatus.DONE:
            return task
        return board.with_status(task, TaskStatus.DONE)

    after = _change(root, task_id, edit)
    if not after.task.parent:
        return after
    return replace(after, parents=tuple(parents.close_finished(root)))


def complete(
    root: Path, task_id: str, *, patterns: Sequence[str] = ()
) -> tuple[TaskChange, Promotion | None, str]:
    """Mark a task as done, and promote its insights to the project.

    Returns the change, the promotion, and the reason if the promotion failed.
    """
    from ralph.tasks import lifecycle

    after = done(root, task_id)
    promotion, problem = lifecycle.promote_insights(root, after.task, patterns=patterns)
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
                hint=f"run `ralph task set {task_id} pending` first",
            )
        if board.status_of(task) is TaskStatus.IN_PROGRESS:
            return board.with_status(after, TaskStatus.PENDING, note=f"waits for {', '.join(by)}")
        return after

    with task_files.lock_board(root) as everything:
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
    member = board.FAILURE_MEMBER if status is TaskStatus.FAILED else board.REASON_MEMBER

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
    if task_id in everything.done and everything.has_all_children_done(task_id):
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
    return replace(after, parents=tuple(parents.reopen(root, after.task)))


def _check_free(task: Task) -> None:
    """Raise Refused if a run is working on the task."""
    if task.claim is not None and board.is_live(task.claim, ids.now()):
        process = f"process {task.claim.pid} on {task.claim.host}"
        raise Refused(
            f"{task.id} is being worked on by {task.claim.run} ({process})",
            hint=(
                "stop that run first",
                Hint("force", "`ralph task set ID pending --force` takes the task away from it"),
            ),
        )


def _change(root: Path, task_id: str, edit: task_files.Edit) -> TaskChange:
    before, after = task_files.update_task(root, task_id, edit)
    return TaskChange(after, changed=after != before)
