"""The SELECTs behind facets: which state the index is in, and what is counted of each record.

Facets are counted over everything that matches, so that nothing is decoded here that is not counted: kind, tags,
scope, file, status and time. What a source says is read again only when the source has changed (`changed`), since a
running loop changes one log a second and the others never. `app/pages/explore.py` keeps what was read.
"""

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from ralph.model.record import Family
from ralph.store import lookup
from ralph.store.columns import USUAL
from ralph.store.rows import FAMILIES, TABLES

_KIND = {Family.MEMORY: "kind", Family.OBSERVATION: "type", Family.JOURNAL: "outcome"}


class Shape(NamedTuple):
    """What is counted of a record, its time aside; many records have one shape."""

    family: str
    kind: str
    tag: tuple[str, ...]
    scope: str
    source: str
    status: str


class Stand(NamedTuple):
    """A source as the index read it; `mtime_ns` is 0 in an index that is made for one question."""

    path: str
    mtime_ns: int
    size: int
    inode: int
    offset: int


def stands(connection: sqlite3.Connection) -> dict[int, Stand]:
    """Every source by its key."""
    sql = "SELECT key, path, mtime_ns, size, inode, offset FROM sources"
    return {row[0]: Stand(*row[1:]) for row in connection.execute(sql)}


def sizes(connection: sqlite3.Connection) -> tuple[int, ...]:
    """How many rows each family has, and its last key: an index that was made anew is told by them."""
    found: list[int] = []
    for table, key in lookup.TABLES:
        row = connection.execute(f"SELECT count(*), coalesce(max({key}), 0) FROM {table}").fetchone()  # noqa: S608 - our own words
        found += (row[0], row[1])
    return tuple(found)


def shapes(
    connection: sqlite3.Connection, sources: Collection[int], names: Mapping[int, str]
) -> Iterator[tuple[int, int, Shape, str]]:
    """Source, key, shape and time of every record of some sources."""
    for family in FAMILIES:
        table, key = TABLES[family]
        status, scope, _ = USUAL[family]
        told = "status" if family is Family.MEMORY else lookup.TOLD_TASK.replace("task", "status")
        for part in lookup.parts(sorted(sources)):
            sql = (
                f"SELECT source, {key}, {_KIND[family]}, tags, scope, {told}, created_at "  # noqa: S608  (our own names)
                f"FROM {table} WHERE source IN ({lookup.marks(part)})"
            )
            for source, number, kind, tags, own_scope, own_status, created in connection.execute(sql, part):
                said = (own_scope or scope.value, names[source], own_status or status.value)
                yield source, number, Shape(family.value, kind, _tags(tags), *said), created


def matching(connection: sqlite3.Connection, match: str) -> list[int]:
    """The keys of everything that a full-text match finds, in no order."""
    return [row[0] for row in connection.execute("SELECT rowid FROM search WHERE search MATCH ?", (match,))]


@lru_cache(maxsize=4096)
def _tags(text: str) -> tuple[str, ...]:
    """Tags as they are counted: upper and lower case are the same, each once."""
    if not text:
        return ()
    try:
        return tuple(dict.fromkeys(str(tag).lower() for tag in json.loads(text)))
    except (ValueError, TypeError):
        return ()
