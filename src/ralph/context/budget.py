"""Fit records into a budget of tokens, and trim items by one of four strategies.

Complete entries only. The kinds take turns (fix, decision, pattern, context) so that none starves, the newest first
within a kind; an entry that is too large does not end the list. A larger budget never keeps fewer tokens, 0 keeps all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ralph.context.tokens import estimate
from ralph.formats.text import parse_heading, scan_lines
from ralph.model.record import MemoryKind, ObservationKind, Outcome, Record

Render = Callable[[tuple[int, ...], int], str]
"""Renders the selected records (indices in file order) and the number of those left out."""

TURNS = (MemoryKind.FIX, MemoryKind.DECISION, MemoryKind.PATTERN, MemoryKind.CONTEXT)
"""The kinds in the order in which they take turns; kinds of other families follow by name."""
RELATED = 0.25  # an item with less than this part of the best score is dropped
KEY_POINTS = frozenset((*Outcome, ObservationKind.ERROR, ObservationKind.SUCCESS, MemoryKind.FIX))
"""The kinds that say how something ended."""


def useful_order(
    records: Sequence[Record], use: Callable[[Record], int] = lambda record: 0
) -> list[int]:
    """Return the indices of the records, the most useful first: kinds take turns, within a kind by use, then by age."""
    groups: dict[str, list[int]] = {}
    keys = [(use(record), record.added_at, index) for index, record in enumerate(records)]
    for *_, index in sorted(keys, reverse=True):
        groups.setdefault(records[index].kind, []).append(index)
    rounds = zip_longest(*(groups[kind] for kind in sorted(groups, key=_turn)))
    return [index for row in rounds for index in row if index is not None]


def _turn(kind: str) -> tuple[int, str]:
    return TURNS.index(kind) if kind in TURNS else len(TURNS), kind


def fill(
    records: Sequence[Record],
    costs: Sequence[int],
    budget: int | None,
    order: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Return the most useful records whose costs stay within the budget; room for the smallest of each kind is kept."""
    if not budget or sum(costs) <= budget:
        return tuple(range(len(records)))
    kinds = [record.kind.value for record in records]
    smallest: dict[str, int] = {}
    for kind, cost in zip(kinds, costs, strict=True):
        smallest[kind] = min(cost, smallest.get(kind, cost))
    room = budget
    reserved: dict[str, int] = {}
    for kind in sorted(smallest, key=_turn):
        if smallest[kind] <= room:
            reserved[kind] = smallest[kind]
            room -= smallest[kind]
    shown: list[int] = []
    for index in useful_order(records) if order is None else order:
        if costs[index] <= room + reserved.get(kinds[index], 0):
            room += reserved.pop(kinds[index], 0) - costs[index]
            shown.append(index)
    return tuple(sorted(shown))


