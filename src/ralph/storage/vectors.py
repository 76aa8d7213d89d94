"""A cache of the vectors of embedded texts.

A vector is expensive and depends only on the model and the text, so it outlives rebuilds of the
index.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from ralph.storage import db

VERSION = 1
_Result = TypeVar("_Result")


class VectorCache(AbstractContextManager["VectorCache"]):
    """Vectors by model and digest of the text, in a file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        if path.exists() and not os.access(path.parent, os.W_OK):
            self._connection = db.connect(path, read_only=True)
        else:
            self._connection = db.connect_cache(path, "vectors.sql", VERSION)

    def get(self, model: str, digests: Iterable[str]) -> dict[str, bytes]:
        """Return the cached vectors of some digests; the others are left out."""
        sql = (
            "SELECT digest, vector FROM vectors "
            "WHERE model = ? AND digest IN (SELECT value FROM json_each(?))"
        )
        return self._select(sql, model, json.dumps(list(digests)))

    def all(self, model: str) -> dict[str, bytes]:
        """Return every vector of a model."""
        return self._select("SELECT digest, vector FROM vectors WHERE model = ?", model)

    def put(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Store all of these vectors or none; they replace older ones."""
        rows = [(model, digest, vector) for digest, vector in vectors.items()]
        self._write("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def forget(self, digests: Iterable[str]) -> None:
        """Delete the vectors of these digests, of any model."""
        self._write("DELETE FROM vectors WHERE digest = ?", [(digest,) for digest in digests])

    def prune(self, keep: Collection[str]) -> int:
        """Delete the vectors of all digests except those to keep; return how many digests."""
        cached = self._select("SELECT DISTINCT digest, 0 FROM vectors").keys()
        unused = cached - set(keep)
        self.forget(unused)
        return len(unused)

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _select(self, sql: str, *values: str) -> dict[str, bytes]:
        return self._retry(lambda connection: dict(connection.execute(sql, values).fetchall()))

    def _write(self, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            with db.atomic(connection):
                connection.executemany(sql, rows)

        self._retry(write)

    def _retry(self, work: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Do some work with the database; if it is damaged, recreate it and do the work again."""
        try:
            with db.explained(self._path):
                return work(self._connection)
        except db.Damaged:
            self._connection.close()
            db.remove(self._path)
            self._connection = db.connect_cache(self._path, "vectors.sql", VERSION)
            with db.explained(self._path):
                return work(self._connection)
