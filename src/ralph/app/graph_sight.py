"""What of the graph somebody within a task may see.

The records of other tasks are theirs until they are promoted, and what others that are not finished did, in sessions or
iterations, is not to be seen: the same rule as for records (`store/lookup.py`, `seen_by`). A file, a symbol or a tag
is nobody's own; it is there for whoever may see something that speaks of it, so that not even its name gives away what
others are at. All of the graph is looked at for this, once for each question. `tests/app/test_graph_sight.py`.
"""

import sqlite3
from collections.abc import Mapping

from ralph.model.graph import ENTITY_TYPES, Node, NodeType, entity_id
from ralph.search.graph import ALL_VISIBLE, GraphVisibility
from ralph.store import graph as stored
from ralph.store import rows

_SPOKEN_OF = (NodeType.FILE, NodeType.SYMBOL, NodeType.TAG)


def of(graph: sqlite3.Connection, connection: sqlite3.Connection, task: str) -> GraphVisibility:
    """What a task may not see; nothing is hidden from whoever has no task."""
    if not task:
        return ALL_VISIBLE
    nodes = stored.nodes(graph)
    others = {entity_id(NodeType.TASK, name) for name in rows.unfinished(connection, task)}
    sessions = {entity_id(NodeType.SESSION, name) for name in rows.hidden_sessions(connection, task)}
    hidden = {key for key, node in nodes.items() if _is_theirs(node, task) or node.id in sessions}
    silent = {key for key, node in nodes.items() if node.id in others}
    tasks = frozenset(key for key, node in nodes.items() if node.type is NodeType.TASK)
    unspoken = _unspoken(graph, nodes, GraphVisibility(hidden, silent, tasks))
    return GraphVisibility(frozenset(hidden | unspoken), frozenset(silent), tasks)


def _is_theirs(node: Node, task: str) -> bool:
    """Whether a record is another task's own, finished or not."""
    return node.type not in ENTITY_TYPES and node.task not in ("", task)


def _unspoken(graph: sqlite3.Connection, nodes: Mapping[int, Node], sight: GraphVisibility) -> set[int]:
    """Files, symbols and tags of which nothing speaks that may be seen; a symbol speaks of its file."""
    kept = {key for key, node in nodes.items() if node.type in _SPOKEN_OF}
    symbols = {key for key in kept if nodes[key].type is NodeType.SYMBOL}
    edges = [(row.source, row.target) for row in stored.edges(graph) if sight.allows(row.source, row.target)]
    both = [*edges, *((target, source) for source, target in edges)]
    heard = {other for one, other in both if one not in kept}
    heard |= {other for one, other in both if one in symbols & heard}
    return kept - heard
