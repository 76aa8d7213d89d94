"""With plugin and settings hooks both present each event is handled once; one alone is enough."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hooks.world import HOOKS, World, payload, world

STUB = str(HOOKS / "run.py")


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def called(here: World, *words: str, **env: str) -> None:
    """One event, as the host or the plugin's launcher starts it."""
    command = [sys.executable, "-I", "-S", STUB, "claude", "PostToolUse", *words]
    done = subprocess.run(command, input=payload(), env=here.env | env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def hooked(
    path: Path,
    runner: str,
    *,
    indent: int | None = 2,
    interpreter: str = sys.executable,
    event: str = "PostToolUse",
) -> None:
    """Settings with our hook, among other things."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hook = {"type": "command", "command": interpreter, "args": ["-I", "-S", "-c", "x", runner, "claude", event]}
    settings = {"model": "x", "hooks": {event: [7, {"hooks": [{"command": "other.sh"}, hook]}]}, "z": "é" * 20_000}
    path.write_text(json.dumps(settings, indent=indent), encoding="utf-8")


def places(here: World) -> list[Path]:
    project = here.root / ".claude"
    return [here.home / ".claude" / "settings.json", project / "settings.json", project / "settings.local.json"]


def test_the_plugin_alone_handles_an_event(here: World) -> None:
    called(here, "--plugin")
    assert len(here.lines()) == 1


@pytest.mark.parametrize("number", [0, 1, 2])
def test_with_a_hook_in_the_settings_each_event_is_recorded_once(here: World, number: int) -> None:
    hooked(places(here)[number], STUB, indent=number or None)
    called(here, "--plugin")
    assert here.lines() == []
    called(here)
    assert len(here.lines()) == 1


def test_the_folder_of_the_hosts_settings_may_be_another(here: World, tmp_path: Path) -> None:
    hooked(tmp_path / "conf" / "settings.json", STUB)
    called(here, "--plugin", CLAUDE_CONFIG_DIR=str(tmp_path / "conf"))
    assert here.lines() == []
    hooked(places(here)[0], STUB)
    called(here, "--plugin", CLAUDE_CONFIG_DIR=str(tmp_path / "none"))
    assert len(here.lines()) == 1


@pytest.mark.parametrize("runner", ["/nowhere/ralph/hooks/run.py", "ralph/hooks/run.py", "other/hooks/run.py"])
def test_a_hook_that_starts_nothing_does_not_count(here: World, runner: str) -> None:
    for path in places(here):
        hooked(path, runner)
    called(here, "--plugin")
    assert len(here.lines()) == 1


@pytest.mark.parametrize(
    "text", ["", "{", 'ralph/hooks/run.py"', '"\\x ralph/hooks/run.py"', '"/\\u0000ralph/hooks/run.py"']
)
def test_settings_that_nobody_can_read_do_not_count(here: World, text: str) -> None:
    places(here)[0].parent.mkdir()
    places(here)[0].write_text(text, encoding="utf-8")
    places(here)[1].parent.mkdir()
    places(here)[1].mkdir()
    called(here, "--plugin")
    assert len(here.lines()) == 1


def test_a_path_with_signs_that_json_escapes_is_found(here: World, tmp_path: Path) -> None:
    runner = tmp_path / 'né "x"' / "ralph" / "hooks" / "run.py"
    runner.parent.mkdir(parents=True)
    runner.touch()
    hooked(places(here)[0], str(runner))
    called(here, "--plugin")
    assert here.lines() == []


@pytest.mark.parametrize("interpreter", ["/nowhere/bin/python", "python", "", "/dev/null", "/a\0b", "/\ud800"])
def test_a_hook_whose_interpreter_is_gone_does_not_count(here: World, interpreter: str) -> None:
    hooked(places(here)[0], STUB, interpreter=interpreter)
    called(here, "--plugin")
    assert len(here.lines()) == 1


def test_a_hook_for_another_event_does_not_count(here: World) -> None:
    hooked(places(here)[0], STUB, event="Stop")
    called(here, "--plugin")
    assert len(here.lines()) == 1


@pytest.mark.parametrize("words", [["--other"], ["--plugin", "more"], ["more", "--plugin"]])
def test_other_words_are_nothing_to_us(here: World, words: list[str]) -> None:
    called(here, *words)
    assert here.lines() == []
