"""`ralph pause` and `ralph resume-capture` through the front door."""

import pytest
from tests.cli.runner import Project


def test_both_say_what_they_did_also_the_second_time(ralph: Project) -> None:
    ralph.put("ralph.yml", "")
    assert ralph("pause").out.startswith("Paused: nothing is recorded")
    assert ralph.file(".ralph/log/paused").is_file()
    again = ralph("pause")
    assert again.code == 0
    assert again.out.startswith("Paused already since 2")
    assert ralph("resume-capture").out == "Capture goes on.\n"
    assert ralph("resume-capture").out == "Capture was not paused.\n"
    assert not ralph.file(".ralph/log/paused").exists()


def test_where_nothing_is_captured_there_is_nothing_to_pause(ralph: Project) -> None:
    said = ralph("pause")
    assert said.code == 1
    assert "nothing to pause" in said.err
    assert not ralph.file(".ralph").exists()


def test_whoever_captures_everywhere_can_pause_everywhere(ralph: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_CAPTURE_EVERYWHERE", "true")
    assert ralph("pause").code == 0
    assert ralph.file(".ralph/log/paused").is_file()
