"""Rows of tasks, runs and sessions for lists, and a watcher that reports what changed in a project.

A row has nothing that has to be read for one row alone. Open pages look about once a second: a look is a `stat` of the
files that hold something, and sees the changes of editors, git, hooks and loops alike.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from ralph import paths
from ralph.app import index, runs, sessions, usage
from ralph.app.json_shapes import run_json, session_json, task_json
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

Row = dict[str, Any]
SORTS = ("priority", "newest", "title", "state")
_STATE_ORDER = ("in_progress", "pending", "blocked", "failed", "done")
_TITLE_LENGTH = 160
_NEWEST_RUNS = 20
"""The newest runs that are checked for a task, beside those that the journal names, and that a watcher compares."""
_ALL_LOGS = 60.0
_SETTLED = 2.0
_DAY = 86_400.0
"""Seconds after which all logs are looked at again, a folder's own time can be trusted, and a log is an old one."""
_TASK_MEMBERS = "id title priority created_at updated_at attempts blocked_by waits_for ready"
_RUN_MEMBERS = "id task goal status reason started_at ended_at iterations agent model cost_usd seconds alive step"
_SESSION_MEMBERS = "id host task started_at ended_at observations messages"


def one_line(text: str, length: int) -> str:
    """Return a text on one line, truncated with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def list_tasks(
    root: Path, *, states: Sequence[str] = (), words: str = "", sort: str = "priority"
) -> Row:
    """Return as `items` the tasks with some words in these states; `by_state` counts those of every state."""
    if sort not in SORTS:
        raise UsageError(f"{sort!r} is no order of tasks", hint=f"one of {', '.join(SORTS)}")
    tasks, unread = task.list_(root)
    matching = [
        task_row(entry)
        for entry in tasks
        if words.casefold()
        in f"{entry.task.id}\n{entry.task.title}\n{entry.task.description}".casefold()
    ]
    by_state = {state.value: 0 for state in TaskStatus} | Counter(row["status"] for row in matching)
    rows = [row for row in matching if not states or row["status"] in states]
    if sort == "newest":
        rows.sort(key=lambda row: (row["created_at"], row["id"]), reverse=True)
    elif sort == "title":
        rows.sort(key=lambda row: (row["title"].casefold(), row["id"]))
    elif sort == "state":
        rows.sort(key=lambda row: [*_STATE_ORDER, row["status"]].index(row["status"]))
    notes = [f"{paths.shown(problem.path, root)}: {problem.what}" for problem in unread]
    return {"items": rows, "by_state": by_state, "notes": notes}


def task_row(entry: ListedTask) -> Row:
    """Return a task as a row; `run` is the one that works on it now, and an unknown state stays as it is written."""
    work = entry.task
    members = task_json(entry)
    status = status_of(entry.task)
    return {
        **{name: members[name] for name in _TASK_MEMBERS.split()},
        **{name: members[name] or "" for name in ("parent", "feature", "branch", "worktree")},
        "status": status.value if status is not None else work.status,
        "run": work.claim.run if work.claim is not None and entry.is_held else "",
    }


def run_rows(
    root: Path, *, limit: int = 100, offset: int = 0, task_id: str = ""
) -> tuple[list[Row], int]:
    """Return the newest runs (of a task), those that are alive first, and how many there are."""
    if not task_id:
        page, total = runs.newest(root, limit, offset)
    else:  # by the journal, and those without an iteration
        newest, _ = runs.newest(root, _NEWEST_RUNS)
        by_id = {
            run.id: run
            for run in newest
            if task_id in (run.task, *run.only, *run.done, *run.failed)
        }
        for name in index.ask(
            root, lambda connection: stored_sessions.runs_of_task(connection, task_id)
        ):
            with suppress(NotFound):
                by_id[name] = by_id.get(name) or runs.read(root, name)
        ordered = sorted(by_id.values(), key=lambda run: (run.started_at, run.id), reverse=True)
        page = ordered[offset : offset + limit]
        total = len(ordered)
    return sorted((run_row(root, run) for run in page), key=lambda row: not row["alive"]), total


def run_row(root: Path, run: Run) -> Row:
    """Return a run as a row; `tokens` are those of its prompts, `why` is how it ended, or its current step."""
    live = runs.lives(root, run)
    if run.status is not RunStatus.RUNNING:
        why = run.words or run.reason
    elif not live:
        why = f"its process is gone; `ralph loop resume {run.id}` goes on"
    else:
        why = runs.DOING.get(run.step, run.step) or "between two iterations"
    members = run_json(run, alive=live, heartbeat="")
    tokens = sum(prompt_tokens(root, run.id).values())
    return {**{name: members[name] for name in _RUN_MEMBERS.split()}, "tokens": tokens, "why": why}


def prompt_tokens(root: Path, run_id: str) -> dict[int, int]:
    """Return the tokens of each prompt of a run, by iteration."""
    return {
        number: _token_count(path, path.stat().st_size)
        for number, path in runs.snapshots(root, run_id).items()
    }


@lru_cache(maxsize=20_000)
def _token_count(path: Path, size: int) -> int:
    return estimate(files.read(path) or "")


def session_rows(
    root: Path, *, limit: int | None = 100, offset: int = 0, task_id: str = "", words: str = ""
) -> tuple[list[Row], int]:
    """Return the newest sessions (of a task, with some words), and how many there are."""
    page, total = sessions.list_(root, limit=limit, offset=offset, task=task_id, words=words)
    return describe_sessions(root, page), total


def describe_sessions(root: Path, page: Sequence[Session]) -> list[Row]:
    """Return sessions as rows; `agent` and `mode` are those of a chat."""
    names = [session.id for session in page]
    ended = (
        index.ask(root, lambda connection: stored_sessions.ended_sessions(connection, names))
        if page
        else set()
    )
    tokens = _ledger_and_tokens(root)[1]
    rows = []
    for session in page:
        members = session_json(session)
        is_chat = bool(session.task) or session.mode == "plan"
        row = {name: members[name] for name in _SESSION_MEMBERS.split()} | {
            "title": session_title(session)
        }
        row |= {"agent": session.host if is_chat else "", "mode": session.mode if is_chat else ""}
        row |= {
            "tokens_injected": tokens[session.id],
            "status": "ended" if session.id in ended else "open",
        }
        rows.append(row)
    return rows


def session_title(session: Session) -> str:
    """Return what was asked first, else how the summary begins; never an id."""
    return (
        one_line(session.prompt or session.summary, _TITLE_LENGTH)
        or f"Session without a prompt ({session.host})"
    )


def read_ledger(root: Path) -> usage.Ledger:
    """Return the complete ledger, read again when it has changed."""
    return _ledger_and_tokens(root)[0]


def _ledger_and_tokens(root: Path) -> tuple[usage.Ledger, Counter[str]]:
    try:
        status = usage.ledger_file(root).stat()
    except OSError:
        return usage.Ledger(), Counter()
    return _read_ledger(root, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read_ledger(root: Path, changed: int, size: int) -> tuple[usage.Ledger, Counter[str]]:
    ledger = usage.read_ledger(root, usage.ALL_BYTES)
    tokens = Counter[str]()
    for injection in ledger.injections:
        tokens[injection.session] += injection.tokens
    return ledger, tokens


class Watcher:
    """Remembers the last look; runs are read as long as one is alive, since a killed run leaves no trace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._logs = (
            _LogFolder(paths.log_folder(root) / "sessions"),
            _LogFolder(paths.runs_folder(root)),
        )
        self._marks: dict[str, int] | None = None
        self._runs: dict[str, Row] = {}

    def look(self) -> tuple[list[str], list[Row]]:
        """Return the parts of the project, and the runs, that changed since the last look."""
        before = self._marks
        self._marks = self._part_marks()
        changed = [
            part
            for part, mark in self._marks.items()
            if before is not None and before[part] != mark
        ]
        if (
            before is not None
            and "runs" not in changed
            and not any(row["alive"] for row in self._runs.values())
        ):
            return changed, []
        last = self._runs
        self._runs = {row["id"]: row for row in run_rows(self._root, limit=_NEWEST_RUNS)[0]}
        rows = self._runs.values()
        return changed, [
            row for row in rows if (row["alive"] if before is None else row != last.get(row["id"]))
        ]

    def _part_marks(self) -> dict[str, int]:
        root, (session_logs, run_logs) = self._root, self._logs
        folders = _scan_folder(paths.tasks_folder(root))
        records = [
            *paths.memories_files(root),
            *paths.guardrails_files(root),
            *paths.progress_files(root),
        ]
        records += [paths.global_patterns(root), *_scan_folder(paths.knowledge_folder(root))]
        names = ("task.json", "prd.json", "progress.txt")
        return {
            "records": _mark(records),
            "tasks": _mark(folder / name for folder in folders for name in names),
            "sessions": hash(
                (session_logs.changes(), _mark([paths.log_folder(root) / "injections.jsonl"]))
            ),
            "runs": run_logs.changes(),
            "insights": _mark(
                (
                    *(folder / "memory/insights.json" for folder in folders),
                    paths.held_memories(root),
                )
            ),
        }


