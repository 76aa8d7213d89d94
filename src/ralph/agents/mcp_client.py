"""Check whether MCP servers work, with the protocol's SDK (the extra `mcp`).

A check shakes hands and calls no tool. The SDK leaves processes behind and hides a 401 behind a general error, so
`AsyncProcess` starts programs and HTTP answers are observed. Any exception of the SDK means that the server failed.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import ClientSession, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, Implementation, jsonrpc_message_adapter
from mcp_types.version import LATEST_MODERN_VERSION

from ralph import __version__
from ralph.agents import client, process
from ralph.agents.process import AsyncProcess
from ralph.model.work import McpServer, ServerAnswer, ServerStatus, Transport

SECONDS = 5.0  # how long one server may take to answer
_Streams = tuple[Any, Any]  # the SDK keeps their types private
_CLIENT = Implementation(name="ralph", version=__version__)

_ERROR_LENGTH = 300
_NEEDS_AUTH = {401: "it wants to know who you are (401)", 403: "it does not let you in (403)"}

# The SDK logs what we report in the answer; without a handler Python would print it.
logging.getLogger("mcp").addHandler(logging.NullHandler())


def check_servers(
    servers: Sequence[McpServer], folder: Path, env: Mapping[str, str], *, seconds: float = SECONDS
) -> dict[str, ServerAnswer]:
    """Return each server's answer by name; programs start in the folder."""
    # what Claude Code starts a server with: its own environment and the project's folder
    env = client.without_session(env) | {"CLAUDE_PROJECT_DIR": str(folder)}
    checks = [_ServerCheck(server, folder, env, seconds) for server in servers]

    async def run_all() -> None:
        errors = await asyncio.gather(*(check.run() for check in checks), return_exceptions=True)
        for check, error in zip(checks, errors, strict=True):
            check.error = error

    try:
        with asyncio.Runner() as runner:
            runner.run(run_all())
    finally:
        for check in checks:  # an interrupt may have left a program running
            if check.program is not None and check.program.popen.returncode is None:
                check.program.kill()
    return {server.name: check.answer() for server, check in zip(servers, checks, strict=True)}


class _ServerCheck:
    def __init__(self, server: McpServer, folder: Path, env: Mapping[str, str], seconds: float) -> None:
        self.error: BaseException | None = None
        self._server, self._folder, self._env, self._seconds = server, folder, env, seconds
        self.program: AsyncProcess | None = None
        self._connected = False
        self._codes: list[int] = []
        self._error_output = ""

    async def run(self) -> None:
        if self._server.way is not Transport.STDIO:
            with anyio.fail_after(self._seconds):
                await self._connect_url()
            return
        env = {**self._env, **dict(self._server.env)}
        program = self.program = AsyncProcess(self._server.command, self._folder, env)
        try:
            with anyio.fail_after(self._seconds):
                reader, writer = await program.connect()
                async with _message_streams(reader, writer) as streams:
                    await self._initialize(*streams)
        finally:
            with anyio.CancelScope(shield=True):
                await program.close()
                errors = "" if self._connected else await program.error_output()
                self._error_output = " ".join(errors.split())[-_ERROR_LENGTH:]

    def answer(self) -> ServerAnswer:
        if self._connected:
            return ServerAnswer(ServerStatus.RUNNING)
        for code in self._codes:
            if code in _NEEDS_AUTH:
                return ServerAnswer(ServerStatus.NEEDS_AUTH, _NEEDS_AUTH[code])
        error = self.error or RuntimeError("it ended without an answer")
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        bad_code = next((code for code in self._codes if code >= 400), 0)
        if isinstance(error, TimeoutError):
            message = f"no answer within {self._seconds:g} s"
        elif bad_code:
            message = f"the server answers with {bad_code}"
        elif self._server.way is Transport.STDIO and isinstance(error, OSError):
            message = process.describe_start_error(self._server.command, self._folder, error)
        else:
            message = " ".join(str(error).split()) or type(error).__name__
        message = f"{message}: {self._error_output}" if self._error_output else message
        return ServerAnswer(ServerStatus.FAILED, message[:_ERROR_LENGTH])

    async def _connect_url(self) -> None:
        if self._server.way is Transport.SSE:
            async with sse_client(self._server.url, httpx_client_factory=self._client) as streams:
                await self._initialize(*streams)
        else:
            async with self._client() as http, streamable_http_client(self._server.url, http_client=http) as streams:
                await self._initialize(*streams)

    def _client(self, headers: object = None, timeout: object = None, auth: object = None) -> httpx2.AsyncClient:
        async def on_response(response: httpx2.Response) -> None:
            if not self._connected:
                self._codes.append(response.status_code)

        return httpx2.AsyncClient(
            headers=dict(self._server.headers),
            timeout=httpx2.Timeout(self._seconds),
            event_hooks={"response": [on_response]},
        )

    async def _initialize(self, incoming: Any, outgoing: Any) -> None:
        """Shake hands as all servers do, else as the newest ones."""
        async with ClientSession(incoming, outgoing, client_info=_CLIENT) as session:
            try:
                await session.initialize()
            except MCPError as error:
                if error.code not in (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION):
                    raise
                await session.send_discover(LATEST_MODERN_VERSION)
            self._connected = True


@contextlib.asynccontextmanager
async def _message_streams(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[_Streams]:
    """Connect a program's pipes to the SDK; lines that are no messages are skipped."""
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_send = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        async with received:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                while line := await reader.readline():
                    with contextlib.suppress(ValueError):
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                        await received.send(SessionMessage(message))

    async def send() -> None:
        async with to_send:
            with contextlib.suppress(OSError):  # it has ended, which the receiving side notices
                async for message in to_send:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    writer.write(line.encode("utf-8") + b"\n")
                    await writer.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(receive)
        group.start_soon(send)
        try:
            yield incoming, outgoing
        finally:
            group.cancel_scope.cancel()
            incoming.close()
            outgoing.close()
