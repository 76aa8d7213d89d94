"""Loops as processes: Ctrl-C once and twice, words on a terminal, requests from elsewhere, and a life without one.

The agent is a program that says that it is there and then waits for ever, so that every signal finds it at work.
Nothing here waits for a time: each step waits for a line, for a file that somebody writes, or for an end.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.runner import Project, executable, terminal

from ralph.core import paths
from ralph.core.process import is_alive, started_at
from ralph.core.work import RunStatus
from ralph.loop import run_record, runs
from ralph.loop.state import Run
from ralph.storage import task_files

AGENT = """\
import os, sys, time
asked = sys.stdin.read()
with open("asked.txt", "a", encoding="utf-8") as file:
    file.write(f"{os.getpid()}\\n")
print("<journal>half way there</journal>\\nat work", flush=True)
if "GO ON" not in asked:
    time.sleep(600)
print("<promise>COMPLETE</promise>")
"""
PATIENCE = 60
OWNS = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, sys.argv[1:])
"""
"""Makes its standard input the terminal that its signals come from, and becomes another program."""
START = (
    "loop",
    "start",
    "make it work",
    "--agent",
    "command",
    "--command",
    f"{sys.executable} agent.py",
    "-c",
    "none",
)


@pytest.fixture
def shop(ralph: Project) -> Project:
    ralph.put("ralph.yml", "ralph:\n  cooldown_ms: 0\n")
    ralph.put("agent.py", AGENT)
    return ralph


class Loop:
    """A `ralph loop` in a process of its own, and what it prints."""

    def __init__(self, root: Path, *words: str, stdin: int = subprocess.DEVNULL) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ralph", *words], cwd=root, stdin=stdin, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env={**os.environ, "NO_COLOR": "1"}, start_new_session=True,
        )  # fmt: skip
        self.seen = b""

    def until(self, word: bytes) -> None:
        """Read until it has printed this since the last time."""
        assert self.process.stdout is not None
        before = len(self.seen)
        while word not in self.seen[before:]:
            piece = os.read(self.process.stdout.fileno(), 4096)
            assert piece, f"it ended before it said {word!r}: {self.seen!r}"
            self.seen += piece

    def end(self) -> int:
        """Its exit code; the rest that it prints is read."""
        assert self.process.stdout is not None
        self.seen += self.process.stdout.read()
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        """Make sure that it is gone, and all that it started."""
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextlib.contextmanager
def running(shop: Project, *words: str, stdin: int = subprocess.DEVNULL) -> Iterator[Loop]:
    """A loop whose agent is at work."""
    loop = Loop(shop.root, *words, stdin=stdin)
    try:
        loop.until(b"at work\n")  # the last that it writes: a pipe without a reader would end it
        yield loop
    finally:
        loop.close()


def newest(shop: Project) -> Run:
    return runs.list_newest(shop.root)[0][0]


def outcomes(shop: Project, run: Run) -> list[str]:
    return [entry.outcome.value for entry in run_record.journal_entries(shop.root, run.id)]


def agents_gone(shop: Project) -> bool:
    """Whether every agent that was ever started has ended."""
    pids = shop.read("asked.txt").split()
    return bool(pids) and not any(started_at(int(pid)) for pid in pids)


def test_ctrl_c_without_a_terminal_asks_nobody_and_the_run_can_be_resumed_with_feedback(
    shop: Project,
) -> None:
    with running(shop, *START) as loop:
        loop.process.send_signal(signal.SIGINT)
        assert loop.end() == 130
    run = newest(shop)
    assert (run.status, run.reason, outcomes(shop, run)) == (
        RunStatus.STOPPED,
        "interrupted",
        ["interrupted"],
    )
    assert agents_gone(shop)
    assert task_files.read_board(shop.root).tasks[0].claim is None
    assert b"Traceback" not in loop.seen
    said = shop("loop", "resume", "--feedback", "GO ON")
    assert said.code == 0, said.err
    run = newest(shop)
    assert (run.iterations, outcomes(shop, run)) == (2, ["interrupted", "done"])


