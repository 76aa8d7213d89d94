"""The graph in a database of its own: nodes and edges, brought up to date source by source.

A cache over the index: each source that changed is removed and read again (`search/graph.py` decides what its rows
mean). Ends that are words are resolved at the end of every change, so that the order of rows does not matter.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.formats.knowledge import fold_title
from ralph.model.graph import Edge, Node, NodeType, Relation, entity_type
from ralph.store import db
from ralph.store.lookup import placeholders, replaced
from ralph.store.sources import OUTSIDE

VERSION = 2
_LEFT_OUT = tuple(
    form.value for form in OUTSIDE
)  # a task's part of the graph is written into the repository
_NODE = "n.key, n.id, n.type, n.name, n.recorded, n.valid_from, n.valid_until, n.since, n.replaced, n.retired, n.task"
_EDGE = "source, target, relation, recorded, valid_from, valid_until, explicit"
_JOINED = "source IS NOT NULL AND +target IS NOT NULL"
"""`+` keeps SQLite from another index than the one that has all columns: nothing is sorted then."""
_AROUND = (
    f"SELECT value, {_EDGE} FROM json_each(?1) CROSS JOIN edges ON source = value WHERE target IS NOT NULL "
    f"UNION ALL SELECT value, {_EDGE} FROM json_each(?1) CROSS JOIN edges ON target = value WHERE source IS NOT NULL"
)
"""Keys come as one value, so that SQLite parses this statement once, however many keys there are."""
_CLEAR_NODES = (
    "UPDATE nodes SET origin = NULL, name = substr(id, instr(id, ':') + 1), title = '', recorded = '', "
    "valid_from = '', valid_until = '', since = '', retired = 0, task = '' WHERE origin = ?"
)
_NODE_COLUMNS = [
    "id",
    "type",
    "name",
    "title",
    "recorded",
    "valid_from",
    "valid_until",
    "since",
    "retired",
    "task",
    "origin",
]
_PUT_NODE = (
    f"INSERT INTO nodes({', '.join(_NODE_COLUMNS)}) VALUES ({placeholders(_NODE_COLUMNS)}) "
    f"ON CONFLICT(id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _NODE_COLUMNS[1:])}"
)
_PUT_EDGE = (
    "INSERT INTO edges VALUES ((SELECT key FROM nodes WHERE id = ?), (SELECT key FROM nodes WHERE id = ?), "
    f"{placeholders(range(8))})"
)
_DELETE_UNUSED = (
    "DELETE FROM nodes WHERE origin IS NULL AND NOT EXISTS (SELECT 1 FROM edges WHERE source = nodes.key) "
    "AND NOT EXISTS (SELECT 1 FROM edges WHERE target = nodes.key)"
)
_TYPES = {kind.value: kind for kind in NodeType}
_RELATIONS = {relation.value: relation for relation in Relation}


class Fact(NamedTuple):
    """An edge as a source states it; an end may be words (an id or a title)."""

    source: str
    relation: Relation
    target: str
    recorded: str = ""
    valid_from: str = ""
    valid_until: str = ""
    explicit: bool = False
    source_is_words: bool = False
    target_is_words: bool = False


class EdgeRow(NamedTuple):
    """An edge between two keys; `here` is the end that it is seen from."""

    here: int
    source: int
    target: int
    relation: str
    recorded: str
    valid_from: str
    valid_until: str
    explicit: bool


SourceFacts = tuple[Sequence[tuple[Node, str]], Sequence[Fact]]
"""What one source says: its nodes, each with the title that links may call it by, and its edges."""
ReadFacts = Callable[
    [int, str], SourceFacts
]  # what a source of the index says, by its key there and its path


def connect(path: Path) -> sqlite3.Connection:
    """Open the graph's database, made when there is none or another version's."""
    return db.connect_cache(path, "graph.sql", VERSION)


def in_memory() -> sqlite3.Connection:
    """Make a graph that is never written to disk."""
    connection = db.connect_memory()
    db.create_tables(connection, "graph.sql", VERSION)
    return connection


def sync(
    graph: sqlite3.Connection,
    index: sqlite3.Connection,
    read_facts: ReadFacts,
    *,
    within: float | None = None,
) -> int:
    """Bring the graph up to date; return how many sources changed. After `within` seconds the rest is left."""
    sql = f"SELECT path, key, digest || ' ' || offset FROM sources WHERE format NOT IN ({placeholders(_LEFT_OUT)})"
    present = {path: (key, stamp) for path, key, stamp in index.execute(sql, _LEFT_OUT)}
    if not _changed_paths(graph, present):
        return 0
    deadline = math.inf if within is None else time.monotonic() + within
    with db.atomic(graph):
        changed = _changed_paths(graph, present)  # once more: another process may have been faster
        known = dict(graph.execute("SELECT path, key FROM sources").fetchall())
        for path in changed & known.keys():
            for sql in (
                "DELETE FROM edges WHERE origin = ?",
                _CLEAR_NODES,
                "DELETE FROM sources WHERE key = ?",
            ):
                graph.execute(sql, (known[path],))
        for path in sorted(changed & present.keys()):
            if time.monotonic() > deadline:
                break
            key, stamp = present[path]
            added = graph.execute("INSERT INTO sources(path, stamp) VALUES (?, ?)", (path, stamp))
            _put(graph, int(added.lastrowid or 0), read_facts(key, path))
        _resolve_words(graph)
        _supersede(graph)
        graph.execute(_DELETE_UNUSED)
    return len(changed)


def count_missing(graph: sqlite3.Connection, index: sqlite3.Connection) -> int:
    """Count the sources of the index that the graph does not have yet."""
    sql = f"SELECT count(*) FROM sources WHERE format NOT IN ({placeholders(_LEFT_OUT)})"
    every = index.execute(sql, _LEFT_OUT)
    here = graph.execute("SELECT count(*) FROM sources")
    return max(0, int(every.fetchone()[0]) - int(here.fetchone()[0]))


def _changed_paths(graph: sqlite3.Connection, present: Mapping[str, tuple[int, str]]) -> set[str]:
    known = dict(source_stamps(graph))
    fresh = {path for path, (_, stamp) in present.items() if known.get(path) != stamp}
    return fresh | (known.keys() - present.keys())


def _put(graph: sqlite3.Connection, origin: int, source: SourceFacts) -> None:
    nodes, facts = source
    rows = []
    for node, title in nodes:
        times = (node.recorded, node.valid_from, node.valid_until, node.valid_from or node.recorded)
        rows.append(
            (
                node.id,
                node.type.value,
                node.name,
                fold_title(title),
                *times,
                node.retired,
                node.task,
                origin,
            )
        )
    graph.executemany(_PUT_NODE, rows)
    entities: set[str] = set()
    edges = []
    for fact in facts:
        one, one_words = (None, fact.source) if fact.source_is_words else (fact.source, "")
        other, other_words = (None, fact.target) if fact.target_is_words else (fact.target, "")
        entities.update(filter(None, (one, other)))
        columns = (
            fact.relation.value,
            fact.recorded,
            fact.valid_from,
            fact.valid_until,
            fact.explicit,
        )
        edges.append((one, other, *columns, one_words, other_words, origin))
    graph.executemany(
        "INSERT OR IGNORE INTO nodes(id, type, name) VALUES (?, ?, ?)",
        [
            (name, kind.value, name.partition(":")[2])
            for name in sorted(entities)
            if (kind := entity_type(name))
        ],
    )
    graph.executemany(_PUT_EDGE, edges)


def _resolve_words(graph: sqlite3.Connection) -> None:
    ends = graph.execute(
        "SELECT rowid, source_words, target_words, source, target FROM edges "
        "WHERE target_words <> '' OR source_words <> ''"
    ).fetchall()
    names = RecordNames(graph) if ends else None
    for edge, source_words, target_words, source, target in ends:
        one = names.key(source_words) if names and source_words else source
        other = names.key(target_words) if names and target_words else target
        if one == other:
            one = None if source_words else one
            other = None if target_words else other
        if (one, other) != (source, target):
            graph.execute(
                "UPDATE edges SET source = ?, target = ? WHERE rowid = ?", (one, other, edge)
            )


class RecordNames:
    """Records by id and title; of several with one title, the first by its id."""

    def __init__(self, graph: sqlite3.Connection) -> None:
        sql = "SELECT id, key, title FROM nodes WHERE origin IS NOT NULL ORDER BY id DESC"
        self._ids: dict[str, int] = {}
        self._titles: dict[str, int] = {}
        for name, key, title in graph.execute(sql):
            self._ids[fold_title(name)] = key
            if title:
                self._titles[title] = key

    def key(self, words: str) -> int | None:
        """Return the key of what is meant; `Title#part` and `Title|other words` mean the title."""
        bare = words.partition("|")[0]
        for spelling in dict.fromkeys((words, bare, bare.partition("#")[0])):
            name = fold_title(spelling)
            for key in (self._ids.get(name), self._titles.get(name), self._ids.get(f"know-{name}")):
                if key is not None:
                    return key
        return None


def _supersede(graph: sqlite3.Connection) -> None:
    """A text that was replaced ends then, and its successor begins."""
    own = "coalesce(nullif(valid_from, ''), recorded)"
    graph.execute(
        f"UPDATE nodes SET replaced = NULL, since = {own} WHERE replaced IS NOT NULL OR since <> {own}"
    )
    pairs = graph.execute(
        "SELECT e.source_words <> '', e.source, e.target, old.valid_until FROM edges e "
        "JOIN nodes old ON old.key = e.target WHERE e.relation = ? AND e.source IS NOT NULL",
        (Relation.SUPERSEDES.value,),
    ).fetchall()
    standing = replaced((new, old) for _, new, old, _ in pairs)
    pairs = [pair for pair in pairs if pair[2] in standing]
    began: dict[int, str] = {}
    for is_text, new, _, ended in pairs:
        if is_text:
            began[new] = max(began.get(new, ""), ended)
    graph.executemany(
        "UPDATE nodes SET since = ? WHERE key = ?", ((at, key) for key, at in began.items() if at)
    )
    starts = dict(graph.execute("SELECT key, since FROM nodes").fetchall()) if pairs else {}
    ends: dict[int, str] = {}
    for is_text, new, old, ended in pairs:
        at = ended if is_text and ended else starts.get(new, "")
        ends[old] = min(ends.get(old, at), at)
    graph.executemany(
        "UPDATE nodes SET replaced = ? WHERE key = ?", ((at, key) for key, at in ends.items())
    )


def keys_of(graph: sqlite3.Connection, ids: Sequence[str]) -> dict[str, int]:
    """Return the keys of nodes, by their ids."""
    sql = "SELECT id, key FROM nodes WHERE id IN (SELECT value FROM json_each(?))"
    return dict(_select(graph, sql, json.dumps(list(ids))).fetchall())


def nodes(graph: sqlite3.Connection, keys: Iterable[int] | None = None) -> dict[int, Node]:
    """Return the nodes behind keys, or all of them."""
    if keys is None:
        rows = _select(graph, f"SELECT {_NODE} FROM nodes n")
    else:
        sql = f"SELECT {_NODE} FROM json_each(?) j CROSS JOIN nodes n ON n.key = j.value"
        rows = _select(graph, sql, json.dumps(list(keys)))
    return {
        key: Node(
            name,
            _TYPES[kind],
            title,
            recorded,
            valid_from,
            valid_until,
            since,
            replaced,
            retired == 1,
            task,
        )
        for key, name, kind, title, recorded, valid_from, valid_until, since, replaced, retired, task in rows
    }


def _select(graph: sqlite3.Connection, sql: str, *values: str) -> sqlite3.Cursor:
    """Plain tuples: a walk reads thousands of rows."""
    cursor = graph.cursor()
    cursor.row_factory = None
    return cursor.execute(sql, values)


def edges_at(graph: sqlite3.Connection, keys: Iterable[int]) -> list[EdgeRow]:
    """Return every edge at some nodes, once for each of its ends among them."""
    return list(map(EdgeRow._make, _select(graph, _AROUND, json.dumps(list(keys)))))


def edges(graph: sqlite3.Connection) -> list[EdgeRow]:
    """Return every edge with two known ends, each once, in a fixed order."""
    sql = f"SELECT DISTINCT source, {_EDGE} FROM edges WHERE {_JOINED} ORDER BY 2, 3, 4, 5, 6, 7, 8"
    return list(map(EdgeRow._make, _select(graph, sql)))


def edge_of(row: EdgeRow, names: Mapping[int, Node]) -> Edge:
    """Return an edge with the ids of its ends."""
    _, source, target, relation, recorded, since, until, explicit = row
    return Edge(
        names[source][0],
        _RELATIONS[relation],
        names[target][0],
        recorded,
        since,
        until,
        explicit == 1,
    )


def task_keys(graph: sqlite3.Connection, task: str) -> list[int]:
    """Return the keys of what is a task's own."""
    return [
        row[0] for row in graph.execute("SELECT key FROM nodes WHERE task = ? ORDER BY id", (task,))
    ]


def source_stamps(graph: sqlite3.Connection) -> tuple[tuple[str, str], ...]:
    """Return the sources and their stamps, which change with their contents."""
    return tuple(_select(graph, "SELECT path, stamp FROM sources ORDER BY path").fetchall())


def oldest_time(graph: sqlite3.Connection) -> str:
    """Return the time of the oldest node or edge; "" when none has one."""
    sql = (
        "SELECT min(at) FROM (SELECT min(coalesce(nullif(since, ''), recorded)) AS at FROM nodes "
        "WHERE since <> '' OR recorded <> '' UNION ALL "
        f"SELECT min(recorded) FROM edges WHERE {_JOINED} AND recorded <> '')"
    )
    return graph.execute(sql).fetchone()[0] or ""
