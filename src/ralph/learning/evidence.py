"""Look up what the records say from which something was learned."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ralph.capture.summary import error_line
from ralph.core.record import ObservationKind, Record
from ralph.search import index
from ralph.storage import queries

_MAX_LINE_CHARACTERS = 160  # about two lines of a terminal


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A record from which something was learned, and the line that says most about it."""

    id: str
    text: str = ""  # "" if the record is no longer there


def quoted_lines(root: Path, record_ids: Sequence[str]) -> list[EvidenceLine]:
    """Return a line for each of these records, in the same order."""
    texts = line_texts(root, record_ids)
    return [EvidenceLine(record_id, texts.get(record_id, "")) for record_id in record_ids]


def line_texts(root: Path, record_ids: Sequence[str]) -> Mapping[str, str]:
    """Return the line of each of these records that the index contains, by id."""
    if not record_ids:
        return {}
    return index.ask(root, lambda connection: _read_lines(connection, record_ids))


def _read_lines(connection: sqlite3.Connection, record_ids: Sequence[str]) -> dict[str, str]:
    texts = {}
    for record_id in record_ids:
        key = queries.key_of(connection, record_id)
        if key is None:
            continue
        for record in queries.records(connection, [key]).values():
            texts[record_id] = _line_of(record)
    return texts


def _line_of(record: Record) -> str:
    """Return the first line of a record. For a failure, add the line that names the error."""
    lines = [line for line in record.text.splitlines() if line.strip()]
    line = " ".join((lines[0] if lines else record.title).split())
    if record.kind is ObservationKind.ERROR:
        error = error_line(record)
        if error and error not in line:
            line = f"{line}: {error}"
    if len(line) <= _MAX_LINE_CHARACTERS:
        return line
    return f"{line[: _MAX_LINE_CHARACTERS - 1]}…"
