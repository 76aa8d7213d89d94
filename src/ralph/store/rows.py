"""Every SELECT of the product over the index: keys and scores out, records by key.

Filters are conditions on the row behind a full-text match, checked row by row while SQLite walks
the matches, so that a filter never costs more than the matches themselves.
"""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ralph.formats import jsonl
from ralph.model import ids
from ralph.model.query import Query
from ralph.model.record import Family, Record, Scope, Status

Terms = Callable[[str], str]

FAMILIES = (Family.MEMORY, Family.OBSERVATION, Family.JOURNAL)
"""A row's family is the one at `key % 3`."""

BEARER = "~"
"""Between an id and the number of its second, third ... bearer."""

TABLES = {
    Family.MEMORY: ("records", "key"),
    Family.OBSERVATION: ("observations", "key"),
    Family.JOURNAL: ("journal", "id"),
}
"""Where each family's rows are, and the column of their key."""

_TEXT = {Family.MEMORY: "text", Family.OBSERVATION: "content", Family.JOURNAL: "notes"}
_KIND = {Family.MEMORY: "kind", Family.OBSERVATION: "type", Family.JOURNAL: "outcome"}
_OURS = ("key", "id", "record_id", "source", "seq")
_MOST = 900
"""SQLite takes a limited number of values in one statement."""


def stored(
    connection: sqlite3.Connection, family: Family, where: str, values: tuple[object, ...]
) -> Iterator[tuple[int, Record]]:
    """The records of a family that fulfil a condition, with their keys."""
    table, key = TABLES[family]
    sql = f"SELECT {key} AS key, {_TEXT[family]} AS text, metadata FROM {table} WHERE {where}"  # noqa: S608
    for row in connection.execute(sql, values).fetchall():
        yield row["key"], replace(jsonl.decode(row["metadata"]), text=row["text"])


def search_columns(record: Record, terms: Terms) -> tuple[str, str, str, str]:
    """What the full-text index holds of a record; a function of the record alone, so it can be taken back."""
    minted = ids.ID.fullmatch(record.id)
    named = f"{minted['unix']} {minted['tail'].lower()} {record.id.replace('-', '').lower()} " if minted else ""
    paths_named = named + terms(" ".join(record.origin.files))
    return terms(record.title), terms(" ".join(record.tags)), terms(record.text), paths_named


def safe(text: str) -> str:
    """Text that SQLite can hold: bytes that were no UTF-8 become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def digest_of(record: Record) -> str:
    """The content's fingerprint, by which vectors are kept."""
    words = safe(f"{record.title}\n{record.text}").encode("utf-8")
    return hashlib.sha1(words, usedforsecurity=False).hexdigest()


