"""A session's log file, and its last lines: the session, the host and the time, without an index.

The file's time says when something happened last, unless the last line was written by a compression or an improved
summary, which do not make a session newer. Broken lines are skipped.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from ralph import paths
from ralph.model import ids

TAIL = 1 << 18
"""Bytes at the end of a log: more than any line that hooks write."""

MARKS = ("compressed_at", "summarized_at")
"""What a line has that was written long after the session."""
_TIMES = ("at", "updated_at", "created_at", "ended_at")
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def log_file(root: Path, session_id: str) -> Path:
    """Return the log of a session; an id with other characters is hashed."""
    name = session_id if _SAFE_NAME.fullmatch(session_id) else ids.derived("session", session_id)
    return paths.log_folder(root) / "sessions" / f"{name}.jsonl"


def last_lines(log: Path) -> Iterator[Mapping[str, object]]:
    """Yield the objects at the end of a log, the last first."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        for line in reversed(file.read(TAIL).splitlines()):
            with suppress(ValueError, RecursionError):
                value = json.loads(line)
                if isinstance(value, dict):
                    yield value


def session_of(line: Mapping[str, object]) -> str:
    """Return the session of a line."""
    within = line.get("payload") if line.get("type") == "event" else line.get("origin")
    named = {"event": "session_id", "observation": "session"}.get(str(line.get("type")))
    if named is not None:
        return _text(within.get(named)) if isinstance(within, Mapping) else ""
    return _text(line.get("id")) if line.get("type") == "session" else ""


def time_of(line: Mapping[str, object]) -> str:
    """Return the time of a line."""
    return next(filter(None, (_text(line.get(key)) for key in _TIMES)), "")


def host_of(line: Mapping[str, object]) -> str:
    """Return the host of a line."""
    origin = line.get("origin")
    return _text(line.get("host")) or (_text(origin.get("agent")) if isinstance(origin, Mapping) else "")


def moment(at: str) -> datetime | None:
    """Parse a time in a log; None when it is none."""
    try:
        found = datetime.fromisoformat(at)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def last_time(log: Path) -> float:
    """Return when something happened last in a log, in seconds."""
    changed = log.stat().st_mtime
    lines = last_lines(log)
    last = next(lines, None)
    if last is None or not any(mark in last for mark in MARKS):
        return changed
    written = next(filter(None, (moment(time_of(line)) for line in (last, *lines))), None)
    return changed if written is None else min(changed, written.timestamp())


def summary_is_last(log: Path) -> bool:
    """Whether a summary is the last entry, so that it covers everything before it."""
    for line in last_lines(log):
        if line.get("type") != "session":
            return False
        if line.get("summary"):
            return True
    return False


def _text(value: object) -> str:
    return value[:200] if isinstance(value, str) else ""
