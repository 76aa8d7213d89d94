"""A part of the graph for a picture: filtered by task, tag, type, text and time, at most so many nodes.

The nodes with the most edges are taken, with all edges between them. A task or a tag brings its records and what these
mention. A node's degree is that of the whole graph, so that it does not change with the filter. The graph is cached
until its sources change, since the time slider asks again and again.
"""

import heapq
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ralph.app import graph
from ralph.app.json_shapes import edge_json, node_json
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.graph import Edge, Node, NodeType, Relation, entity_id, entity_type
from ralph.store import graph as stored

LIMIT, MAX_LIMIT = 400, 2_000
_TIME = re.compile(r"\d{4}(-\d{2}(-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2})?)?)?)?")
_RELATIONS = {relation.value: relation for relation in Relation}

Row = tuple[int, int, str, str, str, str, int]
"""An edge as the database returns it: the keys of its ends, its relation, when it was recorded, its validity."""


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """The filter: a task, a tag, node types, text in the name, a time, and a limit."""

    task: str = ""
    tag: str = ""
    types: Sequence[str] = ()
    text: str = ""
    at: str = ""
    limit: int = LIMIT


@dataclass(frozen=True)
class GraphSnapshot:
    """The whole graph in memory: nodes by key, edges in order, and the degree of each node."""

    nodes: Mapping[int, Node] = field(default_factory=dict, hash=False)
    edges: Sequence[Row] = ()
    degrees: Mapping[int, int] = field(default_factory=dict, hash=False)
    since: str = ""

    @cached_property
    def keys(self) -> Mapping[str, int]:
        """The key of each node by its id."""
        return {node.id: key for key, node in self.nodes.items()}

    @cached_property
    def records(self) -> frozenset[int]:
        """The nodes that are records."""
        return frozenset(key for key, node in self.nodes.items() if entity_type(node.id) is None)

    @cached_property
    def dated_edges(self) -> Sequence[Edge]:
        """Every edge as a value with its times."""
        return list(map(self.edge, self.edges))

    def edge(self, row: Row) -> Edge:
        """Return an edge as a value."""
        source, target, relation, recorded, since, until, explicit = row
        ends = self.nodes[source].id, self.nodes[target].id
        return Edge(ends[0], _RELATIONS[relation], ends[1], recorded, since, until, explicit == 1)

    def valid_at(self, at: str) -> tuple[set[int], Sequence[Row]]:
        """Return the nodes and edges that are valid at a time; an empty time is now."""
        if not at:
            return set(self.nodes), self.edges
        valid = {key for key, node in self.nodes.items() if node.holds(at)}
        pairs = zip(self.edges, self.dated_edges, strict=True)
        return valid, [row for row, edge in pairs if row[0] in valid and row[1] in valid and edge.holds(at)]

    def part(self, keys: Collection[int], edges: Sequence[Row], limit: int, first: str = "") -> dict[str, object]:
        """Return the nodes with the most edges of these as JSON, with the edges between them."""
        between = edges if len(keys) == len(self.nodes) else [row for row in edges if row[0] in keys and row[1] in keys]
        nodes, degrees = self.nodes, self.degrees

        def rank(key: int) -> tuple[bool, int, str]:
            return nodes[key].id != first, -degrees.get(key, 0), nodes[key].id

        busiest = heapq.nsmallest(min(limit, MAX_LIMIT), keys, rank)
        shown = set(busiest)
        within = [self.edge(row) for row in between if row[0] in shown and row[1] in shown]
        return self.to_json(busiest, within, len(keys), len(between))

    def to_json(self, keys: Iterable[int], edges: Sequence[Edge], nodes: int, total_edges: int) -> dict[str, object]:
        """Return nodes and edges with the totals and the time that the graph covers."""
        return {
            "nodes": [
                {
                    **node_json(self.nodes[key]),
                    "record": self.nodes[key].id if key in self.records else None,
                    "degree": self.degrees.get(key, 0),
                }
                for key in keys
            ],
            "edges": [edge_json(edge) for edge in edges],
            "total_nodes": nodes,
            "total_edges": total_edges,
            "from": self.since,
            "until": ids.today() if self.nodes else "",
        }


