"""The ways by which a text reaches a log: what a host sends for each of them."""

from collections.abc import Callable

from tests.support.world import payload

Sent = tuple[str, bytes]
"""An event and its payload."""
Channel = Callable[[str], Sent]

_PATH = "/nowhere/deploy/app.yaml"


def _tool(name: str, parameters: object, answer: object) -> Sent:
    return "PostToolUse", payload(tool_name=name, tool_input=parameters, tool_response=answer)


def _lines(text: str, sign: str) -> list[str]:
    return [f"{sign}{line}" for line in text.removesuffix("\n").split("\n")]


def _write(text: str) -> Sent:
    answer = {"type": "create", "filePath": _PATH, "content": text, "structuredPatch": []}
    return _tool("Write", {"file_path": _PATH, "content": text}, answer)


def _patched(tool: str, edit: dict[str, object], lines: list[str]) -> Sent:
    hunk = {"oldStart": 1, "oldLines": 3, "newStart": 1, "newLines": 3, "lines": lines}
    answer = {"filePath": _PATH, "originalFile": "old\n", "structuredPatch": [hunk]}
    return _tool(tool, {"file_path": _PATH, **edit}, answer)


def _edit(text: str) -> Sent:
    edit: dict[str, object] = {"old_string": "old", "new_string": text}
    return _patched("Edit", edit, [" first", "-old", *_lines(text, "+"), " last"])


def _removed(text: str) -> Sent:
    edit: dict[str, object] = {"old_string": text, "new_string": "new"}
    return _patched("Edit", edit, [" first", *_lines(text, "-"), "+new", " last"])


def _multi_edit(text: str) -> Sent:
    edits = [
        {"old_string": "old", "new_string": text},
        {"old_string": "a", "new_string": "b"},
    ]
    return _patched("MultiEdit", {"edits": edits}, ["-old", *_lines(text, "+"), "-a", "+b"])


def _context(text: str) -> Sent:
    edit: dict[str, object] = {"old_string": "old", "new_string": "new"}
    return _patched("Edit", edit, [*_lines(text, " "), "-old", "+new"])


def _changed_value(text: str) -> Sent:
    """All lines but the last are context, and the last one replaces another."""
    *context, value = _lines(text, " ")
    edit: dict[str, object] = {"old_string": "old", "new_string": value[1:]}
    return _patched("Edit", edit, [*context, "-old", f"+{value[1:]}"])


def _apply_patch(text: str) -> Sent:
    lines = "\n".join(_lines(text, "+"))
    patch = f"*** Begin Patch\n*** Update File: app.yaml\n@@\n-old\n{lines}\n*** End Patch"
    return _tool("apply_patch", {"command": patch}, "Done!")


def _bash(text: str) -> Sent:
    return _tool("Bash", {"command": "cat it"}, {"stdout": text, "stderr": "", "isImage": False})


def _diff(text: str) -> Sent:
    lines = "\n".join(_lines(text, "+"))
    printed = f"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,4 @@ head\n-old\n{lines}\n last\n"
    return _tool("Bash", {"command": "git diff"}, {"stdout": printed, "stderr": ""})


def _mcp(text: str) -> Sent:
    return _tool("mcp__tracker__read", {"id": 7}, [{"type": "text", "text": text}])


def _failure(text: str) -> Sent:
    sent = payload("PostToolUseFailure", error=f"Exit code 1\n{text}")
    return "PostToolUseFailure", sent


def _prompt(text: str) -> Sent:
    return "UserPromptSubmit", payload("UserPromptSubmit", prompt=text)


def _answer(text: str) -> Sent:
    return "Stop", payload("Stop", last_assistant_message=text)


def _subagent_task(text: str) -> Sent:
    return "PreToolUse", payload("PreToolUse", tool_name="Task", tool_input={"prompt": text})


def _subagent_answer(text: str) -> Sent:
    answer = {"status": "completed", "content": [{"type": "text", "text": text}]}
    return _tool("Task", {"prompt": "look", "subagent_type": "general"}, answer)


def _subagent_stop(text: str) -> Sent:
    return "SubagentStop", payload("SubagentStop", agent_id="a1", last_assistant_message=text)


def printed(text: str) -> Sent:
    """Return the event of the command on the first line of a terminal, and the output below it."""
    command, _, output = text.removeprefix("$ ").partition("\n")
    answer = {"stdout": output.removesuffix("\n"), "stderr": "", "interrupted": False}
    return _tool("Bash", {"command": command, "description": "Show it"}, answer)


def printed_by_failure(text: str) -> Sent:
    """Return the same for a command that fails."""
    command, _, output = text.removeprefix("$ ").partition("\n")
    members = {"tool_name": "Bash", "tool_input": {"command": command}}
    return "PostToolUseFailure", payload(
        "PostToolUseFailure", **members, error=f"Exit code 1\n{output}"
    )


CHANNELS: dict[str, Channel] = {
    "write": _write,
    "edit": _edit,
    "removed by an edit": _removed,
    "multi-edit": _multi_edit,
    "context of an edit": _context,
    "changed value": _changed_value,
    "apply_patch": _apply_patch,
    "bash": _bash,
    "git diff": _diff,
    "mcp result": _mcp,
    "failure": _failure,
    "prompt": _prompt,
    "answer": _answer,
    "subagent task": _subagent_task,
    "subagent result": _subagent_answer,
    "subagent stop": _subagent_stop,
}
