"""Update the knowledge graph from the index, source by source.

When a source has changed, its nodes and edges are removed and read again. `search/graph.py` decides
which facts follow from a source's rows. Either end of an edge may be given as *words*: a record's
id or title, as in `[[Title]]`, instead of a node id. Words are resolved to nodes after every
change, so the order in which sources are read does not matter. The *origin* of a node or edge is
the source that defines it.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ralph.core.graph import Edge, Node, Relation, entity_type
from ralph.formats.knowledge_text import fold_title
from ralph.storage import db
from ralph.storage.graph import source_stamps
from ralph.storage.record_filters import placeholders
from ralph.storage.sources import OUTSIDE_SCOPES
from ralph.storage.supersession import latest_successors

# A task's part of the graph is written into the repository, so the graph must contain only what
# belongs to the project.
_EXCLUDED_FORMATS = tuple(form.value for form in OUTSIDE_SCOPES)
_INDEXED_SOURCES = f"FROM sources WHERE format NOT IN ({placeholders(_EXCLUDED_FORMATS)})"
_IN_JSON = "IN (SELECT value FROM json_each(?))"
_CLEAR_NODES = """
UPDATE nodes SET origin = NULL, name = substr(id, instr(id, ':') + 1), title = '', recorded = '',
    valid_from = '', valid_until = '', since = '', retired = 0, task = ''
WHERE origin = ?
"""
_PUT_ENTITY = "INSERT OR IGNORE INTO nodes(id, type, name) VALUES (?, ?, ?)"
_DELETE_UNUSED = f"""
DELETE FROM nodes WHERE key {_IN_JSON} AND origin IS NULL
    AND NOT EXISTS (SELECT 1 FROM edges WHERE source = nodes.key)
    AND NOT EXISTS (SELECT 1 FROM edges WHERE target = nodes.key)
"""
_COUNT_OUTGOING_EDGES = f"""
UPDATE nodes SET (outgoing, first_edge) = (
    SELECT count(*), coalesce(min(nullif(recorded, '')), '') FROM (
        SELECT DISTINCT target, relation, recorded, valid_from, valid_until, explicit FROM edges
        WHERE source = nodes.key AND target IS NOT NULL))
WHERE key {_IN_JSON}
"""
_COUNT_ALL_EDGES = f"""
UPDATE nodes SET degree = outgoing + (
    SELECT count(*) FROM (
        SELECT DISTINCT source, relation, recorded, valid_from, valid_until, explicit FROM edges
        WHERE target = nodes.key AND source <> nodes.key))
WHERE key {_IN_JSON}
"""
"""An edge from a node to itself counts once."""
_EDGES_WITH_WORDS = """
SELECT rowid, source_words, target_words, source, target FROM edges
WHERE target_words <> '' OR source_words <> ''
"""
_SUPERSESSIONS = """
SELECT e.source_words <> '', e.source, e.target, old.valid_until
FROM edges e JOIN nodes old ON old.key = e.target
WHERE e.relation = ? AND e.source IS NOT NULL
"""


class Fact(NamedTuple):
    """An edge as a source defines it. Either end may be words (an id or title), not a node id."""

    edge: Edge
    source_is_words: bool = False
    target_is_words: bool = False


class TitledNode(NamedTuple):
    """A node, and the title by which links may refer to it."""

    node: Node
    title: str = ""


class SourceFacts(NamedTuple):
    """The nodes and edges that one source defines."""

    nodes: Sequence[TitledNode]
    facts: Sequence[Fact]


ReadFacts = Callable[[int, str], SourceFacts]
"""Returns the facts in an indexed source, given the source's key in the index and its path."""


class _NodeValues(NamedTuple):
    """The columns of a node that a source sets."""

    id: str
    type: str
    name: str
    title: str
    recorded: str
    valid_from: str
    valid_until: str
    since: str
    retired: bool
    task: str
    origin: int


_PUT_NODE = (
    f"INSERT INTO nodes({', '.join(_NodeValues._fields)}) "
    f"VALUES ({placeholders(_NodeValues._fields)}) ON CONFLICT(id) DO UPDATE SET "
    f"{', '.join(f'{name} = excluded.{name}' for name in _NodeValues._fields if name != 'id')}"
)


class _EdgeValues(NamedTuple):
    """The columns of an edge, with the ids of its ends in place of their keys."""

    source_id: str | None
    target_id: str | None
    relation: str
    recorded: str
    valid_from: str
    valid_until: str
    explicit: bool
    source_words: str
    target_words: str
    origin: int


_PUT_EDGE = """
INSERT INTO edges VALUES (
    (SELECT key FROM nodes WHERE id = ?), (SELECT key FROM nodes WHERE id = ?),
    ?, ?, ?, ?, ?, ?, ?, ?)
"""


class _Supersession(NamedTuple):
    """One node superseding another.

    `stated_by_old` says that the old record names its successor, not the other way round.
    """

    stated_by_old: bool
    new: int
    old: int
    old_valid_until: str


