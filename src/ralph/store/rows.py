"""Every SELECT of the product over the index: keys and scores out, records by key.

Filters are conditions on the row behind a full-text match, checked row by row while SQLite walks
the matches, so that a filter never costs more than the matches themselves.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ralph.formats import jsonl
from ralph.model.query import Query
from ralph.model.record import Family, Record, Scope, Status
from ralph.store.index import FAMILIES, TABLES

_TEXT = {Family.MEMORY: "text", Family.OBSERVATION: "content", Family.JOURNAL: "notes"}
_KIND = {Family.MEMORY: "kind", Family.OBSERVATION: "type", Family.JOURNAL: "outcome"}
_MOST = 900
"""SQLite takes a limited number of values in one statement."""


def frequencies(connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, int]:
    """In how many records each term occurs; those that occur nowhere are left out."""
    found: dict[str, int] = {}
    for term in terms:
        row = connection.execute("SELECT doc FROM search_terms WHERE term = ?", (term,)).fetchone()
        if row is not None:
            found[term] = row[0]
    return found


def terms_between(connection: sqlite3.Connection, first: str, last: str, limit: int) -> list[tuple[str, int]]:
    """Indexed terms in alphabetical order, with the number of records that hold them."""
    sql = "SELECT term, doc FROM search_terms WHERE term >= ? AND term < ? LIMIT ?"
    return [(row[0], row[1]) for row in connection.execute(sql, (first, last, limit))]


def size(connection: sqlite3.Connection) -> int:
    """About how many records there are; exact unless some were deleted."""
    highest = (
        connection.execute(f"SELECT coalesce(max({key}), 0) FROM {table}").fetchone()[0]  # noqa: S608
        for table, key in TABLES.values()
    )
    return sum(int(key) // len(FAMILIES) for key in highest)


def matching(
    connection: sqlite3.Connection,
    match: str,
    weights: Sequence[float],
    limit: int,
    query: Query | None = None,
) -> list[tuple[int, float]]:
    """The best full-text matches with their BM25 scores, higher is better."""
    condition, values = _condition(query) if query is not None else ("", [])
    numbers = ", ".join(str(float(weight)) for weight in weights)
    sql = (
        f"SELECT rowid, -bm25(search, {numbers}) AS score FROM search "  # noqa: S608  (numbers of our own)
        f"WHERE search MATCH ?{condition} ORDER BY score DESC, rowid DESC LIMIT ?"
    )
    return [(row[0], row[1]) for row in connection.execute(sql, (match, *values, limit))]


def terms_with(connection: sqlite3.Connection, part: str, limit: int) -> list[tuple[str, int]]:
    """Indexed terms that contain some letters, wherever; looks at the whole vocabulary."""
    sql = "SELECT term, doc FROM search_terms WHERE instr(term, ?) LIMIT ?"
    return [(row[0], row[1]) for row in connection.execute(sql, (part, limit))]


def places(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Where records stand: the file's name relative to the project, and the line."""
    found: dict[int, tuple[str, int]] = {}
    for family in FAMILIES:
        table, key = TABLES[family]
        for part in _parts([each for each in keys if FAMILIES[each % len(FAMILIES)] is family]):
            marks = ", ".join("?" * len(part))
            sql = (
                f"SELECT t.{key} AS key, s.path, t.line FROM {table} t JOIN sources s ON s.key = t.source "  # noqa: S608
                f"WHERE t.{key} IN ({marks})"
            )
            found.update((row["key"], (row["path"], row["line"])) for row in connection.execute(sql, part))
    return found


def newest(connection: sqlite3.Connection, query: Query, limit: int | None) -> list[int]:
    """The keys of the newest records that pass the filters."""
    parts, values = [], []
    for family in query.families or FAMILIES:
        table, key = TABLES[family]
        wheres, more = _wheres(family, query)
        values += more
        parts.append(f"SELECT {key} AS key, created_at FROM {table} WHERE {' AND '.join(wheres) or '1'}")  # noqa: S608
    sql = " UNION ALL ".join(parts) + " ORDER BY created_at DESC, key DESC LIMIT ?"
    return [row[0] for row in connection.execute(sql, (*values, -1 if limit is None else limit))]


def records(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Record]:
    """The records behind keys of any family."""
    found: dict[int, Record] = {}
    for family in FAMILIES:
        own = [key for key in keys if FAMILIES[key % len(FAMILIES)] is family]
        for part in _parts(own):
            table, key = TABLES[family]
            marks = ", ".join("?" * len(part))
            sql = f"SELECT {key} AS key, {_TEXT[family]} AS text, metadata FROM {table} WHERE {key} IN ({marks})"  # noqa: S608
            for row in connection.execute(sql, part):
                found[row["key"]] = replace(jsonl.decode(row["metadata"]), text=row["text"])
    return found


def key_of(connection: sqlite3.Connection, record_id: str) -> int | None:
    """The key of the record with this id, in whatever family it is."""
    for family in FAMILIES:
        table, key = TABLES[family]
        column = "record_id" if family is Family.JOURNAL else "id"
        row = connection.execute(f"SELECT {key} FROM {table} WHERE {column} = ?", (record_id,)).fetchone()  # noqa: S608
        if row is not None:
            return int(row[0])
    return None


