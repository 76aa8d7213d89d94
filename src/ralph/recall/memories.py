"""Search the entries in all curated memory files, best first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.core import ids
from ralph.core.record import Family, Query, SearchResult
from ralph.memory.reading import MEMORIES, collection_names, list_entries
from ralph.recall import outdated
from ralph.search import engine, index, meaning
from ralph.storage import queries
from ralph.storage.library import NAMES, Library, Stored
from ralph.storage.sources import source_names

if TYPE_CHECKING:
    import sqlite3

    from ralph.core.settings import Embedding
    from ralph.search import candidates

_MAX_COUNTED_ELSEWHERE = 20  # matches in a file that was not searched


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
    path_of = _paths_by_source(root, collection_names(in_))
    if not path_of:
        return SearchResult((), 0), []
    query = query._replace(sources=tuple(path_of), families=(Family.MEMORY,))

    def find_hits(
        connection: sqlite3.Connection, by_meaning: candidates.Meaning | None
    ) -> SearchResult:
        today = ids.now().date()
        if not as_of:
            return engine.search(connection, query, today=today, meaning=by_meaning)
        unlimited = query._replace(limit=None)
        result = engine.search(connection, unlimited, today=today, meaning=by_meaning)
        valid = {stored.record.id for stored in list_entries(root, in_=in_, as_of=as_of)}
        hits = tuple(hit for hit in result.hits if hit.record.id in valid)
        return result._replace(hits=hits[: query.limit], total=len(hits))

    def ask(connection: sqlite3.Connection) -> tuple[SearchResult, list[Stored]]:
        by_meaning = None
        if embedding is not None:
            by_meaning = meaning.meaning_for(root, embedding, connection, query, warn)
        result = find_hits(connection, by_meaning)
        notes = outdated.describe_outdated(connection, [hit.record for hit in result.hits])
        result = result._replace(hits=outdated.demote_outdated(result.hits, notes))
        return result, _locate(connection, result, query, path_of)

    return index.ask(root, ask)


def count_elsewhere(root: Path, query: Query, in_: Sequence[str] = MEMORIES) -> dict[str, int]:
    """Count the certain matches in the memory files that were not searched, by collection.

    Collections without a match are left out. Only words are compared.
    """
    if not query.text.strip():
        return {}
    searched = collection_names(in_)
    sources_of = {}
    for name in NAMES:
        if name not in searched:
            sources_of[name] = tuple(_paths_by_source(root, [name]))

    def count(connection: sqlite3.Connection) -> dict[str, int]:
        counts = {}
        for name, sources in sources_of.items():
            if not sources:
                continue
            elsewhere = query._replace(
                sources=sources, families=(Family.MEMORY,), limit=_MAX_COUNTED_ELSEWHERE
            )
            result = engine.search(connection, elsewhere, today=ids.now().date())
            certain = sum(not hit.weak for hit in result.hits)
            if certain:
                counts[name] = certain
        return counts

    return index.ask(root, count)


def describe_elsewhere(counts: Mapping[str, int]) -> str:
    """Describe matches in other memory files, as in `more in guardrails (1), knowledge (2)`."""
    return "more in " + ", ".join(f"{name} ({count})" for name, count in counts.items())


def _paths_by_source(root: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return the files of some collections, by their names in the index."""
    library = Library(root)
    name_of = source_names(root)
    path_of: dict[str, Path] = {}
    for name in names:
        for path in library.files_of(library.collection(name)):
            path_of[name_of(path)] = path
    return path_of


def _locate(
    connection: sqlite3.Connection,
    result: SearchResult,
    query: Query,
    path_of: Mapping[str, Path],
) -> list[Stored]:
    """Return where each hit is stored. Several records may have the same id."""
    stored: dict[int, Stored] = {}  # by key, so that each row is used once
    any_text = query._replace(text="")
    for hit in result.hits:
        keys = queries.keys_of(connection, hit.record.id, any_text)
        records = queries.records(connection, [key for key in keys if key not in stored])
        same = [key for key, record in records.items() if record == hit.record]
        key = same[0] if same else next(iter(records))
        name, line = queries.locations(connection, [key])[key]
        stored[key] = Stored(hit.record, path_of[name], line)
    return list(stored.values())
