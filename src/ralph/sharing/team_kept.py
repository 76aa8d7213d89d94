"""Find records that the team has forgotten and that are still in this machine's own files.

Nobody else may change a person's files, so `ralph team forget` leaves them alone. Such a record is
hidden from `ralph search --team`, and its owner is told in which file it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ralph.core import paths
from ralph.search import index
from ralph.storage import queries
from ralph.storage.team_db import _forgotten_ids


class KeptRecord(NamedTuple):
    """A forgotten record in one of this machine's files."""

    id: str
    file: str


def forgotten_ids(root: Path) -> set[str]:
    """Return the ids that the team has forgotten, as far as this machine knows."""
    return _forgotten_ids(paths.main_checkout(root))


def kept_records(root: Path, *, except_ids: Iterable[str] = ()) -> list[KeptRecord]:
    """Return the records in this machine's files that the team has forgotten.

    Ids in `except_ids` are not looked up.
    """
    names = sorted(forgotten_ids(root) - set(except_ids))
    if not names:
        return []
    root = paths.main_checkout(root)

    def find(connection: sqlite3.Connection) -> list[KeptRecord]:
        kept = []
        for name in names:
            keys = queries.keys_of(connection, name)
            for path, _ in queries.locations(connection, keys).values():
                file = paths.shown(paths.source_path(root, path), root)
                kept.append(KeptRecord(name, file))
        return kept

    return index.ask(root, find)
