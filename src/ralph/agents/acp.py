"""Any agent that speaks the Agent Client Protocol, with the protocol's SDK (the extra `acp`).

asyncio is used in this module alone and has ended when `run` returns. We offer the agent neither files nor
terminals: it works with its own tools and requests permission. Reading is allowed, edits are allowed inside the
folder, everything else only with `bypass`; a read-only question may only read, and gets the agent's mode for that
if it has one. The replayed history of a loaded session is not part of the reply.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from acp import PROTOCOL_VERSION, Client, RequestError, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileEditToolCallContent,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    RequestPermissionResponse,
    ResumeSessionResponse,
    SessionConfigOptionSelect,
    SessionConfigSelectGroup,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
)

from ralph import __version__
from ralph.agents import client, process
from ralph.agents.async_process import AsyncProcess
from ralph.model.work import Ask, Reply, StopReason, ToolCall

BYPASS = "bypass"
READERS = ("Read", "Glob", "Grep")
_TICK = 0.05
_STOP_CHECK = 0.2
_AUTH_REQUIRED = -32000
_CLAUDE_PROGRAMS = ("claude-agent-acp", "claude-code-acp")  # Claude Code behind the protocol
_READ_ONLY_PROGRAMS = (*_CLAUDE_PROGRAMS, "opencode")  # programs that have a mode, or tools, for reading alone
_MODEL_VARIABLE = "CLAUDE_MODEL_CONFIG"
"""Where Claude's agent finds settings for models; it ignores them when it gets any settings."""
_READ_KINDS = {"read", "search", "think"}
_WRITE_KINDS = {"edit", "delete", "move"}
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path", "abs_path", "filePath")

_MODES = {
    "read": ("dontAsk", "read-only", "readonly", "plan", "architect", "ask"),
    "work": ("acceptEdits", "autoEdit", "auto_edit"),
    BYPASS: ("bypassPermissions", "yolo"),
}
"""Names of a mode by agent, the best first; `dontAsk` is Claude's, whose tools we choose."""

_STOPS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "max_turn_requests": StopReason.MAX_TURNS,
    "refusal": StopReason.REFUSAL,
    "cancelled": StopReason.CANCELLED,
}

Session = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse


class _UnsupportedError(Exception):
    """The agent cannot do what the prompt needs; the message says why."""


@dataclass(slots=True)
class Acp:
    """An agent behind the protocol; `permission` may be `bypass`, which lets it do everything."""

    program: Sequence[str]
    permission: str = ""
    name: str = "acp"
    settings: str = ""  # JSON for Claude's agent, on top of the user's own, to disable MCP servers

    @property
    def is_claude(self) -> bool:
        """Whether this program is Claude Code, which starts the servers of `.mcp.json` and accepts settings."""
        return self._is_one_of(_CLAUDE_PROGRAMS)

    @property
    def reads_only(self) -> bool:
        """Whether this program enforces read-only prompts."""
        return self._is_one_of(_READ_ONLY_PROGRAMS)

    @reads_only.setter
    def reads_only(self, value: bool) -> None:
        raise AttributeError("it follows from the program")

    def _is_one_of(self, names: Sequence[str]) -> bool:
        return any(name in argument for argument in self.program for name in names)

    def run(self, ask: Ask) -> Reply:
        """Run one prompt, in a new session or in the one it names."""
        try:
            program = AsyncProcess(self.program, ask.folder, client.agent_environment(ask))
        except (OSError, ValueError, IndexError) as error:
            message = process.describe_start_error(self.program, ask.folder, error)
            return Reply("", StopReason.UNAVAILABLE, error=message)
        try:
            with asyncio.Runner() as runner:
                return runner.run(self._run(ask, program))
        finally:
            program.kill()

    def _settings(self, ask: Ask) -> Mapping[str, object]:
        """Return the settings for Claude's agent, with those for models, which it would otherwise ignore."""
        if not self.settings:
            return {}
        models = client.parse_object(client.agent_environment(ask).get(_MODEL_VARIABLE, "")) or {}
        kept = {name: models[name] for name in ("modelOverrides", "availableModels") if name in models}
        return {**kept, **json.loads(self.settings)}

    async def _run(self, ask: Ask, program: AsyncProcess) -> Reply:
        listener = _AcpListener(ask, bypass=self.permission == BYPASS)
        try:
            reader, writer = await program.connect()
            connection = ClientSideConnection(cast(Client, listener), writer, reader)
            turn = asyncio.create_task(_Turn(connection, listener, ask, self.permission, self._settings(ask)).play())
            try:
                cut = await _wait_for_turn(turn, connection, listener, ask)
                return await self._reply(cut, turn, listener, program)
            finally:
                turn.cancel()
                with contextlib.suppress(asyncio.CancelledError, RequestError, OSError, _UnsupportedError):
                    await turn
                with contextlib.suppress(OSError):
                    await connection.close()
        finally:
            await program.close()

    async def _reply(
        self, cut: StopReason | None, turn: "asyncio.Task[StopReason]", listener: "_AcpListener", program: AsyncProcess
    ) -> Reply:
        if cut is not None:
            error = "it was stopped" if cut is StopReason.CANCELLED else "it took too long and was ended"
            return listener.reply(cut, error)
        try:
            return listener.reply(turn.result())
        except _UnsupportedError as error:
            return listener.reply(StopReason.CRASHED, str(error))
        except RequestError as error:
            details = error.data.get("details") if isinstance(error.data, dict) else error.data
            message = f"{error}: {details}" if isinstance(details, str) and details else str(error)
            stop = StopReason.UNAVAILABLE if error.code == _AUTH_REQUIRED else client.classify_error(message)
            return listener.reply(stop, message)
        except OSError:
            errors = await program.error_output()
            name = self.program[0]
            message = f"{name} ended in the middle: {errors}" if errors else f"{name} ended early"
            return listener.reply(StopReason.CRASHED, message)


