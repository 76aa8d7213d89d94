"""What facets count of every record, in memory, in step with the index.

A person who types sees the counts of everything that matches change with each letter; SQL over the rows would take
longer than the search itself. So the few words that are counted are kept (the shape of a record, which many share, and
its time), and read again source by source when the index has read a source again. A view is never changed: whoever has
one counts in peace while another thread makes the next. `tests/app/pages/test_explore.py` compares the counts with
those of a slow count over the records.
"""

import sqlite3
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from ralph.model import ids
from ralph.model.record import Status
from ralph.store import facets
from ralph.store.facets import Shape, Stand

_OF_SHAPE = ("family", "kind", "tag", "scope", "source", "status")
FACETS = (*_OF_SHAPE, "age")
AGES = {"1d": 1, "7d": 7, "30d": 30, "90d": 90}
MOST = 40
"""So many values of a facet are told, the most frequent ones; what is chosen is always among them."""

_REMEMBERED = 64
_WORN = 1000
"""Shapes that no record has any more are forgotten once they are so many more than the records."""
_OFFERED = frozenset(status.value for status in Status if status is not Status.RETIRED)
"""What is retired is shown only to who asks for it."""

Chosen = Mapping[str, Collection[str]]
"""The values that were chosen of each facet; a facet without any lets everything through."""

Counts = Mapping[str, Sequence[tuple[str, int]]]
"""Each facet's values with the number of records that have them."""


@dataclass(frozen=True)
class View:
    """Every record of one state of the index: the number of its shape, and its time."""

    stands: Mapping[int, Stand]
    sizes: tuple[int, ...]
    keys: Mapping[int, tuple[int, ...]]
    shape_of: Mapping[int, int]
    created: Mapping[int, str]
    shapes: tuple[Shape, ...]
    _counted: dict[object, tuple[list[int], Counts]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def newest(self) -> tuple[int, ...]:
        """All keys, the newest first; of one time, the last in its file."""
        created, shapes, shape_of = self.created, self.shapes, self.shape_of
        return tuple(sorted(created, key=lambda key: (created[key], shapes[shape_of[key]].source, key), reverse=True))

    @cached_property
    def position(self) -> Mapping[int, int]:
        """The place of each key among the newest."""
        return {key: place for place, key in enumerate(self.newest)}

    def everything(self, chosen: Chosen) -> tuple[list[int], Counts]:
        """All records that pass, the newest first, and the counts; remembered, since every visit begins with it."""
        asked = (since(0), *((facet, tuple(sorted(values))) for facet, values in sorted(chosen.items()) if values))
        if asked not in self._counted:
            if len(self._counted) >= _REMEMBERED:
                self._counted.clear()
            self._counted[asked] = self.counts(self.newest, chosen)
        return self._counted[asked]

    def passing(self, keys: Iterable[int], chosen: Chosen) -> list[int]:
        """Those of some keys that pass every facet; what is retired only where that is chosen."""
        return self._passing(self._young(keys, chosen), self._fitting(chosen))

    def counts(self, keys: Collection[int], chosen: Chosen) -> tuple[list[int], Counts]:
        """Those of some keys that pass, and each facet's values, counted under what is chosen of the others.

        Keys are counted by their shapes once, and shapes, which are few, by their values.
        """
        young = self._young(keys, chosen)
        fitting = self._fitting(chosen)
        by_shape = Counter(map(self.shape_of.__getitem__, young))
        found: dict[str, Sequence[tuple[str, int]]] = {}
        for facet in _OF_SHAPE:
            under = self._fitting(chosen, but=facet)
            found[facet] = _most(self._values(by_shape, under, facet), facet, chosen.get(facet, ()))
        passing = self._passing(young, fitting)
        found["age"] = self._ages(passing if young is keys else self._passing(keys, fitting))
        return passing, found

    def _young(self, keys: Iterable[int], chosen: Chosen) -> Iterable[int]:
        """Those of some keys that are not too old; all, when no age is chosen."""
        days = [AGES[age] for age in chosen.get("age", ()) if age in AGES]
        if not days:
            return keys
        position, first = self.position, self._newer(since(max(days)))
        return [key for key in keys if position[key] < first]

    def _fitting(self, chosen: Chosen, *, but: str = "") -> Collection[int]:
        """The numbers of the shapes that pass every facet but one."""
        limits = {"status": _OFFERED, **{facet: values for facet, values in chosen.items() if values}}
        found: Iterable[int] = range(len(self.shapes))
        for facet, values in limits.items():
            if facet in _OF_SHAPE and facet != but:
                found = [number for number in found if _has(self.shapes[number], facet, values)]
        return found if isinstance(found, range) else set(found)

    def _passing(self, keys: Iterable[int], fitting: Collection[int]) -> list[int]:
        if len(fitting) == len(self.shapes):
            return list(keys)
        shape_of = self.shape_of
        return [key for key in keys if shape_of[key] in fitting]

    def _values(self, by_shape: Mapping[int, int], fitting: Collection[int], facet: str) -> Counter[str]:
        count: Counter[str] = Counter()
        for number, several in by_shape.items():
            if number in fitting:
                value = getattr(self.shapes[number], facet)
                for each in value if facet == "tag" else (value,):
                    count[each] += several
        return count

    def _ages(self, keys: Iterable[int]) -> list[tuple[str, int]]:
        """How many are not older than so many days: those that stand before a place among the newest."""
        places = list(map(self.position.__getitem__, keys))
        return [(age, sum(map(self._newer(since(days)).__gt__, places))) for age, days in AGES.items()]

    def _newer(self, day: str) -> int:
        """How many records in all are of this day or newer."""
        return bisect_left(self.newest, True, key=lambda key: self.created[key] < day)


_EMPTY = View({}, (), {}, {}, {}, ())


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
    whole = len(made.created) == sum(sizes[::2]) and len(made.shapes) <= _WORN + 2 * len(made.created)
    return made if whole else _with(_EMPTY, set(), connection, stands, sizes)


def _with(
    old: View, same: set[int], connection: sqlite3.Connection, stands: Mapping[int, Stand], sizes: tuple[int, ...]
) -> View:
    shape_of, created = dict(old.shape_of), dict(old.created)
    for source, numbers in old.keys.items():
        if source not in same:
            for number in numbers:
                shape_of.pop(number, None)
                created.pop(number, None)
    keys = {source: list(numbers) for source, numbers in old.keys.items() if source in same}
    known = {shape: number for number, shape in enumerate(old.shapes)}
    names = {key: stand.path for key, stand in stands.items()}
    for source, number, shape, time in facets.shapes(connection, stands.keys() - same, names):
        shape_of[number] = known.setdefault(shape, len(known))
        created[number] = time
        keys.setdefault(source, []).append(number)
    placed = {source: tuple(numbers) for source, numbers in keys.items()}
    return View(stands, sizes, placed, shape_of, created, tuple(known))


def since(days: int) -> str:
    """The day so many days ago."""
    return (ids.now() - timedelta(days=days)).date().isoformat()


def _has(shape: Shape, facet: str, values: Collection[str]) -> bool:
    if facet == "tag":
        return any(value.lower() in shape.tag for value in values)
    return getattr(shape, facet) in values


def _most(count: Counter[str], facet: str, chosen: Collection[str]) -> list[tuple[str, int]]:
    """The values of a facet that most records have."""
    best = sorted(count.items(), key=lambda pair: (-pair[1], pair[0]))
    named = {value.lower() if facet == "tag" else value for value in chosen}
    told = best[:MOST] + [pair for pair in best[MOST:] if pair[0] in named]
    return told + [(value, 0) for value in sorted(named - {value for value, _ in told})]
