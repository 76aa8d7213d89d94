"""Worktrees of tasks in real repositories are created, checked and repaired."""

import shutil
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.looping import Workshop, project, says_done
from tests.support.worktrees import commit, new, now

from ralph.core import paths
from ralph.core.errors import Refused
from ralph.install import doctor
from ralph.loop import runs
from ralph.loop.request import LoopRequest
from ralph.tasks import task, worktree, worktree_drop
from ralph.testing import Step


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return project(tmp_path / "shop")


# --- making ------------------------------------------------------------------------------------


def test_a_task_gets_a_checkout_on_a_branch_of_its_own_that_git_does_not_show(
    shop: Workshop,
) -> None:
    work = new(shop)
    place = worktree.folder_of(shop.root, work)
    assert place == shop.root / ".worktrees" / work.id
    assert work.branch == f"ralph/{work.id}"
    assert git(place, "branch", "--show-current").strip() == work.branch
    assert "/.worktrees" in (shop.root / ".git" / "info" / "exclude").read_text(encoding="utf-8")
    assert ".worktrees" not in git(shop.root, "status", "--porcelain")
    assert paths.main_checkout(place) == shop.root
    assert not any(path.is_symlink() for path in place.rglob("*"))


def test_to_make_it_again_changes_nothing(shop: Workshop) -> None:
    work = new(shop)
    again = worktree.create(shop.root, work.id)
    assert not again.is_new
    assert again.task.extra["branch_by"] == "ralph"
    assert (shop.root / ".git/info/exclude").read_text(encoding="utf-8").count(".worktrees") == 1


def test_the_branch_is_the_one_that_the_prd_names(shop: Workshop) -> None:
    prd = '{"project": "shop", "branchName": "feature/refunds", "description": "Money back.", "userStories": []}'
    work = task.add(shop.root, "refunds", prd=prd, in_worktree=True).task
    assert work.branch == "feature/refunds"
    assert work.description == "Money back."
    assert (
        git(shop.root / ".worktrees" / work.id, "branch", "--show-current").strip()
        == "feature/refunds"
    )


@pytest.mark.parametrize("branch", ["--force", "a..b", "-x", "main"])
def test_a_branch_that_cannot_be_is_refused_and_nothing_is_made(
    shop: Workshop, branch: str
) -> None:
    work = task.add(
        shop.root, "refunds", prd=f'{{"branchName": "{branch}", "userStories": []}}'
    ).task
    with pytest.raises(Refused):
        worktree.create(shop.root, work.id)
    assert not (shop.root / ".worktrees").exists()


def test_without_git_or_without_a_commit_there_is_none(tmp_path: Path) -> None:
    bare = project(tmp_path / "bare", with_git=False)
    work = task.add(bare.root, "one").task
    with pytest.raises(Refused, match="not in a git repository"):
        worktree.create(bare.root, work.id)
    git(bare.root, "init", "-q")
    with pytest.raises(Refused, match="no commit"):
        worktree.create(bare.root, work.id)


def test_a_folder_that_is_no_worktree_is_left_alone(shop: Workshop) -> None:
    work = task.add(shop.root, "one").task
    shop.put(f".worktrees/{work.id}/mine.txt", "mine")
    with pytest.raises(Refused, match="not a worktree"):
        worktree.create(shop.root, work.id)
    assert (shop.root / ".worktrees" / work.id / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_a_project_inside_of_a_repository_is_worked_on_at_its_place_in_the_worktree(
    shop: Workshop,
) -> None:
    inner = shop.root / "packages" / "a"
    inner.mkdir(parents=True)
    (inner / "ralph.yml").write_text("", encoding="utf-8")
    git(shop.root, "add", "-A")
    git(shop.root, "commit", "-q", "-m", "a package")
    work = task.add(inner, "one", in_worktree=True).task
    place = worktree.working_folder(inner, work)
    assert place == inner / ".worktrees" / work.id / "packages" / "a"
    assert paths.main_checkout(place) == inner
    worktree_drop.drop(inner, work.id)
    assert not (inner / ".worktrees" / work.id).exists()


# --- what others did to it ---------------------------------------------------------------------


def test_a_worktree_that_was_deleted_by_hand_is_told_and_made_again_with_its_commits(
    shop: Workshop,
) -> None:
    work = new(shop)
    place = worktree.working_folder(shop.root, work)
    commit(place)
    shutil.rmtree(place)
    wrong = worktree.find_problem(shop.root, now(shop, work))
    assert wrong is not None
    assert "is gone; its commits are still in" in wrong.what
    assert "git worktree prune" in wrong.hint
    with pytest.raises(Refused, match="is gone"):
        shop.start(request=LoopRequest(task=work.id, criteria=("none",)))
    assert worktree.create(shop.root, work.id).is_new
    assert (place / "new.py").exists()
    assert worktree.find_problems(shop.root) == []


def test_a_run_whose_worktree_is_gone_is_not_resumed_and_stays_as_it_was(shop: Workshop) -> None:
    work = new(shop)
    shop.set(max_iterations=1)
    run = shop.start(
        Step(say="half"), request=LoopRequest(task=work.id, criteria=("none",), verify=False)
    )
    shutil.rmtree(worktree.working_folder(shop.root, work))
    with pytest.raises(Refused, match="is gone"):
        shop.resume()
    assert runs.read(shop.root, run.id) == run
    worktree.create(shop.root, work.id)
    again = shop.resume(says_done(), says_done())
    assert (again.id, again.done) == (run.id, (work.id,))
    assert shop.agent.asks[0].folder == shop.root / ".worktrees" / work.id


def test_a_loop_over_all_tasks_passes_over_one_whose_worktree_is_gone(shop: Workshop) -> None:
    work, other = new(shop), task.add(shop.root, "other").task
    shutil.rmtree(shop.root / ".worktrees" / work.id)
    run = shop.start(says_done(), request=LoopRequest(criteria=("none",), verify=False))
    assert run.done == (other.id,)


def test_a_repository_that_was_moved_is_told_and_mended(shop: Workshop) -> None:
    work = new(shop)
    (worktree.working_folder(shop.root, work) / "half.py").write_text("half\n", encoding="utf-8")
    moved = shop.root.with_name("moved")
    shop.root.rename(moved)
    wrong = worktree.find_problem(moved, work)
    assert wrong is not None
    assert "git worktree repair" in wrong.hint
    assert not worktree.create(moved, work.id).is_new
    assert worktree.find_problem(moved, work) is None
    assert (moved / ".worktrees" / work.id / "half.py").exists()


def test_a_folder_of_no_task_is_told(shop: Workshop) -> None:
    git(shop.root, "worktree", "add", "-q", ".worktrees/mine", "-b", "mine")
    [wrong] = worktree.find_problems(shop.root)
    assert "belongs to no task" in wrong.what
    assert wrong.what in [each.problem.what for each in doctor.examine(shop.root)]
