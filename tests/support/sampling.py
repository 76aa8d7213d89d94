"""Fewer cases in an ordinary run: each n-th of a list, all of them with RALPH_SOAK=1."""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SOAK = os.environ.get("RALPH_SOAK") == "1"


def every(values: Sequence[T], step: int) -> Sequence[T]:
    """Return all values in a soak test, else each `step`-th."""
    return values if SOAK else values[::step]


def examples(full: int, few: int) -> int:
    """Return how many examples Hypothesis makes: `full` in a soak test, else `few`."""
    return full if SOAK else few
