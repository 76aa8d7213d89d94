"""Who may ask: this machine's browser, from the page that `ralph web` opened, and nobody else.

Any web page may send requests to a port of this machine, and a name of somebody's may lead here (DNS rebinding). So
each request must name this very host and port; the pages and the API need a cookie that only the opened address
hands out, once, for a token; and what changes something must come from a page of ours, as JSON. What a page may load
or frame is told to the browser with every answer, also with refusals. It is plain ASGI, below everything else, so
that no route can forget it. `tests/web/test_guard.py` tries the ways around it, at the level of HTTP.
"""

import hmac
import secrets
from collections.abc import Iterable, Mapping, MutableMapping
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ralph.web.answers import told

LARGEST = 1024 * 1024
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


class _No(Exception):
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
                receive = await _whole(receive, headers)
        except _No as no:
            answer = told(no.status, no.why, no.hint) if is_api else _page(no)
            await answer(scope, receive, _with(send, {}))
            return
        await self._app(scope, receive, _with(send, more))

    def _enters(self, scope: Scope, headers: "_Headers") -> bool:
        """Whether a request opens the pages with the token; _No for one that may not come in at all."""
        host = self._host(headers)
        path, method = scope["path"], scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            raise _No(405, f"{method} is not something that can be done here.")
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
        raise _No(401 if _is_below(path, "/api") else 403, "This window is not the one that was opened.", _OPENED)

    def _host(self, headers: "_Headers") -> str:
        named = headers.all("host")
        if len(named) != 1 or named[0] not in self._hosts:
            raise _No(403, "This address is not the one that was opened.", _OPENED)
        return named[0]

    def _is_known(self, headers: "_Headers") -> bool:
        """Whether the cookie is there; one that has the pages open may also reload the address it came from."""
        for line in headers.all("cookie"):
            try:
                morsel = SimpleCookie(line).get(self._cookie)
            except CookieError:
                continue
            if morsel is not None and _same(morsel.value, self._secret):
                return True
        return False

    def _use(self, given: str) -> None:
        """Take the token, which is good for once."""
        if self._token is None or not _same(given, self._token):
            raise _No(403, "This address was used already, or is not the one that was printed.", _OPENED)
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
        raise _No(403, "This request does not come from Ralph's own pages.", _OPENED)


async def _whole(receive: Receive, headers: _Headers) -> Receive:
    """The body, read as far as it may go and handed on; _No when it is too long or not JSON."""
    kind = headers.one("content-type").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _No(415, "A request that changes something must be JSON.", "Reload the page and try again.")
    length = headers.one("content-length")
    if length.isdigit() and int(length) > LARGEST:
        raise _too_long()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            break
        body += message.get("body", b"")
        if len(body) > LARGEST:
            raise _too_long()
        if not message.get("more_body", False):
            break
    rest: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def again() -> MutableMapping[str, object]:
        return rest.pop() if rest else await receive()

    return again


def _too_long() -> _No:
    return _No(413, "This is more than 1 MiB, which is more than is taken at once.", "Make it shorter.")


def _with(send: Send, more: Mapping[str, str]) -> Send:
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


def _page(no: _No) -> Response:
    """A refusal as a person reads it."""
    return HTMLResponse(
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Ralph</title>'
        f"<h1>Not from here</h1><p>{escape(no.why)}</p><p>{escape(no.hint)}</p></html>",
        no.status,
    )


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
