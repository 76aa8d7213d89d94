"""Tasks that have a worktree."""

from pathlib import Path

from tests.support.git import git
from tests.support.looping import Workshop

from ralph.core.work import Task
from ralph.storage import task_files
from ralph.tasks import task


def new(shop: Workshop, title: str = "refunds") -> Task:
    """A new task with a worktree."""
    return task.add(shop.root, title, in_worktree=True).task


def now(shop: Workshop, work: Task) -> Task:
    """The task as the board has it now."""
    return task_files.read_board(shop.root).locations[work.id].task


def commit(folder: Path, name: str = "new.py", text: str = "x = 1\n") -> str:
    """Commit a file, and return the name of the commit."""
    (folder / name).write_text(text, encoding="utf-8", newline="")
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", f"add {name}")
    return git(folder, "rev-parse", "HEAD").strip()
