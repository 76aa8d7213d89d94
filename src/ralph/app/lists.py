"""Tasks, runs and sessions as pages list them: one flat value each, from the index or from few files.

A row holds what a list shows and nothing that has to be read for one row alone; what one thing is in full is told by
its own module (`task`, `runs`, `session`). Tokens of a run are those of its prompts, counted once a file since a
snapshot never changes. What was injected comes from the ledger, which is read again only when it has grown.
`tests/app/pages/test_dashboard.py` proves the rows, and that empty projects have none.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ralph import paths
from ralph.app import index, runs, sessions, usage
from ralph.app.sessions import Session
from ralph.app.tasks import task
from ralph.app.tasks.board import status_of
from ralph.app.tasks.task import ListedTask
from ralph.context.tokens import estimate
from ralph.errors import NotFound, UsageError
from ralph.loop.state import Run
from ralph.model.work import RunStatus, TaskStatus
from ralph.store import files
from ralph.store import sessions as stored_sessions

SORTS = ("priority", "newest", "title", "state")
_ORDER = {
    TaskStatus.IN_PROGRESS: 0,
    TaskStatus.PENDING: 1,
    TaskStatus.BLOCKED: 2,
    TaskStatus.FAILED: 3,
    TaskStatus.DONE: 4,
}
_TITLE_LENGTH = 160
_LEDGER = 1 << 28
_DONE_SHOWN = 20
"""So many of the newest runs are looked at for a task, beside those that the journal names."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task in a list; `run` is the one that works on it now."""

    id: str
    title: str
    status: str
    priority: int
    created_at: str
    updated_at: str
    parent: str
    feature: str
    branch: str
    worktree: str
    run: str
    attempts: int
    blocked_by: tuple[str, ...]
    waits_for: tuple[str, ...]
    ready: bool


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in a list; `tokens` are those of its prompts, `why` is its end in words, or what it is at."""

    id: str
    task: str
    goal: str
    status: str
    reason: str
    started_at: str
    ended_at: str
    iterations: int
    agent: str
    model: str
    tokens: int
    cost_usd: float
    seconds: float
    alive: bool
    step: str
    why: str


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in a list; `mode` is that of a chat, and empty where nobody chose one."""

    id: str
    title: str
    host: str
    agent: str
    task: str
    mode: str
    started_at: str
    ended_at: str
    observations: int
    messages: int
    tokens_injected: int
    status: str


# --- tasks ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskList:
    """Tasks in an order, how many there are in each state, and the files that say none."""

    rows: tuple[TaskRow, ...]
    by_state: Mapping[str, int]
    notes: tuple[str, ...] = ()

    def first(self, count: int) -> list[TaskRow]:
        """So many of each state, in their order."""
        left = dict.fromkeys(self.by_state, count)
        kept: list[TaskRow] = []
        for row in self.rows:
            if left[row.status] > 0:
                left[row.status] -= 1
                kept.append(row)
        return kept


def list_tasks(root: Path, *, states: Sequence[str] = (), words: str = "", sort: str = "priority") -> TaskList:
    """The tasks whose id, title or description has some words, in these states; the counts are of every state."""
    if sort not in SORTS:
        raise UsageError(f"{sort!r} is no order of tasks", hint=f"one of {', '.join(SORTS)}")
    found, unread = task.list_(root)
    wanted = words.casefold()
    said = [each for each in found if wanted in _searched_text(each)]
    by_state = {state.value: 0 for state in TaskStatus}
    for each in said:
        state = task_state(each)
        by_state[state] = by_state.get(state, 0) + 1
    kept = [task_row(each) for each in said if not states or task_state(each) in states]
    notes = tuple(f"{paths.shown(each.path, root)}: {each.what}" for each in unread)
    return TaskList(tuple(_sort_rows(kept, sort)), by_state, notes)


def _searched_text(listed: ListedTask) -> str:
    return f"{listed.task.id}\n{listed.task.title}\n{listed.task.description}".casefold()


def task_state(listed: ListedTask) -> str:
    """A task's state as everybody calls it; somebody's own word where nobody knows it."""
    known = status_of(listed.task)
    return known.value if known is not None else listed.task.status


def _sort_rows(found: list[TaskRow], sort: str) -> list[TaskRow]:
    if sort == "newest":
        return sorted(found, key=lambda row: (row.created_at, row.id), reverse=True)
    if sort == "title":
        return sorted(found, key=lambda row: (row.title.casefold(), row.id))
    if sort == "state":
        last = len(_ORDER)
        places = {state.value: place for state, place in _ORDER.items()}
        return sorted(found, key=lambda row: places.get(row.status, last))
    return found


def task_row(listed: ListedTask) -> TaskRow:
    """A task as a row."""
    held = listed.task
    return TaskRow(
        id=held.id,
        title=held.title,
        status=task_state(listed),
        priority=held.priority,
        created_at=held.created_at,
        updated_at=held.updated_at,
        parent=held.parent or "",
        feature=held.feature or "",
        branch=held.branch or "",
        worktree=held.worktree or "",
        run=held.claim.run if held.claim is not None and listed.is_held else "",
        attempts=held.attempts,
        blocked_by=held.blocked_by,
        waits_for=listed.waits_for,
        ready=listed.is_ready,
    )


