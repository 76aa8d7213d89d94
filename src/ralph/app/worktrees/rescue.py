"""What was staged in a worktree that somebody deleted: its index, in the main checkout, still has the words.

Memory that was written in a worktree and not committed goes with its folder. The index that was made of it outlives
the folder, so before that goes, what stands nowhere else (neither in the project's files nor on the worktree's branch)
is written to `.ralph/log/rescued/<worktree>.md`, as memories are. It is a net, no store: an index that is damaged, or
of another version, gives nothing. What somebody agreed to lose with `ralph task drop` is not brought back.
Proof: `tests/app/worktrees/test_rescue.py`.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ralph import paths
from ralph.app.repository import Repository
from ralph.app.worktrees import index_trees, staging
from ralph.app.worktrees.index_trees import Left
from ralph.errors import RalphError, Unreadable
from ralph.formats.memories import MEMORIES, parse_memories
from ralph.formats.text import normalise_text
from ralph.model import ids
from ralph.model.record import Family, Record, Status
from ralph.store import db, files, rows
from ralph.store.copied import is_shared
from ralph.store.lookup import SCHEMA_VERSION
from ralph.store.sources import Format, Source, contents, sources, told


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was left of a worktree, and where its memories are that stood nowhere else; None for none."""

    left: Left
    kept: Path | None = None


def folder(root: Path) -> Path:
    """Where rescued memories are."""
    return paths.log_folder(root) / "rescued"


def clear(root: Path) -> list[Cleared]:
    """Keep what only the indexes of gone worktrees have, and remove them; gives what could be done."""
    done: list[Cleared] = []
    for each in index_trees.left(root):
        with suppress(RalphError):
            kept = _keep(root, each.path.name)
            index_trees.remove(root, each.path.name)
            done.append(Cleared(each, kept))
    return done


def only_there(root: Path, name: str) -> list[Record]:
    """The memories that stand in the index of a worktree that is gone, and in no file that is there."""
    found = _indexed(paths.tree_cache(root, name) / "ralph.db")
    held = [(source, record) for source, record in found if record.status is not Status.RETIRED]
    if not held:
        return []
    elsewhere = {normalise_text(each.text) for each in _in_files(root)}
    mine = {source for source, _ in held}
    elsewhere |= {normalise_text(each.text) for each in (*_on_branch(root, name, mine), *_staged(root, name, mine))}
    return [record for _, record in held if normalise_text(record.text) not in elsewhere]


def _keep(root: Path, name: str) -> Path | None:
    """Write down what only an index has; None when that is nothing."""
    found = only_there(root, name)
    if not found:
        return None
    path = folder(root) / f"{name}.md"

    def edit(text: str) -> str:
        document = parse_memories(text or MEMORIES.template())
        there = {normalise_text(entry.record.text) for entry in document.entries}
        for record in found:
            if normalise_text(record.text) not in there:
                document = document.add(replace(record, id=ids.mint("mem"), links=(), extra={}))
        return str(document)

    files.update(path, edit, root=paths.state_root(root), mode=files.PRIVATE)
    return path


def _indexed(path: Path) -> list[tuple[Source, Record]]:
    """What an index holds of its checkout's own files."""
    try:
        with db.explained(path), closing(db.connect(path, read_only=True)) as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
                return []
            found: list[tuple[Source, Record]] = []
            for row in connection.execute("SELECT key, path, format FROM sources").fetchall():
                if not is_shared(row["path"]) and not row["path"].startswith("../"):  # the main checkout's own
                    source = Source(Path(row["path"]), row["path"], Format(row["format"]))
                    mine = rows.stored(connection, Family.MEMORY, "source = ?", (row["key"],))
                    found += [(source, record) for _, record in mine]
            return found
    except (RalphError, ValueError, OSError, sqlite3.Error):
        return []


def _in_files(root: Path) -> Iterator[Record]:
    """What the main checkout's own files say."""
    for source in sources(paths.state_root(root)):
        if not is_shared(source.name):
            with suppress(Unreadable):
                yield from (placed.record for placed in told(source).records)


def _staged(root: Path, name: str, wanted: Iterable[Source]) -> Iterator[Record]:
    """What is kept of these files of a worktree, and comes back with it."""
    for source in wanted:
        text = files.read(staging.folder(root, name) / staging.NOW / source.name)
        if text is not None:
            yield from (placed.record for placed in contents(source, text).records)


def _on_branch(root: Path, name: str, wanted: Iterable[Source]) -> Iterator[Record]:
    """What is committed in these files on the branch of a worktree, as far as git still knows which one that was."""
    state = paths.state_root(root)
    git = Repository(state)
    top = git.top
    if top is None:
        return
    head = (files.read(top / ".git" / "worktrees" / name / "HEAD") or f"ref: refs/heads/ralph/{name}").strip()
    inside = state.resolve().relative_to(top.resolve()).as_posix()
    prefix = "" if inside == "." else f"{inside}/"
    for source in wanted:
        text = git.text(f"{head.removeprefix('ref: ')}:{prefix}{source.name}")
        if text is not None:
            yield from (placed.record for placed in contents(source, text).records)
