"""`ralph setup`: everything that a new user needs, with one confirmation."""

import json
import os
from pathlib import Path

import pytest
from tests.support.runner import Project
from tests.support.terminal_answers import call_at_terminal
from tests.support.transcripts import sessions, stored, work

CREATED = [
    ".agent/memories.md",
    ".ralph/guardrails.md",
    ".ralph/.gitignore",
    ".ralph/global-patterns.md",
    "ralph.yml",
    ".ralph/knowledge/",
    ".ralph/tasks/",
    ".claude/skills/",
    ".git/info/exclude",
]
PREVIEW = "Nothing was changed. Run again with --yes to make these changes.\n"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the folder of Claude Code, and no other agent."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    folder = Path(os.environ["HOME"])
    (folder / ".claude").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    return folder


def test_one_command_installs_sets_up_and_imports(ralph: Project, home: Path) -> None:
    work(ralph.root).write(home)
    said = ralph("setup", "--yes")
    assert said.code == 0
    assert "Installed for Claude Code.\n" in said.out
    assert f"  {home}/.claude/settings.json: 10 hooks added\n" in said.out
    assert f"Set up {ralph.root}.\n" in said.out
    assert "Imported 1 session (5 records).\n" in said.out
    assert "Next: start a new session of Claude Code in this project." in said.out
    assert sessions(ralph)
    assert ralph("doctor").code == 0


def test_the_plan_names_every_file_that_changes(ralph: Project, home: Path) -> None:
    work(ralph.root).write(home)
    before = stored(home.parent)
    said = ralph("setup", "--dry-run", "--format", "json")
    assert (said.json["done"], said.json["agents"]) == (False, ["claude"])
    assert said.json["project_files"] == CREATED
    assert said.json["sessions"] == {"claude": 1}
    shown = ralph("setup", "--dry-run").out
    assert f"  {home}/.gitconfig: would add merge driver for memory files\n" in shown
    assert f"  would create or change {', '.join(CREATED)}\n" in shown
    assert "  would import 1 earlier session (claude 1)\n" in shown
    after = stored(home.parent)
    assert {path for path in after if path.name != "machine-id"} == set(before)
    done = ralph("setup", "--yes", "--format", "json").json
    assert [done[name] for name in ("done", "imported", "proposals")] == [True, 1, 0]
    assert done["project_files"] == CREATED
    for name in CREATED:
        assert ralph.file(name).exists(), name


def test_a_second_run_changes_nothing(ralph: Project, home: Path) -> None:
    work(ralph.root).write(home)
    ralph("setup", "--yes")
    before = stored(home.parent)
    said = ralph("setup", "--yes")
    assert (said.code, said.out) == (0, "Nothing to do: everything is already set up.\n")
    assert stored(home.parent) == before


@pytest.mark.parametrize("first", ["install", "init"])
def test_what_is_already_done_is_left_out(ralph: Project, first: str) -> None:
    ralph(first)
    said = ralph("setup", "--dry-run")
    assert ("  nothing to do: already installed\n" in said.out) is (first == "install")
    assert ("  nothing to do: already set up\n" in said.out) is (first == "init")
    assert ralph("setup", "--yes").code == 0
    assert "already set up" in ralph("setup", "--yes").out


def test_sessions_can_be_left_out(ralph: Project, home: Path) -> None:
    work(ralph.root).write(home)
    assert "Imported" not in ralph("setup", "--yes", "--no-import").out
    assert "Imported 1 session" in ralph("setup", "--yes").out


@pytest.mark.parametrize(("answer", "is_done"), [("\n", True), ("n\n", False)], ids=["enter", "no"])
def test_on_a_terminal_it_asks_once(ralph: Project, home: Path, answer: str, is_done: bool) -> None:
    work(ralph.root).write(home)
    said = call_at_terminal(ralph.root, "setup", typed=answer)
    assert said.code == 0
    assert said.err.count("Make these changes?") == 1
    assert ("Imported 1 session" in said.out) is is_done
    assert ("Nothing was changed." in said.out) is not is_done
    assert ralph.file("ralph.yml").exists() is is_done
    assert (home / ".claude/settings.json").exists() is is_done


def test_without_a_terminal_it_is_a_preview_until_yes(ralph: Project, home: Path) -> None:
    before = stored(home.parent)
    said = ralph("setup")
    assert said.code == 0
    assert f"  {home}/.claude/settings.json: would add 10 hooks\n" in said.out
    assert said.out.endswith(PREVIEW)
    after = stored(home.parent)
    assert {path for path in after if path.name != "machine-id"} == set(before)
    assert "Installed for Claude Code." in ralph("setup", "--yes").out


