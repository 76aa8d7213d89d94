r"""Gemini CLI: other names for the same moments, and answers meant for its model.

BeforeAgent is the prompt and AfterAgent the stop. What hooks said at the start of the session stands
in front of the prompt as `<hook_context>`: it is cut off, as it is not the person's. A shell's answer
is text in `<untrusted_context>`: `Output: ...`, then `Error:`, `Exit Code:` and `Signal:` only when
there is something to tell, so that none of them means 0.
`tests/capture/test_hosts.py` runs this on recorded payloads.
"""

import re
from collections.abc import Iterator, Mapping

from ralph.capture.event import Action, Change, Event, Happening, files_of, members, mode_of, text, words_of

_HAPPENINGS = {
    "SessionStart": Happening.SESSION_START,
    "SessionEnd": Happening.SESSION_END,
    "BeforeAgent": Happening.USER_PROMPT_SUBMIT,
    "AfterAgent": Happening.STOP,
    "BeforeTool": Happening.PRE_TOOL_USE,
    "AfterTool": Happening.POST_TOOL_USE,
    "PreCompress": Happening.PRE_COMPACT,
}
_ACTIONS = {
    "run_shell_command": Action.SHELL,
    "read_file": Action.READ,
    "read_many_files": Action.READ,
    "list_directory": Action.SEARCH,
    "glob": Action.SEARCH,
    "search_file_content": Action.SEARCH,
    "grep_search": Action.SEARCH,
    "google_web_search": Action.SEARCH,
    "web_fetch": Action.FETCH,
    "write_file": Action.CHANGE,
    "replace": Action.CHANGE,
}
_CONTEXT = re.compile(r"\s*<(hook_context|session_context)>")
_FENCE = re.compile(r"\s*<untrusted_context>\n?(.*?)\n?</untrusted_context>\s*", re.DOTALL)
_TRAILER = re.compile(r"(?:Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?(?P<said>[^\n]*)")
_DIGITS = re.compile(r"-?\d{1,9}")


def event_of(name: str, payload: Mapping[str, object], at: str) -> Event | None:
    """The Event of one of Gemini CLI's payloads."""
    happening = _HAPPENINGS.get(name)
    if happening is None:
        return None
    tool = text(payload, "tool_name")
    action = _ACTIONS.get(tool, Action.OTHER)
    parameters, answer = members(payload, "tool_input"), payload.get("tool_response")
    changes = tuple(_changes(parameters)) if action is Action.CHANGE else ()
    response, error, exit_code = _answer(answer, action)
    cwd = text(payload, "cwd")
    return Event(
        happening=happening,
        host="gemini",
        session=text(payload, "session_id"),
        at=at,
        cwd=cwd,
        mode=mode_of(payload),
        source=text(payload, "source", "trigger"),
        reason=text(payload, "reason"),
        prompt=asked(text(payload, "prompt")),
        message=text(payload, "prompt_response"),
        tool=tool,
        action=action,
        parameters=parameters,
        response=response,
        error=error,
        failed=bool(error or exit_code),
        exit_code=exit_code,
        files=files_of(parameters, cwd, (change.path for change in changes)),
        changes=changes,
        call=text(payload, "tool_use_id", "call_id"),
    )


def asked(prompt: str) -> str:
    """The prompt without what hooks and the host put in front of it."""
    while opening := _CONTEXT.match(prompt):
        end = prompt.find(f"</{opening[1]}>", opening.end())
        if end < 0:
            return ""
        prompt = prompt[end + len(opening[1]) + 3 :].lstrip("\n")
    return prompt


def _answer(answer: object, action: Action) -> tuple[str, str, int | None]:
    """What the tool said, its error, and a shell's exit code."""
    told = answer if isinstance(answer, Mapping) else {}
    said = words_of(told.get("llmContent")) or words_of(answer)
    fenced = _FENCE.fullmatch(said)
    said = fenced[1] if fenced else said
    failure = words_of(told.get("error"))
    if action is not Action.SHELL or not said.startswith("Output:"):
        return said, failure, None
    output, trailers = _split(said)
    code = _DIGITS.match(trailers.get("Exit Code", "0"))
    exit_code = int(code[0]) if code and "Signal" not in trailers else None
    signal = f"ended by signal {trailers['Signal']}" if "Signal" in trailers else ""
    error = failure or trailers.get("Error", "") or signal
    if error in ("(none)", "none"):
        error = ""
    return output, error or (output if exit_code else ""), exit_code


def _split(said: str) -> tuple[str, dict[str, str]]:
    """A shell's output, and what Gemini wrote below it; the same words in the output itself stand higher."""
    lines = said.removeprefix("Output:").removeprefix(" ").split("\n")
    trailers: dict[str, str] = {}
    while len(lines) > 1 and (found := _TRAILER.fullmatch(lines[-1])):
        trailers.setdefault(lines.pop().partition(":")[0], found["said"].strip())
    output = "\n".join(lines)
    return "" if output.strip() == "(empty)" else output, trailers


def _changes(parameters: Mapping[str, object]) -> Iterator[Change]:
    yield Change(
        text(parameters, "file_path", "absolute_path"),
        text(parameters, "old_string"),
        text(parameters, "new_string", "content"),
    )
