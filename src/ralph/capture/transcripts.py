"""Read the transcripts of coding agents as the events that their hooks would have sent.

One function a format: JSON objects (or text) in, `TranscriptEvent` out. Tools of other clients get Claude Code's names
and parameters, so that the readers of `events.py` and the rules of the pipeline apply. Transcripts are somebody else's
files: a member that is missing or of another type is skipped, never an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from ralph.capture.events import Json, response_text
from ralph.model.record import NO_EXTRA

PROMPT, TOOL, FAILED, STOP, SUBAGENT = [
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStop",
]
_REJECTED = ("The user doesn't want to", "[Request interrupted")
_COMMAND = re.compile(r"<command-name>\s*(/?[^<]{1,200}?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_MILLISECONDS = 100_000_000_000  # a larger number of seconds is one of milliseconds


class TranscriptEvent(NamedTuple):
    """One event of a session: the name and payload that a hook of `reader` would have had, and when it was."""

    at: str
    event: str
    payload: dict[str, object]
    reader: str = "claude"


def _text(value: Json, *keys: str) -> str:
    return next((text for key in keys if isinstance(text := value.get(key), str) and text), "")


def _object(value: object) -> Json:
    return value if isinstance(value, Mapping) else NO_EXTRA


def _objects(value: object) -> list[Json]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def parsed(value: object) -> Json:
    """Return an object, also one that is written as a JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return NO_EXTRA
    return _object(value)


def instant(value: object) -> str:
    """Return a time as logs write it, from ISO 8601 or seconds or milliseconds since 1970; "" for anything else."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value)
            moment = (
                moment.astimezone() if moment.tzinfo is None else moment
            )  # local, as Aider writes it
        elif isinstance(value, int | float) and not isinstance(value, bool):
            moment = datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS else value, UTC)
        else:
            return ""
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError, OSError):
        return ""


def member(value: Json, *names: str) -> str:
    """Return a text inside of nested objects; "" when there is none."""
    for name in names[:-1]:
        value = _object(value.get(name))
    return _text(value, names[-1])


def cursor_headers(composer: Json) -> list[str]:
    """Return the ids of a conversation's messages in their order."""
    return [
        _text(header, "bubbleId")
        for header in _objects(composer.get("fullConversationHeadersOnly"))
    ]


class Conversation:
    """Collects what a session has, and gives events: of each turn the last message is its answer."""

    def __init__(
        self, session: str = "", cwd: str = "", reader: str = "claude", agent: str = ""
    ) -> None:
        self.session = session
        self.cwd = cwd
        self.agent = agent
        self.at = ""
        self._reader = reader
        self._answer = ("", "", "")  # time, id of the message, text
        self._calls: dict[str, tuple[str, object]] = {}

    def _event(self, at: str, name: str, **members: object) -> TranscriptEvent:
        agent = {"agent_id": self.agent} if self.agent else {}
        payload = {"session_id": self.session, "cwd": self.cwd, **agent, **members}
        return TranscriptEvent(at or self.at, name, payload, self._reader)

    def prompt(self, at: str, text: str) -> Iterator[TranscriptEvent]:
        """A person's prompt: the turn before it has ended."""
        if text.strip() and not text.startswith(_REJECTED):
            yield from self.end()
            self.at = at or self.at
            yield self._event(at, PROMPT, prompt=text)

    def answer(self, at: str, text: str, message: str = "") -> None:
        """A message of the agent; parts of one message belong together."""
        _, before, said = self._answer
        if text.strip():
            self._answer = (
                at or self.at,
                message,
                f"{said}\n{text}" if message and message == before else text,
            )

    def call(self, name: str, parameters: object, call: str) -> None:
        """A tool is called; its result comes later."""
        self._calls[call] = (name, parameters)

    def result(
        self, at: str, call: str, response: object, *, failed: bool = False
    ) -> Iterator[TranscriptEvent]:
        """The result of a call that was seen."""
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
        """A call with its result."""
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
        """The turn has ended: its last message is the answer."""
        at, _, text = self._answer
        self._answer = ("", "", "")
        if text:
            kind = {"agent_type": "agent"} if self.agent else {}
            member = "prompt_response" if self._reader == "gemini" else "last_assistant_message"
            yield self._event(at, SUBAGENT if self.agent else STOP, **{member: text}, **kind)


