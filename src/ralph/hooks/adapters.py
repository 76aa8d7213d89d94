"""Translate other clients' payloads into Claude Code's format, and our answers into theirs.

Tools and parameters are given Claude's names, so that the same rules for private files, results and
lessons apply to every client. For example, OpenCode's `edit` with `filePath` becomes `Edit` with
`file_path`. Payload members that Ralph does not use are dropped. Claude Code, Codex and Gemini CLI
do not need this module.
"""

from __future__ import annotations

import json
import os
import time

from ralph.lean import TYPE_CHECKING, hook_files

if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

_CLAUDE_TOOLS = {
    "bash": "Bash",
    "Shell": "Bash",
    "run_shell_command": "Bash",
    "run_commands": "Bash",
    "read": "Read",
    "read_file": "Read",
    "read_files": "Read",
    "view": "Read",
    "write": "Write",
    "write_file": "Write",
    "create": "Write",
    "edit": "Edit",
    "editor": "Edit",
    "str_replace": "Edit",
    "grep": "Grep",
    "grep_search": "Grep",
    "search_codebase": "Grep",
    "glob": "Glob",
    "list": "LS",
    "list_directory": "LS",
    "webfetch": "WebFetch",
    "web_fetch": "WebFetch",
    "fetch_web_content": "WebFetch",
}
"""Other clients' tool names, mapped to Claude's."""
_CLAUDE_PARAMETERS = {
    "filePath": "file_path",
    "path": "file_path",
    "oldString": "old_string",
    "old_str": "old_string",
    "old_text": "old_string",
    "newString": "new_string",
    "new_str": "new_string",
    "new_text": "new_string",
    "file_text": "content",
    "contents": "content",
}
"""Other clients' parameter names in file tools, mapped to Claude's."""
_MEMBERS = (
    "session_id",
    "cwd",
    "transcript_path",
    "hook_event_name",
    "agent_id",
    "agent_type",
    "permission_mode",
    "source",
    "trigger",
    "reason",
    "prompt",
    "last_assistant_message",
    "tool_name",
    "tool_input",
    "tool_use_id",
    "tool_response",
    "error",
    "is_interrupt",
)
"""The payload members that Ralph uses."""
_ANSWER_MEMBERS = {
    "opencode": "additionalContext",
    "copilot": "additionalContext",
    "cline": "contextModification",
    "cursor": "additional_context",
}
"""For each client, the answer member whose text it adds to the agent's context."""


def read_payload(host: str, event: str, raw: bytes) -> tuple[str, bytes]:
    """Return the event name and the payload in Claude's format.

    The name is "" if the event carries no information and should be ignored.
    """
    try:
        payload: Json = json.loads(raw)
    except (ValueError, RecursionError):
        return event, raw  # counted as a failure, like any payload that is not an object
    if not isinstance(payload, dict):
        return event, raw
    if host in _ADAPTERS:
        _ADAPTERS[host](event, payload)
    if event == "UserPromptSubmit" and not payload.get("prompt"):
        return "", raw  # Qwen sends such an event along with tool results
    _rename_tool(payload)
    code = payload.get("exit_code")
    if event == "AfterTool" and isinstance(code, int) and code:
        event = "PostToolUseFailure"
        payload["error"] = f"Exit code {code}\n{payload.pop('tool_response', '')}"
    kept = {name: payload[name] for name in _MEMBERS if payload.get(name) not in (None, "")}
    return event, json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")


def _rename_tool(payload: Json) -> None:
    tool = payload.get("tool_name")
    if not isinstance(tool, str):
        return
    tool = _CLAUDE_TOOLS.get(tool, tool)
    payload["tool_name"] = tool
    parameters = payload.get("tool_input")
    if isinstance(parameters, dict) and tool in ("Read", "Write", "Edit"):
        payload["tool_input"] = {
            _CLAUDE_PARAMETERS.get(name, name): value for name, value in parameters.items()
        }


def write_answer(host: str, answer: bytes) -> bytes:
    """Return `answer`, which is in Claude's format, in the format that the client expects."""
    if host not in _ANSWER_MEMBERS:
        return answer.replace(b'"hookEventName": "AfterTool"', b'"hookEventName": "PostToolUse"', 1)
    context = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
    return json.dumps({_ANSWER_MEMBERS[host]: context}).encode()


def _exit_code(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


# --- Qwen Code ----------------------------------------------------------------------------------


def _adapt_qwen(event: str, payload: Json) -> None:
    """Extract a shell command's output from the report that Qwen wraps it in."""
    is_failure = event == "PostToolUseFailure"
    text = payload.get("error")
    if not is_failure:
        answer = payload.get("tool_response")
        text = answer and answer.get("llmContent")
    if payload.get("tool_name") != "run_shell_command":
        return
    if not isinstance(text, str) or "\nOutput: " not in text:
        return
    output, _, report = text.partition("\nOutput: ")[2].rpartition("\nError: ")
    if not is_failure:
        payload["tool_response"] = output
        return
    error, _, rest = report.partition("\nExit Code: ")
    code = rest.partition("\n")[0]
    parts = [part for part in (output, error) if part not in ("", "(none)", "(empty)")]
    payload["error"] = "\n".join(parts)
    if code.isdecimal():
        payload["error"] = f"Exit code {code}\n{payload['error']}"


# --- Copilot CLI --------------------------------------------------------------------------------

_MAX_TAIL = 1 << 18  # bytes to read from the end of a transcript
_MAX_READS = 15
_READ_PAUSE = 0.05  # seconds; there is nothing to wait on, and the hook has a deadline anyway


def _adapt_copilot(event: str, payload: Json) -> None:
    result = payload.get("tool_result")
    text = result.get("text_result_for_llm") if isinstance(result, dict) else None
    if isinstance(text, str):
        output, _, end = text.rpartition("\n<shellId: ")
        code = _exit_code(end.rpartition(" exit code ")[2].rstrip(">\n "))
        payload["tool_response"] = text if code is None else output
        payload["exit_code"] = code
    if payload.get("source") == "new":
        payload["source"] = "startup"
    if event == "Stop":
        payload["last_assistant_message"] = _last_answer(str(payload.get("transcript_path")))


def _last_answer(path: str) -> str:
    """Return the agent's last message in a transcript, or "".

    Copilot writes the message only after it has sent the event, so this polls the file briefly.
    """
    for _ in range(_MAX_READS):
        text = hook_files.read_file(path, _MAX_TAIL, end=True) or b""
        if text.rfind(b'"agentStop"') > text.rfind(b'"type":"user.message"'):
            break
        time.sleep(_READ_PAUSE)
    for line in reversed(text.split(b"\n")):
        if line.startswith(b'{"type":"assistant.message"') and b'"content":""' not in line:
            return str(json.loads(line)["data"]["content"])
    return ""


# --- Cline --------------------------------------------------------------------------------------


def _adapt_cline(event: str, payload: Json) -> None:
    context = payload.get("sessionContext") or {}
    payload["session_id"] = context.get("rootSessionId") or payload.get("taskId")
    payload["cwd"] = _first(payload.get("workspaceRoots"), "")
    if not payload.get("parent_agent_id"):
        payload["agent_id"] = None
    payload["last_assistant_message"] = (payload.get("turn") or {}).get("outputText")
    payload["prompt"] = (payload.get("userPromptSubmit") or {}).get("prompt")
    result = payload.get("tool_result") or {}
    if result:
        payload["tool_name"] = result.get("name")
        payload["tool_input"] = _cline_parameters(result)
        payload["tool_use_id"] = result.get("id")
        _adapt_cline_output(payload, result.get("output"))


def _cline_parameters(result: Json) -> Json:
    parameters = dict(result.get("input") or {})
    if isinstance(parameters.get("commands"), list):
        parameters["command"] = "\n".join(map(str, parameters.pop("commands")))
    return parameters


def _adapt_cline_output(payload: Json, output: Any) -> None:
    candidates = output if isinstance(output, list) else [output]
    results = [candidate for candidate in candidates if isinstance(candidate, dict)]
    texts = [str(result.get("result") or result.get("error") or "") for result in results]
    text = "\n".join(texts) or output
    errors = [str(result.get("error")) for result in results if result.get("success") is False]
    code = None
    if errors:
        code = _exit_code(errors[0].rpartition(" with code ")[2])
    payload["exit_code"] = code
    payload["tool_response"] = text
    if errors and code is None:
        payload["tool_response"] = {"isError": True, "content": text}


# --- Cursor -------------------------------------------------------------------------------------


def _adapt_cursor(event: str, payload: Json) -> None:
    payload["session_id"] = payload.get("conversation_id") or payload.get("session_id")
    payload["cwd"] = _first(payload.get("workspace_roots"), payload.get("cwd"))
    payload["last_assistant_message"] = payload.get("text")
    if event == "SessionStart":
        payload["source"] = "startup"
    for name in ("tool_input", "tool_output"):
        value = payload.get(name)
        if isinstance(value, str) and value.startswith("{"):
            payload[name] = json.loads(value)
    output = payload.get("tool_output")
    payload["tool_response"] = output
    payload["exit_code"] = None
    if isinstance(output, dict):
        payload["tool_response"] = output.get("output", output)
        payload["exit_code"] = output.get("exitCode")
    if "error_message" in payload:
        payload["tool_response"] = {"isError": True, "content": payload["error_message"]}


def _first(values: Any, default: Any) -> Any:
    for value in values or []:
        return value
    return default


# --- Windsurf -----------------------------------------------------------------------------------


def _adapt_windsurf(event: str, payload: Json) -> None:
    info: Json = payload.get("tool_info") or {}
    payload["session_id"] = payload.get("trajectory_id")
    payload["cwd"] = os.getcwd()
    payload["prompt"] = info.get("user_prompt")
    payload["last_assistant_message"] = info.get("response")
    if "command_line" in info:
        payload["tool_name"] = "Bash"
        payload["tool_input"] = {"command": info["command_line"]}
    elif "edits" in info:
        payload["tool_name"] = "Edit"
        payload["tool_input"] = {"file_path": info.get("file_path"), "edits": info.get("edits")}
    elif "mcp_tool_name" in info:
        payload["tool_name"] = f"mcp__{info.get('mcp_server_name')}__{info['mcp_tool_name']}"
        payload["tool_input"] = info.get("mcp_tool_arguments")
        payload["tool_response"] = info.get("mcp_result")


_ADAPTERS = {
    "qwen": _adapt_qwen,
    "copilot": _adapt_copilot,
    "cline": _adapt_cline,
    "cursor": _adapt_cursor,
    "windsurf": _adapt_windsurf,
}
