"""`ralph install` and `ralph uninstall` as people call them."""

import json
import os
from pathlib import Path

import pytest
from tests.support.runner import Project
from tests.support.terminal_answers import call_at_terminal

from ralph.lean import discovery


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of nobody, which exists, and no variable that leads elsewhere."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = Path(os.environ["HOME"])
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}/bin")
    return folder


def files(home: Path) -> list[Path]:
    """Return the files that an installation wrote; every command makes the machine id."""
    return sorted(path for path in home.rglob("*") if path.is_file() and path.name != "machine-id")


def test_install_says_what_it_changed_and_a_second_run_that_there_is_nothing_to_do(
    ralph: Project, home: Path
) -> None:
    first = ralph("install", "claude")
    assert (first.code, first.out.splitlines()[0]) == (0, "Installed for claude (user):")
    assert f"  {home}/.claude/settings.json: 10 hooks added" in first.out.splitlines()
    assert f"  {home}/.gitconfig: merge driver for memory files added" in first.out.splitlines()
    [commands] = [line for line in first.out.splitlines() if "/.claude/commands/: " in line]
    assert commands.startswith(f"  {home}/.claude/commands/: /mem-search, /mem-inject, ")
    assert "note: Running sessions" in first.err
    assert "note: Ralph is not set up here: run `ralph init`" in first.err
    second = ralph("install", "claude")
    assert (second.code, second.out) == (0, "Nothing to do for claude (user).\n")


def test_uninstall_says_what_it_took_out_and_a_second_run_that_there_is_nothing_to_do(
    ralph: Project, home: Path
) -> None:
    ralph("install", "claude", "--scope", "local")
    said = ralph("uninstall", "claude", "--scope", "local")
    assert said.out.splitlines()[:2] == [
        "Uninstalled for claude (local):",
        f"  {ralph.root}/.claude/settings.local.json: removed",
    ]
    assert [*files(home), *ralph.files()] == []
    assert not ralph.file(".claude").exists()
    again = ralph("uninstall", "claude", "--scope", "local")
    assert again.out == "Ralph is not installed for claude (local).\n"


def paths_in(out: str) -> list[str]:
    """Return the paths of a list of changes."""
    return [line.partition(": ")[0] for line in out.splitlines() if line.startswith("  ")]


def test_a_dry_run_says_what_would_happen_and_changes_nothing(ralph: Project, home: Path) -> None:
    dry = ralph("install", "codex", "--dry-run")
    assert dry.out.startswith("Would install for codex (user):\n")
    assert f"  {home}/.codex/hooks.json: would add 8 hooks\n" in dry.out
    assert files(home) == []
    assert paths_in(dry.out) == paths_in(ralph("install", "codex").out)
    before = [path.read_bytes() for path in files(home)]
    dry = ralph("uninstall", "codex", "--dry-run")
    assert f"  {home}/.codex/hooks.json: would remove\n" in dry.out
    assert [path.read_bytes() for path in files(home)] == before


def test_the_projects_settings_come_with_a_warning_about_paths_of_this_machine(
    ralph: Project,
) -> None:
    said = ralph("install", "claude", "--scope", "project")
    assert "paths of this machine" in said.err
    assert len(json.loads(ralph.read(".claude/settings.json"))["hooks"]) == 10
    assert ralph.read(".claude/commands/mem-status.md").startswith(
        "---\n# Written by `ralph install claude`"
    )


def test_a_broken_settings_file_is_named_with_its_line_and_stays(
    ralph: Project, home: Path
) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_bytes(b'{\n  "a": 1,\n}\n')
    for verb in ("install", "uninstall"):
        said = ralph(verb, "claude")
        assert (said.code, said.out) == (1, "")
        assert f"{path}: line 3: this is not JSON" in said.err
        assert "nothing was written" in said.err
    assert path.read_bytes() == b'{\n  "a": 1,\n}\n'
    assert files(home) == [path]


def test_a_broken_settings_file_does_not_keep_other_agents_from_being_installed(
    ralph: Project, home: Path
) -> None:
    (home / ".claude").mkdir()
    broken = home / ".gemini" / "settings.json"
    broken.parent.mkdir()
    broken.write_text("{,}", encoding="utf-8")
    said = ralph("install", "--yes")
    assert (said.code, installed(said.out)) == (0, ["claude"])
    assert f"note: Gemini CLI is left out: {broken}: line 1: this is not JSON" in said.err
    assert ralph("install", "claude", "gemini").code == 1
    assert broken.read_text(encoding="utf-8") == "{,}"