# --- runs ----------------------------------------------------------------------------------------


def run_rows(root: Path, *, limit: int = 100, offset: int = 0, task_id: str = "") -> tuple[list[RunRow], int]:
    """The newest runs (of a task) first, those that are under way before all others; and how many there are."""
    if task_id:
        own = _runs_of_task(root, task_id)
        found, total = own[offset : offset + limit], len(own)
    else:
        found, total = runs.newest(root, limit, offset)
    rows = [run_row(root, each) for each in found]
    return sorted(rows, key=lambda row: not row.alive), total


def _runs_of_task(root: Path, task_id: str) -> list[Run]:
    """The runs that worked on a task, the newest first: by the journal, and those that came to no iteration."""
    newest, _ = runs.newest(root, _DONE_SHOWN)
    found = {each.id: each for each in newest if task_id in (each.task, *each.only, *each.done, *each.failed)}
    told = index.ask(root, lambda connection: stored_sessions.runs_of_task(connection, task_id))
    for name in told:
        if name not in found:
            with suppress(NotFound):
                found[name] = runs.read(root, name)
    return sorted(found.values(), key=lambda each: (each.started_at, each.id), reverse=True)


def run_row(root: Path, run: Run) -> RunRow:
    """A run as a row."""
    live = runs.lives(root, run)
    return RunRow(
        id=run.id,
        task=run.task or "".join(run.only[:1]),
        goal=run.goal,
        status=run.status.value,
        reason=run.reason,
        started_at=run.started_at,
        ended_at=run.ended_at,
        iterations=run.iterations,
        agent=run.agent,
        model=run.model,
        tokens=sum(prompt_tokens(root, run.id).values()),
        cost_usd=run.cost,
        seconds=round(run.seconds, 3),
        alive=live,
        step=run.step,
        why=_end_reason(run, live),
    )


def _end_reason(run: Run, live: bool) -> str:
    if run.status is not RunStatus.RUNNING:
        return run.words or run.reason
    if not live:
        return f"its process is gone; `ralph loop resume {run.id}` goes on"
    return runs.DOING.get(run.step, run.step) or "between two iterations"


def prompt_tokens(root: Path, run_id: str) -> dict[int, int]:
    """What each prompt of a run costs, by iteration."""
    return {each.iteration: _token_count(each.path, each.size) for each in runs.snapshots(root, run_id)}


@lru_cache(maxsize=20_000)
def _token_count(path: Path, size: int) -> int:
    """The tokens of a snapshot; its size is part of the question, so that a file of the same name is counted anew."""
    return estimate(files.read(path) or "")


# --- sessions ------------------------------------------------------------------------------------


def session_rows(
    root: Path, *, limit: int | None = 100, offset: int = 0, task_id: str = "", words: str = ""
) -> tuple[list[SessionRow], int]:
    """The newest sessions (of a task, with some words) first, and how many there are."""
    found, total = sessions.list_(root, limit=limit, offset=offset, task=task_id, words=words)
    ended = index.ask(root, stored_sessions.ended_sessions) if found else set()
    spent = tokens_by_session(root)
    return [session_row(each, spent.get(each.id, 0), is_over=each.id in ended) for each in found], total


def session_row(session: Session, tokens: int = 0, *, is_over: bool = False) -> SessionRow:
    """A session as a row."""
    first = session.prompt or session.summary
    title = " ".join(first.split())
    is_chat = bool(session.task) or session.mode == "plan"
    return SessionRow(
        id=session.id,
        title=title if len(title) <= _TITLE_LENGTH else f"{title[: _TITLE_LENGTH - 1]}…",
        host=session.host,
        agent=session.host if is_chat else "",
        task=session.task,
        mode=session.mode if is_chat else "",
        started_at=session.started_at,
        ended_at=session.ended_at,
        observations=session.observations,
        messages=session.messages,
        tokens_injected=tokens,
        status="ended" if is_over else "open",
    )


def is_over(root: Path, session_id: str) -> bool:
    """Whether a session has said that it ended."""
    return session_id in index.ask(root, stored_sessions.ended_sessions)


# --- the ledger ----------------------------------------------------------------------------------


def read_ledger(root: Path) -> usage.Ledger:
    """The whole ledger, read again when it has changed."""
    path = usage.ledger_file(root)
    try:
        now = path.stat()
    except OSError:
        return usage.Ledger()
    return _cached_ledger(root, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=2)
def _cached_ledger(root: Path, changed: int, size: int) -> usage.Ledger:
    return usage.read_ledger(root, _LEDGER)


def tokens_by_session(root: Path) -> Mapping[str, int]:
    """How many tokens each session was handed."""
    found: dict[str, int] = {}
    for each in read_ledger(root).injections:
        found[each.session] = found.get(each.session, 0) + each.tokens
    return found
