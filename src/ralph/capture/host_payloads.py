"""Turn the payload that a host sends to a hook into an Event.

A host is a coding agent, and a payload is its JSON object. For a failed command, Claude Code sends:

    {"hook_event_name": "PostToolUseFailure", "session_id": "...", "cwd": "/app",
     "tool_name": "Bash", "tool_input": {"command": "make test"},
     "error": "Exit code 2\\nmake: *** [test] Error 1"}

The event has the exit code 2 and the error without its first line. Each host has its own section
below, which describes how its payloads differ. Ralph does not control what they contain: a member
that is missing or has an unexpected type is read as empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ralph.capture.events import (
    Action,
    Event,
    EventKind,
    FileEdit,
    Json,
    as_object,
    files_of,
    response_text,
    text_member,
    whole_number,
)

_EVENT_KINDS = {
    **{name.value: name for name in EventKind},
    "BeforeAgent": EventKind.USER_PROMPT_SUBMIT,
    "beforeSubmitPrompt": EventKind.USER_PROMPT_SUBMIT,
    "AfterAgent": EventKind.STOP,
    "BeforeTool": EventKind.PRE_TOOL_USE,
    "AfterTool": EventKind.POST_TOOL_USE,
    "PreCompress": EventKind.PRE_COMPACT,
}


def event_of(host: str, name: str, payload: Json, at: str) -> Event | None:
    """Return a payload as an Event, or None if Ralph has no use for it."""
    kind = _EVENT_KINDS.get(name)
    if kind is None or _is_compaction(host, kind, payload):
        return None
    tool = text_member(payload, "tool_name")
    cwd = text_member(payload, "cwd")
    action = _ACTIONS.get(tool, Action.OTHER)
    use = _read_tool_use(host, kind, payload, action)
    event = Event(
        kind=kind,
        host=host,
        session=text_member(payload, "session_id"),
        at=at,
        cwd=cwd,
        agent=text_member(payload, "agent_id"),
        mode=_mode(payload),
        source=text_member(payload, "source", "trigger"),
        reason=text_member(payload, "reason"),
        prompt=text_member(payload, "prompt"),
        message=text_member(payload, "last_assistant_message"),
        tool=tool,
        action=action,
        parameters=use.parameters,
        response=use.response,
        error=use.error,
        failed=use.failed,
        exit_code=use.exit_code,
        files=files_of(use.parameters, cwd, (change.path for change in use.changes)),
        changes=use.changes,
        call=text_member(payload, "tool_use_id"),
    )
    if host == "gemini":
        return event._replace(
            agent="",
            prompt=without_context(event.prompt),
            message=text_member(payload, "prompt_response"),
            call=text_member(payload, "tool_use_id", "call_id"),
        )
    return event


def _read_tool_use(host: str, kind: EventKind, payload: Json, action: Action) -> ToolUse:
    if host == "codex":
        return _codex_tool(payload, action)
    if host == "gemini":
        return _gemini_tool(payload, action)
    # All other hosts send Claude Code's format, or `hooks/adapters.py` converts their payloads.
    return _claude_tool(kind, payload, action)


def _is_compaction(host: str, kind: EventKind, payload: Json) -> bool:
    """Return whether the event is about the fork in which Claude Code compacts a session.

    It is reported as a subagent without a type.
    """
    if host != "claude" or kind is not EventKind.SUBAGENT_STOP:
        return False
    return not text_member(payload, "agent_type")


def _mode(payload: Json) -> str:
    mode = text_member(payload, "permission_mode", "approval_mode")
    if mode and mode != "plan":
        return "agent"
    return mode


# --- tools ----------------------------------------------------------------------------------------


class ToolUse(NamedTuple):
    """What a payload says about one tool call."""

    parameters: Json
    changes: tuple[FileEdit, ...] = ()
    response: str = ""
    error: str = ""
    failed: bool = False
    exit_code: int | None = None


_ACTIONS = {
    "Bash": Action.SHELL,
    "PowerShell": Action.SHELL,
    "shell": Action.SHELL,
    "exec_command": Action.SHELL,
    "local_shell": Action.SHELL,
    "run_shell_command": Action.SHELL,
    "Read": Action.READ,
    "NotebookRead": Action.READ,
    "read_file": Action.READ,
    "view_image": Action.READ,
    "read_many_files": Action.READ,
    "Grep": Action.SEARCH,
    "Glob": Action.SEARCH,
    "LS": Action.SEARCH,
    "WebSearch": Action.SEARCH,
    "ToolSearch": Action.SEARCH,
    "grep_files": Action.SEARCH,
    "list_dir": Action.SEARCH,
    "web_search": Action.SEARCH,
    "list_directory": Action.SEARCH,
    "glob": Action.SEARCH,
    "search_file_content": Action.SEARCH,
    "grep_search": Action.SEARCH,
    "google_web_search": Action.SEARCH,
    "WebFetch": Action.FETCH,
    "web_fetch": Action.FETCH,
    "Edit": Action.CHANGE,
    "MultiEdit": Action.CHANGE,
    "Write": Action.CHANGE,
    "NotebookEdit": Action.CHANGE,
    "apply_patch": Action.CHANGE,
    "write_file": Action.CHANGE,
    "replace": Action.CHANGE,
}
READING = (Action.READ, Action.SEARCH, Action.FETCH)


def reads_only(tool: str) -> bool:
    """Return whether a tool only reads files or pages. Their content is never recorded."""
    return _ACTIONS.get(tool) in READING


# --- Claude Code ----------------------------------------------------------------------------------

# A failed tool call is a separate event, whose `error` begins with `Exit code N`. The answer to an
# edit may contain the patch: {"filePath": ..., "structuredPatch": [{"lines": ["-old", "+new"]}]}.

_CLAUDE_EXIT = re.compile(r"\s*Exit code (\d{1,9})\b[^\n]*\n?")


def _claude_tool(kind: EventKind, payload: Json, action: Action) -> ToolUse:
    parameters = as_object(payload.get("tool_input"))
    answer = payload.get("tool_response")
    flags = as_object(answer)
    changes: tuple[FileEdit, ...] = ()
    response = ""
    if action is Action.CHANGE:
        changes = tuple(_claude_changes(parameters, flags))
    else:
        response = response_text(answer)
    if kind is EventKind.POST_TOOL_USE_FAILURE:
        error, exit_code = _claude_error(payload)
        return ToolUse(parameters, changes, response, error, failed=True, exit_code=exit_code)
    if flags.get("interrupted") is True:
        return ToolUse(parameters, changes, response, "interrupted", failed=True)
    failed = flags.get("isError") is True or flags.get("is_error") is True
    return ToolUse(parameters, changes, response, failed=failed)


def _claude_error(payload: Json) -> tuple[str, int | None]:
    error = response_text(payload.get("error"))
    if not error and payload.get("is_interrupt") is True:
        error = "interrupted"
    exit_line = _CLAUDE_EXIT.match(error)
    if exit_line is None:
        return error, None
    return error[exit_line.end() :], int(exit_line[1])


def _claude_changes(parameters: Json, answer: Json) -> Iterator[FileEdit]:
    path = text_member(parameters, "file_path", "notebook_path") or text_member(answer, "filePath")
    whole = text_member(answer, "originalFile")
    patched = patch_edits(answer, path)
    if patched:
        for hunk in patched:
            yield hunk._replace(whole=whole) if whole else hunk
        return
    edits = parameters.get("edits")
    if not isinstance(edits, list):
        edits = [parameters]
    for edit in edits:
        if isinstance(edit, Mapping):
            before = text_member(edit, "old_string")
            after = text_member(edit, "new_string", "content", "new_source")
            yield FileEdit(path, before, after, whole)


def patch_edits(answer: Json, path: str = "") -> list[FileEdit]:
    """Return the hunks of the patch in Claude Code's answer to an edit, or []."""
    hunks = answer.get("structuredPatch")
    if not isinstance(hunks, list):
        return []
    edits = []
    for hunk in hunks:
        lines = as_object(hunk).get("lines")
        if not isinstance(lines, list):
            lines = []
        texts = [line for line in lines if isinstance(line, str) and not line.startswith("\\")]
        edits.append(_patch_edit(path, texts))
    return edits


