"""Query the records in the index by id, time, session, task or source.

The queries that the ranking uses are in `lookup.py`. Sessions, runs and tasks are queried in
`sessions.py`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from ralph.core.record import (
    Family,
    Query,
    Record,
    Status,
)
from ralph.storage import lookup
from ralph.storage.index_schema import FAMILIES, TABLES, keys_of_family
from ralph.storage.query_filters import TASK_EXPRESSIONS, family_filter, filter_of
from ralph.storage.record_filters import IS_UNCONFIRMED, ORIGIN_TASK, OTHER_UNFINISHED_TASKS
from ralph.storage.record_rows import COLUMNS, decode_record, storable_text

if TYPE_CHECKING:
    from ralph.storage.record_filters import Filter

NEWEST_ITERATION_FIRST = (
    "ORDER BY created_at DESC, (SELECT mtime_ns FROM sources WHERE key = source) DESC, "
    "run_id DESC, iteration DESC, line, id"
)
"""The order of journal entries. Of the same second, the run whose log changed last is newer."""
_NO_LIMIT = -1
_START_FRACTION = 10  # one record in ten of a shortened session is from its start
_NOT_COMPARED = (
    "key",
    "id",
    "record_id",
    "source",
    "seq",
    "metadata",
    "judged_by",
    "is_order",
)
_COUNTED_TABLES = {
    "sources": "sources",
    "records": "records",
    "observations": "observations",
    "journal": "journal",
    "sessions": "session_rows",
    "loop_runs": "loop_runs",
    "tasks": "tasks",
}
"""Where the rows of each name are counted.

The view `sessions` uses functions that Ralph's connections do not allow a view to call.
"""


# --- records ------------------------------------------------------------------------------------


def select_records(
    connection: sqlite3.Connection, family: Family, where: str, values: tuple[object, ...]
) -> Iterator[tuple[int, Record]]:
    """Yield the key and record of each row in a family that meets a condition."""
    table, _ = TABLES[family]
    sql = f"SELECT {COLUMNS[family]} FROM {table} WHERE {where}"
    for row in connection.execute(sql, values).fetchall():
        yield row["key"], decode_record(family, row)


def suspicious_records(connection: sqlite3.Connection, formats: Sequence[str]) -> list[Record]:
    """Return the entries in sources of these formats that read like orders or are unconfirmed."""
    places = ", ".join("?" * len(formats))
    is_suspicious = f"({lookup.IS_ORDER} OR {IS_UNCONFIRMED})"
    where = f"{is_suspicious} AND source IN (SELECT key FROM sources WHERE format IN ({places}))"
    found = []
    for family in (Family.MEMORY, Family.JOURNAL):
        for _, record in select_records(connection, family, where, tuple(formats)):
            found.append(record)
    return found


def records(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Record]:
    """Return the records with these keys, in the order given."""
    by_key: dict[int, Record] = {}
    for family in FAMILIES:
        for row in lookup.select_keys(connection, family, COLUMNS[family], keys):
            by_key[row["key"]] = decode_record(family, row)
    return {key: by_key[key] for key in keys if key in by_key}


def has_unconfirmed(connection: sqlite3.Connection, session_id: str) -> bool:
    """Return whether an agent said something in a session after it read something foreign."""
    sql = f"SELECT 1 FROM observations WHERE session_id = ? AND {IS_UNCONFIRMED} LIMIT 1"
    return connection.execute(sql, (session_id,)).fetchone() is not None


def session_records(
    connection: sqlite3.Connection, session_id: str, *, limit: int | None = None
) -> list[Record]:
    """Return a session's records in order.

    A session with more than `limit` records is shortened: a tenth of the result comes from its
    start, the rest from its end.
    """
    keys = observation_keys(connection, session_id)
    if limit is not None and len(keys) > limit:
        start = limit // _START_FRACTION
        keys = keys[:start] + keys[-(limit - start) :]
    return list(records(connection, keys).values())


def long_messages(connection: sqlite3.Connection, session_id: str) -> dict[str, str]:
    """Return the full texts of a session's messages that are shortened, by observation."""
    sql = (
        "SELECT long_messages.id, long_messages.text FROM observations "
        "JOIN long_messages ON long_messages.id = observations.id WHERE session_id = ?"
    )
    rows = connection.execute(sql, (storable_text(session_id),))
    return {str(row[0]): str(row[1]) for row in rows}


def long_message(connection: sqlite3.Connection, record_id: str) -> str | None:
    """Return the full text of a message, or None unless its observation is shortened."""
    sql = "SELECT text FROM long_messages WHERE id = ?"
    row = connection.execute(sql, (storable_text(record_id),)).fetchone()
    return None if row is None else str(row[0])


