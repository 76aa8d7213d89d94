"""Query the records in the index, and convert between rows and records.

The queries that the ranking uses are in `lookup.py`. Members of a record that have no column of
their own are stored in `metadata`, a JSON object that contains only what differs from the family's
usual values.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ralph.core import ids
from ralph.core.errors import Unreadable
from ralph.core.record import (
    KINDS,
    NO_EXTRA,
    NOWHERE,
    USUAL,
    Family,
    Link,
    Origin,
    Query,
    Record,
    Scope,
    Status,
)
from ralph.storage import lookup
from ralph.storage.lookup import FAMILIES as FAMILIES  # noqa: PLC0414 - imported from here as well
from ralph.storage.lookup import TABLES, keys_of_family

Terms = Callable[[str], str]
"""Returns the search terms in a string, separated by spaces."""
Row = tuple[object, ...]

COLUMNS = {
    Family.MEMORY: (
        "key, id AS record_id, kind, title, text, tags, files, scope, dated, metadata, status"
    ),
    Family.OBSERVATION: (
        "key, id AS record_id, type AS kind, title, content AS text, tags, files, scope, "
        "created_at AS dated, metadata, session_id"
    ),
    Family.JOURNAL: (
        "id AS key, record_id, outcome AS kind, title, notes AS text, tags, "
        "files_modified AS files, scope, created_at AS dated, metadata, run_id, iteration, task_id"
    ),
}
"""The columns of a record, under the same names in every family.

An alias must not be the name of another column in the table, because a query may end in
`ORDER BY id`.
"""

ORIGIN = ("session", "run", "iteration", "task", "agent", "commit")
_ORIGIN_IN_METADATA = {
    Family.MEMORY: ORIGIN,
    Family.OBSERVATION: ("run", "iteration", "task", "agent", "commit"),
    Family.JOURNAL: ("session", "agent", "commit"),
}
"""The members of a record's origin that have no column."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)
"""Infinite numbers are refused, because SQLite parses this JSON too and does not accept them."""
_INTEGER_LIMIT = 2**63  # SQLite stores 64-bit integers
_NO_LIMIT = -1
_START_FRACTION = (
    10  # a session that is too long is cut to a tenth from its start, the rest from its end
)
_NOT_COMPARED = ("key", "id", "record_id", "source", "seq", "metadata")

_TASK_OF_FOLDER = (
    "(SELECT k.id FROM sources s JOIN sources j ON j.path = "
    f"{lookup.FOLDER.replace('path', 's.path')} || 'task.json' JOIN tasks k ON k.source = j.key "
    "WHERE s.key = {table}.source)"
)
_TASK_OF_SESSION = (
    "(SELECT max(s.task_id) FROM sessions s WHERE s.id = observations.session_id "
    "OR s.session_id = observations.session_id)"
)
_TASKS_OF_RECORDS = {
    Family.MEMORY: (
        f"coalesce(nullif({lookup.ORIGIN_TASK}, ''), {_TASK_OF_FOLDER.format(table='records')}, '')"
    ),
    Family.OBSERVATION: f"coalesce(nullif({lookup.ORIGIN_TASK}, ''), {_TASK_OF_SESSION}, '')",
    Family.JOURNAL: f"coalesce(nullif(task_id, ''), {_TASK_OF_FOLDER.format(table='journal')}, '')",
}
"""SQL expressions for a record's task, taken from its origin, its session or its folder."""


# --- rows to records ----------------------------------------------------------------------------


def record_of(family: Family, row: sqlite3.Row) -> Record:
    """Turn a row with the family's `COLUMNS` into a record.

    Raises Unreadable if the row is damaged.
    """
    try:
        return _decode_record(family, row)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(
            "a row of the index is damaged", hint="`ralph index rebuild` rebuilds the index"
        ) from error