def _patch_edit(path: str, lines: Sequence[str]) -> FileEdit:
    before = [line[1:] for line in lines if not line.startswith("+")]
    after = [line[1:] for line in lines if not line.startswith("-")]
    return FileEdit(path, "\n".join(before), "\n".join(after))


# --- Codex ----------------------------------------------------------------------------------------

# A failed tool call has no event of its own. The exit code is known only if a header precedes the
# output (`Exit code: 1`, `Wall time: ...`, `Output:`), or if the answer is an object that contains
# it: {"output": "...", "metadata": {"exit_code": 1}}.

_CODEX_HEADER = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Original token count|Total output lines):[^\n]{0,200}\n"
    r"|Process (?:exited with code \d{1,9}|running with session ID [^\n]{0,80})\n"
    r"|\n){1,8}(?:Output:\n?)?"
)
_CODEX_EXIT = re.compile(r"(?:Exit code:|Process exited with code) {0,4}(\d{1,9})\b")
_PATCHED_FILE = re.compile(r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.{1,1000})\n?")


def _codex_tool(payload: Json, action: Action) -> ToolUse:
    parameters = _codex_parameters(payload.get("tool_input"), action)
    changes: tuple[FileEdit, ...] = ()
    if action is Action.CHANGE:
        changes = tuple(_codex_changes(parameters))
    answer = payload.get("tool_response")
    response, exit_code = _codex_answer(answer)
    failed = bool(exit_code) or as_object(answer).get("isError") is True
    error = response if failed else response_text(payload.get("error"))
    return ToolUse(parameters, changes, response, error, failed=failed, exit_code=exit_code)


