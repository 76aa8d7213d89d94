"""Each host's payloads become the same Events, and no JSON at all makes an adapter fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.captured_hooks import (
    AT,
    EVENTS,
    HOSTS,
    NAMES,
    PAYLOADS,
    SESSION,
    event,
    recorded,
)

from ralph.capture.events import (
    Action,
    Event,
    EventKind,
    FileEdit,
    files_of,
    outline,
    relative_path,
    response_text,
)
from ralph.capture.host_payloads import event_of
from ralph.capture.host_payloads import without_context as asked

IGNORED = {
    *[
        "claude.InstructionsLoaded-session_start",
        "claude.PostCompact-auto",
        "claude.PostToolBatch",
        "claude.StopFailure",
    ],
    *[
        "claude.SubagentStart",
        "claude.SubagentStop-compaction_fork",
        "claude.UserPromptExpansion",
        "gemini.AfterModel",
    ],
}


@pytest.mark.parametrize("name", NAMES)
def test_every_recorded_payload_is_an_event_of_its_session_or_is_ignored_on_purpose(
    name: str,
) -> None:
    host, happening, payload = recorded(name)
    found = event_of(host, happening, payload, AT)
    assert (found is None) == (name in IGNORED)
    if found is not None:
        assert (found.host, found.session, found.cwd, found.at) == (
            host,
            SESSION,
            "/home/user/proj",
            AT,
        )


@pytest.mark.parametrize(
    ("name", "happening"),
    [("claude.SessionStart-compact", EventKind.SESSION_START),
     ("claude.PreCompact-auto", EventKind.PRE_COMPACT),
     ("claude.SubagentStop", EventKind.SUBAGENT_STOP),
     ("codex.PreToolUse-Bash", EventKind.PRE_TOOL_USE),
     ("codex.Stop", EventKind.STOP),
     ("gemini.BeforeAgent", EventKind.USER_PROMPT_SUBMIT),
     ("gemini.AfterAgent", EventKind.STOP),
     ("gemini.BeforeTool-run_shell_command", EventKind.PRE_TOOL_USE),
     ("gemini.AfterTool-run_shell_command", EventKind.POST_TOOL_USE),
     ("gemini.PreCompress-auto", EventKind.PRE_COMPACT),
     ("gemini.SessionEnd-exit", EventKind.SESSION_END)],
)  # fmt: skip
def test_the_hosts_words_for_a_moment_mean_the_same(name: str, happening: EventKind) -> None:
    assert event(name).kind is happening


def test_a_failure_of_claude_carries_the_exit_code_and_what_was_said_after_it() -> None:
    found = event("claude.PostToolUseFailure-Bash")
    assert (found.failed, found.exit_code) == (True, 2)
    assert found.error == "ls: cannot access '/nonexistent-dir': No such file or directory"
    assert event("claude.PostToolUseFailure-Read").error.startswith("File does not exist.")
    assert event("claude.PostToolUseFailure-Read").exit_code is None


def test_source_reason_mode_prompt_answer_and_subagent_are_told() -> None:
    assert event("claude.SessionStart-resume").source == "resume"
    assert event("claude.SessionEnd-clear").reason == "clear"
    assert event("claude.UserPromptSubmit").prompt == "please do x"
    assert event("claude.Stop").message == "FINAL ANSWER TEXT"
    assert event("claude.PostToolUse-Bash-in_subagent").agent == "affdeb3a78dd7a227"
    assert event("claude.UserPromptSubmit").mode == "agent"
    assert event("claude.UserPromptSubmit", permission_mode="plan").mode == "plan"
    assert event("claude.SessionStart-startup").mode == ""


def test_an_interrupted_command_of_claude_did_not_pass() -> None:
    found = event(
        "claude.PostToolUse-Bash", tool_response={"stdout": "x", "stderr": "", "interrupted": True}
    )
    assert found.failed


@pytest.mark.parametrize(
    ("answer", "words"),
    [("plain", "plain"),
     ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
     ([{"type": "image", "source": {"data": "AAAA"}}, {"type": "text", "text": "b"}], "[image]\nb"),
     ({"content": [{"type": "text", "text": "a"}], "isError": False}, "a"),
     ({"stdout": "out", "stderr": "err"}, "out\nerr"),
     ({"a": ["b", 1, None, True]}, '{"a": ["b", 1, null, true]}'),
     (None, ""), (3, "3"), ([], "")],
)  # fmt: skip
def test_an_answer_is_text_whatever_its_shape(answer: object, words: str) -> None:
    assert response_text(answer) == words
    assert (
        event(
            "claude.PostToolUse-mcp__plugin_ralph_ralphmem__recall", tool_response=answer
        ).response
        == words
    )


def test_an_edit_is_the_lines_before_and_after_with_those_around_them() -> None:
    found = event("claude.PostToolUse-Edit")
    assert found.action is Action.CHANGE
    assert found.changes == (FileEdit("/home/user/proj/a.py", "x=1", "x=2", "x=1\n"),)
    assert (found.files, found.response) == (("a.py",), "")
    written = event("claude.PostToolUse-Write")
    assert written.changes == (FileEdit("/home/user/proj/new.txt", "", "hello\n"),)
    edits = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": "d"}, 7]
    both = event(
        "claude.PostToolUse-Edit", tool_input={"file_path": "f", "edits": edits}, tool_response=None
    )
    assert both.changes == (FileEdit("f", "a", "b"), FileEdit("f", "c", "d"))


@pytest.mark.parametrize(
    ("answer", "output", "code"),
    [("hi\n", "hi\n", None),
     ("Exit code: 1\nWall time: 0.4 seconds\nOutput:\nboom\n", "boom\n", 1),
     ("Exit code: 0\nWall time: 0.4 seconds\nOutput:\nfine\n", "fine\n", 0),
     ("Chunk ID: 1a\nWall time: 1.2 seconds\nProcess exited with code 101\nOutput:\nx", "x", 101),
     ('{"output":"boom","metadata":{"exit_code":2,"duration_seconds":0.1}}', "boom", 2),
     ('{"output": broken', '{"output": broken', None),
     ("the log:\nProcess exited with code 1\n", "the log:\nProcess exited with code 1\n", None),
     ({"content": [{"type": "text", "text": "no"}], "isError": True}, "no", None)],
)  # fmt: skip
def test_codex_tells_an_exit_code_only_in_its_own_header(
    answer: object, output: str, code: int | None
) -> None:
    found = event("codex.PostToolUse-Bash", tool_response=answer)
    assert (found.response, found.exit_code) == (output, code)
    assert found.failed == (bool(code) or output == "no")


def test_a_command_that_codex_gives_as_a_list_is_one_line() -> None:
    for said in (
        {"command": ["bash", "-lc", "npm test"]},
        {"cmd": "npm test"},
        {"command": ["npm", "test"]},
    ):
        found = event("codex.PostToolUse-Bash", tool_input=said)
        assert found.parameters == {"command": "npm test"}


def test_a_patch_of_codex_names_its_files() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.ts\n@@\n same\n-old\n+new\n"
        "*** Add File: b.ts\n+one\n*** Delete File: c.ts\n*** End Patch"
    )
    found = event("codex.PostToolUse-Bash", tool_name="apply_patch", tool_input={"command": patch})
    assert found.files == ("src/a.ts", "b.ts", "c.ts")
    assert found.changes[0] == FileEdit("src/a.ts", "same\nold", "same\nnew")
    assert found.changes[1].after == "one"


def test_gemini_puts_context_in_front_of_the_prompt_and_it_is_cut_off() -> None:
    assert event("gemini.BeforeAgent").prompt == "do x"
    assert event("gemini.AfterAgent").message == "ok\nFINAL GEMINI"
    assert (
        asked("<hook_context>a</hook_context>\n<hook_context>b</hook_context>\n\nhello <b>")
        == "hello <b>"
    )
    assert asked("<hook_context>never closed") == ""
    assert asked("about <hook_context>") == "about <hook_context>"


def gemini_answer(text: str) -> Event:
    fenced = f"<untrusted_context>\n{text}\n</untrusted_context>"
    return event(
        "gemini.AfterTool-run_shell_command",
        tool_response={"llmContent": fenced, "returnDisplay": ""},
    )


def test_gemini_tells_an_exit_code_below_the_output_when_it_is_not_zero() -> None:
    found = event("gemini.AfterTool-run_shell_command")
    assert (found.response, found.exit_code, found.failed) == ("", 0, False)
    found = gemini_answer(
        "Output: 1 failed\nExit Code: 3\nlast line\nExit Code: 1\nProcess Group PGID: 7"
    )
    assert (found.response, found.exit_code, found.failed) == (
        "1 failed\nExit Code: 3\nlast line",
        1,
        True,
    )
    found = gemini_answer("Output: (empty)\nError: spawn failed\nSignal: 9")
    assert (found.error, found.exit_code, found.failed) == ("spawn failed", None, True)
    failed = event(
        "gemini.AfterTool-run_shell_command",
        tool_response={"llmContent": "x", "error": {"message": "no"}},
    )
    assert (failed.error, failed.failed) == ("no", True)


def test_gemini_changes_are_before_and_after() -> None:
    said = {"file_path": "/home/user/proj/a.ts", "old_string": "x", "new_string": "y"}
    found = event("gemini.AfterTool-run_shell_command", tool_name="replace", tool_input=said)
    assert (found.changes, found.files) == (
        (FileEdit("/home/user/proj/a.ts", "x", "y"),),
        ("a.ts",),
    )


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    [("/p/q/a.py", "/p/q", "a.py"), ("/p/qq/a.py", "/p/q", "/p/qq/a.py"), ("./a/../b.py", "/p", "b.py"),
     ("/p", "/p", "."), ("../x", "/p", "../x"), ("a.py", "", "a.py"), ("/a", "/", "a"), ("", "/p", ""),
     ("/p/q/../r.py", "/p/q", "/p/q/../r.py"), ("a\0b", "/p", "a\0b")],
)  # fmt: skip
def test_a_path_is_relative_where_it_is_inside(path: str, cwd: str, expected: str) -> None:
    assert relative_path(path, cwd) == expected


def test_files_are_found_at_any_depth_and_named_once() -> None:
    said = {
        "file_path": "/p/a",
        "edits": [{"path": "b"}, {"files": ["c", 3, "a"]}],
        "text": "not/a/file",
    }
    assert files_of(said, "/p") == ("a", "b", "c")


def test_a_value_nested_without_end_has_an_end() -> None:
    deep: object = "x"
    for _ in range(500):
        deep = [{"a": deep}]
    assert "..." in outline(deep)
    assert (
        event("claude.PostToolUse-Agent", tool_input={"a": deep}, tool_response=deep).session
        == SESSION
    )


@given(st.sampled_from(HOSTS), st.sampled_from(EVENTS), PAYLOADS, st.text(max_size=20))
def test_no_json_makes_an_adapter_fail(
    host: str, name: str, payload: dict[str, object], at: str
) -> None:
    found = event_of(host, name, payload, at)
    assert found is None or found.host == host
