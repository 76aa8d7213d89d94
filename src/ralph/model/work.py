"""What is worked on: tasks, features and the stories of a PRD.

Values only; `formats/work.py` reads and writes them. Session, Run and JournalEntry join them
when the hooks and the loop arrive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


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
