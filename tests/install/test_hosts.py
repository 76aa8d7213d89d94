"""Installing writes our entries and nothing else; uninstalling gives back every byte that was there."""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.installs import MOVED, OURS, PLACES, at, install, tree, uninstall

from ralph.core import launchers
from ralph.core.errors import Conflict, NotFound, Refused, Unreadable, UsageError
from ralph.formats.host_files import has_current_hooks
from ralph.install import hosts, launcher_scripts, slash_commands
from ralph.install.client_entries import hook_settings
from ralph.install.clients import CLIENTS, HookForm, Host, InstallScope
from ralph.install.hosts import apply_plan, plan_install, plan_uninstall
from ralph.install.install_target import InstallTarget
from ralph.install.launcher_scripts import HookProgram

THEIRS_HOOK = {"type": "command", "command": "echo ralph/hooks/run.pyc"}
THEIRS = {"matcher": "Bash", "hooks": [THEIRS_HOOK]}
"""Each client with the scopes that it has."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def hooks_of(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_bytes().decode("utf-8-sig"))["hooks"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("scope", list(InstallScope))
@pytest.mark.parametrize("host", list(Host))
def test_install_and_uninstall_leave_no_trace_where_nothing_was(
    home: Path, root: Path, host: Host, scope: InstallScope
) -> None:
    where = at(home, host, scope)
    if scope is not InstallScope.USER and (host, scope) not in PLACES:
        with pytest.raises(UsageError, match=r"(local|project) settings"):
            install(where)
        return
    install(where)
    if CLIENTS[host].form in (HookForm.GROUPS, HookForm.ENTRIES):
        assert set(hooks_of(where.settings)) == set(CLIENTS[host].events)
    elif CLIENTS[host].form is not HookForm.NONE:
        assert str(home / ".local/state/ralph/bin/ralph-hook") in where.settings.read_text(
            encoding="utf-8"
        )
    uninstall(where)
    assert tree(home) == {}
    assert tree(root) == {}


def test_a_folder_that_was_there_stays_though_it_is_empty(home: Path) -> None:
    (home / ".claude" / "commands").mkdir(parents=True)
    (home / ".local" / "state" / "ralph").mkdir(parents=True)
    before = tree(home)
    install(at(home))
    uninstall(at(home))
    assert tree(home) == before


def test_other_peoples_files_and_settings_stay(home: Path) -> None:
    text = json.dumps({"model": "x", "hooks": {"Stop": [THEIRS]}}, indent=4).replace("\n", "\r\n")
    for name, content in {
        "settings.json": text,
        "commands/mem-search.md": "mine",
        "commands/x.md": "x",
    }.items():
        path = home / ".claude" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
    before = tree(home)
    plan = install(at(home))
    assert any("mem-search.md was changed or is not" in note for note in plan.notes)
    assert (home / ".claude/commands/mem-search.md").read_bytes() == b"mine"
    uninstall(at(home))
    assert tree(home) == before


def test_a_second_run_has_nothing_to_do(home: Path) -> None:
    install(at(home))
    before = tree(home)
    assert plan_install([at(home)], OURS) == hosts.InstallPlan(())
    assert tree(home) == before


def test_after_a_move_our_entries_are_replaced_and_nothing_else(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(b'{"hooks":{"Stop":[]}}')
    install(at(home))
    install(at(home), MOVED)
    assert str(OURS.interpreter) not in "".join(str(value) for value in tree(home).values())
    launcher = home / ".local/state/ralph/bin/ralph-hook"
    assert has_current_hooks(
        settings.read_text(encoding="utf-8"), hook_settings(Host.CLAUDE, [str(launcher)])
    )
    uninstall(at(home))
    assert settings.read_bytes() == b'{"hooks":{"Stop":[]}}'


def test_hooks_added_behind_ours_leave_ours_in_place(home: Path) -> None:
    install(at(home))
    settings = home / ".claude" / "settings.json"
    value = json.loads(settings.read_bytes())
    value["hooks"]["Stop"].append(THEIRS)
    settings.write_text(json.dumps(value), encoding="utf-8")
    assert plan_install([at(home)], OURS).edits == ()
    uninstall(at(home))
    assert hooks_of(settings)["Stop"] == [THEIRS]


def test_a_broken_file_stops_everything_before_the_first_write(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    for broken in ['{"a": 1,}', "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}']:
        settings.write_text(broken, encoding="utf-8")
        before = tree(home)
        with pytest.raises(Unreadable, match=r"settings\.json: line 1") as error:
            install(at(home))
        assert "nothing was written" in error.value.hint
        assert tree(home) == before


def test_a_file_that_changes_between_plan_and_write_is_left_alone(home: Path) -> None:
    plan = plan_install([at(home)], OURS)
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text("{}", encoding="utf-8")
    with pytest.raises(Conflict):
        apply_plan(plan)
    assert settings.read_text(encoding="utf-8") == "{}"


def test_a_command_that_was_changed_stays(home: Path) -> None:
    install(at(home))
    changed = home / ".claude" / "commands" / "mem-status.md"
    changed.write_text(changed.read_text(encoding="utf-8") + "and more\n", encoding="utf-8")
    plan = uninstall(at(home))
    assert any("mem-status.md" in note for note in plan.notes)
    assert set(tree(home)) == {".claude", ".claude/commands", ".claude/commands/mem-status.md"}


def test_the_hosts_own_variables_say_where_their_files_are(home: Path) -> None:
    elsewhere = {
        Host.CLAUDE: ("CLAUDE_CONFIG_DIR", "c", "c/settings.json"),
        Host.CODEX: ("CODEX_HOME", "x", "x/hooks.json"),
        Host.GEMINI: ("GEMINI_CLI_HOME", "g", "g/.gemini/settings.json"),
    }
    for host, (variable, folder, file) in elsewhere.items():
        where = at(home, host, env={variable: str(home / folder)})
        assert where.settings == home / file
        with pytest.raises(UsageError, match=variable):
            install(at(home, host, env={variable: "relative"}))
    with pytest.raises(UsageError, match="HOME"):
        install(InstallTarget(Host.CLAUDE, InstallScope.USER, home, {}))


def test_a_symbolic_link_is_followed_and_stays(home: Path) -> None:
    target = home / "dotfiles.json"
    target.write_text("{}\n", encoding="utf-8")
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").symlink_to(target)
    install(at(home))
    assert hooks_of(target)
    uninstall(at(home))
    assert (home / ".claude" / "settings.json").is_symlink()
    assert target.read_text(encoding="utf-8") == "{}\n"


def test_a_link_out_of_the_project_is_refused(home: Path, root: Path) -> None:
    (root / ".claude").mkdir()
    (home / "else.json").write_text("{}", encoding="utf-8")
    (root / ".claude" / "settings.json").symlink_to(home / "else.json")
    with pytest.raises(Refused):
        install(at(home, scope=InstallScope.PROJECT))
    assert (home / "else.json").read_text(encoding="utf-8") == "{}"


def test_the_interpreter_is_noted_until_the_last_installation_is_gone(
    home: Path, root: Path
) -> None:
    noted = home / ".local" / "state" / "ralph" / "interpreter"
    install(at(home))
    install(at(home, Host.CODEX))
    assert noted.read_text(encoding="utf-8") == f"{OURS.interpreter}\n{OURS.runner}\n"
    uninstall(at(home))
    assert noted.exists()
    assert set(tree(home)) & {".claude", ".codex"} == {".codex"}
    uninstall(at(home, Host.CODEX))
    assert tree(home) == {}


def test_for_the_plugin_only_the_interpreter_is_noted(home: Path, tmp_path: Path) -> None:
    where = InstallTarget(
        Host.CLAUDE,
        InstallScope.USER,
        home,
        {"HOME": str(home), "XDG_STATE_HOME": str(tmp_path / "s")},
        plugin=True,
    )
    install(where)
    assert tree(home) == {}
    assert (tmp_path / "s" / "ralph" / "interpreter").exists()
    uninstall(where)
    assert not (tmp_path / "s").exists()
    with pytest.raises(UsageError, match="no plugin"):
        install(
            InstallTarget(Host.CODEX, InstallScope.USER, home, {"HOME": str(home)}, plugin=True)
        )


def _words(host: Host, hook: Mapping[str, Any]) -> list[str]:
    if host is Host.CLAUDE:
        return [hook["command"], *hook["args"]]
    assert "args" not in hook
    return ["sh", "-c", hook["command"]]


PRINTING = "import sys; print(__name__, __file__, sys.argv, sys.stdin.read())"


def environment(folder: Path, version: str = "3.11") -> HookProgram:
    """An environment whose interpreter is ours and whose run.py prints how it was started."""
    runner = folder / "lib" / f"python{version}" / "site-packages" / "ralph" / "hooks" / "run.py"
    runner.parent.mkdir(parents=True)
    runner.write_text(PRINTING, encoding="utf-8")
    python = folder / "bin" / "python"
    python.parent.mkdir(exist_ok=True)
    if not python.is_symlink():
        python.symlink_to(sys.executable)
    return HookProgram(python, runner)


def started(host: Host, hook: Mapping[str, Any]) -> tuple[int, str, str]:
    env = {"python": "/no/python", "runner": "/no/run.py", "note": "/no/note"}
    done = subprocess.run(
        _words(host, hook), input=b"{}", capture_output=True, check=False, env=env
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def hooks_in(where: InstallTarget) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each hook of a client that a process starts, with the event that it names."""
    client = CLIENTS[where.host]
    for event, ours in client.events.items():
        if client.form is HookForm.SCRIPTS:
            yield ours, {"command": shlex.quote(str(where.settings.parent / event))}
        else:
            [entry] = hooks_of(where.settings)[event]
            yield ours, entry.get("hooks", [entry])[0]


