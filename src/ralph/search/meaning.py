"""Search by meaning, using the configured embedder and the cached vectors of records.

A search that words can answer does not wait for vectors, and no search spends more than a moment on
new ones: `ralph index sync` embeds the rest, and so do runs at their end and idle servers
(`idle_embedding.py`). A search in the pages embeds nothing, because there is one for every letter.
If the embedder fails, the search continues by words alone, with one warning. The only server ever
contacted is the one named in the settings.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ralph.core import paths
from ralph.core.errors import NotFound, RalphError, UsageError, WriteFailed
from ralph.core.extras import add_command
from ralph.core.record import Family, Query, Record
from ralph.search import candidates, embedding_providers, index, local_embedder, vectors
from ralph.search.embeddings import Embedder, ProviderFailed
from ralph.search.local_embedder import LocalEmbedder, is_latin
from ralph.storage import db, files, lookup, queries, query_filters, record_filters, totals
from ralph.storage.index import Progress
from ralph.storage.index_schema import family_of
from ralph.storage.record_rows import digest_of
from ralph.storage.vectors import VectorCache

if TYPE_CHECKING:
    from ralph.core.settings import Embedding

NEAREST = 30  # maximum number of records offered by meaning alone
MAX_RECORDS_PER_SYNC = 200  # embedded by `ralph index sync` outside a terminal, and by a run
_MAX_CHUNKS = 20  # per record, about 16,000 characters
SEARCH_SECONDS = 0.18
"""The seconds that a search may spend on new vectors. It may not exceed 0.2.

