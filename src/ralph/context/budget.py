"""Fit records into a budget of tokens, and trim items by one of four strategies.

Complete entries only. The kinds take turns (fix, decision, pattern, context) so that none starves, the newest first
within a kind; an entry that is too large does not end the list. `fit` measures headings and notice through the
renderer and checks the rendered text: its result never estimates above the budget. A strategy decides what goes first:
`recency`, `relevance`, `compression` or `selective`; a larger budget never keeps fewer tokens. 0 is unlimited.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from types import MappingProxyType

from ralph.context.tokens import estimate
from ralph.model.record import MemoryKind, ObservationKind, Outcome, Record

Render = Callable[[tuple[int, ...], int], str]
"""Renders the selected records (indices in file order) and the number of those left out."""

TURNS = (MemoryKind.FIX, MemoryKind.DECISION, MemoryKind.PATTERN, MemoryKind.CONTEXT)
"""The kinds in the order in which they take turns; kinds of other families follow by name."""

_TURN_OF: dict[str, int] = {kind.value: turn for turn, kind in enumerate(TURNS)}
_LINE_START = re.compile(r"(?<=\n)")
_HEADING = re.compile(r" {0,3}#{1,6}(?=\s|$)")
_FENCE = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<rest>.*)")
_MANY = 1000  # more records than that are not priced one by one
_LONG_TOKEN = 8  # characters; no text has fewer tokens than its length divided by this
_TIMES_OVER = 4
_ROUNDS = 4  # how often `fit` corrects its costs by what the renderer made of them

RELATED = 0.25
"""An item with less than this part of the best score is dropped."""
KEY_POINTS = frozenset((*Outcome, ObservationKind.ERROR, ObservationKind.SUCCESS, MemoryKind.FIX))
"""The kinds that say how something ended."""
_KEY_POINT_LAYER = 2


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are shown and which are not: indices, both in file order."""

    kept: tuple[int, ...]
    left_out: tuple[int, ...]


def useful_order(records: Sequence[Record]) -> list[int]:
    """The indices of the records, the most useful first: kinds take turns, the newest first within a kind."""
    dates = [record.created_at for record in records]
    groups: dict[str, list[int]] = {}
    for index in sorted(range(len(records) - 1, -1, -1), key=dates.__getitem__, reverse=True):
        groups.setdefault(records[index].kind, []).append(index)
    turns = sorted(groups, key=lambda kind: (_TURN_OF.get(kind, len(TURNS)), kind))
    rounds = zip_longest(*(groups[kind] for kind in turns))
    return [index for row in rounds for index in row if index is not None]


def fill(
    records: Sequence[Record],
    costs: Sequence[int],
    budget: int | None,
    order: Sequence[int] | None = None,
    *,
    title: int = 0,
    heading: int = 0,
) -> Selection:
    """The most useful records whose costs, title and a heading for each kind stay within the budget."""
    kinds = [record.kind.value for record in records]
    total = title + heading * len(set(kinds)) + sum(costs)
    if not budget or total <= budget:
        return _selection(len(records), range(len(records)))
    room = budget - title
    reserved = _reserve(kinds, costs, heading, room)
    room -= sum(reserved.values())
    present: set[str] = set()
    kept: list[int] = []
    for index in useful_order(records) if order is None else order:
        kind = kinds[index]
        price = costs[index] + (0 if kind in present else heading)
        if price <= room + reserved.get(kind, 0):
            room += reserved.pop(kind, 0) - price
            present.add(kind)
            kept.append(index)
    return _selection(len(records), kept)


def fit(
    records: Sequence[Record],
    budget: int | None,
    render: Render,
    costs: Sequence[int] | None = None,
) -> tuple[str, Selection]:
    """The rendered text that stays within the budget, and what it shows; "" when not even the notice fits.

    `costs` are the estimates of each rendered entry; without them they are guessed from the records.
    """
    count = len(records)
    everything = _selection(count, range(count))
    if not budget:
        return render(everything.kept, 0), everything
    if costs is None and count > _MANY:
        return _fit_among_many(records, budget, render)
    prices = [_likely_cost(record) for record in records] if costs is None else costs
    if sum(prices) <= 4 * budget + 10_000:  # far above that it cannot fit, and rendering all would be slow
        text = render(everything.kept, 0)
        if estimate(text) <= budget:
            return text, everything
    empty = render((), count)
    if estimate(empty) > budget:
        return "", _selection(count, ())
    return _closest(records, prices, budget, render, empty)


