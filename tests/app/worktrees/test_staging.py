"""Memory that was staged in a worktree which somebody deletes: kept in the main checkout, and put back."""

import shutil
import stat
from pathlib import Path

import pytest
from tests.app.looping import Workshop, git, project, says_done

from ralph.app import doctor, knowledge, memory, search, task_memory
from ralph.app.loop import Wish
from ralph.app.worktrees import rescue, staging, task_drop, worktree
from ralph.app.worktrees.task_merge import merge
from ralph.errors import Refused
from ralph.formats import region
from ralph.model.query import Query
from ralph.model.record import MemoryKind, Record
from ralph.model.work import Task

PAGE = "# Mine\n\nBe kind.\n"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ann@example.com")
    made = project(tmp_path / "shop")
    made.put("AGENTS.md", PAGE)
    memory.add(made.root, "Redis must run first.", MemoryKind.FIX)
    git(made.root, "add", ".agent", "AGENTS.md")
    git(made.root, "commit", "-q", "-m", "memory")
    return made


def staged(shop: Workshop) -> tuple[Task, Path]:
    """A worktree in which something of every sort was learned, and nothing committed."""
    work = task_memory.add(shop.root, "refunds", in_worktree=True).task
    place = worktree.workplace(shop.root, work)
    memory.add(place, "Cents, never floats.", MemoryKind.DECISION)
    knowledge.add(place, "Ledger", "LedgerWriter books it.", ["ledger"])
    worktree.gather(place, [Record("found-1", MemoryKind.PATTERN, "LedgerWriter closes after 90 days")])
    staging.keep(place)
    return work, place


def memories(root: Path) -> list[str]:
    return sorted(each.record.text for each in memory.list_(root))


def learned(root: Path) -> list[str]:
    return [each.record.text for each in region.parse((root / "AGENTS.md").read_text(encoding="utf-8")).entries]


FILES = [".agent/memories.md", ".ralph/knowledge/ledger.md", "AGENTS.md"]


def test_what_is_not_committed_is_kept_privately_in_the_main_checkout(shop: Workshop) -> None:
    work, place = staged(shop)
    assert staging.names(shop.root, work.id) == FILES
    kept = [path for path in staging.folder(shop.root, work.id).rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert staging.keep(place) == [], "nothing has changed since"
    assert not {each.problem.code for each in doctor.examine(shop.root)} & {"staged", "second-store"}
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "memory")
    memory.add(place, "Close the ledger at noon.", MemoryKind.FIX)
    staging.keep(place)
    assert ".agent/memories.md" in staging.names(shop.root, work.id)
    assert staging.left(shop.root) == {}


def test_a_worktree_that_was_deleted_by_hand_comes_back_with_all_that_was_staged_in_it(shop: Workshop) -> None:
    work, place = staged(shop)
    search.search(place, Query(text="ledger"))
    shutil.rmtree(place)
    [told] = [each for each in doctor.examine(shop.root) if each.problem.code == "staged"]
    assert told.needs_a_person
    assert f"ralph task start {work.id} --worktree" in told.problem.hint
    assert worktree.make(shop.root, work.id).restored.back == tuple(FILES)
    assert memories(place) == ["Cents, never floats.", "Redis must run first."]
    assert [each.record.title for each in knowledge.discover(place).entries] == ["Ledger"]
    assert learned(place) == ["LedgerWriter closes after 90 days"]
    assert (place / "AGENTS.md").read_text(encoding="utf-8").startswith(PAGE)
    assert git(place, "diff", "--cached", "--name-only") == "", "nobody's index is touched"
    assert not rescue.folder(shop.root).exists(), "it is not kept twice"
    assert "staged" not in [each.problem.code for each in doctor.examine(shop.root)]


def test_a_merge_brings_what_was_staged_in_a_worktree_that_is_gone(shop: Workshop) -> None:
    work, place = staged(shop)
    shutil.rmtree(place)
    git(shop.root, "worktree", "prune")
    merge(shop.root, work.id)
    assert memories(shop.root) == ["Cents, never floats.", "Redis must run first."]
    assert learned(shop.root) == ["LedgerWriter closes after 90 days"]
    assert [each.record.title for each in knowledge.discover(shop.root).entries] == ["Ledger"]
    assert staging.names(shop.root, work.id) == []


def test_what_was_committed_meanwhile_and_what_was_staged_are_both_kept(shop: Workshop) -> None:
    work, place = staged(shop)
    git(place, "checkout", "-q", ".agent")
    memory.add(place, "Committed by hand.", MemoryKind.FIX)
    git(place, "add", ".agent")
    git(place, "commit", "-q", "-m", "by hand")
    shutil.rmtree(place)
    worktree.make(shop.root, work.id)
    assert memories(place) == ["Cents, never floats.", "Committed by hand.", "Redis must run first."]


def test_words_that_cannot_be_joined_are_put_aside_and_told(shop: Workshop) -> None:
    work, place = staged(shop)
    page = place / ".ralph" / "knowledge" / "ledger.md"
    was = page.read_text(encoding="utf-8")
    page.write_text("# Something else\n", encoding="utf-8")
    git(place, "add", ".ralph/knowledge")
    git(place, "commit", "-q", "-m", "another page")
    shutil.rmtree(place)
    [aside] = worktree.make(shop.root, work.id).restored.apart
    assert aside.read_text(encoding="utf-8") == was
    assert page.read_text(encoding="utf-8") == "# Something else\n"


def test_dropping_asks_for_what_was_staged_in_a_deleted_folder(shop: Workshop) -> None:
    work, place = staged(shop)
    shutil.rmtree(place)
    with pytest.raises(Refused, match=r"memories\.md \(of the deleted folder\)"):
        task_drop.drop(shop.root, work.id)
    task_drop.drop(shop.root, work.id, agreed=task_drop.losses(shop.root, work.id))
    assert staging.left(shop.root) == {}


def test_each_iteration_of_the_loop_keeps_what_it_has_staged(shop: Workshop) -> None:
    work = task_memory.add(shop.root, "refunds", in_worktree=True).task
    place = worktree.workplace(shop.root, work)
    said = '<knowledge title="Ledger" tags="ledger">LedgerWriter books it.</knowledge>'
    shop.start(says_done(said), wish=Wish(task=work.id, criteria=("none",), verify=False))
    shutil.rmtree(place)
    assert ".ralph/knowledge/ledger.md" in staging.left(shop.root)[work.id]
