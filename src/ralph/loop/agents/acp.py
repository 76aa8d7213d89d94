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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Literal, Never, assert_never, cast

from acp import PROTOCOL_VERSION, Client, RequestError, schema, text_block
from acp.client.connection import ClientSideConnection

from ralph import __version__
from ralph.core import process
from ralph.core.work import Ask, Reply, StopReason, ToolCall
from ralph.loop.agents import client
from ralph.loop.agents.claude import READERS
from ralph.storage import files

BYPASS = "bypass"
_TICK_SECONDS = 0.05
_STOP_CHECK_SECONDS = 0.2
_AUTH_REQUIRED = -32000  # the protocol's error code
_CLAUDE_PROGRAMS = ("claude-agent-acp", "claude-code-acp")  # adapters that run Claude Code
_READ_ONLY_PROGRAMS = (*_CLAUDE_PROGRAMS, "opencode")  # with a mode or a tool set that only reads
_READ_KINDS = {"read", "search", "think"}
_WRITE_KINDS = {"edit", "delete", "move"}
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path", "abs_path", "filePath")
_MAX_TOOL_NAME_CHARACTERS = 60

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
ToolCallEvent = schema.ToolCallStart | schema.ToolCallProgress | schema.ToolCallUpdate
Interruption = Literal[StopReason.CANCELLED, StopReason.TIMEOUT]
"""Why we ended a turn before the agent had finished it."""


class _UnsupportedError(Exception):
    """The agent cannot do what the prompt needs."""


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
    reads_only: bool = field(init=False)  # whether the program enforces read-only prompts

    def __post_init__(self) -> None:
        line = "\n".join(self.program)
        self.is_claude = any(name in line for name in _CLAUDE_PROGRAMS)
        self.reads_only = any(name in line for name in _READ_ONLY_PROGRAMS)

    def run(self, ask: Ask) -> Reply:
        """Run one prompt, either in a new session or in the one that it names."""
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
        listener = _AcpListener(ask, bypass=self.permission == BYPASS)
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
        self, connection: ClientSideConnection, listener: _AcpListener, ask: Ask
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
        listener: _AcpListener,
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
        elif self.permission == BYPASS:
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
        listener: _AcpListener,
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
    listener: _AcpListener,
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
    turn: asyncio.Task[StopReason], connection: ClientSideConnection, listener: _AcpListener
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
    connection: ClientSideConnection, session: Session, listener: _AcpListener, ask: Ask
) -> None:
    """Select the model that the prompt names, if the session offers a choice."""
    for option in session.config_options or ():
        if isinstance(option, schema.SessionConfigOptionSelect) and option.category == "model":
            listener.model = ask.model or option.current_value
            if listener.model != option.current_value:
                await connection.set_config_option(option.id, listener.session, ask.model)
            return


# --- what the agent sends -------------------------------------------------------------------------


