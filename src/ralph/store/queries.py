"""Every SELECT over the index except those of the ranking (`lookup.py`), and the records they return.

What has no column is a JSON object in `metadata`, with only what differs from the usual values of the family.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ralph.errors import Unreadable
from ralph.model import ids
from ralph.model.record import (
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
from ralph.store import lookup

Terms = Callable[[str], str]
Row = tuple[object, ...]

FAMILIES = (Family.MEMORY, Family.OBSERVATION, Family.JOURNAL)  # by `key % 3`
TABLES = dict(zip(FAMILIES, lookup.TABLES, strict=True))
COLUMNS = {
    Family.MEMORY: "key, id, kind, title, text, tags, files, scope, dated, metadata, status",
    Family.OBSERVATION: "key, id, type, title, content, tags, files, scope, created_at, metadata, session_id",
    Family.JOURNAL: "id, record_id, outcome, title, notes, tags, files_modified, scope, created_at, metadata, "
    "run_id, iteration, task_id",
}
"""The columns of a record; the first ten mean the same in every family."""

ORIGIN = ("session", "run", "iteration", "task", "agent", "commit")
_METADATA = {
    Family.MEMORY: ORIGIN,
    Family.OBSERVATION: ("run", "iteration", "task", "agent", "commit"),
    Family.JOURNAL: ("session", "agent", "commit"),
}
"""The members of a record's origin that have no column."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)
"""SQLite reads this JSON, too: it knows no infinite numbers."""
_LARGEST = 2**63
_NOT_COMPARED = ("key", "id", "record_id", "source", "seq", "metadata")
_FOLDER_TASK = (
    "(SELECT k.id FROM sources s JOIN sources j ON j.path = "
    f"{lookup.FOLDER.replace('path', 's.path')} || 'task.json' JOIN tasks k ON k.source = j.key WHERE s.key = source)"
)
_SESSION_TASK = (
    "(SELECT max(s.task_id) FROM sessions s WHERE s.id = observations.session_id "
    "OR s.session_id = observations.session_id)"
)
_OWNERS = (
    f"coalesce(nullif({lookup.ORIGIN_TASK}, ''), {_FOLDER_TASK.replace('= source', '= records.source')}, '')",
    f"coalesce(nullif({lookup.ORIGIN_TASK}, ''), {_SESSION_TASK}, '')",
    f"coalesce(nullif(task_id, ''), {_FOLDER_TASK.replace('= source', '= journal.source')}, '')",
)
"""The task that a record belongs to, by `key % 3`: as its origin, its session or its folder says."""


