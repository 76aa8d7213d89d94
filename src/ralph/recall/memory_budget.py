"""Calculate how many tokens of the context window memory may fill, and say when that is too few."""

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


def explain_absence(nothing: str, left_out: int, config: Config) -> str:
    """Say why nothing is injected: `nothing`, unless records were left out for lack of room."""
    if not left_out:
        return nothing
    budget = memory_budget(config)
    setting = "memories.budget"
    if budget != config.memories.budget:
        setting = "context.shares.memory"
    noun = "token" if budget == 1 else "tokens"
    return f"No room: {left_out} record(s) do not fit into {budget} {noun} ({setting})."
