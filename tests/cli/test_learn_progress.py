"""`ralph learn` with agents that fail, and in a process that is killed: only what is complete counts."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.support.learning import make_project
from tests.support.python_commands import program
from tests.support.runner import Project, command

from ralph.core import paths

MEMORY = {
    "text": "This project uses pnpm, because the lockfile of npm breaks the deploy.",
    "evidence": [{"id": "obs-0a01", "quote": "Use pnpm here, not npm: the lockfile of npm"}],
}
ANSWER = json.dumps({"memories": [MEMORY]})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(make_project(tmp_path / "project"))


def state(project: Project) -> list[bytes]:
    """The proposals and the progress, byte for byte."""
    files = (paths.proposals_file(project.root), paths.learn_progress(project.root))
    return [path.read_bytes() if path.exists() else b"" for path in files]


def learn_with(project: Project, code: str) -> int:
    words = ("learn", "--agent", "command", "--command", program(code))
    return project(*words).code


@pytest.mark.parametrize(
    "code",
    [
        "raise SystemExit(3)",
        f"print({ANSWER!r}); raise SystemExit(1)",
        "import os; os.kill(os.getpid(), 9)",
        "pass",
        "print('I found nothing.')",
        f"print({ANSWER[:-5]!r})",
        "print('{' * 1_000_000)",
    ],
    ids=["fails", "answers and fails", "is killed", "is silent", "prose", "cut off", "megabyte"],
)
def test_an_agent_that_fails_leaves_everything_as_it_was(project: Project, code: str) -> None:
    before = state(project)
    assert learn_with(project, code) == 1
    assert state(project) == before
    assert learn_with(project, f"print({ANSWER!r})") == 0
    assert b"pnpm" in state(project)[0]


def test_a_second_run_asks_nobody_and_proposes_nothing(project: Project) -> None:
    assert learn_with(project, f"print({ANSWER!r})") == 0
    after = state(project)
    assert learn_with(project, "raise SystemExit(3)") == 0  # the agent is not started
    assert state(project) == after


def test_the_same_sessions_again_propose_nothing_twice(project: Project) -> None:
    assert learn_with(project, f"print({ANSWER!r})") == 0
    proposals = state(project)[0]
    paths.learn_progress(project.root).unlink()
    assert learn_with(project, f"print({ANSWER!r})") == 0
    assert state(project)[0] == proposals


def test_a_run_that_is_killed_while_the_agent_works_changes_nothing(
    project: Project, tmp_path: Path
) -> None:
    before = state(project)
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    code = f"open({str(fifo)!r}, 'w').close(); open({str(fifo)!r}).read()"
    words = [*command(), "learn", "--agent", "command", "--command", program(code)]
    running = subprocess.Popen(
        words, cwd=project.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        fifo.open(encoding="utf-8").close()  # returns when the agent has started
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert state(project) == before
    with fifo.open("w", encoding="utf-8"):
        pass  # lets the agent end
    assert learn_with(project, f"print({ANSWER!r})") == 0