def count_working_sessions(connection: sqlite3.Connection, since: str) -> int:
    """Count the sessions with a tool call after a time."""
    sql = (
        "SELECT count(DISTINCT session_id) FROM observations "
        "WHERE created_at > ? AND type <> 'note'"
    )
    return int(connection.execute(sql, (storable_text(since),)).fetchone()[0])


def observations_since(connection: sqlite3.Connection, since: str, limit: int) -> list[Record]:
    """Return the oldest observations after a time, in the order of their sessions."""
    sql = (
        "SELECT key, session_id FROM observations WHERE created_at > ? "
        "ORDER BY created_at, seq LIMIT ?"
    )
    rows = connection.execute(sql, (storable_text(since), limit)).fetchall()
    return list(records(connection, [row["key"] for row in rows]).values())


def earlier_prompts(connection: sqlite3.Connection, session_id: str, limit: int) -> list[Record]:
    """Return the newest prompts from other sessions, at most `limit` of them."""
    sql = (
        "SELECT key FROM observations WHERE type = 'note' AND title = 'prompt' "
        "AND session_id <> ? ORDER BY created_at DESC LIMIT ?"
    )
    rows = connection.execute(sql, (storable_text(session_id), limit))
    return list(records(connection, [row["key"] for row in rows]).values())


def current_prompts(connection: sqlite3.Connection, session_id: str, since: str) -> list[str]:
    """Return the ids of the prompts that are being worked on.

    These are the last prompt of a session, given by its id or its host's id, and the newest prompt
    of all after a time, unless it was answered or its session has ended.
    """
    of_session = """
        SELECT id FROM observations
        WHERE session_id IN (SELECT id FROM session_rows WHERE ? IN (id, session_id))
            AND type = 'note' AND title = 'prompt'
        ORDER BY seq DESC LIMIT 1
        """
    newest = """
        SELECT id FROM (
            SELECT id, session_id, seq FROM observations
            WHERE created_at >= ? AND type = 'note' AND title = 'prompt'
            ORDER BY created_at DESC, key DESC LIMIT 1
        ) AS prompt
        WHERE NOT EXISTS (
            SELECT 1 FROM observations AS later
            WHERE later.session_id = prompt.session_id AND later.seq > prompt.seq
                AND later.title = 'answer'
        ) AND NOT EXISTS (
            SELECT 1 FROM session_rows
            WHERE session_rows.id = prompt.session_id AND ended_at IS NOT NULL
        )
        """
    found = []
    for sql, value in ((of_session, session_id), (newest, since)):
        if value:
            found += connection.execute(sql, (storable_text(value),)).fetchall()
    return [row["id"] for row in found]


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
        rows = connection.execute(sql, (f'"task":"{storable_text(task)}"',))
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
        # An entry that was added later has a higher key than the entries below it in its file.
        order = key if family is Family.OBSERVATION else f"line, {key}"
        sql = f"SELECT {COLUMNS[family]}, * FROM {table} WHERE source = ? ORDER BY {order}"
        for row in connection.execute(sql, (source,)):
            record = decode_record(family, row)
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
    record_filter: Filter,
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
    for family, test, values in record_filter:
        table, key = TABLES[family]
        position = key if family is Family.OBSERVATION else "line"
        sql = (
            f"SELECT created_at, {path} AS place, {position} AS position, {key} AS key "
            f"FROM {table} WHERE {test or '1'}"
        )
        all_values += values
        if keys is not None:
            sql += f" AND {key} IN (SELECT value FROM json_each(?))"
            all_values.append(str(keys_of_family(keys, family)))
        parts.append(sql)
    if not parts:
        return []
    order = "ORDER BY created_at DESC, place DESC, position DESC, key DESC LIMIT ? OFFSET ?"
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
    rows = connection.execute(sql, (storable_text(session_id), limit_value(limit), offset))
    return [row["key"] for row in rows]


def key_of(connection: sqlite3.Connection, record_id: str) -> int | None:
    """Return the key of the first record with this id, or None if there is none."""
    keys = keys_of(connection, record_id)
    return keys[0] if keys else None


def keys_of(
    connection: sqlite3.Connection, record_id: str, query: Query | None = None
) -> list[int]:
    """Return the keys of all records with this id that pass the query's filters.

    Those of one file are in its order.
    """
    record_filter: Filter = [(family, "", []) for family in FAMILIES]
    if query is not None:
        record_filter = filter_of(query)
    keys: list[int] = []
    for family, test, values in record_filter:
        table, key = TABLES[family]
        column = "record_id" if family is Family.JOURNAL else "id"
        sql = (
            f"SELECT {key} AS key FROM {table} WHERE {column} = ? AND {test or '1'} "
            f"ORDER BY source, line, {key}"
        )
        rows = connection.execute(sql, (storable_text(record_id), *values))
        keys += [row["key"] for row in rows]
    return keys


