"""Filters of queries: ids, times, kinds and relations, and what a task may see of other tasks.

Times are UTC as in the files. Records, sessions and insights of unfinished tasks are hidden from other tasks: a search
reports how many it left out, and an id of theirs is an error that names the task. Runs and tasks are visible to
everybody.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ralph import paths
from ralph.errors import NotFound, UsageError
from ralph.model import ids
from ralph.model.graph import ENTITY_TYPES, NodeType, Relation, entity_id, parse_relation
from ralph.model.record import KINDS, Kind, Query
from ralph.store import lookup, queries

if TYPE_CHECKING:
    from ralph.search.graph import GraphVisibility

_MAX_NAMES = 5
_MENTIONED = (NodeType.FILE, NodeType.SYMBOL, NodeType.TAG)
_KINDS = {name: kind for kinds in KINDS.values() for name, kind in kinds.items()}
_NODE_TYPES = {kind.value: kind for kind in NodeType}
_SPAN = re.compile(r"(\d+)([dhwm])", re.ASCII)
_MONTH = re.compile(r"\d{4}-\d\d", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_SHORT_ID = re.compile(r"[a-z]+-[0-9A-Za-z]{4,}", re.ASCII)
_MINTED = re.compile(r"(?:mem|obs|jrn|ins)-[0-9a-f]{4,}", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 24 * 7, "m": 24 * 30}
T = TypeVar("T")


def full_id(root: Path, name: str) -> str:
    """Return the id that a short form such as mem-a3f8 means; any other name as it is."""
    from ralph.app import index

    return (
        index.ask(root, lambda connection: resolve_id(connection, name))
        if is_short_id(name)
        else name
    )


def is_short_id(name: str) -> bool:
    """Whether a name has the form of a short id."""
    return _SHORT_ID.fullmatch(name.strip()) is not None


def is_minted(name: str) -> bool:
    """Whether a name can only be the short form of an id that Ralph made."""
    return _MINTED.fullmatch(name.strip()) is not None


def resolve_id(connection: sqlite3.Connection, name: str) -> str:
    """Return the id that a short form means; Conflict lists several."""
    if not is_short_id(name) or queries.key_of(connection, name.strip()) is not None:
        return name
    tail = name.strip().partition("-")[2]
    matches = ids.match_ids(name.strip(), queries.ids_ending(connection, [tail]))
    return ids.resolve(name, matches) if matches else name


def short_ids(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Map the ids of records to their short forms."""
    from ralph.app import index

    names = list(names)
    return index.ask(root, lambda connection: shorten_ids(connection, names))


def shorten_ids(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, str]:
    """Map ids to short forms; only ids with the same last characters can be confused."""
    tails = {name[-ids.SHORTEST_TAIL :] for name in names}
    return ids.short_ids(queries.ids_ending(connection, tails)) if tails else {}


def when(words: str) -> str:
    """Return a time in UTC from a date, or from a span such as 7d counted back from now."""
    words = words.strip()
    span = _SPAN.fullmatch(words.lower())
    if span is not None:
        hours = min(int(span[1]) * _HOURS[span[2]], 24 * 365 * 100)
        return (ids.now() - timedelta(hours=hours)).isoformat(timespec="seconds")[
            : 10 if span[2] != "h" else 19
        ]
    try:
        if _MONTH.fullmatch(words):
            date.fromisoformat(f"{words}-01")
        elif words:
            time = datetime.fromisoformat(words if _TIME.fullmatch(words) else "")
            if time.tzinfo is not None:
                return time.astimezone(UTC).isoformat(timespec="seconds")[:19]
        return words
    except (ValueError, OverflowError) as error:
        hint = "use a date such as 2026-01-31, or a span such as 7d, 24h, 2w, 3m"
        raise UsageError(f"{words!r} is not a time", hint=hint) from error


def kinds(types: Iterable[str]) -> tuple[Kind, ...]:
    """Return the kinds of these names, of any family."""
    return _choose(types, _KINDS, "type")


def node_types(names: Iterable[str]) -> tuple[NodeType, ...]:
    """Return the types of nodes of these names."""
    return _choose(names, _NODE_TYPES, "type of node")


