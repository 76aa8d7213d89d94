"""Turn a host's payload into an Event, with the same members for every host.

Payloads are somebody else's JSON: a member that is missing or of another type reads as empty, and reading stops at a
depth that no honest payload has.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ralph.model.record import NO_EXTRA

Json = Mapping[str, object]


class Happening(StrEnum):
    """The moments at which a host calls us."""

    SESSION_START = "SessionStart"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    POST_TOOL_USE_FAILURE = "PostToolUseFailure"
    PRE_COMPACT = "PreCompact"
    STOP = "Stop"
    SUBAGENT_STOP = "SubagentStop"
    SESSION_END = "SessionEnd"


class Action(StrEnum):
    """What a tool does, whatever its host calls it."""

    SHELL = "shell"
    READ = "read"
    SEARCH = "search"
    FETCH = "fetch"
    CHANGE = "change"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A changed part of a file; no patch, in which secrets would begin with `-` or `+`."""

    path: str
    before: str
    after: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One call of a hook; what the host does not send is empty. `agent` is a subagent's id."""

    happening: Happening
    host: str
    session: str = ""
    at: str = ""
    cwd: str = ""
    agent: str = ""
    mode: str = ""
    source: str = ""
    reason: str = ""
    prompt: str = ""
    message: str = ""
    tool: str = ""
    action: Action = Action.OTHER
    parameters: Json = field(default=NO_EXTRA, hash=False)
    response: str = ""
    error: str = ""
    failed: bool = False
    exit_code: int | None = None
    files: tuple[str, ...] = ()  # relative to `cwd` where they are inside of it
    changes: tuple[FileEdit, ...] = ()
    call: str = ""


_DEEPEST = 24
_MOST_FILES = 50
_PATH_KEYS = frozenset(
    {
        "file_path",
        "filepath",
        "filePath",
        "path",
        "paths",
        "file",
        "files",
        "notebook_path",
        "absolute_path",
        "dir_path",
        "filename",
        "fileName",
        "target_file",
    }
)
_TEXT_KEYS = ("content", "llmContent", "text", "result", "output", "message")
_MEDIA = ("image", "audio", "resource", "document", "video")


def _text(payload: Json, *keys: str) -> str:
    return next((value for key in keys if isinstance(value := payload.get(key), str) and value), "")


def _object(value: object) -> Json:
    return value if isinstance(value, Mapping) else NO_EXTRA


def whole_number(value: object) -> int | None:
    """Return a whole number of a sensible size, else None."""
    return (
        value
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31
        else None
    )


def outline(value: object, depth: int = 0) -> str:
    """Format a value like JSON without escapes, which could hide what a secret begins with."""
    if isinstance(value, str):
        return f'"{value}"' if depth else value
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, int):
        return str(value) if value.bit_length() < 128 else "..."
    if depth >= _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f'"{key}": {outline(inner, depth + 1)}' for key, inner in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(outline(inner, depth + 1) for inner in value) + "]"
    return str(value)


def response_text(value: object, depth: int = 0) -> str:
    """Return a tool's answer as text: a string, content blocks, or an object with them."""
    if value is None or value == "":
        return ""
    if depth >= _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        if value.get("type") in _MEDIA and not isinstance(value.get("text"), str):
            return f"[{value['type']}]"
        if "stdout" in value or "stderr" in value:
            value = [value.get("stdout"), value.get("stderr")]
        else:
            key = next((key for key in _TEXT_KEYS if value.get(key)), "")
            return response_text(value[key], depth + 1) if key else outline(value)
    if isinstance(value, list):
        return "\n".join(filter(None, (response_text(item, depth + 1) for item in value)))
    return outline(value)


def relative_path(path: str, cwd: str) -> str:
    """Return a path relative to `cwd` when it is inside."""
    if not path or not cwd.startswith("/") or "\0" in path or "\0" in cwd:
        return path
    relative = os.path.relpath(path, cwd) if path.startswith("/") else os.path.normpath(path)
    return path if relative.startswith("..") else relative


