"""Find the entries of a project that wait for a person to accept them.

`quarantine` decides about a single entry. Reading all files takes longer, so commands that write
one entry do not load this module.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from ralph.core.record import MemoryKind, Record, Status, is_confirmed
from ralph.memory import held_memories
from ralph.memory.harmless_texts import judged_once
from ralph.memory.quarantine import accepted_keys, injection_filter, text_key
from ralph.storage import queries
from ralph.storage.library import Stored
from ralph.storage.source_contents import read_source
from ralph.storage.sources import Format, Source, format_of, scan

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


def find_all(root: Path) -> list[Stored]:
    """Return the entries in files that wait for a person.

    These are unconfirmed memories, and what is suspicious and was not accepted on this machine:
    memories, blocks of progress files, and the titles of tasks that are not done.
    """
    found = []
    with judged_once(root) as texts:
        may_inject = injection_filter(root, judge=texts.is_suspicious)
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
    from ralph.core.work import TaskStatus  # counting does not need it, and it takes long to load

    contents = read_source(source)
    for placed in contents.records:
        yield Stored(placed.record, source.path, placed.line)
    for task in contents.tasks:
        if task.status is not TaskStatus.DONE:
            yield Stored(Record(task.id, MemoryKind.CONTEXT, task.title), source.path, 1)


def count_waiting(root: Path, connection: sqlite3.Connection) -> int:
    """Count what `ralph review` lists as held: additions that are held, and entries in files."""
    return len(held_memories.list_held(root)) + _count_in_index(root, connection)


def _count_in_index(root: Path, connection: sqlite3.Connection) -> int:
    """Count the entries that `find_all` finds, from the index."""
    accepted = accepted_keys()
    suspicious = queries.suspicious_records(connection, _REVIEWED_FORMATS)
    with judged_once(root) as texts:
        for title in queries.unfinished_titles(connection):
            record = Record("", MemoryKind.CONTEXT, title)
            if texts.is_suspicious(record):
                suspicious.append(record)
    waiting = 0
    for record in suspicious:
        if is_confirmed(record):
            waiting += text_key(record) not in accepted
        else:
            waiting += record.status is not Status.RETIRED
    return waiting
