"""Turn a host's payload into an Event, with the same members for every host.

Payloads are somebody else's JSON: any member may be missing or of another type, so they are read with functions that
return an empty value instead of an error and stop at a depth that no honest payload has. An edit is kept as the text
before and after, not as a patch: secrets are searched in both, and `-ghp_...` would not be recognised as a token.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.model.record import NO_EXTRA


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
    """One place of a file before and after; `whole` is the file as it was, where the host tells."""

    path: str
    before: str
    after: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One call of a hook; a member that the host did not tell is empty."""

    happening: Happening
    host: str
    session: str = ""
    at: str = ""
    cwd: str = ""
    agent: str = ""
    """The subagent's id."""
    mode: str = ""
    """`plan` or `agent`."""
    source: str = ""
    reason: str = ""
    prompt: str = ""
    message: str = ""
    """The last words of the assistant."""
    tool: str = ""
    action: Action = Action.OTHER
    parameters: Mapping[str, object] = field(default=NO_EXTRA, hash=False)
    response: str = ""
    error: str = ""
    failed: bool = False
    exit_code: int | None = None
    files: tuple[str, ...] = ()
    """Relative to `cwd` where they are inside of it."""
    changes: tuple[FileEdit, ...] = ()
    call: str = ""
    """The host's id of this use of the tool."""


# --- reading somebody's JSON --------------------------------------------------------------------

_DEEPEST = 24
_MOST_FILES = 50
_PATH_KEYS = frozenset(
    """file_path filepath filePath path paths file files notebook_path absolute_path dir_path filename fileName
    target_file""".split()
)
_WORDS = ("content", "llmContent", "text", "result", "output", "message")
_PICTURES = ("image", "audio", "resource", "document", "video")


def text(payload: Mapping[str, object], *keys: str) -> str:
    """The first of these members that is text and not empty."""
    for key in keys:
        found = payload.get(key)
        if isinstance(found, str) and found:
            return found
    return ""


def flag(payload: Mapping[str, object], key: str) -> bool:
    """Whether a member is true."""
    return payload.get(key) is True


def whole_number(found: object) -> int | None:
    """A whole number of a sensible size, else None."""
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 2**31 else None


def members(payload: Mapping[str, object], key: str) -> Mapping[str, object]:
    """A member that is an object, else the empty one."""
    found = payload.get(key)
    return found if isinstance(found, Mapping) else NO_EXTRA


def outline(value: object, depth: int = 0) -> str:
    """A value in the manner of JSON, with texts as they are: an escape could hide what a secret begins with."""
    if isinstance(value, str):
        return f'"{value}"' if depth else value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if value.bit_length() < 128 else "..."
    if depth >= _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{key}": {outline(inner, depth + 1)}' for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(outline(inner, depth + 1) for inner in value) + "]"
    return str(value)


def words_of(value: object, depth: int = 0) -> str:
    """What a tool answered, as text: a string, a list of content blocks, or an object that holds one of them."""
    if value is None or value == "":
        return ""
    if depth >= _DEEPEST:
        return "..."
    if isinstance(value, list):
        return "\n".join(filter(None, (words_of(item, depth + 1) for item in value)))
    if isinstance(value, Mapping):
        return _words_of_object(value, depth)
    return outline(value)


def _words_of_object(value: Mapping[str, object], depth: int) -> str:
    if "stdout" in value or "stderr" in value:
        return "\n".join(filter(None, (words_of(value.get(key), depth + 1) for key in ("stdout", "stderr"))))
    kind = value.get("type")
    if kind in _PICTURES and not isinstance(value.get("text"), str):
        return f"[{kind}]"
    for key in _WORDS:
        if value.get(key):
            return words_of(value[key], depth + 1)
    return outline(value)


def within(path: str, cwd: str) -> str:
    """A path relative to `cwd` when it is inside of it, else as it was."""
    if not path or not cwd or "\0" in path or "\0" in cwd:
        return path
    place, top = os.path.normpath(path), os.path.normpath(cwd)
    if not place.startswith("/"):
        return path if place.startswith("..") else place
    if place == top:
        return "."
    return place[len(top.rstrip("/")) + 1 :] if place.startswith(top.rstrip("/") + "/") else path


def files_of(parameters: Mapping[str, object], cwd: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """The files that a call names, each once."""
    found = [path for path in (*more, *_paths(parameters, 0)) if path.strip() and "\n" not in path]
    return tuple(dict.fromkeys(within(path, cwd) for path in found))[:_MOST_FILES]


def _paths(value: Mapping[str, object], depth: int) -> Iterator[str]:
    for key, inner in value.items():
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, str) and key in _PATH_KEYS:
                yield item
            elif isinstance(item, Mapping) and depth < _DEEPEST:
                yield from _paths(item, depth + 1)


