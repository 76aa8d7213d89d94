"""What a task may see of records, sessions, insights and the graph of other tasks.

The rule is in the index (`store/lookup.py`); here it is asked and explained. A search within a task reports how many
records of unfinished tasks it left out, and an id of theirs is an error that names the task. Runs and tasks themselves
are visible to everybody. A file, symbol or tag is visible with anything that mentions it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ralph import paths
from ralph.errors import NotFound
from ralph.model import ids
from ralph.model.graph import ENTITY_TYPES, NodeType, entity_id
from ralph.model.query import Query
from ralph.search import rank as ranking
from ralph.search.graph import ALL_VISIBLE, GraphVisibility
from ralph.store import graph as stored
from ralph.store import lookup, queries

TASK = "RALPH_TASK"
"""The environment variable with the task of an agent that the loop or a chat started."""
_MAX_NAMES = 5
_MENTIONED = (NodeType.FILE, NodeType.SYMBOL, NodeType.TAG)


def current_task(root: Path, env: Mapping[str, str]) -> str:
    """Return the current task: RALPH_TASK names it, else the worktree."""
    return env.get(TASK) or paths.task_of(root)


def visible_keys(connection: sqlite3.Connection, keys: Sequence[int], task: str) -> list[int]:
    """Return the keys of records that a task may see; without a task, all of them."""
    passing = lookup.filter_keys(connection, keys, lookup.visible_to(queries.safe(task))) if task else keys
    return [key for key in keys if key in passing]


def find_visible(connection: sqlite3.Connection, record_id: str, task: str) -> int | None:
    """Return the key of the first visible record with an id; None when there is none, NotFound for another task's."""
    keys = queries.keys_of(connection, record_id)
    visible = visible_keys(connection, keys, task)
    if keys and not visible:
        raise hidden_error(f"record {record_id}", queries.tasks_of(connection, keys).values())
    return next(iter(visible), None)


def hidden_error(what: str, owners: Iterable[str] = ()) -> NotFound:
    """Return the error for something that is hidden from this task: whose it is, and how to see it."""
    names = _join_names(owners)
    owner = f"it belongs to {names}, which is not finished; " if names else ""
    return NotFound(f"there is no {what} that this task may see", hint=f"{owner}--all-tasks shows everything")


def hidden_note(count: str, owners: Iterable[str]) -> str:
    """Return the note about what was left out: whose it is, and how to see it."""
    names = _join_names(owners)
    return f"{count} of other tasks left out{f' ({names})' if names else ''}; --all-tasks shows everything"


def _join_names(names: Iterable[str]) -> str:
    ordered = sorted(set(names))
    more = [f"{len(ordered) - _MAX_NAMES} more"] if len(ordered) > _MAX_NAMES else []
    return ", ".join([*ordered[:_MAX_NAMES], *more])


def hidden_notes(connection: sqlite3.Connection, query: Query) -> Iterator[str]:
    """Yield a note when records of other tasks would be among the hits."""
    text = query.text.strip()
    if not query.task:
        return
    everything = replace(query, task="")
    keys = queries.keys_of(connection, text, everything) if text else []
    if text and not keys and ids.date_of(text):
        return
    if keys:
        keys = keys[: query.limit]
    elif text:
        keep = queries.filter_of(everything)
        ranked = ranking.rank(connection, query.text, today=ids.today(), keep=keep, limit=query.limit)
        keys = [hit.row.key for hit in ranked.best]
    else:
        keys = queries.newest_keys(connection, everything, query.limit)
    hidden = sorted({*keys} - {*visible_keys(connection, keys, query.task)})
    if hidden:
        count = f"{len(hidden)} record{'s' * (len(hidden) > 1)}"
        yield hidden_note(count, queries.tasks_of(connection, hidden).values())


def graph_visibility(graph: sqlite3.Connection, connection: sqlite3.Connection, task: str) -> GraphVisibility:
    """Return which nodes are hidden from a task; without a task, none."""
    if not task:
        return ALL_VISIBLE
    nodes = stored.nodes(graph)
    others = {entity_id(NodeType.TASK, name) for name in queries.unfinished_tasks(connection, task)}
    sessions = {entity_id(NodeType.SESSION, name) for name in queries.hidden_sessions(connection, task)}
    hidden = {
        key
        for key, node in nodes.items()
        if node.id in sessions or (node.type not in ENTITY_TYPES and node.task not in ("", task))
    }
    silent = frozenset(key for key, node in nodes.items() if node.id in others)
    tasks = frozenset(key for key, node in nodes.items() if node.type is NodeType.TASK)
    allowed = GraphVisibility(hidden, silent, tasks)
    # Files, symbols and tags that nothing visible mentions are hidden, too; a symbol mentions its file.
    candidates = {key for key, node in nodes.items() if node.type in _MENTIONED}
    symbols = {key for key in candidates if nodes[key].type is NodeType.SYMBOL}
    edges = [(row.source, row.target) for row in stored.edges(graph) if allowed.allows(row.source, row.target)]
    both = [*edges, *((target, source) for source, target in edges)]
    mentioned = {other for one, other in both if one not in candidates}
    mentioned |= {other for one, other in both if one in symbols & mentioned}
    return GraphVisibility(frozenset(hidden | (candidates - mentioned)), silent, tasks)
