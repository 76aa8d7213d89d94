"""Claude Code's events become a reply, whatever comes; the events are the real client's, shortened."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.players import Player, player

from ralph.core.work import Agent, Ask, ProcessResult, StopReason, ToolCall
from ralph.loop.agents.claude import Claude, ClaudeEventReader

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-opus-5-5"}
GOOD = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "DONE",
    "stop_reason": "end_turn",
    "total_cost_usd": 0.003,
    "session_id": "s-1",
    "terminal_reason": "completed",
    "api_error_status": None,
}
Event = dict[str, Any]


def said(*blocks: Event, parent: str | None = None, **more: object) -> Event:
    message = {"role": "assistant", "model": "claude-opus-5-5", "content": list(blocks)}
    return {
        "type": "assistant",
        "message": message,
        "parent_tool_use_id": parent,
        "session_id": "s-1",
        **more,
    }


def text(words: str) -> Event:
    return {"type": "text", "text": words}


def use(number: int, tool: str, **given: object) -> Event:
    return {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given}


def result(number: int, content: object = "x", *, error: bool = False) -> Event:
    block = {
        "type": "tool_result",
        "tool_use_id": f"toolu_{number}",
        "content": content,
        "is_error": error,
    }
    return {"type": "user", "message": {"role": "user", "content": [block]}, "session_id": "s-1"}


def asked(played: Player, folder: Path, **more: Any) -> Any:
    return Claude(played.program).run(Ask("the prompt", folder, **more))


def test_it_is_an_agent_that_can_only_read() -> None:
    agent: Agent = Claude()
    assert (agent.name, agent.enforces_read_only) == ("claude", True)


def test_a_complete_turn(tmp_path: Path) -> None:
    shown: list[str] = []
    events = [
        INIT,
        said(text("I look.")),
        said(use(1, "Read", file_path=str(tmp_path / "src/a.py"))),
        result(1),
        said(
            use(2, "Edit", file_path=str(tmp_path / "src/a.py"), old_string="a"),
            use(3, "Bash", command="make"),
        ),
        result(2),
        result(3, error=True),
        said(
            use(4, "NotebookEdit", notebook_path="/elsewhere/n.ipynb"),
            use(5, "Write", file_path="b.py"),
        ),
        result(5, error=True),
        said(text("DONE")),
        GOOD,
    ]
    reply = asked(player(tmp_path / "p", events), tmp_path, show=shown.append)
    assert (reply.text, reply.stop, reply.error) == ("I look.\n\nDONE", StopReason.END_TURN, "")
    assert (reply.model, reply.cost, reply.session) == ("claude-opus-5-5", 0.003, "s-1")
    assert reply.calls == (
        ToolCall("Read", ("src/a.py",)),
        ToolCall("Edit", ("src/a.py",), writes=True),
        ToolCall("Bash", ok=False),
        ToolCall("NotebookEdit", ("/elsewhere/n.ipynb",), writes=True),
        ToolCall("Write", ("b.py",), ok=False),
    )
    assert reply.files == ("src/a.py", "/elsewhere/n.ipynb")
    assert "".join(shown) == "I look.\nDONE\n"


def test_the_last_message_and_what_tools_returned_are_reported(tmp_path: Path) -> None:
    blocks = [{"type": "text", "text": "y"}, {"type": "image"}, {"type": "text", "text": "z"}]
    events = [
        *(
            INIT,
            said(text("I look."), text("Here."), use(1, "Read")),
            result(1),
            said(use(2, "Grep")),
            result(2, blocks),
        ),
        *(said(text("All is")), said(text("well.")), said(use(3, "Read")), result(3, None), GOOD),
    ]
    reply = asked(player(tmp_path / "p", events), tmp_path)
    assert reply.text[reply.final :] == "All is\n\nwell."
    assert reply.outputs == ("x", "y\nz", "")


def test_a_subagents_words_are_not_the_reply_but_its_edits_count(tmp_path: Path) -> None:
    events = [
        INIT,
        said(text("<task-done>x</task-done>"), use(1, "Write", file_path="a.py"), parent="toolu_9"),
        result(1),
        said(text("MAIN")),
        GOOD,
    ]
    reply = asked(player(tmp_path / "p", events), tmp_path)
    assert (reply.text, reply.files) == ("MAIN", ("a.py",))


class TestHowItIsCalled:
    def test_the_prompt_is_standard_input(self, tmp_path: Path) -> None:
        played = player(tmp_path / "p", [GOOD])
        asked(played, tmp_path, environment={"RALPH_RUN": "r"})
        assert played.seen["stdin"] == "the prompt"
        words = [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "acceptEdits",
            "--allowedTools",
            "mcp__ralph",
            "mcp__plugin_ralph_ralph",
        ]
        assert played.seen["argv"] == words
        assert played.seen["env"]["RALPH_RUN"] == "r"
        assert played.seen["cwd"] == str(tmp_path.resolve())

    def test_model_and_session_are_named(self, tmp_path: Path) -> None:
        words = Claude(permission="bypass").command_line(
            Ask("p", tmp_path, model="opus", session="s-9")
        )
        assert words[words.index("--permission-mode") :][:6] == [
            "--permission-mode",
            "bypassPermissions",
            "--model",
            "opus",
            "--resume",
            "s-9",
        ]

    def test_it_may_run_the_commands_that_it_is_allowed(self, tmp_path: Path) -> None:
        words = Claude().command_line(
            Ask("p", tmp_path, allowed=("npm test", "ralph", "echo $(id)"))
        )
        rules = words[words.index("--allowedTools") + 1 :]
        assert rules[:2] == ["Bash(npm test:*)", "Bash(ralph:*)"]
        assert rules[2:] == ["mcp__ralph", "mcp__plugin_ralph_ralph"], "Ralph's own tools"
        asked = Ask("p", tmp_path, allowed=("npm test",), read_only=True)
        assert "--allowedTools" not in Claude().command_line(asked)

    def test_a_read_only_question_has_only_reading_tools_whatever_the_permission(
        self, tmp_path: Path
    ) -> None:
        words = Claude(permission="bypass").command_line(Ask("p", tmp_path, read_only=True))
        assert words[-5:] == [
            "--permission-mode",
            "dontAsk",
            "--tools",
            "Read,Glob,Grep",
            "--strict-mcp-config",
        ]

    def test_an_enclosing_session_is_left_behind(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CLAUDECODE", "1")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "made-up")
        played = player(tmp_path / "p", [GOOD])
        asked(played, tmp_path)
        assert "CLAUDECODE" not in played.seen["env"]
        assert played.seen["env"]["ANTHROPIC_API_KEY"] == "made-up"


class TestHowItEnds:
    @pytest.mark.parametrize(
        ("fields", "code", "stop"),
        [
            ({"api_error_status": 401, "terminal_reason": "api_error"}, 1, StopReason.UNAVAILABLE),
            ({"api_error_status": 404, "terminal_reason": "api_error"}, 1, StopReason.UNAVAILABLE),
            ({"api_error_status": 529, "terminal_reason": "api_error"}, 1, StopReason.UNAVAILABLE),
            (
                {"terminal_reason": "api_error", "result": "Not logged in"},
                1,
                StopReason.UNAVAILABLE,
            ),
            (
                {"terminal_reason": "api_error", "result": "strange words"},
                1,
                StopReason.UNAVAILABLE,
            ),
            ({"result": "API Error: 429 rate limit"}, 1, StopReason.UNAVAILABLE),
            ({"api_error_status": 400, "result": "odd request"}, 1, StopReason.CRASHED),
            ({"api_error_status": 400, "result": "Prompt is too long"}, 1, StopReason.MAX_TOKENS),
        ],
    )
    def test_a_failed_request_is_the_error_and_not_the_text(
        self, tmp_path: Path, fields: Event, code: int, stop: StopReason
    ) -> None:
        end = GOOD | {"is_error": True, "result": "API Error: it failed"} | fields
        words = said(text(str(end["result"])), is_api_error_message=True, error="server_error")
        words["message"]["model"] = "<synthetic>"
        reply = asked(player(tmp_path / "p", [INIT, words, end], code=code), tmp_path)
        assert (reply.text, reply.stop, reply.error) == ("", stop, end["result"])
        assert reply.model == "claude-opus-5-5"

    def test_too_many_turns(self, tmp_path: Path) -> None:
        end = {
            "type": "result",
            "subtype": "error_max_turns",
            "is_error": True,
            "total_cost_usd": 0.5,
        }
        reply = asked(player(tmp_path / "p", [INIT, said(text("A")), end], code=1), tmp_path)
        assert (reply.text, reply.stop, reply.cost) == ("A", StopReason.MAX_TURNS, 0.5)

    @pytest.mark.parametrize(
        ("reason", "stop"), [("refusal", StopReason.REFUSAL), ("max_tokens", StopReason.MAX_TOKENS)]
    )
    def test_the_models_own_reason(self, tmp_path: Path, reason: str, stop: StopReason) -> None:
        reply = asked(
            player(tmp_path / "p", [INIT, said(text("A")), GOOD | {"stop_reason": reason}]),
            tmp_path,
        )
        assert (reply.stop, reply.error) == (stop, "")

    def test_a_session_that_is_not_there(self, tmp_path: Path) -> None:
        end = {
            "type": "result",
            "subtype": "error_during_execution",
            "is_error": True,
            "errors": ["No conversation found with session ID: s-9"],
        }
        reply = asked(player(tmp_path / "p", [end], code=1), tmp_path, session="s-9")
        assert (reply.stop, reply.error) == (
            StopReason.CRASHED,
            "No conversation found with session ID: s-9",
        )

    def test_a_crash_in_the_middle_keeps_text_and_tool_calls(self, tmp_path: Path) -> None:
        events = [INIT, said(text("A"), use(1, "Write", file_path="a.py"))]
        reply = asked(
            player(tmp_path / "p", events, raw='{"type":"assi', err="boom", code=7), tmp_path
        )
        assert (reply.stop, reply.error) == (StopReason.CRASHED, "claude exited with 7: boom")
        assert reply.text.startswith("A")
        assert reply.files == ("a.py",)

    def test_a_program_that_says_nothing_is_a_crash(self, tmp_path: Path) -> None:
        assert asked(player(tmp_path / "p"), tmp_path).stop is StopReason.CRASHED

    def test_a_stop_keeps_whole_lines_and_drops_the_torn_one(self, tmp_path: Path) -> None:
        shown: list[str] = []
        played = player(tmp_path / "p", [INIT, said(text("A"))], raw='{"type":"assi', hang=True)
        reply = asked(played, tmp_path, show=shown.append, stopped=lambda: bool(shown))
        assert (reply.text, reply.stop, reply.session) == ("A", StopReason.CANCELLED, "s-1")

    def test_a_missing_program_is_unavailable(self, tmp_path: Path) -> None:
        reply = Claude(("no-such-claude",)).run(Ask("p", tmp_path))
        assert (reply.stop, reply.error) == (
            StopReason.UNAVAILABLE,
            "no-such-claude: there is no such program",
        )


class TestOddOutput:
    def test_output_that_is_no_json_is_text(self, tmp_path: Path) -> None:
        reply = asked(player(tmp_path / "p", [GOOD], raw="warning: odd\n{broken\n[1]\n"), tmp_path)
        assert (reply.text, reply.stop) == ("warning: odd\n\n{broken\n\n[1]", StopReason.END_TURN)

    def test_a_line_of_ten_megabytes_is_no_problem(self, tmp_path: Path) -> None:
        big = "x" * 10_000_000
        reply = asked(player(tmp_path / "p", [INIT, said(text(big)), GOOD]), tmp_path)
        assert len(reply.text) == len(big)

    def test_a_longer_line_is_replaced_by_a_note(self, tmp_path: Path) -> None:
        events = [INIT, said(text("x" * 12_000_000)), said(text("after it")), GOOD]
        reply = asked(player(tmp_path / "p", events), tmp_path)
        assert re.fullmatch(r"\[a line of 12\d{6} characters was left out\]\s+after it", reply.text)

    @given(
        st.lists(
            st.dictionaries(
                st.sampled_from(
                    [
                        "type",
                        "subtype",
                        "message",
                        "content",
                        "session_id",
                        "result",
                        "errors",
                        "is_error",
                    ]
                ),
                st.recursive(
                    st.none()
                    | st.booleans()
                    | st.integers()
                    | st.sampled_from(["assistant", "user", "result", "x"]),
                    lambda inner: (
                        st.lists(inner, max_size=3)
                        | st.dictionaries(
                            st.sampled_from(["content", "type", "text", "id", "input"]),
                            inner,
                            max_size=3,
                        )
                    ),
                    max_leaves=6,
                ),
            ),
            max_size=6,
        )
    )
    def test_no_event_is_a_crash(self, events: list[Event]) -> None:
        heard = ClaudeEventReader(Ask("p", Path("/p")))
        for event in events:
            heard.read_line(json.dumps(event))
        assert heard.reply(ProcessResult(0, "", "")).stop in set(StopReason)
