"""Totals beside the rows: records by facet, sessions by time, what was read of each log.

A list of a million records counts and sorts nothing. Facets are kept for each source, and as sums (source 0).
"""

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ralph.model.record import USUAL, Family, Status
from ralph.store import lookup
from ralph.store.queries import FAMILIES, TABLES, safe
from ralph.store.sources import Contents

Chosen = Mapping[str, Collection[str]]  # the chosen values of each facet

_STATUS = lookup.ORIGIN_TASK.replace("task", "status")
_ADD = "ON CONFLICT DO UPDATE SET number = number + excluded.number"
_NAMED = "IN (SELECT value FROM json_each(?))"
_OBSERVED = """
INSERT INTO session_list(id, first, last, observations)
    SELECT session_id, coalesce(min(nullif(created_at, '')), ''), max(created_at), count(*) FROM observations
    WHERE {} AND session_id <> '' GROUP BY session_id
ON CONFLICT DO UPDATE SET observations = observations + excluded.observations, last = max(last, excluded.last),
    first = CASE WHEN '' IN (first, excluded.first) THEN max(first, excluded.first) ELSE min(first, excluded.first) END
"""
_BEGIN = f"""
UPDATE session_list SET started_at = coalesce(
    (SELECT nullif(started_at, '') FROM sessions WHERE id = session_list.id), first) WHERE id {_NAMED}
"""


class FacetValues(NamedTuple):
    """What is counted of a record, its time aside."""

    family: str
    type: str
    tag: tuple[str, ...]
    status: str


FacetRow = tuple[FacetValues, str, int]  # values, day, and how many records have both


def facet_columns(family: Family) -> tuple[str, str, str, str, str]:
    """Return the expressions of what is counted over a family's table."""
    status = USUAL[family][0]
    own = "status" if family is Family.MEMORY else _STATUS
    return (
        f"'{family.value}'",
        lookup.KIND_COLUMNS[FAMILIES.index(family)],
        "tags",
        f"coalesce(nullif({own}, ''), '{status.value}')",
        "substr(created_at, 1, 10)",
    )


def add_records(connection: sqlite3.Connection, source: int, family: Family, first: int) -> None:
    """Add the records of a source from a key on."""
    table, key = TABLES[family]
    columns = ", ".join(facet_columns(family))
    for each in (source, 0):
        sql = f"INSERT INTO facets SELECT ?, {columns}, count(*) FROM {table} WHERE {key} >= ? "
        connection.execute(f"{sql} GROUP BY 2, 3, 4, 5, 6 {_ADD}", (each, first))
    if family is Family.OBSERVATION:
        connection.execute(_OBSERVED.format("key >= ?"), (first,))


def add_log(connection: sqlite3.Connection, source: int, new: Contents) -> None:
    """Add what was counted in new lines of a log."""
    if new.events or new.problems:
        sql = "SELECT hosts FROM sources WHERE key = ?"
        hosts = new.hosts.union(connection.execute(sql, (source,)).fetchone()[0].split())
        sql = "UPDATE sources SET problems = problems + ?, events = events + ?, hosts = ? WHERE key = ?"
        connection.execute(sql, (new.problems, new.events, safe(" ".join(sorted(hosts))), source))


def begin_sessions(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """List sessions that have a row by now, and set when they began."""
    listed = json.dumps(sorted(names))
    connection.execute(f"INSERT OR IGNORE INTO session_list(id) SELECT id FROM sessions WHERE id {_NAMED}", (listed,))
    connection.execute(_BEGIN, (listed,))


def sessions_in(connection: sqlite3.Connection, source: int) -> list[str]:
    """Return the ids of the sessions of which a source has something."""
    sql = "SELECT session_id FROM observations WHERE source = ?1 UNION SELECT id FROM sessions WHERE source = ?1"
    return [row[0] for row in connection.execute(sql, (source,)) if row[0]]


def remove_source(connection: sqlite3.Connection, source: int, sessions: Sequence[str]) -> None:
    """Remove what was counted of a source whose rows are gone."""
    names = "family, kind, tags, status, day"
    sql = f"INSERT INTO facets SELECT 0, {names}, -number FROM facets WHERE source = ? {_ADD}"
    connection.execute(sql, (source,))
    connection.execute("DELETE FROM facets WHERE source = ? OR (source = 0 AND number <= 0)", (source,))
    connection.execute(f"DELETE FROM session_list WHERE id {_NAMED}", (json.dumps(sessions),))
    connection.execute(_OBSERVED.format(f"session_id {_NAMED}"), (json.dumps(sessions),))
    begin_sessions(connection, sessions)


def count_records(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the records of each family that are not archived."""
    sql = "SELECT family, sum(number) FROM facets WHERE source = 0 AND status <> ? GROUP BY family"
    return {str(row[0]): int(row[1]) for row in connection.execute(sql, (Status.RETIRED.value,))}


def facet_rows(connection: sqlite3.Connection) -> Iterator[FacetRow]:
    """Yield the totals of everything."""
    sql = "SELECT family, kind, tags, status, day, number FROM facets WHERE source = 0"
    for family, kind, tags, status, day, number in connection.execute(sql):
        yield FacetValues(family, kind, tag_names(tags), status), day, number


def facet_rows_of(
    connection: sqlite3.Connection, keep: "lookup.Filter", keys: Sequence[int] | None, days: Sequence[str] = ()
) -> list[FacetRow]:
    """Return the totals of the records that pass a filter, of some keys or of all, by day or since which of `days`."""
    result: list[FacetRow] = []
    for place, test, values in keep:
        table, key = lookup.TABLES[place]
        family, kind, tags, status, day = facet_columns(FAMILIES[place])
        cases = " ".join(f"WHEN created_at >= '{each}' THEN '{each}'" for each in days)
        day = f"CASE {cases} ELSE '' END" if days else day
        own = "" if keys is None else json.dumps([each for each in keys if each % len(FAMILIES) == place])
        among = f" AND {key} {_NAMED}" if own else ""
        sql = f"SELECT {family}, {kind}, {tags}, {status}, {day}, count(*) FROM {table} WHERE {test or '1'}{among}"
        for row in connection.execute(f"{sql} GROUP BY 2, 3, 4, 5", (*values, own) if own else (*values,)):
            result.append((FacetValues(row[0], row[1], tag_names(row[2]), row[3]), row[4], row[5]))
    return result


def tag_texts(connection: sqlite3.Connection, tags: Collection[str]) -> list[str]:
    """Return the lists of tags, as rows have them, that contain one of some tags."""
    rows = connection.execute("SELECT DISTINCT tags FROM facets WHERE source = 0")
    return [row[0] for row in rows if not set(tags).isdisjoint(tag_names(row[0]))]


@lru_cache(maxsize=4096)
def tag_names(text: str) -> tuple[str, ...]:
    """Return tags as they are counted: lowercase, each once."""
    if not text:
        return ()
    try:
        return tuple(dict.fromkeys(str(tag).lower() for tag in json.loads(text)))
    except (ValueError, TypeError):
        return ()
