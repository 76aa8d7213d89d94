"""Vectors: chunks of texts as unit rows, their stored form, and how near they are to a query.

Rows have the length one, so that a cosine is a dot product. All are compared (brute force): fifty thousand take a few
milliseconds. They are stored as one signed byte a number with one scale a row: a quarter of the size, with the same
first five answers on both measured sets (ADR 0016). numpy is an extra and slow to import: functions import it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Matrix: TypeAlias = "NDArray[np.float32]"
"""Rows of unit length, float32."""

CHUNK = 800
"""Characters of a chunk; a longer text counts as much as its best chunk."""
_BREAKS = ("\n\n", "\n", ". ", "。", " ")
_SCALE_BYTES = 4
PACK_FORMAT = 1
_ROWS_AT_ONCE = 1024
"""Rows that are compared at once: as float32 they still fit into a processor's cache.

`einsum` runs in this thread. The usual product (`@`) is a little faster on an idle machine, but shares its work with
other threads, and on a busy one waited for them thirty times as long as the work takes.
"""


def normalize_rows(rows: object) -> Matrix:
    """Bring rows to length one; a row of zeros stays so and is near to nothing."""
    import numpy as np

    matrix = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(matrix / lengths, dtype=np.float32)


def split_chunks(text: str, limit: int = CHUNK) -> tuple[str, ...]:
    """Cut a text into chunks of at most `limit` characters, at the coarsest break in the second half of each."""
    chunks, rest, limit = [], text.strip(), max(limit, 1)
    while len(rest) > limit:
        ends = (at + len(mark) for mark in _BREAKS if (at := rest.rfind(mark, limit // 2, limit)) > 0)
        cut = min(next(ends, limit), limit)
        chunks.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return (*chunks, rest) if rest else tuple(chunks)


def quantize(matrix: Matrix) -> list[bytes]:
    """Each row as bytes: a float32 scale, then one signed byte a number (ADR 0016).

    The scale gives the rounded row the length one, so that comparing needs no further step.
    """
    import numpy as np

    peaks = np.abs(matrix).max(axis=1, keepdims=True, initial=0)
    peaks[peaks == 0] = 1
    values = np.rint(matrix / peaks * 127).astype(np.int8)
    lengths = np.linalg.norm(values.astype(np.float32), axis=1)
    lengths[lengths == 0] = 1
    scales = (1 / lengths).astype("<f4")
    return [scale.tobytes() + row.tobytes() for scale, row in zip(scales, values, strict=True)]


def row_bytes(dimensions: int) -> int:
    """The bytes of a quantized row."""
    return dimensions + _SCALE_BYTES


@dataclass(frozen=True, slots=True)
class PackedVectors:
    """The vectors of many contents in one file: what a search reads instead of a row a content.

    A content has a row a chunk, or none. A vector depends only on model and content, so the file is never out of
    date, only incomplete; a damaged one counts as none, and damaged numbers make a wrong score, never an error.
    """

    model: str
    dimensions: int
    digests: tuple[str, ...]
    counts: bytes
    rows: bytes | memoryview


def pack_vectors(model: str, dimensions: int, vectors: Mapping[str, bytes]) -> PackedVectors:
    """Join vectors as the cache has them; those of another size are left out."""
    import numpy as np

    size = row_bytes(dimensions)
    sound = {digest: rows for digest, rows in vectors.items() if len(rows) % size == 0}
    counts = np.array([len(rows) // size for rows in sound.values()], dtype="<u4").tobytes()
    return PackedVectors(model, dimensions, tuple(sound), counts, b"".join(sound.values()))


def encode_vectors(packed: PackedVectors) -> bytes:
    """Serialise to the bytes of a file."""
    names = "\n".join(packed.digests).encode("utf-8")
    header = {"format": PACK_FORMAT, "model": packed.model, "dimensions": packed.dimensions, "names": len(names)}
    return b"".join((json.dumps(header).encode("utf-8"), b"\n", names, packed.counts, packed.rows))


def decode_vectors(raw: bytes) -> PackedVectors | None:
    """Parse a file; None when it is incomplete or of another format."""
    import numpy as np

    head, _, _ = raw[:1000].partition(b"\n")
    try:
        header = json.loads(head)
        model, dimensions, length = str(header["model"]), int(header["dimensions"]), int(header["names"])
        begin = len(head) + 1 + length
        names = raw[len(head) + 1 : begin].decode("utf-8")
        sound = header["format"] == PACK_FORMAT and dimensions > 0 and length >= 0 and begin <= len(raw)
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    digests = tuple(names.split("\n")) if names else ()
    counts = raw[begin : begin + 4 * len(digests)]
    rows = memoryview(raw)[begin + len(counts) :]  # no copy
    if not sound or len(counts) != 4 * len(digests):
        return None
    total = int(np.frombuffer(counts, dtype="<u4").sum(dtype=np.uint64))
    return (
        PackedVectors(model, dimensions, digests, counts, rows) if len(rows) == total * row_bytes(dimensions) else None
    )


def cosines(packed: PackedVectors, question: Matrix) -> dict[str, float]:
    """The cosine of each content's best row, at most 1; unrelated contents are left out."""
    import numpy as np

    layout = np.dtype([("scale", "<f4"), ("values", "i1", (packed.dimensions,))])
    rows = np.frombuffer(packed.rows, dtype=layout)
    vector = question.reshape(-1)
    near = np.empty(len(rows), dtype=np.float32)
    with np.errstate(all="ignore"):  # a damaged scale may be any number
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            numbers = some["values"].astype(np.float32)
            near[start : start + _ROWS_AT_ONCE] = np.einsum("ij,j->i", numbers, vector) * some["scale"]
    near = np.nan_to_num(near, copy=False, nan=0.0, posinf=0.0, neginf=0.0).clip(0.0, 1.0)
    counts = np.frombuffer(packed.counts, dtype="<u4").astype(np.int64)
    best = np.zeros(len(counts), dtype=np.float32)
    present = counts > 0
    if present.any():
        best[present] = np.maximum.reduceat(near, (np.cumsum(counts) - counts)[present])
    return {digest: value for digest, value in zip(packed.digests, best.tolist(), strict=True) if value > 0}
