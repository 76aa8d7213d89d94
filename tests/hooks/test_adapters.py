"""What each client sends, as the same Event as Claude Code's, and answers in the form that each reads.

The payloads of Qwen Code, Copilot CLI and Cline CLI are recorded from the real clients. Those of OpenCode are put
together from its recorded events, as our plugin sends them; those of Cursor and Windsurf follow public descriptions.
"""

import json
from pathlib import Path

import pytest
from tests.support.hook_answers import PAY, here
from tests.support.world import World, call_hook

from ralph.capture.events import Event, EventKind
from ralph.capture.host_payloads import event_of
from ralph.hooks.adapters import read_payload, write_answer
from ralph.hooks.handler import READING_TOOLS

__all__ = ["here"]
GOLDEN = Path(__file__).parents[1] / "golden" / "clients"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def read(name: str) -> tuple[str, Event | None]:
    """The name of our event, and what it means."""
    value = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    event, raw = read_payload(value["client"], value["event"], json.dumps(value["stdin"]).encode())
    return event, event_of(value["client"], event, json.loads(raw), "2026-11-15T18:39:23.000000Z")


def found(name: str) -> Event:
    event = read(name)[1]
    assert event is not None
    return event


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("-empty")])
def test_every_payload_is_an_event_of_its_session_and_project(name: str) -> None:
    event = found(name)
    assert event.session
    assert event.host == name.partition(".")[0]
    if event.host != "windsurf":  # it starts its hooks in the project, and says no more
        assert event.cwd == "/home/user/proj"


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name.endswith(("ell", "Bash", "-bash", "commands"))]
)
def test_a_command_that_fails_has_its_exit_code_and_its_output(name: str) -> None:
    event = found(name)
    assert (event.tool, event.failed, event.exit_code) == ("Bash", True, 3)
    assert event.error.strip().splitlines()[-1] == "hi"
    assert event.parameters["command"] in ("echo hi; exit 3", "echo hi > made.txt", "npm test")
    assert read(name)[0] == "PostToolUseFailure"


@pytest.mark.parametrize(
    "name",
    ["qwen.PostToolUse-write_file", "copilot.PostToolUse-Write", "cline.PostToolUse-editor", "opencode.AfterTool-write",
     "cursor.postToolUse-Write", "windsurf.post_write_code"],
)  # fmt: skip
def test_a_changed_file_is_named_with_what_was_written(name: str) -> None:
    event = found(name)
    assert not event.failed
    assert [(change.path, change.after) for change in event.changes] == [
        ("/home/user/proj/a.txt", "x")
    ]


@pytest.mark.parametrize(
    "name", [name for name in NAMES if "read" in name or name.endswith("Read")]
)
def test_a_file_that_cannot_be_read_is_a_failure_of_a_reading_tool(name: str) -> None:
    event = found(name)
    assert event.tool in READING_TOOLS
    assert event.failed
    assert event.files == ("nope.txt",)


def test_prompts_and_answers_are_taken_over_and_what_nobody_reads_is_dropped() -> None:
    for name in ("qwen.UserPromptSubmit", "copilot.UserPromptSubmit", "cursor.beforeSubmitPrompt"):
        assert found(name).prompt == "do x"
    for name in (
        "qwen.Stop",
        "cline.TaskComplete",
        "cursor.afterAgentResponse",
        "windsurf.post_cascade_response",
    ):
        assert (found(name).kind, found(name).message) == (EventKind.STOP, "DONE HERE")
    assert read("qwen.UserPromptSubmit-empty")[0] == ""
    value = json.loads((GOLDEN / "cursor.sessionStart.json").read_text(encoding="utf-8"))
    assert (
        b"ann@example.org"
        not in read_payload("cursor", "SessionStart", json.dumps(value["stdin"]).encode())[1]
    )


def test_copilots_answer_is_read_from_the_end_of_its_transcript(tmp_path: Path) -> None:
    lines = [
        {"type": "user.message", "data": {"content": "do x"}},
        {"type": "assistant.message", "data": {"content": "DONE HERE"}},
        {"type": "assistant.message", "data": {"content": ""}},
        {"type": "hook.start", "data": {"hookType": "agentStop"}},
    ]
    path = tmp_path / "events.jsonl"
    path.write_text(
        "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines), encoding="utf-8"
    )
    sent = {"session_id": "s", "cwd": "/", "transcript_path": str(path)}
    raw = read_payload("copilot", "Stop", json.dumps(sent).encode())[1]
    assert json.loads(raw)["last_assistant_message"] == "DONE HERE"


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{", b'{"tool_result": 1, "tool_info": 2, "sessionContext": []}', b"null"]
)
@pytest.mark.parametrize(
    "host", ["qwen", "copilot", "cline", "cursor", "windsurf", "opencode", "emacs"]
)
def test_a_payload_of_another_shape_ends_quietly(here: World, host: str, raw: bytes) -> None:
    for event in ("AfterTool", "PostToolUseFailure", "UserPromptSubmit", "Stop"):
        done = call_hook(event, raw, here.env, host=host)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("opencode", "additionalContext"),
        ("copilot", "additionalContext"),
        ("cursor", "additional_context"),
    ],
)
def test_an_answer_has_the_form_of_its_client(here: World, host: str, key: str) -> None:
    sent: dict[str, object] = {
        "session_id": "s",
        "conversation_id": "s",
        "cwd": str(here.root),
        "workspace_roots": [str(here.root)],
    }
    sent |= {"tool_name": "edit", "tool_input": {"filePath": "src/pay.ts"}}
    done = call_hook("AfterTool", json.dumps(sent).encode(), here.env, host=host)
    assert PAY in json.loads(done.stdout)[key]


def test_qwen_gets_the_name_of_its_own_event() -> None:
    answer = b'{"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "x"}}'
    assert (
        json.loads(write_answer("qwen", answer))["hookSpecificOutput"]["hookEventName"]
        == "PostToolUse"
    )
