"""Query the sessions, runs, tasks and journal in the index.

The queries for records are in `queries.py`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from ralph.lean import discovery
from ralph.storage import record_filters
from ralph.storage.queries import limit_value
from ralph.storage.record_rows import storable_text

_SESSIONS = """
SELECT o.id, o.started_at,
    coalesce(nullif(s.ended_at, ''), nullif(o.last, ''), s.updated_at, '') AS ended_at,
    coalesce(s.host, '') AS host, coalesce(s.mode, '') AS mode,
    coalesce(s.project_path, '') AS project, coalesce(s.task_id, '') AS task, o.observations,
    coalesce(s.summary, '') AS summary, s.tags AS tags
FROM session_list o LEFT JOIN session_rows s ON s.id = o.id
"""
_BY_TASK = """
SELECT id FROM session_rows WHERE task_id = ?
UNION SELECT session_id FROM observations WHERE instr(metadata, ?) > 0
"""
_BY_TEXT = """
SELECT id FROM session_rows WHERE instr(lower(
    id || ' ' || coalesce(host, '') || ' ' || coalesce(task_id, '') || ' ' || coalesce(summary, '')
), lower(?))
UNION SELECT session_id FROM observations WHERE instr(lower(title || ' ' || content), lower(?))
"""
"""Uses `instr` and not LIKE, because SQLite limits the length of a LIKE pattern."""
_ENDED = """
SELECT id FROM session_rows
WHERE id IN (SELECT value FROM json_each(?)) AND coalesce(ended_at, '') <> ''
"""
_RECORDED_HOSTS = """
SELECT s.host, count(*),
    max(coalesce(nullif(s.updated_at, ''), nullif(o.last, ''), o.started_at, ''))
