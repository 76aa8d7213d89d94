"""Point out superseded and expired records in search results, and rank them lower.

A record is superseded if another one has a `supersedes` link to it, and expired if its
`valid_until` day has passed. Records that supersede each other in a cycle all count as valid.
Records with stale citations are handled in `stale_citations`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

from ralph.core import ids
from ralph.core.record import Family, Hit, Record
from ralph.storage import supersession

_OUTDATED_FACTOR = 0.5  # applied to an outdated hit's score
_SUCCESSOR_FACTOR = 0.99  # an outdated hit scores at most this share of its successor's score


def describe_outdated(
    connection: sqlite3.Connection, records: Sequence[Record]
) -> Mapping[str, str]:
    """Return a note for each memory that is superseded or expired, by id."""
    memories = [record for record in records if record.family is Family.MEMORY]
    if not memories:
        return {}
    successors = supersession.superseded(connection)
    today = ids.today()
    notes = {}
    for record in memories:
        if "" < record.valid_until < today:
            notes[record.id] = f"expired {record.valid_until}"
    for record in memories:
        if record.id in successors:
            notes[record.id] = f"superseded by {successors[record.id]}"
    return notes


def demote_outdated(hits: Sequence[Hit], notes: Mapping[str, str]) -> tuple[Hit, ...]:
    """Rank expired hits lower, and place superseded ones directly after their successor.

    The note is added to their `why`. A hit that was requested by its id keeps its rank.
    """
    scores = {hit.record.id: hit.score for hit in hits}
    predecessors = {_successor_in(note): name for name, note in notes.items()}
    ranked: list[Hit] = []
    followers: dict[str, list[Hit]] = {}  # superseded hits, by their successor's id
    for hit in hits:
        note = notes.get(hit.record.id, "")
        predecessor = predecessors.get(hit.record.id, "")
        if hit.why == ("id",):
            ranked.append(hit)
        elif note:
            successor = _successor_in(note)
            demoted = _demote(hit, note, scores.get(successor, hit.score))
            if successor in scores:
                followers.setdefault(successor, []).append(demoted)
            else:
                ranked.append(demoted)
        elif predecessor in scores:
            why = [reason for reason in hit.why if not reason.startswith("amends: ")]
            ranked.append(hit._replace(why=(*why, f"amends: {predecessor}")))
        else:
            ranked.append(hit)
    return _place_followers(ranked, followers)


def _successor_in(note: str) -> str:
    """Return the last word of a note: the successor's id, or the day on which a record expired."""
    return note.rpartition(" ")[2]


def _demote(hit: Hit, note: str, successor_score: float) -> Hit:
    score = min(hit.score * _OUTDATED_FACTOR, successor_score * _SUCCESSOR_FACTOR)
    return hit._replace(score=round(score, 4), why=(*hit.why, note))


def _place_followers(hits: Iterable[Hit], followers: dict[str, list[Hit]]) -> tuple[Hit, ...]:
    """Sort hits by score, with superseded hits directly after the hit that supersedes them."""
    ordered = []
    pending = sorted(hits, key=lambda hit: -hit.score)
    pending.reverse()  # the next hit is the last
    while pending:
        hit = pending.pop()
        ordered.append(hit)
        pending += reversed(followers.pop(hit.record.id, []))
    return tuple(ordered)
