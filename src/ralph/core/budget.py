"""Fit records into a token budget, and trim items with one of four strategies.

Records are never cut. Kinds take turns (fix, decision, pattern, context) so that none is crowded
out. Within a kind the newest record comes first, and one that is too large is skipped. A larger
budget never keeps fewer tokens, and a budget of 0 keeps everything.

The strategies work on items, which can be shown at several layers of detail. Layer 1 is a single
line, and each further layer adds detail and costs more tokens.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ralph.core.record import MemoryKind, ObservationKind, Outcome, Record
from ralph.core.text import parse_heading, scan_lines
from ralph.core.tokens import estimate

if TYPE_CHECKING:
    from ralph.core.text import Line

Render = Callable[[tuple[int, ...], int], str]
"""Renders the selected records, given their indices in file order and how many were left out."""

TURNS = (MemoryKind.FIX, MemoryKind.DECISION, MemoryKind.PATTERN, MemoryKind.CONTEXT)
"""The order in which the kinds take turns. Kinds from other families follow, sorted by name."""
RELATED = 0.25  # share of the best score below which an item is dropped
KEY_POINTS = frozenset((*Outcome, ObservationKind.ERROR, ObservationKind.SUCCESS, MemoryKind.FIX))
"""The kinds that record how something turned out."""
_KEY_POINT_LAYER = 2  # the detail at which key points are shown

# A rough estimate of what a record costs, in tokens.
_CHARACTERS_PER_TOKEN = 4
_TOKENS_PER_RECORD = 20
# Above this estimate, rendering everything just to see whether it fits would be a waste of time.
_HOPELESS_FACTOR = 4
_HOPELESS_TOKENS = 10_000
_SEARCH_PRECISION = 100  # the search for the best fit stops within 1/100 of the budget

TRUNCATED = "<!-- truncated: budget exceeded -->"
"""Marks text that was left out to stay within a budget."""


# --- complete records ----------------------------------------------------------------------------


def useful_order(
    records: Sequence[Record], use: Callable[[Record], int] = lambda record: 0
) -> list[int]:
    """Return the indices of the records, most useful first.

    Kinds take turns. Within a kind, records with a higher `use` come first, then newer ones.
    """
    keys = [(use(record), record.added_at, index) for index, record in enumerate(records)]
    groups: dict[str, list[int]] = {}
    for _, _, index in sorted(keys, reverse=True):
        groups.setdefault(records[index].kind, []).append(index)
    ordered_groups = [groups[kind] for kind in sorted(groups, key=_turn)]
    order: list[int] = []
    for one_of_each_kind in zip_longest(*ordered_groups):
        order += [index for index in one_of_each_kind if index is not None]
    return order


def _turn(kind: str) -> tuple[int, str]:
    if kind in TURNS:
        return TURNS.index(kind), kind
    return len(TURNS), kind


def fill(
    records: Sequence[Record],
    costs: Sequence[int],
    budget: int | None,
    order: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Return the indices of the most useful records that fit into the budget.

    Room is reserved for the smallest record of each kind.
    """
    if not budget or sum(costs) <= budget:
        return tuple(range(len(records)))
    if order is None:
        order = useful_order(records)
    return _Filling(records, costs, order).within(budget)


class _Filling:
    """Fills budgets with the most useful of the same records."""

    def __init__(
        self, records: Sequence[Record], costs: Sequence[int], order: Sequence[int]
    ) -> None:
        self._kinds = [record.kind for record in records]
        self._costs = costs
        self._total_cost = sum(costs)
        self._order = order
        self._smallest: dict[str, int] = {}
        for kind, cost in zip(self._kinds, costs, strict=True):
            if cost < self._smallest.get(kind, math.inf):
                self._smallest[kind] = cost

    def within(self, budget: int) -> tuple[int, ...]:
        """Return the indices of the most useful records that fit into the budget."""
        if self._total_cost <= budget:
            return tuple(range(len(self._costs)))
        reserved = self._reserve_smallest(budget)
        room = budget - sum(reserved.values())
        cheapest = min(self._smallest.values(), default=0)
        shown: list[int] = []
        for index in self._order:
            if room < cheapest and not reserved:
                break  # nothing else fits
            kind = self._kinds[index]
            cost = self._costs[index]
            own_reserve = reserved.get(kind, 0)
            if cost <= room + own_reserve:
                room += own_reserve - cost
                reserved.pop(kind, None)
                shown.append(index)
        return tuple(sorted(shown))

    def _reserve_smallest(self, budget: int) -> dict[str, int]:
        """Return the cost of the smallest record of each kind, for as many kinds as fit."""
        room = budget
        reserved: dict[str, int] = {}
        for kind in sorted(self._smallest, key=_turn):
            if self._smallest[kind] <= room:
                reserved[kind] = self._smallest[kind]
                room -= self._smallest[kind]
        return reserved


