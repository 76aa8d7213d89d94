"""Archive, restore and delete memories together with the record of what they were learned from.

Recall leaves out what a memory was learned from. When the memory goes, its evidence is the only
place that still says it, so recall shows the evidence again.
"""

from __future__ import annotations

from pathlib import Path

from ralph.learning import insights, learned
from ralph.learning.propose import evidence
from ralph.memory import memory
from ralph.memory.memory import SavedMemory
from ralph.storage.library import Stored
from ralph.storage.write_observers import WriteObserver


def archive(root: Path, name: str, observer: WriteObserver | None = None) -> SavedMemory:
    """Archive a memory. Raises NotFound for an unknown name, and Refused for a pattern."""
    archived = memory.archive(root, name, observer)
    learned.release_evidence(root, archived.stored.record.id, observer)
    return archived


def unarchive(root: Path, name: str, observer: WriteObserver | None = None) -> SavedMemory:
    """Make an archived memory active again, so that it replaces its evidence once more."""
    restored = memory.unarchive(root, name, observer)
    memory_id = restored.stored.record.id
    for insight in insights.list_(root):
        if insight.record.extra.get(insights.MEMORY) == memory_id:
            learned.note_evidence(root, memory_id, evidence(insight.record), observer)
    return restored


def delete(
    root: Path, name: str, *, expect: str | None = None, observer: WriteObserver | None = None
) -> Stored:
    """Delete a memory. With `expect`, its text must not have changed."""
    deleted = memory.delete(root, name, expect=expect, observer=observer)
    learned.release_evidence(root, deleted.record.id, observer)
    return deleted