The rest is for a text that takes longer than estimated, which happens on a busy machine.
"""
_MAX_RECORDS_PER_SEARCH = 60  # read for new vectors during a search; few chunks take below 3 ms
_FIXED_COST = 100  # characters that take as long as the part that does not depend on the length
_CHUNKS_PER_WRITE = 32  # between two writes to the cache, so a kill loses at most these
_MAX_COMPARED_RECORDS = 20_000  # whose texts are compared one by one, in about 20 ms
_DIGESTS_PER_READ = 5_000  # from the cache
_KEYS_PER_FILTER = 500
_FAMILY_ORDER = (Family.MEMORY, Family.JOURNAL, Family.OBSERVATION)
"""The order in which families get their vectors."""
_NO_FILTER = Query(limit=None)

Warn = Callable[[str], None]
Clock = Callable[[], float]


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
    provider = embedding_providers.provider_of(settings)
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
    root: Path,
    settings: Embedding,
    progress: Progress | None = None,
    *,
    limit: int | None = MAX_RECORDS_PER_SYNC,
    seconds: float = math.inf,
    clock: Clock = time.monotonic,
) -> Embedded | None:
    """Embed records after other work, such as `ralph index sync` or a run.

    At most `limit` records are embedded, and no new batch is started after `seconds`. Return None
    unless the local model is used.
    """
    if not _is_local(settings):
        return None
    deadline = clock() + seconds

    def has_time() -> bool:
        return clock() < deadline

    embedder = local_embedder.shared_local_embedder()
    return embed_with(root, embedder, limit=limit, progress=progress, may_continue=has_time)


def embed_while(
    root: Path, settings: Embedding, may_continue: Callable[[], bool]
) -> Embedded | None:
    """Embed records with the local model, one text at a time, as long as that is allowed.

    Return None if another model is used, or as `embed_while_with` does.
    """
    if not _is_local(settings):
        return None
    return embed_while_with(root, local_embedder.shared_local_embedder(), may_continue)


def embed_while_with(
    root: Path, embedder: Embedder, may_continue: Callable[[], bool]
) -> Embedded | None:
    """Embed records one text at a time, as long as `may_continue` returns true.

    The index is used as it is and not updated. Return None if there is no index, or if another
    process is doing the same.
    """
    digests = index.peek(root, queries.digests)
    if not digests:
        return None
    with _sole_idle_process(root) as is_sole:
        if not is_sole:
            return None
        with _cache(root) as cache:
            waiting = _keys_without_vectors(cache, embedder, digests)
            done = _embed_singly(root, cache, embedder, digests, waiting, may_continue)
    return Embedded(done, len(waiting) - done, embedder.name)


@contextmanager
def _sole_idle_process(root: Path) -> Iterator[bool]:
    """Return whether this is the only process that embeds records of a project while idle."""
    lock = paths.vectors_file(root).with_suffix(".idle-lock")
    files.make_folder(lock.parent, files.PRIVATE_FOLDER)
    handle = files.lock_file(lock)
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def _embed_singly(
    root: Path,
    cache: VectorCache,
    embedder: Embedder,
    digests: Mapping[int, str],
    keys: Sequence[int],
    may_continue: Callable[[], bool],
) -> int:
    """Embed records until `may_continue` returns false, and return how many were embedded."""
    done = 0
    for start in range(0, len(keys), _CHUNKS_PER_WRITE):
        some = keys[start : start + _CHUNKS_PER_WRITE]
        records = index.peek(root, partial(queries.records, keys=some)) or {}
        for key in some:
            record = records.get(key)
            if record is None or not _is_same(record, digests[key]):
                continue
            rows: list[bytes] = []
            for chunk in _chunks_of(record):
                if not may_continue():
                    return done
                rows += vectors.quantize(embedder.embed([chunk]))
            cache.put(embedder.name, {digests[key]: b"".join(rows)})
            done += 1
    return done


def _is_local(settings: Embedding) -> bool:
    return embedding_providers.provider_of(
        settings
    ) == "local" and not embedding_providers.missing_modules("local")


def count_missing(root: Path, settings: Embedding) -> int:
    """Count the distinct indexed texts that have no vector. Nothing is written.

    The count is 0 if no provider is set, or if it cannot be used. In a large index, records are
    counted instead of distinct texts, because comparing texts reads every row.
    """
    try:
        embedder = embedder_of(settings)
    except RalphError:
        return 0
    if embedder is None:
        return 0
    file = paths.vectors_file(root)
    embedded = set[str]()
    if file.exists():
        with suppress(RalphError, sqlite3.Error, OSError), VectorCache(file) as cache:
            embedded = cache.digests(embedder.name)
    stored = sum((index.peek(root, totals.count_records) or {}).values())
    if stored > _MAX_COMPARED_RECORDS:
        return max(0, stored - len(embedded))
    return len(index.indexed_digests(root) - embedded)


def embed_with(
    root: Path,
    embedder: Embedder,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
    may_continue: Callable[[], bool] = lambda: True,
) -> Embedded:
    """Embed the records that have no vector yet, in batches. Each finished batch is kept.

    `may_continue` is called before each batch.
    """
    complete = index.sync(root).complete
    digests = index.ask(root, queries.digests)

    def read(keys: Sequence[int]) -> Mapping[int, Record]:
        return index.ask(root, lambda connection: queries.records(connection, keys))

    with _cache(root) as cache:
        if complete and limit is None:
            cache.prune({*digests.values(), *index.digests_of_others(root)})
        return _embed(cache, embedder, read, digests, limit, progress, may_continue)


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
    may_continue: Callable[[], bool] = lambda: True,
) -> Embedded:
    waiting = _keys_without_vectors(cache, embedder, digests)
    planned = waiting[:limit]
    done = 0
    problem = None
    try:
        while done < len(planned) and may_continue():
            keys = planned[done : done + _CHUNKS_PER_WRITE]
            chunks_by_digest, used_keys = _next_chunks(keys, read(keys), digests)
            chunks: list[str] = []
            for record_chunks in chunks_by_digest.values():
                chunks += record_chunks
            quantized = iter(vectors.quantize(embedder.embed(chunks)))
            rows = {}
            for digest, record_chunks in chunks_by_digest.items():
                rows[digest] = b"".join(islice(quantized, len(record_chunks)))
            cache.put(embedder.name, rows)
            done += used_keys
            if progress is not None:
                progress(done, len(planned))
    except ProviderFailed as error:
        problem = error
    return Embedded(done, len(waiting) - done, embedder.name, problem)


def _keys_without_vectors(
    cache: VectorCache, embedder: Embedder, digests: Mapping[int, str]
) -> list[int]:
    """Return one key for each distinct text that has no vectors from this embedder, best first."""
    key_by_digest = _key_by_digest(digests)
    names = list(key_by_digest)
    waiting = []
    for start in range(0, len(names), _DIGESTS_PER_READ):
        some = names[start : start + _DIGESTS_PER_READ]
        stored = cache.get(embedder.name, some)
        for digest in some:
            if not _is_complete(stored.get(digest), embedder):
                waiting.append(key_by_digest[digest])
    return waiting


def _key_by_digest(digests: Mapping[int, str]) -> dict[str, int]:
    """Return one key for each distinct text, in the order in which texts get their vectors.

    Memories come first. Within each family, the newest records come first.
    """

    def order(key: int) -> tuple[int, int]:
        return _FAMILY_ORDER.index(family_of(key)), -key

    key_by_digest: dict[str, int] = {}
    for key in sorted(digests, key=order):
        key_by_digest.setdefault(digests[key], key)
    return key_by_digest


def _is_complete(rows: bytes | None, embedder: Embedder) -> bool:
    """Return whether the cached rows of a text are vectors of this embedder."""
    if rows is None:
        return False
    if not embedder.dimensions:
        return True
    return len(rows) % vectors.row_bytes(embedder.dimensions) == 0


def _next_chunks(
    keys: Sequence[int], records: Mapping[int, Record], digests: Mapping[int, str]
) -> tuple[dict[str, tuple[str, ...]], int]:
    """Split records into chunks until there are enough for one write.

    Return the chunks by digest, and how many of the keys they are for.
    """
    chunks_by_digest: dict[str, tuple[str, ...]] = {}
    count = 0
    used_keys = 0
    for key in keys:
        if count >= _CHUNKS_PER_WRITE:
            break
        used_keys += 1
        record = records.get(key)
        if record is not None and _is_same(record, digests[key]):
            chunks = _chunks_of(record)
            chunks_by_digest[digests[key]] = chunks
            count += len(chunks)
    return chunks_by_digest, used_keys


def _is_same(record: Record, digest: str) -> bool:
    """Return whether a record still has the text whose digest was read before it.

    If the index was updated or rebuilt in between, its key may be that of another record.
    """
    return digest_of(record) == digest


def _chunks_of(record: Record) -> tuple[str, ...]:
    return vectors.split_chunks(f"{record.title}\n{record.text}")[:_MAX_CHUNKS]


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
    *,
    seconds: float = SEARCH_SECONDS,
) -> candidates.Meaning | None:
    """Return a function that compares records with a question by meaning.

    Return None if no provider is set, or if nothing has been embedded yet and nothing is embedded
    now. The local model first embeds the newest records without a vector that the query asks for,
    but only for `seconds`.
    """
    has_vectors = paths.vectors_file(root).exists()
    can_embed = seconds > 0 and _is_local(settings) and lookup.size(connection)
    if not has_vectors and not can_embed:
        return None
    try:
        embedder = embedder_of(settings)
    except RalphError as error:
        _warn(warn, error)
        return None
    if embedder is None:
        return None
    if not isinstance(embedder, LocalEmbedder):
        return nearness(root, embedder, connection, query, warn)
    by_meaning = nearness(root, embedder, connection, query, warn, seconds=seconds)
    if embedder.is_loaded:
        return by_meaning
    return candidates.SlowMeaning(by_meaning)


def nearness(
    root: Path,
    embedder: Embedder,
    connection: sqlite3.Connection,
    query: Query = _NO_FILTER,
    warn: Warn | None = None,
    *,
    seconds: float = 0.0,
    clock: Clock = time.monotonic,
) -> candidates.Meaning:
    """Return a function that computes how similar records are to a question.

    It spends up to `seconds` on vectors for new records, and warns if records without a vector
    remain, unless an earlier search has said so. If anything fails, the function gives one warning
    and returns no similarities.
    """
    keep = query_filters.filter_of(query)

    def near(text: str, keys: Sequence[int]) -> Mapping[int, float]:
        digests = queries.digests(connection)
        cosines: Mapping[str, float] = {}
        try:
            with VectorCache(paths.vectors_file(root)) as cache:
                stored = cache.all(embedder.name)
                if not stored and not seconds:
                    return {}
                if isinstance(embedder, LocalEmbedder) and is_latin(text):
                    embedder.load()  # otherwise the first vector would seem to take this long
                asked_at = clock()
                vector = embedder.embed([text])
                if seconds and vector.any():
                    now = clock()
                    pace = _Pace(embedder, now + seconds, clock)
                    pace.note(len(text), now - asked_at)
                    new = _NewVectors(pace, connection, digests, keep)
                    stored |= new.embed_missing(cache, stored)
                    if new.has_news:
                        _warn_of_missing(warn, new.left)
            cosines = vectors.cosines(stored, vector)
        except (RalphError, OSError, sqlite3.Error) as error:
            _warn(warn, error)
            return {}
        similar = _most_similar(connection, digests, cosines, keep)
        for key in lookup.filter_keys(connection, keys, keep):
            digest = digests.get(key, "")
            if digest in cosines:
                similar[key] = cosines[digest]
        result = candidates.Similarities(similar)
        result.outstanding_similarity = _outstanding_similarity(embedder, list(cosines.values()))
        return result

    return near


class _WantedKeys(NamedTuple):
    """The keys of records that a query asks for, and how many more were not compared with it."""

    keys: Sequence[int]
    unread: int


class _Pace:
    """Embeds texts until a deadline, and none that would probably end after it.

    The time for a text is estimated from the longest one so far, and grows with the length.
    """

    def __init__(self, embedder: Embedder, deadline: float, clock: Clock) -> None:
        self.embedder = embedder
        self._deadline = deadline
        self._clock = clock
        self._characters = 0  # of the text from which times are estimated
        self._seconds = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self._clock() >= self._deadline

    def note(self, characters: int, seconds: float) -> None:
        """Take into account how long a text took."""
        is_longest = characters >= self._characters
        if is_longest or seconds > self._estimate(characters):
            self._characters = characters
            self._seconds = seconds

    def _estimate(self, characters: int) -> float:
        measured_size = self._characters + _FIXED_COST
        return self._seconds * (characters + _FIXED_COST) / measured_size

    def embed(self, chunks: Sequence[str]) -> bytes | None:
        """Return the quantized rows of a text, or None if there is not enough time for it."""
        needed = sum(self._estimate(len(chunk)) for chunk in chunks)
        if self._clock() + needed >= self._deadline:
            return None
        rows = []
        for chunk in chunks:
            began = self._clock()
            if began + self._estimate(len(chunk)) >= self._deadline:
                return None
            vector = self.embedder.embed([chunk])
            rows += vectors.quantize(vector)
            if vector.any():  # text in a script that the model cannot read takes no time
                self.note(len(chunk), self._clock() - began)
        return b"".join(rows)


class _NewVectors:
    """Embeds the newest records that a query asks for, as far as there is time."""

    def __init__(
        self,
        pace: _Pace,
        connection: sqlite3.Connection,
        digests: Mapping[int, str],
        keep: record_filters.Filter,
    ) -> None:
        self.left = 0  # records that the query asks for and that have no vector afterwards
        self.has_news = False  # whether `left` has changed
        self._pace = pace
        self._embedder = pace.embedder
        self._connection = connection
        self._digests = digests
        self._keep = keep

    def embed_missing(self, cache: VectorCache, stored: Mapping[str, bytes]) -> dict[str, bytes]:
        """Embed records whose vectors are not in `stored`. Return their rows by digest."""
        waiting = []
        for digest, key in _key_by_digest(self._digests).items():
            if not _is_complete(stored.get(digest), self._embedder):
                waiting.append(key)
        wanted = self._first_wanted(waiting)
        rows = self._embed(wanted.keys[:_MAX_RECORDS_PER_SEARCH])
        self.left = len(wanted.keys) + wanted.unread - len(rows)
        # Otherwise nothing has changed since an earlier search said how many are left.
        self.has_news = bool(rows) or not stored
        with suppress(db.Busy, sqlite3.Error, OSError):  # then the next search embeds them again
            cache.put(self._embedder.name, rows)
        return rows

    def _first_wanted(self, waiting: Sequence[int]) -> _WantedKeys:
        """Return the first keys that pass the filter, as many as there can be time for."""
        wanted: list[int] = []
        read = 0
        while read < len(waiting):
            some = waiting[read : read + _KEYS_PER_FILTER]
            allowed = lookup.filter_keys(self._connection, some, self._keep)
            wanted += [key for key in some if key in allowed]
            read += len(some)
            if len(wanted) >= _MAX_RECORDS_PER_SEARCH or self._pace.is_over:
                break
        return _WantedKeys(wanted, len(waiting) - read)

    def _embed(self, keys: Sequence[int]) -> dict[str, bytes]:
        rows: dict[str, bytes] = {}
        for key, record in queries.records(self._connection, keys).items():
            if self._pace.is_over:
                break
            embedded = self._pace.embed(_chunks_of(record))
            if embedded is not None:  # otherwise a shorter record may still fit
                rows[self._digests[key]] = embedded
        return rows


def _warn_of_missing(warn: Warn | None, count: int) -> None:
    if warn is not None and count:
        warn(
            f"{count} record(s) were searched by words alone, because they have no vector yet; "
            "`ralph index sync --embed` embeds them"
        )


def _outstanding_similarity(embedder: Embedder, cosines: Sequence[float]) -> float:
    """Return the cosine from which a record stands out, for this embedder."""
    level = candidates.outstanding_similarity(cosines)
    if isinstance(embedder, LocalEmbedder):
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
