"""SELECTs over the SQLite files of other programs: read-only, and nothing is left beside them.

Another form than these programs had when this was written raises sqlite3.Error, which callers report as unreadable.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ralph.store import db

_OPENCODE_SESSIONS = "SELECT id, directory, time_updated FROM session ORDER BY id"
_OPENCODE_PARTS = """
SELECT s.id, s.directory, coalesce(s.parent_id, ''), m.data, p.data
FROM session s JOIN message m ON m.session_id = s.id JOIN part p ON p.message_id = m.id
WHERE s.id = ? ORDER BY m.time_created, m.id, p.id
"""
_SIZE = "SELECT coalesce(sum(length(data)), 0) FROM part WHERE session_id = ?"
_CURSOR_VALUE = "SELECT value FROM cursorDiskKV WHERE key = ?"
_CURSOR_WORKSPACE = "SELECT value FROM ItemTable WHERE key = 'composer.composerData'"
_OF_PROJECT = "(project = ?1 OR substr(project, 1, length(?1) + 1) = ?1 || '/')"  # a worktree is project/worktree
_CLAUDE_MEM = f"""
SELECT id, type, text, title, subtitle, facts, narrative, concepts, created_at, created_at_epoch AS at
FROM observations WHERE {_OF_PROJECT}
UNION ALL SELECT 'summary ' || id, 'learned', learned, '', '', '', '', '', created_at, created_at_epoch
FROM session_summaries WHERE {_OF_PROJECT} AND learned > '' ORDER BY at, 1
"""


def open_store(path: Path) -> closing[sqlite3.Connection]:
    """Open a database for reading until the end of a `with` block."""
    return closing(db.connect_foreign(path))


def opencode_sessions(connection: sqlite3.Connection) -> list[tuple[str, str, int, int]]:
    """Return id, folder, time of the last change and size of every session."""
    rows = connection.execute(_OPENCODE_SESSIONS).fetchall()
    return [
        (row[0], row[1], row[2], connection.execute(_SIZE, (row[0],)).fetchone()[0]) for row in rows
    ]


def opencode_parts(
    connection: sqlite3.Connection, session: str
) -> Iterator[tuple[str, str, str, object, object]]:
    """Yield the parts of a session's messages in their order, each with its session and message."""
    for row in connection.execute(_OPENCODE_PARTS, (session,)):
        yield row[0], row[1], row[2], row[3], row[4]


def cursor_workspace(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of the conversations in one workspace."""
    row = connection.execute(_CURSOR_WORKSPACE).fetchone()
    try:
        members = json.loads(row[0])["allComposers"] if row is not None else []
        return [str(each["composerId"]) for each in members]
    except (ValueError, LookupError, TypeError):
        return []


def cursor_value(connection: sqlite3.Connection, key: str) -> str:
    """Return the JSON of a conversation (`composerData:ID`) or message (`bubbleId:ID:ID`); "" when there is none."""
    row = connection.execute(_CURSOR_VALUE, (key,)).fetchone()
    value = row[0] if row is not None else ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def claude_mem_observations(
    connection: sqlite3.Connection, project: str
) -> Iterator[dict[str, Any]]:
    """Yield what claude-mem observed in a project and its worktrees, and what sessions learned."""
    for row in connection.execute(_CLAUDE_MEM, (project,)):
        yield dict(row)
