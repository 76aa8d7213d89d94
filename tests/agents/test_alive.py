"""Whether a process lives, and is the same; and who was left behind by one that was killed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ralph.agents import alive

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
SLEEPS = [sys.executable, "-c", "print('up', flush=True); input()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); input()",
]


def begun(command: list[str], **variables: str) -> "subprocess.Popen[bytes]":
    """A process that says a word and then waits."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **variables}, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def over(process: "subprocess.Popen[bytes]") -> int:
    """Its exit code; its pipes are closed."""
    with process:
        return process.wait(10)


def test_we_live_and_are_ourselves() -> None:
    pid, began = alive.here()
    assert pid == os.getpid()
    assert began
    assert alive.lives(pid, began)


def test_another_process_with_the_same_number_is_another_one() -> None:
    pid, began = alive.here()
    assert not alive.lives(pid, f"{began}0")
    assert not alive.lives(pid, ""), "who did not write down when it began is nobody"


def test_nobody_has_the_number_zero_or_less() -> None:
    assert [alive.born(pid) for pid in (0, -1, 2**30)] == ["", "", ""]


def test_a_process_that_has_ended_does_not_live_even_before_it_is_reaped() -> None:
    process = begun(SLEEPS)
    began = alive.born(process.pid)
    assert alive.lives(process.pid, began)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not alive.lives(process.pid, began)
    over(process)


def test_another_space_of_numbers_is_another_place() -> None:
    words = [sys.executable, "-c", "from ralph.agents import alive; print(alive.place())"]
    same = subprocess.run(words, capture_output=True, check=True, encoding="utf-8").stdout.strip()
    assert same == alive.place()
    if shutil.which("unshare") is None:
        pytest.skip("no sandbox can be made here")
    sandboxed = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", *words], capture_output=True, check=False, encoding="utf-8"
    )
    if sandboxed.returncode != 0:
        pytest.skip("no sandbox can be made here")
    assert sandboxed.stdout.strip() not in ("", same)


@needs_proc
def test_those_who_bear_a_variable_are_found_and_ended_and_nobody_else() -> None:
    ours, other, stubborn = (
        begun(SLEEPS, RALPH_RUN="run-1"),
        begun(SLEEPS, RALPH_RUN="run-12"),
        begun(STUBBORN, RALPH_RUN="run-1"),
    )
    found = alive.bearing("RALPH_RUN", "run-1")
    assert found.keys() == {ours.pid, stubborn.pid}
    alive.end(found)
    assert over(ours) == -15
    assert over(stubborn) == -9
    assert other.poll() is None
    other.kill()
    over(other)


@needs_proc
def test_we_and_our_ancestors_are_never_among_them() -> None:
    code = (
        "import os\nfrom ralph.agents import alive\n"
        "print(os.getpid() in alive.bearing('RALPH_RUN', 'run-1'), os.getppid() in alive.bearing('RALPH_RUN', 'run-1'))"
    )
    outer = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}], check=True)"
    done = subprocess.run(
        [sys.executable, "-c", outer], env={**os.environ, "RALPH_RUN": "run-1"}, capture_output=True, check=True
    )
    assert done.stdout.split() == [b"False", b"False"]


def test_nobody_to_end_takes_no_time_and_harms_nobody() -> None:
    alive.end({})
    alive.end({os.getpid(): "another birth"})