def mode_of(payload: Mapping[str, object]) -> str:
    """`plan`, `agent`, or nothing when the host does not say."""
    mode = text(payload, "permission_mode", "approval_mode")
    return "" if not mode else "plan" if mode == "plan" else "agent"


ToolUse = tuple[Mapping[str, object], tuple[FileEdit, ...], str, str, bool, int | None]
"""Parameters, changes, response, error, whether the tool failed, and its exit code."""


# --- Claude Code -------------------------------------------------------------------------------
# A failed tool is an event of its own, whose `error` begins with `Exit code N`. A SubagentStop without a type is
# compaction's own fork.

_CLAUDE_ACTIONS = {
    **dict.fromkeys(("Bash", "PowerShell"), Action.SHELL),
    **dict.fromkeys(("Read", "NotebookRead"), Action.READ),
    **dict.fromkeys(("Grep", "Glob", "LS", "WebSearch", "ToolSearch"), Action.SEARCH),
    **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), Action.CHANGE),
    "WebFetch": Action.FETCH,
}
_CLAUDE_EXIT = re.compile(r"\s*Exit code (\d{1,9})\b[^\n]*\n?")


def _claude_tool(name: str, payload: Mapping[str, object], action: Action) -> ToolUse:
    parameters, answer = members(payload, "tool_input"), payload.get("tool_response")
    changes = tuple(_claude_changes(parameters, answer)) if action is Action.CHANGE else ()
    response = "" if action is Action.CHANGE else words_of(answer)
    if name == Happening.POST_TOOL_USE_FAILURE:
        error = words_of(payload.get("error"))
        code = _CLAUDE_EXIT.match(error)
        if code:
            return parameters, changes, response, error[code.end() :], True, int(code[1])
        error = error or ("interrupted" if flag(payload, "is_interrupt") else "")
        return parameters, changes, response, error, True, None
    told = members(payload, "tool_response")
    interrupted = flag(told, "interrupted")
    failed = interrupted or flag(told, "isError") or flag(told, "is_error")
    return parameters, changes, response, "interrupted" if interrupted else "", failed, None


def _claude_changes(parameters: Mapping[str, object], answer: object) -> Iterator[FileEdit]:
    """The places that an edit changed: with the lines around them where the host tells, else what was asked for."""
    told = answer if isinstance(answer, Mapping) else {}
    path = text(parameters, "file_path", "notebook_path") or text(told, "filePath")
    whole = text(told, "originalFile")
    hunks = told.get("structuredPatch")
    if isinstance(hunks, list) and hunks:
        for hunk in hunks:
            lines = hunk.get("lines") if isinstance(hunk, Mapping) else None
            lines = [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
            before = "\n".join(line[1:] for line in lines if not line.startswith(("+", "\\")))
            after = "\n".join(line[1:] for line in lines if not line.startswith(("-", "\\")))
            yield FileEdit(path, before, after, whole)
        return
    edits = parameters.get("edits")
    for edit in edits if isinstance(edits, list) else [parameters]:
        if isinstance(edit, Mapping):
            after = text(edit, "new_string", "content", "new_source")
            yield FileEdit(path, text(edit, "old_string"), after, whole)


# --- Codex -------------------------------------------------------------------------------------
# There is no event for a failed tool. The exit code is known only where Codex puts a header in front of the output.
# Files are changed by `apply_patch`, one text that names them.

_CODEX_ACTIONS = {
    **dict.fromkeys(("Bash", "shell", "exec_command", "local_shell"), Action.SHELL),
    **dict.fromkeys(("apply_patch", "Edit", "Write"), Action.CHANGE),
    **dict.fromkeys(("read_file", "view_image"), Action.READ),
    **dict.fromkeys(("grep_files", "list_dir", "web_search"), Action.SEARCH),
}
_CODEX_HEADER = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Original token count|Total output lines):[^\n]{0,200}\n"
    r"|Process (?:exited with code \d{1,9}|running with session ID [^\n]{0,80})\n"
    r"|\n){1,8}(?:Output:\n?)?"
)
_CODEX_EXIT = re.compile(r"(?:Exit code:|Process exited with code) {0,4}(\d{1,9})\b")
_PATCHED_FILE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.{1,1000})|\*\*\* Move to: (.{1,1000})")


