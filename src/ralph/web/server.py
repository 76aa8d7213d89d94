"""The web application: which routes there are, the pages' files, and the server on this machine's loopback.

Every page is one shell (`static/index.html`), which asks the API. A static file is found by walking down the folder
of the package, comparing names with those that are there: no word of a request ever becomes part of a path. The
socket is bound before the application is made, since the guard must know the port. `tests/web/test_site.py` drives
it over HTTP, `tests/cli/test_web.py` as a process of its own.
"""

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import closing
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

# NOTE: Who may ask: this machine's browser, from the page that `ralph web` opened, and nobody else.

MAX_BODY = 1024 * 1024
"""The longest body of a request, in bytes."""

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
"""What every answer says."""

_OURS = ("same-origin", "none")
_OPENED = "Use the window that `ralph web` opened, or run `ralph web` again."


class _Rejected(Exception):
    """A request that is refused: the status, and why in a sentence."""

    def __init__(self, status: int, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.status, self.why, self.hint = status, why, hint


class Guard:
    """The application behind the checks; `token` opens it once."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app = app
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie = f"ralph_{port}"
        self._token: str | None = token
        self._secret = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = _is_below(scope["path"], "/api")
        more = {"cache-control": "no-store"} if is_api else {}
        try:
            headers = _Headers(scope["headers"])
            if self._enters(scope, headers):
                more["set-cookie"] = f"{self._cookie}={self._secret}; HttpOnly; SameSite=Strict; Path=/"
                more["cache-control"] = "no-store"
            if scope["method"] == "POST":
                receive = await _read_body(receive, headers)
        except _Rejected as no:
            answer = message_response(no.status, no.why, no.hint) if is_api else _error_page(no)
            await answer(scope, receive, _add_headers(send, {}))
            return
        await self._app(scope, receive, _add_headers(send, more))

    def _enters(self, scope: Scope, headers: "_Headers") -> bool:
        """Whether a request opens the pages with the token; _No for one that may not come in at all."""
        host = self._host(headers)
        path, method = scope["path"], scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            raise _Rejected(405, f"{method} is not something that can be done here.")
        if method == "POST" or _is_below(path, "/api"):
            _check_origin(headers, host, must=method == "POST")
        if path.startswith("/static/") and method != "POST":
            return False
        if self._is_known(headers):
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if path == "/" and method == "GET" and given:
            self._use(given)
            return True
        raise _Rejected(401 if _is_below(path, "/api") else 403, "This window is not the one that was opened.", _OPENED)

    def _host(self, headers: "_Headers") -> str:
        named = headers.all("host")
        if len(named) != 1 or named[0] not in self._hosts:
            raise _Rejected(403, "This address is not the one that was opened.", _OPENED)
        return named[0]

    def _is_known(self, headers: "_Headers") -> bool:
        """Whether the cookie is there; one that has the pages open may also reload the address it came from."""
        for line in headers.all("cookie"):
            try:
                morsel = SimpleCookie(line).get(self._cookie)
            except CookieError:
                continue
            if morsel is not None and _equal(morsel.value, self._secret):
                return True
        return False

    def _use(self, given: str) -> None:
        """Take the token, which is good for once."""
        if self._token is None or not _equal(given, self._token):
            raise _Rejected(403, "This address was used already, or is not the one that was printed.", _OPENED)
        self._token = None


class _Headers:
    """The headers of a request, each with all its values."""

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self._raw = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]

    def all(self, wanted: str) -> list[str]:
        return [value for name, value in self._raw if name == wanted]

    def one(self, wanted: str) -> str:
        return next(iter(self.all(wanted)), "")


def _check_origin(headers: _Headers, host: str, *, must: bool) -> None:
    """_No for a request from somebody else's page; what changes something must say that it is from ours."""
    foreign = [value for value in headers.all("origin") if value != f"http://{host}"]
    elsewhere = [value for value in headers.all("sec-fetch-site") if value not in _OURS]
    if foreign or elsewhere or (must and not headers.all("origin")):
        raise _Rejected(403, "This request does not come from Ralph's own pages.", _OPENED)


async def _read_body(receive: Receive, headers: _Headers) -> Receive:
    """The body, read as far as it may go and handed on; _No when it is too long or not JSON."""
    kind = headers.one("content-type").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _Rejected(415, "A request that changes something must be JSON.", "Reload the page and try again.")
    length = headers.one("content-length")
    if length.isdigit() and int(length) > MAX_BODY:
        raise _too_long()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            raise _too_long()
        if not message.get("more_body", False):
            break
    rest: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> MutableMapping[str, object]:
        return rest.pop() if rest else await receive()

    return again


def _too_long() -> _Rejected:
    return _Rejected(413, "This is more than 1 MiB, which is more than is taken at once.", "Make it shorter.")


def _add_headers(send: Send, more: Mapping[str, str]) -> Send:
    """Add to an answer what every answer says."""
    added = [(name.encode(), value.encode()) for name, value in {**HEADERS, **more}.items()]
    ours = {name for name, _ in added}

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [each for each in message.get("headers", ()) if each[0].lower() not in ours]
            if all(name.lower() != b"cache-control" for name, _ in (*kept, *added)):
                kept.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*kept, *added]}
        await send(message)

    return sending


