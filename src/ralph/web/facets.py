"""Count the values of each facet. A facet is a property to filter by, such as type or status.

The values of a facet are counted with the filters on all other facets applied, so that each count
is the number of records that choosing the value would list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ralph.core import ids
from ralph.core.record import Status
from ralph.memory.record_shapes import STATUS_WORDS
from ralph.storage.totals import FacetRow, FacetValues

if TYPE_CHECKING:
    pass

FACETS = (*FacetValues._fields, "age")
AGES = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}  # in days
MAX_FACET_VALUES = 40  # only the most frequent values are listed, and all chosen ones

FacetFilter = Mapping[str, Collection[str]]
"""The chosen values of each facet. A facet without any lets everything through."""
FacetCounts = dict[str, list[tuple[str, int]]]


def count_facets(rows: Iterable[FacetRow], chosen: FacetFilter) -> tuple[int, FacetCounts]:
    """Count the records that pass the filter, and the records with each value of each facet.

    The values of a facet are counted with the filters on the other facets applied.
    """
    since = first_day_of(chosen)
    counts: dict[str, Counter[str]] = {facet: Counter() for facet in FacetValues._fields}
    days: Counter[str] = Counter()
    total = 0
    for values, day, number in rows:
        failing = _failing_facets(values, chosen)
        is_recent_enough = day >= since
        if is_recent_enough:
            _count_values(counts, values, failing, number)
        if not failing:
            days[day] += number
            if is_recent_enough:
                total += number
    facets: FacetCounts = {
        facet: _top_values(counter, chosen.get(facet, ())) for facet, counter in counts.items()
    }
    facets["age"] = _count_ages(days)
    return total, facets


def _count_values(
    counts: Mapping[str, Counter[str]], values: FacetValues, failing: set[str], number: int
) -> None:
    """Add records to the counts of each facet for which they pass all the other filters."""
    for facet, counter in counts.items():
        if failing <= {facet}:
            for value in _facet_values(values, facet):
                counter[value] += number


def _count_ages(days: Mapping[str, int]) -> list[tuple[str, int]]:
    ages = []
    for age, day_count in AGES.items():
        since = ids.first_day(day_count)
        ages.append((age, sum(number for day, number in days.items() if day >= since)))
    return ages


def first_day_of(chosen: FacetFilter) -> str:
    """Return the first day of the longest chosen age, or "" if no age is chosen."""
    ages = chosen.get("age")
    if not ages:
        return ""
    return ids.first_day(max(AGES[age] for age in ages))


def _failing_facets(values: FacetValues, chosen: FacetFilter) -> set[str]:
    """Return the facets whose filter a record does not pass.

    Archived records pass only if that status is chosen.
    """
    failing = set()
    for facet, wanted in chosen.items():
        if facet != "age" and not any(value in wanted for value in _facet_values(values, facet)):
            failing.add(facet)
    if "status" not in chosen and values.status == Status.RETIRED:
        failing.add("status")
    return failing


def _facet_values(values: FacetValues, facet: str) -> Sequence[str]:
    value: str | tuple[str, ...] = getattr(values, facet)
    if isinstance(value, tuple):
        return value
    if facet == "status":
        return (STATUS_WORDS.get(value, value),)
    return (value,)


def _top_values(counts: Mapping[str, int], chosen: Collection[str]) -> list[tuple[str, int]]:
    """Return the most frequent values and all chosen values, with their counts."""
    by_count = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    top = by_count[:MAX_FACET_VALUES]
    for value, count in by_count[MAX_FACET_VALUES:]:
        if value in chosen:
            top.append((value, count))
    listed = {value for value, _ in top}
    for value in sorted(set(chosen) - listed):
        top.append((value, 0))
    return top
