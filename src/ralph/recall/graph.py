"""Query how records, files, tasks, sessions and tags are linked (`ralph graph ...`).

The graph is a cache next to the index, and each query updates it. Nodes are linked by edges, which
are either explicit, because a record defines them, or derived from other facts. Without a time,
`show`, `neighbors` and `path` include edges that are no longer valid.
"""

from __future__ import annotations

import difflib
import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple, TypeVar

from ralph.core import ids, paths
from ralph.core.errors import Hint, NotFound, WriteFailed
from ralph.core.graph import (
    Edge,
    Node,
    NodeType,
    Relation,
    entity_id,
    entity_type,
)
from ralph.core.record import Record
from ralph.search import graph_walks, index, visibility
from ralph.search.graph_facts import source_facts
from ralph.search.graph_walks import GraphVisibility, ReachedNode, WalkRules
from ralph.storage import db, graph_sync, queries
from ralph.storage import graph as graph_store
from ralph.storage.index import Progress

T = TypeVar("T")
HOPS = 2
_MAX_BUSIEST = 10  # nodes listed in an overview
_MAX_SPELLINGS = 20_000  # names compared with a misspelt one

_agreed_states: dict[Path, str] = {}
"""The state of a project's index and graph when this process last compared them."""


class GraphOverview(NamedTuple):
    """The size of the graph, and the nodes with the most edges."""

    nodes: dict[str, int]
    edges: dict[str, int]
    busiest: tuple[tuple[Node, int], ...]


class NodeView(NamedTuple):
    """A node, its record if it has one, and its edges, each with the node at the other end."""

    node: Node
    record: Record | None
    edges: tuple[tuple[Edge, Node], ...]


Question = Callable[[Connection, Connection, GraphVisibility], T]
"""A function that is passed the up-to-date graph, the index, and what the task may see."""


def query_graph(
    root: Path,
    question: Question[T],
    *,
    task: str = "",
    progress: Progress | None = None,
    within: float | None = None,
) -> T:
    """Update the graph, and return the result of `question`.

    `within` limits the time for the update in seconds. A graph that is being built for the first
    time may then be incomplete.
    """

    def ask(connection: Connection) -> T:
        with closing(_open_graph(root, connection, within)) as graph:
            graph.execute("BEGIN")  # all queries see the same state
            return question(graph, connection, visibility.graph_visibility(graph, connection, task))

    return index.ask(root, ask, progress)


def _open_graph(root: Path, connection: Connection, within: float | None = None) -> Connection:
    """Open the graph and update it.

    It is kept in memory if the index is, or if it cannot be written to disk.
    """
    path = paths.graph_file(root)
    state = _known_state(root)

    def synced(graph: Connection) -> Connection:
        try:
            with db.explained(path):
                if _is_known_to_agree(root, state, graph, connection):
                    return graph
                graph_sync.sync(graph, connection, partial(source_facts, connection), within=within)
            if not db.is_in_memory(graph):
                _agreed_states[root] = state
        except BaseException:
            graph.close()
            raise
        return graph

    if not db.is_in_memory(connection):
        for _ in range(2):
            with suppress(WriteFailed, OSError):
                try:
                    return synced(graph_store.connect(path))
                except db.Damaged:
                    db.remove(path)
    return synced(graph_store.in_memory())


def _known_state(root: Path) -> str:
    """Return the state of the index and of the graph, or "" if the index may be about to change.

    It has to be read before both of them, so that what is read is never older than the state.
    Another process may change the graph alone, if it has read an earlier index.
    """
    path = paths.graph_file(root)
    state = f"{index.state_of(root)} {db.seal(path)} {db.log_state(path)}"
    return state if index.is_known_to_be_current(root) else ""


def _is_known_to_agree(root: Path, state: str, graph: Connection, connection: Connection) -> bool:
    """Return whether this process has compared the graph with the index in their current state.

    A graph that is incomplete does not have all sources.
    """
    if not state or _agreed_states.get(root) != state:
        return False
    return graph_sync.count_missing(graph, connection) == 0


def overview(root: Path, *, task: str = "") -> GraphOverview:
    """Return the size of the graph, or of the part that a task may see."""

    def question(graph: Connection, _: Connection, allowed: GraphVisibility) -> GraphOverview:
        nodes = {}
        node_counts = Counter[str]()
        for key, node in graph_store.nodes(graph).items():
            if key not in allowed.hidden:
                nodes[key] = node
                node_counts[node.type.value] += 1
        degrees = Counter[int]()
        edge_counts = Counter[str]()
        for row in graph_store.edges(graph):
            if allowed.allows(row.source, row.target):
                edge_counts[row.relation] += 1
                degrees[row.source] += 1
                degrees[row.target] += 1
        busiest = sorted(degrees, key=lambda key: (-degrees[key], nodes[key].id))[:_MAX_BUSIEST]
        return GraphOverview(
            dict(sorted(node_counts.items())),
            dict(sorted(edge_counts.items())),
            tuple((nodes[key], degrees[key]) for key in busiest),
        )

    return query_graph(root, question, task=task)


def node_id(root: Path, name: str) -> str:
    """Return the id of the node that a name refers to. Raises NotFound for an unknown node."""

    def question(graph: Connection, _: Connection, allowed: GraphVisibility) -> str:
        key = find_node(graph, name, allowed)
        return graph_store.nodes(graph, [key])[key].id

    return query_graph(root, question)


