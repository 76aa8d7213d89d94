"""The verbs of `ralph task`, and the claims of runs.

A run may claim again what it holds, and of two runs exactly one gets a task. A claim counts until it expires or its
process dies; what a run says about a task that is no longer its own changes nothing. A person's `start` makes no
claim, and no run takes such a task by itself. `block --by` adds a dependency, which ends by itself; `block --reason` is
a state that somebody has to end.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import paths
from ralph.app.tasks import board
from ralph.app.tasks.board import (
    ATTEMPT,
    FAILURE,
    HISTORY,
    REASON,
    Board,
    Edit,
    UnreadableFile,
    can_end,
    is_live,
    parse_time,
    status_of,
    with_member,
    with_status,
)
from ralph.errors import NotFound, RalphError, Refused
from ralph.formats.work import parse_prd
from ralph.model import ids
from ralph.model.record import Family
from ralph.model.work import Claim, Story, Task, TaskStatus, ignore_text
from ralph.store import files, queries

if TYPE_CHECKING:
    from ralph.app.promote import Promotion

# --- claims ------------------------------------------------------------------------------------

LEASE = 1800.0
"""Seconds that a claim counts unless it is renewed."""

_OVER = (TaskStatus.DONE, TaskStatus.FAILED)


def claim_of(run: str, *, now: datetime | None = None, lease: float = LEASE) -> Claim:
    """The claim of a run that this process carries out."""
    return Claim(run, board.host_name(), os.getpid(), _until(now, lease))


def _until(now: datetime | None, lease: float) -> str:
    moment = (now or ids.now()) + timedelta(seconds=lease)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def claim(root: Path, task_id: str, claim: Claim, *, now: datetime | None = None, named: bool = False) -> Task | None:
    """Take a task to work on it; None when it is not to be had: done, ended, blocked, or in somebody else's hands.

    `named` says that a person named this task: then it is also taken when it failed, is blocked, or was begun by
    hand, but not from a run that lives. Whether its blockers are done is for `ready` to know.
    """
    moment = now or ids.now()

    def edit(task: Task) -> Task:
        if not _is_free(task, claim.run, moment, named):
            return task
        if status_of(task) is TaskStatus.IN_PROGRESS and task.claim is not None and task.claim.run == claim.run:
            return replace(task, claim=claim)
        left = task.claim.run if task.claim is not None else ""
        base = task
        if status_of(task) is TaskStatus.IN_PROGRESS:  # its worker is gone; what is begun anew was pending
            base = replace(task, status=TaskStatus.PENDING.value)
        return with_status(
            base, TaskStatus.IN_PROGRESS, by=claim.run, note=f"left by {left}" if left else "", claim=claim
        )

    after = board.change(root, task_id, edit)
    return after if after.claim == claim else None


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
    return replace(held, host=board.host_name(), pid=os.getpid(), expires_at=_until(now, lease))


def release(root: Path, task_id: str, run: str, *, note: str = "") -> bool:
    """Give a task back unfinished: it is pending again; False when it was not the run's."""
    return _if_held(root, task_id, run, lambda task, _: _given_back(task, run, note))


def _given_back(task: Task, run: str, note: str = "") -> Task:
    if status_of(task) is not TaskStatus.IN_PROGRESS:
        return replace(task, claim=None)
    return with_status(task, TaskStatus.PENDING, by=run, note=note or "given back")


def release_run(root: Path, run: str) -> list[str]:
    """Give back all that a dead run holds, and end what it left half ended; the ids of what was given back."""
    everything = board.read(root)
    held = [task.id for task in everything.tasks if task.claim is not None and task.claim.run == run]
    freed = [each for each in held if release(root, each, run, note="its run ended")]
    close_late_parents(root)
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
        after = with_status(task, status, by=run, note=words)
        if status is TaskStatus.DONE:
            return after
        after = with_member(after, FAILURE, words)
        return with_member(after, REASON, words) if status is TaskStatus.BLOCKED else after

    task = board.change(root, task_id, edit)
    close_parents(root, task, by=run)
    return task


