"""A part of the graph for a picture: around one node, of a task or a tag, between two nodes, or the busiest nodes.

A node's degree is that of the complete graph, so that it does not change with the part. The graph is cached until
its sources change, since the time slider asks again and again.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids
from ralph.core.graph import Edge, Node, NodeType, entity_id, entity_type
from ralph.recall import graph
from ralph.recall.json_shapes import edge_json, node_json
from ralph.search.filters import when
from ralph.storage import graph as stored

LIMIT = 400
MAX_LIMIT = 2_000
_SYNC_SECONDS = (
    5.0  # for reading what is new; the graph of a large project comes with several requests
)
NEWEST = "newest"  # in place of a node's id: the newest memory that is linked to something
_AROUND_HOPS = 2


class GraphSnapshot(NamedTuple):
    """The graph in memory: nodes by id, edges in order, the degree of each node, the first day, and what it lacks."""

    nodes: Mapping[str, Node]
    edges: Sequence[Edge]
    degrees: Mapping[str, int]
    since: str
    missing: int = 0

    def edges_at(self, at: str) -> Sequence[Edge]:
        """Return the edges that are valid at a time; an empty time is now."""
        if not at:
            return self.edges
        valid = {name for name, node in self.nodes.items() if node.holds(at)}
        return [
            edge
            for edge in self.edges
            if edge.source in valid and edge.target in valid and edge.holds(at)
        ]

    def newest(self, edges: Iterable[Edge]) -> str:
        """Return the newest record that has an edge; "" when nothing is linked."""
        linked = {
            end for edge in edges for end in (edge.source, edge.target) if entity_type(end) is None
        }
        return max(
            linked & self.nodes.keys(),
            key=lambda name: (self.nodes[name].recorded, name),
            default="",
        )

    def near(self, names: AbstractSet[str], edges: Iterable[Edge], hops: int) -> set[str]:
        """Return some nodes and what is within some hops of them."""
        names = names & self.nodes.keys()
        for _ in range(hops):
            sources = {edge.source for edge in edges if edge.target in names}
            names = names | sources | {edge.target for edge in edges if edge.source in names}
        return {*names}

    def part(
        self, names: Collection[str], edges: Iterable[Edge], limit: int, first: str = ""
    ) -> dict[str, object]:
        """Return the nodes with the most edges of these as JSON, with the edges between them."""
        between = [edge for edge in edges if edge.source in names and edge.target in names]
        busiest = heapq.nsmallest(
            limit, names, lambda name: (name != first, -self.degrees[name], name)
        )
        chosen = set(busiest)
        within = [edge for edge in between if edge.source in chosen and edge.target in chosen]
        return self.to_json(busiest, within, len(names), len(between))

    def to_json(
        self, names: Iterable[str], edges: Iterable[Edge], nodes: int, total_edges: int
    ) -> dict[str, object]:
        """Return nodes and edges with the totals and the time that the graph covers."""
        return {
            "nodes": [
                {
                    **node_json(self.nodes[name]),
                    "record": name if entity_type(name) is None else None,
                    "degree": self.degrees[name],
                }
                for name in names
            ],
            "edges": [edge_json(edge) for edge in edges],
            "total_nodes": nodes,
            "total_edges": total_edges,
            "from": self.since,
            "until": ids.today() if self.nodes else "",
            "missing_sources": self.missing,
        }


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
    """Return the part of the graph that is near the node `around`, a task and a tag, and has every word of `text`."""
    at = when(at)
    snapshot, edges = _snapshot(root, at)
    nodes = snapshot.nodes
    centre = (
        snapshot.newest(edges)
        if around == NEWEST
        else graph.show(root, around).node.id
        if around
        else ""
    )
    names = snapshot.near({centre}, edges, _AROUND_HOPS) if centre else set(nodes)
    if task:
        own = {name for name, node in nodes.items() if node.task == task}
        names &= snapshot.near(own | {entity_id(NodeType.TASK, task)}, edges, 1)
    if tag:
        names &= snapshot.near({entity_id(NodeType.TAG, tag.lower())}, edges, _AROUND_HOPS)
    if at:  # a file or a tag has no time of its own: it is there when an edge is
        ends = {end for edge in edges for end in (edge.source, edge.target)}
        names = {
            name
            for name in names
            if nodes[name].holds(at) and (name in ends or entity_type(name) is None)
        }
    for word in text.casefold().split():
        names = {name for name in names if word in f"{name}\n{nodes[name].name}".casefold()}
    return {**snapshot.part(names, edges, limit, first=centre), "around": centre}


def neighbors(
    root: Path, name: str, *, hops: int = 1, at: str = "", limit: int = LIMIT
) -> dict[str, object]:
    """Return a node and what is within some hops of it; NotFound when there is none of that name."""
    node = graph.show(root, name).node.id
    snapshot, edges = _snapshot(root, when(at))
    return snapshot.part(snapshot.near({node}, edges, hops), edges, limit, first=node)


def path(root: Path, start: str, end: str, *, at: str = "") -> dict[str, object]:
    """Return the nodes and edges of a shortest path between two nodes, in order; `found`: whether there is one."""
    (first, _), edges = graph.path(root, start, end, at=when(at))
    names = [first.id]
    for edge in edges or ():
        names.append(edge.target if edge.source == names[-1] else edge.source)
    shape = _snapshot(root, "")[0].to_json(names, edges or (), len(names), len(edges or ()))
    return {**shape, "found": edges is not None}


_CACHE: dict[tuple[Path, tuple[tuple[str, str], ...]], GraphSnapshot] = {}


def _snapshot(root: Path, at: str) -> tuple[GraphSnapshot, Sequence[Edge]]:
    def question(
        connection: sqlite3.Connection, records: sqlite3.Connection, *_: object
    ) -> GraphSnapshot:
        stamp = (root, stored.source_stamps(connection))
        snapshot = _CACHE.get(stamp)
        if snapshot is None:
            nodes = stored.nodes(connection)
            edges = [stored.edge_of(row, nodes) for row in stored.edges(connection)]
            degrees = Counter(end for edge in edges for end in {edge.source, edge.target})
            by_id = {node.id: node for node in nodes.values()}
            missing = stored.count_missing(connection, records)
            snapshot = GraphSnapshot(
                by_id, edges, degrees, stored.oldest_time(connection)[:10], missing
            )
            _CACHE.clear()
            _CACHE[stamp] = snapshot
        return snapshot

    snapshot = graph.query_graph(root, question, within=_SYNC_SECONDS)
    return snapshot, snapshot.edges_at(at)
