"""Describe a run for a person or a program.

run-1a2b3c4d  running  make the tests pass
  iteration 3, waiting for the agent, process 4711
  2 iterations with claude, 3.5 min of work, $0.4200
  1. retried (62.1 s, 2 files) the schema has no index
  2. retried (147.9 s, 1 file) one test still fails
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from ralph.cli.output import cut, one_line
from ralph.core.record import Outcome
from ralph.core.work import JournalEntry, RunStatus
from ralph.loop import run_shapes, runs
from ralph.loop.state import Run, describe_progress, describe_step

_RECENT_ITERATIONS = 5  # iterations in the short description of a run
_NOTES_WIDTH = 120  # columns for an iteration's notes, about two lines including what precedes them
_MAX_SECONDS_SHOWN = 120  # longer durations are printed in minutes

_STATUS_COLOURS = {
    RunStatus.SUCCESS: "green",
    RunStatus.UNCHECKED: "yellow",
    RunStatus.FAILED: "red",
    RunStatus.STOPPED: "yellow",
}


def run_json(root: Path, run: Run) -> dict[str, object]:
    """Return a run as JSON, with the state of its process."""
    return run_shapes.run_json(
        run, alive=runs.is_alive(root, run), heartbeat=runs.read_heartbeat(root, run.id)
    )


def describe_run(root: Path, run: Run, *, everything: bool = False) -> str:
    """Describe a run with its last iterations, or with all of them."""
    from ralph.loop import run_record

    state = click.style(run.status.value, fg=_STATUS_COLOURS.get(run.status, "cyan"))
    if run.reason:
        state += f" ({run.reason})"
    lines = [f"{run.id}  {state}  {one_line(run.goal)}"]
    if run.words:
        lines.append(f"  {one_line(run.words)}")
    if run.status is RunStatus.RUNNING:
        lines.append(f"  {_describe_step(root, run)}")
    for criterion in run.skipped:
        if criterion not in run.words:  # the end of an unchecked run names them
            lines.append(f"  not checked: {one_line(criterion)}")
    work = (
        f"  {_count(run.iterations, 'iteration')} with {run.agent}, "
        f"{_format_seconds(_working_seconds(run))} of work"
    )
    if run.cost:
        work += f", ${run.cost:.4f}"
    lines.append(work)
    if run.task or run.only:
        lines.append(f"  task {run.task or run.only[0]}")
    entries = run_record.journal_entries(root, run.id)
    if not everything:
        entries = entries[-_RECENT_ITERATIONS:]
    for entry in entries:
        lines.append(f"  {_describe_iteration(entry)}".rstrip())
    return "\n".join(lines)


def _describe_step(root: Path, run: Run) -> str:
    step = describe_step(run.step)
    process = f"process {run.pid}" if runs.is_alive(root, run) else "its process is gone"
    return f"{describe_progress(run)}, {step}, {process}"


def _working_seconds(run: Run) -> float:
    """Return how long a run has worked, counted from its start in the first iteration."""
    if run.status is RunStatus.RUNNING and run.iterations == 0 and run.started_at:
        elapsed = datetime.now(UTC) - datetime.fromisoformat(run.started_at)
        return max(run.seconds, elapsed.total_seconds())
    return run.seconds


def _describe_iteration(entry: JournalEntry) -> str:
    duration = describe_duration(entry)
    if entry.files:
        duration += f", {_count(len(entry.files), 'file')}"
    first_line = entry.notes.strip().split("\n", 1)[0]
    notes = cut(one_line(first_line), _NOTES_WIDTH)
    return f"{entry.iteration}. {entry.outcome.value} ({duration}) {notes}"


def describe_duration(entry: JournalEntry) -> str:
    """Return how long an iteration took, which is unknown if it was killed at its beginning."""
    if entry.outcome is Outcome.INTERRUPTED and not entry.duration:
        return "unknown time"
    return f"{entry.duration:.1f} s"


def _count(number: int, noun: str) -> str:
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


def _format_seconds(seconds: float) -> str:
    if seconds < _MAX_SECONDS_SHOWN:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min"
