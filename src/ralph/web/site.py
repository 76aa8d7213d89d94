"""The web application: which routes there are, the pages' files, and the server on this machine's loopback.

Every page is one shell (`static/index.html`), which asks the API. A static file is found by walking down the folder
of the package, comparing names with those that are there: no word of a request ever becomes part of a path. The
socket is bound before the application is made, since the guard must know the port. `tests/web/test_site.py` drives
it over HTTP, `tests/cli/test_web.py` as a process of its own.
"""

import hashlib
import socket
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from ralph.errors import RalphError
from ralph.web import api_board, api_changes, api_context, api_graph, api_records, api_runs, api_sessions, events
from ralph.web.answers import Settings, told
from ralph.web.guard import Guard

HOST = "127.0.0.1"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "woff2": "font/woff2",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
_API = [
    *events.routes,
    *api_records.routes,
    *api_changes.routes,
    *api_board.routes,
    *api_sessions.routes,
    *api_runs.routes,
    *api_context.routes,
    *api_graph.routes,
]
_SMALLEST = 800
"""Below so many bytes an answer is not compressed."""


def build(root: Path, *, port: int, token: str) -> Starlette:
    """The application for a project; whoever has the token may come in, once."""
    app = Starlette(
        routes=[*_API, Route("/api/{path:path}", _no_such), Route("/static/{path:path}", _static), _SHELL],
        middleware=[
            Middleware(Guard, port=port, token=token),
            Middleware(GZipMiddleware, minimum_size=_SMALLEST, compresslevel=5),
        ],
    )
    app.state.root = root
    app.state.settings = Settings(root)
    app.state.ending = lambda: False
    return app


def serve(root: Path, *, port: int, token: str, opened: Callable[[str], None]) -> None:
    """Answer until somebody ends it; `opened` is told the address once requests can come."""
    with closing(bound(port)) as listening:
        own = listening.getsockname()[1]
        app = build(root, port=own, token=token)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, lifespan="off", http="h11", ws="none",
            timeout_graceful_shutdown=3,
        )  # fmt: skip
        server = uvicorn.Server(config)
        app.state.ending = lambda: server.should_exit
        opened(f"http://{HOST}:{own}/?token={token}")
        server.run(sockets=[listening])


def bound(port: int) -> socket.socket:
    """A socket that listens on loopback alone; it says that it is TCP, or asyncio would let answers wait (Nagle)."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else its second part waits 40 ms
        listening.bind((HOST, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise RalphError(f"port {port} cannot be used: {why}", hint="leave --port out to get a free one") from error
    return listening


async def _no_such(request: Request) -> Response:
    return told(404, f"There is nothing at {request.url.path[:200]}.", "Reload the page.")


async def _static(request: Request) -> Response:
    """One of the pages' files."""
    found = _find(request.path_params["path"])
    return told(404, "There is no such file.") if found is None else _file(request, found)


async def _shell(request: Request) -> Response:
    """The page that all pages are."""
    found = _find("index.html")
    if found is None:
        return HTMLResponse("<!doctype html><title>Ralph</title><p>This installation has no pages.</p>", 500)
    return _file(request, found)


_SHELL = Route("/{path:path}", _shell)


def _find(name: str) -> Traversable | None:
    """The file of this name below `static/`, by comparing names with those that are there."""
    here: Traversable = files("ralph.web") / "static"
    for part in name.split("/"):
        if not here.is_dir():
            return None
        below = next((each for each in here.iterdir() if each.name == part), None)
        if below is None:
            return None
        here = below
    return here if here.is_file() and here.name.rpartition(".")[2] in _TYPES else None


def _file(request: Request, found: Traversable) -> Response:
    """A file, unless the browser has it already."""
    content = found.read_bytes()
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in (each.strip() for each in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[found.name.rpartition(".")[2]], headers=headers)