# --- Claude Code ---------------------------------------------------------------------------------


def read_claude(values: Iterable[Json]) -> Iterator[TranscriptEvent]:
    """Read Claude Code's JSONL: lines of `user` and `assistant`, a subagent's with its `agentId`."""
    threads: dict[str, Conversation] = {}
    for value in values:
        kind = value.get("type")
        message = _object(value.get("message"))
        if (
            kind not in ("user", "assistant")
            or value.get("isMeta") is True
            or value.get("isCompactSummary") is True
        ):
            continue
        agent = _text(value, "agentId") or ("sidechain" if value.get("isSidechain") is True else "")
        thread = threads.setdefault(agent, Conversation(agent=agent))
        thread.session = _text(value, "sessionId") or thread.session
        thread.cwd = _text(value, "cwd") or thread.cwd
        at = instant(value.get("timestamp"))
        content = message.get("content")
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
        )
        if kind == "assistant":
            for block in blocks:
                if block.get("type") == "tool_use":
                    thread.call(_text(block, "name"), block.get("input"), _text(block, "id"))
                elif block.get("type") == "text":
                    thread.answer(at, _text(block, "text"), _text(message, "id"))
            continue
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            text = response_text(block.get("content"))
            failed = block.get("is_error") is True
            details = value.get("toolUseResult")
            response = (
                details
                if isinstance(details, Mapping) and len(results) == 1 and not failed
                else text
            )
            if not (failed and text.startswith(_REJECTED)):
                yield from thread.result(at, _text(block, "tool_use_id"), response, failed=failed)
        prompt = "\n".join(_text(block, "text") for block in blocks if block.get("type") == "text")
        if prompt and not results and not agent:
            if "<command-name>" in prompt and (
                name := _COMMAND.search(prompt)
            ):  # a slash command as it was typed
                arguments = _ARGUMENTS.search(prompt)
                prompt = f"/{name[1].lstrip('/')} {arguments[1] if arguments else ''}".strip()
            yield from thread.prompt(at, prompt)
    for thread in threads.values():
        yield from thread.end()


# --- Codex ----------------------------------------------------------------------------------------

_CODEX_SHELLS = ("exec_command", "shell", "local_shell", "container.exec", "shell_command")
_NO_PROMPT = ("# AGENTS.md instructions", "<")


def read_codex(values: Iterable[Json]) -> Iterator[TranscriptEvent]:
    """Read a rollout of Codex: `session_meta`, then `response_item` lines."""
    thread = Conversation(reader="codex")
    for value in values:
        payload = _object(value.get("payload"))
        at = instant(value.get("timestamp"))
        kind = value.get("type")
        if kind in ("session_meta", "turn_context"):
            thread.session = thread.session or _text(payload, "session_id", "id")
            thread.cwd = _text(payload, "cwd") or thread.cwd
        if kind != "response_item":
            continue
        item = payload.get("type")
        call = _text(payload, "call_id", "id")
        if item == "message":
            texts = [_text(block, "text") for block in _objects(payload.get("content"))]
            if payload.get("role") == "assistant":
                thread.answer(at, "\n".join(texts))
            elif payload.get("role") == "user":
                prompts = [text for text in texts if not text.startswith(_NO_PROMPT)]
                yield from thread.prompt(at, "\n".join(prompts))
        elif item in ("function_call", "custom_tool_call", "local_shell_call"):
            arguments = payload.get("arguments", payload.get("input", payload.get("action")))
            name = _text(payload, "name") or "local_shell"
            parameters: object = parsed(arguments) or arguments
            thread.call("Bash" if name in _CODEX_SHELLS else name, parameters, call)
        elif item in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
            yield from thread.result(at, call, payload.get("output"))
    yield from thread.end()


