"""Measure how long searches and requests wait for new vectors, with the local model.

A project has 2,000 memories without vectors. The same question, whose words match nothing, is asked
again and again, and the time for vectors of records is added up for each search. This is wall time,
because the limit is what a person waits. An idle server can be interrupted between two texts, so
the time for the longest text is how long a request can wait for it. The processor time of the first
such search in a new process includes loading the model.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, Skipped, show
from bench.large_memory import make
from bench.timing import processor_seconds

from ralph.core.record import Query
from ralph.search import embedding_providers, index, meaning, vectors
from ralph.search.local_embedder import LocalEmbedder
from ralph.search.vectors import Matrix

MEMORIES = 2_000
SEARCHES = 20
PROCESSES = 3
TITLE = "Embedding"
_QUESTION = "src kurkpes dranges"
_RALPH = (sys.executable, "-m", "ralph")
_LONG_TEXT = "What was learned about the connection pool and its timeouts. " * 30
_MAX_MILLISECONDS = 200.0
_SECONDS_BEFORE = 6.3  # of processor time, when a search embedded 40 records


class TimedEmbedder(LocalEmbedder):
    """A local embedder that notes how long each call took."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit row per text."""
        began = time.perf_counter()
        rows = super().embed(texts)
        self.seconds.append(time.perf_counter() - began)
        return rows


def time_searches(root: Path, count: int) -> list[float]:
    """Return the milliseconds that new vectors took in each of several searches."""
    embedder = TimedEmbedder()
    taken = []

    def ask(connection: sqlite3.Connection) -> None:
        everything = Query(limit=None)
        seconds = meaning.SEARCH_SECONDS
        near = meaning.nearness(root, embedder, connection, everything, seconds=seconds)
        near(_QUESTION, [])

    for _ in range(count):
        embedder.seconds.clear()
        index.ask(root, ask)
        _, *records = embedder.seconds  # the first is the question
        taken.append(sum(records) * 1000)
    return taken


def time_longest_text(rounds: int) -> float:
    """Return the milliseconds of processor time that the longest text of a record takes."""
    embedder = LocalEmbedder()
    text, *_ = vectors.split_chunks(_LONG_TEXT)
    embedder.embed([text])
    began = time.process_time()
    for _ in range(rounds):
        embedder.embed([text])
    return (time.process_time() - began) / rounds * 1000


def figures(
    memories: int = MEMORIES, searches: int = SEARCHES, processes: int = PROCESSES
) -> list[Figure]:
    """Return the times. Raises Skipped if the model is not installed."""
    missing = embedding_providers.missing_modules("local")
    if missing:
        raise Skipped(f"the extra `local` is not installed ({', '.join(missing)})")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "project")
        make(root, memories)
        subprocess.run(["git", "init", "-q"], cwd=root, check=True)
        env = {**os.environ, "RALPH_EMBEDDING_PROVIDER": "local"}
        for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            env[variable] = str(Path(folder, variable))
        index.sync(root)
        command = [*_RALPH, "search", _QUESTION]
        seconds = median(processor_seconds(command, root, env=env) for _ in range(processes))
        taken = time_searches(root, searches)
    return [
        Figure("new vectors in a search, median", median(taken), "ms", None, _MAX_MILLISECONDS),
        Figure("new vectors in a search, longest", max(taken), "ms", None, _MAX_MILLISECONDS),
        Figure("longest text of an idle server, CPU", time_longest_text(10), "ms"),
        Figure("search without matching words, CPU", seconds, "s", _SECONDS_BEFORE),
    ]


if __name__ == "__main__":
    sys.exit(show(TITLE, figures()))
