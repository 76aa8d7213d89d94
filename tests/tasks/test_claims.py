"""Who gets a task, who keeps it, and what a killed worker leaves behind."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.sampling import examples

from ralph.core import ids
from ralph.core.errors import NotFound
from ralph.core.work import Claim, Task, TaskStatus
from ralph.formats.task_files import parse_task
from ralph.storage import board, task_files
from ralph.storage.task_files import change_task
from ralph.tasks import claims, task, task_history

WORKER = Path(__file__).parents[1] / "support" / "task_worker.py"
NOBODY = 4_194_305
"""A process id that the kernel does not give out."""


class Worker:
    """A running `task_worker.py`."""

    def __init__(self, part: str, root: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), part, str(root), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def read_words(self) -> list[str]:
        """The words of its next line; it must not end before it has said that it is over."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "it ended without a word"
        return line.split()

    def send_line(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def until_over(self) -> list[str]:
        """What it did until it says that it is over."""
        return [words[-1] for words in iter(self.read_words, ["over"])]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


Start = Callable[..., Worker]


@pytest.fixture
def start() -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def started(part: str, root: Path, *words: str) -> Worker:
            worker = Worker(part, root, *words)
            stack.callback(worker.close)
            return worker

        yield started


def go(workers: list[Worker]) -> None:
    """Let all begin at once, when all are ready."""
    assert [worker.read_words() for worker in workers] == [["ready"]] * len(workers)
    for worker in workers:
        worker.send_line()


def new(root: Path, title: str = "one", parent: str | None = None) -> str:
    return task.add(root, title, parent=parent).task.id


def now_of(root: Path, name: str) -> Task:
    return task_files.read_board(root).locations[name].task


def dead(run: str = "run-0") -> Claim:
    """The claim of a run whose process is gone."""
    return Claim(run, board.host_name(), NOBODY, "2999-01-01T00:00:00Z")


# --- processes ---------------------------------------------------------------------------------


def test_of_four_processes_that_claim_one_task_exactly_one_gets_it(
    in_memory: Path, start: Start
) -> None:
    names = [new(in_memory, f"task {number}") for number in range(20)]
    workers = [start("claim", in_memory, f"run-{number}", *names) for number in range(4)]
    go(workers)
    won = {f"run-{number}": worker.until_over() for number, worker in enumerate(workers)}
    assert sorted(name for each in won.values() for name in each) == sorted(names)
    for run, mine in won.items():
        for name in mine:
            held = now_of(in_memory, name)
            assert held.claim is not None
            assert (held.claim.run, held.status) == (run, "in_progress")


def test_loops_side_by_side_do_every_task_once_and_in_an_order_that_respects_blockers(
    in_memory: Path, start: Start
) -> None:
    top = new(in_memory, "top")
    parts = [new(in_memory, f"part {number}", parent=top) for number in range(4)]
    last = task.add(in_memory, "last", blocked_by=[top]).task.id
    free = [new(in_memory, f"free {number}") for number in range(10)]
    workers = [start("work", in_memory, f"run-{number}") for number in range(4)]
    go(workers)
    did = [name for worker in workers for name in worker.until_over()]
    # A worker may go home while another still does the last part; then that one does what is left.
    assert sorted(did) == sorted([*parts, *free, last]), "the parent ends by itself"
    assert {each.status for each in task_files.read_board(in_memory).tasks} == {"done"}


@pytest.mark.soak
def test_tasks_that_many_processes_add_all_have_ids_of_their_own(
    in_memory: Path, start: Start
) -> None:
    workers = [start("adds", in_memory, "7") for _ in range(8)]
    go(workers)
    added = [name for worker in workers for name in worker.until_over()]
    assert len(set(added)) == len(added) == 56
    assert set(task_files.read_board(in_memory).locations) == set(added)


def test_two_processes_cannot_let_two_tasks_wait_for_each_other(
    in_memory: Path, start: Start
) -> None:
    for _ in range(examples(20, 2)):
        one, two = new(in_memory), new(in_memory)
        workers = [start("waits", in_memory, one, two), start("waits", in_memory, two, one)]
        go(workers)
        assert sorted(worker.until_over()[0] for worker in workers) == ["refused", "waits"]
        assert task_files.read_board(in_memory).cycle() == ()


def test_a_claim_or_an_end_that_is_killed_at_any_line_leaves_the_old_file_or_the_new_one(
    in_memory: Path, start: Start
) -> None:
    name = new(in_memory)
    path = in_memory / ".ralph" / "tasks" / name / "task.json"
    for verb, ends in (("claim", "in_progress"), ("finish", "done")):
        before = path.read_bytes()
        status = now_of(in_memory, name).status
        worker = start("every-line", in_memory, verb, name)
        seen = set()
        killed = 0
        while (words := worker.read_words())[0] != "finished":
            killed += 1
            document = parse_task(path.read_text(encoding="utf-8"))
            assert document.problems == ()
            assert document.task is not None
            assert (document.text.encode() == before) == (document.task.status == status)
            seen.add(document.task.status)
            assert document.task.status in (status, ends)
            path.write_bytes(before)  # the next one begins where this one did
            worker.send_line()
        assert killed > 10
        assert seen == {status, ends}, "some were killed before the change, some after"
        assert words[0] == "finished"
        assert now_of(in_memory, name).status == ends


def test_an_add_that_is_killed_at_any_line_leaves_a_whole_task_or_none(
    in_memory: Path, start: Start
) -> None:
    worker = start("every-line", in_memory, "add", "-")
    counts = []
    while worker.read_words()[0] != "finished":
        everything = task_files.read_board(in_memory)
        assert everything.unreadable == ()
        assert {each.title for each in everything.tasks} <= {"new"}
        counts.append(len(everything.tasks))
        shutil.rmtree(in_memory / ".ralph", ignore_errors=True)
        worker.send_line()
    assert len(counts) > 10
    assert set(counts) == {0, 1}
    assert len(task.ready(in_memory)) == 1


def test_what_a_killed_worker_held_is_taken_over_by_the_next(in_memory: Path, start: Start) -> None:
    name = new(in_memory)
    worker = start("claim", in_memory, "run-1", name)
    go([worker])
    assert worker.until_over() == [name]
    assert task.ready(in_memory) == []
    assert claims.acquire(in_memory, name, claims.make_claim("run-2")) is None
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.wait()
    assert [each.id for each in task.ready(in_memory)] == [name]
    got = claims.acquire(in_memory, name, claims.make_claim("run-2"))
    assert got is not None
    assert got.claim is not None
    assert got.claim.run == "run-2"
    assert [event["note"] for event in task_history.list_events(in_memory, name)][
        -1
    ] == "left by run-1"


# --- one after the other -----------------------------------------------------------------------


def test_a_claim_counts_until_it_expires_also_while_its_process_lives(tmp_path: Path) -> None:
    name = new(tmp_path)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    assert claims.acquire(
        tmp_path, name, claims.make_claim("run-1", now=began, lease=60), now=began
    )
    soon, late = began + timedelta(seconds=59), began + timedelta(seconds=60)
    other = claims.make_claim("run-2", now=late)
    assert claims.acquire(tmp_path, name, other, now=soon) is None
    assert claims.renew(tmp_path, name, "run-1", now=soon, lease=60)
    assert claims.acquire(tmp_path, name, other, now=late) is None
    assert claims.acquire(tmp_path, name, other, now=late + timedelta(minutes=2))
    assert not claims.renew(tmp_path, name, "run-1"), "it is another's by now"


def test_a_run_may_claim_again_what_it_holds(tmp_path: Path) -> None:
    name = new(tmp_path)
    assert claims.acquire(tmp_path, name, dead("run-1"))
    got = claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    assert got is not None
    assert got.claim is not None
    assert got.claim.pid == os.getpid()
    assert [event["what"] for event in task_history.list_events(tmp_path, name)] == [
        "added",
        "pending -> in_progress",
    ]


@pytest.mark.parametrize("verb", [task.done, task.fail, task.block, task.start])
def test_what_a_person_has_ended_held_back_or_begun_is_not_taken(
    tmp_path: Path, verb: Callable[..., object]
) -> None:
    name = new(tmp_path)
    verb(tmp_path, name)
    assert claims.acquire(tmp_path, name, claims.make_claim("run-1")) is None
    named = claims.acquire(tmp_path, name, claims.make_claim("run-1"), named=True)
    assert (named is None) == (verb is task.done), "by its name it is had, unless it is done"


def test_of_two_runs_that_saw_the_same_task_ready_the_second_does_not_do_it_again(
    tmp_path: Path,
) -> None:
    name = new(tmp_path)
    assert task.ready(tmp_path)[0].id == name
    assert claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    claims.finish(tmp_path, name, TaskStatus.DONE, run="run-1")
    assert claims.acquire(tmp_path, name, claims.make_claim("run-2")) is None


def test_an_end_lets_go_and_may_be_said_twice(tmp_path: Path) -> None:
    top = new(tmp_path, "top")
    name = new(tmp_path, parent=top)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    first = claims.finish(tmp_path, name, TaskStatus.DONE, run="run-1")
    assert (first.status, first.claim) == ("done", None)
    assert claims.finish(tmp_path, name, TaskStatus.DONE, run="run-1") == first
    assert now_of(tmp_path, top).status == "done"


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.PENDING, TaskStatus.BLOCKED])
def test_why_an_attempt_failed_reaches_the_next_one(tmp_path: Path, status: TaskStatus) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    assert claims.count_attempt(tmp_path, name, "run-1") == 1
    assert task.last_failure(now_of(tmp_path, name)) == ""
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    after = claims.finish(
        tmp_path, name, status, run="run-1", note=f"2 tests fail <private>x</private> with {secret}"
    )
    assert (after.status, after.claim, after.attempts) == (status.value, None, 1)
    assert task.last_failure(after).startswith("2 tests fail")
    text = (tmp_path / ".ralph" / "tasks" / name / "task.json").read_text(encoding="utf-8")
    assert secret not in text
    assert "private" not in text
    task.reset(tmp_path, name)
    assert claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    ended = claims.finish(tmp_path, name, TaskStatus.DONE, run="run-1")
    assert task.last_failure(ended) == "", "what is done has no failure to mend"


