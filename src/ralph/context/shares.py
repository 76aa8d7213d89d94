"""How a context window is shared out, and what goes first when something does not fit.

Four areas have a share of the window each. What an area may hold is the smallest of its share, the configured
budget and the host's cap; the first two are tokens, the cap is characters, so an `Allowance` has both.

Four strategies trim: `recency` drops the oldest, `relevance` drops what hardly relates and shows the rest at
the detail that fits, `compression` shortens before it drops, `selective` keeps how things ended. Each is a
pure function over `Item`s, which say what they cost at each layer, and keeps whole items within the budget.
`choose` says which one a situation calls for; the config may say otherwise.

0 is unlimited everywhere. A larger budget never keeps fewer tokens: a walk that takes what fits is exactly full
where it first takes something that it would not have taken with one token less.
`tests/context/test_shares.py` proves that, and the rest, by property.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ralph.model.record import MemoryKind, ObservationKind, Outcome


class Area(StrEnum):
    """What a context window holds."""

    SYSTEM = "system"
    MEMORY = "memory"
    TASK = "task"
    RESPONSE = "response"


class Strategy(StrEnum):
    """What goes first."""

    RECENCY = "recency"
    RELEVANCE = "relevance"
    COMPRESSION = "compression"
    SELECTIVE = "selective"


SHARES: Mapping[Area, float] = MappingProxyType(
    {Area.SYSTEM: 0.10, Area.MEMORY: 0.15, Area.TASK: 0.35, Area.RESPONSE: 0.40}
)
"""The part of the window that each area may fill."""

THRESHOLD = 0.6
"""How full a window may be before its contents are compressed; models do worse beyond it."""

RELATED = 0.25
"""An item with less than this part of the best score hardly relates."""

KEY_POINTS = frozenset((*Outcome, ObservationKind.ERROR, ObservationKind.SUCCESS, MemoryKind.FIX))
"""The kinds that tell how something ended: success, failure, and what resolved one."""

_MOST_OF_A_KEY_POINT = 2  # layers


@dataclass(frozen=True, slots=True)
class Allowance:
    """What may be used: tokens and characters; 0 is unlimited."""

    tokens: int = 0
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """What may be shown: when and what it is, how well it fits, and what it costs.

    One cost for each layer it has, from 1 on; more detail never costs less.
    """

    costs: tuple[int, ...]
    date: str = ""
    score: float = 0.0
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """An item that is shown: its place among the items, the layer (from 1), and what it costs."""

    index: int
    layer: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What is shown, the first to be shown first, and the places of what is not."""

    kept: tuple[Kept, ...]
    left_out: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """What is shown costs so much in all."""
        return sum(each.tokens for each in self.kept)


@dataclass(frozen=True, slots=True)
class Situation:
    """What is going on: a search, a loop, how full the window is; `wanted` is the config's own word."""

    searching: bool = False
    looping: bool = False
    filled: float = 0.0
    threshold: float = THRESHOLD
    wanted: Strategy | None = None


def allowance(
    area: Area,
    window: int,
    *,
    budget: int = 0,
    most_characters: int = 0,
    shares: Mapping[Area, float] = SHARES,
) -> Allowance:
    """What an area may hold: the smaller of its share and the configured budget, and the host's cap beside it."""
    part = max(1, int(window * shares[area])) if window > 0 else 0
    return Allowance(_smaller(part, budget), most_characters)


def _smaller(one: int, other: int) -> int:
    return min(one, other) if one > 0 and other > 0 else max(one, other, 0)


def rising(costs: Sequence[int]) -> tuple[int, ...]:
    """Costs of which none is below the one before: a short text may cost more cut and marked than whole."""
    return tuple(max(costs[: number + 1]) for number in range(len(costs)))


def choose(situation: Situation) -> Strategy:
    """The strategy that a situation calls for, the narrowest first: a loop, a full window, a search, anything."""
    if situation.wanted is not None:
        return situation.wanted
    if situation.looping:
        return Strategy.SELECTIVE
    if situation.filled >= situation.threshold:
        return Strategy.COMPRESSION
    return Strategy.RELEVANCE if situation.searching else Strategy.RECENCY


def recency(items: Sequence[Item], budget: int) -> Trimmed:
    """The newest items in full; older ones go first, though a short old one may stand where a long newer one cannot."""
    return _taken(items, ((index, len(items[index].costs)) for index in _newest(items)), budget)


def relevance(items: Sequence[Item], budget: int, *, least: float = RELATED) -> Trimmed:
    """What relates, the best first: each on its line, then in more detail, best first, as far as the budget goes."""
    best = max((item.score for item in items), default=0.0)
    ranked = [index for index in _newest(items) if items[index].score > 0 and items[index].score >= least * best]
    ranked.sort(key=lambda index: -items[index].score)
    lines = _taken(items, ((index, 1) for index in ranked), budget)
    room = budget - lines.tokens if budget > 0 else None
    kept = []
    for line in lines.kept:
        costs = items[line.index].costs
        layers = range(len(costs), 1, -1)
        layer = next((at for at in layers if room is None or costs[at - 1] - line.tokens <= room), 1)
        room = None if room is None else room - (costs[layer - 1] - line.tokens)
        kept.append(Kept(line.index, layer, costs[layer - 1]))
    return Trimmed(tuple(kept), lines.left_out)


def compression(items: Sequence[Item], budget: int) -> Trimmed:
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
    kept = tuple(Kept(index, layers[index], items[index].costs[layers[index] - 1]) for index in order if layers[index])
    return _trimmed(items, kept)


def selective(items: Sequence[Item], budget: int) -> Trimmed:
    """How things ended, and nothing else: successes and failures in short, the newest first."""
    points = (index for index in _newest(items) if items[index].kind in KEY_POINTS)
    return _taken(items, ((index, min(_MOST_OF_A_KEY_POINT, len(items[index].costs))) for index in points), budget)


STRATEGIES: Mapping[Strategy, Callable[[Sequence[Item], int], Trimmed]] = MappingProxyType(
    {
        Strategy.RECENCY: recency,
        Strategy.RELEVANCE: relevance,
        Strategy.COMPRESSION: compression,
        Strategy.SELECTIVE: selective,
    }
)


def trim(items: Sequence[Item], budget: int, situation: Situation) -> Trimmed:
    """Trim as the situation calls for."""
    return STRATEGIES[choose(situation)](items, budget)


def _newest(items: Sequence[Item]) -> list[int]:
    """The places of the items, the newest first: the unknown date is oldest, of one date the last comes first."""
    return sorted(range(len(items) - 1, -1, -1), key=lambda index: items[index].date, reverse=True)


def _taken(items: Sequence[Item], order: Iterable[tuple[int, int]], budget: int) -> Trimmed:
    """The items that fit one after the other, each at its layer; one that does not fit ends nothing."""
    kept: list[Kept] = []
    room = budget
    for index, layer in order:
        cost = items[index].costs[layer - 1]
        if budget <= 0 or cost <= room:
            kept.append(Kept(index, layer, cost))
            room -= cost
    return _trimmed(items, tuple(kept))


def _trimmed(items: Sequence[Item], kept: tuple[Kept, ...]) -> Trimmed:
    shown = {each.index for each in kept}
    return Trimmed(kept, tuple(index for index in range(len(items)) if index not in shown))
