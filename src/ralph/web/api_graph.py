"""The graph over HTTP: a part of it, what is near a node, and the way between two.

Time is told with every node and edge, and `as_of` asks for what held then. `tests/web/test_graph.py`.
"""

from collections.abc import Mapping

from starlette.routing import Route

from ralph.app.pages import graph_view
from ralph.app.pages.graph_view import LIMIT, MOST, Part, Wanted
from ralph.errors import UsageError
from ralph.model.graph import Edge, Node, entity_type
from ralph.web.answers import Asked, route

_HOPS = 3


def graph(asked: Asked) -> Mapping[str, object]:
    """The part of the graph that is asked for."""
    wanted = Wanted(
        asked.word("task"), asked.word("tag"), graph_view.kinds_named(asked.words("kind")), asked.word("q"),
        asked.word("as_of"), asked.number("limit", LIMIT, most=MOST),
    )  # fmt: skip
    return _part(graph_view.show(asked.root, wanted))


def neighbors(asked: Asked) -> Mapping[str, object]:
    """A node with what is near it."""
    hops = asked.number("hops", 1)
    if not 1 <= hops <= _HOPS:
        raise UsageError(f"{hops} is no number of hops", hint=f"1 to {_HOPS}")
    limit = asked.number("limit", LIMIT, most=MOST)
    name = _named(asked, "id")
    return _part(graph_view.neighbors(asked.root, name, hops=hops, at=asked.word("as_of"), limit=limit))


def path(asked: Asked) -> Mapping[str, object]:
    """A shortest way between two nodes."""
    part, found = graph_view.path(asked.root, _named(asked, "a"), _named(asked, "b"), at=asked.word("as_of"))
    return {**_part(part), "found": found}


def _named(asked: Asked, name: str) -> str:
    word = asked.word(name)
    if not word:
        raise UsageError(f"{name} names no node", hint="choose one in the graph, or search for it")
    return word


def _part(part: Part) -> dict[str, object]:
    return {
        "nodes": [_node(node, degree) for node, degree in part.nodes],
        "edges": [_edge(edge) for edge in part.edges],
        "total_nodes": part.total_nodes,
        "total_edges": part.total_edges,
        "from": part.since,
        "until": part.until,
    }


def _node(node: Node, degree: int) -> dict[str, object]:
    return {
        "id": node.id,
        "kind": node.type.value,
        "title": node.name,
        "record": node.id if entity_type(node.id) is None else None,
        "degree": degree,
        "at": node.since or node.recorded,
        "superseded": node.replaced is not None,
        "retired": node.retired,
    }


def _edge(edge: Edge) -> dict[str, object]:
    return {
        "source": edge.source,
        "target": edge.target,
        "relation": edge.relation.value,
        "explicit": edge.explicit,
        "recorded": edge.recorded,
        "valid_from": edge.valid_from,
        "valid_until": edge.valid_until,
    }


routes: list[Route] = [
    route("/api/graph", graph),
    route("/api/graph/neighbors", neighbors),
    route("/api/graph/path", path),
]