@pytest.mark.parametrize(
    "host", [host for host in Host if CLIENTS[host].form not in (HookForm.NONE, HookForm.PLUGIN)]
)
def test_a_written_hook_runs_the_file_with_its_input_and_never_fails_without_it(
    host: Host, tmp_path: Path
) -> None:
    home = tmp_path / "it's a home"
    home.mkdir()
    ours = environment(tmp_path / "it's a place")
    install(at(home, host), ours)
    for event, hook in hooks_in(at(home, host)):
        assert hook.get("timeout", 2000) >= (2000 if host is Host.GEMINI else 2)
        printed = f"__main__ {ours.runner} {[str(ours.runner), host.value, event]} {{}}\n"
        assert started(host, hook) == (0, printed, "")
    shutil.rmtree(ours.runner.parents[4])  # another Python version in the same environment
    moved = environment(tmp_path / "it's a place", "3.14").runner
    assert started(host, hook) == (
        0,
        f"__main__ {moved} {[str(moved), host.value, event]} {{}}\n",
        "",
    )
    shutil.rmtree(tmp_path / "it's a place")  # `uv tool uninstall`
    assert started(host, hook) == (0, "", "")
    (home / ".local/state/ralph/interpreter").unlink()
    assert started(host, hook) == (0, "", "")


