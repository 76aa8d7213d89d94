"""The indexes of a project's worktrees, which are kept in the main checkout's state.

They outlive a worktree that somebody deletes by hand; then `ralph task drop` and `ralph index prune` remove them.
Whoever forgets something for good, or keeps a cache for all checkouts, has to look at all of them. Git's own files say
which worktrees exist (`paths.worktrees`).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from ralph import paths
from ralph.errors import RalphError
from ralph.store import db, files, queries
from ralph.store.index import discard


@dataclass(frozen=True, slots=True)
class StaleIndex:
    """The cache folder of a worktree that is gone, and its size."""

    path: Path
    size: int


def stale(root: Path) -> list[StaleIndex]:
    """The caches of worktrees that are not there any more."""
    there = paths.worktrees(root)
    gone = [each for each in sorted(paths.tree_caches(root).glob("*")) if each.is_dir() and each.name not in there]
    return [
        StaleIndex(each, sum(path.lstat().st_size for path in each.glob("*"))) for each in gone if not each.is_symlink()
    ]


def remove(root: Path, name: str) -> None:
    """Remove what was made for a worktree that is gone, by git's name for it."""
    folder = paths.tree_cache(root, name)
    for path in folder.glob("*"):
        files.delete(path)
    if folder.is_dir():
        files.remove_folder(folder)


def discard_all(root: Path, patience: float = 0.0) -> None:
    """Delete what was made of every checkout's files; Busy when another process is at one of them."""
    for path in databases(root):
        discard(path, patience)
    for path in (paths.graph_file(paths.main_checkout(root)), *paths.tree_caches(root).glob("*/graph.db")):
        db.remove(path)


def databases(root: Path) -> list[Path]:
    """The indexes of all checkouts that have one, the main one first."""
    found = [paths.index_file(paths.main_checkout(root)), *sorted(paths.tree_caches(root).glob("*/ralph.db"))]
    return [path for path in found if path.is_file()]


def digests(root: Path) -> set[str]:
    """The contents that the indexes of the other checkouts hold; of one that cannot be read, nothing."""
    return {digest for path in databases(root) if path != paths.index_file(root) for digest in _digests(path)}


def _digests(path: Path) -> Iterator[str]:
    with suppress(RalphError, sqlite3.Error), closing(db.connect(path, read_only=True)) as connection:
        yield from queries.digests(connection).values()
