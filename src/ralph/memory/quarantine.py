"""Decide which suspicious entries agents may see.

An entry is suspicious if it reads like an instruction to an agent. If an agent or an import adds
one, it is held until a person decides (`held_memories`). An entry in a file of the repository may
come from anybody, and so may the commit that contains it. A suspicious one is therefore injected
only after a person has accepted it on this machine. Accepted texts are stored as hashes in the
user's state folder, which hooks read as well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.core.record import MemoryKind, Record, Status, is_confirmed
from ralph.core.work import TaskStatus
from ralph.privacy import injection
from ralph.storage import files, gitignore, queries
from ralph.storage.library import Stored
from ralph.storage.source_contents import read_source
from ralph.storage.sources import Format, Source, format_of, scan
from ralph.storage.write_observers import WriteObserver

IMPORT = "import"  # the author of memories proposed by `ralph import`

_MEMORY_FORMATS = (
    Format.MEMORIES,
    Format.GUARDRAILS,
    Format.ENCLOSING_MEMORIES,
    Format.ENCLOSING_GUARDRAILS,
    Format.KNOWLEDGE,
    Format.PATTERNS,
    Format.PERSONAL,
)
_REVIEWED_FORMATS = (*_MEMORY_FORMATS, Format.PROGRESS, Format.TASK)
"""The formats of the files whose contents are injected and may come from anybody."""


def accepted_keys() -> frozenset[str]:
    """Return the hashes of the texts that a person has accepted on this machine."""
    path = paths.accepted_texts()
    if path is None:
        return frozenset()
    return frozenset((files.read(path) or "").split())


def remember_accepted(record: Record, observer: WriteObserver | None = None) -> None:
    """Remember that a person has accepted an entry, if it would otherwise be held.

    Raises Refused if the user has no folder for it.
    """
    key = _key_of(record)
    if not is_suspicious(record) or key in accepted_keys():
        return
    path = paths.accepted_texts()
    if path is None:
        raise Refused(
            "there is no folder to remember what you accepted", hint="set HOME or XDG_STATE_HOME"
        )
    files.append(path, f"{key}\n", durable=True, observer=observer)


def accept_titles(by: str, *titles: str) -> None:
    """Remember that a person chose the title of a task or the goal of a run.

    A title that is remembered is shown even if it reads like an instruction.
    """
    if by != "human":
        return
    for title in titles:
        remember_accepted(Record("", MemoryKind.CONTEXT, title))


def kept_keys(root: Path) -> frozenset[str]:
    """Return the hashes of the review items that a person has let stay in this project."""
    return frozenset((files.read(paths.kept_items(root)) or "").split())


def remember_kept(root: Path, keys: Sequence[str], observer: WriteObserver | None = None) -> None:
    """Remember the hashes of review items that a person has let stay in this project."""
    if keys and (observer is None or observer.writes_to_disk):
        gitignore.ensure_gitignore(root)
    boundary = paths.state_boundary(root)
    for key in keys:
        files.append(
            paths.kept_items(root), f"{key}\n", root=boundary, durable=True, observer=observer
        )


def _key_of(record: Record) -> str:
    return injection.text_key(record.title, record.text, record.tags)


def is_suspicious(record: Record) -> bool:
    """Return whether an entry reads like an instruction to an agent."""
    return injection.looks_like_instructions(
        injection.guarded_text(record.title, record.text, record.tags)
    )


def injection_filter(stored: Sequence[Record] = ()) -> Callable[[Record], bool]:
    """Return a function that decides whether an entry from a file may be injected.

    If the entries to be tested have notes added to their texts, pass the same entries without the
    notes as `stored`.
    """
    accepted: frozenset[str] | None = None
    by_id = {record.id: record for record in stored}

    def may_inject(record: Record) -> bool:
        nonlocal accepted
        record = by_id.get(record.id, record)
        if not is_confirmed(record):
            return False
        if not is_suspicious(record):
            return True
        if accepted is None:
            accepted = accepted_keys()
        return _key_of(record) in accepted

    return may_inject


def waiting_entries(root: Path) -> list[Stored]:
    """Return the entries in files that wait for a person.

    These are unconfirmed memories, and what is suspicious and was not accepted on this machine:
    memories, blocks of progress files, and the titles of tasks that are not done.
    """
    may_inject = injection_filter()
    found = []
    for source in _reviewed_sources(root):
        for stored in _entries(source):
            record = stored.record
            if record.status is Status.RETIRED and not is_confirmed(record):
                continue  # nobody sees it either way
            if not may_inject(record):
                found.append(stored)
    return found


def is_editable(root: Path, stored: Stored) -> bool:
    """Return whether an entry is in a memory file, so that commands can edit and delete it."""
    return format_of(root, stored.path) in _MEMORY_FORMATS


def _reviewed_sources(root: Path) -> Iterator[Source]:
    for found in scan(root, logs=False):
        if found.source.format in _REVIEWED_FORMATS:
            yield found.source


def _entries(source: Source) -> Iterator[Stored]:
    contents = read_source(source)
    for placed in contents.records:
        yield Stored(placed.record, source.path, placed.line)
    for task in contents.tasks:
        if task.status is not TaskStatus.DONE:
            yield Stored(Record(task.id, MemoryKind.CONTEXT, task.title), source.path, 1)


def count_waiting(connection: sqlite3.Connection) -> int:
    """Count the entries that `waiting_entries` finds, from the index."""
    accepted = accepted_keys()
    suspicious = queries.suspicious_records(connection, _REVIEWED_FORMATS)
    for title in queries.unfinished_titles(connection):
        record = Record("", MemoryKind.CONTEXT, title)
        if is_suspicious(record):
            suspicious.append(record)
    count = 0
    for record in suspicious:
        if is_confirmed(record):
            count += _key_of(record) not in accepted
        else:
            count += record.status is not Status.RETIRED
    return count
