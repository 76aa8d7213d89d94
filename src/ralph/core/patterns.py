"""The user's own patterns for secrets, and what limits the time of a search for them."""

from __future__ import annotations

from collections.abc import Sequence

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeVar

    T = TypeVar("T")

    class SearchLimit(Protocol):
        """Runs searches for a user's pattern, and gives up those that take too long."""

        def run(self, pattern: str, search: Callable[[], T]) -> T | None:
            """Return what the search returns, or None if the pattern is too slow to search for."""


class PrivacyPatterns(Sequence[str]):
    """Patterns whose searches have a time limit.

    It is passed wherever patterns are, and plain tuples are searched for without a limit. Patterns
    are equal if they match the same text, whatever their limits.
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
