"""Several who change the worktrees of one repository at once: each gets its turn, and no work is lost.

Those who merge at the same time are processes of the real program.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.looping import Workshop, project

from ralph.core import paths
from ralph.core.errors import Conflict
from ralph.core.record import MemoryKind
from ralph.memory import memory, reading
from ralph.tasks import task, worktree

AT_ONCE = 4
HOLDER = """
import sys
from pathlib import Path
from ralph.tasks import worktree
with worktree.repository_lock(Path(sys.argv[1]), "merging t-000001"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")
    return project(tmp_path / "shop")


def holder(root: Path) -> subprocess.Popen[str]:
    """Another process that holds the repository until its input ends."""
    argv = [sys.executable, "-c", HOLDER, str(root)]
    other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    return other


@pytest.mark.soak
def test_merges_at_the_same_time_all_bring_their_memory_and_their_commits(shop: Workshop) -> None:
    memory.add(shop.root, "prices are in cents", MemoryKind.FIX)
    git(shop.root, "add", ".agent")
    git(shop.root, "commit", "-q", "-m", "memory")
    tasks = [task.add(shop.root, f"part {each}", in_worktree=True).task for each in range(AT_ONCE)]
    for work in tasks:
        place = worktree.working_folder(shop.root, work)
        memory.add(place, f"what {work.id} taught", MemoryKind.FIX)
        (place / f"{work.id}.py").write_text("x = 1\n", encoding="utf-8")
        git(place, "add", "-A")
        git(place, "commit", "-q", "-m", work.id)
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "ralph", "task", "merge", work.id], cwd=shop.root,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        )
        for work in tasks
    ]  # fmt: skip
    said = [each.communicate() for each in running]
    assert [each.returncode for each in running] == [0] * AT_ONCE, said
    assert {each.record.text.split()[1] for each in reading.list_entries(shop.root)} == {
        work.id for work in tasks
    } | {"are"}
    assert all((shop.root / f"{work.id}.py").exists() for work in tasks)
    assert git(shop.root, "status", "--porcelain", "--untracked-files=no") == ""
    assert len(git(shop.root, "log", "--merges", "--format=%s").splitlines()) == AT_ONCE


def test_whoever_waits_too_long_is_told_for_whom(shop: Workshop) -> None:
    heard: list[str] = []
    with holder(shop.root) as other:
        with (
            pytest.raises(Conflict, match=rf"merging t-000001, process {other.pid}"),
            worktree.repository_lock(shop.root, "dropping", tell=heard.append, patience=0.0),
        ):
            pass
        assert other.stdin is not None
        other.stdin.close()
    with worktree.repository_lock(shop.root, "dropping", patience=0.0):
        pass


def test_a_dead_process_holds_nobody_up(shop: Workshop) -> None:
    with holder(shop.root) as other:
        other.kill()
    assert (paths.cache_folder(shop.root) / "repository").exists()
    with worktree.repository_lock(shop.root, "merging", patience=0.0):
        pass
