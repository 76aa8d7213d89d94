"""Find the sessions that amended a decision, or that made the decision in the first place.

Two sessions are about the same decision if what was said in them shares enough rare words, and more
than with any other session. The newest of them has the rule that holds, and the older ones have
what it did not change. Shared words decide, never the words of a particular language. Hooks load
this module.
"""

from __future__ import annotations

import math

from ralph.lean import TYPE_CHECKING
from ralph.recall.passages import is_speech, read_passage
from ralph.recall.recaps import telling_terms
from ralph.search import background
from ralph.search.scoring import SEARCH, RankedRow
from ralph.storage import lookup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ralph.recall.passages import Passage, TurnSource

_MAX_SESSIONS = 3  # that are about the same decision
_MAX_SEARCHED_TERMS = 24  # the weightiest ones of a passage
_MAX_MATCHING_TURNS = 60  # that have some of them
_MAX_SESSIONS_READ = 5  # those that have most of them

# The kinship of two passages is the cosine of the angle between their terms, which are weighted by
# how rare and how unusual they are. In the delivery benchmark, a decision and its amendment have
# 0.11 to 0.37, and other sessions at most 0.22. A related session therefore also has a margin to
# the next one. If its kinship is low, it must be likely related to the prompt, and no session may
# be closer to it.
_MIN_KINSHIP = 0.2
_MIN_KINSHIP_OF_LIKELY = 0.11
_MIN_MARGIN = 1.35


def with_amendments(
    source: TurnSource, passages: Sequence[Passage], likely: Collection[str]
) -> list[Passage]:
    """Return the passages, with those about the same decision next to each other, newest first.

    `likely` has the ids of the sessions that likely relate to the prompt.
    """
    by_session = {passage.session: passage for passage in passages}
    comparison = _Comparison(source)
    ordered: list[Passage] = []
    for passage in passages:
        if passage in ordered:
            continue
        group = [passage]
        for related in comparison.related(passage, likely):
            related = by_session.setdefault(related.session, related)
            if related not in ordered:
                group.append(related)
        group.sort(key=_last_turn_at, reverse=True)
        for newer in group[:-1]:
            newer.amends = True
        ordered += group
    return ordered


def _last_turn_at(passage: Passage) -> str:
    return max(row.created_at for row in passage.rows.values())


class _Comparison:
    """Compares passages by the terms that they have in common."""

    def __init__(self, source: TurnSource) -> None:
        self._source = source
        self._weights = _TermWeights(source)
        self._terms_of_turns: dict[int, set[str]] = {}

    def related(self, passage: Passage, likely: Collection[str]) -> list[Passage]:
        """Return the passages of other sessions that are about the same decision, closest first."""
        closest = self._closest(passage)
        count = 0
        for position, (kinship, other) in enumerate(closest[: _MAX_SESSIONS - 1]):
            is_likely = other.session in likely and kinship >= _MIN_KINSHIP_OF_LIKELY
            if kinship < _MIN_KINSHIP and not is_likely:
                break
            next_kinship = 0.0
            if position + 1 < len(closest):
                next_kinship = closest[position + 1][0]
            if kinship < _MIN_MARGIN * next_kinship:
                continue
            if kinship < _MIN_KINSHIP and not self._is_closest(passage, other):
                break
            count = position + 1
        return [other for _, other in closest[:count]]

    def _is_closest(self, passage: Passage, other: Passage) -> bool:
        """Return whether no session is closer to the other passage than this one."""
        closest = self._closest(other)
        return bool(closest) and closest[0][1].session == passage.session

    def _closest(self, passage: Passage) -> list[tuple[float, Passage]]:
        """Return the passages of other sessions with their kinship, closest first."""
        terms = self._terms(passage)
        said = {row.text for row in passage.rows.values()}
        compared: list[tuple[float, Passage]] = []
        searched = self._weights.weightiest(terms)
        for turns in _find_sessions(self._source, passage.session, searched):
            other = read_passage(self._source, turns)
            new = [row for row in other.rows.values() if row.text not in said]
            if any(row.by == "agent" for row in new):  # else it answers nothing, or the same
                compared.append((self._weights.kinship(terms, self._terms(other)), other))
        compared.sort(key=lambda pair: pair[0], reverse=True)
        return compared

    def _terms(self, passage: Passage) -> set[str]:
        terms: set[str] = set()
        for key, row in passage.rows.items():
            if key not in self._terms_of_turns:
                self._terms_of_turns[key] = telling_terms(row.text)
            terms |= self._terms_of_turns[key]
        return terms


class _TermWeights:
    """Knows how much terms say: 1 if one record has an unusual term, less the more do."""

    def __init__(self, source: TurnSource) -> None:
        self._connection = source.connection
        self._counts: dict[str, int] = {}
        self._size = max(lookup.size(source.connection), 2)

    def weightiest(self, terms: set[str]) -> list[str]:
        """Return the terms that say most, of those that more than one record has."""
        self._count(terms)
        shared = [term for term in terms if self._counts[term] > 1]
        shared.sort(key=lambda term: (-self._weight(term), term))
        return shared[:_MAX_SEARCHED_TERMS]

    def kinship(self, terms: set[str], others: set[str]) -> float:
        """Return how much two passages have in common, from 0 to 1."""
        self._count(others)
        sizes = self._sum(terms) * self._sum(others)
        if not sizes:
            return 0.0
        return self._sum(terms & others) / math.sqrt(sizes)

    def _count(self, terms: Iterable[str]) -> None:
        new = [term for term in terms if term not in self._counts]
        self._counts.update(dict.fromkeys(new, 1))
        self._counts.update(lookup.frequencies(self._connection, new))

    def _sum(self, terms: Iterable[str]) -> float:
        return sum(map(self._weight, terms))

    def _weight(self, term: str) -> float:
        rarity = math.log(1 + self._size / (self._counts[term] + 0.5))
        return background.information(term) * rarity / math.log(1 + self._size / 1.5)


def _find_sessions(source: TurnSource, session: str, terms: Sequence[str]) -> list[list[RankedRow]]:
    """Return the turns of other sessions that match some of these terms, best session first."""
    if not terms:
        return []
    match = " OR ".join(f'"{term}"' for term in terms)
    found = lookup.best_matches(
        source.connection, match, SEARCH.weights.fields, _MAX_MATCHING_TURNS
    )
    keys = [key for key, _ in found]
    allowed = lookup.filter_keys(source.connection, keys, source.allowed)
    rows = lookup.fetch_rows(source.connection, list(allowed))
    sessions: dict[str, list[RankedRow]] = {}
    for key, score in found:
        row = rows.get(key)
        if row is None or not row.session or row.session == session:
            continue
        if is_speech(row) and source.may_quote(row):
            sessions.setdefault(row.session, []).append(RankedRow(row, score))
    best_first = sorted(
        sessions.values(), key=lambda turns: sum(turn.score for turn in turns), reverse=True
    )
    return best_first[:_MAX_SESSIONS_READ]
