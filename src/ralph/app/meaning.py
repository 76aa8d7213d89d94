"""Meaning in the product: which embedder counts, what gets a vector, and how near records are to a question.

Vectors are made by `embed` alone (`ralph index sync --embed`, and a few with `ralph index sync`), memories first
and the newest first, and kept by model and content: a lost index or a record that moved costs nothing, and
another model begins anew. A record's vectors are those of its chunks, one after the other; it is as near as
its best one. A search never waits for vectors: what has none is found by its words, and when the
embedder fails the search goes on without it, with one warning. Nothing here reads the config, and nothing
is asked of a server that the caller's settings do not name. `tests/app/test_meaning.py` proves it with a
fake embedder, with a server on this machine, and with the real model.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ralph import paths
from ralph.app import index
from ralph.app.worktrees import indexes
from ralph.errors import NotFound, RalphError, Refused, UsageError, WriteFailed
from ralph.model.query import Query
from ralph.model.record import Family, Record
from ralph.search import embeddings, engine, vectors
from ralph.search.embeddings import Embedder, ProviderFailed
from ralph.search.vectors import PackedVectors
from ralph.store import db, files, lookup, queries
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
_LOOKED_AT = 500
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
        held = queries.digests(connection)
        try:
            best = _cosines(root, embedder, text, held)
        except (RalphError, OSError, sqlite3.Error) as error:
            _told(warn, error)
            return {}
        return _offered(connection, query, held, best, keys)

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
    """Give vectors to records that have none, batch by batch; what was made is kept whatever happens next."""
    complete = index.sync(root).complete
    held = index.ask(root, queries.digests)
    everything = complete and limit is None
    others = frozenset(indexes.digests(root))
    with _cache(root) as cache:
        if everything:
            cache.prune({*held.values(), *others})
        made = _Made(root, cache, embedder, lambda keys: index.ask(root, partial(_records, keys)), others)
        return made.embed(held, limit, progress, tidy=everything)


def embed_held(root: Path, embedder: Embedder, connection: sqlite3.Connection) -> Embedded:
    """Give vectors to the records of an index that the caller holds, such as one in memory."""
    with _cache(root) as cache:
        made = _Made(root, cache, embedder, lambda keys: queries.records(connection, keys))
        return made.embed(queries.digests(connection))


@dataclass(frozen=True, slots=True)
class _Made:
    """Where vectors go, who makes them, where the records come from, and what other checkouts hold."""

    root: Path
    cache: VectorCache
    embedder: Embedder
    read: Callable[[Sequence[int]], Mapping[int, Record]]
    others: frozenset[str] = frozenset()

    def embed(
        self, held: Mapping[int, str], limit: int | None = None, progress: Progress | None = None, *, tidy: bool = False
    ) -> Embedded:
        """Make what is missing; with `tidy`, forget what is no longer held."""
        waiting = _waiting(self.cache, self.embedder, held)
        planned = waiting[:limit]
        done = 0
        problem = None
        try:
            for records in _batches(self.read, planned):
                self.cache.put(self.embedder.name, _packed(self.embedder, records))
                done += len(records)
                if progress is not None:
                    progress(done, len(planned))
        except ProviderFailed as error:
            problem = error
        with suppress(Refused, WriteFailed):  # a search without it is slower, no more
            theirs = self.cache.get(self.embedder.name, self.others - {*held.values()})
            self._pack({*held.values(), *theirs} - {held[key] for key in waiting[done:]}, tidy)
        return Embedded(done, len(waiting) - done, self.embedder.name, problem)

    def _pack(self, digests: set[str], tidy: bool) -> None:
        """Leave all vectors in one piece: a large one that is seldom made anew, and what came since in a small one."""
        if not self.embedder.dimensions:
            return
        large, small = _pieces(self.root)
        known = set(self._in(large))
        fresh = sorted(digests - known)
        if len(fresh) > len(known) // 10 or (tidy and known - digests):
            self._write(large, sorted(digests))
            files.delete(small)
        elif fresh != sorted(self._in(small)):
            self._write(small, fresh)

    def _in(self, piece: Path) -> tuple[str, ...]:
        found = _piece(piece, self.embedder.name)
        return found.digests if found is not None and found.dimensions == self.embedder.dimensions else ()

    def _write(self, piece: Path, digests: Sequence[str]) -> None:
        stored = self.cache.get(self.embedder.name, digests)
        raw = vectors.encode_vectors(vectors.pack_vectors(self.embedder.name, self.embedder.dimensions, stored))
        files.write(piece, raw.decode("utf-8", "surrogateescape"), mode=files.PRIVATE)  # the very bytes, both ways


def chunks_of(record: Record) -> tuple[str, ...]:
    """The pieces of a record that get a vector each: of the very words that its digest is made of."""
    return vectors.split_chunks(f"{record.title}\n{record.text}")[:_CHUNKS]


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


def _pieces(root: Path) -> tuple[Path, Path]:
    """Where vectors are in one piece: the most of them, and those that came since."""
    return paths.cache_folder(root) / "vectors.packed", paths.cache_folder(root) / "vectors.recent"


def _piece(path: Path, model: str) -> PackedVectors | None:
    """What a file holds of a model's vectors, if that can be read."""
    try:
        found = vectors.decode_vectors(path.read_bytes())
    except OSError:
        return None
    return found if found is not None and found.model == model else None


