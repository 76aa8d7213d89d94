"""What the agents share: environment, paths, failure classes and JSON lines."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.errors import UsageError
from ralph.core.work import Agent, Ask, ProcessResult, Reply, StopReason
from ralph.loop.agents import client
from ralph.loop.agents.client import (
    CommandAgent,
    LineBuffer,
    classify_error,
    describe_crash,
    forced_end,
    get_number,
    get_object,
    get_objects,
    get_text,
    is_inside,
    parse_object,
    relative_path,
    split_command,
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
    for _ in range(200):
        lines.add("x" * 65536)
    lines.add("\n")
    assert [len(line) for line in lines_read] == [200 * 65536]


@given(st.text())
def test_any_line_is_an_object_or_none(line: str) -> None:
    assert parse_object(line) is None or isinstance(parse_object(line), dict)


def test_a_deeply_nested_line_is_no_crash() -> None:
    assert parse_object('{"a":' * 100_000) is None


def test_values_of_another_type_read_as_empty() -> None:
    odd: dict[str, object] = {"a": [1, {"b": 2}, None], "c": True, "d": "4", "e": {"f": {"g": 1}}}
    assert (get_object(odd, "a"), get_object(odd, "e", "f"), get_object(None, "x")) == (
        {},
        {"g": 1},
        {},
    )
    assert (
        get_text(odd, "a"),
        get_number(odd, "c"),
        get_number(odd, "d"),
        get_number({"n": 2}, "n"),
    ) == (
        "",
        0.0,
        0.0,
        2.0,
    )
    assert list(get_objects(odd, "a")) == [{"b": 2}]
    assert list(get_objects(odd, "c")) == []


ECHO = [
    sys.executable,
    "-c",
    "import sys; sys.stdout.write(sys.stdin.read() + '|' + '|'.join(sys.argv[1:]))",
]
NASTY = "a 'b' \"c\" $(touch pwned) `touch pwned`; touch pwned\n{prompt}"


def test_it_is_an_agent() -> None:
    agent: Agent = CommandAgent(ECHO)
    assert (agent.name, agent.reads_only) == ("command", False)


def test_the_prompt_is_standard_input_and_output_is_the_text(tmp_path: Path) -> None:
    shown: list[str] = []
    reply = CommandAgent(ECHO).run(Ask("hello", tmp_path, model="m", show=shown.append))
    assert reply == Reply("hello|"), "which model it used is unknown"
    assert "".join(shown) == "hello|"


def test_the_prompt_is_an_argument_where_its_place_is_marked(tmp_path: Path) -> None:
    reply = CommandAgent([*ECHO, "--ask", "say: {prompt}"]).run(Ask(NASTY, tmp_path))
    assert reply.text == f"|--ask|say: {NASTY}"
    assert not list(tmp_path.iterdir())


def test_a_line_is_split_without_a_shell(tmp_path: Path) -> None:
    line = f"""{sys.executable} -c 'import sys; print(sys.argv[1:])' "a b" $HOME ';' >x"""
    assert CommandAgent(line).run(Ask("p", tmp_path)).text == "['a b', '$HOME', ';', '>x']\n"


def test_a_failing_program_is_a_crash_with_the_end_of_its_output(tmp_path: Path) -> None:
    code = "import sys; print('half'); sys.stderr.write('reason'); sys.exit(4)"
    reply = CommandAgent([sys.executable, "-c", code]).run(Ask("p", tmp_path))
    assert (reply.text, reply.stop) == ("half\n", StopReason.CRASHED)
    assert reply.error.endswith("exited with 4: reason")


def test_a_missing_program_is_unavailable(tmp_path: Path) -> None:
    reply = CommandAgent("no-such-program-at-all").run(Ask("p", tmp_path))
    assert (reply.stop, reply.error) == (
        StopReason.UNAVAILABLE,
        "no-such-program-at-all: there is no such program",
    )


def test_it_is_stopped_and_it_runs_out_of_time(tmp_path: Path) -> None:
    sleeper = CommandAgent(
        [sys.executable, "-c", "import time; print('on', flush=True); time.sleep(600)"]
    )
    shown: list[str] = []
    stopped = sleeper.run(Ask("p", tmp_path, show=shown.append, stopped=lambda: bool(shown)))
    assert (stopped.stop, stopped.text) == (StopReason.CANCELLED, "on\n")
    assert sleeper.run(Ask("p", tmp_path, timeout=0.2)).stop is StopReason.TIMEOUT


def test_the_loops_variables_reach_the_program(tmp_path: Path) -> None:
    agent = CommandAgent([sys.executable, "-c", "import os; print(os.environ['RALPH_RUN'])"])
    assert agent.run(Ask("p", tmp_path, environment={"RALPH_RUN": "r1"})).text == "r1\n"


@pytest.mark.parametrize("command", ["", "   ", [], "'open"])
def test_no_command_is_wrong_usage(command: str | list[str]) -> None:
    with pytest.raises(UsageError):
        split_command(command)
