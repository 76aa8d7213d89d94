"""The verbs of `ralph task`, and the claims of runs.

A claim counts until it expires or its process dies. A person's `start` makes no claim, and no run takes such a task by
itself.
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
from ralph.core.record import Family
from ralph.core.work import Claim, Story, Task, TaskStatus, ignore_text
from ralph.formats.work import parse_prd
from ralph.storage import board, files, queries

if TYPE_CHECKING:
    from ralph.learning.review import Promotion

LEASE = 1800.0  # seconds that a claim counts unless it is renewed
_ENDED = (TaskStatus.DONE, TaskStatus.FAILED)


class ListedTask(NamedTuple):
    """A task in a listing: what it waits for, and whether it can be begun."""

    task: Task
    waits_for: tuple[str, ...] = ()
    is_ready: bool = False
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task in its new state, whether that is new, and the parents that changed with it."""

    task: Task
    changed: bool = True
    parents: tuple[Task, ...] = ()
    private_parts: int = 0


class TaskView(NamedTuple):
    """One task with its blockers, children and stories."""

    listed: ListedTask
    path: Path
    blockers: tuple[tuple[str, Task | None], ...] = ()
    children: tuple[Task, ...] = ()
    stories: tuple[Story, ...] = ()


def claim_of(run: str, *, now: datetime | None = None, lease: float = LEASE) -> Claim:
    """Return the claim of a run that this process executes."""
    until = (now or ids.now()) + timedelta(seconds=lease)
    return Claim(run, board.host_name(), os.getpid(), ids.timestamp(until))


def _holds(run: str, task: Task) -> bool:
    return task.claim is not None and task.claim.run == run


def claim(
    root: Path, task_id: str, claim: Claim, *, now: datetime | None = None, named: bool = False
) -> Task | None:
    """Claim a task; None when it has ended, is blocked, or somebody else works on it.

    `named`: a person chose it; then it may also have failed, be blocked or begun by hand. Blockers are not checked.
    """

    def edit(task: Task) -> Task:
        status = board.status_of(task)
        holder = task.claim.run if task.claim is not None else ""
        if holder == claim.run and status is TaskStatus.IN_PROGRESS:
            return replace(task, claim=claim)
        if holder not in ("", claim.run) and board.is_live(task.claim, now or ids.now()):
            return task
        is_free = status is TaskStatus.PENDING or (
            status is TaskStatus.IN_PROGRESS and holder
        )  # a dead run's
        if not is_free and (not named or status in (None, TaskStatus.DONE)):
            return task
        if status is TaskStatus.IN_PROGRESS:
            task = replace(task, status=TaskStatus.PENDING.value)
        note = f"left by {holder}" if holder else ""
        return board.with_status(task, TaskStatus.IN_PROGRESS, by=claim.run, note=note, claim=claim)

    after = board.change(root, task_id, edit)
    return after if after.claim == claim else None


def renew(
    root: Path, task_id: str, run: str, *, now: datetime | None = None, lease: float = LEASE
) -> bool:
    """Extend the run's claim; False when the task is no longer its own."""
    extended = claim_of(run, now=now, lease=lease)
    after = board.change(
        root, task_id, lambda task: replace(task, claim=extended) if _holds(run, task) else task
    )
    return _holds(run, after)


