"""The interface of embedders, which turn texts into vectors.

`embedding_providers.embedder_for` creates one from the settings. It runs a model on this machine
(`local_embedder.py`) or asks a server (`server_embedder.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ralph.core.errors import RalphError
from ralph.search.vectors import Matrix


class ProviderFailed(RalphError):
    """The embedding provider returned no vectors. The caller can still search by words."""


class Embedder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """`provider:model`. Vectors with different names are never compared."""

    @property
    def dimensions(self) -> int:
        """The length of a vector, or 0 until the first response reveals it."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit row per text, in the same order."""
