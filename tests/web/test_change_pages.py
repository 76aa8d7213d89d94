"""A change is shown before it is made, made as it was shown, and taken back only where nobody was meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ralph.core.errors import Conflict, NotFound
from ralph.install import project
from ralph.learning import insights
from ralph.memory import knowledge, memory, reading
from ralph.storage import files
from ralph.tasks import task
from ralph.web import changes as change
from ralph.web import changes as change_verbs
from ralph.web.changes import MAX_UNDO, ChangeHistory, ChangeRequest

MEMORIES = ".agent/memories.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "cache" / "project"  # a name that must not be taken for the cache
    folder.mkdir(parents=True)
    project.init(folder)
    return folder


@pytest.fixture
def name(root: Path) -> str:
    return memory.add(root, "Tests need Redis", tags=["redis"]).stored.record.id


def read(root: Path, file: str = MEMORIES) -> str:
    return (root / file).read_text(encoding="utf-8")


def stamps(plan: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["before"] for each in plan["files"]}


def apply(root: Path, changes: ChangeHistory, wanted: ChangeRequest) -> str:
    return changes.apply(wanted, stamps(change.plan_change(root, wanted))).undo


def test_a_promotion_shows_also_the_mark_at_the_insight(root: Path) -> None:
    work = task.add(root, "Something").task.id
    place = root / ".ralph/tasks" / work / "memory/insights.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    from ralph.core.record import MemoryKind, Record, Scope, Status
    from ralph.formats.insight_files import parse_insights

    one = Record("ins-1791000000-a3f81c", MemoryKind.FIX, "Run make first", label="gotcha", status=Status.PROPOSED,
                 scope=Scope.TASK, created_at="2026-01-01T00:00:00Z")  # fmt: skip
    place.write_text(str(parse_insights("").add(one)), encoding="utf-8")
    wanted = ChangeRequest("promote", one.id, to="patterns")
    plan = change.plan_change(root, wanted)
    assert sorted(each["name"] for each in plan["files"]) == sorted(
        [".ralph/global-patterns.md", f".ralph/tasks/{work}/memory/insights.json"]
    )
    changes = ChangeHistory(root)
    before = [read(root, each["name"]) for each in plan["files"]]
    undo = apply(root, changes, wanted)
    assert insights.promotions(insights.find(root, one.id).record)
    changes.undo(undo)
    assert [read(root, each["name"]) for each in plan["files"]] == before


def test_a_conflict_in_one_file_changes_no_file(root: Path) -> None:
    entry = knowledge.add(root, "How it works", "The old body", ["a"]).stored
    wanted = ChangeRequest("edit", entry.record.id, text="The new body")
    plan = change.plan_change(root, wanted)
    assert len(plan["files"]) == 2  # the body that goes is kept in the log
    changes = ChangeHistory(root)
    given = {
        each: ("0" * 64 if each.endswith(".md") else stamp) for each, stamp in stamps(plan).items()
    }
    with pytest.raises(Conflict):
        changes.apply(wanted, given)
    assert not reading.replaced_bodies_log(root).exists()


def test_a_change_that_fails_half_way_is_undone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = knowledge.add(root, "How it works", "The old body", ["a"]).stored
    before = entry.path.read_bytes()
    wanted = ChangeRequest("edit", entry.record.id, text="The new body")
    given = stamps(change.plan_change(root, wanted))
    real, calls = change_verbs.apply_action, []

    def fails(*words: Any) -> change_verbs.ChangeResult:
        done = real(*words)
        calls.append(done)
        assert entry.path.read_bytes() != before
        raise KeyboardInterrupt

    monkeypatch.setattr(change_verbs, "apply_action", fails)
    with pytest.raises(KeyboardInterrupt):
        ChangeHistory(root).apply(wanted, given)
    assert entry.path.read_bytes() == before
    assert not reading.replaced_bodies_log(root).exists()


def test_undo_restores_every_byte(root: Path, name: str) -> None:
    path = root / MEMORIES
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\xff odd\r\n")
    before = path.read_bytes()
    changes = ChangeHistory(root)
    undo = apply(root, changes, ChangeRequest("retag", name, tags=("x",)))
    assert path.read_bytes() != before
    changes.undo(undo)
    assert path.read_bytes() == before


def test_undo_deletes_a_new_file_and_restores_a_deleted_one(root: Path) -> None:
    changes = ChangeHistory(root)
    undo = apply(
        root,
        changes,
        ChangeRequest("add", noun="knowledge", title="New", text="Words", tags=("a",)),
    )
    assert (root / ".ralph/knowledge/new.md").exists()
    changes.undo(undo)
    assert not (root / ".ralph/knowledge/new.md").exists()
    entry = knowledge.add(root, "Old", "Words", ["a"]).stored
    before = entry.path.read_bytes()
    undo = apply(root, changes, ChangeRequest("delete", entry.record.id))
    assert not entry.path.exists()
    changes.undo(undo)
    assert entry.path.read_bytes() == before


@pytest.mark.parametrize("meddle", [
    lambda path: path.write_text("somebody else\n", encoding="utf-8"), lambda path: path.unlink(),
])  # fmt: skip
def test_undo_is_refused_when_the_file_changed(
    root: Path, name: str, meddle: Callable[[Path], object]
) -> None:
    changes = ChangeHistory(root)
    undo = apply(root, changes, ChangeRequest("archive", name))
    meddle(root / MEMORIES)
    now = files.read(root / MEMORIES)
    with pytest.raises(Conflict):
        changes.undo(undo)
    assert files.read(root / MEMORIES) == now


def test_changes_of_the_same_file_are_undone_in_reverse_order(root: Path, name: str) -> None:
    changes = ChangeHistory(root)
    before = read(root)
    one = apply(root, changes, ChangeRequest("edit", name, text="One"))
    two = apply(root, changes, ChangeRequest("edit", name, text="Two"))
    with pytest.raises(Conflict):
        changes.undo(one)
    changes.undo(two)
    changes.undo(one)
    assert read(root) == before
    with pytest.raises(NotFound):
        changes.undo(one)


def test_undo_keeps_lines_that_were_appended_to_a_log(root: Path) -> None:
    first = knowledge.add(root, "How it works", "The old body", ["a"]).stored
    changes = ChangeHistory(root)
    undo = apply(root, changes, ChangeRequest("edit", first.record.id, text="The new body"))
    files.append(reading.replaced_bodies_log(root), '{"v":1,"type":"note"}\n')
    changes.undo(undo)
    assert "The old body" in first.path.read_text(encoding="utf-8")
    assert '"type":"note"' in reading.replaced_bodies_log(root).read_text(encoding="utf-8")


@pytest.mark.soak
def test_only_the_last_changes_are_kept(root: Path, name: str) -> None:
    changes = ChangeHistory(root)
    first = apply(root, changes, ChangeRequest("edit", name, text="Words 0"))
    for number in range(1, MAX_UNDO + 1):
        apply(root, changes, ChangeRequest("edit", name, text=f"Words {number}"))
    with pytest.raises(NotFound):
        changes.undo(first)


def test_derived_files_are_not_part_of_a_plan(root: Path, name: str) -> None:
    (root / ".ralph/.gitignore").unlink()
    plan = change.plan_change(root, ChangeRequest("archive", name))
    assert [each["name"] for each in plan["files"]] == [MEMORIES]
