"""Check whether MCP servers work, with the protocol's SDK (the extra `mcp`).

A check shakes hands and calls no tool. The SDK ends a program with its group; what left that is found by a variable. It
hides a 401 behind a general error, so HTTP answers are observed. Any exception of the SDK means that the server failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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

_ERROR_LENGTH = 300
_MARK = "RALPH_MCP_CHECK"  # the variable by which what a program started is found
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

    with asyncio.Runner() as runner:
        runner.run(run_all())
    return {server.name: check.answer() for server, check in zip(servers, checks, strict=True)}


class _ServerCheck:
    def __init__(
        self, server: McpServer, folder: Path, env: Mapping[str, str], seconds: float
    ) -> None:
        self.error: BaseException | None = None
        self._server = server
        self._folder = folder
        self._env = env
        self._seconds = seconds
        self._connected = False
        self._codes: list[int] = []
        self._error_output = ""

    async def run(self) -> None:
        if self._server.way is not Transport.STDIO:
            with anyio.fail_after(self._seconds):
                await self._connect_url()
            return
        mark = ids.short("check")
        env = {**self._env, **dict(self._server.env), _MARK: mark}
        command, *args = self._server.command
        start = StdioServerParameters(command=command, args=args, env=env, cwd=self._folder)
        with files.unnamed() as errors:
            try:
                with anyio.fail_after(self._seconds):
                    async with stdio_client(start, errlog=errors) as streams:
                        await self._initialize(*streams)
            finally:
                process.kill_processes(process.find_by_variable(_MARK, mark))
                errors.seek(0)
                self._error_output = (
                    "" if self._connected else " ".join(errors.read().split())[-_ERROR_LENGTH:]
                )

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
            async with (
                self._client() as http,
                streamable_http_client(self._server.url, http_client=http) as streams,
            ):
                await self._initialize(*streams)

    def _client(
        self, headers: object = None, timeout: object = None, auth: object = None
    ) -> httpx2.AsyncClient:
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