# --- the other clients ----------------------------------------------------------------------------

_NAMES = {
    "Bash": "bash shell Shell run_terminal_cmd run_terminal_command run_terminal_command_v2 execute_command "
    "run_commands exec terminal",
    "Read": "read view read_file read_file_v2 read_files open_file",
    "Edit": "edit str_replace StrReplace search_replace edit_file edit_file_v2 replace_in_file apply_diff editor "
    "str_replace_editor multiedit",
    "Write": "write create write_to_file write_file create_file",
    "Grep": "grep codebase_search grep_search search_files ripgrep_raw_search rg",
    "Glob": "glob list list_dir list_files file_search glob_file_search",
    "WebFetch": "webfetch web_fetch fetch",
    "WebSearch": "websearch web_search",
}
_CLAUDE_NAMES = {name: ours for ours, names in _NAMES.items() for name in names.split()}
_PARAMETERS = {
    "file_path": "filePath path target_file relativeWorkspacePath targetFile absolute_path",
    "old_string": "old_str oldString old_text",
    "new_string": "new_str newString new_text",
    "content": "file_text contents code_edit",
    "command": "cmd",
}


def claude_call(name: str, value: object) -> tuple[str, dict[str, object]]:
    """Return a tool's name and parameters as Claude Code has them, as far as it has such a tool."""
    parameters = dict(parsed(value))
    ours = _CLAUDE_NAMES.get(name, name)
    if ours != name or name in _NAMES:
        for key, others in _PARAMETERS.items():
            theirs = next((other for other in others.split() if other in parameters), "")
            if key not in parameters and theirs:
                parameters[key] = parameters.pop(theirs)
    if ours == "Bash" and isinstance(commands := parameters.get("commands"), list):
        parameters = {"command": "\n".join(each for each in commands if isinstance(each, str))}
    return ours, parameters


def read_gemini(values: Iterable[Json], cwd: str) -> Iterator[TranscriptEvent]:
    """Read a chat of Gemini CLI: one object with `messages`, or a line each after one with the session's id."""
    thread = Conversation(cwd=cwd, reader="gemini")
    for value in values:
        thread.session = thread.session or _text(value, "sessionId")
        for message in _objects(value.get("messages")) or [value]:
            kind = message.get("type")
            at = instant(message.get("timestamp"))
            content = message.get("content")
            text = (
                content
                if isinstance(content, str)
                else "\n".join(_text(part, "text") for part in _objects(content))
            )
            if kind == "user":  # results of tools are messages of the user, too, but no texts
                yield from thread.prompt(at, text)
            elif kind in ("gemini", "model"):
                thread.answer(at, text)
            for call in _objects(message.get("toolCalls")):
                parts = [
                    _object(_object(part.get("functionResponse")).get("response"))
                    for part in _objects(call.get("result"))
                ]
                output = "\n".join(
                    response_text(part.get("output") or part.get("error")) for part in parts
                )
                response: dict[str, object] = {"llmContent": output}
                if call.get("status") in ("error", "cancelled"):
                    response["error"] = output
                parameters = _object(call.get("args"))
                moment = instant(call.get("timestamp"))
                yield thread.tool(
                    moment or at, _text(call, "name"), parameters, response, call=_text(call, "id")
                )
    yield from thread.end()


_COPILOT_END = re.compile(r"\s*<[^<>\n]{0,60}exit code (\d{1,3})>\s*$")


def _with_exit(output: str, code: object) -> tuple[str, bool]:
    """Return an output with its exit code as Claude Code writes it, and whether that is a failure."""
    failed = isinstance(code, int) and code != 0
    return f"Exit code {code}\n{output}" if failed else output, failed


