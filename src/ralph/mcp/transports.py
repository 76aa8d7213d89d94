"""Run the MCP server over standard input and output, or at an address on this machine.

At an address, the SDK checks Host and Origin, and this module checks a token. The token is never
passed on the command line, which every user of the machine can read.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server.stdio import stdio_server

from ralph.core.errors import UsageError
from ralph.mcp.server import build

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
VARIABLE = "RALPH_MCP_TOKEN"
_USABLE_VALUE = r"[A-Za-z0-9._~+/-]{32,512}"
"""A token that may follow `Bearer` (RFC 6750) and is long enough to be hard to guess."""
_TOKEN_BYTES = 32  # in a newly generated token
_SCHEME = b"bearer "
_MAX_DISCARDED_MESSAGES = 64
"""How many parts of a refused request are still read.

If the connection were closed earlier, the client would not receive the answer.
"""


def serve_stdio(explicit: Path | None, env: Mapping[str, str], *, read_only: bool) -> None:
    """Serve the client that started this process, until it disconnects."""
    # The thread that waits for input cannot be woken, so an interrupt must kill the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = build(explicit, env, read_only=read_only)

    async def main() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    try:
        anyio.run(main)
    except* (BrokenPipeError, anyio.BrokenResourceError):
        pass  # the client disconnected before it got its answer


def serve_http(
    explicit: Path | None,
    env: Mapping[str, str],
    listening: socket.socket,
    options: Mapping[str, Any],
    *,
    read_only: bool,
) -> None:
    """Serve clients that have the token until interrupted, on this machine only.

    `options` are passed to uvicorn. Raises UsageError if the environment has an unusable token.
    """
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    from ralph.core.announced_server import AnnouncedServer

    token, is_permanent = choose_token(env)
    port = listening.getsockname()[1]
    server = build(explicit, env, read_only=read_only, one_client=False)
    hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
    settings = TransportSecuritySettings(
        allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
    )
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=settings)
    shown_token = token
    if is_permanent:
        shown_token = f"(the token of ${VARIABLE})"

    def announce() -> None:
        sys.stderr.write(f"http://{hosts[0]}{PATH}\nAuthorization: Bearer {shown_token}\n")
        sys.stderr.flush()

    guarded = _require_token(app, token.encode())
    config = uvicorn.Config(guarded, lifespan="on", **options)
    with suppress(KeyboardInterrupt):  # Ctrl-C stops the server
        AnnouncedServer(config, announce).run(sockets=[listening])


def _require_token(app: ASGIApp, token: bytes) -> ASGIApp:
    """Wrap an application so that it refuses requests without the token."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        problem = ""
        if scope["type"] == "http":  # other scopes are the server's own startup and shutdown
            problem = _find_token_problem(scope, token)
        if not problem:
            await app(scope, receive, send)
            return
        for _ in range(_MAX_DISCARDED_MESSAGES):
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"www-authenticate", b"Bearer"),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": f"{problem}\n".encode()})

    return guarded


def _find_token_problem(scope: Scope, token: bytes) -> str:
    """Describe the problem with a request's authorization, or return "" if there is none."""
    values = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
    if len(values) != 1 or values[0][: len(_SCHEME)].lower() != _SCHEME:
        return "send the token of this server, as `Authorization: Bearer TOKEN`"
    import hmac  # only for HTTP

    if not hmac.compare_digest(values[0][len(_SCHEME) :].strip(), token):
        return "this is not the token of this server"
    return ""


def choose_token(env: Mapping[str, str]) -> tuple[str, bool]:
    """Return the token to require, and whether it is permanent.

    The token is read from the environment variable. If that is not set, a new one is generated,
    which is not permanent. Raises UsageError if the variable is set to something that cannot be
    used as a token.
    """
    import re
    import secrets

    if VARIABLE not in env:
        return secrets.token_urlsafe(_TOKEN_BYTES), False
    value = env[VARIABLE].strip()
    if not re.fullmatch(_USABLE_VALUE, value):
        raise UsageError(
            f"${VARIABLE} is not a token that can be sent and is hard to guess",
            hint="use 32 to 512 letters, digits and . _ ~ + / - "
            "(`openssl rand -hex 32` prints some), or unset the variable",
        )
    return value, True
