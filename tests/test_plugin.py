"""The Claude Code plugin: its files agree with the package, and its launchers find Ralph or fail quietly.

The launchers run here as a host runs them, with a path that leads nowhere: they may start nothing but Ralph.
Whether Claude Code itself accepts the plugin is asked in `tests/e2e/`.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ralph
from ralph.cli.main import COMMANDS, HIDDEN
from ralph.install import slash_commands
from ralph.install.client_entries import hook_settings
from ralph.install.clients import CLIENTS, Host

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "plugin"
SHELLS = [shell for name in ("sh", "dash", "bash", "busybox") if (shell := shutil.which(name))]


HOOKS = "${CLAUDE_PLUGIN_ROOT}/hooks"


def command_of(event: str) -> str:
    """Return the command of an event, which a POSIX shell and PowerShell read differently.

    PowerShell skips what is between `<#` and `#>`. It passes everything after `--%` to `echo`, so
    that the single quotes mean nothing to it, and `out-null` discards that. To sh, the first single
    quotes enclose an argument of `:`, and what follows the second `#` is a comment.
    """
    posix = f'exec "{HOOKS}/ralph-hook" claude {event}'
    powershell = f'& "{HOOKS}/ralph-hook.ps1" claude {event}'
    return f"echo --% >/dev/null;: ' | out-null; <#'; {posix} #>; {powershell}"


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_manifest_has_the_packages_version_and_the_marketplace_leads_to_the_plugin() -> None:
    manifest, market = (
        load(PLUGIN / ".claude-plugin/plugin.json"),
        load(ROOT / ".claude-plugin/marketplace.json"),
    )
    assert (manifest["name"], manifest["version"]) == ("ralph", ralph.__version__)
    (entry,) = market["plugins"]
    assert entry["name"] == manifest["name"]
    assert (ROOT / entry["source"]).resolve() == PLUGIN
    assert f"claude plugin install {entry['name']}@{market['name']}" in (
        PLUGIN / "README.md"
    ).read_text(encoding="utf-8")


def test_the_plugin_listens_to_the_events_of_the_settings_hooks_with_the_same_time_for_each() -> (
    None
):
    hooks = load(PLUGIN / "hooks/hooks.json")["hooks"]
    assert list(hooks) == list(CLIENTS[Host.CLAUDE].events)
    for event, group in hook_settings(Host.CLAUDE, ["/ralph/bin/ralph-hook"]).items():
        assert isinstance(group, dict)
        assert hooks[event] == [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": command_of(event),
                        "timeout": group["hooks"][0]["timeout"],
                    }
                ]
            }
        ]


def test_the_plugins_commands_are_those_that_the_package_makes() -> None:
    there = {
        path.stem: path.read_text(encoding="utf-8") for path in (PLUGIN / "commands").iterdir()
    }
    assert there == {
        name: slash_commands.slash_command(name) for name in slash_commands.SLASH_COMMANDS
    }


@pytest.mark.parametrize("name", slash_commands.SLASH_COMMANDS)
def test_a_command_only_calls_what_ralph_has(name: str) -> None:
    assert set(
        re.findall(r"(?:`|\(|^)ralph ([a-z]+)", slash_commands.slash_command(name), re.MULTILINE)
    ) <= {*COMMANDS, *HIDDEN}


def test_the_launchers_can_be_started() -> None:
    for name in ("hooks/ralph-hook", "bin/ralph"):
        assert os.access(PLUGIN / name, os.X_OK), name
        assert (PLUGIN / name).read_bytes().startswith(b"#!/bin/sh\n")


# --- the launcher --------------------------------------------------------------------------------


class Launcher:
    """The plugin as somebody has it: their home, and an environment in which no other program is found."""

    def __init__(self, home: Path, shell: str) -> None:
        self.home = home
        self.words = [shell, "sh"] if shell.endswith("busybox") else [shell]
        self.env = {"HOME": str(home), "PATH": "/nowhere"}

    def __call__(
        self, *words: str, script: Path = PLUGIN / "hooks/ralph-hook"
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.words, str(script), *words],
            input='{"a": 1}', env=self.env, cwd=self.home, capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip

    def environment(self, folder: str, *, python: str = "python3.11") -> tuple[Path, Path]:
        """A virtual environment in which the interpreter only says how it was started."""
        interpreter = self.home / folder / "bin" / "python"
        runner = (
            self.home / folder / "lib" / python / "site-packages" / "ralph" / "hooks" / "run.py"
        )
        for path in (interpreter, runner):
            path.parent.mkdir(parents=True, exist_ok=True)
        interpreter.write_text('#!/bin/sh\nread -r line\necho "$0 $* $line"\n', encoding="utf-8")
        interpreter.chmod(0o755)
        runner.touch()
        return interpreter, runner

    def note(self, interpreter: Path, runner: Path, state: str = ".local/state") -> Path:
        """What `ralph install` writes for the launcher."""
        path = self.home / state / "ralph" / "interpreter"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{interpreter}\n{runner}\n", encoding="utf-8")
        return path


@pytest.fixture(params=SHELLS)
def launcher(request: pytest.FixtureRequest, tmp_path: Path) -> Launcher:
    home = tmp_path / "a home"
    home.mkdir()
    return Launcher(home, request.param)


def started(python: Path, runner: Path, event: str) -> tuple[int, str, str]:
    return 0, f'{python} -I -S {runner} claude {event} --plugin {{"a": 1}}\n', ""


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_the_noted_interpreter_gets_the_event_and_its_input(launcher: Launcher) -> None:
    noted = launcher.environment("elsewhere/venv")
    launcher.environment(".local/share/uv/tools/ralph-memory")
    launcher.note(*noted)
    assert outcome(launcher("claude", "PreToolUse")) == started(*noted, "PreToolUse")


def test_the_note_is_found_where_the_state_folder_is(launcher: Launcher) -> None:
    noted = launcher.environment("venv")
    launcher.note(*noted, state="my state")
    launcher.env["XDG_STATE_HOME"] = str(launcher.home / "my state")
    assert outcome(launcher("claude", "Stop")) == started(*noted, "Stop")


def test_the_command_in_the_manifest_runs_the_launcher_alone(launcher: Launcher) -> None:
    noted = launcher.environment("elsewhere/venv")
    launcher.note(*noted)
    done = subprocess.run(
        [*launcher.words, "-c", command_of("Stop")],
        input='{"a": 1}',
        env={**launcher.env, "CLAUDE_PLUGIN_ROOT": str(PLUGIN)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert outcome(done) == started(*noted, "Stop")


def test_an_upgrade_that_moved_run_py_within_its_environment_is_survived(
    launcher: Launcher,
) -> None:
    python, runner = launcher.environment("venv")
    launcher.note(python, runner)
    shutil.rmtree(runner.parents[4])
    moved = launcher.environment("venv", python="python3.14")
    assert moved[1] != runner
    assert outcome(launcher("claude", "Stop")) == started(*moved, "Stop")


@pytest.mark.parametrize(
    "place",
    [
        ".local/share/uv/tools/ralph-memory",
        ".local/share/pipx/venvs/ralph-memory",
        ".local/pipx/venvs/ralph-memory",
    ],
)
def test_without_a_note_or_with_a_stale_one_the_usual_places_are_tried(
    launcher: Launcher, place: str
) -> None:
    usual = launcher.environment(place)
    assert outcome(launcher("claude", "Stop")) == started(*usual, "Stop")
    launcher.note(launcher.home / "gone/bin/python", launcher.home / "gone/run.py")
    assert outcome(launcher("claude", "Stop")) == started(*usual, "Stop")
    usual[0].chmod(0o644)
    assert outcome(launcher("claude", "Stop")) == (0, "", "")


@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("name", ["ralph", "ralph-memory"])
def test_last_a_ralph_on_the_path_is_tried_and_other_programs_of_that_name_are_not(
    launcher: Launcher, name: str, quote: str
) -> None:
    ours = launcher.environment("my venv")
    folders = [launcher.home / folder for folder in ("binary", "other", "no file", "scripts")]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "ralph").write_bytes(b"\x7fELF\0\0\n\0")
    (folders[1] / "ralph").write_text("#!/usr/bin/env python3\nimport other\n", encoding="utf-8")
    (folders[2] / "ralph").mkdir()
    launcher.env["PATH"] = ":".join([".", "", str(PLUGIN / "bin"), *map(str, folders)])
    assert outcome(launcher("claude", "Stop")) == (0, "", "")
    line = (
        f"#!/bin/sh\n'''exec' {quote}{ours[0]}{quote} \"$0\" \"$@\"\n"
        if quote
        else f"#!{ours[0]}\n"
    )
    (folders[3] / name).write_text(f"{line}# -*- coding: utf-8 -*-\n", encoding="utf-8")
    assert outcome(launcher("claude", "Stop")) == started(*ours, "Stop")


@pytest.mark.parametrize("system", ["", "Windows_NT"], ids=["posix", "git bash"])
@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "UV_TOOL_DIR", "PIPX_HOME"])
def test_nothing_below_the_current_folder_is_run_because_a_variable_is_relative(
    launcher: Launcher, variable: str, system: str
) -> None:
    brought = launcher.environment("clone/ralph-memory")
    launcher.environment("clone/venvs/ralph-memory")
    launcher.note(*brought, state="clone")
    launcher.env |= {"OS": system, variable: "clone"}
    assert outcome(launcher("claude", "Stop")) == (0, "", "")


def test_nothing_below_the_current_folder_is_run_because_a_script_begins_like_it(
    launcher: Launcher,
) -> None:
    launcher.environment("import other")
    script = launcher.home / "scripts/ralph"
    script.parent.mkdir()
    script.write_text("import other\n", encoding="utf-8")
    launcher.env["PATH"] = str(script.parent)
    assert outcome(launcher("claude", "Stop")) == (0, "", "")


def test_without_ralph_only_the_start_of_a_session_says_so_in_one_line(launcher: Launcher) -> None:
    for event in CLIENTS[Host.CLAUDE].events:
        done = launcher("claude", event)
        assert (done.returncode, done.stderr) == (0, "")
        if event == "SessionStart":
            assert done.stdout.count("\n") == 1
            assert "not installed" in json.loads(done.stdout)["systemMessage"]
        else:
            assert done.stdout == ""


def advice(launcher: Launcher, plugin: Path) -> str:
    """Return what a session is told when Ralph is missing, which the plugin's command says as well."""
    done = launcher("claude", "SessionStart", script=plugin / "hooks/ralph-hook")
    said = str(json.loads(done.stdout)["systemMessage"]).partition("nothing is remembered. ")[2]
    assert launcher("status", script=plugin / "bin/ralph").stderr.endswith(f" {said}\n")
    return said


