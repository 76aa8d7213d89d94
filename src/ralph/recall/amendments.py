"""Find later sessions that amend what an earlier one decided.

A passage from a later session amends an earlier one if it is about the same subject. Shared rare
words decide, never the words of a particular language. Hooks load this module.
"""

from __future__ import annotations

from ralph.core.terms import EVERYDAY_WORDS, TermMatcher, query_terms
from ralph.lean import TYPE_CHECKING
from ralph.recall.passages import has_answer, is_speech, read_passage
from ralph.search.scoring import STANDARD, RankedRow
from ralph.storage import lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ralph.recall.passages import Passage, TurnSource

# A later session amends a passage if one of its turns shares enough of the rarest words in the
# passage's last answer.
_LAST_ANSWER_CHARACTERS = 1_500
_RAREST_WORDS = 12
_MIN_SHARED_RAREST_WORDS = 5
_AMENDMENT_CANDIDATES = 30


def with_amendments(source: TurnSource, passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages, each after the newest later passage that amends it."""
    by_session = {passage.session: passage for passage in passages}
    ordered: list[Passage] = []
    for passage in passages:
        if passage in ordered:
            continue
        turns = _newest_later_turns(source, passage)
        newer = None
        if turns:
            session = turns[0].row.session
            newer = by_session.get(session)
            if newer is None and session:  # turns without a session cannot be read
                newer = read_passage(source, turns)
                by_session[session] = newer
        if newer is not None and newer.rows:
            if newer not in ordered:
                ordered.append(newer)
            if ordered[-1] is newer:
                newer.amends = True
        ordered.append(passage)
    return ordered


def _newest_later_turns(source: TurnSource, passage: Passage) -> Sequence[RankedRow]:
    """Return turns of the newest later session that returned to a passage's subject, if any."""
    rarest = _rarest_terms(source.connection, passage)
    if len(rarest) < _MIN_SHARED_RAREST_WORDS:
        return ()
    last_turn_at = max(row.created_at for row in passage.rows.values())
    sessions: dict[str, list[RankedRow]] = {}
    for ranked in _rank_terms(source, rarest):
        row = ranked.row
        is_later = row.session != passage.session and row.created_at > last_turn_at
        if not (is_later and is_speech(row) and source.may_quote(row)):
            continue
        text = TermMatcher(row.text)
        shared = [term for term in rarest if text.contains(term)]
        if len(shared) >= _MIN_SHARED_RAREST_WORDS:
            sessions.setdefault(row.session, []).append(ranked)
    answered = [turns for turns in sessions.values() if has_answer(turns)]
    return max(answered, key=lambda turns: turns[0].row.created_at, default=())


def _rarest_terms(connection: sqlite3.Connection, passage: Passage) -> list[str]:
    """Return the rarest terms in a passage's last answer that also occur in other records."""
    last_answer = ""
    for row in passage.rows.values():
        if row.by == "agent":
            last_answer = row.text
    terms: dict[str, None] = {}
    for word in query_terms(last_answer[:_LAST_ANSWER_CHARACTERS]):
        if word.text.lower() not in EVERYDAY_WORDS:
            terms[word.terms[0]] = None
    counts = lookup.frequencies(connection, list(terms))
    shared = [term for term, count in counts.items() if count > 1]
    shared.sort(key=lambda term: counts[term])
    return shared[:_RAREST_WORDS]


def _rank_terms(source: TurnSource, terms: Sequence[str]) -> list[RankedRow]:
    match = " OR ".join(f'"{term}"' for term in terms)
    found = lookup.best_matches(
        source.connection, match, STANDARD.field_weights, _AMENDMENT_CANDIDATES
    )
    keys = [key for key, _ in found]
    rows = lookup.fetch_rows(
        source.connection,
        list(lookup.filter_keys(source.connection, keys, source.allowed)),
    )
    return [RankedRow(rows[key], score) for key, score in found if key in rows]
