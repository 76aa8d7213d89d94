"""The access checks in front of the web application.

Only a browser window that `ralph web` opened may send requests. The address it opens has a token,
which works once and is exchanged for a cookie. Further tokens (`ralph web --link`) are signed with
a key that only the user can read. A request must also name this server as its host and, if it
changes something, come from one of its own pages. Otherwise any web site could send requests to it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ralph.web.requests import message_response

SECRET_BYTES = 32
_WEBSOCKET_POLICY_VIOLATION = 1008
_REOPEN = "Use the window that `ralph web` opened, or run `ralph web --link` for another one."
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


class _Rejected(Exception):
    """A rejected request, with the status, the reason and a hint."""

    def __init__(self, status: int, reason: str, hint: str = _REOPEN) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.hint = hint


class Guard:
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
        self._secret = secrets.token_urlsafe(SECRET_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the application, or reject it."""
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
        is_valid = _equal(token, self._token) or _equal(token, sign_token(self._key, name))
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


def sign_token(key: str, name: str) -> str:
    """Return a token that the server with this key accepts once."""
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
