"""Read the nodes and edges of the knowledge graph from its database.

The database is a cache over the index, which `graph_sync.py` keeps up to date. Nodes have an id
that people see, such as `file:src/app.py`, and a number as their key in the database.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.core.graph import ENTITY_TYPES, Edge, Node, NodeType, Relation, is_within
from ralph.storage import db

VERSION = 3
"""The version of graph.sql, and of the facts that `search/graph.py` derives."""

_EDGE = "source, target, relation, recorded, valid_from, valid_until, explicit"
_RESOLVED = "source IS NOT NULL AND +target IS NOT NULL"
"""The `+` makes SQLite use the index that covers every column, so nothing needs sorting."""
_IN_JSON = "IN (SELECT value FROM json_each(?))"
_BETWEEN = f"edges WHERE source {_IN_JSON} AND +target {_IN_JSON}"
"""The edges that begin at a node follow from one record or task. Many more may end at one."""
_IS_SHOWN = f"type <> '{NodeType.SESSION.value}' OR degree > 0"
"""True for a node unless it is a *lone session*: a session without an edge, which says nothing."""
_EDGES_AT = f"""
SELECT value, {_EDGE} FROM json_each(?) CROSS JOIN edges ON source = value
    WHERE target IS NOT NULL
UNION ALL
SELECT value, {_EDGE} FROM json_each(?) CROSS JOIN edges ON target = value
    WHERE source IS NOT NULL
"""
"""The keys are passed as one JSON value, so SQLite compiles this once for any number of keys."""
_NODE_TYPES = {kind.value: kind for kind in NodeType}
_RELATIONS = {relation.value: relation for relation in Relation}


class _NodeRow(NamedTuple):
    """The columns of a node, under their names in the database."""

    key: int
    id: str
    type: str
    name: str
    recorded: str
    valid_from: str
    valid_until: str
    since: str
    replaced: str | None
    retired: int
    task: str


_NODE_COLUMNS = ", ".join(f"n.{column}" for column in _NodeRow._fields)


class GraphTotals(NamedTuple):
    """The number of nodes and edges, and the time of the oldest, or "" if no time is known.

    `nodes` does not include the lone sessions.
    """

    nodes: int
    lone_sessions: int
    edges: int
    oldest_time: str


class EdgeRow(NamedTuple):
    """An edge between two keys. `here` is the end from which it was looked up."""

    here: int
    source: int
    target: int
    relation: str
    recorded: str
    valid_from: str
    valid_until: str
    explicit: bool

    @property
    def other_end(self) -> int:
        """The key at the other end."""
        return self.target if self.here == self.source else self.source

    @property
    def sort_key(self) -> tuple[str, str, str, str, bool]:
        """The sort key for edges between the same two nodes."""
        return self.relation, self.recorded, self.valid_from, self.valid_until, self.explicit

    def is_valid_at(self, at: str) -> bool:
        """Return whether the edge is valid at a given time. Its nodes are not considered."""
        return is_within(at, self.valid_from or self.recorded, self.valid_until)


def connect(path: Path) -> sqlite3.Connection:
    """Open the graph's database.

    It is created if it is missing, and created again if it is damaged or has another version.
    """
    return db.connect_cache(path, "graph.sql", VERSION)


def in_memory() -> sqlite3.Connection:
    """Create an empty graph that is never written to disk."""
    connection = db.connect_memory()
    db.create_tables(connection, "graph.sql", VERSION)
    return connection


# --- reading ------------------------------------------------------------------------------------


def keys_of(graph: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """Return the keys of the nodes with these ids, by id."""
    sql = "SELECT id, key FROM nodes WHERE id IN (SELECT value FROM json_each(?))"
    return dict(_select(graph, sql, json.dumps(list(ids))).fetchall())


def nodes(graph: sqlite3.Connection, keys: Iterable[int] | None = None) -> dict[int, Node]:
    """Return the nodes with these keys, or all nodes, by key."""
    if keys is None:
        rows = _select(graph, f"SELECT {_NODE_COLUMNS} FROM nodes n")
    else:
        sql = f"SELECT {_NODE_COLUMNS} FROM json_each(?) j CROSS JOIN nodes n ON n.key = j.value"
        rows = _select(graph, sql, json.dumps(list(keys)))
    found: dict[int, Node] = {}
    for row in map(_NodeRow._make, rows):
        found[row.key] = Node(
            id=row.id,
            type=_NODE_TYPES[row.type],
            name=row.name,
            recorded=row.recorded,
            valid_from=row.valid_from,
            valid_until=row.valid_until,
            since=row.since,
            replaced=row.replaced,
            retired=row.retired == 1,
            task=row.task,
        )
    return found


def edges_at(graph: sqlite3.Connection, keys: Iterable[int]) -> list[EdgeRow]:
    """Return every edge at these nodes. An edge between two of them is returned twice."""
    listed = json.dumps(list(keys))
    return list(map(EdgeRow._make, _select(graph, _EDGES_AT, listed, listed)))


def edges(graph: sqlite3.Connection) -> list[EdgeRow]:
    """Return every edge whose ends are both known, without duplicates, in a fixed order."""
    sql = (
        f"SELECT DISTINCT source, {_EDGE} FROM edges WHERE {_RESOLVED} ORDER BY 2, 3, 4, 5, 6, 7, 8"
    )
    return list(map(EdgeRow._make, _select(graph, sql)))


def edge_of(row: EdgeRow, names: Mapping[int, Node]) -> Edge:
    """Turn a row into an edge. `names` maps keys to nodes, which supply the ids of its ends."""
    return Edge(
        source=names[row.source].id,
        relation=_RELATIONS[row.relation],
        target=names[row.target].id,
        recorded=row.recorded,
        valid_from=row.valid_from,
        valid_until=row.valid_until,
        explicit=row.explicit == 1,
    )


def task_keys(graph: sqlite3.Connection, task: str) -> list[int]:
    """Return the keys of the nodes that belong to a task."""
    rows = graph.execute("SELECT key FROM nodes WHERE task = ? ORDER BY id", (task,))
    return [row["key"] for row in rows]


def source_stamps(graph: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
    """Return the path and stamp of every source. A stamp changes with the source's contents."""
    return tuple(_select(graph, "SELECT path, stamp FROM sources ORDER BY path").fetchall())


