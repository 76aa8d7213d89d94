"""Where nothing can be recorded, status, doctor and the next session's start say so, and hooks end with 0."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import SmallDisk, _mount, _unmount
from tests.support.runner import Block, Project, page
from tests.support.sampling import every
from tests.support.world import World, call_hook, payload, world

from ralph.core import paths
from ralph.search import index

EVENTS = ("PostToolUse", "UserPromptSubmit", "PostToolUseFailure", "Stop", "SessionEnd")
SAID = "nothing can be recorded: "


def check_reported(here: World, why: str) -> None:
    ralph = Project(here.root)
    for event in EVENTS:
        assert call_hook(event, payload(event, prompt="x"), here.env).returncode == 0
    started = call_hook("SessionStart", payload("SessionStart", source="startup"), here.env)
    assert started.returncode == 0
    [line] = [part for part in started.stdout.decode().split("\\n") if SAID in part]
    assert why in line
    [line] = [line for line in ralph("status").out.splitlines() if SAID in line]
    assert why in line
    assert SAID in ralph("status", "--format", "json").json["recording_problem"]
    findings = ralph("doctor", "--format", "json").json["findings"]
    assert [each["code"] for each in findings].count("no-recording") == 1


def check_silent(here: World) -> None:
    ralph = Project(here.root)
    assert (
        SAID.encode()
        not in call_hook("SessionStart", payload("SessionStart", source="startup"), here.env).stdout
    )
    assert SAID not in ralph("status").out + ralph("doctor").out
    assert ralph("status", "--format", "json").json["recording_problem"] is None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return world(tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("part", every(["log", "log/sessions", "."], 2))
def test_a_file_in_place_of_the_log_folder_is_reported(here: World, part: str) -> None:
    check_silent(here)
    folder = paths.state_folder(here.root) / part
    shutil.rmtree(folder)
    folder.write_text("in the way", encoding="utf-8")
    check_reported(here, "not a directory")
    folder.unlink()
    check_silent(here)


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "disk"
    _mount(folder, "size=4m")
    try:
        here = world(folder)
        (here.root / ".agent").mkdir()
        (here.root / ".agent/memories.md").write_text(
            page(Block("Rotate tokens")), encoding="utf-8"
        )
        index.sync(here.root)
        disk = SmallDisk(folder)
        disk.fill()
        check_reported(here, "no space left")
        disk.free()
        check_silent(here)
    finally:
        _unmount(folder)


def test_a_read_only_disk_is_reported(
    freezable: tuple[Path, Callable[[], None]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder, freeze = freezable
    here = world(folder)
    check_silent(here)
    freeze()
    check_reported(here, "read-only file system")
