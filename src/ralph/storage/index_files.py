"""The files of an index: the database, its lock, its seal and its list of memory files.

`ralph.db-lock` is locked by the one process that may write. `ralph.db-seal` contains the *seal*,
which identifies the database as it was after the last sync: its size, modification time and inode,
the inode of its folder, and a mark for the list of forgotten texts. For example:

    409600 1736900000123456789 5242881 5242880 62-1736900000987654321

A database that differs from its seal was touched by another program, unless the whole folder was
copied (`hook_files.fits_seal`). A different mark means that texts have been forgotten since.

`ralph.db-memories` lists the memory files in the state in which they were read. A prompt hook
compares it with the files, to find out whether the index lacks a memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ralph.lean import hook_files
from ralph.lean.hook_files import SEAL_FIELDS
from ralph.storage import db, files, forgotten
from ralph.storage.index_schema import SCHEMA_VERSION


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
    if not path.is_file() or was_touched(path):
        return False
    return " ".join(read_seal(path).split()[SEAL_FIELDS:]) == forgotten.mark()


def was_touched(path: Path) -> bool:
    """Return whether the database itself no longer fits its seal.

    It may still fit if `is_sealed` is false, when only the list of forgotten texts has changed.
    """
    try:
        sealed = [int(number) for number in read_seal(path).split()[:SEAL_FIELDS]]
        return not hook_files.fits_seal(sealed, hook_files.seal_fields(os.fspath(path)))
    except (OSError, ValueError):
        return True


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


def write_memory_states(path: Path, states: Sequence[str]) -> None:
    """Store the states in which the memory files were read (see `sources.memory_states`)."""
    text = "".join(f"{line}\n" for line in (str(SCHEMA_VERSION), *states))
    states_file = path.with_name(path.name + hook_files.MEMORY_STATES)
    if files.read(states_file) != text:
        files.write(states_file, text, mode=files.PRIVATE)


def remove_database(path: Path) -> None:
    """Delete an index, its seal and its list of memory files. The caller is its sole writer."""
    # These go first: a seal without its database would vouch for the next one.
    files.delete(seal_file(path))
    files.delete(path.with_name(path.name + hook_files.MEMORY_STATES))
    db.remove(path)
