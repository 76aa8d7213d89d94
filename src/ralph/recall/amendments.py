"""Find the sessions that amended a decision, or that made the decision in the first place.

Two sessions are about the same decision if their answers share enough rare words. The newest of
them has the rule that holds, and the older ones have what it did not change. Shared words decide,
never the words of a particular language. Hooks load this module.
"""

from __future__ import annotations

import math

from ralph.lean import TYPE_CHECKING
from ralph.recall.passages import is_speech, read_passage
from ralph.recall.recaps import find_recap, telling_terms
from ralph.search.scoring import SEARCH, RankedRow
from ralph.storage import lookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.recall.passages import Passage, TurnSource

_MAX_SESSIONS = 3  # that are about the same decision
_MAX_SEARCHED_TERMS = 24  # the rarest ones of a recap
_MAX_CANDIDATES = 40  # turns that share some of them
_MIN_SHARED_TERMS = 4

# The summed rarity of the shared terms, multiplied by their share of the shorter turn. In the
# delivery benchmark, amendments have at least 1.5, and other later sessions at most 1.0.
_MIN_KINSHIP = 1.25


def with_amendments(source: TurnSource, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages, with those about the same decision next to each other, newest first."""
    by_session = {passage.session: passage for passage in passages}
    ordered: list[Passage] = []
    for passage in passages:
        if passage in ordered:
            continue
        group = [passage]
        for turns in _related_turns(source, passage):
            session = turns[0].row.session
            related = by_session.get(session)
            if related is None:
                related = read_passage(source, turns)
                by_session[session] = related
            if related.rows and related not in ordered:
                group.append(related)
        group.sort(key=_last_turn_at, reverse=True)
        for newer in group[:-1]:
            newer.amends = True
        ordered += group
    return ordered


def _last_turn_at(passage: Passage) -> str:
    return max(row.created_at for row in passage.rows.values())


def _related_turns(source: TurnSource, passage: Passage) -> list[list[RankedRow]]:
    """Return turns of other sessions about the same decision, by session, newest session first."""
    recap = find_recap(passage.rows.values())
    if recap is None:
        return []
    decided = telling_terms(recap.text)
    rarity = _Rarity(source, decided)
    sessions: dict[str, list[RankedRow]] = {}
    for ranked in _find_candidates(source, rarity.rarest(decided)):
        row = ranked.row
        is_other_answer = row.session != passage.session and row.by == "agent"
        if not (row.session and is_other_answer and is_speech(row) and source.may_quote(row)):
            continue
        if rarity.kinship(decided, telling_terms(row.text)) >= _MIN_KINSHIP:
            sessions.setdefault(row.session, []).append(ranked)
    newest_first = sorted(
        sessions.values(), key=lambda turns: turns[0].row.created_at, reverse=True
    )
    return newest_first[: _MAX_SESSIONS - 1]


class _Rarity:
    """Knows how rare terms are in the index: 1 if one record has a term, less the more do."""

    def __init__(self, source: TurnSource, terms: set[str]) -> None:
        self._connection = source.connection
        self._counts = lookup.frequencies(source.connection, list(terms))
        self._size = max(lookup.size(source.connection), 2)

    def rarest(self, terms: set[str]) -> list[str]:
        """Return the rarest of these terms that more than one record has."""
        shared = [term for term in terms if self._counts.get(term, 0) > 1]
        shared.sort(key=lambda term: (self._counts[term], term))
        return shared[:_MAX_SEARCHED_TERMS]

    def kinship(self, decided: set[str], other: set[str]) -> float:
        """Return how much the terms of two turns have in common."""
        shared = decided & other
        if len(shared) < _MIN_SHARED_TERMS:
            return 0.0
        new = [term for term in other if term not in self._counts]
        self._counts.update(lookup.frequencies(self._connection, new))
        weight = self._sum(shared)
        return weight * weight / min(self._sum(decided), self._sum(other))

    def _sum(self, terms: set[str]) -> float:
        most = math.log(1 + self._size / 1.5)
        logarithms = [
            math.log(1 + self._size / (self._counts.get(term, 1) + 0.5)) for term in terms
        ]
        return sum(logarithms) / most


def _find_candidates(source: TurnSource, terms: Sequence[str]) -> list[RankedRow]:
    """Return the turns that match some of these terms, best first."""
    if len(terms) < _MIN_SHARED_TERMS:
        return []
    match = " OR ".join(f'"{term}"' for term in terms)
    found = lookup.best_matches(source.connection, match, SEARCH.weights.fields, _MAX_CANDIDATES)
    keys = [key for key, _ in found]
    allowed = lookup.filter_keys(source.connection, keys, source.allowed)
    rows = lookup.fetch_rows(source.connection, list(allowed))
    return [RankedRow(rows[key], score) for key, score in found if key in rows]
