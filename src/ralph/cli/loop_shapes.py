"""How a run looks: for people and as JSON."""

from datetime import UTC, datetime
from pathlib import Path

import click

from ralph.app import journal, runs
from ralph.app.loop_parts import counted
from ralph.cli.output import one_line
from ralph.loop.state import Run
from ralph.model.work import JournalEntry, RunStatus

_COLOURS = {RunStatus.SUCCESS: "green", RunStatus.FAILED: "red", RunStatus.STOPPED: "yellow"}
_LAST = 5


def run_shape(root: Path, run: Run) -> dict[str, object]:
    """A run as JSON."""
    return {
        "id": run.id,
        "goal": run.goal,
        "status": run.status.value,
        "reason": run.reason,
        "words": run.words,
        "iterations": run.iterations,
        "task": run.task or (run.only[0] if run.only else ""),
        "feature": run.feature,
        "step": run.step,
        "agent": run.agent,
        "model": run.model,
        "done": list(run.done),
        "failed": list(run.failed),
        "seconds": round(run.seconds, 3),
        "cost_usd": run.cost,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "pid": run.pid if run.status is RunStatus.RUNNING else None,
        "alive": runs.lives(root, run),
        "heartbeat": runs.last_beat(root, run.id),
    }


def journal_shape(root: Path, run: Run) -> list[dict[str, object]]:
    """The iterations of a run as JSON."""
    return [journal.shape(entry) for entry in runs.iterations(root, run.id)]


def described(root: Path, run: Run, *, everything: bool = False) -> str:
    """A run in a few lines."""
    status = click.style(run.status.value, fg=_COLOURS.get(run.status, "cyan"))
    lines = [f"{run.id}  {status}{f' ({run.reason})' if run.reason else ''}  {one_line(run.goal)}"]
    if run.words:
        lines.append(f"  {one_line(run.words)}")
    if run.status is RunStatus.RUNNING:
        at = runs.DOING.get(run.step, run.step) or "between two iterations"
        process = f"process {run.pid}" if runs.lives(root, run) else "its process is gone"
        lines.append(f"  iteration {run.iterations + 1}, {at}, {process}")
    cost = f", ${run.cost:.4f}" if run.cost else ""
    lines.append(f"  {counted(run.iterations, 'iteration')} with {run.agent}, {_minutes(run)} of work{cost}")
    if run.task or run.only:
        lines.append(f"  task {run.task or run.only[0]}")
    entries = runs.iterations(root, run.id)
    lines += [f"  {_line(entry)}" for entry in (entries if everything else entries[-_LAST:])]
    return "\n".join(lines)


def _line(entry: JournalEntry) -> str:
    first = one_line(entry.notes.strip().split("\n", 1)[0])
    files = f", {counted(len(entry.files), 'file')}" if entry.files else ""
    return f"{entry.iteration}. {entry.outcome.value} ({entry.duration:.1f} s{files}) {first}".rstrip()


def _minutes(run: Run) -> str:
    seconds = run.seconds
    if run.status is RunStatus.RUNNING and run.iterations == 0 and run.started_at:
        began = datetime.fromisoformat(run.started_at)
        seconds = max(seconds, (datetime.now(UTC) - began).total_seconds())
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
