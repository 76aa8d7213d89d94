"""The web application: access checks, events, static files, and the server on the loopback interface.

Only the browser window that `ralph web` opened may send requests: the address carries a token that works once and is
exchanged for a cookie; Host, Origin and content type are checked. Every page is one shell (`static/index.html`). A
static file is found by comparing names, so no part of a request becomes part of a path.
"""

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping
from contextlib import closing, suppress
from dataclasses import asdict
from html import escape
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from urllib.parse import parse_qs

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ralph.app.pages.watch import ChangedParts, Watcher
from ralph.errors import RalphError
from ralph.web import api
from ralph.web.requests import Settings, message_response

HOST = "127.0.0.1"
MAX_BODY = 1024 * 1024
"""The longest body of a request, in bytes."""
POLL_SECONDS = 1.0
HEARTBEAT = 15.0
"""Seconds after which a comment is sent on a quiet event stream."""
_STEP = 0.2
"""Seconds within which an event stream notices that the server stops."""
_MIN_COMPRESSED = 800
"""Shorter responses are not compressed."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every response."""
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
_REOPEN = "Use the window that `ralph web` opened, or run `ralph web` again."


# --- access ----------------------------------------------------------------------------------------


class _Rejected(Exception):
    """A rejected request: the status, the reason and a hint."""

    def __init__(self, status: int, reason: str, hint: str = _REOPEN) -> None:
        super().__init__(reason)
        self.status, self.reason, self.hint = status, reason, hint


class Guard:
    """The access checks in front of the application; the token works once."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app = app
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie = f"ralph_{port}"
        self._token: str | None = token
        self._secret = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        is_api = _is_api(scope)
        more = {"cache-control": "no-store"} if is_api else {}
        try:
            headers = Headers(scope=scope)
            if self._opens(scope, headers):
                more["set-cookie"] = f"{self._cookie}={self._secret}; HttpOnly; SameSite=Strict; Path=/"
                more["cache-control"] = "no-store"
            if scope["method"] == "POST":
                receive = await _read_body(receive, headers)
        except _Rejected as no:
            response = message_response(no.status, no.reason, no.hint) if is_api else _error_page(no)
            await response(scope, receive, _add_headers(send, {}))
            return
        await self._app(scope, receive, _add_headers(send, more))

    def _opens(self, scope: Scope, headers: Headers) -> bool:
        """Return whether a request exchanges the token for the cookie; raise _Rejected when it may not pass."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise _Rejected(403, "This address is not the one that was opened.")
        path, method = scope["path"], scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            raise _Rejected(405, f"{method} is not supported.", "")
        if method == "POST" or _is_api(scope):
            origins = headers.getlist("origin")
            foreign = [origin for origin in origins if origin != f"http://{hosts[0]}"]
            foreign += [site for site in headers.getlist("sec-fetch-site") if site not in ("same-origin", "none")]
            if foreign or (method == "POST" and not origins):
                raise _Rejected(403, "This request does not come from Ralph's own pages.")
        if (path.startswith("/static/") and method != "POST") or self._has_cookie(headers):
            return False
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if path != "/" or method != "GET" or not token:
            raise _Rejected(401 if _is_api(scope) else 403, "This window is not the one that was opened.")
        if self._token is None or not _equal(token, self._token):
            raise _Rejected(403, "Link expired: it was already used, or is not the one that was printed.")
        self._token = None
        return True

    def _has_cookie(self, headers: Headers) -> bool:
        for line in headers.getlist("cookie"):
            with suppress(CookieError):
                morsel = SimpleCookie(line).get(self._cookie)
                if morsel is not None and _equal(morsel.value, self._secret):
                    return True
        return False


