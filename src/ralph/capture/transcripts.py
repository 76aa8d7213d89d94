"""Read coding agents' transcripts as the events that their hooks would have sent.

There is one function per format. It takes JSON objects (or text) and yields `TranscriptEvent`s.
Other clients' tools and parameters are given Claude Code's names, so that the readers in `events`
and the rules in `pipeline` apply to them. Ralph does not control what a transcript contains: a
member that is missing or has an unexpected type is skipped and is never an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from ralph.capture.events import Json, as_object, response_text, text_member
from ralph.core.record import NO_EXTRA

PROMPT = "UserPromptSubmit"
TOOL = "PostToolUse"
FAILED = "PostToolUseFailure"
STOP = "Stop"
SUBAGENT = "SubagentStop"
_REJECTED = ("The user doesn't want to", "[Request interrupted")
_COMMAND = re.compile(r"<command-name>\s*(/?[^<]{1,200}?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_MAX_SECONDS = 100_000_000_000  # since 1970; a larger number is taken as milliseconds


class TranscriptEvent(NamedTuple):
    """One event in a session: when it happened, and the payload that a hook would have sent.

    `reader` is the host whose payload format this is.
    """

    at: str
    event: str
    payload: dict[str, object]
    reader: str = "claude"


def _objects(value: object) -> list[Json]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def _content_blocks(content: object) -> list[Json]:
    """Return a message's content blocks. Content that is a plain string becomes one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _objects(content)


