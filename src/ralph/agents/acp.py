"""Any agent that speaks the Agent Client Protocol, with the protocol's own SDK (the extra `acp`).

The agent is a program in a session of its own, spoken to over its pipes; asyncio lives in this module alone and is
gone when `run` returns. We offer it neither files nor terminals: it works with its own tools and asks us for
permission. Work means: reading is fine, edits are fine inside of the folder, everything else only with `bypass`;
a read-only question gets none of it, and the agent's own mode for that where it has one. Claude behind its adapter
starts the MCP servers that a repository names, as `claude` does; it takes the same settings against that. Replayed
history of a loaded session is not part of the reply. At a stop the turn is cancelled by the protocol first, and then
the process and its descendants are ended. Proof: `tests/agents/test_acp.py` on an agent of our own made with the same
SDK, `tests/e2e/test_agents.py` and `tests/e2e/test_mcp_acp.py` on the real Claude agent.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from acp import PROTOCOL_VERSION, Client, RequestError, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    ClientCapabilities,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    ResumeSessionResponse,
    SessionConfigOptionSelect,
    SessionConfigSelectGroup,
)

from ralph import __version__
from ralph.agents import process, trouble
from ralph.agents.acp_client import Listener
from ralph.agents.acp_program import Program
from ralph.agents.surroundings import environment
from ralph.model.work import Ask, Reply, StopReason

BYPASS = "bypass"
READERS = ("Read", "Glob", "Grep")
_TICK = 0.05
_ASK = 0.2
_AUTH_REQUIRED = -32000
_CLAUDES = ("claude-agent-acp", "claude-code-acp")
"""Programs that are Claude Code behind the protocol."""
_READS_ONLY = (*_CLAUDES, "opencode")
"""Programs that are known to have a mode, or tools, for reading alone."""
_MODELS = "CLAUDE_MODEL_CONFIG"
"""Where Claude's agent finds settings for models, which it leaves alone when it is given any settings."""

_MODES = {
    "read": ("dontAsk", "read-only", "readonly", "plan", "architect", "ask"),
    "work": ("acceptEdits", "autoEdit", "auto_edit"),
    BYPASS: ("bypassPermissions", "yolo"),
}
"""By which names agents call a mode, the best first; `dontAsk` is Claude's, whose tools we choose ourselves."""

_STOPS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "max_turn_requests": StopReason.MAX_TURNS,
    "refusal": StopReason.REFUSAL,
    "cancelled": StopReason.CANCELLED,
}

Session = NewSessionResponse | LoadSessionResponse | ResumeSessionResponse


class _Unable(Exception):
    """The agent cannot do what it was asked; the message says why."""


@dataclass(slots=True)
class Acp:
    """An agent behind the protocol; `permission` may be `bypass`, which lets it do everything."""

    program: Sequence[str]
    permission: str = ""
    name: str = "acp"
    settings: str = ""  # JSON for Claude's agent, on top of the user's own, for MCP servers that are left out

    @property
    def is_claude(self) -> bool:
        """Whether this program is Claude Code, which starts servers of `.mcp.json` and takes settings."""
        return any(known in word for word in self.program for known in _CLAUDES)

    @property
    def reads_only(self) -> bool:
        """Whether this program is known to keep to reading when told so."""
        return any(known in word for word in self.program for known in _READS_ONLY)

    @reads_only.setter
    def reads_only(self, value: bool) -> None:
        raise AttributeError("it follows from the program")

    def run(self, ask: Ask) -> Reply:
        """One prompt, in a new session or in the one it names."""
        try:
            program = Program(self.program, ask.folder, environment(ask))
        except (OSError, ValueError, IndexError) as error:
            words = process.not_started(self.program, ask.folder, error)
            return Reply("", StopReason.UNAVAILABLE, error=words)
        try:
            with asyncio.Runner() as runner:
                return runner.run(self._run(ask, program))
        finally:
            program.kill()

    def _settings(self, ask: Ask) -> Mapping[str, object]:
        """What Claude's agent is told of settings; those of its environment go along, since it would forget them."""
        if not self.settings:
            return {}
        return {**_models(environment(ask).get(_MODELS, "")), **json.loads(self.settings)}

    async def _run(self, ask: Ask, program: Program) -> Reply:
        try:
            return await self._converse(ask, program)
        finally:
            await program.close()

    async def _converse(self, ask: Ask, program: Program) -> Reply:
        listener = Listener(ask, bypass=self.permission == BYPASS)
        reader, writer = await program.connect()
        connection = ClientSideConnection(cast(Client, listener), writer, reader)
        turn = asyncio.create_task(_Turn(connection, listener, ask, self.permission, self._settings(ask)).play())
        try:
            cut = await _watched(turn, connection, listener, ask)
            return await self._reply(cut, turn, listener, program)
        finally:
            turn.cancel()
            with contextlib.suppress(asyncio.CancelledError, RequestError, ConnectionError, OSError, _Unable):
                await turn
            with contextlib.suppress(ConnectionError, OSError):
                await connection.close()

    async def _reply(
        self, cut: StopReason | None, turn: "asyncio.Task[StopReason]", listener: Listener, program: Program
    ) -> Reply:
        if cut is not None:
            error = "it was stopped" if cut is StopReason.CANCELLED else "it took too long and was ended"
            return listener.reply(cut, error)
        try:
            return listener.reply(turn.result())
        except _Unable as error:
            return listener.reply(StopReason.CRASHED, str(error))
        except RequestError as error:
            words = _words(error)
            stop = StopReason.UNAVAILABLE if error.code == _AUTH_REQUIRED else trouble.judged(words)
            return listener.reply(stop, words)
        except (ConnectionError, OSError):
            said = await program.complaints()
            words = f"{self.program[0]} ended in the middle: {said}" if said else f"{self.program[0]} ended early"
            return listener.reply(StopReason.CRASHED, words)


