"""Collect the reply of an ACP agent from its updates, and answer its permission requests.

The protocol's SDK calls the methods of `AcpListener`. An agent reports a tool call in several
updates. It announces the call, then sends its arguments and files, and finally its output and
status.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acp import schema

from ralph.core.work import Ask, Reply, StopReason, ToolCall
from ralph.loop.agents import client
from ralph.loop.agents.json_members import get_object

_READ_KINDS = {"read", "search", "think"}
_WRITE_KINDS = {"edit", "delete", "move"}
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path", "abs_path", "filePath")
_MAX_TOOL_NAME_CHARACTERS = 60

ToolCallEvent = schema.ToolCallStart | schema.ToolCallProgress | schema.ToolCallUpdate


class AcpListener:
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
        self._calls: dict[str, _ToolCallBuilder] = {}
        self._cost = 0.0

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Handle an update from the agent. The SDK calls this."""
        if not self.started:
            return
        if isinstance(update, schema.AgentMessageChunk):
            if isinstance(update.content, schema.TextContentBlock) and update.content.text:
                self._add_text(update.content.text)
        elif isinstance(update, schema.ToolCallStart | schema.ToolCallProgress):
            self._new_message = bool(self._texts)
            self._calls.setdefault(update.tool_call_id, _ToolCallBuilder()).merge(update)
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
        """Decide about a tool call. The SDK calls this."""
        call = self._calls.setdefault(tool_call.tool_call_id, _ToolCallBuilder())
        call.merge(tool_call)
        allowed = self._is_allowed(call)
        call.refused = not allowed
        option = _find_option(options, allowed=allowed)
        if option is None:
            denied = schema.DeniedOutcome(outcome="cancelled")
            return schema.RequestPermissionResponse(outcome=denied)
        selected = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=selected)

    def _is_allowed(self, call: _ToolCallBuilder) -> bool:
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
        """Return the reply, once the turn has ended."""
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
class _ToolCallBuilder:
    """A tool call, assembled from several updates."""

    title: str = ""
    kind: str = ""
    status: str = ""
    refused: bool = False
    paths: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def merge(self, update: ToolCallEvent) -> None:
        tool_name = get_object(update.field_meta or {}, "claudeCode").get("toolName")
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