def test_a_hook_is_a_path_a_host_and_an_event_which_a_person_can_read(home: Path) -> None:
    install(at(home, Host.CODEX))
    for event, [group] in hooks_of(at(home, Host.CODEX).settings).items():
        assert (
            group["hooks"][0]["command"]
            == f"{home}/.local/state/ralph/bin/ralph-hook codex {event}"
        )


def test_the_launcher_of_the_command_starts_ralph_isolated_and_says_when_it_is_gone(
    home: Path, tmp_path: Path
) -> None:
    install(at(home), launcher_scripts.running_program(sys.executable))
    launcher = launchers.launcher({"HOME": str(home)}, launchers.COMMAND_LAUNCHER)
    (tmp_path / "ralph.py").write_text("raise SystemExit(9)", encoding="utf-8")
    done = subprocess.run(
        [launcher, "--version"], cwd=tmp_path, capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout.startswith("ralph ")
    launcher_scripts.interpreter_file({"HOME": str(home)}).write_text(
        "/gone/python\n/gone/run.py\n", encoding="utf-8"
    )
    done = subprocess.run(
        [launcher, "mcp", "serve"], capture_output=True, check=False, encoding="utf-8"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "reinstall the package ralph-memory" in done.stderr


def test_gemini_is_not_given_a_path_that_it_would_expand() -> None:
    with pytest.raises(Refused, match=r"\$"):
        hook_settings(Host.GEMINI, ["/opt/$HOME/ralph/bin/ralph-hook"])


def test_the_program_is_the_running_interpreter_of_its_environment() -> None:
    found = launcher_scripts.running_program(sys.executable)
    assert found.interpreter == Path(sys.executable)
    assert found.runner.parts[-3:] == ("ralph", "hooks", "run.py")
    with pytest.raises(NotFound):
        launcher_scripts.running_program("")


HOSTILE = 'it\'s $(touch pwned) `id` "q" ; exit 3'


@pytest.mark.parametrize(
    "typed",
    [
        HOSTILE,
        f"{HOSTILE}\nRALPH_END_OF_WORDS\nexit 3",
        f"x\nralph-end-{'0' * 32}\nexit 3",
        "x\nEOF\nexit 3",
    ],
)
@pytest.mark.parametrize("name", slash_commands.SLASH_COMMANDS)
def test_what_a_person_typed_reaches_no_shell_as_code(home: Path, name: str, typed: str) -> None:
    install(at(home))
    body = (home / f".claude/commands/{name}.md").read_text(encoding="utf-8")
    ralph = str(home / ".local/state/ralph/bin/ralph")
    for block in body.split("```!")[1:]:
        script = block.partition("```")[0]
        given = typed if "$ARGUMENTS" in script else ""
        given_to_ralph = script.replace(ralph, "show").replace("$ARGUMENTS", given)
        done = subprocess.run(
            ["sh", "-c", f"show() {{ cat; }}\n{given_to_ralph}"],
            input=b"",
            capture_output=True,
            check=True,
        )
        assert done.stdout.decode().strip() == given
    assert "!`" not in body


@pytest.mark.parametrize("name", slash_commands.SLASH_COMMANDS)
def test_in_the_plugin_what_a_person_typed_is_part_of_no_script(name: str) -> None:
    body = slash_commands.slash_command(name)
    for block in body.split("```!")[1:]:
        assert "$ARGUMENTS" not in block.partition("```")[0]
    assert "!`" not in body


def delimiters(home: Path) -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (home / ".claude/commands").iterdir()]
    return {found for text in texts for found in re.findall(r"<<'(ralph-end-\w+)'", text)}


def test_each_installation_has_a_delimiter_of_its_own_and_keeps_it(home: Path) -> None:
    install(at(home))
    [first] = delimiters(home)
    assert plan_install([at(home)], OURS).edits == ()
    install(at(home), MOVED)
    assert delimiters(home) == {first}
    uninstall(at(home))
    assert not (home / ".claude/commands").exists()
    install(at(home))
    [second] = delimiters(home)
    assert second != first


def test_slash_commands_of_an_earlier_version_are_updated_and_removed(home: Path) -> None:
    install(at(home))
    [delimiter] = delimiters(home)
    for path in (home / ".claude/commands").iterdir():
        text = path.read_text(encoding="utf-8").replace(delimiter, "RALPH_END_OF_WORDS")
        path.write_text(slash_commands.sign_text(unsigned(text)), encoding="utf-8")
    assert delimiters(home) == set()
    install(at(home))
    assert len(delimiters(home)) == 1
    uninstall(at(home))
    assert not (home / ".claude/commands").exists()


def unsigned(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if "Written by `ralph install" not in line)


# --- permissions ---------------------------------------------------------------------------------


@pytest.fixture
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
@pytest.mark.parametrize("_umask", [0o000, 0o022, 0o077, 0o777], indirect=True)
@pytest.mark.parametrize(("host", "scope"), PLACES)
def test_whatever_is_created_is_its_owners_alone(
    home: Path, host: Host, scope: InstallScope
) -> None:
    (home.parent / "project").mkdir(exist_ok=True)
    (home.parent / "project").chmod(0o755)
    before = {home, home.parent / "project"}
    install(replace(at(home, host, scope), mcp=True))
    created = {path for folder in before for path in folder.rglob("*")}
    assert len(created) > 5
    for path in created:
        mode = stat.S_IMODE(path.lstat().st_mode)
        is_program = path.is_dir() or os.access(path, os.X_OK)
        assert (str(path), oct(mode)) == (str(path), oct(0o700 if is_program else 0o600))


def test_a_settings_file_keeps_its_permissions(home: Path) -> None:
    settings = home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text("{}", encoding="utf-8")
    settings.chmod(0o640)
    install(at(home))
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640


def test_launchers_that_others_can_change_are_restricted(home: Path) -> None:
    install(at(home))
    state = home / ".local/state/ralph"
    places = [state, state / "bin", state / "interpreter", state / "bin/ralph-hook"]
    for place in places:
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in places}
        place.chmod(0o777)
        assert "other users can change" in launcher_scripts.launcher_problem(at(home).env)
        install(at(home))
        assert {path: stat.S_IMODE(path.stat().st_mode) for path in places} == modes


