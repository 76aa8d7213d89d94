"""Claude Code as an agent: `claude -p` with a stream of JSON events.

The reply is all text of the main conversation. Read-only means reading tools: plan mode leaves a shell to a classifier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ralph.core.work import Agent, Ask, ProcessResult, Reply, StopReason
from ralph.loop.agents import client
from ralph.loop.agents.client import get_number, get_object, get_objects, get_text

PERMISSION = "acceptEdits"
BYPASS = "bypassPermissions"
WRITERS = {"Edit", "Write", "MultiEdit", "NotebookEdit"}
READERS = ("Read", "Glob", "Grep")
_STOPS = {
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}


@runtime_checkable
class AcceptsClaudeSettings(Protocol):
    """An agent whose program may be Claude Code, by itself or behind ACP."""

    settings: str
    is_claude: bool


def as_claude(agent: Agent) -> AcceptsClaudeSettings | None:
    """Return the agent if it is Claude Code, else None."""
    return agent if isinstance(agent, AcceptsClaudeSettings) and agent.is_claude else None


@dataclass(slots=True)
class Claude:
    """Claude Code; `permission` is its permission mode for unattended work."""

    program: Sequence[str] = ("claude",)
    permission: str = PERMISSION
    name: str = "claude"
    reads_only: bool = True
    settings: str = ""  # JSON on top of the user's own, to disable MCP servers
    is_claude: bool = True

    def run(self, ask: Ask) -> Reply:
        """Run one prompt, in a new conversation or in the one it names."""
        return client.run_client(self.command_line(ask), ask, ClaudeEventReader(ask))

    def command_line(self, ask: Ask) -> list[str]:
        """Return the command line for a prompt, which itself goes to standard input."""
        argv = [*self.program, "-p", "--output-format", "stream-json", "--verbose"]
        if ask.read_only:
            argv += [
                "--permission-mode",
                "dontAsk",
                "--tools",
                ",".join(READERS),
                "--strict-mcp-config",
            ]
        elif self.permission:
            argv += [
                "--permission-mode",
                BYPASS if self.permission == "bypass" else self.permission,
            ]
        if self.settings and not ask.read_only:
            argv += ["--settings", self.settings]
        if ask.model:
            argv += ["--model", ask.model]
        if ask.session:
            argv += ["--resume", ask.session]
        rules = [
            f"Bash({command}:*)"
            for command in ask.allowed
            if not ask.read_only and ")" not in command
        ]
        return [*argv, "--allowedTools", *rules] if rules else argv


class ClaudeEventReader(client.EventReader):
    """Collects the reply from Claude Code's events."""

    _result: Mapping[str, object] | None = None

    def read_event(self, event: Mapping[str, object]) -> None:
        """Read one event."""
        self.session = get_text(event, "session_id") or self.session
        match get_text(event, "type"):
            case "system" if get_text(event, "subtype") == "init":
                self.model = get_text(event, "model") or self.model
            case "assistant":
                self._read_message(event)
            case "user":
                for block in get_objects(get_object(event, "message"), "content"):
                    call_id = get_text(block, "tool_use_id")
                    if get_text(block, "type") == "tool_result":
                        self.outputs.append(client.content_text(block.get("content")))
                    if call_id in self.calls and block.get("is_error") is True:
                        self.calls[call_id] = replace(self.calls[call_id], ok=False, writes=False)
            case "result":
                self._result = event
                self.cost = get_number(event, "total_cost_usd")
                for denied in get_objects(event, "permission_denials"):
                    what = get_object(denied, "tool_input")
                    names = [get_text(what, key) for key in ("command", "file_path", "url")]
                    self.refused.append(
                        " ".join(filter(None, [get_text(denied, "tool_name"), *names]))[:200]
                    )

    def _read_message(self, event: Mapping[str, object]) -> None:
        message = get_object(event, "message")
        of_subagent = bool(event.get("parent_tool_use_id"))
        of_error = event.get("is_api_error_message") is True or "error" in event
        if (model := get_text(message, "model")) and model != "<synthetic>" and not of_subagent:
            self.model = model
        for block in get_objects(message, "content"):
            if get_text(block, "type") == "tool_use":
                arguments = get_object(block, "input")
                name = get_text(block, "name") or "tool"
                paths = [get_text(arguments, key) for key in ("file_path", "notebook_path", "path")]
                self.add_call(name, paths, get_text(block, "id"), writes=name in WRITERS)
            elif (
                get_text(block, "type") == "text"
                and get_text(block, "text")
                and not (of_subagent or of_error)
            ):
                self.add_text(get_text(block, "text"))

    def find_stop_reason(self, result: ProcessResult) -> tuple[StopReason, str]:
        """Return why it ended; without other text the result's counts."""
        end = self._result
        if end is None:
            if result.code == 0 and self.texts:
                return StopReason.END_TURN, ""
            message = client.describe_crash("claude", result)
            return client.classify_error(message), message
        subtype = get_text(end, "subtype")
        text = get_text(end, "result")
        if subtype == "error_max_turns":
            return StopReason.MAX_TURNS, "it reached its highest number of turns"
        if end.get("is_error") is True or subtype.startswith("error"):
            errors = end.get("errors")
            messages = (
                [error for error in errors if isinstance(error, str)]
                if isinstance(errors, list)
                else []
            )
            message = (text or "\n".join(messages)).strip()[-client.ERROR_LENGTH :]
            message = message or client.describe_crash("claude", result)
            status = int(get_number(end, "api_error_status"))
            stop = client.classify_error(message, status)
            no_answer = (
                get_text(end, "terminal_reason") == "api_error" and not status
            )  # no network or no login
            return (
                StopReason.UNAVAILABLE if no_answer and stop is StopReason.CRASHED else stop,
                message,
            )
        self.texts = self.texts or [text]
        return _STOPS.get(get_text(end, "stop_reason"), StopReason.END_TURN), ""
