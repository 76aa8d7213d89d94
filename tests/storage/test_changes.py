"""A process that lives on notices every change of a file without looking at each of thousands of logs."""

import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ralph.core import paths, terms
from ralph.storage import changes
from ralph.storage.index import Index

WEEK = 7 * 24 * 3600


@pytest.fixture
def index(tmp_path: Path) -> Index:
    for name in ("old", "new"):
        path = log(tmp_path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"v": 1, "type": "note"}\n', encoding="utf-8")
    packed(tmp_path).write_bytes(gzip.compress(b'{"v": 1, "type": "note"}\n'))
    past = time.time() - WEEK
    os.utime(log(tmp_path, "old"), (past, past))
    os.utime(log(tmp_path, "old").parent, (past, past))
    index = Index(tmp_path, terms.index_terms)
    assert index.sync().read == 3
    return index


def log(root: Path, name: str) -> Path:
    return paths.log_folder(root) / "sessions" / f"{name}.jsonl"


def packed(root: Path) -> Path:
    return log(root, "packed").with_suffix(paths.PACKED)


def append(root: Path) -> None:
    with log(root, "new").open("a", encoding="utf-8") as file:
        file.write('{"v": 1, "type": "note"}\n')


def replace(root: Path) -> None:
    other = root / "other"
    other.write_text('{"v": 1, "type": "nota"}\n', encoding="utf-8")
    past = time.time() - WEEK
    os.utime(other, (past, past))
    other.replace(log(root, "old"))


def pack(root: Path) -> None:
    """Put a packed log in the place of another, as an import does."""
    other = root / "other"
    other.write_bytes(gzip.compress(b'{"v": 1, "type": "nota"}\n'))
    other.replace(packed(root))


def pack_in_place(root: Path) -> None:
    """Replace a packed log by one with its inode, as two replacements may do."""
    packed(root).write_bytes(gzip.compress(b'{"v": 1, "type": "nota"}\n'))
    log(root, "probe").touch()
    log(root, "probe").unlink()


def curate(root: Path) -> None:
    memories = paths.memories_files(root)[0]
    memories.parent.mkdir(parents=True, exist_ok=True)
    memories.write_text("# Memories\n", encoding="utf-8")


CHANGES: dict[str, Callable[[Path], object]] = {
    "a line in a recent log": append,
    "another log": lambda root: log(root, "more").write_text("{}\n", encoding="utf-8"),
    "an old log replaced": replace,
    "a packed log replaced": pack,
    "a packed log replaced twice": pack_in_place,
    "an old log deleted": lambda root: log(root, "old").unlink(),
    "a curated file": curate,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed_at_once(index: Index, change: str) -> None:
    assert index.sync().read == 0
    CHANGES[change](index.root)
    result = index.sync()
    assert (result.read, result.removed) == ((0, 1) if change == "an old log deleted" else (1, 0))
    assert index.sync().read == 0


def test_without_a_change_the_files_are_not_compared_again(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.sync()
    before = paths.index_file(index.root).stat()
    seal = paths.index_file(index.root).with_name("ralph.db-seal").read_text(encoding="utf-8")
    assert changes.is_unchanged(index.root, seal)
    assert not changes.is_unchanged(index.root, seal + " other")
    log(index.root, "probe").touch()
    log(index.root, "probe").unlink()  # the folder changed, what is in it did not
    assert changes.is_unchanged(index.root, seal)
    monkeypatch.setattr(changes, "_MAX_SNAPSHOT_SECONDS", -1.0)
    assert not changes.is_unchanged(index.root, seal)  # after a minute every log is looked at
    assert before.st_ino == paths.index_file(index.root).stat().st_ino
