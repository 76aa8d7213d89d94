"""Superseded and expired records: they are not injected, and rank below what took their place.

A record is superseded when another one says so, never because it is similar to a newer one. Records that supersede
each other in a circle all count as valid, because nobody can tell which was meant; `ralph doctor` reports the circle.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ralph.errors import Unreadable
from ralph.formats.graphiti import stated_edges
from ralph.formats.text import Problem
from ralph.model import ids
from ralph.model.graph import Relation
from ralph.model.query import Hit
from ralph.model.record import Family, Record
from ralph.store import lookup
from ralph.store.sources import Format, sources, told

FORMATS = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE, Format.PATTERNS)
"""Files with records that a person or an agent means to keep."""

SHARE = 0.5
"""What a hit's score is worth that no longer holds."""
_BEHIND = 0.99
_NAMED = 5
_SUPERSEDES = Relation.SUPERSEDES


def describe_outdated(connection: sqlite3.Connection, records: Sequence[Record]) -> Mapping[str, str]:
    """What is to be told about those of some records that no longer hold, by id."""
    memories = [record for record in records if record.family is Family.MEMORY]
    replaced = lookup.superseded(connection) if memories else {}
    today = ids.today()
    found: dict[str, str] = {}
    for record in memories:
        if record.id in replaced:
            found[record.id] = f"superseded by {replaced[record.id]}"
        elif record.valid_until and record.valid_until < today:
            found[record.id] = f"expired {record.valid_until}"
    return found


def demote_outdated(hits: Sequence[Hit], told: Mapping[str, str]) -> tuple[Hit, ...]:
    """Hits with those that no longer hold behind: they score less, less than what took their place, and say why."""
    scores = {hit.record.id: hit.score for hit in hits}
    lowered: list[Hit] = []
    for hit in hits:
        note = told.get(hit.record.id, "")
        if note and hit.why != ("id",):
            newer = scores.get(note.rpartition(" ")[2], hit.score)
            score = round(min(hit.score * SHARE, newer * _BEHIND), 4)
            hit = replace(hit, score=score, why=(*hit.why, note))
        lowered.append(hit)
    return tuple(sorted(lowered, key=lambda hit: -hit.score))


def find_circles(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Of pairs (a new record, an old one) those that supersede each other in a circle."""
    known = lookup.newer(pairs)
    return sorted(old for old, all_new in known.items() if any(lookup.leads(known, new, old) for new in all_new))


def circle_problems(root: Path) -> Iterator[tuple[Path, Problem]]:
    """The records that supersede each other in a circle, as their files have them."""
    held: dict[str, tuple[Path, int]] = {}
    pairs: list[tuple[str, str]] = []
    for source in sources(root):
        if source.format in FORMATS:
            with suppress(Unreadable):
                for placed in told(source).records:
                    record = placed.record
                    held[record.id] = (source.path, placed.line)
                    pairs += ((record.id, each.target) for each in stated_edges(record) if each.relation is _SUPERSEDES)
    circle = find_circles(pairs)
    what = f"superseded in a circle ({', '.join(circle[:_NAMED])}), so that none of them is taken to be outdated"
    hint = "`ralph graph link --remove` takes one of these edges away"
    for name in circle:
        path, line = held[name]
        yield path, Problem(line, f"{name} is {what}", hint, "warning", "circle")
