"""Memory that was staged in a worktree which somebody deleted: told by doctor, and kept before the index goes."""

import shutil
from pathlib import Path

import pytest
from tests.app.looping import Workshop, git, project

from ralph import paths
from ralph.app import doctor, index, knowledge, memory, search, task_memory
from ralph.app.worktrees import rescue, task_drop, worktree
from ralph.formats import sections
from ralph.model.query import Query
from ralph.model.record import MemoryKind
from ralph.model.work import Task
from ralph.store import files


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")
    made = project(tmp_path / "shop")
    memory.add(made.root, "Redis must run first.", MemoryKind.FIX)
    git(made.root, "add", ".agent")
    git(made.root, "commit", "-q", "-m", "memory")
    return made


def staged(shop: Workshop) -> tuple[Task, Path]:
    """A worktree with one memory that is committed there, and two that are not."""
    work = task_memory.add(shop.root, "refunds", in_worktree=True).task
    place = worktree.workplace(shop.root, work)
    memory.add(place, "Cents, never floats.", MemoryKind.DECISION)
    git(place, "add", ".agent")
    git(place, "commit", "-q", "-m", "memory")
    memory.add(place, "Close the ledger at noon.", MemoryKind.FIX, ["ledger"])
    knowledge.add(place, "Ledger", "LedgerWriter books it.", ["ledger"])
    search.search(place, Query(text="ledger"))
    return work, place


def rescued(root: Path, name: str) -> list[str]:
    text = files.read(rescue.folder(root) / f"{name}.md") or ""
    return sorted(entry.record.text for entry in sections.parse(text).entries)


ONLY_THERE = ["Close the ledger at noon.", "LedgerWriter books it."]


def test_doctor_tells_of_memory_that_only_the_index_of_a_deleted_worktree_has_and_prune_keeps_it(
    shop: Workshop,
) -> None:
    work, place = staged(shop)
    shutil.rmtree(place)
    [told] = [each for each in doctor.examine(shop.root) if each.problem.code == "worktree-index"]
    assert told.needs_a_person
    assert "2 memories that nothing else has" in told.problem.what
    assert ".ralph/log/rescued" in told.problem.hint
    [done] = index.prune(shop.root, really=True)
    assert f"its memories are in {rescue.folder(shop.root) / work.id}.md" in done.why
    assert rescued(shop.root, work.id) == ONLY_THERE
    later = [each for each in doctor.examine(shop.root) if each.problem.code in ("worktree-index", "rescued")]
    assert [(each.path.name, each.needs_a_person) for each in later] == [(f"{work.id}.md", False)]


def test_a_worktree_that_is_made_again_costs_none_of_what_was_staged(shop: Workshop) -> None:
    work, place = staged(shop)
    shutil.rmtree(place)
    worktree.make(shop.root, work.id)
    assert rescued(shop.root, work.id) == ONLY_THERE
    assert [each.record.text for each in memory.list_(place)] == ["Cents, never floats.", "Redis must run first."]


def test_what_was_committed_or_merged_is_not_kept_twice(shop: Workshop) -> None:
    work, place = staged(shop)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "all of it")
    shutil.rmtree(place)
    git(shop.root, "worktree", "prune")
    assert rescue.only_there(shop.root, work.id) == []
    [done] = rescue.clear(shop.root)
    assert done.kept is None
    assert not rescue.folder(shop.root).exists()


def test_what_somebody_agreed_to_lose_is_not_brought_back(shop: Workshop) -> None:
    work, place = staged(shop)
    task_drop.drop(shop.root, work.id, agreed=task_drop.losses(shop.root, work.id))
    assert not place.exists()
    assert not rescue.folder(shop.root).exists()
    assert list(paths.tree_caches(shop.root).iterdir()) == []


def test_dropping_after_the_folder_was_deleted_by_hand_keeps_what_was_staged(shop: Workshop) -> None:
    work, place = staged(shop)
    shutil.rmtree(place)
    task_drop.drop(shop.root, work.id, agreed=task_drop.losses(shop.root, work.id))
    assert set(ONLY_THERE) <= set(rescued(shop.root, work.id))


def test_a_damaged_index_gives_nothing_and_goes(shop: Workshop) -> None:
    work, place = staged(shop)
    shutil.rmtree(place)
    (paths.tree_cache(shop.root, work.id) / "ralph.db").write_bytes(b"nonsense")
    assert rescue.only_there(shop.root, work.id) == []
    assert [each.kept for each in rescue.clear(shop.root)] == [None]
    assert list(paths.tree_caches(shop.root).iterdir()) == []


# --- other things that happen to worktrees ---------------------------------------------------------


def test_logs_that_were_written_in_a_worktree_are_told_and_not_dropped_in_silence(shop: Workshop) -> None:
    work, place = staged(shop)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "all of it")
    shop.put(f".worktrees/{work.id}/.ralph/log/sessions/s-1.jsonl", "{}\n")
    wrong = worktree.trouble(shop.root, work)
    assert wrong is not None
    assert "has logs of its own" in wrong.what
    assert ".ralph/log/sessions/s-1.jsonl" in task_drop.losses(shop.root, work.id).uncommitted


def test_a_rewritten_branch_is_told_until_some_branch_keeps_what_was_there(shop: Workshop) -> None:
    work, place = staged(shop)
    worktree.seen(shop.root, work, git(place, "rev-parse", "HEAD").strip())
    git(place, "commit", "-q", "--amend", "-m", "other words")
    again = worktree.make(shop.root, work.id).task
    wrong = worktree.trouble(shop.root, again)
    assert wrong is not None
    assert "was rewritten" in wrong.what, "to make it again mends the worktree, not the branch"
    command = wrong.hint.split("`")[1].split()
    git(shop.root, *command[1:])
    assert worktree.trouble(shop.root, again) is None
