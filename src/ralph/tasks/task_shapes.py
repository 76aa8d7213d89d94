"""The JSON shapes of tasks and features."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ralph.storage.features import FeatureView
    from ralph.tasks.task import ListedTask


def task_json(entry: ListedTask) -> dict[str, object]:
    """Return a task.

    `waits_for` lists unfinished tasks that hold it up, and `ready` says whether it can start.
    """
    members = asdict(entry.task)
    extra = members.pop("extra")
    members |= {"blocked_by": list(entry.task.blocked_by), "ready": entry.is_ready}
    return {**members, "waits_for": list(entry.waits_for), "extra": extra}


def feature_json(view: FeatureView) -> dict[str, object]:
    """Return a feature.

    `tasks` is the number of its tasks, and `done` is how many of them are done.
    """
    members = asdict(view.feature)
    extra = members.pop("extra")
    return {**members, "tasks": len(view.tasks), "done": view.done, "extra": extra}
