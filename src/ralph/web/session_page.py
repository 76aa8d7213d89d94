"""A session in full, as the JSON that its page shows."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ralph.capture import summary
from ralph.core.errors import Hint, NotFound
from ralph.core.ids import parse_time
from ralph.core.record import ObservationKind, Record
from ralph.recall import (
    conversation,
    graph,
    session_summary,
    sessions,
)
from ralph.recall.sessions import Session
from ralph.search import index
from ralph.storage import queries
from ralph.storage import sessions as stored_sessions
from ralph.web import lists
from ralph.web.lists import one_line
from ralph.web.record_rows import PREVIEW_LENGTH, injection_json, record_row

Json = dict[str, Any]

TIMELINE_SIZE = 200  # observations on one page of a session's timeline
_EARLIEST = datetime.min.replace(tzinfo=UTC)  # stands for a time that cannot be parsed
_ECHO = ("$ ", "# ")  # start the lines with a command and its description
_MAX_LINE_CHARACTERS = 120  # in the title of an injected record


def session_page(
    root: Path, session_id: str, *, offset: int = 0, limit: int = TIMELINE_SIZE
) -> Json:
    """Return a session with its messages, one page of its timeline, and its injections.

    Raises NotFound for an unknown or empty id.
    """
    if not session_id:
        raise NotFound(
            "no session id is given",
            hint=Hint("find-session", "`ralph session list` shows the ids"),
        )
    session = sessions.find(root, session_id)
    row = lists.describe_sessions(root, [session])[0]
    turns: Sequence[conversation.Turn] = ()
    if row["mode"]:
        turns = conversation.read_history(root, session.id).turns
    injected = _session_injections(root, session.id)
    timeline = index.ask(
        root, lambda connection: _timeline(connection, session, injected, offset, limit)
    )
    return {
        "session": row,
        "summary": session.summary or session_summary.summarize(root, session.id).text,
        "turns": [
            {"role": turn.by.value, "at": turn.at, "text": turn.text, "tools": turn.tools}
            for turn in turns
        ],
        "timeline": timeline,
        "given": injected,
    }


def _timeline(
    connection: sqlite3.Connection,
    session: Session,
    injected: Sequence[Json],
    offset: int,
    limit: int,
) -> Json:
    """Return one page of a session's observations, each with the injections that followed it.

    `before` has the injections that preceded the first observation.
    """
    # Read one observation beyond the page, which takes the injections that belong to later pages.
    keys = queries.observation_keys(connection, session.id, limit + 1, offset)
    records = queries.records(connection, keys)
    locations = queries.locations(connection, keys)
    keys = [key for key in keys if key in records]
    times = [_time_or_earliest(records[key].created_at) for key in keys]
    after_item: list[list[Json]] = [[] for _ in keys]
    before_first = []
    for injection in injected:
        position = bisect_right(times, _time_or_earliest(injection["at"])) - 1
        if position >= 0:
            after_item[position].append(injection)
        elif offset == 0:
            before_first.append(injection)
    items = []
    for key, injections in zip(keys, after_item, strict=True):
        record = records[key]
        row = record_row(record, locations[key], "")
        row["text"] = _shown_text(record, row["text"])
        items.append({**row, "at": record.created_at, "given": injections})
    return {"items": items[:limit], "total": session.observations, "before": before_first}


def _shown_text(record: Record, text: str) -> str:
    """Return the line that names the error, or the output without the command, which is the title.

    Other records keep their text.
    """
    if record.kind is ObservationKind.ERROR:
        return summary.error_line(record) or text
    if "command" not in record.extra:
        return text
    output = [line for line in record.text.splitlines() if not line.startswith(_ECHO)]
    return one_line("\n".join(output), PREVIEW_LENGTH)


def _time_or_earliest(text: str) -> datetime:
    return parse_time(text) or _EARLIEST


def _session_injections(root: Path, session_id: str) -> list[Json]:
    """Return the injections into a session, in order, with titles."""
    ledger = lists.read_ledger(root)
    injections = [entry for entry in ledger.injections if entry.session == session_id]
    if not injections:
        return []
    used_records = {record for session, record in ledger.uses if session == session_id}
    names = {injection.record for injection in injections}
    titles = index.ask(root, lambda connection: _injected_titles(connection, names))
    rows = []
    for injection in injections:
        row = injection_json(injection, used=injection.record in used_records)
        row["id"] = injection.record
        row["title"] = titles.get(injection.record, "")
        rows.append(row)
    return rows


def _injected_titles(connection: sqlite3.Connection, names: set[str]) -> dict[str, str]:
    """Return titles for injected records and sessions. A session's title is its goal."""
    texts = {}
    for name, record in graph.records(connection, list(names)).items():
        texts[name] = record.title or record.text
    for name in names - texts.keys():
        text = stored_sessions.stored_summary(connection, name)
        texts[name] = summary.parse(text).goal
    return {name: one_line(text, _MAX_LINE_CHARACTERS) for name, text in texts.items()}