def sync(
    graph: sqlite3.Connection,
    index: sqlite3.Connection,
    read_facts: ReadFacts,
    *,
    within: float | None = None,
) -> int:
    """Update the graph from the index, and return how many sources have changed.

    After `within` seconds, the remaining sources are left for the next call.
    """
    version = db.data_version(graph)
    present = _indexed_stamps(index)
    changed = _changed_paths(graph, present)
    if not changed:
        return 0
    deadline = math.inf if within is None else time.monotonic() + within
    with db.atomic(graph):
        if db.data_version(graph) != version:  # another process was faster
            changed = _changed_paths(graph, present)
        affected = set[int]()
        for path in sorted(changed):
            affected |= _remove_source(graph, path)
        keys = _index_keys(index, changed & present.keys())
        for path in sorted(keys):
            if time.monotonic() > deadline:
                break
            inserted = graph.execute(
                "INSERT INTO sources(path, stamp) VALUES (?, ?)", (path, present[path])
            )
            affected |= _put(graph, int(inserted.lastrowid or 0), read_facts(keys[path], path))
        affected |= _resolve_words(graph)
        _supersede(graph)
        _update_counts(graph, affected)
    return len(changed)


def count_missing(graph: sqlite3.Connection, index: sqlite3.Connection) -> int:
    """Count the indexed sources that the graph has not read yet."""
    indexed = index.execute(f"SELECT count(*) {_INDEXED_SOURCES}", _EXCLUDED_FORMATS)
    stored = graph.execute("SELECT count(*) FROM sources")
    return max(0, int(indexed.fetchone()[0]) - int(stored.fetchone()[0]))


def _indexed_stamps(index: sqlite3.Connection) -> dict[str, str]:
    """Return the stamps of the indexed sources by path. A stamp changes with the contents."""
    cursor = index.cursor()
    cursor.row_factory = None  # plain tuples are faster, and there is one per log
    sql = f"SELECT path, digest || ' ' || offset {_INDEXED_SOURCES}"
    return dict(cursor.execute(sql, _EXCLUDED_FORMATS).fetchall())


def _changed_paths(graph: sqlite3.Connection, present: Mapping[str, str]) -> set[str]:
    """Return the paths of the sources that are new, changed or gone."""
    changed = present.items() ^ dict(source_stamps(graph)).items()
    return {path for path, _ in changed}


def _index_keys(index: sqlite3.Connection, paths: Iterable[str]) -> dict[str, int]:
    """Return the keys that these sources have in the index."""
    sql = f"SELECT path, key FROM sources WHERE path {_IN_JSON}"
    return dict(index.execute(sql, (json.dumps(list(paths)),)).fetchall())


def _remove_source(graph: sqlite3.Connection, path: str) -> set[int]:
    """Remove what a source defined. Return the keys of its nodes and of the ends of its edges."""
    row = graph.execute("SELECT key FROM sources WHERE path = ?", (path,)).fetchone()
    if row is None:
        return set()
    key = row["key"]
    affected = _ends(graph, key)
    affected.update(*graph.execute("SELECT key FROM nodes WHERE origin = ?", (key,)))
    graph.execute("DELETE FROM edges WHERE origin = ?", (key,))
    graph.execute(_CLEAR_NODES, (key,))
    graph.execute("DELETE FROM sources WHERE key = ?", (key,))
    return affected


def _ends(graph: sqlite3.Connection, origin: int) -> set[int]:
    """Return the keys of the nodes at the ends of a source's edges, as far as they are known."""
    rows = graph.execute("SELECT source, target FROM edges WHERE origin = ?", (origin,))
    ends = set(chain.from_iterable(rows))
    ends.discard(None)
    return ends


def _put(graph: sqlite3.Connection, origin: int, source: SourceFacts) -> set[int]:
    """Store a source's nodes and edges, and a node for every entity that an edge refers to.

    Return the keys of the nodes at the ends of the edges.
    """
    graph.executemany(_PUT_NODE, [_node_values(titled, origin) for titled in source.nodes])
    graph.executemany(_PUT_ENTITY, _entity_rows(source.facts))
    graph.executemany(_PUT_EDGE, [_edge_values(fact, origin) for fact in source.facts])
    return _ends(graph, origin)


def _node_values(titled: TitledNode, origin: int) -> _NodeValues:
    node = titled.node
    return _NodeValues(
        id=node.id,
        type=node.type.value,
        name=node.name,
        title=fold_title(titled.title),
        recorded=node.recorded,
        valid_from=node.valid_from,
        valid_until=node.valid_until,
        since=node.valid_from or node.recorded,
        retired=node.retired,
        task=node.task,
        origin=origin,
    )


def _entity_rows(facts: Iterable[Fact]) -> list[tuple[str, str, str]]:
    """Return the id, type and name of every entity at either end of an edge."""
    ends: set[str] = set()
    for fact in facts:
        if not fact.source_is_words:
            ends.add(fact.edge.source)
        if not fact.target_is_words:
            ends.add(fact.edge.target)
    rows = []
    for node_id in sorted(ends):
        kind = entity_type(node_id)
        if kind is not None:
            rows.append((node_id, kind.value, node_id.partition(":")[2]))
    return rows


