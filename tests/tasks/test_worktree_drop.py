"""Dropping a worktree: whatever is only there is named before it goes, wherever git keeps it."""

import shutil
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.looping import Workshop, project
from tests.support.worktrees import commit, new, now

from ralph.core.errors import Conflict, NotFound, Refused
from ralph.loop import runs
from ralph.loop.state import Run
from ralph.tasks import claims, task, worktree, worktree_drop
from ralph.tasks.worktree_drop import Losses


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")
    made = project(tmp_path / "shop")
    made.put(".gitignore", "*.env\n__pycache__/\nbuilt/\n")
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "ignore")
    return made


def test_commits_on_no_branch_are_a_loss_and_are_named(shop: Workshop) -> None:
    work = new(shop)
    place = worktree.working_folder(shop.root, work)
    git(place, "switch", "-q", "--detach")
    tip = commit(place)
    lost = worktree_drop.find_losses(shop.root, work.id)
    assert [line.split(" ", 1)[1] for line in lost.commits] == ["add new.py"]
    with pytest.raises(Refused, match=tip[:7]):
        worktree_drop.drop(shop.root, work.id)
    assert (place / "new.py").exists()


def test_files_that_git_ignores_are_a_loss_and_caches_are_none(shop: Workshop) -> None:
    work = new(shop)
    place = worktree.working_folder(shop.root, work)
    (place / "lib" / "__pycache__").mkdir(parents=True)
    (place / "lib" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (place / ".ralph").mkdir(exist_ok=True)
    (place / ".ralph" / "scratchpad.md").write_text("now\n", encoding="utf-8")
    assert not worktree_drop.find_losses(shop.root, work.id)
    (place / "my.env").write_text("KEY=1\n", encoding="utf-8")
    (place / "built").mkdir()
    (place / "built" / "one.o").write_bytes(b"x")
    lost = worktree_drop.find_losses(shop.root, work.id)
    assert lost == Losses(ignored=("built/", "my.env"))
    assert "2 that git ignores: built/, my.env" in lost.description
    with pytest.raises(Refused, match=r"my\.env"):
        worktree_drop.drop(shop.root, work.id)
    worktree_drop.drop(shop.root, work.id, agreed=lost)
    assert not place.exists()


def test_another_branch_that_the_worktree_is_on_stays(shop: Workshop) -> None:
    work = new(shop)
    place = worktree.working_folder(shop.root, work)
    git(place, "switch", "-q", "-c", "other")
    tip = commit(place)
    assert not worktree_drop.find_losses(shop.root, work.id)
    worktree_drop.drop(shop.root, work.id)
    assert git(shop.root, "rev-parse", "other").strip() == tip


@pytest.mark.parametrize("ended", [False, True])
def test_nothing_goes_while_a_run_is_at_it_also_when_somebody_ended_the_task(
    shop: Workshop, ended: bool
) -> None:
    work = new(shop)
    run = runs.assign_to_this_process(
        Run(id="run-00000001", goal="refunds", task=work.id, only=(work.id,))
    )
    runs.save(shop.root, None, run)
    claims.acquire(shop.root, work.id, claims.make_claim(run.id))
    if ended:
        task.done(shop.root, work.id)
        assert now(shop, work).claim is None
    with pytest.raises(Conflict, match="run-00000001"):
        worktree_drop.drop(shop.root, work.id)
    assert worktree.working_folder(shop.root, work).is_dir()


def test_drop_refuses_while_something_is_only_there_and_then_takes_both(shop: Workshop) -> None:
    work = new(shop)
    place = worktree.working_folder(shop.root, work)
    commit(place)
    (place / "half.py").write_text("half\n", encoding="utf-8")
    (place / "cart.py").write_text("other\n", encoding="utf-8")
    with pytest.raises(Refused, match="would be lost") as told:
        worktree_drop.drop(shop.root, work.id)
    assert all(name in told.value.message for name in ("half.py", "cart.py", "add new.py"))
    assert (place / "half.py").exists()
    lost = worktree_drop.find_losses(shop.root, work.id)
    (place / "later.py").write_text("later\n", encoding="utf-8")
    with pytest.raises(Refused, match=r"later\.py"):
        worktree_drop.drop(shop.root, work.id, agreed=lost)
    worktree_drop.drop(shop.root, work.id, agreed=worktree_drop.find_losses(shop.root, work.id))
    assert not place.exists()
    assert f"ralph/{work.id}" not in git(shop.root, "branch", "--list")
    after = now(shop, work)
    assert (after.worktree, after.branch) == (None, None)


def test_what_is_merged_or_on_another_branch_is_no_loss(shop: Workshop) -> None:
    work = new(shop)
    commit(worktree.working_folder(shop.root, work))
    assert worktree_drop.find_losses(shop.root, work.id).commits
    git(shop.root, "branch", "kept", work.branch or "")
    assert not worktree_drop.find_losses(shop.root, work.id)
    worktree_drop.drop(shop.root, work.id)


def test_a_branch_of_somebody_else_stays_when_the_worktree_goes(shop: Workshop) -> None:
    git(shop.root, "branch", "theirs")
    work = task.add(
        shop.root, "one", prd='{"branchName": "theirs", "userStories": []}', in_worktree=True
    ).task
    worktree_drop.drop(shop.root, work.id)
    assert "theirs" in git(shop.root, "branch", "--list")


def test_a_worktree_that_was_deleted_by_hand_can_be_dropped(shop: Workshop) -> None:
    work = new(shop)
    shutil.rmtree(worktree.working_folder(shop.root, work))
    worktree_drop.drop(shop.root, work.id)
    assert work.id not in git(shop.root, "worktree", "list")
    with pytest.raises(NotFound):
        worktree_drop.drop(shop.root, work.id)


def test_nothing_is_dropped_while_a_run_works_there(shop: Workshop) -> None:
    work = new(shop)
    claims.acquire(shop.root, work.id, claims.make_claim("run-00000001"))
    with pytest.raises(Conflict, match="run-00000001"):
        worktree_drop.drop(shop.root, work.id)
