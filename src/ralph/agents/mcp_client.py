"""Ask MCP servers whether they work, with the protocol's own SDK (the extra `mcp`).

To be asked means: connect and shake hands, nothing else; no tool is listed or called. All servers are asked at once,
each within its own time. asyncio lives in this module alone and is gone when `ask` returns. The SDK's own way to start
a program leaves those who outlive it, so programs are started as ACP agents are (`acp_program`): in a session of their
own, ended with all that they started. What an HTTP server said to any request of a handshake is seen by a hook in
the client, since the SDK hides a 401 behind a general error. Whatever the SDK or a server throws is an answer, too:
the server failed. Proof: `tests/agents/test_mcp_client.py`, on servers made with the same SDK and on broken ones.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import anyio
import httpx2
from mcp import ClientSession, MCPError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION, Implementation, jsonrpc_message_adapter
from mcp_types.version import LATEST_MODERN_VERSION

from ralph import __version__
from ralph.agents import process
from ralph.agents.acp_program import Program
from ralph.agents.surroundings import is_mark
from ralph.model.work import McpServer, ServerAnswer, ServerStatus, Transport

SECONDS = 5.0
"""How long one server may take to answer."""

_REFUSED = (401, 403)
_TAIL = 300
_SAID: Mapping[int, str] = {401: "it wants to know who you are (401)", 403: "it does not let you in (403)"}

# The SDK tells its log what we tell in the answer; without a handler Python would print it.
logging.getLogger("mcp").addHandler(logging.NullHandler())


def ask(
    servers: Sequence[McpServer], folder: Path, env: Mapping[str, str], *, seconds: float = SECONDS
) -> dict[str, ServerAnswer]:
    """What each of these servers answers, by name; programs are started in the folder, with this environment."""
    started: list[Program] = []
    calls = [_Call(server, folder, _surroundings(env, folder), seconds, started) for server in servers]
    try:
        with asyncio.Runner() as runner:
            answers = runner.run(_together(calls))
    finally:
        for program in started:
            if program.popen.returncode is None:
                program.kill()
    return {server.name: answer for server, answer in zip(servers, answers, strict=True)}


def _surroundings(env: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What Claude Code starts a server with: its own environment and the project's folder."""
    return {name: value for name, value in env.items() if not is_mark(name)} | {"CLAUDE_PROJECT_DIR": str(folder)}


async def _together(calls: "Sequence[_Call]") -> list[ServerAnswer]:
    ends = await asyncio.gather(*(call.run() for call in calls), return_exceptions=True)
    return [call.answer(end) for call, end in zip(calls, ends, strict=True)]


class _Call:
    """One server being asked."""

    def __init__(
        self, server: McpServer, folder: Path, env: Mapping[str, str], seconds: float, started: list[Program]
    ) -> None:
        self._server, self._folder, self._env, self._seconds = server, folder, env, seconds
        self._started = started
        self._shaken = False
        self._codes: list[int] = []
        self._complaints = ""

    async def run(self) -> None:
        """Connect and shake hands."""
        if self._server.way is Transport.STDIO:
            await self._run_program()
        else:
            with anyio.fail_after(self._seconds):
                await self._call_address()

    def answer(self, end: BaseException | None) -> ServerAnswer:
        """What came of it; once hands were shaken, trouble at the end does not matter."""
        if self._shaken:
            return ServerAnswer(ServerStatus.RUNNING)
        refused = next((code for code in self._codes if code in _REFUSED), 0)
        if refused:
            return ServerAnswer(ServerStatus.NEEDS_AUTH, _SAID[refused])
        return ServerAnswer(ServerStatus.FAILED, self._why(end))

    def _why(self, end: BaseException | None) -> str:
        error = _innermost(end)
        bad = next((code for code in self._codes if code >= 400), 0)
        if isinstance(error, TimeoutError):
            words = f"no answer within {self._seconds:g} s"
        elif bad:
            words = f"the server answers with {bad}"
        elif self._server.way is Transport.STDIO and isinstance(error, OSError):
            words = process.not_started(self._server.command, self._folder, error)
        else:
            words = " ".join(str(error).split()) or type(error).__name__
        return f"{words}: {self._complaints}"[:_TAIL] if self._complaints else words[:_TAIL]

    # --- programs ------------------------------------------------------------------------------

    async def _run_program(self) -> None:
        env = {**self._env, **dict(self._server.env)}
        program = Program(self._server.command, self._folder, env)
        self._started.append(program)
        try:
            with anyio.fail_after(self._seconds):
                reader, writer = await program.connect()
                async with (
                    _lines(reader, writer) as (hear, say),
                    ClientSession(hear, say, client_info=_me()) as session,
                ):
                    await self._shake(session)
        finally:
            with anyio.CancelScope(shield=True):
                await program.close()
                said = "" if self._shaken else await program.complaints()
                self._complaints = " ".join(said.split())[-_TAIL:]

    # --- addresses -----------------------------------------------------------------------------

    async def _call_address(self) -> None:
        if self._server.way is Transport.SSE:
            async with (
                sse_client(self._server.url, httpx_client_factory=self._client) as (hear, say),
                ClientSession(hear, say, client_info=_me()) as session,
            ):
                await self._shake(session)
        else:
            async with (
                self._client() as client,
                streamable_http_client(self._server.url, http_client=client) as (hear, say),
                ClientSession(hear, say, client_info=_me()) as session,
            ):
                await self._shake(session)

    def _client(
        self,
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers=dict(self._server.headers),
            timeout=httpx2.Timeout(self._seconds),
            event_hooks={"response": [self._heard]},
        )

    async def _heard(self, response: httpx2.Response) -> None:
        if not self._shaken:
            self._codes.append(response.status_code)

    # --- the handshake -------------------------------------------------------------------------

    async def _shake(self, session: ClientSession) -> None:
        """The greeting that every server knows, else the one of those who know no other."""
        try:
            await session.initialize()
        except MCPError as error:
            if error.code not in (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION):
                raise
            await session.send_discover(LATEST_MODERN_VERSION)
        self._shaken = True


def _me() -> Implementation:
    return Implementation(name="ralph", version=__version__)


def _innermost(error: BaseException | None) -> BaseException:
    """What went wrong first, out of the groups that it was wrapped into."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error or RuntimeError("it ended without an answer")


# --- a program's pipes as the SDK wants them -------------------------------------------------------

_Streams = tuple[
    "anyio.streams.memory.MemoryObjectReceiveStream[SessionMessage | Exception]",
    "anyio.streams.memory.MemoryObjectSendStream[SessionMessage]",
]


@contextlib.asynccontextmanager
async def _lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[_Streams]:
    """Messages, one a line; a line that is none (some servers print what they do) is left out."""
    heard, hear = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    say, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def listen() -> None:
        async with heard:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                while line := await reader.readline():
                    with contextlib.suppress(ValueError):
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                        await heard.send(SessionMessage(message))

    async def speak() -> None:
        async with said:
            with contextlib.suppress(OSError):  # it has ended; who listens will see that
                async for each in said:
                    line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    writer.write(line.encode("utf-8") + b"\n")
                    await writer.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(listen)
        group.start_soon(speak)
        try:
            yield hear, say
        finally:
            group.cancel_scope.cancel()
            hear.close()
            say.close()
