"""Many vectors in one piece: what a search reads instead of a row a content.

Fetching fifty thousand vectors from the cache one by one took a hundred times as long as comparing them.
So whoever embeds also leaves them as one Packed in a file that is read at once: a line that says what it
holds, the digests, how many rows each has, and the rows as the cache keeps them. A vector depends on
nothing but model and content, so a Packed is never out of date, only incomplete; nothing is in it that
cannot be had elsewhere, and one that is torn, or not what it says, counts as none. Numbers that were
damaged within it can make a score wrong, never an error (`tests/search/test_packed.py` tries).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from ralph.search.meaning import Matrix, packed_size

FORMAT = 1
_AT_ONCE = 1024
"""Rows that are compared at once: as numbers of four bytes they still fit into a processor's cache.

`einsum` does it in this thread. The usual product (`@`) is a little faster on an idle machine, but shares
its work with other threads, and on a busy one waited for them thirty times as long as the work takes.
"""


@dataclass(frozen=True, slots=True)
class Packed:
    """The vectors of some contents by one model; a content has a row a chunk, or none at all."""

    model: str
    dimensions: int
    digests: tuple[str, ...]
    counts: bytes
    rows: bytes | memoryview


def pack(model: str, dimensions: int, vectors: Mapping[str, bytes]) -> Packed:
    """Vectors as the cache has them, in one piece; those of another size are left out."""
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    size = packed_size(dimensions)
    sound = {digest: rows for digest, rows in vectors.items() if len(rows) % size == 0}
    counts = np.array([len(rows) // size for rows in sound.values()], dtype="<u4").tobytes()
    return Packed(model, dimensions, tuple(sound), counts, b"".join(sound.values()))


def encode(packed: Packed) -> bytes:
    """The bytes of a file."""
    names = "\n".join(packed.digests).encode("utf-8")
    shape = {"format": FORMAT, "model": packed.model, "dimensions": packed.dimensions, "names": len(names)}
    return b"".join((json.dumps(shape).encode("utf-8"), b"\n", names, packed.counts, packed.rows))


def decode(raw: bytes) -> Packed | None:
    """What a file holds; None when it is not whole, or of another format."""
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    head, _, _ = raw[:1000].partition(b"\n")
    try:
        shape = json.loads(head)
        model, dimensions, length = str(shape["model"]), int(shape["dimensions"]), int(shape["names"])
        begin = len(head) + 1 + length
        names = raw[len(head) + 1 : begin].decode("utf-8")
        sound = shape["format"] == FORMAT and dimensions > 0 and length >= 0 and begin <= len(raw)
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    digests = tuple(names.split("\n")) if names else ()
    counts = raw[begin : begin + 4 * len(digests)]
    rows = memoryview(raw)[begin + len(counts) :]  # no copy of what is nearly the whole file
    if not sound or len(counts) != 4 * len(digests):
        return None
    total = int(np.frombuffer(counts, dtype="<u4").sum(dtype=np.uint64))
    return Packed(model, dimensions, digests, counts, rows) if len(rows) == total * packed_size(dimensions) else None


def cosines(packed: Packed, question: Matrix) -> dict[str, float]:
    """How near each content is by its best row, at most 1; those that have nothing to do with it are left out."""
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    layout = np.dtype([("scale", "<f4"), ("values", "i1", (packed.dimensions,))])
    rows = np.frombuffer(packed.rows, dtype=layout)
    vector = question.reshape(-1)
    near = np.empty(len(rows), dtype=np.float32)
    with np.errstate(all="ignore"):  # a damaged scale may be any number
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            numbers = some["values"].astype(np.float32)
            near[start : start + _AT_ONCE] = np.einsum("ij,j->i", numbers, vector) * some["scale"]
    near = np.nan_to_num(near, copy=False, nan=0.0, posinf=0.0, neginf=0.0).clip(0.0, 1.0)
    counts = np.frombuffer(packed.counts, dtype="<u4").astype(np.int64)
    best = np.zeros(len(counts), dtype=np.float32)
    held = counts > 0
    if held.any():
        best[held] = np.maximum.reduceat(near, (np.cumsum(counts) - counts)[held])
    return {digest: value for digest, value in zip(packed.digests, best.tolist(), strict=True) if value > 0}
