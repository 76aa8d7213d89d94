"""The JSON shape of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ralph.loop.state import Run


def run_json(run: Run, *, alive: bool, heartbeat: str) -> dict[str, object]:
    """Return a run of the loop. `alive` and `heartbeat` refer to its process."""
    from ralph.core.work import RunStatus

    task = run.task
    if not task and run.only:
        task = run.only[0]
    return {
        "id": run.id,
        "goal": run.goal,
        "status": run.status.value,
        "reason": run.reason,
        "words": run.words,
        "iterations": run.iterations,
        "task": task,
        "feature": run.feature,
        "step": run.step,
        "agent": run.agent,
        "model": run.model,
        "done": list(run.done),
        "failed": list(run.failed),
        "skipped_criteria": list(run.skipped),
        "seconds": round(run.seconds, 3),
        "cost_usd": run.cost,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "pid": run.pid if run.status is RunStatus.RUNNING else None,
        "alive": alive,
        "heartbeat": heartbeat,
    }
