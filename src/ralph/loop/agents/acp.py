"""Any agent that speaks the Agent Client Protocol, with the protocol's SDK (the extra `acp`).

Reading and edits inside the folder are allowed, the rest only with `bypass`; a read-only question gets such a mode.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, cast

from acp import PROTOCOL_VERSION, Client, RequestError, schema, text_block
from acp.client.connection import ClientSideConnection

from ralph import __version__
from ralph.core import process
from ralph.core.work import Ask, Reply, StopReason, ToolCall
from ralph.loop.agents import client
from ralph.loop.agents.claude import READERS
from ralph.storage import files

BYPASS = "bypass"
_TICK = 0.05
_STOP_CHECK = 0.2
_AUTH_REQUIRED = -32000
_CLAUDE_PROGRAMS = ("claude-agent-acp", "claude-code-acp")  # Claude Code behind the protocol
_READ_ONLY_PROGRAMS = (
    *_CLAUDE_PROGRAMS,
    "opencode",
)  # programs that have a mode, or tools, for reading alone
_READ_KINDS = {"read", "search", "think"}
_WRITE_KINDS = {"edit", "delete", "move"}
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path", "abs_path", "filePath")
_MODES = {  # names of a mode by agent, the best first; `dontAsk` is Claude's, whose tools we choose
    "read": ("dontAsk", "read-only", "readonly", "plan", "architect", "ask"),
    "work": ("acceptEdits", "autoEdit", "auto_edit"),
    BYPASS: ("bypassPermissions", "yolo"),
}
Session = schema.NewSessionResponse | schema.LoadSessionResponse | schema.ResumeSessionResponse


class _UnsupportedError(Exception):
    """The agent cannot do what the prompt needs."""


@dataclass(slots=True)
class Acp:
    """An agent behind the protocol; `permission` may be `bypass`: everything is allowed."""

    program: Sequence[str]
    permission: str = ""
    name: str = "acp"
    settings: str = ""  # JSON for Claude's agent, on top of the user's own, to disable MCP servers
    is_claude: bool = field(
        init=False
    )  # then it starts the servers of `.mcp.json` and accepts settings
    reads_only: bool = field(init=False)  # whether the program enforces read-only prompts

    def __post_init__(self) -> None:
        line = "\n".join(self.program)
        self.is_claude = any(name in line for name in _CLAUDE_PROGRAMS)
        self.reads_only = any(name in line for name in _READ_ONLY_PROGRAMS)

    def run(self, ask: Ask) -> Reply:
        """Run one prompt, in a new session or in the one it names."""
        with files.unnamed() as errors:
            return asyncio.run(self._run(ask, errors))

    async def _run(self, ask: Ask, errors: IO[str]) -> Reply:
        listener = _AcpListener(ask, bypass=self.permission == BYPASS)
        async with contextlib.AsyncExitStack() as stack:
            start = process.start_async(
                self.program, ask.folder, client.agent_environment(ask), errors
            )
            try:
                program = await stack.enter_async_context(start)
            except (OSError, ValueError, IndexError) as error:
                message = process.describe_start_error(self.program, ask.folder, error)
                return Reply("", StopReason.UNAVAILABLE, error=message)
            connection = ClientSideConnection(cast(Client, listener), program.stdin, program.stdout)
            turn = asyncio.create_task(self._play_turn(connection, listener, ask))
            try:
                if (cut := await _wait_for_turn(turn, connection, listener, ask)) is not None:
                    how = (
                        "it was stopped"
                        if cut is StopReason.CANCELLED
                        else "it took too long and was ended"
                    )
                    return listener.reply(cut, how)
                try:
                    return listener.reply(turn.result())
                except _UnsupportedError as error:
                    return listener.reply(StopReason.CRASHED, str(error))
                except RequestError as error:
                    details = (
                        error.data.get("details") if isinstance(error.data, dict) else error.data
                    )
                    message = (
                        f"{error}: {details}"
                        if isinstance(details, str) and details
                        else str(error)
                    )
                    stop = (
                        StopReason.UNAVAILABLE
                        if error.code == _AUTH_REQUIRED
                        else client.classify_error(message)
                    )
                    return listener.reply(stop, message)
                except OSError:
                    with contextlib.suppress(
                        TimeoutError
                    ):  # its last words may come a moment later
                        await asyncio.wait_for(program.wait(), process.LINGER)
                    errors.seek(0)
                    words = errors.read().strip()[-client.ERROR_LENGTH :]
                    message = f"ended in the middle: {words}" if words else "ended early"
                    return listener.reply(StopReason.CRASHED, f"{self.program[0]} {message}")
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
        version = schema.Implementation(name="ralph", version=__version__)
        initialized = await connection.initialize(
            PROTOCOL_VERSION, schema.ClientCapabilities(), version
        )
        session = await self._open_session(
            connection, listener, ask, initialized.agent_capabilities
        )
        modes = (
            {mode.id for mode in session.modes.available_modes}
            if session.modes is not None
            else set()
        )
        kind = "read" if ask.read_only else BYPASS if self.permission == BYPASS else "work"
        if (mode := next((mode for mode in _MODES[kind] if mode in modes), None)) is not None:
            await connection.set_session_mode(listener.session, mode)
        for option in session.config_options or ():
            if isinstance(option, schema.SessionConfigOptionSelect) and option.category == "model":
                listener.model = ask.model or option.current_value
                if listener.model != option.current_value:
                    await connection.set_config_option(option.id, listener.session, ask.model)
                break
        listener.started = True  # what came before was history
        response = await connection.prompt(listener.session, [text_block(ask.prompt)])
        if response.stop_reason == "max_turn_requests":
            return StopReason.MAX_TURNS
        return (
            StopReason(response.stop_reason)
            if response.stop_reason in set(StopReason)
            else StopReason.END_TURN
        )

    async def _open_session(
        self,
        connection: ClientSideConnection,
        listener: _AcpListener,
        ask: Ask,
        can: schema.AgentCapabilities | None,
    ) -> Session:
        folder = os.path.realpath(ask.folder)
        options = dict[str, Any]()
        if ask.read_only:
            options = {"tools": list(READERS), "strictMcpConfig": True}
        elif self.settings:
            options = {"settings": json.loads(self.settings)}
        meta = (
            {"claudeCode": {"options": options}} if options else {}
        )  # beyond the protocol; others ignore it
        if not ask.session:
            new = await connection.new_session(folder, None, [], **meta)
            listener.session = new.session_id
            return new
        listener.session = ask.session
        if (
            can is not None
            and can.session_capabilities is not None
            and can.session_capabilities.resume is not None
        ):
            return await connection.resume_session(ask.session, folder, None, [], **meta)
        if can is not None and can.load_session:
            return await connection.load_session(folder, ask.session, [], None, **meta)
        raise _UnsupportedError("it cannot go on with an earlier session")


async def _wait_for_turn(
    turn: asyncio.Task[StopReason],
    connection: ClientSideConnection,
    listener: _AcpListener,
    ask: Ask,
) -> StopReason | None:
    """Show text until the turn has ended; return why it was cut short, if it was."""
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
    def __init__(self, ask: Ask, *, bypass: bool = False) -> None:
        self._ask = ask
        self._bypass = bypass
        self.session = ""
        self.model = ask.model
        self.started = False
        self._texts: list[str] = []
        self._shown = 0  # how many texts were shown
        # the number of the text that begins the last message
        self._final = 0
        self._new_message = False
        self._calls: dict[str, _AcpToolCall] = {}
        self._cost = 0.0

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if not self.started:
            return
        if isinstance(update, schema.AgentMessageChunk):
            if isinstance(update.content, schema.TextContentBlock) and update.content.text:
                text = update.content.text
                if self._new_message:  # after a tool call a new message begins
                    text = f"\n\n{text}"
                    self._final = len(self._texts)
                    self._new_message = False
                self._texts.append(text)
        elif isinstance(update, schema.ToolCallStart | schema.ToolCallProgress):
            self._new_message = bool(self._texts)
            self._calls.setdefault(update.tool_call_id, _AcpToolCall()).merge(update)
        elif (
            isinstance(update, schema.UsageUpdate)
            and update.cost is not None
            and update.cost.currency == "USD"
        ):
            self._cost = update.cost.amount

    def show(self) -> None:
        """Show new text; not in the callback, since the SDK swallows exceptions there."""
        while self._shown < len(self._texts):
            self._shown += 1
            self._ask.show(self._texts[self._shown - 1])

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **kwargs: Any,
    ) -> schema.RequestPermissionResponse:
        call = self._calls.setdefault(tool_call.tool_call_id, _AcpToolCall())
        call.merge(tool_call)
        inside = bool(call.paths) and all(
            client.is_inside(path, self._ask.folder) for path in call.paths
        )
        may_write = self._bypass or (call.kind in _WRITE_KINDS and inside)
        allowed = call.kind in _READ_KINDS or (may_write and not self._ask.read_only)
        call.refused = not allowed
        kinds = ("allow_once", "allow_always") if allowed else ("reject_once", "reject_always")
        option = next((option for kind in kinds for option in options if option.kind == kind), None)
        if option is None:
            return schema.RequestPermissionResponse(
                outcome=schema.DeniedOutcome(outcome="cancelled")
            )
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def reply(self, stop: StopReason, error: str = "") -> Reply:
        calls = tuple(call.to_tool_call(self._ask) for call in self._calls.values())
        text = "".join(self._texts)
        session = self.session or self._ask.session
        final = sum(map(len, self._texts[: self._final]))
        outputs = tuple(output for call in self._calls.values() for output in call.outputs)
        return Reply(text, stop, calls, self.model, self._cost, session, error, final, outputs)


@dataclass(slots=True)
class _AcpToolCall:
    title: str = ""
    kind: str = ""
    status: str = ""
    refused: bool = False
    paths: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def merge(
        self, update: schema.ToolCallStart | schema.ToolCallProgress | schema.ToolCallUpdate
    ) -> None:
        tool = client.get_object(update.field_meta or {}, "claudeCode").get("toolName")
        self.title = str(tool or self.title or update.title or "")
        self.kind = update.kind or self.kind
        self.status = update.status or self.status
        edits = (
            block
            for block in update.content or ()
            if isinstance(block, schema.FileEditToolCallContent)
        )
        self.paths += [each.path for each in (*(update.locations or ()), *edits)]
        blocks = (
            block.content
            for block in update.content or ()
            if isinstance(block, schema.ContentToolCallContent)
        )
        outputs = [block.text for block in blocks if isinstance(block, schema.TextContentBlock)]
        raw = update.raw_output
        if raw:
            outputs.append(raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False))
        self.outputs = outputs or self.outputs  # an update replaces what was there
        arguments = update.raw_input if isinstance(update.raw_input, Mapping) else {}
        self.paths += [
            path for key in _PATH_ARGUMENTS if isinstance(path := arguments.get(key), str) and path
        ]

    def to_tool_call(self, ask: Ask) -> ToolCall:
        ok = self.status != "failed" and not self.refused
        files = tuple(dict.fromkeys(client.relative_path(path, ask.folder) for path in self.paths))
        name = self.title.split("\n")[0][:60] or self.kind or "tool"
        return ToolCall(
            name, files, ok, writes=ok and self.status == "completed" and self.kind in _WRITE_KINDS
        )