def _decode_record(family: Family, row: sqlite3.Row) -> Record:
    metadata = _text_in(row, "metadata")
    rest = json.loads(metadata) if metadata else {}
    usual_status, usual_scope, _ = USUAL[family]
    if family is Family.MEMORY:
        status = Status(_text_in(row, "status"))
    else:
        status = Status(rest.get("status", usual_status))
    scope = _text_in(row, "scope")
    return Record(
        id=_text_in(row, "record_id"),
        kind=KINDS[family][_text_in(row, "kind")],
        text=_text_in(row, "text"),
        family=family,
        label=rest.get("label", ""),
        title=_text_in(row, "title"),
        tags=_list_in(row, "tags"),
        status=status,
        scope=Scope(scope) if scope else usual_scope,
        origin=_decode_origin(family, row, rest),
        created_at=_text_in(row, "dated"),
        updated_at=rest.get("updated_at", ""),
        valid_until=rest.get("valid_until", ""),
        links=tuple(Link(relation, target) for relation, target in rest.get("links", ())),
        extra=rest.get("extra", NO_EXTRA),
    )


def _decode_origin(family: Family, row: sqlite3.Row, rest: Mapping[str, Any]) -> Origin:
    members: dict[str, Any] = {}
    if family is Family.JOURNAL:
        members["run"] = _text_in(row, "run_id")
        members["iteration"] = row["iteration"]
        members["task"] = row["task_id"] or ""
    for name in ORIGIN:
        if name in rest:
            members[name] = rest[name]
    if family is Family.OBSERVATION:
        members["session"] = _text_in(row, "session_id")
    _, _, usual_author = USUAL[family]
    author = rest.get("by", usual_author)
    files = _list_in(row, "files")
    if not author and not files and not members:
        return NOWHERE
    return Origin(by=author, files=files, **members)


def _text_in(row: sqlite3.Row, column: str) -> str:
    value = row[column]
    if not isinstance(value, str):
        raise TypeError
    return value


def _list_in(row: sqlite3.Row, column: str) -> tuple[str, ...]:
    text = _text_in(row, column)
    if not text:
        return ()
    return tuple(json.loads(text))


# --- records to rows ----------------------------------------------------------------------------


def safe(text: str) -> str:
    """Return text that SQLite can store. Bytes that were not UTF-8 become question marks."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def digest_of(record: Record) -> str:
    """Return the digest of a record's title and text, under which its vectors are cached."""
    content = safe(f"{record.title}\n{record.text}").encode("utf-8")
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def row_values(record: Record, position: int, *, is_order: bool) -> Row:
    """Return the values of a record's row that follow key, id, source and line.

    `position` is the position of an observation in its session.
    """
    metadata = safe(_metadata(record, is_order=is_order))
    if record.family is Family.MEMORY:
        return _memory_values(record, metadata)
    if record.family is Family.OBSERVATION:
        return _observation_values(record, position, metadata)
    return _journal_values(record, metadata)


def _memory_values(record: Record, metadata: str) -> Row:
    return (
        record.kind.value,
        safe(record.title),
        safe(record.text),
        safe(list_text(record.tags)),
        safe(list_text(record.origin.files)),
        record.status.value,
        record.scope.value,
        safe(record.added_at),
        safe(record.created_at),
        metadata,
        _digest_value(record),
    )


def _observation_values(record: Record, position: int, metadata: str) -> Row:
    return (
        safe(record.origin.session),
        position,
        record.kind.value,
        safe(record.title),
        safe(record.text),
        safe(list_text(record.tags)),
        safe(list_text(record.origin.files)),
        _scope_value(record),
        metadata,
        safe(record.created_at),
        _digest_value(record),
    )


def _journal_values(record: Record, metadata: str) -> Row:
    origin = record.origin
    extra = record.extra
    return (
        safe(origin.run),
        column_value(origin.iteration),
        safe(origin.task) or None,
        column_value(extra.get("feature")),
        record.kind.value,
        column_value(extra.get("model")),
        column_value(extra.get("duration_secs")),
        column_value(extra.get("cost_usd")) or 0.0,
        safe(list_text(origin.files)) or "[]",
        safe(record.title),
        safe(record.text),
        safe(list_text(record.tags)),
        _scope_value(record),
        safe(record.created_at),
        metadata,
        _digest_value(record),
    )


def _scope_value(record: Record) -> str:
    """Return the scope to store for an observation or journal entry, "" if it is the usual one."""
    _, usual_scope, _ = USUAL[record.family]
    if record.scope is usual_scope:
        return ""
    return record.scope.value


