"""`ralph loop agents`: a table or JSON of what there is."""

from pathlib import Path

import pytest
from tests.cli.runner import Project


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
