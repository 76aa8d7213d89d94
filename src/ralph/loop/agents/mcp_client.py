"""Check whether MCP servers work, using the protocol's SDK (the extra `mcp`).

A check initializes a session but calls no tools. When it is over, the SDK ends a server program and
its process group. Processes that have left the group are found by an environment variable and
killed. The SDK reports a 401 as a generic error, so we observe the HTTP responses ourselves. Any
exception raised by the SDK means that the server failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, assert_never

import anyio
import httpx2
from mcp import ClientSession, MCPError
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, Implementation
from mcp_types.version import LATEST_MODERN_VERSION

from ralph import __version__
from ralph.core import ids, process
from ralph.core.work import McpServer, ServerAnswer, ServerStatus, Transport
from ralph.loop.agents import client
from ralph.storage import files

SECONDS = 5.0  # how long one server may take to answer
_CLIENT = Implementation(name="ralph", version=__version__)
_MAX_ERROR_CHARACTERS = 300
_CHECK_VARIABLE = "RALPH_MCP_CHECK"  # marks the processes that a server started
_NEEDS_AUTH = {401: "it requires a login (401)", 403: "it denies access (403)"}
_FIRST_HTTP_ERROR = 400

# The SDK logs what we report in the answer. Without a handler, Python would print it.
logging.getLogger("mcp").addHandler(logging.NullHandler())


def check_servers(
    servers: Sequence[McpServer], folder: Path, env: Mapping[str, str], *, seconds: float = SECONDS
) -> dict[str, ServerAnswer]:
    """Check several servers at once, and return each server's answer by name.

    Server programs are started in `folder`, and each has `seconds` to respond.
    """
    # Claude Code also passes its own environment and the project folder to a server.
    env = client.without_session(env) | {"CLAUDE_PROJECT_DIR": str(folder)}
    checks = [_ServerCheck(server, folder, env, seconds) for server in servers]

    async def run_all() -> None:
        errors = await asyncio.gather(*(check.run() for check in checks), return_exceptions=True)
        for check, error in zip(checks, errors, strict=True):
            check.error = error

    with asyncio.Runner() as runner:
        runner.run(run_all())
    return {server.name: check.answer() for server, check in zip(servers, checks, strict=True)}


class _ServerCheck:
    """The check of one server."""

    def __init__(
        self, server: McpServer, folder: Path, env: Mapping[str, str], seconds: float
    ) -> None:
        self.error: BaseException | None = None
        self._server = server
        self._folder = folder
        self._env = env
        self._seconds = seconds
        self._connected = False
        self._status_codes: list[int] = []  # of all HTTP responses until the server is connected
        self._error_output = ""

    async def run(self) -> None:
        match self._server.transport:
            case Transport.STDIO:
                await self._check_program()
            case Transport.SSE:
                with anyio.fail_after(self._seconds):
                    await self._connect_sse()
            case Transport.HTTP | Transport.OTHER:
                with anyio.fail_after(self._seconds):
                    await self._connect_http()
            case _:
                assert_never(self._server.transport)

    def answer(self) -> ServerAnswer:
        if self._connected:
            return ServerAnswer(ServerStatus.RUNNING)
        for code in self._status_codes:
            if code in _NEEDS_AUTH:
                return ServerAnswer(ServerStatus.NEEDS_AUTH, _NEEDS_AUTH[code])
        error = self._innermost_error()
        message = self._describe_failure(error)
        if self._error_output:
            message += f": {self._error_output}"
        return ServerAnswer(
            ServerStatus.FAILED,
            message[:_MAX_ERROR_CHARACTERS],
            timed_out=isinstance(error, TimeoutError),
        )

    def _innermost_error(self) -> BaseException:
        error = self.error or RuntimeError("it ended without an answer")
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return error

    def _describe_failure(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within {self._seconds:g} s"
        for code in self._status_codes:
            if code >= _FIRST_HTTP_ERROR:
                return f"the server answers with {code}"
        if self._server.transport is Transport.STDIO and isinstance(error, OSError):
            return process.describe_start_error(self._server.command, self._folder, error)
        return " ".join(str(error).split()) or type(error).__name__

    # --- connecting -------------------------------------------------------------------------------

    async def _check_program(self) -> None:
        check_id = ids.short("check")
        env = {**self._env, **dict(self._server.env), _CHECK_VARIABLE: check_id}
        command, *args = self._server.command
        start = StdioServerParameters(command=command, args=args, env=env, cwd=self._folder)
        with files.unnamed() as errors:
            try:
                with anyio.fail_after(self._seconds):
                    async with stdio_client(start, errlog=errors) as streams:
                        await self._initialize(*streams)
            finally:
                process.kill_processes(process.find_by_variable(_CHECK_VARIABLE, check_id))
                errors.seek(0)
                if not self._connected:
                    output = " ".join(errors.read().split())
                    self._error_output = output[-_MAX_ERROR_CHARACTERS:]

    async def _connect_sse(self) -> None:
        async with sse_client(self._server.url, httpx_client_factory=self._http_client) as streams:
            await self._initialize(*streams)

    async def _connect_http(self) -> None:
        async with (
            self._http_client() as http,
            streamable_http_client(self._server.url, http_client=http) as streams,
        ):
            await self._initialize(*streams)

    def _http_client(
        self, headers: object = None, timeout: object = None, auth: object = None
    ) -> httpx2.AsyncClient:
        """Return a client that records status codes. Options passed by the SDK are ignored."""

        async def on_response(response: httpx2.Response) -> None:
            if not self._connected:
                self._status_codes.append(response.status_code)

        return httpx2.AsyncClient(
            headers=dict(self._server.headers),
            timeout=httpx2.Timeout(self._seconds),
            event_hooks={"response": [on_response]},
        )

    async def _initialize(self, incoming: Any, outgoing: Any) -> None:
        """Initialize a session, falling back to the discovery that only the newest servers use."""
        async with ClientSession(incoming, outgoing, client_info=_CLIENT) as session:
            try:
                await session.initialize()
            except MCPError as error:
                if error.code not in (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION):
                    raise
                await session.send_discover(LATEST_MODERN_VERSION)
            self._connected = True
