"""Runs on disk: what is saved is what is read, who is dead is found, and nothing that was finished is lost."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.looping import GOAL, PASSES, Workshop, project, says_done

from ralph.core import ids, paths, process
from ralph.core.errors import Conflict, NotFound, Refused
from ralph.core.record import Outcome
from ralph.core.work import JournalEntry, RunStatus, TaskStatus
from ralph.loop import runs
from ralph.loop.state import Run
from ralph.memory import knowledge
from ralph.recall import journal
from ralph.storage import board
from ralph.storage.board import status_of
from ralph.tasks import task
from ralph.testing import Step

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
    runs.take(root, run)
    print("mine", flush=True)
except Conflict:
    print("theirs", flush=True)
sys.stdin.readline()
"""
WHEN = "2026-01-01T00:00:00Z"
RUN = Run("run-00000001", GOAL, started_at=WHEN)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return tmp_path / "shop"


def killed(run: Run) -> Run:
    """The run of a process that is gone."""
    return replace(
        runs.mine(run), status=RunStatus.RUNNING, reason="", words="", ended_at="", born="gone"
    )


def at_work(root: Path, **members: object) -> Run:
    """A dead run that was at work on a task."""
    name = task.add(root, GOAL).task.id
    run = killed(replace(RUN, only=(name,), task=name, step="agent", **members))  # type: ignore[arg-type]  # by name
    assert (
        task.claim(root, name, replace(task.claim_of(run.id), pid=2**22 - 1), named=True)
        is not None
    )
    return runs.save(root, None, run)


def entry(
    run: Run, number: int, outcome: Outcome = Outcome.BLOCKED, notes: str = ""
) -> JournalEntry:
    return JournalEntry(
        run.id, number, outcome, task=run.task, duration=2.0, cost=0.5, notes=notes, created_at=WHEN
    )


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
    name = runs.mint(root)
    runs.save(root, None, Run(name, GOAL))
    assert runs.mint(root) != name
    assert len(name) == len("run-00000001")


def test_this_process_lives_and_one_with_another_birth_does_not(root: Path) -> None:
    assert runs.lives(root, runs.mine(RUN))
    assert not runs.lives(root, replace(runs.mine(RUN), born="gone"))
    assert not runs.lives(root, replace(runs.mine(RUN), status=RunStatus.STOPPED))


def test_on_another_machine_the_heartbeat_tells(root: Path) -> None:
    away = replace(runs.mine(RUN), host="another-machine", started_at="2026-01-01T00:00:00Z")
    assert not runs.lives(root, away)
    runs.beat(root, away)
    assert runs.lives(root, away), "it beat a moment ago"
    assert runs.lives(root, replace(away, id="run-00000002", started_at=ids.timestamp())), (
        "it has just begun"
    )
    assert not runs.lives(root, replace(away, id="run-00000003", started_at="no time"))
    paths.heartbeat(root, RUN.id).write_text("torn {", encoding="utf-8")
    assert not runs.lives(root, away)


def test_a_dead_run_is_marked_journaled_and_its_claim_released(root: Path) -> None:
    run = at_work(root, iterations=2, seconds=5.0)
    for number in (1, 2):
        journal.append(root, entry(run, number))
    runs.beat(root, run)
    runs.ask_to_stop(root, run.id, now=True)
    [dead] = runs.recover(root)
    assert (dead.status, dead.reason, dead.iterations, dead.seconds) == (
        RunStatus.STOPPED,
        "died",
        3,
        5.0,
    )
    assert runs.read(root, run.id) == dead
    last = runs.iterations(root, run.id)[-1]
    assert (last.iteration, last.outcome) == (3, Outcome.INTERRUPTED)
    assert last.notes == "The loop's process was killed while it was waiting for the agent."
    [left] = board.read(root).tasks
    assert (left.claim, status_of(left)) == (None, TaskStatus.PENDING)
    assert (runs.last_beat(root, run.id), runs.stop_asked(root, run.id)) == ("", "")
    assert run.id in paths.run_log(root, run.id).read_text(encoding="utf-8").splitlines()[-2], (
        "it has a run record"
    )
    assert runs.recover(root) == [], "once is enough"


def test_an_iteration_that_was_journaled_before_the_kill_is_counted_and_not_written_again(
    root: Path,
) -> None:
    run = at_work(root, iterations=1, failure="before")
    journal.append(root, entry(run, 1))
    journal.append(root, entry(run, 2, Outcome.RETRIED, "two tests fail"))
    [dead] = runs.recover(root)
    assert (dead.iterations, dead.seconds, dead.cost, dead.failure) == (
        2,
        2.0,
        0.5,
        "two tests fail",
    )
    assert [each.outcome.value for each in runs.iterations(root, run.id)] == ["blocked", "retried"]


