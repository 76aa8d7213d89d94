"""A part of the graph that a person can look at: by task, tag, kind, words and time, at most so many nodes.

A picture of ten thousand nodes shows nothing, so the nodes with the most edges are taken, with all edges between them;
how many there are in all is told. A task or a tag brings its own records and what these speak of. A node's degree is
that of the whole graph, so that it does not change with what is shown. The graph is kept in memory between two looks
as long as its sources are what they were: the slider of time asks again and again. It is kept as the database gives it,
by keys, sorted and each edge once; an edge is put into words when it is shown, or when somebody asks for a time.
`tests/web/test_graph.py` proves it.
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
from ralph.errors import UsageError
from ralph.model import ids
from ralph.model.graph import Edge, Node, NodeType, Relation, entity_id, entity_type
from ralph.store import graph as stored

LIMIT, MOST = 400, 2_000
_TIME = re.compile(r"\d{4}(-\d{2}(-\d{2}(T[\d:.]+(Z|[+-]\d{2}:\d{2})?)?)?)?")


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """Which part: what is about a task or a tag, of these kinds, with these words in its name, as of a time."""

    task: str = ""
    tag: str = ""
    kinds: tuple[NodeType, ...] = ()
    words: str = ""
    at: str = ""
    limit: int = LIMIT


@dataclass(frozen=True, slots=True)
class GraphPart:
    """Nodes with their degrees, the edges between them, how many there are in all, and the time they span."""

    nodes: tuple[tuple[Node, int], ...] = ()
    edges: tuple[Edge, ...] = ()
    total_nodes: int = 0
    total_edges: int = 0
    since: str = ""
    until: str = ""


Row = tuple[int, int, str, str, str, str, int]
"""An edge as the database gives it: the keys of its ends, its relation, when it was recorded, since when and until."""


@dataclass(frozen=True)
class GraphSnapshot:
    """The graph in memory: its nodes by key, its edges in their order, and how many edges each node has."""

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
    def told(self) -> Sequence[Edge]:
        """Every edge in words."""
        return list(map(self.edge, self.edges))

    def edge(self, row: Row) -> Edge:
        """An edge in words."""
        source, target, relation, recorded, since, until, explicit = row
        ends = self.nodes[source].id, self.nodes[target].id
        return Edge(ends[0], _RELATIONS[relation], ends[1], recorded, since, until, explicit == 1)

    def beside(self, keys: Collection[int], edges: Iterable[Row]) -> set[int]:
        """What is one edge away from some nodes."""
        found: set[int] = set()
        for row in edges:
            if row[0] in keys:
                found.add(row[1])
            if row[1] in keys:
                found.add(row[0])
        return found - set(keys)


_RELATIONS = {relation.value: relation for relation in Relation}


def parse_node_types(words: Sequence[str]) -> tuple[NodeType, ...]:
    """The kinds of nodes that words mean; UsageError names the valid ones."""
    known = {kind.value: kind for kind in NodeType}
    wrong = [word for word in words if word not in known]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is no kind of node", hint=f"one of {', '.join(known)}")
    return tuple(known[word] for word in words)


def check_time(at: str) -> str:
    """A time to look at the graph as of; UsageError when it is none."""
    if at and not _TIME.fullmatch(at):
        raise UsageError(f"{at[:40]!r} is no day and no time", hint="for example 2026-11-15")
    return at


def graph_part(root: Path, wanted: GraphRequest) -> GraphPart:
    """The part that is asked for; an empty one where nothing is known."""
    at = check_time(wanted.at)
    whole = _snapshot(root)
    keys, edges = _valid_at(whole, at)
    if at:
        keys &= (keys & whole.records) | _ends(edges)
    if wanted.task:
        keys &= _neighbours(whole, edges, _nodes_of_task(whole, wanted.task))
    if wanted.tag:
        keys &= _neighbours(whole, edges, _nodes_named(whole, entity_id(NodeType.TAG, wanted.tag.lower())))
    if wanted.kinds:
        keys = {key for key in keys if whole.nodes[key].type in wanted.kinds}
    if wanted.words.strip():
        words = wanted.words.casefold().split()
        keys = {key for key in keys if _matches(whole.nodes[key], words)}
    return _part(whole, keys, edges, wanted.limit)


def neighbors(root: Path, name: str, *, hops: int = 1, at: str = "", limit: int = LIMIT) -> GraphPart:
    """A node and what is within some hops of it; NotFound when there is none of that name."""
    node = graph.show(root, name).node.id
    whole = _snapshot(root)
    _, edges = _valid_at(whole, check_time(at))
    seen = _nodes_named(whole, node)
    for _ in range(hops):
        seen |= whole.beside(seen, edges)
    return _part(whole, seen, edges, limit, first=node)


def path(root: Path, start: str, end: str, *, at: str = "") -> tuple[GraphPart, bool]:
    """A shortest way between two nodes, in its order, and whether there is one."""
    way = graph.path(root, start, end, at=check_time(at))
    whole = _snapshot(root)
    names = [way.start.id]
    for edge in way.edges:
        names.append(edge.target if edge.source == names[-1] else edge.source)
    keys = [whole.keys[name] for name in dict.fromkeys([*names, way.end.id]) if name in whole.keys]
    nodes = tuple((whole.nodes[key], whole.degrees.get(key, 0)) for key in keys)
    return GraphPart(nodes, way.edges, len(nodes), len(way.edges), whole.since, ids.today()), way.found


def _valid_at(whole: GraphSnapshot, at: str) -> tuple[set[int], Sequence[Row]]:
    """The nodes that hold at a time, and the edges between them that do."""
    if not at:
        return set(whole.nodes), whole.edges
    known = {key for key, node in whole.nodes.items() if node.holds(at)}
    pairs = zip(whole.edges, whole.told, strict=True)
    return known, [row for row, edge in pairs if row[0] in known and row[1] in known and edge.holds(at)]


def _matches(node: Node, words: Sequence[str]) -> bool:
    text = f"{node.id}\n{node.name}".casefold()
    return all(word in text for word in words)


def _nodes_named(whole: GraphSnapshot, name: str) -> set[int]:
    """The key of the node with this id, if there is one."""
    return {whole.keys[name]} if name in whole.keys else set()


def _ends(edges: Iterable[Row]) -> set[int]:
    """What some edges join; a file or a tag that nothing spoke of yet has no time of its own."""
    return {end for row in edges for end in row[:2]}


def _nodes_of_task(whole: GraphSnapshot, task: str) -> set[int]:
    own = {key for key, node in whole.nodes.items() if node.task == task}
    return own | _nodes_named(whole, entity_id(NodeType.TASK, task))


def _neighbours(whole: GraphSnapshot, edges: Sequence[Row], first: set[int]) -> set[int]:
    """What some nodes have, and what that speaks of: records of a tag, and their files, symbols and other tags."""
    near = whole.beside(first, edges)
    records = (near | first) & whole.records
    return first | records | whole.beside(records, edges) | near


def _part(whole: GraphSnapshot, keys: Collection[int], edges: Sequence[Row], limit: int, first: str = "") -> GraphPart:
    """The nodes with the most edges of these, with the edges between them."""
    all_ = len(keys) == len(whole.nodes)
    between = edges if all_ else [row for row in edges if row[0] in keys and row[1] in keys]
    nodes, degrees = whole.nodes, whole.degrees

    def place(key: int) -> tuple[bool, int, str]:
        return nodes[key].id != first, -degrees.get(key, 0), nodes[key].id

    kept = heapq.nsmallest(min(limit, MOST), keys, place)
    shown = set(kept)
    return GraphPart(
        tuple((nodes[key], degrees.get(key, 0)) for key in kept),
        tuple(whole.edge(row) for row in between if row[0] in shown and row[1] in shown),
        len(keys),
        len(between),
        whole.since,
        ids.today() if nodes else "",
    )


# --- kept between two looks --------------------------------------------------------------------------

_Stamp = tuple[Path, tuple[tuple[str, str], ...]]
_CACHE: dict[_Stamp, GraphSnapshot] = {}


def _snapshot(root: Path) -> GraphSnapshot:
    """The whole graph, as its sources are now."""

    def question(found: sqlite3.Connection, _: sqlite3.Connection) -> GraphSnapshot:
        stamp = (root, stored.source_stamps(found))
        held = _CACHE.get(stamp)
        if held is None:
            held = _read_snapshot(found)
            _CACHE.clear()  # of one project, and as it is now: the pages ask for nothing else
            _CACHE[stamp] = held
        return held

    return graph.query_graph(root, question)


def _read_snapshot(found: sqlite3.Connection) -> GraphSnapshot:
    edges = stored.joined_edges(found)
    degrees = Counter(row[0] for row in edges)
    degrees.update(row[1] for row in edges if row[1] != row[0])
    return GraphSnapshot(stored.nodes(found), edges, degrees, stored.oldest_time(found)[:10])