def release_run(root: Path, run: str) -> list[str]:
    """Release all tasks of a dead run, and end parents; return the released ids."""

    def release(task: Task) -> Task:
        if not _holds(run, task):
            return task
        if board.status_of(task) is not TaskStatus.IN_PROGRESS:
            return replace(task, claim=None)
        return board.with_status(task, TaskStatus.PENDING, by=run, note="its run ended")

    claimed = [task.id for task in board.read(root).tasks if _holds(run, task)]
    released = [name for name in claimed if _holds(run, board.update(root, name, release)[0])]
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
    """Store how a run's work on a task ended, and release it; another run's or an ended task stays as it is."""
    from ralph.privacy import privacy

    note = privacy.redact_note(note, patterns)

    def edit(task: Task) -> Task:
        current = board.status_of(task)
        if not _holds(run, task) and (
            task.claim is not None or current in _ENDED or current is status
        ):
            return task
        if current is status and status is not TaskStatus.PENDING:
            return replace(task, claim=None)
        after = board.with_status(task, status, by=run, note=note)
        if status is TaskStatus.DONE:
            return after
        after = board.with_member(after, board.FAILURE, note)
        return (
            board.with_member(after, board.REASON, note) if status is TaskStatus.BLOCKED else after
        )

    task = board.change(root, task_id, edit)
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
    """Count one more attempt, of an iteration once, with why it failed; return how many there are."""
    from ralph.privacy import privacy

    note = privacy.redact_note(note, patterns)
    attempt = f"{run}/{iteration}" if iteration else ""

    def edit(task: Task) -> Task:
        is_counted = (
            attempt and task.extra.get(board.ATTEMPT) == attempt
        )  # then a kill came before this was noted
        if is_counted or (task.claim is not None and not _holds(run, task)):
            return task
        after = board.with_member(replace(task, attempts=task.attempts + 1), board.FAILURE, note)
        return board.with_member(after, board.ATTEMPT, attempt)

    return board.change(root, task_id, edit).attempts


def close_parents(root: Path, *, by: str = "") -> list[Task]:
    """End the parents whose last child is done, upward, unless a run works on them."""

    def end(task: Task) -> Task:
        is_open = board.status_of(task) in (TaskStatus.PENDING, TaskStatus.IN_PROGRESS)
        is_open = is_open and not board.is_live(task.claim, ids.now())
        return (
            board.with_status(task, TaskStatus.DONE, by=by, note="its last child is done")
            if is_open
            else task
        )

    closed: list[Task] = []
    while True:
        changes = [board.update(root, task.id, end) for task in board.read(root).late()]
        if not (ended := [after for before, after in changes if after != before]):
            return closed
        closed += ended


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
    """Add a task, optionally with a PRD and a worktree; when one of these fails, nothing is added."""
    from ralph.memory import quarantine
    from ralph.privacy import privacy
    from ralph.tasks import feature, progress

    about = progress.read_prd(prd, allow_secret, patterns) if prd is not None else None
    description = description or (about.description if about is not None else "")
    name = privacy.clean_title(title, allow_secret=allow_secret, patterns=patterns)
    body = privacy.clean_description(
        description, "description", allow_secret=allow_secret, patterns=patterns
    )
    if priority < 0:
        raise Refused(
            f"{priority} is no priority", hint="1 is the most urgent; 0 is none and comes last"
        )
    if feature_id:
        feature.find(root, feature_id)
    with board.lock_all(root) as everything:
        above = everything.get(parent) if parent else None
        if above is not None and board.status_of(above) in _ENDED:
            hint = f"`ralph task reset {above.id}` first, or leave the parent out"
            raise Refused(f"{above.id} is {above.status}: it gets no more children", hint=hint)
        task_id = board.fresh_id(everything, paths.tasks_folder(root))
        now = board.stamp()
        task = Task(
            task_id, name.text, body.text, priority=priority, created_at=now, updated_at=now
        )
        blockers = tuple(dict.fromkeys(blocked_by))
        task = replace(task, blocked_by=blockers, parent=parent or None, feature=feature_id or None)
        board.check_links(everything, task)
        board.create(root, task)
    if about is not None or in_worktree:
        try:
            task = progress.set_up(root, task.id, about, in_worktree=in_worktree, tell=tell)
        except RalphError:
            board.delete_task(root, task.id)
            raise
    quarantine.accept_titles(root, by, task.title)
    return TaskChange(task, private_parts=name.private + body.private)


def list_(
    root: Path, *, status: TaskStatus | None = None, feature_id: str = "", only_ready: bool = False
) -> tuple[list[ListedTask], tuple[board.UnreadableFile, ...]]:
    """List the tasks in the order in which they should be done, and the files that could not be read."""
    everything = board.read(root)
    tasks = [
        listed
        for listed in _list_board(everything)
        if (status is None or board.status_of(listed.task) is status)
        and (not feature_id or listed.task.feature == feature_id)
        and (not only_ready or listed.is_ready)
    ]
    return tasks, everything.unread