def _digest_value(record: Record) -> bytes:
    return bytes.fromhex(digest_of(record))


def list_text(items: Sequence[str]) -> str:
    """Return a list as stored in a column: a JSON array, or "" if it is empty."""
    if not items:
        return ""
    return _ENCODER.encode(items)


def _metadata(record: Record, *, is_order: bool) -> str:
    """Return the members of a record without a column as JSON, or "" if there are none."""
    rest = _status_and_origin(record)
    for name in ("label", "updated_at", "valid_until"):
        value = getattr(record, name)
        if value:
            rest[name] = value
    if record.links:
        rest["links"] = [[link.relation, link.target] for link in record.links]
    if is_order:
        rest[lookup.ORDER] = 1
    if record.extra:
        rest["extra"] = dict(record.extra)
    try:
        return _object_text(rest)
    except (ValueError, RecursionError):  # an infinite number, or nested too deeply
        rest.pop("extra", None)  # it is still in the file
        return _object_text(rest)


def _status_and_origin(record: Record) -> dict[str, object]:
    origin = record.origin
    usual_status, _, usual_author = USUAL[record.family]
    rest: dict[str, object] = {}
    if record.family is not Family.MEMORY and record.status is not usual_status:
        rest["status"] = record.status.value
    if origin.by != usual_author:
        rest["by"] = origin.by
    if origin is NOWHERE:
        return rest
    for name in _ORIGIN_IN_METADATA[record.family]:
        value = getattr(origin, name)
        if value or value == 0:  # an iteration may be 0
            rest[name] = value
    if origin.iteration is not None and abs(origin.iteration) >= _INTEGER_LIMIT:
        rest["iteration"] = origin.iteration  # too large for its column
    return rest


def _object_text(members: Mapping[str, object]) -> str:
    if not members:
        return ""
    return _ENCODER.encode(members)


def column_value(value: object, allowed: Sequence[str] | None = None) -> str | int | float | None:
    """Return a JSON value in a form that a column can store.

    A number that is too large becomes None. With `allowed`, so does any other value.
    """
    if allowed is not None and value not in allowed:
        return None
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _INTEGER_LIMIT else None
    if value is None or isinstance(value, float):
        return value
    return safe(json.dumps(value, ensure_ascii=False))


def search_columns(record: Record, terms: Terms) -> tuple[str, str, str, str]:
    """Return the terms in a record's title, tags, text and files for the full-text index.

    They depend only on the record, so they can be computed again in order to delete them.
    """
    title = terms(record.title) if record.title else ""
    tags = terms(" ".join(record.tags)) if record.tags else ""
    files = _id_terms(record)
    if record.origin.files:
        files += terms(" ".join(record.origin.files))
    return title, tags, terms(record.text), files


def _id_terms(record: Record) -> str:
    """Return the terms under which a record's id can be found, each followed by a space."""
    if record.family is Family.OBSERVATION:
        return ""
    minted = ids.ID.fullmatch(record.id)
    if minted is None:
        return ""
    whole = record.id.replace("-", "").lower()
    return f"{minted['unix']} {minted['tail'].lower()} {whole} "


# --- records ------------------------------------------------------------------------------------


def select_records(
    connection: sqlite3.Connection, family: Family, where: str, values: tuple[object, ...]
) -> Iterator[tuple[int, Record]]:
    """Yield the key and record of each row in a family that meets a condition."""
    table, _ = TABLES[family]
    sql = f"SELECT {COLUMNS[family]} FROM {table} WHERE {where}"
    for row in connection.execute(sql, values).fetchall():
        yield row["key"], record_of(family, row)


def records(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Record]:
    """Return the records with these keys, in the order given."""
    by_key: dict[int, Record] = {}
    for family in FAMILIES:
        for row in lookup.select_keys(connection, family, COLUMNS[family], keys):
            by_key[row["key"]] = record_of(family, row)
    return {key: by_key[key] for key in keys if key in by_key}


