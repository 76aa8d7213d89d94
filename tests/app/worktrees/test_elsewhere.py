"""Who asks about all tasks finds what is staged in other worktrees, and whose it is; nobody else does."""

import json
import shutil
from pathlib import Path

import pytest
from tests.app.looping import Workshop, git, project
from tests.cli.runner import Project

from ralph import paths
from ralph.app import graph, guardrails, index, knowledge, memory, search, task_memory
from ralph.app.graph_link import link
from ralph.app.search import Answer
from ralph.app.worktrees import staging, worktree
from ralph.errors import NotFound
from ralph.model.query import STAGED, Detail, Query
from ralph.model.record import MemoryKind

GREASE, COG = "The frobnicator needs grease.", "The frobnicator has a cog."
OIL, BLUE, RULE = "The frobnicator needs oil.", "The frobnicator is blue here.", "Never paint the frobnicator."


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    made = project(tmp_path / "shop")
    for text in (GREASE, COG):
        memory.add(made.root, text, MemoryKind.FIX)
    git(made.root, "add", ".agent")
    git(made.root, "commit", "-q", "-m", "memory")
    return made


@pytest.fixture
def place(shop: Workshop) -> Path:
    """A worktree with memory of its own: one new, one in other words, one deleted, a rule and a page."""
    at = tree(shop)
    memory.add(at, BLUE, MemoryKind.FIX)
    memory.edit(at, named(at, GREASE), text=OIL)
    memory.delete(at, named(at, COG))
    guardrails.add(at, RULE, MemoryKind.FIX)
    knowledge.add(at, "Frobnicator", "The frobnicator turns left.", ["frobnicator"])
    return at


def tree(shop: Workshop) -> Path:
    work = task_memory.add(shop.root, "refunds", in_worktree=True).task
    return worktree.workplace(shop.root, work)


def named(root: Path, text: str) -> str:
    return next(each.record.id for each in memory.list_(root) if each.record.text == text)


def asked(root: Path, *, everywhere: bool = True, layer: Detail = Detail.INDEX, text: str = "frobnicator") -> Answer:
    return search.search(root, Query(text=text, limit=50, layer=layer), everywhere=everywhere)


def found(root: Path, *, everywhere: bool = True) -> list[tuple[str, str]]:
    """What is found, each with whose it is."""
    hits = asked(root, everywhere=everywhere).found.hits
    return sorted((hit.record.text, str(hit.record.extra.get(STAGED, ""))) for hit in hits)


def test_who_asks_about_all_tasks_finds_what_is_staged_in_another_worktree_and_whose_it_is(
    shop: Workshop, place: Path
) -> None:
    own = [(GREASE, ""), (COG, "")]
    staged = [(text, place.name) for text in (OIL, BLUE, RULE, "The frobnicator turns left.")]
    for _ in range(2):
        assert found(shop.root) == sorted([*own, *staged])
        assert found(shop.root, everywhere=False) == sorted(own), "nobody else does"
    assert index.verify(shop.root) == []


def test_each_line_says_whose_worktree_it_is_in(shop: Workshop, place: Path) -> None:
    for layer in (Detail.INDEX, Detail.TIMELINE):
        texts = [each.text for each in asked(shop.root, layer=layer).shown if each.hit.record.text in (BLUE, OIL)]
        assert len(texts) == 2
        for text in texts:
            assert f"staged:{place.name}" in text
            assert layer is Detail.INDEX or "The frobnicator" in text  # a line of layer 1 has room for its id first
    for each in asked(shop.root, layer=Detail.FULL).shown:
        assert ("staged_in: " in each.text) is (STAGED in each.hit.record.extra)


def test_an_id_shows_the_record_as_it_is_here_and_as_it_is_there(shop: Workshop, place: Path) -> None:
    name = named(shop.root, GREASE)
    shown = asked(shop.root, text=name, layer=Detail.FULL).shown
    assert [each.hit.record.text for each in shown] == [GREASE, OIL]
    only = named(place, BLUE)
    assert asked(shop.root, text=only, layer=Detail.FULL).shown[0].hit.record.text == BLUE
    with pytest.raises(NotFound):
        asked(shop.root, everywhere=False, text=only, layer=Detail.FULL)


def test_one_worktree_finds_what_another_one_has_staged_and_what_both_have_once(shop: Workshop, place: Path) -> None:
    other = tree(shop)
    memory.add(other, BLUE, MemoryKind.FIX)
    assert (BLUE, "") in found(other)
    assert (BLUE, place.name) not in found(other), "it has the same words itself"
    assert (OIL, place.name) in found(other)
    assert [text for text, _ in found(shop.root)].count(BLUE) == 1
    assert (OIL, "") in found(place)


def test_what_was_merged_or_what_the_branch_merely_is_behind_with_is_not_staged(shop: Workshop, place: Path) -> None:
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "learned")
    assert (BLUE, place.name) in found(shop.root), "on its branch only"
    git(shop.root, "merge", "-q", f"ralph/{place.name}")
    memory.edit(shop.root, named(shop.root, BLUE), text="The frobnicator is green.")
    assert {whose for _, whose in found(shop.root)} == {""}
    assert BLUE not in [text for text, _ in found(shop.root)]


def test_what_was_staged_in_a_worktree_that_somebody_deleted_is_found_too(shop: Workshop, place: Path) -> None:
    staging.keep(place)
    shutil.rmtree(place)
    assert (BLUE, f"{place.name} (gone)") in found(shop.root)
    assert (OIL, f"{place.name} (gone)") in found(shop.root)
    assert (COG, f"{place.name} (gone)") not in found(shop.root)


def test_a_memory_is_not_outdated_by_what_another_worktree_has_not_merged(shop: Workshop, place: Path) -> None:
    link(place, named(place, BLUE), "supersedes", named(place, OIL))
    assert [hit.why[-1][:10] for hit in asked(place).found.hits if hit.record.text == OIL] == ["superseded"]
    [hit] = [hit for hit in asked(shop.root).found.hits if hit.record.text == GREASE]
    assert not [why for why in hit.why if why.startswith("superseded")]


def test_the_graph_and_the_timeline_have_it_too(shop: Workshop, place: Path) -> None:
    only = named(place, BLUE)
    shown = graph.show(shop.root, only, everywhere=True)
    assert shown.record is not None
    assert shown.record.extra[STAGED] == place.name
    assert only in [each.node.id for each in graph.search(shop.root, "frobnicator blue", everywhere=True).hits]
    with pytest.raises(NotFound):
        graph.show(shop.root, only)
    around = search.timeline(shop.root, since="2020-01-01", everywhere=True).shown
    assert [each.text for each in around if f"staged:{place.name}" in each.text]
    assert not paths.begun_file(shop.root).is_file()


def test_the_commands_find_it_and_say_whose_it_is(shop: Workshop, place: Path) -> None:
    ralph = Project(shop.root)
    said = json.loads(ralph("search", "blue", "--all-tasks", "--format", "json").out)
    assert [(hit["content"], hit["staged_in"]) for hit in said["hits"]] == [(BLUE, place.name)]
    assert "Nothing found." in ralph("search", "blue").out
    only = named(place, BLUE)
    assert f"staged in:   {place.name}" in ralph("graph", "show", only, "--all-tasks").out
    assert f"({place.name})" in ralph("graph", "search", "blue", "--all-tasks").out
    assert f"staged:{place.name}" in ralph("timeline", only, "--all-tasks").out