def fit(
    records: Sequence[Record], budget: int | None, render: Render
) -> tuple[str, tuple[int, ...]]:
    """Return the text that a search over guessed costs fits into the budget, and what it shows; "" if nothing fits."""
    count = len(records)
    costs = [len(record.text) // 4 + 20 for record in records]
    if (
        not budget or sum(costs) <= 4 * budget + 10_000
    ):  # far above that it cannot fit, and rendering would be slow
        text = render(tuple(range(count)), 0)
        if not budget or estimate(text) <= budget:
            return text, tuple(range(count))
    best = render((), count)
    shown: tuple[int, ...] = ()
    if estimate(best) > budget:
        return "", ()
    order = useful_order(records)
    fits = 0
    too_much = 2 * budget
    while too_much - fits > max(1, budget // 100):
        aim = (fits + too_much) // 2
        chosen = fill(records, costs, aim, order)
        text = render(chosen, count - len(chosen))
        if estimate(text) <= budget:
            fits = aim
            best = text
            shown = chosen
        else:
            too_much = aim
    return best, shown


def guardrails_budget(budget: int, cost: int, others: int) -> int:
    """Return what guardrails may use of a budget: half, and what `others` leave; never 0, which is unlimited."""
    return max(1, min(cost, max(budget // 2, budget - others))) if budget else 0


def fit_tail(text: str, budget: int | None) -> tuple[str, tuple[str, ...]]:
    """Return the end of a markdown text within the budget, and the titles of the headings that are left out.

    It begins at a heading or paragraph where that costs at most half of what would fit, outside of a fence if possible.
    """
    if not budget or estimate(text) <= budget:
        return text, ()
    lines = list(scan_lines(text))

    def first_within(most: int) -> int:
        return bisect_left(
            range(len(lines)), -most, key=lambda number: -estimate(text[lines[number].start :])
        )

    start = first_within(budget)
    half = estimate(text[lines[start].start :]) // 2 if start < len(lines) else 0
    outside = [number for number in range(start, first_within(half)) if lines[number].is_markdown]
    headings = (number for number in outside if parse_heading(lines[number]))
    paragraphs = (
        number
        for number in outside
        if number and lines[number - 1].blank and not lines[number].blank
    )
    start = next(headings, next(paragraphs, next(iter(outside), start)))
    tail = text[lines[start].start :] if start < len(lines) else ""
    if not tail.strip():  # the last words of the last line, which does not fit alone
        line = text.rstrip().rpartition("\n")[2]
        first = bisect_left(range(len(line)), -budget, key=lambda at: -estimate(line[at:]))
        space = line.find(" ", first) if first else -1
        tail = line[space + 1 if 0 <= space < len(line) - 1 else first :]
        start = len(lines)
    titles = (heading[1] for line in lines[:start] if (heading := parse_heading(line)))
    return tail, tuple(filter(None, titles))


@dataclass(frozen=True, slots=True)
class BudgetItem:
    """What may be shown: date, score, kind, and a cost for each layer, from 1 on; more detail never costs less."""

    costs: tuple[int, ...]
    date: str = ""
    score: float = 0.0
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ShownItem:
    """An item that is shown: its index, the layer (from 1), and its cost."""

    index: int
    layer: int
    tokens: int


def ascending_costs(costs: Sequence[int]) -> tuple[int, ...]:
    """Raise each cost to the one before: a short text may cost more cut and marked than complete."""
    return tuple(max(costs[: number + 1]) for number in range(len(costs)))


def recency(items: Sequence[BudgetItem], budget: int) -> tuple[ShownItem, ...]:
    """Keep the newest in full; a short old one may fit where a long newer one does not."""
    return _take(items, ((index, len(items[index].costs)) for index in _newest(items)), budget)


def relevance(
    items: Sequence[BudgetItem], budget: int, *, least: float = RELATED
) -> tuple[ShownItem, ...]:
    """Keep what relates, the best first: each on its line, then in more detail, as far as the budget goes."""
    best = max((item.score for item in items), default=0.0)
    ranked = [
        index
        for index in _newest(items)
        if items[index].score > 0 and items[index].score >= least * best
    ]
    ranked.sort(key=lambda index: -items[index].score)
    lines = _take(items, ((index, 1) for index in ranked), budget)
    room = budget - sum(line.tokens for line in lines) if budget > 0 else float("inf")
    kept = []
    for line in lines:
        costs = items[line.index].costs
        layer = max(
            at for at in range(1, len(costs) + 1) if at == 1 or costs[at - 1] - line.tokens <= room
        )
        room -= costs[layer - 1] - line.tokens
        kept.append(ShownItem(line.index, layer, costs[layer - 1]))
    return tuple(kept)


def compression(items: Sequence[BudgetItem], budget: int) -> tuple[ShownItem, ...]:
    """Keep all, the oldest at less and less detail until everything fits; only then the oldest go."""
    order = _newest(items)
    layers = {index: len(items[index].costs) for index in order}
    total = sum(items[index].costs[-1] for index in order)
    for layer in range(max(layers.values(), default=0), 0, -1):
        for index in reversed(order):
            if budget > 0 and total > budget and layers[index] == layer:
                costs = items[index].costs
                total += (costs[layer - 2] if layer > 1 else 0) - costs[layer - 1]
                layers[index] = layer - 1
    shown = ((index, layers[index]) for index in order if layers[index])
    return tuple(ShownItem(index, layer, items[index].costs[layer - 1]) for index, layer in shown)


def selective(items: Sequence[BudgetItem], budget: int) -> tuple[ShownItem, ...]:
    """Keep how things ended, and nothing else: successes and failures in short, the newest first."""
    points = (index for index in _newest(items) if items[index].kind in KEY_POINTS)
    return _take(items, ((index, min(2, len(items[index].costs))) for index in points), budget)


STRATEGIES: Mapping[str, Callable[[Sequence[BudgetItem], int], tuple[ShownItem, ...]]] = {
    strategy.__name__: strategy for strategy in (recency, relevance, compression, selective)
}


def _newest(items: Sequence[BudgetItem]) -> list[int]:
    return sorted(range(len(items)), key=lambda index: (items[index].date, index), reverse=True)


def _take(
    items: Sequence[BudgetItem], order: Iterable[tuple[int, int]], budget: int
) -> tuple[ShownItem, ...]:
    kept: list[ShownItem] = []
    room = budget
    for index, layer in order:
        cost = items[index].costs[layer - 1]
        if budget <= 0 or cost <= room:
            kept.append(ShownItem(index, layer, cost))
            room -= cost
    return tuple(kept)