def record_of(family: Family, row: Sequence[Any]) -> Record:
    """Make the record of a row; Unreadable when the row is damaged."""
    try:
        name, kind, title, text, tags, files, scope, created, metadata = map(_textual, row[1:10])
        rest = json.loads(metadata) if metadata else {}
        status, usual, author = USUAL[family]
        origin = {name: rest[name] for name in ORIGIN if name in rest}
        if family is Family.OBSERVATION:
            origin["session"] = _textual(row[10])
        elif family is Family.JOURNAL:
            origin = {
                "run": _textual(row[10]),
                "iteration": row[11],
                "task": row[12] or "",
                **origin,
            }
        by = rest.get("by", author)
        paths = tuple(json.loads(files)) if files else ()
        return Record(
            name,
            KINDS[family][kind],
            text,
            family,
            rest.get("label", ""),
            title,
            tuple(json.loads(tags)) if tags else (),
            Status(_textual(row[10]) if family is Family.MEMORY else rest.get("status", status)),
            Scope(scope) if scope else usual,
            Origin(by=by, files=paths, **origin) if by or paths or origin else NOWHERE,
            created,
            rest.get("updated_at", ""),
            rest.get("valid_until", ""),
            tuple(Link(relation, target) for relation, target in rest.get("links", ())),
            rest.get("extra", NO_EXTRA),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(
            "a row of the index is damaged", hint="`ralph index rebuild` makes it again"
        ) from error


def _textual(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def safe(text: str) -> str:
    """Return text that SQLite can store: bytes that were no UTF-8 become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def digest_of(record: Record) -> str:
    """Return the digest of a record's content, by which vectors are cached."""
    content = safe(f"{record.title}\n{record.text}").encode("utf-8")
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def row_values(record: Record, position: int, *, is_order: bool) -> Row:
    """Return the columns of a record's row behind key, id, source and line."""
    origin = record.origin
    extra = record.extra
    metadata = safe(_metadata(record, is_order=is_order))
    is_usual = record.family is not Family.MEMORY and record.scope is USUAL[record.family][1]
    scope = "" if is_usual else record.scope.value
    tags = safe(list_text(record.tags))
    files = safe(list_text(origin.files))
    kind = record.kind.value
    title = safe(record.title)
    text = safe(record.text)
    created = safe(record.created_at)
    digest = bytes.fromhex(digest_of(record))
    if record.family is Family.MEMORY:
        added = safe(record.added_at)
        return (
            kind,
            title,
            text,
            tags,
            files,
            record.status.value,
            scope,
            added,
            created,
            metadata,
            digest,
        )
    if record.family is Family.OBSERVATION:
        return (
            safe(origin.session),
            position,
            kind,
            title,
            text,
            tags,
            files,
            scope,
            metadata,
            created,
            digest,
        )
    feature, model, seconds = (
        column_value(extra.get(key)) for key in ("feature", "model", "duration_secs")
    )
    cost = column_value(extra.get("cost_usd")) or 0.0
    run = safe(origin.run)
    iteration = column_value(origin.iteration)
    task = safe(origin.task) or None
    work = (run, iteration, task, feature, kind, model, seconds, cost, files or "[]")
    return (*work, title, text, tags, scope, created, metadata, digest)


def list_text(items: Sequence[str]) -> str:
    """Return a list as its column has it."""
    return _ENCODER.encode(items) if items else ""


def _metadata(record: Record, *, is_order: bool) -> str:
    """What no column has, as JSON or ""."""
    family = record.family
    origin = record.origin
    status, _, author = USUAL[family]
    rest: dict[str, object] = {}
    if family is not Family.MEMORY and record.status is not status:
        rest["status"] = record.status.value
    if origin.by != author:
        rest["by"] = origin.by
    if origin is not NOWHERE:
        for name in _METADATA[family]:
            if (value := getattr(origin, name)) or value == 0:
                rest[name] = value
        if origin.iteration is not None and abs(origin.iteration) >= _LARGEST:
            rest["iteration"] = origin.iteration  # too large for its column
    for name in ("label", "updated_at", "valid_until"):
        if value := getattr(record, name):
            rest[name] = value
    if record.links:
        rest["links"] = [[link.relation, link.target] for link in record.links]
    if is_order:
        rest[lookup.ORDER] = 1
    if record.extra:
        rest["extra"] = dict(record.extra)
    try:
        return _ENCODER.encode(rest) if rest else ""
    except (
        ValueError,
        RecursionError,
    ):  # nested too deeply, or no finite number; the file still has it
        rest.pop("extra", None)
        return _ENCODER.encode(rest) if rest else ""


def column_value(value: object, allowed: Sequence[str] | None = None) -> str | int | float | None:
    """Return what a column can store of a JSON value; no number that is too large."""
    if allowed is not None and value not in allowed:
        return None
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _LARGEST else None
    return (
        value
        if value is None or isinstance(value, float)
        else safe(json.dumps(value, ensure_ascii=False))
    )


def search_columns(record: Record, terms: Terms) -> tuple[str, str, str, str]:
    """Return the full-text columns, by the record alone, so that they can be deleted."""
    minted = ids.ID.fullmatch(record.id) if record.family is not Family.OBSERVATION else None
    files = (
        f"{minted['unix']} {minted['tail'].lower()} {record.id.replace('-', '').lower()} "
        if minted
        else ""
    )
    if record.origin.files:
        files += terms(" ".join(record.origin.files))
    title = terms(record.title) if record.title else ""
    return title, terms(" ".join(record.tags)) if record.tags else "", terms(record.text), files


def select_records(
    connection: sqlite3.Connection, family: Family, where: str, values: tuple[object, ...]
) -> Iterator[tuple[int, Record]]:
    """Return the records of a family that fulfil a condition, with their keys."""
    sql = f"SELECT {COLUMNS[family]} FROM {TABLES[family][0]} WHERE {where}"
    for row in connection.execute(sql, values).fetchall():
        yield row[0], record_of(family, row)


def _select(connection: sqlite3.Connection, keys: Sequence[int], columns: str) -> Iterator[Any]:
    for place in range(len(FAMILIES)):
        yield from lookup.select_keys(connection, place, columns, keys)


def records(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Record]:
    """Return the records behind keys of any family, in the order of the keys."""
    by_key = {
        row[0]: record_of(family, row)
        for place, family in enumerate(FAMILIES)
        for row in lookup.select_keys(connection, place, COLUMNS[family], keys)
    }
    return {key: by_key[key] for key in keys if key in by_key}


def locations(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, tuple[str, int]]:
    """Return the file and line where records are stored."""
    columns = "{key}, (SELECT path FROM sources s WHERE s.key = {table}.source), line"
    return {row[0]: (row[1], row[2]) for row in _select(connection, keys, columns)}


def digests(connection: sqlite3.Connection, keys: Sequence[int] | None = None) -> dict[int, str]:
    """Return the content digests of all records, or of some."""
    columns = "{key}, lower(hex(digest))"
    if keys is not None:
        return {row[0]: row[1] for row in _select(connection, keys, columns)}
    parts = (f"SELECT {columns.format(key=key)} FROM {table}" for table, key in TABLES.values())
    return {row[0]: row[1] for row in connection.execute(" UNION ALL ".join(parts))}


def newest_keys(connection: sqlite3.Connection, query: Query, limit: int | None) -> list[int]:
    """Return the keys of the newest records; of one time, the last in its file first."""
    return page(connection, filter_of(query), limit)


def page(
    connection: sqlite3.Connection,
    keep: lookup.Filter,
    limit: int | None,
    offset: int = 0,
    *,
    keys: Sequence[int] | None = None,
) -> list[int]:
    """Return the keys of the newest records that pass a filter; a page costs what it shows."""
    path = "(SELECT path FROM sources WHERE key = source)"
    parts: list[str] = []
    all_values: list[object] = []
    for place, test, values in keep:
        table, key = lookup.TABLES[place]
        parts.append(
            f"SELECT created_at, {path} AS place, {key} AS key FROM {table} WHERE {test or '1'}"
        )
        all_values += values
        if keys is not None:
            parts[-1] += f" AND {key} IN (SELECT value FROM json_each(?))"
            all_values.append(str([each for each in keys if each % len(FAMILIES) == place]))
    if not parts:
        return []
    sql = f"{' UNION ALL '.join(parts)} ORDER BY created_at DESC, place DESC, key DESC LIMIT ? OFFSET ?"
    rows = connection.execute(sql, (*all_values, -1 if limit is None else limit, offset))
    return [row[2] for row in rows]


def count(connection: sqlite3.Connection, query: Query) -> int:
    """Count the records that pass the filters."""
    tables = [(lookup.TABLES[place][0], test, values) for place, test, values in filter_of(query)]
    counts = " + ".join(
        f"(SELECT count(*) FROM {table} WHERE {test or '1'})" for table, test, _ in tables
    )
    values = [value for _, _, own in tables for value in own]
    return int(connection.execute(f"SELECT {counts}", values).fetchone()[0])


def session_records(
    connection: sqlite3.Connection, session_id: str, *, most: int | None = None
) -> list[Record]:
    """Return a session's records as they happened; of too many, both ends."""
    keys = observation_keys(connection, session_id)
    if most is not None and len(keys) > most:
        keys = keys[: most // 10] + keys[-(most - most // 10) :]
    return list(records(connection, keys).values())


def observation_keys(
    connection: sqlite3.Connection, session_id: str, limit: int | None = None, offset: int = 0
) -> list[int]:
    """Return the keys of a session's observations, in the order in which they happened."""
    sql = "SELECT key FROM observations WHERE session_id = ? ORDER BY seq LIMIT ? OFFSET ?"
    return [
        row[0]
        for row in connection.execute(
            sql, (safe(session_id), -1 if limit is None else limit, offset)
        )
    ]


def key_of(connection: sqlite3.Connection, record_id: str) -> int | None:
    """Return the key of the first record with this id."""
    return next(iter(keys_of(connection, record_id)), None)


def keys_of(
    connection: sqlite3.Connection, record_id: str, query: Query | None = None
) -> list[int]:
    """Return the keys of all records with this id that pass the filters."""
    keys: list[int] = []
    everything: list[tuple[int, str, list[object]]] = [
        (place, "", []) for place in range(len(FAMILIES))
    ]
    for place, test, values in everything if query is None else filter_of(query):
        table, key = lookup.TABLES[place]
        column = "record_id" if table == "journal" else "id"
        sql = f"SELECT {key} FROM {table} WHERE {column} = ? AND {test or '1'} ORDER BY {key}"
        keys += (row[0] for row in connection.execute(sql, (safe(record_id), *values)))
    return keys


def adjacent_keys(
    connection: sqlite3.Connection, number: int, record: Record, reach: int, task: str = ""
) -> list[int]:
    """Return the records of the family just before and after one that a task sees."""
    table, key = TABLES[record.family]
    _, test, values = _conditions(record.family, Query(task=task))
    keys: list[int] = []
    for relation, order in (("<", "DESC"), (">", "ASC")):
        sql = (
            f"SELECT {key} FROM {table} WHERE (created_at, {key}) {relation} (?, ?) AND created_at <> '' "
            f"AND {test or '1'} ORDER BY created_at {order}, {key} {order} LIMIT ?"
        )
        added = safe(record.added_at)
        keys += [row[0] for row in connection.execute(sql, (added, number, *values, reach))]
    return keys


def tasks_of(connection: sqlite3.Connection, keys: Sequence[int]) -> dict[int, str]:
    """Return the tasks of records by key: of their origins, sessions or folders."""
    parts = (
        lookup.select_keys(connection, place, f"{{key}}, {owner}", keys)
        for place, owner in enumerate(_OWNERS)
    )
    return {row[0]: row[1] for part in parts for row in part if row[1]}


def sees_session(connection: sqlite3.Connection, session_id: str, task: str) -> bool:
    """Whether nothing in a session belongs to another unfinished task."""
    return safe(session_id) not in hidden_sessions(connection, task)


def hidden_sessions(connection: sqlite3.Connection, task: str) -> set[str]:
    """Return the sessions that a task may not see; none without a task."""
    sql = (
        f"SELECT id, session_id FROM sessions WHERE task_id IN ({lookup.OTHERS}) UNION "
        f"SELECT session_id, NULL FROM observations WHERE {lookup.ORIGIN_TASK} IN ({lookup.OTHERS})"
    )
    found = connection.execute(sql, (safe(task), safe(task))) if task else ()
    return {name for row in found for name in row if name}


def observations_of_task(
    connection: sqlite3.Connection,
    task: str,
    sessions: Sequence[str],
    limit: int,
    *,
    only_sessions: bool,
) -> list[Record]:
    """Return a task's newest observations: of its sessions and, if wanted, those that name it."""
    names = [*sessions]
    if not only_sessions:
        sql = "SELECT DISTINCT session_id FROM observations WHERE instr(metadata, ?)"
        names += (row[0] for row in connection.execute(sql, (f'"task":"{safe(task)}"',)))
    keys = [key for name in dict.fromkeys(names) for key in observation_keys(connection, name)][
        -limit:
    ]
    return [
        record for record in records(connection, keys).values() if record.origin.task in ("", task)
    ]


def unfinished_tasks(connection: sqlite3.Connection, but: str) -> set[str]:
    """Return the ids of the tasks that are not finished, but for one."""
    return {row[0] for row in connection.execute(lookup.OTHERS, (safe(but),))}


def rows_of(
    connection: sqlite3.Connection, source: int
) -> Iterator[tuple[int, str, tuple[object, ...]]]:
    """Yield key, id and values of a source's rows, without what the index assigns."""
    for family in FAMILIES:
        table, key = TABLES[family]
        sql = f"SELECT {COLUMNS[family]}, * FROM {table} WHERE source = ? ORDER BY {key}"
        for row in connection.execute(sql, (source,)):
            record = record_of(family, row)
            values = (row[name] for name in row.keys() if name not in _NOT_COMPARED)  # noqa: SIM118  (a Row is no mapping)
            yield row[key], record.id, (record, *values)


def fingerprints(connection: sqlite3.Connection) -> dict[int, int]:
    """Return a hash of what the full-text index has of each record."""
    connection.execute(
        "CREATE VIRTUAL TABLE IF NOT EXISTS temp.instances USING fts5vocab(main, search, 'instance')"
    )
    hashes: dict[int, int] = {}
    for term, doc, column, offset in connection.execute(
        "SELECT term, doc, col, offset FROM temp.instances"
    ):
        hashes[doc] = hashes.get(doc, 0) + hash((term, column, offset))
    return hashes


def iterations(
    *,
    run: str = "",
    not_of: str = "",
    task: str = "",
    outcome: str = "",
    since: str = "",
    noted: bool = False,
) -> tuple[str, list[object]]:
    """Return condition and values for journal rows; the beginning of a run's id will do."""
    _, test, values = lookup.conditions(
        FAMILIES.index(Family.JOURNAL),
        (True, "iteration IS NOT NULL AND run_id NOT IN ('', ?)", (not_of,)),
        (True, f"{lookup.ORIGIN_TASK.replace('task', 'label')} <> 'run'", ()),
        (task, "task_id = ?", (task,)),
        (outcome, "outcome = ?", (outcome,)),
        (since, "created_at >= ?", (since,)),
        (run, "substr(run_id, 1, ?) = ?", (len(safe(run)), run)),
        (noted, "notes <> ''", ()),
    )
    return test, [safe(value) if isinstance(value, str) else value for value in values]


def count_loops(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Count by status the runs of the loop that did something, and their iterations."""
    worked = "iterations > 0 OR status != 'success'"
    sql = f"SELECT status, count(*), sum(iterations) FROM loop_runs WHERE {worked} GROUP BY status"
    return {row[0]: (int(row[1]), int(row[2])) for row in connection.execute(sql)}


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the rows of each table."""
    tables = ("sources", "records", "observations", "journal", "sessions", "loop_runs", "tasks")
    return {
        table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in tables
    }


def row_keys(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, int]:
    """Return the keys of memory rows by their ids."""
    sql = "SELECT id, key FROM records WHERE id IN (SELECT value FROM json_each(?))"
    return dict(connection.execute(sql, (json.dumps(list(names)),)).fetchall())


def ids_ending(connection: sqlite3.Connection, tails: Collection[str]) -> list[str]:
    """Return the ids that end in one of some tails of the same length."""
    name = "SELECT id FROM records UNION ALL SELECT id FROM observations UNION ALL SELECT record_id FROM journal"
    sql = f"SELECT id FROM ({name}) WHERE substr(id, ?) IN (SELECT value FROM json_each(?))"
    values = [safe(tail) for tail in tails]
    return [
        row[0]
        for row in connection.execute(sql, (-max(map(len, values), default=1), json.dumps(values)))
    ]


def retired_keys(connection: sqlite3.Connection) -> list[int]:
    """Return the keys of retired memories."""
    return [
        row[0]
        for row in connection.execute(
            "SELECT key FROM records WHERE status = ?", (Status.RETIRED.value,)
        )
    ]


def source_format(connection: sqlite3.Connection, path: str) -> str:
    """Return the format of a source by its name."""
    return str(
        connection.execute("SELECT format FROM sources WHERE path = ?", (path,)).fetchone()[0]
    )


def facet_filter(
    chosen: Mapping[str, Collection[str]], *, since: str = "", task: str = ""
) -> lookup.Filter:
    """Return the filter of chosen facets: of tags, the lists of tags with one; archived records only where chosen."""
    parts: list[tuple[int, str, Sequence[object]]] = []
    facets = ("family", "type", "tag", "status")
    families, kinds, tags, statuses = ([*map(safe, chosen.get(facet, ()))] for facet in facets)
    marks = lookup.placeholders
    for place, family in enumerate(FAMILIES):
        if families and family.value not in families:
            continue
        status = USUAL[family][0]
        own = "status"
        archived = f"status <> '{Status.RETIRED.value}'"
        if family is not Family.MEMORY:
            own = lookup.ORIGIN_TASK.replace("task", "status")
            archived = f"""instr(metadata, '"status":"{Status.RETIRED.value}"') = 0"""
        tests: list[lookup.Condition] = [
            ("type" in chosen, f"{lookup.KIND_COLUMNS[place]} IN ({marks(kinds)})", kinds),
            ("tag" in chosen, f"tags IN ({marks(tags)})", tags),
            (
                "status" in chosen,
                f"coalesce(nullif({own}, ''), ?) IN ({marks(statuses)})",
                (status.value, *statuses),
            ),
            ("status" not in chosen, archived, ()),
            (since, "created_at >= ?", (since,)),
            (task, f"{_OWNERS[place]} = ?", (safe(task),)),
        ]
        parts.append(lookup.conditions(place, *tests))
    return parts


def filter_of(query: Query) -> list[tuple[int, str, list[object]]]:
    """Return what a query may see, for the SELECTs of `lookup`."""
    return [_conditions(family, query) for family in query.families or FAMILIES]


def _conditions(family: Family, query: Query) -> tuple[int, str, list[object]]:
    place = FAMILIES.index(family)
    scope = query.scope
    folder = query.project.rstrip("/")
    marks = lookup.placeholders(query.sources)
    project = "s.id = observations.session_id AND (s.project_path = ? OR substr(s.project_path, 1, ?) = ?)"
    _, test, values = lookup.conditions(
        place,
        *lookup.common_tests(
            place, [kind.value for kind in query.kinds], query.tags, query.since, query.task
        ),
        (query.until, "substr(created_at, 1, ?) <= ?", (len(query.until), query.until)),
        (
            query.sources,
            f"source IN (SELECT key FROM sources WHERE path IN ({marks}))",
            query.sources,
        ),
        (
            scope,
            "coalesce(nullif(scope, ''), ?) = ?",
            (USUAL[family][1].value, scope.value if scope else ""),
        ),
        (
            query.project and family is Family.OBSERVATION,
            f"EXISTS (SELECT 1 FROM sessions s WHERE {project})",
            (folder, len(folder) + 1, folder + "/"),
        ),
    )
    return place, test, [safe(value) if isinstance(value, str) else value for value in values]


def source_keys(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the keys of the sources, by their names."""
    return dict(connection.execute("SELECT path, key FROM sources").fetchall())


def matching_keys(connection: sqlite3.Connection, match: str) -> list[int]:
    """Return the keys of everything that a full-text match finds, in no order."""
    return [
        row[0]
        for row in connection.execute("SELECT rowid FROM search WHERE search MATCH ?", (match,))
    ]
