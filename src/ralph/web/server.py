"""The web application: access checks, events, static files, and the server on the loopback interface.

Only a browser window that `ralph web` opened may send requests: the address carries a token that works once and is
exchanged for a cookie. A further one (`ralph web --link`) is signed with a key that only the user can read. Every page
is one shell (`static/index.html`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
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
from starlette.datastructures import Headers
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

_POLL_SECONDS = 1.0
_HEARTBEAT = 15.0  # seconds after which a comment is sent on a quiet event stream
_STEP = 0.2  # seconds within which an event stream notices that the server stops
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
_NOTE = "web.json"  # in the cache of a checkout: port and key of the server that runs for it
_STATIC = Path(__file__).parent / "static"
_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "txt": "text/plain; charset=utf-8",
}
_REOPEN = "Use the window that `ralph web` opened, or run `ralph web --link` for another one."


class _Rejected(Exception):
    """A rejected request: the status, the reason and a hint."""

    def __init__(self, status: int, reason: str, hint: str = _REOPEN) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.hint = hint


class _Guard:
    """The access checks in front of the application; the token, or one that was signed with the key, works once."""

    def __init__(self, app: ASGIApp, *, port: int, token: str, key: str) -> None:
        self._app = app
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie = f"ralph_{port}"
        self._token = token
        self._key = key
        self._used = set[str]()
        self._secret = secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        is_api = f"{scope['path']}/".startswith("/api/")
        more = {"cache-control": "no-store"} if is_api else {}
        answer = self._app
        headers = Headers(scope=scope)
        try:
            if self._opens(scope, headers, is_api):
                more["set-cookie"] = (
                    f"{self._cookie}={self._secret}; HttpOnly; SameSite=Strict; Path=/"
                )
                more["cache-control"] = "no-store"
        except _Rejected as no:
            page = (
                '<!doctype html><html lang="en"><meta charset="utf-8"><title>Ralph</title>'
                f"<h1>Access denied</h1><p>{escape(no.reason)}</p><p>{escape(no.hint)}</p></html>"
            )
            api_answer = message_response(no.status, no.reason, no.hint)
            answer = api_answer if is_api else HTMLResponse(page, no.status)
        await answer(scope, receive, _add_headers(send, more))

    def _opens(self, scope: Scope, headers: Headers, is_api: bool) -> bool:
        """Return whether a request exchanges the token for the cookie; raise _Rejected when it may not pass."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            raise _Rejected(403, "This address is not the one that was opened.")
        path = scope["path"]
        method = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            raise _Rejected(405, f"{method} is not supported.", "")
        if method == "POST" or is_api:
            origins = headers.getlist("origin")
            foreign = [origin for origin in origins if origin != f"http://{hosts[0]}"]
            foreign += [
                site
                for site in headers.getlist("sec-fetch-site")
                if site not in ("same-origin", "none")
            ]
            if foreign or (method == "POST" and not origins):
                raise _Rejected(403, "This request does not come from Ralph's own pages.")
        if (path.startswith("/static/") and method != "POST") or self._has_cookie(headers):
            return False
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if path != "/" or method != "GET" or not token:
            raise _Rejected(401 if is_api else 403, "This window is not the one that was opened.")
        is_ours = _equal(token, self._token) or _equal(
            token, _sign(self._key, token.partition(".")[0])
        )
        if token in self._used or not is_ours:
            raise _Rejected(
                403, "Link expired: it was already used, or is not the one that was printed."
            )
        self._used.add(token)
        return True

    def _has_cookie(self, headers: Headers) -> bool:
        for line in headers.getlist("cookie"):
            with suppress(CookieError):
                morsel = SimpleCookie(line).get(self._cookie)
                if morsel is not None and _equal(morsel.value, self._secret):
                    return True
        return False


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


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


async def _events(request: Request) -> Response:
    return StreamingResponse(_stream(request), media_type="text/event-stream")