@pytest.mark.parametrize("damage", ["gone", "broken"])
def test_a_dead_run_whose_task_is_gone_or_broken_is_marked_all_the_same(
    root: Path, damage: str
) -> None:
    run = at_work(root)
    journal.append(root, entry(run, 1, Outcome.DONE))
    path = paths.tasks_folder(root) / run.task / "task.json"
    if damage == "gone":
        path.unlink()
    else:
        path.write_text("{", encoding="utf-8")
    [dead] = runs.recover(root)
    assert (dead.status, dead.reason) == (RunStatus.STOPPED, "died")
    assert runs.newest(root)[1] == 1


def test_a_log_whose_beginning_is_gone_is_still_a_run(root: Path) -> None:
    run = at_work(root)
    paths.run_log(root, run.id).write_text(
        f'{{"v":1,"type":"run","id":"{run.id}","step":"agent"}}\n', encoding="utf-8"
    )
    [dead] = runs.recover(root)
    assert (dead.id, dead.reason) == (run.id, "died")
    assert runs.current(root).goal.startswith("(")


def test_sigils_before_a_kill_are_stored(root: Path) -> None:
    run = at_work(root)
    said = '<knowledge tags="a" title="Ports">8080 is taken.</knowledge>\n<journal>half way</journal>\n'
    paths.run_output(root, run.id).write_text(
        f"ralph: iteration 1: scripted\n{said}", encoding="utf-8"
    )
    runs.recover(root)
    assert runs.iterations(root, run.id)[-1].notes.startswith("half way\n\n")
    assert [each.record.title for each in knowledge.entries(root)] == ["Ports"]


def test_a_task_that_was_done_by_the_journal_is_done_after_the_kill(root: Path) -> None:
    run = at_work(root)
    journal.append(root, entry(run, 1, Outcome.DONE))
    [dead] = runs.recover(root)
    assert (dead.done, dead.task) == (run.only, "")
    assert status_of(board.read(root).tasks[0]) is TaskStatus.DONE


def test_feedback_that_was_journaled_before_the_kill_reaches_the_next_prompt(root: Path) -> None:
    run = at_work(root, failure="two tests fail")
    journal.append(
        root, entry(run, 1, Outcome.INTERRUPTED, "so far\n\nFeedback: use decimals\nplease")
    )
    [dead] = runs.recover(root)
    assert (dead.feedback, dead.failure) == ("use decimals\nplease", "two tests fail")


def test_a_run_that_another_process_took_meanwhile_is_not_buried(root: Path) -> None:
    run = at_work(root)
    taken = runs.take(root, replace(run, status=RunStatus.RUNNING))
    assert runs.recover(root) == []
    assert runs.read(root, run.id) == taken


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
    runs.save(root, None, runs.mine(RUN))
    with pytest.raises(Conflict, match=f"process {os.getpid()}"):
        runs.take(root, RUN)


def test_what_a_dead_loop_left_running_is_ended(root: Path) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs /proc")
    run = at_work(root)
    code = "print('up', flush=True); input()"
    orphan = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "RALPH_RUN": run.id},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with orphan:
        assert orphan.stdout is not None
        assert orphan.stdout.readline() == b"up\n"
        runs.recover(root)
        assert orphan.wait(10) == -15
    assert process.find_by_variable("RALPH_RUN", run.id) == set()


def test_the_run_record_is_written_once_and_anew_when_a_run_goes_on(tmp_path: Path) -> None:
    shop: Workshop = project(tmp_path / "shop")
    shop.set(max_iterations=1)
    run = shop.start(Step(say="<journal>the tax is missing</journal>"))
    shop.resume(Step(), says_done(), PASSES)
    lines = [json.loads(line) for line in shop.log(run).splitlines()]
    [record] = [line for line in lines if line.get("label") == "run"]
    assert record["id"] == run.id
    assert "Ended: success" in record["text"]
    assert "1. blocked: the tax is missing" in record["text"]


def test_a_run_killed_between_its_record_and_its_end_is_found_and_ends_well(tmp_path: Path) -> None:
    shop: Workshop = project(tmp_path / "shop")
    run = shop.start(says_done(), PASSES)
    runs.save(shop.root, run, killed(run))
    assert [each.reason for each in runs.recover(shop.root)] == ["died"]
    again = shop.resume()
    assert (again.reason, again.iterations, shop.outcomes(again)) == ("success", 1, ["done"])


def test_snapshots_are_private_and_listed_in_order(root: Path) -> None:
    for number in (2, 1, 11):
        runs.keep_snapshot(root, RUN.id, number, f"prompt {number}")
    assert list(runs.snapshots(root, RUN.id)) == [1, 2, 11]
    assert runs.snapshot(root, RUN.id, 11) == "prompt 11"
    with pytest.raises(NotFound, match="no snapshot of iteration 3"):
        runs.snapshot(root, RUN.id, 3)
