"""The merge driver in real git: memory files merge without a conflict, and a driver that is gone harms nothing."""

import sys
from pathlib import Path

import pytest
from tests.app.looping import git
from tests.formats.test_merge import ids, page, record

from ralph.app import merge_driver
from ralph.errors import Refused

FILE = ".agent/memories.md"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with one memory on main, and a branch `side` with another."""
    git(tmp_path, "init", "-q", "-b", "main", ".")
    git(tmp_path, "config", "user.name", "Ann")
    git(tmp_path, "config", "user.email", "ann@example.com")
    put(tmp_path, page(record(1)), "first")
    return tmp_path


def put(root: Path, text: str, message: str) -> None:
    path = root / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


def diverge(root: Path, ours: str, theirs: str) -> None:
    git(root, "checkout", "-qb", "side")
    put(root, theirs, "theirs")
    git(root, "checkout", "-q", "main")
    put(root, ours, "ours")


def program() -> str:
    return str(Path(sys.executable).parent / "ralph")


def test_adds_on_two_branches_merge_without_a_conflict(shop: Path) -> None:
    done = merge_driver.register(shop, program())
    assert done.config
    assert merge_driver.register(shop, program()).attributes == ()
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "attributes")
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    git(shop, "merge", "-q", "side", "-m", "merged")
    assert (shop / FILE).read_text(encoding="utf-8") == page(record(1), record(2), record(3))
    assert git(shop, "status", "--porcelain") == ""


def test_a_rebase_and_a_cherry_pick_use_it_too(shop: Path) -> None:
    merge_driver.register(shop, program())
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "attributes")
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    git(shop, "checkout", "-q", "side")
    git(shop, "rebase", "-q", "main")
    assert ids((shop / FILE).read_text(encoding="utf-8")) == [record(number).id for number in (1, 2, 3)]


def test_prose_that_both_edited_is_a_conflict_with_markers(shop: Path) -> None:
    merge_driver.register(shop, program())
    put(shop, page(record(1), prose="Read this.\n\n"), "prose")
    diverge(shop, page(record(1), prose="Read that.\n\n"), page(record(1), record(3), prose="Read it all.\n\n"))
    with pytest.raises(Exception, match="returned non-zero"):
        git(shop, "merge", "-q", "side")
    text = (shop / FILE).read_text(encoding="utf-8")
    assert text.count("<<<<<<<") == 1
    assert ids(text) == [record(number).id for number in (1, 3)]


def test_a_driver_that_is_gone_falls_back_to_the_merge_of_lines(shop: Path) -> None:
    merge_driver.register(shop, str(shop / "no-such-ralph"))
    git(shop, "add", "-A")
    git(shop, "commit", "-qm", "attributes")
    diverge(shop, page(record(1), record(2)), page(record(1), record(3)))
    with pytest.raises(Exception, match="returned non-zero"):
        git(shop, "merge", "-q", "side")
    text = (shop / FILE).read_text(encoding="utf-8")
    assert "<<<<<<<" in text
    assert {record(2).id, record(3).id} <= {*ids(text)}, "neither side is lost"


def test_outside_of_git_nothing_is_registered(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="not in a git repository"):
        merge_driver.register(tmp_path, program())
    assert not (tmp_path / ".gitattributes").exists()
