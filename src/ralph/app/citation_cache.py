"""The cache of verified citations, for those who inject records and may not ask git.

`app/citations.py` verifies citations with git and writes the cache. This module only reads it, and decides by file
times whether it is out of date, because every start of a session does that and few have anything to verify.
"""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ralph import paths
from ralph.context import recall
from ralph.model.record import Record
from ralph.store.sources import memory_files


def is_due(root: Path) -> bool:
    """Whether somebody wrote to a file with records, or came to another commit, since all was verified."""
    places = [path for path, _ in memory_files(root) if path.is_file()]
    log = paths.head_log(root)
    try:
        last = cache_file(root).stat().st_mtime_ns
    except OSError:
        return bool(places)
    for place in (*places, *((log,) if log is not None else ())):
        with contextlib.suppress(OSError):
            if place.stat().st_mtime_ns > last:
                return True
    return not read_cache(root).startswith(recall.CITATIONS_HEAD)


def cache_file(root: Path) -> Path:
    """What was found in a checkout: kept in the main one, a worktree's by git's name for it, as hooks know it."""
    name = paths.worktree_name(root)
    return (paths.tree_cache(root, name) if name else paths.cache_folder(root)) / recall.CITATIONS_FILE


def load_citations(root: Path) -> recall.CitationCache:
    """What was verified here, to be asked for single records."""
    return recall.CitationCache(str(root), read_cache(root))


def citation_notes(root: Path, records: Sequence[Record]) -> Mapping[str, str]:
    """What is to be told about records that are handed over, by id; only of those with something to tell."""
    held = load_citations(root)
    found = ((each.id, held.note(each.id, f"{each.title}\n{each.text}", each.origin.files)) for each in records)
    return {name: note for name, note in found if note}


def add_citation_notes(root: Path, records: Sequence[Record], told: Mapping[str, str] | None = None) -> list[Record]:
    """Records that are handed over, those with something to tell about (`marks`) with that below their text."""
    if told is None:
        told = citation_notes(root, records)
    return [replace(each, text=f"{each.text}\n({told[each.id]})") if each.id in told else each for each in records]


def read_cache(root: Path) -> bytes:
    """All that is kept of what was verified here."""
    try:
        path = cache_file(root)
        return path.read_bytes() if path.is_file() else b""  # a link may lead to what has no end
    except OSError:
        return b""
