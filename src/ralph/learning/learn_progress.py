"""Note how far activity was distilled, and count the sessions that wait for it.

The start of a session asks for the number, so this is apart from `learn`, which takes longer to
load than everything else that such a start does.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import RalphError
from ralph.search import index
from ralph.storage import files, queries


def waiting_sessions(root: Path) -> int:
    """Return how many sessions have done something that was not distilled yet.

    The index is read as it is, because a session's start cannot wait for an update. If it cannot be
    read, the result is 0.
    """
    with suppress(RalphError, sqlite3.Error):
        current = index.of(root)
        if current.is_built():
            with closing(current.connect()) as connection:
                return queries.count_working_sessions(connection, since=progress(root))
    return 0


def progress(root: Path) -> str:
    """Return the time of the last record that was distilled, or ""."""
    try:
        members = json.loads(files.read(paths.learn_progress(root)) or "{}")
    except (ValueError, RecursionError, RalphError):
        return ""
    if not isinstance(members, dict):
        return ""
    return str(members.get("until") or "")


def note_progress(root: Path, until: str) -> None:
    """Note that everything up to a time was distilled. An earlier time changes nothing."""

    def edit(text: str) -> str:
        if not until or progress(root) >= until:
            return text
        return json.dumps({"until": until, "at": ids.timestamp()}) + "\n"

    boundary = paths.state_boundary(root)
    files.update(paths.learn_progress(root), edit, root=boundary, mode=files.PRIVATE)
