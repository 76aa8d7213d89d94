"""Run Codex as an agent, with `codex exec --json`, which prints a stream of JSON events.

The kernel enforces the sandbox that Codex runs in. Codex reports neither the model nor the cost, so
a reply contains the model that was requested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ralph.core.work import Ask, ProcessResult, Reply, StopReason
from ralph.loop.agents import client
from ralph.loop.agents.json_members import content_text, get_object, get_objects, get_text

SANDBOX = "workspace-write"
_BYPASS_SANDBOX = "danger-full-access"
READ_ONLY = "read-only"


@dataclass(slots=True)
class Codex:
    """Codex. `permission` is its sandbox mode."""

    program: Sequence[str] = ("codex",)
    permission: str = SANDBOX
    name: str = "codex"
    enforces_read_only: bool = True

    def run(self, ask: Ask) -> Reply:
        """Run one prompt, either in a new conversation or in the one given by `ask.session`."""
        return client.run_client(self.command_line(ask), ask, _CodexEventReader(ask))

    def command_line(self, ask: Ask) -> list[str]:
        """Return the command line for a prompt, which is itself passed on standard input."""
        argv = [*self.program, "exec", "--json", "--skip-git-repo-check"]
        argv += ["--sandbox", self._sandbox(ask)]
        if ask.model:
            argv += ["--model", ask.model]
        # `resume` accepts fewer options than `exec`, so all of them go before it.
        if ask.session:
            argv += ["resume", ask.session]
        return [*argv, "-"]

    def _sandbox(self, ask: Ask) -> str:
        if ask.read_only:
            return READ_ONLY
        if self.permission == client.BYPASS:
            return _BYPASS_SANDBOX
        return self.permission or SANDBOX


class _CodexEventReader(client.EventReader):
    """Collects the reply from Codex's events."""

    _completed = False
    _failure = ""

    def read_event(self, event: Mapping[str, object]) -> None:
        match get_text(event, "type"):
            case "thread.started":
                self.session = get_text(event, "thread_id") or self.session
            case "item.completed":
                self._read_item(get_object(event, "item"))
            case "turn.completed":
                self._completed = True
            case "turn.failed":
                self._failure = get_text(get_object(event, "error"), "message") or "the turn failed"
            case "error":
                self._failure = get_text(event, "message") or "an error without a message"

    def _read_item(self, item: Mapping[str, object]) -> None:
        ok = get_text(item, "status") not in ("failed", "declined")
        match get_text(item, "type"):
            case "agent_message":
                if get_text(item, "text"):
                    self.add_text(get_text(item, "text"))
            case "file_change":
                paths = [get_text(change, "path") for change in get_objects(item, "changes")]
                self.add_call("apply_patch", paths, ok=ok, writes=ok)
            case "command_execution":
                self._add_tool("exec_command", item, ok=ok)
            case "mcp_tool_call":
                name = f"mcp__{get_text(item, 'server')}__{get_text(item, 'tool')}"
                self._add_tool(name, item, ok=ok)
            case "web_search":
                self._add_tool("web_search", item, ok=ok)

    def _add_tool(self, name: str, item: Mapping[str, object], *, ok: bool) -> None:
        self.add_call(name, ok=ok, writes=False)
        output = get_text(item, "aggregated_output")
        result = content_text(get_object(item, "result").get("content"))
        self.outputs += filter(None, (output, result))

    def find_stop_reason(self, result: ProcessResult) -> tuple[StopReason, str]:
        if result.code == 0 and (self._completed or self.texts):
            return StopReason.END_TURN, ""
        message = self._failure[-client.MAX_ERROR_CHARACTERS :] or client.describe_crash(
            "codex", result
        )
        return client.classify_error(message), message
