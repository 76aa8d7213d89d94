"""Choose the part of the graph that a picture shows.

The part is what surrounds a node, belongs to a task or a tag, or lies between two nodes. By default
it is the nodes with the most edges. A node's degree is counted in the complete graph, so it does
not depend on the part.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from ralph.core import ids
from ralph.core.graph import Node, NodeType, entity_id, entity_type
from ralph.recall import graph
from ralph.recall.json_shapes import edge_json, node_json
from ralph.search.filters import parse_time
from ralph.search.graph_walks import GraphVisibility
from ralph.storage import graph as stored
from ralph.storage import graph_sync
from ralph.web.graph_parts import SYNC_SECONDS, Part, PastView, PresentView, past_view

Json = dict[str, object]
View = PresentView | PastView
LIMIT = 400
MAX_LIMIT = 2_000
NEWEST = "newest"  # used in place of a node id, for the newest memory that is linked to something
_AROUND_HOPS = 2
_TASK_HOPS = 1
_DATE_CHARACTERS = 10  # the date in a timestamp that begins with YYYY-MM-DD


def graph_part(
    root: Path,
    *,
    text: str = "",
    at: str = "",
    around: str = "",
    task: str = "",
    tag: str = "",
    limit: int = LIMIT,
) -> Json:
    """Return the part of the graph that matches all given filters, as JSON.

    The nodes are near `around`, belong to the task and the tag, and contain every word of `text`.
    Sessions that are linked to nothing are left out. Raises NotFound for an unknown node, and
    UsageError for a time that cannot be parsed.
    """
    at = parse_time(at)
    if not (text.strip() or at or around or task or tag):
        return _ask_present(root, lambda view: {**_json(view, view.overview(limit)), "around": ""})
    named = ""
    if around not in ("", NEWEST):
        named = graph.node_id(root, around)

    def choose(view: View) -> Json:
        centre = view.with_ids(named)
        if around == NEWEST:
            centre = view.newest_record()
        if centre or named:
            keys = view.near(centre, _AROUND_HOPS)
        else:
            keys = view.all_shown()
        if task:
            task_nodes = view.of_task(task) | view.with_ids(entity_id(NodeType.TASK, task))
            keys &= view.near(task_nodes, _TASK_HOPS)
        if tag:
            tag_node = view.with_ids(entity_id(NodeType.TAG, tag.lower()))
            keys &= view.near(tag_node, _AROUND_HOPS)
        keys = view.valid(keys)
        if text.strip():
            keys = view.with_words(keys, text.casefold().split())
        names = [view.nodes(centre)[key].id for key in centre]
        return {**_json(view, view.part(keys, limit, first=centre)), "around": "".join(names)}

    return _ask(root, at, choose)


def neighbors(root: Path, name: str, *, hops: int = 1, at: str = "", limit: int = LIMIT) -> Json:
    """Return a node and everything within `hops` of it. Raises NotFound for an unknown node."""
    node_id = graph.node_id(root, name)

    def choose(view: View) -> Json:
        centre = view.with_ids(node_id)
        return _json(view, view.part(view.near(centre, hops), limit, first=centre))

    return _ask(root, parse_time(at), choose)


def path(root: Path, start: str, end: str, *, at: str = "") -> Json:
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

    def describe(view: PresentView) -> Json:
        keys_by_id = {node.id: key for key, node in view.nodes(view.with_ids(*names)).items()}
        keys = [keys_by_id[name] for name in names if name in keys_by_id]
        shape = _json(view, Part(keys, (), len(names), len(edges)))
        return {**shape, "edges": [edge_json(edge) for edge in edges]}

    return {**_ask_present(root, describe), "found": found_edges is not None}


def _ask(root: Path, at: str, choose: Callable[[View], Json]) -> Json:
    """Return what is chosen from the graph at a time. An empty time means now."""
    if at:
        return choose(past_view(root, at))
    return _ask_present(root, choose)


def _ask_present(root: Path, choose: Callable[[PresentView], Json]) -> Json:
    def ask(
        connection: sqlite3.Connection, records: sqlite3.Connection, _: GraphVisibility
    ) -> Json:
        missing = graph_sync.count_missing(connection, records)
        return choose(PresentView(connection, stored.totals(connection), missing))

    return graph.query_graph(root, ask, within=SYNC_SECONDS)


def _json(view: View, part: Part) -> Json:
    """Return nodes and edges as JSON, with the totals and the time span of the graph."""
    is_empty = view.totals.nodes + view.totals.lone_sessions == 0
    nodes = view.nodes(part.keys)
    degrees = view.degrees(part.keys)
    return {
        "nodes": [_node_json(nodes[key], degrees[key]) for key in part.keys],
        "edges": [edge_json(stored.edge_of(row, nodes)) for row in part.edges],
        "total_nodes": part.total_nodes,
        "total_edges": part.total_edges,
        "from": view.totals.oldest_time[:_DATE_CHARACTERS],
        "until": "" if is_empty else ids.today(),
        "missing_sources": view.missing,
    }


def _node_json(node: Node, degree: int) -> Json:
    record = node.id if entity_type(node.id) is None else None
    return {**node_json(node), "record": record, "degree": degree}
