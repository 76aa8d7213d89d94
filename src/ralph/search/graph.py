"""Walking the graph: what is near a node, how two are connected, and what a search finds by way of it.

An edge is walked in both directions, and a walk goes on level by level, one query each. What is reached counts
less with every hop, less over an edge that says little (a mention) than over one that somebody stated, and less
through a node that many share: a tag on a thousand records connects none of them. So what shares one rare file
with a hit is near to it, and what shares its language is not. With a time, only what held then is walked. Ties go
by id, so that the same records give the same answer in whatever order they were read.
`tests/search/test_graph.py` proves it, `bench/graph.py` measures it against the bare recursive query.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import log2
from typing import NamedTuple

from ralph.model.graph import Edge, Node, NodeType, Relation, entity_type
from ralph.store import graph as stored
from ralph.store.graph import Row
from ralph.store.lookup import marks

DECAY = 0.5
"""What is left of a score with each hop."""

WEIGHTS = {
    Relation.SUPERSEDES.value: 0.9,
    Relation.FIXES.value: 0.9,
    Relation.CONTRADICTS.value: 0.9,
    Relation.DEPENDS_ON.value: 0.8,
    Relation.AFFECTS.value: 0.8,
    Relation.RELATED_TO.value: 0.7,
    Relation.DISCOVERED_IN.value: 0.6,
    Relation.MENTIONS.value: 0.4,
}
"""How much an edge says that was derived; a stated one says all of it."""

HUB = 200
"""What expands a search is not looked for beyond a node with more edges than this."""

FARTHEST = 12
"""Hops of a path, at most."""

_STRONG = (NodeType.PATTERN, NodeType.DECISION, NodeType.GOTCHA, NodeType.DISCOVERY)


class Reached(NamedTuple):
    """A node that a walk came to: in how many hops, how near that is (1 is the start), and over which last edge."""

    node: Node
    hops: int
    score: float
    via: Edge | None = None
    start: str = ""


class Sight(NamedTuple):
    """What somebody within a task may not see, by key: `hidden` nodes, and of others (`silent`), the tasks that are
    not finished, what they did; that they are there, and which task waits for which, everybody may know."""

    hidden: AbstractSet[int] = frozenset()
    silent: AbstractSet[int] = frozenset()
    tasks: AbstractSet[int] = frozenset()

    def lets(self, source: int, target: int) -> bool:
        """Whether an edge between two nodes may be seen."""
        if source in self.hidden or target in self.hidden:
            return False
        return (source not in self.silent and target not in self.silent) or {source, target} <= self.tasks


EVERYTHING = Sight()
"""The sight of whoever has no task."""

_At = tuple[float, int, Row | None, int, int]
"""Where a walk stands: the score, how many hops, the last edge, the node before, and where the walk began."""


def neighbours(
    graph: sqlite3.Connection,
    key: int,
    *,
    hops: int = 2,
    types: Collection[NodeType] = (),
    relations: Collection[Relation] = (),
    at: str = "",
    sight: Sight = EVERYTHING,
    by: str = "",
) -> list[Reached]:
    """What is within some hops of a node, the nearest first."""
    found = walk(graph, {key: 1.0}, hops=hops, relations=relations, at=at, sight=sight, by=by)
    return [each for each in found if each.hops and (not types or each.node.type in types)]


def walk(
    graph: sqlite3.Connection,
    seeds: Mapping[int, float],
    *,
    hops: int,
    relations: Collection[Relation] = (),
    at: str = "",
    sight: Sight = EVERYTHING,
    hub: int | None = None,
    by: str = "",
) -> list[Reached]:
    """Everything within some hops of any seed, the seeds included, each by its best way, best first.

    Within a task, what it may not see is not walked over; nor, without a time, is what begins after the day `by`.
    """
    known = stored.nodes(graph, seeds)
    seen: dict[int, _At] = {key: (score, 0, None, key, key) for key, score in seeds.items() if key in known}
    edge = seen
    wanted = {relation.value for relation in relations}
    for hop in range(1, hops + 1):
        nearest = _further(graph, edge, seen, known, _Rules(hop, wanted, at, hub, sight, by))
        known |= stored.nodes(graph, nearest)
        if at:
            nearest = {key: each for key, each in nearest.items() if known[key].holds(at)}
        if not nearest:
            break
        seen = seen | nearest
        edge = nearest
    return _ordered(seen, known)


class _Rules(NamedTuple):
    """How far a walk is, and what it may walk over."""

    hop: int
    relations: Collection[str]
    at: str
    hub: int | None
    sight: Sight
    by: str


def _further(
    graph: sqlite3.Connection,
    edge: Mapping[int, _At],
    seen: Mapping[int, _At],
    known: Mapping[int, Node],
    rules: _Rules,
) -> dict[int, _At]:
    """What is one hop beyond the edge of what was seen, each node by the best way to it."""
    nearest: dict[int, _At] = {}
    for key, rows in _by_end(graph, edge, rules).items():
        if rules.hub is not None and rules.hop > 1 and len(rows) > rules.hub:
            continue
        here = edge[key]
        share = here[0] * DECAY * (_share(len(rows)) if rules.hop > 1 else 1.0)
        for row in rows:
            _, source, target, relation, _, _, _, explicit = row
            other = target if source == key else source
            if other in seen:
                continue
            score = share if explicit else share * WEIGHTS[relation]
            best = nearest.get(other)
            if best is None or score > best[0] or (score == best[0] and _first(known, key, row, best)):
                nearest[other] = (score, rules.hop, row, key, here[4])
    return nearest


def _by_end(graph: sqlite3.Connection, ends: Mapping[int, _At], rules: _Rules) -> dict[int, list[Row]]:
    """The edges at some nodes that may be walked, by the node they are left from."""
    found: dict[int, list[Row]] = {key: [] for key in ends}
    for row in stored.around(graph, ends):
        if rules.relations and row.relation not in rules.relations:
            continue
        if rules.sight is not EVERYTHING and not rules.sight.lets(row.source, row.target):
            continue
        if rules.by and row.valid_from[:10] > rules.by:
            continue
        if not rules.at or _held(row, rules.at):
            found[row[0]].append(row)
    return found


def _held(row: Row, at: str) -> bool:
    times = (row.recorded, row.valid_from, row.valid_until)
    return Edge("", Relation.RELATED_TO, "", *times).holds(at)


def _first(known: Mapping[int, Node], key: int, row: Row, best: _At) -> bool:
    """Whether of two equally good ways this is the one to tell: a fixed choice, whatever the keys are."""
    other = best[2]
    if other is None:
        return False
    return (known[key].id, *row[3:]) < (known[best[3]].id, *other[3:])


def _share(degree: int) -> float:
    """How much of its score a node hands on: all of it to one other, less the more there are."""
    return 1 / (1 + log2(degree / 2)) if degree > 2 else 1.0


def _ordered(seen: Mapping[int, _At], known: Mapping[int, Node]) -> list[Reached]:
    found = [
        Reached(
            known[key], hops, round(score, 9), stored.edge_of(row, known) if row is not None else None, known[start][0]
        )
        for key, (score, hops, row, _, start) in seen.items()
    ]
    found.sort(key=_rank)
    return found


def _rank(each: Reached) -> tuple[float, int, str]:
    return -each[2], each[1], each[0][0]


def path(
    graph: sqlite3.Connection,
    start: int,
    end: int,
    *,
    at: str = "",
    sight: Sight = EVERYTHING,
    by: str = "",
    most: int = FARTHEST,
) -> list[Edge] | None:
    """The edges of a shortest way from one node to another, or None; of several, a fixed one.

    Both ends walk towards each other, always the one that has less to look at.
    """
    known = stored.nodes(graph, {start, end})
    if at and not all(node.holds(at) for node in known.values()):
        return None
    came: tuple[_Came, _Came] = ({start: None}, {end: None})
    edges: list[set[int]] = [{start}, {end}]
    met = {start} & {end}
    while not met and most > 0 and all(edges):
        most -= 1
        side = int(len(edges[1]) < len(edges[0]))
        edges[side] = _onward(graph, came[side], edges[side], known, _Rules(0, (), at, None, sight, by))
        met = edges[side] & came[1 - side].keys()
    if not met:
        return None
    middle = min(met, key=lambda key: known[key].id)
    first, rest = (_way(each, middle, known) for each in came)
    return [*reversed(first), *rest]


_Came = dict[int, tuple[int, Row] | None]
"""Nodes that one end has come to, each with the node before it and the edge between; None for the end itself."""


def _onward(graph: sqlite3.Connection, came: _Came, edge: set[int], known: dict[int, Node], rules: _Rules) -> set[int]:
    """Go one hop further; gives the nodes that are new, each reached by a fixed one of the ways to it."""
    found: dict[int, tuple[tuple[str, str, str], int, Row]] = {}
    for row in stored.around(graph, edge):
        other = row.target if row.source == row.here else row.source
        if other in came or not rules.sight.lets(row.source, row.target):
            continue
        if (rules.at and not _held(row, rules.at)) or (rules.by and row.valid_from[:10] > rules.by):
            continue
        way = (known[row.here].id, row.relation, row.recorded)
        if other not in found or way < found[other][0]:
            found[other] = (way, row.here, row)
    nodes = stored.nodes(graph, found)
    fresh = {key for key, node in nodes.items() if not rules.at or node.holds(rules.at)}
    known |= nodes
    came |= {key: found[key][1:] for key in fresh}
    return fresh


def _way(came: _Came, end: int, known: Mapping[int, Node]) -> list[Edge]:
    """The edges from a node back to where one end began."""
    found: list[Edge] = []
    step = came[end]
    while step is not None:
        found.append(stored.edge_of(step[1], known))
        step = came[step[0]]
    return found


def related(
    graph: sqlite3.Connection, index: sqlite3.Connection, keys: Sequence[int], *, at: str = "", hops: int = 2
) -> list[tuple[int, int, float]]:
    """Records of the index that are connected with others: who leads, who is led to, and how near that is (to 1).

    This is what expands a search; what no longer holds leads nowhere.
    """
    names = _ids(index, keys)
    seeds = stored.keys_of(graph, list(names.values()))
    found: list[tuple[int, str, float]] = []
    for key, name in names.items():
        if name in seeds:
            near = walk(graph, {seeds[name]: 1.0}, hops=hops, at=at, hub=HUB)
            found += ((key, each.node.id, each.score / DECAY) for each in near if each.hops and _is_record(each.node))
    back = _keys(index, [name for _, name, _ in found])
    return [(key, back[name], score) for key, name, score in found if name in back]


def _is_record(node: Node) -> bool:
    return entity_type(node.id) is None and node.type in _STRONG


def _ids(index: sqlite3.Connection, keys: Sequence[int]) -> dict[int, str]:
    sql = f"SELECT key, id FROM records WHERE key IN ({marks(keys)})"  # noqa: S608  (marks only)
    found = {row[0]: row[1] for row in index.execute(sql, list(keys))}
    return {key: found[key] for key in keys if key in found}


def _keys(index: sqlite3.Connection, names: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    unique = list(dict.fromkeys(names))
    for start in range(0, len(unique), 900):
        part = unique[start : start + 900]
        sql = f"SELECT id, key FROM records WHERE id IN ({marks(part)})"  # noqa: S608  (marks only)
        found.update((row[0], row[1]) for row in index.execute(sql, part))
    return found