def totals(graph: sqlite3.Connection) -> GraphTotals:
    """Return the size of the graph and its oldest time."""
    sql = f"""
        SELECT count(*), coalesce(sum({_IS_SHOWN}), 0), coalesce(sum(outgoing), 0),
            min(nullif(coalesce(nullif(since, ''), recorded), '')), min(nullif(first_edge, ''))
        FROM nodes
        """
    all_nodes, shown_nodes, edge_count, oldest_node, oldest_edge = graph.execute(sql).fetchone()
    times = [time for time in (oldest_node, oldest_edge) if time]
    return GraphTotals(shown_nodes, all_nodes - shown_nodes, edge_count, min(times, default=""))


def degrees(graph: sqlite3.Connection, keys: Iterable[int]) -> dict[int, int]:
    """Return the number of edges at each of these nodes, by key."""
    sql = f"SELECT key, degree FROM nodes WHERE key {_IN_JSON}"
    return dict(_select(graph, sql, json.dumps(list(keys))).fetchall())


def shown_keys(graph: sqlite3.Connection) -> set[int]:
    """Return the keys of all nodes except for lone sessions."""
    return _keys(_select(graph, f"SELECT key FROM nodes WHERE {_IS_SHOWN}"))


def busiest_keys(graph: sqlite3.Connection, limit: int) -> list[int]:
    """Return the keys of the nodes with the most edges, in this order, without lone sessions."""
    sql = f"SELECT key FROM nodes WHERE {_IS_SHOWN} ORDER BY degree DESC, id LIMIT {limit:d}"
    return [key for (key,) in _select(graph, sql)]


def busiest_among(
    graph: sqlite3.Connection, keys: Iterable[int], limit: int, first: Iterable[int]
) -> list[int]:
    """Return the keys with the most edges among some keys, after those in `first`."""
    sql = f"""
        SELECT key FROM nodes WHERE key {_IN_JSON}
        ORDER BY key {_IN_JSON} DESC, degree DESC, id LIMIT {limit:d}
        """
    rows = _select(graph, sql, json.dumps(list(keys)), json.dumps(list(first)))
    return [key for (key,) in rows]


def newest_record_key(graph: sqlite3.Connection) -> int | None:
    """Return the key of the newest record, or None. One that has an edge is preferred."""
    entity_types = json.dumps([kind.value for kind in ENTITY_TYPES])
    sql = """
        SELECT key FROM nodes WHERE type NOT IN (SELECT value FROM json_each(?))
        ORDER BY degree > 0 DESC, recorded DESC, id DESC LIMIT 1
        """
    row = _select(graph, sql, entity_types).fetchone()
    return None if row is None else row[0]


def adjacent_keys(graph: sqlite3.Connection, keys: Iterable[int]) -> set[int]:
    """Return the keys of the nodes at the other ends of these nodes' edges."""
    listed = json.dumps(list(keys))
    sql = f"""
        SELECT target FROM edges WHERE source {_IN_JSON} AND target IS NOT NULL
        UNION SELECT source FROM edges WHERE target {_IN_JSON} AND source IS NOT NULL
        """
    return _keys(_select(graph, sql, listed, listed))


def edges_between(graph: sqlite3.Connection, keys: Iterable[int]) -> list[EdgeRow]:
    """Return the edges that have both ends among these nodes, as `edges` does."""
    listed = json.dumps(list(keys))
    sql = f"SELECT DISTINCT source, {_EDGE} FROM {_BETWEEN} ORDER BY 2, 3, 4, 5, 6, 7, 8"
    return list(map(EdgeRow._make, _select(graph, sql, listed, listed)))


def count_edges_between(graph: sqlite3.Connection, keys: Iterable[int]) -> int:
    """Count the edges that have both ends among these nodes, without duplicates."""
    listed = json.dumps(list(keys))
    sql = f"SELECT count(*) FROM (SELECT DISTINCT {_EDGE} FROM {_BETWEEN})"
    return int(_select(graph, sql, listed, listed).fetchone()[0])


def names_of(graph: sqlite3.Connection, keys: Iterable[int]) -> list[tuple[int, str, str]]:
    """Return the key, id and name of each of these nodes."""
    sql = f"SELECT key, id, name FROM nodes WHERE key {_IN_JSON}"
    return _select(graph, sql, json.dumps(list(keys))).fetchall()


def _keys(rows: Iterable[tuple[int]]) -> set[int]:
    return {key for (key,) in rows}


def _select(graph: sqlite3.Connection, sql: str, *values: str) -> sqlite3.Cursor:
    """Run a query that returns plain tuples, which are faster: a walk reads thousands of rows."""
    cursor = graph.cursor()
    cursor.row_factory = None
    return cursor.execute(sql, values)