def files_of(parameters: Json, cwd: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the files that a call names, without duplicates."""
    names = [path for path in (*more, *_paths(parameters, 0)) if path.strip() and "\n" not in path]
    return tuple(dict.fromkeys(relative_path(path, cwd) for path in names))[:_MOST_FILES]


def _paths(value: Json, depth: int) -> Iterator[str]:
    for key, inner in value.items():
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, str) and key in _PATH_KEYS:
                yield item
            elif isinstance(item, Mapping) and depth < _DEEPEST:
                yield from _paths(item, depth + 1)


ToolUse = tuple[Json, tuple[FileEdit, ...], str, str, bool, int | None]
"""Parameters, changes, response, error, whether the tool failed, and its exit code."""


_TOOLS = {
    Action.SHELL: "Bash PowerShell shell exec_command local_shell run_shell_command",
    Action.READ: "Read NotebookRead read_file view_image read_many_files",
    Action.SEARCH: "Grep Glob LS WebSearch ToolSearch grep_files list_dir web_search list_directory glob "
    "search_file_content grep_search google_web_search",
    Action.FETCH: "WebFetch web_fetch",
    Action.CHANGE: "Edit MultiEdit Write NotebookEdit apply_patch write_file replace",
}
_ACTIONS = {tool: action for action, tools in _TOOLS.items() for tool in tools.split()}
READING = (Action.READ, Action.SEARCH, Action.FETCH)


def reads_only(tool: str) -> bool:
    """Whether a tool's results are files and pages, of which only the location is recorded."""
    return _ACTIONS.get(tool) in READING


# Claude Code: a failed tool is an event of its own, whose `error` begins with `Exit code N`.

_CLAUDE_EXIT = re.compile(r"\s*Exit code (\d{1,9})\b[^\n]*\n?")


def _claude_tool(name: str, payload: Json, action: Action) -> ToolUse:
    parameters = _object(payload.get("tool_input"))
    answer = payload.get("tool_response")
    flags = _object(answer)
    changes = tuple(_claude_changes(parameters, flags)) if action is Action.CHANGE else ()
    response = "" if action is Action.CHANGE else response_text(answer)
    if name == Happening.POST_TOOL_USE_FAILURE:
        error = response_text(payload.get("error")) or (
            "interrupted" if payload.get("is_interrupt") is True else ""
        )
        code = _CLAUDE_EXIT.match(error)
        return (
            parameters,
            changes,
            response,
            error[code.end() if code else 0 :],
            True,
            int(code[1]) if code else None,
        )
    interrupted = flags.get("interrupted") is True
    failed = interrupted or flags.get("isError") is True or flags.get("is_error") is True
    return parameters, changes, response, "interrupted" if interrupted else "", failed, None


def _claude_changes(parameters: Json, answer: Json) -> Iterator[FileEdit]:
    path = _text(parameters, "file_path", "notebook_path") or _text(answer, "filePath")
    edits = parameters.get("edits")
    whole = _text(answer, "originalFile")
    if patched := patch_edits(answer, path):
        yield from (replace(edit, whole=whole) for edit in patched)
        return
    for edit in edits if isinstance(edits, list) else [parameters]:
        if isinstance(edit, Mapping):
            yield FileEdit(
                path,
                _text(edit, "old_string"),
                _text(edit, "new_string", "content", "new_source"),
                whole,
            )


def patch_edits(answer: Json, path: str = "") -> list[FileEdit]:
    """Return the hunks of the patch in Claude Code's answer to an edit."""
    hunks = answer.get("structuredPatch")
    edits = []
    for hunk in hunks if isinstance(hunks, list) else ():
        value = _object(hunk).get("lines")
        lines = [line for line in value if isinstance(line, str)] if isinstance(value, list) else []
        edits.append(_patch_edit(path, [line for line in lines if not line.startswith("\\")]))
    return edits


def _patch_edit(path: str, lines: Iterable[str]) -> FileEdit:
    before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
    return FileEdit(path, before, "\n".join(line[1:] for line in lines if not line.startswith("-")))


# Codex: no event for a failed tool; the exit code is known only where a header precedes the output.

_CODEX_HEADER = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Original token count|Total output lines):[^\n]{0,200}\n"
    r"|Process (?:exited with code \d{1,9}|running with session ID [^\n]{0,80})\n"
    r"|\n){1,8}(?:Output:\n?)?"
)
_CODEX_EXIT = re.compile(r"(?:Exit code:|Process exited with code) {0,4}(\d{1,9})\b")
_PATCHED_FILE = re.compile(r"(?m)^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.{1,1000})\n?")


