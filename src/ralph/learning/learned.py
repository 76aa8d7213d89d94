"""Remember which records each accepted memory was learned from.

An accepted memory says in one sentence what its evidence says in many, so recall leaves the
evidence out. The file `learned` in the state folder has one line for each record that a memory
replaces: the record's id, a space, and the id of the memory. Hooks read it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ralph.core import paths
from ralph.storage import files
from ralph.storage.write_observers import WriteObserver


def note_evidence(
    root: Path,
    memory_id: str,
    evidence: Sequence[str],
    observer: WriteObserver | None = None,
) -> None:
    """Note the records that a memory was learned from."""
    lines = [f"{record_id} {memory_id}" for record_id in evidence]

    def add_lines(text: str) -> str:
        return "".join(f"{line}\n" for line in dict.fromkeys([*text.splitlines(), *lines]))

    _update(root, add_lines, observer)


def evidence_of(root: Path, memory_id: str) -> list[str]:
    """Return the ids of the records that a memory was learned from."""
    found = []
    for line in (files.read(paths.learned_file(root)) or "").splitlines():
        record_id, _, learned_id = line.partition(" ")
        if learned_id == memory_id:
            found.append(record_id)
    return found


def keep_only(root: Path, memory_ids: Collection[str]) -> None:
    """Drop the lines of all other memories, so that recall shows their evidence again."""

    def drop_lines(text: str) -> str:
        lines = [line for line in text.splitlines() if line.partition(" ")[2] in memory_ids]
        return "".join(f"{line}\n" for line in lines)

    if paths.learned_file(root).exists():
        _update(root, drop_lines, None)


def _update(root: Path, edit: Callable[[str], str], observer: WriteObserver | None) -> None:
    files.update(
        paths.learned_file(root),
        edit,
        root=paths.state_boundary(root),
        mode=files.PRIVATE,
        observer=observer,
    )
