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
from ralph.model.graph import ENTITY_TYPES, Node, NodeType, entity_id
from ralph.model.query import Query
from ralph.search import rank as ranking
from ralph.search.graph import ALL_VISIBLE, GraphVisibility
from ralph.store import graph as stored
from ralph.store import lookup, queries

TASK = "RALPH_TASK"
"""The variable by which the loop and chats tell their agents what they work on."""
_NAMED = 5
"""So many tasks are named in a note."""


def current_task(root: Path, env: Mapping[str, str]) -> str:
    """The task that somebody works on: RALPH_TASK names it, else the worktree in which the project is."""
    return env.get(TASK) or paths.task_of(root)


def visible_keys(connection: sqlite3.Connection, keys: Sequence[int], task: str) -> list[int]:
    """Those of some keys whose records a task may see; without a task, all of them."""
    passing = lookup.filter_keys(connection, keys, lookup.visible_to(queries.safe(task))) if task else keys
    return [key for key in keys if key in passing]


def find_visible(connection: sqlite3.Connection, record_id: str, task: str) -> int | None:
    """The key of the first record with an id that a task may see; None when nobody has it, NotFound for another's."""
    keys = queries.keys_of(connection, record_id)
    open_ = visible_keys(connection, keys, task)
    if keys and not open_:
        raise hidden_error(f"record {record_id}", queries.tasks_of(connection, keys).values())
    return next(iter(open_), None)


def hidden_error(what: str, owners: Iterable[str] = ()) -> NotFound:
    """That something is not there for this task, whose it is, and how to see it all the same."""
    named = _listed(owners)
    whose = f"it belongs to {named}, which is not finished; " if named else ""
    return NotFound(f"there is no {what} that this task may see", hint=f"{whose}--all-tasks shows everything")


def hidden_notes(connection: sqlite3.Connection, query: Query) -> Iterator[str]:
    """A note when records of other tasks would be among the hits: how many, and how to see them."""
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
        keys = [each.row.key for each in ranked.best]
    else:
        keys = queries.newest_keys(connection, everything, query.limit)
    hidden = sorted({*keys} - {*visible_keys(connection, keys, query.task)})
    if hidden:
        count = f"{len(hidden)} record{'s' * (len(hidden) > 1)}"
        yield hidden_note(count, queries.tasks_of(connection, hidden).values())


def hidden_note(count: str, owners: Iterable[str]) -> str:
    """That so much was left out, whose that is, and how to see it."""
    named = _listed(owners)
    return f"{count} of other tasks left out{f' ({named})' if named else ''}; --all-tasks shows everything"


def _listed(names: Iterable[str]) -> str:
    """The names, each once; of many, the first ones."""
    found = sorted(set(names))
    return ", ".join([*found[:_NAMED], *([f"{len(found) - _NAMED} more"] if len(found) > _NAMED else [])])


# --- the graph ---------------------------------------------------------------------------------

_SPOKEN_OF = (NodeType.FILE, NodeType.SYMBOL, NodeType.TAG)


def graph_visibility(graph: sqlite3.Connection, connection: sqlite3.Connection, task: str) -> GraphVisibility:
    """What a task may not see; nothing is hidden from whoever has no task."""
    if not task:
        return ALL_VISIBLE
    nodes = stored.nodes(graph)
    others = {entity_id(NodeType.TASK, name) for name in queries.unfinished_tasks(connection, task)}
    sessions = {entity_id(NodeType.SESSION, name) for name in queries.hidden_sessions(connection, task)}
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
