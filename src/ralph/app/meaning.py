"""Meaning in the product: which embedder counts, what gets a vector, and how near records are to a question.

Vectors are made by `embed` alone (`ralph index embed`, and a few with `ralph index sync`), memories first
and the newest first, and kept by model and content: a lost index or a record that moved costs nothing, and
another model begins anew. A record's vectors are those of its chunks, one after the other; it is as near as
its best one. A search never waits for vectors: what has none is found by its words, and when the
embedder fails the search goes on without it, with one warning. Nothing here reads the config, and nothing
is asked of a server that the caller's settings do not name. `tests/app/test_meaning.py` proves it with a
fake embedder, with a server on this machine, and with the real model.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import paths
from ralph.app import index
from ralph.errors import NotFound, RalphError, UsageError, WriteFailed
from ralph.model.query import Query
from ralph.model.record import Family, Record
from ralph.search import embedders, engine, meaning
from ralph.search.embedders import ProviderFailed
from ralph.search.meaning import Embedder
from ralph.store import db, rows
from ralph.store.index import FAMILIES, Progress, digest_of
from ralph.store.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.settings import Embedding

NEAREST = 100
"""How many records are offered by meaning alone, at most."""

FAINT = 0.3
"""A cosine below this is chance: offering such records found no more and showed noise (own-dev)."""

WITH_SYNC = 200
"""How many records `ralph index sync` embeds at most."""

_CHUNKS = 20
"""A record counts by its first so many chunks, about 16,000 characters."""

_AT_ONCE = 32
"""Chunks between two writes to the cache: what a kill may lose."""

_LOOKED_UP = 5_000
_ORDER = (Family.MEMORY, Family.JOURNAL, Family.OBSERVATION)
_NONE = Query(limit=None)

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Embedded:
    """What a call of `embed` did: records done and left, by which model, and what stopped it, if something did."""

    done: int
    left: int
    model: str
    problem: ProviderFailed | None = None


def provider_of(settings: "Embedding") -> str:
    """The provider that counts: `auto` is the local model where it is installed, else none."""
    if settings.provider != "auto":
        return str(settings.provider)
    return "none" if embedders.missing("local") else "local"


def embedder_of(settings: "Embedding") -> Embedder | None:
    """The embedder that the settings name; None for none, NotFound when what it needs is not installed."""
    provider = provider_of(settings)
    made = embedders.embedder_for(provider, settings.model, settings.url, settings.key_env)
    missing = embedders.missing(provider)
    if missing:
        what = f"the embedding provider {provider} needs {', '.join(missing)}, which is not installed"
        raise NotFound(what, hint="pip install 'ralph-memory[local]', or set embedding.provider to none")
    return made


def meaning_for(
    root: Path, settings: "Embedding", connection: sqlite3.Connection, query: Query = _NONE, warn: Warn | None = None
) -> engine.Meaning | None:
    """How near records are to a question; None without a provider, and while nothing is embedded yet."""
    if not _file(root).exists():
        return None
    try:
        embedder = embedder_of(settings)
    except RalphError as error:
        _told(warn, error)
        return None
    return None if embedder is None else nearness(root, embedder, connection, query, warn)


def nearness(
    root: Path, embedder: Embedder, connection: sqlite3.Connection, query: Query = _NONE, warn: Warn | None = None
) -> engine.Meaning:
    """The engine's question about meaning, answered from the cache; whatever fails is one warning and no answer."""

    def near(text: str, keys: Sequence[int]) -> Mapping[int, float]:
        digests = _eligible(connection, query)
        try:
            with VectorCache(_file(root)) as cache:
                packed = cache.get(embedder.name, digests.values()) if cache.count(embedder.name) else {}
            best = _cosines(embedder, text, packed)
        except (RalphError, OSError, sqlite3.Error) as error:
            _told(warn, error)
            return {}
        return _offered({key: best[digest] for key, digest in digests.items() if digest in best}, keys)

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
    if provider_of(settings) != "local" or embedders.missing("local"):
        return None
    return embed(root, settings, limit=WITH_SYNC, progress=progress)


def embed_with(
    root: Path, embedder: Embedder, *, limit: int | None = None, progress: Progress | None = None
) -> Embedded:
    """Give vectors to records that have none, batch by batch; what was made is kept whatever happens next."""
    complete = index.sync(root).complete
    held = index.ask(root, rows.digests)
    with _cache(root) as cache:
        if complete and limit is None:
            cache.prune(set(held.values()))
        waiting = _waiting(cache, embedder, held)
        planned = waiting[:limit]
        done = 0
        try:
            for records in _batches(root, planned):
                cache.put(embedder.name, _packed(embedder, records))
                done += len(records)
                if progress is not None:
                    progress(done, len(planned))
        except ProviderFailed as error:
            return Embedded(done, len(waiting) - done, embedder.name, error)
    return Embedded(done, len(waiting) - done, embedder.name)


