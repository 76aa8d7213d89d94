"""Payloads of real hosts, and JSON values of every shape, for the tests of the capture."""

import json
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

from ralph.capture.events import Event
from ralph.capture.host_payloads import event_of

HERE = Path(__file__).parents[1] / "golden" / "hooks"
AT = "2026-11-15T12:00:00.123456Z"
SESSION = "00000000-0000-4000-8000-000000000000"

NAMES = sorted(path.stem for path in HERE.glob("*.json"))


def recorded(name: str) -> tuple[str, str, dict[str, object]]:
    """Host, event and payload of a recorded call."""
    value = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return value["client"], value["event"], value["stdin"]


def event(name: str, **changes: object) -> Event:
    """The Event of a recorded call, some members of its payload exchanged."""
    host, happening, payload = recorded(name)
    found = event_of(host, happening, {**payload, **changes}, AT)
    assert found is not None
    return found


def bash(command: str, output: str = "", **more: object) -> Event:
    """A command that Claude Code ran, and what it printed."""
    said: Mapping[str, object] = {"command": command, **more}
    return event(
        "claude.PostToolUse-Bash", tool_input=said, tool_response={"stdout": output, "stderr": ""}
    )


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.just("\ud800"),
    st.just("<private>"),
)
JSON = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
HOSTS = ("claude", "codex", "gemini", "other")
EVENTS = (
    *[
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "Stop",
        "SubagentStop",
    ],
    *[
        "SessionEnd",
        "BeforeAgent",
        "AfterAgent",
        "BeforeTool",
        "AfterTool",
        "PreCompress",
        "Unknown",
    ],
)
TOOLS = (
    *[
        "Bash",
        "Read",
        "Grep",
        "Glob",
        "WebFetch",
        "Edit",
        "MultiEdit",
        "Write",
        "NotebookEdit",
        "Agent",
        "mcp__x__y",
        "apply_patch",
    ],
    *["run_shell_command", "read_file", "replace", "web_fetch", "shell"],
)
_INPUT_KEYS = (
    *[
        "command",
        "description",
        "file_path",
        "path",
        "paths",
        "old_string",
        "new_string",
        "content",
        "edits",
        "pattern",
        "query",
        "url",
        "prompt",
    ],
    *["input", "patch", "password"],
)
_ANSWER_KEYS = (
    *[
        "stdout",
        "stderr",
        "interrupted",
        "content",
        "llmContent",
        "error",
        "isError",
        "structuredPatch",
        "originalFile",
        "filePath",
    ],
    *["output", "metadata", "exit_code"],
)
_PATCHES = st.lists(
    st.fixed_dictionaries({"lines": st.lists(JSON, max_size=3) | JSON}) | JSON, max_size=3
)


def _object(keys: tuple[str, ...]) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(st.sampled_from(keys), JSON | _PATCHES, max_size=5)


PAYLOADS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            [
                "session_id",
                "cwd",
                "prompt",
                "last_assistant_message",
                "prompt_response",
                "agent_id",
                "agent_type",
                "error",
                "reason",
                "source",
                "permission_mode",
                "tool_use_id",
                "is_interrupt",
            ],
            JSON,
        ),
        "tool_name": st.sampled_from(TOOLS) | JSON,
        "tool_input": _object(_INPUT_KEYS) | JSON,
        "tool_response": _object(_ANSWER_KEYS) | JSON,
    },
)
"""Payloads that look like a host's in some places and like nothing in others."""
