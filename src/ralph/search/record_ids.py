"""Short forms of record ids: `mem-a3f8` for `mem-1700000000-a3f8`.

A short id has the prefix and the last characters of the full one. It is as long as needed to be
unique in the index.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from ralph.core import ids
from ralph.search import index
from ralph.storage import queries

_SHORT_ID = re.compile(r"[a-z]+-[0-9A-Za-z]{4,}", re.ASCII)
_GENERATED_ID = re.compile(r"(?:mem|obs|jrn|ins)-[0-9a-f]{4,}", re.ASCII)


def expand_id(root: Path, name: str) -> str:
    """Expand a short id such as mem-a3f8. Any other name is returned unchanged.

    Raises Conflict if several ids match.
    """
    if not is_short_id(name):
        return name
    return index.ask(root, lambda connection: resolve_id(connection, name))


def is_short_id(name: str) -> bool:
    """Return whether a name has the form of a short id."""
    return _SHORT_ID.fullmatch(name.strip()) is not None


def is_generated_id(name: str) -> bool:
    """Return whether a name can only be the short form of an id that Ralph generated.

    `mem-a3f8` can, while `src-main` may also be somebody's own name for a record.
    """
    return _GENERATED_ID.fullmatch(name.strip()) is not None


def resolve_id(connection: sqlite3.Connection, name: str) -> str:
    """Expand a short id. Any other name is returned unchanged.

    Raises Conflict if several ids match.
    """
    if not is_short_id(name) or queries.key_of(connection, name.strip()) is not None:
        return name
    tail = name.strip().partition("-")[2]
    matches = ids.match_ids(name.strip(), queries.ids_ending(connection, [tail]))
    if not matches:
        return name
    return ids.resolve(name, matches)


def short_ids(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Map record ids to their short forms."""
    names = list(names)
    return index.ask(root, lambda connection: shorten_ids(connection, names))


def shorten_ids(connection: sqlite3.Connection, names: Iterable[str]) -> dict[str, str]:
    """Map ids to short forms that are unique in the index.

    Only ids that end in the same characters have to be told apart.
    """
    tails = {name[-ids.SHORTEST_TAIL :] for name in names}
    if not tails:
        return {}
    return ids.short_ids(queries.ids_ending(connection, tails))
