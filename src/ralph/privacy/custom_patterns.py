"""Find what the user's own patterns (`privacy.patterns`) match."""

from __future__ import annotations

import re
import sys
from functools import partial

from ralph.core.errors import ConfigError, DeadlineExceeded
from ralph.core.patterns import PrivacyPatterns
from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.privacy.secret_values import Span


def custom_spans(
    text: str, patterns: Sequence[str], markers: Sequence[tuple[int, int]]
) -> list[Span]:
    """Return the spans that the user's patterns match.

    Only the text between markers is searched, so that nothing is redacted twice. A pattern that
    exceeds its time limit is skipped. Hooks have no such limit, but a deadline of their own.
    Raises ConfigError if a pattern is not a valid regular expression.
    """
    parts = _parts_between(text, markers)
    limit = patterns.limit if isinstance(patterns, PrivacyPatterns) else None
    spans: list[Span] = []
    for pattern in patterns:
        search = partial(_pattern_spans, _compile_pattern(pattern), text, parts)
        if limit is None:
            spans += search()
            continue
        matches = limit.run(pattern, search)
        if matches is not None:
            spans += matches
    return spans


def _parts_between(text: str, markers: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    parts = []
    part_start = 0
    for marker_start, marker_end in markers:
        parts.append((part_start, marker_start))
        part_start = marker_end
    parts.append((part_start, len(text)))
    return parts


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"privacy.patterns: {pattern!r} is not a regular expression: {error}",
            hint="use the syntax of Python's re module; in YAML, quote it with single quotes",
        ) from error


def _pattern_spans(
    pattern: re.Pattern[str], text: str, parts: Sequence[tuple[int, int]]
) -> list[Span]:
    try:
        return [(start, end, "custom") for start, end in _find_matches(pattern, text, parts)]
    except DeadlineExceeded as error:
        error.pattern = pattern.pattern
        raise


def _find_matches(
    pattern: re.Pattern[str], text: str, parts: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return where a pattern matches. An alarm can interrupt this."""
    if sys.platform == "win32":
        from ralph.core import pattern_process  # loads more than hooks need elsewhere

        matches = pattern_process.find_spans(pattern.pattern, text, parts)
        if matches is not None:
            return matches
    return [
        match.span()
        for start, end in parts
        for match in pattern.finditer(text, start, end)
        if match[0]
    ]