def copied_plugin(launcher: Launcher, marketplace: object) -> Path:
    """Copy the plugin as Claude Code does, with its note about the marketplace."""
    plugins = launcher.home / ".claude/plugins"
    copy = plugins / "cache/ralph-memory/ralph/0.1.0"
    shutil.copytree(PLUGIN, copy)
    other = {"installLocation": "/elsewhere"}
    notes = {"other": other, "ralph-memory": {"installLocation": marketplace}, "third": other}
    text = json.dumps(notes, indent=2)
    (plugins / "known_marketplaces.json").write_text(text, encoding="utf-8")
    return copy


def test_without_ralph_the_advice_names_the_clone_of_the_plugin(launcher: Launcher) -> None:
    command = f"To install it, run: uv tool install '{ROOT}[all]'"
    assert advice(launcher, PLUGIN) == command
    assert advice(launcher, copied_plugin(launcher, str(ROOT))) == command


def test_the_advice_names_pipx_where_it_is_the_only_tool(launcher: Launcher) -> None:
    tool = launcher.home / "tools" / "pipx"
    tool.parent.mkdir()
    tool.touch(0o755)
    launcher.env["PATH"] = str(tool.parent)
    assert advice(launcher, PLUGIN) == f"To install it, run: pipx install '{ROOT}[all]'"


