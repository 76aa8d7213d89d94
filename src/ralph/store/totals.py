"""Totals beside the rows: records by facet, sessions by time, what was read of each log.

A list of a million records counts and sorts nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ralph.model.record import USUAL, Family, Status
from ralph.store import lookup
from ralph.store.queries import FAMILIES, TABLES, safe
from ralph.store.sources import Contents

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
    own = "status" if family is Family.MEMORY else lookup.ORIGIN_TASK.replace("task", "status")
    return (
        f"'{family.value}'",
        lookup.KIND_COLUMNS[FAMILIES.index(family)],
        "tags",
        f"coalesce(nullif({own}, ''), '{status.value}')",
        "substr(created_at, 1, 10)",
    )


def add_records(connection: sqlite3.Connection, family: Family, first: int) -> None:
    """Add the records of a family from a key on."""
    _count(connection, family, f"{TABLES[family][1]} >= ?", first, 1)
    if family is Family.OBSERVATION:
        connection.execute(_OBSERVED.format("key >= ?"), (first,))


def _count(
    connection: sqlite3.Connection, family: Family, test: str, value: int, sign: int
) -> None:
    columns = ", ".join(facet_columns(family))
    sql = (
        f"INSERT INTO facets SELECT {columns}, ? * count(*) FROM {TABLES[family][0]} WHERE {test} "
    )
    sql += "GROUP BY 1, 2, 3, 4, 5 ON CONFLICT DO UPDATE SET number = number + excluded.number"
    connection.execute(sql, (sign, value))


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
    connection.execute(
        f"INSERT OR IGNORE INTO session_list(id) SELECT id FROM sessions WHERE id {_NAMED}",
        (listed,),
    )
    connection.execute(_BEGIN, (listed,))


def take_source(connection: sqlite3.Connection, source: int) -> list[str]:
    """Subtract the records of a source before its rows go; return its sessions, for `list_sessions_again`."""
    for family in FAMILIES:
        _count(connection, family, "source = ?", source, -1)
    connection.execute("DELETE FROM facets WHERE number <= 0")
    sql = "SELECT session_id FROM observations WHERE source = ?1 UNION SELECT id FROM sessions WHERE source = ?1"
    return [row[0] for row in connection.execute(sql, (source,)) if row[0]]


def list_sessions_again(connection: sqlite3.Connection, sessions: Sequence[str]) -> None:
    """List sessions by the rows that are left of them."""
    connection.execute(f"DELETE FROM session_list WHERE id {_NAMED}", (json.dumps(sessions),))
    connection.execute(_OBSERVED.format(f"session_id {_NAMED}"), (json.dumps(sessions),))
    begin_sessions(connection, sessions)


def count_records(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the records of each family that are not archived."""
    sql = "SELECT family, sum(number) FROM facets WHERE status <> ? GROUP BY family"
    return {str(row[0]): int(row[1]) for row in connection.execute(sql, (Status.RETIRED.value,))}


def facet_rows(connection: sqlite3.Connection) -> Iterator[FacetRow]:
    """Yield the totals of everything."""
    sql = "SELECT family, kind, tags, status, day, number FROM facets"
    for family, kind, tags, status, day, number in connection.execute(sql):
        yield FacetValues(family, kind, tag_names(tags), status), day, number


def facet_rows_of(
    connection: sqlite3.Connection,
    keep: lookup.Filter,
    keys: Sequence[int] | None,
    days: Sequence[str] = (),
) -> list[FacetRow]:
    """Return the totals of the records that pass a filter, of some keys or of all, by day or since which of `days`."""
    result: list[FacetRow] = []
    for place, test, values in keep:
        table, key = lookup.TABLES[place]
        family, kind, tags, status, day = facet_columns(FAMILIES[place])
        cases = " ".join(f"WHEN created_at >= '{each}' THEN '{each}'" for each in days)
        day = f"CASE {cases} ELSE '' END" if days else day
        own = (
            ""
            if keys is None
            else json.dumps([each for each in keys if each % len(FAMILIES) == place])
        )
        among = f" AND {key} {_NAMED}" if own else ""
        sql = f"SELECT {family}, {kind}, {tags}, {status}, {day}, count(*) FROM {table} WHERE {test or '1'}{among}"
        for row in connection.execute(
            f"{sql} GROUP BY 2, 3, 4, 5", (*values, own) if own else (*values,)
        ):
            result.append((FacetValues(row[0], row[1], tag_names(row[2]), row[3]), row[4], row[5]))
    return result


def tag_texts(connection: sqlite3.Connection, tags: Collection[str]) -> list[str]:
    """Return the lists of tags, as rows have them, that contain one of some tags."""
    rows = connection.execute("SELECT DISTINCT tags FROM facets")
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