def _codex_tool(_name: str, payload: Json, action: Action) -> ToolUse:
    value = payload.get("tool_input")
    answer = payload.get("tool_response")
    parameters = {"input": value} if isinstance(value, str) else dict(_object(value))
    if action is Action.SHELL:
        commands = [parameters.pop(key, None) for key in ("command", "cmd", "input")]
        command = next(filter(None, commands), None)
        if isinstance(command, list):
            words = [word for word in command if isinstance(word, str)]
            # `bash -lc SCRIPT` is Codex's own wrapping.
            command = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
        parameters = {"command": command, **parameters} if isinstance(command, str) else parameters
    changes = tuple(_codex_changes(parameters)) if action is Action.CHANGE else ()
    response, exit_code = _codex_answer(answer)
    failed = bool(exit_code) or _object(answer).get("isError") is True
    return (
        parameters,
        changes,
        response,
        response if failed else response_text(payload.get("error")),
        failed,
        exit_code,
    )


def _codex_answer(answer: object) -> tuple[str, int | None]:
    if isinstance(answer, str) and answer.startswith('{"output":'):
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError):
            return str(answer), None
    output = response_text(answer)
    if isinstance(answer, Mapping):
        code = whole_number(_object(answer.get("metadata")).get("exit_code"))
        return output, whole_number(answer.get("exit_code")) if code is None else code
    header = _CODEX_HEADER.match(output)
    exit_line = _CODEX_EXIT.search(header[0]) if header else None
    return (output[header.end() :], int(exit_line[1])) if header and exit_line else (output, None)


def _codex_changes(parameters: Json) -> Iterator[FileEdit]:
    patch = _text(parameters, "command", "input", "patch")
    if not patch:
        before = _text(parameters, "old_string")
        after = _text(parameters, "new_string", "content")
        yield FileEdit(_text(parameters, "file_path", "path"), before, after)
    _, *pieces = _PATCHED_FILE.split(patch)
    for path, body in zip(pieces[::2], pieces[1::2], strict=True):
        lines = body.removesuffix("\n").split("\n")
        yield _patch_edit(
            path.strip(), [line for line in lines if not line.startswith(("***", "@@"))]
        )


# Gemini CLI: a shell's answer is text in `<untrusted_context>`, with `Exit Code:` and `Signal:` at its end if needed.

_GEMINI_CONTEXT = re.compile(r"\s*<(hook_context|session_context)>")
_GEMINI_FENCE = re.compile(r"\s*<untrusted_context>\n?(.*?)\n?</untrusted_context>\s*", re.DOTALL)
_GEMINI_TRAILER = re.compile(
    r"(Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?([^\n]*)"
)
_DIGITS = re.compile(r"-?\d{1,9}")