def _cosines(root: Path, embedder: Embedder, text: str, held: Mapping[int, str]) -> dict[str, float]:
    """How near each content is to a text; a question that the model cannot read is near to nothing.

    The embedder is asked only when there is something to compare with. What is not in one piece (nobody has
    embedded since, or the file is damaged) is read from the cache row by row.
    """
    pieces = [piece for path in _pieces(root) if (piece := _piece(path, embedder.name)) is not None]
    stored = {} if pieces else _vectors(root, embedder, held)
    if not pieces and not stored:
        return {}
    question = embedder.embed([text])
    size = int(question.shape[1])
    if any(piece.dimensions != size for piece in pieces):
        pieces, stored = [], _vectors(root, embedder, held)
    found: dict[str, float] = {}
    for piece in pieces or [vectors.pack_vectors(embedder.name, size, stored)]:
        found |= vectors.cosines(piece, question)
    return found


def _vectors(root: Path, embedder: Embedder, held: Mapping[int, str]) -> dict[str, bytes]:
    with VectorCache(_file(root)) as cache:
        return cache.get(embedder.name, held.values()) if cache.count(embedder.name) else {}


def _offered(
    connection: sqlite3.Connection, query: Query, held: Mapping[int, str], best: Mapping[str, float],
    keys: Sequence[int],
) -> dict[int, float]:  # fmt: skip
    """The cosines of these keys, and of the nearest of all that pass the filters, unless that is by chance."""
    keep = queries.filter_of(query)
    close = {digest: value for digest, value in best.items() if value >= FAINT}
    ranked = sorted(((close[digest], key) for key, digest in held.items() if digest in close), reverse=True)
    found: dict[int, float] = {}
    for start in range(0, len(ranked), _LOOKED_AT):
        some = ranked[start : start + _LOOKED_AT]
        passing = lookup.filter_keys(connection, [key for _, key in some], keep)
        found.update((key, value) for value, key in some if key in passing)
        if len(found) >= NEAREST:
            break
    nearest = dict(islice(found.items(), NEAREST))
    candidates = lookup.filter_keys(connection, keys, keep)
    return nearest | {key: best[held[key]] for key in candidates if held.get(key, "") in best}


def _waiting(cache: VectorCache, embedder: Embedder, held: Mapping[int, str]) -> list[int]:
    """The keys of contents without vectors, one a content: memories first, and of each family the newest first."""
    order = sorted(held, key=lambda key: (_ORDER.index(FAMILIES[key % len(FAMILIES)]), -key))
    one_each: dict[str, int] = {}
    for key in order:
        one_each.setdefault(held[key], key)
    wanted = list(one_each.values())
    size = vectors.row_bytes(embedder.dimensions) if embedder.dimensions else 1
    found: list[int] = []
    for start in range(0, len(wanted), _LOOKED_UP):
        some = wanted[start : start + _LOOKED_UP]
        known = cache.get(embedder.name, [held[key] for key in some])
        found += [key for key in some if held[key] not in known or len(known[held[key]]) % size]
    return found


def _batches(read: Callable[[Sequence[int]], Mapping[int, Record]], keys: Sequence[int]) -> Iterator[list[Record]]:
    """Records in batches of about as many chunks as are kept at once."""
    waiting = iter(keys)
    while some := list(islice(waiting, _AT_ONCE)):
        found = read(some)
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
    return queries.records(connection, keys)


def _packed(embedder: Embedder, records: Sequence[Record]) -> dict[str, bytes]:
    """The vectors of records under their digests; a record without words has none, and is not asked for again."""
    texts = [chunks_of(record) for record in records]
    rest = iter(vectors.quantize(embedder.embed([text for each in texts for text in each])))
    return {digest_of(record): b"".join(islice(rest, len(each))) for record, each in zip(records, texts, strict=True)}