def _codex_tool(_name: str, payload: Mapping[str, object], action: Action) -> ToolUse:
    parameters = _codex_parameters(payload.get("tool_input"), action)
    changes = tuple(_codex_changes(parameters)) if action is Action.CHANGE else ()
    response, exit_code = _codex_answer(payload.get("tool_response"))
    failed = bool(exit_code) or flag(members(payload, "tool_response"), "isError")
    return parameters, changes, response, response if failed else words_of(payload.get("error")), failed, exit_code


def _codex_parameters(found: object, action: Action) -> Mapping[str, object]:
    """The parameters with the command as one text: some versions give it as a list or call it `cmd`."""
    parameters = found if isinstance(found, Mapping) else {"input": found} if isinstance(found, str) else {}
    if action is not Action.SHELL:
        return parameters
    said = parameters.get("command") or parameters.get("cmd") or parameters.get("input")
    if isinstance(said, list):
        words = [word for word in said if isinstance(word, str)]
        # `bash -lc SCRIPT` is Codex's own wrapping: the script is what was asked for.
        said = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    others = {key: value for key, value in parameters.items() if key not in ("command", "cmd", "input")}
    return {"command": said, **others} if isinstance(said, str) else others


def _codex_answer(answer: object) -> tuple[str, int | None]:
    """What the tool said without Codex's header, and the exit code where the header tells it."""
    if isinstance(answer, str) and answer.startswith('{"output":'):
        try:
            answer = json.loads(answer)
        except (ValueError, RecursionError):
            return str(answer), None
    if isinstance(answer, Mapping):
        code = whole_number(members(answer, "metadata").get("exit_code"))
        return words_of(answer), whole_number(answer.get("exit_code")) if code is None else code
    said = words_of(answer)
    header = _CODEX_HEADER.match(said)
    if header is None:
        return said, None
    told = _CODEX_EXIT.search(header[0])
    return (said[header.end() :], int(told[1])) if told else (said, None)


def _codex_changes(parameters: Mapping[str, object]) -> Iterator[FileEdit]:
    """The changes of an `apply_patch` text, one for each of its files."""
    patch = text(parameters, "command", "input", "patch")
    if not patch:
        said = text(parameters, "new_string", "content")
        yield FileEdit(text(parameters, "file_path", "path"), text(parameters, "old_string"), said)
        return
    path, before, after = "", list[str](), list[str]()
    for line in patch.split("\n"):
        named = _PATCHED_FILE.match(line)
        if named:
            if path:
                yield FileEdit(path, "\n".join(before), "\n".join(after))
            path, before, after = (named[2] or named[3]).strip(), [], []
        elif path and not line.startswith(("***", "@@")):
            if not line.startswith("+"):
                before.append(line[1:])
            if not line.startswith("-"):
                after.append(line[1:])
    if path:
        yield FileEdit(path, "\n".join(before), "\n".join(after))


# --- Gemini CLI --------------------------------------------------------------------------------
# What hooks injected at the start is in front of the prompt. A shell's answer is text in `<untrusted_context>`, with
# `Exit Code:` and `Signal:` only when there is something to tell.

_GEMINI_HAPPENINGS = {
    "SessionStart": Happening.SESSION_START,
    "SessionEnd": Happening.SESSION_END,
    "BeforeAgent": Happening.USER_PROMPT_SUBMIT,
    "AfterAgent": Happening.STOP,
    "BeforeTool": Happening.PRE_TOOL_USE,
    "AfterTool": Happening.POST_TOOL_USE,
    "PreCompress": Happening.PRE_COMPACT,
}
_GEMINI_ACTIONS = {
    "run_shell_command": Action.SHELL,
    **dict.fromkeys(("read_file", "read_many_files"), Action.READ),
    **dict.fromkeys(
        ("list_directory", "glob", "search_file_content", "grep_search", "google_web_search"), Action.SEARCH
    ),
    "web_fetch": Action.FETCH,
    **dict.fromkeys(("write_file", "replace"), Action.CHANGE),
}
_GEMINI_CONTEXT = re.compile(r"\s*<(hook_context|session_context)>")
_GEMINI_FENCE = re.compile(r"\s*<untrusted_context>\n?(.*?)\n?</untrusted_context>\s*", re.DOTALL)
_GEMINI_TRAILER = re.compile(r"(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?(?P<said>[^\n]*)")
_DIGITS = re.compile(r"-?\d{1,9}")


