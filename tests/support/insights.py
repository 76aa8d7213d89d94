"""Insights of iterations and sessions, and where they are stored."""

from dataclasses import replace
from pathlib import Path

from ralph.core import paths
from ralph.core.record import (
    Outcome,
    Record,
)
from ralph.core.work import JournalEntry
from ralph.formats.log import encode_record
from ralph.learning import insights
from ralph.recall import journal
from ralph.storage import files

PROTO = "Run `make proto` before the tests, otherwise importing user_pb2 fails."

PROTO_AGAIN = "user_pb2 cannot be imported until make proto has been run"

TOKEN = "ghp_" + "x7Kq9ZtR2mWv5LpY8sDf3GhJ6nBc1QaE4uTo"

BUILD = "a build that the tests need"


def learned(text: str) -> str:
    """The journal of an iteration that learned something, a paragraph each."""
    return (
        "Did it.\n\nLearnings:\n" + "\n".join(f"- {each}" for each in text.split("\n\n"))
        if text
        else ""
    )


def note(
    root: Path, name: str, iteration: int, text: str, run: str = "run-1a2b3c4d"
) -> JournalEntry:
    """An iteration of the loop that ended, and what it learned."""
    entry = JournalEntry(
        run, iteration, Outcome.DONE, name, notes=learned(text), session=f"host-{run[-1]}{iteration}",
        created_at=f"2026-10-0{iteration}T12:00:00Z",
    )  # fmt: skip
    journal.append(root, entry)
    return entry


def observe(root: Path, records: list[Record], session_id: str, task_id: str = "") -> None:
    """What hooks recorded in a session."""
    for record in records:
        origin = record.origin._replace(session=session_id, task=task_id)
        files.append(
            paths.log_folder(root) / "sessions" / f"{session_id}.jsonl",
            encode_record(replace(record, origin=origin)),
        )


def stored(root: Path, name: str) -> list[Record]:
    """The insights of a task, as stored."""
    return [each.record for each in insights.list_(root, task_id=name)]
