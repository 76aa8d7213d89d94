"""Find a record in the index, together with its file and that file's format."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import Hint, NotFound
from ralph.core.record import Record
from ralph.search import index
from ralph.storage import queries
from ralph.storage.sources import Format, sources


class IndexedRecord(NamedTuple):
    """A record with its key in the index, its file and line, and the file's format."""

    key: int
    record: Record
    location: tuple[str, int]
    form: Format

    @property
    def source(self) -> str:
        """The name of the file."""
        return self.location[0]


def locate_record(root: Path, record_id: str) -> tuple[Record, str, Format]:
    """Return a record, the name of its file, and the file's format.

    Raises NotFound for an unknown id.
    """
    found = index.ask(root, lambda connection: find_record(root, connection, record_id))
    return found.record, found.source, found.form


def find_record(root: Path, connection: sqlite3.Connection, record_id: str) -> IndexedRecord:
    """Look up a record by id. Raises NotFound for an unknown id."""
    key = queries.key_of(connection, record_id)
    record = None
    if key is not None:
        record = queries.records(connection, [key]).get(key)
    if key is None or record is None:
        raise NotFound(
            f"Record not found: {record_id}",
            hint=Hint("find-record", '`ralph search "words"` shows the ids'),
        )
    location = queries.locations(connection, [key])[key]
    form = queries.source_format(connection, location[0])
    if not form:  # an in-memory index does not store it
        form = _read_format(root, location[0])
    return IndexedRecord(key, record, location, Format(form))


def _read_format(root: Path, source_name: str) -> Format:
    for source in sources(root):
        if source.name == source_name:
            return source.format
    return Format.LOG
