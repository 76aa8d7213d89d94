"""Report what was learned this week, and what is waiting for a person."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import RalphError
from ralph.core.record import Status
from ralph.memory import reading
from ralph.storage import files

_WEEK_DAYS = 7
_MIN_SESSIONS = 5  # undistilled sessions from which on `/mem-learn` is mentioned


@dataclass(frozen=True, slots=True)
class WeeklyReport:
    """The memories added in the last week, and the proposals that wait for a decision."""

    kept: int = 0
    waiting: int = 0

    def __str__(self) -> str:
        parts = []
        if self.kept:
            parts.append(f"{self.kept} learned this week")
        if self.waiting:
            noun = "proposal" if self.waiting == 1 else "proposals"
            parts.append(f"{self.waiting} {noun} to review")
        return ", ".join(parts)


def weekly_report(root: Path) -> WeeklyReport:
    """Count what was learned. A file that cannot be read counts as empty."""
    since = ids.first_day(_WEEK_DAYS)
    kept = 0
    waiting = 0
    with suppress(RalphError):
        kept = reading.count_since(root, since)
    if paths.proposals_file(root).exists():
        waiting = _count_proposals(root)
    return WeeklyReport(kept, waiting)


def _count_proposals(root: Path) -> int:
    from ralph.learning import insights  # session starts load this module

    with suppress(RalphError):
        proposals = insights.list_(root, status=Status.PROPOSED)
        return sum(1 for proposal in proposals if proposal.task == insights.NO_TASK)
    return 0


def learn_reminder(root: Path) -> str:
    """Return a line that suggests `/mem-learn`, or "" if too few sessions wait.

    It is returned at most once a day.
    """
    mentioned = paths.learn_mentioned(root)
    if (files.read(mentioned) or "").strip() == ids.today():
        return ""
    from ralph.learning import learn_progress  # once a day, session starts do not need it

    sessions = learn_progress.waiting_sessions(root)
    if sessions < _MIN_SESSIONS:
        return ""
    boundary = paths.state_boundary(root)
    files.write(mentioned, f"{ids.today()}\n", root=boundary, mode=files.PRIVATE)
    return f"{sessions} sessions wait to be distilled: /mem-learn or `ralph learn`"
