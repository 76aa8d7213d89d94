"""Rows of tasks, runs and sessions for lists: one flat value each, from the index or from few files.

A row has what a list shows and nothing that has to be read for one row alone. The tokens of a run are those of its
prompts, counted once a file since a snapshot never changes; the ledger is read again only when it has changed.
"""

from collections import Counter
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
_STATE_ORDER = [
    state.value
    for state in (TaskStatus.IN_PROGRESS, TaskStatus.PENDING, TaskStatus.BLOCKED, TaskStatus.FAILED, TaskStatus.DONE)
]
_TITLE_LENGTH = 160
_LEDGER = 1 << 28
_NEWEST_RUNS = 20  # checked for a task, beside those that the journal names


@dataclass(frozen=True, slots=True)
class TaskListRow:
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
    """A run in a list; `tokens` are those of its prompts, `why` is how it ended, or its current step."""

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
    """A session in a list; `mode` is that of a chat, and empty for other sessions."""

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
    """Tasks in an order, how many there are in each state, and problems with files."""

    rows: tuple[TaskListRow, ...]
    by_state: Mapping[str, int]
    notes: tuple[str, ...] = ()

    def first(self, count: int) -> list[TaskListRow]:
        """At most so many of each state, in their order."""
        seen = Counter[str]()
        rows = []
        for row in self.rows:
            seen[row.status] += 1
            if seen[row.status] <= count:
                rows.append(row)
        return rows


def list_tasks(root: Path, *, states: Sequence[str] = (), words: str = "", sort: str = "priority") -> TaskList:
    """The tasks whose id, title or description has some words, in these states; the counts are of every state."""
    if sort not in SORTS:
        raise UsageError(f"{sort!r} is no order of tasks", hint=f"one of {', '.join(SORTS)}")
    tasks, unread = task.list_(root)
    matching = [
        task_row(listed)
        for listed in tasks
        if words.casefold() in f"{listed.task.id}\n{listed.task.title}\n{listed.task.description}".casefold()
    ]
    by_state = {state.value: 0 for state in TaskStatus} | Counter(row.status for row in matching)
    rows = [row for row in matching if not states or row.status in states]
    if sort == "newest":
        rows.sort(key=lambda row: (row.created_at, row.id), reverse=True)
    elif sort == "title":
        rows.sort(key=lambda row: (row.title.casefold(), row.id))
    elif sort == "state":
        order = {state: number for number, state in enumerate(_STATE_ORDER)}
        rows.sort(key=lambda row: order.get(row.status, len(order)))
    notes = tuple(f"{paths.shown(problem.path, root)}: {problem.what}" for problem in unread)
    return TaskList(tuple(rows), by_state, notes)


def task_row(listed: ListedTask) -> TaskListRow:
    """A task as a row; an unknown state stays as it is written."""
    work, status = listed.task, status_of(listed.task)
    return TaskListRow(
        id=work.id,
        title=work.title,
        status=status.value if status is not None else work.status,
        priority=work.priority,
        created_at=work.created_at,
        updated_at=work.updated_at,
        parent=work.parent or "",
        feature=work.feature or "",
        branch=work.branch or "",
        worktree=work.worktree or "",
        run=work.claim.run if work.claim is not None and listed.is_held else "",
        attempts=work.attempts,
        blocked_by=work.blocked_by,
        waits_for=listed.waits_for,
        ready=listed.is_ready,
    )


# --- runs ----------------------------------------------------------------------------------------


def run_rows(root: Path, *, limit: int = 100, offset: int = 0, task_id: str = "") -> tuple[list[RunRow], int]:
    """The newest runs (of a task) first, those that are under way before all others; and how many there are."""
    if task_id:
        of_task = _runs_of_task(root, task_id)
        page, total = of_task[offset : offset + limit], len(of_task)
    else:
        page, total = runs.newest(root, limit, offset)
    return sorted((run_row(root, run) for run in page), key=lambda row: not row.alive), total


def _runs_of_task(root: Path, task_id: str) -> list[Run]:
    """The runs that worked on a task, the newest first: by the journal, and those without an iteration."""
    newest, _ = runs.newest(root, _NEWEST_RUNS)
    by_id = {run.id: run for run in newest if task_id in (run.task, *run.only, *run.done, *run.failed)}
    for name in index.ask(root, lambda connection: stored_sessions.runs_of_task(connection, task_id)):
        if name not in by_id:
            with suppress(NotFound):
                by_id[name] = runs.read(root, name)
    return sorted(by_id.values(), key=lambda run: (run.started_at, run.id), reverse=True)


def run_row(root: Path, run: Run) -> RunRow:
    """A run as a row."""
    live = runs.lives(root, run)
    if run.status is not RunStatus.RUNNING:
        why = run.words or run.reason
    elif not live:
        why = f"its process is gone; `ralph loop resume {run.id}` goes on"
    else:
        why = runs.DOING.get(run.step, run.step) or "between two iterations"
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
        why=why,
    )


def prompt_tokens(root: Path, run_id: str) -> dict[int, int]:
    """What each prompt of a run costs, by iteration."""
    return {prompt.iteration: _token_count(prompt.path, prompt.size) for prompt in runs.snapshots(root, run_id)}


@lru_cache(maxsize=20_000)
def _token_count(path: Path, size: int) -> int:
    return estimate(files.read(path) or "")


# --- sessions ------------------------------------------------------------------------------------


def session_rows(
    root: Path, *, limit: int | None = 100, offset: int = 0, task_id: str = "", words: str = ""
) -> tuple[list[SessionRow], int]:
    """The newest sessions (of a task, with some words) first, and how many there are."""
    page, total = sessions.list_(root, limit=limit, offset=offset, task=task_id, words=words)
    ended = index.ask(root, stored_sessions.ended_sessions) if page else set()
    tokens = tokens_by_session(root)
    return [session_row(session, tokens[session.id], is_over=session.id in ended) for session in page], total


def session_row(session: Session, tokens: int = 0, *, is_over: bool = False) -> SessionRow:
    """A session as a row."""
    title = " ".join((session.prompt or session.summary).split())
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
    """Whether a session reported its end."""
    return session_id in index.ask(root, stored_sessions.ended_sessions)


# --- the ledger ----------------------------------------------------------------------------------


def read_ledger(root: Path) -> usage.Ledger:
    """The complete ledger, read again when it has changed."""
    path = usage.ledger_file(root)
    try:
        now = path.stat()
    except OSError:
        return usage.Ledger()
    return _cached_ledger(root, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=2)
def _cached_ledger(root: Path, changed: int, size: int) -> usage.Ledger:
    return usage.read_ledger(root, _LEDGER)


def tokens_by_session(root: Path) -> Counter[str]:
    """The tokens injected into each session."""
    tokens = Counter[str]()
    for injection in read_ledger(root).injections:
        tokens[injection.session] += injection.tokens
    return tokens
