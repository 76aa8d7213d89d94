"""Filter memories, and order them by how useful they have been in earlier sessions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from ralph.core import budget as budgets
from ralph.core import ids
from ralph.core.record import MemoryKind, Query, Record, Scope
from ralph.storage.library import PROJECT

Uses = Mapping[str, tuple[int, int]]
"""Maps a record id to the number of sessions it was injected into and of those that used it."""
NO_USES: Uses = MappingProxyType({})
_MIN_TRIED_SESSIONS = 5  # a record is useless only after this many sessions without use
_USEFUL_SHARE = 0.2  # a useful record was used in at least this share of its sessions
_USELESS = 0
_UNPROVEN = 1
MOST_USEFUL = 2
OUTSIDE_SCOPES = (Scope.ENCLOSING, Scope.PERSONAL)  # scopes of memories from outside the project


def filter_memories(
    memories: Sequence[Record],
    types: Sequence[MemoryKind] = (),
    tags: Sequence[str] = (),
    recent: int = 0,
) -> list[Record]:
    """Return the memories of these types, with any of these tags, from the last `recent` days."""
    query = Query(kinds=tuple(types), tags=tuple(tags), since=ids.first_day(recent))
    return [record for record in memories if query.accepts(record)]


def order_by_use(
    records: Sequence[Record], uses: Uses = NO_USES, stale: Collection[str] = ()
) -> list[int]:
    """Return the indices of the records, most useful first.

    Stale records follow current ones, and records from other projects follow the project's own.
    """
    order = budgets.useful_order(records, lambda record: usefulness(uses.get(record.id, (0, 0))))
    return sorted(order, key=lambda index: (*_distance(records[index]), records[index].id in stale))


def _distance(record: Record) -> tuple[int, int]:
    """Return how far a record is from the project, as a sort key.

    The project's own records come first, then those from the nearest enclosing project, then
    personal ones.
    """
    if record.scope not in OUTSIDE_SCOPES:
        return 0, 0
    project = str(record.extra.get(PROJECT, ""))
    return 1 + OUTSIDE_SCOPES.index(record.scope), -len(project)


def usefulness(use: tuple[int, int]) -> int:
    """Rate a record by the number of sessions it was injected into and of those that used it.

    The rating is between 0 and `MOST_USEFUL`. A record that was rarely injected is in the middle.
    """
    injected, used = use
    if not used:
        if injected >= _MIN_TRIED_SESSIONS:
            return _USELESS
        return _UNPROVEN
    if used >= _USEFUL_SHARE * injected:
        return MOST_USEFUL
    return _UNPROVEN
