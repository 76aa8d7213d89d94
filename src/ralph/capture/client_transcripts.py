"""Read the transcripts that are JSON: Claude Code, Codex, Gemini CLI, Copilot, OpenCode, Cursor.

There is one function per client. It takes the JSON objects of a session, in order, and yields
`TranscriptEvent`s. Transcripts that contain tool calls as text are read by `text_transcripts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ralph.capture.events import Json, as_object, response_text, text_member
from ralph.capture.transcripts import (
    REJECTED,
    Conversation,
    TranscriptEvent,
    claude_call,
    content_blocks,
    log_time,
    member,
    object_list,
    parse_object,
    with_exit_code,
)

# --- Claude Code ----------------------------------------------------------------------------------

_COMMAND = re.compile(r"<command-name>\s*(/?[^<]{1,200}?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


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
    message = as_object(value.get("message"))
    for block in content_blocks(message.get("content")):
        if block.get("type") == "tool_use":
            thread.call(text_member(block, "name"), block.get("input"), text_member(block, "id"))
        elif block.get("type") == "text":
            at = log_time(value.get("timestamp"))
            thread.answer(at, text_member(block, "text"), text_member(message, "id"))


def _read_claude_user(thread: Conversation, value: Json) -> Iterator[TranscriptEvent]:
    """Read a `user` line, which holds either tool results or a prompt."""
    at = log_time(value.get("timestamp"))
    blocks = content_blocks(as_object(value.get("message")).get("content"))
    results = [block for block in blocks if block.get("type") == "tool_result"]
    for block in results:
        response: object = response_text(block.get("content"))
        failed = block.get("is_error") is True
        if failed and str(response).startswith(REJECTED):
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
            yield from _read_codex_item(thread, payload, log_time(value.get("timestamp")))
    yield from thread.end()


def _read_codex_item(thread: Conversation, item: Json, at: str) -> Iterator[TranscriptEvent]:
    kind = item.get("type")
    call = text_member(item, "call_id", "id")
    if kind == "message":
        texts = [text_member(block, "text") for block in object_list(item.get("content"))]
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
        thread.call(name, parse_object(arguments) or arguments, call)
    elif kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
        yield from thread.result(at, call, item.get("output"))


# --- Gemini CLI -----------------------------------------------------------------------------------


def read_gemini(values: Iterable[Json], cwd: str) -> Iterator[TranscriptEvent]:
    """Read a Gemini CLI chat, which is one object with `messages`, or one message per line."""
    thread = Conversation(cwd=cwd, reader="gemini")
    for value in values:
        thread.session = thread.session or text_member(value, "sessionId")
        for message in object_list(value.get("messages")) or [value]:
            yield from _read_gemini_message(thread, message)
    yield from thread.end()


def _read_gemini_message(thread: Conversation, message: Json) -> Iterator[TranscriptEvent]:
    at = log_time(message.get("timestamp"))
    texts = [text_member(block, "text") for block in content_blocks(message.get("content"))]
    text = "\n".join(texts)
    kind = message.get("type")
    if kind == "user":  # tool results are user messages too, but have no text
        yield from thread.prompt(at, text)
    elif kind in ("gemini", "model"):
        thread.answer(at, text)
    for call in object_list(message.get("toolCalls")):
        output = _gemini_output(call)
        response: dict[str, object] = {"llmContent": output}
        if call.get("status") in ("error", "cancelled"):
            response["error"] = output
        moment = log_time(call.get("timestamp")) or at
        parameters = as_object(call.get("args"))
        name = text_member(call, "name")
        yield thread.tool(moment, name, parameters, response, call=text_member(call, "id"))


def _gemini_output(call: Json) -> str:
    outputs = []
    for part in object_list(call.get("result")):
        response = as_object(as_object(part.get("functionResponse")).get("response"))
        outputs.append(response_text(response.get("output") or response.get("error")))
    return "\n".join(outputs)


# --- Copilot CLI ----------------------------------------------------------------------------------

_COPILOT_END = re.compile(r"\s*<[^<>\n]{0,60}exit code (\d{1,3})>\s*$")


def read_copilot(values: Iterable[Json]) -> Iterator[TranscriptEvent]:
    """Read the events of a Copilot CLI session."""
    thread = Conversation()
    for value in values:
        kind = value.get("type")
        data = as_object(value.get("data"))
        at = log_time(value.get("timestamp"))
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
        output, failed = with_exit_code(output[: ended.start()], int(ended[1]))
    if not output:
        output = response_text(as_object(data.get("error")))
    return output, failed or data.get("success") is False


# --- OpenCode -------------------------------------------------------------------------------------


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
        yield from _read_opencode_part(thread, parse_object(message), parse_object(part))
    yield from thread.end()


def _read_opencode_part(
    thread: Conversation, message: Json, part: Json
) -> Iterator[TranscriptEvent]:
    started = as_object(part.get("time")).get("start")
    at = log_time(started or as_object(message.get("time")).get("created"))
    state = as_object(part.get("state"))
    if part.get("type") == "text" and part.get("synthetic") is not True:
        if text_member(message, "role") != "user":
            thread.answer(at, text_member(part, "text"), text_member(part, "messageID"))
        elif not thread.agent:
            yield from thread.prompt(at, text_member(part, "text"))
    elif part.get("type") == "tool" and state.get("status") in ("completed", "error"):
        name, parameters = claude_call(text_member(part, "tool"), state.get("input"))
        output = response_text(state.get("output") or state.get("error"))
        output, failed = with_exit_code(output, as_object(state.get("metadata")).get("exit"))
        failed = failed or state.get("status") == "error"
        moment = log_time(as_object(state.get("time")).get("end")) or at
        call = text_member(part, "callID")
        yield thread.tool(moment, name, parameters, output, call=call, failed=failed)


# --- Cursor ---------------------------------------------------------------------------------------


def cursor_headers(composer: Json) -> list[str]:
    """Return the message ids of a Cursor conversation, in order."""
    headers = object_list(composer.get("fullConversationHeadersOnly"))
    return [text_member(header, "bubbleId") for header in headers]


def read_cursor(composer: Json, bubbles: Iterable[Json], cwd: str) -> Iterator[TranscriptEvent]:
    """Read a Cursor conversation from its `composerData` and its bubbles, given in order."""
    thread = Conversation(text_member(composer, "composerId"), cwd)
    start = log_time(composer.get("createdAt"))
    for bubble in bubbles:
        created = log_time(bubble.get("createdAt")) or log_time(bubble.get("timestamp"))
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
    result = parse_object(tool.get("result"))
    output = response_text(result.get("output") or result or tool.get("result"))
    output, failed = with_exit_code(output, result.get("exitCode", result.get("exitCodeV2")))
    failed = failed or text_member(tool, "status") in ("error", "failed")
    return thread.tool(
        at, name, parameters, output, call=text_member(tool, "toolCallId"), failed=failed
    )