def relations(names: Iterable[str]) -> tuple[Relation, ...]:
    """Return the relations of these names or aliases."""
    words = [word.strip().lower() for part in names for word in part.split(",") if word.strip()]
    aliases = {word: relation for word in words if (relation := parse_relation(word)) is not None}
    return _choose(words, {relation.value: relation for relation in Relation} | aliases, "relation")


def _choose(names: Iterable[str], valid: Mapping[str, T], what: str) -> tuple[T, ...]:
    words = [word.strip().lower() for part in names for word in part.split(",") if word.strip()]
    wrong = [word for word in words if word not in valid]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not a {what}", hint=f"valid {what}s: {', '.join(valid)}")
    return tuple(valid[word] for word in words)


def current_task(root: Path, env: Mapping[str, str]) -> str:
    """Return the current task: RALPH_TASK, else the worktree's."""
    return env.get("RALPH_TASK") or paths.location(root).task


def visible_keys(connection: sqlite3.Connection, keys: Sequence[int], task: str) -> list[int]:
    """Return the keys of records that a task may see; without a task, all of them."""
    passing = (
        lookup.filter_keys(connection, keys, lookup.visible_to(queries.safe(task)))
        if task
        else keys
    )
    return [key for key in keys if key in passing]


def find_visible(connection: sqlite3.Connection, record_id: str, task: str) -> int | None:
    """Return the key of the first visible record with an id; NotFound for another task's."""
    keys = queries.keys_of(connection, record_id)
    visible = visible_keys(connection, keys, task)
    if keys and not visible:
        raise hidden_error(f"record {record_id}", queries.tasks_of(connection, keys).values())
    return next(iter(visible), None)


def hidden_error(what: str, owners: Iterable[str] = ()) -> NotFound:
    """Return the error for what is hidden from this task: whose it is, and how to see it."""
    names = _join_names(owners)
    owner = f"it belongs to {names}, which is not finished; " if names else ""
    return NotFound(
        f"there is no {what} that this task may see", hint=f"{owner}--all-tasks shows everything"
    )


def _join_names(names: Iterable[str]) -> str:
    ordered = sorted(set(names))
    more = [f"{len(ordered) - _MAX_NAMES} more"] if len(ordered) > _MAX_NAMES else []
    return ", ".join([*ordered[:_MAX_NAMES], *more])


def hidden_notes(connection: sqlite3.Connection, query: Query) -> Iterator[str]:
    """Yield a note when records of other tasks would be among the hits."""
    from ralph.search import rank

    text = query.text.strip()
    if not query.task:
        return
    everything = replace(query, task="")
    keys = queries.keys_of(connection, text, everything)[: query.limit] if text else []
    if not text:
        keys = queries.newest_keys(connection, everything, query.limit)
    elif not keys and not ids.date_of(text):
        keep = queries.filter_of(everything)
        ranked = rank.rank(connection, query.text, today=ids.today(), keep=keep, limit=query.limit)
        keys = [hit.row.key for hit in ranked.best]
    hidden = sorted({*keys} - {*visible_keys(connection, keys, query.task)})
    if hidden:
        count = f"{len(hidden)} record{'s' * (len(hidden) > 1)}"
        names = _join_names(queries.tasks_of(connection, hidden).values())
        yield f"{count} of other tasks left out{f' ({names})' if names else ''}; --all-tasks shows everything"


def graph_visibility(
    graph: sqlite3.Connection, connection: sqlite3.Connection, task: str
) -> GraphVisibility:
    """Return which nodes are hidden from a task; without a task, none."""
    from ralph.search.graph import ALL_VISIBLE, GraphVisibility
    from ralph.store import graph as stored

    if not task:
        return ALL_VISIBLE
    nodes = stored.nodes(graph)
    others = {entity_id(NodeType.TASK, name) for name in queries.unfinished_tasks(connection, task)}
    sessions = {
        entity_id(NodeType.SESSION, name) for name in queries.hidden_sessions(connection, task)
    }
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
    edges = [
        (row.source, row.target)
        for row in stored.edges(graph)
        if allowed.allows(row.source, row.target)
    ]
    both = [*edges, *((target, source) for source, target in edges)]
    mentioned = {other for one, other in both if one not in candidates}
    mentioned |= {other for one, other in both if one in symbols & mentioned}
    return GraphVisibility(frozenset(hidden | (candidates - mentioned)), silent, tasks)
