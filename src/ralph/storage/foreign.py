"""Query the SQLite databases of other programs.

They are opened read-only, and no file is created next to them. If a program has changed its schema
since this was written, the query raises sqlite3.Error, which callers report as unreadable.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ralph.storage import db

_OPENCODE_SESSIONS = "SELECT id, directory, time_updated FROM session ORDER BY id"
_OPENCODE_SIZE = "SELECT coalesce(sum(length(data)), 0) FROM part WHERE session_id = ?"
_OPENCODE_PARTS = """
SELECT s.id, s.directory, coalesce(s.parent_id, '') AS parent, m.data AS message, p.data AS part
FROM session s JOIN message m ON m.session_id = s.id JOIN part p ON p.message_id = m.id
WHERE s.id = ? ORDER BY m.time_created, m.id, p.id
"""
_CURSOR_VALUE = "SELECT value FROM cursorDiskKV WHERE key = ?"
_CURSOR_WORKSPACE = "SELECT value FROM ItemTable WHERE key = 'composer.composerData'"
# claude-mem names a worktree `project/worktree`.
_IN_PROJECT = "(project = :project OR substr(project, 1, length(:project) + 1) = :project || '/')"
_CLAUDE_MEM = f"""
SELECT id, type, text, title, subtitle, facts, narrative, concepts, created_at,
    created_at_epoch AS at
FROM observations WHERE {_IN_PROJECT}
UNION ALL
SELECT 'summary ' || id, 'learned', learned, '', '', '', '', '', created_at, created_at_epoch
FROM session_summaries WHERE {_IN_PROJECT} AND learned > ''
ORDER BY at, 1
"""


def open_store(path: Path) -> closing[sqlite3.Connection]:
    """Open a database for reading. Use the result in a `with` statement."""
    return closing(db.connect_foreign(path))


def opencode_sessions(
    connection: sqlite3.Connection, is_wanted: Callable[[str], bool]
) -> list[tuple[str, int, int]]:
    """Return the id, last modification time and size of the OpenCode sessions in wanted folders."""
    sessions = []
    for session_id, folder, updated_at in connection.execute(_OPENCODE_SESSIONS).fetchall():
        if is_wanted(folder):
            row = connection.execute(_OPENCODE_SIZE, (session_id,)).fetchone()
            sessions.append((session_id, updated_at, row[0]))
    return sessions


def opencode_parts(
    connection: sqlite3.Connection, session: str
) -> Iterator[tuple[str, str, str, object, object]]:
    """Yield the message parts of an OpenCode session in order.

    Each item has the session's id, folder and parent, the message's data, and the part's data.
    """
    for row in connection.execute(_OPENCODE_PARTS, (session,)):
        yield row["id"], row["directory"], row["parent"], row["message"], row["part"]


def cursor_workspace(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of the conversations in a Cursor workspace."""
    row = connection.execute(_CURSOR_WORKSPACE).fetchone()
    if row is None:
        return []
    try:
        composers = json.loads(row["value"])["allComposers"]
        return [str(composer["composerId"]) for composer in composers]
    except (ValueError, LookupError, TypeError):
        return []


def cursor_value(connection: sqlite3.Connection, key: str) -> str:
    """Return the JSON of a Cursor conversation or message, or "" if there is none.

    The key is `composerData:ID` for a conversation and `bubbleId:ID:ID` for a message.
    """
    row = connection.execute(_CURSOR_VALUE, (key,)).fetchone()
    if row is None:
        return ""
    value = row["value"]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value or "")


def claude_mem_observations(
    connection: sqlite3.Connection, project: str
) -> Iterator[dict[str, Any]]:
    """Yield claude-mem's observations about a project and its worktrees.

    The `learned` field of each session summary is included as an observation.
    """
    for row in connection.execute(_CLAUDE_MEM, {"project": project}):
        yield dict(row)
