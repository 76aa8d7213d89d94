"""Quote the turns of an earlier session that answer a prompt, in order.

A turn is something that a person or the agent said, and a passage is a group of turns from one
session. It is rendered like this:

    - [obs-17] 2026-11-02, turns of an earlier session:
      user: Why does the login fail on Safari?
      agent: The cookie has no SameSite attribute. […]
      […]
      user: Then set it to Lax.

If several turns of a session match a prompt, the session answers it as a whole, and a person's
words count as much as the agent's. The turns around a match are chosen by position and form, never
by the words of a particular language. Turns near a match come first, and later ones before earlier
ones. An answer is never separated from the person's reply to it. A passage from a later session
amends an earlier one if it is about the same subject. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.render import GAP, shorten
from ralph.core.terms import EVERYDAY_WORDS, TermMatcher, is_cjk, query_terms
from ralph.core.tokens import estimate
from ralph.lean import TYPE_CHECKING, record
from ralph.search.question import coverage, split_words
from ralph.search.scoring import STANDARD, RankedRow
from ralph.storage import index_schema, lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from ralph.search.question import WeightedWord
    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import Filter

BUDGET_SHARE = 0.7  # of the budget, for passages
MIN_TOKENS = 120  # a shorter passage is not worth quoting

# Limits that decide which sessions are quoted.
_MIN_MATCHING_TURNS = 2
_MAX_SESSIONS = 3
_MIN_SHARE_OF_BEST = 0.6  # of the best session's score
_NEXT_TURN_WEIGHT = 0.1  # each next turn adds this share of its score to the best turn's
_NEXT_TURNS = 4  # how many next turns count

# Limits that decide whether a session's turns answer a prompt. For a short prompt, they must cover
# enough of its words.
_MIN_COVER = 0.5
_MIN_COVER_WITH_UNKNOWN_WORDS = 0.6
_MIN_TELLING_WORDS = 2  # in a single turn
# A long prompt may be answered in part, by several telling words with enough weight.
_MIN_PART_COVER = 0.25
_MIN_PART_COVER_OF_PAIRS = 0.2  # for pairs of CJK characters, some of which end in a particle
_MIN_PART_WORDS = 3
_MIN_PART_WEIGHT = 3.0
_MIN_COVER_WITH_SUBJECT = 0.15  # if the prompt names an identifier that few records have

# Limits that decide which turns of a session are quoted.
_MAX_TURNS_READ = 2_000
_REACH = 6  # turns on either side of a match
_SHORTENED_TOKENS = 160  # an agent's turn may be shortened to this if not everything fits

# A later session amends a passage if one of its turns shares enough of the rarest words in the
# passage's last answer.
_LAST_ANSWER_CHARACTERS = 1_500
_RAREST_WORDS = 12
_MIN_SHARED_RAREST_WORDS = 5
_AMENDMENT_CANDIDATES = 30
_AMENDS = ", newer than the next passage on this subject, which it amends"

_SPEAKERS = {"human": "user", "agent": "agent"}


@record
class TurnSource:
    """The index that turns are read from, and the turns that may be quoted.

    A turn must pass the filter `allowed` and the test `may_quote`.
    """

    connection: sqlite3.Connection
    allowed: Filter
    may_quote: Callable[[RecordRow], bool]


class Passage:
    """The turns of one session that are near its matches."""

    __slots__ = ("amends", "keys", "matches", "rows")

    def __init__(
        self, matches: Sequence[RankedRow], keys: Sequence[int], rows: dict[int, RecordRow]
    ) -> None:
        self.matches = {match.row.key: match for match in matches}  # best first
        self.keys = keys  # all turns of the session, in order
        self.rows = rows  # the turns that may be quoted, in order
        self.amends = False  # whether it is newer than the next passage, on the same subject

    @property
    def session(self) -> str:
        """The id of the session."""
        session: str = self.best.session
        return session

    @property
    def best(self) -> RecordRow:
        """The turn that matches best."""
        return next(iter(self.matches.values())).row

    def ranked_turns(self) -> list[RankedRow]:
        """Return the turns as ranked rows. Turns without a match are linked to the best one."""
        turns: list[RankedRow] = []
        for key, row in self.rows.items():
            turn = self.matches.get(key)
            if turn is None:
                turn = RankedRow(row)
                turn.linked_from = self.best.id
            turns.append(turn)
        return turns


@record
class Quote:
    """A rendered passage, with the id and token count of each turn in it."""

    text: str
    turns: Sequence[tuple[str, int]]


def is_speech(row: RecordRow) -> bool:
    """Return whether a record is something that a person or the agent said in a session."""
    return (
        index_schema.is_observation(row.key)
        and row.title in render.SPEECH_TITLES
        and row.by in _SPEAKERS
    )


# --- which sessions answer a prompt --------------------------------------------------------------


def answers(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> bool:
    """Return whether the records of a session, taken together, answer enough of a prompt."""
    return any(_answers_paragraph(matches, paragraph) for paragraph in split_words(words))


def _answers_paragraph(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> bool:
    telling = [word for word in words if word.word.lower() not in EVERYDAY_WORDS]
    certain = [word for word in telling if word.certain]
    most_in_one_turn = _most_in_one_turn(matches, certain)
    if most_in_one_turn < min(_MIN_TELLING_WORDS, len(telling)):
        return False
    together = _matched_together(matches)
    cover, _ = coverage(words, together)
    if cover >= _required_cover(telling, together):
        return True
    if cover >= _MIN_COVER_WITH_SUBJECT and any(match.subject for match in matches):
        return True
    if cover < _required_part(words) or most_in_one_turn < _MIN_PART_WORDS:
        return False
    weights = [word.weight for word in certain if not word.replaced and word.word in together]
    return len(weights) >= _MIN_PART_WORDS and sum(weights) >= _MIN_PART_WEIGHT


def _most_in_one_turn(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> int:
    """Return the largest number of these words that occur in a single turn.

    Words in different turns may match by chance.
    """
    most = 0
    for match in matches:
        in_turn = [word for word in words if word.word in match.matched]
        most = max(most, len(in_turn))
    return most


def _matched_together(matches: Sequence[RankedRow]) -> dict[str, float]:
    """Map each word that occurs in any of the records to its best match."""
    together: dict[str, float] = {}
    for match in matches:
        for word, share in match.matched.items():
            together[word] = max(share, together.get(word, 0.0))
    return together


def _required_cover(telling: Sequence[WeightedWord], together: dict[str, float]) -> float:
    for word in telling:
        if word.replaced and word.word not in together:
            return _MIN_COVER_WITH_UNKNOWN_WORDS
    return _MIN_COVER


def _required_part(words: Sequence[WeightedWord]) -> float:
    pairs = [word for word in words if is_cjk(word.word)]
    if 2 * len(pairs) > len(words):
        return _MIN_PART_COVER_OF_PAIRS
    return _MIN_PART_COVER


def gather(
    source: TurnSource, best: Sequence[RankedRow], words: Sequence[WeightedWord]
) -> list[Passage]:
    """Return passages from the sessions that answer a prompt, best first.

    If two are about the same subject, the newer one comes first.
    """
    sessions: dict[str, list[RankedRow]] = {}
    for ranked in best:
        if ranked.matched and is_speech(ranked.row) and source.may_quote(ranked.row):
            sessions.setdefault(ranked.row.session, []).append(ranked)
    answering = [matches for matches in sessions.values() if _is_answered(matches, words)]
    answering.sort(key=_session_score, reverse=True)
    passages: list[Passage] = []
    for matches in answering[:_MAX_SESSIONS]:
        if _session_score(matches) < _MIN_SHARE_OF_BEST * _session_score(answering[0]):
            break
        passage = _read_passage(source, matches)
        if passage.rows:
            passages.append(passage)
    return _with_amendments(source, passages)


def _session_score(matches: Sequence[RankedRow]) -> float:
    """Return the score of the best match, plus a little for each of the next ones."""
    scores = [match.score for match in matches]
    next_scores = scores[1 : 1 + _NEXT_TURNS]
    return scores[0] + _NEXT_TURN_WEIGHT * sum(next_scores)


def _is_answered(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> bool:
    """Return whether several turns of a session, including an answer, cover enough of a prompt."""
    if len(matches) < _MIN_MATCHING_TURNS:
        return False
    return _has_answer(matches) and answers(matches, words)


def _read_passage(source: TurnSource, matches: Sequence[RankedRow]) -> Passage:
    """Read the turns near the matches, which are from one session."""
    connection = source.connection
    session = matches[0].row.session
    matching_keys = {match.row.key for match in matches}
    keys = lookup.keys_with_titles(connection, session, render.SPEECH_TITLES, _MAX_TURNS_READ)
    near: set[int] = set()
    for position, key in enumerate(keys):
        if key in matching_keys:
            near.update(keys[max(0, position - _REACH) : position + _REACH + 1])
    ordered = [key for key in keys if key in near]
    allowed = lookup.filter_keys(connection, ordered, source.allowed)
    rows = lookup.fetch_rows(connection, [key for key in ordered if key in allowed])
    quotable: dict[int, RecordRow] = {}
    for key in ordered:
        row = rows.get(key)
        if row is not None and source.may_quote(row):
            quotable[key] = row
    return Passage(matches, keys, quotable)


# --- amendments by later sessions ----------------------------------------------------------------


def _with_amendments(source: TurnSource, passages: Sequence[Passage]) -> list[Passage]:
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
                newer = _read_passage(source, turns)
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
    answered = [turns for turns in sessions.values() if _has_answer(turns)]
    return max(answered, key=lambda turns: turns[0].row.created_at, default=())


def _has_answer(turns: Sequence[RankedRow]) -> bool:
    """Return whether one of the turns is by the agent. A question alone is not an answer."""
    return any(turn.row.by == "agent" for turn in turns)


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


# --- quoting -------------------------------------------------------------------------------------


def quote_all(passages: Sequence[Passage], budget: int, session: str = "") -> list[Quote]:
    """Render the passages that fit into a budget of tokens.

    `session` is the session into which they are injected.
    """
    quotes: list[Quote] = []
    for passage in passages:
        if budget < MIN_TOKENS:
            break
        quote = _quote(passage, budget, session)
        if quote is not None:
            budget -= estimate(quote.text) + 1
            quotes.append(quote)
    return quotes


def _quote(passage: Passage, budget: int, session: str) -> Quote | None:
    """Render a passage as one block within a budget, or return None if no match fits."""
    head = _head(passage, session)
    room = budget - estimate(head) - 1
    texts = _turn_texts(passage, room)
    chosen: set[int] = set()
    for unit in _units(passage):
        cost = sum(estimate(texts[key]) + 2 for key in unit)
        if cost <= room:
            chosen.update(unit)
            room -= cost
    if chosen.isdisjoint(passage.matches):
        return None
    lines = [head]
    turns: list[tuple[str, int]] = []
    previous = None  # the position of the turn that was added last
    for position, key in enumerate(passage.keys):
        if key not in chosen:
            continue
        if previous is not None and previous < position - 1:
            lines.append(f"  {GAP}")
        lines.append(texts[key])
        turns.append((passage.rows[key].id, estimate(texts[key])))
        previous = position
    return Quote("\n".join(lines), turns)


def _head(passage: Passage, session: str) -> str:
    record_id = render.one_line(passage.best.id)
    day = max(row.created_at for row in passage.rows.values())[:10]
    where = "an earlier session"
    if passage.session == session:
        where = "this session before its compaction"
    amendment = ""
    if passage.amends:
        amendment = _AMENDS
    return f"- [{record_id}] {day}, turns of {where}{amendment}:"


def _turn_texts(passage: Passage, room: int) -> dict[int, str]:
    """Render the turns of a passage. If they do not all fit, shorten the agent's turns."""
    texts = {key: _turn_text(row) for key, row in passage.rows.items()}
    if sum(estimate(text) + 1 for text in texts.values()) <= room:
        return texts
    for key, row in passage.rows.items():
        if row.by != "human":
            texts[key] = shorten(texts[key], _SHORTENED_TOKENS, estimate)
    return texts