def test_json_is_a_preview_until_yes_even_on_a_terminal(ralph: Project, home: Path) -> None:
    said = call_at_terminal(ralph.root, "setup", "--format", "json", typed="")
    planned = json.loads(said.out)
    assert (said.code, said.err, planned["done"]) == (0, "", False)
    assert f"{planned['notes'][-1]}\n" == PREVIEW
    assert not ralph.file("ralph.yml").exists()
    assert not (home / ".claude/settings.json").exists()
    assert ralph("setup", "--format", "json", "--yes").json["done"] is True
    assert ralph("setup", "--format", "json").json["notes"] == []


def test_without_a_project_only_the_agents_are_set_up(home: Path, tmp_path: Path) -> None:
    folder = Project(tmp_path / "plain")
    folder.root.mkdir()
    said = folder("setup", "--yes")
    assert (said.code, "Installed for Claude Code." in said.out) == (0, True)
    assert "not in a git repository" in said.err
    assert folder.files() == []
    assert Project(home)("setup", "--yes").code == 0
    assert not (home / "ralph.yml").exists()


def test_without_an_agent_only_the_project_is_set_up(ralph: Project, home: Path) -> None:
    (home / ".claude").rmdir()
    said = ralph("setup", "--yes")
    assert (said.code, f"Set up {ralph.root}." in said.out) == (0, True)
    assert "no coding agent was found" in said.err
    assert not (home / ".gitconfig").exists()


def test_without_both_there_is_nothing_to_set_up(home: Path, tmp_path: Path) -> None:
    (home / ".claude").rmdir()
    folder = Project(tmp_path / "plain")
    folder.root.mkdir()
    said = folder("setup", "--yes")
    assert (said.code, said.out) == (2, "")
    assert "nothing to set up" in said.err


def test_the_merge_driver_can_be_left_to_the_repository(ralph: Project, home: Path) -> None:
    shown = ralph("setup", "--dry-run", "--merge-driver", "repository").out
    assert ".git/config" in shown
    assert ".gitconfig" not in shown
    ralph("setup", "--yes", "--merge-driver", "repository")
    assert '[merge "ralph"]' in ralph.read(".git/config")
    assert not (home / ".gitconfig").exists()
    assert "already set up" in ralph("setup", "--yes").out


@pytest.mark.parametrize("others", [["codex"], []], ids=["another agent", "no other agent"])
def test_an_agent_with_a_broken_settings_file_is_left_out(
    ralph: Project, home: Path, others: list[str]
) -> None:
    for name in others:
        (home / f".{name}").mkdir()
    broken = home / ".claude/settings.json"
    broken.write_text("{,}", encoding="utf-8")
    assert ralph("setup", "--dry-run", "--format", "json").json["agents"] == others
    said = ralph("setup", "--yes")
    assert said.code == 0
    assert f"note: Claude Code is left out: {broken}: line 1: this is not JSON" in said.err
    assert "no coding agent was found" not in said.err
    assert ("Installed for Codex." in said.out) is bool(others)
    assert broken.read_text(encoding="utf-8") == "{,}"
    assert ralph.file("ralph.yml").exists()
    assert "is left out" in ralph("setup", "--yes").err


def test_a_problem_in_the_project_stops_it_before_the_settings_change(
    ralph: Project, home: Path, tmp_path: Path
) -> None:
    (ralph.root / ".agent").symlink_to(tmp_path)
    said = ralph("setup", "--yes")
    assert (said.code, said.out) == (1, "")
    assert "outside the project" in said.err
    assert not (home / ".claude/settings.json").exists()


@pytest.mark.parametrize("has_agent", [True, False], ids=["agent", "no agent"])
@pytest.mark.parametrize("place", ["user", "repository", "none"])
def test_the_config_of_the_repository_changes_only_if_the_plan_shows_it(
    ralph: Project, home: Path, place: str, has_agent: bool
) -> None:
    if not has_agent:
        (home / ".claude").rmdir()
    ralph.file(".gitattributes").write_text("/AGENTS.md merge=ralph\n", encoding="utf-8")
    planned = ralph("setup", "--merge-driver", place, "--dry-run", "--format", "json").json
    ralph("setup", "--merge-driver", place, "--yes")
    has_changed = ralph.file(".git/config").exists()
    assert (".git/config" in planned["project_files"]) is has_changed
    assert has_changed is (place == "repository" or (place == "user" and not has_agent))


def test_the_plan_shows_that_a_driver_that_cannot_start_is_replaced(ralph: Project) -> None:
    ralph.file(".gitattributes").write_text("/AGENTS.md merge=ralph\n", encoding="utf-8")
    broken = '[merge "ralph"]\n\tdriver = "/gone/ralph merge-driver %O %A %B %P %L"\n'
    ralph.file(".git/config").write_text(broken, encoding="utf-8")
    planned = ralph("setup", "--dry-run", "--format", "json").json
    assert ".git/config" in planned["project_files"]
    ralph("setup", "--yes")
    assert "/gone/ralph" not in ralph.read(".git/config")
