"""`ralph config` as people and scripts call it."""

import json
from pathlib import Path

import pytest

from ralph.cli.config import config_ as cli
from ralph.cli.main import run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a typo in its settings, as the working directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "RALPH_ROOT", "CLAUDE_PROJECT_DIR", "RALPH_MEMORIES_BUDGET"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "project"
    root.mkdir()
    text = "# mine\nmemories:\n  inject: manual  # for now\n  bugdet: 1\n"
    (root / "ralph.yml").write_text(text, encoding="utf-8", newline="")
    monkeypatch.chdir(root)
    return root


def ralph(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(["config", *words])
    out, err = capfd.readouterr()
    return code, out, err


def test_show_prints_values_and_where_they_come_from(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ralph(capfd, "--origin")
    rows = [line.split() for line in out.splitlines()]
    assert code == 0
    assert ["memories.inject", "manual", "ralph.yml:3"] in rows
    assert ["memories.budget", "2000", "default"] in rows
    assert "ralph.yml:4: unknown key memories.bugdet; did you mean memories.budget?" in err


def test_show_as_json_is_json_alone(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(ralph(capfd, "--format", "json")[1])["memories.filter.tags"] == []
    monkeypatch.setenv("RALPH_MEMORIES_BUDGET", "9")
    full = json.loads(ralph(capfd, "--origin", "--format", "json")[1])
    assert full["memories.inject"] == {
        "value": "manual",
        "layer": "ralph.yml",
        "where": "ralph.yml",
        "line": 3,
    }
    assert full["memories.budget"]["where"] == "RALPH_MEMORIES_BUDGET"


def test_get_prints_the_value_plainly(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert ralph(capfd, "memories.inject")[:2] == (0, "manual\n")
    assert ralph(capfd, "memories.enabled")[:2] == (0, "true\n")
    assert ralph(capfd, "memories.filter.types")[:2] == (0, "[]\n")


def test_get_of_an_unknown_key_is_wrong_usage_with_the_nearest(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ralph(capfd, "memories.bugdet")
    assert (code, out) == (2, "")
    assert "unknown key memories.bugdet; did you mean memories.budget?" in err


def test_set_changes_one_key_and_keeps_the_comments(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = ralph(capfd, "memories.inject", "none")
    assert code == 0
    assert out.startswith("Set memories.inject = none in ")
    text = "# mine\nmemories:\n  inject: none  # for now\n  bugdet: 1\n"
    assert (project / "ralph.yml").read_text(encoding="utf-8") == text
    assert ralph(capfd, "memories.inject", "none")[1].startswith("Nothing to do")
    assert ralph(capfd, "memories.inject")[1] == "none\n"


def test_set_says_when_a_higher_layer_wins(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ralph(capfd, "memories.budget", "5", "--local")[2] == ""
    code, _, err = ralph(capfd, "memories.budget", "7", "--user")
    assert code == 0
    assert "note: ralph.local.yml:2 also sets memories.budget" in err
    assert ralph(capfd, "memories.budget")[1] == "5\n"
    assert ralph(capfd, "memories.budget", "7", "--user", "--local")[0] == 2


def test_what_a_person_sets_is_trusted_and_nothing_else_in_the_project_loses_its_trust(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ralph(capfd, "summarize.command", "make summary")
    assert (code, "trusted on this machine" in err) == (0, True)
    assert out.startswith("Set summarize.command = make summary in ")
    assert ralph(capfd, "summarize.command")[1] == "make summary\n"
    assert ralph(capfd, "ralph.agent_command", "my-agent")[0] == 0
    assert ralph(capfd, "summarize.command")[1] == "make summary\n"
    assert ralph(capfd, "summarize.command", "make summary")[2] == ""
    assert "trusted" not in ralph(capfd, "--user", "embedding.provider", "ollama")[2]
    assert "trusted" not in ralph(capfd, "embedding.provider", "none")[2]


def test_what_an_agent_sets_counts_only_after_trust(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    code, _, err = ralph(capfd, "summarize.command", "make summary")
    assert (code, "`ralph trust`" in err) == (0, True)
    assert ralph(capfd, "summarize.command")[1] == "\n"
    monkeypatch.delenv("CLAUDECODE")
    assert ralph(capfd, "summarize.command")[1] == "\n"
    assert run(["trust", "--yes"]) == 0
    capfd.readouterr()
    assert ralph(capfd, "summarize.command")[1] == "make summary\n"


def test_set_refuses_where_it_cannot_change_one_key(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "ralph.yml").write_text("memories: {budget: 1}\n", encoding="utf-8", newline="")
    code, _, err = ralph(capfd, "memories.budget", "5")
    assert code == 1
    assert "error: ralph.yml:1: cannot be changed here" in err


def test_set_tells_of_an_error_elsewhere_but_does_its_work(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / ".ralph.toml").write_text("[execution]\nverify = 1\n", encoding="utf-8", newline="")
    code, out, err = ralph(capfd, "memories.budget", "5")
    assert code == 0
    assert out.startswith("Set memories.budget = 5")
    assert "warning: .ralph.toml:2: execution.verify: expected true or false" in err


def test_a_wrong_value_in_a_file_is_told_with_its_line(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "ralph.yml").write_text(
        "\nmemories:\n  budget: many\n", encoding="utf-8", newline=""
    )
    code, out, err = ralph(capfd)
    assert (code, out) == (2, "")
    assert (
        "error: ralph.yml:3: memories.budget: expected a whole number of at least 0, got 'many'"
        in err
    )


def test_path_says_which_files_are_there(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = json.loads(ralph(capfd, "--files", "--format", "json")[1])
    assert [each["layer"] for each in found if each["exists"]] == ["ralph.yml"]
    assert found[-1]["path"] == str(project / "ralph.local.yml")
    assert str(project / "ralph.yml") in ralph(capfd, "--files")[1]


def test_the_help_text_ends_with_examples() -> None:
    last = (cli.help or "").rstrip().split("\n\n")[-1].strip(" \b\n")
    assert last.startswith("Examples:")
    assert "ralph config " in last
