"""The index: SQLite over the files, brought up to date by whoever needs it next.

`sync` looks at each source's time and size, reads only those that changed, and of a log only the
lines that are new. One process writes at a time; another that comes meanwhile gives up politely,
since what it would write is being written. A database that is damaged, was deleted, or was made
by another version is made again without a word: nothing lives only here. How text becomes search
terms is given by the caller (`search/terms.py`), so that this layer knows nothing of language.
`tests/store/test_index.py` breaks databases in many ways and compares the answers.
"""

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from ralph import paths
from ralph.errors import Unreadable
from ralph.formats import jsonl
from ralph.model.record import Family, Record
from ralph.model.work import Task
from ralph.store import db, files
from ralph.store.rows import BEARER, FAMILIES, TABLES, Terms, digest_of, plain, safe, search_columns, stored
from ralph.store.sources import Contents, Format, Placed, Source, contents, sources

__all__ = ("FAMILIES", "SCHEMA_VERSION", "Index", "Progress", "Synced", "digest_of", "in_memory", "search_columns")

SCHEMA_VERSION = 2
"""Raised with every change of schema.sql or of the tokeniser: an older database is then made again."""

_LARGE = 50_000_000
"""Bytes: a database up to that size is made again rather than checked when somebody else touched it."""

_MODES = ("plan", "agent")
_STATUSES = ("running", "success", "failed", "stopped")

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Synced:
    """What a sync did: how many sources were read, and whether everything is up to date now."""

    read: int = 0
    removed: int = 0
    complete: bool = True
    busy: bool = False


class Index:
    """The database of one project."""

    def __init__(self, root: Path, terms: Terms) -> None:
        self.root = root
        self.path = paths.index_file(root)
        self._terms = terms

    def connect(self) -> sqlite3.Connection:
        """A connection for reading; the database must be there (see `sync`)."""
        return db.connect(self.path, read_only=True)

    def sync(
        self,
        *,
        within: float | None = None,
        progress: Progress | None = None,
        patience: float = 0.0,
        trusting: bool = False,
    ) -> Synced:
        """Bring the index up to date; at most so many seconds, the rest is left to the next call.

        With `trusting` a database that somebody else touched is taken as it is, and stays unsealed: `verify` looks
        at it, and the next sync has its doubts again.
        """
        try:
            with db.sole_writer(self.path, patience=patience):
                ours = db.seal(self.path) == self._sealed() or not self.path.exists()
                if not self.path.exists():
                    files.delete(self._seal)  # before the new one is there: `built` asks in the other order
                elif not ours and not trusting and not self._sound():
                    self._remove()
                try:
                    done = self._sync(within, progress)
                except db.Damaged:
                    self._remove()
                    done = self._sync(within, progress)
                if (ours or not trusting) and db.seal(self.path) != self._sealed():
                    files.write(self._seal, db.seal(self.path), mode=files.PRIVATE)
                return done
        except db.Busy:
            return Synced(complete=False, busy=True)

    def rebuild(self, progress: Progress | None = None) -> Synced:
        """Delete the database and make it again."""
        self.discard()
        return self.sync(progress=progress)

    def discard(self) -> None:
        """Delete the database; Busy when another process is at it."""
        with db.sole_writer(self.path):
            self._remove()

    def built(self) -> bool:
        """Whether it was ever brought up to date: one that is being made for the first time holds but a part."""
        return self.path.exists() and bool(self._sealed())

    @property
    def _seal(self) -> Path:
        return self.path.with_name(self.path.name + "-seal")

    def _sealed(self) -> str:
        return (files.read(self._seal) or "") if self._seal.is_file() else ""

    def _remove(self) -> None:
        files.delete(self._seal)
        db.remove(self.path)

    def _sound(self) -> bool:
        """Whether a large database that somebody touched can be kept; a small one is sooner made again."""
        if self.path.is_file() and self.path.stat().st_size <= _LARGE:
            return False
        try:
            with db.explained(self.path), closing(db.connect(self.path)) as connection:
                return _version(connection) == SCHEMA_VERSION and _intact(connection)
        except (db.Damaged, Unreadable):
            return False

    def _sync(self, within: float | None, progress: Progress | None) -> Synced:
        with db.explained(self.path), closing(db.connect(self.path)) as connection:
            if _version(connection) != SCHEMA_VERSION:
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                    raise db.Damaged(f"{self.path}: made by another version", hint="it is made again")
                _create(connection)
            writer = _Writer(connection, self._terms)
            known = {row["path"]: row for row in connection.execute("SELECT * FROM sources")}
            present = list(sources(self.root))
            gone = [known[name]["key"] for name in known.keys() - {source.name for source in present}]
            changed = [source for source in present if _differs(source, known.get(source.name))]
            if not gone and not changed:
                return Synced()
            deadline = None if within is None else time.monotonic() + within
            return _apply(writer, gone, changed, known, deadline, progress)


