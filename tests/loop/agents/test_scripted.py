"""The agent that plays a script does real things, the same each time, and only inside of the folder."""

import sys
from pathlib import Path
from typing import Any

import pytest

from ralph.core.errors import Unreadable, UsageError
from ralph.core.work import Agent, Ask, Reply, StopReason, ToolCall
from ralph.loop.agents.scripted import load_script, parse_step
from ralph.testing import ScriptedAgent, Step


def at(folder: Path, iteration: int, prompt: str = "p", **more: Any) -> Ask:
    return Ask(prompt, folder, environment={"RALPH_ITERATION": str(iteration)}, **more)


def test_a_step_says_and_writes_and_costs(tmp_path: Path) -> None:
    shown: list[str] = []
    agent: Agent = ScriptedAgent([Step(say="DONE", write={"src/a.txt": "hello\r\n"}, cost=0.25)])
    reply = agent.run(Ask("p", tmp_path, model="m", show=shown.append))
    assert reply == Reply(
        "DONE",
        calls=(ToolCall("write", ("src/a.txt",), writes=True),),
        model="m",
        cost=0.25,
        session="scripted",
    )
    assert (tmp_path / "src/a.txt").read_bytes() == b"hello\r\n"
    assert (shown, reply.files) == (["DONE\n"], ("src/a.txt",))


def test_steps_are_played_one_a_call_and_then_there_are_no_more(tmp_path: Path) -> None:
    agent = ScriptedAgent([Step(say="1"), lambda ask: Reply(f"2 {ask.prompt}")])
    replies = [agent.run(Ask("p", tmp_path)) for _ in range(3)]
    assert [reply.text for reply in replies] == ["1", "2 p", ""]
    assert (replies[2].stop, replies[2].error) == (
        StopReason.CRASHED,
        "the script has no step for this prompt",
    )
    assert [ask.prompt for ask in agent.asks] == ["p", "p", "p"]


def test_the_loops_iteration_decides_so_that_a_resumed_run_goes_on(tmp_path: Path) -> None:
    steps = [Step(say="1"), Step(say="2"), Step(say="3")]
    assert ScriptedAgent(steps).run(at(tmp_path, 3)).text == "3"
    assert ScriptedAgent(steps).run(at(tmp_path, 3)).text == "3"


def test_a_step_for_a_text_or_an_iteration_comes_before_the_others(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        [Step(say="any"), Step(say="second", iteration=2), Step(say="about cats", when="cat")]
    )
    assert agent.run(at(tmp_path, 1, "a cat")).text == "about cats"
    assert agent.run(at(tmp_path, 1, "a dog")).text == "any"
    assert agent.run(at(tmp_path, 2, "a dog")).text == "second"


def test_a_read_only_question_has_its_own_steps_and_uses_up_no_other(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        [Step(say="work"), Step(say="checked", read_only=True, write={"a": "x"}), Step(say="more")]
    )
    assert agent.run(Ask("p", tmp_path)).text == "work"
    verdict = agent.run(Ask("p", tmp_path, read_only=True))
    assert (verdict.text, verdict.calls, verdict.files) == (
        "checked",
        (ToolCall("write", ("a",), ok=False),),
        (),
    )
    assert agent.run(Ask("p", tmp_path)).text == "more"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["../out.txt", "/etc/ralph-out.txt", "link/out.txt"])
def test_nothing_is_written_outside_of_the_folder(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    reply = ScriptedAgent([Step(write={path: "x"})]).run(Ask("p", folder))
    assert reply.calls == (ToolCall("write", (path,), ok=False),)
    assert [each.name for each in tmp_path.iterdir()] == ["project"]


def test_commands_are_run_for_real(tmp_path: Path) -> None:
    make = (sys.executable, "-c", "open('made', 'w', encoding='utf-8').close()")
    reply = ScriptedAgent([Step(run=(make, ("no-such-program-at-all",)))]).run(Ask("p", tmp_path))
    assert (tmp_path / "made").exists()
    assert (reply.stop, [call.ok for call in reply.calls]) == (StopReason.END_TURN, [True, False])


def test_a_delay_ends_with_a_stop_or_with_the_time(tmp_path: Path) -> None:
    agent = ScriptedAgent([Step(say="A", delay=600, write={"a": "x"})] * 2)
    shown: list[str] = []
    assert (
        agent.run(Ask("p", tmp_path, show=shown.append, stopped=lambda: bool(shown))).stop
        is StopReason.CANCELLED
    )
    assert agent.run(Ask("p", tmp_path, timeout=0.05)).stop is StopReason.TIMEOUT
    assert not list(tmp_path.iterdir())


def test_a_command_ends_with_the_time_as_well(tmp_path: Path) -> None:
    step = Step(run=((sys.executable, "-c", "import time; time.sleep(600)"),))
    assert ScriptedAgent([step]).run(Ask("p", tmp_path, timeout=0.2)).stop is StopReason.TIMEOUT


def test_stop_reason_and_error_are_returned(tmp_path: Path) -> None:
    reply = ScriptedAgent([Step(stop=StopReason.UNAVAILABLE, error="no network")]).run(
        Ask("p", tmp_path)
    )
    assert (reply.stop, reply.error) == (StopReason.UNAVAILABLE, "no network")


class TestScripts:
    def test_a_file_holds_steps(self, tmp_path: Path) -> None:
        path = tmp_path / "script.json"
        path.write_text(
            '{"steps": [{"say": "ä", "write": {"a": "b"}, "run": [["true"]], "delay": 0, "stop": "refusal", "cost": 1,'
            ' "model": "m", "error": "e", "iteration": 2, "when": "w", "read_only": false}]}',
            encoding="utf-8",
        )
        assert load_script(path).steps == (
            Step(
                say="ä",
                write={"a": "b"},
                run=(("true",),),
                stop=StopReason.REFUSAL,
                cost=1,
                model="m",
                error="e",
                iteration=2,
                when="w",
            ),
        )

    @pytest.mark.parametrize("text", ["{", "", "\udcff"])
    def test_a_file_that_is_no_json_is_an_error(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "script.json"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(Unreadable, match="JSON"):
            load_script(path)

    def test_a_missing_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(Unreadable, match="not found"):
            load_script(tmp_path / "none.json")

    @pytest.mark.parametrize("text", ["{}", "3", '{"steps": 1}'])
    def test_a_file_without_steps_is_an_error(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "script.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="steps"):
            load_script(path)

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (1, "object"),
            ({"sya": "x"}, "unexpected keyword argument 'sya'"),
            ({"write": {"a": 1}}, "'write'"),
            ({"run": ["make"]}, "'run'.*list of words"),
            ({"run": [[]]}, "'run'.*list of words"),
            ({"stop": "never"}, "never"),
        ],
    )
    def test_a_wrong_step_is_reported_with_its_number(self, value: object, words: str) -> None:
        with pytest.raises(UsageError, match=words) as caught:
            parse_step(value, "s.json: step 3")
        assert caught.value.message.startswith("s.json: step 3")