def parsed(value: object) -> Json:
    """Return an object that is given as such or as a JSON string, or else an empty one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return NO_EXTRA
    return as_object(value)


def instant(value: object) -> str:
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
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError, OSError):
        return ""


def member(value: Json, *names: str) -> str:
    """Return the string at a path of member names in nested objects, or ""."""
    for name in names[:-1]:
        value = as_object(value.get(name))
    return text_member(value, names[-1])


def cursor_headers(composer: Json) -> list[str]:
    """Return the message ids of a Cursor conversation, in order."""
    headers = _objects(composer.get("fullConversationHeadersOnly"))
    return [text_member(header, "bubbleId") for header in headers]


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
        if text.strip() and not text.startswith(_REJECTED):
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


# --- Claude Code ---------------------------------------------------------------------------------


def read_claude(values: Iterable[Json]) -> Iterator[TranscriptEvent]:
    """Read Claude Code's JSONL, which has `user` and `assistant` lines.

    A subagent's lines have its `agentId`.
    """
    threads: dict[str, Conversation] = {}
    for value in values:
        if value.get("isMeta") is True or value.get("isCompactSummary") is True:
            continue
        if value.get("type") not in ("user", "assistant"):
            continue
        agent = text_member(value, "agentId")
        if not agent and value.get("isSidechain") is True:
            agent = "sidechain"
        thread = threads.setdefault(agent, Conversation(agent=agent))
        thread.session = text_member(value, "sessionId") or thread.session
        thread.cwd = text_member(value, "cwd") or thread.cwd
        if value.get("type") == "assistant":
            _read_claude_answer(thread, value)
        else:
            yield from _read_claude_user(thread, value)
    for thread in threads.values():
        yield from thread.end()


def _read_claude_answer(thread: Conversation, value: Json) -> None:
    at = instant(value.get("timestamp"))
    message = as_object(value.get("message"))
    for block in _content_blocks(message.get("content")):
        if block.get("type") == "tool_use":
            thread.call(text_member(block, "name"), block.get("input"), text_member(block, "id"))
        elif block.get("type") == "text":
            thread.answer(at, text_member(block, "text"), text_member(message, "id"))


def _read_claude_user(thread: Conversation, value: Json) -> Iterator[TranscriptEvent]:
    """Read a `user` line, which holds either tool results or a prompt."""
    at = instant(value.get("timestamp"))
    blocks = _content_blocks(as_object(value.get("message")).get("content"))
    results = [block for block in blocks if block.get("type") == "tool_result"]
    for block in results:
        response: object = response_text(block.get("content"))
        failed = block.get("is_error") is True
        if failed and str(response).startswith(_REJECTED):
            continue
        details = value.get("toolUseResult")
        if isinstance(details, Mapping) and len(results) == 1 and not failed:
            response = details
        yield from thread.result(at, text_member(block, "tool_use_id"), response, failed=failed)
    texts = [text_member(block, "text") for block in blocks if block.get("type") == "text"]
    prompt = "\n".join(texts)
    if prompt and not results and not thread.agent:
        yield from thread.prompt(at, _as_typed(prompt))


def _as_typed(prompt: str) -> str:
    """Return a slash command as the person typed it. Any other prompt is returned unchanged."""
    name = _COMMAND.search(prompt)
    if name is None:
        return prompt
    arguments = _ARGUMENTS.search(prompt)
    typed = f"/{name[1].lstrip('/')} "
    if arguments:
        typed += arguments[1]
    return typed.strip()


# --- Codex ----------------------------------------------------------------------------------------

_CODEX_SHELLS = ("exec_command", "shell", "local_shell", "container.exec", "shell_command")
_MACHINE_PROMPTS = ("# AGENTS.md instructions", "<")


def read_codex(values: Iterable[Json]) -> Iterator[TranscriptEvent]:
    """Read a Codex rollout, which has a `session_meta` line and then `response_item` lines."""
    thread = Conversation(reader="codex")
    for value in values:
        payload = as_object(value.get("payload"))
        kind = value.get("type")
        if kind in ("session_meta", "turn_context"):
            thread.session = thread.session or text_member(payload, "session_id", "id")
            thread.cwd = text_member(payload, "cwd") or thread.cwd
        elif kind == "response_item":
            yield from _read_codex_item(thread, payload, instant(value.get("timestamp")))
    yield from thread.end()


def _read_codex_item(thread: Conversation, item: Json, at: str) -> Iterator[TranscriptEvent]:
    kind = item.get("type")
    call = text_member(item, "call_id", "id")
    if kind == "message":
        texts = [text_member(block, "text") for block in _objects(item.get("content"))]
        if item.get("role") == "assistant":
            thread.answer(at, "\n".join(texts))
        elif item.get("role") == "user":
            prompts = [text for text in texts if not text.startswith(_MACHINE_PROMPTS)]
            yield from thread.prompt(at, "\n".join(prompts))
    elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
        arguments = item.get("arguments", item.get("input", item.get("action")))
        name = text_member(item, "name") or "local_shell"
        if name in _CODEX_SHELLS:
            name = "Bash"
        thread.call(name, parsed(arguments) or arguments, call)
    elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
        yield from thread.result(at, call, item.get("output"))


# --- the other clients ----------------------------------------------------------------------------

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
    parameters = dict(parsed(value))
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


def read_gemini(values: Iterable[Json], cwd: str) -> Iterator[TranscriptEvent]:
    """Read a Gemini CLI chat, which is one object with `messages`, or one message per line."""
    thread = Conversation(cwd=cwd, reader="gemini")
    for value in values:
        thread.session = thread.session or text_member(value, "sessionId")
        for message in _objects(value.get("messages")) or [value]:
            yield from _read_gemini_message(thread, message)
    yield from thread.end()


def _read_gemini_message(thread: Conversation, message: Json) -> Iterator[TranscriptEvent]:
    at = instant(message.get("timestamp"))
    texts = [text_member(block, "text") for block in _content_blocks(message.get("content"))]
    text = "\n".join(texts)
    kind = message.get("type")
    if kind == "user":  # tool results are user messages too, but have no text
        yield from thread.prompt(at, text)
    elif kind in ("gemini", "model"):
        thread.answer(at, text)
    for call in _objects(message.get("toolCalls")):
        output = _gemini_output(call)
        response: dict[str, object] = {"llmContent": output}
        if call.get("status") in ("error", "cancelled"):
            response["error"] = output
        moment = instant(call.get("timestamp")) or at
        parameters = as_object(call.get("args"))
        name = text_member(call, "name")
        yield thread.tool(moment, name, parameters, response, call=text_member(call, "id"))


def _gemini_output(call: Json) -> str:
    outputs = []
    for part in _objects(call.get("result")):
        response = as_object(as_object(part.get("functionResponse")).get("response"))
        outputs.append(response_text(response.get("output") or response.get("error")))
    return "\n".join(outputs)


_COPILOT_END = re.compile(r"\s*<[^<>\n]{0,60}exit code (\d{1,3})>\s*$")


def _with_exit(output: str, code: object) -> tuple[str, bool]:
    """Return an output and whether its exit code means failure.

    In that case, the output begins with `Exit code N`, as in Claude Code.
    """
    if isinstance(code, int) and code != 0:
        return f"Exit code {code}\n{output}", True
    return output, False


def read_copilot(values: Iterable[Json]) -> Iterator[TranscriptEvent]:
    """Read the events of a Copilot CLI session."""
    thread = Conversation()
    for value in values:
        kind = value.get("type")
        data = as_object(value.get("data"))
        at = instant(value.get("timestamp"))
        if kind == "session.start":
            thread.session = text_member(data, "sessionId")
            thread.cwd = member(data, "context", "cwd") or thread.cwd
        elif kind == "user.message":
            yield from thread.prompt(at, text_member(data, "content"))
        elif kind == "assistant.message":
            thread.answer(at, text_member(data, "content"))
        elif kind == "tool.execution_start":
            name, parameters = claude_call(text_member(data, "toolName"), data.get("arguments"))
            thread.call(name, parameters, text_member(data, "toolCallId"))
        elif kind == "tool.execution_complete":
            output, failed = _copilot_result(data)
            yield from thread.result(at, text_member(data, "toolCallId"), output, failed=failed)
    yield from thread.end()


def _copilot_result(data: Json) -> tuple[str, bool]:
    output = response_text(as_object(data.get("result")).get("content"))
    failed = False
    ended = _COPILOT_END.search(output)
    if ended:
        output, failed = _with_exit(output[: ended.start()], int(ended[1]))
    if not output:
        output = response_text(as_object(data.get("error")))
    return output, failed or data.get("success") is False


def read_opencode(
    rows: Iterable[tuple[str, str, str, object, object]],
) -> Iterator[TranscriptEvent]:
    """Read rows from OpenCode's database, given in order.

    A row has the session, its folder, its parent session if it is a subagent's, and a message and
    one of its parts as JSON.
    """
    thread = Conversation()
    for session, folder, parent, message, part in rows:
        if session != thread.session:
            yield from thread.end()
            thread = Conversation(session, folder, agent="agent" if parent else "")
        yield from _read_opencode_part(thread, parsed(message), parsed(part))
    yield from thread.end()


def _read_opencode_part(
    thread: Conversation, message: Json, part: Json
) -> Iterator[TranscriptEvent]:
    started = as_object(part.get("time")).get("start")
    at = instant(started or as_object(message.get("time")).get("created"))
    state = as_object(part.get("state"))
    if part.get("type") == "text" and part.get("synthetic") is not True:
        if text_member(message, "role") != "user":
            thread.answer(at, text_member(part, "text"), text_member(part, "messageID"))
        elif not thread.agent:
            yield from thread.prompt(at, text_member(part, "text"))
    elif part.get("type") == "tool" and state.get("status") in ("completed", "error"):
        name, parameters = claude_call(text_member(part, "tool"), state.get("input"))
        output = response_text(state.get("output") or state.get("error"))
        output, failed = _with_exit(output, as_object(state.get("metadata")).get("exit"))
        failed = failed or state.get("status") == "error"
        moment = instant(as_object(state.get("time")).get("end")) or at
        call = text_member(part, "callID")
        yield thread.tool(moment, name, parameters, output, call=call, failed=failed)


def read_cursor(composer: Json, bubbles: Iterable[Json], cwd: str) -> Iterator[TranscriptEvent]:
    """Read a Cursor conversation from its `composerData` and its bubbles, given in order."""
    thread = Conversation(text_member(composer, "composerId"), cwd)
    start = instant(composer.get("createdAt"))
    for bubble in bubbles:
        created = instant(bubble.get("createdAt")) or instant(bubble.get("timestamp"))
        at = created or thread.at or start
        tool = as_object(bubble.get("toolFormerData"))
        if bubble.get("type") == 1:
            yield from thread.prompt(at, text_member(bubble, "text", "rawText"))
        elif text_member(tool, "name"):
            yield _read_cursor_tool(thread, tool, at)
        else:
            thread.answer(at, text_member(bubble, "text", "rawText"))
    yield from thread.end()


def _read_cursor_tool(thread: Conversation, tool: Json, at: str) -> TranscriptEvent:
    arguments = tool.get("rawArgs") or tool.get("params")
    name, parameters = claude_call(text_member(tool, "name"), arguments)
    result = parsed(tool.get("result"))
    output = response_text(result.get("output") or result or tool.get("result"))
    output, failed = _with_exit(output, result.get("exitCode", result.get("exitCodeV2")))
    failed = failed or text_member(tool, "status") in ("error", "failed")
    return thread.tool(
        at, name, parameters, output, call=text_member(tool, "toolCallId"), failed=failed
    )


_CLINE_TASK = re.compile(r"<(task|feedback|user_message|answer)>\s*(.*?)\s*</\1>", re.DOTALL)
_CLINE_TOOL = re.compile(
    r"<(execute_command|read_file|write_to_file|replace_in_file|apply_diff|search_files|list_files)>"
    r"(.*?)</\1>",
    re.DOTALL,
)
_CLINE_PARAMETER = re.compile(r"<(command|path|content|diff|regex)>\n?(.*?)\n?</\1>", re.DOTALL)
_CLINE_RESULT = re.compile(r"\[\w+(?: for '.*?')?\] Result:\s*")
_CLINE_THINKING = re.compile(r"(?s)<thinking>.*?</thinking>")
_MAX_EXIT_SEARCH = 400  # characters of an output to search for an exit code
_EXIT = re.compile(
    r"(?:exit code|exited with code|exit status)[: ]+([1-9]\d{0,2})\b", re.IGNORECASE
)


def read_cline(
    messages: Iterable[Json], session: str, cwd: str, start: object
) -> Iterator[TranscriptEvent]:
    """Read a Cline or Roo task, which consists of messages in Anthropic's format.

    Tool calls may be content blocks, or tags in the text such as `<execute_command>`.
    """
    thread = Conversation(session, cwd)
    thread.at = instant(start)
    tag_call = ""  # the id given to the last call written as tags
    for number, message in enumerate(messages):
        at = instant(message.get("ts"))
        is_agent = message.get("role") == "assistant"
        blocks = _content_blocks(message.get("content"))
        for block in blocks:
            text = text_member(block, "text")
            if block.get("type") == "tool_use":
                name, parameters = claude_call(text_member(block, "name"), block.get("input"))
                thread.call(name, parameters, text_member(block, "id"))
            elif block.get("type") == "tool_result":
                output = response_text(block.get("content"))
                yield from _cline_result(thread, at, text_member(block, "tool_use_id"), output)
            elif is_agent:
                if _read_cline_tags(thread, text, f"text-{number}"):
                    tag_call = f"text-{number}"
                thread.answer(at, _CLINE_TOOL.sub("", _CLINE_THINKING.sub("", text)))
            else:
                yield from _read_cline_user(thread, at, text, blocks, tag_call)
    yield from thread.end()


def _read_cline_tags(thread: Conversation, text: str, call: str) -> bool:
    """Add the tool calls written as tags in `text`, and return whether there are any."""
    found = False
    for tool in _CLINE_TOOL.finditer(text):
        name, parameters = claude_call(tool[1], dict(_CLINE_PARAMETER.findall(tool[2])))
        thread.call(name, parameters, call)
        found = True
    return found


def _read_cline_user(
    thread: Conversation, at: str, text: str, blocks: list[Json], tag_call: str
) -> Iterator[TranscriptEvent]:
    title = _CLINE_RESULT.match(text)
    if title:
        output = text[title.end() :]
        if not output and len(blocks) > 1:
            output = text_member(blocks[1], "text")
        yield from _cline_result(thread, at, tag_call, output)
        return
    task = _CLINE_TASK.search(text)
    if task:
        yield from thread.prompt(at, task[2])


def _cline_result(
    thread: Conversation, at: str, call: str, output: str
) -> Iterator[TranscriptEvent]:
    failed = False
    code = _EXIT.search(output[:_MAX_EXIT_SEARCH])
    if code:
        output, failed = _with_exit(output, int(code[1]))
    yield from thread.result(at, call, output, failed=failed)


_AIDER_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_AIDER_EDIT = re.compile(r"> Applied edit to (.{1,500})")
_AIDER_RUN = re.compile(r"> Running (.{1,1000})")


_AIDER_TOOLS = ((_AIDER_EDIT, "Edit", "file_path"), (_AIDER_RUN, "Bash", "command"))
"""What Aider prints about its own actions, with the tool and parameter that stand for each."""


def read_aider(
    lines: Iterable[str], cwd: str, session_of: Callable[[str], str]
) -> Iterator[TranscriptEvent]:
    """Read Aider's chat history, given line by line.

    `####` begins a line from the person, and `>` a line that Aider itself printed. `session_of`
    turns a chat's start time into a session id.
    """
    thread = Conversation(cwd=cwd)
    prompt: list[str] = []
    answer: list[str] = []
    fenced = False

    def end_turn() -> Iterator[TranscriptEvent]:
        if prompt:
            yield from thread.prompt(thread.at, "\n".join(prompt))
        thread.answer(thread.at, "\n".join(answer).strip())
        prompt.clear()
        answer.clear()

    for line in lines:
        start = None if fenced else _AIDER_START.match(line)
        if start:
            yield from end_turn()
            yield from thread.end()
            thread = Conversation(session_of(start[1]), cwd)
            thread.at = instant(start[1])
        elif not fenced and line.startswith("#### "):
            if answer:
                yield from end_turn()
            prompt.append(line[5:].strip())
        elif not fenced and line.startswith(">"):
            for pattern, name, key in _AIDER_TOOLS:
                match = pattern.match(line)
                if match and thread.session:
                    yield from end_turn()
                    yield thread.tool(thread.at, name, {key: match[1].strip()}, "")
        elif prompt or answer:
            if line.startswith("```"):
                fenced = not fenced
            answer.append(line)
    yield from end_turn()
    yield from thread.end()
