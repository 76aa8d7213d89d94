"""Every SELECT over sessions, runs, tasks and the journal; those over records are in `queries.py`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from ralph.store import lookup
from ralph.store.queries import safe

_ALL = """
SELECT o.id, o.started_at,
    coalesce(nullif(s.ended_at, ''), nullif(o.last, ''), s.updated_at, '') AS ended_at,
    coalesce(s.host, '') AS host, coalesce(s.mode, '') AS mode, coalesce(s.project_path, '') AS project,
    coalesce(s.task_id, '') AS task, o.observations, coalesce(s.summary, '') AS summary, s.tags AS tags
FROM session_list o LEFT JOIN sessions s ON s.id = o.id
"""
_BY_TASK = """
SELECT id FROM sessions WHERE task_id = ?
UNION SELECT session_id FROM observations WHERE instr(metadata, ?) > 0
"""
_BY_WORDS = """
SELECT id FROM sessions WHERE instr(
    lower(id || ' ' || coalesce(host, '') || ' ' || coalesce(task_id, '') || ' ' || coalesce(summary, '')), lower(?1))
UNION SELECT session_id FROM observations WHERE instr(lower(title || ' ' || content), lower(?1))
"""  # a pattern of LIKE has a largest length
_RECENT = """
SELECT id, max(summary), max(at) AS at FROM (
    SELECT id, coalesce(summary, '') AS summary,
        max(coalesce(updated_at, ''), coalesce(ended_at, ''), coalesce(started_at, '')) AS at FROM sessions
    UNION ALL
    SELECT session_id, '', created_at FROM
        (SELECT session_id, created_at FROM observations ORDER BY created_at DESC LIMIT 500)
) WHERE id NOT IN ('', ?) GROUP BY id ORDER BY at DESC, id DESC LIMIT ?
"""
_ACTIVE = """
SELECT 'loop: ', goal, ' (iteration ' || iterations || ')' FROM loop_runs WHERE status = 'running'
UNION ALL
SELECT 'task ' || id || ': ', title, '' FROM tasks WHERE status = 'in_progress' LIMIT 5
"""
_WITH_PROMPT = """
SELECT s.id, s.task_id, coalesce(s.started_at, s.created_at, ''), (
    SELECT o.content FROM observations o
    WHERE o.session_id = s.id AND o.source = s.source AND o.title = 'prompt' ORDER BY o.seq LIMIT 1
) FROM sessions s WHERE s.source = ?
"""


class RecentSession(NamedTuple):
    """A session that was active lately, with its stored summary."""

    id: str
    summary: str
    at: str = ""


def list_sessions(
    connection: sqlite3.Connection,
    *,
    hidden: Collection[str] = (),
    among: Collection[str] | None = None,
    since: str = "",
    begin: str = "",
    limit: int | None = None,
    offset: int = 0,
) -> tuple[list[dict[str, Any]], int]:
    """Return the newest sessions and how many there are; `among` only these, `begin` of an id."""
    _, test, values = lookup.conditions(
        0,
        (hidden, "o.id NOT IN (SELECT value FROM json_each(?))", (json.dumps(sorted(hidden)),)),
        (
            among is not None,
            "o.id IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(among or ())),),
        ),
        (since, "o.started_at >= ?", (safe(since),)),
        (begin, "substr(o.id, 1, ?) = ?", (len(begin), safe(begin))),
    )
    where = test or "1"
    total = int(
        connection.execute(f"SELECT count(*) FROM session_list o WHERE {where}", values).fetchone()[
            0
        ]
    )
    sql = f"{_ALL} WHERE {where} ORDER BY o.started_at DESC, o.id DESC LIMIT ? OFFSET ?"
    rows = connection.execute(sql, (*values, -1 if limit is None else limit, offset))
    return [_session(row) for row in rows], total


def session(connection: sqlite3.Connection, session_id: str) -> dict[str, Any] | None:
    """Return the session with exactly this id."""
    row = connection.execute(f"{_ALL} WHERE o.id = ?", (safe(session_id),)).fetchone()
    return None if row is None else _session(row)


def _session(row: sqlite3.Row) -> dict[str, Any]:
    return {**dict(row), "tags": _texts(row["tags"])}


def sessions_of_task(connection: sqlite3.Connection, task: str) -> set[str]:
    """Return the sessions of a task, or in which an observation names it."""
    member = f'"task":{json.dumps(task, ensure_ascii=False)}'
    return set(_column(connection, _BY_TASK, task, member))


def sessions_with_text(connection: sqlite3.Connection, text: str) -> set[str]:
    """Return the sessions with a text in their fields or observations."""
    return set(_column(connection, _BY_WORDS, text))


def ended_sessions(connection: sqlite3.Connection, names: Collection[str]) -> set[str]:
    """Return which of some sessions have ended."""
    sql = "SELECT id FROM sessions WHERE id IN (SELECT value FROM json_each(?)) AND coalesce(ended_at, '') <> ''"
    return set(_column(connection, sql, json.dumps(list(names))))


def recent_sessions(connection: sqlite3.Connection, but: str, limit: int) -> list[RecentSession]:
    """Return the sessions that were active last, but for one; -1 is no limit."""
    return [RecentSession(*row) for row in connection.execute(_RECENT, (but, limit))]


def stored_summary(connection: sqlite3.Connection, session_id: str) -> str:
    """Return the stored summary of a session; "" when there is none."""
    return _text(connection, "SELECT summary FROM sessions WHERE id = ?", session_id)


def last_observation_at(connection: sqlite3.Connection, session_id: str, until: str) -> str:
    """Return the time of a session's last observation up to a moment."""
    sql = "SELECT max(created_at) FROM observations WHERE session_id = ? AND created_at <= ? AND created_at <> ''"
    return _text(connection, sql, session_id, until)


