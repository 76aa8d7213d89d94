"""Search by meaning, using the configured embedder and the cached vectors of records.

A search that words can answer does not wait for vectors. If the embedder fails, the search
continues by words alone, with one warning. The only server ever contacted is the one named in the
settings.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ralph.core import paths
from ralph.core.errors import NotFound, RalphError, UsageError, WriteFailed
from ralph.core.extras import add_command
from ralph.core.record import Family, Query, Record
from ralph.search import candidates, embedding_providers, index, local_embedder, vectors
from ralph.search.embeddings import Embedder, ProviderFailed
from ralph.storage import db, lookup, queries, query_filters, record_filters
from ralph.storage.index import Progress
from ralph.storage.index_schema import family_of
from ralph.storage.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.core.settings import Embedding

NEAREST = 30  # maximum number of records offered by meaning alone
_MAX_RECORDS_PER_SYNC = 200  # embedded by `ralph index sync`
_MAX_RECORDS_PER_SEARCH = 40  # embedded during a search
_MAX_CHUNKS = 20  # per record, about 16,000 characters
_CHUNKS_PER_WRITE = 32  # between two writes to the cache, so a kill loses at most these
_DIGESTS_PER_READ = 5_000  # from the cache
_KEYS_PER_FILTER = 500
_FAMILY_ORDER = (Family.MEMORY, Family.JOURNAL, Family.OBSERVATION)
"""The order in which families get their vectors."""
_NO_FILTER = Query(limit=None)

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Embedded:
    """The result of embedding records.

    `done` records were embedded by `model`, and `left` remain. `problem` is the error that stopped
    the work, if any.
    """

    done: int
    left: int
    model: str
    problem: ProviderFailed | None = None


def embedder_of(settings: Embedding) -> Embedder | None:
    """Return the configured embedder, or None if there is none.

    Raises NotFound if it needs a module that is not installed.
    """
    provider = _provider_of(settings)
    embedder = embedding_providers.embedder_for(
        provider, settings.model, settings.url, settings.key_env
    )
    missing = embedding_providers.missing_modules(provider)
    if missing:
        raise NotFound(
            f"the embedding provider {provider} needs {', '.join(missing)}, which is not installed",
            hint=f"{add_command('local')}   (or set embedding.provider to none)",
        )
    return embedder


def _provider_of(settings: Embedding) -> str:
    if settings.provider != "auto":
        return str(settings.provider)
    if embedding_providers.missing_modules("local"):
        return "none"
    return "local"


def embed(
    root: Path, settings: Embedding, *, limit: int | None = None, progress: Progress | None = None
) -> Embedded:
    """Embed the records that have no vector yet, at most `limit`.

    Raises UsageError if no provider is set, and NotFound as `embedder_of` does.
    """
    embedder = embedder_of(settings)
    if embedder is None:
        hint = "set embedding.provider"
        if settings.provider == "auto":
            hint = f"{add_command('local')}   (or name a server)"
        raise UsageError("no embedding provider is set, so search uses words alone", hint=hint)
    return embed_with(root, embedder, limit=limit, progress=progress)


def embed_some(
    root: Path, settings: Embedding, progress: Progress | None = None
) -> Embedded | None:
    """Embed a few records as part of `ralph index sync`.

    Return None unless the local model is used.
    """
    if not _is_local(settings):
        return None
    return embed(root, settings, limit=_MAX_RECORDS_PER_SYNC, progress=progress)


def _is_local(settings: Embedding) -> bool:
    return _provider_of(settings) == "local" and not embedding_providers.missing_modules("local")


def embed_with(
    root: Path, embedder: Embedder, *, limit: int | None = None, progress: Progress | None = None
) -> Embedded:
    """Embed the records that have no vector yet, in batches. Each finished batch is kept."""
    complete = index.sync(root).complete
    digests = index.ask(root, queries.digests)

    def read(keys: Sequence[int]) -> Mapping[int, Record]:
        return index.ask(root, lambda connection: queries.records(connection, keys))

    with _cache(root) as cache:
        if complete and limit is None:
            cache.prune({*digests.values(), *index.digests_of_others(root)})
        return _embed(cache, embedder, read, digests, limit, progress)


def embed_held(
    root: Path, embedder: Embedder, connection: sqlite3.Connection, limit: int | None = None
) -> Embedded:
    """Embed the records of an index that the caller has open, such as one in memory."""

    def read(keys: Sequence[int]) -> Mapping[int, Record]:
        return queries.records(connection, keys)

    with _cache(root) as cache:
        return _embed(cache, embedder, read, queries.digests(connection), limit)


def _embed(
    cache: VectorCache,
    embedder: Embedder,
    read: Callable[[Sequence[int]], Mapping[int, Record]],
    digests: Mapping[int, str],
    limit: int | None = None,
    progress: Progress | None = None,
) -> Embedded:
    waiting = _keys_without_vectors(cache, embedder, digests)
    planned = waiting[:limit]
    done = 0
    problem = None
    try:
        while done < len(planned):
            keys = planned[done : done + _CHUNKS_PER_WRITE]
            chunks_by_digest = _next_chunks(keys, read(keys), digests)
            chunks: list[str] = []
            for record_chunks in chunks_by_digest.values():
                chunks += record_chunks
            quantized = iter(vectors.quantize(embedder.embed(chunks)))
            rows = {}
            for digest, record_chunks in chunks_by_digest.items():
                rows[digest] = b"".join(islice(quantized, len(record_chunks)))
            cache.put(embedder.name, rows)
            done += len(rows)
            if progress is not None:
                progress(done, len(planned))
    except ProviderFailed as error:
        problem = error
    return Embedded(done, len(waiting) - done, embedder.name, problem)


def _keys_without_vectors(
    cache: VectorCache, embedder: Embedder, digests: Mapping[int, str]
) -> list[int]:
    """Return one key for each distinct text that has no vectors from this embedder.

    Memories come first. Within each family, the newest records come first.
    """

    def order(key: int) -> tuple[int, int]:
        return _FAMILY_ORDER.index(family_of(key)), -key

    key_by_digest: dict[str, int] = {}
    for key in sorted(digests, key=order):
        key_by_digest.setdefault(digests[key], key)
    row_size = 1
    if embedder.dimensions:
        row_size = vectors.row_bytes(embedder.dimensions)
    names = list(key_by_digest)
    waiting = []
    for start in range(0, len(names), _DIGESTS_PER_READ):
        some = names[start : start + _DIGESTS_PER_READ]
        stored = cache.get(embedder.name, some)
        for digest in some:
            has_vectors = digest in stored and len(stored[digest]) % row_size == 0
            if not has_vectors:
                waiting.append(key_by_digest[digest])
    return waiting


def _next_chunks(
    keys: Sequence[int], records: Mapping[int, Record], digests: Mapping[int, str]
) -> dict[str, tuple[str, ...]]:
    """Split records into chunks until there are enough for one write.

    Return the chunks by digest.
    """
    chunks_by_digest: dict[str, tuple[str, ...]] = {}
    count = 0
    for key in keys:
        if count >= _CHUNKS_PER_WRITE:
            break
        chunks: tuple[str, ...] = ()  # for a record that is gone or has no words
        record = records.get(key)
        if record is not None:
            chunks = vectors.split_chunks(f"{record.title}\n{record.text}")[:_MAX_CHUNKS]
        chunks_by_digest[digests[key]] = chunks
        count += len(chunks)
    return chunks_by_digest


@contextmanager
def _cache(root: Path) -> Iterator[VectorCache]:
    file = paths.vectors_file(root)
    try:
        with VectorCache(file) as cache:
            yield cache
    except (db.Busy, db.Damaged, sqlite3.Error, OSError) as error:
        raise WriteFailed(
            f"{paths.shown(file, root)}: cannot be written: {error}",
            hint="delete the file; it is created again",
        ) from error


# --- searching ----------------------------------------------------------------------------------


def meaning_for(
    root: Path,
    settings: Embedding,
    connection: sqlite3.Connection,
    query: Query = _NO_FILTER,
    warn: Warn | None = None,
) -> candidates.Meaning | None:
    """Return a function that compares records with a question by meaning.

    Return None if no provider is set, or if it is a server and nothing has been embedded yet. When
    words find no answer, the local model first embeds some of the records without a vector.
    """
    has_vectors = paths.vectors_file(root).exists()
    can_embed = _is_local(settings) and lookup.size(connection)
    if not has_vectors and not can_embed:
        return None
    try:
        embedder = embedder_of(settings)
    except RalphError as error:
        _warn(warn, error)
        return None
    if embedder is None:
        return None
    by_meaning = nearness(root, embedder, connection, query, warn)
    if not isinstance(embedder, local_embedder.LocalEmbedder):
        return by_meaning

    def near(text: str, keys: Sequence[int]) -> Mapping[int, float]:
        if local_embedder.is_latin(text):
            with suppress(WriteFailed):  # then only records with a vector are compared
                embed_held(root, embedder, connection, limit=_MAX_RECORDS_PER_SEARCH)
        return by_meaning(text, keys)

    if embedder.is_loaded:
        return near
    return candidates.SlowMeaning(near)


def nearness(
    root: Path,
    embedder: Embedder,
    connection: sqlite3.Connection,
    query: Query = _NO_FILTER,
    warn: Warn | None = None,
) -> candidates.Meaning:
    """Return a function that computes how similar records are to a question.

    If anything fails, the function gives one warning and returns no similarities.
    """

    def near(text: str, keys: Sequence[int]) -> Mapping[int, float]:
        digests = queries.digests(connection)
        try:
            with VectorCache(paths.vectors_file(root)) as cache:
                stored = cache.all(embedder.name)
            cosines: Mapping[str, float] = {}
            if stored:
                cosines = vectors.cosines(stored, embedder.embed([text]))
        except (RalphError, OSError, sqlite3.Error) as error:
            _warn(warn, error)
            return {}
        keep = query_filters.filter_of(query)
        similar = _most_similar(connection, digests, cosines, keep)
        for key in lookup.filter_keys(connection, keys, keep):
            digest = digests.get(key, "")
            if digest in cosines:
                similar[key] = cosines[digest]
        result = candidates.Similarities(similar)
        result.outstanding_similarity = _outstanding_similarity(embedder, list(cosines.values()))
        return result

    return near


def _outstanding_similarity(embedder: Embedder, cosines: Sequence[float]) -> float:
    """Return the cosine from which a record stands out, for this embedder."""
    level = candidates.outstanding_similarity(cosines)
    if isinstance(embedder, local_embedder.LocalEmbedder):
        level = min(level, embedder.near_similarity)
    return level


def _most_similar(
    connection: sqlite3.Connection,
    digests: Mapping[int, str],
    cosines: Mapping[str, float],
    keep: record_filters.Filter,
) -> dict[int, float]:
    """Return the cosines of the most similar records that pass a filter, by key."""
    ranked = []
    for key, digest in digests.items():
        cosine = cosines.get(digest, 0)
        if cosine > 0:
            ranked.append((cosine, key))
    ranked.sort(reverse=True)
    similar: dict[int, float] = {}
    for start in range(0, len(ranked), _KEYS_PER_FILTER):
        some = ranked[start : start + _KEYS_PER_FILTER]
        allowed = lookup.filter_keys(connection, [key for _, key in some], keep)
        for cosine, key in some:
            if key in allowed:
                similar[key] = cosine
            if len(similar) == NEAREST:
                return similar
    return similar


def _warn(warn: Warn | None, error: Exception) -> None:
    if warn is None:
        return
    reason = str(error)
    if isinstance(error, RalphError):
        reason = error.message
        if error.hint:
            reason = f"{error.message} ({error.hint})"
    warn(f"searched by words alone: {reason}")
