"""Runs on disk: what is saved is what is read, and one process owns a run."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.looping import GOAL
from tests.support.stored_runs import RUN, at_work, empty_repository

from ralph.core import ids, paths
from ralph.core.errors import Conflict, NotFound, Refused
from ralph.core.work import RunStatus
from ralph.loop import runs
from ralph.loop.state import Run

RIVAL = """\
import sys
from pathlib import Path
from ralph.loop import runs
from ralph.core.errors import Conflict
root = Path(sys.argv[1])
run = runs.read(root, sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
try:
    runs.take_over(root, run)
    print("mine", flush=True)
except Conflict:
    print("theirs", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return empty_repository(tmp_path)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(
    goal=text,
    words=text,
    only=st.lists(text, max_size=3),
    iterations=st.integers(0, 10**6),
    cost=st.floats(0, 1e6),
    failing=st.booleans(),
    status=st.sampled_from(list(RunStatus)),
    options=text,
)
def test_what_is_saved_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, goal: str, words: str, only: list[str], iterations: int, cost: float,
    failing: bool, status: RunStatus, options: str,
) -> None:  # fmt: skip
    root = tmp_path_factory.mktemp("shop")
    first = runs.save(root, None, Run("run-00000001", goal, words=words, status=status))
    second = replace(
        first,
        only=tuple(only),
        iterations=iterations,
        cost=cost,
        failing=failing,
        options=options,
        words="",
    )
    runs.save(root, first, second)
    assert runs.read(root, "run-00000001") == second
    back = runs.save(root, second, replace(first, status=RunStatus.RUNNING))
    assert runs.read(root, "run-00000001") == back, "what is as usual again is said as well"


def test_of_two_runs_started_within_a_second_the_later_one_is_newer(root: Path) -> None:
    at = ids.timestamp()
    for number, name in enumerate(("run-0000000b", "run-0000000a")):
        runs.save(root, None, Run(name, GOAL, started_at=at, status=RunStatus.SUCCESS))
        os.utime(paths.run_log(root, name), ns=(number, number))
    found, _ = runs.list_newest(root)
    assert [run.id for run in found] == ["run-0000000a", "run-0000000b"]


def test_only_what_changed_is_written(root: Path) -> None:
    runs.save(root, None, RUN)
    runs.save(root, RUN, replace(RUN, step="agent"))
    runs.save(root, RUN, RUN)
    lines = [
        json.loads(line)
        for line in paths.run_log(root, RUN.id).read_text(encoding="utf-8").splitlines()
    ]
    assert [{name for name in line if name not in ("v", "type", "id")} for line in lines] == [
        {"goal", "started_at"},
        {"step"},
    ]


def test_what_a_stranger_wrote_into_the_log_does_no_harm(root: Path) -> None:
    runs.save(root, None, RUN)
    with paths.run_log(root, RUN.id).open("a", encoding="utf-8") as file:
        file.write(
            '{"v":1,"type":"run","id":"run-00000001","iterations":"many","status":"odd","only":3,"cost":true}\n'
        )
        file.write(
            '{"v":1,"type":"run","id":"run-00000002","goal":"another"}\nno json at all\n{"v":1,"type":"run"'
        )
    found = runs.read(root, RUN.id)
    assert (found.goal, found.iterations, found.only, found.status) == (
        GOAL,
        0,
        (),
        RunStatus.RUNNING,
    )


def test_the_beginning_of_an_id_will_do_when_it_means_one(root: Path) -> None:
    for name in ("run-00000001", "run-00000002", "run-ff000001"):
        runs.save(root, None, Run(name, GOAL))
    assert runs.read(root, "run-ff").id == runs.read(root, "ff").id == "run-ff000001"
    with pytest.raises(Refused, match="may mean run-00000001, run-00000002"):
        runs.read(root, "run-0")
    for name in ("run-77", "../../etc/passwd", "run-00000001/../x", "", "run-*"):
        with pytest.raises((NotFound, Refused)):
            runs.read(root, name)


def test_ids_are_not_given_twice(root: Path) -> None:
    name = runs.new_id(root)
    runs.save(root, None, Run(name, GOAL))
    assert runs.new_id(root) != name
    assert len(name) == len("run-00000001")


def test_this_process_lives_and_one_with_another_birth_does_not(root: Path) -> None:
    assert runs.is_alive(root, runs.assign_to_this_process(RUN))
    assert not runs.is_alive(root, replace(runs.assign_to_this_process(RUN), born="gone"))
    assert not runs.is_alive(
        root, replace(runs.assign_to_this_process(RUN), status=RunStatus.STOPPED)
    )


def test_on_another_machine_the_heartbeat_tells(root: Path) -> None:
    away = replace(
        runs.assign_to_this_process(RUN), host="another-machine", started_at="2026-01-01T00:00:00Z"
    )
    assert not runs.is_alive(root, away)
    runs.write_heartbeat(root, away)
    assert runs.is_alive(root, away), "it beat a moment ago"
    assert runs.is_alive(root, replace(away, id="run-00000002", started_at=ids.timestamp())), (
        "it has just begun"
    )
    assert not runs.is_alive(root, replace(away, id="run-00000003", started_at="no time"))
    paths.heartbeat(root, RUN.id).write_text("torn {", encoding="utf-8")
    assert not runs.is_alive(root, away)


def test_of_two_processes_one_takes_a_run(root: Path) -> None:
    run = at_work(root)
    words = [sys.executable, "-c", RIVAL, str(root), run.id]
    rivals = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        for _ in range(4)
    ]
    said = []
    for rival in rivals:
        assert rival.stdout is not None
        assert rival.stdout.readline() == "ready\n"
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("\n")
        rival.stdin.flush()
    for rival in rivals:
        assert rival.stdout is not None
        said.append(rival.stdout.readline().strip())
    for rival in rivals:
        rival.communicate("\n")
    assert sorted(said) == ["mine", "theirs", "theirs", "theirs"]


def test_a_run_that_lives_is_not_taken(root: Path) -> None:
    runs.save(root, None, runs.assign_to_this_process(RUN))
    with pytest.raises(Conflict, match=f"process {os.getpid()}"):
        runs.take_over(root, RUN)
