"""`ralph agent`: a table or JSON of what there is, and a check that really asks."""

import sys
from pathlib import Path

import pytest
from tests.agents.players import player
from tests.cli.runner import Project

GOOD = {"type": "result", "subtype": "success", "is_error": False, "result": "READY", "total_cost_usd": 0.01}
LIMIT = GOOD | {"is_error": True, "result": "API Error: 429 rate limit", "api_error_status": 429}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with no agent on it."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return tmp_path


@pytest.mark.usefixtures("bare")
def test_the_list_shows_every_agent_and_what_is_missing(ralph: Project) -> None:
    said = ralph("loop", "agents")
    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["agent", "usable", "version", "where"]
    assert "claude    no      -        (claude is not on the PATH)" in said.out
    assert "scripted  yes" in said.out


@pytest.mark.usefixtures("bare")
def test_the_list_is_json_on_request(ralph: Project) -> None:
    told = ralph("loop", "agents", "--format", "json").json
    assert [each["name"] for each in told] == ["claude", "codex", "acp", "command", "scripted"]
    assert told[0] == {
        "name": "claude", "usable": False, "version": "", "path": "", "note": "claude is not on the PATH",
    }  # fmt: skip


def test_an_answer_is_shown(ralph: Project, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(player(bare / "p", [GOOD]).installed("claude")))
    said = ralph("loop", "agents", "--check")
    assert (said.code, said.out) == (0, "READY\n")
    assert "the agent 'claude' answers" in said.err


def test_an_agent_that_does_not_answer_is_exit_code_1_with_advice(ralph: Project, bare: Path) -> None:
    played = player(bare / "p", [LIMIT], code=1)
    said = ralph("loop", "agents", "--check", "claude", "--command", " ".join(played.program))
    assert (said.code, said.out) == (1, "")
    assert "did not answer: API Error: 429 rate limit" in said.err
    assert "check the login" in said.err


def test_a_check_is_json_on_request_also_when_it_fails(ralph: Project, bare: Path) -> None:
    played = player(bare / "p", [LIMIT], code=1)
    said = ralph("loop", "agents", "--check", "claude", "--command", " ".join(played.program), "--format", "json")
    assert (said.code, said.json["ok"], said.json["stop"]) == (1, False, "unavailable")
    good = player(bare / "q", [GOOD])
    said = ralph("loop", "agents", "--check", "claude", "--command", " ".join(good.program), "--format", "json")
    assert (said.code, said.json["ok"], said.json["answer"], said.json["cost_usd"]) == (0, True, "READY", 0.01)


@pytest.mark.usefixtures("bare")
def test_a_missing_program_says_how_to_get_it(ralph: Project) -> None:
    said = ralph("loop", "agents", "--check", "claude")
    assert said.code == 1
    assert "claude: there is no such program" in said.err
    assert "install Claude Code" in said.err


@pytest.mark.usefixtures("bare")
def test_wrong_usage_is_exit_code_2(ralph: Project) -> None:
    assert ralph("loop", "agents", "--check", "telepathy").code == 2
    assert ralph("loop", "agents", "--check", "auto").code == 2
    assert ralph("loop", "agents", "--check", "command").code == 2
    assert ralph("loop", "agents", "--check", "claude", "--timeout", "0").code == 2


def test_any_command_can_be_checked_and_a_hanging_one_ends(ralph: Project) -> None:
    assert ralph("loop", "agents", "--check", "command", "--command", f"{sys.executable} -c 'print(1)'").out == "1\n"
    assert (
        ralph("loop", "agents", "--check", "command", "--command", "cat | tr a-z A-Z | cut -c1-6", "--shell").out
        == "ANSWER\n"
    )
    said = ralph("loop", "agents", "--check", "command", "--command", "sleep 600", "--timeout", "0.3")
    assert said.code == 1
    assert "--timeout" in said.err


def test_control_characters_of_an_answer_do_not_reach_the_terminal(ralph: Project) -> None:
    program = f"{sys.executable} -c 'print(chr(27) + chr(91) + chr(50) + chr(74))'"
    assert "\x1b" not in ralph("loop", "agents", "--check", "command", "--command", program).out
