"""`ralph task ...`: what is to be done, one folder each in `.ralph/tasks/` of the main checkout.

The verbs of people are here; the loop's are in `task_claims` and are named here too, so that `task.claim` is
where one looks for it. A person's `start` makes no claim: a person has no process that could die, and no run
takes such a task by itself. `block --by` adds a dependency, which ends by itself; `block --reason` is a state,
which somebody has to end. A parent is done by itself once its last child is; reset, it can be done for itself.
`tests/app/test_task.py` holds the cases.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ralph import paths
from ralph.app import board, task_file
from ralph.app.board import Board, Unread, is_live, moment, status_of
from ralph.app.task_claims import (
    attempted,
    claim,
    claim_of,
    close_late,
    close_parents,
    finish,
    release,
    release_run,
    renew,
)
from ralph.app.task_file import FAILURE, HISTORY, REASON, Edit, moved, with_member
from ralph.errors import NotFound, Refused
from ralph.formats.work import parse_prd
from ralph.model import ids
from ralph.model.record import Family
from ralph.model.work import Story, Task, TaskStatus
from ralph.store import files, rows

__all__ = [
    "Added", "Event", "Listed", "Moved", "Shown", "add", "attempted", "block", "claim", "claim_of", "done", "fail",
    "finish", "list_", "log", "prerequisites", "ready", "release", "release_run", "renew", "reset", "retry_note",
    "show", "start",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Added:
    """A new task, its file, and how many private parts were left out of its words."""

    task: Task
    path: Path
    private_parts: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """A task as a listing shows it: what it waits for, and whether it can be begun."""

    task: Task
    waits_for: tuple[str, ...] = ()
    is_ready: bool = False
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class Moved:
    """A task in its new state, whether that is new, and the parents that changed with it."""

    task: Task
    changed: bool = True
    parents: tuple[Task, ...] = ()
    private_parts: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """One task with all around it."""

    listed: Listed
    path: Path
    blockers: tuple[tuple[str, Task | None], ...] = ()
    children: tuple[Task, ...] = ()
    stories: tuple[Story, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
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
    priority: int = 0,
    blocked_by: Sequence[str] = (),
    parent: str | None = None,
    feature_id: str | None = None,
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> Added:
    """Make a new task; what it waits for must be there."""
    from ralph.app import text_cleaning  # noqa: PLC0415  (listing does without it)

    named = text_cleaning.clean_title(title, allow_secret=allow_secret, patterns=patterns)
    told = text_cleaning.clean_description(description, "description", allow_secret=allow_secret, patterns=patterns)
    if priority < 0:
        raise Refused(f"{priority} is no priority", hint="1 is the most urgent; 0 is none and comes last")
    if feature_id:
        from ralph.app import feature  # noqa: PLC0415  (listing does without it)

        feature.find(root, feature_id)
    with task_file.together(root) as everything:
        _check_parent(everything, parent)
        now = task_file.stamp()
        task = Task(
            task_file.fresh_id(everything, paths.tasks_folder(root)),
            named.text,
            told.text,
            priority=priority,
            blocked_by=tuple(dict.fromkeys(blocked_by)),
            parent=parent or None,
            feature=feature_id or None,
            created_at=now,
            updated_at=now,
        )
        task_file.check_links(everything, [task])
        return Added(task, task_file.create(root, task), named.private + told.private)


def _check_parent(everything: Board, parent: str | None) -> None:
    task = everything.get(parent) if parent else None
    if task is not None and status_of(task) in (TaskStatus.DONE, TaskStatus.FAILED):
        hint = f"`ralph task reset {task.id}` first, or leave the parent out"
        raise Refused(f"{task.id} is {task.status}: it gets no more children", hint=hint)


def list_(
    root: Path, *, status: TaskStatus | None = None, feature_id: str = "", only_ready: bool = False
) -> tuple[list[Listed], tuple[Unread, ...]]:
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


def _listed(everything: Board, task: Task, ready_ids: set[str], now: datetime) -> Listed:
    over = status_of(task) in (TaskStatus.DONE, TaskStatus.FAILED)
    waits_for = () if over else everything.waits_for(task)
    return Listed(task, waits_for, task.id in ready_ids, is_live(task.claim, now))


def ready(root: Path, *, now: datetime | None = None) -> list[Task]:
    """The tasks that may be begun now, the next one first; parents that should have ended by now are ended."""
    return close_late(root).ready(now or ids.now())


def show(root: Path, task_id: str) -> Shown:
    """One task with its blockers, its children and its stories."""
    place = task_file.find(root, task_id)
    everything = board.read(root)
    now = ids.now()
    task = place.task
    listed = _listed(everything, task, {each.id for each in everything.ready(now)}, now)
    text = files.read(place.path.with_name("prd.json"))
    return Shown(
        listed,
        place.path,
        tuple((each, everything.get(each)) for each in task.blocked_by),
        tuple(each for each in everything.tasks if each.parent == task_id),
        parse_prd(text).stories if text is not None else (),
    )


def start(root: Path, task_id: str) -> Moved:
    """Begin a task by hand; Refused while it waits for another, or while a run works on it."""
    waiting = board.read(root)

    def edit(task: Task) -> Task:
        _check_free(task)
        blockers = [each for each in task.blocked_by if each not in waiting.done]
        if blockers and status_of(task) is not TaskStatus.IN_PROGRESS:
            hint = f"do that first, or take it out of `blocked_by` in {task_file.find(root, task_id).path}"
            raise Refused(f"{task_id} waits for {', '.join(blockers)}", hint=hint)
        if status_of(task) is TaskStatus.IN_PROGRESS:
            return replace(task, claim=None)
        return moved(task, TaskStatus.IN_PROGRESS)

    return _by_hand(root, task_id, edit)


def done(root: Path, task_id: str) -> Moved:
    """Say that a task is done; its parent is, too, when this was the last child."""
    everything = board.read(root)

    def edit(task: Task) -> Task:
        parts = [each for each in everything.children.get(task_id, ()) if each not in everything.done]
        if parts:
            hint = f"do them first: then {task_id} is done by itself; `ralph task fail` gives one up"
            raise Refused(f"{task_id} has parts that are not done: {', '.join(parts)}", hint=hint)
        return task if status_of(task) is TaskStatus.DONE else moved(task, TaskStatus.DONE)

    after = _by_hand(root, task_id, edit)
    return replace(after, parents=tuple(close_parents(root, after.task)))


def fail(
    root: Path, task_id: str, reason: str = "", *, allow_secret: bool = False, patterns: Sequence[str] = ()
) -> Moved:
    """Give a task up; the reason reaches whoever tries it again."""
    from ralph.app import text_cleaning  # noqa: PLC0415  (listing does without it)

    why = text_cleaning.clean_description(reason, "reason", allow_secret=allow_secret, patterns=patterns)

    def edit(task: Task) -> Task:
        if status_of(task) is TaskStatus.FAILED:
            return with_member(task, FAILURE, why.text)
        return with_member(moved(task, TaskStatus.FAILED, note=why.text), FAILURE, why.text)

    return replace(_by_hand(root, task_id, edit), private_parts=why.private)


def block(
    root: Path,
    task_id: str,
    reason: str = "",
    *,
    by: Sequence[str] = (),
    allow_secret: bool = False,
    patterns: Sequence[str] = (),
) -> Moved:
    """Hold a task back: until other tasks are done (`by`), or until somebody starts or resets it."""
    from ralph.app import text_cleaning  # noqa: PLC0415  (listing does without it)

    if by:
        return _wait(root, task_id, tuple(by))
    why = text_cleaning.clean_description(reason, "reason", allow_secret=allow_secret, patterns=patterns)

    def edit(task: Task) -> Task:
        if status_of(task) is TaskStatus.BLOCKED:
            return with_member(task, REASON, why.text)
        return with_member(moved(task, TaskStatus.BLOCKED, note=why.text), REASON, why.text)

    return replace(_by_hand(root, task_id, edit), private_parts=why.private)


def _wait(root: Path, task_id: str, by: tuple[str, ...]) -> Moved:
    """Let a task wait for others; what was begun is pending again."""

    def edit(task: Task) -> Task:
        after = replace(task, blocked_by=tuple(dict.fromkeys([*task.blocked_by, *by])))
        if status_of(task) is TaskStatus.DONE:
            raise Refused(f"{task_id} is done: it waits for nothing", hint=f"`ralph task reset {task_id}` first")
        if status_of(task) is TaskStatus.IN_PROGRESS:
            return moved(after, TaskStatus.PENDING, note=f"waits for {', '.join(by)}")
        return after

    with task_file.together(root) as everything:
        placed = everything.placed.get(task_id)
        if placed is None:
            raise NotFound(f"there is no task {task_id}", hint="`ralph task list` names them")
        task_file.check_links(everything, [edit(placed.task)])
        return _by_hand(root, task_id, edit)


def reset(root: Path, task_id: str, *, force: bool = False) -> Moved:
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
            after = moved(after, TaskStatus.PENDING)
        return replace(after, extra={**after.extra, board.ALONE: True}) if is_alone else after

    after = _by_hand(root, task_id, edit)
    return replace(after, parents=tuple(_reopened(root, after.task)))


def _reopened(root: Path, task: Task) -> list[Task]:
    def edit(each: Task) -> Task:
        is_done = status_of(each) is TaskStatus.DONE
        return moved(each, TaskStatus.PENDING, note=f"{task.id} was reset") if is_done else each

    found: list[Task] = []
    everything = board.read(root) if task.parent else Board({})
    at = everything.get(task.parent or "")
    while at is not None and status_of(at) is TaskStatus.DONE and at not in found:
        found.append(at)
        at = everything.get(at.parent or "")
    return [task_file.change(root, each.id, edit) for each in found]


def _check_free(task: Task) -> None:
    if task.claim is not None and is_live(task.claim, ids.now()):
        held = f"{task.id} is being worked on by {task.claim.run} (process {task.claim.pid} on {task.claim.host})"
        raise Refused(held, hint="stop that run first; `ralph task reset --force` takes the task away from it")


def _by_hand(root: Path, task_id: str, edit: Edit) -> Moved:
    """Change a task, and tell whether that made a difference."""
    before: list[Task] = []

    def edited(task: Task) -> Task:
        before[:] = [task]
        return edit(task)

    after = task_file.change(root, task_id, edited)
    return Moved(after, changed=after != before[0])


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


def log(root: Path, task_id: str) -> list[Event]:
    """What happened to a task, oldest first: its changes of state, and the iterations that worked on it."""
    task = task_file.find(root, task_id).task
    events = [Event(task.created_at, "added")] if task.created_at else []
    history = task.extra.get(HISTORY)
    for line in history if isinstance(history, list) else []:
        if isinstance(line, dict):
            at, by, note, before, to = (str(line.get(key, "")) for key in ("at", "by", "note", "from", "to"))
            events.append(Event(at, f"{before} -> {to}", by, note))
    return sorted([*events, *_iterations(root, task_id)], key=lambda event: moment(event.at))


def _iterations(root: Path, task_id: str) -> list[Event]:
    from ralph.app import index  # noqa: PLC0415  (only this verb asks it)

    where, values = rows.iterations(task=task_id)
    found = index.ask(root, lambda asked: list(rows.stored(asked, Family.JOURNAL, where, tuple(values))))
    records = sorted((record for _, record in found), key=lambda each: (each.created_at, each.origin.iteration or 0))
    return [
        Event(each.created_at, f"iteration {each.origin.iteration}: {each.kind.value}", each.origin.run, each.text)
        for each in records
    ]
