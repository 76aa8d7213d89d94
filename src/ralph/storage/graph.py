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

from ralph.core.graph import Edge, Node, NodeType, Relation, is_within
from ralph.storage import db

VERSION = 2
"""The version of graph.sql, and of the facts that `search/graph.py` derives."""

_EDGE = "source, target, relation, recorded, valid_from, valid_until, explicit"
_RESOLVED = "source IS NOT NULL AND +target IS NOT NULL"
"""The `+` makes SQLite use the index that covers every column, so nothing needs sorting."""
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


def oldest_time(graph: sqlite3.Connection) -> str:
    """Return the time of the oldest node or edge, or "" if no time is known."""
    sql = f"""
        SELECT min(at) FROM (
            SELECT min(coalesce(nullif(since, ''), recorded)) AS at FROM nodes
                WHERE since <> '' OR recorded <> ''
            UNION ALL
            SELECT min(recorded) FROM edges WHERE {_RESOLVED} AND recorded <> '')
        """
    return graph.execute(sql).fetchone()[0] or ""


def _select(graph: sqlite3.Connection, sql: str, *values: str) -> sqlite3.Cursor:
    """Run a query that returns plain tuples, which are faster: a walk reads thousands of rows."""
    cursor = graph.cursor()
    cursor.row_factory = None
    return cursor.execute(sql, values)
