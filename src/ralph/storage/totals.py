"""Maintain the totals that the index keeps next to its rows.

The totals count records by facet, list sessions by time, and record how much of each log was read.
A page about a project with a million records can then be shown without counting or sorting them. A
*facet* is a property by which records are counted: family, type, tags, status or day.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ralph.core.record import USUAL, Family, Status
from ralph.storage import record_filters
from ralph.storage.index_schema import FAMILIES, KIND_COLUMNS, TABLES, keys_of_family
from ralph.storage.query_filters import status_column
from ralph.storage.record_rows import storable_text

if TYPE_CHECKING:
    from ralph.storage.source_contents import Contents

_IN_JSON = "IN (SELECT value FROM json_each(?))"
_LIST_OBSERVED_SESSIONS = """
INSERT INTO session_list(id, first, last, observations)
    SELECT session_id, coalesce(min(nullif(created_at, '')), ''), max(created_at), count(*)
    FROM observations WHERE {condition} AND session_id <> '' GROUP BY session_id
ON CONFLICT DO UPDATE SET observations = observations + excluded.observations,
    last = max(last, excluded.last),
    first = CASE WHEN '' IN (first, excluded.first) THEN max(first, excluded.first)
        ELSE min(first, excluded.first) END
"""
_LIST_STORED_SESSIONS = f"""
INSERT OR IGNORE INTO session_list(id) SELECT id FROM session_rows WHERE id {_IN_JSON}
"""
_SET_SESSION_START = f"""
UPDATE session_list SET started_at = coalesce(
    (SELECT nullif(started_at, '') FROM session_rows WHERE id = session_list.id), first)
WHERE id {_IN_JSON}
"""
_SESSIONS_OF_SOURCE = """
SELECT session_id AS id FROM observations WHERE source = ?
UNION SELECT id FROM session_rows WHERE source = ?
"""


class FacetValues(NamedTuple):
    """The facets of a record except its day."""

    family: str
    type: str
    tag: tuple[str, ...]
    status: str


FacetRow = tuple[FacetValues, str, int]
"""The facet values, the day, and the number of records with both."""


class FacetColumns(NamedTuple):
    """The SQL expressions for the facets of one family's records."""

    family: str
    kind: str
    tags: str
    status: str
    day: str


def facet_columns(family: Family) -> FacetColumns:
    """Return the SQL expressions for the facets of a family's records."""
    usual_status, _, _ = USUAL[family]
    return FacetColumns(
        family=f"'{family.value}'",
        kind=KIND_COLUMNS[family],
        tags="tags",
        status=f"coalesce(nullif({status_column(family)}, ''), '{usual_status.value}')",
        day="substr(created_at, 1, 10)",
    )


# --- updating -----------------------------------------------------------------------------------


def add_records(connection: sqlite3.Connection, family: Family, first: int) -> None:
    """Add a family's new records to the totals. Their keys start at `first`."""
    _, key = TABLES[family]
    _count(connection, family, f"{key} >= ?", (first,), sign=1)
    if family is Family.OBSERVATION:
        connection.execute(_LIST_OBSERVED_SESSIONS.format(condition="key >= ?"), (first,))


def _count(
    connection: sqlite3.Connection,
    family: Family,
    test: str,
    values: Sequence[int | str],
    *,
    sign: int,
) -> None:
    """Add the records that meet a condition to the totals, or subtract them if `sign` is -1."""
    table, _ = TABLES[family]
    sql = f"""
        INSERT INTO facets SELECT {", ".join(facet_columns(family))}, ? * count(*)
        FROM {table} WHERE {test} GROUP BY 1, 2, 3, 4, 5
        ON CONFLICT DO UPDATE SET number = number + excluded.number
        """
    connection.execute(sql, (sign, *values))


def add_log(connection: sqlite3.Connection, source: int, new: Contents) -> None:
    """Add the events, problems and hosts in a log's new lines to the log's row."""
    if not new.events and not new.problems:
        return
    row = connection.execute("SELECT hosts FROM sources WHERE key = ?", (source,)).fetchone()
    hosts = new.hosts.union(row["hosts"].split())
    sql = """
        UPDATE sources SET problems = problems + ?, events = events + ?, hosts = ? WHERE key = ?
        """
    connection.execute(
        sql, (new.problems, new.events, storable_text(" ".join(sorted(hosts))), source)
    )


