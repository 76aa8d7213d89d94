"""Set up the files of a new task, and promote the proposals of a finished one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.core.work import Task, ignore_text
from ralph.formats.prd import PrdDocument, pass_stories
from ralph.learning import insights, promotion, task_insights
from ralph.learning.promotion import Promotion
from ralph.recall import graph_export
from ralph.storage import files, task_files
from ralph.tasks import worktree
from ralph.tasks.progress import create_progress_file, task_folder


def set_up(
    root: Path,
    task_id: str,
    prd: PrdDocument | None,
    *,
    in_worktree: bool,
    tell: Callable[[str], None] = ignore_text,
) -> Task:
    """Give a new task its PRD, its progress.txt and, if requested, its worktree."""
    if prd is not None:
        files.write(
            task_folder(root, task_id) / "prd.json", prd.text, root=paths.main_checkout(root)
        )
        task_files.change_task(root, task_id, lambda task: replace(task, branch=prd.branch or None))
    create_progress_file(root, task_id)
    if in_worktree:
        return worktree.create(root, task_id, tell=tell).task
    return task_files.find_task(root, task_id).task


def start_in_worktree(
    root: Path, task_id: str, *, tell: Callable[[str], None] = ignore_text
) -> worktree.Worktree:
    """Give a task a worktree, and a progress.txt if it does not have one."""
    create_progress_file(root, task_id)
    return worktree.create(root, task_id, tell=tell)


def promote_insights(
    root: Path, task: Task, *, patterns: Sequence[str] = ()
) -> tuple[Promotion | None, str]:
    """Promote the proposals of a finished task, and write its graph.

    Returns the promotion, or None if it failed, and a message about what went wrong or "".
    """
    checkout = worktree.folder_of(root, task)
    if checkout is None or not checkout.is_dir():
        checkout = root
    try:
        prd = task_folder(root, task.id) / "prd.json"
        if prd.exists():
            files.update(prd, pass_stories, root=paths.main_checkout(root))
        task_insights.extract(checkout, task.id, patterns=patterns)
        promoted = promotion.promote_task(paths.main_checkout(root), task.id, patterns=patterns)
        graph_export.export(root, task=task.id)
        problems = insights.find_problems(root, task.id)
    except RalphError as error:
        reason = error.message
        if error.hint:
            reason = f"{error.message}; {error.hint}"
        return None, f"the proposals of {task.id} were not promoted: {reason}"
    if problems:
        return promoted, f"some proposals of {task.id} cannot be read: {problems[0]}"
    return promoted, ""
