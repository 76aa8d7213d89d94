"""Parse the values of query filters: times, kinds, node types and relations.

Times are in UTC, as in the files. For example, `7d` becomes the date seven days ago, `24h` a time
such as `2026-01-31T12:00:00`, and `2026-01` remains a month. `yesterday`, `monday`, `last week` and
`2 days ago` are days.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from ralph.core import ids
from ralph.core.errors import UsageError
from ralph.core.graph import NodeType, Relation, parse_relation
from ralph.core.record import KINDS, Family, Kind
from ralph.core.spelling import did_you_mean

_KINDS: dict[str, Kind] = {
    **KINDS[Family.MEMORY],
    **KINDS[Family.OBSERVATION],
    **KINDS[Family.JOURNAL],
}
_NODE_TYPES = {kind.value: kind for kind in NodeType}
_SPAN = re.compile(r"(\d+) ?(d|days?|h|hours?|w|weeks?|m|months?)", re.ASCII)
_MONTH = re.compile(r"\d{4}-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_HOURS_PER_UNIT = {"h": 1, "d": 24, "w": 24 * 7, "m": 24 * 30}
_AGO = re.compile(r"(\d+) (days?|weeks?|months?) ago", re.ASCII)
_DAYS_AGO = {
    "now": 0,
    "today": 0,
    "yesterday": 1,
    "last week": 7,
    "a week ago": 7,
    "last month": 30,
    "a month ago": 30,
    "last year": 365,
}
_DAYS_PER_WEEK = 7
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MAX_SPAN_HOURS = 24 * 365 * 100  # a longer span would leave the range of valid dates
_DAY_CHARACTERS = len("2026-01-31")
_SECOND_CHARACTERS = len("2026-01-31T12:00:00")
T = TypeVar("T")


def parse_time(words: str) -> str:
    """Parse a date, or a span such as 7d that is counted back from now.

    Return the time in UTC, at the precision that was given. Raises UsageError for anything else.
    """
    words = words.strip()
    span = _SPAN.fullmatch(words.lower())
    if span is not None:
        return _start_of_span(int(span[1]), span[2][0])
    spoken = _days_ago(words.lower())
    if spoken is not None:
        return _start_of_span(spoken, "d")
    try:
        if _MONTH.fullmatch(words):
            date.fromisoformat(f"{words}-01")  # raises for a month that does not exist
            return words
        if not words:
            return words
        if not _TIME.fullmatch(words):
            raise ValueError(words)
        time = datetime.fromisoformat(words)
        if time.tzinfo is None:
            return words
        return time.astimezone(UTC).isoformat(timespec="seconds")[:_SECOND_CHARACTERS]
    except (ValueError, OverflowError) as error:
        hint = "use a date such as 2026-01-31, a span such as 7d, 24h, 2w, 3m, or yesterday"
        meant = did_you_mean(words, (*_DAYS_AGO, *_WEEKDAYS))
        raise UsageError(f"{words!r} is not a date or time{meant}", hint=hint) from error


def parse_period(since: str, until: str) -> tuple[str, str]:
    """Parse the start and the end of a period. Raises UsageError if it ends before it starts."""
    start = parse_time(since)
    end = parse_time(until)
    # A month contains all its days, so only what both say is compared.
    if end and start[: len(end)] > end[: len(start)]:
        raise UsageError(f"the period starts at {start}, after its end at {end}", hint="swap them")
    return start, end


def _days_ago(words: str) -> int | None:
    """Return how many days ago a spoken time such as `yesterday` or `2 weeks ago` began."""
    if words in _DAYS_AGO:
        return _DAYS_AGO[words]
    weekday = words.removeprefix("last ")
    if weekday in _WEEKDAYS:
        days = (ids.now().weekday() - _WEEKDAYS.index(weekday)) % _DAYS_PER_WEEK
        return days or _DAYS_PER_WEEK
    ago = _AGO.fullmatch(words)
    if ago is None:
        return None
    return int(ago[1]) * _HOURS_PER_UNIT[ago[2][0]] // 24


def _start_of_span(count: int, unit: str) -> str:
    """Return the start of a span that ends now: a time for hours, a day for longer units."""
    hours = min(count * _HOURS_PER_UNIT[unit], _MAX_SPAN_HOURS)
    start = (ids.now() - timedelta(hours=hours)).isoformat(timespec="seconds")
    if unit == "h":
        return start[:_SECOND_CHARACTERS]
    return start[:_DAY_CHARACTERS]


def parse_kinds(types: Iterable[str]) -> tuple[Kind, ...]:
    """Return the kinds with these names, in any family. Raises UsageError for an unknown name."""
    return _choose(_split_names(types), _KINDS, "type")


def parse_node_types(names: Iterable[str]) -> tuple[NodeType, ...]:
    """Return the node types with these names. Raises UsageError for an unknown name."""
    return _choose(_split_names(names), _NODE_TYPES, "type of node")


def parse_relations(names: Iterable[str]) -> tuple[Relation, ...]:
    """Return the relations with these names or aliases. Raises UsageError for an unknown name."""
    words = _split_names(names)
    valid = {relation.value: relation for relation in Relation}
    for word in words:
        relation = parse_relation(word)
        if relation is not None:
            valid[word] = relation
    return _choose(words, valid, "relation")


def _split_names(names: Iterable[str]) -> list[str]:
    """Return the names in lowercase. Each string may list several, separated by commas."""
    words = []
    for part in names:
        words += [word.strip().lower() for word in part.split(",")]
    return [word for word in words if word]


def _choose(words: Sequence[str], valid: Mapping[str, T], noun: str) -> tuple[T, ...]:
    for word in words:
        if word not in valid:
            raise UsageError(
                f"{word!r} is not a {noun}{did_you_mean(word, valid)}",
                hint=f"valid {noun}s: {', '.join(valid)}",
            )
    return tuple(valid[word] for word in words)
