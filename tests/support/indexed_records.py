"""Records, and an index of them in memory."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ralph.core import terms
from ralph.core.record import (
    Family,
    MemoryKind,
    ObservationKind,
    Origin,
    Record,
    Scope,
)
from ralph.storage.index_update import in_memory
from ralph.storage.source_contents import Contents, PlacedRecord


def memory(text: str, number: int = 1, **more: object) -> Record:
    """A memory with a number."""
    values: dict[str, object] = {"created_at": "2025-05-01", **more}
    return Record(f"mem-{1_700_000_000 + number}-a{number:03x}", MemoryKind.PATTERN, text, **values)  # type: ignore[arg-type] # a test's shorthand for fields


def observation(text: str, number: int, session: str = "s1", **more: object) -> Record:
    """An observation with a number."""
    values: dict[str, object] = {
        "created_at": f"2025-05-01T10:{number % 60:02}:00Z",
        "scope": Scope.SESSION,
        **more,
    }
    name = f"obs-{1_700_000_000 + number}-b{number:03x}"
    origin = Origin(session=session)
    return Record(name, ObservationKind.TOOL_USE, text, Family.OBSERVATION, origin=origin, **values)  # type: ignore[arg-type] # see above


@contextmanager
def indexed(
    *records: Record, lines: tuple[tuple[str, dict[str, object]], ...] = ()
) -> Iterator[sqlite3.Connection]:
    """An index in memory of these records, in one source."""
    placed = tuple(PlacedRecord(record, number) for number, record in enumerate(records, 1))
    connection = in_memory([Contents(placed, lines=lines)], terms.index_terms)
    try:
        yield connection
    finally:
        connection.close()


NOISE = [
    memory(f"unrelated remark {word} about something else", 100 + n)
    for n, word in enumerate("abcdefghijklmnop")
]