def _list_board(everything: board.Board) -> Iterator[ListedTask]:
    now = ids.now()
    ready_ids = {task.id for task in everything.ready(now)}
    for task in everything.tasks:
        waits_for = () if board.status_of(task) in _ENDED else everything.waits_for(task)
        yield ListedTask(task, waits_for, task.id in ready_ids, board.is_live(task.claim, now))


def ready(root: Path, *, now: datetime | None = None) -> list[Task]:
    """Return the tasks that may be begun now, the next one first, after ending late parents."""
    close_parents(root)
    return board.read(root).ready(now or ids.now())


def show(root: Path, task_id: str) -> TaskView:
    """Return one task with its blockers, its children and its stories."""
    location = board.find(root, task_id)
    everything = board.read(root)
    text = files.read(location.path.with_name("prd.json"))
    return TaskView(
        next(listed for listed in _list_board(everything) if listed.task.id == task_id),
        location.path,
        tuple((blocker, everything.get(blocker)) for blocker in location.task.blocked_by),
        tuple(other for other in everything.tasks if other.parent == task_id),
        parse_prd(text).stories if text is not None else (),
    )


def start(root: Path, task_id: str) -> TaskChange:
    """Begin a task by hand; Refused while it waits for another, or while a run works on it."""
    everything = board.read(root)

    def edit(task: Task) -> Task:
        _check_free(task)
        if board.status_of(task) is TaskStatus.IN_PROGRESS:
            return replace(task, claim=None)
        if blockers := [blocker for blocker in task.blocked_by if blocker not in everything.done]:
            hint = (
                f"do that first, or take it out of `blocked_by` in {board.find(root, task_id).path}"
            )
            raise Refused(f"{task_id} waits for {', '.join(blockers)}", hint=hint)
        return board.with_status(task, TaskStatus.IN_PROGRESS)

    return _change(root, task_id, edit)


def done(root: Path, task_id: str) -> TaskChange:
    """Mark a task as done; its parent is, too, when this was the last child."""
    everything = board.read(root)

    def edit(task: Task) -> Task:
        children = [
            child for child in everything.children.get(task_id, ()) if child not in everything.done
        ]
        if children:
            hint = (
                f"do them first: then {task_id} is done by itself; `ralph task fail` gives one up"
            )
            raise Refused(
                f"{task_id} has parts that are not done: {', '.join(children)}", hint=hint
            )
        return (
            task
            if board.status_of(task) is TaskStatus.DONE
            else board.with_status(task, TaskStatus.DONE)
        )

    after = _change(root, task_id, edit)
    return replace(after, parents=tuple(close_parents(root)) if after.task.parent else ())


def complete(
    root: Path, task_id: str, *, patterns: Sequence[str] = ()
) -> tuple[TaskChange, Promotion | None, str]:
    """Mark a task as done, and promote its insights to the project; return what of that failed, too."""
    from ralph.tasks import progress

    after = done(root, task_id)
    return after, *progress.promote_insights(root, after.task, patterns=patterns)


