"""What a loop does to a disk: nothing to what is a person's, and a clear error where it cannot write."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Disk
from tests.support.git import git
from tests.support.living import children
from tests.support.looping import GOAL, PASSES, project, says_done

from ralph.core import paths
from ralph.core.errors import WriteFailed
from ralph.core.work import Ask, Reply, RunStatus
from ralph.loop import recovery, runs
from ralph.loop.request import LoopRequest
from ralph.loop.state import Run
from ralph.testing import Step

Marks = dict[str, tuple[bytes, int]]


def marks(root: Path) -> Marks:
    """Each file of a project and of its git, Ralph's own left out: bytes and mode."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    ours = (".ralph", ".agent", "ralph")  # the last one is the state in the git folder
    return {
        str(path): (path.read_bytes(), path.stat().st_mode)
        for path in found
        if not any(part in ours for part in path.relative_to(root).parts)
    }


def test_uncommitted_staged_stashed_and_ignored_work_is_untouched_byte_for_byte(
    tmp_path: Path,
) -> None:
    shop = project(tmp_path / "shop")
    shop.put("stashed.py", "for later\n")
    git(shop.root, "add", "stashed.py")
    git(shop.root, "stash", "push", "-q")
    shop.put("staged.py", "half\n")
    git(shop.root, "add", "staged.py")
    shop.put("staged.py", "half\nand more\n")
    shop.put("cart.py", "# my own change\r\n")
    shop.put("new file ünïcode.txt", "untracked\n")
    shop.put(".gitignore", "secret/\n")
    shop.put("secret/key", "ignored\n")
    (shop.root / "secret/key").chmod(0o600)
    before, stash, status = (
        marks(shop.root),
        git(shop.root, "stash", "list"),
        git(shop.root, "status", "--porcelain"),
    )
    request = LoopRequest(
        goal=GOAL,
        criteria=("custom:test -f .agent/ok || test -f staged.py && false",),
        max_iterations=2,
    )
    run = shop.start(Step(say="hm"), says_done(), PASSES, request=request)
    assert run.iterations == 2
    assert marks(shop.root) == before
    assert git(shop.root, "stash", "list") == stash
    assert git(shop.root, "status", "--porcelain") == status, "not even Ralph's own files show up"


def test_files_that_were_dirty_before_are_not_the_agents_work(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    shop.put("mine.py", "mine\n")
    run = shop.start(Step(say="hm", write={"theirs.py": "x\n"}), says_done(), PASSES)
    assert shop.journal(run)[0].files == ("theirs.py",)


def test_commits_of_the_agent_are_its_work(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")

    def commits(ask: Ask) -> Reply:
        shop.put("new.py", "x\n")
        git(shop.root, "add", "new.py")
        git(shop.root, "commit", "-q", "-m", "second")
        return Reply("hm")

    run = shop.start(commits, says_done(), PASSES)
    assert shop.journal(run)[0].files == ("new.py",)


def test_on_a_read_only_disk_nothing_is_begun(freezable: tuple[Path, Callable[[], None]]) -> None:
    folder, freeze = freezable
    shop = project(folder / "shop")
    freeze()
    with pytest.raises(WriteFailed, match="Read-only file system"):
        shop.start(says_done())
    assert shop.agent.asks == []
    assert not (shop.root / ".ralph").exists()


def test_a_dead_run_on_a_read_only_disk_is_left_to_who_can_write(
    freezable: tuple[Path, Callable[[], None]],
) -> None:
    folder, freeze = freezable
    shop = project(folder / "shop")
    run = runs.save(
        shop.root,
        None,
        replace(runs.assign_to_this_process(Run("run-00000001", GOAL)), born="gone"),
    )
    freeze()
    assert recovery.recover(shop.root) == []
    assert not runs.is_alive(shop.root, runs.read(shop.root, run.id))


def test_on_a_full_disk_the_run_ends_with_a_clear_error_and_goes_on_later(disk: Disk) -> None:
    shop = project(disk.folder / "shop", with_git=False)

    def fills(ask: Ask) -> Reply:
        disk.fill()
        return Reply("x" * 9000 + "\n<journal>" + "so far, so good. " * 500 + "</journal>")

    try:
        with pytest.raises(WriteFailed, match=r"No space left|File too large"):
            shop.start(fills)
    finally:
        disk.free()
    [run], _ = runs.list_newest(shop.root)
    if (
        run.status is RunStatus.RUNNING
    ):  # the end could not be written either, and our process is not gone
        runs.save(shop.root, run, replace(run, pid=0, born="gone"))
    again = shop.resume(*[says_done()] * 3, PASSES, run=run.id)
    assert (again.id, again.reason) == (run.id, "success")
    assert [entry.iteration for entry in shop.journal(again)] == list(
        range(1, again.iterations + 1)
    )


def test_files_of_a_run_are_private(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    run = shop.start(says_done(), PASSES)
    kept = [paths.run_log(shop.root, run.id), *paths.run_folder(shop.root, run.id).iterdir()]
    assert [oct(path.stat().st_mode & 0o077) for path in kept] == ["0o0"] * len(kept)


def test_ralphs_files_are_not_seen_by_git(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    shop.start(says_done(), PASSES)
    assert git(shop.root, "status", "--porcelain") == ""


def test_no_process_and_no_open_file_is_left(tmp_path: Path) -> None:
    shop = project(tmp_path / "shop")
    if not Path("/proc/self/task").exists():
        pytest.skip("needs /proc")
    shop.start(
        says_done(),
        PASSES,
        request=LoopRequest(goal="first", criteria=("custom:true",), force=True),
    )
    processes_before = children()
    before = len(list(Path("/proc/self/fd").iterdir()))
    shop.start(
        says_done(),
        PASSES,
        request=LoopRequest(goal="second", criteria=("custom:true",), force=True),
    )
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert children() <= processes_before
