"""Any program as an agent."""

import sys
from pathlib import Path

import pytest

from ralph.core.errors import UsageError
from ralph.core.work import Agent, Ask, Reply, StopReason
from ralph.loop.agents.command import CommandAgent, split_command

ECHO = [
    sys.executable,
    "-c",
    "import sys; sys.stdout.write(sys.stdin.read() + '|' + '|'.join(sys.argv[1:]))",
]
NASTY = "a 'b' \"c\" $(touch pwned) `touch pwned`; touch pwned\n{prompt}"


def test_it_is_an_agent() -> None:
    agent: Agent = CommandAgent(ECHO)
    assert (agent.name, agent.enforces_read_only) == ("command", False)


def test_the_prompt_is_standard_input_and_output_is_the_text(tmp_path: Path) -> None:
    shown: list[str] = []
    reply = CommandAgent(ECHO).run(Ask("hello", tmp_path, model="m", show=shown.append))
    assert reply == Reply("hello|", model="m"), "the model that it was asked to use"
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
