"""Open the index for a hook: read-only, without waiting, and with a deadline for every query."""

from __future__ import annotations

import time

from ralph.lean import TYPE_CHECKING
from ralph.lean.hook_files import is_index_complete
from ralph.storage.index_schema import COUNT_FOREIGN_TABLES, SCHEMA_VERSION

if TYPE_CHECKING:
    import sqlite3

_ANSWER_SECONDS = 2.0
_BUSY_SECONDS = 0.2  # how long SQLite waits for a lock
_STEPS_PER_CHECK = 20_000  # SQLite's virtual machine steps between two checks of the deadline
_MAPPED_BYTES = 1 << 28  # of the index, mapped into memory because a query reads hundreds of pages


def open_index(path: str) -> sqlite3.Connection | None:
    """Open the index read-only. Return None unless it is complete and has this version."""
    import sqlite3  # recording must not load it

    if not is_index_complete(path):
        return None
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02x}")
    connection = sqlite3.connect(
        f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=_BUSY_SECONDS
    )
    deadline = time.monotonic() + _ANSWER_SECONDS  # `signal` would cost as much as an answer
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS_PER_CHECK)
    try:
        connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}").fetchone()
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")  # one lock for all statements
        is_current = connection.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
        if is_current and not connection.execute(COUNT_FOREIGN_TABLES).fetchone()[0]:
            return connection
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None
