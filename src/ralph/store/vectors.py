"""The vectors of texts that were embedded once: a cache by model and content.

A vector is dear (a model has to run, perhaps on somebody's server) and depends on nothing but the
model and the text, so it is kept over rebuilds of the index. The cache holds digests and bytes,
no text; what the bytes mean is for `search/vectors.py` to know. It may be deleted at any time: a
file that is damaged, or was made by another version, is deleted here and made again without a word.
`tests/store/test_vectors.py` breaks the file in several ways.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from ralph.store import db

VERSION = 1
_AT_ONCE = 500  # placeholders in one statement; every SQLite allows 999
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    model TEXT NOT NULL, digest TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, digest)
) WITHOUT ROWID
"""
_Result = TypeVar("_Result")


class VectorCache:
    """Vectors as bytes by model and digest, in a file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = db.connect(path)
        except db.Damaged:
            db.remove(path)
            self._connection = db.connect(path)
        self._work(lambda: None)

    def get(self, model: str, digests: Iterable[str]) -> dict[str, bytes]:
        """The vectors that are there; digests without one are left out."""
        wanted = list(dict.fromkeys(digests))

        def read() -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT digest, vector FROM vectors WHERE model = ? AND digest IN ({marks})"  # noqa: S608  (marks only)
                found.update((str(row[0]), bytes(row[1])) for row in self._connection.execute(query, (model, *some)))
            return found

        return self._work(read) if wanted else {}

    def put(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors, all of them or none; the newer one wins."""
        rows = [(model, digest, vector) for digest, vector in vectors.items()]
        self._write("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def forget(self, digests: Iterable[str]) -> None:
        """Drop these digests, whatever model they are of."""
        self._write("DELETE FROM vectors WHERE digest = ?", [(digest,) for digest in digests])

    def prune(self, keep: Collection[str]) -> int:
        """Drop every digest that is not to be kept; how many there were."""
        kept = frozenset(keep)

        def read() -> list[str]:
            return [str(row[0]) for row in self._connection.execute("SELECT DISTINCT digest FROM vectors")]

        gone = [digest for digest in self._work(read) if digest not in kept]
        self.forget(gone)
        return len(gone)

    def count(self, model: str) -> int:
        """How many vectors of a model are kept."""

        def read() -> int:
            query = "SELECT count(*) FROM vectors WHERE model = ?"
            return int(self._connection.execute(query, (model,)).fetchone()[0])

        return self._work(read)

    def models(self) -> tuple[str, ...]:
        """The models that have vectors here, by name."""

        def read() -> tuple[str, ...]:
            query = "SELECT DISTINCT model FROM vectors ORDER BY model"
            return tuple(str(row[0]) for row in self._connection.execute(query))

        return self._work(read)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, statement: str, rows: Sequence[tuple[str, ...] | tuple[str, str, bytes]]) -> None:
        def write() -> None:
            with db.atomic(self._connection):
                self._connection.executemany(statement, rows)

        if rows:
            self._work(write)

    def _work(self, work: Callable[[], _Result]) -> _Result:
        """Do the work; once more on a new file when this one turns out to be damaged."""
        try:
            return self._try(work)
        except db.Damaged:
            self._connection.close()
            db.remove(self._path)
            self._connection = db.connect(self._path)
            return self._try(work)

    def _try(self, work: Callable[[], _Result]) -> _Result:
        with db.explained(self._path):
            self._prepare()
            return work()

    def _prepare(self) -> None:
        """Make the table in a new file; Damaged when the file is of another version."""
        version = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        if version == VERSION:
            return
        if version != 0:
            raise db.Damaged(f"{self._path}: made by another version ({version})", hint="it is made again")
        with db.atomic(self._connection):
            self._connection.execute(_TABLE)
            self._connection.execute(f"PRAGMA user_version = {VERSION}")
