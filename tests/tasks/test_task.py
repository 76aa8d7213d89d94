"""What people do with tasks."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core import paths
from ralph.core.errors import NotFound, RalphError, Refused, Unreadable
from ralph.core.record import Outcome
from ralph.core.work import JournalEntry, Task, TaskStatus
from ralph.formats.journal import journal_record
from ralph.formats.log import encode_record
from ralph.formats.task_files import render_task
from ralph.storage import task_files
from ralph.storage.board import MAX_HISTORY
from ralph.tasks import claims, feature, task, task_history

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def new(root: Path, title: str = "one", **more: object) -> str:
    return task.add(root, title, **more).task.id  # type: ignore[arg-type]  # the names are add's own


def now_of(root: Path, name: str) -> Task:
    return task_files.read_board(root).locations[name].task


def file_of(root: Path, name: str) -> Path:
    return root / ".ralph" / "tasks" / name / "task.json"


def everything_in(root: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in root.rglob("*") if path.is_file())


def put(root: Path, folder: str, text: str) -> Path:
    path = file_of(root, folder)
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())
    return path


# --- add ---------------------------------------------------------------------------------------


def test_a_new_task_is_pending_and_says_what_it_was_given(tmp_path: Path) -> None:
    first = new(tmp_path, "  Refund\n an order ")
    kind = feature.add(tmp_path, "Refunds").feature.id
    added = task.add(
        tmp_path, "Show it", "\n\nAt length.\r\nTwo lines.  \n", priority=2, blocked_by=[first, first], parent=None,
        feature_id=kind,
    )  # fmt: skip
    made = now_of(tmp_path, added.task.id)
    assert made == added.task
    assert (made.description, made.priority, made.blocked_by, made.feature) == (
        "At length.\nTwo lines.",
        2,
        (first,),
        kind,
    )
    assert (made.status, made.claim, made.attempts) == ("pending", None, 0)
    assert made.created_at == made.updated_at
    assert now_of(tmp_path, first).title == "Refund an order"
    assert task_files.task_file(tmp_path, made.id) == file_of(tmp_path, made.id)
    assert len(made.id) == len("t-1a2b3c")


def test_what_a_task_names_must_be_there(tmp_path: Path) -> None:
    for more in ({"blocked_by": ["t-none"]}, {"parent": "t-none"}, {"feature_id": "f-none"}):
        with pytest.raises(NotFound, match="none"):
            new(tmp_path, **more)
    assert task_files.read_board(tmp_path).locations == {}


def test_what_has_ended_gets_no_more_parts(tmp_path: Path) -> None:
    top = new(tmp_path)
    task.done(tmp_path, top)
    with pytest.raises(Refused, match="more subtasks"):
        new(tmp_path, parent=top)


def test_private_parts_and_secrets_do_not_reach_the_disk(tmp_path: Path) -> None:
    added = task.add(tmp_path, "Call <private>Kim</private> back", "at <private>555</private> noon")
    assert (added.private_parts, added.task.title, added.task.description) == (
        2,
        "Call back",
        "at  noon",
    )
    name = added.task.id
    calls: tuple[Callable[[], object], ...] = (
        lambda: task.add(tmp_path, f"use {SECRET}"),
        lambda: task.add(tmp_path, "x", f"use {SECRET}"),
        lambda: task.fail(tmp_path, name, f"use {SECRET}"),
        lambda: task.block(tmp_path, name, f"use {SECRET}"),
        lambda: task.add(tmp_path, "a custom-123 word", patterns=["custom-[0-9]+"]),
    )
    for call in calls:
        with pytest.raises(Refused, match="secret"):
            call()
    for empty in ("", " \n", "<private>all</private>", "\u200b"):
        with pytest.raises(Refused, match="title is empty"):
            task.add(tmp_path, empty)
    left = everything_in(tmp_path)
    assert SECRET not in left
    assert "Kim" not in left
    assert "custom-123" not in left
    assert task.add(tmp_path, f"use {SECRET}", allow_secret=True).task.title.endswith(SECRET)


def test_tasks_stay_out_of_git_also_before_init(tmp_path: Path) -> None:
    new(tmp_path)
    assert "tasks/" in (tmp_path / ".ralph" / ".gitignore").read_text(encoding="utf-8").splitlines()
    own = tmp_path / ".ralph" / ".gitignore"
    own.write_text("mine\n", encoding="utf-8")
    new(tmp_path)
    assert own.read_text(encoding="utf-8") == "mine\n"


def test_tasks_added_within_one_second_keep_their_order(tmp_path: Path) -> None:
    names = [new(tmp_path, str(number)) for number in range(12)]
    assert [each.id for each in task.ready(tmp_path)] == names


# --- states ------------------------------------------------------------------------------------

VERBS = {
    TaskStatus.IN_PROGRESS: task.start,
    TaskStatus.DONE: task.done,
    TaskStatus.FAILED: task.fail,
    TaskStatus.BLOCKED: task.block,
    TaskStatus.PENDING: task.reset,
}


@pytest.mark.parametrize("before", [*TaskStatus, "someday"])
@pytest.mark.parametrize("after", TaskStatus)
def test_a_state_follows_another_where_the_table_says_so(
    tmp_path: Path, before: str, after: TaskStatus
) -> None:
    path = put(tmp_path, "t-1", render_task(Task("t-1", "one", status=before)))
    text = path.read_bytes()
    if before == after:
        assert not VERBS[after](tmp_path, "t-1").changed
        assert path.read_bytes() == text
    elif before not in ("done", "someday") or after is TaskStatus.PENDING:
        moved = VERBS[after](tmp_path, "t-1")
        assert (moved.task.status, moved.changed) == (after, True)
        assert now_of(tmp_path, "t-1") == moved.task
    else:
        with pytest.raises(Refused, match="cannot be") as caught:
            VERBS[after](tmp_path, "t-1")
        assert "ralph task set t-1 pending" in caught.value.hint
        assert path.read_bytes() == text


def test_a_start_by_hand_makes_no_claim_and_waits_for_blockers(tmp_path: Path) -> None:
    first = new(tmp_path)
    second = new(tmp_path, blocked_by=[first])
    with pytest.raises(Refused, match=first):
        task.start(tmp_path, second)
    task.done(tmp_path, first)
    assert task.start(tmp_path, second).task.claim is None
    assert task.ready(tmp_path) == []


def test_a_run_at_work_is_not_disturbed_by_start_and_reset(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    for verb in (task.start, task.reset):
        with pytest.raises(Refused, match="run-1"):
            verb(tmp_path, name)
    assert task.reset(tmp_path, name, force=True).task.claim is None
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    assert task.done(tmp_path, name).task.claim is None, "a person's word ends a claim"


def test_block_by_is_a_dependency_that_ends_by_itself(tmp_path: Path) -> None:
    one, two = new(tmp_path), new(tmp_path)
    task.start(tmp_path, one)
    waiting = task.block(tmp_path, one, by=[two]).task
    assert (waiting.status, waiting.blocked_by) == ("pending", (two,))
    assert not task.block(tmp_path, one, by=[two]).changed
    task.done(tmp_path, two)
    assert [each.id for each in task.ready(tmp_path)] == [one]
    with pytest.raises(Refused, match="done"):
        task.block(tmp_path, two, by=[one])
    with pytest.raises(NotFound):
        task.block(tmp_path, "t-none", by=[one])


def test_a_cycle_is_refused_and_named(tmp_path: Path) -> None:
    one = new(tmp_path)
    two = new(tmp_path, blocked_by=[one])
    three = new(tmp_path, blocked_by=[two])
    part = new(tmp_path, parent=three)
    before = file_of(tmp_path, one).read_bytes()
    with pytest.raises(Refused, match=f"{one} -> {three} -> {two} -> {one}"):
        task.block(tmp_path, one, by=[three])
    with pytest.raises(Refused, match=f"{one} -> {one}"):
        task.block(tmp_path, one, by=[one])
    with pytest.raises(Refused, match=f"{part} -> {three} -> {part}"):
        task.block(tmp_path, part, by=[three])
    with pytest.raises(NotFound, match="t-none"):
        task.block(tmp_path, one, by=["t-none"])
    assert file_of(tmp_path, one).read_bytes() == before


def test_the_reason_of_a_block_goes_with_it_and_that_of_a_failure_stays_until_it_is_done(
    tmp_path: Path,
) -> None:
    name = new(tmp_path)
    assert task.block(tmp_path, name, "no contract").task.extra["blocked_reason"] == "no contract"
    assert task.block(tmp_path, name, "no pen").task.extra["blocked_reason"] == "no pen"
    assert "blocked_reason" not in task.start(tmp_path, name).task.extra
    assert task.last_failure(task.fail(tmp_path, name, "too hard").task) == "too hard"
    assert task.last_failure(task.reset(tmp_path, name).task) == "too hard"
    assert task.last_failure(task.done(tmp_path, name).task) == ""


def test_a_parent_is_done_with_its_last_part_and_open_again_with_any(tmp_path: Path) -> None:
    grand = new(tmp_path, "grand")
    top = new(tmp_path, "top", parent=grand)
    one, two = new(tmp_path, "one", parent=top), new(tmp_path, "two", parent=top)
    with pytest.raises(Refused, match="not done"):
        task.done(tmp_path, top)
    assert task.done(tmp_path, one).parents == ()
    assert [each.id for each in task.done(tmp_path, two).parents] == [top, grand]
    assert task.ready(tmp_path) == []
    assert [each.id for each in task.reset(tmp_path, one).parents] == [top, grand]
    assert [each.id for each in task.ready(tmp_path)] == [one]
    task.done(tmp_path, one)
    with pytest.raises(Refused, match="all its subtasks are done"):
        task.reset(tmp_path, grand)


def test_reset_forgets_the_attempts(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    claims.count_attempt(tmp_path, name, "run-1")
    claims.finish(tmp_path, name, TaskStatus.FAILED, run="run-1", note="red")
    after = task.reset(tmp_path, name).task
    assert (after.attempts, after.status) == (0, "pending")


# --- files -------------------------------------------------------------------------------------

HAND = '\ufeff{\r\n\t"title": "by hand", "points": 1.0,\r\n\t"id":"t-9", "blocked_by": [ ],\r\n\t"status": "todo"\r\n}'


def test_a_changed_task_keeps_unknown_members_and_their_order(tmp_path: Path) -> None:
    path = put(tmp_path, "t-9", HAND)
    task.start(tmp_path, "t-9")
    before, after = (
        json.loads(HAND.removeprefix("\ufeff")),
        json.loads(path.read_text(encoding="utf-8")),
    )
    assert list(after) == ["title", "points", "id", "blocked_by", "status", "updated_at", "history"]
    assert after | {"status": "todo"} == before | {
        key: after[key] for key in ("updated_at", "history")
    }
    assert [each.id for each in task_files.read_board(tmp_path).tasks] == ["t-9"]


def test_a_member_named_history_that_is_somebodys_own_is_left_alone(tmp_path: Path) -> None:
    put(tmp_path, "t-1", '{"id": "t-1", "title": "x", "history": "long"}')
    assert task.done(tmp_path, "t-1").task.extra["history"] == "long"
    assert task_history.list_events(tmp_path, "t-1") == []


def test_a_history_does_not_grow_for_ever(tmp_path: Path) -> None:
    line = {"at": "2026-01-01", "from": "pending", "to": "done"}
    put(tmp_path, "t-1", json.dumps({"id": "t-1", "title": "x", "history": [line] * MAX_HISTORY}))
    history = task.done(tmp_path, "t-1").task.extra["history"]
    assert isinstance(history, list)
    assert len(history) == MAX_HISTORY
    assert history[-1] != line


def test_a_torn_file_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    path = put(tmp_path, "t-1", '{"id": "t-1", "ti')
    for call in (lambda: task.done(tmp_path, "t-1"), lambda: task.show(tmp_path, "t-1")):
        with pytest.raises(Unreadable, match="not JSON"):
            call()
    assert path.read_bytes() == b'{"id": "t-1", "ti'
    assert [each.path for each in task.list_(tmp_path)[1]] == [path]


def test_nothing_is_written_through_a_link_out_of_the_project(tmp_path: Path) -> None:
    root, away = tmp_path / "project", tmp_path / "away"
    path = put(away, "t-1", render_task(Task("t-1", "x")))
    (root / ".ralph").mkdir(parents=True)
    (root / ".ralph" / "tasks").symlink_to(path.parents[1])
    before = path.read_bytes()
    calls: tuple[Callable[[], object], ...] = (
        lambda: task.done(root, "t-1"),
        lambda: task.add(root, "y"),
    )
    for call in calls:
        with pytest.raises(RalphError):
            call()
    assert path.read_bytes() == before
    assert [each.name for each in path.parents[1].iterdir()] == ["t-1"]


# --- looking -----------------------------------------------------------------------------------


def test_a_list_is_by_state_by_feature_or_of_what_is_ready(tmp_path: Path) -> None:
    kind = feature.add(tmp_path, "Refunds").feature.id
    one = new(tmp_path, "one", feature_id=kind)
    two = new(tmp_path, "two", blocked_by=[one], priority=1)
    three = new(tmp_path, "three")
    task.fail(tmp_path, three)

    def ids(**how: object) -> list[str]:
        return [each.task.id for each in task.list_(tmp_path, **how)[0]]  # type: ignore[arg-type]  # as above

    assert ids() == [two, one, three]
    assert ids(status=TaskStatus.FAILED) == [three]
    assert ids(feature_id=kind) == [one]
    assert ids(only_ready=True) == [one]
    assert [each.waits_for for each in task.list_(tmp_path)[0]] == [(one,), (), ()]


def test_show_has_blockers_parts_and_stories(tmp_path: Path) -> None:
    one = new(tmp_path, "one")
    top = new(tmp_path, "top", blocked_by=[one])
    part = new(tmp_path, "part", parent=top)
    file_of(tmp_path, top).with_name("prd.json").write_text(
        '{"userStories": [{"id": "US-1", "title": "Button", "passes": true}]}', encoding="utf-8"
    )
    shown = task.show(tmp_path, top)
    assert [(name, each.title) for name, each in shown.blockers if each] == [(one, "one")]
    assert [each.id for each in shown.children] == [part]
    assert [(story.id, story.passes) for story in shown.stories] == [("US-1", True)]
    assert shown.listed.waits_for == (one, part)


def test_prerequisites_are_the_blockers_that_are_done(tmp_path: Path) -> None:
    one, two = new(tmp_path, "one"), new(tmp_path, "two")
    last = task.add(tmp_path, "last", blocked_by=[two, one]).task
    assert task.prerequisites(tmp_path, last) == []
    task.done(tmp_path, one)
    assert [each.id for each in task.prerequisites(tmp_path, last)] == [one]
    task.done(tmp_path, two)
    assert [each.id for each in task.prerequisites(tmp_path, last)] == [two, one]


def test_the_log_tells_changes_of_state_and_iterations_in_their_order(tmp_path: Path) -> None:
    name = new(tmp_path)
    claims.acquire(tmp_path, name, claims.make_claim("run-1"))
    entry = JournalEntry(
        "run-1", 1, Outcome.FAILED, task=name, notes="red tests", created_at="2999-01-01T00:00:00Z"
    )
    other = JournalEntry(
        "run-1", 2, Outcome.DONE, task="t-other", notes="green", created_at="2999-01-01T00:00:00Z"
    )
    log = paths.log_folder(tmp_path) / "runs" / "run-1.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(
        "".join(encode_record(journal_record(each)) for each in (entry, other)), encoding="utf-8"
    )
    events = task_history.list_events(tmp_path, name)
    assert [(event["what"], event["by"], event["note"]) for event in events] == [
        ("added", "", ""),
        ("pending -> in_progress", "run-1", ""),
        ("iteration 1: failed", "run-1", "red tests"),
    ]


@pytest.mark.soak
def test_ten_thousand_tasks_that_wait_for_each_other_are_listed(in_memory: Path) -> None:
    folder = in_memory / ".ralph" / "tasks"
    for number in range(10_000):
        blockers = (f"t-{number - 1}",) if number % 100 else ()
        parent = f"t-{number // 1000 * 1000}" if number % 1000 > 900 else None
        path = folder / f"t-{number}"
        path.mkdir(parents=True)
        text = render_task(
            Task(f"t-{number}", f"task {number}", blocked_by=blockers, parent=parent)
        )
        (path / "task.json").write_text(text, encoding="utf-8")
    found, unread = task.list_(in_memory)
    assert len(found) == 10_000
    assert unread == ()
    assert sum(each.is_ready for each in found) == 90, "ten of them have open parts"