def _turn_text(row: RecordRow) -> str:
    """Render a turn with its speaker, indented below the head."""
    text = render.short_tracebacks(render.clean(row.text).strip("\n").rstrip())
    return f"  {_SPEAKERS[row.by]}: {text}".replace("\n", "\n    ")


def _units(passage: Passage) -> list[list[int]]:
    """Group the turns of a passage into units that are quoted together, most important first.

    A unit is a turn, or an answer together with the person's reply to it. Units with a match come
    first, then those closest to one. Ties are decided by score, then in favor of later units.
    """
    units = _join_replies(passage)
    matching = [
        number for number, unit in enumerate(units) if not passage.matches.keys().isdisjoint(unit)
    ]

    def importance(number: int) -> tuple[int, float, int]:
        distance = min(abs(number - other) for other in matching)
        matches = [passage.matches[key] for key in units[number] if key in passage.matches]
        score = max((match.score for match in matches), default=0.0)
        return distance, -score, -number

    return [units[number] for number in sorted(range(len(units)), key=importance)]


def _join_replies(passage: Passage) -> list[list[int]]:
    """Return the turns in order, with each answer joined to the reply that directly follows it."""
    units: list[list[int]] = []
    previous = None  # the turn before this one in the session, if it is quotable
    for key in passage.keys:
        row = passage.rows.get(key)
        if row is None:
            previous = None
            continue
        if row.by == "human" and previous is not None and previous.by == "agent":
            units[-1].append(key)
        else:
            units.append([key])
        previous = row
    return units
