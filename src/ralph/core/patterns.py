"""The user's own patterns for secrets, and the time limit on searching for them."""

from __future__ import annotations

from collections.abc import Sequence

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeVar

    T = TypeVar("T")

    class SearchLimit(Protocol):
        """Runs searches for user-defined patterns, and gives up on those that take too long."""

        def run(self, pattern: str, search: Callable[[], T]) -> T | None:
            """Return the result of the search, or None if the pattern is too slow."""


class PrivacyPatterns(Sequence[str]):
    """Patterns whose searches have a time limit.

    Use an instance wherever patterns are accepted. Patterns in a plain tuple are searched for
    without a limit. Two instances are equal if their patterns are, whatever their limits.
    """

    __slots__ = ("_patterns", "limit")

    def __init__(self, patterns: tuple[str, ...], limit: SearchLimit) -> None:
        self._patterns = patterns
        self.limit = limit

    def __getitem__(self, position: Any) -> Any:
        return self._patterns[position]

    def __len__(self) -> int:
        return len(self._patterns)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PrivacyPatterns):
            return self._patterns == other._patterns
        return self._patterns == other

    def __hash__(self) -> int:
        return hash(self._patterns)

    def __repr__(self) -> str:
        return f"PrivacyPatterns({self._patterns!r})"
