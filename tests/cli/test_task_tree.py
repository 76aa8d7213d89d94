"""`ralph task` with PRDs and worktrees, as its users meet it."""

import json
import shutil
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.runner import Project

PRD = json.dumps({
    "project": "shop", "branchName": "refunds", "description": "Money back.",
    "userStories": [{"id": "US-1", "title": "first", "priority": 1, "passes": False}],
})  # fmt: skip


@pytest.fixture
def shop(ralph: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A repository with one commit."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")
    ralph.put("cart.py", "x = 1\n")
    git(ralph.root, "init", "-q", "-b", "main")
    git(ralph.root, "add", "-A")
    git(ralph.root, "commit", "-q", "-m", "first")
    return ralph


def new(shop: Project, *words: str) -> str:
    return shop("task", "add", "refunds", *words, "--format", "quiet").out.strip()


def test_a_task_with_a_prd_and_a_worktree_is_added_shown_merged_and_dropped(shop: Project) -> None:
    shop.put("prd.json", PRD)
    said = shop("task", "add", "refunds", "--prd", "prd.json", "--worktree")
    name = said.out.split()[1]
    assert said.out.endswith(f"Its worktree is .worktrees/{name}, on the branch refunds\n")
    shown = shop("task", "show", name, "--format", "json").json
    assert (shown["worktree"], shown["branch"], shown["troubles"]) == (
        f".worktrees/{name}",
        "refunds",
        [],
    )
    assert shown["stories"] == [{"id": "US-1", "title": "first", "passes": False}]
    place = shop.root / ".worktrees" / name
    (place / "refund.py").write_text("x = 2\n", encoding="utf-8")
    refused = shop("task", "merge", name)
    assert (refused.code, refused.out) == (1, "")
    assert "refund.py" in refused.err
    assert "--commit" in refused.err
    assert shop("task", "merge", name, "--commit").out == (
        "Merged refunds into main: 1 commit, 1 file\nCommitted first: refund.py\n"
    )
    assert shop.file("refund.py").exists()
    assert shop("task", "merge", name).out == "Nothing to merge: main has all of refunds\n"
    assert shop("task", "drop", name).out == f"Dropped the worktree of {name}\n"
    assert not place.exists()
    assert shop("task", "show", name, "--format", "json").json["worktree"] is None


def test_drop_refuses_on_no_terminal_until_it_is_told_yes(shop: Project) -> None:
    name = new(shop, "--worktree")
    half = shop.root / ".worktrees" / name / "half.py"
    half.write_text("half\n", encoding="utf-8")
    said = shop("task", "drop", name)
    assert (said.code, said.out) == (1, "")
    assert "half.py" in said.err
    assert "--yes" in said.err
    assert half.exists()
    assert shop("task", "drop", name, "--yes").code == 0
    assert not half.exists()


def test_a_worktree_that_is_gone_is_explained_and_made_again(shop: Project) -> None:
    name = new(shop)
    assert shop("task", "start", name, "--worktree").out.endswith(
        f"on the branch ralph/{name} (created)\n"
    )
    assert shop("task", "start", name, "--worktree").out.endswith("(already there)\n")
    shutil.rmtree(shop.root / ".worktrees" / name)
    said = shop("task", "show", name)
    assert "is gone" in said.err
    assert f"ralph task start {name} --worktree" in said.err
    assert shop("task", "start", name, "--worktree").out.endswith("(created)\n")
    assert shop("task", "show", name).err == ""


