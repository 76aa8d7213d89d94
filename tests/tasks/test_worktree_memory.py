"""A worktree's memory files are its own; where it has no such file, the main checkout's is read and written."""

from pathlib import Path

import pytest
from tests.support.git import git
from tests.support.looping import Workshop, project, says_done
from tests.support.side_by_side import write

from ralph.core import paths
from ralph.core.errors import NotFound
from ralph.core.record import MemoryKind, Query
from ralph.loop.request import LoopRequest
from ralph.memory import knowledge, memory, reading
from ralph.recall import search
from ralph.search import index
from ralph.storage.sources import sources
from ralph.tasks import task as progress
from ralph.tasks import worktree

GREASE, COG = "The frobnicator needs grease.", "The frobnicator has a cog."
BLUE, LATER = "The frobnicator is blue here.", "The frobnicator was moved to the cellar."
RULE, TURNS = "Never paint the frobnicator.", "The frobnicator turns left."
BULLET = "Oil the frobnicator first."


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A project with committed memories, and guardrails, knowledge and patterns that were never committed."""
    made = project(tmp_path / "shop")
    for text in (GREASE, COG):
        memory.add(made.root, text, MemoryKind.FIX)
    git(made.root, "add", ".agent")
    git(made.root, "commit", "-q", "-m", "memory")
    return made


@pytest.fixture
def tree(shop: Workshop) -> Path:
    task = progress.add(shop.root, "refunds", in_worktree=True).task
    memory.add(shop.root, LATER, MemoryKind.FIX)
    memory.add(shop.root, RULE, MemoryKind.FIX, in_="guardrails")
    knowledge.add(shop.root, "Frobnicator", TURNS, ["frobnicator"])
    write(paths.global_patterns(shop.root), f"# Patterns\n\n## Tips\n\n- {BULLET}\n")
    return worktree.working_folder(shop.root, task)


def find_all(root: Path) -> list[str]:
    return sorted(
        hit.record.text
        for hit in search.search(root, Query(text="frobnicator", limit=50)).found.hits
    )


def id_of(root: Path, text: str) -> str:
    return next(each.record.id for each in reading.list_entries(root) if each.record.text == text)


def test_a_file_of_the_worktree_is_its_own(shop: Workshop, tree: Path) -> None:
    memory.add(tree, BLUE, MemoryKind.FIX)
    gone = id_of(tree, COG)
    memory.delete(tree, gone)
    for _ in range(2):
        assert find_all(tree) == sorted([GREASE, BLUE, RULE, TURNS, BULLET])
        assert find_all(shop.root) == sorted([GREASE, COG, LATER, RULE, TURNS, BULLET])
    assert reading.get_entry(shop.root, gone).record.text == COG
    with pytest.raises(NotFound):
        reading.get_entry(tree, gone)
    assert index.verify(tree) == []
    assert index.sync(tree).read == 0


def test_a_task_is_given_the_patterns_of_the_main_checkout_and_of_its_worktree(
    shop: Workshop,
) -> None:
    def write_patterns(root: Path, *texts: str) -> None:
        bullets = "".join(f"- {text}\n" for text in texts)
        write(paths.global_patterns(root), f"# Patterns\n\n## Tips\n\n{bullets}")

    write_patterns(shop.root, BULLET)
    git(shop.root, "add", ".ralph/global-patterns.md")
    git(shop.root, "commit", "-q", "-m", "patterns")
    task = progress.add(shop.root, "refunds", in_worktree=True).task
    write_patterns(shop.root, BULLET, LATER)
    write_patterns(worktree.working_folder(shop.root, task), BULLET, BLUE)
    request = LoopRequest(task=task.id, criteria=("none",), verify=False)
    prompt = shop.prompt(shop.start(says_done(), request=request), 1)
    for text in (BULLET, LATER, BLUE):
        assert prompt.count(f"- {text}\n") == 1


def test_where_the_worktree_has_no_such_file_the_main_checkouts_is_read(
    shop: Workshop, tree: Path
) -> None:
    assert [each.record.text for each in reading.list_entries(tree, in_=("guardrails",))] == [RULE]
    assert [each.record.title for each in reading.list_entries(tree, in_=("knowledge",))] == [
        "Frobnicator"
    ]
    assert {source.path for source in sources(tree)} >= {shop.root / ".ralph" / "guardrails.md"}
    run = shop.start(
        says_done(), request=LoopRequest(task=tree.name, criteria=("none",), verify=False)
    )
    prompt = shop.prompt(run, 1)
    for text in (GREASE, COG, RULE, BULLET):
        assert prompt.count(text) == 1
    assert LATER not in prompt


def test_where_the_worktree_has_no_such_file_the_main_checkouts_is_written(
    shop: Workshop, tree: Path
) -> None:
    written = memory.add(
        tree, "Never wash the frobnicator.", MemoryKind.FIX, in_="guardrails"
    ).stored.path
    assert written == shop.root / ".ralph" / "guardrails.md"
    rule = next(
        each.record.id
        for each in reading.list_entries(tree, in_=("guardrails",))
        if each.record.text == RULE
    )
    memory.edit(tree, rule, text="Never paint it.")
    knowledge.add(tree, "Belt", "The belt turns right.", ["belt"])
    memory.delete(tree, "Frobnicator")
    assert [each.record.title for each in reading.list_entries(shop.root, in_=("knowledge",))] == [
        "Belt"
    ]
    assert [each.record.text for each in reading.list_entries(shop.root, in_=("guardrails",))] == [
        "Never paint it.",
        "Never wash the frobnicator.",
    ]
    assert git(tree, "status", "--porcelain") == ""


def test_a_branch_without_any_memory_uses_all_of_the_main_checkouts(shop: Workshop) -> None:
    first = git(shop.root, "rev-list", "--max-parents=0", "HEAD").strip()
    git(shop.root, "worktree", "add", "-q", "../old", first)
    old = shop.root.parent / "old"
    assert find_all(old) == sorted([GREASE, COG])
    memory.add(old, "The frobnicator is old.", MemoryKind.FIX)
    assert find_all(shop.root) == find_all(old) == sorted([GREASE, COG, "The frobnicator is old."])


def test_looking_into_a_worktree_of_a_project_without_memory_leaves_no_trace(
    tmp_path: Path,
) -> None:
    bare = project(tmp_path / "bare")
    git(bare.root, "worktree", "add", "-q", "../tree")
    assert reading.list_entries(bare.root.parent / "tree") == []
    assert not (bare.root / ".ralph").exists()


def test_a_project_in_a_folder_of_a_larger_repository_keeps_the_rule(tmp_path: Path) -> None:
    made = project(tmp_path / "all")
    inner = made.root / "inner"
    (inner / ".agent").mkdir(parents=True)
    for text in (GREASE, COG):
        memory.add(inner, text, MemoryKind.FIX)
    git(made.root, "add", "-A")
    git(made.root, "commit", "-q", "-m", "memory")
    git(made.root, "worktree", "add", "-q", "../tree")
    tree = made.root.parent / "tree" / "inner"
    memory.delete(tree, id_of(tree, GREASE))
    memory.add(inner, RULE, MemoryKind.FIX, in_="guardrails")
    assert find_all(tree) == sorted([COG, RULE])
    assert find_all(inner) == sorted([GREASE, COG, RULE])
