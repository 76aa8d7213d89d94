"""Graphs for tests: made from records in memory, or written down as pairs of names."""

import atexit
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing

from ralph.core import terms
from ralph.core.graph import Edge, Node
from ralph.core.record import Record
from ralph.core.work import Task
from ralph.search.graph_facts import source_facts
from ralph.storage import graph, graph_sync, index_update
from ralph.storage.source_contents import Contents, PlacedRecord

_opened: list[sqlite3.Connection] = []
"""Kept, because Python 3.13 warns of a connection that is dropped before it is closed."""


@atexit.register
def _close() -> None:
    for connection in _opened:
        connection.close()


def indexed(
    *files: Sequence[Record], tasks: Sequence[Task] = (), names: Sequence[str] = ()
) -> sqlite3.Connection:
    """An index in memory of one source a list of records, and the tasks in the first."""
    told = [
        Contents(tuple(PlacedRecord(record, line) for line, record in enumerate(each, 1)))
        for each in files
    ]
    if tasks:
        told[0] = Contents(told[0].records, tuple(tasks))
    connection = index_update.in_memory(told, terms.index_terms, names)
    _opened.append(connection)
    return connection


def graph_of(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The graph over an index, made anew."""
    made = graph.in_memory()
    _opened.append(made)
    graph_sync.sync(made, connection, lambda key, path: source_facts(connection, key, path))
    return made


def made_of(*records: Record) -> sqlite3.Connection:
    """The graph of some records."""
    with closing(indexed(records)) as connection:
        return graph_of(connection)


def all_nodes(found: sqlite3.Connection) -> dict[str, Node]:
    """Every node by its id."""
    return {node.id: node for node in graph.nodes(found).values()}


def all_edges(found: sqlite3.Connection) -> set[Edge]:
    """Every edge that has both of its ends."""
    nodes = graph.nodes(found)
    return {graph.edge_of(row, nodes) for row in graph.edges(found)}


def said(edges: Iterable[Edge]) -> set[str]:
    """Edges as sentences."""
    return {f"{edge.source} {edge.relation.value} {edge.target}" for edge in edges}
