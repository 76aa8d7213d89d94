"""The families of records, in a module of their own: hooks that answer load nothing larger."""

from __future__ import annotations

from enum import StrEnum


class Family(StrEnum):
    """The three families of records."""

    MEMORY = "memory"
    OBSERVATION = "observation"
    JOURNAL = "journal"
