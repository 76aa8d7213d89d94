"""Claude Code: its payloads are the model for the Event, so little has to be translated.

What has to: a failed tool comes as an event of its own whose `error` begins with `Exit code N`; an
MCP tool's answer is a string or a list of content blocks; an edit brings the lines around it and the
whole file as it was. The SubagentStop without a type is compaction's own fork, and nobody's work.
`tests/capture/test_hosts.py` runs this on recorded payloads.
"""

import re
from collections.abc import Iterator, Mapping

from ralph.capture.event import (
    Action,
    Change,
    Event,
    Happening,
    files_of,
    flag,
    members,
    mode_of,
    text,
    words_of,
)

_ACTIONS = {
    "Bash": Action.SHELL,
    "PowerShell": Action.SHELL,
    "Read": Action.READ,
    "NotebookRead": Action.READ,
    "Grep": Action.SEARCH,
    "Glob": Action.SEARCH,
    "LS": Action.SEARCH,
    "WebSearch": Action.SEARCH,
    "ToolSearch": Action.SEARCH,
    "WebFetch": Action.FETCH,
    "Edit": Action.CHANGE,
    "MultiEdit": Action.CHANGE,
    "Write": Action.CHANGE,
    "NotebookEdit": Action.CHANGE,
}
_EXIT_CODE = re.compile(r"\s*Exit code (\d{1,9})\b[^\n]*\n?")
_KNOWN = frozenset(Happening)


def event_of(name: str, payload: Mapping[str, object], at: str) -> Event | None:
    """The Event of one of Claude Code's payloads."""
    if name not in _KNOWN:
        return None
    happening = Happening(name)
    if happening is Happening.SUBAGENT_STOP and not text(payload, "agent_type"):
        return None
    tool = text(payload, "tool_name")
    parameters, answer = members(payload, "tool_input"), payload.get("tool_response")
    action = _ACTIONS.get(tool, Action.OTHER)
    changes = tuple(_changes(parameters, answer)) if action is Action.CHANGE else ()
    failed, exit_code, error = _failure(happening, payload)
    cwd = text(payload, "cwd")
    return Event(
        happening=happening,
        host="claude",
        session=text(payload, "session_id"),
        at=at,
        cwd=cwd,
        agent=text(payload, "agent_id"),
        mode=mode_of(payload),
        source=text(payload, "source", "trigger"),
        reason=text(payload, "reason"),
        prompt=text(payload, "prompt"),
        message=text(payload, "last_assistant_message"),
        tool=tool,
        action=action,
        parameters=parameters,
        response="" if action is Action.CHANGE else words_of(answer),
        error=error,
        failed=failed,
        exit_code=exit_code,
        files=files_of(parameters, cwd, (change.path for change in changes)),
        changes=changes,
        call=text(payload, "tool_use_id"),
    )


def _failure(happening: Happening, payload: Mapping[str, object]) -> tuple[bool, int | None, str]:
    """Whether the tool failed, its exit code, and what it said without the line that tells the code."""
    answer = members(payload, "tool_response")
    if happening is Happening.POST_TOOL_USE_FAILURE:
        error = words_of(payload.get("error"))
        code = _EXIT_CODE.match(error)
        if code:
            return True, int(code[1]), error[code.end() :]
        return True, None, error or ("interrupted" if flag(payload, "is_interrupt") else "")
    if flag(answer, "interrupted"):
        return True, None, "interrupted"
    return flag(answer, "isError") or flag(answer, "is_error"), None, ""


def _changes(parameters: Mapping[str, object], answer: object) -> Iterator[Change]:
    """The places that an edit changed: with the lines around them where the host tells, else what was asked for."""
    told = answer if isinstance(answer, Mapping) else {}
    path = text(parameters, "file_path", "notebook_path") or text(told, "filePath")
    whole = text(told, "originalFile")
    hunks = told.get("structuredPatch")
    if isinstance(hunks, list) and hunks:
        for hunk in hunks:
            lines = hunk.get("lines") if isinstance(hunk, Mapping) else None
            yield _hunk(
                path, [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else [], whole
            )
        return
    edits = parameters.get("edits")
    for edit in edits if isinstance(edits, list) else [parameters]:
        if isinstance(edit, Mapping):
            after = text(edit, "new_string", "content", "new_source")
            yield Change(path, text(edit, "old_string"), after, whole)


def _hunk(path: str, lines: list[str], whole: str) -> Change:
    before = "\n".join(line[1:] for line in lines if not line.startswith(("+", "\\")))
    after = "\n".join(line[1:] for line in lines if not line.startswith(("-", "\\")))
    return Change(path, before, after, whole)
