r"""Codex: the names and members of Claude Code's hooks, with other answers.

There is no event for a failed tool, and a shell's answer is the bare output. Only where Codex puts a
header in front of the output (`Exit code: 1`, `Process exited with code 1`, or an object with
`metadata.exit_code`) is the exit code known; a line like that further down is the program's own
and proves nothing. Files are changed by `apply_patch`, one text that names them.
`tests/capture/test_hosts.py` runs this on recorded payloads.
"""

import json
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
    whole_number,
    words_of,
)

_ACTIONS = {
    "Bash": Action.SHELL,
    "shell": Action.SHELL,
    "exec_command": Action.SHELL,
    "local_shell": Action.SHELL,
    "apply_patch": Action.CHANGE,
    "Edit": Action.CHANGE,
    "Write": Action.CHANGE,
    "read_file": Action.READ,
    "view_image": Action.READ,
    "grep_files": Action.SEARCH,
    "list_dir": Action.SEARCH,
    "web_search": Action.SEARCH,
}
_HEADER = re.compile(
    r"(?:(?:Chunk ID|Wall time|Exit code|Original token count|Total output lines):[^\n]{0,200}\n"
    r"|Process (?:exited with code \d{1,9}|running with session ID [^\n]{0,80})\n"
    r"|\n){1,8}(?:Output:\n?)?"
)
_EXIT_CODE = re.compile(r"(?:Exit code:|Process exited with code) {0,4}(\d{1,9})\b")
_FILE_LINE = re.compile(r"\*\*\* (Add|Update|Delete) File: (.{1,1000})|\*\*\* Move to: (.{1,1000})")
_KNOWN = frozenset(Happening)


def event_of(name: str, payload: Mapping[str, object], at: str) -> Event | None:
    """The Event of one of Codex's payloads."""
    if name not in _KNOWN:
        return None
    tool = text(payload, "tool_name")
    action = _ACTIONS.get(tool, Action.OTHER)
    parameters, answer = _parameters(payload.get("tool_input"), action), payload.get("tool_response")
    changes = tuple(_changes(parameters)) if action is Action.CHANGE else ()
    response, exit_code = _answer(answer)
    failed = bool(exit_code) or flag(members(payload, "tool_response"), "isError")
    cwd = text(payload, "cwd")
    return Event(
        happening=Happening(name),
        host="codex",
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
        response=response,
        error=response if failed else words_of(payload.get("error")),
        failed=failed,
        exit_code=exit_code,
        files=files_of(parameters, cwd, (change.path for change in changes)),
        changes=changes,
        call=text(payload, "tool_use_id"),
    )


def _parameters(found: object, action: Action) -> Mapping[str, object]:
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


def _answer(answer: object) -> tuple[str, int | None]:
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
    header = _HEADER.match(said)
    if header is None:
        return said, None
    told = _EXIT_CODE.search(header[0])
    return (said[header.end() :], int(told[1])) if told else (said, None)


def _changes(parameters: Mapping[str, object]) -> Iterator[Change]:
    """The changes of an `apply_patch` text, one for each of its files."""
    patch = text(parameters, "command", "input", "patch")
    if not patch:
        said = text(parameters, "new_string", "content")
        yield Change(text(parameters, "file_path", "path"), text(parameters, "old_string"), said)
        return
    path, before, after = "", list[str](), list[str]()
    for line in patch.split("\n"):
        named = _FILE_LINE.match(line)
        if named:
            if path:
                yield Change(path, "\n".join(before), "\n".join(after))
            path, before, after = (named[2] or named[3]).strip(), [], []
        elif path and not line.startswith(("***", "@@")):
            if not line.startswith("+"):
                before.append(line[1:])
            if not line.startswith("-"):
                after.append(line[1:])
    if path:
        yield Change(path, "\n".join(before), "\n".join(after))