def read_copilot(values: Iterable[Json]) -> Iterator[TranscriptEvent]:
    """Read the events of a session of Copilot CLI."""
    thread = Conversation()
    for value in values:
        kind = value.get("type")
        data = _object(value.get("data"))
        at = instant(value.get("timestamp"))
        if kind == "session.start":
            thread.session = _text(data, "sessionId")
            thread.cwd = member(data, "context", "cwd") or thread.cwd
        elif kind == "user.message":
            yield from thread.prompt(at, _text(data, "content"))
        elif kind == "assistant.message":
            thread.answer(at, _text(data, "content"))
        elif kind == "tool.execution_start":
            thread.call(
                *claude_call(_text(data, "toolName"), data.get("arguments")),
                _text(data, "toolCallId"),
            )
        elif kind == "tool.execution_complete":
            result = _object(data.get("result"))
            output = response_text(result.get("content"))
            error = response_text(_object(data.get("error")))
            ended = _COPILOT_END.search(output)
            output, failed = _with_exit(
                output[: ended.start()] if ended else output, ended and int(ended[1])
            )
            failed = failed or data.get("success") is False
            yield from thread.result(at, _text(data, "toolCallId"), output or error, failed=failed)
    yield from thread.end()


def read_opencode(
    rows: Iterable[tuple[str, str, str, object, object]],
) -> Iterator[TranscriptEvent]:
    """Read OpenCode's rows: session, its folder, its agent's parent, and message and part as JSON, in their order."""
    thread = Conversation()
    role = ""
    for session, folder, parent, message, part in rows:
        if session != thread.session:
            yield from thread.end()
            thread = Conversation(session, folder, agent="agent" if parent else "")
        header = parsed(message)
        piece = parsed(part)
        role = _text(header, "role")
        state = _object(piece.get("state"))
        at = instant(
            _object(piece.get("time")).get("start") or _object(header.get("time")).get("created")
        )
        if piece.get("type") == "text" and piece.get("synthetic") is not True:
            if role != "user":
                thread.answer(at, _text(piece, "text"), _text(piece, "messageID"))
            elif not parent:
                yield from thread.prompt(at, _text(piece, "text"))
        elif piece.get("type") == "tool" and state.get("status") in ("completed", "error"):
            name, parameters = claude_call(_text(piece, "tool"), state.get("input"))
            output = response_text(state.get("output") or state.get("error"))
            output, failed = _with_exit(output, _object(state.get("metadata")).get("exit"))
            failed = failed or state.get("status") == "error"
            moment = instant(_object(state.get("time")).get("end")) or at
            yield thread.tool(
                moment, name, parameters, output, call=_text(piece, "callID"), failed=failed
            )
    yield from thread.end()


def read_cursor(composer: Json, bubbles: Iterable[Json], cwd: str) -> Iterator[TranscriptEvent]:
    """Read a conversation of Cursor: `composerData` and its bubbles in their order."""
    thread = Conversation(_text(composer, "composerId"), cwd)
    start = instant(composer.get("createdAt"))
    for bubble in bubbles:
        at = (
            instant(bubble.get("createdAt"))
            or instant(bubble.get("timestamp"))
            or thread.at
            or start
        )
        tool = _object(bubble.get("toolFormerData"))
        if bubble.get("type") == 1:
            yield from thread.prompt(at, _text(bubble, "text", "rawText"))
        elif _text(tool, "name"):
            name, parameters = claude_call(
                _text(tool, "name"), tool.get("rawArgs") or tool.get("params")
            )
            result = parsed(tool.get("result"))
            output = response_text(result.get("output") or result or tool.get("result"))
            output, failed = _with_exit(output, result.get("exitCode", result.get("exitCodeV2")))
            failed = failed or _text(tool, "status") in ("error", "failed")
            yield thread.tool(
                at, name, parameters, output, call=_text(tool, "toolCallId"), failed=failed
            )
        else:
            thread.answer(at, _text(bubble, "text", "rawText"))
    yield from thread.end()


