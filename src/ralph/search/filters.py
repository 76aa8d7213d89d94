"""Query filters: ids, times, kinds and relations, and what a task may see of other tasks.

Times are in UTC, as in the files. Records, sessions and insights that belong to an unfinished task
are hidden from other tasks. A search reports how many it left out. Asking for one by its id raises
an error that names the task. Runs and tasks are visible to everybody.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ralph.core import ids, paths
from ralph.core.errors import Hint, NotFound, UsageError
from ralph.core.graph import ENTITY_TYPES, Node, NodeType, Relation, entity_id, parse_relation
from ralph.core.record import KINDS, Family, Kind, Query
from ralph.storage import lookup, queries, query_filters, record_filters, record_rows

if TYPE_CHECKING:
    from ralph.search.graph_walks import GraphVisibility
    from ralph.storage.graph import EdgeRow

_MAX_NAMES = 5
_MENTIONED_TYPES = (NodeType.FILE, NodeType.SYMBOL, NodeType.TAG)
_KINDS: dict[str, Kind] = {
    **KINDS[Family.MEMORY],
    **KINDS[Family.OBSERVATION],
    **KINDS[Family.JOURNAL],
}
_NODE_TYPES = {kind.value: kind for kind in NodeType}
_SPAN = re.compile(r"(\d+)([dhwm])", re.ASCII)
_MONTH = re.compile(r"\d{4}-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_SHORT_ID = re.compile(r"[a-z]+-[0-9A-Za-z]{4,}", re.ASCII)
_MINTED_ID = re.compile(r"(?:mem|obs|jrn|ins)-[0-9a-f]{4,}", re.ASCII)
_HOURS_PER_UNIT = {"h": 1, "d": 24, "w": 24 * 7, "m": 24 * 30}
_MAX_SPAN_HOURS = 24 * 365 * 100  # a longer span would leave the range of valid dates
_DAY_CHARACTERS = len("2026-01-31")
_SECOND_CHARACTERS = len("2026-01-31T12:00:00")
T = TypeVar("T")


# --- ids ----------------------------------------------------------------------------------------


def full_id(root: Path, name: str) -> str:
    """Expand a short id such as mem-a3f8. Any other name is returned unchanged.

    Raises Conflict if several ids match.
    """
    from ralph.search import index

    if not is_short_id(name):
        return name
    return index.ask(root, lambda connection: resolve_id(connection, name))


def is_short_id(name: str) -> bool:
    """Return whether a name has the form of a short id."""
    return _SHORT_ID.fullmatch(name.strip()) is not None


def is_minted(name: str) -> bool:
    """Return whether a name can only be the short form of an id that Ralph generated."""
    return _MINTED_ID.fullmatch(name.strip()) is not None


def resolve_id(connection: sqlite3.Connection, name: str) -> str:
    """Expand a short id. Any other name is returned unchanged.

    Raises Conflict if several ids match.
    """
    if not is_short_id(name) or queries.key_of(connection, name.strip()) is not None:
        return name
    tail = name.strip().partition("-")[2]
    matches = ids.match_ids(name.strip(), queries.ids_ending(connection, [tail]))
    if not matches:
        return name
    return ids.resolve(name, matches)


def short_ids(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Map record ids to their short forms."""
    from ralph.search import index

    names = list(names)
    return index.ask(root, lambda connection: shorten_ids(connection, names))


def shorten_ids(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, str]:
    """Map ids to short forms that are unique in the index.

    Only ids that end in the same characters have to be told apart.
    """
    tails = {name[-ids.SHORTEST_TAIL :] for name in names}
    if not tails:
        return {}
    return ids.short_ids(queries.ids_ending(connection, tails))


# --- times and names ----------------------------------------------------------------------------


def when(words: str) -> str:
    """Parse a date, or a span such as 7d that is counted back from now.

    Return the time in UTC. Raises UsageError for anything else.
    """
    words = words.strip()
    span = _SPAN.fullmatch(words.lower())
    if span is not None:
        return _start_of_span(int(span[1]), span[2])
    try:
        if _MONTH.fullmatch(words):
            date.fromisoformat(f"{words}-01")  # raises for a month that does not exist
            return words
        if not words:
            return words
        if not _TIME.fullmatch(words):
            raise ValueError(words)
        time = datetime.fromisoformat(words)
        if time.tzinfo is None:
            return words
        return time.astimezone(UTC).isoformat(timespec="seconds")[:_SECOND_CHARACTERS]
    except (ValueError, OverflowError) as error:
        hint = "use a date such as 2026-01-31, or a span such as 7d, 24h, 2w, 3m"
        raise UsageError(f"{words!r} is not a time", hint=hint) from error


def _start_of_span(count: int, unit: str) -> str:
    """Return the start of a span that ends now: a time for hours, a day for longer units."""
    hours = min(count * _HOURS_PER_UNIT[unit], _MAX_SPAN_HOURS)
    start = (ids.now() - timedelta(hours=hours)).isoformat(timespec="seconds")
    if unit == "h":
        return start[:_SECOND_CHARACTERS]
    return start[:_DAY_CHARACTERS]


