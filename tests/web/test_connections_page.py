"""The page of connections: the clients, the next step, and the settings with their sources."""

import os
import sys
from pathlib import Path

import pytest
from tests.support import sample
from tests.support.asking import Site

from ralph.capture import recorder
from ralph.install import hosts, launcher_scripts, project
from ralph.install.clients import Host, InstallScope
from ralph.install.install_target import InstallTarget

PASSWORD = "Tz8VbN3eY6uHs1Jd"


@pytest.fixture
def recorded(tmp_path: Path) -> sample.Sample:
    """Return a project with sessions. It must be requested before `home`, because it needs git."""
    return sample.copied(tmp_path / "shop")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a home folder without any client, and without programs on the PATH."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_STATE_HOME", os.environ["XDG_STATE_HOME"])
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    """Return a project that is initialised."""
    folder = tmp_path / "project"
    folder.mkdir()
    project.init(folder)
    return folder


def _install(root: Path, host: Host) -> None:
    target = InstallTarget(host, InstallScope.USER, root, os.environ, mcp=None)
    program = launcher_scripts.running_program(sys.executable)
    hosts.apply_plan(hosts.plan_install([target], program))


def _next(root: Path) -> tuple[str, str]:
    """Return the title and the command of the next step."""
    step = Site(root).get("/api/setup")["next"]
    assert Site(root).get("/api/dashboard")["setup"] == step
    return step["title"], step["command"]


def test_a_folder_that_is_not_a_project_is_set_up_first(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    assert _next(folder) == ("This folder is not set up yet", "ralph setup")
    _install(folder, Host.CLAUDE)
    assert _next(folder) == ("This folder is not set up yet", "ralph init")


def test_a_folder_needs_no_setup_where_everything_is_recorded(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    _install(folder, Host.CLAUDE)
    monkeypatch.setenv("RALPH_CAPTURE_EVERYWHERE", "true")
    assert _next(folder) == ("No sessions yet", "")


def test_the_next_step_names_the_only_client_that_is_found(root: Path, home: Path) -> None:
    assert _next(root) == ("No coding agent is connected", "ralph install")
    (home / ".codex").mkdir()
    assert _next(root) == ("No coding agent is connected", "ralph install codex")
    (home / ".claude").mkdir()
    assert _next(root) == ("No coding agent is connected", "ralph install")


def test_a_connected_client_needs_a_session_and_no_command(root: Path) -> None:
    _install(root, Host.CODEX)
    step = Site(root).get("/api/setup")["next"]
    assert (step["title"], step["command"]) == ("No sessions yet", "")
    assert "/hooks" in step["text"]  # Codex must trust hooks before it runs them


def test_a_pause_is_the_next_step(root: Path) -> None:
    _install(root, Host.CLAUDE)
    recorder.pause_capture(root)
    assert _next(root) == ("Recording is paused", "ralph capture on")


def test_a_project_that_records_needs_nothing(recorded: sample.Sample, home: Path) -> None:
    _install(recorded.root, Host.CLAUDE)
    told = Site(recorded.root).get("/api/connections")
    assert told["next"] is None
    (client,) = [one for one in told["clients"] if one["host"] == "claude"]
    assert client["state"] == "recording"
    assert client["sessions"] > 0
    assert client["last_recorded_at"]
    assert client["files"] == ["~/.claude/settings.json"]
    assert client["command"] == ""


def test_each_client_has_its_state_and_the_command_that_repairs_it(root: Path, home: Path) -> None:
    _install(root, Host.CLAUDE)
    _install(root, Host.ZED)
    (home / ".gemini").mkdir()
    settings = home / ".claude" / "settings.json"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace("SessionEnd", "SessionGone"), encoding="utf-8")
    told = Site(root).get("/api/connections")
    found = {one["title"]: (one["state"], one["command"]) for one in told["clients"]}
    assert found["Claude Code"] == ("broken", "ralph doctor --fix")
    assert found["Gemini CLI"] == ("not connected", "ralph install gemini")
    assert "Codex" in told["others"]


def test_settings_name_their_source_and_mask_secrets(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "ralph.yml").write_text("memories:\n  budget: 700\n", encoding="utf-8")
    address = f"postgresql://ralph:{PASSWORD}@db.example.com/memory"
    monkeypatch.setenv("RALPH_TEAM_URL", address)
    told = Site(root).get("/api/connections")
    settings = {one["name"]: one for one in told["settings"]}
    assert settings["memories.budget"]["value"] == 700
    assert settings["memories.budget"]["from"] == "ralph.yml:2"
    assert settings["memories.budget"]["default"] is False
    assert settings["context.window"]["default"] is True
    assert settings["team.url"]["from"] == "RALPH_TEAM_URL"
    assert PASSWORD not in str(told)
    assert "db.example.com" in settings["team.url"]["value"]
