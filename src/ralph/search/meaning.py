"""Meaning: texts as unit vectors, and how near they are to each other.

An Embedder turns texts into a Matrix of float32 rows of length one, so that the cosine of two
texts is a dot product. Every row is compared with the query (`packed.py`, brute force): fifty thousand
take a few milliseconds, which no index structure needs to beat. A long text is cut into chunks and
counts as much as its best one. Vectors rest as one signed byte a number with one scale a row: a
quarter of the size, and the first five answers of both measured sets stay the same (ADR 0016).

numpy is an extra and costs a tenth of a second to import: it is imported inside the functions
that compute, never by importing this module.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

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


def unit(rows: object) -> Matrix:
    """Rows brought to length one; a row of zeros stays so and is near to nothing."""
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    matrix = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(matrix / lengths, dtype=np.float32)


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

    The scale is the one that gives the rounded row the length one, so that comparing needs no further step.
    """
    import numpy as np  # noqa: PLC0415  (an extra, and slow to import)

    peaks = np.abs(matrix).max(axis=1, keepdims=True, initial=0)
    peaks[peaks == 0] = 1
    values = np.rint(matrix / peaks * 127).astype(np.int8)
    lengths = np.linalg.norm(values.astype(np.float32), axis=1)
    lengths[lengths == 0] = 1
    scales = (1 / lengths).astype("<f4")
    return [scale.tobytes() + row.tobytes() for scale, row in zip(scales, values, strict=True)]


def packed_size(dimensions: int) -> int:
    """How many bytes a packed row of so many numbers has."""
    return dimensions + _SCALE_BYTES
