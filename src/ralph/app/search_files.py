"""The same search within some files only: `ralph memory search`, `ralph guardrails search`.

A hit is given with its place, so that whoever found a memory can go there. `tests/app/test_search.py` and
`tests/app/test_entries.py` prove it.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.app import index, outdated
from ralph.model import ids
from ralph.model.query import Query, SearchResult
from ralph.model.record import Family, Record
from ralph.search import engine
from ralph.store import rows
from ralph.store.library import Stored
from ralph.store.sources import name_of


def in_files(root: Path, places: Sequence[Path], query: Query) -> tuple[SearchResult, list[Stored]]:
    """The same search within some files, and where each hit stands in them."""
    names = {name_of(place, root): place for place in places}
    query = replace(query, sources=tuple(names), families=(Family.MEMORY,))

    def question(connection: sqlite3.Connection) -> tuple[SearchResult, list[Stored]]:
        found = engine.search(connection, query, today=ids.now().date())
        past = outdated.notes(connection, [hit.record for hit in found.hits])
        found = replace(found, hits=outdated.ranked(found.hits, past))
        taken: set[int] = set()
        return found, [_place(connection, hit.record, query, names, taken) for hit in found.hits]

    return index.ask(root, question)


def _place(
    connection: sqlite3.Connection, record: Record, query: Query, names: Mapping[str, Path], taken: set[int]
) -> Stored:
    """Where a hit stands: of several records with one id, each is given once, those with the same words first."""
    keys = [key for key in rows.keys_of(connection, record.id, replace(query, text="")) if key not in taken]
    held = rows.records(connection, keys)
    key = next((key for key in keys if held.get(key) == record), keys[0])
    taken.add(key)
    name, line_number = rows.places(connection, [key])[key]
    return Stored(record, names[name], line_number)