def kinds(types: Iterable[str]) -> tuple[Kind, ...]:
    """Return the kinds with these names, in any family. Raises UsageError for an unknown name."""
    return _choose(_split_names(types), _KINDS, "type")


def node_types(names: Iterable[str]) -> tuple[NodeType, ...]:
    """Return the node types with these names. Raises UsageError for an unknown name."""
    return _choose(_split_names(names), _NODE_TYPES, "type of node")


def relations(names: Iterable[str]) -> tuple[Relation, ...]:
    """Return the relations with these names or aliases. Raises UsageError for an unknown name."""
    words = _split_names(names)
    valid = {relation.value: relation for relation in Relation}
    for word in words:
        relation = parse_relation(word)
        if relation is not None:
            valid[word] = relation
    return _choose(words, valid, "relation")


def _split_names(names: Iterable[str]) -> list[str]:
    """Return the names in lowercase. Each string may list several, separated by commas."""
    words = []
    for part in names:
        words += [word.strip().lower() for word in part.split(",")]
    return [word for word in words if word]


def _choose(words: Sequence[str], valid: Mapping[str, T], noun: str) -> tuple[T, ...]:
    for word in words:
        if word not in valid:
            raise UsageError(f"{word!r} is not a {noun}", hint=f"valid {noun}s: {', '.join(valid)}")
    return tuple(valid[word] for word in words)


# --- visibility ---------------------------------------------------------------------------------


def current_task(root: Path, env: Mapping[str, str]) -> str:
    """Return the current task: $RALPH_TASK if it is set, or else the worktree's task."""
    return env.get("RALPH_TASK") or paths.location(root).task


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
        raise hidden_error(f"record {record_id}", queries.tasks_of(connection, keys).values())
    return None


def hidden_error(what: str, owners: Iterable[str] = ()) -> NotFound:
    """Return the error for something hidden from this task.

    Its hint says which tasks own it and how to see it anyway.
    """
    message = f"there is no {what} that this task may see"
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
    keys = _best_keys(connection, replace(query, task=""))
    hidden = sorted(set(keys).difference(visible_keys(connection, keys, query.task)))
    if not hidden:
        return
    count = "1 record" if len(hidden) == 1 else f"{len(hidden)} records"
    names = _join_names(queries.tasks_of(connection, hidden).values())
    owners = f" ({names})" if names else ""
    yield f"{count} of other tasks left out{owners}; --all-tasks shows everything"


def _best_keys(connection: sqlite3.Connection, query: Query) -> Sequence[int]:
    """Return the keys of a query's hits: the newest if it has no words, or else the best."""
    from ralph.search import rank

    text = query.text.strip()
    if not text:
        return queries.newest_keys(connection, query, query.limit)
    keys = queries.keys_of(connection, text, query)[: query.limit]
    if keys or ids.date_of(text):
        return keys
    keep = query_filters.filter_of(query)
    ranked = rank.rank(
        connection, query.text, today=ids.today(), record_filter=keep, limit=query.limit
    )
    return [hit.row.key for hit in ranked.best]


def graph_visibility(
    graph: sqlite3.Connection, connection: sqlite3.Connection, task: str
) -> GraphVisibility:
    """Return which parts of the graph are hidden from a task. Without a task, none are."""
    from ralph.search.graph_walks import ALL_VISIBLE, GraphVisibility
    from ralph.storage import graph as stored

    if not task:
        return ALL_VISIBLE
    unfinished = {
        entity_id(NodeType.TASK, name) for name in queries.unfinished_tasks(connection, task)
    }
    sessions = {
        entity_id(NodeType.SESSION, name) for name in queries.hidden_sessions(connection, task)
    }
    nodes = stored.nodes(graph)
    hidden = set[int]()
    silent = set[int]()
    tasks = set[int]()
    for key, node in nodes.items():
        is_of_other_task = node.type not in ENTITY_TYPES and node.task not in ("", task)
        if node.id in sessions or is_of_other_task:
            hidden.add(key)
        if node.id in unfinished:
            silent.add(key)
        if node.type is NodeType.TASK:
            tasks.add(key)
    visibility = GraphVisibility(frozenset(hidden), frozenset(silent), frozenset(tasks))
    edges = [edge for edge in stored.edges(graph) if visibility.allows(edge.source, edge.target)]
    hidden |= _unmentioned(nodes, edges)
    return GraphVisibility(frozenset(hidden), frozenset(silent), frozenset(tasks))


def _unmentioned(nodes: Mapping[int, Node], edges: Sequence[EdgeRow]) -> set[int]:
    """Return the keys of the files, symbols and tags that nothing visible mentions.

    A mentioned symbol counts as mentioning its file.
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
