"""Calculate how many tokens of the context window memory may fill."""

from __future__ import annotations

from ralph.core.settings import Config
from ralph.recall import eligibility


def memory_cap(config: Config) -> int:
    """Return the number of tokens in the context window that memory may fill, or 0 if unlimited."""
    return eligibility.within_window(config.context.window, 0, config.context.shares.memory)


def memory_budget(config: Config) -> int:
    """Return the configured budget for memories in tokens, at most the cap, or 0 if unlimited."""
    return eligibility.within_window(
        config.context.window, config.memories.budget, config.context.shares.memory
    )
