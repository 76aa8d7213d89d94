"""What the main checkout remembers, as a worktree of it sees it: all of it, once, and read only."""

from pathlib import Path

import pytest
from tests.app.looping import Workshop, git, project, says_done

from ralph.app import guardrails, index, knowledge, memory, search, task_memory
from ralph.app.loop import Wish
from ralph.app.worktrees import worktree
from ralph.errors import Refused
from ralph.model.query import Query
from ralph.model.record import MemoryKind
from ralph.store.sources import readable, sources


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    made = project(tmp_path / "shop")
    memory.add(made.root, "The frobnicator needs grease.", MemoryKind.FIX)
    git(made.root, "add", ".agent")
    git(made.root, "commit", "-q", "-m", "memory")
    return made


@pytest.fixture
def place(shop: Workshop) -> Path:
    """A worktree with a memory of its own; the main checkout has learned more since, and committed none of it."""
    work = task_memory.add(shop.root, "refunds", in_worktree=True).task
    at = worktree.workplace(shop.root, work)
    memory.add(at, "The frobnicator is blue here.", MemoryKind.FIX)
    memory.add(shop.root, "The frobnicator was moved to the cellar.", MemoryKind.FIX)
    guardrails.add(shop.root, "Never paint the frobnicator.", MemoryKind.FIX)
    knowledge.add(shop.root, "Frobnicator", "The frobnicator turns left.", ["frobnicator"])
    return at


OWN = ["The frobnicator is blue here.", "The frobnicator needs grease."]
THERE = ["Never paint the frobnicator.", "The frobnicator turns left.", "The frobnicator was moved to the cellar."]


def found(root: Path) -> list[str]:
    return sorted(hit.record.text for hit in search.search(root, Query(text="frobnicator", limit=50)).found.hits)


def listed(root: Path) -> list[str]:
    return sorted(stored.record.text for stored in memory.list_(root))


def test_a_worktree_finds_the_projects_newer_memory_and_the_project_does_not_find_what_is_staged(
    shop: Workshop, place: Path
) -> None:
    for _ in range(2):
        assert found(place) == sorted([*OWN, *THERE])
        assert found(shop.root) == sorted([*THERE, "The frobnicator needs grease."])
    assert index.verify(place) == []
    assert index.sync(place).read == 0


def test_listings_show_each_memory_once(shop: Workshop, place: Path) -> None:
    assert listed(place) == sorted([*OWN, "The frobnicator was moved to the cellar."])
    assert [each.record.text for each in guardrails.list_(place)] == ["Never paint the frobnicator."]
    assert [each.record.title for each in knowledge.list_(place).entries] == ["Frobnicator"]
    hits = memory.search(place, Query(text="cellar"))[1]
    assert [hit.path for hit in hits] == [shop.root / ".agent" / "memories.md"]


def test_its_own_words_for_the_same_memory_win_and_what_changes_on_either_side_is_seen(
    shop: Workshop, place: Path
) -> None:
    [first] = [each.record.id for each in memory.list_(shop.root) if "grease" in each.record.text]
    found(place)
    memory.edit(place, first, text="The frobnicator needs oil.")
    assert "The frobnicator needs oil." in found(place)
    assert "The frobnicator needs grease." not in found(place)
    memory.edit(shop.root, first, text="The frobnicator needs butter.")
    assert [text for text in found(place) if "needs" in text] == ["The frobnicator needs oil."]
    assert [text for text in found(shop.root) if "needs" in text] == ["The frobnicator needs butter."]
    [moved] = [each.record.id for each in memory.list_(shop.root) if "cellar" in each.record.text]
    memory.delete(shop.root, moved)
    assert not [text for text in found(place) if "cellar" in text]
    assert index.verify(place) == []


def test_what_only_the_main_checkout_has_is_not_written_from_a_worktree(shop: Workshop, place: Path) -> None:
    before = (shop.root / ".agent" / "memories.md").read_bytes()
    [moved] = [each.record.id for each in memory.list_(place) if "cellar" in each.record.text]
    assert memory.show(place, moved).path == shop.root / ".agent" / "memories.md"
    for change in (lambda: memory.edit(place, moved, text="no"), lambda: memory.delete(place, moved)):
        with pytest.raises(Refused, match="stands in the main checkout"):
            change()
    with pytest.raises(Refused):
        knowledge.delete(place, "Frobnicator")
    assert not memory.add(place, "The frobnicator was moved to the cellar.", MemoryKind.FIX).is_new
    assert (shop.root / ".agent" / "memories.md").read_bytes() == before
    assert {source.name for source in sources(place)} < {source.name for source in readable(place)}
    assert list(readable(shop.root)) == list(sources(shop.root))


def test_an_iteration_in_a_worktree_is_told_what_the_project_has_learned_meanwhile(shop: Workshop, place: Path) -> None:
    run = shop.start(says_done(), wish=Wish(task=place.name, criteria=("none",), verify=False))
    told = shop.prompt(run, 1)
    for text in (*OWN, "Never paint the frobnicator.", "The frobnicator was moved to the cellar."):
        assert told.count(text) == 1