def installed(out: str) -> list[str]:
    [line] = [line for line in out.splitlines() if line.startswith("Installed for ")]
    return line.removeprefix("Installed for ").partition(" (")[0].split(", ")


def test_several_agents_are_installed_at_once(ralph: Project, home: Path) -> None:
    assert installed(ralph("install", "claude", "codex").out) == ["claude", "codex"]
    assert ralph("install", "--all").out == "Nothing to do for claude, codex (user).\n"
    assert ralph("install", "--all", "--format", "json").code == 2
    assert ralph("uninstall", "--all").code == 0
    assert files(home) == []


def test_uninstalling_everything_says_that_the_machine_id_stays(ralph: Project) -> None:
    path = Path(discovery.user_folder("STATE")) / "machine-id"
    assert discovery.machine_id()  # creates it
    assert f"note: {path} stays" in ralph("uninstall", "--all").err
    assert path.exists()


def test_without_a_name_it_installs_for_every_agent_that_is_there(
    ralph: Project, home: Path
) -> None:
    for words in ([], ["--all"]):
        said = ralph("install", *words)
        assert (said.code, said.out) == (2, "")
        assert "no agent was found in your home or on your PATH" in said.err
    (home / ".codex").mkdir()
    program = home / "bin" / "gemini"
    program.parent.mkdir()
    program.touch(0o755)
    assert installed(ralph("install").out) == ["codex", "gemini"]
    program.unlink()
    assert ralph("uninstall", "--all").code == 0
    assert files(home) == []


