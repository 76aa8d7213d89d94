"""What is worked on, and how it went: tasks, features, the stories of a PRD, runs and their journal.

Values only; `formats/work.py`, `formats/features.py` and `formats/journal.py` read and write them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.model.kinds import Outcome


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Claim:
    """Who works on a task right now, and until when that counts."""

    run: str
    host: str
    pid: int
    expires_at: str


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work; its truth is `.ralph/tasks/<id>/task.json`."""

    id: str
    title: str
    description: str = ""
    status: str = "pending"
    priority: int = 0
    blocked_by: tuple[str, ...] = ()
    parent: str | None = None
    feature: str | None = None
    attempts: int = 0
    worktree: str | None = None
    branch: str | None = None
    claim: Claim | None = None
    created_at: str = ""
    updated_at: str = ""
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Story:
    """One user story of a PRD; its truth is `.ralph/tasks/<id>/prd.json`."""

    id: str
    title: str
    description: str = ""
    acceptance_criteria: tuple[str, ...] = ()
    priority: int = 0
    passes: bool = False
    notes: str = ""
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Feature:
    """Something that several tasks build together; its truth is `.ralph/features/<id>/feature.json`."""

    id: str
    title: str
    description: str = ""
    status: str = "open"
    created_at: str = ""
    updated_at: str = ""
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)


class RunStatus(StrEnum):
    """How a run of the loop stands or ended, as the index knows it."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """How one iteration of a run ended; its truth is a line of `.ralph/log/runs/<run>.jsonl`."""

    run: str
    iteration: int
    outcome: Outcome
    task: str = ""
    title: str = ""  # the task's title, so that an entry can be found by it
    feature: str = ""
    agent: str = ""
    model: str = ""
    duration: float = 0.0
    cost: float = 0.0
    files: tuple[str, ...] = ()
    notes: str = ""
    created_at: str = ""
    session: str = ""  # the host's id of the conversation
    extra: Mapping[str, object] = field(default_factory=dict, hash=False)