def count_attempt(
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

    return board.change(root, task_id, edit).attempts


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
        at, did = _end_parent(root, at.parent, by)
        closed += [at] if did else []
    return closed


def close_late_parents(root: Path) -> Board:
    """End the parents that somebody who was killed did not get to end; the board as it is then."""
    everything = board.read(root)
    while late := everything.late():
        ended = [did for task in late for _, did in [_end_parent(root, task.id, "")]]
        if not any(ended):
            break
        everything = board.read(root)
    return everything


def _end_parent(root: Path, task_id: str, by: str) -> tuple[Task, bool]:
    """End a parent whose children are done, if it is still open; and whether it was."""

    def edit(task: Task) -> Task:
        is_open = can_end(task) and not is_live(task.claim, ids.now())
        return with_status(task, TaskStatus.DONE, by=by, note="its last child is done") if is_open else task

    before, after = board.update(root, task_id, edit)
    return after, after != before


def _if_held(root: Path, task_id: str, run: str, edit: Callable[[Task, Claim], Task]) -> bool:
    """Change a task that the run holds; False, and no change, when it does not."""

    def edit_held(task: Task) -> Task:
        return edit(task, task.claim) if task.claim is not None and task.claim.run == run else task

    before = board.update(root, task_id, edit_held).before
    return before.claim is not None and before.claim.run == run


# --- verbs of people ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddedTask:
    """A new task, its file, and how many private parts were left out of its words."""

    task: Task
    path: Path
    private_parts: int = 0


@dataclass(frozen=True, slots=True)
class ListedTask:
    """A task as a listing shows it: what it waits for, and whether it can be begun."""

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


@dataclass(frozen=True, slots=True)
class CompletedTask:
    """A task that is done, and what it left to the project; `why` says what of that failed."""

    moved: TaskChange
    promotion: "Promotion | None" = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task with all around it."""

    listed: ListedTask
    path: Path
    blockers: tuple[tuple[str, Task | None], ...] = ()
    children: tuple[Task, ...] = ()
    stories: tuple[Story, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """One thing that happened to a task: when, what, who did it (a run; empty for a person), and why."""

    at: str
    what: str
    by: str = ""
    note: str = ""


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
) -> AddedTask:
    """Add a task, with a PRD and a worktree where they are wanted; none is left where one of these fails."""
    from ralph.app.tasks import progress  # noqa: PLC0415  (listing tasks does without it)

    about = progress.read_prd(prd, allow_secret, patterns) if prd is not None else None
    added = _create(
        root,
        title,
        description or (about.description if about is not None else ""),
        priority=priority,
        blocked_by=blocked_by,
        parent=parent,
        feature_id=feature_id,
        allow_secret=allow_secret,
        patterns=patterns,
    )
    if about is None and not in_worktree:
        return added
    try:
        return replace(added, task=progress.set_up(root, added.task.id, about, in_worktree=in_worktree, tell=tell))
    except RalphError:
        board.delete_task(root, added.task.id)
        raise


def _create(
    root: Path,
    title: str,
    description: str = "",
    *,
    priority: int = 0,
    blocked_by: Sequence[str] = (),
    parent: str | None = None,
    feature_id: str | None = None,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> AddedTask:
    """Make the file of a new task; what it waits for must exist."""
    from ralph.app import text_cleaning  # noqa: PLC0415  (listing does without it)

    named = text_cleaning.clean_title(title, allow_secret=allow_secret, patterns=patterns)
    told = text_cleaning.clean_description(description, "description", allow_secret=allow_secret, patterns=patterns)
    if priority < 0:
        raise Refused(f"{priority} is no priority", hint="1 is the most urgent; 0 is none and comes last")
    if feature_id:
        from ralph.app import feature  # noqa: PLC0415  (listing does without it)

        feature.find(root, feature_id)
    with board.lock_all(root) as everything:
        _check_parent(everything, parent)
        now = board.stamp()
        task = Task(
            board.fresh_id(everything, paths.tasks_folder(root)),
            named.text,
            told.text,
            priority=priority,
            blocked_by=tuple(dict.fromkeys(blocked_by)),
            parent=parent or None,
            feature=feature_id or None,
            created_at=now,
            updated_at=now,
        )
        board.check_links(everything, [task])
        return AddedTask(task, board.create(root, task), named.private + told.private)


def _check_parent(everything: Board, parent: str | None) -> None:
    task = everything.get(parent) if parent else None
    if task is not None and status_of(task) in (TaskStatus.DONE, TaskStatus.FAILED):
        hint = f"`ralph task reset {task.id}` first, or leave the parent out"
        raise Refused(f"{task.id} is {task.status}: it gets no more children", hint=hint)


def list_(
    root: Path, *, status: TaskStatus | None = None, feature_id: str = "", only_ready: bool = False
) -> tuple[list[ListedTask], tuple[UnreadableFile, ...]]:
    """The tasks in the order in which they should be done, and the files that could not be read."""
    everything = board.read(root)
    now = ids.now()
    ready_ids = {task.id for task in everything.ready(now)}
    found = [
        _listed(everything, task, ready_ids, now)
        for task in everything.tasks
        if (status is None or status_of(task) is status)
        and (not feature_id or task.feature == feature_id)
        and (not only_ready or task.id in ready_ids)
    ]
    return found, everything.unread


def _listed(everything: Board, task: Task, ready_ids: set[str], now: datetime) -> ListedTask:
    over = status_of(task) in (TaskStatus.DONE, TaskStatus.FAILED)
    waits_for = () if over else everything.waits_for(task)
    return ListedTask(task, waits_for, task.id in ready_ids, is_live(task.claim, now))


def ready(root: Path, *, now: datetime | None = None) -> list[Task]:
    """The tasks that may be begun now, the next one first; parents that should have ended by now are ended."""
    return close_late_parents(root).ready(now or ids.now())


def show(root: Path, task_id: str) -> TaskView:
    """One task with its blockers, its children and its stories."""
    place = board.find(root, task_id)
    everything = board.read(root)
    now = ids.now()
    task = place.task
    listed = _listed(everything, task, {each.id for each in everything.ready(now)}, now)
    text = files.read(place.path.with_name("prd.json"))
    return TaskView(
        listed,
        place.path,
        tuple((each, everything.get(each)) for each in task.blocked_by),
        tuple(each for each in everything.tasks if each.parent == task_id),
        parse_prd(text).stories if text is not None else (),
    )


def start(root: Path, task_id: str) -> TaskChange:
    """Begin a task by hand; Refused while it waits for another, or while a run works on it."""
    waiting = board.read(root)

    def edit(task: Task) -> Task:
        _check_free(task)
        blockers = [each for each in task.blocked_by if each not in waiting.done]
        if blockers and status_of(task) is not TaskStatus.IN_PROGRESS:
            hint = f"do that first, or take it out of `blocked_by` in {board.find(root, task_id).path}"
            raise Refused(f"{task_id} waits for {', '.join(blockers)}", hint=hint)
        if status_of(task) is TaskStatus.IN_PROGRESS:
            return replace(task, claim=None)
        return with_status(task, TaskStatus.IN_PROGRESS)

    return _by_hand(root, task_id, edit)


def done(root: Path, task_id: str) -> TaskChange:
    """Say that a task is done; its parent is, too, when this was the last child."""
    everything = board.read(root)

    def edit(task: Task) -> Task:
        parts = [each for each in everything.children.get(task_id, ()) if each not in everything.done]
        if parts:
            hint = f"do them first: then {task_id} is done by itself; `ralph task fail` gives one up"
            raise Refused(f"{task_id} has parts that are not done: {', '.join(parts)}", hint=hint)
        return task if status_of(task) is TaskStatus.DONE else with_status(task, TaskStatus.DONE)

    after = _by_hand(root, task_id, edit)
    return replace(after, parents=tuple(close_parents(root, after.task)))


def complete(root: Path, task_id: str, *, patterns: Sequence[str] = ()) -> CompletedTask:
    """Mark a task as done, and promote what it taught to the project."""
    from ralph.app.tasks import progress  # noqa: PLC0415  (listing tasks does without it)

    after = done(root, task_id)
    if after.task.status != TaskStatus.DONE.value:
        return CompletedTask(after)
    promotion, why = progress.promote_insights(root, after.task, patterns=patterns)
    return CompletedTask(after, promotion, why)


def fail(
    root: Path, task_id: str, reason: str = "", *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> TaskChange:
    """Give a task up; the reason reaches whoever tries it again."""
    from ralph.app import text_cleaning  # noqa: PLC0415  (listing does without it)

    why = text_cleaning.clean_description(reason, "reason", allow_secret=allow_secret, patterns=patterns)

    def edit(task: Task) -> Task:
        if status_of(task) is TaskStatus.FAILED:
            return with_member(task, FAILURE, why.text)
        return with_member(with_status(task, TaskStatus.FAILED, note=why.text), FAILURE, why.text)

    return replace(_by_hand(root, task_id, edit), private_parts=why.private)


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
    from ralph.app import text_cleaning  # noqa: PLC0415  (listing does without it)

    if by:
        return _wait(root, task_id, tuple(by))
    why = text_cleaning.clean_description(reason, "reason", allow_secret=allow_secret, patterns=patterns)

    def edit(task: Task) -> Task:
        if status_of(task) is TaskStatus.BLOCKED:
            return with_member(task, REASON, why.text)
        return with_member(with_status(task, TaskStatus.BLOCKED, note=why.text), REASON, why.text)

    return replace(_by_hand(root, task_id, edit), private_parts=why.private)


def _wait(root: Path, task_id: str, by: tuple[str, ...]) -> TaskChange:
    """Let a task wait for others; what was begun is pending again."""

    def edit(task: Task) -> Task:
        after = replace(task, blocked_by=tuple(dict.fromkeys([*task.blocked_by, *by])))
        if status_of(task) is TaskStatus.DONE:
            raise Refused(f"{task_id} is done: it waits for nothing", hint=f"`ralph task reset {task_id}` first")
        if status_of(task) is TaskStatus.IN_PROGRESS:
            return with_status(after, TaskStatus.PENDING, note=f"waits for {', '.join(by)}")
        return after

    with board.lock_all(root) as everything:
        placed = everything.placed.get(task_id)
        if placed is None:
            raise NotFound(f"there is no task {task_id}", hint="`ralph task list` names them")
        board.check_links(everything, [edit(placed.task)])
        return _by_hand(root, task_id, edit)


def reset(root: Path, task_id: str, *, force: bool = False) -> TaskChange:
    """Make a task pending again, its attempts forgotten; from a run that works on it only by force.

    Parents that are done are pending again as well: they are not done while a child is open. A parent itself is
    done for itself the next time, if its children are still done.
    """
    is_alone = board.read(root).has_done_all(task_id)

    def edit(task: Task) -> Task:
        if not force:
            _check_free(task)
        after = replace(task, attempts=0, claim=None)
        if status_of(task) is not TaskStatus.PENDING:
            after = with_status(after, TaskStatus.PENDING)
        return replace(after, extra={**after.extra, board.RESET_PARENT: True}) if is_alone else after

    after = _by_hand(root, task_id, edit)
    return replace(after, parents=tuple(_reopened(root, after.task)))


def _reopened(root: Path, task: Task) -> list[Task]:
    def edit(each: Task) -> Task:
        is_done = status_of(each) is TaskStatus.DONE
        return with_status(each, TaskStatus.PENDING, note=f"{task.id} was reset") if is_done else each

    found: list[Task] = []
    everything = board.read(root) if task.parent else Board({})
    at = everything.get(task.parent or "")
    while at is not None and status_of(at) is TaskStatus.DONE and at not in found:
        found.append(at)
        at = everything.get(at.parent or "")
    return [board.change(root, each.id, edit) for each in found]


def _check_free(task: Task) -> None:
    if task.claim is not None and is_live(task.claim, ids.now()):
        held = f"{task.id} is being worked on by {task.claim.run} (process {task.claim.pid} on {task.claim.host})"
        raise Refused(held, hint="stop that run first; `ralph task reset --force` takes the task away from it")


def _by_hand(root: Path, task_id: str, edit: Edit) -> TaskChange:
    """Change a task, and tell whether that made a difference."""
    before, after = board.update(root, task_id, edit)
    return TaskChange(after, changed=after != before)


def prerequisites(root: Path, task: Task) -> list[Task]:
    """The blockers of a task that are done, in its own order: what it can build on."""
    if not task.blocked_by:
        return []
    everything = board.read(root)
    return [each for name in task.blocked_by if (each := everything.get(name)) is not None and name in everything.done]


def retry_note(task: Task) -> str:
    """Why the last attempt at a task failed; "" when none did."""
    found = task.extra.get(FAILURE)
    return found if isinstance(found, str) else ""


def log(root: Path, task_id: str) -> list[TaskEvent]:
    """What happened to a task, oldest first: its changes of state, and the iterations that worked on it."""
    task = board.find(root, task_id).task
    events = [TaskEvent(task.created_at, "added")] if task.created_at else []
    history = task.extra.get(HISTORY)
    for line in history if isinstance(history, list) else []:
        if isinstance(line, dict):
            at, by, note, before, to = (str(line.get(key, "")) for key in ("at", "by", "note", "from", "to"))
            events.append(TaskEvent(at, f"{before} -> {to}", by, note))
    return sorted([*events, *_iterations(root, task_id)], key=lambda event: parse_time(event.at))


def _iterations(root: Path, task_id: str) -> list[TaskEvent]:
    from ralph.app import index  # noqa: PLC0415  (only this verb asks it)

    where, values = queries.iterations(task=task_id)
    found = index.ask(root, lambda asked: list(queries.select_records(asked, Family.JOURNAL, where, tuple(values))))
    records = sorted((record for _, record in found), key=lambda each: (each.created_at, each.origin.iteration or 0))
    return [
        TaskEvent(each.created_at, f"iteration {each.origin.iteration}: {each.kind.value}", each.origin.run, each.text)
        for each in records
    ]
