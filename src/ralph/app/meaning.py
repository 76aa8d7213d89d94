"""Search by meaning: which embedder is configured, which records get vectors, and how near they are to a question.

Vectors are computed by `embed` alone (`ralph index sync --embed`, and a few with `ralph index sync`), memories first,
the newest first, and cached by model and content: a lost index or a moved record costs nothing. A record is as near as
the best of its chunks. A search never waits for vectors: a record without one is found by its words, and when the
embedder fails, the search goes on without it, with one warning. No server is asked that the settings do not name.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import paths
from ralph.app import index
from ralph.errors import NotFound, RalphError, UsageError, WriteFailed
from ralph.model.query import Query
from ralph.model.record import Family, Record
from ralph.search import embeddings, rank
from ralph.search.embeddings import Embedder, ProviderFailed
from ralph.store import db, lookup, queries
from ralph.store.index import FAMILIES, Progress, digest_of
from ralph.store.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.settings import Embedding

NEAREST = 100
"""Records that are offered by meaning alone, at most."""
FAINT = 0.3
"""A cosine below this is chance: offering such records found no more and showed noise (own-dev)."""
WITH_SYNC = 200
"""Records that `ralph index sync` embeds at most."""

_CHUNKS = 20  # of a record, about 16,000 characters
_BATCH = 32  # chunks between two writes to the cache: what a kill may lose
_CACHE_BATCH, _FILTER_BATCH = 5_000, 500
_ORDER = (Family.MEMORY, Family.JOURNAL, Family.OBSERVATION)
_NONE = Query(limit=None)

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Embedded:
    """How many records were embedded and how many are left, the model, and the problem that stopped it."""

    done: int
    left: int
    model: str
    problem: ProviderFailed | None = None


def provider_of(settings: "Embedding") -> str:
    """The provider that counts: `auto` is the local model where it is installed, else none."""
    if settings.provider != "auto":
        return str(settings.provider)
    return "none" if embeddings.missing("local") else "local"


def embedder_of(settings: "Embedding") -> Embedder | None:
    """The embedder that the settings name; None for none, NotFound when what it needs is not installed."""
    provider = provider_of(settings)
    made = embeddings.embedder_for(provider, settings.model, settings.url, settings.key_env)
    missing = embeddings.missing(provider)
    if missing:
        what = f"the embedding provider {provider} needs {', '.join(missing)}, which is not installed"
        raise NotFound(what, hint="pip install 'ralph-memory[local]', or set embedding.provider to none")
    return made


def meaning_for(
    root: Path, settings: "Embedding", connection: sqlite3.Connection, query: Query = _NONE, warn: Warn | None = None
) -> "rank.Meaning | None":
    """How near records are to a question; None without a provider, and while nothing is embedded yet."""
    if not _file(root).exists():
        return None
    try:
        embedder = embedder_of(settings)
    except RalphError as error:
        _warn(warn, error)
        return None
    return None if embedder is None else nearness(root, embedder, connection, query, warn)


def nearness(
    root: Path, embedder: Embedder, connection: sqlite3.Connection, query: Query = _NONE, warn: Warn | None = None
) -> "rank.Meaning":
    """The engine's question about meaning, answered from the cache; whatever fails is one warning and no answer."""

    def near(text: str, keys: Sequence[int]) -> Mapping[int, float]:
        digests = queries.digests(connection)
        try:
            best = _cosines(root, embedder, text)
        except (RalphError, OSError, sqlite3.Error) as error:
            _warn(warn, error)
            return {}
        return _nearest(connection, query, digests, best, keys)

    return near


def embed(root: Path, settings: "Embedding", *, limit: int | None = None, progress: Progress | None = None) -> Embedded:
    """Give vectors to records that have none; UsageError when no provider is set."""
    embedder = embedder_of(settings)
    if embedder is None:
        auto = settings.provider == "auto"
        hint = "pip install 'ralph-memory[local]', or name a server" if auto else "set embedding.provider"
        raise UsageError("no embedding provider is set, so search goes by words alone", hint=hint)
    return embed_with(root, embedder, limit=limit, progress=progress)


def embed_some(root: Path, settings: "Embedding", progress: Progress | None = None) -> Embedded | None:
    """A few records, by the local model alone: what `ralph index sync` may do unasked."""
    if provider_of(settings) != "local" or embeddings.missing("local"):
        return None
    return embed(root, settings, limit=WITH_SYNC, progress=progress)


def embed_with(
    root: Path, embedder: Embedder, *, limit: int | None = None, progress: Progress | None = None
) -> Embedded:
    """Give vectors to records that have none, batch by batch; what is computed is kept whatever happens next."""
    complete = index.sync(root).complete
    digests = index.ask(root, queries.digests)

    def read(keys: Sequence[int]) -> Mapping[int, Record]:
        return index.ask(root, lambda connection: queries.records(connection, keys))

    with _cache(root) as cache:
        if complete and limit is None:
            cache.prune({*digests.values(), *index.digests_of_others(root)})
        return _Vectorizer(cache, embedder, read).embed(digests, limit, progress)


