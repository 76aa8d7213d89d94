"""The vectors of embedded texts: a cache by model and content.

A vector is expensive (a model has to run, perhaps on a server) and depends only on the model and the text, so it is
kept over rebuilds of the index. The cache has digests and bytes, no text. It may be deleted at any time: a file that is
damaged, or was made by another version, is deleted here and made again.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ralph.store import db

VERSION = 1
_BATCH = 500  # placeholders in one statement; every SQLite allows 999
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, digest TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, digest)
) WITHOUT ROWID
"""
_Result = TypeVar("_Result")


class VectorCache(AbstractContextManager["VectorCache"]):
    """Vectors as bytes by model and digest, in a file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = db.connect(path)
        except db.Damaged:
            db.remove(path)
            self._connection = db.connect(path)
        self._retry(lambda: None)

    def get(self, model: str, digests: Iterable[str]) -> dict[str, bytes]:
        """Return the vectors that are cached; digests without one are left out."""
        wanted = list(dict.fromkeys(digests))
        vectors: dict[str, bytes] = {}
        for start in range(0, len(wanted), _BATCH):
            part = wanted[start : start + _BATCH]
            marks = ",".join("?" * len(part))
            sql = f"SELECT digest, vector FROM vectors WHERE model = ? AND digest IN ({marks})"
            vectors.update((str(row[0]), bytes(row[1])) for row in self._read(sql, (model, *part)))
        return vectors

    def put(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors, all of them or none; the newer one wins."""
        rows = [(model, digest, vector) for digest, vector in vectors.items()]
        self._write("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def forget(self, digests: Iterable[str]) -> None:
        """Delete the vectors of these digests, of any model."""
        self._write("DELETE FROM vectors WHERE digest = ?", [(digest,) for digest in digests])

    def prune(self, keep: Collection[str]) -> int:
        """Delete every digest that is not to be kept; return how many there were."""
        remaining = frozenset(keep)
        digests = [str(row[0]) for row in self._read("SELECT DISTINCT digest FROM vectors")]
        gone = [digest for digest in digests if digest not in remaining]
        self.forget(gone)
        return len(gone)

    def count(self, model: str) -> int:
        """Count the vectors of a model."""
        return int(self._read("SELECT count(*) FROM vectors WHERE model = ?", (model,))[0][0])

    def models(self) -> tuple[str, ...]:
        """Return the models that have vectors here, by name."""
        return tuple(str(row[0]) for row in self._read("SELECT DISTINCT model FROM vectors ORDER BY model"))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self, statement: str, values: Sequence[str] = ()) -> list[sqlite3.Row]:
        return self._retry(lambda: self._connection.execute(statement, values).fetchall())

    def _write(self, statement: str, rows: Sequence[tuple[str, ...] | tuple[str, str, bytes]]) -> None:
        def write() -> None:
            with db.atomic(self._connection):
                self._connection.executemany(statement, rows)

        if rows:
            self._retry(write)

    def _retry(self, work: Callable[[], _Result]) -> _Result:
        """Call `work`; once more on a new file when this one turns out to be damaged."""
        try:
            return self._try(work)
        except db.Damaged:
            self._connection.close()
            db.remove(self._path)
            self._connection = db.connect(self._path)
            return self._try(work)

    def _try(self, work: Callable[[], _Result]) -> _Result:
        with db.explained(self._path):
            version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
            if version not in (0, VERSION):
                raise db.Damaged(f"{self._path}: made by another version ({version})", hint="it is made again")
            if version == 0:
                with db.atomic(self._connection):
                    self._connection.execute(_TABLE)
                    self._connection.execute(f"PRAGMA user_version = {VERSION}")
            return work()
