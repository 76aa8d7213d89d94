"""What a task does not get to see, and how that is told: in one line, with the tasks it belongs to.

Which records those are is decided by the index (`store/lookup.py`, `seen_by`); here it is only asked. Who searches
within a task is told when records of other tasks would have been among the hits, so that nobody takes a silence for
ignorance; for that the question is asked once more without the task, by its words alone. An id opens nothing: what is
another task's is not found by it either, and the error says whose it is and how to see it. That holds for every verb
that shows records, sessions, insights or the graph; what shows runs (`ralph loop show`, `logs`, `status`) and tasks
themselves is for whoever looks after them, and shows all. `tests/app/test_visibility.py` proves it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ralph import paths
from ralph.errors import NotFound
from ralph.model import ids
from ralph.model.query import Query
from ralph.search import rank as ranking
from ralph.store import lookup, rows

TASK = "RALPH_TASK"
"""The variable by which the loop and chats tell their agents what they work on."""
_NAMED = 5
"""So many tasks are named in a note."""


def own(root: Path, env: Mapping[str, str]) -> str:
    """The task that somebody works on: RALPH_TASK names it, else the worktree in which the project is."""
    return env.get(TASK) or paths.task_of(root)


def seen(connection: sqlite3.Connection, keys: Sequence[int], task: str) -> list[int]:
    """Those of some keys whose records a task may see; without a task, all of them."""
    passing = lookup.passing(connection, keys, lookup.sight(rows.safe(task))) if task else keys
    return [key for key in keys if key in passing]


def found(connection: sqlite3.Connection, record_id: str, task: str) -> int | None:
    """The key of the first record with an id that a task may see; None when nobody has it, NotFound for another's."""
    keys = rows.keys_of(connection, record_id)
    open_ = seen(connection, keys, task)
    if keys and not open_:
        raise closed(f"record {record_id}", rows.tasks_of(connection, keys).values())
    return next(iter(open_), None)


def closed(what: str, owners: Iterable[str] = ()) -> NotFound:
    """That something is not there for this task, whose it is, and how to see it all the same."""
    named = _listed(owners)
    whose = f"it belongs to {named}, which is not finished; " if named else ""
    return NotFound(f"there is no {what} that this task may see", hint=f"{whose}--all-tasks shows everything")


def left_out(connection: sqlite3.Connection, query: Query) -> Iterator[str]:
    """A note when records of other tasks would be among the hits: how many, and how to see them."""
    text = query.text.strip()
    if not query.task:
        return
    everything = replace(query, task="")
    keys = rows.keys_of(connection, text, everything) if text else []
    if text and not keys and ids.date_of(text):
        return
    if keys:
        keys = keys[: query.limit]
    elif text:
        keep = rows.filter_of(everything)
        ranked = ranking.rank(connection, query.text, today=ids.today(), keep=keep, limit=query.limit)
        keys = [each.row.key for each in ranked.best]
    else:
        keys = rows.newest(connection, everything, query.limit)
    hidden = sorted({*keys} - {*seen(connection, keys, query.task)})
    if hidden:
        count = f"{len(hidden)} record{'s' * (len(hidden) > 1)}"
        yield note(count, rows.tasks_of(connection, hidden).values())


def note(count: str, owners: Iterable[str]) -> str:
    """That so much was left out, whose that is, and how to see it."""
    named = _listed(owners)
    return f"{count} of other tasks left out{f' ({named})' if named else ''}; --all-tasks shows everything"


def _listed(names: Iterable[str]) -> str:
    """The names, each once; of many, the first ones."""
    found = sorted(set(names))
    return ", ".join([*found[:_NAMED], *([f"{len(found) - _NAMED} more"] if len(found) > _NAMED else [])])