def _edge_values(fact: Fact, origin: int) -> _EdgeValues:
    edge = fact.edge
    return _EdgeValues(
        source_id=None if fact.source_is_words else edge.source,
        target_id=None if fact.target_is_words else edge.target,
        relation=edge.relation.value,
        recorded=edge.recorded,
        valid_from=edge.valid_from,
        valid_until=edge.valid_until,
        explicit=edge.explicit,
        source_words=edge.source if fact.source_is_words else "",
        target_words=edge.target if fact.target_is_words else "",
        origin=origin,
    )


def _resolve_words(graph: sqlite3.Connection) -> set[int]:
    """Point each edge end that is given as words to the record it currently refers to.

    Return the keys of the nodes that were or are at an end of an edge that has changed.
    """
    affected = set[int | None]()
    edges_with_words = graph.execute(_EDGES_WITH_WORDS).fetchall()
    if not edges_with_words:
        return set()
    names = RecordNames(graph)
    for rowid, source_words, target_words, old_source, old_target in edges_with_words:
        source = names.key(source_words) if source_words else old_source
        target = names.key(target_words) if target_words else old_target
        if source == target:  # a record is not related to itself
            if source_words:
                source = None
            if target_words:
                target = None
        if source != old_source or target != old_target:
            graph.execute(
                "UPDATE edges SET source = ?, target = ? WHERE rowid = ?", (source, target, rowid)
            )
            affected.update((source, target, old_source, old_target))
    return {key for key in affected if key is not None}


class RecordNames:
    """Finds records by id or title.

    If several records share a title, the one with the lowest id wins.
    """

    def __init__(self, graph: sqlite3.Connection) -> None:
        sql = "SELECT id, key, title FROM nodes WHERE origin IS NOT NULL ORDER BY id DESC"
        self._keys_by_id: dict[str, int] = {}
        self._keys_by_title: dict[str, int] = {}
        for node_id, key, title in graph.execute(sql):
            self._keys_by_id[fold_title(node_id)] = key
            if title:
                self._keys_by_title[title] = key

    def key(self, words: str) -> int | None:
        """Return the key of the record that `words` refer to, or None.

        `Title#part` and `Title|other words` refer to the record with that title.
        """
        title = words.partition("|")[0]
        for spelling in (words, title, title.partition("#")[0]):
            key = self._find(fold_title(spelling))
            if key is not None:
                return key
        return None

    def _find(self, name: str) -> int | None:
        if name in self._keys_by_id:
            return self._keys_by_id[name]
        if name in self._keys_by_title:
            return self._keys_by_title[name]
        return self._keys_by_id.get(f"know-{name}")


def _supersede(graph: sqlite3.Connection) -> None:
    """Set the time from which each node is valid, and the time at which it was superseded.

    If an old record names its successor, the successor is valid from the day the old one expires.
    """
    own_start = "coalesce(nullif(valid_from, ''), recorded)"
    graph.execute(
        f"UPDATE nodes SET replaced = NULL, since = {own_start} "
        f"WHERE replaced IS NOT NULL OR since <> {own_start}"
    )
    supersessions = _effective_supersessions(graph)
    if not supersessions:
        return
    started: dict[int, str] = {}
    for pair in supersessions:
        if pair.stated_by_old:
            started[pair.new] = max(started.get(pair.new, ""), pair.old_valid_until)
    graph.executemany(
        "UPDATE nodes SET since = ? WHERE key = ?",
        [(start, key) for key, start in started.items() if start],
    )
    starts = dict(graph.execute("SELECT key, since FROM nodes").fetchall())
    ended: dict[int, str] = {}
    for pair in supersessions:
        end = starts.get(pair.new, "")
        if pair.stated_by_old and pair.old_valid_until:
            end = pair.old_valid_until
        ended[pair.old] = min(ended.get(pair.old, end), end)
    graph.executemany(
        "UPDATE nodes SET replaced = ? WHERE key = ?", [(end, key) for key, end in ended.items()]
    )


def _update_counts(graph: sqlite3.Connection, affected: Iterable[int]) -> None:
    """Recount the edges of these nodes, and remove nodes that are no longer referenced."""
    listed = json.dumps(sorted(affected))
    for statement in (_COUNT_OUTGOING_EDGES, _COUNT_ALL_EDGES, _DELETE_UNUSED):
        graph.execute(statement, (listed,))


def _effective_supersessions(graph: sqlite3.Connection) -> list[_Supersession]:
    """Return the supersessions that are not part of a cycle."""
    rows = graph.execute(_SUPERSESSIONS, (Relation.SUPERSEDES.value,)).fetchall()
    stated = [_Supersession(*row) for row in rows]
    superseded = latest_successors((pair.new, pair.old) for pair in stated)
    return [pair for pair in stated if pair.old in superseded]
