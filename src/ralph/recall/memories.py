"""Search the entries in all curated memory files, best first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.core import ids
from ralph.core.record import Family, Query, SearchResult
from ralph.memory.reading import MEMORIES, collection_names, list_entries
from ralph.recall import outdated
from ralph.search import engine, index, meaning
from ralph.storage import queries
from ralph.storage.library import Library, Stored
from ralph.storage.sources import source_names

if TYPE_CHECKING:
    import sqlite3

    from ralph.core.settings import Embedding
    from ralph.search import candidates


def search(
    root: Path,
    query: Query,
    *,
    in_: Sequence[str] = MEMORIES,
    as_of: str = "",
    embedding: Embedding | None = None,
    warn: Callable[[str], None] | None = None,
) -> tuple[SearchResult, list[Stored]]:
    """Return the best entries for a query, and where each is stored.

    Archived entries are left out. With `as_of`, so are entries that were not valid on that day.
    """
    library = Library(root)
    name_of = source_names(root)
    path_of: dict[str, Path] = {}
    for collection_name in collection_names(in_):
        for path in library.files_of(library.collection(collection_name)):
            path_of[name_of(path)] = path
    if not path_of:
        return SearchResult((), 0), []
    query = replace(query, sources=tuple(path_of), families=(Family.MEMORY,))

    def find_hits(
        connection: sqlite3.Connection, by_meaning: candidates.Meaning | None
    ) -> SearchResult:
        today = ids.now().date()
        if not as_of:
            return engine.search(connection, query, today=today, meaning=by_meaning)
        unlimited = replace(query, limit=None)
        result = engine.search(connection, unlimited, today=today, meaning=by_meaning)
        valid = {stored.record.id for stored in list_entries(root, in_=in_, as_of=as_of)}
        hits = tuple(hit for hit in result.hits if hit.record.id in valid)
        return replace(result, hits=hits[: query.limit], total=len(hits))

    def ask(connection: sqlite3.Connection) -> tuple[SearchResult, list[Stored]]:
        by_meaning = None
        if embedding is not None:
            by_meaning = meaning.meaning_for(root, embedding, connection, query, warn)
        result = find_hits(connection, by_meaning)
        notes = outdated.describe_outdated(connection, [hit.record for hit in result.hits])
        result = replace(result, hits=outdated.demote_outdated(result.hits, notes))
        return result, _locate(connection, result, query, path_of)

    return index.ask(root, ask)


def _locate(
    connection: sqlite3.Connection,
    result: SearchResult,
    query: Query,
    path_of: Mapping[str, Path],
) -> list[Stored]:
    """Return where each hit is stored. Several records may have the same id."""
    stored: dict[int, Stored] = {}  # by key, so that each row is used once
    any_text = replace(query, text="")
    for hit in result.hits:
        keys = queries.keys_of(connection, hit.record.id, any_text)
        records = queries.records(connection, [key for key in keys if key not in stored])
        same = [key for key, record in records.items() if record == hit.record]
        key = same[0] if same else next(iter(records))
        name, line = queries.locations(connection, [key])[key]
        stored[key] = Stored(hit.record, path_of[name], line)
    return list(stored.values())
