"""Programs that Ralph starts on Windows: their arguments, their children and their end."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.runner import Project, executable

from ralph.core import process
from ralph.core.process import is_alive, started_at
from ralph.loop import run_record, runs
from ralph.loop.criteria import command_argv

PATIENCE = 60  # seconds
NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)
CHILD = "import time; time.sleep(600)"
STARTS_A_CHILD = f"""\
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
print(child.pid, flush=True)
"""
SHOWS_ITS_ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"
AGENT = """\
import os, pathlib, sys, time
sys.stdin.read()
print("<journal>half way there</journal>", flush=True)
pathlib.Path("at-work").write_text(str(os.getpid()), encoding="utf-8")
time.sleep(600)
"""
LOOP = (
    "loop", "start", "make it work",
    "--agent", "command", "--command", f'"{sys.executable}" agent.py', "-c", "none",
)  # fmt: skip


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.fixture
def shop(tmp_path: Path) -> Project:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
    project = Project(root)
    project.put("ralph.yml", "ralph:\n  cooldown_ms: 0\n")
    project.put("agent.py", AGENT)
    return project


def test_a_child_started_at_once_ends_with_its_program(tmp_path: Path) -> None:
    ended = process.run(python(STARTS_A_CHILD), cwd=tmp_path, timeout=PATIENCE)
    assert ended.code == 0, ended
    assert started_at(int(ended.out)) == ""


def test_a_program_that_takes_too_long_ends_with_its_child(tmp_path: Path) -> None:
    printed: list[str] = []
    ended = process.run(
        python(STARTS_A_CHILD + "time.sleep(600)"),
        cwd=tmp_path,
        on_output=printed.append,
        stopped=lambda: "\n" in "".join(printed),
    )
    assert ended.stopped
    assert started_at(int("".join(printed))) == ""


def test_programs_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from ralph.core import process\n"
        f"process.run([sys.executable, '-c', {STARTS_A_CHILD + 'time.sleep(600)'!r}],\n"
        "    cwd=pathlib.Path('.'), on_output=lambda text: print(text, end='', flush=True))\n"
    )
    with subprocess.Popen(python(code), cwd=tmp_path, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        started = started_at(child)
        assert started
        parent.kill()
        parent.wait()
        assert parent.stdout.read() == b""  # closed when the last program has ended
    assert not is_alive(child, started)


def test_a_detached_program_outlives_the_job_in_which_it_was_started(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from ralph.core import process\n"
        "output = os.open('output', os.O_WRONLY | os.O_CREAT)\n"
        f"started = process.start_detached([sys.executable, '-c', {CHILD!r}],\n"
        "    cwd=pathlib.Path('.'), env=os.environ, output=output)\n"
        "started.returncode = 0\n"
        "print(started.pid)\n"
    )
    ended = process.run(python(code), cwd=tmp_path, timeout=PATIENCE)
    assert ended.code == 0, ended
    child = int(ended.out)
    started = started_at(child)
    assert started
    process.kill_processes([(child, started)])


def test_no_program_gets_a_console_window(tmp_path: Path) -> None:
    code = "import ctypes; print(ctypes.windll.kernel32.GetConsoleWindow())"
    assert process.run(python(code), cwd=tmp_path, timeout=PATIENCE).out.strip() == "0"


ARGUMENTS = ["plain", "two words", 'a "quote"', "a & b | c", "x^y", "back\\slash\\", "", "größe"]


def test_a_program_gets_its_arguments_unchanged(tmp_path: Path) -> None:
    ended = process.run([*python(SHOWS_ITS_ARGUMENTS), *ARGUMENTS], cwd=tmp_path, timeout=PATIENCE)
    assert json.loads(ended.out) == ARGUMENTS


def test_a_relative_program_is_found_in_the_folder_where_it_runs() -> None:
    interpreter = Path(sys.executable)
    folder = interpreter.parent
    words = [f"{folder.name}/{interpreter.name}", "-c", "print('found')"]
    ended = process.run(words, cwd=folder.parent, timeout=PATIENCE)
    assert ended.out.strip() == "found", ended


def test_a_program_in_the_current_folder_is_not_taken_for_one_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git.cmd").write_bytes(b"@echo from the clone\r\n")
    shutil.copy(sys.executable, tmp_path / "git.exe")
    monkeypatch.chdir(tmp_path)
    ended = process.run(["git", "--version"], cwd=tmp_path, timeout=PATIENCE)
    assert ended.missing
    assert ended.out == ""


# Wine's cmd expands variables even where Windows' cmd does not, so none has a percent sign.
BATCH_ARGUMENTS = ["plain", "two words", "a & b", 'a "quote" & more', "x^y"]


def show_arguments(folder: Path) -> Path:
    """Write a batch file that starts a program with its own arguments, as npm does."""
    (folder / "show.py").write_text(SHOWS_ITS_ARGUMENTS, encoding="utf-8")
    batch_file = folder / "show it.cmd"
    batch_file.write_bytes(f'@"{sys.executable}" "%~dp0show.py" %*\r\n'.encode())
    return batch_file


def test_a_batch_file_is_found_without_its_suffix_and_gets_its_arguments(tmp_path: Path) -> None:
    show_arguments(tmp_path).rename(tmp_path / "tool.cmd")
    path = f"{tmp_path};{os.environ['PATH']}"
    ended = process.run(
        ["tool", *BATCH_ARGUMENTS], cwd=tmp_path, env={**os.environ, "PATH": path}, timeout=PATIENCE
    )
    assert ended.code == 0, ended
    assert json.loads(ended.out) == BATCH_ARGUMENTS


def test_a_batch_file_gets_no_argument_with_several_lines(tmp_path: Path) -> None:
    (tmp_path / "tool.cmd").write_bytes(b"@echo started\r\n")
    path = f"{tmp_path};{os.environ['PATH']}"
    ended = process.run(["tool", "a\r\nb"], cwd=tmp_path, env={**os.environ, "PATH": path})
    assert ended.missing
    assert "several lines" in ended.err


def test_an_agent_with_streams_may_be_a_batch_file(tmp_path: Path) -> None:
    batch_file = show_arguments(tmp_path)

    async def output() -> bytes:
        words = [str(batch_file), *BATCH_ARGUMENTS]
        with (tmp_path / "errors").open("w", encoding="utf-8") as errors:
            async with process.start_async(words, tmp_path, os.environ, errors) as program:
                assert program.stdout is not None
                return await program.stdout.read()

    assert json.loads(asyncio.run(output())) == BATCH_ARGUMENTS


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 3", 3), ("echo one& exit 4", 4), (f'"{sys.executable}" -c "exit(5)"', 5)],
    ids=["builtin", "two commands", "a quoted program"],
)
def test_a_criterion_for_the_shell_is_run_by_cmd(tmp_path: Path, command: str, code: int) -> None:
    assert process.run(command_argv(command), cwd=tmp_path, timeout=PATIENCE).code == code


CTRL_C = "ctypes.windll.kernel32.GenerateConsoleCtrlEvent(0, 0)"
CTRL_BREAK = "signal.raise_signal(signal.SIGBREAK)"  # Wine's consoles do not send it
LOOP_THAT_IS_INTERRUPTED = """\
import ctypes, pathlib, signal, sys, threading, time
from ralph.cli.main import run
def interrupt():
    while not pathlib.Path("at-work").exists():
        time.sleep(0.05)
    {interrupt}
