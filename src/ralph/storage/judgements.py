"""Store which observations read like an instruction to an agent.

An observation is judged before it is given to a session. A prompt has little time for that, so the
hooks that start and stop a session judge the newest ones in advance, and the result is stored in
their rows. A row belongs to one text: when a source is read again or the index is rebuilt, its rows
are new and not judged yet. A judgement by another version of the classifier does not count.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass

from ralph.storage import db
from ralph.storage.lookup import RecordRow, fetch_rows

_BATCH_ROWS = 100  # judged in one transaction
_CLOCK_FACTOR = 4  # how much longer judging may take by the clock, on a busy machine


@dataclass(frozen=True, slots=True)
class Judge:
    """A classifier: its version, and whether an observation reads like an instruction."""

    version: int
    is_order: Callable[[RecordRow], bool]


def judge_newest(connection: sqlite3.Connection, judge: Judge, seconds: float) -> None:
    """Judge observations that are not judged yet, newest first, for some seconds.

    These are seconds of the processor. On a busy machine, judging ends after four times as many
    seconds of the clock. The caller is the only writer, so a row cannot change while its text is
    judged.
    """
    processor_deadline = time.process_time() + seconds
    clock_deadline = time.monotonic() + _CLOCK_FACTOR * seconds

    def is_time_over() -> bool:
        return time.process_time() >= processor_deadline or time.monotonic() >= clock_deadline

    while not is_time_over():
        keys = _unjudged_keys(connection)
        rows = fetch_rows(connection, keys)
        judgements: list[tuple[int, int, int]] = []
        for key in keys:
            judgements.append((judge.version, int(judge.is_order(rows[key])), key))
            if is_time_over():
                break
        if not judgements:
            return
        with db.atomic(connection):
            connection.executemany(
                "UPDATE observations SET judged_by = ?, is_order = ? WHERE key = ?", judgements
            )


def _unjudged_keys(connection: sqlite3.Connection) -> list[int]:
    sql = "SELECT key FROM observations WHERE judged_by = 0 ORDER BY key DESC LIMIT ?"
    return [key for (key,) in connection.execute(sql, (_BATCH_ROWS,))]
