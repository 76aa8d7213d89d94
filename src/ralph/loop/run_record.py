"""Read a run's journal, and write the record that makes an ended run searchable.

The text of a record summarizes the run:

    Goal: Fix the tests
    Ended: success, success: done: t-0a1b
    Iterations: 2
    1. retried: two tests fail
    2. done: the rounding is fixed
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import assert_never

from ralph.core import paths
from ralph.core.record import Family, Origin, Outcome, Record
from ralph.core.work import JournalEntry, RunStatus
from ralph.formats.log import put_record
from ralph.loop.state import Run
from ralph.recall import journal
from ralph.storage import files

_MAX_LISTED_ITERATIONS = 20  # the newest ones


def journal_entries(root: Path, run_id: str) -> tuple[JournalEntry, ...]:
    """Return a run's journal entries, oldest first."""
    return journal.recent(root, run_id, sys.maxsize)


def write(root: Path, run: Run) -> Record:
    """Write the record of a run that has ended, and return it.

    If the run was resumed, the new record replaces the earlier one.
    """
    entries = journal_entries(root, run.id)
    changed_files: dict[str, None] = {}
    for entry in entries:
        changed_files.update(dict.fromkeys(entry.files))
    origin = Origin(
        by="agent",
        run=run.id,
        task=run.only[0] if run.only else "",
        agent=run.agent,
        files=tuple(changed_files),
    )
    record = Record(
        id=run.id,
        kind=_outcome_of(run.status),
        text=_describe_run(run, entries),
        family=Family.JOURNAL,
        label="run",
        title=run.goal.split("\n", 1)[0],
        origin=origin,
        created_at=run.ended_at,
        extra={
            "duration_secs": run.seconds,
            "cost_usd": run.cost,
            "iterations": run.iterations,
        },
    )
    path = paths.run_log(root, run.id)
    boundary = paths.state_boundary(root)
    files.update(path, lambda text: put_record(text, record), root=boundary, mode=files.PRIVATE)
    return record


def _outcome_of(status: RunStatus) -> Outcome:
    match status:
        case RunStatus.SUCCESS | RunStatus.UNCHECKED:
            return Outcome.DONE
        case RunStatus.STOPPED:
            return Outcome.INTERRUPTED
        case RunStatus.FAILED | RunStatus.RUNNING:  # only ended runs get a record
            return Outcome.FAILED
        case _:
            assert_never(status)


def _describe_run(run: Run, entries: Sequence[JournalEntry]) -> str:
    lines = [
        f"Goal: {run.goal}",
        f"Ended: {run.status}, {run.reason}: {run.words}",
        f"Iterations: {run.iterations}",
    ]
    for entry in entries[-_MAX_LISTED_ITERATIONS:]:
        first_note = entry.notes.strip().split("\n", 1)[0]
        lines.append(f"{entry.iteration}. {entry.outcome}: {first_note}".rstrip(": "))
    return "\n".join(lines)