def session_records(
    connection: sqlite3.Connection, session_id: str, *, most: int | None = None
) -> list[Record]:
    """Return a session's records in order.

    If there are more than `most`, only the first few and the last ones are returned.
    """
    keys = observation_keys(connection, session_id)
    if most is not None and len(keys) > most:
        start = most // _START_FRACTION
        keys = keys[:start] + keys[-(most - start) :]
    return list(records(connection, keys).values())


def observations_of_task(
    connection: sqlite3.Connection,
    task: str,
    sessions: Sequence[str],
    limit: int,
    *,
    only_sessions: bool,
) -> list[Record]:
    """Return the last observations in a task's sessions.

    Unless `only_sessions` is set, sessions with an observation that names the task are included.
    Observations that name another task are left out.
    """
    names = [*sessions]
    if not only_sessions:
        sql = "SELECT DISTINCT session_id FROM observations WHERE instr(metadata, ?)"
        rows = connection.execute(sql, (f'"task":"{safe(task)}"',))
        names += [row["session_id"] for row in rows]
    keys: list[int] = []
    for name in dict.fromkeys(names):
        keys += observation_keys(connection, name)
    last_records = records(connection, keys[-limit:]).values()
    return [record for record in last_records if record.origin.task in ("", task)]


def rows_of(
    connection: sqlite3.Connection, source: int
) -> Iterator[tuple[int, str, tuple[object, ...]]]:
    """Yield the key, id and values of each of a source's rows.

    Values that the index assigns itself are left out.
    """
    for family in FAMILIES:
        table, key = TABLES[family]
        sql = f"SELECT {COLUMNS[family]}, * FROM {table} WHERE source = ? ORDER BY {key}"
        for row in connection.execute(sql, (source,)):
            record = record_of(family, row)
            compared = [name for name in row.keys() if name not in _NOT_COMPARED]  # noqa: SIM118 - a Row is not a mapping
            yield row["key"], record.id, (record, *[row[name] for name in compared])


# --- keys ---------------------------------------------------------------------------------------


def newest_keys(connection: sqlite3.Connection, query: Query, limit: int | None) -> list[int]:
    """Return the keys of the newest records that pass a query's filters, newest first.

    Among records with the same time in one file, the last one comes first.
    """
    return page(connection, filter_of(query), limit)


def page(
    connection: sqlite3.Connection,
    keep: lookup.Filter,
    limit: int | None,
    offset: int = 0,
    *,
    keys: Sequence[int] | None = None,
) -> list[int]:
    """Return one page of the keys of records that pass a filter, newest first.

    With `keys`, only records among them are considered. The cost depends on the size of the page,
    not on the size of the index.
    """
    path = "(SELECT path FROM sources WHERE key = source)"
    parts: list[str] = []
    all_values: list[object] = []
    for family, test, values in keep:
        table, key = TABLES[family]
        sql = f"SELECT created_at, {path} AS place, {key} AS key FROM {table} WHERE {test or '1'}"
        all_values += values
        if keys is not None:
            sql += f" AND {key} IN (SELECT value FROM json_each(?))"
            all_values.append(str(keys_of_family(keys, family)))
        parts.append(sql)
    if not parts:
        return []
    order = "ORDER BY created_at DESC, place DESC, key DESC LIMIT ? OFFSET ?"
    sql = f"{' UNION ALL '.join(parts)} {order}"
    rows = connection.execute(sql, (*all_values, limit_value(limit), offset))
    return [row["key"] for row in rows]


def limit_value(limit: int | None) -> int:
    """Return the value for a LIMIT clause. None means no limit."""
    return _NO_LIMIT if limit is None else limit


def observation_keys(
    connection: sqlite3.Connection, session_id: str, limit: int | None = None, offset: int = 0
) -> list[int]:
    """Return the keys of a session's observations, in the order in which they happened."""
    sql = "SELECT key FROM observations WHERE session_id = ? ORDER BY seq LIMIT ? OFFSET ?"
    rows = connection.execute(sql, (safe(session_id), limit_value(limit), offset))
    return [row["key"] for row in rows]


def key_of(connection: sqlite3.Connection, record_id: str) -> int | None:
    """Return the key of the first record with this id, or None if there is none."""
    keys = keys_of(connection, record_id)
    return keys[0] if keys else None