def plain(value: object) -> str | int | float | None:
    """What a column can hold of somebody's JSON: lists and objects as text, a number beyond all bounds not at all."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, int):
        return int(value) if abs(value) < 2**63 else None
    return value if value is None or isinstance(value, float) else safe(json.dumps(value, ensure_ascii=False))


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
    """How many records there are."""
    return int(connection.execute("SELECT count(*) FROM search_docsize").fetchone()[0])


def count_matching(connection: sqlite3.Connection, match: str, query: Query) -> int:
    """How many records a full-text match has in all."""
    condition, values = _condition(query)
    sql = f"SELECT count(*) FROM search WHERE search MATCH ?{condition}"  # noqa: S608  (our own names)
    return int(connection.execute(sql, (match, *values)).fetchone()[0])


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
        for part in _parts(_of(keys, family)):
            marks = ", ".join("?" * len(part))
            sql = (
                f"SELECT t.{key} AS key, s.path, t.line FROM {table} t JOIN sources s ON s.key = t.source "  # noqa: S608
                f"WHERE t.{key} IN ({marks})"
            )
            found.update((row["key"], (row["path"], row["line"])) for row in connection.execute(sql, part))
    return found


def newest(connection: sqlite3.Connection, query: Query, limit: int | None) -> list[int]:
    """The keys of the newest records that pass the filters; of one time, the last in its file."""
    parts, values = _selected(query, "{key} AS key, created_at, (SELECT path FROM sources WHERE key = source) AS place")
    sql = " UNION ALL ".join(parts) + " ORDER BY created_at DESC, place DESC, key DESC LIMIT ?"
    return [row[0] for row in connection.execute(sql, (*values, -1 if limit is None else limit))]


def count(connection: sqlite3.Connection, query: Query) -> int:
    """How many records pass the filters."""
    parts, values = _selected(query, "count(*) AS number")
    sql = f"SELECT sum(number) FROM ({' UNION ALL '.join(parts)})"  # noqa: S608  (our own names)
    return int(connection.execute(sql, values).fetchone()[0])


def passing(connection: sqlite3.Connection, keys: Sequence[int], query: Query) -> set[int]:
    """Those of some keys whose records pass the filters."""
    found: set[int] = set()
    for family in query.families or FAMILIES:
        table, key = TABLES[family]
        wheres, values = _wheres(family, query)
        for part in _parts(_of(keys, family)):
            tests = " AND ".join([f"{key} IN ({_marks(part)})", *wheres])
            sql = f"SELECT {key} FROM {table} WHERE {tests}"  # noqa: S608  (our own names)
            found.update(row[0] for row in connection.execute(sql, (*part, *values)))
    return found


def standing(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, tuple[str, str, int]]:
    """Time, file and place of records: an order that an index made anew gives again, as its keys do not."""
    found: dict[int, tuple[str, str, int]] = {}
    for family in FAMILIES:
        table, key = TABLES[family]
        for part in _parts(_of(keys, family)):
            sql = (
                f"SELECT t.{key}, t.created_at, s.path FROM {table} t JOIN sources s ON s.key = t.source "  # noqa: S608
                f"WHERE t.{key} IN ({_marks(part)})"
            )
            found.update((row[0], (row[1], row[2], row[0])) for row in connection.execute(sql, part))
    return found


def records(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Record]:
    """The records behind keys of any family."""
    found: dict[int, Record] = {}
    for family in FAMILIES:
        for part in _parts(_of(keys, family)):
            table, key = TABLES[family]
            marks = ", ".join("?" * len(part))
            sql = f"SELECT {key} AS key, {_TEXT[family]} AS text, metadata FROM {table} WHERE {key} IN ({marks})"  # noqa: S608
            for row in connection.execute(sql, part):
                found[row["key"]] = replace(jsonl.decode(row["metadata"]), text=row["text"])
    return found


def key_of(connection: sqlite3.Connection, record_id: str) -> int | None:
    """The key of the first record with this id, in whatever family it is."""
    return next(iter(keys_of(connection, record_id)), None)


def keys_of(connection: sqlite3.Connection, record_id: str, query: Query | None = None) -> list[int]:
    """The keys of all records with this id that pass the filters; the first bearer first."""
    found: list[int] = []
    name = safe(record_id)
    for family in (query.families if query is not None else ()) or FAMILIES:
        table, key = TABLES[family]
        column = "record_id" if family is Family.JOURNAL else "id"
        wheres, values = _wheres(family, query) if query is not None else ([], [])
        tests = " AND ".join([f"({column} = ? OR ({column} > ? AND {column} < ?))", *wheres])
        sql = f"SELECT {key}, metadata FROM {table} WHERE {tests} ORDER BY length({column}), {column}"  # noqa: S608
        for row in connection.execute(sql, (name, name + BEARER, name + chr(ord(BEARER) + 1), *values)):
            if jsonl.decode(row["metadata"]).id == name:  # somebody's own id may hold a `~`
                found.append(int(row[0]))
    return found


def neighbours(connection: sqlite3.Connection, keys: Sequence[int], reach: int) -> Iterator[tuple[int, int, int]]:
    """For observations: key, the key of another one of the same session within reach, and how far it is."""
    for part in _parts(_of(keys, Family.OBSERVATION)):
        marks = ", ".join("?" * len(part))
        sql = (
            "SELECT a.key, b.key, b.seq - a.seq FROM observations a JOIN observations b "  # noqa: S608
            "ON b.session_id = a.session_id AND b.seq BETWEEN a.seq - ? AND a.seq + ? AND b.key <> a.key "
            f"WHERE a.key IN ({marks})"
        )
        yield from ((row[0], row[1], row[2]) for row in connection.execute(sql, (reach, reach, *part)))


def beside(connection: sqlite3.Connection, number: int, record: Record, reach: int) -> list[int]:
    """The keys of the records of the same family just before and after a record in time."""
    table, key = TABLES[record.family]
    wheres, values = _wheres(record.family, Query())
    found: list[int] = []
    for relation, order in (("<", "DESC"), (">", "ASC")):
        tests = " AND ".join([f"(created_at, {key}) {relation} (?, ?)", "created_at <> ''", *wheres])
        sql = f"SELECT {key} FROM {table} WHERE {tests} ORDER BY created_at {order}, {key} {order} LIMIT ?"  # noqa: S608
        found += [row[0] for row in connection.execute(sql, (safe(record.created_at), number, *values, reach))]
    return found


def rows_of(connection: sqlite3.Connection, source: int) -> Iterator[tuple[int, str, tuple[object, ...]]]:
    """Every row that a source gave: its key, its id, and what it says; ids and numbers of our own are left out."""
    for family in FAMILIES:
        table, key = TABLES[family]
        for row in connection.execute(f"SELECT * FROM {table} WHERE source = ? ORDER BY {key}", (source,)):  # noqa: S608
            said = tuple(row[name] for name in row.keys() if name not in _OURS)  # noqa: SIM118  (a Row is no mapping)
            yield row[key], json.loads(row["metadata"])["id"], said


def fingerprints(connection: sqlite3.Connection) -> dict[int, int]:
    """What the full-text index holds of each record, as one number."""
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances USING fts5vocab(main, search, 'instance')")
    found: dict[int, int] = {}
    for term, doc, column, offset in connection.execute("SELECT term, doc, col, offset FROM temp.instances"):
        found[doc] = found.get(doc, 0) + hash((term, column, offset))
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
        for part in _parts(_of(keys, family)):
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


def _selected(query: Query, columns: str) -> tuple[list[str], list[object]]:
    """For each family the selection of what passes the filters."""
    parts, values = [], []
    for family in query.families or FAMILIES:
        table, key = TABLES[family]
        wheres, more = _wheres(family, query)
        values += more
        parts.append(f"SELECT {columns.format(key=key)} FROM {table} WHERE {' AND '.join(wheres) or '1'}")  # noqa: S608
    return parts, values


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
    wheres: list[str] = []
    values: list[object] = []
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
        folder = query.project.rstrip("/")
        test = "s.id = observations.session_id AND (s.project_path = ? OR substr(s.project_path, 1, ?) = ?)"
        wheres.append(f"EXISTS (SELECT 1 FROM sessions s WHERE {test})")  # noqa: S608  (our own names)
        values += [folder, len(folder) + 1, folder + "/"]
    if family is Family.MEMORY:
        wheres.append("status <> ?")
        values.append(Status.RETIRED.value)
    return wheres, [safe(value) if isinstance(value, str) else value for value in values]


def _of(keys: Sequence[int], family: Family) -> list[int]:
    return [key for key in keys if FAMILIES[key % len(FAMILIES)] is family]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _parts(keys: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(keys), _MOST):
        yield list(keys[start : start + _MOST])