def adjacent_keys(
    connection: sqlite3.Connection, number: int, record: Record, reach: int, task: str = ""
) -> list[int]:
    """Return the keys of the records just before and after a record in time.

    Only records of the same family that are visible to the task are considered. `number` is the
    record's key, and `reach` is how many records to return on either side. Those of the same time
    are in the order of their files.
    """
    table, key = TABLES[record.family]
    _, test, values = family_filter(record.family, Query(task=task))
    added_at = storable_text(record.added_at)
    keys: list[int] = []
    for relation, order in (("<", "DESC"), (">", "ASC")):
        sql = (
            f"SELECT {key} AS key FROM {table} WHERE (created_at, source, line, {key}) {relation} "
            f"(SELECT ?, source, line, {key} FROM {table} WHERE {key} = ?) "
            f"AND created_at <> '' AND {test or '1'} "
            f"ORDER BY created_at {order}, source {order}, line {order}, {key} {order} LIMIT ?"
        )
        rows = connection.execute(sql, (added_at, number, *values, reach))
        keys += [row["key"] for row in rows]
    return keys


def memory_keys(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, int]:
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
    return [key for (key,) in rows]


def memory_ids(connection: sqlite3.Connection) -> list[str]:
    """Return the ids of all memories and other entries in files, newest first."""
    return [row["id"] for row in connection.execute("SELECT id FROM records ORDER BY key DESC")]


def ids_ending(connection: sqlite3.Connection, tails: Collection[str]) -> list[str]:
    """Return the ids that end with one of these tails, which must all have the same length."""
    storable = [storable_text(tail) for tail in tails]
    length = max(map(len, storable), default=1)
    sql = """
        SELECT id FROM (
            SELECT id FROM records UNION ALL SELECT id FROM observations
            UNION ALL SELECT record_id FROM journal_rows
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
    for family, task_expression in TASK_EXPRESSIONS.items():
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
    """Count the rows of each documented table or view."""
    counts: dict[str, int] = {}
    for name, table in _COUNTED_TABLES.items():
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        counts[name] = int(row[0])
    return counts


_STORED_TEXTS = """
SELECT path, line, title || char(10) || text FROM records JOIN sources ON sources.key = source
UNION ALL
SELECT path, line, title || char(10) || content FROM observations
    JOIN sources ON sources.key = source
UNION ALL
SELECT path, line, title || char(10) || notes FROM journal_rows JOIN sources ON sources.key = source
UNION ALL
SELECT path, 1, coalesce(summary, '') FROM session_rows JOIN sources ON sources.key = source
UNION ALL
SELECT path, 1, text FROM long_messages JOIN sources ON sources.key = source
UNION ALL
SELECT path, 1, goal FROM loop_runs JOIN sources ON sources.key = source
UNION ALL
SELECT path, 1, title || char(10) || description FROM tasks JOIN sources ON sources.key = source
"""


def stored_texts(connection: sqlite3.Connection) -> Iterator[tuple[str, int, str]]:
    """Yield the source, the line (1 if unknown) and the text of everything that was copied."""
    cursor = connection.cursor()
    cursor.row_factory = None  # perhaps a million rows
    yield from cursor.execute(_STORED_TEXTS)


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
    return storable_text(session_id) not in hidden_sessions(connection, task)


def hidden_sessions(connection: sqlite3.Connection, task: str) -> set[str]:
    """Return the ids of the sessions that a task may not see. Without a task, there are none."""
    if not task:
        return set()
    sql = (
        "SELECT id, session_id FROM session_rows "
        f"WHERE task_id IN ({OTHER_UNFINISHED_TASKS}) "
        "UNION SELECT session_id, NULL FROM observations "
        f"WHERE {ORIGIN_TASK} IN ({OTHER_UNFINISHED_TASKS})"
    )
    hidden: set[str] = set()
    for row in connection.execute(sql, (storable_text(task), storable_text(task))):
        hidden.update(name for name in row if name)
    return hidden


def unfinished_tasks(connection: sqlite3.Connection, except_task: str) -> set[str]:
    """Return the ids of all unfinished tasks except one."""
    return {
        row["id"]
        for row in connection.execute(OTHER_UNFINISHED_TASKS, (storable_text(except_task),))
    }


def unfinished_titles(connection: sqlite3.Connection) -> list[str]:
    """Return the titles of all unfinished tasks."""
    sql = f"SELECT title FROM tasks WHERE id IN ({OTHER_UNFINISHED_TASKS})"
    return [row["title"] for row in connection.execute(sql, ("",))]


def source_format(connection: sqlite3.Connection, path: str) -> str:
    """Return the format of the source with this name."""
    row = connection.execute("SELECT format FROM sources WHERE path = ?", (path,)).fetchone()
    return str(row[0])


def source_keys(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the keys of the sources by their names."""
    return dict(connection.execute("SELECT path, key FROM sources").fetchall())
