"""Measure search as you type in the pages, compared with the library's search and an empty request.

The project has ten thousand memories, the server runs in this process on loopback, and words are typed letter by
letter. For each letter, three things are timed: the library's search, a request to a route that does nothing, and the
page's request. The measure is the sum over a word: the page's, relative to the other two together.
"""

import http.client
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

from bench import big
from ralph.cli.servers import bind_socket
from ralph.core.record import Query
from ralph.recall import search
from ralph.web import server as site

COUNT, ROUNDS, AT_MOST = 10_000, 5, 1.5
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


def figures(rounds: int = ROUNDS) -> list[Figure]:
    """Measure how long the page waits while words are typed."""
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        big.write(root, COUNT)
        with served(root) as (connection, headers):
            asked(connection, headers, "/api/records?q=scheduler")  # builds the index
            tasks: dict[str, Callable[[str], object]] = {
                "library": lambda typed: search.search(root, Query(typed, limit=PAGE)),
                "empty request": lambda _: asked(connection, headers, _EMPTY),
                "page": lambda typed: asked(
                    connection, headers, f"/api/records?q={quote(typed)}&limit={PAGE}"
                ),
            }
            for word in TYPED * rounds:
                taken = dict.fromkeys(tasks, 0.0)
                for typed in (word[: end + 1] for end in range(len(word))):
                    for name, task in tasks.items():
                        begun = time.perf_counter()
                        task(typed)
                        taken[name] += time.perf_counter() - begun
                ratios.append(taken["page"] / (taken["library"] + taken["empty request"]))
    return [
        Figure("search as you type / library and empty request", median(ratios), target=AT_MOST)
    ]


if __name__ == "__main__":
    sys.exit(show("The web pages", figures()))