def _codex_parameters(value: object, action: Action) -> Json:
    parameters: dict[str, object] = {}
    if isinstance(value, str):
        parameters["input"] = value
    else:
        parameters.update(as_object(value))
    if action is not Action.SHELL:
        return parameters
    command: object = None
    for key in ("command", "cmd", "input"):
        candidate = parameters.pop(key, None)
        command = command or candidate
    if isinstance(command, list):
        command = _unwrap_shell([word for word in command if isinstance(word, str)])
    if isinstance(command, str):
        return {"command": command, **parameters}
    return parameters


def _unwrap_shell(words: Sequence[str]) -> str:
    """Return SCRIPT from the `bash -lc SCRIPT` in which Codex wraps a command."""
    if len(words) == 3 and words[1] in ("-c", "-lc"):
        return words[2]
    return " ".join(words)


def _codex_answer(answer: object) -> tuple[str, int | None]:
    """Return a tool's output, and its exit code if that is known."""
    if isinstance(answer, str) and answer.startswith('{"output":'):
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError):
            return str(answer), None
    output = response_text(answer)
    if isinstance(answer, Mapping):
        code = whole_number(as_object(answer.get("metadata")).get("exit_code"))
        if code is None:
            code = whole_number(answer.get("exit_code"))
        return output, code
    header = _CODEX_HEADER.match(output)
    if header is None:
        return output, None
    exit_line = _CODEX_EXIT.search(header[0])
    if exit_line is None:
        return output, None
    return output[header.end() :], int(exit_line[1])


def _codex_changes(parameters: Json) -> Iterator[FileEdit]:
    patch = text_member(parameters, "command", "input", "patch")
    if not patch:
        before = text_member(parameters, "old_string")
        after = text_member(parameters, "new_string", "content")
        yield FileEdit(text_member(parameters, "file_path", "path"), before, after)
        return
    _, *pieces = _PATCHED_FILE.split(patch)
    for path, body in zip(pieces[::2], pieces[1::2], strict=True):
        lines = body.removesuffix("\n").split("\n")
        yield _patch_edit(
            path.strip(), [line for line in lines if not line.startswith(("***", "@@"))]
        )


# --- Gemini CLI -----------------------------------------------------------------------------------

# A shell's answer is text in `<untrusted_context>`: `Output: ...`, which may be followed by lines
# such as `Exit Code: 1` and `Signal: 9`.

_GEMINI_CONTEXT = re.compile(r"\s*<(hook_context|session_context)>")
_GEMINI_FENCE = re.compile(r"\s*<untrusted_context>\n?(.*?)\n?</untrusted_context>\s*", re.DOTALL)
_GEMINI_TRAILER = re.compile(
    r"(Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?([^\n]*)"
)
_DIGITS = re.compile(r"-?\d{1,9}")


def _gemini_tool(payload: Json, action: Action) -> ToolUse:
    parameters = as_object(payload.get("tool_input"))
    answer = payload.get("tool_response")
    changes: tuple[FileEdit, ...] = ()
    if action is Action.CHANGE:
        path = text_member(parameters, "file_path", "absolute_path")
        before = text_member(parameters, "old_string")
        changes = (FileEdit(path, before, text_member(parameters, "new_string", "content")),)
    output = response_text(as_object(answer).get("llmContent")) or response_text(answer)
    fenced = _GEMINI_FENCE.fullmatch(output)
    if fenced:
        output = fenced[1]
    error = response_text(as_object(answer).get("error"))
    if action is Action.SHELL and output.startswith("Output:"):
        return _gemini_shell(parameters, output, error)
    return ToolUse(parameters, changes, output, error, failed=bool(error))


def _gemini_shell(parameters: Json, answer: str, error: str) -> ToolUse:
    lines = answer.removeprefix("Output:").removeprefix(" ").split("\n")
    trailers = _pop_trailers(lines)
    output = "\n".join(lines)
    if output.strip() == "(empty)":
        output = ""
    signal = trailers.get("Signal")
    exit_code = None
    if signal is None:
        digits = _DIGITS.match(trailers.get("Exit Code", "0"))
        exit_code = int(digits[0]) if digits else None
    error = error or trailers.get("Error", "")
    if not error and signal is not None:
        error = f"ended by signal {signal}"
    if error in ("(none)", "none"):
        error = ""
    failed = bool(error or exit_code)
    if exit_code and not error:
        error = output
    return ToolUse(parameters, (), output, error, failed=failed, exit_code=exit_code)


def _pop_trailers(lines: list[str]) -> dict[str, str]:
    """Remove trailers such as `Exit Code: 1` from the end of `lines`, and return them by name."""
    trailers: dict[str, str] = {}
    while len(lines) > 1:
        trailer = _GEMINI_TRAILER.fullmatch(lines[-1])
        if trailer is None:
            break
        trailers.setdefault(trailer[1], trailer[2].strip())
        lines.pop()
    return trailers


def without_context(prompt: str) -> str:
    """Return a prompt without the context that hooks and Gemini CLI put before it."""
    while opening := _GEMINI_CONTEXT.match(prompt):
        _, closing, rest = prompt[opening.end() :].partition(f"</{opening[1]}>")
        if not closing:
            return ""
        prompt = rest.lstrip("\n")
    return prompt
