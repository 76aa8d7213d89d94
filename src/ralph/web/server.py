"""The web application: events, static files, and a server on the loopback address.

Every page is the same shell, `static/index.html`, which loads its data from the API.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import anyio
import uvicorn
from anyio import from_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import State
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ralph.core import paths
from ralph.core.announced_server import AnnouncedServer
from ralph.core.errors import NotFound, RalphError
from ralph.search.idle_embedding import IdleEmbedding
from ralph.storage import files
from ralph.storage.pattern_limit import PatternLimit
from ralph.web import api
from ralph.web.access import SECRET_BYTES, Guard, sign_token
from ralph.web.changes import ChangeHistory
from ralph.web.connections import connection_options
from ralph.web.lists import Row
from ralph.web.requests import message_response
from ralph.web.watcher import Watcher

_POLL_SECONDS = 1.0  # between two checks for changes
_HEARTBEAT_SECONDS = 15.0  # of silence on an event stream, after which a comment is sent
_STOP_CHECK_SECONDS = 0.2  # within which an event stream notices that the server is stopping
_RETRY_MILLISECONDS = 2_000  # after which a browser reopens a broken event stream
_CONNECT_SECONDS = 5  # for checking whether a server is running
_MIN_COMPRESSED_BYTES = 800
_COMPRESSION_LEVEL = 5
_ETAG_CHARACTERS = 32
_MAX_SHOWN_PATH = 200  # characters of an unknown address in a message
_SERVER_FILE = "web.json"  # in a checkout's cache: the port and key of its running server
_STATIC = Path(__file__).parent / "static"
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}


# --- events -------------------------------------------------------------------------------------


async def _events(request: Request) -> Response:
    return StreamingResponse(_stream(request), media_type="text/event-stream")


async def _stream(request: Request) -> AsyncIterator[str]:
    """Yield an event for each change to the project, until the client or the server disconnects."""
    state = request.app.state
    watcher = Watcher(state.root)
    yield f"retry: {_RETRY_MILLISECONDS}\n\n"
    last_sent = time.monotonic()
    while not state.ending() and not await request.is_disconnected():
        changed: Sequence[str] = ()
        runs: Sequence[Row] = ()
        with suppress(RalphError, OSError):  # it may be readable next time
            changed, runs = await run_in_threadpool(watcher.look)
        events = []
        if changed:
            events.append(_event("changed", {"what": changed}))
        for row in runs:
            events.append(_event("run", row))
        if not events and time.monotonic() - last_sent >= _HEARTBEAT_SECONDS:
            events.append(": still here\n\n")
        if events:
            yield "".join(events)
            last_sent = time.monotonic()
        await _sleep(state, getattr(state, "pace", _POLL_SECONDS))


async def _sleep(state: State, seconds: float) -> None:
    """Sleep, but wake up soon after the server stops."""
    while seconds > 0 and not state.ending():
        await anyio.sleep(min(_STOP_CHECK_SECONDS, seconds))
        seconds -= _STOP_CHECK_SECONDS


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=True)}\n\n"


# --- the application ----------------------------------------------------------------------------


def build_app(root: Path, *, port: int, token: str, key: str = "", by: str = "human") -> Starlette:
    """Return the application for a project.

    `token` opens it once, `key` signs further tokens, and `by` is the author of the changes.
    """
    PatternLimit.use_main_thread(from_thread.run_sync)
    app = Starlette(
        routes=[
            Route("/api/events", _events),
            *api.ROUTES,
            Route("/api/{path:path}", _not_found),
            Route("/static/{path:path}", _file_response),
            Route("/{path:path}", _file_response),
        ],
        middleware=[
            Middleware(
                Guard, port=port, token=token, key=key or secrets.token_urlsafe(SECRET_BYTES)
            ),
            Middleware(
                GZipMiddleware,
                minimum_size=_MIN_COMPRESSED_BYTES,
                compresslevel=_COMPRESSION_LEVEL,
            ),
        ],
    )
    app.state.root = root
    app.state.changes = ChangeHistory(root)
    app.state.by = by
    app.state.idle = IdleEmbedding()
    app.state.ending = lambda: False
    return app


async def _not_found(request: Request) -> Response:
    path = request.url.path[:_MAX_SHOWN_PATH]
    return message_response(404, f"There is nothing at {path}.", "Reload the page.")


async def _file_response(request: Request) -> Response:
    """Return a static file, or the shell for any other address."""
    name = "index.html"
    if request.scope["path"].startswith("/static/"):
        name = request.path_params["path"]
    path = _static_files().get(name)
    if path is None:
        return message_response(404, "There is no such file.")
    content = path.read_bytes()
    etag = f'W/"{hashlib.sha256(content).hexdigest()[:_ETAG_CHARACTERS]}"'
    headers = {"etag": etag, "cache-control": "no-cache"}
    cached_etags = request.headers.get("if-none-match", "").split(",")
    if etag in map(str.strip, cached_etags):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[path.suffix[1:]], headers=headers)


@cache
def _static_files() -> dict[str, Path]:
    """Return the files that are served, by name. No other path is ever opened."""
    served = {}
    for path in _STATIC.rglob("*"):
        if path.is_file() and path.suffix[1:] in _MEDIA_TYPES:
            served[path.relative_to(_STATIC).as_posix()] = path
    return served


# --- the server ---------------------------------------------------------------------------------


def serve(
    root: Path, listening: socket.socket, *, token: str, opened: Callable[[str], None], by: str
) -> None:
    """Serve until interrupted. `opened` is called with the address once requests are accepted."""
    port = listening.getsockname()[1]
    key = secrets.token_urlsafe(SECRET_BYTES)
    app = build_app(root, port=port, token=token, key=key, by=by)
    config = uvicorn.Config(
        app, access_log=False, server_header=False, lifespan="off", **connection_options()
    )
    server = AnnouncedServer(config, lambda: opened(_address(port, token)))
    app.state.ending = lambda: server.should_exit
    server_file = paths.checkout_cache(root) / _SERVER_FILE
    text = json.dumps({"port": port, "key": key})
    # further links need a writable state folder
    with suppress(RalphError, OSError):
        files.write(server_file, text, root=paths.state_boundary(root), mode=files.PRIVATE)
    try:
        server.run(sockets=[listening])
    finally:
        with suppress(RalphError, OSError):
            if files.read(server_file) == text:
                files.delete(server_file)


def make_link(root: Path) -> str:
    """Return another one-time address for the server that is running for this project.

    Raises NotFound if no server is running.
    """
    try:
        running = json.loads(files.read(paths.checkout_cache(root) / _SERVER_FILE) or "{}")
        port = int(running["port"])
        socket.create_connection(("127.0.0.1", port), timeout=_CONNECT_SECONDS).close()
        token = sign_token(running["key"], secrets.token_urlsafe(SECRET_BYTES))
        return _address(port, token)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotFound(
            "`ralph web` is not running for this project", hint="start it with `ralph web`"
        ) from error


def _address(port: int, token: str) -> str:
    return f"http://127.0.0.1:{port}/?token={token}"
