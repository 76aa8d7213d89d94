"""Remember which records each accepted memory was learned from.

An accepted memory says in one sentence what its evidence says in many, so recall leaves the
evidence out. The file `learned` in the state folder has one line for each record that a memory
replaces: the record's id, a space, and the id of the memory. Hooks read it as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    if not evidence:
        return
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


def move_evidence(
    root: Path, memory_id: str, to: str, observer: WriteObserver | None = None
) -> None:
    """Note the records that a memory was learned from as evidence of another memory."""
    note_evidence(root, to, evidence_of(root, memory_id), observer)
    release_evidence(root, memory_id, observer)


def release_evidence(root: Path, memory_id: str, observer: WriteObserver | None = None) -> None:
    """Forget what a memory was learned from, so that recall shows its evidence again."""
    if evidence_of(root, memory_id):
        _update(root, lambda text: _without_memory(text, memory_id), observer)


def _without_memory(text: str, memory_id: str) -> str:
    lines = [line for line in text.splitlines() if line.partition(" ")[2] != memory_id]
    return "".join(f"{line}\n" for line in lines)


def _update(root: Path, edit: Callable[[str], str], observer: WriteObserver | None) -> None:
    files.update(
        paths.learned_file(root),
        edit,
        root=paths.state_boundary(root),
        mode=files.PRIVATE,
        observer=observer,
    )