class _AcpListener:
    """Collects the reply from the agent's updates, and answers its permission requests."""

    def __init__(self, ask: Ask, *, bypass: bool = False) -> None:
        self._ask = ask
        self._bypass = bypass
        self.session = ""
        self.model = ask.model
        self.started = False
        self._texts: list[str] = []
        self._shown_count = 0
        self._last_message_start = 0  # index of the text that begins the last message
        self._new_message = False
        self._calls: dict[str, _AcpToolCall] = {}
        self._cost = 0.0

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if not self.started:
            return
        if isinstance(update, schema.AgentMessageChunk):
            if isinstance(update.content, schema.TextContentBlock) and update.content.text:
                self._add_text(update.content.text)
        elif isinstance(update, schema.ToolCallStart | schema.ToolCallProgress):
            self._new_message = bool(self._texts)
            self._calls.setdefault(update.tool_call_id, _AcpToolCall()).merge(update)
        elif isinstance(update, schema.UsageUpdate):
            self._add_usage(update)

    def _add_text(self, text: str) -> None:
        """Add a chunk of a message. The first chunk after a tool call begins a new message."""
        if self._new_message:
            text = f"\n\n{text}"
            self._last_message_start = len(self._texts)
            self._new_message = False
        self._texts.append(text)

    def _add_usage(self, update: schema.UsageUpdate) -> None:
        if update.cost is not None and update.cost.currency == "USD":
            self._cost = update.cost.amount

    def show(self) -> None:
        """Show the text that is new.

        This cannot be done in `session_update`, because the SDK swallows exceptions raised there.
        """
        while self._shown_count < len(self._texts):
            text = self._texts[self._shown_count]
            self._shown_count += 1
            self._ask.show(text)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **kwargs: Any,
    ) -> schema.RequestPermissionResponse:
        call = self._calls.setdefault(tool_call.tool_call_id, _AcpToolCall())
        call.merge(tool_call)
        allowed = self._is_allowed(call)
        call.refused = not allowed
        option = _find_option(options, allowed=allowed)
        if option is None:
            denied = schema.DeniedOutcome(outcome="cancelled")
            return schema.RequestPermissionResponse(outcome=denied)
        selected = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=selected)

    def _is_allowed(self, call: _AcpToolCall) -> bool:
        if call.kind in _READ_KINDS:
            return True
        if self._ask.read_only:
            return False
        if self._bypass:
            return True
        if call.kind not in _WRITE_KINDS or not call.paths:
            return False
        return all(client.is_inside(path, self._ask.folder) for path in call.paths)

    def reply(self, stop: StopReason, error: str = "") -> Reply:
        earlier_texts = self._texts[: self._last_message_start]
        outputs: list[str] = []
        for call in self._calls.values():
            outputs += call.outputs
        return Reply(
            "".join(self._texts),
            stop,
            calls=tuple(call.to_tool_call(self._ask) for call in self._calls.values()),
            model=self.model,
            cost=self._cost,
            session=self.session or self._ask.session,
            error=error,
            final=sum(map(len, earlier_texts)),
            outputs=tuple(outputs),
        )


def _find_option(
    options: list[schema.PermissionOption], *, allowed: bool
) -> schema.PermissionOption | None:
    """Return the option to select, preferably one that applies to this call only."""
    kinds = ("reject_once", "reject_always")
    if allowed:
        kinds = ("allow_once", "allow_always")
    for kind in kinds:
        for option in options:
            if option.kind == kind:
                return option
    return None


@dataclass(slots=True)
class _AcpToolCall:
    """A tool call, assembled from several updates."""

    title: str = ""
    kind: str = ""
    status: str = ""
    refused: bool = False
    paths: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def merge(self, update: ToolCallEvent) -> None:
        tool_name = client.get_object(update.field_meta or {}, "claudeCode").get("toolName")
        self.title = str(tool_name or self.title or update.title or "")
        self.kind = update.kind or self.kind
        self.status = update.status or self.status
        self.paths += _paths_in(update)
        self.outputs = _outputs_in(update) or self.outputs  # new output replaces the earlier one

    def to_tool_call(self, ask: Ask) -> ToolCall:
        ok = self.status != "failed" and not self.refused
        paths = [client.relative_path(path, ask.folder) for path in self.paths]
        first_line = self.title.split("\n")[0]
        name = first_line[:_MAX_TOOL_NAME_CHARACTERS] or self.kind or "tool"
        writes = ok and self.status == "completed" and self.kind in _WRITE_KINDS
        return ToolCall(name, tuple(dict.fromkeys(paths)), ok, writes)


def _paths_in(update: ToolCallEvent) -> list[str]:
    """Return the files that an update names in its locations, edits and arguments."""
    paths = [location.path for location in update.locations or ()]
    for block in update.content or ():
        if isinstance(block, schema.FileEditToolCallContent):
            paths.append(block.path)
    if isinstance(update.raw_input, Mapping):
        for key in _PATH_ARGUMENTS:
            argument = update.raw_input.get(key)
            if isinstance(argument, str) and argument:
                paths.append(argument)
    return paths


def _outputs_in(update: ToolCallEvent) -> list[str]:
    outputs: list[str] = []
    for block in update.content or ():
        if not isinstance(block, schema.ContentToolCallContent):
            continue
        if isinstance(block.content, schema.TextContentBlock):
            outputs.append(block.content.text)
    if isinstance(update.raw_output, str):
        if update.raw_output:
            outputs.append(update.raw_output)
    elif update.raw_output:
        outputs.append(json.dumps(update.raw_output, ensure_ascii=False))
    return outputs