def embed_held(root: Path, embedder: Embedder, connection: sqlite3.Connection) -> Embedded:
    """Give vectors to the records of an index that the caller holds, such as one in memory."""
    with _cache(root) as cache:
        vectorizer = _Vectorizer(cache, embedder, lambda keys: queries.records(connection, keys))
        return vectorizer.embed(queries.digests(connection))


@dataclass(frozen=True, slots=True)
class _Vectorizer:
    """Computes vectors into a cache."""

    cache: VectorCache
    embedder: Embedder
    read: Callable[[Sequence[int]], Mapping[int, Record]]

    def embed(self, digests: Mapping[int, str], limit: int | None = None, progress: Progress | None = None) -> Embedded:
        """Compute what is missing."""
        waiting = self._waiting(digests)
        planned = waiting[:limit]
        done = 0
        problem = None
        try:
            for records in self._batches(planned):
                texts = [chunks_of(record) for record in records]
                vectors = iter(
                    embeddings.quantize(self.embedder.embed([chunk for chunks in texts for chunk in chunks]))
                )
                self.cache.put(
                    self.embedder.name,
                    {
                        digest_of(record): b"".join(islice(vectors, len(chunks)))  # b"" for a record without words
                        for record, chunks in zip(records, texts, strict=True)
                    },
                )
                done += len(records)
                if progress is not None:
                    progress(done, len(planned))
        except ProviderFailed as error:
            problem = error
        return Embedded(done, len(waiting) - done, self.embedder.name, problem)

    def _waiting(self, digests: Mapping[int, str]) -> list[int]:
        """The keys of contents without vectors, one a content: memories first, and the newest of a family first."""
        first: dict[str, int] = {}
        for key in sorted(digests, key=lambda key: (_ORDER.index(FAMILIES[key % len(FAMILIES)]), -key)):
            first.setdefault(digests[key], key)
        keys = list(first.values())
        size = embeddings.row_bytes(self.embedder.dimensions) if self.embedder.dimensions else 1
        waiting: list[int] = []
        for start in range(0, len(keys), _CACHE_BATCH):
            some = keys[start : start + _CACHE_BATCH]
            known = self.cache.get(self.embedder.name, [digests[key] for key in some])
            waiting += [key for key in some if digests[key] not in known or len(known[digests[key]]) % size]
        return waiting

    def _batches(self, keys: Sequence[int]) -> Iterator[list[Record]]:
        """Records in batches of about as many chunks as are written at once."""
        for start in range(0, len(keys), _BATCH):
            records = self.read(keys[start : start + _BATCH])
            batch: list[Record] = []
            count = 0
            for record in (records[key] for key in keys[start : start + _BATCH] if key in records):
                batch.append(record)
                count += len(chunks_of(record))
                if count >= _BATCH:
                    yield batch
                    batch, count = [], 0
            if batch:
                yield batch


def chunks_of(record: Record) -> tuple[str, ...]:
    """The chunks of a record that get a vector each: of the same text as its digest."""
    return embeddings.split_chunks(f"{record.title}\n{record.text}")[:_CHUNKS]


def _file(root: Path) -> Path:
    return paths.cache_folder(root) / "vectors.db"


@contextmanager
def _cache(root: Path) -> Iterator[VectorCache]:
    """Open the vectors for writing; any problem with their file is WriteFailed."""
    try:
        with VectorCache(_file(root)) as cache:
            yield cache
    except (db.Busy, db.Damaged, sqlite3.Error, OSError) as error:
        what = f"{paths.shown(_file(root), root)}: cannot be written: {error}"
        raise WriteFailed(what, hint="delete the file; it is created again") from error


def _warn(warn: Warn | None, error: Exception) -> None:
    """Warn why the search is by words alone."""
    what, hint = (error.message, error.hint) if isinstance(error, RalphError) else (str(error), "")
    if warn is not None:
        warn(f"searched by words alone: {what}" + (f" ({hint})" if hint else ""))


def _cosines(root: Path, embedder: Embedder, text: str) -> dict[str, float]:
    """How near each content is to a text; the embedder is asked only when there is something to compare with."""
    with VectorCache(_file(root)) as cache:
        stored = cache.all(embedder.name)
    return embeddings.cosines(stored, embedder.embed([text])) if stored else {}


def _nearest(
    connection: sqlite3.Connection,
    query: Query,
    digests: Mapping[int, str],
    cosines: Mapping[str, float],
    keys: Sequence[int],
) -> dict[int, float]:
    """The cosines of these keys, and of the nearest of all that pass the filters, unless that is by chance."""
    keep = queries.filter_of(query)
    close = {digest: value for digest, value in cosines.items() if value >= FAINT}
    ranked = sorted(((close[digest], key) for key, digest in digests.items() if digest in close), reverse=True)
    passing: dict[int, float] = {}
    for start in range(0, len(ranked), _FILTER_BATCH):
        some = ranked[start : start + _FILTER_BATCH]
        allowed = lookup.filter_keys(connection, [key for _, key in some], keep)
        passing.update((key, value) for value, key in some if key in allowed)
        if len(passing) >= NEAREST:
            break
    nearest = dict(islice(passing.items(), NEAREST))
    candidates = lookup.filter_keys(connection, keys, keep)
    return nearest | {key: cosines[digests[key]] for key in candidates if digests.get(key, "") in cosines}
