"""Prepare the rows of records before the index assigns their keys.

Preparing takes most of the time of indexing and does not need the database, so another process can
do it (see `log_helper.py`). `IndexWriter` adds the keys and writes the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ralph.core.record import Family, Record
from ralph.storage import forgotten
from ralph.storage.folded_rows import combine_lines
from ralph.storage.index_schema import FAMILIES
from ralph.storage.record_rows import Row, Terms, row_values, search_columns, storable_text
from ralph.storage.source_contents import Contents, PlacedRecord

_MAX_INDEXED_CHARACTERS = 100_000  # of a record's text; the rest is only in its file


class PreparedRecord(NamedTuple):
    """The row of a record without its key, and its search terms.

    `values` are the columns that follow its line, or for an observation, its session and position.
    """

    record_id: str
    line: int
    session: str
    values: Row
    terms: tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class PreparedContents:
    """The contents of a source: the rows of its records by family, and everything else.

    `sessions` and `runs` are the ids that the records name.
    """

    records: Mapping[Family, Sequence[PreparedRecord]]
    sessions: frozenset[str]
    runs: frozenset[str]
    others: Contents


class RowPreparer:
    """Prepares rows, except for forgotten records.

    `terms` splits text into search terms. `is_order` returns whether a record reads like an
    instruction to an agent. Its result is stored, so that hooks do not have to compute it.
    """

    def __init__(self, terms: Terms, is_order: Callable[[Record], bool] | None = None) -> None:
        self._terms = terms
        self._is_order = is_order
        self._forgotten = forgotten.load()

    def prepare(self, contents: Contents) -> PreparedContents:
        """Prepare the rows of a source's records."""
        records: dict[Family, list[PreparedRecord]] = {family: [] for family in FAMILIES}
        sessions: set[str] = set()
        runs: set[str] = set()
        for item in contents.records:
            record = item.record
            if self._forgotten.hides(record):
                continue
            prepared = self._prepare_record(item)
            records[record.family].append(prepared)
            sessions.add(prepared.session)
            runs.add(storable_text(record.origin.run))
        return PreparedContents(
            records,
            frozenset(sessions - {""}),
            frozenset(runs - {""}),
            replace(contents, records=(), lines=combine_lines(contents.lines)),
        )

    def _prepare_record(self, item: PlacedRecord) -> PreparedRecord:
        record = _with_bounded_text(item.record)
        is_order = self._is_order is not None and self._is_order(record)
        values = row_values(record, is_order=is_order)
        if record.family is not Family.OBSERVATION:
            values += (item.fingerprint,)
        return PreparedRecord(
            storable_text(record.id),
            item.line,
            storable_text(record.origin.session),
            values,
            search_columns(record, self._terms),
        )


def _with_bounded_text(record: Record) -> Record:
    """Return a record with at most the beginning of its text."""
    if len(record.text) <= _MAX_INDEXED_CHARACTERS:
        return record
    return replace(record, text=record.text[:_MAX_INDEXED_CHARACTERS])
