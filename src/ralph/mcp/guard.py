"""Who may speak to a server at an address: whoever names this machine, comes from no other page, and has the token.

A page in a browser can send requests to this machine, and a name that leads here makes it look like its own (DNS
rebinding): so the Host and the Origin must be ours, whatever else is right. The token is compared in constant time.
An answer says in a sentence what was wrong, and nothing about the server. Proof: `tests/mcp_server/test_http.py`.
"""

import hmac
from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

_SCHEME = "bearer "
_PATIENCE = 64
"""Pieces of a request that are read though it is refused."""


def origins(hosts: Sequence[str]) -> list[str]:
    """What a browser would say of pages that we serve ourselves."""
    return [f"http://{host}" for host in hosts]


class Guard:
    """Lets requests through that may pass, and answers the others."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str], token: str) -> None:
        self._app = app
        self._hosts = {host.encode() for host in hosts}
        self._origins = {origin.encode() for origin in origins(hosts)}
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or say why not; what is no request is the server's own start and end."""
        status, why = self._judged(scope["headers"]) if scope["type"] == "http" else (0, "")
        if not status:
            await self._app(scope, receive, send)
            return
        await _heard_out(receive)
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": f"{why}\n".encode()})

    def _judged(self, headers: Sequence[tuple[bytes, bytes]]) -> tuple[int, str]:
        """The status of a refusal and its reason; 0 when the request may pass."""
        said: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            said.setdefault(name.lower(), []).append(value)
        if len(said.get(b"host", [])) != 1 or said[b"host"][0] not in self._hosts:
            return 403, "this server answers only to its own address"
        if any(origin not in self._origins for origin in said.get(b"origin", [])):
            return 403, "this server does not answer to other pages"
        given = said.get(b"authorization", [])
        if len(given) != 1 or given[0][: len(_SCHEME)].lower() != _SCHEME.encode():
            return 401, "send the token of this server, as `Authorization: Bearer TOKEN`"
        if not hmac.compare_digest(given[0][len(_SCHEME) :].strip(), self._token):
            return 401, "this is not the token of this server"
        return 0, ""


async def _heard_out(receive: Receive) -> None:
    """Read what a refused request still sends, within bounds: a connection closed before that loses the answer."""
    for _ in range(_PATIENCE):
        message = await receive()
        if message["type"] != "http.request" or not message.get("more_body"):
            return
