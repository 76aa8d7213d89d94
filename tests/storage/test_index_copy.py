"""A worktree's first index is a copy of the main checkout's, without the memory of that checkout."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.index_sources import LOG, dump, put, seen
from tests.support.runner import Block, page

from ralph.core import paths, terms
from ralph.storage import db, files
from ralph.storage.index import Index

MEMORIES = ".agent/memories.md"
ENTRY = ".ralph/knowledge/{}.md"


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A main checkout with logs, memories and knowledge, indexed."""
    root = tmp_path / "main"
    put(root, ".git/HEAD", "ref: refs/heads/main\n")
    put(root, ".git/worktrees/tree/commondir", "../..\n")
    put(root, ".git/worktrees/tree/HEAD", "ref: refs/heads/tree\n")
    put(root, LOG, "".join(seen(f"ran pytest {number}", number) for number in range(40)))
    put(root, MEMORIES, page(Block("alpha of the main checkout")))
    put(root, ENTRY.format("both"), "---\ntitle: Both\ntags: [a]\n---\n\nThe same words in both.\n")
    put(
        root,
        ENTRY.format("gone"),
        "---\ntitle: Gone\ntags: [a]\n---\n\nOnly in the main checkout.\n",
    )
    Index(root, terms.index_terms).sync()
    return root


@pytest.fixture
def tree(main: Path) -> Path:
    """A worktree with other memories, and one knowledge entry less."""
    root = main.parent / "tree"
    put(main, ".git/worktrees/tree/HEAD", "ref: refs/heads/tree\n")
    put(root, ".git", f"gitdir: {main}/.git/worktrees/tree\n")
    put(root, MEMORIES, page(Block("omega of the worktree")))
    shutil.copy(main / ENTRY.format("both"), put(root, ENTRY.format("both"), ""))
    return root


def begun(tree: Path) -> Index:
    return Index(tree, terms.index_terms, copy_main=lambda: True)


def texts(index: Index) -> str:
    with closing(db.connect(index.path, read_only=True)) as connection:
        return " ".join(row[0] for row in connection.execute("SELECT text FROM records"))


def test_updated_copy_equals_an_index_made_from_files(tree: Path) -> None:
    index = begun(tree)
    assert index.sync().read == 2, "its own two files; the logs are in the copy"
    with closing(index.connect()) as connection:
        copied_rows = [row[2:] for row in dump(connection)]
    index.rebuild()
    with closing(index.connect()) as connection:
        assert sorted(map(repr, copied_rows)) == sorted(repr(row[2:]) for row in dump(connection))
    assert index.sync().read == 0


def test_copy_never_has_memory_of_the_other_checkout(main: Path, tree: Path) -> None:
    index = begun(tree)
    states: list[str] = []

    def progress(count: int, total: int) -> None:
        assert not index.is_built()
        states.append(texts(index))  # the first file of the worktree is not committed yet

    index.sync(progress=progress)
    assert "alpha" not in states[0]
    assert "Only in the main" not in states[0]
    assert "The same words" in states[0]


def test_nothing_is_copied_unless_allowed(tree: Path) -> None:
    assert Index(tree, terms.index_terms).sync().read == 3
    assert Index(tree, terms.index_terms, copy_main=lambda: False).sync().read == 0


@pytest.mark.parametrize("harm", ["touched", "unsealed", "damaged", "version", "gone"])
def test_main_index_that_was_touched_is_not_copied(main: Path, tree: Path, harm: str) -> None:
    database = paths.index_file(main)
    if harm == "touched":
        with closing(db.connect(database)) as connection:
            connection.execute("UPDATE records SET text = 'forged'")
    elif harm == "unsealed":
        files.delete(database.with_name("ralph.db-seal"))
    elif harm == "damaged":
        database.write_bytes(b"nonsense" * 5000)
        paths.index_file(main).with_name("ralph.db-seal").write_text(
            db.seal(database), encoding="utf-8"
        )
    elif harm == "version":
        with closing(db.connect(database)) as connection:
            connection.execute("PRAGMA user_version = 1")
        paths.index_file(main).with_name("ralph.db-seal").write_text(
            db.seal(database), encoding="utf-8"
        )
    else:
        db.remove(database)
    index = begun(tree)
    assert index.sync().read == 3
    assert "omega" in texts(index)
    assert "forged" not in texts(index)


def test_half_made_copy_of_a_killed_process_is_replaced(main: Path, tree: Path) -> None:
    index = begun(tree)
    half = index.path.with_name("ralph.db-new")
    put(half.parent, half.name, b"half")
    assert index.sync().read == 2
    assert not half.exists()