def active_work(connection: sqlite3.Connection, task: str = "") -> list[tuple[str, str, str]]:
    """Describe one task, or every run and task in progress: what it is, its title or goal, and how far it is."""
    one = "SELECT 'task ' || id || ': ', title, '' FROM tasks WHERE id = ?"
    return connection.execute(*(one, (safe(task),)) if task else (_ACTIVE,)).fetchall()


def run_ids(connection: sqlite3.Connection, *, running: bool = False) -> list[str]:
    """Return all runs, the newest first, or the running ones, the oldest first."""
    where, order = ("status = 'running'", "ASC") if running else ("1", "DESC")
    return _column(
        connection,
        f"SELECT id FROM loop_runs WHERE {where} ORDER BY started_at {order}, id {order}",
    )


def runs_of_task(connection: sqlite3.Connection, task: str) -> list[str]:
    """Return the ids of the runs whose journal names a task."""
    return _column(
        connection, "SELECT DISTINCT run_id FROM journal WHERE task_id = ? AND run_id <> ''", task
    )


def newest_journal_day(connection: sqlite3.Connection) -> str:
    """Return the day of the journal's newest entry; "" when it is empty."""
    return _text(connection, "SELECT max(created_at) FROM journal")[:10]


def task_of_entry(connection: sqlite3.Connection, key: int) -> str:
    """Return the task of a journal entry."""
    return _text(connection, "SELECT task_id FROM journal WHERE id = ?", key)


def count_tasks(connection: sqlite3.Connection) -> int:
    """Count the tasks."""
    return int(connection.execute("SELECT count(*) FROM tasks").fetchone()[0])


def tasks_in(
    connection: sqlite3.Connection, source: int
) -> Iterator[tuple[str, str, tuple[str, ...], str, str]]:
    """Yield id, title, blockers, parent and time of the tasks of one source."""
    sql = "SELECT id, title, blocked_by, parent, created_at FROM tasks WHERE source = ?"
    for name, title, blocked_by, parent, created in connection.execute(sql, (source,)):
        yield name, title, _texts(blocked_by), parent or "", created or ""


def first_prompts(
    connection: sqlite3.Connection, source: int
) -> Iterator[tuple[str, str, str, str]]:
    """Yield id, task, time and first prompt of the sessions of one source."""
    for name, task, at, prompt in connection.execute(_WITH_PROMPT, (source,)):
        yield name, task or "", at, prompt or ""


def touched_files(
    connection: sqlite3.Connection, source: int
) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yield session, title, files and time of observations that name files."""
    sql = "SELECT session_id, title, files, created_at FROM observations WHERE source = ? AND files <> ''"
    for name, title, files, at in connection.execute(sql, (source,)):
        yield name, title, _texts(files), at


def _column(connection: sqlite3.Connection, sql: str, *values: str) -> list[str]:
    return [row[0] for row in connection.execute(sql, tuple(map(safe, values)))]


def _text(connection: sqlite3.Connection, sql: str, *values: str | int) -> str:
    row = connection.execute(
        sql, [safe(value) if isinstance(value, str) else value for value in values]
    ).fetchone()
    return (row[0] or "") if row is not None else ""


def _texts(text: str | None) -> tuple[str, ...]:
    try:
        values = json.loads(text or "[]")
    except ValueError:
        return ()
    return (
        tuple(each for each in values if isinstance(each, str) and each)
        if isinstance(values, list)
        else ()
    )
