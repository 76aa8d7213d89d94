"""Find the records that others have superseded.

A record names the one that it supersedes, or the one that it is superseded by. Either way, the
result is a pair of ids (new, old). Pairs that form a cycle supersede nothing.

Hooks load this module, so it imports next to nothing.
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING
from ralph.storage.record_filters import IS_CONFIRMED

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Mapping
    from typing import TypeVar

    Name = TypeVar("Name", str, int)

_METADATA_ITEMS = (
    "FROM records r, json_each(CASE WHEN json_valid(metadata) THEN metadata ELSE '{{}}' END, "
    "'$.{member}') l"
)

# A memory that a task has only proposed supersedes nothing yet, and neither does one that waits
# for a person.
_MAY_SUPERSEDE = f"WHERE instr(metadata, '\"supersede') > 0 AND scope <> 'task' AND {IS_CONFIRMED}"
_SUPERSEDING = (
    "SELECT r.id, json_extract(l.value, '$[0]') AS how, json_extract(l.value, '$[1]') "
    f"{_METADATA_ITEMS.format(member='links')} "
    f"{_MAY_SUPERSEDE} AND how IN ('supersedes', 'superseded_by') UNION ALL "
    f"SELECT r.id, 'supersedes', l.value {_METADATA_ITEMS.format(member='extra.supersedes')} "
    f"{_MAY_SUPERSEDE} AND l.type = 'text'"
)
"""Selects supersessions named in a record's links or in a page's front matter."""


def superseded(connection: sqlite3.Connection) -> dict[str, str]:
    """Map the id of each superseded record to the id of its successor."""
    return latest_successors(superseding_pairs(connection))


def superseding_pairs(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return a pair of ids (new, old) for each supersession that a record declares."""
    pairs = []
    for name, relation, target in connection.execute(_SUPERSEDING):
        if relation == "supersedes":
            pairs.append((name, target))
        else:
            pairs.append((target, name))
    return pairs


def latest_successors(pairs: Iterable[tuple[Name, Name]]) -> dict[Name, Name]:
    """Map the old record of each (new, old) pair to its successor.

    Cycles are ignored. If a record has several successors, the lowest one wins.
    """
    all_successors = successors_of(pairs)
    successor_of: dict[Name, Name] = {}
    for old, successors in all_successors.items():
        acyclic = [new for new in successors if not leads_to(all_successors, new, old)]
        if acyclic:
            successor_of[old] = min(acyclic)
    return successor_of


def successors_of(pairs: Iterable[tuple[Name, Name]]) -> dict[Name, set[Name]]:
    """Map the old record of each (new, old) pair to all of its successors."""
    successors: dict[Name, set[Name]] = {}
    for new, old in pairs:
        successors.setdefault(old, set()).add(new)
    return successors


def leads_to(successors: Mapping[Name, Collection[Name]], start: Name, end: Name) -> bool:
    """Return whether following successors leads from the record `start` to `end`."""
    visited: set[Name] = set()
    ahead = [start]
    while ahead and end not in visited:
        here = ahead.pop()
        if here not in visited:
            visited.add(here)
            ahead += successors.get(here, ())
    return end in visited
