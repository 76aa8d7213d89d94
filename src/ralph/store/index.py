"""The index: SQLite over the sources, brought up to date before it is read.

`sync` reads only the sources that changed, of a log only the new lines, in slices so that a deadline holds. One process
writes at a time. A database that is damaged, touched by another program or of another version is made again: nothing is
stored only here. Where it cannot be written, one in memory answers.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ralph import paths
from ralph.errors import RalphError, Unreadable, WriteFailed
from ralph.model.record import Family, Record
from ralph.store import changes, db, files, forgotten, queries, totals
from ralph.store.changes import digest_to, file_digest
from ralph.store.lookup import SCHEMA_VERSION, placeholders
from ralph.store.queries import (
    FAMILIES,
    TABLES,
    Row,
    Terms,
    column_value,
    row_values,
    safe,
    search_columns,
)
from ralph.store.sources import (
    SHARED,
    Contents,
    Format,
    Interpret,
    IsOwn,
    Placed,
    Source,
    contents,
    has_own,
    read_source,
    sources,
)

__all__ = (
    "FAMILIES",
    "SCHEMA_VERSION",
    "Index",
    "Progress",
    "Synced",
    "in_memory",
    "search_columns",
)

PATIENCE = 5.0  # seconds to wait for another process that makes the index for the first time
_BATCH = (
    1_000_000  # bytes of files in one transaction; the full-text index writes a segment for each
)
_FEW_PAGES = 64  # a database that has grown by more, and doubled, is packed
_SLICE = 64 * 1024  # bytes of a log between two looks at the clock
_ALLOWED = {"mode": ("plan", "agent"), "status": ("running", "success", "failed", "stopped")}
_SESSION = "project_path task_id session_id mode started_at ended_at reason host summary tags created_at updated_at"
_RUN = "goal iterations status reason started_at ended_at"
_TASK = "id title description status priority blocked_by parent feature attempts worktree branch created_at updated_at"
_COMPLETE_SESSIONS = """
UPDATE sessions SET created_at = min(coalesce(nullif(created_at, ''), started_at), coalesce(started_at, created_at)),
    task_id = coalesce(nullif(task_id, ''), (
        SELECT json_extract(metadata, '$.task') FROM observations
        WHERE session_id = sessions.id AND instr(metadata, '"task":') > 0 AND json_extract(metadata, '$.task') > ''
        ORDER BY seq LIMIT 1)),
    messages = (
        SELECT json_group_array(json_object('role', iif(title = 'prompt', 'user', 'assistant'), 'id', id,
            'text', substr(content, 1, 80)))
        FROM (SELECT * FROM observations WHERE session_id = sessions.id AND type = 'note'
            AND title IN ('prompt', 'answer') ORDER BY seq))
WHERE id IN (SELECT value FROM json_each(?))
"""
_COMPLETE_RUNS = f"""
UPDATE loop_runs SET
    session_id = (SELECT json_extract(metadata, '$.session') FROM journal
        WHERE run_id = loop_runs.id AND metadata <> '' ORDER BY iteration DESC LIMIT 1),
    context_snapshots = (SELECT json_group_array(printf('{paths.LOG}/runs/%s/%04d.md', run_id, iteration)) FROM
        (SELECT * FROM journal WHERE run_id = loop_runs.id AND iteration IS NOT NULL ORDER BY iteration))
