"""Run Claude Code as an agent, with `claude -p`, which prints a stream of JSON events.

The reply consists of all text in the main conversation, without that of subagents. A read-only
prompt gets only the tools that read. Plan mode is not enough, because there a classifier decides
what a shell may do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ralph.core.work import Agent, Ask, ProcessResult, Reply, StopReason
from ralph.loop.agents import client
from ralph.loop.agents.json_members import (
    content_text,
    get_number,
    get_object,
    get_objects,
    get_text,
)

PERMISSION = "acceptEdits"
_BYPASS_MODE = "bypassPermissions"
WRITERS = {"Edit", "Write", "MultiEdit", "NotebookEdit"}
READERS = ("Read", "Glob", "Grep")
_PATH_ARGUMENTS = ("file_path", "notebook_path", "path")
_DENIED_ARGUMENTS = ("command", "file_path", "url")
_MAX_DENIAL_CHARACTERS = 200
_PLACEHOLDER_MODEL = "<synthetic>"  # stands for the model in messages from Claude Code itself
_STOP_REASONS = {
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "refusal": StopReason.REFUSAL,
}
"""The API's stop reasons, except those for a normal end of the turn."""


_OWN_SERVERS = ("mcp__ralph", "mcp__plugin_ralph_ralph")
"""Ralph's MCP server as `ralph install` and the plugin name it. All its tools are allowed."""


@runtime_checkable
class AcceptsClaudeSettings(Protocol):
    """An agent whose program may be Claude Code, either directly or through ACP."""

    settings: str
    is_claude: bool


def as_claude(agent: Agent) -> AcceptsClaudeSettings | None:
    """Return the agent if it runs Claude Code, otherwise None."""
    if isinstance(agent, AcceptsClaudeSettings) and agent.is_claude:
        return agent
    return None


@dataclass(slots=True)
class Claude:
    """Claude Code. `permission` is its permission mode for unattended work."""

    program: Sequence[str] = ("claude",)
    permission: str = PERMISSION
    name: str = "claude"
    enforces_read_only: bool = True
    settings: str = ""  # JSON, added to the user's settings to disable MCP servers
    is_claude: bool = True

    def run(self, ask: Ask) -> Reply:
        """Run one prompt, either in a new conversation or in the one given by `ask.session`."""
        return client.run_client(self.command_line(ask), ask, ClaudeEventReader(ask))

    def command_line(self, ask: Ask) -> list[str]:
        """Return the command line for a prompt, which is itself passed on standard input."""
        argv = [*self.program, "-p", "--output-format", "stream-json", "--verbose"]
        for folder in ask.folders:
            argv += ["--add-dir", str(folder)]
        if ask.read_only:
            argv += ["--permission-mode", "dontAsk", "--tools", ",".join(READERS)]
            argv.append("--strict-mcp-config")
        elif self.permission == client.BYPASS:
            argv += ["--permission-mode", _BYPASS_MODE]
        elif self.permission:
            argv += ["--permission-mode", self.permission]
        if self.settings and not ask.read_only:
            argv += ["--settings", self.settings]
        if ask.model:
            argv += ["--model", ask.model]
        if ask.session:
            argv += ["--resume", ask.session]
        rules = _permission_rules(ask)
        if rules:
            argv += ["--allowedTools", *rules]
        return argv


def _permission_rules(ask: Ask) -> list[str]:
    if ask.read_only:
        return []
    rules = [f"Bash({command}:*)" for command in ask.allowed if ")" not in command]
    return [*rules, *_OWN_SERVERS]


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
                self._read_tool_results(event)
            case "result":
                self._result = event
                self.cost = get_number(event, "total_cost_usd")
                for denial in get_objects(event, "permission_denials"):
                    self.refused.append(_describe_denial(denial))

    def _read_message(self, event: Mapping[str, object]) -> None:
        message = get_object(event, "message")
        is_subagent = bool(event.get("parent_tool_use_id"))
        is_error = event.get("is_api_error_message") is True or "error" in event
        model = get_text(message, "model")
        if model and model != _PLACEHOLDER_MODEL and not is_subagent:
            self.model = model
        for block in get_objects(message, "content"):
            match get_text(block, "type"):
                case "tool_use":
                    self._add_tool_use(block)
                case "text":
                    text = get_text(block, "text")
                    if text and not is_subagent and not is_error:
                        self.add_text(text)

    def _add_tool_use(self, block: Mapping[str, object]) -> None:
        arguments = get_object(block, "input")
        name = get_text(block, "name") or "tool"
        paths = [get_text(arguments, key) for key in _PATH_ARGUMENTS]
        self.add_call(name, paths, get_text(block, "id"), writes=name in WRITERS)

    def _read_tool_results(self, event: Mapping[str, object]) -> None:
        for block in get_objects(get_object(event, "message"), "content"):
            if get_text(block, "type") == "tool_result":
                self.outputs.append(content_text(block.get("content")))
            call_id = get_text(block, "tool_use_id")
            if call_id in self.calls and block.get("is_error") is True:
                self.calls[call_id] = replace(self.calls[call_id], ok=False, writes=False)

    def find_stop_reason(self, result: ProcessResult) -> tuple[StopReason, str]:
        """Return why Claude Code ended, and its error message."""
        end = self._result
        if end is None:
            if result.code == 0 and self.texts:
                return StopReason.END_TURN, ""
            message = client.describe_crash("claude", result)
            return client.classify_error(message), message
        subtype = get_text(end, "subtype")
        if subtype == "error_max_turns":
            return StopReason.MAX_TURNS, "it reached its maximum number of turns"
        if end.get("is_error") is True or subtype.startswith("error"):
            message = _error_message(end) or client.describe_crash("claude", result)
            return _classify_failed_result(end, message), message
        return _STOP_REASONS.get(get_text(end, "stop_reason"), StopReason.END_TURN), ""

    def reply(self, result: ProcessResult) -> Reply:
        """Return the reply.

        If Claude Code succeeded but no message contained text, the final result has the text.
        """
        reply = super().reply(result)
        if self.texts or reply.error or self._result is None:
            return reply
        return replace(reply, text=get_text(self._result, "result"))


def _describe_denial(denial: Mapping[str, object]) -> str:
    """Describe a denied tool call: the tool's name and the command, file or URL."""
    arguments = get_object(denial, "tool_input")
    words = [get_text(denial, "tool_name")]
    words += [get_text(arguments, key) for key in _DENIED_ARGUMENTS]
    return " ".join(filter(None, words))[:_MAX_DENIAL_CHARACTERS]


def _error_message(end: Mapping[str, object]) -> str:
    message = get_text(end, "result")
    if not message:
        errors = end.get("errors")
        if isinstance(errors, list):
            message = "\n".join(error for error in errors if isinstance(error, str))
    return message.strip()[-client.MAX_ERROR_CHARACTERS :]


def _classify_failed_result(end: Mapping[str, object], message: str) -> StopReason:
    status = int(get_number(end, "api_error_status"))
    stop = client.classify_error(message, status)
    # An API error without a status means that there is no network or nobody is logged in.
    is_unreachable = get_text(end, "terminal_reason") == "api_error" and not status
    if is_unreachable and stop is StopReason.CRASHED:
        return StopReason.UNAVAILABLE
    return stop