threading.Thread(target=interrupt, daemon=True).start()
sys.exit(run({words!r}))
"""


@pytest.mark.parametrize("interrupt", [CTRL_C, CTRL_BREAK], ids=["Ctrl+C", "Ctrl+Break"])
def test_a_loop_that_is_interrupted_ends_its_agent_and_can_be_resumed(
    shop: Project, interrupt: str
) -> None:
    code = LOOP_THAT_IS_INTERRUPTED.format(interrupt=interrupt, words=LOOP)
    ended = subprocess.run(
        python(code),
        cwd=shop.root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        creationflags=NO_WINDOW,
    )
    assert ended.returncode == 130, ended
    run_of_loop = runs.list_newest(shop.root)[0][0]
    assert run_of_loop.reason == "interrupted"
    (entry,) = run_record.journal_entries(shop.root, run_of_loop.id)
    assert entry.outcome.value == "interrupted"
    assert started_at(int(shop.read("at-work"))) == ""


def test_a_detached_loop_lives_on_until_it_is_stopped(shop: Project) -> None:
    said = executable(shop.root, *LOOP, "--detach")
    assert said.returncode == 0, said
    run_id = said.stdout.decode().strip()
    assert runs.is_alive(shop.root, runs.read(shop.root, run_id))
    assert shop("loop", "stop", "--now", run_id).code == 0
    assert shop("loop", "show", "--log", "-f", run_id).code == 0
    assert runs.read(shop.root, run_id).reason == "stopped"
