"""Update the rows of the sources that have changed, and copy or build whole databases.

`Index` in `index.py` decides when. It loads this module only if there is something to write.
"""

from __future__ import annotations

import gc
import json
import math
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from ralph.core.record import Family, Record
from ralph.storage import db, forgotten
from ralph.storage.index import Progress
from ralph.storage.index_schema import SCHEMA_VERSION
from ralph.storage.index_writer import TEXT_INDEXES, IndexWriter, LoadedPortion
from ralph.storage.log_helper import HelpRules, LogHelper, log_helper
from ralph.storage.log_portions import SLICE_BYTES, ReadState
from ralph.storage.read_progress import file_digest
from ralph.storage.record_rows import Terms
from ralph.storage.source_contents import Contents
from ralph.storage.sources import SHARED_PREFIXES, Format, FoundSource, Source, sources

_SLICE_BYTES = 16 * 1024  # of a log, read between two checks of the clock; takes about 25 ms
_HURRIED_BATCH_BYTES = 1_000_000  # per transaction, if there is a deadline
_BATCH_BYTES = 8_000_000  # per transaction otherwise; each adds a segment to a full-text index
_LARGE_BYTES = 4_000_000  # a sync that reads more than this gathers full-text rows
_FTS_HASH_BYTES = 1 << 20  # what FTS5 gathers in memory before it writes a segment, by default
_FTS_AUTOMERGE = 4  # how many segments of one size FTS5 merges, by default
_FTS_CRISIS_MERGE = 16  # the default: segments of one size that trigger an immediate merge
_GATHERED_HASH_BYTES = 8 << 20
_GATHERED_SEGMENTS = 1_000  # of one size; FTS5 allows 2,000 in all

MakeWriter = Callable[[sqlite3.Connection], IndexWriter]


class _Pace(NamedTuple):
    """How much to read at a time, and when to stop by the monotonic clock."""

    slice_bytes: int = SLICE_BYTES
    batch_bytes: int = _BATCH_BYTES
    deadline: float = math.inf


def update_sources(
    writer: IndexWriter,
    gone: Collection[str],
    differing: Sequence[FoundSource],
    within: float | None,
    progress: Progress | None,
    help_rules: HelpRules | None = None,
) -> Sequence[Source]:
    """Remove the rows of sources that are gone, read those that differ, and return the unread rest.

    With a deadline of `within` seconds, memories come before logs, and newer files before older
    ones, because they matter most to a session. `help_rules` are for a sync without a deadline.
    """
    pace = _Pace()
    if within is not None:
        pace = _Pace(_SLICE_BYTES, _HURRIED_BATCH_BYTES, time.monotonic() + within)
        differing = sorted(differing, key=_urgency)
    changed = [found.source for found in differing]
    rows = _source_rows(writer.connection, [*gone, *(source.name for source in changed)])
    for name in gone:
        with db.atomic(writer.connection):
            writer.remove_source(rows[name]["key"])
    unread_bytes = sum(found.state.size for found in differing)
    is_large = within is None and unread_bytes >= _LARGE_BYTES
    with (
        _preparing_for_many(writer.connection) if is_large else nullcontext(),
        log_helper(help_rules, differing, rows) as helper,
    ):
        loaded = _load_sources(writer, changed, rows, pace, progress, helper)
    return changed[loaded:]


def _urgency(found: FoundSource) -> tuple[bool, int]:
    """Return a key that sorts memories before logs, and newer files before older ones."""
    return found.source.format is Format.LOG, -found.state.mtime_ns


def remove_forgotten(writer: IndexWriter) -> None:
    """Remove the rows of sources that contain forgotten text."""
    for key in _sources_with_forgotten(writer.connection):
        writer.remove_source(key)


def _sources_with_forgotten(connection: sqlite3.Connection) -> set[int]:
    """Return the keys of the sources to read again.

    These are all sources that are not logs, and the logs that contain forgotten text.
    """
    hidden = forgotten.load()
    rows = connection.execute("SELECT key FROM sources WHERE format <> ?", (Format.LOG,))
    keys = {row["key"] for row in rows}
    for columns in (
        "text, id FROM records",
        "content, id FROM observations",
        "notes, record_id FROM journal_rows",
    ):
        for source, text, record_id in connection.execute(f"SELECT source, {columns}"):
            if hidden.has(text) or hidden.has(forgotten.event_key(record_id)):
                keys.add(source)
    return keys


def _source_rows(connection: sqlite3.Connection, names: Sequence[str]) -> dict[str, sqlite3.Row]:
    """Return the rows of the named sources, by name."""
    sql = "SELECT * FROM sources WHERE path IN (SELECT value FROM json_each(?))"
    return {row["path"]: row for row in connection.execute(sql, (json.dumps(names),))}


