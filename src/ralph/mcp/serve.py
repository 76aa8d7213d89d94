"""Run the server: over standard input and output, or at an address on this machine.

Over pipes the server ends when its client does: the end of its input is its end. Whatever is printed goes to stderr,
since standard output belongs to the protocol (the SDK turns it aside); what is no message is `wire.py`'s. At an address
there is more to guard against, which is `guard.py`'s, and a token to be kept, which is `token.py`'s. Proof:
`tests/mcp_server/test_stdio.py` and `tests/mcp_server/test_http.py`, with real processes.
"""

import contextlib
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
from mcp.server.stdio import stdio_server

from ralph.errors import Conflict
from ralph.mcp.server import build
from ralph.mcp.wire import Heard, pass_on

HOST = "127.0.0.1"
PATH = "/mcp"


def over_pipes(explicit: Path | None, env: Mapping[str, str], *, read_only: bool) -> None:
    """Serve the client that started us, until it ends."""
    # The thread that waits for input cannot be woken: an interrupt must end the process, not wait for that thread.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = build(explicit, env, read_only=read_only)

    async def main() -> None:
        send, messages = anyio.create_memory_object_stream[Heard]()
        async with stdio_server() as (hear, say), anyio.create_task_group() as group:
            group.start_soon(pass_on, hear, say, send)
            await server.run(messages, say, server.create_initialization_options())
            group.cancel_scope.cancel()

    try:
        anyio.run(main)
    except* (BrokenPipeError, anyio.BrokenResourceError):  # the client has gone while we were answering
        pass


def at_an_address(
    explicit: Path | None, env: Mapping[str, str], *, port: int, read_only: bool, token_file: Path | None = None
) -> None:
    """Serve whoever knows the token, on this machine only, until interrupted."""
    import uvicorn  # noqa: PLC0415  (few serve at an address)
    from mcp.server.transport_security import TransportSecuritySettings  # noqa: PLC0415  (the same)

    from ralph.mcp import token as tokens  # noqa: PLC0415  (the same)
    from ralph.mcp.guard import Guard, origins  # noqa: PLC0415  (the same)

    token = tokens.chosen(env, token_file)
    with bound(port) as listening:
        own = listening.getsockname()[1]
        server = build(explicit, env, read_only=read_only, one_client=False)
        hosts = [f"{HOST}:{own}", f"localhost:{own}"]
        settings = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins(hosts))
        app = server.streamable_http_app(streamable_http_path=PATH, transport_security=settings)
        told = f"(the token of {token.where})" if token.where else token.value
        sys.stderr.write(f"http://{HOST}:{own}{PATH}\nAuthorization: Bearer {told}\n")
        sys.stderr.flush()
        guarded = Guard(app, hosts, token.value)
        config = uvicorn.Config(guarded, log_level="warning", timeout_graceful_shutdown=2, lifespan="on", ws="none")
        with contextlib.suppress(KeyboardInterrupt):  # that is how one ends it
            uvicorn.Server(config).run(sockets=[listening])


def bound(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 is a free one. Its answers never wait for an acknowledgement (Nagle)."""
    try:
        listening = socket.create_server((HOST, port))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # whom it accepts inherits it
        return listening
    except OSError as error:
        hint = "name another port, or leave --port out for a free one"
        raise Conflict(f"port {port} cannot be used: {error.strerror}", hint=hint) from error