_CLINE_TASK = re.compile(r"<(task|feedback|user_message|answer)>\s*(.*?)\s*</\1>", re.DOTALL)
_CLINE_TOOL = re.compile(
    r"<(execute_command|read_file|write_to_file|replace_in_file|apply_diff|search_files|list_files)>(.*?)</\1>",
    re.DOTALL,
)
_CLINE_PARAMETER = re.compile(r"<(command|path|content|diff|regex)>\n?(.*?)\n?</\1>", re.DOTALL)
_CLINE_RESULT = re.compile(r"\[\w+(?: for '.*?')?\] Result:\s*")
_EXIT = re.compile(
    r"(?:exit code|exited with code|exit status)[: ]+([1-9]\d{0,2})\b", re.IGNORECASE
)


def read_cline(
    messages: Iterable[Json], session: str, cwd: str, start: object
) -> Iterator[TranscriptEvent]:
    """Read a task of Cline or Roo: Anthropic's messages, whose tools may be written as tags in the text."""
    thread = Conversation(session, cwd)
    written = 0
    thread.at = instant(start)
    for number, message in enumerate(messages):
        at = instant(message.get("ts"))
        content = message.get("content")
        blocks = (
            [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
        )
        is_agent = message.get("role") == "assistant"
        for block in blocks:
            text = _text(block, "text")
            if block.get("type") == "tool_use":
                thread.call(
                    *claude_call(_text(block, "name"), block.get("input")), _text(block, "id")
                )
            elif block.get("type") == "tool_result":
                yield from _cline_result(
                    thread, at, _text(block, "tool_use_id"), response_text(block.get("content"))
                )
            elif is_agent:
                for tool in _CLINE_TOOL.finditer(text):
                    written = number
                    thread.call(
                        *claude_call(tool[1], dict(_CLINE_PARAMETER.findall(tool[2]))),
                        f"text-{number}",
                    )
                thread.answer(
                    at, _CLINE_TOOL.sub("", re.sub(r"(?s)<thinking>.*?</thinking>", "", text))
                )
            elif title := _CLINE_RESULT.match(text):
                output = text[title.end() :] or "\n".join(
                    _text(each, "text") for each in blocks[1:2]
                )
                yield from _cline_result(thread, at, f"text-{written}", output)
            elif found := _CLINE_TASK.search(text):
                yield from thread.prompt(at, found[2])
    yield from thread.end()


def _cline_result(
    thread: Conversation, at: str, call: str, output: str
) -> Iterator[TranscriptEvent]:
    code = _EXIT.search(output[:400])
    output, failed = _with_exit(output, code and int(code[1]))
    yield from thread.result(at, call, output, failed=failed)


_AIDER_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_AIDER_EDIT = re.compile(r"> Applied edit to (.{1,500})")
_AIDER_RUN = re.compile(r"> Running (.{1,1000})")


def read_aider(
    lines: Iterable[str], cwd: str, session_of: Callable[[str], str]
) -> Iterator[TranscriptEvent]:
    """Read Aider's chat history: `####` begins a person's line, `>` what Aider itself printed."""
    thread = Conversation(cwd=cwd)
    prompt = list[str]()
    answer = list[str]()
    fenced = False

    def turn() -> Iterator[TranscriptEvent]:
        if prompt:
            yield from thread.prompt(thread.at, "\n".join(prompt))
        thread.answer(thread.at, "\n".join(answer).strip())
        prompt.clear()
        answer.clear()

    for line in lines:
        start = None if fenced else _AIDER_START.match(line)
        if start:
            yield from turn()
            yield from thread.end()
            thread = Conversation(session_of(start[1]), cwd)
            thread.at = instant(start[1])
        elif not fenced and line.startswith("#### "):
            if answer:
                yield from turn()
            prompt.append(line[5:].strip())
        elif not fenced and line.startswith(">"):
            for pattern, name, key in (
                (_AIDER_EDIT, "Edit", "file_path"),
                (_AIDER_RUN, "Bash", "command"),
            ):
                if (match := pattern.match(line)) and thread.session:
                    yield from turn()
                    yield thread.tool(thread.at, name, {key: match[1].strip()}, "")
        elif prompt or answer:
            fenced = fenced != line.startswith("```")
            answer.append(line)
    yield from turn()
    yield from thread.end()
