"""Dead runs are found and ended, and nothing that was finished is lost."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.looping import PASSES, Workshop, project, says_done
from tests.support.stored_runs import at_work, empty_repository, entry, killed

from ralph.core import paths, process
from ralph.core.record import Outcome
from ralph.core.work import RunStatus, TaskStatus
from ralph.loop import recovery, run_record, runs
from ralph.memory import knowledge
from ralph.recall import journal
from ralph.storage import task_files
from ralph.storage.board import status_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return empty_repository(tmp_path)


def test_a_dead_run_is_marked_journaled_and_its_claim_released(root: Path) -> None:
    run = at_work(root, iterations=2, seconds=5.0)
    for number in (1, 2):
        journal.append(root, entry(run, number))
    runs.write_heartbeat(root, run)
    runs.request_stop(root, run.id, now=True)
    [dead] = recovery.recover(root)
    assert (dead.status, dead.reason, dead.iterations, dead.seconds) == (
        RunStatus.STOPPED,
        "died",
        3,
        5.0,
    )
    assert runs.read(root, run.id) == dead
    last = run_record.journal_entries(root, run.id)[-1]
    assert (last.iteration, last.outcome) == (3, Outcome.INTERRUPTED)
    assert last.notes == "The loop's process was killed while it was waiting for the agent."
    [left] = task_files.read_board(root).tasks
    assert (left.claim, status_of(left)) == (None, TaskStatus.PENDING)
    assert (runs.read_heartbeat(root, run.id), runs.read_stop_request(root, run.id)) == ("", "")
    assert run.id in paths.run_log(root, run.id).read_text(encoding="utf-8").splitlines()[-2], (
        "it has a run record"
    )
    assert recovery.recover(root) == [], "once is enough"


def test_a_killed_iteration_has_its_tasks_title_its_model_and_its_length(root: Path) -> None:
    run = at_work(root, goal="the ready tasks", model="opus", step_since="2026-01-01T00:00:00Z")
    heartbeat = paths.heartbeat(root, run.id)
    heartbeat.parent.mkdir(parents=True, exist_ok=True)
    heartbeat.write_text("2026-01-01T00:01:30Z\n", encoding="utf-8")
    [dead] = recovery.recover(root)
    [last] = run_record.journal_entries(root, run.id)
    [work] = task_files.read_board(root).tasks
    assert (last.title, last.model, last.duration) == (work.title, "opus", 90.0)
    assert dead.seconds == 90.0


def test_an_iteration_that_was_journaled_before_the_kill_is_counted_and_not_written_again(
    root: Path,
) -> None:
    run = at_work(root, iterations=1, failure="before")
    journal.append(root, entry(run, 1))
    journal.append(root, entry(run, 2, Outcome.RETRIED, "two tests fail"))
    [dead] = recovery.recover(root)
    assert (dead.iterations, dead.seconds, dead.cost, dead.failure) == (
        2,
        2.0,
        0.5,
        "two tests fail",
    )
    assert [each.outcome.value for each in run_record.journal_entries(root, run.id)] == [
        "blocked",
        "retried",
    ]


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
    [dead] = recovery.recover(root)
    assert (dead.status, dead.reason) == (RunStatus.STOPPED, "died")
    assert runs.list_newest(root)[1] == 1


def test_a_log_whose_beginning_is_gone_is_still_a_run(root: Path) -> None:
    run = at_work(root)
    paths.run_log(root, run.id).write_text(
        f'{{"v":1,"type":"run","id":"{run.id}","step":"agent"}}\n', encoding="utf-8"
    )
    [dead] = recovery.recover(root)
    assert (dead.id, dead.reason) == (run.id, "died")
    assert runs.find(root).goal.startswith("(")


def test_sigils_before_a_kill_are_stored(root: Path) -> None:
    run = at_work(root)
    said = '<knowledge tags="a" title="Ports">8080 is taken.</knowledge>\n<journal>half way</journal>\n'
    paths.run_output(root, run.id).write_text(
        f"ralph: iteration 1: scripted\n{said}", encoding="utf-8"
    )
    recovery.recover(root)
    assert run_record.journal_entries(root, run.id)[-1].notes.startswith("half way\n\n")
    assert [each.record.title for each in knowledge.entries(root)] == ["Ports"]


def test_a_task_that_was_done_by_the_journal_is_done_after_the_kill(root: Path) -> None:
    run = at_work(root)
    journal.append(root, entry(run, 1, Outcome.DONE))
    [dead] = recovery.recover(root)
    assert (dead.done, dead.task) == (run.only, "")
    assert status_of(task_files.read_board(root).tasks[0]) is TaskStatus.DONE


def test_feedback_that_was_journaled_before_the_kill_reaches_the_next_prompt(root: Path) -> None:
    run = at_work(root, failure="two tests fail")
    journal.append(
        root, entry(run, 1, Outcome.INTERRUPTED, "so far\n\nFeedback: use decimals\nplease")
    )
    [dead] = recovery.recover(root)
    assert (dead.feedback, dead.failure) == ("use decimals\nplease", "two tests fail")


def test_a_run_that_another_process_took_meanwhile_is_not_buried(root: Path) -> None:
    run = at_work(root)
    taken = runs.take_over(root, replace(run, status=RunStatus.RUNNING))
    assert recovery.recover(root) == []
    assert runs.read(root, run.id) == taken


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
        recovery.recover(root)
        assert orphan.wait(10) == -15
    assert process.find_by_variable("RALPH_RUN", run.id) == set()


def test_a_run_killed_between_its_record_and_its_end_is_found_and_ends_well(tmp_path: Path) -> None:
    shop: Workshop = project(tmp_path / "shop")
    run = shop.start(says_done(), PASSES)
    runs.save(shop.root, run, killed(run))
    assert [each.reason for each in recovery.recover(shop.root)] == ["died"]
    again = shop.resume()
    assert (again.reason, again.iterations, shop.outcomes(again)) == ("success", 1, ["done"])
