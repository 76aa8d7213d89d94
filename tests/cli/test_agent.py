"""`ralph doctor --agents`: a table or JSON of what there is, and a check that really asks."""

import sys
from pathlib import Path

import pytest
from tests.support.players import player
from tests.support.runner import Project

GOOD = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "READY",
    "total_cost_usd": 0.01,
}
LIMIT = GOOD | {"is_error": True, "result": "API Error: 429 rate limit", "api_error_status": 429}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A PATH with no agent on it."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return tmp_path


@pytest.mark.usefixtures("bare")
def test_the_list_shows_every_agent_and_what_is_missing(ralph: Project) -> None:
    said = ralph("doctor", "--agents")
    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["agent", "usable", "version", "where"]
    assert "claude    no      -        (claude is not on the PATH)" in said.out
    assert "scripted  yes" in said.out


@pytest.mark.usefixtures("bare")
def test_the_list_is_json_on_request(ralph: Project) -> None:
    told = ralph("doctor", "--agents", "--format", "json").json
    assert [each["name"] for each in told] == ["claude", "codex", "acp", "command", "scripted"]
    assert told[0] == {
        "name": "claude", "usable": False, "version": "", "path": "", "note": "claude is not on the PATH",
    }  # fmt: skip


def test_installed_agents_are_asked_for_a_word(
    ralph: Project, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = ralph("doctor", "--agents", "--check")
    assert (none.code, none.out) == (1, "No agent is installed.\n")
    monkeypatch.setenv("PATH", str(player(bare / "p", [GOOD]).installed("claude")))
    said = ralph("doctor", "--agents", "--check")
    assert said.code == 0
    assert [line.split()[:2] for line in said.out.splitlines()] == [
        ["agent", "answers"],
        ["claude", "yes"],
    ]
    assert [
        each["answer"] for each in ralph("doctor", "--agents", "--check", "--format", "json").json
    ] == ["READY"]


def test_an_agent_that_does_not_answer_is_exit_code_1_with_the_reason(
    ralph: Project, bare: Path
) -> None:
    played = player(bare / "p", [LIMIT], code=1)
    said = ralph("doctor", "--agents", "--check", "claude", "--command", " ".join(played.program))
    assert said.code == 1
    assert "API Error: 429 rate limit" in said.out
    said = ralph("doctor", "--agents", "--check", "claude")
    assert (said.code, "claude: there is no such program" in said.out) == (1, True)


def test_any_command_can_be_checked(ralph: Project) -> None:
    program = f"{sys.executable} -c 'print(chr(27) + chr(91) + chr(50) + chr(74))'"
    said = ralph("doctor", "--agents", "--check", "command", "--command", program)
    assert (said.code, "\x1b" in said.out) == (0, False)
    assert ralph("doctor", "--agents", "--check", "command").code == 1


@pytest.mark.usefixtures("bare")
def test_wrong_usage_is_exit_code_2(ralph: Project) -> None:
    assert ralph("doctor", "--agents", "--check", "telepathy").code == 2
    assert ralph("doctor", "--agents", "claude").code == 2
    assert ralph("doctor", "--agents", "--check", "--command", "x").code == 2