def neighbours(connection: sqlite3.Connection, keys: Sequence[int], reach: int) -> Iterator[tuple[int, int, int]]:
    """For observations: key, the key of another one of the same session within reach, and how far it is."""
    own = [key for key in keys if FAMILIES[key % len(FAMILIES)] is Family.OBSERVATION]
    for part in _parts(own):
        marks = ", ".join("?" * len(part))
        sql = (
            "SELECT a.key, b.key, b.seq - a.seq FROM observations a JOIN observations b "  # noqa: S608
            "ON b.session_id = a.session_id AND b.seq BETWEEN a.seq - ? AND a.seq + ? AND b.key <> a.key "
            f"WHERE a.key IN ({marks})"
        )
        yield from ((row[0], row[1], row[2]) for row in connection.execute(sql, (reach, reach, *part)))


def beside(connection: sqlite3.Connection, record: Record, reach: int) -> list[int]:
    """The keys of the records of the same family just before and after a record in time."""
    table, key = TABLES[record.family]
    found: list[int] = []
    for relation, order in (("<", "DESC"), (">", "ASC")):
        sql = (
            f"SELECT {key} FROM {table} WHERE created_at {relation} ? AND created_at <> '' "  # noqa: S608
            f"ORDER BY created_at {order}, {key} {order} LIMIT ?"
        )
        found += [row[0] for row in connection.execute(sql, (record.created_at, reach))]
    return found


def digests(connection: sqlite3.Connection, keys: Sequence[int] | None = None) -> dict[int, str]:
    """The content fingerprints of all records, or of some."""
    found: dict[int, str] = {}
    for family in FAMILIES:
        table, key = TABLES[family]
        sql = f"SELECT {key} AS key, digest FROM {table}"  # noqa: S608  (our own names)
        if keys is None:
            found.update((row["key"], row["digest"]) for row in connection.execute(sql))
            continue
        for part in _parts([each for each in keys if FAMILIES[each % len(FAMILIES)] is family]):
            marks = ", ".join("?" * len(part))
            rows = connection.execute(f"{sql} WHERE {key} IN ({marks})", part)
            found.update((row["key"], row["digest"]) for row in rows)
    return found


def counts(connection: sqlite3.Connection) -> dict[str, int]:
    """How many rows each table has."""
    tables = ("sources", "records", "observations", "journal", "sessions", "loop_runs", "tasks")
    return {
        table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608
        for table in tables
    }


def _condition(query: Query) -> tuple[str, list[object]]:
    """The filters of a query as a condition on `search.rowid`."""
    families = query.families or FAMILIES
    parts, values, plain = [], [], True
    for family in families:
        wheres, more = _wheres(family, query)
        place = FAMILIES.index(family)
        if not wheres:
            parts.append(f"rowid % {len(FAMILIES)} = {place}")
            continue
        plain = False
        table, key = TABLES[family]
        test = f"SELECT 1 FROM {table} WHERE {key} = search.rowid AND {' AND '.join(wheres)}"  # noqa: S608
        parts.append(f"(rowid % {len(FAMILIES)} = {place} AND EXISTS ({test}))")
        values += more
    if plain and len(families) == len(FAMILIES):
        return "", []
    return f" AND ({' OR '.join(parts)})", values


def _wheres(family: Family, query: Query) -> tuple[list[str], list[object]]:
    wheres, values = [], []
    if query.kinds:
        wheres.append(f"{_KIND[family]} IN ({', '.join('?' * len(query.kinds))})")
        values += [kind.value for kind in query.kinds]
    if query.since:
        wheres.append("created_at >= ?")
        values.append(query.since)
    if query.until:
        wheres.append("substr(created_at, 1, ?) <= ?")
        values += [len(query.until), query.until]
    if query.tags:
        place = "tags" if family is Family.MEMORY else "json_extract(metadata, '$.tags')"
        marks = ", ".join("?" * len(query.tags))
        wheres.append(f"EXISTS (SELECT 1 FROM json_each({place}) WHERE lower(value) IN ({marks}))")  # noqa: S608
        values += [tag.lower() for tag in query.tags]
    if query.sources:
        marks = ", ".join("?" * len(query.sources))
        wheres.append(f"source IN (SELECT key FROM sources WHERE path IN ({marks}))")  # noqa: S608
        values += query.sources
    if query.scope is not None:
        wheres.append("coalesce(json_extract(metadata, '$.scope'), ?) = ?")
        values += [Scope.PROJECT.value, query.scope.value]
    if query.project and family is Family.OBSERVATION:
        test = "SELECT 1 FROM sessions s WHERE s.id = session_id AND (s.project_path = ? OR s.project_path LIKE ? ESCAPE '\\')"
        wheres.append(f"EXISTS ({test})")
        escaped = query.project.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        values += [query.project, escaped.rstrip("/") + "/%"]
    if family is Family.MEMORY:
        wheres.append("status <> ?")
        values.append(Status.RETIRED.value)
    return wheres, values


def _parts(keys: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(keys), _MOST):
        yield list(keys[start : start + _MOST])
