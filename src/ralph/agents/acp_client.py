"""Our side of the Agent Client Protocol: hears what an agent says and does, and answers its requests for permission.

Who asks is judged by the kind of tool and by every path that the request names, links followed: an edit is allowed
inside of the folder alone. An answer picks an option by its kind, and one that holds once rather than for good. What
an agent asks that we never offered (files, terminals, forms) has no method here, and the SDK says so to it. Proof:
`tests/agents/test_acp.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    DeniedOutcome,
    FileEditToolCallContent,
    PermissionOption,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    UsageUpdate,
)

from ralph.agents.surroundings import is_inside, place
from ralph.model.work import Ask, Reply, StopReason, ToolCall

READS = {"read", "search", "think"}
WRITES = {"edit", "delete", "move"}
_PATHS = ("file_path", "notebook_path", "path", "abs_path", "filePath")


class Listener:
    """What one turn has told so far."""

    def __init__(self, ask: Ask, *, bypass: bool = False) -> None:
        self.session = ""
        self.model = ask.model
        self._ask = ask
        self._bypass = bypass
        self._begun = False
        self._texts: list[str] = []
        self._unshown: list[str] = []
        self._last = 0
        self._gap = False
        self._calls: dict[str, _Call] = {}
        self._cost = 0.0

    def begin(self) -> None:
        """From now on it is this turn; what came before was history."""
        self._begun = True

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Hear one piece of news."""
        if not self._begun:
            return
        if isinstance(update, AgentMessageChunk):
            if isinstance(update.content, TextContentBlock) and update.content.text:
                self._say(update.content.text)
        elif isinstance(update, ToolCallStart | ToolCallProgress):
            self._gap = bool(self._texts)
            self._calls.setdefault(update.tool_call_id, _Call()).hear(update, self._ask)
        elif isinstance(update, UsageUpdate) and update.cost is not None and update.cost.currency == "USD":
            self._cost = update.cost.amount

    def _say(self, text: str) -> None:
        """Pieces of one message belong together; after a tool a new message begins."""
        if self._gap:
            text = f"\n\n{text}"
            self._gap = False
            self._last = len(self._texts)
        self._texts.append(text)
        self._unshown.append(text)

    def show(self) -> None:
        """Show what has come since; not where it is heard, since the SDK keeps to itself what fails there."""
        while self._unshown:
            self._ask.show(self._unshown.pop(0))

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **kwargs: Any
    ) -> RequestPermissionResponse:
        """Allow or refuse one use of a tool."""
        known = self._calls.setdefault(tool_call.tool_call_id, _Call())
        known.hear(tool_call, self._ask)
        allowed = self._may(known)
        known.refused = not allowed
        return RequestPermissionResponse(outcome=_outcome(options, "allow" if allowed else "reject"))

    def _may(self, call: "_Call") -> bool:
        if call.kind in READS:
            return True
        if self._ask.read_only:
            return False
        inside = bool(call.paths) and all(is_inside(path, self._ask.folder) for path in call.paths)
        return self._bypass or (call.kind in WRITES and inside)

    def reply(self, stop: StopReason, error: str = "") -> Reply:
        """The whole reply, once the turn is over."""
        calls = tuple(call.value(self._ask) for call in self._calls.values())
        last = "".join(self._texts[self._last :]).strip()
        if last and last in error:  # a message about a failed request, told as the agent's own words
            del self._texts[self._last :]
        text = "".join(self._texts)
        return Reply(text, stop, calls, self.model, self._cost, self.session or self._ask.session, error)


class _Call:
    """One use of a tool, told in several pieces."""

    def __init__(self) -> None:
        self.title = ""
        self.kind = ""
        self.status = ""
        self.refused = False
        self.paths: list[str] = []

    def hear(self, update: ToolCallStart | ToolCallProgress | ToolCallUpdate, ask: Ask) -> None:
        """The next piece; what it leaves out stays as it was."""
        meta = update.field_meta or {}
        own = meta.get("claudeCode")
        tool = own.get("toolName") if isinstance(own, Mapping) else None
        self.title = str(tool or self.title or update.title or "")
        self.kind = update.kind or self.kind
        self.status = update.status or self.status
        self.paths = list(dict.fromkeys([*self.paths, *_paths(update)]))

    def value(self, ask: Ask) -> ToolCall:
        """What is told of it; a name is one word where the agent has no better."""
        ok = self.status != "failed" and not self.refused
        files = tuple(dict.fromkeys(place(path, ask.folder) for path in self.paths))
        name = self.title.split("\n")[0][:60] or self.kind or "tool"
        return ToolCall(name, files, ok, writes=ok and self.status == "completed" and self.kind in WRITES)


def _paths(update: ToolCallStart | ToolCallProgress | ToolCallUpdate) -> Iterator[str]:
    """Every file that a piece of news names."""
    yield from (each.path for each in update.locations or ())
    yield from (each.path for each in update.content or () if isinstance(each, FileEditToolCallContent))
    if isinstance(update.raw_input, Mapping):
        yield from (value for key in _PATHS if isinstance(value := update.raw_input.get(key), str) and value)


def _outcome(options: Sequence[PermissionOption], wish: str) -> AllowedOutcome | DeniedOutcome:
    for kind in (f"{wish}_once", f"{wish}_always"):
        for option in options:
            if option.kind == kind:
                return AllowedOutcome(outcome="selected", option_id=option.option_id)
    return DeniedOutcome(outcome="cancelled")