def fit(
    records: Sequence[Record], budget: int | None, render: Render
) -> tuple[str, tuple[int, ...]]:
    """Render as many records as fit into the budget, and return the text and their indices.

    A binary search over estimated costs finds how many records fit. The text is "" if there is not
    even room for the note about the records left out.
    """
    count = len(records)
    everything = tuple(range(count))
    if not budget:
        return render(everything, 0), everything
    costs = [len(record.text) // _CHARACTERS_PER_TOKEN + _TOKENS_PER_RECORD for record in records]
    if sum(costs) <= _HOPELESS_FACTOR * budget + _HOPELESS_TOKENS:
        text = render(everything, 0)
        if estimate(text) <= budget:
            return text, everything
    best = render((), count)
    if estimate(best) > budget:
        return "", ()
    shown: tuple[int, ...] = ()
    filling = _Filling(records, costs, useful_order(records))
    fits = 0
    too_much = 2 * budget
    while too_much - fits > max(1, budget // _SEARCH_PRECISION):
        aim = (fits + too_much) // 2
        chosen = filling.within(aim)
        text = render(chosen, count - len(chosen))
        if estimate(text) <= budget:
            fits = aim
            best = text
            shown = chosen
        else:
            too_much = aim
    return best, shown


def guardrails_budget(budget: int, cost: int, others: int) -> int:
    """Return the share of a budget that guardrails may use.

    It is half of the budget, or the rest that `others` leaves if that is more, but never more than
    `cost`. It is 0, which means unlimited, only if the budget itself is unlimited.
    """
    if not budget:
        return 0
    allowed = max(budget // 2, budget - others)
    return max(1, min(cost, allowed))


# --- the tail of a document ----------------------------------------------------------------------


def fit_tail(text: str, budget: int | None) -> tuple[str, tuple[str, ...]]:
    """Return the end of a Markdown document within the budget, and the headings left out.

    The tail starts at a heading or paragraph if that gives up at most half of what would fit, and
    outside a fenced block if possible.
    """
    if not budget or estimate(text) <= budget:
        return text, ()
    lines = list(scan_lines(text))
    start = _tail_start(text, lines, budget)
    tail = ""
    if start < len(lines):
        tail = text[lines[start].start :]
    if not tail.strip():
        tail = _end_of_last_line(text, budget)
        start = len(lines)
    titles: list[str] = []
    for line in lines[:start]:
        heading = parse_heading(line)
        if heading is not None and heading[1]:
            titles.append(heading[1])
    return tail, tuple(titles)


def _tail_start(text: str, lines: Sequence[Line], budget: int) -> int:
    """Return the index of the line at which the tail should start."""

    def first_within(most: int) -> int:
        """Return the first line such that the text from there on costs at most `most` tokens."""
        return bisect_left(
            range(len(lines)), -most, key=lambda number: -estimate(text[lines[number].start :])
        )

    start = first_within(budget)
    if start == len(lines):
        return start
    half = estimate(text[lines[start].start :]) // 2
    outside_fences = [
        number for number in range(start, first_within(half)) if lines[number].is_markdown
    ]
    for number in outside_fences:
        if parse_heading(lines[number]):
            return number
    for number in outside_fences:
        if number and lines[number - 1].blank and not lines[number].blank:
            return number
    if outside_fences:
        return outside_fences[0]
    return start


def _end_of_last_line(text: str, budget: int) -> str:
    """Return the last words of a last line that is too long for the budget."""
    line = text.rstrip().rpartition("\n")[2]
    first = bisect_left(range(len(line)), -budget, key=lambda start: -estimate(line[start:]))
    if first:
        space = line.find(" ", first)
        if 0 <= space < len(line) - 1:
            return line[space + 1 :]
    return line[first:]


# --- strategies ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BudgetItem:
    """A candidate for display, with its date, score and kind.

    `costs` holds the tokens it takes at each layer, starting at layer 1. A more detailed layer
    never costs less.
    """

    costs: tuple[int, ...]
    date: str = ""
    score: float = 0.0
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item chosen for display, with its index, its layer (from 1) and its cost in tokens."""

    index: int
    layer: int
    tokens: int


def ascending_costs(costs: Sequence[int]) -> tuple[int, ...]:
    """Raise each cost to at least the one before it.

    Without this, a short text could cost more when cut than in full.
    """
    return tuple(max(costs[: number + 1]) for number in range(len(costs)))


def recency(items: Sequence[BudgetItem], budget: int) -> tuple[ShownItem, ...]:
    """Keep the newest items in full.

    An item that does not fit is skipped, so a short old item may be kept over a longer newer one.
    """
    wanted = [(index, len(items[index].costs)) for index in _newest_first(items)]
    return _take(items, wanted, budget)


def relevance(
    items: Sequence[BudgetItem], budget: int, *, least: float = RELATED
) -> tuple[ShownItem, ...]:
    """Keep the related items, best first.

    Each gets one line. Remaining room then goes to more detail, again best first. Items that score
    below `least` times the best score are dropped.
    """
    best = max((item.score for item in items), default=0.0)
    ranked: list[int] = []
    for index in _newest_first(items):
        score = items[index].score
        if score > 0 and score >= least * best:
            ranked.append(index)
    ranked.sort(key=lambda index: -items[index].score)
    lines = _take(items, [(index, 1) for index in ranked], budget)
    room = float("inf")
    if budget > 0:
        room = budget - sum(line.tokens for line in lines)
    kept: list[ShownItem] = []
    for line in lines:
        costs = items[line.index].costs
        layer = 1
        for more_detailed in range(2, len(costs) + 1):
            if costs[more_detailed - 1] - line.tokens <= room:
                layer = more_detailed
        cost = costs[layer - 1]
        room -= cost - line.tokens
        kept.append(ShownItem(line.index, layer, cost))
    return tuple(kept)


def compression(items: Sequence[BudgetItem], budget: int) -> tuple[ShownItem, ...]:
    """Keep all items, reducing the detail of the oldest first.

    Once all items are down to a single line, the oldest are dropped.
    """
    order = _newest_first(items)
    layers = {index: len(items[index].costs) for index in order}
    total = sum(items[index].costs[-1] for index in order)
    for layer in range(max(layers.values(), default=0), 0, -1):
        for index in reversed(order):
            if 0 < budget < total and layers[index] == layer:
                costs = items[index].costs
                total -= costs[layer - 1]
                if layer > 1:
                    total += costs[layer - 2]
                layers[index] = layer - 1
    kept: list[ShownItem] = []
    for index in order:
        layer = layers[index]
        if layer:
            kept.append(ShownItem(index, layer, items[index].costs[layer - 1]))
    return tuple(kept)


def selective(items: Sequence[BudgetItem], budget: int) -> tuple[ShownItem, ...]:
    """Keep only outcomes, such as successes and failures, in brief and newest first."""
    wanted: list[tuple[int, int]] = []
    for index in _newest_first(items):
        if items[index].kind in KEY_POINTS:
            wanted.append((index, min(_KEY_POINT_LAYER, len(items[index].costs))))
    return _take(items, wanted, budget)


STRATEGIES: Mapping[str, Callable[[Sequence[BudgetItem], int], tuple[ShownItem, ...]]] = {
    strategy.__name__: strategy for strategy in (recency, relevance, compression, selective)
}


def _newest_first(items: Sequence[BudgetItem]) -> list[int]:
    return sorted(range(len(items)), key=lambda index: (items[index].date, index), reverse=True)


def _take(
    items: Sequence[BudgetItem], wanted: Iterable[tuple[int, int]], budget: int
) -> tuple[ShownItem, ...]:
    """Take the wanted items, each at its layer, skipping those that exceed the remaining budget."""
    kept: list[ShownItem] = []
    room = budget
    for index, layer in wanted:
        cost = items[index].costs[layer - 1]
        if budget <= 0 or cost <= room:
            kept.append(ShownItem(index, layer, cost))
            room -= cost
    return tuple(kept)
