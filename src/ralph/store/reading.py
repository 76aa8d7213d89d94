"""The index opened for reading by a process that may load next to nothing: `sqlite3` without its Python part.

A hook that answers asks this and no more. There is no answer when the index was never finished (`built`), was
made by another version, or is not there. It is never waited for: whoever writes to it leaves readers alone.
It is mapped into memory, since a question reads hundreds of its pages and copying them took a twentieth of a hook;
nobody cuts an index short while it is read: it is deleted as a whole and made again.
`tests/hooks/test_answer.py` proves it.
"""

import _sqlite3
import posix

from ralph.store.lookup import SCHEMA_VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

_UNSAFE = "%?#"
_MAPPED = 1 << 28
"""Bytes of the index that are mapped; what is behind them is read as usual."""


def read_only(path: str) -> "sqlite3.Connection | None":
    """A connection for reading, or None when there is no index of this version."""
    try:
        if not posix.stat(path).st_size or not posix.stat(f"{path}-seal").st_size:
            return None
    except OSError:
        return None
    for sign in _UNSAFE:
        path = path.replace(sign, f"%{ord(sign):02x}")
    connection: sqlite3.Connection = _sqlite3.connect(
        f"file:{path}?mode=ro", uri=True, isolation_level=None, timeout=0.2
    )
    try:
        connection.execute(f"PRAGMA mmap_size = {_MAPPED}").fetchone()
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except BaseException:
        connection.close()
        raise
    if version == SCHEMA_VERSION:
        return connection
    connection.close()
    return None
