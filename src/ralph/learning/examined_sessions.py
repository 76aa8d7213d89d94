"""Which sessions were examined for lessons, and which were missed because they were killed.

A file has one line per examined session: the time of its last record then, and its id.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from ralph.core import paths
from ralph.storage import files, sessions

MAX_MISSED = 5  # the most recent sessions that a session's start looks at
_MAX_NOTED = 1_000
_END_OF_TIME = "9999"


def missed(
    root: Path, connection: sqlite3.Connection, running: str = "", limit: int = MAX_MISSED
) -> list[str]:
    """Return those of the most recent sessions that have records which were not examined yet.

    `running` is the session that is just starting, which does not count.
    """
    examined = _examined_until(root)
    found = []
    for recent in sessions.recent_sessions(connection, running, limit):
        last = sessions.last_observation_at(connection, recent.id, _END_OF_TIME)
        if last > examined.get(recent.id, ""):
            found.append(recent.id)
    return found


def note(root: Path, last_records: Mapping[str, str]) -> None:
    """Note that sessions were examined. Each is given with the time of its last record then."""
    if not last_records:
        return

    def edit(text: str) -> str:
        lines = [line for line in text.splitlines() if line.partition(" ")[2] not in last_records]
        lines += [f"{last} {session}" for session, last in last_records.items()]
        return "".join(f"{line}\n" for line in lines[-_MAX_NOTED:])

    boundary = paths.state_boundary(root)
    files.update(paths.extracted_file(root), edit, root=boundary, mode=files.PRIVATE)


def _examined_until(root: Path) -> dict[str, str]:
    """Return the time of the last record that was examined, by session."""
    noted = {}
    for line in (files.read(paths.extracted_file(root)) or "").splitlines():
        at, _, session = line.partition(" ")
        noted[session] = at
    return noted
