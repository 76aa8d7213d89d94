"""Walks over the knowledge graph: the neighbours of nodes, and paths between nodes.

A *walk* starts at one or more nodes and follows edges in both directions for a number of *hops*.
With each hop, the score is halved and multiplied by the weight of the edge. For example, if two
memories are related to the file `src/a.ts` (derived edges, 0.7) and the walk starts at the first
with a score of 1, the file gets 0.5 * 0.7 = 0.35 and the second memory 0.35 * 0.5 * 0.7 = 0.1225.
A node with many edges passes on less along each of them, so that a popular tag does not connect
everything.

A *stated* edge is written in a record's metadata. All other edges are *derived* by Ralph.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from math import log2
from typing import NamedTuple

from ralph.core.graph import Edge, Node, NodeType, Relation
from ralph.storage import graph as stored
from ralph.storage.graph import EdgeRow

HUB = 200  # a search does not continue from a node with more edges than this
_DECAY = 0.5  # a score is multiplied by this with each hop
_DERIVED_WEIGHTS = {  # a stated edge has a weight of 1
    Relation.SUPERSEDES.value: 0.9,
    Relation.FIXES.value: 0.9,
    Relation.CONTRADICTS.value: 0.9,
    Relation.DEPENDS_ON.value: 0.8,
    Relation.AFFECTS.value: 0.8,
    Relation.RELATED_TO.value: 0.7,
    Relation.DISCOVERED_IN.value: 0.6,
    Relation.MENTIONS.value: 0.4,
}
_SCORE_DIGITS = 9  # scores are rounded to this many decimal places


class ReachedNode(NamedTuple):
    """A node that a walk reached.

    `score` is 1 at the start of a walk and decreases with each hop. `via` is the last edge on the
    path, and `start` the id of the node where it began. `weak` is set if that node is a weak match.
    """

    node: Node
    hops: int
    score: float
    via: Edge | None = None
    start: str = ""
    weak: bool = False


class GraphVisibility(NamedTuple):
    """The part of the graph that a task may not see, as keys of nodes.

    `hidden` nodes are invisible. `unfinished_tasks` are visible, because every task may see that
    another one exists, but their edges are not: an edge to a file or a session would reveal the
    work on the task. Only the edges between two `tasks` remain visible.
    """

    hidden: AbstractSet[int] = frozenset()
    unfinished_tasks: AbstractSet[int] = frozenset()
    tasks: AbstractSet[int] = frozenset()

    def allows(self, source: int, target: int) -> bool:
        """Return whether an edge between two nodes is visible."""
        if source in self.hidden or target in self.hidden:
            return False
        if source in self.unfinished_tasks or target in self.unfinished_tasks:
            return source in self.tasks and target in self.tasks
        return True


ALL_VISIBLE = GraphVisibility()  # when no task is given


class WalkRules(NamedTuple):
    """The edges that a walk may follow.

    If `at` is set, only nodes and edges that are valid at that time are followed. If `by` is set,
    edges that become valid after that day are not followed. A walk does not continue from a node
    with more than `hub` edges.
    """

    relations: Collection[Relation] = ()
    at: str = ""
    visibility: GraphVisibility = ALL_VISIBLE
    by: str = ""
    hub: int | None = None

    def allow_edge(self, row: EdgeRow) -> bool:
        """Return whether a walk may follow an edge."""
        if self.relations and row.relation not in self.relations:
            return False
        is_limited = self.visibility is not ALL_VISIBLE
        if is_limited and not self.visibility.allows(row.source, row.target):
            return False
        if self.by and row.valid_from[:10] > self.by:
            return False
        return not self.at or row.is_valid_at(self.at)

    def allow_node(self, node: Node) -> bool:
        """Return whether a walk may enter a node."""
        return not self.at or node.is_valid_at(self.at)


ANYWHERE = WalkRules()


class _Step(NamedTuple):
    """How a walk reached a node on the best path so far."""

    score: float
    hops: int
    start: int
    previous: int
    edge: EdgeRow | None = None


def neighbours(
    graph: sqlite3.Connection,
    key: int,
    hops: int = 2,
    rules: WalkRules = ANYWHERE,
    types: Collection[NodeType] = (),
) -> list[ReachedNode]:
    """Return the nodes within `hops` hops of a node, best score first."""
    found = []
    for reached in walk(graph, {key: 1.0}, hops, rules):
        is_wanted = not types or reached.node.type in types
        if reached.hops > 0 and is_wanted:
            found.append(reached)
    return found


def walk(
    graph: sqlite3.Connection, seeds: Mapping[int, float], hops: int, rules: WalkRules = ANYWHERE
) -> list[ReachedNode]:
    """Return the seeds and every node within `hops` hops of them, best score first.

    `seeds` maps the keys of the starting nodes to their scores. A node that can be reached in
    several ways gets the score of its best path.
    """
    nodes = stored.nodes(graph, seeds)
    steps: dict[int, _Step] = {}
    for key, score in seeds.items():
        if key in nodes:
            steps[key] = _Step(score, hops=0, start=key, previous=key)
    level = dict(steps)
    for hop in range(1, hops + 1):
        level = _expand(graph, level, steps, nodes, hop, rules)
        nodes |= stored.nodes(graph, level)
        level = {key: step for key, step in level.items() if rules.allow_node(nodes[key])}
        if not level:
            break
        steps |= level
    reached = [_reached_node(nodes, key, step) for key, step in steps.items()]
    return sorted(reached, key=lambda found: (-found.score, found.hops, found.node.id))


def _reached_node(nodes: Mapping[int, Node], key: int, step: _Step) -> ReachedNode:
    return ReachedNode(
        node=nodes[key],
        hops=step.hops,
        score=round(step.score, _SCORE_DIGITS),
        via=None if step.edge is None else stored.edge_of(step.edge, nodes),
        start=nodes[step.start].id,
    )


def _expand(
    graph: sqlite3.Connection,
    level: Mapping[int, _Step],
    steps: Mapping[int, _Step],
    nodes: Mapping[int, Node],
    hop: int,
    rules: WalkRules,
) -> dict[int, _Step]:
    """Return the best step to each node that is one hop further and not reached yet."""
    edges_of: dict[int, list[EdgeRow]] = {key: [] for key in level}
    for row in stored.edges_at(graph, level):
        if rules.allow_edge(row):
            edges_of[row.here].append(row)
    nearest: dict[int, _Step] = {}
    for key, rows in edges_of.items():
        if rules.hub is not None and hop > 1 and len(rows) > rules.hub:
            continue
        share = _passed_score(level[key].score, hop, degree=len(rows))
        for row in rows:
            other = row.other_end
            if other in steps:
                continue
            weight = 1.0 if row.explicit else _DERIVED_WEIGHTS[row.relation]
            score = share * weight
            step = _Step(score, hop, level[key].start, key, row)
            best = nearest.get(other)
            if best is None or _is_better(step, best, nodes):
                nearest[other] = step
    return nearest


def _passed_score(score: float, hop: int, *, degree: int) -> float:
    """Return the score that a node passes on along a stated edge.

    Apart from the decay per hop, the seeds of a walk and nodes with only one other edge pass on
    their full score. A node with many edges passes on less along each of them.
    """
    share = score * _DECAY
    if hop > 1 and degree > 2:
        share *= 1 / (1 + log2(degree / 2))
    return share


def _is_better(step: _Step, best: _Step, nodes: Mapping[int, Node]) -> bool:
    """Return whether a step is better than the best one so far.

    Steps are compared by score. Ties are broken by id and edge, because a rebuild changes the keys.
    """
    if step.score != best.score or step.edge is None or best.edge is None:
        return step.score > best.score
    order = (nodes[step.previous].id, step.edge.sort_key)
    best_order = (nodes[best.previous].id, best.edge.sort_key)
    return order < best_order


def shortest_path(
    graph: sqlite3.Connection, start: int, end: int, rules: WalkRules = ANYWHERE
) -> list[Edge] | None:
    """Return the edges on a shortest path between two nodes, or None if there is none.

    If there are several shortest paths, the choice is always the same.
    """
    arrivals: dict[int, EdgeRow | None] = {start: None}  # the edge that led to each node
    nodes = stored.nodes(graph, [start])
    level = [start]
    while level and end not in arrivals:
        rows = [row for row in stored.edges_at(graph, level) if rules.allow_edge(row)]
        nodes |= stored.nodes(graph, {row.other_end for row in rows})
        rows.sort(key=lambda row: (nodes[row.here].id, nodes[row.other_end].id, row.relation))
        level = []
        for row in rows:
            if row.other_end not in arrivals and rules.allow_node(nodes[row.other_end]):
                arrivals[row.other_end] = row
                level.append(row.other_end)
    if end not in arrivals or not rules.allow_node(nodes[start]):
        return None
    edges: list[Edge] = []
    arrival = arrivals[end]
    while arrival is not None:
        edges.append(stored.edge_of(arrival, nodes))
        arrival = arrivals[arrival.here]
    edges.reverse()
    return edges