@dataclass(slots=True)
class _Turn:
    """The requests that make up one turn, in their order."""

    connection: ClientSideConnection
    listener: "_AcpListener"
    ask: Ask
    permission: str
    settings: Mapping[str, object]

    async def play(self) -> StopReason:
        version = Implementation(name="ralph", version=__version__)
        session = await self._session(await self.connection.initialize(PROTOCOL_VERSION, ClientCapabilities(), version))
        await self._choose_mode(session)
        await self._choose_model(session)
        self.listener.begin()
        response = await self.connection.prompt(self.listener.session, [text_block(self.ask.prompt)])
        return _STOPS.get(response.stop_reason, StopReason.END_TURN)

    async def _session(self, initialized: InitializeResponse) -> Session:
        folder = os.path.realpath(self.ask.folder)
        meta = self._meta()
        if not self.ask.session:
            new = await self.connection.new_session(folder, None, [], **meta)
            self.listener.session = new.session_id
            return new
        self.listener.session = self.ask.session
        can = initialized.agent_capabilities
        if can is not None and can.session_capabilities is not None and can.session_capabilities.resume is not None:
            return await self.connection.resume_session(self.ask.session, folder, None, [], **meta)
        if can is not None and can.load_session:
            return await self.connection.load_session(folder, self.ask.session, [], None, **meta)
        raise _UnsupportedError("it cannot go on with an earlier session")

    def _meta(self) -> dict[str, Any]:
        """Return what Claude's agent reads beyond the protocol; other agents ignore it."""
        if self.ask.read_only:
            return {"claudeCode": {"options": {"tools": list(READERS), "strictMcpConfig": True}}}
        return {"claudeCode": {"options": {"settings": dict(self.settings)}}} if self.settings else {}

    async def _choose_mode(self, session: Session) -> None:
        offered = {mode.id for mode in session.modes.available_modes} if session.modes is not None else set()
        wish = "read" if self.ask.read_only else BYPASS if self.permission == BYPASS else "work"
        for mode in _MODES[wish]:
            if mode in offered:
                await self.connection.set_session_mode(self.listener.session, mode)
                return

    async def _choose_model(self, session: Session) -> None:
        for option in session.config_options or ():
            if isinstance(option, SessionConfigOptionSelect) and option.category == "model":
                self.listener.model = option.current_value
                if self.ask.model and self.ask.model != option.current_value:
                    await self._set_model(option)
                return

    async def _set_model(self, option: SessionConfigOptionSelect) -> None:
        offered: list[str] = []
        for entry in option.options:
            models = entry.options if isinstance(entry, SessionConfigSelectGroup) else [entry]
            offered += [model.value for model in models]
        if self.ask.model not in offered:
            raise _UnsupportedError(f"the model {self.ask.model!r} is not offered, only: {', '.join(offered)}")
        await self.connection.set_config_option(option.id, self.listener.session, self.ask.model)
        self.listener.model = self.ask.model


async def _wait_for_turn(
    turn: "asyncio.Task[StopReason]", connection: ClientSideConnection, listener: "_AcpListener", ask: Ask
) -> StopReason | None:
    """Wait for the turn and show its text; cancel it at a stop or timeout and return which it was."""
    deadline = time.monotonic() + ask.timeout if ask.timeout > 0 else float("inf")
    next_check = 0.0
    while True:
        await asyncio.wait({turn}, timeout=max(0.0, min(_TICK, deadline - time.monotonic())))
        listener.show()
        if turn.done():
            return None
        cut = StopReason.TIMEOUT if time.monotonic() >= deadline else None
        if time.monotonic() >= next_check:
            next_check = time.monotonic() + _STOP_CHECK
            cut = StopReason.CANCELLED if ask.stopped() else cut
        if cut is not None:
            if listener.session:
                with contextlib.suppress(OSError):
                    await connection.cancel(listener.session)
                await asyncio.wait({turn}, timeout=process.GRACE)
                listener.show()
            return cut