def _intact(connection: sqlite3.Connection) -> bool:
    """Whether SQLite, the full-text index and every row's fingerprint agree that nothing was changed."""
    if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
        return False
    connection.execute("INSERT INTO search(search) VALUES ('integrity-check')")
    for family in FAMILIES:
        table, key = TABLES[family]
        sql = f"SELECT {key} AS key, digest FROM {table}"  # noqa: S608  (our own names)
        digests = {row["key"]: row["digest"] for row in connection.execute(sql)}
        if any(digests.get(number) != digest_of(record) for number, record in stored(connection, family, "1", ())):
            return False
    return True


def in_memory(told: Iterable[Contents], terms: Terms, names: Sequence[str] = ()) -> sqlite3.Connection:
    """An index that is never written to disk: where the disk is read-only, and for measuring."""
    connection = db.connect_memory()
    _create(connection)
    writer = _Writer(connection, terms)
    with db.atomic(connection):
        for number, each in enumerate(told):
            name = names[number] if names else str(number)
            writer.put(writer.add_source(name, "", (0, 0, 0, "", 0)), each)
    return connection


def _create(connection: sqlite3.Connection) -> None:
    script = resources.files("ralph.store").joinpath("schema.sql").read_text(encoding="utf-8")
    with db.atomic(connection):
        if _version(connection) != SCHEMA_VERSION:
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _apply(
    writer: "_Writer",
    gone: list[int],
    changed: list[Source],
    known: dict[str, sqlite3.Row],
    deadline: float | None,
    progress: Progress | None,
) -> Synced:
    """One transaction a source, so that a reader soon sees something and a kill loses little."""
    for key in gone:
        with db.atomic(writer.connection):
            writer.clear(key)
    done = 0
    for source in changed:
        if deadline is not None and done and time.monotonic() > deadline:
            return Synced(done, len(gone), complete=False)
        with suppress(OSError), db.atomic(writer.connection):  # gone meanwhile, or not ours to read
            writer.load(source, known.get(source.name))
        done += 1
        if progress is not None:
            progress(done, len(changed))
    return Synced(done, len(gone))


