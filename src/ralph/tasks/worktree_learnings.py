"""Add the learnings of a task to the AGENTS.md of its worktree, where the next agent reads them.

The page reaches the main branch when the worktree is merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ralph.core.errors import Refused
from ralph.core.record import Record
from ralph.core.repository import Repository
from ralph.core.similarity import TextMatcher
from ralph.formats.regions import parse_region
from ralph.privacy.injection import looks_like_instructions
from ralph.storage import files

PAGE = "AGENTS.md"


def add_learnings(folder: Path, learned: Iterable[Record]) -> list[Record]:
    """Add learnings to a worktree's AGENTS.md, and return the new ones.

    The page is committed unless it already had uncommitted changes.
    """
    # Agents trust this page, so text that reads like instructions is left out.
    records = [record for record in learned if not looks_like_instructions(record.text)]
    if not records:
        return []

    def edit(text: str) -> tuple[str, list[Record]]:
        document = parse_region(text)
        matcher = TextMatcher(entry.record.text for entry in document.entries)
        added = []
        for record in records:
            if matcher.nearest(record.text) is not None:
                continue
            try:
                document = document.add(record)
            except Refused:
                # The page cannot hold it or has unpaired markers, but progress.txt has it.
                continue
            matcher.add(record.text)
            added.append(record)
        return str(document), added

    git = Repository(folder)
    status = git.ask("status", "--porcelain", "--", PAGE)
    added = files.update(folder / PAGE, edit, root=folder)[1]
    if added and status.code == 0 and not status.out:
        _commit_page(git, folder.name)
    return added


def _commit_page(git: Repository, task_id: str) -> None:
    git.tell("add", "--", PAGE)
    # Ralph wrote this text itself, so neither hooks nor a signature are needed.
    settings = ("-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false")
    message = f"Record what {task_id} learned"
    git.tell(*settings, "commit", "--quiet", "--only", "-m", message, "--", PAGE)
