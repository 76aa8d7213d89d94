"""Run the server over standard input and output, or at an address on this machine.

Over pipes the server ends when its client does. A line that is no message is answered as JSON-RPC asks: the SDK would
drop it, and the client would wait for ever. At an address the SDK checks Host and Origin (a page in a browser can send
requests to this machine), and we the token. A token that stays comes from a variable or a file that only its owner can
read, never from the command line, which every user of a machine can see.
"""

import contextlib
import hmac
import json
import os
import re
import secrets
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ralph.errors import Conflict, Refused, Unreadable, UsageError
from ralph.mcp.server import build

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HOST, PATH = "127.0.0.1", "/mcp"
VARIABLE = "RALPH_MCP_TOKEN"
SHORTEST, LONGEST = 32, 512
"""Characters of a token."""
_RANDOM_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
"""What may follow `Bearer` (RFC 6750)."""
_SCHEME = "bearer "
_PIECES = 64
"""Pieces of a refused request that are still read: a connection closed before that loses the answer."""

Incoming = SessionMessage | Exception

# --- standard input and output -------------------------------------------------------------------


def over_pipes(explicit: Path | None, env: Mapping[str, str], *, read_only: bool) -> None:
    """Serve the client that started us, until it ends."""
    # The thread that waits for input cannot be woken: an interrupt must end the process, not wait for that thread.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server = build(explicit, env, read_only=read_only)

    async def main() -> None:
        send, messages = anyio.create_memory_object_stream[Incoming]()
        async with stdio_server() as (incoming, outgoing), anyio.create_task_group() as group:
            group.start_soon(pass_on, incoming, outgoing, send)
            await server.run(messages, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()

    try:
        anyio.run(main)
    except* (BrokenPipeError, anyio.BrokenResourceError):  # the client has gone while we were answering
        pass


class Outgoing(Protocol):
    """Where messages to the client go."""

    async def send(self, item: SessionMessage, /) -> None:
        """Send one."""
        ...


async def pass_on(
    incoming: AsyncIterable[Incoming], outgoing: Outgoing, server: MemoryObjectSendStream[Incoming]
) -> None:
    """Pass messages on to the server until there are no more, and answer what is none."""
    async with server:
        async for item in incoming:
            if isinstance(item, SessionMessage):
                await server.send(item)
            elif (answer := protocol_error(item)) is not None:
                await outgoing.send(SessionMessage(answer))


def protocol_error(error: Exception) -> types.JSONRPCError | None:
    """Return the answer to what is no message; None for an empty line."""
    problems = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    broken = next((each for each in problems if each["type"] == "json_invalid"), None)
    code, text, message = types.INVALID_REQUEST, "this is no message of JSON-RPC 2.0", None
    if broken is not None:
        line = broken["input"] if isinstance(broken["input"], str) else ""
        if not line.strip():
            return None
        code, text = types.PARSE_ERROR, f"this is no JSON: {broken['ctx']['error']}"
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)  # JavaScript sends half surrogate pairs, which Python reads and the SDK does not
    else:
        message = next((each["input"] for each in problems if each["type"] in ("missing", "model_type")), None)
    # A broken answer has asked nothing: its id would be taken for one of the client's own requests.
    name = message.get("id") if isinstance(message, Mapping) and "method" in message else None
    request = name if isinstance(name, int | str) and not isinstance(name, bool) else None
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=types.ErrorData(code=code, message=text))


# --- an address ----------------------------------------------------------------------------------


def at_an_address(
    explicit: Path | None, env: Mapping[str, str], *, port: int, read_only: bool, token_file: Path | None = None
) -> None:
    """Serve whoever knows the token, on this machine only, until interrupted."""
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings

    token = choose_token(env, token_file)
    with bound(port) as listening:
        own = listening.getsockname()[1]
        server = build(explicit, env, read_only=read_only, one_client=False)
        hosts = [f"{HOST}:{own}", f"localhost:{own}"]
        settings = TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts])
        app = server.streamable_http_app(streamable_http_path=PATH, transport_security=settings)
        shown = f"(the token of {token.where})" if token.where else token.value
        sys.stderr.write(f"http://{HOST}:{own}{PATH}\nAuthorization: Bearer {shown}\n")
        sys.stderr.flush()
        guarded = TokenCheck(app, token.value)
        config = uvicorn.Config(guarded, log_level="warning", timeout_graceful_shutdown=2, lifespan="on", ws="none")
        with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is how it is ended
            uvicorn.Server(config).run(sockets=[listening])


