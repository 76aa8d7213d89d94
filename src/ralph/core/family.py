"""The record families, kept in a module of their own so that hooks need not load a larger one."""

from __future__ import annotations

from enum import StrEnum


class Family(StrEnum):
    """The three record families."""

    MEMORY = "memory"
    OBSERVATION = "observation"
    JOURNAL = "journal"
