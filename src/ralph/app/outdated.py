"""Outdated records: superseded, expired, or citing a file or symbol that is gone or has moved.

A record is superseded when another one says so, never because it is similar to a newer one. Records that supersede
each other in a circle all count as valid; `ralph doctor` reports the circle. `app/citations.py` verifies citations with
git and writes the cache; here it is only read, because every start of a session does that and may not ask git.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ralph import paths
from ralph.context import recall
from ralph.errors import Unreadable
from ralph.formats.text import Problem
from ralph.model import ids
from ralph.model.graph import Relation
from ralph.model.query import Hit
from ralph.model.record import Family, Record
from ralph.store import lookup
from ralph.store.sources import Format, memory_files, read_source, sources

FORMATS = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE, Format.PATTERNS)
"""Files with curated records."""
SHARE = 0.5
"""The share of its score that an outdated hit keeps."""
_BEHIND = 0.99
_MAX_NAMES = 5


def describe_outdated(connection: sqlite3.Connection, records: Sequence[Record]) -> Mapping[str, str]:
    """Return a note for each memory that is superseded or expired, by id."""
    memories = [record for record in records if record.family is Family.MEMORY]
    replaced = lookup.superseded(connection) if memories else {}
    today = ids.today()
    notes: dict[str, str] = {}
    for record in memories:
        if record.id in replaced:
            notes[record.id] = f"superseded by {replaced[record.id]}"
        elif record.valid_until and record.valid_until < today:
            notes[record.id] = f"expired {record.valid_until}"
    return notes


def demote_outdated(hits: Sequence[Hit], notes: Mapping[str, str]) -> tuple[Hit, ...]:
    """Rank superseded and expired hits lower, and below what replaced them; their `why` gets the note."""
    scores = {hit.record.id: hit.score for hit in hits}
    ranked: list[Hit] = []
    for hit in hits:
        note = notes.get(hit.record.id, "")
        if note and hit.why != ("id",):
            newer = scores.get(note.rpartition(" ")[2], hit.score)
            score = round(min(hit.score * SHARE, newer * _BEHIND), 4)
            hit = replace(hit, score=score, why=(*hit.why, note))
        ranked.append(hit)
    return tuple(sorted(ranked, key=lambda hit: -hit.score))


def find_circles(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Of pairs (new record, old record), return those that supersede each other in a circle."""
    newer = lookup.newer(pairs)
    return sorted(old for old, all_new in newer.items() if any(lookup.leads_to(newer, new, old) for new in all_new))


def circle_problems(root: Path) -> Iterator[tuple[Path, Problem]]:
    """Yield a problem for each record of the memory files that is superseded in a circle."""
    from ralph.formats.graphiti import stated_edges

    locations: dict[str, tuple[Path, int]] = {}
    pairs: list[tuple[str, str]] = []
    for source in sources(root):
        if source.format in FORMATS:
            with contextlib.suppress(Unreadable):
                for placed in read_source(source).records:
                    record = placed.record
                    locations[record.id] = (source.path, placed.line)
                    edges = (edge for edge in stated_edges(record) if edge.relation is Relation.SUPERSEDES)
                    pairs += ((record.id, edge.target) for edge in edges)
    circle = find_circles(pairs)
    what = f"superseded in a circle ({', '.join(circle[:_MAX_NAMES])}), so that none of them is taken to be outdated"
    hint = "`ralph graph link --remove` takes one of these edges away"
    for name in circle:
        path, line = locations[name]
        yield path, Problem(line, f"{name} is {what}", hint, "warning", "circle")


# --- stale citations ---------------------------------------------------------------------------


def cache_file(root: Path) -> Path:
    """Return the citation cache of a checkout; a worktree's is in the main checkout, by git's name for it."""
    name = paths.worktree_name(root)
    return (paths.tree_cache(root, name) if name else paths.cache_folder(root)) / recall.CITATIONS_FILE


def read_cache(root: Path) -> bytes:
    """Return the citation cache; empty when it cannot be read."""
    try:
        path = cache_file(root)
        return path.read_bytes() if path.is_file() else b""  # a link may lead to what has no end
    except OSError:
        return b""


def load_citations(root: Path) -> recall.CitationCache:
    """Return the verified citations of a checkout."""
    return recall.CitationCache(str(root), read_cache(root))


def is_cache_due(root: Path) -> bool:
    """Whether a memory file or the current commit is newer than the citation cache."""
    memories = [path for path, _ in memory_files(root) if path.is_file()]
    log = paths.head_log(root)
    try:
        last = cache_file(root).stat().st_mtime_ns
    except OSError:
        return bool(memories)
    for path in (*memories, *((log,) if log is not None else ())):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime_ns > last:
                return True
    return not read_cache(root).startswith(recall.CITATIONS_HEAD)


def citation_notes(root: Path, records: Sequence[Record]) -> Mapping[str, str]:
    """Return a note for each record with a stale citation, by id."""
    cache = load_citations(root)
    notes = {record.id: cache.note(record.id, _text(record), record.origin.files) for record in records}
    return {name: note for name, note in notes.items() if note}


def add_citation_notes(root: Path, records: Sequence[Record], notes: Mapping[str, str] | None = None) -> list[Record]:
    """Append the notes about stale citations to the texts of records."""
    if notes is None:
        notes = citation_notes(root, records)
    return [
        replace(record, text=f"{record.text}\n({notes[record.id]})") if record.id in notes else record
        for record in records
    ]


def demote_stale(root: Path, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Rank hits with stale citations lower; their `why` gets the note."""
    cache = load_citations(root)
    ranked: list[Hit] = []
    for hit in hits:
        record = hit.record
        share = cache.share(record.id, _text(record), record.origin.files)
        if share < 1:
            note = cache.note(record.id, _text(record), record.origin.files)
            hit = replace(hit, score=round(hit.score * share, 4), why=(*hit.why, note))
        ranked.append(hit)
    return tuple(sorted(ranked, key=lambda hit: -hit.score))


def _text(record: Record) -> str:
    return f"{record.title}\n{record.text}"
