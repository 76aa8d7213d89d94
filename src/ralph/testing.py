"""Public fakes to use instead of mock objects, in Ralph's own tests and in yours.

HashEmbedder is a working Embedder that places texts with common words close together. ScriptedAgent
is a working Agent that plays back a list of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from ralph.loop.agents.scripted import Scripted as ScriptedAgent
from ralph.loop.agents.scripted import Step
from ralph.search.vectors import normalize_rows
from ralph.search.wordpiece import wordpiece_words

if TYPE_CHECKING:
    from ralph.search.vectors import Matrix


__all__ = ["HashEmbedder", "ScriptedAgent", "Step"]


class HashEmbedder:
    """An Embedder that adds up one direction per word.

    `texts` lists everything that it has embedded.
    """

    def __init__(self, dimensions: int = 64) -> None:
        self.name = f"hash:{dimensions}"
        self.dimensions = dimensions
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit-length row per text."""
        import numpy as np

        self.texts.extend(texts)
        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        return normalize_rows([self._row(text) for text in texts])

    def _row(self, text: str) -> list[float]:
        row = [0.0] * self.dimensions
        for word in wordpiece_words(text):
            digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            number = int.from_bytes(digest, "big")
            sign = 1.0 if number & 1 else -1.0
            row[(number >> 1) % self.dimensions] += sign
        return row