FROM session_list o JOIN session_rows s ON s.id = o.id
WHERE coalesce(s.host, '') <> '' GROUP BY s.host
"""
_SHORT_TALKS = """
SELECT l.id, coalesce(o.content, '')
FROM session_list l LEFT JOIN observations o ON o.session_id = l.id AND o.title = 'prompt'
WHERE l.observations <= ? AND NOT EXISTS (
    SELECT 1 FROM observations other WHERE other.session_id = l.id AND other.type <> 'note'
)
"""
_RECENT = """
SELECT id, max(summary) AS summary, max(at) AS at, max(branch), max(ended_at) FROM (
    SELECT id, coalesce(summary, '') AS summary,
        max(coalesce(updated_at, ''), coalesce(ended_at, ''), coalesce(started_at, '')) AS at,
        coalesce(branch, '') AS branch, coalesce(ended_at, '') AS ended_at
    FROM session_rows
    UNION ALL
    SELECT session_id, '', created_at, '', '' FROM
        (SELECT session_id, created_at FROM observations ORDER BY created_at DESC LIMIT 500)
) WHERE id NOT IN ('', ?) GROUP BY id ORDER BY at DESC, id DESC LIMIT ?
"""
_LAST_OBSERVATION = """
SELECT max(created_at) FROM observations
WHERE session_id = ? AND created_at <= ? AND created_at <> ''
"""
_ONE_TASK = "SELECT 'task ' || id || ': ', title, '' FROM tasks WHERE id = ? AND status <> 'done'"
_ACTIVE_WORK = """
SELECT 'loop: ', goal, ' (iteration ' || (iterations + 1) || ')'
FROM loop_runs WHERE status = 'running'
UNION ALL
SELECT 'task ' || id || ': ', title, '' FROM tasks WHERE status = 'in_progress' LIMIT 5
"""
_RUNS = "SELECT id FROM loop_runs JOIN sources ON sources.key = loop_runs.source"
_FIRST_PROMPTS = """
SELECT s.id, s.task_id, coalesce(s.started_at, s.created_at, ''), (
    SELECT o.content FROM observations o
    WHERE o.session_id = s.id AND o.source = s.source AND o.title = 'prompt' ORDER BY o.seq LIMIT 1
) FROM session_rows s WHERE s.source = ?
"""
_TOUCHED_FILES = """
SELECT session_id, title, files, created_at FROM observations WHERE source = ? AND files <> '[]'
"""


# --- sessions -----------------------------------------------------------------------------------


class RecentSession(NamedTuple):
    """A recently active session, with its summary and the time of its last activity."""

    id: str
    summary: str
    at: str = ""
    branch: str = ""
    ended_at: str = ""


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
    """Return a page of sessions, newest first, and the total number that match.

    `hidden` lists sessions to leave out, `among` restricts the result to these ids, and `begin` is
    a prefix that ids must have.
    """
    has_id_in = "IN (SELECT value FROM json_each(?))"
    test, values = record_filters.join_conditions(
        (hidden, f"o.id NOT {has_id_in}", (json.dumps(sorted(hidden)),)),
        (among is not None, f"o.id {has_id_in}", (json.dumps(sorted(among or ())),)),
        (since, "o.started_at >= ?", (storable_text(since),)),
        (begin, "substr(o.id, 1, ?) = ?", (len(begin), storable_text(begin))),
    )
    where = test or "1"
    count = connection.execute(f"SELECT count(*) FROM session_list o WHERE {where}", values)
    total = int(count.fetchone()[0])
    sql = f"{_SESSIONS} WHERE {where} ORDER BY o.started_at DESC, o.id DESC LIMIT ? OFFSET ?"
    rows = connection.execute(sql, (*values, limit_value(limit), offset))
    return [_session(row) for row in rows], total


def session(connection: sqlite3.Connection, session_id: str) -> dict[str, Any] | None:
    """Return the session with exactly this id, or None."""
    row = connection.execute(f"{_SESSIONS} WHERE o.id = ?", (storable_text(session_id),)).fetchone()
    if row is None:
        return None
    return _session(row)


def _session(row: sqlite3.Row) -> dict[str, Any]:
    return {**dict(row), "tags": _parse_texts(row["tags"])}


def sessions_of_task(connection: sqlite3.Connection, task: str) -> set[str]:
    """Return the ids of the sessions that belong to a task or whose observations name it."""
    member = f'"task":{json.dumps(task, ensure_ascii=False)}'
    return set(_column(connection, _BY_TASK, task, member))


def sessions_with_text(connection: sqlite3.Connection, text: str) -> set[str]:
    """Return the ids of the sessions that contain a string in a field or an observation."""
    return set(_column(connection, _BY_TEXT, text, text))


def ended_sessions(connection: sqlite3.Connection, names: Collection[str]) -> set[str]:
    """Return which of the given sessions have ended, by id."""
    return set(_column(connection, _ENDED, json.dumps(list(names))))


def recent_sessions(
    connection: sqlite3.Connection, except_session: str, limit: int
) -> list[RecentSession]:
    """Return the most recently active sessions, except one. A limit of -1 means no limit."""
    return [RecentSession(*row) for row in connection.execute(_RECENT, (except_session, limit))]


def recorded_hosts(connection: sqlite3.Connection) -> dict[str, tuple[int, str]]:
    """Return the number of sessions of each host, and the time of its last activity."""
    rows = connection.execute(_RECORDED_HOSTS)
    return {host: (count, last_at) for host, count, last_at in rows}


def recorded_events(connection: sqlite3.Connection) -> tuple[int, set[str]]:
    """Return the number of events in the logs of sessions, and the hosts that sent them."""
    sql = "SELECT hosts, sum(events) FROM sources WHERE path LIKE ? GROUP BY hosts"
    total = 0
    hosts: set[str] = set()
    for names, events in connection.execute(sql, (f"{discovery.SESSIONS}/%",)):
        total += events
        hosts.update(names.split())
    return total, hosts


def short_talks(connection: sqlite3.Connection, most: int) -> dict[str, list[str]]:
    """Return the prompts of sessions with at most `most` observations, all of them notes, by id.

    A session without a prompt has one empty text.
    """
    prompts: dict[str, list[str]] = {}
    for session_id, prompt in connection.execute(_SHORT_TALKS, (most,)):
        prompts.setdefault(session_id, []).append(prompt)
    return prompts


def stored_summary(connection: sqlite3.Connection, session_id: str) -> str:
    """Return the stored summary of a session, or "" if it has none."""
    return _text(connection, "SELECT summary FROM session_rows WHERE id = ?", session_id)


def last_observation_at(connection: sqlite3.Connection, session_id: str, until: str) -> str:
    """Return the time of a session's last observation up to `until`, or "" if it has none."""
    return _text(connection, _LAST_OBSERVATION, session_id, until)


# --- runs, tasks and the journal ----------------------------------------------------------------