@pytest.mark.parametrize("name", ["ralph", "ralph-hook"])
@pytest.mark.parametrize("way", ["absolute", "relative", "two links"])
def test_a_launcher_reached_through_a_link_works(
    home: Path, tmp_path: Path, name: str, way: str
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$0 $*"\n', encoding="utf-8")
    python.chmod(0o755)
    runner = tmp_path / "run.py"
    runner.touch()
    install(at(home), HookProgram(python, runner))
    launcher = home / ".local/state/ralph/bin" / name
    link = home / "my programs" / name
    link.parent.mkdir()
    if way == "relative":
        link.symlink_to(os.path.relpath(launcher, link.parent))
    else:
        link.symlink_to(launcher)
    if way == "two links":
        second = home / name
        second.symlink_to(f"my programs/{name}")
        link = second
    outcomes = []
    for program in (launcher, link):
        done = subprocess.run(
            [program, "claude", "Stop"], env={"PATH": "/nowhere"}, capture_output=True, check=True
        )
        outcomes.append((done.stdout, done.stderr))
    assert outcomes[0][0].startswith(os.fsencode(python))
    assert outcomes[0] == outcomes[1]


# --- signatures ----------------------------------------------------------------------------------


def test_a_signature_tells_a_file_of_ours_from_a_changed_one() -> None:
    body = slash_commands.sign_text(slash_commands.slash_command("mem-search"))
    assert slash_commands.is_signed(body)
    assert not slash_commands.is_signed(body.replace("Ralph", "Rolf"))
    assert not slash_commands.is_signed(slash_commands.slash_command("mem-search"))


def test_uninstalling_writes_nothing_behind_a_link_that_leads_nowhere(home: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.symlink_to(home / "elsewhere.json")
    assert plan_uninstall(at(home)).edits == ()
