"""Manage tasks, features, worktrees and progress.

Other parts import only the modules that `__all__` lists.
"""

__all__ = [
    "claims",
    "feature",
    "lifecycle",
    "prd_file",
    "progress",
    "task",
    "task_history",
    "task_shapes",
    "transfer",
    "worktree",
    "worktree_drop",
    "worktree_learnings",
    "worktree_merge",
]