WHERE id IN (SELECT value FROM json_each(?))
"""
_FOLDED = (
    ("session", "sessions", _SESSION, _COMPLETE_SESSIONS),
    ("run", "loop_runs", _RUN, _COMPLETE_RUNS),
)
_FTS = {
    Family.OBSERVATION: ("observations_fts", "content"),
    Family.JOURNAL: ("journal_fts", "notes"),
}
"""Full-text tables for people with sqlite3, and their column."""
_FOLDS: Mapping[str, Callable[[str, str], str]] = {
    "started_at": min,
    "created_at": min,
    "updated_at": max,
}
Progress = Callable[[int, int], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Synced:
    """How many sources were read, and whether everything is up to date now."""

    read: int = 0
    removed: int = 0
    complete: bool = True
    busy: bool = False


class Index:
    """The database of one project; `copy_main`: a worktree's may begin as a copy."""

    def __init__(
        self,
        root: Path,
        terms: Terms,
        interpret: Interpret | None = None,
        copy_main: Callable[[], bool] | None = None,
        is_order: Callable[[Record], bool] | None = None,
        is_own: IsOwn | None = None,
    ) -> None:
        self.root = root
        self.path = paths.index_file(root)
        self._terms = terms
        self._interpret = interpret
        self.is_order = is_order
        self._is_own = is_own
        self._copy_main = copy_main

    def outside(self) -> Path | None:
        """Return the target of a link that takes the index out of the project."""
        real = Path(os.path.realpath(self.path))
        return (
            None if real.is_relative_to(os.path.realpath(paths.state_boundary(self.root))) else real
        )

    def connect(self) -> sqlite3.Connection:
        """Open the database for reading; it must exist (see `sync`)."""
        return db.connect(self.path, read_only=True)

    def ask(
        self, question: Callable[[sqlite3.Connection], T], progress: Progress | None = None
    ) -> T:
        """Ask the up-to-date index; a damaged one is made again and asked once more."""
        for _ in range(2):
            with self.open_current(progress) as connection:
                try:
                    return question(connection)
                except (sqlite3.DatabaseError, UnicodeDecodeError, Unreadable):
                    pass
            if self.outside() is None:
                with suppress(db.Busy, WriteFailed):  # another process is already making it again
                    discard(self.path)
        with closing(self._from_files()) as connection:
            return question(connection)

    @contextmanager
    def open_current(self, progress: Progress | None = None) -> Iterator[sqlite3.Connection]:
        """Connect to the up-to-date index in one state; in memory where it cannot be written."""
        try:
            if not self.is_needed():
                connection = self._from_files()
            else:
                if self.sync(progress=progress).busy and not self.built():
                    self.sync(progress=progress, patience=PATIENCE)
                connection = self.connect()
        except (RalphError, OSError, sqlite3.DatabaseError):
            connection = self._snapshot() or self._from_files()
        with closing(connection):
            with suppress(sqlite3.DatabaseError):
                connection.execute("BEGIN")
            yield connection

    def is_needed(self) -> bool:
        """Whether there is anything to index here: otherwise nothing is written."""
        return self.outside() is None and (self.path.parent.exists() or has_own(self.root))

    def _from_files(self) -> sqlite3.Connection:
        present = list(sources(self.root))
        names = [source.name for source in present]
        formats = [source.format.value for source in present]
        return in_memory(
            (self.read(source) for source in present), self._terms, names, self.is_order, formats
        )

    def read(self, source: Source) -> Contents:
        """Return the contents of a source; nothing when it may not be read."""
        try:
            return read_source(source, self._interpret, self._is_own)
        except Unreadable:
            return Contents()

    def _snapshot(self) -> sqlite3.Connection | None:
        if self.built() and not os.access(self.path.parent, os.W_OK):
            copy = db.connect_memory()
            with suppress(RalphError, OSError, sqlite3.DatabaseError), db.explained(self.path):
                with closing(self.connect()) as connection:
                    connection.backup(copy)
                self._update(copy, changes.Look(self.root), None, None)
                return copy
        return None

    def sync(
        self,
        *,
        within: float | None = None,
        progress: Progress | None = None,
        patience: float = 0.0,
        trusting: bool = False,
    ) -> Synced:
        """Bring the index up to date; after `within` seconds the rest is left to the next call.

        With `trusting` a database that another program touched is kept and stays unsealed: `verify` compares it.
        """
        files.hide_state(self.root)
        try:
            with sole_writer(self.path, patience=patience):
                with suppress(RalphError, OSError):  # still locked: the next sync tries again
                    files.collect_spilled(self.root)
                sealed = not self.path.exists() or _current_seal(self.path) == self._read_seal()
                if not self.path.exists():
                    files.delete(
                        _seal_of(self.path)
                    )  # before there is a new one: `built` asks in the other order
                elif not sealed and not trusting:
                    self._drop_forgotten()
                if not self.path.exists() and self._copy_main is not None and self._copy_main():
                    self._copy_from_main()
                if sealed and changes.none_since(self.root, _current_seal(self.path)):
                    self._link()
                    return Synced()
                look = changes.Look(self.root)
                try:
                    result = self._sync(look, within, progress)
                except db.Damaged:
                    _remove(self.path)
                    result = self._sync(look, within, progress)
                self._link()
                if (sealed or not trusting) and _current_seal(self.path) != self._read_seal():
                    write_seal(self.path)
                if result.complete:
                    look.remember(_current_seal(self.path))
                return result
        except db.Busy:
            return Synced(complete=False, busy=True)

    def rebuild(self, progress: Progress | None = None) -> Synced:
        """Delete the database and make it again, from the files alone."""
        discard(self.path)
        self._copy_main = None
        return self.sync(progress=progress)

    def built(self) -> bool:
        """Whether it was ever complete: one that is being made has only a part."""
        return self.path.exists() and bool(self._read_seal())

    def _read_seal(self) -> str:
        seal = _seal_of(self.path)
        return (files.read(seal) or "") if seal.is_file() else ""

    def _copy_from_main(self) -> None:
        """Begin a worktree's index as a copy of the main checkout's, without rows of files that differ here."""
        main = paths.index_file(paths.main_checkout(self.root))
        new = self.path.with_name(self.path.name + "-new")
        try:
            seal = _seal_of(main)
            if not (main.is_file() and seal.is_file() and files.read(seal) == _current_seal(main)):
                return
            db.remove(new)
            with db.explained(main), closing(db.connect(main, read_only=True)) as original:
                if db.version_of(original) != SCHEMA_VERSION:
                    return
                with closing(db.connect(new)) as copy:
                    original.backup(copy)
                    present = {source.name: source.path for source in sources(self.root)}
                    writer = IndexWriter(copy, self._terms)
                    with db.atomic(copy):
                        for row in copy.execute("SELECT key, path, digest FROM sources").fetchall():
                            path = present.get(row["path"])
                            is_shared = row["path"].startswith(SHARED)
                            if path is None or (
                                not is_shared and file_digest(path) != row["digest"]
                            ):
                                writer.clear(row["key"])
            files.move(new, self.path)
        except (RalphError, OSError, sqlite3.Error):
            return  # it is made from the files
        finally:
            with suppress(RalphError):
                db.remove(new)

    def _drop_forgotten(self) -> None:
        """Clear sources with forgotten texts; after any other change remove the database."""
        if self._read_seal().split()[:3] != db.seal(self.path).split():
            _remove(self.path)
            return
        hidden = forgotten.load()
        with (
            db.explained(self.path),
            closing(db.connect(self.path)) as connection,
            db.atomic(connection),
        ):
            sql = "SELECT key FROM sources WHERE format <> ?"
            stale = {row[0] for row in connection.execute(sql, (Format.LOG,))}
            for columns in (
                "text, id FROM records",
                "content, id FROM observations",
                "notes, record_id FROM journal",
            ):
                for source, text, name in connection.execute(f"SELECT source, {columns}"):
                    if hidden.has(text) or hidden.has(forgotten.event_key(name)):
                        stale.add(source)
            writer = IndexWriter(connection, self._terms)
            for key in stale:
                writer.clear(key)

    def _link(self) -> None:
        link = paths.index_link(self.root)
        target = os.path.relpath(self.path, link.parent)
        if paths.gitignore(self.root).is_file() and (link.is_symlink() or not link.exists()):
            with suppress(OSError, WriteFailed):
                if not link.is_symlink() or os.fspath(link.readlink()) != target:
                    files.delete(link)
                    files.link(link, Path(target))

    def _sync(self, look: changes.Look, within: float | None, progress: Progress | None) -> Synced:
        with db.explained(self.path), closing(db.connect(self.path)) as connection:
            before = db.count_pages(connection)
            result = self._update(connection, look, within, progress)
            if within is None and db.count_pages(connection) > 2 * before + _FEW_PAGES:
                with suppress(sqlite3.OperationalError):  # no space for a copy: it stays as it is
                    for table in ("search", *(name for name, _ in _FTS.values())):
                        connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
                    connection.execute("VACUUM")
            return result

    def _update(
        self,
        connection: sqlite3.Connection,
        look: changes.Look,
        within: float | None,
        progress: Progress | None,
    ) -> Synced:
        """Update a few sources in a transaction; with a deadline in slices, the newest first."""
        db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
        writer = IndexWriter(connection, self._terms, self._interpret, self.is_order, self._is_own)
        known = changes.known_states(connection)
        gone = known.keys() - look.scan()
        differing = look.differing(known)
        deadline = math.inf
        slice_size = _BATCH
        if within is not None:
            deadline = time.monotonic() + within
            slice_size = _SLICE
            differing.sort(key=lambda each: each[1][0], reverse=True)
        changed = [source for source, _ in differing]
        sql = "SELECT * FROM sources WHERE path IN (SELECT value FROM json_each(?))"
        stored = json.dumps([*gone, *(source.name for source in changed if source.name in known)])
        rows = {row["path"]: row for row in connection.execute(sql, (stored,))}
        for name in gone:
            with db.atomic(connection):
                writer.clear(rows[name]["key"])
        count = 0
        while count < len(changed):
            size = 0
            with db.atomic(connection):
                while count < len(changed) and size <= _BATCH:
                    source = changed[count]
                    loaded = 0
                    complete = True
                    with suppress(
                        OSError
                    ):  # gone meanwhile, or not ours to read: then nothing of it was written
                        loaded, complete = writer.load(source, rows.get(source.name), slice_size)
                    size += loaded
                    if complete:
                        count += 1
                    else:
                        sql = "SELECT * FROM sources WHERE path = ?"
                        rows[source.name] = connection.execute(sql, (source.name,)).fetchone()
                    if progress is not None:
                        progress(count, len(changed))
                    if count < len(changed) and time.monotonic() > deadline:
                        return Synced(count, len(gone), complete=False)
        return Synced(count, len(gone))


