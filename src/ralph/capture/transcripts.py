"""Collect a session's prompts, answers and tool calls, and yield the events they amount to.

A transcript is the history that a coding agent keeps of a session. The readers in
`client_transcripts` and `text_transcripts` feed a `Conversation`, which yields the events that the
client's hooks would have sent:

    thread.prompt(at, "Fix the build")           ->  UserPromptSubmit
    thread.tool(at, "Bash", {...}, output)       ->  PostToolUse
    thread.answer(at, "Done.")
    thread.end()                                 ->  Stop, with the last answer of the turn

Other clients' tools and parameters are given Claude Code's names (`claude_call`), so that the rules
in `host_payloads` and `pipeline` apply to them. A member of a transcript that is missing or has an
unexpected type is skipped and is never an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from ralph.capture.events import Json, as_object, response_text, text_member
from ralph.core.record import NO_EXTRA

PROMPT = "UserPromptSubmit"
TOOL = "PostToolUse"
FAILED = "PostToolUseFailure"
STOP = "Stop"
SUBAGENT = "SubagentStop"
REJECTED = ("The user doesn't want to", "[Request interrupted")
_MAX_SECONDS = 100_000_000_000  # since 1970; a larger number is taken as milliseconds


class TranscriptEvent(NamedTuple):
    """One event in a session: when it happened, and the payload that a hook would have sent.

    `reader` is the host whose payload format this is.
    """

    at: str
    event: str
    payload: dict[str, object]
    reader: str = "claude"


def object_list(value: object) -> list[Json]:
    """Return the objects in a list, or [] if the value is something else."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def content_blocks(content: object) -> list[Json]:
    """Return a message's content blocks. Content that is a plain string becomes one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return object_list(content)


def parse_object(value: object) -> Json:
    """Return an object that is given as such or as JSON text, or an empty one for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return NO_EXTRA
    return as_object(value)


def log_time(value: object) -> str:
    """Return a time in the format used in logs, or "" if the value is not a time.

    Accepts ISO 8601, and seconds or milliseconds since 1970.
    """
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                moment = moment.astimezone()  # Aider writes local time
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > _MAX_SECONDS else value
            moment = datetime.fromtimestamp(seconds, UTC)
        else:
            return ""
        return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"
    except (ValueError, OverflowError, OSError):
        return ""


def member(value: Json, *names: str) -> str:
    """Return the string at a path of member names in nested objects, or ""."""
    for name in names[:-1]:
        value = as_object(value.get(name))
    return text_member(value, names[-1])


class _Answer(NamedTuple):
    """The agent's last message in a turn. `message` is its id."""

    at: str = ""
    message: str = ""
    text: str = ""


class Conversation:
    """Collects a session's messages and tool calls, and yields the events they amount to.

    A turn runs from one prompt to the next. The agent's last message in it is its answer.
    """

    def __init__(
        self, session: str = "", cwd: str = "", reader: str = "claude", agent: str = ""
    ) -> None:
        self.session = session
        self.cwd = cwd
        self.agent = agent
        self.at = ""
        self._reader = reader
        self._answer = _Answer()
        self._calls: dict[str, tuple[str, object]] = {}

    def _event(self, at: str, name: str, **members: object) -> TranscriptEvent:
        agent = {"agent_id": self.agent} if self.agent else {}
        payload = {"session_id": self.session, "cwd": self.cwd, **agent, **members}
        return TranscriptEvent(at or self.at, name, payload, self._reader)

    def prompt(self, at: str, text: str) -> Iterator[TranscriptEvent]:
        """Add a person's prompt, which ends the turn before it."""
        if text.strip() and not text.startswith(REJECTED):
            yield from self.end()
            self.at = at or self.at
            yield self._event(at, PROMPT, prompt=text)

    def answer(self, at: str, text: str, message: str = "") -> None:
        """Add a message from the agent. Parts with the same message id are joined."""
        if not text.strip():
            return
        if message and message == self._answer.message:
            text = f"{self._answer.text}\n{text}"
        self._answer = _Answer(at or self.at, message, text)

    def call(self, name: str, parameters: object, call: str) -> None:
        """Add a tool call whose result comes later. `call` is its id."""
        self._calls[call] = (name, parameters)

    def result(
        self, at: str, call: str, response: object, *, failed: bool = False
    ) -> Iterator[TranscriptEvent]:
        """Add the result of an earlier tool call."""
        name, parameters = self._calls.pop(call, ("", NO_EXTRA))
        if name:
            yield self.tool(at, name, parameters, response, call=call, failed=failed)

    def tool(
        self,
        at: str,
        name: str,
        parameters: object,
        response: object,
        *,
        call: str = "",
        failed: bool = False,
    ) -> TranscriptEvent:
        """Add a tool call together with its result."""
        self.at = at or self.at
        members: dict[str, object] = {
            "tool_name": name,
            "tool_input": parameters,
            "tool_use_id": call,
        }
        if failed:
            return self._event(at, FAILED, **members, error=response_text(response))
        return self._event(at, TOOL, **members, tool_response=response)

    def end(self) -> Iterator[TranscriptEvent]:
        """End the turn and yield its answer, if it has one."""
        answer = self._answer
        self._answer = _Answer()
        if not answer.text:
            return
        members: dict[str, object] = {}
        if self._reader == "gemini":
            members["prompt_response"] = answer.text
        else:
            members["last_assistant_message"] = answer.text
        if self.agent:
            yield self._event(answer.at, SUBAGENT, **members, agent_type="agent")
        else:
            yield self._event(answer.at, STOP, **members)


