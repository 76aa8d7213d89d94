"""The history of a task: its status changes, and the iterations of runs that worked on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.core.record import Family, Record
from ralph.core.work import Task
from ralph.search import index
from ralph.storage import board, queries, query_filters, task_files

if TYPE_CHECKING:
    import sqlite3


def list_events(root: Path, task_id: str) -> list[dict[str, str]]:
    """Return the events in a task's history, oldest first.

    An event's `by` is the id of a run, or "" for a person.
    """
    task = task_files.find_task(root, task_id).task
    events = []
    if task.created_at:
        events.append({"at": task.created_at, "what": "added", "by": "", "note": ""})
    events += _status_changes(task)
    for record in _iterations(root, task_id):
        events.append(
            {
                "at": record.created_at,
                "what": f"iteration {record.origin.iteration}: {record.kind.value}",
                "by": record.origin.run,
                "note": record.text,
            }
        )
    return sorted(events, key=lambda event: board.parse_time(event["at"]))


def _status_changes(task: Task) -> Iterator[dict[str, str]]:
    """Yield the valid entries of a task's history as events."""
    history = task.extra.get(board.HISTORY_MEMBER)
    if not isinstance(history, list):
        return
    for change in history:
        if not isinstance(change, dict):
            continue
        yield {
            "at": str(change.get("at", "")),
            "what": f"{change.get('from', '')} -> {change.get('to', '')}",
            "by": str(change.get("by", "")),
            "note": str(change.get("note", "")),
        }


def _iterations(root: Path, task_id: str) -> list[Record]:
    """Return the journal records for a task, oldest first."""
    where, values = query_filters.iteration_condition(task=task_id)

    def select(connection: sqlite3.Connection) -> list[Record]:
        rows = queries.select_records(connection, Family.JOURNAL, where, tuple(values))
        return [record for _, record in rows]

    records = index.ask(root, select)
    return sorted(records, key=lambda record: (record.created_at, record.origin.iteration or 0))
