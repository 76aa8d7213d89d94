"""What facets count of every record, in memory, in step with the index.

A person who types sees the counts of everything that matches change with each letter; SQL over the rows would take
longer than the search itself. So the few words that are counted are kept, by key, and read again source by source
when the index has read a source again. A view is never changed: whoever has one counts in peace while another thread
makes the next. `tests/app/test_explore.py` compares the counts with those of a slow count over the records.
"""

import sqlite3
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import chain
from operator import itemgetter

from ralph.model import ids
from ralph.model.record import Status
from ralph.store import facets
from ralph.store.facets import Facts, Stand

FACETS = ("family", "kind", "tag", "scope", "source", "status", "age")
AGES = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}
MOST = 40
"""So many values of a facet are told, the most frequent ones; what is chosen is always among them."""

_REMEMBERED = 64
_PLACE = {"family": 0, "kind": 1, "tag": 2, "scope": 3, "source": 4, "status": 5}
_CREATED = 6
_OFFERED = frozenset(status.value for status in Status if status is not Status.RETIRED)
"""What is retired is shown only to who asks for it."""

Chosen = Mapping[str, Collection[str]]
"""The values that were chosen of each facet; a facet without any lets everything through."""

Counts = Mapping[str, Sequence[tuple[str, int]]]
"""Each facet's values with the number of records that have them."""


@dataclass(frozen=True)
class View:
    """Every record of one state of the index."""

    stands: Mapping[int, Stand]
    sizes: tuple[int, ...]
    keys: Mapping[int, tuple[int, ...]]
    facts: Mapping[int, Facts]
    _counted: dict[object, tuple[list[int], Counts]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def newest(self) -> tuple[int, ...]:
        """All keys, the newest first; of one time, the last in its file."""
        facts = self.facts
        return tuple(sorted(facts, key=lambda key: (facts[key][_CREATED], facts[key][4], key), reverse=True))

    @cached_property
    def position(self) -> Mapping[int, int]:
        """The place of each key among the newest."""
        return {key: place for place, key in enumerate(self.newest)}

    def passing(self, keys: Iterable[int], chosen: Chosen, *, but: str = "") -> list[int]:
        """Those of some keys that pass every facet but one; what is retired only where that is chosen."""
        found = list(keys)
        for facet, wanted in _limits(chosen).items():
            if facet != but:
                found = _passing(self.facts, found, facet, wanted)
        return found

    def everything(self, chosen: Chosen) -> tuple[list[int], Counts]:
        """The same for all records, the newest first; remembered, since every visit begins with it."""
        asked = (since(0), *((facet, tuple(sorted(values))) for facet, values in sorted(chosen.items()) if values))
        if asked not in self._counted:
            if len(self._counted) >= _REMEMBERED:
                self._counted.clear()
            self._counted[asked] = self.counts(self.newest, chosen)
        return self._counted[asked]

    def counts(self, keys: Sequence[int], chosen: Chosen) -> tuple[list[int], Counts]:
        """Those of some keys that pass, and each facet's values, counted under what is chosen of the others."""
        limited = _limits(chosen)
        passing = self.passing(keys, chosen)
        found = {}
        for facet in FACETS:
            under = self.passing(keys, chosen, but=facet) if facet in limited else passing
            found[facet] = self._ages(under) if facet == "age" else self._most(under, facet, chosen.get(facet, ()))
        return passing, found

    def _most(self, keys: Sequence[int], facet: str, chosen: Collection[str]) -> list[tuple[str, int]]:
        """The values of a facet that most records have."""
        values = map(itemgetter(_PLACE[facet]), map(self.facts.__getitem__, keys))
        count = Counter(chain.from_iterable(values) if facet == "tag" else values)
        best = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
        named = {value.lower() if facet == "tag" else value for value in chosen}
        told = best[:MOST] + [pair for pair in best[MOST:] if pair[0] in named]
        return told + [(value, 0) for value in sorted(named - {value for value, _ in told})]

    def _ages(self, keys: Sequence[int]) -> list[tuple[str, int]]:
        """How many are not older than so many days: those that stand before a place among the newest."""
        places = sorted(map(self.position.__getitem__, keys))
        return [(age, bisect_left(places, self._newer(since(days)))) for age, days in AGES.items()]

    def _newer(self, day: str) -> int:
        """How many records in all are of this day or newer."""
        return bisect_left(self.newest, True, key=lambda key: self.facts[key].created < day)


_EMPTY = View({}, (), {}, {})


class Catalogue:
    """The view of the index as somebody last saw it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view = _EMPTY

    def view(self, connection: sqlite3.Connection) -> View:
        """Every record as this connection sees it."""
        stands, sizes = facets.stands(connection), facets.sizes(connection)
        with self._lock:
            old = self._view
        if (old.stands, old.sizes) == (stands, sizes) and all(stand.mtime_ns for stand in stands.values()):
            return old
        made = _brought_up(old, connection, stands, sizes)
        with self._lock:
            self._view = made
        return made


def _brought_up(old: View, connection: sqlite3.Connection, stands: Mapping[int, Stand], sizes: tuple[int, ...]) -> View:
    """The view of another state; only sources that are not as they were are read."""
    same = {key for key, stand in stands.items() if stand.mtime_ns and old.stands.get(key) == stand}
    made = _with(old, same, connection, stands, sizes)
    return made if len(made.facts) == sum(sizes[::2]) else _with(_EMPTY, set(), connection, stands, sizes)


def _with(
    old: View, same: set[int], connection: sqlite3.Connection, stands: Mapping[int, Stand], sizes: tuple[int, ...]
) -> View:
    kept = dict(old.facts)
    for source, numbers in old.keys.items():
        if source not in same:
            for number in numbers:
                kept.pop(number, None)
    keys: dict[int, list[int]] = {}
    names = {key: stand.path for key, stand in stands.items()}
    for source, number, each in facets.facts(connection, stands.keys() - same, names):
        kept[number] = each
        keys.setdefault(source, []).append(number)
    placed = {source: numbers for source, numbers in old.keys.items() if source in same}
    return View(stands, sizes, {**placed, **{source: tuple(found) for source, found in keys.items()}}, kept)


def _limits(chosen: Chosen) -> dict[str, frozenset[str]]:
    """For each facet that keeps something out, the values that pass; of the age, the first day."""
    found = {facet: frozenset(values) for facet, values in chosen.items() if values and facet in FACETS}
    if "tag" in found:
        found["tag"] = frozenset(tag.lower() for tag in found["tag"])
    if "age" in found:
        days = [AGES[age] for age in found.pop("age") if age in AGES]
        found |= {"age": frozenset([since(max(days))])} if days else {}
    return {"status": _OFFERED, **found}


def _passing(rows: Mapping[int, Facts], keys: Iterable[int], facet: str, wanted: frozenset[str]) -> list[int]:
    if facet == "age":
        first = min(wanted)
        return [key for key in keys if rows[key].created >= first]
    place = _PLACE[facet]
    if facet == "tag":
        return [key for key in keys if not wanted.isdisjoint(rows[key][place])]
    return [key for key in keys if rows[key][place] in wanted]


def since(days: int) -> str:
    """The day so many days ago."""
    return (ids.now() - timedelta(days=days)).date().isoformat()
