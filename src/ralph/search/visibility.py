"""The records and graph nodes that a task may see.

Records, sessions and insights that belong to an unfinished task are hidden from other tasks. A
search reports how many it left out. Asking for one by its id raises an error that names the owner.
Runs and tasks are visible to everybody.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ralph.core import ids
from ralph.core.errors import Hint, NotFound
from ralph.core.graph import ENTITY_TYPES, Node, NodeType, entity_id
from ralph.core.record import Query
from ralph.search import rank
from ralph.search.graph_walks import ALL_VISIBLE, GraphVisibility
from ralph.storage import graph as stored
from ralph.storage import lookup, queries, query_filters, record_filters, record_rows
from ralph.storage.graph import EdgeRow

_MAX_NAMES = 5
_MENTIONED_TYPES = (NodeType.FILE, NodeType.SYMBOL, NodeType.TAG)


def visible_keys(connection: sqlite3.Connection, keys: Sequence[int], task: str) -> list[int]:
    """Return the keys of records that a task may see. Without a task, all keys are returned."""
    if not task:
        return list(keys)
    visible = lookup.filter_keys(
        connection, keys, record_filters.visible_to(record_rows.storable_text(task))
    )
    return [key for key in keys if key in visible]


def find_visible(connection: sqlite3.Connection, record_id: str, task: str) -> int | None:
    """Return the key of the first visible record with an id, or None if there is none.

    Raises NotFound if such records exist but only other tasks may see them.
    """
    keys = queries.keys_of(connection, record_id)
    visible = visible_keys(connection, keys, task)
    if visible:
        return visible[0]
    if keys:
        raise hidden_error("record", record_id, queries.tasks_of(connection, keys).values())
    return None


def hidden_error(noun: str, name: str, owners: Iterable[str] = ()) -> NotFound:
    """Return the error for something that is hidden from this task.

    The hint lists the tasks that own it, and explains how to see it anyway.
    """
    message = f"{noun[:1].upper()}{noun[1:]} not found in what this task can see: {name}"
    show_all = Hint("show-all-tasks", "--all-tasks shows everything")
    names = _join_names(owners)
    if names:
        return NotFound(message, hint=(f"it belongs to {names}, which is not finished", show_all))
    return NotFound(message, hint=show_all)


def _join_names(names: Iterable[str]) -> str:
    ordered = sorted(set(names))
    shown = ordered[:_MAX_NAMES]
    if len(ordered) > _MAX_NAMES:
        shown.append(f"{len(ordered) - _MAX_NAMES} more")
    return ", ".join(shown)


def hidden_notes(connection: sqlite3.Connection, query: Query) -> Iterator[str]:
    """Yield a note if hits were left out because they belong to other tasks."""
    if not query.task:
        return
    keys = _best_keys(connection, query._replace(task=""))
    hidden = sorted(set(keys).difference(visible_keys(connection, keys, query.task)))
    if not hidden:
        return
    count = "1 record" if len(hidden) == 1 else f"{len(hidden)} records"
    names = _join_names(queries.tasks_of(connection, hidden).values())
    owners = f" ({names})" if names else ""
    yield f"{count} of other tasks left out{owners}; --all-tasks shows everything"


def _best_keys(connection: sqlite3.Connection, query: Query) -> Sequence[int]:
    """Return the keys of a query's hits, which are the newest records if it has no words."""
    text = query.text.strip()
    if not text:
        return queries.newest_keys(connection, query, query.limit)
    keys = queries.keys_of(connection, text, query)[: query.limit]
    if keys or ids.date_of(text):
        return keys
    record_filter = query_filters.filter_of(query)
    ranked = rank.rank(
        connection, query.text, today=ids.today(), record_filter=record_filter, limit=query.limit
    )
    return [hit.row.key for hit in ranked.best]


def graph_visibility(
    graph: sqlite3.Connection, connection: sqlite3.Connection, task: str
) -> GraphVisibility:
    """Return which parts of the graph are hidden from a task. Without a task, none are."""
    if not task:
        return ALL_VISIBLE
    unfinished_ids = {
        entity_id(NodeType.TASK, name) for name in queries.unfinished_tasks(connection, task)
    }
    session_ids = {
        entity_id(NodeType.SESSION, name) for name in queries.hidden_sessions(connection, task)
    }
    nodes = stored.nodes(graph)
    hidden = set[int]()
    unfinished_tasks = set[int]()
    tasks = set[int]()
    for key, node in nodes.items():
        belongs_to_other_task = node.type not in ENTITY_TYPES and node.task not in ("", task)
        if node.id in session_ids or belongs_to_other_task:
            hidden.add(key)
        if node.id in unfinished_ids:
            unfinished_tasks.add(key)
        if node.type is NodeType.TASK:
            tasks.add(key)
    visibility = GraphVisibility(hidden, unfinished_tasks, tasks)
    edges = [edge for edge in stored.edges(graph) if visibility.allows(edge.source, edge.target)]
    return visibility._replace(hidden=hidden | _unmentioned(nodes, edges))


def _unmentioned(nodes: Mapping[int, Node], edges: Sequence[EdgeRow]) -> set[int]:
    """Return the keys of the files, symbols and tags that no visible edge mentions.

    If a symbol is mentioned, so is its file.
    """
    candidates = {key for key, node in nodes.items() if node.type in _MENTIONED_TYPES}
    mentioned = set[int]()
    for edge in edges:
        if edge.source not in candidates:
            mentioned.add(edge.target)
        if edge.target not in candidates:
            mentioned.add(edge.source)
    symbols = {key for key in candidates & mentioned if nodes[key].type is NodeType.SYMBOL}
    for edge in edges:
        if edge.source in symbols:
            mentioned.add(edge.target)
        if edge.target in symbols:
            mentioned.add(edge.source)
    return candidates - mentioned
