"""Run the ranking's queries over two databases: the index and `team.db`.

Keys from the second database are shifted by a multiple of `KEY_STEP`, which keeps them apart from
those of the first and preserves their family. Counts are added up. BM25 is computed separately in
each database, so scores are comparable, but not equal to those of one database with all rows.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ralph.core.record import Record
from ralph.storage import index_schema, lookup, queries
from ralph.storage.lookup import RecordRow
from ralph.storage.team_db import PREFIX

if TYPE_CHECKING:
    from ralph.storage.record_filters import Filter

_KEY_SHIFT = index_schema.KEY_STEP << 50  # above any key that a database can reach


class _Part(NamedTuple):
    """One of the databases, with the requested keys that belong to it.

    `keys` are the database's own keys. Adding `shift` gives the keys that callers see.
    """

    connection: sqlite3.Connection
    shift: int
    keys: list[int]


class PairedLookup:
    """Presents two databases as one `RankingStore`. Its `connection` arguments are ignored."""

    def __init__(self, *connections: sqlite3.Connection) -> None:
        self._connections = connections

    def _parts(self, keys: Sequence[int]) -> Iterator[_Part]:
        """Yield each database with its share of the keys."""
        for number, connection in enumerate(self._connections):
            own_keys = [key % _KEY_SHIFT for key in keys if key // _KEY_SHIFT == number]
            yield _Part(connection, number * _KEY_SHIFT, own_keys)

    def size(self, connection: object) -> int:
        return sum(lookup.size(database) for database in self._connections)

    def frequencies(
        self, connection: object, terms: Sequence[str], exact: int = lookup.COUNTED
    ) -> dict[str, int]:
        total: Counter[str] = Counter()
        for database in self._connections:
            total.update(lookup.frequencies(database, terms, exact))
        return dict(sorted(total.items()))

    def terms_with_prefix(
        self, connection: object, prefix: str, limit: int, length: int | None = None
    ) -> list[tuple[str, int]]:
        total: Counter[str] = Counter()
        for database in self._connections:
            total.update(dict(lookup.terms_with_prefix(database, prefix, limit, length)))
        return sorted(total.items())[:limit]

    def terms_containing(self, connection: object, part: str, limit: int) -> list[tuple[str, int]]:
        total: Counter[str] = Counter()
        for database in self._connections:
            total.update(dict(lookup.terms_containing(database, part, limit)))
        return sorted(total.items())[:limit]

    def best_matches(
        self,
        connection: object,
        match: str,
        weights: Sequence[float],
        limit: int,
        record_filter: Filter | None = None,
    ) -> list[tuple[int, float]]:
        found: list[tuple[int, float]] = []
        for number, database in enumerate(self._connections):
            shift = number * _KEY_SHIFT
            for key, score in lookup.best_matches(database, match, weights, limit, record_filter):
                found.append((key + shift, score))
        found.sort(key=_score_then_key, reverse=True)
        if limit < 0:
            return found
        return found[:limit]

    def count_matching(self, connection: object, match: str, record_filter: Filter) -> int:
        return sum(
            lookup.count_matching(database, match, record_filter) for database in self._connections
        )

    def filter_keys(
        self, connection: object, keys: Sequence[int], record_filter: Filter
    ) -> set[int]:
        passing: set[int] = set()
        for part in self._parts(keys):
            for key in lookup.filter_keys(part.connection, part.keys, record_filter):
                passing.add(key + part.shift)
        return passing

    def sort_values(
        self, connection: object, keys: Sequence[int]
    ) -> dict[int, tuple[str, str, int]]:
        values: dict[int, tuple[str, str, int]] = {}
        for part in self._parts(keys):
            for key, value in lookup.sort_values(part.connection, part.keys).items():
                values[key + part.shift] = value
        return values

    def neighbours(
        self, connection: object, keys: Sequence[int], reach: int
    ) -> Iterator[tuple[int, int, int]]:
        for part in self._parts(keys):
            near = lookup.neighbours(part.connection, part.keys, reach)
            for key, neighbour, distance in near:
                yield key + part.shift, neighbour + part.shift, distance

    def linked_keys(self, connection: object, keys: Sequence[int]) -> list[tuple[int, int]]:
        links = []
        for part in self._parts(keys):
            for source, target in lookup.linked_keys(part.connection, part.keys):
                links.append((source + part.shift, target + part.shift))
        return links

    def fetch_rows(self, connection: object, keys: Sequence[int]) -> Mapping[int, RecordRow]:
        rows: dict[int, RecordRow] = {}
        for part in self._parts(keys):
            for row in lookup.fetch_rows(part.connection, part.keys).values():
                row.key += part.shift
                rows[row.key] = row
        return rows

    def records(self, keys: Sequence[int]) -> dict[int, Record]:
        """Return the records with these keys, in the order given."""
        found: dict[int, Record] = {}
        for part in self._parts(keys):
            for key, record in queries.records(part.connection, part.keys).items():
                found[key + part.shift] = record
        return {key: found[key] for key in keys if key in found}

    def select(self, choose: Callable[[sqlite3.Connection], Sequence[int]]) -> list[int]:
        """Return the keys that `choose` returns for each database, newest first."""
        keys = []
        for number, database in enumerate(self._connections):
            for key in choose(database):
                keys.append(key + number * _KEY_SHIFT)
        sort_values = self.sort_values(None, keys)
        return sorted(keys, key=sort_values.__getitem__, reverse=True)

    def members(self, keys: Sequence[int]) -> dict[int, str]:
        """Return who pushed each record that came from a log, by key.

        Memories are left out, because their metadata names the author.
        """
        members: dict[int, str] = {}
        for part in self._parts(keys):
            for key, (path, _) in queries.locations(part.connection, part.keys).items():
                folders = path.split("/")
                if f"{folders[0]}/" == PREFIX and len(folders) > 2:
                    members[key + part.shift] = folders[1]
        return members


def _score_then_key(match: tuple[int, float]) -> tuple[float, int]:
    key, score = match
    return score, key
