"""Read parts of the graph for a picture: as it is now, or as it was at an earlier time.

The database counts the edges of each node, so `PresentView` reads only what is shown. What was
valid at an earlier time has to be chosen among all nodes and edges (`PastView`). They are kept in
memory until the index changes, because the time slider asks for them many times.

Both views have the same methods, which take and return the keys of nodes. A *lone session* is one
without an edge. It says nothing, so it is shown only if it is asked for.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ralph.core.graph import ENTITY_TYPES, Node, NodeType
from ralph.recall import graph
from ralph.search import index
from ralph.search.graph_walks import GraphVisibility
from ralph.storage import graph as stored
from ralph.storage import graph_sync
from ralph.storage.graph import EdgeRow

SYNC_SECONDS = 5.0  # for reading new sources; a large graph is built over several requests


class Part(NamedTuple):
    """The nodes and edges of a picture, and how many there were to choose from."""

    keys: Sequence[int]
    edges: Sequence[EdgeRow]
    total_nodes: int
    total_edges: int


# --- now ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PresentView:
    """The graph as it is now, in its database.

    `missing` is the number of sources that have not been read yet.
    """

    graph: sqlite3.Connection
    totals: stored.GraphTotals
    missing: int

    def with_ids(self, *node_ids: str) -> set[int]:
        """Return the nodes with these ids, as far as there are any."""
        return set(stored.keys_of(self.graph, node_ids).values())

    def newest_record(self) -> set[int]:
        """Return the newest record, if there is one, preferably one with an edge."""
        key = stored.newest_record_key(self.graph)
        return set() if key is None else {key}

    def all_shown(self) -> set[int]:
        """Return all nodes except for lone sessions."""
        return stored.shown_keys(self.graph)

    def of_task(self, task: str) -> set[int]:
        """Return the nodes that belong to a task."""
        return set(stored.task_keys(self.graph, task))

    def near(self, keys: Collection[int], hops: int) -> set[int]:
        """Return these nodes and everything within `hops` of them."""
        reached = set(keys)
        level = reached
        for _ in range(hops):
            level = stored.adjacent_keys(self.graph, level) - reached
            reached = reached | level
        return reached

    def valid(self, keys: set[int]) -> set[int]:
        """Return all of these nodes. The picture marks the ones that are no longer valid."""
        return keys

    def with_words(self, keys: AbstractSet[int], words: Sequence[str]) -> set[int]:
        """Return the nodes whose id and name together contain every word."""
        rows = stored.names_of(self.graph, keys)
        return {key for key, node_id, name in rows if _have_words(node_id, name, words)}

    def overview(self, limit: int) -> Part:
        """Return the nodes with the most edges in the whole graph, and the edges between them."""
        keys = stored.busiest_keys(self.graph, limit)
        edges = stored.edges_between(self.graph, keys)
        return Part(keys, edges, self.totals.nodes, self.totals.edges)

    def part(self, keys: AbstractSet[int], limit: int, first: AbstractSet[int]) -> Part:
        """Return the nodes with the most edges, those in `first` before others, and their edges."""
        busiest = stored.busiest_among(self.graph, keys, limit, first)
        edges = stored.edges_between(self.graph, busiest)
        total_edges = len(edges)
        if len(busiest) < len(keys):
            total_edges = stored.count_edges_between(self.graph, keys)
        return Part(busiest, edges, len(keys), total_edges)

    def nodes(self, keys: Iterable[int]) -> Mapping[int, Node]:
        """Return these nodes by key."""
        return stored.nodes(self.graph, keys)

    def degrees(self, keys: Iterable[int]) -> Mapping[int, int]:
        """Return the number of edges that each of these nodes has in the complete graph."""
        return stored.degrees(self.graph, keys)


# --- at an earlier time -------------------------------------------------------------------------


class _Snapshot(NamedTuple):
    """The complete graph in memory."""

    nodes: Mapping[int, Node]
    edges: Sequence[EdgeRow]
    degrees: Mapping[int, int]
    totals: stored.GraphTotals
    missing: int


class PastView:
    """The graph as it was at a time. Its nodes are those of all times (see `valid`)."""

    def __init__(self, snapshot: _Snapshot, at: str) -> None:
        self._snapshot = snapshot
        self._at = at
        self.totals = snapshot.totals
        self.missing = snapshot.missing
        self._valid = {key for key, node in snapshot.nodes.items() if node.is_valid_at(at)}
        edges = _edges_within(self._valid, snapshot.edges)
        self._edges = [edge for edge in edges if edge.is_valid_at(at)]
        self._ends = _ends(self._edges)

    def with_ids(self, *node_ids: str) -> set[int]:
        """Return the nodes with these ids, as far as there are any."""
        return {key for key, node in self._snapshot.nodes.items() if node.id in node_ids}

    def newest_record(self) -> set[int]:
        """Return the newest record, if there is one, preferably one with an edge."""
        records = {key for key in self._snapshot.nodes if self._is_record(key)}
        linked = records & self._ends
        return set(heapq.nlargest(1, linked or records, key=self._by_time))

    def _by_time(self, key: int) -> tuple[str, str]:
        node = self._snapshot.nodes[key]
        return node.recorded, node.id

    def _is_record(self, key: int) -> bool:
        return self._snapshot.nodes[key].type not in ENTITY_TYPES

    def all_shown(self) -> set[int]:
        """Return all nodes except for lone sessions."""
        return {
            key
            for key, node in self._snapshot.nodes.items()
            if node.type is not NodeType.SESSION or key in self._ends
        }

    def of_task(self, task: str) -> set[int]:
        """Return the nodes that belong to a task."""
        return {key for key, node in self._snapshot.nodes.items() if node.task == task}

    def near(self, keys: Collection[int], hops: int) -> set[int]:
        """Return these nodes and everything within `hops` of them."""
        reached = set(keys)
        for _ in range(hops):
            sources = {edge.source for edge in self._edges if edge.target in reached}
            targets = {edge.target for edge in self._edges if edge.source in reached}
            reached = reached | sources | targets
        return reached

    def valid(self, keys: set[int]) -> set[int]:
        """Return those of these nodes that are valid.

        A file or a tag has no time of its own. It is valid while one of its edges is.
        """
        valid = keys & self._valid
        return {key for key in valid if key in self._ends or self._is_record(key)}

    def with_words(self, keys: AbstractSet[int], words: Sequence[str]) -> set[int]:
        """Return the nodes whose id and name together contain every word."""
        nodes = self.nodes(keys)
        return {key for key in keys if _have_words(nodes[key].id, nodes[key].name, words)}

    def part(self, keys: AbstractSet[int], limit: int, first: AbstractSet[int]) -> Part:
        """Return the nodes with the most edges, those in `first` before others, and their edges."""
        between = _edges_within(keys, self._edges)
        busiest = heapq.nsmallest(
            limit, keys, lambda key: (key not in first, *self._busiest_first(key))
        )
        shown = _edges_within(set(busiest), between)
        return Part(busiest, shown, len(keys), len(between))

    def _busiest_first(self, key: int) -> tuple[int, str]:
        return -self._snapshot.degrees[key], self._snapshot.nodes[key].id

    def nodes(self, _: Iterable[int]) -> Mapping[int, Node]:
        """Return at least these nodes by key."""
        return self._snapshot.nodes

    def degrees(self, _: Iterable[int]) -> Mapping[int, int]:
        """Return the number of edges of at least these nodes in the complete graph."""
        return self._snapshot.degrees


def _have_words(node_id: str, name: str, words: Sequence[str]) -> bool:
    text = f"{node_id}\n{name}".casefold()
    return all(word in text for word in words)


def _edges_within(keys: Collection[int], edges: Iterable[EdgeRow]) -> list[EdgeRow]:
    """Return the edges that have both ends among these nodes."""
    return [edge for edge in edges if edge.source in keys and edge.target in keys]


def _ends(edges: Iterable[EdgeRow]) -> set[int]:
    ends = set()
    for edge in edges:
        ends.add(edge.source)
        ends.add(edge.target)
    return ends


_CACHE: dict[tuple[Path, str], _Snapshot] = {}
"""The last complete snapshot, keyed by its project and the state of the index."""


def past_view(root: Path, at: str) -> PastView:
    """Return the graph as it was at a time."""
    # Read before the graph, so that the graph is never older than this state.
    key = (root, index.ask(root, lambda _: index.state_of(root)))
    is_current = index.is_known_to_be_current(root)
    snapshot = _CACHE.get(key) if is_current else None
    if snapshot is None:
        snapshot = graph.query_graph(root, _read_snapshot, within=SYNC_SECONDS)
        _CACHE.clear()
        if is_current and not snapshot.missing:
            _CACHE[key] = snapshot
    return PastView(snapshot, at)


def _read_snapshot(
    connection: sqlite3.Connection, records: sqlite3.Connection, _: GraphVisibility
) -> _Snapshot:
    nodes = stored.nodes(connection)
    return _Snapshot(
        nodes,
        stored.edges(connection),
        stored.degrees(connection, nodes),
        stored.totals(connection),
        graph_sync.count_missing(connection, records),
    )
