"""What the agents share: environment, paths, failure classes and lines."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.work import Ask, ProcessResult, StopReason
from ralph.loop.agents import client
from ralph.loop.agents.client import (
    LineBuffer,
    classify_error,
    describe_crash,
    forced_end,
    is_inside,
    relative_path,
)


def test_variables_of_an_enclosing_session_do_not_reach_the_agent() -> None:
    ours = {
        "ANTHROPIC_API_KEY": "made-up",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "9",
        "CLAUDE_CONFIG_DIR": "/home/somebody",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_SESSION_ID": "abc",
        "CLAUDE_CODE_SSE_PORT": "1",
        "CLAUDE_CODE_MESSAGING_TOKEN": "abc",
        "CLAUDE_PROJECT_DIR": "/elsewhere",
        "CLAUDE_PLUGIN_ROOT": "/elsewhere",
    }
    assert sorted(client.without_session(ours)) == [
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CONFIG_DIR",
    ]


def test_variables_of_the_prompt_override_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_RUN", "outer")
    assert (
        client.agent_environment(Ask("p", Path("/p"), environment={"RALPH_RUN": "inner"}))[
            "RALPH_RUN"
        ]
        == "inner"
    )


@pytest.mark.parametrize(
    ("path", "relative"),
    [
        ("a.txt", "a.txt"),
        ("./b/../a.txt", "a.txt"),
        ("{folder}/b/a.txt", "b/a.txt"),
        ("/etc/passwd", "/etc/passwd"),
        ("../outside.txt", "../outside.txt"),
        ("", ""),
    ],
)
def test_a_path_inside_the_folder_is_relative_and_others_stay(
    tmp_path: Path, path: str, relative: str
) -> None:
    assert relative_path(path.format(folder=tmp_path), tmp_path) == relative


def test_a_link_to_the_folder_is_the_same_folder(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    assert relative_path(str(real / "a.txt"), link) == "a.txt"
    assert relative_path(str(link / "a.txt"), real) == "a.txt"
    assert is_inside(str(real / "a.txt"), link)


def test_a_link_that_leads_outside_is_not_inside(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    assert not is_inside("out/a.txt", folder)
    assert not is_inside("../a.txt", folder)
    assert not is_inside("", folder)
    assert not is_inside("a\0b", folder)
    assert is_inside("new/deep/a.txt", folder)


@pytest.mark.parametrize(
    "message",
    [
        "Failed to authenticate. API Error: 401 invalid x-api-key",
        "API Error: Request rejected (429) · too many",
        "API Error: 529 Overloaded. This is a server-side issue, usually temporary",
        "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
        "Not logged in · Please run /login",
        "unexpected status 401 Unauthorized: no, url: http://127.0.0.1:40487/v1/responses",
        "unexpected status 404 Not Found: no such model, url: http://127.0.0.1/v1/responses",
        "exceeded retry limit, last status: 429 Too Many Requests",
        "We’re currently experiencing high demand, which may cause temporary errors.",
        "stream disconnected before completion: error sending request for url",
        "You've hit your usage limit.",
        "Credit balance is too low",
        "There's an issue with the selected model (nope). It may not exist: model nope not found",
    ],
)
def test_a_temporary_failure_is_unavailable(message: str) -> None:
    assert classify_error(message) is StopReason.UNAVAILABLE


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500, 503, 529])
def test_a_status_decides_if_there_is_one(status: int) -> None:
    assert classify_error("some message", status) is StopReason.UNAVAILABLE


@pytest.mark.parametrize(
    "message", ["", "segmentation fault", "API Error: 400 bad request", "no rollout found"]
)
def test_an_unknown_failure_is_a_crash(message: str) -> None:
    assert classify_error(message) is StopReason.CRASHED


@pytest.mark.parametrize(
    "message", ["Prompt is too long", "API Error: 400 input exceeds the context window"]
)
def test_a_prompt_that_is_too_long_is_no_crash(message: str) -> None:
    assert classify_error(message, 400) is StopReason.MAX_TOKENS


def test_a_forced_end_has_a_reason() -> None:
    assert forced_end(ProcessResult(0, "", "")) is None
    assert forced_end(ProcessResult(None, "", "x: there is no such program", missing=True)) == (
        StopReason.UNAVAILABLE,
        "x: there is no such program",
    )
    assert forced_end(ProcessResult(-15, "", "", stopped=True)) == (
        StopReason.CANCELLED,
        client.STOPPED,
    )
    assert forced_end(ProcessResult(-9, "", "", timed_out=True)) == (
        StopReason.TIMEOUT,
        client.TIMED_OUT,
    )


def test_a_crash_has_the_end_of_the_error_output() -> None:
    assert describe_crash("x", ProcessResult(3, "", "a" * 9000 + "why\n")).endswith("why")
    assert describe_crash("x", ProcessResult(-11, "", "")) == "x was killed by signal 11"
    assert describe_crash("x", ProcessResult(2, "", "")) == "x exited with 2"


@given(st.lists(st.text(alphabet="ab\n{}\r\u2028\x85 é"), max_size=20))
def test_lines_do_not_depend_on_how_output_is_split(pieces: list[str]) -> None:
    whole: list[str] = []
    torn: list[str] = []
    for lines_read, parts in ((whole, ["".join(pieces)]), (torn, pieces)):
        lines = LineBuffer(lines_read.append)
        for part in parts:
            lines.add(part)
        lines.flush()
    assert (
        torn
        == whole
        == [line.removesuffix("\r") for line in "".join(pieces).split("\n") if line.strip()]
    )


@pytest.mark.soak
def test_a_line_of_many_megabytes_is_one_line() -> None:
    lines_read: list[str] = []
    lines = LineBuffer(lines_read.append)
    for _ in range(150):
        lines.add("x" * 65536)
    lines.add("\n")
    assert [len(line) for line in lines_read] == [150 * 65536]


def test_a_line_of_200_megabytes_needs_little_memory() -> None:
    lines_read: list[str] = []
    lines = LineBuffer(lines_read.append)
    tracemalloc.start()
    try:
        for _ in range(3_200):
            lines.add("x" * 62_500)
        lines.add("\nafter it\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines_read == ["[a line of 200000000 characters was left out]", "after it"]
    assert peak < 30_000_000, "Ralph itself needs about 50 MB, and 100 MB are the limit"