def _models(text: str) -> Mapping[str, object]:
    """The settings for models that a variable holds; what is wrong with it is the agent's to complain about."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    known = said if isinstance(said, dict) else {}
    return {name: known[name] for name in ("modelOverrides", "availableModels") if name in known}


def _words(error: RequestError) -> str:
    """An error of the protocol; what happened is often in its data alone."""
    extra = error.data.get("details") if isinstance(error.data, dict) else error.data
    return f"{error}: {extra}" if isinstance(extra, str) and extra else str(error)


@dataclass(slots=True)
class _Turn:
    """The requests that make up one turn, in their order."""

    connection: ClientSideConnection
    listener: Listener
    ask: Ask
    permission: str
    settings: Mapping[str, object]

    async def play(self) -> StopReason:
        """Say hello, open the session, choose mode and model, and prompt."""
        me = Implementation(name="ralph", version=__version__)
        hello = await self.connection.initialize(PROTOCOL_VERSION, ClientCapabilities(), me)
        session = await self._session(hello)
        await self._choose_mode(session)
        await self._choose_model(session)
        self.listener.begin()
        done = await self.connection.prompt(self.listener.session, [text_block(self.ask.prompt)])
        return _STOPS.get(done.stop_reason, StopReason.END_TURN)

    async def _session(self, hello: InitializeResponse) -> Session:
        folder = os.path.realpath(self.ask.folder)
        meta = self._meta()
        if not self.ask.session:
            new = await self.connection.new_session(folder, None, [], **meta)
            self.listener.session = new.session_id
            return new
        self.listener.session = self.ask.session
        can = hello.agent_capabilities
        if can is not None and can.session_capabilities is not None and can.session_capabilities.resume is not None:
            return await self.connection.resume_session(self.ask.session, folder, None, [], **meta)
        if can is not None and can.load_session:
            return await self.connection.load_session(folder, self.ask.session, [], None, **meta)
        raise _Unable("it cannot go on with an earlier session")

    def _meta(self) -> dict[str, Any]:
        """What Claude's agent takes beyond the protocol; others leave such words alone."""
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
        for each in option.options:
            inside = each.options if isinstance(each, SessionConfigSelectGroup) else [each]
            offered += [one.value for one in inside]
        if self.ask.model not in offered:
            raise _Unable(f"the model {self.ask.model!r} is not offered, only: {', '.join(offered)}")
        await self.connection.set_config_option(option.id, self.listener.session, self.ask.model)
        self.listener.model = self.ask.model


async def _watched(
    turn: "asyncio.Task[StopReason]", connection: ClientSideConnection, listener: Listener, ask: Ask
) -> StopReason | None:
    """Wait for the turn and show what comes; gives what cut it short, after telling the agent so."""
    ends = time.monotonic() + ask.timeout if ask.timeout > 0 else float("inf")
    ask_next = 0.0
    while True:
        done, _ = await asyncio.wait({turn}, timeout=max(0.0, min(_TICK, ends - time.monotonic())))
        listener.show()
        if done:
            return None
        cut = StopReason.TIMEOUT if time.monotonic() >= ends else None
        if time.monotonic() >= ask_next:
            ask_next = time.monotonic() + _ASK
            cut = StopReason.CANCELLED if ask.stopped() else cut
        if cut is not None:
            if listener.session:
                with contextlib.suppress(ConnectionError, OSError):
                    await connection.cancel(listener.session)
                await asyncio.wait({turn}, timeout=process.GRACE)
                listener.show()
            return cut
