"""Worktrees of tasks: create, merge and drop them, and the indexes that are kept for them."""
