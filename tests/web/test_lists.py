"""Rows of tasks, and a watcher that reports what changed, whoever changed it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support import sample
from tests.support.sample_live import Live

from ralph.core import paths
from ralph.install import project
from ralph.learning import insights, review
from ralph.loop import runs
from ralph.memory import knowledge, memory
from ralph.storage import task_files
from ralph.tasks import task
from ralph.web.lists import list_tasks
from ralph.web.watcher import Watcher


@pytest.fixture
def root(tmp_path: Path) -> Path:
    project.init(tmp_path)
    return tmp_path


def test_nothing_changed_without_a_change(root: Path) -> None:
    watcher = Watcher(root)
    assert watcher.look() == ([], [])
    assert watcher.look() == ([], [])


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda root: memory.add(root, "Something"), "records"),
        (lambda root: memory.add(root, "Something", in_="guardrails"), "records"),
        (lambda root: knowledge.add(root, "Title", "Words", ["a"]), "records"),
        (lambda root: (root / "progress.txt").write_text("## x\n", encoding="utf-8"), "records"),
        (lambda root: (root / ".agent/memories.md").unlink(), "records"),
        (lambda root: task.add(root, "Something to do"), "tasks"),
    ],
)
def test_changed_part_is_reported_once(
    root: Path, change: Callable[[Path], object], part: str
) -> None:
    watcher = Watcher(root)
    watcher.look()
    change(root)
    assert watcher.look()[0] == [part]
    assert watcher.look() == ([], [])


def test_missing_folder_has_no_changes(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path / "nothing")
    assert watcher.look() == ([], [])


def test_changed_insights_sessions_and_runs_are_reported(tmp_path: Path) -> None:
    shop = sample.copied(tmp_path / "shop")
    watcher = Watcher(shop.root)
    watcher.look()
    found = next(
        each for each in insights.list_(shop.root) if each.record.status is not insights.REJECTED
    )
    review.reject(shop.root, found.record.id)
    assert watcher.look()[0] == ["insights"]
    log = next((paths.log_folder(shop.root) / "sessions").glob("*.jsonl"))
    with log.open("a", encoding="utf-8") as more:
        more.write('{"v":1,"type":"note"}\n')
    assert watcher.look()[0] == ["sessions"]
    run = runs.read(shop.root, shop.runs[0])
    log = paths.log_folder(shop.root) / "runs" / f"{run.id}.jsonl"
    with log.open("a", encoding="utf-8") as more:
        more.write('{"v":1,"type":"note"}\n')
    assert watcher.look()[0] == ["runs"]


def test_live_run_is_reported_until_it_ends(tmp_path: Path) -> None:
    shop = sample.copied(tmp_path / "shop")
    with sample.isolated(shop.env):
        live = Live(shop.root).start()
        try:
            watcher = Watcher(shop.root)
            assert [(row["id"], row["alive"]) for row in watcher.look()[1]] == [(live.id, True)]
            live.advance()
            parts = watcher.look()
            assert "runs" in parts[0]
            assert [(row["id"], row["iterations"]) for row in parts[1]] == [
                (live.id, live.run.iterations)
            ]
        finally:
            live.stop()
        assert [(row["id"], row["alive"]) for row in watcher.look()[1]] == [(live.id, False)]
        assert watcher.look() == ([], [])


def test_broken_task_file_is_noted(tmp_path: Path) -> None:
    task.add(tmp_path, "good")
    broken = tmp_path / ".ralph" / "tasks" / "t-broken" / "task.json"
    broken.parent.mkdir()
    broken.write_text("{", encoding="utf-8", newline="")
    tasks = list_tasks(tmp_path)
    assert [row["title"] for row in tasks["items"]] == ["good"]
    assert tasks["notes"][0].startswith(".ralph/tasks/t-broken/task.json: ")


def test_unknown_task_state_is_listed_unchanged(tmp_path: Path) -> None:
    path = task_files.task_file(tmp_path, task.add(tmp_path, "odd").task.id)
    path.write_text(
        path.read_text(encoding="utf-8").replace('"pending"', '"parked"'),
        encoding="utf-8",
        newline="",
    )
    tasks = list_tasks(tmp_path)
    assert tasks["items"][0]["status"] == "parked"
    assert tasks["by_state"]["parked"] == 1


def test_log_that_came_and_a_log_of_the_day_are_noticed_beside_old_ones(root: Path) -> None:
    logs = paths.log_folder(root) / "sessions"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "old.jsonl").write_text("{}\n", encoding="utf-8")
    (logs / "today.jsonl").write_text("{}\n", encoding="utf-8")
    for place in (logs / "old.jsonl", logs):
        os.utime(place, (1_700_000_000, 1_700_000_000))
    watcher = Watcher(root)
    assert watcher.look() == watcher.look() == ([], [])
    (logs / "today.jsonl").write_text("{}\n{}\n", encoding="utf-8")
    assert watcher.look()[0] == ["sessions"]
    (logs / "new.jsonl").write_text("{}\n", encoding="utf-8")
    assert watcher.look()[0] == ["sessions"]
    assert watcher.look() == ([], [])
