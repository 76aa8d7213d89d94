"""The SELECTs behind the ranking over two databases at once: the index and `team.db`.

Keys of the second one are moved out of the way of the first, by a multiple of three. Counts are sums; BM25 is that of
each database, so that scores are comparable and not equal to those over one database with all rows.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ralph.model.record import Record
from ralph.store import lookup, queries
from ralph.store.lookup import RecordRow
from ralph.store.team_db import PREFIX

if TYPE_CHECKING:
    from ralph.store.lookup import Filter

_MOVED = len(lookup.TABLES) << 50


class PairedLookup:
    """Two databases as one; every function takes a connection, as in `lookup`, and ignores it."""

    def __init__(self, *connections: sqlite3.Connection) -> None:
        self._connections = connections

    def _of(self, keys: Sequence[int]) -> Iterator[tuple[sqlite3.Connection, int, list[int]]]:
        for number, connection in enumerate(self._connections):
            yield (
                connection,
                number * _MOVED,
                [key % _MOVED for key in keys if key // _MOVED == number],
            )

    def size(self, connection: object) -> int:
        return sum(map(lookup.size, self._connections))

    def frequencies(
        self, connection: object, terms: Sequence[str], exact: int = lookup.COUNTED
    ) -> dict[str, int]:
        return dict(
            _sum(lookup.frequencies(each, terms, exact).items() for each in self._connections)
        )

    def terms_starting(
        self, connection: object, prefix: str, limit: int, length: int | None = None
    ) -> list[tuple[str, int]]:
        return _sum(
            lookup.terms_starting(each, prefix, limit, length) for each in self._connections
        )[:limit]

    def terms_with(self, connection: object, part: str, limit: int) -> list[tuple[str, int]]:
        return _sum(lookup.terms_with(each, part, limit) for each in self._connections)[:limit]

    def matching(
        self,
        connection: object,
        match: str,
        weights: Sequence[float],
        limit: int,
        keep: Filter | None = None,
    ) -> list[tuple[int, float]]:
        found: list[tuple[float, int]] = []
        for number, each in enumerate(self._connections):
            best = lookup.matching(each, match, weights, limit, keep)
            found += ((score, key + number * _MOVED) for key, score in best)
        return [
            (key, score)
            for score, key in sorted(found, reverse=True)[: limit if limit >= 0 else None]
        ]

    def count_matching(self, connection: object, match: str, keep: Filter) -> int:
        return sum(lookup.count_matching(each, match, keep) for each in self._connections)

    def filter_keys(self, connection: object, keys: Sequence[int], keep: Filter) -> set[int]:
        return {
            key + base
            for each, base, own in self._of(keys)
            for key in lookup.filter_keys(each, own, keep)
        }

    def sort_values(
        self, connection: object, keys: Sequence[int]
    ) -> dict[int, tuple[str, str, int]]:
        parts = ((base, lookup.sort_values(each, own)) for each, base, own in self._of(keys))
        return {key + base: value for base, values in parts for key, value in values.items()}

    def neighbours(
        self, connection: object, keys: Sequence[int], reach: int
    ) -> Iterator[tuple[int, int, int]]:
        for each, base, own in self._of(keys):
            yield from (
                (key + base, other + base, step)
                for key, other, step in lookup.neighbours(each, own, reach)
            )

    def linked_keys(self, connection: object, keys: Sequence[int]) -> list[tuple[int, int]]:
        parts = ((base, lookup.linked_keys(each, own)) for each, base, own in self._of(keys))
        return [(key + base, other + base) for base, pairs in parts for key, other in pairs]

    def fetch_rows(self, connection: object, keys: Sequence[int]) -> Mapping[int, RecordRow]:
        rows: dict[int, RecordRow] = {}
        for each, base, own in self._of(keys):
            for row in lookup.fetch_rows(each, own).values():
                row.key += base
                rows[row.key] = row
        return rows

    def records(self, keys: Sequence[int]) -> dict[int, Record]:
        parts = ((base, queries.records(each, own)) for each, base, own in self._of(keys))
        found = {key + base: record for base, records in parts for key, record in records.items()}
        return {key: found[key] for key in keys if key in found}

    def select(self, choose: Callable[[sqlite3.Connection], Sequence[int]]) -> list[int]:
        """Return the keys that a function chooses in each database, the newest first."""
        keys = [
            key + number * _MOVED
            for number, each in enumerate(self._connections)
            for key in choose(each)
        ]
        places = self.sort_values(None, keys)
        return sorted(keys, key=lambda key: places[key], reverse=True)

    def members(self, keys: Sequence[int]) -> dict[int, str]:
        """Return who pushed the records of logs among some keys; a memory's own metadata says it."""
        parts = ((base, queries.locations(each, own)) for each, base, own in self._of(keys))
        paths = {
            key + base: path.split("/")
            for base, places in parts
            for key, (path, _) in places.items()
        }
        return {
            key: path[1] for key, path in paths.items() if f"{path[0]}/" == PREFIX and len(path) > 2
        }


def _sum(parts: Iterable[Iterable[tuple[str, int]]]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(dict(part))
    return sorted(counts.items())
