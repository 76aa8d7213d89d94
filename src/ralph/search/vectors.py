"""Work with vectors: split text into chunks, quantize vectors, and compare them.

A long text is split into chunks, and each chunk gets a vector of unit length. A vector is stored
with one signed byte per number, after a float32 scale (ADR 0009):

    [0.6, -0.8]  ->  4 bytes for the scale 0.0063, then the bytes 95 and -127

A text is as similar to a question as its best chunk. numpy is an optional extra and slow to import,
so it is imported only inside functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Matrix: TypeAlias = "NDArray[np.float32]"  # rows of unit length

_MAX_CHUNK_CHARACTERS = 800
_CHUNK_BREAKS = ("\n\n", "\n", ". ", "。", " ")
"""Where text may be cut, coarsest first."""
_SCALE_BYTES = 4
_MAX_INT8 = 127
_ROWS_PER_BLOCK = 1024  # as float32, they still fit into a processor's cache


def normalize_rows(rows: object) -> Matrix:
    """Scale rows to length one, so that a cosine is a dot product.

    A row of zeros stays as it is, and is similar to nothing.
    """
    import numpy as np

    matrix = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(matrix / lengths, dtype=np.float32)


def split_chunks(text: str, limit: int = _MAX_CHUNK_CHARACTERS) -> tuple[str, ...]:
    """Cut text into chunks of at most `limit` characters.

    Each chunk ends at the coarsest break found in its second half.
    """
    chunks = []
    rest = text.strip()
    limit = max(limit, 1)
    while len(rest) > limit:
        end = _chunk_end(rest, limit)
        chunks.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    if rest:
        chunks.append(rest)
    return tuple(chunks)


def _chunk_end(text: str, limit: int) -> int:
    """Return the position where the first chunk of `text` ends."""
    for mark in _CHUNK_BREAKS:
        position = text.rfind(mark, limit // 2, limit)
        if position > 0:
            return min(position + len(mark), limit)
    return limit


def quantize(matrix: Matrix) -> list[bytes]:
    """Convert each row to bytes: a float32 scale, followed by one signed byte per number.

    Multiplying the numbers by the scale restores a length of one.
    """
    import numpy as np

    peaks = np.abs(matrix).max(axis=1, keepdims=True, initial=0)
    peaks[peaks == 0] = 1
    values = np.rint(matrix / peaks * _MAX_INT8).astype(np.int8)
    lengths = np.linalg.norm(values.astype(np.float32), axis=1)
    lengths[lengths == 0] = 1
    scales = (1 / lengths).astype("<f4")
    return [scale.tobytes() + row.tobytes() for scale, row in zip(scales, values, strict=True)]


def row_bytes(dimensions: int) -> int:
    """Return the size of a quantized row in bytes."""
    return dimensions + _SCALE_BYTES


def cosines(vectors: Mapping[str, bytes], question: Matrix) -> dict[str, float]:
    """Return how similar each text is to a question, by digest.

    `vectors` maps the digest of a text to its quantized rows, one per chunk. The similarity is the
    cosine of the best row. Texts whose rows have another size, or only zeros, are left out.
    """
    import numpy as np

    vector = question.reshape(-1)
    size = row_bytes(vector.size)
    valid = {}
    for digest, rows in vectors.items():
        if rows and len(rows) % size == 0:
            valid[digest] = rows
    if not valid or not vector.any():
        return {}
    row_cosines = _row_cosines(b"".join(valid.values()), vector)
    counts = np.array([len(rows) // size for rows in valid.values()])
    best = np.maximum.reduceat(row_cosines, np.cumsum(counts) - counts)
    similarities = {}
    for digest, similarity in zip(valid, best.tolist(), strict=True):
        if similarity >= -1:
            similarities[digest] = similarity
    return similarities


def _row_cosines(rows: bytes, vector: Matrix) -> Matrix:
    """Return the cosine of each quantized row, or minus infinity if it is zero or damaged.

    `einsum` runs in this thread. On a busy machine, the usual product (`@`) spent thirty times as
    long waiting for its other threads as the work itself takes.
    """
    import numpy as np

    layout = np.dtype([("scale", "<f4"), ("values", "i1", (vector.size,))])
    table = np.frombuffer(rows, dtype=layout)
    row_cosines = np.empty(len(table), dtype=np.float32)
    with np.errstate(all="ignore"):  # a damaged scale may be any number
        for start in range(0, len(table), _ROWS_PER_BLOCK):
            block = table[start : start + _ROWS_PER_BLOCK]
            numbers = block["values"].astype(np.float32)
            products = np.einsum("ij,j->i", numbers, vector) * block["scale"]
            products[~block["values"].any(axis=1)] = np.nan
            row_cosines[start : start + _ROWS_PER_BLOCK] = products
    is_finite = np.isfinite(row_cosines)
    return np.where(is_finite, row_cosines.clip(-1.0, 1.0), -np.inf)