def test_a_second_ctrl_c_does_not_wait_for_an_agent_that_will_not_end(shop: Project) -> None:
    deaf = "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('not me', flush=True))\n"
    shop.put(
        "agent.py", deaf + AGENT.replace("time.sleep(600)", "[time.sleep(600) for _ in range(9)]")
    )
    with running(shop, *START) as loop:
        loop.process.send_signal(signal.SIGINT)
        loop.until(b"not me")
        loop.process.send_signal(signal.SIGINT)
        assert loop.end() == 130
    assert b"stopped immediately" in loop.seen
    run = newest(shop)
    assert (run.reason, outcomes(shop, run), agents_gone(shop)) == (
        "interrupted",
        ["interrupted"],
        True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_leaves_nothing_behind(shop: Project, number: signal.Signals) -> None:
    with running(shop, *START) as loop:
        loop.process.send_signal(number)
        assert loop.end() == 130
    assert (newest(shop).reason, agents_gone(shop)) == ("interrupted", True)


class Terminal:
    """What a person sees and types."""

    def __init__(self, outer: int) -> None:
        self.outer, self.seen = outer, b""

    def until(self, word: bytes) -> None:
        before = len(self.seen)
        while word not in self.seen[before:]:
            self.seen += os.read(self.outer, 4096)

    def type(self, keys: bytes) -> None:
        os.write(self.outer, keys)


@contextlib.contextmanager
def on_terminal(shop: Project, *words: str) -> Iterator[tuple[Terminal, "subprocess.Popen[bytes]"]]:
    """A loop whose controlling terminal is ours, so that a typed Ctrl-C is a signal."""
    with terminal() as (outer, inner):
        process = subprocess.Popen(
            [sys.executable, "-c", OWNS, sys.executable, "-m", "ralph", *words], cwd=shop.root, stdin=inner,
            stdout=inner, stderr=inner, env={**os.environ, "NO_COLOR": "1", "TERM": "xterm"}, start_new_session=True,
        )  # fmt: skip
        try:
            person = Terminal(outer)
            person.until(b"at work")
            yield person, process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def test_on_a_terminal_ctrl_c_asks_and_the_answer_reaches_journal_and_next_prompt(
    shop: Project,
) -> None:
    with on_terminal(shop, *START) as (person, process):
        person.type(b"\x03")
        person.until(b"feedback: ")
        person.type("GO ON, 그리고 docs/api.md\n".encode())
        person.until(b"ended after 2 iterations: success")
        assert process.wait(PATIENCE) == 0
    run = newest(shop)
    first, second = run_record.journal_entries(shop.root, run.id)
    assert (first.outcome.value, first.notes) == (
        "interrupted",
        "half way there\n\nFeedback: GO ON, 그리고 docs/api.md",
    )
    assert second.outcome.value == "done"
    assert "GO ON, 그리고 docs/api.md" in shop("loop", "show", run.id, "-i", "2").out


@pytest.mark.parametrize("keys", [b"\n", b"\x04"], ids=["an empty line", "the end of the input"])
def test_no_answer_ends_the_run(shop: Project, keys: bytes) -> None:
    with on_terminal(shop, *START) as (person, process):
        person.type(b"\x03")
        person.until(b"feedback: ")
        person.type(keys)
        person.until(b"ended after 1 iteration: interrupted")
        assert process.wait(PATIENCE) == 130
    assert outcomes(shop, newest(shop)) == ["interrupted"]


def test_a_second_ctrl_c_leaves_at_once_with_everything_written_down(shop: Project) -> None:
    with on_terminal(shop, *START) as (person, process):
        person.type(b"\x03")
        person.until(b"feedback: ")
        person.type(b"\x03")
        person.until(b"stopped in the middle of an iteration")
        assert process.wait(PATIENCE) == 130
    run = newest(shop)
    assert (run.status, run.iterations) == (RunStatus.STOPPED, 1)
    [entry] = run_record.journal_entries(shop.root, run.id)
    assert (entry.outcome.value, entry.notes) == ("interrupted", "half way there")
    assert entry.duration > 0
    assert agents_gone(shop)
    assert task_files.read_board(shop.root).tasks[0].claim is None


def test_stop_now_from_elsewhere_ends_the_agent_and_stop_waits_for_it(shop: Project) -> None:
    with running(shop, *START) as loop:
        run = newest(shop)
        status = shop("loop", "status", "--format", "json").json
        assert (status["alive"], status["pid"], status["step"]) == (True, loop.process.pid, "agent")
        assert status["heartbeat"]
        assert shop("loop", "stop").out == f"{run.id} will stop after iteration 1\n"
        assert shop("loop", "stop", "--now").out == f"{run.id} will stop now\n"
        assert loop.end() == 18
    assert (newest(shop).reason, outcomes(shop, run), agents_gone(shop)) == (
        "stopped",
        ["interrupted"],
        True,
    )


def test_a_second_loop_on_the_same_goal_is_refused(shop: Project) -> None:
    with running(shop, *START):
        said = shop(*START)
        assert (said.code, f"{newest(shop).id} works on" in said.err) == (1, True)
        detached = shop(*START, "--detach")
        assert (detached.code, detached.out) == (1, "")


def test_a_killed_loop_is_found_and_its_agent_is_ended(shop: Project) -> None:
    with running(shop, *START) as loop:
        loop.process.kill()
        loop.process.wait()
        assert not agents_gone(shop), "a kill does not reach the agent"
        said = shop("loop", "status")
    run = newest(shop)
    assert f"{run.id} was killed in iteration 1" in said.err
    assert (run.reason, outcomes(shop, run)) == ("died", ["interrupted"])
    assert task_files.read_board(shop.root).tasks[0].claim is None
    if Path("/proc/self/environ").exists():
        assert agents_gone(shop)


CRITERION = """\
import os, time
with open("alive", "w", encoding="utf-8") as pipe:
    pipe.write("checking\\n")
    pipe.flush()
    time.sleep(600)
"""


@pytest.fixture
def pipe(shop: Project) -> Path:
    """A pipe that a criterion holds open while it runs, which it does for ever."""
    shop.put("check.py", CRITERION)
    pipe = shop.file("alive")
    os.mkfifo(pipe)
    return pipe


def checking(shop: Project, *more: str) -> Loop:
    """A loop that checks its criterion before the first iteration."""
    words = [*START[:-1], f"custom:{sys.executable} check.py", *more]
    return Loop(shop.root, *words)


def test_a_criterion_before_the_first_iteration_is_seen_and_can_be_stopped(
    shop: Project, pipe: Path
) -> None:
    loop = checking(shop)
    with pipe.open(encoding="utf-8") as criterion:
        assert criterion.readline() == "checking\n"
        status = shop("loop", "status", "--format", "json").json
        assert (status["alive"], status["step"], status["iterations"]) == (True, "beginning", 0)
        assert "  before its first iteration, checking" in shop("loop", "status").out
        assert ", before its first iteration: " in shop("status").out
        assert shop("loop", "stop", "--now").code == 0
        assert criterion.read() == ""
    assert loop.end() == 18
    loop.close()
    assert newest(shop).reason == "stopped"


def test_a_criterion_ends_when_its_loop_is_killed(shop: Project, pipe: Path) -> None:
    loop = checking(shop)
    with pipe.open(encoding="utf-8") as criterion:
        assert criterion.readline() == "checking\n"
        loop.process.kill()
        assert criterion.read() == "", "the pipe is closed, so the criterion is gone"
    loop.close()
    assert "was killed before its first iteration" in shop("loop", "status").err


def started(shop: Project, *more: str) -> str:
    """A detached loop whose agent is at work."""
    said = executable(shop.root, *START, "--detach", *more)
    assert said.returncode == 0, said.stderr
    run_id = said.stdout.decode().strip()
    assert [line.split()[2] for line in said.stderr.decode().splitlines()] == [
        "status",
        "show",
        "stop",
    ]
    assert all(run_id in line for line in said.stderr.decode().splitlines())
    wait_for_agent(shop)
    return run_id


def wait_for_agent(shop: Project) -> None:
    """Wait until the agent of a detached loop has read what it was asked and written its line."""
    asked = shop.file("asked.txt")
    poll(lambda: asked.exists() and asked.stat().st_size > 0, "the agent does not start")


def settled(shop: Project, run_id: str, *words: str) -> None:
    """Follow a run's log until the run has ended."""
    said = shop("loop", *words, run_id)
    assert said.code == 0, said.err

    def has_ended() -> bool:
        run = runs.read(shop.root, run_id)
        return not is_alive(run.pid, run.born)

    poll(has_ended, "it does not end")


def poll(is_done: Callable[[], bool], problem: str) -> None:
    """Wait for something that a detached run does. It is not a child of the tests, so nothing can be awaited."""
    for _ in range(PATIENCE * 20):
        if is_done():
            return
        time.sleep(0.05)
    raise AssertionError(problem)


def test_a_detached_loop_prints_its_id_and_lives_on_until_it_is_stopped(shop: Project) -> None:
    run_id = started(shop)
    assert runs.is_alive(shop.root, runs.read(shop.root, run_id))
    assert shop("loop", "stop", "--now", run_id).code == 0
    settled(shop, run_id, "show", "--log", "-f")
    assert runs.read(shop.root, run_id).reason == "stopped"
    log = paths.run_output(shop.root, run_id).read_text(encoding="utf-8")
    assert f"{run_id} ended after 1 iteration: stopped" in log
    assert agents_gone(shop)
    assert not paths.heartbeat(shop.root, run_id).exists()
    assert not paths.stop_request(shop.root, run_id).exists()


def test_watching_a_run_ends_with_it(shop: Project) -> None:
    shop.put("agent.py", AGENT.replace("GO ON", "Ralph"))
    run_id = started(shop)
    settled(shop, run_id, "status", "--watch")
    assert runs.read(shop.root, run_id).reason == "success"


def test_without_a_terminal_nothing_waits_for_an_answer(shop: Project) -> None:
    shop.put("steps.json", json.dumps([{"say": "<promise>FAILURE</promise>"}]))
    said = executable(
        shop.root,
        "loop",
        "start",
        "x",
        "--agent",
        "scripted",
        "--command",
        "steps.json",
        "-c",
        "none",
    )
    assert said.returncode == 11
    assert b"feedback" not in said.stderr