def _error_page(no: _Rejected) -> Response:
    """A refusal as a person reads it."""
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Ralph</title>'
        f"<h1>Not from here</h1><p>{escape(no.why)}</p><p>{escape(no.hint)}</p></html>",
        no.status,
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


# NOTE: Server-sent events: the open pages are told what changed, about a second after it did.

POLL_SECONDS = 1.0
"""Seconds between two looks."""
HEARTBEAT = 15.0
"""Seconds after which a quiet line says that it is there."""
_STEP = 0.2
"""Seconds in which the end of the server is noticed."""


async def events(request: Request) -> Response:
    """What changes, for as long as somebody listens."""
    return StreamingResponse(_stream(request), media_type="text/event-stream")


async def _stream(request: Request) -> AsyncIterator[str]:
    state = request.app.state
    watcher = Watcher(state.root)
    pace = getattr(state, "pace", POLL_SECONDS)
    yield "retry: 2000\n\n"
    spoken = time.monotonic()
    while not state.ending() and not await request.is_disconnected():
        for text in _changed_events(await run_in_threadpool(_look, watcher)):
            yield text
            spoken = time.monotonic()
        if time.monotonic() - spoken >= HEARTBEAT:
            yield ": still here\n\n"
            spoken = time.monotonic()
        rest = pace
        while rest > 0 and not state.ending():
            await anyio.sleep(min(_STEP, rest))
            rest -= _STEP


def _look(watcher: Watcher) -> ChangedParts:
    """What changed; what cannot be read now may be read the next time."""
    try:
        return watcher.look()
    except (RalphError, OSError):
        return ChangedParts()


def _changed_events(news: ChangedParts) -> Iterator[str]:
    if news.changed:
        yield _event("changed", {"what": news.changed})
    for row in news.runs:
        yield _event("run", asdict(row))


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=True)}\n\n"


routes: list[Route] = [Route("/api/events", events)]

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
    *routes,
    *api.record_routes,
    *api.change_routes,
    *api.board_routes,
    *api.session_routes,
    *api.run_routes,
    *api.context_routes,
    *api.graph_routes,
]
_MIN_COMPRESSED = 800
"""Below so many bytes an answer is not compressed."""


def build_app(root: Path, *, port: int, token: str) -> Starlette:
    """The application for a project; whoever has the token may come in, once."""
    app = Starlette(
        routes=[*_API, Route("/api/{path:path}", _not_found), Route("/static/{path:path}", _static), _SHELL],
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
    """Answer until somebody ends it; `opened` is told the address once requests can come."""
    with closing(bind_socket(port)) as listening:
        own = listening.getsockname()[1]
        app = build_app(root, port=own, token=token)
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
        opened(f"http://{HOST}:{own}/?token={token}")
        server.run(sockets=[listening])


def bind_socket(port: int) -> socket.socket:
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


async def _not_found(request: Request) -> Response:
    return message_response(404, f"There is nothing at {request.url.path[:200]}.", "Reload the page.")


async def _static(request: Request) -> Response:
    """One of the pages' files."""
    found = _find_static(request.path_params["path"])
    return message_response(404, "There is no such file.") if found is None else _file_response(request, found)


async def _shell(request: Request) -> Response:
    """The page that all pages are."""
    found = _find_static("index.html")
    if found is None:
        return HTMLResponse("<!doctype html><title>Ralph</title><p>This installation has no pages.</p>", 500)
    return _file_response(request, found)


_SHELL = Route("/{path:path}", _shell)


def _find_static(name: str) -> Traversable | None:
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


def _file_response(request: Request, found: Traversable) -> Response:
    """A file, unless the browser has it already."""
    content = found.read_bytes()
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in (each.strip() for each in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[found.name.rpartition(".")[2]], headers=headers)
