"""InstallTarget our hooks are, what they would start, and what went wrong with them."""

import json
import sys
from pathlib import Path

import pytest

from ralph.capture import recorder
from ralph.core import launchers
from ralph.install import hook_state, hosts, launcher_scripts
from ralph.install.clients import Host, InstallScope
from ralph.install.install_target import InstallTarget


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in which hooks act."""
    folder = tmp_path / "project"
    (folder / ".ralph").mkdir(parents=True)
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of nobody."""
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home")}


def installs(
    root: Path, env: dict[str, str], host: Host, scope: InstallScope, *, plugin: bool = False
) -> None:
    where = InstallTarget(host, scope, root, env, plugin, mcp=None)
    hosts.apply_plan(hosts.plan_install([where], launcher_scripts.running_program(sys.executable)))


def codes(root: Path, env: dict[str, str]) -> list[tuple[str, str]]:
    return [(each.level, each.code) for _, each in hook_state.find_problems(root, env)]


def test_nothing_installed_is_nothing_odd(root: Path, env: dict[str, str]) -> None:
    assert hook_state.find_installed(root, env) == ()
    assert codes(root, env) == []
    assert hook_state.find_installed(root, {}) == ()
    assert codes(root, {}) == []


def test_hooks_are_found_in_each_hosts_own_settings(root: Path, env: dict[str, str]) -> None:
    installs(root, env, Host.CLAUDE, InstallScope.USER)
    installs(root, env, Host.CLAUDE, InstallScope.LOCAL)
    installs(root, env, Host.CODEX, InstallScope.USER)
    installs(root, env, Host.GEMINI, InstallScope.PROJECT)
    found = hook_state.find_installed(root, env)
    assert [(each.host, each.scope) for each in found] == [
        ("claude", "user"), ("claude", "local"), ("codex", "user"), ("gemini", "project"),
    ]  # fmt: skip
    assert codes(root, env) == []


def test_the_plugin_is_known_by_our_note(root: Path, env: dict[str, str]) -> None:
    installs(root, env, Host.CLAUDE, InstallScope.USER, plugin=True)
    assert [(each.host, each.scope) for each in hook_state.find_installed(root, env)] == [
        ("claude", "plugin")
    ]


def test_one_file_for_two_scopes_counts_once(env: dict[str, str]) -> None:
    home = Path(env["HOME"])
    installs(home, env, Host.CODEX, InstallScope.USER)
    assert [(each.host, each.scope) for each in hook_state.find_installed(home, env)] == [
        ("codex", "user")
    ]


def test_other_peoples_hooks_and_broken_files_are_none_of_ours(
    root: Path, env: dict[str, str]
) -> None:
    claude = root / ".claude" / "settings.json"
    claude.parent.mkdir()
    claude.write_text(
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}',
        encoding="utf-8",
    )
    codex = root / ".codex" / "hooks.json"
    codex.parent.mkdir()
    codex.write_text("{ broken", encoding="utf-8")
    assert hook_state.find_installed(root, env) == ()


def test_a_missing_or_torn_note_or_launcher_is_a_problem_once_for_all_hosts(
    root: Path, env: dict[str, str]
) -> None:
    installs(root, env, Host.CLAUDE, InstallScope.LOCAL)
    installs(root, env, Host.CODEX, InstallScope.USER)
    note, launcher = launcher_scripts.interpreter_file(env), launchers.launcher(env)
    for text in (f"{sys.executable}\n", "", "/gone/python\n/gone/run.py\n"):
        note.write_text(text, encoding="utf-8")
        assert codes(root, env) == [("warning", "launcher")]
    note.unlink()
    assert codes(root, env) == [("warning", "launcher")]
    installs(root, env, Host.CODEX, InstallScope.USER)
    launcher.chmod(0o644)
    assert codes(root, env) == [("warning", "launcher")]
    launcher.unlink()
    assert codes(root, env) == [("warning", "launcher")]


def test_hooks_of_an_earlier_version_that_start_what_is_gone_are_reported_and_repaired(
    root: Path, env: dict[str, str]
) -> None:
    file = root / ".claude" / "settings.local.json"
    file.parent.mkdir()
    hook = {
        "type": "command",
        "command": "/bin/sh",
        "args": ["-c", "x", "/old/python", "/old/ralph/hooks/run.py"],
    }
    file.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}), encoding="utf-8")
    problems = [(path, each) for path, each in hook_state.find_problems(root, env) if path == file]
    assert [each.what for _, each in problems] == [
        "its entries are not up to date (an update would update 10 hooks)"
    ]
    assert file in {
        repair.path: repair.what for repair in hook_state.repair_installation(root, env)
    }
    assert codes(root, env) == []
    assert "/old/python" not in file.read_text(encoding="utf-8")


def test_a_hook_that_somebody_edited_into_nonsense_stops_nothing(
    root: Path, env: dict[str, str]
) -> None:
    installs(root, env, Host.CODEX, InstallScope.PROJECT)
    file = root / ".codex" / "hooks.json"
    shape = json.loads(file.read_text(encoding="utf-8"))
    for groups in shape["hooks"].values():
        groups[0]["hooks"][0]["command"] = "'unclosed /x/ralph/bin/ralph-hook"
    file.write_text(json.dumps(shape), encoding="utf-8")
    assert len(hook_state.find_installed(root, env)) == 1
    assert codes(root, env) == [("note", "host-entry")]


@pytest.mark.parametrize("words", ["No space left on device", "no space left"])
def test_a_full_disk_is_named_in_the_advice_whoever_noticed_it(
    root: Path, env: dict[str, str], words: str
) -> None:
    assert recorder.count_failure(root, "PostToolUse", f"OSError: [Errno 28] {words}")
    ((_, problem),) = hook_state.find_problems(root, env)
    assert problem.hint.startswith("free some disk space")


def test_failures_are_told_until_they_are_set_back_and_then_counted_anew(
    root: Path, env: dict[str, str]
) -> None:
    assert recorder.reset_failures(root) is None
    for what in ("one", "cannot append: No space left on device"):
        assert recorder.count_failure(root, "PostToolUse", what)
    ((path, problem),) = hook_state.find_problems(root, env)
    assert path == recorder.failures_file(root)
    assert problem.what.startswith("hooks failed 2 time(s), last at 2")
    assert problem.what.endswith(": PostToolUse: cannot append: No space left on device")
    assert "\n" not in problem.what
    counted = recorder.reset_failures(root)
    assert counted is not None
    assert counted.count == 2
    assert path.stat().st_size == 4096
    assert codes(root, env) == []
    assert recorder.count_failure(root, "Stop", "again")
    assert [each.what.partition(",")[0] for _, each in hook_state.find_problems(root, env)] == [
        "hooks failed 1 time(s)"
    ]


def test_a_pause_is_a_note(root: Path, env: dict[str, str]) -> None:
    recorder.pause_capture(root)
    ((path, problem),) = hook_state.find_problems(root, env)
    assert (path, problem.level) == (recorder.pause_file(root), "note")
    assert "capture on" in problem.hint
