"""The files of an index: the database, its lock and its seal.

`ralph.db-lock` is locked by the one process that may write. `ralph.db-seal` contains the *seal*,
which identifies the database as it was after the last sync: its size, modification time and inode,
followed by a mark for the list of forgotten texts. For example:

    409600 1736900000123456789 5242881 62-1736900000987654321

A database that differs from its seal was touched by another program, and a different mark means
that texts have been forgotten since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ralph.storage import db, files, forgotten

_DATABASE_SEAL_FIELDS = 3  # size, time and inode


@contextmanager
def sole_writer(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the exclusive right to write to a database.

    Raises Busy if another process still holds it after `patience` seconds.
    """
    files.make_folder(path.parent, 0o700)
    handle = files.lock_file(path.with_name(path.name + "-lock"), patience)
    if handle is None:
        raise db.Busy(f"{path}: another process is writing", hint="try again in a moment")
    try:
        yield
    finally:
        os.close(handle)


def discard(path: Path, patience: float = 0.0) -> None:
    """Delete an index. Raises Busy if another process is still writing after `patience` seconds."""
    with sole_writer(path, patience=patience):
        remove_database(path)


def is_sealed(path: Path) -> bool:
    """Return whether an index exists and still fits its seal."""
    return path.is_file() and read_seal(path) == current_seal(path)


def was_touched(path: Path) -> bool:
    """Return whether the database itself no longer fits its seal.

    It may still fit if `is_sealed` is false, when only the list of forgotten texts has changed.
    """
    size_time_inode = read_seal(path).split()[:_DATABASE_SEAL_FIELDS]
    return size_time_inode != db.seal(path).split()


def write_seal(path: Path) -> None:
    """Seal an index: record its state, so that the next sync trusts it."""
    files.write(seal_file(path), current_seal(path), mode=files.PRIVATE)


def read_seal(path: Path) -> str:
    """Return the recorded seal of an index, or "" if it has none."""
    seal = seal_file(path)
    if not seal.is_file():
        return ""
    return files.read(seal) or ""


def seal_file(path: Path) -> Path:
    """Return the path of the file that contains an index's seal."""
    return path.with_name(path.name + "-seal")


def current_seal(path: Path) -> str:
    """Return the seal of an index as it is now."""
    return f"{db.seal(path)} {forgotten.mark()}".rstrip()


def remove_database(path: Path) -> None:
    """Delete an index and its seal. The caller is its sole writer."""
    # The seal goes first: a seal without its database would vouch for the next one.
    files.delete(seal_file(path))
    db.remove(path)