def test_attempts_are_counted_with_why_they_failed(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    assert [
        claims.count_attempt(tmp_path, name, "run-1", note=f"why {number}") for number in range(3)
    ] == [1, 2, 3]
    held = now_of(tmp_path, name)
    assert (task.last_failure(held), held.claim is not None) == ("why 2", True)
    assert claims.count_attempt(tmp_path, name, "run-2") == 3, "it is not that run's"


def test_an_iteration_counts_once_however_often_it_is_told(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    assert [claims.count_attempt(tmp_path, name, "run-1", iteration=at) for at in (1, 1, 2, 2)] == [
        1,
        1,
        2,
        2,
    ]


def test_a_long_note_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    claims.count_attempt(tmp_path, name, "run-1", note="begin " + "x" * 50_000 + " end")
    kept = task.last_failure(now_of(tmp_path, name))
    assert kept.startswith("begin")
    assert kept.endswith("end")
    assert len(kept) < 5000


def test_what_a_run_says_of_a_task_that_is_anothers_changes_nothing(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, dead("run-1"))
    claims.acquire(tmp_path, name, claims.make_claim("run-2"))
    before = now_of(tmp_path, name)
    assert claims.finish(tmp_path, name, TaskStatus.DONE, run="run-1") == before
    assert claims.release_all(tmp_path, "run-1") == []
    assert now_of(tmp_path, name) == before
    task.done(tmp_path, name)
    assert claims.finish(tmp_path, name, TaskStatus.FAILED, run="run-2").status == "done", (
        "a person's word stands"
    )


def test_work_that_ends_after_its_run_was_thought_dead_still_counts(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    assert claims.release_all(tmp_path, "run-1") == [name]
    assert claims.finish(tmp_path, name, TaskStatus.DONE, run="run-1").status == "done"


def test_all_that_a_dead_run_holds_is_given_back_and_nothing_else(tmp_path: Path) -> None:
    mine, also, other, ended = (
        new(tmp_path, title) for title in ("mine", "also", "other", "ended")
    )
    for name in (mine, also, ended):
        claims.acquire(tmp_path, name, dead("run-1"))
    claims.acquire(tmp_path, other, claims.make_claim("run-2"))
    claims.finish(tmp_path, ended, TaskStatus.DONE, run="run-1")
    assert sorted(claims.release_all(tmp_path, "run-1")) == sorted([mine, also])
    assert [now_of(tmp_path, name).status for name in (mine, also, other, ended)] == [
        "pending", "pending", "in_progress", "done",
    ]  # fmt: skip
    assert now_of(tmp_path, mine).claim is None
    assert claims.release_all(tmp_path, "run-1") == []


def test_parents_that_a_killed_run_did_not_get_to_end_are_ended_by_the_next_who_looks(
    tmp_path: Path,
) -> None:
    grand = new(tmp_path, "grand")
    top = new(tmp_path, "top", parent=grand)
    name = new(tmp_path, "part", parent=top)
    claims.acquire(tmp_path, name, dead("run-1"))
    claims.finish(tmp_path, name, TaskStatus.DONE, run="run-1")
    assert {each.status for each in task_files.read_board(tmp_path).tasks} == {"done"}
    for lost in ([grand], [top, grand]):  # as a kill between two of the writes leaves it
        for each in lost:
            change_task(tmp_path, each, lambda old: Task(old.id, old.title, parent=old.parent))
        assert task.ready(tmp_path) == [], "nobody does over again what its parts have done"
        assert {each.status for each in task_files.read_board(tmp_path).tasks} == {"done"}
        for each in lost:
            change_task(tmp_path, each, lambda old: Task(old.id, old.title, parent=old.parent))
        claims.release_all(tmp_path, "run-1")
        assert {each.status for each in task_files.read_board(tmp_path).tasks} == {"done"}


def test_a_parent_that_somebody_works_on_or_gave_up_is_not_ended_by_its_last_part(
    tmp_path: Path,
) -> None:
    for verb, status in ((task.fail, "failed"), (task.block, "blocked")):
        top = new(tmp_path, "top")
        name = new(tmp_path, "part", parent=top)
        verb(tmp_path, top)
        task.done(tmp_path, name)
        assert now_of(tmp_path, top).status == status
    top = new(tmp_path, "top")
    name = new(tmp_path, "part", parent=top)
    assert claims.acquire(tmp_path, top, claims.make_claim("run-1"), named=True)
    task.done(tmp_path, name)
    assert now_of(tmp_path, top).status == "in_progress"


def test_given_back_a_task_is_pending_and_ready_at_once(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    assert claims.release_all(tmp_path, "run-1") == [name]
    assert claims.release_all(tmp_path, "run-1") == []
    assert [each.id for each in task.ready(tmp_path)] == [name]


def test_readers_write_nothing_also_where_a_claim_is_dead(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, dead())
    path = tmp_path / ".ralph" / "tasks" / name / "task.json"
    before = (path.read_bytes(), path.stat().st_ino)
    assert task.ready(tmp_path)
    task.list_(tmp_path)
    task.show(tmp_path, name)
    assert (path.read_bytes(), path.stat().st_ino) == before


def test_a_task_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    new(tmp_path)
    for call in (
        lambda: claims.acquire(tmp_path, "t-none", claims.make_claim("r")),
        lambda: claims.renew(tmp_path, "../../etc", "r"),
        lambda: claims.finish(tmp_path, "", TaskStatus.DONE, run="r"),
        lambda: claims.count_attempt(tmp_path, "..", "r"),
    ):
        with pytest.raises(NotFound):
            call()


def test_a_claim_of_this_process_counts_half_an_hour(tmp_path: Path) -> None:
    made = claims.make_claim("run-1", now=datetime(2026, 1, 1, tzinfo=UTC))
    assert made == Claim("run-1", board.host_name(), os.getpid(), "2026-01-01T00:30:00Z")
    assert board.is_live(claims.make_claim("run-1"), ids.now())