def _load_sources(
    writer: IndexWriter,
    changed: Sequence[Source],
    rows: dict[str, sqlite3.Row],
    pace: _Pace,
    progress: Progress | None,
    helper: LogHelper | None,
) -> int:
    """Load sources in batches, with one transaction per batch.

    Return how many sources were loaded completely.
    """
    count = 0
    while count < len(changed):
        batch_bytes = 0
        with writer.batch():
            while count < len(changed) and batch_bytes <= pace.batch_bytes:
                source = changed[count]
                loaded = _load_portion(writer, source, rows.get(source.name), pace, helper)
                batch_bytes += loaded.size
                if pace.deadline < math.inf:
                    writer.finish_rows()
                if loaded.complete:
                    count += 1
                else:
                    rows |= _source_rows(writer.connection, [source.name])
                if progress is not None:
                    progress(count, len(changed))
                if time.monotonic() > pace.deadline:
                    return count
    return count


def _load_portion(
    writer: IndexWriter,
    source: Source,
    row: sqlite3.Row | None,
    pace: _Pace,
    helper: LogHelper | None,
) -> LoadedPortion:
    """Load a source or the next portion of a log, which may have been read by a helper."""
    portion = helper.next_portion(source) if helper is not None else None
    if portion is not None:
        writer.add_portion(source, None if row is None else row["key"], portion)
        return LoadedPortion(portion.size, portion.is_last)
    try:
        return writer.load(source, row, pace.slice_bytes, pace.deadline)
    except OSError:  # the file is gone or cannot be read, so none of it was written
        return LoadedPortion(0, complete=True)


@contextmanager
def _preparing_for_many(connection: sqlite3.Connection) -> Iterator[None]:
    """Prepare for many new rows."""
    with _gathering_words(connection), _without_garbage_collection():
        yield


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Do not look for reference cycles. Reading logs creates many values but no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _gathering_words(connection: sqlite3.Connection) -> Iterator[None]:
    """Let the full-text indexes write few large segments, and not merge them yet.

    FTS5 stores these settings in the database. If the process is killed, the database does not fit
    its seal and is rebuilt.
    """
    gathering = {"hashsize": _GATHERED_HASH_BYTES, "automerge": 0}
    if not _has_observations(connection):
        # `compact` will merge all segments of a first build, and once is enough.
        gathering["crisismerge"] = _GATHERED_SEGMENTS
    defaults = {
        "hashsize": _FTS_HASH_BYTES,
        "automerge": _FTS_AUTOMERGE,
        "crisismerge": _FTS_CRISIS_MERGE,
    }
    _set_options(connection, gathering)
    try:
        yield
    finally:
        _set_options(connection, defaults)


def _has_observations(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM observations LIMIT 1").fetchone() is not None


def _set_options(connection: sqlite3.Connection, options: Mapping[str, int]) -> None:
    """Set options of the full-text indexes that grow with the logs."""
    with db.atomic(connection):
        for table in ("search", TEXT_INDEXES[Family.OBSERVATION].table):
            sql = f"INSERT INTO {table}({table}, rank) VALUES (?, ?)"
            connection.executemany(sql, options.items())


def compact(connection: sqlite3.Connection) -> None:
    """Merge the segments of each full-text index, and free unused pages."""
    text_indexes = [text_index.table for text_index in TEXT_INDEXES.values()]
    for table in ("search", *text_indexes):
        connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
    connection.execute("VACUUM")


def copy_of_other_checkout(
    original_file: Path, new: Path, root: Path, make_writer: MakeWriter
) -> bool:
    """Copy another checkout's index, without the rows of files that differ in `root`.

    Return False if it has another version.
    """
    db.remove(new)
    with (
        db.explained(original_file),
        closing(db.connect(original_file, read_only=True)) as original,
    ):
        if db.version_of(original) != SCHEMA_VERSION:
            return False
        with closing(db.connect(new)) as copy:
            original.backup(copy)
            _clear_differing(make_writer(copy), root)
    return True


def _clear_differing(writer: IndexWriter, root: Path) -> None:
    """Remove the rows of sources that do not exist in this checkout, or differ there."""
    present = {source.name: source.path for source in sources(root)}
    with db.atomic(writer.connection):
        for row in writer.connection.execute("SELECT key, path, digest FROM sources").fetchall():
            path = present.get(row["path"])
            is_shared = row["path"].startswith(SHARED_PREFIXES)
            if path is None or (not is_shared and file_digest(path) != row["digest"]):
                writer.remove_source(row["key"])


def in_memory(
    contents: Iterable[Contents],
    terms: Terms,
    names: Sequence[str] = (),
    is_order: Callable[[Record], bool] | None = None,
    formats: Sequence[str] = (),
) -> sqlite3.Connection:
    """Build an index that is never written to disk.

    `names` and `formats` describe its sources, in the order of `contents`.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(closing(db.connect_memory()))
        db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
        writer = IndexWriter(connection, terms, is_order=is_order)
        with db.atomic(connection):
            for number, content in enumerate(contents):
                name = names[number] if names else str(number)
                form = formats[number] if formats else ""
                writer.add_contents(writer.add_source(name, form, ReadState()), content)
        stack.pop_all()  # the caller closes it
    return connection
