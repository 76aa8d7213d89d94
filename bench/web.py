"""Measure search as you type in the pages, compared with the library's search and an empty request.

The project has ten thousand memories, the server runs in this process on loopback, and words are typed letter by
letter. For each letter, three things are timed: the library's search, a request to a route that does nothing, and the
page's request. The measure is the sum over a word: the page's, relative to the other two together. Processor time
counts, which includes that of the server. It is measured without a model, and with the local model if every record has
a vector. These vectors are random, because computing them would take minutes and their values do not matter.
"""

import http.client
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import quote

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, show
from bench.timing import embedding_provider

from bench import big
from ralph.cli.servers import bind_socket
from ralph.core import paths
from ralph.core.config import load
from ralph.core.record import Query
from ralph.recall import search
from ralph.search import embedding_providers, index, vectors
from ralph.search.local_embedder import LocalEmbedder
from ralph.storage.pattern_limit import PatternLimit
from ralph.storage.vectors import VectorCache
from ralph.web import server as site

COUNT = 10_000
ROUNDS = 3
AT_MOST = 1.5
_BASELINE = 1.65  # of processor time, when facets were counted for every letter
PAGE = 50
"""Rows that the explorer requests at a time (`parts/virtual_list.js`)."""
TYPED = ("scheduler", "schema retries", "worker_41", "migration blocks deploy", "token")
_TOKEN = "bench"  # for a server that runs only during this measurement
_EMPTY = "/api/empty"


@contextmanager
def served(root: Path) -> Iterator[tuple[http.client.HTTPConnection, dict[str, str]]]:
    """A connection to a server of the project, and the headers that grant access."""
    listening = bind_socket(0)
    port = listening.getsockname()[1]
    app = site.build_app(root, port=port, token=_TOKEN)
    app.router.routes.insert(0, Route(_EMPTY, _nothing))
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="error", access_log=False, lifespan="off", ws="none")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", f"/?token={_TOKEN}")
    answer = connection.getresponse()
    answer.read()
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    try:
        yield connection, {"Cookie": cookie}
    finally:
        connection.close()
        server.should_exit = True
        thread.join()


async def _nothing(_: Request) -> Response:
    return Response()


def asked(connection: http.client.HTTPConnection, headers: dict[str, str], path: str) -> bytes:
    """Return the body of a response, which must be successful."""
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {body[:200]!r}")
    return body


def ratio(root: Path, rounds: int) -> float:
    """Return the median processor time of the page for a word, relative to what it is compared with."""
    ratios: list[float] = []
    embedding = load(root, env=os.environ, limit=PatternLimit).config.embedding
    with served(root) as (connection, headers):
        asked(connection, headers, "/api/records?q=scheduler")  # builds the index, loads the model
        tasks: dict[str, Callable[[str], object]] = {
            "library": lambda typed: search.search(
                root, Query(typed, limit=PAGE), embedding=embedding
            ),
            "empty request": lambda _: asked(connection, headers, _EMPTY),
            "page": lambda typed: asked(
                connection, headers, f"/api/records?q={quote(typed)}&limit={PAGE}"
            ),
        }
        for word in TYPED * rounds:
            taken = dict.fromkeys(tasks, 0.0)
            for typed in (word[: end + 1] for end in range(len(word))):
                for name, task in tasks.items():
                    begun = time.process_time()
                    task(typed)
                    taken[name] += time.process_time() - begun
            ratios.append(taken["page"] / (taken["library"] + taken["empty request"]))
    return median(ratios)


def put_vectors(root: Path) -> None:
    """Give every record of a project a random vector of the local model."""
    import numpy as np

    digests = sorted(index.indexed_digests(root))
    shape = (len(digests), LocalEmbedder.dimensions)
    rows = vectors.quantize(np.random.default_rng(1).normal(size=shape).astype(np.float32))
    with VectorCache(paths.vectors_file(root)) as cache:
        cache.put(LocalEmbedder.name, dict(zip(digests, rows, strict=True)))


def figures(rounds: int = ROUNDS, count: int = COUNT) -> list[Figure]:
    """Measure how long the page takes while words are typed."""
    title = "search as you type / library and empty request"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        big.write(root, count)
        with embedding_provider("none"):
            found = [Figure(title, ratio(root, rounds), "x", _BASELINE, AT_MOST)]
        if not embedding_providers.missing_modules("local"):
            put_vectors(root)
            with embedding_provider("local"):
                found.append(Figure(f"{title}, model", ratio(root, rounds), "x", None, AT_MOST))
    return found


if __name__ == "__main__":
    sys.exit(show("The web pages", figures()))
