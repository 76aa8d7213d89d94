"""Dropping a worktree: whatever is only there is named before it goes, wherever git keeps it."""

from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.looping import Workshop, project
from tests.support.worktrees import commit, new, now

from ralph.core.errors import Conflict, Refused
from ralph.loop import runs
from ralph.loop.state import Run
from ralph.tasks import task, worktree
from ralph.tasks.worktree import Losses


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
    lost = worktree.losses(shop.root, work.id)
    assert [line.split(" ", 1)[1] for line in lost.commits] == ["add new.py"]
    with pytest.raises(Refused, match=tip[:7]):
        worktree.drop(shop.root, work.id)
    assert (place / "new.py").exists()


def test_files_that_git_ignores_are_a_loss_and_caches_are_none(shop: Workshop) -> None:
    work = new(shop)
    place = worktree.working_folder(shop.root, work)
    (place / "lib" / "__pycache__").mkdir(parents=True)
    (place / "lib" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (place / ".ralph").mkdir(exist_ok=True)
    (place / ".ralph" / "scratchpad.md").write_text("now\n", encoding="utf-8")
    assert not worktree.losses(shop.root, work.id)
    (place / "my.env").write_text("KEY=1\n", encoding="utf-8")
    (place / "built").mkdir()
    (place / "built" / "one.o").write_bytes(b"x")
    lost = worktree.losses(shop.root, work.id)
    assert lost == Losses(ignored=("built/", "my.env"))
    assert "2 that git ignores: built/, my.env" in lost.description
    with pytest.raises(Refused, match=r"my\.env"):
        worktree.drop(shop.root, work.id)
    worktree.drop(shop.root, work.id, agreed=lost)
    assert not place.exists()


def test_another_branch_that_the_worktree_is_on_stays(shop: Workshop) -> None:
    work = new(shop)
    place = worktree.working_folder(shop.root, work)
    git(place, "switch", "-q", "-c", "other")
    tip = commit(place)
    assert not worktree.losses(shop.root, work.id)
    worktree.drop(shop.root, work.id)
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
    task.claim(shop.root, work.id, task.claim_of(run.id))
    if ended:
        task.done(shop.root, work.id)
        assert now(shop, work).claim is None
    with pytest.raises(Conflict, match="run-00000001"):
        worktree.drop(shop.root, work.id)
    assert worktree.working_folder(shop.root, work).is_dir()