@pytest.mark.parametrize("marketplace", ["", "/nowhere", "it's", 'a "quoted" name', None])
def test_without_a_clone_the_advice_leads_to_the_readme(
    launcher: Launcher, marketplace: object
) -> None:
    assert "README" in advice(launcher, copied_plugin(launcher, marketplace))


@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a\x1bb"], ids=["tab", "newline", "escape"])
def test_a_clone_whose_path_json_cannot_hold_is_not_named(
    launcher: Launcher, tmp_path: Path, name: str
) -> None:
    clone = tmp_path / name
    for file in ("pyproject.toml", "src/ralph/hooks/run.py"):
        (clone / file).parent.mkdir(parents=True, exist_ok=True)
        (clone / file).touch()
    shutil.copytree(PLUGIN, clone / "plugin")
    assert "README" in advice(launcher, clone / "plugin")


@pytest.mark.parametrize("noted", ["", "\n", "nonsense", "/\n/\n", "\n\n\n"])
def test_a_broken_note_is_no_note(launcher: Launcher, noted: str) -> None:
    launcher.note(Path("x"), Path("y")).write_text(noted, encoding="utf-8")
    assert outcome(launcher("claude", "Stop")) == (0, "", "")


@pytest.mark.parametrize("way", ["absolute", "relative"])
def test_launchers_reached_through_a_link_work(launcher: Launcher, way: str) -> None:
    python, runner = launcher.environment("venv")
    launcher.note(python, runner)
    for script in (PLUGIN / "hooks/ralph-hook", PLUGIN / "bin/ralph"):
        link = launcher.home / script.name
        link.symlink_to(script if way == "absolute" else os.path.relpath(script, link.parent))
        assert outcome(launcher("claude", "Stop", script=link)) == outcome(
            launcher("claude", "Stop", script=script)
        )
        assert launcher("claude", "Stop", script=link).stdout


def test_a_plugin_that_is_half_there_does_not_block(launcher: Launcher) -> None:
    alone = shutil.copy(PLUGIN / "hooks/ralph-hook", launcher.home / "ralph-hook")
    assert outcome(launcher("claude", "UserPromptSubmit", script=Path(alone))) == (0, "", "")
    launcher.env.pop("HOME")
    assert launcher("claude", "UserPromptSubmit").returncode == 0


def test_the_command_of_the_plugin_starts_the_same_ralph_isolated(launcher: Launcher) -> None:
    missing = launcher("status", script=PLUGIN / "bin/ralph")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "not installed" in missing.stderr
    python, runner = launcher.environment("venv")
    launcher.note(python, runner)
    found = launcher("search", "two words", "-", script=PLUGIN / "bin/ralph")
    assert outcome(found) == (0, f'{python} -I -m ralph search two words - {{"a": 1}}\n', "")
