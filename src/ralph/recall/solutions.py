"""Find what made a command pass when the same error came up before.

    $ pytest -q
    pytest printed: "ImportError: cannot import name 'notset' from '_pytest.compat'"
    It passed after `pip install 'pytest<8.4'`.

A hook loads this module only for an error that an earlier session had as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from ralph.capture.recoveries import Recovery, describe_changes, find_recoveries
from ralph.capture.short_text import first_line
from ralph.core.record import TAINT, Record, is_confirmed
from ralph.lean import replace
from ralph.privacy.injection import looks_like_instructions
from ralph.recall.command_lines import quote_output
from ralph.recall.error_features import find_features, is_same_error
from ralph.recall.shown_records import Shown
from ralph.search.scoring import RankedRow
from ralph.storage import queries
from ralph.storage.lookup import RecordRow

_MAX_SESSIONS = 3  # that are read
_MAX_RECORDS = 2_000  # of a session
_MAX_COMMAND_CHARACTERS = 120


def find_solutions(
    connection: sqlite3.Connection, error: str, failures: Sequence[RecordRow]
) -> Iterator[Shown]:
    """Yield the failures that were solved, newest first, each with what made its command pass."""
    newest: dict[str, RecordRow] = {}
    for row in sorted(failures, key=lambda row: row.created_at, reverse=True):
        newest.setdefault(row.session, row)
    for session, row in list(newest.items())[:_MAX_SESSIONS]:
        recovery = _find_recovery(_read_session(connection, session), error)
        if recovery is None:
            continue
        command = first_line(recovery.failure.command, _MAX_COMMAND_CHARACTERS)
        printed = quote_output(command, _failure_line(recovery))
        failure = f"$ {command}\n{printed}"
        shown = _with_solution(Shown(RankedRow(row), failure), recovery)
        if shown is not None:
            yield shown


def add_solutions(connection: sqlite3.Connection, shown: Sequence[Shown]) -> list[Shown]:
    """Add what made the command pass to the records that are about the error of a prompt."""
    added = []
    for failure in shown:
        solved = None
        if failure.is_same_error:
            records = _read_session(connection, failure.row.session)
            recovery = _find_recovery(records, failure.row.error)
            if recovery is not None:
                solved = _with_solution(failure, recovery)
        added.append(solved or failure)
    return added


def _with_solution(failure: Shown, recovery: Recovery) -> Shown | None:
    """Return a failure with what solved it, or None if that reads like an instruction."""
    changes = describe_changes(recovery, recovery.edits)
    text = f"{failure.text}\nIt passed {changes}."
    if looks_like_instructions(text):
        return None
    return replace(failure, text=text)


def _read_session(connection: sqlite3.Connection, session: str) -> list[Record]:
    row_factory = connection.row_factory
    connection.row_factory = sqlite3.Row  # a hook's connection has none
    try:
        return queries.session_records(connection, session, limit=_MAX_RECORDS)
    finally:
        connection.row_factory = row_factory


def _find_recovery(records: Sequence[Record], error: str) -> Recovery | None:
    """Return the last recovery from this error that says what helped."""
    features = find_features(error)
    found = None
    for recovery in find_recoveries(_before_foreign_reading(records)):
        if not recovery.has_clear_cause:
            continue
        if is_same_error(features, find_features(_failure_line(recovery))):
            found = recovery
    return found


def _failure_line(recovery: Recovery) -> str:
    """Return the line of a failure's output that names the error."""
    from ralph.capture.summary import error_line  # few sessions have a recovery with a clear cause

    return error_line(recovery.failure.record)


def _before_foreign_reading(records: Sequence[Record]) -> Sequence[Record]:
    """Return what happened in a session until it read something foreign.

    What an agent does after that may be what a page told it to do.
    """
    for position, record in enumerate(records):
        if record.extra.get(TAINT) or not is_confirmed(record):
            return records[:position]
    return records
