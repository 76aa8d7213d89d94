"""Where a promoted insight stands, and what takes it out; also after somebody has edited the page."""

from pathlib import Path

import pytest
from tests.app.test_insight import note
from tests.capture.test_insights import PROTO, PROTO_AGAIN

from ralph.app import insights, memory, promote
from ralph.app.promote import PromotedCopy, Target, copies
from ralph.app.tasks import task
from ralph.model.record import Record


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


@pytest.fixture
def name(root: Path) -> str:
    """The id of an insight."""
    made = task.add(root, "Make the cart add up").task.id
    note(root, made, 1, PROTO)
    return insights.extract(root, made).added[0].id


def found(root: Path, name: str) -> Record:
    return insights.find(root, name).record


def only(root: Path, name: str) -> PromotedCopy:
    (one,) = copies(root, found(root, name))
    return one


def test_what_was_not_promoted_stands_nowhere(root: Path, name: str) -> None:
    assert copies(root, found(root, name)) == []


def test_a_pattern_is_taken_out_by_the_command_that_is_told(root: Path, name: str) -> None:
    promote.promote(root, name, Target.PATTERNS)
    one = only(root, name)
    assert one.describe(root).startswith("it still stands in .ralph/global-patterns.md:")
    memory.delete(root, one.removal.split("`")[1].split()[-1])
    assert copies(root, found(root, name)) == []
    assert found(root, name).text == PROTO, "the insight itself is not forgotten"


def test_a_memory_is_taken_out_by_the_command_that_is_told(root: Path, name: str) -> None:
    promote.promote(root, name, Target.MEMORY)
    kept = memory.list_(root)[0].record
    assert only(root, name).removal == f"`ralph memory delete {kept.id}` takes it out"
    memory.delete(root, kept.id)
    assert copies(root, found(root, name)) == []


def test_a_line_of_somebodys_page_is_named_also_when_its_words_were_edited(root: Path, name: str) -> None:
    promote.promote(root, name, Target.AGENTS)
    page = root / "AGENTS.md"
    text = page.read_text(encoding="utf-8").replace(PROTO, PROTO_AGAIN)
    page.write_text(f"# Ours\n\n{text}", encoding="utf-8", newline="")
    assert only(root, name).describe(root) == "it still stands in AGENTS.md:5; take the line out in an editor"
    page.unlink()
    assert copies(root, found(root, name)) == []
