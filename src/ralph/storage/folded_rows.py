"""Fold the lines of logs about sessions and runs into one row for each session or run.

A log describes a session in several lines, for example when it starts and when it ends:

    {"type": "session", "id": "s-1", "started_at": "2025-01-15T09:00:00Z", "host": "claude"}
    {"type": "session", "id": "s-1", "ended_at": "2025-01-15T09:30:00Z", "summary": "Fixed it"}

Both lines fill columns of the row `s-1` in the table `sessions`. If two lines set the same column,
the later line wins, except in the columns listed in `_COMBINE`. The *derived* columns are computed
from other tables afterwards.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ralph.lean import discovery
from ralph.storage.record_rows import (
    column_value,
    storable_text,
)

_ALLOWED_VALUES = {
    "mode": ("plan", "agent"),
    "status": ("running", "success", "unchecked", "failed", "stopped"),
}
"""The values that the schema allows. Other values are not stored."""
_SESSION_COLUMNS = (
    "project_path",
    "task_id",
    "session_id",
    "mode",
    "started_at",
    "ended_at",
    "reason",
    "host",
    "branch",
    "summary",
    "tags",
    "created_at",
    "updated_at",
)
_RUN_COLUMNS = ("goal", "iterations", "status", "reason", "started_at", "ended_at")
_ADD_LONG_MESSAGE = """
INSERT OR REPLACE INTO long_messages(id, source, text)
SELECT :id, :source, :text WHERE EXISTS (SELECT 1 FROM observations WHERE id = :id)
"""
_COMPLETE_SESSIONS = """
UPDATE session_rows SET
    created_at = min(
        coalesce(nullif(created_at, ''), started_at), coalesce(started_at, created_at)),
    task_id = coalesce(nullif(task_id, ''), (
        SELECT json_extract(metadata, '$.task') FROM observations
        WHERE session_id = session_rows.id AND instr(metadata, '"task":') > 0
            AND json_extract(metadata, '$.task') > ''
        ORDER BY seq LIMIT 1))
WHERE id IN (SELECT value FROM json_each(?))
"""
_COMPLETE_RUNS = f"""
UPDATE loop_runs SET
    session_id = (SELECT json_extract(metadata, '$.session') FROM journal_rows
        WHERE run_id = loop_runs.id AND metadata <> '' ORDER BY iteration DESC LIMIT 1),
    context_snapshots = (
        SELECT json_group_array(printf('{discovery.RUNS}/%s/%04d.md', run_id, iteration))
        FROM (SELECT * FROM journal_rows WHERE run_id = loop_runs.id AND iteration IS NOT NULL
            ORDER BY iteration))
WHERE id IN (SELECT value FROM json_each(?))
"""


class FoldedTable(NamedTuple):
    """A table in which each row combines several lines of a log.

    `kind` is the type of these lines, and also the member of a record's origin that names the row.
    `columns` are filled from these lines. The statement `complete` fills the `derived` columns from
    other tables.
    """

    kind: str
    table: str
    columns: tuple[str, ...]
    derived: tuple[str, ...]
    complete: str


SESSIONS = FoldedTable("session", "session_rows", _SESSION_COLUMNS, (), _COMPLETE_SESSIONS)
RUNS = FoldedTable(
    "run", "loop_runs", _RUN_COLUMNS, ("session_id", "context_snapshots"), _COMPLETE_RUNS
)
FOLDED_TABLES = (SESSIONS, RUNS)
_FOLDED_KINDS = frozenset(folded.kind for folded in FOLDED_TABLES)
_COMBINE: Mapping[str, Callable[[str, str], str]] = {
    "started_at": min,
    "created_at": min,
    "updated_at": max,
}
"""How two values of a column are combined. In all other columns, the later value wins."""


def combine_lines(
    lines: Iterable[tuple[str, Mapping[str, object]]],
) -> Sequence[tuple[str, Mapping[str, object]]]:
    """Return the lines about sessions and runs, with fewer lines that are folded in the same way.

    Each event implies a line about its session, and most of them differ only in their times.
    """
    combined: list[tuple[str, Mapping[str, object]]] = []
    for kind, line in lines:
        if kind not in _FOLDED_KINDS:
            continue
        same = None
        if combined and combined[-1][0] == kind:
            same = _combined(combined[-1][1], line)
        if same is None:
            combined.append((kind, line))
        else:
            combined[-1] = (kind, same)
    return combined


def _combined(
    earlier: Mapping[str, object], later: Mapping[str, object]
) -> Mapping[str, object] | None:
    """Combine two lines that differ only in their times, or return None if they differ in more."""
    times: dict[str, object] = {}
    for column, combine in _COMBINE.items():
        first = earlier.get(column)
        second = later.get(column)
        if isinstance(first, str) and isinstance(second, str) and first and second:
            times[column] = combine(first, second)
    combined = {**later, **times}
    if combined != {**earlier, **times}:
        return None
    return combined


def fold_lines(
    connection: sqlite3.Connection,
    folded: FoldedTable,
    source: int,
    lines: Iterable[Mapping[str, object]],
    is_forgotten: Callable[[object], bool],
) -> None:
    """Fold lines into the rows of the sessions or runs that they describe. Each line has an id.

    New rows belong to `source`. A summary for which `is_forgotten` is true is left out.
    """
    rows: dict[str, dict[str, object]] = {}
    for line in lines:
        name = storable_text(str(line["id"]))
        if name not in rows:  # once: a log has thousands of lines about one session
            rows[name] = _columns_of(connection, folded, source, name)
        _fold_line(rows[name], line, is_forgotten)
    assignments = ", ".join(f"{column} = ?" for column in folded.columns)
    connection.executemany(
        f"UPDATE {folded.table} SET {assignments} WHERE id = ?",
        [(*row.values(), name) for name, row in rows.items()],
    )


def _columns_of(
    connection: sqlite3.Connection, folded: FoldedTable, source: int, name: str
) -> dict[str, object]:
    """Return the columns of a session or run. If it is new, its row is added first."""
    connection.execute(
        f"INSERT OR IGNORE INTO {folded.table}(id, source) VALUES (?, ?)", (name, source)
    )
    sql = f"SELECT {', '.join(folded.columns)} FROM {folded.table} WHERE id = ?"
    return dict(connection.execute(sql, (name,)).fetchone())


def _fold_line(
    row: dict[str, object],
    line: Mapping[str, object],
    is_forgotten: Callable[[object], bool],
) -> None:
    """Set the columns of a row that a line has members for."""
    for column, member in line.items():
        current = row.get(column)
        is_news = column in row and member is not None and member != current
        if not is_news or (column == "summary" and is_forgotten(member)):
            continue
        value = column_value(member, _ALLOWED_VALUES.get(column))
        if column in _COMBINE and isinstance(current, str) and current:
            if not isinstance(value, str) or not value:
                continue
            value = _COMBINE[column](current, value)
        if value is not None:
            row[column] = value


def add_long_messages(
    connection: sqlite3.Connection,
    source: int,
    lines: Iterable[Mapping[str, object]],
    is_forgotten: Callable[[object], bool],
) -> None:
    """Store the messages in lines about sessions in full, each for an observation that is stored.

    Lines with the state of a chat have a count in place of the messages.
    """
    rows = []
    for line in lines:
        messages = line.get("messages")
        if not isinstance(messages, list):
            continue
        for message in messages:
            match message:
                case {"id": str(name), "text": str(text)} if not is_forgotten(text):
                    row = {"id": storable_text(name), "source": source, "text": storable_text(text)}
                    rows.append(row)
    connection.executemany(_ADD_LONG_MESSAGE, rows)
