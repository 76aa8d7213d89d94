"""Find out which entries of a file have changed since the index read it.

Entries are compared by fingerprint. An entry that was edited is one that is gone and one that is
new. An entry that only moved, because lines were added above it, keeps its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class IndexedEntry(NamedTuple):
    """The key, line and fingerprint of an entry as the index has it."""

    key: int
    line: int
    fingerprint: bytes


class MovedEntry(NamedTuple):
    """The new line of an entry, and its key in the index."""

    line: int
    key: int


class EntryChanges(NamedTuple):
    """The keys of rows whose entries are gone, the moved entries, and the numbers of new ones."""

    gone: Sequence[int]
    moved: Sequence[MovedEntry]
    new: Sequence[int]


def compare_entries(
    indexed: Iterable[IndexedEntry], lines: Sequence[int], fingerprints: Sequence[bytes]
) -> EntryChanges:
    """Compare the indexed entries of a file with the lines and fingerprints of its entries now."""
    unmatched: dict[bytes, list[IndexedEntry]] = {}
    for entry in indexed:
        unmatched.setdefault(entry.fingerprint, []).append(entry)
    moved = []
    new = []
    for number, fingerprint in enumerate(fingerprints):
        same = unmatched.get(fingerprint)
        if not same:
            new.append(number)
            continue
        entry = same.pop(0)
        if entry.line != lines[number]:
            moved.append(MovedEntry(lines[number], entry.key))
    gone: list[int] = []
    for rest in unmatched.values():
        gone += [entry.key for entry in rest]
    return EntryChanges(gone, moved, new)
