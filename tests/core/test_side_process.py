"""Results that a second process computes."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from tests.support import helped_reading

from ralph.core.process import is_alive, started_at
from ralph.core.side_process import SideProcess

PARENT = """
from tests.support import helped_reading
from ralph.core.process import is_alive, started_at
from ralph.core.side_process import SideProcess
process = SideProcess(helped_reading.{produce})
print(process.take(), flush=True)
while True:
    process.take()
"""
MAX_SECONDS = 30.0
POLL_SECONDS = 0.05


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


def test_results_arrive_in_order_and_then_it_has_ended() -> None:
    with SideProcess(partial(helped_reading.count_to, 1000)) as process:
        assert [process.take() for _ in range(1000)] == list(range(1000))
        with pytest.raises(EOFError):
            process.take()


def run_at_start(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let every Python that is started run this code first, as a user's `sitecustomize` does."""
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *sys.path]))


def test_what_it_prints_is_not_taken_for_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_at_start(tmp_path, monkeypatch, "import os; os.write(1, b'I have started')")
    with SideProcess(partial(helped_reading.count_noisily, 3)) as process:
        assert [process.take() for _ in range(3)] == [0, 1, 2]


def test_a_process_that_fails_has_ended() -> None:
    with SideProcess(helped_reading.fail) as process, pytest.raises(EOFError):
        process.take()


def test_a_process_with_another_version_of_the_code_computes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_at_start(tmp_path, monkeypatch, "import ralph; ralph.__version__ = 'next'")
    with SideProcess(partial(helped_reading.count_to, 3)) as process, pytest.raises(EOFError):
        process.take()


def test_it_can_be_left_before_the_last_result() -> None:
    with SideProcess(helped_reading.own_ids) as process:
        assert process.take() != os.getpid()
    with pytest.raises((EOFError, ValueError)):
        process.take()


@pytest.mark.parametrize("produce", ["own_ids", "own_id_only"])
def test_it_ends_when_the_process_that_started_it_is_killed(produce: str) -> None:
    command = [sys.executable, "-c", PARENT.format(produce=produce)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        born = started_at(child)
        assert is_alive(child, born)
        parent.kill()
    deadline = time.monotonic() + MAX_SECONDS
    while is_alive(child, born) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    assert not is_alive(child, born)
