"""Columns that are folded from the lines of logs: each one is filled, or declared as derived."""

from contextlib import closing

import pytest

from ralph.core import terms
from ralph.storage.folded_rows import FOLDED_TABLES, FoldedTable, combine_lines
from ralph.storage.index_update import in_memory
from ralph.storage.source_contents import Contents

IDENTITY = {"key", "id", "source"}
"""The columns of every folded table that name the row and its file."""
VALID_VALUES = {
    "mode": "plan",
    "status": "success",
    "iterations": 3,
}
"""What columns with a check or a type of their own are filled with."""


@pytest.mark.parametrize("folded", FOLDED_TABLES, ids=lambda folded: folded.table)
class TestFoldedTables:
    def test_every_column_is_filled_or_declared_as_derived(self, folded: FoldedTable) -> None:
        with closing(in_memory([], terms.index_terms)) as connection:
            rows = connection.execute(f"PRAGMA table_info({folded.table})").fetchall()
        columns = {row["name"] for row in rows}
        declared = IDENTITY | {*folded.columns, *folded.derived}
        assert columns == declared, (
            f"{columns ^ declared}: add a new column of {folded.table} in storage/folded_rows.py, either "
            "to its columns, which lines of the log fill, or to those that are derived"
        )
        assert not set(folded.columns) & set(folded.derived)

    def test_a_line_fills_every_column_that_is_not_derived(self, folded: FoldedTable) -> None:
        values = {name: VALID_VALUES.get(name, f"a {name}") for name in folded.columns}
        line = {"id": "x-1", **values}
        contents = Contents(lines=((folded.kind, line),))
        with closing(in_memory([contents], terms.index_terms)) as connection:
            row = connection.execute(f"SELECT * FROM {folded.table}").fetchone()
        assert {name: row[name] for name in folded.columns} == values

    def test_the_derived_columns_are_set_by_the_statement_that_completes_a_row(
        self, folded: FoldedTable
    ) -> None:
        assert [name for name in folded.derived if f"{name} = (" not in folded.complete] == []

    def test_a_line_without_an_id_is_left_out(self, folded: FoldedTable) -> None:
        contents = Contents(lines=((folded.kind, {"started_at": "2025-01-15T09:00:00Z"}),))
        with closing(in_memory([contents], terms.index_terms)) as connection:
            assert connection.execute(f"SELECT * FROM {folded.table}").fetchone() is None

    def test_lines_that_differ_only_in_their_times_become_one(self, folded: FoldedTable) -> None:
        lines = [
            (folded.kind, {"id": "x-1", "started_at": "2025-01-15T09:02:00Z", "reason": "a"}),
            (folded.kind, {"id": "x-1", "started_at": "2025-01-15T09:01:00Z", "reason": "a"}),
            (folded.kind, {"id": "x-1", "started_at": "2025-01-15T09:03:00Z", "reason": "b"}),
        ]
        assert combine_lines(lines) == lines[1:]
        with closing(in_memory([Contents(lines=lines)], terms.index_terms)) as connection:
            row = connection.execute(f"SELECT * FROM {folded.table}").fetchone()
        assert (row["started_at"], row["reason"]) == ("2025-01-15T09:01:00Z", "b")