def _adjacent(keys: Collection[int], edges: Iterable[Row]) -> set[int]:
    adjacent: set[int] = set()
    for row in edges:
        if row[0] in keys:
            adjacent.add(row[1])
        if row[1] in keys:
            adjacent.add(row[0])
    return adjacent - set(keys)


def check_time(at: str) -> str:
    """Return a time unchanged; UsageError when it is none."""
    if at and not _TIME.fullmatch(at):
        raise UsageError(f"{at[:40]!r} is no day and no time", hint="for example 2026-11-15")
    return at


def graph_part(root: Path, request: GraphRequest) -> dict[str, object]:
    """Return the filtered part of the graph; UsageError for an unknown type or time."""
    known = {kind.value for kind in NodeType}
    wrong = [word for word in request.types if word not in known]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is no type of node", hint=f"one of {', '.join(sorted(known))}")
    at = check_time(request.at)
    whole = _snapshot(root)
    keys, edges = whole.valid_at(at)
    if at:  # a file or a tag has no time of its own: it is there when an edge is
        keys &= whole.records | {end for row in edges for end in row[:2]}
    starts: list[set[int]] = []
    if request.task:
        own = {key for key, node in whole.nodes.items() if node.task == request.task}
        starts.append(own | _node_keys(whole, entity_id(NodeType.TASK, request.task)))
    if request.tag:
        starts.append(_node_keys(whole, entity_id(NodeType.TAG, request.tag.lower())))
    for start in starts:
        near = _adjacent(start, edges)
        records = (near | start) & whole.records
        keys &= start | records | near | _adjacent(records, edges)
    if request.types:
        keys = {key for key in keys if whole.nodes[key].type.value in request.types}
    for word in request.text.casefold().split():
        keys = {key for key in keys if word in f"{whole.nodes[key].id}\n{whole.nodes[key].name}".casefold()}
    return whole.part(keys, edges, request.limit)


def neighbors(root: Path, name: str, *, hops: int = 1, at: str = "", limit: int = LIMIT) -> dict[str, object]:
    """Return a node and what is within some hops of it; NotFound when there is none of that name."""
    node = graph.show(root, name).node.id
    whole = _snapshot(root)
    _, edges = whole.valid_at(check_time(at))
    keys = _node_keys(whole, node)
    for _ in range(hops):
        keys |= _adjacent(keys, edges)
    return whole.part(keys, edges, limit, first=node)


def path(root: Path, start: str, end: str, *, at: str = "") -> dict[str, object]:
    """Return a shortest path between two nodes, in order, and as `found` whether there is one."""
    way = graph.path(root, start, end, at=check_time(at))
    whole = _snapshot(root)
    names = [way.start.id]
    for edge in way.edges:
        names.append(edge.target if edge.source == names[-1] else edge.source)
    keys = [whole.keys[name] for name in dict.fromkeys([*names, way.end.id]) if name in whole.keys]
    return {**whole.to_json(keys, way.edges, len(keys), len(way.edges)), "found": way.found}


def _node_keys(whole: GraphSnapshot, name: str) -> set[int]:
    return {whole.keys[name]} if name in whole.keys else set()


_CACHE: dict[tuple[Path, tuple[tuple[str, str], ...]], GraphSnapshot] = {}
"""The graph of one project in its present state."""


def _snapshot(root: Path) -> GraphSnapshot:
    def question(connection: sqlite3.Connection, _: sqlite3.Connection) -> GraphSnapshot:
        stamp = (root, stored.source_stamps(connection))
        snapshot = _CACHE.get(stamp)
        if snapshot is None:
            edges = stored.joined_edges(connection)
            degrees = Counter(row[0] for row in edges)
            degrees.update(row[1] for row in edges if row[1] != row[0])
            since = stored.oldest_time(connection)[:10]
            snapshot = GraphSnapshot(stored.nodes(connection), edges, degrees, since)
            _CACHE.clear()
            _CACHE[stamp] = snapshot
        return snapshot

    return graph.query_graph(root, question)