class _Writer:
    """Writes rows and keeps the full-text index in step with them."""

    def __init__(self, connection: sqlite3.Connection, terms: Terms) -> None:
        self.connection = connection
        self._terms = terms
        self._next: dict[Family, int] = {}
        self._bearers: dict[str, int] = {}

    def load(self, source: Source, row: sqlite3.Row | None) -> None:
        """Read a source: the new lines of a log that only grew, anything else whole."""
        stat = source.path.stat()  # before reading, so that what is written meanwhile is seen next time
        payload = source.path.read_bytes()
        end = payload.rfind(b"\n") + 1 if source.format is Format.LOG else len(payload)
        start = _continues(source, payload, row)
        if row is not None and not start:
            self.clear(row["key"])
            row = None
        values = (stat.st_mtime_ns, stat.st_size, stat.st_ino, _digest(payload[:end]), end)
        if row is None:
            key = self.add_source(source.name, source.format, values)
        else:
            key = row["key"]
            sql = "UPDATE sources SET mtime_ns = ?, size = ?, inode = ?, digest = ?, offset = ? WHERE key = ?"
            self.connection.execute(sql, (*values, key))
        if start < end or row is None:
            told = contents(source, payload[start:end].decode("utf-8", "surrogateescape"))
            self.put(key, told, lines_before=payload.count(b"\n", 0, start))

    def add_source(self, name: str, form: str, values: tuple[int, int, int, str, int]) -> int:
        """A row for a source, and its key."""
        columns = "path, format, mtime_ns, size, inode, digest, offset"
        sql = f"INSERT INTO sources({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608  (our own names)
        return int(self.connection.execute(sql, (name, form, *values)).lastrowid or 0)

    def put(self, source: int, told: Contents, lines_before: int = 0) -> None:
        """Add rows for everything a source says."""
        for placed in told.records:
            self._record(source, Placed(placed.record, placed.line + lines_before))
        for task in told.tasks:
            self._task(source, task)
        for line_type, value in told.lines:
            if line_type == "session":
                self._session(source, value)
            elif line_type == "run":
                self._run(source, value)

    def clear(self, source: int) -> None:
        """Take away everything a source said."""
        for family in FAMILIES:
            for key, record in stored(self.connection, family, "source = ?", (source,)):
                self._unsearch(key, record)
        for table in ("records", "observations", "journal", "sessions", "loop_runs", "tasks"):
            self.connection.execute(f"DELETE FROM {table} WHERE source = ?", (source,))  # noqa: S608  (our own names)
        self.connection.execute("DELETE FROM sources WHERE key = ?", (source,))

    def _record(self, source: int, placed: Placed) -> None:
        record = placed.record
        key = self._key(record.family)
        name = self._unused(record)
        metadata = safe(jsonl.encode(replace(record, text="")))
        created = safe(record.created_at)
        digest = digest_of(record)
        if record.family is Family.MEMORY:
            self.connection.execute(
                "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (key, name, source, placed.line, record.kind, safe(record.title), safe(record.text), plain(record.tags),
                 record.status, record.scope, created, metadata, digest),
            )  # fmt: skip
        elif record.family is Family.OBSERVATION:
            session = safe(record.origin.session)
            sql = "SELECT coalesce(max(seq), 0) + 1 FROM observations WHERE session_id = ?"
            seq = self.connection.execute(sql, (session,)).fetchone()[0]
            self.connection.execute(
                "INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (key, name, source, placed.line, session, seq, record.kind, safe(record.text),
                 metadata, created, digest),
            )  # fmt: skip
        else:
            self._journal(key, name, source, placed, metadata, digest)
        self._search(key, record)

    def _journal(self, key: int, name: str, source: int, placed: Placed, metadata: str, digest: str) -> None:
        record = placed.record
        origin, extra = record.origin, record.extra
        self.connection.execute(
            "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (key, name, source, placed.line, safe(origin.run), plain(origin.iteration), safe(origin.task) or None,
             plain(extra.get("feature")), record.kind, plain(extra.get("model")), plain(extra.get("duration_secs")),
             plain(extra.get("cost_usd")) or 0.0, plain(origin.files), safe(record.text), safe(record.created_at),
             metadata, digest),
        )  # fmt: skip

    def _session(self, source: int, value: Mapping[str, object]) -> None:
        columns = ("id", "project_path", "task_id", "session_id", "mode", "started_at", "ended_at", "summary", "tags",
                   "messages", "created_at", "updated_at")  # fmt: skip
        said = {column: value.get(column) for column in columns if column != "mode" or value.get(column) in _MODES}
        self._merge("sessions", source, said, {})

    def _run(self, source: int, value: Mapping[str, object]) -> None:
        columns = ("id", "session_id", "goal", "iterations", "status", "reason", "context_snapshots", "started_at",
                   "ended_at")  # fmt: skip
        said = {column: value.get(column) for column in columns if column != "status" or value.get(column) in _STATUSES}
        self._merge("loop_runs", source, said, {"goal": "", "status": "running"})

    def _merge(self, table: str, source: int, said: Mapping[str, object], unsaid: Mapping[str, object]) -> None:
        """Later lines about one session or run say only what changed."""
        held = {column: plain(value) for column, value in said.items() if plain(value) is not None}
        if not isinstance(said.get("id"), str):
            return
        names = ", ".join(f"{column} = ?" for column in held)
        sql = f"UPDATE {table} SET {names} WHERE id = ?"  # noqa: S608  (our own names)
        if self.connection.execute(sql, (*held.values(), held["id"])).rowcount:
            return
        values = {**unsaid, **held, "source": source}
        sql = f"INSERT INTO {table}({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608
        self.connection.execute(sql, tuple(values.values()))

    def _task(self, source: int, task: Task) -> None:
        values = (task.id, source, task.title, task.description, task.status, task.priority, task.blocked_by,
                  task.parent, task.feature, task.attempts, task.worktree, task.branch, task.created_at,
                  task.updated_at)  # fmt: skip
        sql = "INSERT OR IGNORE INTO tasks VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self.connection.execute(sql, [plain(value) for value in values])

    def _key(self, family: Family) -> int:
        """The next free key of a family: they count in steps of three."""
        if family not in self._next:
            table, column = TABLES[family]
            highest = self.connection.execute(f"SELECT max({column}) FROM {table}").fetchone()[0]  # noqa: S608
            first = FAMILIES.index(family) + len(FAMILIES)
            self._next[family] = first if highest is None else highest + len(FAMILIES)
        key = self._next[family]
        self._next[family] = key + len(FAMILIES)
        return key

    def _unused(self, record: Record) -> str:
        """The record's id; a second bearer of the same one gets a number, since both are kept."""
        table = TABLES[record.family][0]
        column = "record_id" if record.family is Family.JOURNAL else "id"
        sql = f"SELECT 1 FROM {table} WHERE {column} = ?"  # noqa: S608  (our own names)
        given = name = safe(record.id)
        number = self._bearers.get(f"{table} {given}", 1)
        while self.connection.execute(sql, (name,)).fetchone() is not None:
            number += 1
            name = f"{given}{BEARER}{number}"
        self._bearers[f"{table} {given}"] = number
        return name

    def _search(self, key: int, record: Record) -> None:
        sql = "INSERT INTO search(rowid, title, tags, text, files) VALUES (?, ?, ?, ?, ?)"
        self.connection.execute(sql, (key, *search_columns(record, self._terms)))

    def _unsearch(self, key: int, record: Record) -> None:
        sql = "INSERT INTO search(search, rowid, title, tags, text, files) VALUES ('delete', ?, ?, ?, ?, ?)"
        self.connection.execute(sql, (key, *search_columns(record, self._terms)))


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    pending = ""
    for line in script.split("\n"):
        pending += line + "\n"
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


def _differs(source: Source, row: sqlite3.Row | None) -> bool:
    if row is None:
        return True
    try:
        stat = source.path.stat()
    except OSError:
        return True
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino) != (row["mtime_ns"], row["size"], row["inode"])


def _continues(source: Source, payload: bytes, row: sqlite3.Row | None) -> int:
    """From where a log that only grew is to be read, or the end of a file that is as it was; else 0: read it whole."""
    if row is None or (source.format is not Format.LOG and len(payload) != row["offset"]):
        return 0
    return int(row["offset"]) if _digest(payload[: row["offset"]]) == row["digest"] else 0


def _digest(payload: bytes) -> str:
    return hashlib.sha1(payload, usedforsecurity=False).hexdigest()