# --- the names of tools ---------------------------------------------------------------------------

_CLAUDE_NAMES = {
    "bash": "Bash",
    "shell": "Bash",
    "Shell": "Bash",
    "run_terminal_cmd": "Bash",
    "run_terminal_command": "Bash",
    "run_terminal_command_v2": "Bash",
    "execute_command": "Bash",
    "run_commands": "Bash",
    "exec": "Bash",
    "terminal": "Bash",
    "read": "Read",
    "view": "Read",
    "read_file": "Read",
    "read_file_v2": "Read",
    "read_files": "Read",
    "open_file": "Read",
    "edit": "Edit",
    "str_replace": "Edit",
    "StrReplace": "Edit",
    "search_replace": "Edit",
    "edit_file": "Edit",
    "edit_file_v2": "Edit",
    "replace_in_file": "Edit",
    "apply_diff": "Edit",
    "editor": "Edit",
    "str_replace_editor": "Edit",
    "multiedit": "Edit",
    "write": "Write",
    "create": "Write",
    "write_to_file": "Write",
    "write_file": "Write",
    "create_file": "Write",
    "grep": "Grep",
    "codebase_search": "Grep",
    "grep_search": "Grep",
    "search_files": "Grep",
    "ripgrep_raw_search": "Grep",
    "rg": "Grep",
    "glob": "Glob",
    "list": "Glob",
    "list_dir": "Glob",
    "list_files": "Glob",
    "file_search": "Glob",
    "glob_file_search": "Glob",
    "webfetch": "WebFetch",
    "web_fetch": "WebFetch",
    "fetch": "WebFetch",
    "websearch": "WebSearch",
    "web_search": "WebSearch",
}
"""Other clients' tool names, mapped to Claude Code's."""
_CLAUDE_TOOLS = frozenset(_CLAUDE_NAMES.values())
_OTHER_PARAMETERS = {
    "file_path": (
        "filePath",
        "path",
        "target_file",
        "relativeWorkspacePath",
        "targetFile",
        "absolute_path",
    ),
    "old_string": (
        "old_str",
        "oldString",
        "old_text",
    ),
    "new_string": (
        "new_str",
        "newString",
        "new_text",
    ),
    "content": (
        "file_text",
        "contents",
        "code_edit",
    ),
    "command": ("cmd",),
}
"""Claude Code's parameter names, with the names that other clients use for them."""


def claude_call(name: str, value: object) -> tuple[str, dict[str, object]]:
    """Return a tool call with Claude Code's tool and parameter names.

    A tool that Claude Code does not have keeps its names.
    """
    parameters = dict(parse_object(value))
    claude_name = _CLAUDE_NAMES.get(name, name)
    if claude_name in _CLAUDE_TOOLS:
        for key, other_keys in _OTHER_PARAMETERS.items():
            if key not in parameters:
                _rename_first(parameters, other_keys, key)
    commands = parameters.get("commands")
    if claude_name == "Bash" and isinstance(commands, list):
        lines = [command for command in commands if isinstance(command, str)]
        parameters = {"command": "\n".join(lines)}
    return claude_name, parameters


def _rename_first(parameters: dict[str, object], other_keys: Iterable[str], key: str) -> None:
    for other_key in other_keys:
        if other_key in parameters:
            parameters[key] = parameters.pop(other_key)
            return


def with_exit_code(output: str, code: object) -> tuple[str, bool]:
    """Return an output and whether its exit code means failure.

    In that case, the output begins with `Exit code N`, as in Claude Code.
    """
    if isinstance(code, int) and code != 0:
        return f"Exit code {code}\n{output}", True
    return output, False