def show(root: Path, name: str, *, at: str = "", task: str = "") -> NodeView:
    """Return a node with its edges, explicit ones first. Raises NotFound for an unknown node."""

    def question(graph: Connection, connection: Connection, allowed: GraphVisibility) -> NodeView:
        key = find_node(graph, name, allowed)
        rows = set()
        ends = {key}
        for row in graph_store.edges_at(graph, [key]):
            if allowed.allows(row.source, row.target):
                rows.add(row)
                ends.update((row.source, row.target))
        nodes = graph_store.nodes(graph, ends)
        edges = []
        for row in sorted(rows):
            edge = graph_store.edge_of(row, nodes)
            other = nodes[row.target if row.source == key else row.source]
            if _is_shown(edge, other, at):
                edges.append((edge, other))
        edges.sort(key=lambda pair: _edge_order(pair[0]))
        node = nodes[key]
        return NodeView(node, records(connection, [node.id]).get(node.id), tuple(edges))

    return query_graph(root, question, task=task)


def _is_shown(edge: Edge, other: Node, at: str) -> bool:
    """Return whether an edge is valid at a time, or has begun if no time is given."""
    if at:
        return edge.is_valid_at(at) and other.is_valid_at(at)
    return edge.has_begun(ids.today())


def _edge_order(edge: Edge) -> tuple[bool, str, str, str]:
    return (not edge.explicit, edge.relation, edge.source, edge.target)


def neighbors(
    root: Path,
    name: str,
    *,
    hops: int = HOPS,
    types: Collection[NodeType] = (),
    relations: Collection[Relation] = (),
    at: str = "",
    task: str = "",
) -> list[ReachedNode]:
    """Return the nodes at most `hops` hops from a node, nearest first.

    Raises NotFound for an unknown node.
    """

    def question(graph: Connection, _: Connection, allowed: GraphVisibility) -> list[ReachedNode]:
        key = find_node(graph, name, allowed)
        rules = WalkRules(relations, at, allowed, ids.today())
        return graph_walks.neighbours(graph, key, hops, rules, types)

    return query_graph(root, question, task=task)


def path(
    root: Path, start: str, end: str, *, at: str = "", task: str = ""
) -> tuple[tuple[Node, Node], list[Edge] | None]:
    """Return two nodes and the edges of a shortest path between them.

    The edges are None if there is no path. Raises NotFound for an unknown node.
    """

    def question(
        graph: Connection, _: Connection, allowed: GraphVisibility
    ) -> tuple[tuple[Node, Node], list[Edge] | None]:
        start_key = find_node(graph, start, allowed)
        end_key = find_node(graph, end, allowed)
        nodes = graph_store.nodes(graph, (start_key, end_key))
        rules = WalkRules((), at, allowed, ids.today())
        edges = graph_walks.shortest_path(graph, start_key, end_key, rules)
        return (nodes[start_key], nodes[end_key]), edges

    return query_graph(root, question, task=task)


def find_node(
    graph: Connection, name: str, allowed: GraphVisibility = graph_walks.ALL_VISIBLE
) -> int:
    """Return the key of a node, given its id, title or file name.

    Raises NotFound for an unknown node.
    """
    text = name.strip()
    spellings = _spellings_of(text)
    by_id = graph_store.keys_of(graph, spellings)
    for spelling in spellings:
        key = by_id.get(spelling)
        if key is not None and key not in allowed.hidden:
            return key
    by_words = graph_sync.RecordNames(graph).key(text)
    if by_words is not None and by_words not in allowed.hidden:
        return by_words
    if by_id or by_words is not None:
        raise NotFound(
            f"Node not found in what this task can see: {name}",
            hint=Hint("show-all-tasks", "--all-tasks shows everything"),
        )
    hint = Hint("find-edge", '`ralph graph show --query "words"` shows the ids')
    message = f"Node not found: {name}"
    closest = _closest_node(graph, text, allowed)
    if closest:
        message += f"; did you mean {closest}?"
    raise NotFound(message, hint=hint)


def _spellings_of(text: str) -> list[str]:
    """Return the node ids that `text` may be short for, most likely first."""
    kind = entity_type(text)
    if kind is None:
        tidy = posixpath.normpath(text or ".")
        return [
            text,
            f"file:{tidy}",
            f"task:{text}",
            f"session:{text}",
            f"tag:{text.lower()}",
            f"symbol:{tidy}",
        ]
    rest = text.partition(":")[2].strip()
    if kind is NodeType.FILE:
        return [text, entity_id(kind, posixpath.normpath(rest))]
    return [text, entity_id(kind, rest.lower())]


def _closest_node(graph: Connection, text: str, allowed: GraphVisibility) -> str:
    """Return the id of the visible node whose id or name is most similar to `text`, or ""."""
    ids_by_spelling: dict[str, str] = {}
    for key, node in graph_store.nodes(graph).items():
        if key not in allowed.hidden:
            ids_by_spelling[node.id.casefold()] = node.id
            ids_by_spelling[node.name.casefold()] = node.id
    spellings = list(ids_by_spelling)[:_MAX_SPELLINGS]
    matches = difflib.get_close_matches(text.casefold(), spellings, n=1)
    if not matches:
        return ""
    return ids_by_spelling[matches[0]]


def records(connection: Connection, names: Sequence[str]) -> dict[str, Record]:
    """Return the records of the nodes with these ids, by node id."""
    keys = queries.memory_keys(connection, names)
    by_key = queries.records(connection, list(keys.values()))
    return {name: by_key[key] for name, key in keys.items() if key in by_key}