def fail(
    root: Path,
    task_id: str,
    reason: str = "",
    *,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> TaskChange:
    """Give a task up; the reason is in the prompt of the next attempt."""
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
    """Hold a task back: until other tasks are done (`by`), or until somebody starts or resets it."""
    if not by:
        return _stop(root, task_id, TaskStatus.BLOCKED, reason, allow_secret, patterns)

    def edit(task: Task) -> Task:
        after = replace(task, blocked_by=tuple(dict.fromkeys([*task.blocked_by, *by])))
        if board.status_of(task) is TaskStatus.DONE:
            raise Refused(
                f"{task_id} is done: it waits for nothing",
                hint=f"`ralph task reset {task_id}` first",
            )
        if board.status_of(task) is TaskStatus.IN_PROGRESS:
            return board.with_status(after, TaskStatus.PENDING, note=f"waits for {', '.join(by)}")
        return after

    with board.lock_all(root) as everything:
        board.check_links(everything, edit(board.find(root, task_id).task))
        return _change(root, task_id, edit)


def _stop(
    root: Path, task_id: str, status: TaskStatus, reason: str, allow: bool, patterns: Sequence[str]
) -> TaskChange:
    from ralph.privacy import privacy

    why = privacy.clean_description(reason, "reason", allow_secret=allow, patterns=patterns)
    member = board.FAILURE if status is TaskStatus.FAILED else board.REASON

    def edit(task: Task) -> Task:
        after = (
            task
            if board.status_of(task) is status
            else board.with_status(task, status, note=why.text)
        )
        return board.with_member(after, member, why.text)

    return replace(_change(root, task_id, edit), private_parts=why.private)


def reset(root: Path, task_id: str, *, force: bool = False) -> TaskChange:
    """Make a task and its done parents pending again without attempts; from a live run only by force."""
    everything = board.read(root)
    if task_id in everything.done and everything.has_done_all(task_id):
        raise Refused(
            f"{task_id} is done with its parts",
            hint="reset the part that is not, or add another one",
        )

    def edit(task: Task) -> Task:
        if not force:
            _check_free(task)
        after = replace(task, attempts=0, claim=None)
        is_pending = board.status_of(task) is TaskStatus.PENDING
        return after if is_pending else board.with_status(after, TaskStatus.PENDING)

    def reopen(task: Task) -> Task:
        is_done = board.status_of(task) is TaskStatus.DONE
        return (
            board.with_status(task, TaskStatus.PENDING, note=f"{task_id} was reset")
            if is_done
            else task
        )

    after = _change(root, task_id, edit)
    everything = board.read(root)
    parents = list[Task]()
    above = everything.get(after.task.parent or "")
    while above is not None and board.status_of(above) is TaskStatus.DONE:
        parents.append(board.change(root, above.id, reopen))
        above = (
            everything.get(above.parent or "") if len(parents) < len(everything.placed) else None
        )
    return replace(after, parents=tuple(parents))


def _check_free(task: Task) -> None:
    if task.claim is not None and board.is_live(task.claim, ids.now()):
        what = f"{task.id} is being worked on by {task.claim.run} (process {task.claim.pid} on {task.claim.host})"
        raise Refused(
            what,
            hint=(
                "stop that run first",
                Hint("force", "`ralph task reset --force` takes the task away from it"),
            ),
        )


def _change(root: Path, task_id: str, edit: board.Edit) -> TaskChange:
    before, after = board.update(root, task_id, edit)
    return TaskChange(after, changed=after != before)


def prerequisites(root: Path, task: Task) -> list[Task]:
    """Return the blockers of a task that are done, in its own order."""
    everything = board.read(root) if task.blocked_by else board.Board({})
    return [everything.placed[name].task for name in task.blocked_by if name in everything.done]


def retry_note(task: Task) -> str:
    """Return why the last attempt at a task failed; "" when none did."""
    note = task.extra.get(board.FAILURE)
    return note if isinstance(note, str) else ""


def log(root: Path, task_id: str) -> list[dict[str, str]]:
    """Return the events of a task, oldest first; `by` is a run, or "" for a person."""
    from ralph.search import index

    task = board.find(root, task_id).task
    events = (
        [{"at": task.created_at, "what": "added", "by": "", "note": ""}] if task.created_at else []
    )
    history = task.extra.get(board.HISTORY)
    for line in history if isinstance(history, list) else []:
        if isinstance(line, dict):
            text = {key: str(line.get(key, "")) for key in ("at", "from", "to", "by", "note")}
            events.append(
                {"at": text["at"], "what": f"{text.pop('from')} -> {text.pop('to')}", **text}
            )
    where, values = queries.iterations(task=task_id)
    iterations = index.ask(
        root,
        lambda connection: list(
            queries.select_records(connection, Family.JOURNAL, where, tuple(values))
        ),
    )
    for _, record in sorted(
        iterations, key=lambda row: (row[1].created_at, row[1].origin.iteration or 0)
    ):
        what = f"iteration {record.origin.iteration}: {record.kind.value}"
        events.append(
            {"at": record.created_at, "what": what, "by": record.origin.run, "note": record.text}
        )
    return sorted(events, key=lambda event: board.parse_time(event["at"]))
