"""The coding agents that a loop can run."""
