"""Open the index for a hook: read-only, without waiting, and with a deadline for every query.

A hook also asks here whether the index lacks a memory, which is the case if the last session start
was too late to index it, or if somebody has edited a memory file since.
"""

from __future__ import annotations

import time

from ralph.lean import TYPE_CHECKING, hook_files
from ralph.storage.index_schema import COUNT_FOREIGN_TABLES, SCHEMA_VERSION

if TYPE_CHECKING:
    import sqlite3

NO_INDEX = "no index"  # what the index lacks if there is none
_ANSWER_SECONDS = 2.0  # of the processor, because a busy machine takes any time
_BUSY_SECONDS = 0.2  # how long SQLite waits for a lock
_STEPS_PER_CHECK = 20_000  # SQLite's virtual machine steps between two checks of the deadline
_MAPPED_BYTES = 1 << 28  # of the index, mapped into memory because a query reads hundreds of pages


def lacking_memories(path: str, root: str) -> str:
    """Return the state of the first memory file that the index has not read, or "".

    If nothing is known about the index, the result names no file.
    """
    version, *known = hook_files.read_memory_states(path) or [""]
    if version != str(SCHEMA_VERSION):
        return NO_INDEX
    for state in known:
        now = hook_files.memory_state(root, state.split(" ", 2)[2])
        if now != state:
            return now
    return ""


def open_index(path: str) -> sqlite3.Connection | None:
    """Open the index read-only. Return None unless it is complete and has this version."""
    import sqlite3  # recording must not load it

    if not hook_files.is_index_complete(path):
        return None
    for character in "%?#":
        path = path.replace(character, f"%{ord(character):02x}")
    connection = sqlite3.connect(
        f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=_BUSY_SECONDS
    )
    limit = time.process_time() + _ANSWER_SECONDS  # `signal` would cost as much as an answer
    connection.set_progress_handler(lambda: int(time.process_time() > limit), _STEPS_PER_CHECK)
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
