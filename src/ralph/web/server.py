"""The web application: access checks, events, static files, and a server on the loopback address.

Only a browser window that `ralph web` opened may send requests. The address it opens has a token,
which works once and is exchanged for a cookie. Further tokens (`ralph web --link`) are signed with
a key that only the user can read. Every page is the same shell, `static/index.html`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from html import escape
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qs

import anyio
import uvicorn
from anyio import from_thread
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, State
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ralph.core import paths
from ralph.core.errors import NotFound, RalphError
from ralph.storage import files
from ralph.storage.pattern_limit import PatternLimit
from ralph.web import api
from ralph.web.changes import ChangeHistory
from ralph.web.connections import connection_options
from ralph.web.lists import Row, Watcher
from ralph.web.requests import message_response

_POLL_SECONDS = 1.0  # between two checks for changes
_HEARTBEAT_SECONDS = 15.0  # of silence on an event stream, after which a comment is sent
_STOP_CHECK_SECONDS = 0.2  # within which an event stream notices that the server is stopping
_RETRY_MILLISECONDS = 2_000  # after which a browser reopens a broken event stream
_CONNECT_SECONDS = 5  # for checking whether a server is running
_MIN_COMPRESSED_BYTES = 800
_COMPRESSION_LEVEL = 5
_SECRET_BYTES = 32
_ETAG_CHARACTERS = 32
_MAX_SHOWN_PATH = 200  # characters of an unknown address in a message
_WEBSOCKET_POLICY_VIOLATION = 1008
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
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
_REOPEN = "Use the window that `ralph web` opened, or run `ralph web --link` for another one."


# --- access -------------------------------------------------------------------------------------


class _Rejected(Exception):
    """A rejected request, with the status, the reason and a hint."""

    def __init__(self, status: int, reason: str, hint: str = _REOPEN) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.hint = hint


class _Guard:
    """The access checks in front of the application.

    The initial token works once, and so does each token signed with the key.
    """

    def __init__(self, app: ASGIApp, *, port: int, token: str, key: str) -> None:
        self._app = app
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie = f"ralph_{port}"
        self._token = token
        self._key = key
        self._used_tokens = set[str]()
        self._secret = secrets.token_urlsafe(_SECRET_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": _WEBSOCKET_POLICY_VIOLATION})
            return
        is_api = f"{scope['path']}/".startswith("/api/")
        headers = {}
        if is_api:
            headers["cache-control"] = "no-store"
        app = self._app
        try:
            if self._admit(scope, Headers(scope=scope), is_api):
                headers["set-cookie"] = (
                    f"{self._cookie}={self._secret}; HttpOnly; SameSite=Strict; Path=/"
                )
                headers["cache-control"] = "no-store"
        except _Rejected as rejected:
            app = _rejection(rejected, is_api)
        await app(scope, receive, _add_headers(send, headers))

    def _admit(self, scope: Scope, headers: Headers, is_api: bool) -> bool:
        """Return whether a request exchanges a token for the cookie.

        Raises _Rejected if the request may not pass.
        """
        host = self._check_host(headers)
        path = scope["path"]
        method = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            raise _Rejected(405, f"{method} is not supported.", "")
        if method == "POST" or is_api:
            _check_origin(headers, host, method)
        is_public = path.startswith("/static/") and method != "POST"
        if is_public or self._has_cookie(headers):
            return False
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if path != "/" or method != "GET" or not token:
            status = 401 if is_api else 403
            raise _Rejected(status, "This window is not the one that was opened.")
        self._redeem(token)
        return True

    def _check_host(self, headers: Headers) -> str:
        """Return the host named in a request. Raises _Rejected if it is not this server."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise _Rejected(403, "This address is not the one that was opened.")
        return hosts[0]

    def _has_cookie(self, headers: Headers) -> bool:
        for line in headers.getlist("cookie"):
            with suppress(CookieError):
                morsel = SimpleCookie(line).get(self._cookie)
                if morsel is not None and _equal(morsel.value, self._secret):
                    return True
        return False

    def _redeem(self, token: str) -> None:
        """Use up a token. Raises _Rejected if the token is invalid or was already used."""
        name, _, _ = token.partition(".")
        is_valid = _equal(token, self._token) or _equal(token, _sign(self._key, name))
        if token in self._used_tokens or not is_valid:
            raise _Rejected(
                403, "Link expired: it was already used, or is not the one that was printed."
            )
        self._used_tokens.add(token)


def _check_origin(headers: Headers, host: str, method: str) -> None:
    """Raise _Rejected for a request from another site, or for a POST without an origin."""
    origins = headers.getlist("origin")
    is_same_origin = all(origin == f"http://{host}" for origin in origins)
    sites = headers.getlist("sec-fetch-site")
    is_same_site = all(site in ("same-origin", "none") for site in sites)
    is_unknown = method == "POST" and not origins
    if not is_same_origin or not is_same_site or is_unknown:
        raise _Rejected(403, "This request does not come from Ralph's own pages.")


def _rejection(rejected: _Rejected, is_api: bool) -> Response:
    if is_api:
        return message_response(rejected.status, rejected.reason, rejected.hint)
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Ralph</title>'
        f"<h1>Access denied</h1><p>{escape(rejected.reason)}</p><p>{escape(rejected.hint)}</p>"
        "</html>"
    )
    return HTMLResponse(page, rejected.status)


def _sign(key: str, name: str) -> str:
    return f"{name}.{hmac.digest(key.encode(), name.encode(), 'sha256').hex()}"


def _equal(one: str, other: str) -> bool:
    """Compare two strings in constant time, so that a secret cannot be guessed byte by byte."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _add_headers(send: Send, extra: Mapping[str, str]) -> Send:
    """Wrap `send` so that each response gets the security headers and the extra ones."""
    added = [(name.encode(), value.encode()) for name, value in {**HEADERS, **extra}.items()]
    names = {name for name, _ in added}

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = []
            for name, value in message.get("headers", ()):
                if name.lower() not in names:
                    headers.append((name, value))
            headers += added
            if not any(name.lower() == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers


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
                _Guard, port=port, token=token, key=key or secrets.token_urlsafe(_SECRET_BYTES)
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
    key = secrets.token_urlsafe(_SECRET_BYTES)
    app = build_app(root, port=port, token=token, key=key, by=by)
    config = uvicorn.Config(
        app, access_log=False, server_header=False, lifespan="off", **connection_options()
    )
    server = uvicorn.Server(config)
    app.state.ending = lambda: server.should_exit
    server_file = paths.checkout_cache(root) / _SERVER_FILE
    text = json.dumps({"port": port, "key": key})
    # further links need a writable state folder
    with suppress(RalphError, OSError):
        files.write(server_file, text, root=paths.state_boundary(root), mode=files.PRIVATE)
    try:
        opened(_address(port, token))
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
        token = _sign(running["key"], secrets.token_urlsafe(_SECRET_BYTES))
        return _address(port, token)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotFound(
            "`ralph web` is not running for this project", hint="start it with `ralph web`"
        ) from error


def _address(port: int, token: str) -> str:
    return f"http://127.0.0.1:{port}/?token={token}"