def _fit_among_many(records: Sequence[Record], budget: int, render: Render) -> tuple[str, Selection]:
    """Fit without pricing every record: only the most useful, several times the budget, and the shortest others."""
    order = useful_order(records)
    sizes = [len(record.text) for record in records]
    taken = 0
    for number, index in enumerate(order):
        taken += sizes[index] // _LONG_TOKEN + 1
        if taken > _TIMES_OVER * budget and number >= _MANY // 4:
            break
    chosen, others = order[: number + 1], order[number + 1 :]
    chosen += sorted(others, key=lambda index: sizes[index])[: _MANY // 4]
    rows = sorted(chosen)

    def render_rows(kept: tuple[int, ...], left_out: int) -> str:
        return render(tuple(rows[row] for row in kept), len(records) - len(kept))

    few = [records[index] for index in rows]
    text, selection = fit(few, budget, render_rows, [_likely_cost(record) for record in few])
    return text, _selection(len(records), (rows[row] for row in selection.kept))


def split_budget(budget: int, guardrails_cost: int) -> tuple[int, int]:
    """The budgets of guardrails and memories: the first at most half, the second all that is left.

    0 is unlimited for both; otherwise neither is ever 0, because 0 would lift its limit.
    """
    if not budget:
        return 0, 0
    first = min(guardrails_cost, budget // 2)
    return max(1, first), max(1, budget - first)


def fit_tail(text: str, budget: int | None) -> tuple[str, tuple[str, ...]]:
    """The end of a markdown text within the budget, and the titles of the headings that are left out.

    It begins at a heading or after a blank line where that costs at most half of what would fit, never
    within a line unless the last line alone is too long; a fence that must be cut is opened again.
    """
    if not budget or estimate(text) <= budget:
        return text, ()
    lines = _LINE_START.split(text)
    fences = _fences(lines)
    start = _first_that_fits(lines, budget)
    half = (estimate("".join(lines[start:])) + 1) // 2
    outside = [index for index in range(start, _first_that_fits(lines, half - 1)) if not fences[index]]
    headings = (index for index in outside if _HEADING.match(lines[index]))
    paragraphs = (index for index in outside if index and not lines[index - 1].strip() and lines[index].strip())
    start = next(headings, next(paragraphs, next(iter(outside), start)))
    while start < len(lines) and estimate(fences[start] + "".join(lines[start:])) > budget:
        start += 1  # a fence that is opened again costs a line
    kept = (fences[start] if start < len(lines) else "") + "".join(lines[start:])
    if not kept.strip():  # the last words of the last line, which does not fit alone
        line = text.rstrip().rpartition("\n")[2]
        first = bisect_left(range(len(line)), -budget, key=lambda at: -estimate(line[at:]))
        space = line.find(" ", first) if first else -1
        kept, start = line[space + 1 if 0 <= space < len(line) - 1 else first :], len(lines)
    titles = (_title(lines[index]) for index in range(start) if not fences[index])
    return kept, tuple(title for title in titles if title)


def _title(line: str) -> str:
    """The words of a heading, or "" for any other line."""
    mark = _HEADING.match(line)
    words = line[mark.end() :].strip() if mark else ""
    title = words.rstrip("#")
    return title.rstrip() if title.endswith((" ", "\t")) or not title else words


def _fences(lines: Sequence[str]) -> list[str]:
    """For each line the fence that is open before it, as its opening line, or ""."""
    opened, mark = "", ""
    before: list[str] = []
    for line in lines:
        before.append(opened)
        match = _FENCE.match(line)
        if match is None:
            continue
        if not opened:
            if "`" not in match["rest"] or match["mark"][0] == "~":
                opened, mark = line, match["mark"]
        elif match["mark"].startswith(mark) and not match["rest"].strip():
            opened, mark = "", ""
    return before


def _first_that_fits(lines: Sequence[str], budget: int) -> int:
    """The first line from which on the rest is within the budget: a later start never costs more."""
    return bisect_left(range(len(lines)), -budget, key=lambda start: -estimate("".join(lines[start:])))


def _closest(
    records: Sequence[Record], prices: Sequence[int], budget: int, render: Render, empty: str
) -> tuple[str, Selection]:
    """Fill, render, and correct the aim by what the text really costs; drop entries if it never fits."""
    order = useful_order(records)
    base = estimate(empty)
    first: dict[str, int] = {}
    for index in order:
        first.setdefault(records[index].kind.value, index)
    alone = {index: estimate(render((index,), len(records) - 1)) for index in first.values()}
    heading = max(0, *(cost - base - prices[index] for index, cost in alone.items()))
    best: tuple[str, Selection] | None = None
    aim = budget
    for _ in range(_ROUNDS):
        selection = fill(records, prices, aim, order, title=base, heading=heading)
        if best is not None and selection == best[1]:
            break
        text = render(selection.kept, len(selection.left_out))
        spare = budget - estimate(text)
        if spare >= 0:
            best = text, selection
        if best is not None and (spare <= 0 or not selection.left_out):
            break
        aim += spare
        if aim <= 0:
            break
    return best or _fewer(records, selection.kept, budget, render) or (empty, _selection(len(records), ()))


def _fewer(
    records: Sequence[Record], kept: tuple[int, ...], budget: int, render: Render
) -> tuple[str, Selection] | None:
    """As many of the kept entries as fit, without the least useful ones; None when none can stay.

    Halving instead of dropping one by one: a few renderings are enough, however wrong the prices are.
    """
    ranked = [kept[i] for i in useful_order([records[i] for i in kept])]
    best: tuple[str, Selection] | None = None
    fits, too_many = 0, len(ranked)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        selection = _selection(len(records), ranked[:middle])
        text = render(selection.kept, len(selection.left_out))
        if estimate(text) <= budget:
            fits, best = middle, (text, selection)
        else:
            too_many = middle
    return best


def _reserve(kinds: Sequence[str], costs: Sequence[int], heading: int, room: int) -> dict[str, int]:
    """The room reserved for each kind: its smallest entry and heading, as far as they fit."""
    smallest: dict[str, int] = {}
    for kind, cost in zip(kinds, costs, strict=True):
        smallest[kind] = min(cost, smallest.get(kind, cost))
    reserved: dict[str, int] = {}
    for kind in sorted(smallest, key=lambda kind: (_TURN_OF.get(kind, len(TURNS)), kind)):
        price = smallest[kind] + heading
        if price <= room:
            reserved[kind] = price
            room -= price
    return reserved


def _likely_cost(record: Record) -> int:
    """The likely cost of a record as a markdown block."""
    quoted = record.text.replace("\n", "\n> ")
    tags = ", ".join(record.tags)
    return estimate(f"### {record.id}\n> {quoted}\n<!-- tags: {tags} | created: {record.created_at} -->\n\n")


def _selection(count: int, kept: Iterable[int]) -> Selection:
    inside = set(kept)
    return Selection(kept=tuple(sorted(inside)), left_out=tuple(index for index in range(count) if index not in inside))


# --- strategies ----------------------------------------------------------------------------------


class Strategy(StrEnum):
    """What is dropped first: the oldest, the unrelated, detail, or all but how things ended."""

    RECENCY = "recency"
    RELEVANCE = "relevance"
    COMPRESSION = "compression"
    SELECTIVE = "selective"


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
    """The newest items in full; older ones go first, though a short old one may fit where a long newer one does not."""
    return _take(items, ((index, len(items[index].costs)) for index in _newest(items)), budget)


def relevance(items: Sequence[BudgetItem], budget: int, *, least: float = RELATED) -> tuple[ShownItem, ...]:
    """What relates, the best first: each on its line, then in more detail, best first, as far as the budget goes."""
    best = max((item.score for item in items), default=0.0)
    ranked = [index for index in _newest(items) if items[index].score > 0 and items[index].score >= least * best]
    ranked.sort(key=lambda index: -items[index].score)
    lines = _take(items, ((index, 1) for index in ranked), budget)
    room = budget - sum(line.tokens for line in lines) if budget > 0 else None
    kept = []
    for line in lines:
        costs = items[line.index].costs
        layers = range(len(costs), 1, -1)
        layer = next((at for at in layers if room is None or costs[at - 1] - line.tokens <= room), 1)
        room = None if room is None else room - (costs[layer - 1] - line.tokens)
        kept.append(ShownItem(line.index, layer, costs[layer - 1]))
    return tuple(kept)


def compression(items: Sequence[BudgetItem], budget: int) -> tuple[ShownItem, ...]:
    """All items, the oldest at less and less detail until everything fits; only then the oldest go."""
    order = _newest(items)
    layers = {index: len(items[index].costs) for index in order}
    total = sum(items[index].costs[-1] for index in order)
    steps = (layer for layer in range(max(layers.values(), default=0), 0, -1))
    for layer, index in ((layer, index) for layer in steps for index in reversed(order)):
        if budget <= 0 or total <= budget:
            break
        if layers[index] == layer:
            costs = items[index].costs
            shorter = costs[layer - 2] if layer > 1 else 0
            total += shorter - costs[layer - 1]
            layers[index] = layer - 1
    shown = ((index, layers[index]) for index in order if layers[index])
    return tuple(ShownItem(index, layer, items[index].costs[layer - 1]) for index, layer in shown)


def selective(items: Sequence[BudgetItem], budget: int) -> tuple[ShownItem, ...]:
    """How things ended, and nothing else: successes and failures in short, the newest first."""
    points = (index for index in _newest(items) if items[index].kind in KEY_POINTS)
    return _take(items, ((index, min(_KEY_POINT_LAYER, len(items[index].costs))) for index in points), budget)


STRATEGIES: Mapping[Strategy, Callable[[Sequence[BudgetItem], int], tuple[ShownItem, ...]]] = MappingProxyType(
    {
        Strategy.RECENCY: recency,
        Strategy.RELEVANCE: relevance,
        Strategy.COMPRESSION: compression,
        Strategy.SELECTIVE: selective,
    }
)


def _newest(items: Sequence[BudgetItem]) -> list[int]:
    """The indices of the items, the newest first: the unknown date is oldest, of one date the last comes first."""
    return sorted(range(len(items) - 1, -1, -1), key=lambda index: items[index].date, reverse=True)


def _take(items: Sequence[BudgetItem], order: Iterable[tuple[int, int]], budget: int) -> tuple[ShownItem, ...]:
    """The items that fit one after the other, each at its layer; one that does not fit ends nothing."""
    kept: list[ShownItem] = []
    room = budget
    for index, layer in order:
        cost = items[index].costs[layer - 1]
        if budget <= 0 or cost <= room:
            kept.append(ShownItem(index, layer, cost))
            room -= cost
    return tuple(kept)
