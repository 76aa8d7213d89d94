"""Which task may be begun, in which order, and which would wait for itself."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.work import Claim, Task, TaskStatus
from ralph.formats.task_files import render_task
from ralph.storage import board, task_files
from ralph.storage.board import Board, TaskLocation, is_live, status_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER, BEFORE = "2026-01-01T12:30:00Z", "2026-01-01T11:59:59Z"
NOBODY = 4_194_305
"""A process id that the kernel does not give out."""

NAMES = "abcdef"
links = st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple)
ended = st.sampled_from(
    ["pending", "pending", "pending", "in_progress", "done", "failed", "blocked", "wat"]
)


def of(*tasks: Task) -> Board:
    return Board({task.id: TaskLocation(task, Path(task.id)) for task in tasks})


def boards(states: st.SearchStrategy[str], names: str = NAMES) -> st.SearchStrategy[Board]:
    """Boards with any links at all between their tasks, and to some that are not there."""
    made = [
        st.builds(Task, st.just(name), st.just(name), status=states, blocked_by=links,
                  parent=st.one_of(st.none(), st.sampled_from(NAMES)))
        for name in names
    ]  # fmt: skip
    return st.tuples(*made).map(lambda tasks: of(*tasks))


def claim(run: str = "run-1", *, host: str = "", pid: int = 0, until: str = LATER) -> Claim:
    return Claim(run, host or board.host_name(), pid or os.getpid(), until)


def is_done(everything: Board, name: str) -> bool:
    task = everything.get(name)
    return task is not None and task.status == "done"


def may_begin(everything: Board, task: Task) -> bool:
    """As the rules say it, one task at a time."""
    parts = [each for each in everything.tasks if each.parent == task.id]
    if task.status != "pending" or not all(
        is_done(everything, name) for name in (*task.blocked_by,)
    ):
        return False
    if parts:
        return False
    seen: set[str] = set()
    above = task.parent
    while above and above not in seen:
        seen.add(above)
        parent = everything.get(above)
        if parent is None or parent.status not in ("pending", "in_progress"):
            return False
        if not all(is_done(everything, name) for name in parent.blocked_by):
            return False
        above = parent.parent
    return True


@given(boards(ended, "abcd"))
def test_ready_is_what_the_rules_say_on_any_board(everything: Board) -> None:
    ready = [task.id for task in everything.ready(NOW)]
    assert ready == [task.id for task in everything.tasks if may_begin(everything, task)]


def walked(everything: Board) -> list[str]:
    """The order in which tasks are done when the next one is always taken; parents end with their last part."""
    order = []
    while ready := everything.ready(NOW):
        task: Task | None = ready[0]
        while task is not None:
            order.append(task.id)
            everything = everything.with_tasks([replace(task, status="done")])
            above = everything.get(task.parent or "")
            is_last = above is not None and everything.has_all_children_done(above.id)
            task = above if is_last and above is not None and above.status != "done" else None
    return order


@given(boards(st.just("pending")))
def test_either_some_tasks_wait_for_themselves_or_all_can_be_done(everything: Board) -> None:
    tangled = {name for name in everything.locations if everything.cycle(name)}
    did = walked(everything)
    assert len(did) == len(set(did)), "each is done once"
    assert set(did) >= set(everything.locations) - tangled
    assert (set(did) == set(everything.locations)) == (not tangled)
    assert bool(everything.cycle()) == bool(tangled)


@given(boards(ended, "abc"))
def test_a_cycle_leads_from_a_task_to_itself(everything: Board) -> None:
    for name in everything.locations:
        way = everything.cycle(name)
        assert not way or (
            way[0] == way[-1] and len(way) > 1 and set(way) <= set(everything.locations)
        )


@pytest.mark.parametrize(
    ("tasks", "way"),
    [
        ([Task("a", "", blocked_by=("a",))], ("a", "a")),
        ([Task("a", "", blocked_by=("b",)), Task("b", "", blocked_by=("a",))], ("a", "b", "a")),
        ([Task("a", "", parent="b"), Task("b", "", parent="a")], ("a", "b", "a")),
        ([Task("a", "", parent="b", blocked_by=("b",)), Task("b", "")], ("a", "b", "a")),
        ([Task("a", "", blocked_by=("b",)), Task("b", "", parent="a")], ("a", "b", "a")),
        ([Task("a", "", blocked_by=("b",)), Task("b", "", blocked_by=("c",)), Task("c", "")], ()),
    ],
    ids=["itself", "blockers", "parents", "its own parent", "its own child", "none"],
)
def test_no_task_may_wait_for_itself(tasks: list[Task], way: tuple[str, ...]) -> None:
    assert of(*tasks).cycle("a") == way


def test_priority_comes_first_then_age_then_the_id_and_none_comes_last() -> None:
    old, new = (
        "2026-01-01T00:00:00+09:00",
        "2025-12-31T16:00:00Z",
    )  # the first is older, though it reads later
    tasks = [
        Task("z", "", created_at=old),
        Task("y", "", priority=5),
        Task("x", "", priority=1, created_at=new),
        Task("w", "", priority=1, created_at=old),
        Task("v", "", priority=1, created_at=new),
        Task("u", "", priority=-1, created_at="2020"),
        Task("t", "", priority=5, created_at="2020-01-01"),
    ]
    assert [task.id for task in of(*tasks).ready(NOW)] == ["w", "v", "x", "y", "t", "u", "z"]


def test_what_holds_a_parent_holds_its_children_and_open_children_hold_a_parent() -> None:
    for parent in ("done", "failed", "blocked"):
        everything = of(
            Task("p", "", status=parent), Task("c", "", parent="p"), Task("g", "", parent="c")
        )
        assert everything.ready(NOW) == []
        assert everything.waits_for(everything.locations["g"].task) == ("c",)
    everything = of(Task("b", ""), Task("p", "", blocked_by=("b",)), Task("c", "", parent="p"))
    assert [task.id for task in everything.ready(NOW)] == ["b"]
    after = everything.with_tasks([Task("b", "", status="done")])
    assert [task.id for task in after.ready(NOW)] == ["c"]
    late = after.with_tasks([Task("c", "", "", "done", parent="p")])
    assert (late.ready(NOW), [task.id for task in late.parents_to_close()]) == ([], ["p"]), (
        "it is about to end by itself"
    )


def test_an_unknown_blocker_or_parent_holds_a_task() -> None:
    everything = of(Task("a", "", blocked_by=("gone",)), Task("b", "", parent="gone"))
    assert everything.ready(NOW) == []
    assert [everything.waits_for(task) for task in everything.tasks] == [("gone",), ("gone",)]


def test_nobody_gets_a_task_that_somebody_works_on() -> None:
    begun = Task("a", "", status="in_progress")
    assert of(begun).ready(NOW) == [], "a person has begun it"
    assert of(replace(begun, claim=claim())).ready(NOW) == []
    for dead in (
        claim(until=BEFORE),
        claim(pid=NOBODY),
        claim(pid=-1),
        claim(pid=10**30),
        claim(until="soon"),
    ):
        assert [task.id for task in of(replace(begun, claim=dead)).ready(NOW)] == ["a"], dead


def test_a_claim_of_another_machine_counts_until_it_expires() -> None:
    far = claim(host="elsewhere", pid=NOBODY)
    assert is_live(far, NOW)
    assert not is_live(far, NOW + timedelta(hours=1))
    assert not is_live(None, NOW)


def test_the_words_of_other_tools_for_a_state_are_understood() -> None:
    words = {
        "In Progress": "in_progress",
        "todo": "pending",
        " CLOSED ": "done",
        "in-progress": "in_progress",
    }
    assert {word: status_of(Task("a", "", status=word)) for word in words} == {
        word: TaskStatus(meant) for word, meant in words.items()
    }
    assert status_of(Task("a", "", status="later")) is None


def put(root: Path, folder: str, text: str) -> None:
    path = root / ".ralph" / "tasks" / folder / "task.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())


def test_a_task_is_in_the_folder_of_its_name_and_what_cannot_be_read_is_told(
    tmp_path: Path,
) -> None:
    put(tmp_path, "task-002", render_task(Task("t-2", "two")))
    put(tmp_path, "t-2", render_task(Task("t-2", "the one in the folder of its name")))
    put(tmp_path, "torn", '{"id": "t-3')
    put(tmp_path, "nameless", '{"title": "x"}')
    put(tmp_path, "empty", "")
    (tmp_path / ".ralph/tasks/odd/task.json").mkdir(parents=True)
    (tmp_path / ".ralph/tasks/notes.md").write_bytes(b"not a folder")
    everything = task_files.read_board(tmp_path)
    assert {name: each.path.parent.name for name, each in everything.locations.items()} == {
        "t-2": "t-2"
    }
    assert sorted(each.path.parent.name for each in everything.unreadable) == [
        "empty",
        "nameless",
        "odd",
        "task-002",
        "torn",
    ]
    assert all(each.what for each in everything.unreadable)


def test_a_project_without_tasks_has_an_empty_board(tmp_path: Path) -> None:
    assert task_files.read_board(tmp_path) == Board({})
    assert list(tmp_path.iterdir()) == []


def test_a_chain_of_thousands_is_no_harder_than_a_heap() -> None:
    count = 3000
    chain = [
        Task(f"t{n}", "", parent=f"t{n - 1}" if n else None, blocked_by=()) for n in range(count)
    ]
    assert [task.id for task in of(*chain).ready(NOW)] == [f"t{count - 1}"]
    line = [
        Task(f"t{n}", "", blocked_by=(f"t{n - 1}",) if n else (f"t{count - 1}",))
        for n in range(count)
    ]
    assert len(of(*line).cycle("t0")) == count + 1