def chunks_of(record: Record) -> tuple[str, ...]:
    """The pieces of a record that get a vector each: of the very words that its digest is made of."""
    return meaning.chunks(f"{record.title}\n{record.text}")[:_CHUNKS]


def _file(root: Path) -> Path:
    return paths.cache_folder(root) / "vectors.db"


@contextmanager
def _cache(root: Path) -> Iterator[VectorCache]:
    """The vectors, for writing; whatever is wrong with their file is WriteFailed."""
    try:
        with VectorCache(_file(root)) as cache:
            yield cache
    except (db.Busy, db.Damaged, sqlite3.Error, OSError) as error:
        what = f"{paths.shown(_file(root), root)}: cannot be written: {error}"
        raise WriteFailed(what, hint="delete the file; it is made again") from error


def _told(warn: Warn | None, error: Exception) -> None:
    """One line about why meaning does not take part."""
    what, hint = (error.message, error.hint) if isinstance(error, RalphError) else (str(error), "")
    if warn is not None:
        warn(f"searched by words alone: {what}" + (f" ({hint})" if hint else ""))


def _eligible(connection: sqlite3.Connection, query: Query) -> dict[int, str]:
    """The keys and digests of the records that pass a query's filters."""
    filters = replace(query, text="", limit=None, layer=_NONE.layer)
    return rows.digests(connection, None if filters == _NONE else rows.newest(connection, filters, None))


def _cosines(embedder: Embedder, text: str, packed: Mapping[str, bytes]) -> dict[str, float]:
    """How near each content is to a text by its best chunk; those that have nothing to do with it are left out.

    So are vectors of another size. A question that the model cannot read has a vector of zeros and no answer.
    """
    question = embedder.embed([text]) if packed else None
    if question is None or not question.any():
        return {}
    size = meaning.packed_size(question.shape[1])
    pieces: list[bytes] = []
    owners: list[int] = []
    for owner, vectors in enumerate(packed.values()):
        if len(vectors) % size == 0:
            pieces += [vectors[start : start + size] for start in range(0, len(vectors), size)]
            owners += [owner] * (len(vectors) // size)
    near = meaning.cosines(question, meaning.unpack(pieces))
    best = meaning.best(near, owners, len(packed))
    return {digest: min(value, 1.0) for digest, value in zip(packed, best, strict=True) if value and value > 0}


def _offered(best: Mapping[int, float], keys: Sequence[int]) -> dict[int, float]:
    """The cosines of these keys, and of the nearest of all, unless that is by chance."""
    nearest = nlargest(NEAREST, best, key=lambda key: (best[key], key))
    found = {key: best[key] for key in nearest if best[key] >= FAINT}
    return found | {key: best[key] for key in keys if key in best}


def _waiting(cache: VectorCache, embedder: Embedder, held: Mapping[int, str]) -> list[int]:
    """The keys of contents without vectors, one a content: memories first, and of each family the newest first."""
    order = sorted(held, key=lambda key: (_ORDER.index(FAMILIES[key % len(FAMILIES)]), -key))
    one_each: dict[str, int] = {}
    for key in order:
        one_each.setdefault(held[key], key)
    wanted = list(one_each.values())
    size = meaning.packed_size(embedder.dimensions) if embedder.dimensions else 1
    found: list[int] = []
    for start in range(0, len(wanted), _LOOKED_UP):
        some = wanted[start : start + _LOOKED_UP]
        known = cache.get(embedder.name, [held[key] for key in some])
        found += [key for key in some if held[key] not in known or len(known[held[key]]) % size]
    return found


def _batches(root: Path, keys: Sequence[int]) -> Iterator[list[Record]]:
    """Records in batches of about as many chunks as are kept at once."""
    waiting = iter(keys)
    while some := list(islice(waiting, _AT_ONCE)):
        found = index.ask(root, partial(_records, some))
        batch: list[Record] = []
        count = 0
        for record in (found[key] for key in some if key in found):
            batch.append(record)
            count += len(chunks_of(record))
            if count >= _AT_ONCE:
                yield batch
                batch, count = [], 0
        if batch:
            yield batch


def _records(keys: Sequence[int], connection: sqlite3.Connection) -> dict[int, Record]:
    return rows.records(connection, keys)


def _packed(embedder: Embedder, records: Sequence[Record]) -> dict[str, bytes]:
    """The vectors of records under their digests; a record without words has none, and is not asked for again."""
    texts = [chunks_of(record) for record in records]
    rest = iter(meaning.pack(embedder.embed([text for each in texts for text in each])))
    return {digest_of(record): b"".join(islice(rest, len(each))) for record, each in zip(records, texts, strict=True)}