class _LogFolder:
    """Counts changes of logs; those older than a day are looked at each minute, and when one came or went."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._changes = 0
        self._seen_at = 0.0
        self._folder_time = -1.0
        self._stamps: dict[Path, tuple[float, int]] = {}
        self._newest: list[Path] = []

    def changes(self) -> int:
        """Return the number of changes so far."""
        now = time.time()
        folder_time = _stamps([self._folder]).get(self._folder, (0.0, 0))[0]
        is_settled = folder_time == self._folder_time and now - folder_time > _SETTLED
        if is_settled and 0 <= now - self._seen_at < _ALL_LOGS:
            stamps = self._stamps | _stamps(self._newest)
        else:
            stamps = _stamps(_scan_folder(self._folder))
            self._seen_at = now
            self._folder_time = folder_time
            self._newest = [path for path, (changed, _) in stamps.items() if now - changed < _DAY]
        self._changes += stamps != self._stamps
        self._stamps = stamps
        return self._changes


def _mark(locations: Iterable[Path]) -> int:
    return hash(tuple(_stamps(locations).items()))


def _stamps(locations: Iterable[Path]) -> dict[Path, tuple[float, int]]:
    stamps = {}
    for path in locations:
        with suppress(OSError):
            status = path.stat()
            stamps[path] = (status.st_mtime, status.st_size)
    return stamps


def _scan_folder(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []
