"""Turn payloads of other clients into Claude Code's form, and our answers into theirs.

Tools and parameters get Claude's names, so that the rules for private files, results and lessons are the same for all.
Members that nobody reads are dropped. Claude Code, Codex and Gemini CLI do without this module.
"""

from __future__ import annotations

import json
import os
import time

from ralph.lean import TYPE_CHECKING
from ralph.store import hook_files

if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

_CLAUDE_TOOLS = {
    "Bash": "bash Shell run_shell_command run_commands",
    "Read": "read read_file read_files view",
    "Write": "write write_file create",
    "Edit": "edit editor str_replace",
    "Grep": "grep grep_search search_codebase",
    "Glob": "glob",
    "LS": "list list_directory",
    "WebFetch": "webfetch web_fetch fetch_web_content",
}
_CLAUDE_PARAMETERS = {
    "file_path": "filePath path",
    "old_string": "oldString old_str old_text",
    "new_string": "newString new_str new_text",
    "content": "file_text contents",
}
_TOOLS = {name: tool for tool, names in _CLAUDE_TOOLS.items() for name in names.split()}
_PARAMETERS = {name: ours for ours, names in _CLAUDE_PARAMETERS.items() for name in names.split()}
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
_ANSWERS = dict.fromkeys(("opencode", "copilot"), "additionalContext")
_ANSWERS |= {"cline": "contextModification", "cursor": "additional_context"}
# bytes at the end of a transcript, and how often they are read
_TAIL = 1 << 18
_READS = 15


def read_payload(host: str, event: str, raw: bytes) -> tuple[str, bytes]:
    """Return the event and its payload in Claude's form; "" for an event that says nothing."""
    try:
        payload: Json = json.loads(raw)
    except (ValueError, RecursionError):
        return event, raw  # counted as a failure, as any other that is no object
    if not isinstance(payload, dict):
        return event, raw
    if host in _ADAPTERS:
        _ADAPTERS[host](event, payload)
    if event == "UserPromptSubmit" and not payload.get(
        "prompt"
    ):  # Qwen sends one with the results of tools
        return "", raw
    tool = payload.get("tool_name")
    given = payload.get("tool_input")
    if isinstance(tool, str):
        payload["tool_name"] = tool = _TOOLS.get(tool, tool)
        if isinstance(given, dict) and tool in ("Read", "Write", "Edit"):
            payload["tool_input"] = {
                _PARAMETERS.get(name, name): value for name, value in given.items()
            }
    code = payload.get("exit_code")
    if event == "AfterTool" and isinstance(code, int) and code:
        event = "PostToolUseFailure"
        payload["error"] = f"Exit code {code}\n{payload.pop('tool_response', '')}"
    kept = {name: payload[name] for name in _MEMBERS if payload.get(name) not in (None, "")}
    return event, json.dumps(kept, ensure_ascii=False).encode("utf-8", "replace")


def write_answer(host: str, answer: bytes) -> bytes:
    """Return an answer as the client reads it."""
    if host not in _ANSWERS:
        return answer.replace(b'"hookEventName": "AfterTool"', b'"hookEventName": "PostToolUse"', 1)
    return json.dumps(
        {_ANSWERS[host]: json.loads(answer)["hookSpecificOutput"]["additionalContext"]}
    ).encode()


def _qwen(event: str, payload: Json) -> None:
    answer = payload.get("tool_response")
    text = (
        payload.get("error")
        if event == "PostToolUseFailure"
        else answer and answer.get("llmContent")
    )
    if (
        payload.get("tool_name") != "run_shell_command"
        or not isinstance(text, str)
        or "\nOutput: " not in text
    ):
        return
    output, _, report = text.partition("\nOutput: ")[2].rpartition("\nError: ")
    error, _, rest = report.partition("\nExit Code: ")
    if event != "PostToolUseFailure":
        payload["tool_response"] = output
    else:
        code = rest.partition("\n")[0]
        shown = "\n".join(part for part in (output, error) if part not in ("", "(none)", "(empty)"))
        payload["error"] = f"Exit code {code}\n{shown}" if code.isdecimal() else shown