def _gemini_tool(_name: str, payload: Json, action: Action) -> ToolUse:
    parameters = _object(payload.get("tool_input"))
    answer = payload.get("tool_response")
    path = _text(parameters, "file_path", "absolute_path")
    before = _text(parameters, "old_string")
    change = FileEdit(path, before, _text(parameters, "new_string", "content"))
    changes = (change,) if action is Action.CHANGE else ()
    output = response_text(_object(answer).get("llmContent")) or response_text(answer)
    fenced = _GEMINI_FENCE.fullmatch(output)
    output = fenced[1] if fenced else output
    error = response_text(_object(answer).get("error"))
    if action is not Action.SHELL or not output.startswith("Output:"):
        return parameters, changes, output, error, bool(error), None
    lines = output.removeprefix("Output:").removeprefix(" ").split("\n")
    trailers: dict[str, str] = {}
    while len(lines) > 1 and (trailer := _GEMINI_TRAILER.fullmatch(lines[-1])):
        trailers.setdefault(trailer[1], trailer[2].strip())
        lines.pop()
    output = "" if "\n".join(lines).strip() == "(empty)" else "\n".join(lines)
    signal = trailers.get("Signal")
    code = _DIGITS.match(trailers.get("Exit Code", "0"))
    exit_code = int(code[0]) if code and signal is None else None
    error = (
        error
        or trailers.get("Error", "")
        or (f"ended by signal {signal}" if signal is not None else "")
    )
    error = "" if error in ("(none)", "none") else error
    return (
        parameters,
        changes,
        output,
        error or (output if exit_code else ""),
        bool(error or exit_code),
        exit_code,
    )


def without_context(prompt: str) -> str:
    """Return a prompt without what hooks and Gemini put before it."""
    while opening := _GEMINI_CONTEXT.match(prompt):
        end = prompt.find(f"</{opening[1]}>", opening.end())
        if end < 0:
            return ""
        prompt = prompt[end + len(opening[1]) + 3 :].lstrip("\n")
    return prompt


_READERS: Mapping[str, Callable[[str, Json, Action], ToolUse]] = {
    "codex": _codex_tool,
    "gemini": _gemini_tool,
}
"""All others send Claude's form, or `hooks/adapters.py` makes it."""
_HAPPENINGS = {
    **{name.value: name for name in Happening},
    "BeforeAgent": Happening.USER_PROMPT_SUBMIT,
    "beforeSubmitPrompt": Happening.USER_PROMPT_SUBMIT,
    "AfterAgent": Happening.STOP,
    "BeforeTool": Happening.PRE_TOOL_USE,
    "AfterTool": Happening.POST_TOOL_USE,
    "PreCompress": Happening.PRE_COMPACT,
}


def event_of(host: str, name: str, payload: Json, at: str) -> Event | None:
    """Return the Event of a payload; None when Ralph has no use for it."""
    happening = _HAPPENINGS.get(name)
    # Compaction's own fork is a subagent without a type.
    forked = (
        host == "claude"
        and happening is Happening.SUBAGENT_STOP
        and not _text(payload, "agent_type")
    )
    if happening is None or forked:
        return None
    tool = _text(payload, "tool_name")
    cwd = _text(payload, "cwd")
    prompt = _text(payload, "prompt")
    mode = _text(payload, "permission_mode", "approval_mode")
    action = _ACTIONS.get(tool, Action.OTHER)
    parameters, changes, response, error, failed, exit_code = _READERS.get(host, _claude_tool)(
        name, payload, action
    )
    return Event(
        happening=happening,
        host=host,
        session=_text(payload, "session_id"),
        at=at,
        cwd=cwd,
        agent=_text(payload, "agent_id") if host != "gemini" else "",
        mode="agent" if mode and mode != "plan" else mode,
        source=_text(payload, "source", "trigger"),
        reason=_text(payload, "reason"),
        prompt=without_context(prompt) if host == "gemini" else prompt,
        message=_text(payload, "prompt_response" if host == "gemini" else "last_assistant_message"),
        tool=tool,
        action=action,
        parameters=parameters,
        response=response,
        error=error,
        failed=failed,
        exit_code=exit_code,
        files=files_of(parameters, cwd, (change.path for change in changes)),
        changes=changes,
        call=_text(payload, "tool_use_id", *(["call_id"] if host == "gemini" else [])),
    )
