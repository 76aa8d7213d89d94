"""Codex as an agent: `codex exec --json` with a stream of JSON events.

The kernel enforces its sandbox. It reports neither model nor cost: the model is the requested one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ralph.core.work import Ask, ProcessResult, Reply, StopReason
from ralph.loop.agents import client
from ralph.loop.agents.client import get_object, get_objects, get_text

SANDBOX = "workspace-write"
BYPASS = "danger-full-access"
READ_ONLY = "read-only"


@dataclass(slots=True)
class Codex:
    """Codex; `permission` is its sandbox."""

    program: Sequence[str] = ("codex",)
    permission: str = SANDBOX
    name: str = "codex"
    reads_only: bool = True

    def run(self, ask: Ask) -> Reply:
        """Run one prompt, in a new conversation or in the one it names."""
        return client.run_client(self.command_line(ask), ask, _CodexEventReader(ask))

    def command_line(self, ask: Ask) -> list[str]:
        """Return the command line for a prompt, which itself goes to standard input."""
        sandbox = BYPASS if self.permission == "bypass" else self.permission or SANDBOX
        argv = [*self.program, "exec", "--json", "--skip-git-repo-check"]
        argv += ["--sandbox", READ_ONLY if ask.read_only else sandbox]
        if ask.model:
            argv += ["--model", ask.model]
        # it has fewer options, so all others are before it
        if ask.session:
            argv += ["resume", ask.session]
        return [*argv, "-"]


class _CodexEventReader(client.EventReader):
    _completed = False
    _failure = ""

    def read_event(self, event: Mapping[str, object]) -> None:
        match get_text(event, "type"):
            case "thread.started":
                self.session = get_text(event, "thread_id") or self.session
            case "item.completed":
                item = get_object(event, "item")
                kind = get_text(item, "type")
                ok = get_text(item, "status") not in ("failed", "declined")
                if kind == "agent_message" and get_text(item, "text"):
                    self.add_text(get_text(item, "text"))
                elif kind == "file_change":
                    paths = [get_text(change, "path") for change in get_objects(item, "changes")]
                    self.add_call("apply_patch", paths, ok=ok, writes=ok)
                elif kind in ("command_execution", "mcp_tool_call", "web_search"):
                    mcp = f"mcp__{get_text(item, 'server')}__{get_text(item, 'tool')}"
                    name = {"command_execution": "exec_command", "mcp_tool_call": mcp}.get(
                        kind, kind
                    )
                    self.add_call(name, ok=ok, writes=False)
                    result = client.content_text(get_object(item, "result").get("content"))
                    self.outputs += filter(None, (get_text(item, "aggregated_output"), result))
            case "turn.completed":
                self._completed = True
            case "turn.failed":
                self._failure = get_text(get_object(event, "error"), "message") or "the turn failed"
            case "error":
                self._failure = get_text(event, "message") or "an error without a message"

    def find_stop_reason(self, result: ProcessResult) -> tuple[StopReason, str]:
        if result.code == 0 and (self._completed or self.texts):
            return StopReason.END_TURN, ""
        message = self._failure[-client.ERROR_LENGTH :] or client.describe_crash("codex", result)
        return client.classify_error(message), message
