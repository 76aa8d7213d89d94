"""InstallTarget our hooks are, what they would start, and what went wrong with them."""

import json
import sys
from pathlib import Path

import pytest

from ralph.app import hook_state
from ralph.app import hosts as install
from ralph.app.hosts import HookProgram, Host, InstallScope, InstallTarget


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


def installs(root: Path, env: dict[str, str], host: Host, scope: InstallScope, *, plugin: bool = False) -> None:
    where = InstallTarget(host, scope, root, env, plugin)
    install.apply_plan(install.plan_install(where, install.hook_program(sys.executable)))


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
    ours = install.hook_program(sys.executable)
    assert {each.programs for each in found} == {(str(ours.interpreter), str(ours.runner))}
    assert codes(root, env) == []


def test_the_plugin_is_known_by_our_note(root: Path, env: dict[str, str]) -> None:
    installs(root, env, Host.CLAUDE, InstallScope.USER, plugin=True)
    assert [(each.host, each.scope) for each in hook_state.find_installed(root, env)] == [("claude", "plugin")]


def test_one_file_for_two_scopes_counts_once(env: dict[str, str]) -> None:
    home = Path(env["HOME"])
    installs(home, env, Host.CODEX, InstallScope.USER)
    assert [(each.host, each.scope) for each in hook_state.find_installed(home, env)] == [("codex", "user")]


def test_other_peoples_hooks_and_broken_files_are_none_of_ours(root: Path, env: dict[str, str]) -> None:
    claude = root / ".claude" / "settings.json"
    claude.parent.mkdir()
    claude.write_text('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}', encoding="utf-8")
    codex = root / ".codex" / "hooks.json"
    codex.parent.mkdir()
    codex.write_text("{ broken", encoding="utf-8")
    assert hook_state.find_installed(root, env) == ()


def test_hooks_that_start_what_is_gone_are_told_with_the_way_back(root: Path, env: dict[str, str]) -> None:
    gone = HookProgram(root / "old" / "python", root / "old" / "ralph" / "hooks" / "run.py")
    for host, scope in ((Host.CLAUDE, InstallScope.LOCAL), (Host.CODEX, InstallScope.USER)):
        install.apply_plan(install.plan_install(InstallTarget(host, scope, root, env), gone))
    found = {str(path): each for path, each in hook_state.find_problems(root, env)}
    local = found[str(root / ".claude" / "settings.local.json")]
    assert local.what == f"its hooks start {gone.interpreter}, which is gone"
    assert local.hint == "run `ralph install claude --scope local` again"
    assert found[f"{env['HOME']}/.codex/hooks.json"].code == "hook-program"
    noted = found[str(install.interpreter_file(env))]
    assert (noted.level, noted.code) == ("warning", "interpreter")


def test_a_missing_or_torn_note_for_the_plugin_is_told(root: Path, env: dict[str, str]) -> None:
    installs(root, env, Host.CLAUDE, InstallScope.USER, plugin=True)
    note = install.interpreter_file(env)
    note.write_text(f"{sys.executable}\n", encoding="utf-8")
    assert codes(root, env) == [("warning", "interpreter")]
    note.unlink()
    assert codes(root, env) == [("warning", "interpreter")]


def test_a_hook_that_somebody_edited_into_nonsense_stops_nothing(root: Path, env: dict[str, str]) -> None:
    installs(root, env, Host.CODEX, InstallScope.PROJECT)
    file = root / ".codex" / "hooks.json"
    shape = json.loads(file.read_text(encoding="utf-8"))
    for groups in shape["hooks"].values():
        groups[0]["hooks"][0]["command"] = "'unclosed /x/ralph/hooks/run.py"
    file.write_text(json.dumps(shape), encoding="utf-8")
    assert [each.programs for each in hook_state.find_installed(root, env)] == [()]
    assert codes(root, env) == []


def test_failures_are_told_until_they_are_set_back_and_then_counted_anew(root: Path, env: dict[str, str]) -> None:
    assert hook_state.reset_failures(root) is None
    for what in ("one", "cannot append: No space left on device"):
        assert hook_state.count_failure(root, "PostToolUse", what)
    ((path, problem),) = hook_state.find_problems(root, env)
    assert path == hook_state.failures_file(root)
    assert problem.what.startswith("hooks failed 2 time(s), last at 2")
    assert problem.what.endswith(": PostToolUse: cannot append: No space left on device")
    assert "\n" not in problem.what
    counted = hook_state.reset_failures(root)
    assert counted is not None
    assert counted.count == 2
    assert path.stat().st_size == 4096
    assert codes(root, env) == []
    assert hook_state.count_failure(root, "Stop", "again")
    assert [each.what.partition(",")[0] for _, each in hook_state.find_problems(root, env)] == [
        "hooks failed 1 time(s)"
    ]


def test_a_pause_is_a_note(root: Path, env: dict[str, str]) -> None:
    hook_state.pause_capture(root)
    ((path, problem),) = hook_state.find_problems(root, env)
    assert (path, problem.level) == (hook_state.pause_file(root), "note")
    assert "capture on" in problem.hint
