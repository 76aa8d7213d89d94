"""Verify that an edit of a file changed exactly one entry."""

from __future__ import annotations

from collections.abc import Sequence

from ralph.core.documents import Entry
from ralph.core.errors import Refused
from ralph.core.record import Record


def check_splice(
    before: Sequence[Entry], after: Sequence[Entry], *, start: int, end: int, expected: Record
) -> None:
    """Raise Refused unless `text[start:end]` was replaced by exactly the expected record.

    `before` and `after` are the entries of the file before and after the edit. All entries outside
    the replaced span must read back as they were.
    """
    above = [entry.record for entry in before if entry.start < start]
    below = [entry.record for entry in before if entry.start >= end]
    if [entry.record for entry in after] != [*above, expected, *below]:
        raise Refused(
            "this text cannot be written here: it would not read back the same",
            hint="close its fences and comments, and do not begin it with list marks or rules",
        )
