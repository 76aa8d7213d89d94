"""Meaning: texts as unit vectors, and how near they are to each other.

An Embedder turns texts into a Matrix of float32 rows of length one, so that the cosine of two
texts is a dot product. Every row is compared with the query (brute force): ten thousand rows take
a few milliseconds, which no index structure needs to beat. A long text is cut into chunks and
counts as much as its best one. Vectors rest as one signed byte a number with one scale a row: a
quarter of the size, and the first five answers of both measured sets stay the same (ADR 0016).

numpy is an extra and costs a tenth of a second to import: it is imported inside the functions
that compute, never by importing this module.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ralph.store.vectors import VectorCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Matrix: TypeAlias = "NDArray[np.float32]"
"""Rows of unit length, float32."""

BATCH = 64
CHUNK = 800
_BREAKS = ("\n\n", "\n", ". ", "。", " ")
_SCALE_BYTES = 4


class Embedder(Protocol):
    """Something that turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """`provider:model`; vectors of different names are never compared."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; 0 while that is unknown, which is until the first answer."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit row a text, in their order."""


def digest_of(text: str) -> str:
    """The name under which a text's vector is kept."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def unit(rows: object) -> Matrix:
    """Rows brought to length one; a row of zeros stays so and is near to nothing."""
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    matrix = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(matrix / lengths, dtype=np.float32)


def cosines(query: Matrix, matrix: Matrix) -> list[float]:
    """How near each row is to the query (one vector, or a matrix of one row): 1 the same, 0 unrelated."""
    if not matrix.size:
        return []
    near: list[float] = (matrix @ query.reshape(-1)).tolist()
    return near


def nearest(query: Matrix, matrix: Matrix, count: int) -> list[tuple[int, float]]:
    """The `count` rows nearest to the query with their cosines, best first; equal ones in row order."""
    near = cosines(query, matrix)
    rows = sorted(range(len(near)), key=lambda row: (-near[row], row))
    return [(row, near[row]) for row in rows[: max(count, 0)]]


def best(near: Sequence[float], owners: Sequence[int], count: int) -> list[float | None]:
    """The best cosine among each document's chunks; `owners` names each chunk's document, None has no chunk."""
    found: list[float | None] = [None] * count
    for value, owner in zip(near, owners, strict=True):
        known = found[owner]
        if known is None or value > known:
            found[owner] = value
    return found


def chunks(text: str, limit: int = CHUNK) -> tuple[str, ...]:
    """A text in pieces of at most `limit` characters, cut at a paragraph, line, sentence or word if there is one."""
    return tuple(_pieces(text.strip(), max(limit, 1)))


def _pieces(rest: str, limit: int) -> Iterator[str]:
    while len(rest) > limit:
        cut = _cut(rest, limit)
        yield rest[:cut].rstrip()
        rest = rest[cut:].lstrip()
    if rest:
        yield rest


def _cut(text: str, limit: int) -> int:
    """Where to cut: after the coarsest break in the second half of what fits, else in the middle of a word."""
    for mark in _BREAKS:
        at = text.rfind(mark, limit // 2, limit)
        if at > 0:
            return min(at + len(mark), limit)
    return limit


def pack(matrix: Matrix) -> list[bytes]:
    """Each row as bytes: a float32 scale, then one signed byte a number.

    The scale is the one that gives the rounded row the length one, so that unpacking needs no further step.
    """
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    peaks = np.abs(matrix).max(axis=1, keepdims=True, initial=0)
    peaks[peaks == 0] = 1
    values = np.rint(matrix / peaks * 127).astype(np.int8)
    lengths = np.linalg.norm(values.astype(np.float32), axis=1)
    lengths[lengths == 0] = 1
    scales = (1 / lengths).astype("<f4")
    return [scale.tobytes() + row.tobytes() for scale, row in zip(scales, values, strict=True)]


def unpack(packed: Sequence[bytes]) -> Matrix:
    """The matrix of packed rows; they must all be of one length (see `packed_dimensions`)."""
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    if not packed:
        return np.zeros((0, 0), dtype=np.float32)
    layout = np.dtype([("scale", "<f4"), ("values", "i1", (packed_dimensions(packed[0]),))])
    rows = np.frombuffer(b"".join(packed), dtype=layout)
    return np.asarray(rows["values"] * rows["scale"][:, None], dtype=np.float32)


def packed_dimensions(packed: bytes) -> int:
    """How many numbers a packed row has; 0 or less for bytes that are none."""
    return len(packed) - _SCALE_BYTES


def packed_size(dimensions: int) -> int:
    """How many bytes a packed row of so many numbers has."""
    return dimensions + _SCALE_BYTES


def remembered(embedder: Embedder, cache: VectorCache, texts: Sequence[str]) -> Matrix:
    """The vectors of texts: from the cache, else from the embedder and then into the cache, batch by batch.

    What a batch gave is kept even when a later one fails, so that a second try goes on from there.
    """
    digests = [digest_of(text) for text in texts]
    by_digest = dict(zip(digests, texts, strict=True))
    known = cache.get(embedder.name, by_digest)
    size = embedder.dimensions or max(map(packed_dimensions, known.values()), default=0)
    for _ in range(2):  # again when the first answer shows that the kept ones are of another size
        known = {digest: packed for digest, packed in known.items() if packed_dimensions(packed) == size}
        waiting = [digest for digest in by_digest if digest not in known]
        for start in range(0, len(waiting), BATCH):
            some = waiting[start : start + BATCH]
            fresh = dict(zip(some, pack(embedder.embed([by_digest[digest] for digest in some])), strict=True))
            cache.put(embedder.name, fresh)
            known |= fresh
        if not waiting or embedder.dimensions == size:
            break
        size = embedder.dimensions
    return unpack([known[digest] for digest in digests])