def test_all_is_uninstalled_in_every_scope_and_project_at_once(
    ralph: Project, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Project(tmp_path / "other")
    other.put(".claude/settings.json", '{"model": "x"}')
    for project, words in (
        (other, ["claude", "--scope", "project"]),
        (ralph, ["claude", "--scope", "local"]),
        (ralph, ["codex", "gemini"]),
        (ralph, ["claude", "--plugin"]),
    ):
        assert project("install", *words).code == 0
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    assert ralph("install", "codex").code == 0
    monkeypatch.delenv("CODEX_HOME")
    before = files(home)
    dry = ralph("uninstall", "--all", "--dry-run")
    assert f"  {home}/.local/state/ralph/bin/ralph-hook: would remove" in dry.out.splitlines()
    assert files(home) == before
    done = ralph("uninstall", "--all")
    assert done.out.splitlines()[0] == "Uninstalled for every agent:"
    assert paths_in(done.out) == paths_in(dry.out)
    assert [*files(home), *ralph.files()] == []
    assert other.read(".claude/settings.json") == '{"model": "x"}'
    assert not (home / "elsewhere").exists()
    assert ralph("uninstall", "--all").out == "Ralph is not installed for any agent.\n"


@pytest.mark.parametrize(
    "words",
    [
        ("uninstall",),
        ("install", "codex", "--all"),
        ("uninstall", "codex", "--all"),
        ("uninstall", "--all", "--scope", "project"),
        ("uninstall", "--all", "--plugin"),
        ("install", "emacs"),
        ("install", "codex", "--scope", "local"),
        ("uninstall", "gemini", "--plugin"),
        ("install", "claude", "--scope", "world"),
    ],
)
def test_wrong_words_are_wrong_usage(ralph: Project, words: tuple[str, ...]) -> None:
    assert ralph(*words).code == 2


def test_the_status_line_is_added_when_asked_for_and_an_existing_one_stays(
    ralph: Project, home: Path
) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    mine = '{\n  "model": "opus"\n}\n'
    settings.write_text(mine, encoding="utf-8")
    ralph("install", "claude")
    assert "statusLine" not in json.loads(settings.read_text(encoding="utf-8"))
    assert "status line added" in ralph("install", "claude", "--statusline").out
    line = json.loads(settings.read_text(encoding="utf-8"))["statusLine"]
    assert (line["type"], line["command"].endswith("/ralph/bin/ralph-hook statusline")) == (
        "command",
        True,
    )
    assert "Nothing to do" in ralph("install", "claude", "--statusline").out
    ralph("uninstall", "claude")
    assert settings.read_text(encoding="utf-8") == mine
    own = '{"statusLine": {"type": "command", "command": "my-line"}}\n'
    settings.write_text(own, encoding="utf-8")
    said = ralph("install", "claude", "--statusline")
    assert "already has a status line" in said.err
    assert json.loads(settings.read_text(encoding="utf-8"))["statusLine"]["command"] == "my-line"
    ralph("uninstall", "claude")
    assert settings.read_text(encoding="utf-8") == own
    assert ralph("install", "codex", "--statusline").code == 2


def test_the_list_says_what_each_agent_can_do_and_writes_nothing(
    ralph: Project, home: Path
) -> None:
    (home / ".cursor").mkdir()
    said = ralph("install", "--list")
    rows = {line.split()[0]: line for line in said.out.splitlines()}
    assert rows["host"].split() == [
        "host",
        "client",
        "found",
        "record",
        "start",
        "prompt",
        "tool",
        "mcp",
        "tested",
    ]
    assert rows["cursor"].split() == [
        "cursor",
        "Cursor",
        "yes",
        "yes",
        "yes",
        "-",
        "yes",
        "yes",
        "not",
        "run",
    ]
    listed = {each["host"]: each for each in ralph("install", "--list", "--format", "json").json}
    assert listed["zed"]["folder"] == f"{home}/.config/zed"
    assert [listed["zed"][name] for name in ("record", "start", "prompt", "tool", "mcp", "tested")] == [
        False, False, False, False, True, None,
    ]  # fmt: skip
    assert files(home) == []


def test_a_plugin_that_somebody_changed_stays(ralph: Project, home: Path) -> None:
    ralph("install", "opencode")
    plugin = home / ".config/opencode/plugins/ralph.js"
    changed = plugin.read_text(encoding="utf-8").replace("10000", "20000")
    plugin.write_text(changed, encoding="utf-8")
    assert f"note: {plugin} was changed or is not" in ralph("uninstall", "opencode").err
    assert plugin.read_text(encoding="utf-8") == changed


def test_a_client_with_mcp_alone_has_nothing_to_install_without_it(
    ralph: Project, home: Path
) -> None:
    said = ralph("install", "zed", "--no-mcp")
    assert "Zed has no hooks" in said.err
    assert files(home) == []


@pytest.mark.parametrize(
    ("answer", "is_installed"), [("\n", True), ("n\n", False)], ids=["enter", "no"]
)
def test_on_a_terminal_it_shows_the_changes_and_asks_once(
    ralph: Project, home: Path, answer: str, is_installed: bool
) -> None:
    said = call_at_terminal(ralph.root, "install", "claude", "codex", typed=answer)
    assert said.code == 0
    assert f"  {home}/.claude/settings.json: would add 10 hooks\n" in said.out
    assert f"  {home}/.gitconfig: would add merge driver for memory files\n" in said.out
    assert said.err.count("Make these changes?") == 1
    assert ("Nothing was changed." in said.out) is not is_installed
    assert (home / ".claude/settings.json").exists() is is_installed


def test_on_a_terminal_nobody_is_asked_with_yes_or_for_a_dry_run_or_for_nothing(
    ralph: Project,
) -> None:
    for words in (["--dry-run"], ["--yes"], []):
        said = call_at_terminal(ralph.root, "install", "claude", *words, typed="n\n")
        assert (said.code, "Make these changes?" in said.err) == (0, False)
    assert said.out == "Nothing to do for claude (user).\n"


DRIVER = '[merge "ralph"]'


def test_the_merge_driver_can_be_left_to_the_repositories(ralph: Project, home: Path) -> None:
    ralph("install", "claude")
    settings = home / ".gitconfig"
    assert DRIVER in settings.read_text(encoding="utf-8")
    said = ralph("install", "claude", "--merge-driver", "repository")
    assert f"  {settings}: merge driver for memory files removed\n" in said.out
    assert not settings.exists()
    assert "Nothing to do" in ralph("install", "claude").out, "the choice is remembered"
    assert "registered the merge driver in .git/config" in ralph("init").out
    assert DRIVER in ralph.read(".git/config")
    assert "Nothing to do" in ralph("init").out
    ralph("install", "claude", "--merge-driver", "user")
    assert DRIVER in settings.read_text(encoding="utf-8")
    assert ralph("uninstall", "--all").code == 0
    assert files(home) == []
    assert ralph.read(".git/config") == ""


def test_without_the_merge_driver_nothing_registers_it(ralph: Project, home: Path) -> None:
    ralph.put(".gitattributes", ".agent/memories.md merge=ralph\n")
    ralph("install", "claude", "--merge-driver", "none")
    said = ralph("init")
    assert "merge driver" not in said.out.partition("For a team")[0]
    assert not (home / ".gitconfig").exists()
    assert not ralph.file(".git/config").exists()
    assert "registered" in ralph("merge-driver", "--register").out.lower()


def test_the_merge_driver_belongs_to_the_users_settings(ralph: Project) -> None:
    said = ralph("install", "claude", "--scope", "project", "--merge-driver", "repository")
    assert (said.code, "requires --scope user" in said.err) == (2, True)
    assert ralph("install", "claude", "--merge-driver", "everywhere").code == 2
