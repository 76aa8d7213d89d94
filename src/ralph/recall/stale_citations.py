"""Point out records with stale citations, and rank them lower.

A citation is a file, symbol, command or commit that a record mentions. It is stale if its target
was removed or has moved. Only the results of the last check are read here, because searches and
hooks must not start git. `citation_check` performs the check and writes the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ralph.core import paths
from ralph.core.record import Hit, Record
from ralph.recall.citation_cache import CITATIONS_HEAD, CitationCache
from ralph.recall.eligibility import CITATIONS_FILE
from ralph.storage.sources import memory_files


def cache_file(root: Path) -> Path:
    """Return the path of a checkout's citation cache.

    A worktree's cache is in the main checkout, under git's name for the worktree.
    """
    return paths.checkout_cache(root) / CITATIONS_FILE


def read_cache(root: Path) -> bytes:
    """Return the content of the citation cache, or b"" if it cannot be read."""
    try:
        path = cache_file(root)
        if path.is_file():  # a symlink may point to a FIFO or a device
            return path.read_bytes()
    except OSError:
        pass
    return b""


def is_cache_due(root: Path) -> bool:
    """Return whether a memory file or HEAD has changed since the cache was written."""
    cache = cache_file(root)
    memories = [path for path, _ in memory_files(root) if path.is_file()]
    if not cache.is_file():
        return bool(memories)
    if not read_cache(root).startswith(CITATIONS_HEAD):
        return True
    cached_at = cache.stat().st_mtime_ns
    head_log = paths.head_log(root)
    if head_log is not None and head_log.exists():
        memories.append(head_log)
    return any(path.stat().st_mtime_ns > cached_at for path in memories)


def load_citations(root: Path) -> CitationCache:
    """Return the verified citations of a checkout."""
    return CitationCache(str(root), read_cache(root))


def citation_notes(root: Path, records: Sequence[Record]) -> Mapping[str, str]:
    """Return a note for each record with a stale citation, by id."""
    cache = load_citations(root)
    notes = {}
    for record in records:
        note = cache.note(record.id, f"{record.title}\n{record.text}", record.origin.files)
        if note:
            notes[record.id] = note
    return notes


def add_citation_notes(
    root: Path, records: Sequence[Record], notes: Mapping[str, str] | None = None
) -> list[Record]:
    """Return the records with the notes about stale citations appended to their texts."""
    if notes is None:
        notes = citation_notes(root, records)
    noted = []
    for record in records:
        if record.id in notes:
            record = replace(record, text=f"{record.text}\n({notes[record.id]})")
        noted.append(record)
    return noted


def demote_stale(root: Path, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Rank hits with stale citations lower, and add the note to their `why`."""
    cache = load_citations(root)
    ranked: list[Hit] = []
    for hit in hits:
        record = hit.record
        text = f"{record.title}\n{record.text}"
        factor = cache.score_factor(record.id, text, record.origin.files)
        if factor < 1:
            note = cache.note(record.id, text, record.origin.files)
            hit = hit._replace(score=round(hit.score * factor, 4), why=(*hit.why, note))
        ranked.append(hit)
    return tuple(sorted(ranked, key=lambda hit: -hit.score))