class _AcpListener:
    """Our side of the protocol: collects text and tool calls of one turn and answers permission requests."""

    def __init__(self, ask: Ask, *, bypass: bool = False) -> None:
        self.session = ""
        self.model = ask.model
        self._ask = ask
        self._bypass = bypass
        self._started = False
        self._texts: list[str] = []
        self._pending: list[str] = []
        self._last = 0
        self._new_message = False
        self._calls: dict[str, _AcpToolCall] = {}
        self._cost = 0.0

    def begin(self) -> None:
        """Start the turn; what came before was history."""
        self._started = True

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if not self._started:
            return
        if isinstance(update, AgentMessageChunk):
            if isinstance(update.content, TextContentBlock) and update.content.text:
                self._add_text(update.content.text)
        elif isinstance(update, ToolCallStart | ToolCallProgress):
            self._new_message = bool(self._texts)
            self._calls.setdefault(update.tool_call_id, _AcpToolCall()).merge(update)
        elif isinstance(update, UsageUpdate) and update.cost is not None and update.cost.currency == "USD":
            self._cost = update.cost.amount

    def _add_text(self, text: str) -> None:
        """Add text; after a tool call a new message begins."""
        if self._new_message:
            text = f"\n\n{text}"
            self._new_message = False
            self._last = len(self._texts)
        self._texts.append(text)
        self._pending.append(text)

    def show(self) -> None:
        """Show new text; not in the callback, since the SDK swallows exceptions there."""
        while self._pending:
            self._ask.show(self._pending.pop(0))

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **kwargs: Any
    ) -> RequestPermissionResponse:
        """Allow or refuse one tool call, once rather than for good where there is the choice."""
        call = self._calls.setdefault(tool_call.tool_call_id, _AcpToolCall())
        call.merge(tool_call)
        allowed = self._allows(call)
        call.refused = not allowed
        kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
        for kind in kinds:
            for option in options:
                if option.kind == kind:
                    outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
                    return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    def _allows(self, call: "_AcpToolCall") -> bool:
        if call.kind in _READ_KINDS:
            return True
        if self._ask.read_only:
            return False
        inside = bool(call.paths) and all(client.is_inside(path, self._ask.folder) for path in call.paths)
        return self._bypass or (call.kind in _WRITE_KINDS and inside)

    def reply(self, stop: StopReason, error: str = "") -> Reply:
        calls = tuple(call.to_tool_call(self._ask) for call in self._calls.values())
        last = "".join(self._texts[self._last :]).strip()
        if last and last in error:  # a message about a failed request, sent as the agent's text
            del self._texts[self._last :]
        text = "".join(self._texts)
        return Reply(text, stop, calls, self.model, self._cost, self.session or self._ask.session, error)


class _AcpToolCall:
    """One tool call, described by several updates."""

    def __init__(self) -> None:
        self.title = ""
        self.kind = ""
        self.status = ""
        self.refused = False
        self.paths: list[str] = []

    def merge(self, update: ToolCallStart | ToolCallProgress | ToolCallUpdate) -> None:
        """Apply an update; what it omits stays."""
        tool = client.get_object(update.field_meta or {}, "claudeCode").get("toolName")
        self.title = str(tool or self.title or update.title or "")
        self.kind = update.kind or self.kind
        self.status = update.status or self.status
        self.paths = list(dict.fromkeys([*self.paths, *_find_paths(update)]))

    def to_tool_call(self, ask: Ask) -> ToolCall:
        ok = self.status != "failed" and not self.refused
        files = tuple(dict.fromkeys(client.relative_path(path, ask.folder) for path in self.paths))
        name = self.title.split("\n")[0][:60] or self.kind or "tool"
        return ToolCall(name, files, ok, writes=ok and self.status == "completed" and self.kind in _WRITE_KINDS)


def _find_paths(update: ToolCallStart | ToolCallProgress | ToolCallUpdate) -> Iterator[str]:
    yield from (location.path for location in update.locations or ())
    yield from (block.path for block in update.content or () if isinstance(block, FileEditToolCallContent))
    if isinstance(update.raw_input, Mapping):
        yield from (value for key in _PATH_ARGUMENTS if isinstance(value := update.raw_input.get(key), str) and value)
