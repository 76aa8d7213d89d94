"""The SELECTs behind the ranking over two databases at once: the index and `team.db`.

Keys of the second one are moved out of the way of the first, by a multiple of three. Counts are sums; BM25 is that of
each database, so that scores are comparable and not equal to those over one database with all rows.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ralph.model.record import Query, Record
from ralph.store import lookup, queries
from ralph.store.lookup import RecordRow
from ralph.store.team_db import PREFIX

if TYPE_CHECKING:
    from ralph.store.lookup import Filter

_MOVED = len(lookup.TABLES) << 50


class PairedLookup:
    """Two databases as one; every function takes a connection, as in `lookup`, and ignores it."""

    def __init__(self, *connections: sqlite3.Connection) -> None:
        self._parts = [(connection, number * _MOVED) for number, connection in enumerate(connections)]

    def _of(self, keys: Sequence[int]) -> Iterator[tuple[sqlite3.Connection, int, list[int]]]:
        for connection, base in self._parts:
            own = [key - base for key in keys if base <= key < base + _MOVED]
            if own:
                yield connection, base, own

    def size(self, connection: object) -> int:
        """Count the records."""
        return sum(lookup.size(each) for each, _ in self._parts)

    def frequencies(self, connection: object, terms: Sequence[str]) -> dict[str, int]:
        """Count in how many records each term occurs."""
        return _sum(lookup.frequencies(each, terms).items() for each, _ in self._parts)

    def terms_starting(
        self, connection: object, prefix: str, limit: int, length: int | None = None
    ) -> list[tuple[str, int]]:
        """Return the first indexed terms with a prefix, with their counts."""
        counts = _sum(lookup.terms_starting(each, prefix, limit, length) for each, _ in self._parts)
        return sorted(counts.items())[:limit]

    def terms_with(self, connection: object, part: str, limit: int) -> list[tuple[str, int]]:
        """Return indexed terms that contain some letters."""
        return sorted(_sum(lookup.terms_with(each, part, limit) for each, _ in self._parts).items())[:limit]

    def matching(
        self, connection: object, match: str, weights: Sequence[float], limit: int, keep: "Filter | None" = None
    ) -> list[tuple[int, float]]:
        """Return the best full-text matches with their BM25 scores."""
        found = [
            (key + base, score)
            for each, base in self._parts
            for key, score in lookup.matching(each, match, weights, limit, keep)
        ]
        best = sorted(found, key=lambda pair: (pair[1], pair[0]), reverse=True)
        return best[: limit if limit >= 0 else None]

    def count_matching(self, connection: object, match: str, keep: "Filter") -> int:
        """Count the records that a full-text match has in all."""
        return sum(lookup.count_matching(each, match, keep) for each, _ in self._parts)

    def filter_keys(self, connection: object, keys: Sequence[int], keep: "Filter") -> set[int]:
        """Return those of some keys whose records pass the filter."""
        return {key + base for each, base, own in self._of(keys) for key in lookup.filter_keys(each, own, keep)}

    def sort_values(self, connection: object, keys: Sequence[int]) -> dict[int, tuple[str, str, int]]:
        """Return time, file and place of records."""
        return {
            key + base: value
            for each, base, own in self._of(keys)
            for key, value in lookup.sort_values(each, own).items()
        }

    def neighbours(self, connection: object, keys: Sequence[int], reach: int) -> Iterator[tuple[int, int, int]]:
        """Yield for observations: key, the key of another one of the same session within reach, and how far it is."""
        for each, base, own in self._of(keys):
            for key, other, step in lookup.neighbours(each, own, reach):
                yield key + base, other + base, step

    def linked_keys(self, connection: object, keys: Sequence[int]) -> list[tuple[int, int]]:
        """Return pairs of keys: of memories that name others, and of those."""
        return [
            (key + base, other + base)
            for each, base, own in self._of(keys)
            for key, other in lookup.linked_keys(each, own)
        ]

    def fetch_rows(self, connection: object, keys: Sequence[int]) -> Mapping[int, RecordRow]:
        """Return the columns of some records that are ranked and printed."""
        rows: dict[int, RecordRow] = {}
        for each, base, own in self._of(keys):
            for key, row in lookup.fetch_rows(each, own).items():
                row.key = key + base
                rows[row.key] = row
        return rows

    def records(self, keys: Sequence[int]) -> dict[int, Record]:
        """Return the records behind keys, in the order of the keys."""
        found = {
            key + base: record
            for each, base, own in self._of(keys)
            for key, record in queries.records(each, own).items()
        }
        return {key: found[key] for key in keys if key in found}

    def select(self, choose: Callable[[sqlite3.Connection], Sequence[int]]) -> list[int]:
        """Return the keys that a function chooses in each database, the newest first."""
        keys = [key + base for each, base in self._parts for key in choose(each)]
        places = self.sort_values(None, keys)
        return sorted(keys, key=lambda key: places.get(key, ("", "", 0)), reverse=True)

    def newest(self, query: Query) -> list[int]:
        """Return the keys of the newest records that pass the filters."""
        return self.select(lambda each: queries.newest_keys(each, query, query.limit))[: query.limit]

    def members(self, keys: Sequence[int]) -> dict[int, str]:
        """Return who pushed the records of the team among some keys; a memory's own metadata says it."""
        names: dict[int, str] = {}
        for each, base, own in self._of(keys):
            for key, (path, _) in queries.locations(each, own).items():
                if path.startswith(PREFIX):
                    parts = path.split("/")
                    names[key + base] = parts[1] if len(parts) > 2 else ""
        return names


def _sum(parts: Iterable[Iterable[tuple[str, int]]]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(dict(part))
    return dict(counts)
