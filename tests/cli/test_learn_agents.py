"""`ralph learn` with each kind of agent: what it proposes, and what is said if the agent fails."""

import json
from pathlib import Path

import pytest
from tests.support.distilling import (
    LESSON,
    OTHER_LESSON,
    OTHER_QUOTE,
    answer,
    answering,
    proposed,
    record_id,
    record_long_sessions,
    record_session,
    state_bytes,
)
from tests.support.python_commands import program
from tests.support.runner import Project


@pytest.fixture(autouse=True)
def _no_agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No agent of whoever runs the tests may be found."""
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def script(ralph: Project, *steps: dict[str, object]) -> str:
    ralph.put("steps.json", json.dumps(steps))
    return "steps.json"


def test_a_program_is_asked_and_what_it_proves_is_proposed(ralph: Project) -> None:
    record_session(ralph.root)
    said = ralph("learn", "--agent", "command", "--command", answering(answer()))
    assert said.code == 0
    assert LESSON in said.out
    assert "1 proposal(s). Decide with `ralph review`." in said.out
    assert "1 session(s), 1 call(s), about " in said.err
    assert proposed(ralph.root) == [LESSON]
    assert LESSON in ralph("review").out


def test_a_second_run_asks_nobody_and_proposes_nothing(ralph: Project) -> None:
    record_session(ralph.root)
    ralph("learn", "--agent", "command", "--command", answering(answer()))
    before = state_bytes(ralph.root)
    again = ralph("learn", "--agent", "command", "--command", program("raise SystemExit(9)"))
    assert (again.code, again.out) == (0, "Nothing was recorded since the last time.\n")
    assert state_bytes(ralph.root) == before


def test_the_prompt_reaches_the_program_with_the_sessions(ralph: Project) -> None:
    record_session(ralph.root)
    seen = ralph.root / "seen.txt"
    code = f"import sys, pathlib; pathlib.Path({str(seen)!r}).write_text(sys.stdin.read())"
    ralph("learn", "--agent", "command", "--command", program(code))
    prompt = seen.read_text(encoding="utf-8")
    assert "Answer with one JSON object" in prompt
    assert "user: From now on store amounts" in prompt


def test_the_program_runs_without_hooks_of_ralph(ralph: Project) -> None:
    record_session(ralph.root)
    code = "import os, sys; sys.exit(0 if os.environ['RALPH_DISABLE'] == '1' else 'recorded')"
    said = ralph("learn", "--agent", "command", "--command", program(code))
    assert "warning: the answer is empty" in said.err
    assert "recorded" not in said.err


def test_a_script_is_played(ralph: Project) -> None:
    record_session(ralph.root)
    steps = script(ralph, {"read_only": True, "say": answer(), "cost": 0.25})
    said = ralph("learn", "--agent", "scripted", "--command", steps, "--format", "json")
    assert said.code == 0
    assert [proposal["text"] for proposal in said.json["proposals"]] == [LESSON]
    assert (said.json["sessions"], said.json["calls"]) == (1, 1)
    assert said.json["cost_usd"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param([], "neither claude nor codex is installed", id="none installed"),
        pytest.param(["--agent", "claude"], "claude: there is no such program", id="claude"),
        pytest.param(["--agent", "codex"], "codex: there is no such program", id="codex"),
        pytest.param(["--agent", "command"], "no command was given", id="no command"),
        pytest.param(
            ["--agent", "command", "--command", "no-such-agent --quiet"],
            "no-such-agent: there is no such program",
            id="missing program",
        ),
        pytest.param(
            ["--agent", "command", "--command", "my-agent 'x"],
            "cannot be split into arguments",
            id="unclosed quote",
        ),
        pytest.param(["--agent", "scripted"], "needs a script", id="no script"),
        pytest.param(
            ["--agent", "scripted", "--command", "gone.json"],
            "gone.json: script not found",
            id="missing script",
        ),
        pytest.param(["--agent", "clode"], "Agent not found: clode", id="unknown agent"),
    ],
)
def test_an_agent_that_cannot_be_asked_is_an_error_with_a_hint(
    ralph: Project, words: list[str], message: str
) -> None:
    record_session(ralph.root)
    before = ralph.marks()
    said = ralph("learn", *words)
    assert said.code != 0
    assert said.out == ""
    error, hint, *_ = said.err.splitlines()
    assert message in error
    assert hint.startswith("  ")
    assert ralph.marks() == before


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        pytest.param("raise SystemExit('no credit left')", "no credit left", id="it fails"),
        pytest.param("pass", "the answer is empty", id="it says nothing"),
        pytest.param("print('I found nothing.')", "not JSON of the expected form", id="prose"),
        pytest.param("print('{\"memories\": [')", "not JSON of the expected form", id="cut off"),
        pytest.param("print('[1, 2]')", "not JSON of the expected form", id="another JSON"),
        pytest.param("print('x' * 10_000_000)", "more than 400,000", id="10 MB"),
    ],
)
def test_an_answer_without_a_result_is_a_problem_and_the_sessions_wait(
    ralph: Project, code: str, problem: str
) -> None:
    record_session(ralph.root)
    said = ralph("learn", "--agent", "command", "--command", program(code))
    assert said.code == 1
    assert "Nothing new was proposed." in said.out
    [warning] = [line for line in said.err.splitlines() if line.startswith("warning: ")]
    assert problem in warning
    assert state_bytes(ralph.root) == {}
    again = ralph("learn", "--agent", "command", "--command", answering(answer()))
    assert "1 proposal(s)" in again.out


def test_a_failure_of_the_second_call_keeps_what_the_first_one_proposed(ralph: Project) -> None:
    last_prompt = record_long_sessions(ralph.root)
    first = script(
        ralph, {"read_only": True, "when": record_id()[-4:], "say": answer()}, {"say": "x"}
    )
    said = ralph("learn", "--agent", "scripted", "--command", first, "--budget", "1000")
    assert said.code == 1
    assert "1 proposal(s)" in said.out
    assert "the script has no step for this prompt" in said.err
    later = answer(OTHER_LESSON, OTHER_QUOTE, last_prompt)
    rest = script(ralph, {"read_only": True, "say": later})
    again = ralph("learn", "--agent", "scripted", "--command", rest, "--budget", "1000")
    assert again.code == 0
    assert sorted(proposed(ralph.root)) == sorted([LESSON, OTHER_LESSON])


def test_what_cannot_be_verified_is_counted(ralph: Project) -> None:
    record_session(ralph.root)
    invented = answer(quote="store amounts as floats, cents lost money again")
    said = ralph("learn", "--agent", "command", "--command", answering(invented))
    assert said.code == 0
    assert said.out == "Nothing new was proposed.\n"
    assert "dropped: 1 altered quote" in said.err
    assert proposed(ralph.root) == []