def keys_of(
    connection: sqlite3.Connection, record_id: str, query: Query | None = None
) -> list[int]:
    """Return the keys of all records with this id that pass the query's filters."""
    keep: lookup.Filter = [(family, "", []) for family in FAMILIES]
    if query is not None:
        keep = filter_of(query)
    keys: list[int] = []
    for family, test, values in keep:
        table, key = TABLES[family]
        column = "record_id" if table == "journal" else "id"
        sql = (
            f"SELECT {key} AS key FROM {table} WHERE {column} = ? AND {test or '1'} ORDER BY {key}"
        )
        rows = connection.execute(sql, (safe(record_id), *values))
        keys += [row["key"] for row in rows]
    return keys


def adjacent_keys(
    connection: sqlite3.Connection, number: int, record: Record, reach: int, task: str = ""
) -> list[int]:
    """Return the keys of the records just before and after a record in time.

    Only records of the same family that are visible to the task are considered. `number` is the
    record's key, and `reach` is how many records to return on either side.
    """
    table, key = TABLES[record.family]
    _, test, values = _conditions(record.family, Query(task=task))
    added_at = safe(record.added_at)
    keys: list[int] = []
    for relation, order in (("<", "DESC"), (">", "ASC")):
        sql = (
            f"SELECT {key} AS key FROM {table} WHERE (created_at, {key}) {relation} (?, ?) "
            f"AND created_at <> '' AND {test or '1'} "
            f"ORDER BY created_at {order}, {key} {order} LIMIT ?"
        )
        rows = connection.execute(sql, (added_at, number, *values, reach))
        keys += [row["key"] for row in rows]
    return keys


def row_keys(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, int]:
    """Return the keys of the memories with these ids, by id."""
    sql = "SELECT id, key FROM records WHERE id IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(sql, (json.dumps(list(names)),)).fetchall())


def retired_keys(connection: sqlite3.Connection) -> list[int]:
    """Return the keys of retired memories."""
    sql = "SELECT key FROM records WHERE status = ?"
    return [row["key"] for row in connection.execute(sql, (Status.RETIRED.value,))]


def matching_keys(connection: sqlite3.Connection, match: str) -> list[int]:
    """Return the keys of all full-text matches, in no particular order."""
    rows = connection.execute("SELECT rowid FROM search WHERE search MATCH ?", (match,))
    return [row["rowid"] for row in rows]


def ids_ending(connection: sqlite3.Connection, tails: Collection[str]) -> list[str]:
    """Return the ids that end with one of these tails, which must all have the same length."""
    storable = [safe(tail) for tail in tails]
    length = max(map(len, storable), default=1)
    sql = """
        SELECT id FROM (
            SELECT id FROM records UNION ALL SELECT id FROM observations
            UNION ALL SELECT record_id FROM journal
        ) WHERE substr(id, ?) IN (SELECT value FROM json_each(?))
        """
    return [row["id"] for row in connection.execute(sql, (-length, json.dumps(storable)))]


# --- columns by key -----------------------------------------------------------------------------


