"""What a worktree has taken out since it began is not seen there; what it never had is. All with real git."""

from pathlib import Path

import pytest
from tests.app.looping import Workshop, git, project, says_done
from tests.app.side_by_side import write

from ralph import paths
from ralph.app import graph, guardrails, index, knowledge, memory, search, task_memory
from ralph.app.loop import Wish
from ralph.app.worktrees import worktree
from ralph.errors import NotFound
from ralph.model.query import Query
from ralph.model.record import MemoryKind

GREASE, COG = "The frobnicator needs grease.", "The frobnicator has a cog."
LATER = "The frobnicator was moved to the cellar."
RULE, PAGE = "Never paint the frobnicator.", "The frobnicator turns left."
BULLET = "Oil the frobnicator first."


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A project that has committed some of everything that may be remembered."""
    made = project(tmp_path / "shop")
    for text in (GREASE, COG):
        memory.add(made.root, text, MemoryKind.FIX)
    guardrails.add(made.root, RULE, MemoryKind.FIX)
    knowledge.add(made.root, "Frobnicator", PAGE, ["frobnicator"])
    write(paths.global_patterns(made.root), f"# Patterns\n\n## Tips\n\n- {BULLET}\n")
    git(made.root, "add", ".agent", ".ralph")
    git(made.root, "commit", "-q", "-m", "memory")
    return made


@pytest.fixture
def place(shop: Workshop) -> Path:
    """A worktree of it; the main checkout has learned more since, and committed none of that."""
    work = task_memory.add(shop.root, "refunds", in_worktree=True).task
    memory.add(shop.root, LATER, MemoryKind.FIX)
    return worktree.workplace(shop.root, work)


ALL = sorted([GREASE, COG, RULE, PAGE, BULLET])


def found(root: Path) -> list[str]:
    return sorted(hit.record.text for hit in search.search(root, Query(text="frobnicator", limit=50)).found.hits)


def named(root: Path, text: str) -> str:
    return next(each.record.id for each in memory.list_(root) if each.record.text == text)


def committed(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "more")


def test_a_memory_that_was_deleted_in_a_worktree_is_not_seen_there_and_still_is_in_the_main_checkout(
    shop: Workshop, place: Path
) -> None:
    assert found(place) == sorted([*ALL, LATER])
    gone = named(place, GREASE)
    memory.delete(place, gone)
    for _ in range(2):
        assert found(place) == sorted({*ALL, LATER} - {GREASE})
        assert GREASE not in [each.record.text for each in memory.list_(place)]
        assert GREASE not in memory.prime(place).text
        with pytest.raises(NotFound):
            memory.show(place, gone)
        assert found(shop.root) == sorted([*ALL, LATER])
        committed(place)
    assert index.verify(place) == []


def test_what_was_deleted_before_anybody_looked_is_not_seen_either(place: Path) -> None:
    memory.delete(place, named(place, GREASE))
    assert GREASE not in found(place)


def test_a_rule_a_page_and_a_pattern_that_were_deleted_in_a_worktree_are_not_seen_there(
    shop: Workshop, place: Path
) -> None:
    (place / ".ralph" / "knowledge" / "frobnicator.md").unlink()
    (place / ".ralph" / "guardrails.md").unlink()
    write(paths.global_patterns(place), "# Patterns\n\n## Tips\n\n- Oil it last.\n")
    assert found(place) == sorted([GREASE, COG, LATER])
    assert guardrails.list_(place) == []
    assert knowledge.list_(place).entries == ()
    assert found(shop.root) == sorted([*ALL, LATER])
    run = shop.start(says_done(), wish=Wish(task=place.name, criteria=("none",), verify=False))
    told = shop.prompt(run, 1)
    assert BULLET not in told
    assert told.count("Oil it last.") == 1


def test_what_was_edited_in_a_worktree_is_seen_there_in_its_words_and_in_the_main_checkout_in_the_old_ones(
    shop: Workshop, place: Path
) -> None:
    memory.edit(place, named(place, GREASE), text="The frobnicator needs oil.")
    assert found(place) == sorted([*({*ALL, LATER} - {GREASE}), "The frobnicator needs oil."])
    assert found(shop.root) == sorted([*ALL, LATER])


def test_a_file_that_was_deleted_and_committed_in_a_worktree_was_taken_out(shop: Workshop, place: Path) -> None:
    git(place, "rm", "-q", ".agent/memories.md")
    committed(place)
    assert found(place) == sorted([RULE, PAGE, BULLET, LATER])


def test_a_branch_that_has_none_of_the_files_sees_all_that_the_main_checkout_remembers(shop: Workshop) -> None:
    first = git(shop.root, "rev-list", "--max-parents=0", "HEAD").strip()
    git(shop.root, "worktree", "add", "-q", "../old", first)
    old = shop.root.parent / "old"
    assert found(old) == ALL
    assert len(memory.list_(old)) == 2
    memory.add(old, "The frobnicator is old.", MemoryKind.FIX)
    assert found(old) == sorted([*ALL, "The frobnicator is old."])


def test_what_a_sparse_checkout_leaves_out_was_not_taken_out(shop: Workshop, place: Path) -> None:
    assert found(place) == sorted([*ALL, LATER])
    git(place, "sparse-checkout", "set", "src")
    assert not (place / ".agent").exists()
    assert found(place) == sorted([*ALL, LATER])


def test_what_the_main_checkout_takes_back_after_the_merge_is_seen_again(shop: Workshop, place: Path) -> None:
    before = (shop.root / ".agent" / "memories.md").read_text(encoding="utf-8")
    gone = named(place, GREASE)
    memory.delete(place, gone)
    with pytest.raises(NotFound):
        graph.show(place, gone)
    committed(place)
    committed(shop.root)
    git(shop.root, "merge", "-q", "-s", "ours", "-m", "not that", f"ralph/{place.name}")
    assert (shop.root / ".agent" / "memories.md").read_text(encoding="utf-8") == before
    assert GREASE in found(place), "the branches part where it was gone: it came later"
    assert graph.show(place, gone).node.name == GREASE


def test_branches_that_are_packed_are_looked_at_too(shop: Workshop, place: Path) -> None:
    git(shop.root, "pack-refs", "--all")
    memory.delete(place, named(place, GREASE))
    assert GREASE not in found(place)
    committed(place)
    git(shop.root, "pack-refs", "--all")
    assert GREASE not in found(place)


def test_a_git_that_fails_is_asked_again(shop: Workshop, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.delete(place, named(place, GREASE))
    paths.begun_file(place).unlink()
    with monkeypatch.context() as broken:
        broken.setenv("GIT_CONFIG_COUNT", "nonsense")
        assert GREASE in found(place), "nothing is hidden that nobody knows of"
    assert GREASE not in found(place)


def test_git_is_asked_only_when_a_checkout_is_on_another_commit(shop: Workshop, place: Path) -> None:
    found(place)
    kept = paths.begun_file(place)
    before = kept.stat().st_mtime_ns
    committed(shop.root)
    memory.add(place, "The frobnicator is blue here.", MemoryKind.FIX)
    found(place)
    assert kept.stat().st_mtime_ns == before, "they part where they did"
    assert index.sync(place).read == 0


def test_looking_into_a_worktree_of_a_project_without_memory_leaves_no_trace(tmp_path: Path) -> None:
    bare = project(tmp_path / "bare")
    git(bare.root, "worktree", "add", "-q", "../tree")
    assert memory.list_(bare.root.parent / "tree") == []
    assert not (bare.root / ".ralph").exists()


def test_the_list_is_of_the_project_that_is_a_folder_of_a_larger_repository(tmp_path: Path) -> None:
    made = project(tmp_path / "all")
    inner = made.root / "inner"
    (inner / ".agent").mkdir(parents=True)
    for text in (GREASE, COG):
        memory.add(inner, text, MemoryKind.FIX)
    committed(made.root)
    git(made.root, "worktree", "add", "-q", "../tree")
    tree = made.root.parent / "tree" / "inner"
    memory.delete(tree, named(tree, GREASE))
    assert found(tree) == [COG]
    assert found(inner) == sorted([GREASE, COG])
