"""What a task does not get to see, and how that is told: in one line, with the tasks it belongs to.

Which records those are is decided by the index (`store/lookup.py`, `seen_by`); here it is only asked. Who searches
within a task is told when records of other tasks would have been among the hits, so that nobody takes a silence for
ignorance; for that the question is asked once more without the task, by its words alone. Who has an id may see its
record, and is told whose it is. `tests/app/test_visibility.py` proves it.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ralph.model import ids
from ralph.model.query import Hit, Query
from ralph.search import rank as ranking
from ralph.store import lookup, rows

_NAMED = 5
"""So many tasks are named in a note."""


def seen(connection: sqlite3.Connection, keys: Sequence[int], task: str) -> list[int]:
    """Those of some keys whose records a task may see; without a task, all of them."""
    passing = lookup.passing(connection, keys, lookup.sight(rows.safe(task))) if task else keys
    return [key for key in keys if key in passing]


def strangers(connection: sqlite3.Connection, hits: Sequence[Hit], task: str) -> Iterator[str]:
    """A note for each hit that was asked for by its id and is not for this task to see otherwise."""
    asked = [hit.record.id for hit in hits if task and hit.why == ("id",)]
    for name in dict.fromkeys(asked):
        keys = rows.keys_of(connection, name)
        hidden = sorted({*keys} - {*seen(connection, keys, task)})
        if hidden:
            owners = _listed(rows.tasks_of(connection, hidden).values())
            yield f"{name} belongs to another task{f', {owners}' if owners else ''}"


def left_out(connection: sqlite3.Connection, query: Query) -> Iterator[str]:
    """A note when records of other tasks would be among the hits: how many, and how to see them."""
    text = query.text.strip()
    if not query.task or rows.key_of(connection, text) is not None or ids.date_of(text):
        return
    everything = replace(query, task="")
    if text:
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
