"""On Windows, agents start the interpreter itself, in a form that the shell of each of them reads."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.installs import MOVED, OURS, PLACES, at, install, tree, uninstall

from ralph.core.errors import Refused
from ralph.formats.host_files import is_ralph_hook, is_ralph_server, ralph_hooks
from ralph.hooks.handler import escape_non_ascii
from ralph.install import installations, launcher_scripts, merge_registration, shell_words
from ralph.install.client_entries import hook_settings, server_entry, status_line_entry
from ralph.install.clients import CLIENTS, HookForm, Host, InstallScope
from ralph.install.hosts import InstallPlan, plan_install
from ralph.install.install_target import InstallTarget
from ralph.install.launcher_scripts import HookProgram

PYTHON = r"C:\Users\ann\uv\Scripts\python.exe"
SCRIPT = r"C:\Users\ann\AppData\Local\ralph\bin\ralph-hook.py"
START = (PYTHON, "-I", "-S", SCRIPT)
ODD_PYTHON = "C:\\Users\\Jörg O'Neil & Söhne\\100%\\python.exe"
ODD_START = (ODD_PYTHON, "-I", "-S", SCRIPT)


def windows(home: Path, host: Host, scope: InstallScope = InstallScope.USER) -> InstallTarget:
    return replace(at(home, host, scope), platform="win32")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (tmp_path / "project").mkdir()
    return folder


def no_short_form(path: str) -> str:
    return path


def hook_of(host: Host, start: tuple[str, ...] = START) -> dict[str, Any]:
    entry = next(iter(hook_settings(host, start, "win32").values()))
    assert isinstance(entry, dict)
    found = entry.get("hooks", [entry])[0]
    assert isinstance(found, dict)
    return found


# --- command lines -------------------------------------------------------------------------------


def test_one_line_for_all_shells_has_no_quotes_and_bash_reads_the_same_words() -> None:
    line = shell_words.any_shell_line([*START, "codex", "Stop"])
    assert line == (
        r"C:\\Users\\ann\\uv\\Scripts\\python.exe -I -S "
        "C:/Users/ann/AppData/Local/ralph/bin/ralph-hook.py codex Stop"
    )
    assert shlex.split(line)[0] == PYTHON


def test_letters_of_any_language_need_no_quotes() -> None:
    line = shell_words.any_shell_line([r"C:\Users\Ünal 李".replace(" ", "") + r"\python.exe"])
    assert shlex.split(line) == [r"C:\Users\Ünal李\python.exe"]


@pytest.mark.parametrize(
    "folder",
    ["John Doe", "a&b", "100%", "O'Neil", "a(b)", "a$b", "a;b", "a`b", "a,b", "a^b", "a!b", 'a"b'],
)
def test_a_path_that_needs_quotes_is_shortened_or_refused(folder: str) -> None:
    words = [rf"C:\Users\{folder}\python.exe", "-I"]
    short = shell_words.any_shell_line(words, lambda _: r"C:\Users\JOHNDO~1\python.exe")
    assert short == r"C:\\Users\\JOHNDO~1\\python.exe -I"
    with pytest.raises(Refused, match="needs quotes"):
        shell_words.any_shell_line(words, no_short_form)


def test_only_the_names_that_need_it_are_shortened_so_that_the_entry_stays_ours() -> None:
    words = [PYTHON, r"C:\Users\John Doe\AppData\Local\ralph\bin\ralph-hook.py"]
    line = shell_words.any_shell_line(
        words, lambda _: r"C:\Users\JOHNDO~1\AppData\Local\ralph\bin\RALPH-~1.PY"
    )
    assert line.endswith(" C:/Users/JOHNDO~1/AppData/Local/ralph/bin/ralph-hook.py")
    assert is_ralph_hook({"command": line})


@pytest.mark.parametrize("program", [r"\\server\share\python.exe", "//server/share/python.exe"])
def test_a_program_on_a_share_is_refused_because_its_backslashes_cannot_be_doubled(
    program: str,
) -> None:
    with pytest.raises(Refused):
        shell_words.any_shell_line([program], no_short_form)


def test_powershell_takes_every_path_in_single_quotes() -> None:
    assert shell_words.powershell_line([ODD_PYTHON, "-I", "-S", SCRIPT, "gemini", "Stop"]) == (
        "& 'C:\\Users\\Jörg O''Neil & Söhne\\100%\\python.exe' -I -S "
        rf"'{SCRIPT}' gemini Stop"
    )
    assert shell_words.powershell_line(["C:\\a\u2019b\\p.exe"]) == "& 'C:\\a\u2019\u2019b\\p.exe'"


# --- what each client gets -----------------------------------------------------------------------


def test_claude_code_starts_the_interpreter_without_a_shell() -> None:
    hook = hook_of(Host.CLAUDE, ODD_START)
    assert hook["command"] == ODD_PYTHON
    assert hook["args"] == ["-I", "-S", SCRIPT, "claude", "SessionStart"]


def test_codex_may_use_powershell_or_cmd_and_gets_a_line_for_both() -> None:
    assert hook_of(Host.CODEX)["command"] == shell_words.any_shell_line(
        [*START, "codex", "SessionStart"]
    )
    with pytest.raises(Refused):
        hook_settings(Host.CODEX, ODD_START, "win32")


@pytest.mark.parametrize(
    ("host", "member"),
    [(Host.GEMINI, "command"), (Host.QWEN, "command"), (Host.COPILOT, "powershell")],
)
def test_clients_with_powershell_get_a_line_for_powershell(host: Host, member: str) -> None:
    hook = hook_of(host, ODD_START)
    assert hook[member].startswith("& 'C:\\Users\\Jörg O''Neil")
    assert hook.get("shell") == ("powershell" if host is Host.QWEN else None)


def test_the_status_line_works_in_git_bash_and_powershell() -> None:
    plain = status_line_entry(START, "win32")
    assert plain == {
        "type": "command",
        "command": "C:/Users/ann/uv/Scripts/python.exe -I -S "
        "C:/Users/ann/AppData/Local/ralph/bin/ralph-hook.py statusline",
    }
    odd = status_line_entry(ODD_START, "win32")
    assert odd["shell"] == "powershell"
    assert is_ralph_hook(plain)
    assert is_ralph_hook(odd)


@pytest.mark.parametrize("host", list(Host))
def test_every_entry_is_recognised_as_ours(host: Host) -> None:
    for entry in hook_settings(host, START, "win32").values():
        assert ralph_hooks(json.dumps({"hooks": {"Stop": [entry]}}))
    assert is_ralph_server(server_entry(host, (PYTHON, "-I", "-m", "ralph")))


# --- install and uninstall -----------------------------------------------------------------------


@pytest.mark.parametrize(("host", "scope"), PLACES)
def test_install_is_stable_and_uninstall_leaves_no_trace(
    home: Path, host: Host, scope: InstallScope
) -> None:
    where = replace(windows(home, host, scope), mcp=True)
    install(where)
    assert plan_install([where], OURS) == InstallPlan(())
    if CLIENTS[host].form is not HookForm.NONE:
        assert installations.has_entries(where)
    uninstall(where)
    assert tree(home) == {}
    assert tree(home.parent / "project") == {}


@pytest.mark.parametrize("host", [Host.CLAUDE, Host.GEMINI, Host.OPENCODE])
def test_after_a_move_every_entry_names_the_new_interpreter(home: Path, host: Host) -> None:
    where = replace(windows(home, host), mcp=True)
    install(where)
    assert not installations.outdated_entries(replace(where, program=OURS))
    assert installations.outdated_entries(replace(where, program=MOVED))
    install(where, MOVED)
    everything = b"".join(content or b"" for content in tree(home).values())
    assert str(OURS.interpreter).encode() not in everything


def test_no_shell_script_is_written(home: Path) -> None:
    install(windows(home, Host.CLAUDE))
    assert not [name for name, text in tree(home).items() if text and text.startswith(b"#!")]


@pytest.mark.parametrize("name", ["mem-search", "ralph"])
def test_slash_commands_have_no_heredoc(home: Path, name: str) -> None:
    install(windows(home, Host.CLAUDE))
    assert "<<'ralph-end" not in (home / f".claude/commands/{name}.md").read_text(encoding="utf-8")


# --- the launcher in Python ----------------------------------------------------------------------


def started(home: Path) -> tuple[int, str, str]:
    words = launcher_scripts.start_words({"HOME": str(home)}, running(), "win32").hook
    done = subprocess.run([*words, "claude", "Stop"], input=b"{}", capture_output=True, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def running(runner: str = "run.py") -> HookProgram:
    return HookProgram(Path(sys.executable), Path(runner))


def test_the_launcher_runs_the_noted_file_and_exits_with_0_without_it(home: Path) -> None:
    runner = home.parent / "an environment" / "run.py"
    runner.parent.mkdir()
    runner.write_text(
        "import sys; print(__name__, __file__, sys.argv, sys.stdin.read())", encoding="utf-8"
    )
    install(windows(home, Host.CLAUDE), running(str(runner)))
    printed = f"__main__ {runner} {[str(runner), 'claude', 'Stop']} {{}}\n"
    assert started(home) == (0, printed, "")
    runner.write_text("raise SystemExit(2)", encoding="utf-8")
    assert started(home) == (0, "", "")
    shutil.rmtree(runner.parent)
    assert started(home) == (0, "", "")
    launcher_scripts.interpreter_file({"HOME": str(home)}).unlink()
    assert started(home) == (0, "", "")


def test_an_answer_is_the_same_json_in_ascii() -> None:
    answer = {"context": 'größe "x" \\ 李 😀\n'}
    raw = json.dumps(answer, ensure_ascii=False).encode()
    escaped = escape_non_ascii(raw)
    assert escaped.isascii()
    assert json.loads(escaped) == answer
    assert escape_non_ascii(b'{"a": 1}') == b'{"a": 1}'


# --- the merge driver ----------------------------------------------------------------------------


def test_the_merge_drivers_command_has_slashes_and_survives_gits_shell(tmp_path: Path) -> None:
    command = merge_registration.driver_command([ODD_PYTHON, "-I", "-m", "ralph"])
    assert "\\" not in command
    words = shlex.split(command)
    assert words[:2] == ["sh", "-c"]
    assert words[3] == ODD_PYTHON.replace("\\", "/")
    program = tmp_path / "it's a & program"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 100\n', encoding="utf-8")
    program.chmod(0o755)
    if os.name == "posix":
        command = merge_registration.driver_command([str(program), "-I", "-m", "ralph"])
        done = subprocess.run(
            ["sh", "-c", command.replace("%O %A %B %P %L", "o a b 'p q' 7")],
            capture_output=True,
            check=True,
            encoding="utf-8",
        )
        assert done.stdout == "-I|-m|ralph|merge-driver|--clean-exit=100|o|a|b|p q|7|"
