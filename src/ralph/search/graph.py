"""Walking the graph: what is near a node, how two are connected, and what a search finds by way of it.

An edge is walked in both directions, and a walk goes on level by level, one query each. What is reached counts
less with every hop, less over an edge that says little (a mention) than over one that somebody stated, and less
through a node that many share: a tag on a thousand records connects none of them. So what shares one rare file
with a hit is near to it, and what shares its language is not. With a time, only what held then is walked. Ties go
by id, so that the same records give the same answer in whatever order they were read.
`tests/search/test_graph.py` proves it, `bench/graph.py` measures it against the bare recursive query.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log2

from ralph.model.graph import Edge, Node, NodeType, Relation, type_named
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


@dataclass(frozen=True, slots=True)
class Reached:
    """A node that a walk came to: in how many hops, how near that is (1 is the start), and over which last edge."""

    node: Node
    hops: int
    score: float
    via: Edge | None = None
    start: str = ""


@dataclass(frozen=True, slots=True)
class _At:
    """Where a walk stands, and how it came there."""

    score: float
    hops: int
    row: Row | None
    before: int
    start: int


def neighbours(
    graph: sqlite3.Connection,
    key: int,
    *,
    hops: int = 2,
    types: Collection[NodeType] = (),
    relations: Collection[Relation] = (),
    at: str = "",
) -> list[Reached]:
    """What is within some hops of a node, the nearest first."""
    found = walk(graph, {key: 1.0}, hops=hops, relations=relations, at=at)
    return [each for each in found if each.hops and (not types or each.node.type in types)]


def walk(
    graph: sqlite3.Connection,
    seeds: Mapping[int, float],
    *,
    hops: int,
    relations: Collection[Relation] = (),
    at: str = "",
    hub: int | None = None,
) -> list[Reached]:
    """Everything within some hops of any seed, the seeds included, each by its best way, best first."""
    known = stored.nodes(graph, seeds)
    seen = {key: _At(score, 0, None, key, key) for key, score in seeds.items() if key in known}
    edge = seen
    wanted = {relation.value for relation in relations}
    for hop in range(1, hops + 1):
        nearest: dict[int, _At] = {}
        for key, rows in _by_end(graph, edge, wanted, at).items():
            if hub is not None and hop > 1 and len(rows) > hub:
                continue
            here = edge[key]
            share = here.score * DECAY * (_share(len(rows)) if hop > 1 else 1.0)
            for row in rows:
                other = row.target if row.source == key else row.source
                if other in seen:
                    continue
                score = share * (1.0 if row.explicit else WEIGHTS[row.relation])
                best = nearest.get(other)
                if best is None or score > best.score or (score == best.score and _first(known, key, row, best)):
                    nearest[other] = _At(score, hop, row, key, here.start)
        known |= stored.nodes(graph, nearest)
        if at:
            nearest = {key: each for key, each in nearest.items() if known[key].holds(at)}
        seen |= nearest
        edge = nearest
        if not edge:
            break
    return _ordered(seen, known)


def _by_end(
    graph: sqlite3.Connection, ends: Mapping[int, _At], relations: Collection[str], at: str
) -> dict[int, list[Row]]:
    """The edges at some nodes that may be walked, by the node they are left from."""
    found: dict[int, list[Row]] = {}
    for row in set(stored.around(graph, list(ends))):
        if (relations and row.relation not in relations) or (at and not _held(row, at)):
            continue
        if row.source in ends:
            found.setdefault(row.source, []).append(row)
        if row.target in ends:
            found.setdefault(row.target, []).append(row)
    return found


def _held(row: Row, at: str) -> bool:
    times = (row.recorded, row.valid_from, row.valid_until)
    return Edge("", Relation.RELATED_TO, "", *times).holds(at)


def _first(known: Mapping[int, Node], key: int, row: Row, best: _At) -> bool:
    """Whether of two equally good ways this is the one to tell: a fixed choice, whatever the keys are."""
    if best.row is None:
        return False
    return (known[key].id, row.relation, row.recorded) < (known[best.before].id, best.row.relation, best.row.recorded)


def _share(degree: int) -> float:
    """How much of its score a node hands on: all of it to one other, less the more there are."""
    return 1 / (1 + log2(degree / 2)) if degree > 2 else 1.0


def _ordered(seen: Mapping[int, _At], known: Mapping[int, Node]) -> list[Reached]:
    found = [
        Reached(
            known[key], each.hops, round(each.score, 9),
            stored.edge_of(each.row, known) if each.row is not None else None, known[each.start].id,
        )
        for key, each in seen.items()
    ]  # fmt: skip
    return sorted(found, key=lambda each: (-each.score, each.hops, each.node.id))


def path(graph: sqlite3.Connection, start: int, end: int, *, at: str = "", most: int = FARTHEST) -> list[Edge] | None:
    """The edges of a shortest way from one node to another, or None; of several, a fixed one."""
    came: dict[int, tuple[int, Row] | None] = {start: None}
    known = stored.nodes(graph, [start])
    edge = [start]
    while edge and end not in came and most > 0:
        most -= 1
        rows = [row for row in set(stored.around(graph, edge)) if not at or _held(row, at)]
        here = set(edge)
        fresh = {key for row in rows for key in (row.source, row.target)} - came.keys()
        found = stored.nodes(graph, fresh)
        known |= {key: node for key, node in found.items() if not at or node.holds(at)}
        edge = []
        for key, other, row in sorted(_steps(rows, here), key=lambda step: _step_order(step, known)):
            if other not in came and other in known:
                came[other] = (key, row)
                edge.append(other)
    return _way(came, end, known) if end in came else None


def _steps(rows: Sequence[Row], here: set[int]) -> Iterator[tuple[int, int, Row]]:
    for row in rows:
        if row.source in here:
            yield row.source, row.target, row
        if row.target in here:
            yield row.target, row.source, row


def _step_order(step: tuple[int, int, Row], known: Mapping[int, Node]) -> tuple[str, ...]:
    key, other, row = step
    node = known.get(other)
    return (known[key].id, node.id if node is not None else "", row.relation, row.recorded)


def _way(came: Mapping[int, tuple[int, Row] | None], end: int, known: Mapping[int, Node]) -> list[Edge]:
    found: list[Edge] = []
    step = came[end]
    while step is not None:
        found.append(stored.edge_of(step[1], known))
        step = came[step[0]]
    return found[::-1]


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
    return type_named(node.id) is None and node.type in _STRONG


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