def locations(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Return the file and line of each record, by key."""
    columns = (
        "{key} AS key, (SELECT path FROM sources s WHERE s.key = {table}.source) AS path, line"
    )
    rows = _select_by_key(connection, keys, columns)
    return {row["key"]: (row["path"], row["line"]) for row in rows}


def digests(connection: sqlite3.Connection, keys: Sequence[int] | None = None) -> dict[int, str]:
    """Return the content digests of the given records, or of all records, by key."""
    columns = "{key} AS key, lower(hex(digest)) AS hex_digest"
    if keys is None:
        parts = []
        for table, key in TABLES.values():
            parts.append(f"SELECT {columns.format(key=key)} FROM {table}")
        rows: Iterator[sqlite3.Row] = connection.execute(" UNION ALL ".join(parts))
    else:
        rows = _select_by_key(connection, keys, columns)
    return {row["key"]: row["hex_digest"] for row in rows}


def tasks_of(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, str]:
    """Return the task of each record that has one, by key.

    The task is taken from the record's origin, session or folder.
    """
    tasks: dict[int, str] = {}
    for family, task_expression in _TASKS_OF_RECORDS.items():
        columns = f"{{key}} AS key, {task_expression} AS owning_task"
        for row in lookup.select_keys(connection, family, columns, keys):
            if row["owning_task"]:
                tasks[row["key"]] = row["owning_task"]
    return tasks


def _select_by_key(
    connection: sqlite3.Connection, keys: Sequence[int], columns: str
) -> Iterator[sqlite3.Row]:
    for family in FAMILIES:
        yield from lookup.select_keys(connection, family, columns, keys)


# --- counts -------------------------------------------------------------------------------------


def count(connection: sqlite3.Connection, query: Query) -> int:
    """Count the records that pass the query's filters."""
    counts: list[str] = []
    all_values: list[object] = []
    for family, test, values in filter_of(query):
        table, _ = TABLES[family]
        counts.append(f"(SELECT count(*) FROM {table} WHERE {test or '1'})")
        all_values += values
    return int(connection.execute(f"SELECT {' + '.join(counts)}", all_values).fetchone()[0])


def count_loops(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Count runs and their iterations by status, leaving out runs that had nothing to do."""
    sql = """
        SELECT status, count(*) AS runs, sum(iterations) AS total FROM loop_runs
        WHERE iterations > 0 OR status != 'success' GROUP BY status
        """
    counts: dict[str, tuple[int, int]] = {}
    for row in connection.execute(sql):
        counts[row["status"]] = (int(row["runs"]), int(row["total"]))
    return counts


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the rows of each table."""
    tables = ("sources", "records", "observations", "journal", "sessions", "loop_runs", "tasks")
    counts: dict[str, int] = {}
    for table in tables:
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        counts[table] = int(row[0])
    return counts


def fingerprints(connection: sqlite3.Connection) -> dict[int, int]:
    """Return a hash of every record's terms in the full-text index, by key."""
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances "
        "USING fts5vocab(main, search, 'instance')"
    )
    hashes: dict[int, int] = {}
    for term, key, column, offset in connection.execute(
        "SELECT term, doc, col, offset FROM temp.instances"
    ):
        hashes[key] = hashes.get(key, 0) + hash((term, column, offset))
    return hashes


# --- tasks and sources --------------------------------------------------------------------------


def sees_session(connection: sqlite3.Connection, session_id: str, task: str) -> bool:
    """Return whether a task may see a session.

    It may not if something in the session belongs to another unfinished task.
    """
    return safe(session_id) not in hidden_sessions(connection, task)


def hidden_sessions(connection: sqlite3.Connection, task: str) -> set[str]:
    """Return the ids of the sessions that a task may not see. Without a task, there are none."""
    if not task:
        return set()
    sql = (
        f"SELECT id, session_id FROM sessions WHERE task_id IN ({lookup.OTHERS}) UNION "
        "SELECT session_id, NULL FROM observations "
        f"WHERE {lookup.ORIGIN_TASK} IN ({lookup.OTHERS})"
    )
    hidden: set[str] = set()
    for row in connection.execute(sql, (safe(task), safe(task))):
        hidden.update(name for name in row if name)
    return hidden


def unfinished_tasks(connection: sqlite3.Connection, but: str) -> set[str]:
    """Return the ids of the unfinished tasks except `but`."""
    return {row["id"] for row in connection.execute(lookup.OTHERS, (safe(but),))}


def source_format(connection: sqlite3.Connection, path: str) -> str:
    """Return the format of the source with this name."""
    row = connection.execute("SELECT format FROM sources WHERE path = ?", (path,)).fetchone()
    return str(row[0])


def source_keys(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the keys of the sources by their names."""
    return dict(connection.execute("SELECT path, key FROM sources").fetchall())


# --- filters ------------------------------------------------------------------------------------


def iterations(
    *,
    run: str = "",
    not_of: str = "",
    task: str = "",
    outcome: str = "",
    since: str = "",
    noted: bool = False,
) -> tuple[str, list[object]]:
    """Return an SQL condition that selects iterations in the journal, and its values.

    `run` may be the beginning of a run's id, `not_of` is a run to leave out, and `noted` selects
    only iterations with notes.
    """
    test, values = lookup.join_conditions(
        (True, "iteration IS NOT NULL AND run_id NOT IN ('', ?)", (not_of,)),
        (True, f"{_metadata_member('label')} <> 'run'", ()),
        (task, "task_id = ?", (task,)),
        (outcome, "outcome = ?", (outcome,)),
        (since, "created_at >= ?", (since,)),
        (run, "substr(run_id, 1, ?) = ?", (len(safe(run)), run)),
        (noted, "notes <> ''", ()),
    )
    return test, _storable(values)


def facet_filter(
    chosen: Mapping[str, Collection[str]], *, since: str = "", task: str = ""
) -> lookup.Filter:
    """Return the filter for the chosen values of `family`, `type`, `tag` and `status`.

    The values of `tag` are whole tag lists, as stored in the rows. Retired records pass only if
    their status is chosen.
    """
    families = _chosen_values(chosen, "family")
    kinds = _chosen_values(chosen, "type")
    tags = _chosen_values(chosen, "tag")
    statuses = _chosen_values(chosen, "status")
    marks = lookup.placeholders
    parts: list[lookup.FamilyFilter] = []
    for family in FAMILIES:
        if families and family.value not in families:
            continue
        usual_status, _, _ = USUAL[family]
        has_status = f"coalesce(nullif({status_column(family)}, ''), ?) IN ({marks(statuses)})"
        tests: list[lookup.Condition] = [
            ("type" in chosen, f"{lookup.KIND_COLUMNS[family]} IN ({marks(kinds)})", kinds),
            ("tag" in chosen, f"tags IN ({marks(tags)})", tags),
            ("status" in chosen, has_status, (usual_status.value, *statuses)),
            ("status" not in chosen, _not_retired(family), ()),
            (since, "created_at >= ?", (since,)),
            (task, f"{_TASKS_OF_RECORDS[family]} = ?", (safe(task),)),
        ]
        parts.append(lookup.conditions(family, *tests))
    return parts


def _chosen_values(chosen: Mapping[str, Collection[str]], facet: str) -> list[str]:
    return [safe(value) for value in chosen.get(facet, ())]


def status_column(family: Family) -> str:
    """Return the SQL expression for a record's status, which is "" for the usual status."""
    if family is Family.MEMORY:
        return "status"
    return _metadata_member("status")


def _not_retired(family: Family) -> str:
    if family is Family.MEMORY:
        return f"status <> '{Status.RETIRED.value}'"
    return f"""instr(metadata, '"status":"{Status.RETIRED.value}"') = 0"""


def _metadata_member(name: str) -> str:
    """Return the SQL expression for a metadata member, modelled on `lookup.ORIGIN_TASK`."""
    return lookup.ORIGIN_TASK.replace("task", name)


def filter_of(query: Query) -> list[tuple[Family, str, list[object]]]:
    """Turn a query into a filter for the functions in `lookup`."""
    return [_conditions(family, query) for family in query.families or FAMILIES]


def _conditions(family: Family, query: Query) -> tuple[Family, str, list[object]]:
    _, usual_scope, _ = USUAL[family]
    scope = query.scope.value if query.scope else ""
    folder = query.project.rstrip("/")
    in_sources = (
        f"source IN (SELECT key FROM sources WHERE path IN ({lookup.placeholders(query.sources)}))"
    )
    in_project = (
        "EXISTS (SELECT 1 FROM sessions s WHERE s.id = observations.session_id "
        "AND (s.project_path = ? OR substr(s.project_path, 1, ?) = ?))"
    )
    kinds = [kind.value for kind in query.kinds]
    test, values = lookup.join_conditions(
        *lookup.common_tests(family, kinds, query.tags, query.since, query.task),
        (query.until, "substr(created_at, 1, ?) <= ?", (len(query.until), query.until)),
        (query.sources, in_sources, query.sources),
        (query.scope, "coalesce(nullif(scope, ''), ?) = ?", (usual_scope.value, scope)),
        (
            query.project and family is Family.OBSERVATION,
            in_project,
            (folder, len(folder) + 1, folder + "/"),
        ),
    )
    return family, test, _storable(values)


def _storable(values: Sequence[object]) -> list[object]:
    return [safe(value) if isinstance(value, str) else value for value in values]
