"""An embedder that gets its vectors from a server with OpenAI's or Ollama's API.

A request is one POST with a batch of texts:

    {"model": "text-embedding-3-small", "input": ["first text", "second text"]}

The response is {"data": [{"index": 0, "embedding": [0.1, ...]}, ...]} from a server with OpenAI's
API, and {"embeddings": [[0.1, ...], ...]} from Ollama.

Requests are never repeated and never redirected, because a redirect would send the key to another
host. Every failure raises `ProviderFailed`, so that the caller can fall back to searching by words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ralph.search.embeddings import ProviderFailed
from ralph.search.vectors import Matrix, normalize_rows

if TYPE_CHECKING:
    from urllib.error import HTTPError
    from urllib.request import BaseHandler, Request

TIMEOUT = 20.0  # seconds
BATCH = 64  # texts in a request
_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_MAX_MESSAGE_CHARACTERS = 200  # of an error message that a server sends
_LOOPBACK_HOSTS = frozenset(("127.0.0.1", "::1", "localhost"))


@dataclass(slots=True)
class ServerEmbedder:
    """Gets vectors from a server with OpenAI's or Ollama's API."""

    provider: str
    model: str
    url: str
    key_variable: str
    timeout: float
    env: Mapping[str, str]
    dimensions: int = 0

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self.provider}:{self.model}"

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit row per text, sending a batch of texts per request.

        Raises ProviderFailed if the server cannot be reached or its response cannot be used.
        """
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        batches = []
        for start in range(0, len(texts), BATCH):
            batches.append(self._embed_batch(texts[start : start + BATCH]))
        return np.concatenate(batches)

    def _embed_batch(self, texts: Sequence[str]) -> Matrix:
        # Some servers refuse empty strings or half of a surrogate pair.
        valid = [text.encode("utf-8", "replace").decode("utf-8") or " " for text in texts]
        request = json.dumps({"model": self.model, "input": valid}).encode("utf-8")
        body = self._post(request)
        try:
            response = json.loads(body)
        except (ValueError, RecursionError):
            raise self._failed("sent a response that is not JSON") from None
        matrix = self._parse_vectors(response, len(valid))
        width = int(matrix.shape[1])
        if self.dimensions not in (0, width):
            raise self._failed(
                f"sent a vector of {width} numbers where {self.dimensions} were expected"
            )
        self.dimensions = width
        return normalize_rows(matrix)

    def _parse_vectors(self, response: Any, count: int) -> Matrix:
        """Return the vectors in a response, ordered like the texts."""
        import numpy as np

        try:
            rows = self._rows_of(response, count)
            with np.errstate(over="ignore"):
                matrix = np.asarray(rows, dtype=np.float32)
            is_valid = _is_finite_matrix(matrix, count) and all(map(_has_only_numbers, rows))
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            is_valid = False
        if not is_valid:
            raise self._failed(f"sent something other than {count} vectors of numbers")
        return matrix

    def _rows_of(self, response: Any, count: int) -> Any:
        """Return the vectors as the server sent them, but ordered like the texts."""
        if self.provider == "ollama":
            return response["embeddings"]
        # OpenAI's items may come in any order, with an `index`.
        vectors = {}
        for position, item in enumerate(response["data"]):
            vectors[item.get("index", position)] = item["embedding"]
        return [vectors[number] for number in range(max(count, len(vectors)))]

    def _post(self, body: bytes) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import build_opener

        key = self._read_key()
        opener = build_opener(*self._handlers())
        try:
            with opener.open(self._request(body, key), timeout=self.timeout) as response:
                content: bytes = response.read(_MAX_RESPONSE_BYTES + 1)
                length = response.headers.get("Content-Length", "")
        except HTTPError as error:
            with error:
                raise self._http_error(error, key) from None
        except (OSError, HTTPException, UnicodeError) as error:
            raise self._connection_error(error) from None
        if len(content) > _MAX_RESPONSE_BYTES:
            raise self._failed("sent a response that is far too long")
        if length.isdecimal() and len(content) < int(length):
            raise self._failed("sent a response that is cut off")
        return content

    def _read_key(self) -> str:
        """Return the key from the environment, or "" if the server needs none."""
        if not self.key_variable:
            return ""
        key = self.env.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            hint = f"set {self.key_variable} in the environment, or the embedding provider to none"
            raise self._failed(f"there is no key in ${self.key_variable}", hint)
        return key

    def _request(self, body: bytes, key: str) -> Request:
        from urllib.request import Request

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        # `_check_server` accepts only http and https.
        return Request(self.url, body, headers, method="POST")  # noqa: S310 - see above

    def _handlers(self) -> list[type[BaseHandler] | BaseHandler]:
        """Return handlers that refuse redirects, and bypass any proxy for this machine."""
        from urllib.request import HTTPRedirectHandler, ProxyHandler

        class NoRedirect(HTTPRedirectHandler):
            def redirect_request(self, *_: object) -> None:
                """Treat a redirect as an error."""

        handlers: list[type[BaseHandler] | BaseHandler] = [NoRedirect]
        if urlsplit(self.url).hostname in _LOOPBACK_HOSTS:
            handlers.append(ProxyHandler({}))
        return handlers

    # --- errors ---

    def _failed(self, what: str, hint: str = "") -> ProviderFailed:
        where = f"{self.provider} at {urlsplit(self.url).netloc}"
        if not hint:
            hint = f"check that {self.model} is an embedding model"
        return ProviderFailed(f"{where}: {what}", hint=hint)

    def _connection_error(self, error: Exception) -> ProviderFailed:
        """Return the error for a server that cannot be reached or does not respond."""
        from urllib.error import URLError

        reason: object = error
        if isinstance(error, URLError):
            reason = error.reason
        if isinstance(reason, TimeoutError):
            return self._failed(f"no answer within {self.timeout:g} seconds", "try again later")
        hint = "check the address and the network"
        if self.provider == "ollama":
            hint = "is `ollama serve` running?"
        return self._failed(f"cannot be reached: {reason or type(reason).__name__}", hint)

    def _http_error(self, error: HTTPError, key: str) -> ProviderFailed:
        what = f"refused with {error.code}"
        message = _server_message(error, key)
        if message:
            what = f"{what}: {message}"
        return self._failed(what, self._http_hint(error))

    def _http_hint(self, error: HTTPError) -> str:
        if error.code == HTTPStatus.UNAUTHORIZED:
            if self.key_variable:
                return f"check the key in ${self.key_variable}"
            return "name the environment variable with the key"
        if error.code == HTTPStatus.NOT_FOUND:
            hint = f"check the address and the model {self.model}"
            if self.provider == "ollama":
                hint += f"; `ollama pull {self.model}` downloads it"
            return hint
        if error.code == HTTPStatus.TOO_MANY_REQUESTS:
            seconds = error.headers.get("Retry-After", "") if error.headers else ""
            if seconds.isdecimal():
                return f"wait {seconds} seconds, as the server asks"
            return "it is busy; try again later"
        return "try again later, or set the embedding provider to none"


def _is_finite_matrix(matrix: Matrix, count: int) -> bool:
    """Return whether a response has the right number of vectors and only finite numbers."""
    import numpy as np

    if matrix.ndim != 2 or len(matrix) != count or not matrix.size:
        return False
    return bool(np.isfinite(matrix).all())


def _has_only_numbers(row: Sequence[object]) -> bool:
    """Return whether a vector has only JSON numbers. numpy would also accept other types."""
    return all(type(number) in {float, int} for number in row)


def _server_message(error: HTTPError, key: str) -> str:
    """Return the message in an error response, shortened and without the key."""
    from http.client import HTTPException

    try:
        response = json.loads(error.read(_MAX_RESPONSE_BYTES))
    except (OSError, HTTPException, ValueError, RecursionError):
        return ""
    if not isinstance(response, dict):
        return ""
    value = response.get("error") or response.get("detail")
    if isinstance(value, dict):
        value = value.get("message")
    message = " ".join(word for word in str(value or "").split() if word.isprintable())
    if key:
        message = message.replace(key, "...")
    if len(message) > _MAX_MESSAGE_CHARACTERS:
        message = message[:_MAX_MESSAGE_CHARACTERS] + " ..."
    return message