def test_a_loop_works_in_the_worktree_and_done_says_what_was_promoted(shop: Project) -> None:
    name = new(shop, "--worktree")
    lesson = "LedgerWriter rejects refunds that are older than 90 days"
    step = {
        "write": {"out.txt": "x"},
        "say": f"<journal>half\n\nLearnings:\n- {lesson}\n</journal>",
    }
    shop.put("steps.json", json.dumps({"steps": [step, step]}))
    shop("loop", "start", "--task", name, "--agent", "scripted", "--command", "steps.json", "-c", "none",
         "--max-iterations", "2")  # fmt: skip
    assert not shop.file("out.txt").exists()
    assert (shop.root / ".worktrees" / name / "out.txt").exists()
    assert lesson in (shop.root / ".worktrees" / name / "AGENTS.md").read_text(encoding="utf-8")
    [found] = shop("review", "--status", "all", "--task", name, "--format", "json").ids
    shop("review", "accept", found)
    said = shop("task", "done", name).out
    assert f"Promoted to .ralph/global-patterns.md:\n  - {lesson}\n" in said


def test_what_is_dropped_with_yes_is_told(shop: Project) -> None:
    name = new(shop, "--worktree")
    place = shop.root / ".worktrees" / name
    git(place, "switch", "-q", "--detach")
    (place / "a.py").write_text("x = 1\n", encoding="utf-8")
    git(place, "add", "a.py")
    git(place, "commit", "-q", "-m", "on no branch")
    tip = git(place, "rev-parse", "--short", "HEAD").strip()
    refused = shop("task", "drop", name)
    assert (refused.code, refused.out) == (1, "")
    assert tip in refused.err
    assert (
        f"Lost with it: 1 unmerged commits: {tip} on no branch"
        in shop("task", "drop", name, "--yes").err
    )
    assert git(shop.root, "cat-file", "-t", tip) == "commit\n"


@pytest.mark.parametrize("words", ["", "  \n"])
def test_an_empty_prd_is_refused_and_no_task_is_made(shop: Project, words: str) -> None:
    shop.put("prd.json", words)
    said = shop("task", "add", "refunds", "--prd", "prd.json")
    assert (said.code, said.out) == (1, "")
    assert "the PRD is empty" in said.err
    assert shop("task", "list", "--format", "quiet").out == ""


def test_a_task_whose_worktree_cannot_be_made_is_not_made_either(shop: Project) -> None:
    name = new(shop, "--worktree")
    shop.put("prd.json", json.dumps({"branchName": f"ralph/{name}", "userStories": []}))
    for _ in range(2):
        said = shop("task", "add", "again", "--prd", "prd.json", "--worktree")
        assert (said.code, said.out) == (1, "")
        assert "git did not create the worktree" in said.err
    assert shop("task", "list", "--format", "quiet").out == f"{name}\n"
    assert [path.name for path in shop.file(".ralph/tasks").iterdir()] == [name]


def test_a_worktrees_folder_that_leads_out_of_the_project_is_refused(
    shop: Project, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    shop.file(".worktrees").symlink_to(outside)
    said = shop("task", "add", "refunds", "--worktree")
    assert (said.code, said.out) == (1, "")
    assert "outside the project" in said.err
    assert list(outside.iterdir()) == []
    assert shop("task", "list").out == "No tasks.\n"
    assert "outside the project" in shop("doctor").out


def test_nothing_is_committed_for_a_merge_that_is_refused(shop: Project) -> None:
    name = new(shop, "--worktree")
    place = shop.root / ".worktrees" / name
    (place / "cart.py").write_text("x = 2\n", encoding="utf-8")
    assert shop("task", "merge", name).code == 1
    shop.put("cart.py", "x = 3\n")
    said = shop("task", "merge", name, "--commit")
    assert said.code == 1
    assert "the main checkout has uncommitted changes" in said.err
    assert git(place, "log", "--format=%s").splitlines() == ["first"], (
        "nothing is committed for a merge that cannot be"
    )
    git(shop.root, "checkout", "-q", "cart.py")
    assert (
        "1 commit, 1 file\nCommitted first: cart.py" in shop("task", "merge", name, "--commit").out
    )


def test_a_worktree_on_another_branch_is_reported(shop: Project) -> None:
    name = new(shop, "--worktree")
    git(shop.root / ".worktrees" / name, "switch", "-q", "-c", "other")
    assert f"is on other instead of ralph/{name}" in shop("task", "merge", name).err
    assert f"is on other instead of ralph/{name}" in shop("doctor").out
