"""What other worktrees remember and have not merged: for whoever asks about all tasks, and for nobody else.

Memory that is written in a worktree is staged there until it is merged; no other checkout's index has it. Who asks
with `--all-tasks` gets it from an index in memory for this one question: a copy of their own, with those records of
each other worktree that are not as it began with them (`begun`), and of one that was deleted by hand, what was kept of
it (`staging`). So the scores are those of one index, and nothing leaks into any on the disk. A record that their own
index has in the same words is there once; every other one says in which task's worktree it stands.
`tests/app/worktrees/test_elsewhere.py` asks with real worktrees.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ralph import paths
from ralph.app.worktrees import begun, staging
from ralph.errors import RalphError
from ralph.formats.lines import said
from ralph.model.query import STAGED
from ralph.model.record import Link, Status
from ralph.search import terms
from ralph.store import copied
from ralph.store.sources import Contents, Format, Placed, Source, name_of, remembered, told

T = TypeVar("T")
_NEWER, _TO_BE_NEWER = "supersedes", "supersedes_when_merged"


@dataclass(frozen=True, slots=True)
class _Page:
    """A file of another worktree, and what of it is staged there."""

    name: str
    placed: tuple[Placed, ...]


def asked(root: Path, connection: sqlite3.Connection, question: Callable[[sqlite3.Connection], T]) -> T:
    """Ask an index something as if it had what is staged in other worktrees; it stays as it is."""
    known = {said(row[0]) for row in connection.execute("SELECT text FROM records")}
    pages = [page for page in _once(_pages(root), known) if page.placed]
    if not pages:
        return question(connection)
    more = ((page.name, Contents(page.placed)) for page in pages)
    with closing(copied.widened(connection, more, terms.index_terms)) as wider:
        return question(wider)


def _once(pages: Iterator[_Page], known: set[str]) -> Iterator[_Page]:
    """Pages without what is known in the same words already, in one's own checkout or in a page before."""
    for page in pages:
        new = tuple(each for each in page.placed if said(each.record.text) not in known)
        known |= {said(each.record.text) for each in new}
        yield replace(page, placed=new)


def _pages(root: Path) -> Iterator[_Page]:
    for name, place in sorted(paths.worktrees(root).items()):
        if place.resolve() != root.resolve() and place.is_dir():
            task = paths.task_of(place) or name
            known = begun.known(place)
            for source in _sources(root, place):
                held = (each for each in _told(source) if known.get(each.record.id) != begun.mark(each, source))
                yield _Page(source.name, tuple(_signed(each, task) for each in held))
    for name in staging.left(root):
        home = staging.folder(root, name)
        before = {
            (each.record.id, each.record.text)
            for source in _sources(root, home / staging.BEFORE)
            for each in _told(source)
        }
        for source in _sources(root, home / staging.NOW):
            held = (each for each in _told(source) if (each.record.id, each.record.text) not in before)
            yield _Page(source.name, tuple(_signed(each, f"{name} (gone)") for each in held))


def _sources(root: Path, place: Path) -> Iterator[Source]:
    for path, form in remembered(place):
        if path.is_file():
            yield Source(path, name_of(path, root), Format(form))


def _told(source: Source) -> Iterator[Placed]:
    with suppress(RalphError, OSError):  # what cannot be read there is told there
        yield from (each for each in told(source).records if each.record.status is not Status.RETIRED)


def _signed(placed: Placed, task: str) -> Placed:
    """A record that says where it is staged, and that takes nobody's place before it is merged."""
    record = placed.record
    links = tuple(Link(_TO_BE_NEWER, each.target) if each.relation == _NEWER else each for each in record.links)
    origin = replace(record.origin, task=record.origin.task or task.partition(" ")[0])
    return Placed(replace(record, links=links, origin=origin, extra={**record.extra, STAGED: task}), placed.line)