async def _stream(request: Request) -> AsyncIterator[str]:
    state = request.app.state
    watcher = Watcher(state.root)
    yield "retry: 2000\n\n"
    last = time.monotonic()
    while not state.ending() and not await request.is_disconnected():
        changed = list[str]()
        runs = list[Row]()
        with suppress(RalphError, OSError):  # it may be readable the next time
            changed, runs = await run_in_threadpool(watcher.look)
        lines = [_event("changed", {"what": changed})] if changed else []
        lines += [_event("run", row) for row in runs]
        if not lines and time.monotonic() - last >= _HEARTBEAT:
            lines = [": still here\n\n"]
        if lines:
            yield "".join(lines)
            last = time.monotonic()
        rest = getattr(state, "pace", _POLL_SECONDS)
        while rest > 0 and not state.ending():
            await anyio.sleep(min(_STEP, rest))
            rest -= _STEP


def _event(name: str, value: object) -> str:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=True)}\n\n"


def build_app(root: Path, *, port: int, token: str, key: str = "", by: str = "human") -> Starlette:
    """Return the application for a project; the token opens it once, the key signs more; `by` makes the changes."""
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
            Middleware(_Guard, port=port, token=token, key=key or secrets.token_urlsafe(32)),
            Middleware(GZipMiddleware, minimum_size=800, compresslevel=5),
        ],
    )
    app.state.root = root
    app.state.changes = ChangeHistory(root)
    app.state.by = by
    app.state.ending = lambda: False
    return app


def serve(
    root: Path, listening: socket.socket, *, token: str, opened: Callable[[str], None], by: str
) -> None:
    """Serve until interrupted; `opened` receives the address as soon as requests are accepted."""
    port = listening.getsockname()[1]
    note = paths.checkout_cache(root) / _NOTE
    key = secrets.token_urlsafe(32)
    app = build_app(root, port=port, token=token, key=key, by=by)
    config = uvicorn.Config(
        app, access_log=False, server_header=False, lifespan="off", **connection_options()
    )
    server = uvicorn.Server(config)
    app.state.ending = lambda: server.should_exit
    text = json.dumps({"port": port, "key": key})
    with suppress(
        RalphError, OSError
    ):  # where the state folder cannot be written, there are no further links
        files.write(note, text, root=paths.state_boundary(root), mode=files.PRIVATE)
    try:
        opened(f"http://127.0.0.1:{port}/?token={token}")
        server.run(sockets=[listening])
    finally:
        with suppress(RalphError, OSError):
            if files.read(note) == text:
                files.delete(note)


def make_link(root: Path) -> str:
    """Return a further one-time address of the server that runs for this project; NotFound when none does."""
    try:
        note = json.loads(files.read(paths.checkout_cache(root) / _NOTE) or "{}")
        socket.create_connection(("127.0.0.1", int(note["port"])), timeout=5).close()
        return f"http://127.0.0.1:{note['port']}/?token={_sign(note['key'], secrets.token_urlsafe(32))}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotFound(
            "no `ralph web` runs for this project", hint="start it with `ralph web`"
        ) from error


def _sign(key: str, name: str) -> str:
    return f"{name}.{hmac.digest(key.encode(), name.encode(), 'sha256').hex()}"


async def _not_found(request: Request) -> Response:
    return message_response(
        404, f"There is nothing at {request.url.path[:200]}.", "Reload the page."
    )


@cache
def _static_files() -> dict[str, Path]:
    paths = (path for path in _STATIC.rglob("*") if path.is_file() and path.suffix[1:] in _TYPES)
    return {path.relative_to(_STATIC).as_posix(): path for path in paths}


async def _file_response(request: Request) -> Response:
    is_static = request.scope["path"].startswith("/static/")
    path = _static_files().get(request.path_params["path"] if is_static else "index.html")
    if path is None:
        return message_response(404, "There is no such file.")
    content = path.read_bytes()
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in (each.strip() for each in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[path.suffix[1:]], headers=headers)
