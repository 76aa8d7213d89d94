"""Rows of tasks, runs and sessions for lists.

A row contains nothing that would require reading a file for that row alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ralph.capture import summary
from ralph.core import paths
from ralph.core.errors import NotFound, UsageError
from ralph.core.tokens import estimate
from ralph.core.work import RunStatus, TaskStatus
from ralph.install.clients import CLIENTS, Host
from ralph.loop import run_prompts, runs
from ralph.loop.run_shapes import run_json
from ralph.loop.state import Run, describe_step
from ralph.recall import injection_ledger, sessions
from ralph.recall.json_shapes import session_json
from ralph.recall.sessions import Session
from ralph.search import index
from ralph.storage import files
from ralph.storage import sessions as stored_sessions
from ralph.storage.board import status_of
from ralph.tasks import task
from ralph.tasks.task import ListedTask
from ralph.tasks.task_shapes import task_json

Row = dict[str, Any]
SORTS = ("priority", "newest", "title", "state")
_STATE_ORDER = ("in_progress", "pending", "blocked", "failed", "done")
_MAX_TITLE_CHARACTERS = 160
_NEWEST_RUNS = 20  # that are searched for a task's runs
_TASK_MEMBERS = (
    "id",
    "title",
    "priority",
    "created_at",
    "updated_at",
    "attempts",
    "blocked_by",
    "waits_for",
    "ready",
)
_OPTIONAL_TASK_MEMBERS = ("parent", "feature", "branch", "worktree")
_RUN_MEMBERS = (
    "id",
    "task",
    "goal",
    "status",
    "reason",
    "started_at",
    "ended_at",
    "iterations",
    "agent",
    "model",
    "cost_usd",
    "seconds",
    "alive",
    "step",
)
_SESSION_MEMBERS = ("id", "host", "task", "started_at", "ended_at", "activity", "messages")


def one_line(text: str, length: int) -> str:
    """Return text on one line, truncated with an ellipsis."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    return f"{line[: length - 1]}…"


# --- tasks --------------------------------------------------------------------------------------


def list_tasks(
    root: Path, *, states: Sequence[str] = (), words: str = "", sort: str = "priority"
) -> Row:
    """Return the tasks in the given states that contain the words, as `items`.

    `by_state` counts the matching tasks in every state. Raises UsageError for an unknown sort
    order.
    """
    if sort not in SORTS:
        raise UsageError(f"{sort!r} is not an order of tasks", hint=f"one of {', '.join(SORTS)}")
    tasks, unread = task.list_(root)
    needle = words.casefold()
    by_state = {state.value: 0 for state in TaskStatus}
    rows = []
    for entry in tasks:
        text = f"{entry.task.id}\n{entry.task.title}\n{entry.task.description}"
        if needle not in text.casefold():
            continue
        row = task_row(entry)
        by_state[row["status"]] = by_state.get(row["status"], 0) + 1
        if not states or row["status"] in states:
            rows.append(row)
    _sort_tasks(rows, sort)
    notes = [f"{paths.shown(problem.path, root)}: {problem.what}" for problem in unread]
    return {"items": rows, "by_state": by_state, "notes": notes}


def _sort_tasks(rows: list[Row], sort: str) -> None:
    """Sort rows in place. They arrive ordered by priority."""
    if sort == "newest":
        rows.sort(key=lambda row: (row["created_at"], row["id"]), reverse=True)
    elif sort == "title":
        rows.sort(key=lambda row: (row["title"].casefold(), row["id"]))
    elif sort == "state":
        rows.sort(key=lambda row: _state_rank(row["status"]))


def _state_rank(status: str) -> int:
    if status in _STATE_ORDER:
        return _STATE_ORDER.index(status)
    return len(_STATE_ORDER)


def task_row(entry: ListedTask) -> Row:
    """Return a task as a row, in which `run` is the run that is working on it.

    A state that Ralph does not know is kept as written.
    """
    work = entry.task
    members = task_json(entry)
    row: Row = {name: members[name] for name in _TASK_MEMBERS}
    for name in _OPTIONAL_TASK_MEMBERS:
        row[name] = members[name] or ""
    status = status_of(work)
    row["status"] = work.status if status is None else status.value
    row["run"] = ""
    if work.claim is not None and entry.is_held:
        row["run"] = work.claim.run
    return row


# --- runs ---------------------------------------------------------------------------------------


def run_rows(
    root: Path, *, limit: int = 100, offset: int = 0, task_id: str = ""
) -> tuple[list[Row], int]:
    """Return the newest runs, live ones first, and their total.

    If `task_id` is given, only that task's runs are returned and counted.
    """
    if task_id:
        all_runs = _runs_of_task(root, task_id)
        page: Sequence[Run] = all_runs[offset : offset + limit]
        total = len(all_runs)
    else:
        page, total = runs.list_newest(root, limit, offset)
    rows = [run_row(root, run) for run in page]
    rows.sort(key=lambda row: not row["alive"])
    return rows, total


