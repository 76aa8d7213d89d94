"""An agent of our own behind the Agent Client Protocol, made with its SDK; the first argument names what it does.

It asks for permission before it writes and then does what it was told, so that a test sees on the disk whether the
answer was right. What it heard is written to `heard.json` in the folder above the session's.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import acp
from acp.schema import (
    AgentCapabilities,
    Cost,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
    ToolCallLocation,
    ToolCallUpdate,
    UsageUpdate,
)

OPTIONS = [
    PermissionOption(option_id="ever", name="Always", kind="allow_always"),
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Player:
    """Plays one of the parts below."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.heard: dict[str, Any] = {"cwd": str(Path.cwd()), "run": os.environ.get("RALPH_RUN")}
        self.folder = Path.cwd()
        self.connection: Any = None
        self.cancelled = asyncio.Event()

    def on_connect(self, connection: Any) -> None:
        self.connection = connection

    def note(self, **more: object) -> None:
        self.heard |= more
        (self.folder.parent / "heard.json").write_text(json.dumps(self.heard), encoding="utf-8")

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **_: Any) -> Any:
        if self.part == "dies":
            sys.stderr.write("no license found\n")
            sys.stderr.flush()
            os._exit(3)
        files = client_capabilities.fs if client_capabilities else None
        self.note(writes=bool(files and files.write_text_file), terminal=bool(client_capabilities.terminal))
        can = AgentCapabilities(load_session=self.part != "forgets")
        return acp.InitializeResponse(protocol_version=protocol_version, agent_capabilities=can)

    async def new_session(self, cwd: str, mcp_servers: Any = None, **meta: Any) -> NewSessionResponse:
        if self.part == "locked":
            raise acp.RequestError.auth_required()
        self.note(meta=meta.get("claudeCode"))
        return NewSessionResponse(session_id="s-1", modes=self._modes(), config_options=self._models())

    def _modes(self) -> SessionModeState:
        names = ("default", "acceptEdits", "plan", "yolo")
        return SessionModeState(current_mode_id="default", available_modes=[SessionMode(id=n, name=n) for n in names])

    def _models(self) -> Any:
        options = [SessionConfigSelectOption(value=n, name=n) for n in ("small", "large")]
        return [
            SessionConfigOptionSelect(
                id="model", name="Model", category="model", type="select", current_value="small", options=options
            )
        ]

    async def load_session(self, cwd: str, session_id: str, **meta: Any) -> Any:
        await self.say("HISTORY", session_id)
        self.note(loaded=session_id, meta=meta.get("claudeCode"))
        return acp.LoadSessionResponse()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> Any:
        self.note(mode=mode_id)
        return acp.SetSessionModeResponse()

    async def set_config_option(self, config_id: str, session_id: str, value: Any, **_: Any) -> Any:
        self.note(model=value)
        return acp.schema.SetSessionConfigOptionResponse(config_options=[])

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.note(cancelled=True)
        self.cancelled.set()

    async def say(self, text: str, session: str = "s-1") -> None:
        await self.connection.session_update(session, acp.update_agent_message(acp.text_block(text)))

    async def prompt(self, session_id: str, prompt: Any, **_: Any) -> PromptResponse:
        self.note(prompt=prompt[0].text)
        await getattr(self, f"play_{self.part}", self.play_talks)(session_id)
        stop = "cancelled" if self.cancelled.is_set() else "refusal" if self.part == "refuses" else "end_turn"
        return PromptResponse(stop_reason=stop)  # type: ignore[arg-type]  # one of its words

    async def play_talks(self, session: str) -> None:
        await self.say("one ", session)
        await self.say("two", session)
        cost = Cost(amount=0.5, currency="USD")
        update = UsageUpdate(session_update="usage_update", used=1, size=2, cost=cost)
        await self.connection.session_update(session, update)

    async def play_fails(self, session: str) -> None:
        await self.say("half", session)
        await self.attempt(session, 1, "read", "a.txt")
        await self.say("API Error: 529 Overloaded", session)
        raise acp.RequestError.internal_error({"details": "API Error: 529 Overloaded"})

    async def play_shouts(self, session: str) -> None:
        await self.say("x" * 10_000_000, session)

    async def play_noise(self, session: str) -> None:
        sys.stdout.write("this is no JSON\n")
        sys.stdout.flush()
        await self.say("fine", session)

    async def play_hangs(self, session: str) -> None:
        child = subprocess.Popen(
            [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
        )
        self.note(pids=[os.getpid(), child.pid])
        await self.say("hanging", session)
        await self.cancelled.wait()

    async def play_deaf(self, session: str) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
        self.note(pids=[os.getpid()])
        await self.say("hanging", session)
        await asyncio.sleep(600)

    async def play_works(self, session: str) -> None:
        await self.say("I work.", session)
        await self.attempt(session, 1, "edit", "inside.txt")
        await self.attempt(session, 2, "edit", "../outside.txt")
        await self.attempt(session, 3, "execute", "")
        await self.attempt(session, 4, "read", "inside.txt")
        await self.attempt(session, 5, "edit", "")
        await self.say("DONE", session)

    async def attempt(self, session: str, number: int, kind: Any, name: str) -> None:
        """Ask, and do it if allowed."""
        path = str(self.folder / name) if name else ""
        places = [ToolCallLocation(path=path)] if path else []
        call = f"call_{number}"
        start = acp.start_tool_call(call, f"{kind} {name}".strip(), kind=kind, status="pending", locations=places)
        await self.connection.session_update(session, start)
        asked = ToolCallUpdate(tool_call_id=call, kind=kind, locations=places)
        answer = await self.connection.request_permission(session, asked, OPTIONS)
        chosen = getattr(answer.outcome, "option_id", "none")
        self.note(answers=[*self.heard.get("answers", []), chosen])
        if chosen == "yes" and kind == "edit" and path:
            Path(path).write_text("written", encoding="utf-8")
        status: Any = "completed" if chosen in ("yes", "ever") else "failed"
        await self.connection.session_update(session, acp.update_tool_call(call, status=status))


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Player(sys.argv[1])))  # type: ignore[arg-type]  # it has the methods that are called