def _copilot(event: str, payload: Json) -> None:
    result = payload.get("tool_result")
    text = result.get("text_result_for_llm") if isinstance(result, dict) else None
    if isinstance(text, str):
        output, _, end = text.rpartition("\n<shellId: ")
        code = end.rpartition(" exit code ")[2].rstrip(">\n ")
        payload["tool_response"] = output if code.isdecimal() else text
        payload["exit_code"] = int(code) if code.isdecimal() else None
    if payload.get("source") == "new":
        payload["source"] = "startup"
    if event == "Stop":
        payload["last_assistant_message"] = _last_answer(str(payload.get("transcript_path")))


def _last_answer(path: str) -> str:
    """Return the last text of the agent in a transcript of Copilot's, which is written a moment after the event."""
    for _ in range(_READS):
        text = hook_files.read_file(path, _TAIL, end=True) or b""
        if text.rfind(b'"agentStop"') > text.rfind(b'"type":"user.message"'):
            break
        time.sleep(
            0.05
        )  # there is nothing to wait on; the reads are few, and the hook has its deadline
    for line in reversed(text.split(b"\n")):
        if line.startswith(b'{"type":"assistant.message"') and b'"content":""' not in line:
            return str(json.loads(line)["data"]["content"])
    return ""


def _cline(event: str, payload: Json) -> None:
    context, result, turn = (
        payload.get(name) or {} for name in ("sessionContext", "tool_result", "turn")
    )
    payload["session_id"] = context.get("rootSessionId") or payload.get("taskId")
    payload["cwd"] = next(iter(payload.get("workspaceRoots") or []), "")
    payload["agent_id"] = payload.get("agent_id") if payload.get("parent_agent_id") else None
    payload["last_assistant_message"] = turn.get("outputText")
    payload["prompt"] = (payload.get("userPromptSubmit") or {}).get("prompt")
    if not result:
        return
    given = dict(result.get("input") or {})
    output = result.get("output")
    results = [
        each
        for each in (output if isinstance(output, list) else [output])
        if isinstance(each, dict)
    ]
    text = (
        "\n".join(str(each.get("result") or each.get("error") or "") for each in results) or output
    )
    if isinstance(given.get("commands"), list):
        given["command"] = "\n".join(map(str, given.pop("commands")))
    errors = [str(each.get("error")) for each in results if each.get("success") is False]
    code = errors[0].rpartition(" with code ")[2] if errors else ""
    payload["exit_code"] = int(code) if code.isdecimal() else None
    payload["tool_response"] = (
        {"isError": True, "content": text} if errors and not code.isdecimal() else text
    )
    payload |= {
        "tool_name": result.get("name"),
        "tool_input": given,
        "tool_use_id": result.get("id"),
    }


def _cursor(event: str, payload: Json) -> None:
    payload["session_id"] = payload.get("conversation_id") or payload.get("session_id")
    payload["cwd"] = next(iter(payload.get("workspace_roots") or []), payload.get("cwd"))
    payload["last_assistant_message"] = payload.get("text")
    if event == "SessionStart":
        payload["source"] = "startup"
    for name in ("tool_input", "tool_output"):
        value = payload.get(name)
        if isinstance(value, str) and value.startswith("{"):
            payload[name] = json.loads(value)
    output = payload.get("tool_output")
    payload["tool_response"] = output.get("output", output) if isinstance(output, dict) else output
    payload["exit_code"] = output.get("exitCode") if isinstance(output, dict) else None
    if "error_message" in payload:
        payload["tool_response"] = {"isError": True, "content": payload["error_message"]}


def _windsurf(event: str, payload: Json) -> None:
    info: Json = payload.get("tool_info") or {}
    payload["session_id"] = payload.get("trajectory_id")
    payload["cwd"] = os.getcwd()
    payload["prompt"] = info.get("user_prompt")
    payload["last_assistant_message"] = info.get("response")
    if "command_line" in info:
        payload |= {"tool_name": "Bash", "tool_input": {"command": info["command_line"]}}
    elif "edits" in info:
        payload |= {
            "tool_name": "Edit",
            "tool_input": {name: info.get(name) for name in ("file_path", "edits")},
        }
    elif "mcp_tool_name" in info:
        name = f"mcp__{info.get('mcp_server_name')}__{info['mcp_tool_name']}"
        payload |= {"tool_name": name, "tool_input": info.get("mcp_tool_arguments")}
        payload["tool_response"] = info.get("mcp_result")


_ADAPTERS = {
    "qwen": _qwen,
    "copilot": _copilot,
    "cline": _cline,
    "cursor": _cursor,
    "windsurf": _windsurf,
}
