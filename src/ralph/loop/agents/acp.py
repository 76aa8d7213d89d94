"""Run any agent that speaks the Agent Client Protocol, using the protocol's SDK (the extra `acp`).

The agent may read anything and edit files inside the folder. Everything else requires the
permission `bypass`. For a read-only prompt, the agent is switched to a read-only mode if it has
one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Literal, Never, assert_never, cast

from acp import PROTOCOL_VERSION, Client, RequestError, schema, text_block
from acp.client.connection import ClientSideConnection

from ralph import __version__
from ralph.core import process
from ralph.core.work import Ask, Reply, StopReason
from ralph.loop.agents import client
from ralph.loop.agents.acp_listener import AcpListener
from ralph.loop.agents.claude import READERS
from ralph.storage import files

_TICK_SECONDS = 0.05
_STOP_CHECK_SECONDS = 0.2
_AUTH_REQUIRED = -32000  # the protocol's error code
_CLAUDE_PROGRAMS = ("claude-agent-acp", "claude-code-acp")  # adapters that run Claude Code
_READ_ONLY_PROGRAMS = (*_CLAUDE_PROGRAMS, "opencode")  # with a mode or a tool set that only reads

# The names that agents give their modes, in order of preference.
_READ_MODES = (
    "dontAsk",  # Claude Code's, whose tools we choose
    "read-only",
    "readonly",
    "plan",
    "architect",
    "ask",
)
_WORK_MODES = ("acceptEdits", "autoEdit", "auto_edit")
_BYPASS_MODES = ("bypassPermissions", "yolo")

Session = schema.NewSessionResponse | schema.LoadSessionResponse | schema.ResumeSessionResponse
Interruption = Literal[StopReason.CANCELLED, StopReason.TIMEOUT]
"""Why we ended a turn before the agent had finished it."""


class _UnsupportedError(Exception):
    """The agent lacks a capability that the prompt needs."""


# --- the agent ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Acp:
    """An agent that speaks the protocol. With the permission `bypass`, it may do anything."""

    program: Sequence[str]
    permission: str = ""
    name: str = "acp"
    settings: str = ""  # JSON for Claude Code, added to the user's settings to disable MCP servers
    # Whether the program runs Claude Code, which starts the servers listed in `.mcp.json` and
    # accepts settings.
    is_claude: bool = field(init=False)
    enforces_read_only: bool = field(init=False)  # whether the program enforces read-only prompts

    def __post_init__(self) -> None:
        line = "\n".join(self.program)
        self.is_claude = any(name in line for name in _CLAUDE_PROGRAMS)
        self.enforces_read_only = any(name in line for name in _READ_ONLY_PROGRAMS)

    def run(self, ask: Ask) -> Reply:
        """Run one prompt, either in a new session or in the one given by `ask.session`."""
        with files.unnamed() as errors:
            return asyncio.run(self._run(ask, errors))

    async def _run(self, ask: Ask, errors: IO[str]) -> Reply:
        environment = client.agent_environment(ask)
        async with contextlib.AsyncExitStack() as stack:
            start = process.start_async(self.program, ask.folder, environment, errors)
            try:
                program = await stack.enter_async_context(start)
            except (OSError, ValueError, IndexError) as error:
                message = process.describe_start_error(self.program, ask.folder, error)
                return Reply("", StopReason.UNAVAILABLE, error=message)
            return await self._converse(program, ask, errors)

    async def _converse(
        self, program: asyncio.subprocess.Process, ask: Ask, errors: IO[str]
    ) -> Reply:
        listener = AcpListener(ask, bypass=self.permission == client.BYPASS)
        connection = ClientSideConnection(cast(Client, listener), program.stdin, program.stdout)
        turn = asyncio.create_task(self._play_turn(connection, listener, ask))
        try:
            interruption = await _wait_for_turn(turn, connection, listener, ask)
            if interruption is not None:
                return listener.reply(interruption, _describe_interruption(interruption))
            return await self._finished_reply(turn, program, listener, errors)
        finally:
            turn.cancel()
            with contextlib.suppress(
                asyncio.CancelledError, RequestError, OSError, _UnsupportedError
            ):
                await turn
            with contextlib.suppress(OSError):
                await connection.close()

    async def _play_turn(
        self, connection: ClientSideConnection, listener: AcpListener, ask: Ask
    ) -> StopReason:
        """Open and configure the session, send the prompt, and wait until the turn ends."""
        version = schema.Implementation(name="ralph", version=__version__)
        initialized = await connection.initialize(
            PROTOCOL_VERSION, schema.ClientCapabilities(), version
        )
        session = await self._open_session(
            connection, listener, ask, initialized.agent_capabilities
        )
        mode = self._find_mode(session, ask)
        if mode is not None:
            await connection.set_session_mode(listener.session, mode)
        await _choose_model(connection, session, listener, ask)
        listener.started = True  # updates before this point replay the history
        response = await connection.prompt(listener.session, [text_block(ask.prompt)])
        return _to_stop_reason(response.stop_reason)

    async def _open_session(
        self,
        connection: ClientSideConnection,
        listener: AcpListener,
        ask: Ask,
        capabilities: schema.AgentCapabilities | None,
    ) -> Session:
        folder = os.path.realpath(ask.folder)
        metadata = self._claude_metadata(ask)
        if not ask.session:
            new = await connection.new_session(folder, None, [], **metadata)
            listener.session = new.session_id
            return new
        listener.session = ask.session
        if _can_resume(capabilities):
            return await connection.resume_session(ask.session, folder, None, [], **metadata)
        if capabilities is not None and capabilities.load_session:
            return await connection.load_session(folder, ask.session, [], None, **metadata)
        raise _UnsupportedError("it cannot go on with an earlier session")

    def _claude_metadata(self, ask: Ask) -> dict[str, Any]:
        """Return options for Claude Code. They extend the protocol, so other agents ignore them."""
        options: dict[str, Any] = {}
        if ask.read_only:
            options = {"tools": list(READERS), "strictMcpConfig": True}
        elif self.settings:
            options = {"settings": json.loads(self.settings)}
        if not options:
            return {}
        return {"claudeCode": {"options": options}}

    def _find_mode(self, session: Session, ask: Ask) -> str | None:
        """Return the most preferred mode that the session offers, or None."""
        if session.modes is None:
            return None
        offered = {mode.id for mode in session.modes.available_modes}
        preferred: Sequence[str]
        if ask.read_only:
            preferred = _READ_MODES
        elif self.permission == client.BYPASS:
            preferred = _BYPASS_MODES
        else:
            preferred = _WORK_MODES
        for mode in preferred:
            if mode in offered:
                return mode
        return None

    async def _finished_reply(
        self,
        turn: asyncio.Task[StopReason],
        program: asyncio.subprocess.Process,
        listener: AcpListener,
        errors: IO[str],
    ) -> Reply:
        """Return the reply after a turn has ended, whether or not it succeeded."""
        try:
            return listener.reply(turn.result())
        except _UnsupportedError as error:
            return listener.reply(StopReason.CRASHED, str(error))
        except RequestError as error:
            message = _describe_request_error(error)
            if error.code == _AUTH_REQUIRED:
                return listener.reply(StopReason.UNAVAILABLE, message)
            return listener.reply(client.classify_error(message), message)
        except OSError:
            return listener.reply(
                StopReason.CRASHED, await self._describe_early_exit(program, errors)
            )

    async def _describe_early_exit(
        self, program: asyncio.subprocess.Process, errors: IO[str]
    ) -> str:
        # The last error output may arrive a moment after the pipe is closed.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(program.wait(), process.LINGER)
        errors.seek(0)
        output = errors.read().strip()[-client.MAX_ERROR_CHARACTERS :]
        if not output:
            return f"{self.program[0]} exited before it answered"
        return f"{self.program[0]} exited before it answered: {output}"


# --- one turn -------------------------------------------------------------------------------------


async def _wait_for_turn(
    turn: asyncio.Task[StopReason],
    connection: ClientSideConnection,
    listener: AcpListener,
    ask: Ask,
) -> Interruption | None:
    """Show text until the turn ends. Returns why we interrupted it, or None if we did not."""
    deadline = process.deadline_after(ask.timeout)
    next_stop_check = 0.0
    while True:
        remaining = max(0.0, deadline - time.monotonic())
        await asyncio.wait({turn}, timeout=min(_TICK_SECONDS, remaining))
        listener.show()
        if turn.done():
            return None
        interruption: Interruption | None = None
        if time.monotonic() >= deadline:
            interruption = StopReason.TIMEOUT
        if time.monotonic() >= next_stop_check:
            next_stop_check = time.monotonic() + _STOP_CHECK_SECONDS
            if ask.stopped():
                interruption = StopReason.CANCELLED
        if interruption is not None:
            await _cancel_turn(turn, connection, listener)
            return interruption


async def _cancel_turn(
    turn: asyncio.Task[StopReason], connection: ClientSideConnection, listener: AcpListener
) -> None:
    """Ask the agent to end its turn, and give it some time to do so."""
    if not listener.session:
        return
    with contextlib.suppress(OSError):
        await connection.cancel(listener.session)
    await asyncio.wait({turn}, timeout=process.GRACE)
    listener.show()


def _describe_interruption(interruption: Interruption) -> str:
    match interruption:
        case StopReason.CANCELLED:
            return client.STOPPED
        case StopReason.TIMEOUT:
            return client.TIMED_OUT
    assert_never(interruption)


def _describe_request_error(error: RequestError) -> str:
    details = error.data
    if isinstance(details, dict):
        details = details.get("details")
    if isinstance(details, str) and details:
        return f"{error}: {details}"
    return str(error)


def _to_stop_reason(reason: schema.StopReason) -> StopReason:
    """Translate the protocol's stop reason into ours."""
    match reason:
        case "end_turn":
            return StopReason.END_TURN
        case "max_tokens":
            return StopReason.MAX_TOKENS
        case "max_turn_requests":
            return StopReason.MAX_TURNS
        case "refusal":
            return StopReason.REFUSAL
        case "cancelled":
            return StopReason.CANCELLED
    # If a newer SDK adds a reason, type checkers report it, but a running loop must not fail.
    _unknown: Never = reason
    return StopReason.END_TURN


def _can_resume(capabilities: schema.AgentCapabilities | None) -> bool:
    if capabilities is None or capabilities.session_capabilities is None:
        return False
    return capabilities.session_capabilities.resume is not None


async def _choose_model(
    connection: ClientSideConnection, session: Session, listener: AcpListener, ask: Ask
) -> None:
    """Select the model that the prompt names, if the session offers a choice."""
    for option in session.config_options or ():
        if isinstance(option, schema.SessionConfigOptionSelect) and option.category == "model":
            listener.model = ask.model or option.current_value
            if listener.model != option.current_value:
                await connection.set_config_option(option.id, listener.session, ask.model)
            return