def _gemini_tool(_name: str, payload: Mapping[str, object], action: Action) -> ToolUse:
    parameters = members(payload, "tool_input")
    path, before = text(parameters, "file_path", "absolute_path"), text(parameters, "old_string")
    change = FileEdit(path, before, text(parameters, "new_string", "content"))
    changes = (change,) if action is Action.CHANGE else ()
    response, error, exit_code = _gemini_answer(payload.get("tool_response"), action)
    return parameters, changes, response, error, bool(error or exit_code), exit_code


def without_context(prompt: str) -> str:
    """The prompt without what hooks and the host put in front of it."""
    while opening := _GEMINI_CONTEXT.match(prompt):
        end = prompt.find(f"</{opening[1]}>", opening.end())
        if end < 0:
            return ""
        prompt = prompt[end + len(opening[1]) + 3 :].lstrip("\n")
    return prompt


def _gemini_answer(answer: object, action: Action) -> tuple[str, str, int | None]:
    """What the tool said, its error, and a shell's exit code."""
    told = answer if isinstance(answer, Mapping) else {}
    said = words_of(told.get("llmContent")) or words_of(answer)
    fenced = _GEMINI_FENCE.fullmatch(said)
    said = fenced[1] if fenced else said
    failure = words_of(told.get("error"))
    if action is not Action.SHELL or not said.startswith("Output:"):
        return said, failure, None
    output, trailers = _split_trailers(said)
    code = _DIGITS.match(trailers.get("Exit Code", "0"))
    exit_code = int(code[0]) if code and "Signal" not in trailers else None
    signal = f"ended by signal {trailers['Signal']}" if "Signal" in trailers else ""
    error = failure or trailers.get("Error", "") or signal
    if error in ("(none)", "none"):
        error = ""
    return output, error or (output if exit_code else ""), exit_code


def _split_trailers(said: str) -> tuple[str, dict[str, str]]:
    """A shell's output, and what Gemini wrote below it; the same words in the output itself stand higher."""
    lines = said.removeprefix("Output:").removeprefix(" ").split("\n")
    trailers: dict[str, str] = {}
    while len(lines) > 1 and (found := _GEMINI_TRAILER.fullmatch(lines[-1])):
        trailers.setdefault(lines.pop().partition(":")[0], found["said"].strip())
    output = "\n".join(lines)
    return "" if output.strip() == "(empty)" else output, trailers


# --- all hosts ----------------------------------------------------------------------------------

ADAPTERS: Mapping[
    str, tuple[Mapping[str, Action], Callable[[str, Mapping[str, object], Action], ToolUse], Mapping[str, Happening]]
] = {
    "claude": (_CLAUDE_ACTIONS, _claude_tool, {name.value: name for name in Happening}),
    "codex": (_CODEX_ACTIONS, _codex_tool, {name.value: name for name in Happening}),
    "gemini": (_GEMINI_ACTIONS, _gemini_tool, _GEMINI_HAPPENINGS),
}
"""What the tools of each host do, how their use is read, and the host's names of events."""


def event_of(host: str, name: str, payload: Mapping[str, object], at: str) -> Event | None:
    """Return the Event of a payload, by the host's name for it; None when Ralph has no use for it."""
    if host not in ADAPTERS:
        return None
    actions, read_tool, happenings = ADAPTERS[host]
    happening = happenings.get(name)
    forked = host == "claude" and happening is Happening.SUBAGENT_STOP and not text(payload, "agent_type")
    if happening is None or forked:
        return None
    tool, cwd = text(payload, "tool_name"), text(payload, "cwd")
    action = actions.get(tool, Action.OTHER)
    parameters, changes, response, error, failed, exit_code = read_tool(name, payload, action)
    prompt = text(payload, "prompt")
    return Event(
        happening=happening,
        host=host,
        session=text(payload, "session_id"),
        at=at,
        cwd=cwd,
        agent=text(payload, "agent_id") if host != "gemini" else "",
        mode=mode_of(payload),
        source=text(payload, "source", "trigger"),
        reason=text(payload, "reason"),
        prompt=without_context(prompt) if host == "gemini" else prompt,
        message=text(payload, "prompt_response" if host == "gemini" else "last_assistant_message"),
        tool=tool,
        action=action,
        parameters=parameters,
        response=response,
        error=error,
        failed=failed,
        exit_code=exit_code,
        files=files_of(parameters, cwd, (change.path for change in changes)),
        changes=changes,
        call=text(payload, "tool_use_id", *(["call_id"] if host == "gemini" else [])),
    )