def begin_sessions(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Add these sessions to the list if they have a row, and set their start times."""
    listed = json.dumps(sorted(names))
    connection.execute(_LIST_STORED_SESSIONS, (listed,))
    connection.execute(_SET_SESSION_START, (listed,))


def subtract_records(
    connection: sqlite3.Connection, family: Family, condition: str, values: Sequence[int | str]
) -> None:
    """Subtract the records that meet a condition from the totals, before they are deleted."""
    _count(connection, family, condition, values, sign=-1)
    connection.execute("DELETE FROM facets WHERE number <= 0")


def subtract_source(connection: sqlite3.Connection, source: int) -> list[str]:
    """Subtract a source's records from the totals, before its rows are deleted.

    Return the ids of the source's sessions, to be passed to `list_sessions_again`.
    """
    for family in FAMILIES:
        subtract_records(connection, family, "source = ?", (source,))
    rows = connection.execute(_SESSIONS_OF_SOURCE, (source, source))
    return [row["id"] for row in rows if row["id"]]


def relist_sessions(connection: sqlite3.Connection, sessions: Sequence[str]) -> None:
    """Rebuild the list entries of these sessions from the rows that remain."""
    listed = json.dumps(sessions)
    connection.execute(f"DELETE FROM session_list WHERE id {_IN_JSON}", (listed,))
    condition = f"session_id {_IN_JSON}"
    connection.execute(_LIST_OBSERVED_SESSIONS.format(condition=condition), (listed,))
    begin_sessions(connection, sessions)


# --- reading ------------------------------------------------------------------------------------


def count_records(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the records that are not retired, by family."""
    sql = "SELECT family, sum(number) AS total FROM facets WHERE status <> ? GROUP BY family"
    rows = connection.execute(sql, (Status.RETIRED.value,))
    return {str(row["family"]): int(row["total"]) for row in rows}


def facet_rows(connection: sqlite3.Connection) -> Iterator[FacetRow]:
    """Yield the totals over all records."""
    sql = "SELECT family, kind, tags, status, day, number FROM facets"
    for family, kind, tags, status, day, number in connection.execute(sql):
        yield FacetValues(family, kind, tag_names(tags), status), day, number


def facet_rows_of(
    connection: sqlite3.Connection,
    record_filter: record_filters.Filter,
    keys: Sequence[int] | None,
    days: Sequence[str] = (),
) -> list[FacetRow]:
    """Return the totals over the records that pass a filter, or over those among `keys`.

    Each record is counted under its own day. If `days` are given, newest first, it is counted under
    the first of them that is not later than the record.
    """
    result: list[FacetRow] = []
    for family, test, values in record_filter:
        table, key = TABLES[family]
        columns = facet_columns(family)
        if days:
            columns = columns._replace(day=_day_expression(days))
        sql = f"SELECT {', '.join(columns)}, count(*) FROM {table} WHERE {test or '1'}"
        all_values = [*values]
        if keys is not None:
            sql += f" AND {key} {_IN_JSON}"
            all_values.append(json.dumps(keys_of_family(keys, family)))
        # The tags differ most, so comparing them first sorts the rows faster.
        rows = connection.execute(f"{sql} GROUP BY 3, 5, 2, 4", all_values)
        for name, kind, tags, status, day, number in rows:
            result.append((FacetValues(name, kind, tag_names(tags), status), day, number))
    return result


def _day_expression(days: Sequence[str]) -> str:
    """Return the SQL expression for the first of `days` not later than a record, or ''."""
    cases = [f"WHEN created_at >= '{day}' THEN '{day}'" for day in days]
    return f"CASE {' '.join(cases)} ELSE '' END"


def tag_texts(connection: sqlite3.Connection, tags: Collection[str]) -> list[str]:
    """Return the stored tag lists that contain at least one of these tags."""
    rows = connection.execute("SELECT DISTINCT tags FROM facets")
    return [row["tags"] for row in rows if not set(tags).isdisjoint(tag_names(row["tags"]))]


@lru_cache(maxsize=4096)
def tag_names(text: str) -> tuple[str, ...]:
    """Return the tags in a stored list as they are counted: in lowercase, without duplicates."""
    if not text:
        return ()
    try:
        return tuple(dict.fromkeys(str(tag).lower() for tag in json.loads(text)))
    except (ValueError, TypeError):
        return ()