def bound(port: int) -> socket.socket:
    """Return a socket of this machine alone; port 0 is a free one. Answers never wait for an acknowledgement."""
    try:
        listening = socket.create_server((HOST, port))
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # whom it accepts inherits it
        return listening
    except OSError as error:
        hint = "name another port, or leave --port out for a free one"
        raise Conflict(f"port {port} cannot be used: {error.strerror}", hint=hint) from error


class TokenCheck:
    """Passes requests with the token on, and refuses the others without a word about the server."""

    def __init__(self, app: "ASGIApp", token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Pass a request on, or answer 401; what is no request is the server's own start and end."""
        problem = self._problem(scope) if scope["type"] == "http" else ""
        if not problem:
            await self._app(scope, receive, send)
            return
        for _ in range(_PIECES):
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body"):
                break
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": f"{problem}\n".encode()})

    def _problem(self, scope: "Scope") -> str:
        given = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if len(given) != 1 or given[0][: len(_SCHEME)].lower() != _SCHEME.encode():
            return "send the token of this server, as `Authorization: Bearer TOKEN`"
        if not hmac.compare_digest(given[0][len(_SCHEME) :].strip(), self._token):
            return "this is not the token of this server"
        return ""


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and where its user finds it; "" for one that is printed."""

    value: str
    where: str = ""


def choose_token(env: Mapping[str, str], path: Path | None) -> Token:
    """Return the token of the file, else of the variable, else a new one."""
    if path is not None:
        return Token(_token_of_file(path), str(path))
    if VARIABLE in env:
        return Token(_checked(env[VARIABLE].strip(), f"${VARIABLE}"), f"${VARIABLE}")
    return Token(secrets.token_urlsafe(_RANDOM_BYTES))


def _checked(value: str, where: str) -> str:
    """Return a token that can be sent and not be guessed; errors never show it."""
    if not value:
        raise UsageError(f"{where} holds no token", hint="put one there, or leave it out: one is made at each start")
    if not _TOKEN.fullmatch(value):
        hint = "letters, digits and . _ ~ + / - = can be sent, on one line"
        raise UsageError(f"{where} holds what is no token", hint=hint)
    if not SHORTEST <= len(value) <= LONGEST:
        hint = f"it has {SHORTEST} to {LONGEST} characters; `openssl rand -hex 32` prints a good one"
        raise UsageError(f"{where} holds a token of {len(value)} characters", hint=hint)
    return value


def _token_of_file(path: Path) -> str:
    from ralph.store import files

    text = _read(path)
    if text is None:
        files.make_folder(path.parent, 0o700)
        files.update(
            path, lambda there: there or f"{secrets.token_urlsafe(_RANDOM_BYTES)}\n", mode=files.PRIVATE
        )  # two servers may start at once
        text = _read(path)
    return _checked((text or "").strip(), str(path))


def _read(path: Path) -> str | None:
    """Return the content of the file; None when there is none, Refused when others can read it."""
    try:
        _check_owner(path, path.stat())  # before it is opened: a pipe would wait for somebody
        with path.open("rb") as file:
            _check_owner(path, os.fstat(file.fileno()))
            return file.read(LONGEST * 2).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror}", hint="name a file of your own") from error


def _check_owner(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path}: is no regular file", hint="name another one")
    if os.name != "posix":
        return
    if status.st_mode & 0o077:
        hint = f"make a new one: remove it and start again; or, if nobody has read it: chmod 600 {path}"
        raise Refused(f"{path}: others can read or write it (mode {stat.S_IMODE(status.st_mode):04o})", hint=hint)
    if status.st_uid not in (os.geteuid(), 0):
        raise Refused(f"{path}: belongs to somebody else", hint="name a file of your own")