def _is_api(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == "/api" or path.startswith("/api/")


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


async def _read_body(receive: Receive, headers: Headers) -> Receive:
    """Read the body and return a receiver that repeats it; raise _Rejected when it is too long or not JSON."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _Rejected(415, "A request that changes something must be JSON.", "Reload the page and try again.")
    too_long = _Rejected(413, "This is more than 1 MiB.", "Make it shorter.")
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > MAX_BODY:
        raise too_long
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise too_long
        more = message["type"] == "http.request" and message.get("more_body", False)
    rest: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def receive_again() -> MutableMapping[str, object]:
        return rest.pop() if rest else await receive()

    return receive_again


def _add_headers(send: Send, more: Mapping[str, str]) -> Send:
    added = [(name.encode(), value.encode()) for name, value in {**HEADERS, **more}.items()]
    names = {name for name, _ in added}

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
            if all(name.lower() != b"cache-control" for name, _ in (*headers, *added)):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*headers, *added]}
        await send(message)

    return send_with_headers


def _error_page(no: _Rejected) -> Response:
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Ralph</title>'
        f"<h1>Access denied</h1><p>{escape(no.reason)}</p><p>{escape(no.hint)}</p></html>",
        no.status,
    )


# --- events ----------------------------------------------------------------------------------------


async def events(request: Request) -> Response:
    """Send what changes as server-sent events."""
    return StreamingResponse(_stream(request), media_type="text/event-stream")


async def _stream(request: Request) -> AsyncIterator[str]:
    state = request.app.state
    watcher = Watcher(state.root)
    yield "retry: 2000\n\n"
    last = time.monotonic()
    while not state.ending() and not await request.is_disconnected():
        news = await run_in_threadpool(_look, watcher)
        lines = [_event("changed", {"what": news.changed})] if news.changed else []
        lines += [_event("run", asdict(row)) for row in news.runs]
        if not lines and time.monotonic() - last >= HEARTBEAT:
            lines = [": still here\n\n"]
        if lines:
            yield "".join(lines)
            last = time.monotonic()
        rest = getattr(state, "pace", POLL_SECONDS)
        while rest > 0 and not state.ending():
            await anyio.sleep(min(_STEP, rest))
            rest -= _STEP


def _look(watcher: Watcher) -> ChangedParts:
    try:
        return watcher.look()
    except (RalphError, OSError):  # it may be readable the next time
        return ChangedParts()


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=True)}\n\n"


# --- application -----------------------------------------------------------------------------------


def build_app(root: Path, *, port: int, token: str) -> Starlette:
    """Return the application for a project, which the token opens once."""
    app = Starlette(
        routes=[
            Route("/api/events", events),
            *api.ROUTES,
            Route("/api/{path:path}", _not_found),
            Route("/static/{path:path}", _static),
            Route("/{path:path}", _shell),
        ],
        middleware=[
            Middleware(Guard, port=port, token=token),
            Middleware(GZipMiddleware, minimum_size=_MIN_COMPRESSED, compresslevel=5),
        ],
    )
    app.state.root = root
    app.state.settings = Settings(root)
    app.state.ending = lambda: False
    return app


def serve(root: Path, *, port: int, token: str, opened: Callable[[str], None]) -> None:
    """Serve until interrupted; `opened` receives the address as soon as requests are accepted."""
    with closing(bind_socket(port)) as listening:
        bound_port = listening.getsockname()[1]
        app = build_app(root, port=bound_port, token=token)
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            http="h11",
            ws="none",
            timeout_graceful_shutdown=3,
        )
        server = uvicorn.Server(config)
        app.state.ending = lambda: server.should_exit
        opened(f"http://{HOST}:{bound_port}/?token={token}")
        server.run(sockets=[listening])


def bind_socket(port: int) -> socket.socket:
    """Return a listening socket on loopback; IPPROTO_TCP is explicit, or asyncio would not disable Nagle."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the second packet waits 40 ms
        listening.bind((HOST, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise RalphError(f"port {port} cannot be used: {why}", hint="leave --port out to get a free one") from error
    return listening


async def _not_found(request: Request) -> Response:
    return message_response(404, f"There is nothing at {request.url.path[:200]}.", "Reload the page.")


async def _static(request: Request) -> Response:
    file = _find_static(request.path_params["path"])
    return message_response(404, "There is no such file.") if file is None else _file_response(request, file)


async def _shell(request: Request) -> Response:
    """Return the shell, which loads the page for its address."""
    file = _find_static("index.html")
    if file is None:
        return HTMLResponse("<!doctype html><title>Ralph</title><p>This installation has no pages.</p>", 500)
    return _file_response(request, file)


def _find_static(name: str) -> Traversable | None:
    """Return the file of this name below `static/`; names are compared, never joined to a path."""
    here: Traversable = files("ralph.web") / "static"
    for part in name.split("/"):
        below = next((entry for entry in here.iterdir() if entry.name == part), None) if here.is_dir() else None
        if below is None:
            return None
        here = below
    return here if here.is_file() and here.name.rpartition(".")[2] in _TYPES else None


def _file_response(request: Request, file: Traversable) -> Response:
    """Return a file, or 304 when the browser has it."""
    content = file.read_bytes()
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in (each.strip() for each in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[file.name.rpartition(".")[2]], headers=headers)
