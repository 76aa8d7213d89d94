"""Search by meaning: which embedder is configured, which records get vectors, and how near they are to a question.

A search whose words answer waits for no vectors. When the embedder fails, a search goes on by words, with one warning.
No server is asked that the settings do not name.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import paths
from ralph.app import index
from ralph.app.extras import add_command
from ralph.errors import NotFound, RalphError, UsageError, WriteFailed
from ralph.model.record import Family, Query, Record
from ralph.search import embeddings, rank
from ralph.search.embeddings import Embedder, ProviderFailed
from ralph.store import db, lookup, queries
from ralph.store.index import FAMILIES, Progress
from ralph.store.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.settings import Embedding

NEAREST = 30  # records that are offered by meaning alone, at most
# records that `ralph index sync`, and a search, embed at most
_WITH_SYNC = 200
_WITH_SEARCH = 40
_CHUNKS = 20  # of a record, about 16,000 characters
_BATCH = 32  # chunks between two writes to the cache: what a kill may lose
_CACHE_BATCH = 5_000
_FILTER_BATCH = 500
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


def embedder_of(settings: Embedding) -> Embedder | None:
    """Return the embedder that the settings name; None for none, NotFound when what it needs is not installed."""
    provider = _provider_of(settings)
    embedder = embeddings.embedder_for(provider, settings.model, settings.url, settings.key_env)
    if missing := embeddings.missing(provider):
        what = (
            f"the embedding provider {provider} needs {', '.join(missing)}, which is not installed"
        )
        raise NotFound(what, hint=f"{add_command('local')}   (or set embedding.provider to none)")
    return embedder


def _provider_of(settings: Embedding) -> str:
    if settings.provider != "auto":
        return str(settings.provider)
    return "none" if embeddings.missing("local") else "local"


def embed(
    root: Path, settings: Embedding, *, limit: int | None = None, progress: Progress | None = None
) -> Embedded:
    """Give vectors to records that have none; UsageError when no provider is set."""
    embedder = embedder_of(settings)
    if embedder is None:
        auto = settings.provider == "auto"
        hint = f"{add_command('local')}   (or name a server)" if auto else "set embedding.provider"
        raise UsageError("no embedding provider is set, so search goes by words alone", hint=hint)
    return embed_with(root, embedder, limit=limit, progress=progress)


def embed_some(
    root: Path, settings: Embedding, progress: Progress | None = None
) -> Embedded | None:
    """Embed a few records by the local model alone: what `ralph index sync` may do unasked."""
    return (
        embed(root, settings, limit=_WITH_SYNC, progress=progress) if _is_local(settings) else None
    )


def _is_local(settings: Embedding) -> bool:
    return _provider_of(settings) == "local" and not embeddings.missing("local")


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
        return _embed(cache, embedder, read, digests, limit, progress)


def embed_held(
    root: Path, embedder: Embedder, connection: sqlite3.Connection, limit: int | None = None
) -> Embedded:
    """Give vectors to the records of an index that the caller holds, such as one in memory."""
    with _cache(root) as cache:
        digests = queries.digests(connection)
        return _embed(
            cache, embedder, lambda keys: queries.records(connection, keys), digests, limit
        )


def _embed(
    cache: VectorCache,
    embedder: Embedder,
    read: Callable[[Sequence[int]], Mapping[int, Record]],
    digests: Mapping[int, str],
    limit: int | None = None,
    progress: Progress | None = None,
) -> Embedded:
    first: dict[
        str, int
    ] = {}  # keys, one a content: memories first, and the newest of a family first
    for key in sorted(digests, key=lambda key: (_ORDER.index(FAMILIES[key % len(FAMILIES)]), -key)):
        first.setdefault(digests[key], key)
    size = embeddings.row_bytes(embedder.dimensions) if embedder.dimensions else 1
    names = list(first)
    waiting = []
    for start in range(0, len(names), _CACHE_BATCH):
        some = names[start : start + _CACHE_BATCH]
        stored = cache.get(embedder.name, some)
        waiting += [
            first[digest] for digest in some if digest not in stored or len(stored[digest]) % size
        ]
    planned = waiting[:limit]
    done = 0
    problem = None
    try:
        while done < len(planned):
            records = read(planned[done : done + _BATCH])
            texts: dict[str, tuple[str, ...]] = {}
            for key in planned[done : done + _BATCH]:
                if sum(map(len, texts.values())) >= _BATCH:
                    break
                record = records.get(key)
                chunks = (
                    embeddings.split_chunks(f"{record.title}\n{record.text}")[:_CHUNKS]
                    if record
                    else ()
                )
                texts[digests[key]] = chunks  # () for a record without words
            rows = iter(
                embeddings.quantize(
                    embedder.embed([chunk for chunks in texts.values() for chunk in chunks])
                )
            )
            cache.put(
                embedder.name,
                {digest: b"".join(islice(rows, len(texts[digest]))) for digest in texts},
            )
            done += len(texts)
            if progress is not None:
                progress(done, len(planned))
    except ProviderFailed as error:
        problem = error
    return Embedded(done, len(waiting) - done, embedder.name, problem)


def _file(root: Path) -> Path:
    return paths.cache_folder(root) / "vectors.db"


@contextmanager
def _cache(root: Path) -> Iterator[VectorCache]:
    file = _file(root)
    try:
        with VectorCache(file) as cache:
            yield cache
    except (db.Busy, db.Damaged, sqlite3.Error, OSError) as error:
        hint = "delete the file; it is created again"
        raise WriteFailed(
            f"{paths.shown(file, root)}: cannot be written: {error}", hint=hint
        ) from error


def meaning_for(
    root: Path,
    settings: Embedding,
    connection: sqlite3.Connection,
    query: Query = _NONE,
    warn: Warn | None = None,
) -> rank.Meaning | None:
    """Return how near records are to a question; None without a provider, and while a server has embedded nothing.

    Where words do not answer, the local model first gives vectors to some of the records that have none.
    """
    if not _file(root).exists() and not (_is_local(settings) and lookup.size(connection)):
        return None
    try:
        embedder = embedder_of(settings)
    except RalphError as error:
        _warn(warn, error)
        return None
    if embedder is None:
        return None
    by_meaning = nearness(root, embedder, connection, query, warn)
    if not isinstance(embedder, embeddings.LocalEmbedder):
        return by_meaning

    def near(text: str, keys: Sequence[int]) -> Mapping[int, float]:
        if embeddings.is_latin(text):
            with suppress(WriteFailed):  # then those that have vectors count
                embed_held(root, embedder, connection, limit=_WITH_SEARCH)
        return by_meaning(text, keys)

    return near if embedder.is_loaded else rank.SlowMeaning(near)


def nearness(
    root: Path,
    embedder: Embedder,
    connection: sqlite3.Connection,
    query: Query = _NONE,
    warn: Warn | None = None,
) -> rank.Meaning:
    """Return the function that answers the engine's question; whatever fails is one warning and no answer."""

    def near(text: str, keys: Sequence[int]) -> Mapping[int, float]:
        digests = queries.digests(connection)
        try:
            with VectorCache(_file(root)) as cache:
                stored = cache.all(embedder.name)
            cosines = embeddings.cosines(stored, embedder.embed([text])) if stored else {}
        except (RalphError, OSError, sqlite3.Error) as error:
            _warn(warn, error)
            return {}
        keep = queries.filter_of(query)
        pairs = (
            (cosines[digest], key) for key, digest in digests.items() if cosines.get(digest, 0) > 0
        )
        ranked = sorted(pairs, reverse=True)
        passing: dict[int, float] = {}
        for start in range(0, len(ranked), _FILTER_BATCH):
            some = ranked[start : start + _FILTER_BATCH]
            allowed = lookup.filter_keys(connection, [key for _, key in some], keep)
            passing |= {key: value for value, key in some if key in allowed}
            if len(passing) >= NEAREST:
                break
        candidates = lookup.filter_keys(connection, keys, keep)
        requested = {
            key: cosines[digests[key]] for key in candidates if digests.get(key, "") in cosines
        }
        result = rank.Nearness(dict(islice(passing.items(), NEAREST)) | requested)
        result.level = rank.outstanding_level(list(cosines.values()))
        return result

    return near


def _warn(warn: Warn | None, error: Exception) -> None:
    what, hint = (error.message, error.hint) if isinstance(error, RalphError) else (str(error), "")
    if warn is not None:
        warn(f"searched by words alone: {what}" + (f" ({hint})" if hint else ""))
