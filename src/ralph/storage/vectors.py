"""A cache of embedding vectors.

A vector is expensive to compute and depends only on the model and the text, so the cache survives
rebuilds of the index. Vectors are looked up by the digest of the embedded text.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from ralph.storage import db

VERSION = 1
_Result = TypeVar("_Result")


class VectorCache(AbstractContextManager["VectorCache"]):
    """Vectors by model and text digest, in a file that only its owner can read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.exists() and not os.access(path.parent, os.W_OK):
            self._connection = db.connect(path, read_only=True)
        else:
            self._connection = db.connect_cache(path, "vectors.sql", VERSION)

    def get(self, model: str, digests: Iterable[str]) -> dict[str, bytes]:
        """Return the cached vectors for these digests. Digests without a vector are left out."""
        sql = (
            "SELECT digest, vector FROM vectors "
            "WHERE model = ? AND digest IN (SELECT value FROM json_each(?))"
        )
        return self._select(sql, model, json.dumps(list(digests)))

    def all(self, model: str) -> dict[str, bytes]:
        """Return all vectors of a model, by digest."""
        return self._select("SELECT digest, vector FROM vectors WHERE model = ?", model)

    def digests(self, model: str) -> set[str]:
        """Return the digests that have vectors of a model."""

        def select(connection: sqlite3.Connection) -> set[str]:
            rows = connection.execute("SELECT digest FROM vectors WHERE model = ?", (model,))
            return {row["digest"] for row in rows}

        return self._retry(select)

    def models(self) -> list[str]:
        """Return the names of the models that have vectors, sorted."""

        def select(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute("SELECT DISTINCT model FROM vectors ORDER BY model")
            return [row["model"] for row in rows]

        return self._retry(select)

    def smallest_row(self, model: str) -> int:
        """Return the size of the model's smallest vector in bytes, which is that of one chunk."""

        def select(connection: sqlite3.Connection) -> int:
            sql = "SELECT min(length(vector)) FROM vectors WHERE model = ? AND length(vector) > 0"
            return int(connection.execute(sql, (model,)).fetchone()[0] or 0)

        return self._retry(select)

    def put(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Store these vectors, replacing older ones. Either all are stored or none."""
        rows = [(model, digest, vector) for digest, vector in vectors.items()]
        self._write("INSERT OR REPLACE INTO vectors(model, digest, vector) VALUES (?, ?, ?)", rows)

    def forget(self, digests: Iterable[str]) -> None:
        """Delete the vectors for these digests, for every model."""
        self._write("DELETE FROM vectors WHERE digest = ?", [(digest,) for digest in digests])

    def prune(self, keep: Collection[str]) -> int:
        """Delete all vectors except those for the digests in `keep`.

        Return how many digests were deleted.
        """
        unused = self._digests() - set(keep)
        self.forget(unused)
        return len(unused)

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _digests(self) -> set[str]:
        def select(connection: sqlite3.Connection) -> set[str]:
            return {row["digest"] for row in connection.execute("SELECT digest FROM vectors")}

        return self._retry(select)

    def _select(self, sql: str, *values: str) -> dict[str, bytes]:
        return self._retry(lambda connection: dict(connection.execute(sql, values).fetchall()))

    def _write(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        # A sequence, because `_retry` may have to write the rows twice.
        def write(connection: sqlite3.Connection) -> None:
            with db.atomic(connection):
                connection.executemany(sql, rows)

        self._retry(write)

    def _retry(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Run `work` on the database. If the database is damaged, recreate it and try again."""
        try:
            with db.explained(self._path):
                return work(self._connection)
        except db.Damaged:
            self._connection.close()
            db.remove(self._path)
            self._connection = db.connect_cache(self._path, "vectors.sql", VERSION)
            with db.explained(self._path):
                return work(self._connection)
