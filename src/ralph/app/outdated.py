"""What no longer holds by what the records themselves say: another one supersedes it, or its last day is over.

Nothing is superseded for being similar to something newer; somebody must have stated it. Such a record is handed to
no agent unasked; who searches finds it, marked and behind what took its place. Records that supersede each other in a
circle all hold: nobody can tell which was meant, and `ralph doctor` tells it. `tests/app/test_outdated.py`.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ralph.model import ids
from ralph.model.query import Hit
from ralph.model.record import Family, Record
from ralph.store import lookup, rows

SHARE = 0.5
"""What a hit's score is worth that no longer holds."""
_BEHIND = 0.99


def notes(connection: sqlite3.Connection, records: Sequence[Record]) -> Mapping[str, str]:
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


def ranked(hits: Sequence[Hit], told: Mapping[str, str]) -> tuple[Hit, ...]:
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


def circles(connection: sqlite3.Connection) -> list[str]:
    """The ids of records that supersede each other in a circle."""
    said = connection.execute(lookup.SUPERSEDING)
    pairs = [(name, target) if how == "supersedes" else (target, name) for name, how, target in said]
    there = {old for _, old in pairs if rows.key_of(connection, old) is not None}
    return sorted(there - set(lookup.replaced(pairs)))