def _runs_of_task(root: Path, task_id: str) -> list[Run]:
    """Return a task's runs, newest first.

    The journal names the runs that completed an iteration. Others are looked for among the newest
    runs.
    """
    by_id = {}
    for run in runs.list_newest(root, _NEWEST_RUNS)[0]:
        if task_id in (run.task, *run.only, *run.done, *run.failed):
            by_id[run.id] = run
    names = index.ask(root, lambda connection: stored_sessions.runs_of_task(connection, task_id))
    for name in names:
        if name not in by_id:
            with suppress(NotFound):
                by_id[name] = runs.read(root, name)
    return sorted(by_id.values(), key=lambda run: (run.started_at, run.id), reverse=True)


def run_row(root: Path, run: Run) -> Row:
    """Return a run as a row.

    `tokens` is the number of tokens in its prompts. `why` is the reason for its end, or its current
    step.
    """
    is_alive = runs.is_alive(root, run)
    members = run_json(run, alive=is_alive, heartbeat="")
    row: Row = {name: members[name] for name in _RUN_MEMBERS}
    row["tokens"] = sum(prompt_tokens(root, run.id).values())
    if run.status is not RunStatus.RUNNING:
        row["why"] = run.words or run.reason
    elif not is_alive:
        row["why"] = f"its process is gone; `ralph loop resume {run.id}` resumes it"
    else:
        row["why"] = describe_step(run.step)
    return row


def prompt_tokens(root: Path, run_id: str) -> dict[int, int]:
    """Return the number of tokens in each of a run's prompts, by iteration."""
    return {
        number: _token_count(path, path.stat().st_size)
        for number, path in run_prompts.list_(root, run_id).items()
    }


@lru_cache(maxsize=20_000)
def _token_count(path: Path, size: int) -> int:
    return estimate(files.read(path) or "")


# --- sessions -----------------------------------------------------------------------------------


def session_rows(
    root: Path,
    *,
    limit: int | None = 100,
    offset: int = 0,
    task_id: str = "",
    words: str = "",
    hidden: Collection[str] = (),
) -> tuple[list[Row], int]:
    """Return the newest sessions and their total, optionally for a task or some words."""
    page, total = sessions.list_(
        root, limit=limit, offset=offset, task=task_id, words=words, hidden=hidden
    )
    return describe_sessions(root, page), total


def describe_sessions(root: Path, page: Sequence[Session]) -> list[Row]:
    """Return sessions as rows. `agent` and `mode` are filled in for chats.

    The outcome comes from the summary, which a session has once it has stopped.
    """
    if not page:
        return []
    names = [session.id for session in page]
    ended = index.ask(root, lambda connection: stored_sessions.ended_sessions(connection, names))
    tokens = _read_usage(root).tokens_by_session
    rows = []
    for session in page:
        members = session_json(session)
        is_chat = bool(session.task) or session.mode == "plan"
        row: Row = {name: members[name] for name in _SESSION_MEMBERS}
        row["title"] = session_title(session)
        row["client"] = _client_title(session.host)
        row["agent"] = session.host if is_chat else ""
        row["mode"] = session.mode if is_chat else ""
        row["tokens_given"] = tokens[session.id]
        row["status"] = "ended" if session.id in ended else "open"
        row["outcome"] = _outcome(session)
        rows.append(row)
    return rows


def _client_title(host: str) -> str:
    """Return the name of a client as people write it. Other agents keep their name."""
    if host in list(Host):
        return CLIENTS[Host(host)].title
    return host


def _outcome(session: Session) -> Row:
    """Return what a session changed, how it ended, and the first point that it left open."""
    known = summary.parse(session.summary)
    return {
        "text": one_line(known.state, _MAX_TITLE_CHARACTERS),
        "changed": known.changed,
        "open": one_line(next(iter(known.open_ends), ""), _MAX_TITLE_CHARACTERS),
    }


def session_title(session: Session) -> str:
    """Return the first prompt, or else the beginning of the summary, but never an id."""
    title = one_line(session.prompt or session.summary, _MAX_TITLE_CHARACTERS)
    return title or "Session without a prompt"


class _Usage(NamedTuple):
    """The ledger of injections, and the number of tokens injected into each session."""

    ledger: injection_ledger.Ledger
    tokens_by_session: Counter[str]


def read_ledger(root: Path) -> injection_ledger.Ledger:
    """Return the complete ledger, reading it again if it has changed."""
    return _read_usage(root).ledger


def _read_usage(root: Path) -> _Usage:
    try:
        status = injection_ledger.ledger_file(root).stat()
    except OSError:
        return _Usage(injection_ledger.Ledger(), Counter())
    return _read_usage_version(root, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read_usage_version(root: Path, changed: int, size: int) -> _Usage:
    ledger = injection_ledger.read_ledger(root, injection_ledger.WHOLE_LEDGER)
    tokens = Counter[str]()
    for injection in ledger.injections:
        tokens[injection.session] += injection.tokens
    return _Usage(ledger, tokens)
