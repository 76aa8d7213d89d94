"""`ralph capture on` and `ralph capture off`."""

import pytest
from tests.cli.runner import Project


def test_both_say_what_they_did_also_the_second_time(ralph: Project) -> None:
    ralph.put("ralph.yml", "")
    assert ralph("capture", "off").out.startswith("Capture is off: nothing is recorded")
    assert ralph.file("log/paused").is_file()
    assert ralph("capture").out.startswith("Capture is off since 2")
    again = ralph("capture", "off")
    assert again.code == 0
    assert again.out.startswith("Capture was off already since 2")
    assert ralph("capture", "on").out == "Capture is on again.\n"
    assert ralph("capture", "on").out == "Capture was on already.\n"
    assert not ralph.file("log/paused").exists()
    assert ralph("capture").out == "Capture is on.\n"


def test_where_nothing_is_captured_there_is_nothing_to_pause(ralph: Project) -> None:
    said = ralph("capture", "off")
    assert said.code == 1
    assert "nothing to pause" in said.err
    assert not ralph.file(".ralph").exists()


def test_whoever_captures_everywhere_can_pause_everywhere(ralph: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RALPH_CAPTURE_EVERYWHERE", "true")
    assert ralph("capture", "off").code == 0
    assert ralph.file("log/paused").is_file()
