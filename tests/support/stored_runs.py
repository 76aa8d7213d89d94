"""Runs on disk that a process of this test or a dead process owns."""

from dataclasses import replace
from pathlib import Path

from tests.support.looping import GOAL

from ralph.core.record import Outcome
from ralph.core.work import JournalEntry, RunStatus
from ralph.loop import runs
from ralph.loop.state import Run
from ralph.tasks import claims, task

WHEN = "2026-01-01T00:00:00Z"
RUN = Run("run-00000001", GOAL, started_at=WHEN)


def empty_repository(folder: Path) -> Path:
    """Make a repository without git's help."""
    root = folder / "shop"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return root


def killed(run: Run) -> Run:
    """The run of a process that is gone."""
    return replace(
        runs.assign_to_this_process(run),
        status=RunStatus.RUNNING,
        reason="",
        words="",
        ended_at="",
        born="gone",
    )


def at_work(root: Path, **members: object) -> Run:
    """A dead run that was at work on a task."""
    name = task.add(root, GOAL).task.id
    run = killed(replace(RUN, only=(name,), task=name, step="agent", **members))  # type: ignore[arg-type]  # by name
    assert (
        claims.acquire(root, name, replace(claims.make_claim(run.id), pid=2**22 - 1), named=True)
        is not None
    )
    return runs.save(root, None, run)


def entry(
    run: Run, number: int, outcome: Outcome = Outcome.BLOCKED, notes: str = ""
) -> JournalEntry:
    return JournalEntry(
        run.id, number, outcome, task=run.task, duration=2.0, cost=0.5, notes=notes, created_at=WHEN
    )
