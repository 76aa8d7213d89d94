"""Tasks, features, worktrees and progress."""
