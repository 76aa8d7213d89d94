"""Codex's events become a reply; the events are the real client's, shortened."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.players import Player, player

from ralph.core.work import Agent, Ask, StopReason, ToolCall
from ralph.loop.agents.codex import Codex

BEGIN: list[object] = [{"type": "thread.started", "thread_id": "t-1"}, {"type": "turn.started"}]
END = {"type": "turn.completed", "usage": {"input_tokens": 500, "output_tokens": 50}}


def item(kind: str, **more: object) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"id": "item_0", "type": kind, **more}}


def message(text: str) -> dict[str, Any]:
    return item("agent_message", text=text)


def asked(played: Player, folder: Path, **more: Any) -> Any:
    return Codex(played.program).run(Ask("the prompt", folder, **more))


def test_it_is_an_agent_that_can_only_read() -> None:
    agent: Agent = Codex()
    assert (agent.name, agent.enforces_read_only) == ("codex", True)


def test_a_complete_turn(tmp_path: Path) -> None:
    shown: list[str] = []
    changes = [
        {"path": str(tmp_path / "a.txt"), "kind": "update"},
        {"path": "b.txt", "kind": "add"},
    ]
    events = [
        *BEGIN,
        message("I look."),
        item("reasoning", text="hidden"),
        {"type": "item.started", "item": {"type": "file_change", "changes": changes}},
        item("file_change", changes=changes, status="completed"),
        item("file_change", changes=[{"path": "c.txt"}], status="failed"),
        item(
            "command_execution",
            command="x",
            exit_code=3,
            status="failed",
            aggregated_output="no such file",
        ),
        item(
            "mcp_tool_call",
            server="s",
            tool="t",
            status="completed",
            result={"content": [{"text": "7"}]},
        ),
        message("DONE"),
        END,
    ]
    reply = asked(player(tmp_path / "p", events), tmp_path, model="gpt", show=shown.append)
    assert (reply.text, reply.stop, reply.session) == (
        "I look.\n\nDONE",
        StopReason.END_TURN,
        "t-1",
    )
    assert (reply.model, reply.cost) == ("gpt", 0.0)
    assert reply.calls == (
        ToolCall("apply_patch", ("a.txt", "b.txt"), writes=True),
        ToolCall("apply_patch", ("c.txt",), ok=False),
        ToolCall("exec_command", ok=False),
        ToolCall("mcp__s__t"),
    )
    assert reply.files == ("a.txt", "b.txt")
    assert (reply.text[reply.final :], reply.outputs) == ("DONE", ("no such file", "7"))
    assert "".join(shown) == "I look.\nDONE\n"


def test_the_prompt_is_standard_input(tmp_path: Path) -> None:
    played = player(tmp_path / "p", [*BEGIN, END])
    assert asked(played, tmp_path).stop is StopReason.END_TURN
    assert played.seen["stdin"] == "the prompt"
    assert played.seen["argv"] == [
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--sandbox",
        "workspace-write",
        "-",
    ]


def test_model_and_session_are_named_and_options_stand_before_resume(tmp_path: Path) -> None:
    words = Codex(permission="bypass").command_line(Ask("p", tmp_path, model="m", session="t-9"))
    assert words[-7:] == ["--sandbox", "danger-full-access", "--model", "m", "resume", "t-9", "-"]


def test_a_read_only_question_runs_in_the_read_only_sandbox_whatever_the_permission(
    tmp_path: Path,
) -> None:
    words = Codex(permission="bypass").command_line(Ask("p", tmp_path, read_only=True))
    assert words[words.index("--sandbox") + 1] == "read-only"
    assert "danger-full-access" not in words


@pytest.mark.parametrize(
    ("words", "stop"),
    [
        ("unexpected status 401 Unauthorized: x", StopReason.UNAVAILABLE),
        ("exceeded retry limit, last status: 429 Too Many Requests", StopReason.UNAVAILABLE),
        ("We’re currently experiencing high demand", StopReason.UNAVAILABLE),
        ("the context window is full", StopReason.MAX_TOKENS),
        ("something else", StopReason.CRASHED),
    ],
)
def test_a_failed_turn_says_why(tmp_path: Path, words: str, stop: StopReason) -> None:
    events = [
        *BEGIN,
        {"type": "error", "message": words},
        {"type": "turn.failed", "error": {"message": words}},
    ]
    reply = asked(player(tmp_path / "p", events, code=1), tmp_path)
    assert (reply.stop, reply.error, reply.session) == (stop, words, "t-1")


def test_an_error_that_it_got_over_is_no_failure(tmp_path: Path) -> None:
    events = [*BEGIN, {"type": "error", "message": "Reconnecting... 1/5"}, message("DONE"), END]
    reply = asked(player(tmp_path / "p", events), tmp_path)
    assert (reply.stop, reply.error) == (StopReason.END_TURN, "")


def test_a_session_that_is_not_there_is_a_crash(tmp_path: Path) -> None:
    err = "Error: thread/resume failed: no rollout found for thread id t-9"
    reply = asked(player(tmp_path / "p", err=err, code=1), tmp_path, session="t-9")
    assert (reply.stop, reply.error) == (StopReason.CRASHED, f"codex exited with 1: {err}")


def test_output_that_is_no_json_is_text(tmp_path: Path) -> None:
    reply = asked(player(tmp_path / "p", [*BEGIN, END], raw="odd\n"), tmp_path)
    assert reply.text == "odd"


def test_a_missing_program_is_unavailable(tmp_path: Path) -> None:
    assert Codex(("no-such-codex",)).run(Ask("p", tmp_path)).stop is StopReason.UNAVAILABLE


def test_it_is_stopped(tmp_path: Path) -> None:
    shown: list[str] = []
    played = player(tmp_path / "p", [*BEGIN, message("A")], hang=True)
    reply = asked(played, tmp_path, show=shown.append, stopped=lambda: bool(shown))
    assert (reply.text, reply.stop, reply.session) == ("A", StopReason.CANCELLED, "t-1")