def active_work(connection: sqlite3.Connection, task: str = "") -> list[tuple[str, str, str]]:
    """Describe one task, or the runs and tasks in progress (at most five).

    Each description has three parts: what it is, its title or goal, and its progress.
    """
    if task:
        rows = connection.execute(_ONE_TASK, (storable_text(task),))
    else:
        rows = connection.execute(_ACTIVE_WORK)
    return rows.fetchall()


def run_ids(connection: sqlite3.Connection, *, running: bool = False) -> list[str]:
    """Return the ids of all runs, newest first.

    With `running`, return only those in progress, oldest first. Of two runs that were started
    within the same second, the one whose log was written later is newer.
    """
    if running:
        sql = f"{_RUNS} WHERE status = 'running' ORDER BY started_at, mtime_ns, id"
    else:
        sql = f"{_RUNS} ORDER BY started_at DESC, mtime_ns DESC, id DESC"
    return _column(connection, sql)


def runs_of_task(connection: sqlite3.Connection, task: str) -> list[str]:
    """Return the ids of the runs whose journal names a task."""
    sql = "SELECT DISTINCT run_id FROM journal_rows WHERE task_id = ? AND run_id <> ''"
    return _column(connection, sql, task)


def newest_journal_day(connection: sqlite3.Connection) -> str:
    """Return the day of the newest journal entry, or "" if the journal is empty."""
    return _text(connection, "SELECT max(created_at) FROM journal_rows")[:10]


def task_of_entry(connection: sqlite3.Connection, key: int) -> str:
    """Return the id of a journal entry's task, or "" if it has none."""
    return _text(connection, "SELECT task_id FROM journal_rows WHERE id = ?", key)


def count_tasks(connection: sqlite3.Connection) -> int:
    """Count the tasks."""
    return int(connection.execute("SELECT count(*) FROM tasks").fetchone()[0])


# --- rows of one source -------------------------------------------------------------------------


class IndexedTask(NamedTuple):
    """The columns of a task that the graph needs."""

    id: str
    title: str
    blocked_by: tuple[str, ...]
    parent: str
    created_at: str


class SessionPrompt(NamedTuple):
    """A session and its first prompt, which is "" if it has none."""

    id: str
    task: str
    started_at: str
    prompt: str


class TouchedFiles(NamedTuple):
    """An observation that names files."""

    session: str
    title: str
    files: tuple[str, ...]
    created_at: str


def tasks_in(connection: sqlite3.Connection, source: int) -> Iterator[IndexedTask]:
    """Yield the tasks in one source."""
    sql = "SELECT id, title, blocked_by, parent, created_at FROM tasks WHERE source = ?"
    for task_id, title, blocked_by, parent, created_at in connection.execute(sql, (source,)):
        blockers = _parse_texts(blocked_by)
        yield IndexedTask(task_id, title, blockers, parent or "", created_at or "")


def first_prompts(connection: sqlite3.Connection, source: int) -> Iterator[SessionPrompt]:
    """Yield the sessions in one source, each with its first prompt."""
    for session_id, task, started_at, prompt in connection.execute(_FIRST_PROMPTS, (source,)):
        yield SessionPrompt(session_id, task or "", started_at, prompt or "")


def touched_files(connection: sqlite3.Connection, source: int) -> Iterator[TouchedFiles]:
    """Yield the observations in one source that name files."""
    for session_id, title, files, created_at in connection.execute(_TOUCHED_FILES, (source,)):
        yield TouchedFiles(session_id, title, _parse_texts(files), created_at)


# --- values -------------------------------------------------------------------------------------


def _column(connection: sqlite3.Connection, sql: str, *values: str) -> list[str]:
    """Return the first column of a query's result."""
    rows = connection.execute(sql, tuple(map(storable_text, values)))
    return [row[0] for row in rows]


def _text(connection: sqlite3.Connection, sql: str, *values: str | int) -> str:
    """Return the single value that a query selects, or "" if there is none."""
    storable = [storable_text(value) if isinstance(value, str) else value for value in values]
    row = connection.execute(sql, storable).fetchone()
    if row is None:
        return ""
    return row[0] or ""


def _parse_texts(text: str | None) -> tuple[str, ...]:
    """Return the non-empty strings in a JSON array, or () if it is not an array."""
    try:
        values = json.loads(text or "[]")
    except ValueError:
        return ()
    if not isinstance(values, list):
        return ()
    return tuple(value for value in values if isinstance(value, str) and value)
