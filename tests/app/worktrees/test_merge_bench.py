"""Merges that are killed, with git's own processes: nothing of them in the main checkout, or all of it at the next try.

A hook or a filter of the repository kills the real program at the moment that matters.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.looping import Workshop, git, project

from ralph.app import doctor, memory, task_memory
from ralph.app.repository import Repository
from ralph.app.worktrees import merge_bench, worktree
from ralph.app.worktrees.task_merge import merge
from ralph.errors import Refused
from ralph.model.record import MemoryKind
from ralph.model.work import Task

KILL = 'kill -9 "$(cat "$KILLED")" $PPID\n'
RUN = 'echo $$ > "$KILLED"; exec "$0" -m ralph task merge "$1"'


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")
    made = project(tmp_path / "shop")
    for name in ("old.txt", "b.dat"):
        made.put(name, "before\n")
    made.put(".gitattributes", "*.dat filter=die\n")
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "more")
    return made


@pytest.fixture
def work(shop: Workshop) -> Task:
    """A branch that changes, adds and deletes files, and has learned something."""
    made = task_memory.add(shop.root, "refunds", in_worktree=True).task
    place = worktree.workplace(shop.root, made)
    for name in ("cart.py", "a/new.txt", "b.dat", "z.txt"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text("after\n", encoding="utf-8", newline="")
    git(place, "rm", "-q", "old.txt")
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "work")
    memory.add(place, "refunds are in cents", MemoryKind.DECISION)
    return made


def hook(shop: Workshop, name: str, script: str) -> Path:
    path = shop.root / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}", encoding="utf-8", newline="")
    path.chmod(0o755)
    return path


def killed(shop: Workshop, work: Task) -> None:
    """A merge that is killed by what the repository has."""
    env = {**os.environ, "KILLED": str(shop.root.parent / "pid"), "MAIN": str(shop.root)}
    ran = subprocess.run(["/bin/sh", "-c", RUN, sys.executable, work.id], cwd=shop.root, env=env, check=False)
    assert ran.returncode == -9


def whole(shop: Workshop) -> None:
    """The merge is there, all of it."""
    for name in ("cart.py", "a/new.txt", "b.dat", "z.txt"):
        assert (shop.root / name).read_text(encoding="utf-8") == "after\n"
    assert not (shop.root / "old.txt").exists()
    assert [each.record.text for each in memory.list_(shop.root)] == ["refunds are in cents"]
    assert git(shop.root, "status", "--porcelain", "--untracked-files=no") == ""
    assert len(git(shop.root, "log", "--merges", "--format=%s").splitlines()) == 1
    assert "merging" not in git(shop.root, "worktree", "list")


def test_a_merge_that_is_killed_while_it_is_made_leaves_the_main_checkout_as_it_was(shop: Workshop, work: Task) -> None:
    head = git(shop.root, "rev-parse", "HEAD")
    bad = hook(shop, "prepare-commit-msg", f'case "$PWD" in */merging/*) {KILL};; esac\n')
    killed(shop, work)
    assert git(shop.root, "rev-parse", "HEAD") == head
    assert git(shop.root, "status", "--porcelain", "--untracked-files=no") == ""
    assert not Repository(shop.root).commit("MERGE_HEAD")
    bad.unlink()
    merge(shop.root, work.id)
    whole(shop)


def test_a_merge_that_is_killed_between_files_and_branch_is_finished_by_the_next_one(
    shop: Workshop, work: Task
) -> None:
    moving = f'[ "$1" = prepared ] && [ "$PWD" = "$MAIN" ] && grep -q refs/heads/main && {KILL}exit 0\n'
    bad = hook(shop, "reference-transaction", moving)
    killed(shop, work)
    bad.unlink()
    [told] = [each for each in doctor.examine(shop.root) if each.problem.code == "landing"]
    assert f"ralph task merge {work.id}" in told.problem.hint
    assert told.needs_a_person
    with pytest.raises(Refused, match="lock"):
        merge(shop.root, work.id)
    for lock in (shop.root / ".git").rglob("*.lock"):
        lock.unlink()
    assert not merge(shop.root, work.id).commits
    whole(shop)
    assert not [each for each in doctor.examine(shop.root) if each.problem.code == "landing"]


def half_written(shop: Workshop, work: Task) -> None:
    """A merge that is killed in the middle of its files; the lock of the dead git is taken away."""
    git(shop.root, "config", "filter.die.smudge", f'if [ "$PWD" = "$MAIN" ]; then {KILL.strip()}; fi; cat')
    killed(shop, work)
    git(shop.root, "config", "--unset", "filter.die.smudge")
    (shop.root / ".git" / "index.lock").unlink()


def test_a_merge_that_is_killed_in_the_middle_of_its_files_is_finished_by_the_next_one(
    shop: Workshop, work: Task
) -> None:
    half_written(shop, work)
    assert (shop.root / "a" / "new.txt").exists()
    assert not (shop.root / "z.txt").exists()
    merge(shop.root, work.id)
    whole(shop)


def test_what_somebody_wrote_into_those_files_since_is_not_touched(shop: Workshop, work: Task) -> None:
    half_written(shop, work)
    shop.put("a/new.txt", "mine\n")
    with pytest.raises(Refused, match=r"changed since: a/new\.txt"):
        merge(shop.root, work.id)
    assert (shop.root / "a" / "new.txt").read_text(encoding="utf-8") == "mine\n"
    assert merge_bench.under_way(shop.root) is not None
    shop.put("a/new.txt", "after\n")
    merge(shop.root, work.id)
    whole(shop)


def test_who_has_gone_on_without_the_killed_merge_is_not_brought_back_to_it(shop: Workshop, work: Task) -> None:
    half_written(shop, work)
    git(shop.root, "reset", "-q", "--hard")
    git(shop.root, "clean", "-q", "-f", "-d", "--", "a", ".agent")
    git(shop.root, "commit", "-q", "--allow-empty", "-m", "on we go")
    merge(shop.root, work.id)
    whole(shop)
    assert "on we go" in git(shop.root, "log", "--format=%s")