@contextmanager
def sole_writer(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the right to write; Busy when another process keeps it."""
    files.make_folder(path.parent, 0o700)
    handle = files.lock_file(path.with_name(path.name + "-lock"), patience)
    if handle is None:
        raise db.Busy(f"{path}: another process is writing", hint="try again in a moment")
    try:
        yield
    finally:
        os.close(handle)


def discard(path: Path, patience: float = 0.0) -> None:
    """Delete an index; Busy when another process writes for longer than `patience` seconds."""
    with sole_writer(path, patience=patience):
        _remove(path)


def in_memory(
    contents: Iterable[Contents],
    terms: Terms,
    names: Sequence[str] = (),
    is_order: Callable[[Record], bool] | None = None,
    formats: Sequence[str] = (),
) -> sqlite3.Connection:
    """Make an index that is never written to disk."""
    connection = db.connect_memory()
    db.create_tables(connection, "schema.sql", SCHEMA_VERSION)
    writer = IndexWriter(connection, terms, is_order=is_order)
    with db.atomic(connection):
        for number, content in enumerate(contents):
            name = names[number] if names else str(number)
            form = formats[number] if formats else ""
            writer.put(writer.add_source(name, form, (0, 0, 0, "", 0, 0)), content)
    return connection


def _seal_of(path: Path) -> Path:
    return path.with_name(path.name + "-seal")


def write_seal(path: Path) -> None:
    """Record how a database is now: the next sync trusts it."""
    files.write(_seal_of(path), _current_seal(path), mode=files.PRIVATE)


def _current_seal(path: Path) -> str:
    return f"{db.seal(path)} {forgotten.mark()}".rstrip()


def _remove(path: Path) -> None:
    files.delete(_seal_of(path))
    db.remove(path)


class IndexWriter:
    """Adds and removes the rows of sources, and the full-text index with them.

    Lines about a session or a run are folded into one row, with the same result in any portions. Keys only grow, as the
    full-text index wants them. `is_order` is stored, so that hooks need not find out.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        terms: Terms,
        interpret: Interpret | None = None,
        is_order: Callable[[Record], bool] | None = None,
        is_own: IsOwn | None = None,
    ) -> None:
        self.connection = connection
        self._is_own = is_own
        self._is_order = is_order or (lambda _: False)
        self._terms = terms
        self._interpret = interpret
        self._forgotten = forgotten.load()
        self._next: dict[Family, int] = {}

    def load(
        self, source: Source, row: sqlite3.Row | None, slice_size: int = _BATCH
    ) -> tuple[int, bool]:
        """Read the next slice of a log, else all; return the bytes read, and whether that was the end."""
        stat = (
            source.path.stat()
        )  # before reading, so that what is written meanwhile is read next time
        is_log = source.format is Format.LOG
        with files.open_unpacked(source.path) as file:
            start, lines = (int(row["offset"]), int(row["lines"])) if row is not None else (0, 0)
            length = (
                file.seek(0, os.SEEK_END)
                if source.path.name.endswith(paths.PACKED)
                else stat.st_size
            )
            is_same = is_log or start == length
            if row is not None and not (
                start and is_same and digest_to(file, start) == row["digest"]
            ):
                self.clear(row["key"])
                row = None
                start = 0
                lines = 0
            file.seek(start)
            payload = file.read(slice_size) if is_log else file.read()
            while is_log and b"\n" not in payload and (more := file.read(slice_size)):
                payload += more  # a long line
            complete = not is_log or file.tell() >= length
            if is_log:
                payload = payload[: payload.rfind(b"\n") + 1]  # the rest is still being written
            end = start + len(payload)
            # Until the end is reached, the stored size is another one than the file's: the next sync reads on.
            size = stat.st_size if complete else -end
            values = (
                stat.st_mtime_ns,
                size,
                stat.st_ino,
                digest_to(file, end),
                end,
                lines + payload.count(b"\n"),
            )
        if row is None:
            key = self.add_source(source.name, source.format, values)
        else:
            key = row["key"]
            columns = "mtime_ns = ?, size = ?, inode = ?, digest = ?, offset = ?, lines = ?"
            self.connection.execute(f"UPDATE sources SET {columns} WHERE key = ?", (*values, key))
        if payload or row is None:
            text = payload.decode("utf-8", "surrogateescape")
            state = row is not None and bool(row["in_own_turn"])
            new = contents(source, text, self._interpret, self._is_own, in_own_turn=state)
            self.put(key, new, lines_before=lines)
            totals.add_log(self.connection, key, new)
            if new.in_own_turn != state:
                sql = "UPDATE sources SET in_own_turn = ? WHERE key = ?"
                self.connection.execute(sql, (int(new.in_own_turn), key))
        return len(payload), complete

    def add_source(self, name: str, form: str, values: tuple[int, int, int, str, int, int]) -> int:
        """Add a row for a source and return its key."""
        columns = "path, format, mtime_ns, size, inode, digest, offset, lines"
        sql = f"INSERT INTO sources({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        return int(self.connection.execute(sql, (name, form, *values)).lastrowid or 0)

    def put(self, source: int, new: Contents, lines_before: int = 0) -> None:
        """Add rows for the contents of a source, without what was forgotten."""
        records = [item for item in new.records if not self._forgotten.hides(item.record)]
        for family in FAMILIES:
            if placed := [item for item in records if item.record.family is family]:
                self._add_records(source, family, placed, lines_before)
        for task in new.tasks:
            values = [column_value(getattr(task, name)) for name in _TASK.split()]
            sql = f"INSERT OR IGNORE INTO tasks VALUES (NULL, ?, ?, {placeholders(values[1:])})"
            self.connection.execute(sql, (values[0], source, *values[1:]))
        for kind, table, columns, complete in _FOLDED:
            lines = [line for each, line in new.lines if each == kind]
            self._fold_lines(table, columns.split(), source, lines)
            names = {safe(str(line["id"])) for line in lines}
            names |= {safe(getattr(item.record.origin, kind)) for item in records}
            if names - {""}:
                self.connection.execute(complete, (json.dumps(sorted(names - {""})),))
            if kind == "session":
                totals.begin_sessions(self.connection, names - {""})

    def clear(self, source: int) -> None:
        """Remove every row of a source."""
        sessions = totals.take_source(self.connection, source)
        sql = "INSERT INTO search(search, rowid, title, tags, text, files) VALUES ('delete', ?, ?, ?, ?, ?)"
        for family in FAMILIES:
            rows = queries.select_records(self.connection, family, "source = ?", (source,))
            self.connection.executemany(
                sql, ((key, *search_columns(record, self._terms)) for key, record in rows)
            )
            if family in _FTS:
                (fts, column), (table, rowid) = _FTS[family], TABLES[family]
                values = f"SELECT 'delete', {rowid}, {column} FROM {table} WHERE source = ?"
                self.connection.execute(
                    f"INSERT INTO {fts}({fts}, rowid, {column}) {values}", (source,)
                )
        for table in ("records", "observations", "journal", "sessions", "loop_runs", "tasks"):
            self.connection.execute(f"DELETE FROM {table} WHERE source = ?", (source,))
        self.connection.execute("DELETE FROM sources WHERE key = ?", (source,))
        totals.list_sessions_again(self.connection, sessions)

    def _add_records(
        self, source: int, family: Family, placed: Sequence[Placed], lines_before: int
    ) -> None:
        step = len(FAMILIES)
        last = dict[str, int]()
        if family not in self._next:
            table, column = TABLES[family]
            highest = self.connection.execute(f"SELECT max({column}) FROM {table}").fetchone()[0]
            self._next[family] = (
                FAMILIES.index(family) + step if highest is None else highest + step
            )
        first = self._next[family]
        keys = range(first, first + len(placed) * step, step)
        self._next[family] = first + len(placed) * step
        rows: list[Row] = []
        terms: list[Row] = []
        for item, key in zip(placed, keys, strict=True):
            session = safe(item.record.origin.session)
            position = 0
            if family is Family.OBSERVATION:
                if session not in last:
                    sql = "SELECT coalesce(max(seq), 0) FROM observations WHERE session_id = ?"
                    last[session] = self.connection.execute(sql, (session,)).fetchone()[0]
                position = last[session] = last[session] + 1
            values = row_values(item.record, position, is_order=self._is_order(item.record))
            rows.append((key, safe(item.record.id), source, item.line + lines_before, *values))
            terms.append((key, *search_columns(item.record, self._terms)))
        self.connection.executemany(
            f"INSERT INTO {TABLES[family][0]} VALUES ({placeholders(rows[0])})", rows
        )
        sql = "INSERT INTO search(rowid, title, tags, text, files) VALUES (?, ?, ?, ?, ?)"
        self.connection.executemany(sql, terms)
        if family in _FTS:
            (fts, column), (table, rowid) = _FTS[family], TABLES[family]
            new = f"SELECT {rowid}, {column} FROM {table} WHERE {rowid} >= ?"
            self.connection.execute(f"INSERT INTO {fts}(rowid, {column}) {new}", (keys[0],))
        totals.add_records(self.connection, family, keys[0])

    def _fold_lines(
        self, table: str, columns: Sequence[str], source: int, lines: Sequence[Mapping[str, object]]
    ) -> None:
        """The earliest start and the latest change count, of everything else the last value."""
        rows: dict[str, dict[str, object]] = {}
        for line in lines:
            if not isinstance(line.get("id"), str):
                continue
            name = safe(str(line["id"]))
            if name not in rows:  # once: a log has thousands of lines about one session
                self.connection.execute(
                    f"INSERT OR IGNORE INTO {table}(id, source) VALUES (?, ?)", (name, source)
                )
                sql = f"SELECT {', '.join(columns)} FROM {table} WHERE id = ?"
                rows[name] = dict(self.connection.execute(sql, (name,)).fetchone())
            for column in columns:
                member = (
                    None
                    if column == "summary" and self._forgotten.has(line.get(column))
                    else line.get(column)
                )
                value = column_value(member, _ALLOWED.get(column))
                current = rows[name][column]
                if column in _FOLDS and isinstance(current, str) and current:
                    value = (
                        _FOLDS[column](current, value)
                        if isinstance(value, str) and value
                        else current
                    )
                if value is not None:
                    rows[name][column] = value
        sql = f"UPDATE {table} SET {', '.join(f'{column} = ?' for column in columns)} WHERE id = ?"
        self.connection.executemany(sql, [(*row.values(), name) for name, row in rows.items()])
