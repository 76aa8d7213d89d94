"""Choose the part of the graph that a picture shows.

The part is what surrounds a node, belongs to a task or a tag, or lies between two nodes. By default
it is the nodes with the most edges. A node's degree is counted in the complete graph, so it does
not depend on the part. The graph is cached until the index changes, because the time slider asks
for it many times.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ralph.core import ids
from ralph.core.graph import Edge, Node, NodeType, entity_id, entity_type
from ralph.recall import graph
from ralph.recall.json_shapes import edge_json, node_json
from ralph.search import index
from ralph.search.filters import parse_time
from ralph.search.graph_walks import GraphVisibility
from ralph.storage import graph as stored
from ralph.storage import graph_sync

LIMIT = 400
MAX_LIMIT = 2_000
_SYNC_SECONDS = 5.0  # for reading new sources; a large graph is built over several requests
NEWEST = "newest"  # used in place of a node id, for the newest memory that is linked to something
_AROUND_HOPS = 2
_TASK_HOPS = 1
_DATE_CHARACTERS = 10  # the date in a timestamp that begins with YYYY-MM-DD


@dataclass(frozen=True)
class GraphSnapshot:
    """The graph in memory.

    `nodes` are stored by id, and `degrees` has the number of edges of each. `since` is the first
    day of the graph, and `missing` is the number of sources that have not been read yet.
    """

    nodes: Mapping[str, Node]
    edges: Sequence[Edge]
    degrees: Mapping[str, int]
    since: str
    missing: int = 0

    @cached_property
    def busiest(self) -> Sequence[str]:
        """The nodes with the most edges, as many as a picture can show, without lone sessions."""
        names = self.without_lone_sessions(self.edges)
        return heapq.nsmallest(MAX_LIMIT, names, self._busiest_first)

    @cached_property
    def busiest_edges(self) -> Sequence[Edge]:
        """The edges between the nodes with the most edges, in the order of all edges."""
        return _edges_within(set(self.busiest), self.edges)

    @cached_property
    def size(self) -> int:
        """The number of nodes, without lone sessions."""
        return len(self.without_lone_sessions(self.edges))

    def overview(self, limit: int) -> dict[str, object]:
        """Return the nodes with the most edges in the whole graph, as `part` does.

        Only nodes that can be shown are looked at, so the size of the graph does not matter.
        """
        shown = self.busiest[:limit]
        edges = _edges_within(set(shown), self.busiest_edges)
        return self.to_json(shown, edges, self.size, len(self.edges))

    def _busiest_first(self, name: str) -> tuple[int, str]:
        return -self.degrees[name], name

    def edges_at(self, at: str) -> Sequence[Edge]:
        """Return the edges that are valid at a time. An empty time means now."""
        if not at:
            return self.edges
        valid = {name for name, node in self.nodes.items() if node.is_valid_at(at)}
        return [edge for edge in _edges_within(valid, self.edges) if edge.is_valid_at(at)]

    def newest(self, edges: Iterable[Edge]) -> str:
        """Return the newest record, preferably one with an edge, or "" if there are no records."""
        records = {name for name in self.nodes if _is_record(name)}
        linked = records & _ends(edges)
        return max(
            linked or records,
            key=lambda name: (self.nodes[name].recorded, name),
            default="",
        )

    def without_lone_sessions(self, edges: Iterable[Edge]) -> set[str]:
        """Return all nodes except for sessions without an edge, which say nothing."""
        ends = _ends(edges)
        return {
            name
            for name, node in self.nodes.items()
            if node.type is not NodeType.SESSION or name in ends
        }

    def near(self, names: AbstractSet[str], edges: Sequence[Edge], hops: int) -> set[str]:
        """Return the given nodes and everything within `hops` of them."""
        reached = set(names & self.nodes.keys())
        for _ in range(hops):
            sources = {edge.source for edge in edges if edge.target in reached}
            targets = {edge.target for edge in edges if edge.source in reached}
            reached = reached | sources | targets
        return reached

    def part(
        self, names: Collection[str], edges: Iterable[Edge], limit: int, first: str = ""
    ) -> dict[str, object]:
        """Return the nodes with the most edges, and the edges between them, as JSON.

        The node `first` is always listed first. The totals count all names and all edges between
        them.
        """
        between = _edges_within(names, edges)
        busiest = heapq.nsmallest(
            limit, names, lambda name: (name != first, *self._busiest_first(name))
        )
        shown = _edges_within(set(busiest), between)
        return self.to_json(busiest, shown, len(names), len(between))

    def to_json(
        self, names: Iterable[str], edges: Iterable[Edge], total_nodes: int, total_edges: int
    ) -> dict[str, object]:
        """Return nodes and edges as JSON, with the totals and the time span of the graph."""
        until = ""
        if self.nodes:
            until = ids.today()
        return {
            "nodes": [self._node_json(name) for name in names],
            "edges": [edge_json(edge) for edge in edges],
            "total_nodes": total_nodes,
            "total_edges": total_edges,
            "from": self.since,
            "until": until,
            "missing_sources": self.missing,
        }

    def _node_json(self, name: str) -> dict[str, object]:
        return {
            **node_json(self.nodes[name]),
            "record": name if _is_record(name) else None,
            "degree": self.degrees[name],
        }


def _is_record(name: str) -> bool:
    return entity_type(name) is None


def _edges_within(names: Collection[str], edges: Iterable[Edge]) -> list[Edge]:
    """Return the edges that have both ends among the given nodes."""
    return [edge for edge in edges if edge.source in names and edge.target in names]


def _ends(edges: Iterable[Edge]) -> set[str]:
    ends = set()
    for edge in edges:
        ends.add(edge.source)
        ends.add(edge.target)
    return ends


# --- parts --------------------------------------------------------------------------------------


def graph_part(
    root: Path,
    *,
    text: str = "",
    at: str = "",
    around: str = "",
    task: str = "",
    tag: str = "",
    limit: int = LIMIT,
) -> dict[str, object]:
    """Return the part of the graph that matches all given filters, as JSON.

    The nodes are near `around`, belong to the task and the tag, and contain every word of `text`.
    Sessions that are linked to nothing are left out. Raises NotFound for an unknown node, and
    UsageError for a time that cannot be parsed.
    """
    at = parse_time(at)
    snapshot, edges = _snapshot(root, at)
    centre = ""
    if not (text.strip() or at or around or task or tag):
        return {**snapshot.overview(limit), "around": centre}
    if around == NEWEST:
        centre = snapshot.newest(edges)
    elif around:
        centre = graph.show(root, around).node.id
    names = snapshot.without_lone_sessions(edges)
    if centre:
        names = snapshot.near({centre}, edges, _AROUND_HOPS)
    if task:
        own_nodes = {name for name, node in snapshot.nodes.items() if node.task == task}
        own_nodes.add(entity_id(NodeType.TASK, task))
        names &= snapshot.near(own_nodes, edges, _TASK_HOPS)
    if tag:
        tag_node = entity_id(NodeType.TAG, tag.lower())
        names &= snapshot.near({tag_node}, edges, _AROUND_HOPS)
    if at:
        names = _names_at(snapshot.nodes, names, edges, at)
    names = _names_with_words(snapshot.nodes, names, text)
    return {**snapshot.part(names, edges, limit, first=centre), "around": centre}


def _names_at(
    nodes: Mapping[str, Node], names: Iterable[str], edges: Iterable[Edge], at: str
) -> set[str]:
    """Return the nodes that are valid at a time.

    A file or a tag has no time of its own. It is valid while one of its edges is.
    """
    ends = _ends(edges)
    return {
        name for name in names if nodes[name].is_valid_at(at) and (name in ends or _is_record(name))
    }


def _names_with_words(nodes: Mapping[str, Node], names: set[str], text: str) -> set[str]:
    """Return the nodes whose id and name together contain every word of the text."""
    for word in text.casefold().split():
        names = {name for name in names if word in f"{name}\n{nodes[name].name}".casefold()}
    return names


def neighbors(
    root: Path, name: str, *, hops: int = 1, at: str = "", limit: int = LIMIT
) -> dict[str, object]:
    """Return a node and everything within `hops` of it. Raises NotFound for an unknown node."""
    node = graph.show(root, name).node.id
    snapshot, edges = _snapshot(root, parse_time(at))
    return snapshot.part(snapshot.near({node}, edges, hops), edges, limit, first=node)


def path(root: Path, start: str, end: str, *, at: str = "") -> dict[str, object]:
    """Return the nodes and edges on a shortest path between two nodes, in order.

    `found` is true if there is a path. Raises NotFound for an unknown node.
    """
    (first, _), found_edges = graph.path(root, start, end, at=parse_time(at))
    edges = found_edges or []
    names = [first.id]
    for edge in edges:
        if edge.source == names[-1]:
            names.append(edge.target)
        else:
            names.append(edge.source)
    snapshot, _ = _snapshot(root, "")
    shape = snapshot.to_json(names, edges, len(names), len(edges))
    return {**shape, "found": found_edges is not None}


# --- the cache ----------------------------------------------------------------------------------

_CACHE: dict[tuple[Path, str], GraphSnapshot] = {}
"""The last complete snapshot, keyed by its project and the state of the index."""


def _snapshot(root: Path, at: str) -> tuple[GraphSnapshot, Sequence[Edge]]:
    """Return the current graph, and the edges that are valid at a time."""
    # Read before the graph, so that the graph is never older than this state.
    key = (root, index.ask(root, lambda _: index.state_of(root)))
    is_current = index.is_known_to_be_current(root)
    snapshot = _CACHE.get(key) if is_current else None
    if snapshot is None:
        snapshot = graph.query_graph(root, _read_snapshot, within=_SYNC_SECONDS)
        _CACHE.clear()
        if is_current and not snapshot.missing:
            _CACHE[key] = snapshot
    return snapshot, snapshot.edges_at(at)


def _read_snapshot(
    connection: sqlite3.Connection, records: sqlite3.Connection, _: GraphVisibility
) -> GraphSnapshot:
    nodes = stored.nodes(connection)
    edges = [stored.edge_of(row, nodes) for row in stored.edges(connection)]
    degrees: Counter[str] = Counter()
    for edge in edges:
        degrees.update({edge.source, edge.target})  # an edge from a node to itself counts once
    return GraphSnapshot(
        {node.id: node for node in nodes.values()},
        edges,
        degrees,
        since=stored.oldest_time(connection)[:_DATE_CHARACTERS],
        missing=graph_sync.count_missing(connection, records),
    )
