"""Passages: the turns of an earlier session that a decision needs, quoted in their order.

Where several turns of a session match a prompt, the session answers it as a whole, and a person's words count as much
as the agent's. What comes along is chosen by position and form, never by words of a language: turns near a match
first, later ones before earlier ones. An answer is never cut from what the person said to it. Hooks load this module.
"""

from __future__ import annotations

from ralph.context import render
from ralph.context.tokens import estimate
from ralph.lean import TYPE_CHECKING
from ralph.search.question import GAP, coverage, shorten, split_words
from ralph.search.rank import STANDARD, RankedRow
from ralph.search.terms import EVERYDAY_WORDS, TermMatcher, is_cjk, query_terms
from ralph.store import lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator, Sequence

    from ralph.search.question import WeightedWord
    from ralph.store.lookup import Filter, RecordRow

SHARE = 0.7  # of the budget that passages may fill
LEAST = 120  # tokens that are too few for a passage
_GATHERED = 2  # turns of a session that match, at least
_MOST = 3  # sessions
_NEAR_BEST = 0.6  # of the best session's score
# a session's score is its best turn's and a tenth of the next four
_NEXT = 0.1
_COUNTED = 4
# so much of a short prompt (with an unknown word, more), so many telling words,
_COVER = 0.5
_UNKNOWN = 0.6
_FEW = 2
# a long one by a part, with so many telling words of so much weight
_PART = 0.25
_MANY = 3
_EVIDENCE = 3.0
_PART_OF_PAIRS = 0.2  # or by a smaller part where words are pairs of CJK characters, some of which end in a particle
_NAMED = 0.15  # or by less where it names an identifier that few records have
_TURNS = 2_000  # of a session that are looked at
_REACH = 6  # turns on either side of a match
_LONG = 160  # tokens of an agent's turn that may be shortened where not all fits
_SETTLED = 1_500  # characters of a session's last answer,
# of whose rarest words a turn of a later session on the same subject has so many
_RARE = 12
_RARE_SHARED = 5
_CANDIDATES = 30
_AMENDS = ", newer than the next passage on this subject, which it amends"
_SPEAKERS = {"human": "user", "agent": "agent"}


class Passage:
    """Turns of one session in their order, the matches among them by key, and the session's score."""

    __slots__ = ("amends", "keys", "matches", "rows", "score", "session")

    def __init__(self, matches: Sequence[RankedRow]) -> None:
        self.matches = {each.row.key: each for each in matches}
        scores = [each.score for each in matches]
        self.session: str = matches[0].row.session
        self.score = scores[0] + _NEXT * sum(scores[1 : 1 + _COUNTED])
        self.amends = False  # it is newer than the next passage, on the same subject
        self.keys: list[int] = []  # all turns of the session near a match
        self.rows: dict[int, RecordRow] = {}

    def judged(self) -> list[RankedRow]:
        """Return its turns as rows of a ranking; those that do not match are linked to the best that does."""
        best = next(iter(self.matches.values()))
        for key, row in self.rows.items():
            if key not in self.matches:
                self.matches[key] = RankedRow(row)
                self.matches[key].link = best.row.id
        return [self.matches[key] for key in self.rows]


def is_speech(row: RecordRow) -> bool:
    """Whether a record is what a person or the agent said in a session."""
    return (
        row.key % len(lookup.TABLES) == 1
        and row.title in render.SPEECH_TITLES
        and row.by in _SPEAKERS
    )


def answers(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> bool:
    """Whether records of a session, taken together, have enough of a prompt to be injected unasked."""
    return any(_answers_paragraph(matches, paragraph) for paragraph in split_words(words))


def _answers_paragraph(matches: Sequence[RankedRow], words: Sequence[WeightedWord]) -> bool:
    telling = [word for word in words if word.word.lower() not in EVERYDAY_WORDS]
    together: dict[str, float] = {}
    most = 0  # telling words in one turn: words that are scattered over many are chance
    for each in matches:
        most = max(most, sum(1 for word in telling if word.certain and word.word in each.matched))
        for name, share in each.matched.items():
            together[name] = max(share, together.get(name, 0.0))
    cover, _ = coverage(words, together)
    if most < min(_FEW, len(telling)):
        return False
    is_known = all(not word.replaced or word.word in together for word in telling)
    if cover >= (_COVER if is_known else _UNKNOWN) or (
        cover >= _NAMED and any(each.subject for each in matches)
    ):
        return True
    certain = [
        word.weight
        for word in telling
        if word.certain and not word.replaced and word.word in together
    ]
    pairs = sum(1 for word in words if is_cjk(word.word))
    part = _PART_OF_PAIRS if 2 * pairs > len(words) else _PART
    return cover >= part and sum(certain) >= _EVIDENCE and len(certain) >= _MANY and most >= _MANY


def gather(
    connection: sqlite3.Connection,
    best: Sequence[RankedRow],
    words: Sequence[WeightedWord],
    keep: Filter,
    may_quote: Callable[[RecordRow], bool],
) -> list[Passage]:
    """Return the sessions in which matches gather, best first; of those on one subject, the newer one first."""
    sessions: dict[str, list[RankedRow]] = {}
    for each in best:
        if each.matched and is_speech(each.row) and may_quote(each.row):
            sessions.setdefault(each.row.session, []).append(each)
    passages = [
        Passage(matches)
        for matches in sessions.values()
        if len(matches) >= _GATHERED
        and any(each.row.by == "agent" for each in matches)  # a question alone is no answer
        and answers(matches, words)
    ]
    passages.sort(key=lambda passage: -passage.score)
    passages = [each for each in passages if each.score >= _NEAR_BEST * passages[0].score][:_MOST]
    for passage in passages:
        _read_turns(connection, passage, keep, may_quote)
    return _with_amendments(connection, [each for each in passages if each.rows], keep, may_quote)


def _read_turns(
    connection: sqlite3.Connection,
    passage: Passage,
    keep: Filter,
    may_quote: Callable[[RecordRow], bool],
) -> None:
    """Read the turns of a passage's session that are near a match."""
    passage.keys = lookup.speech(connection, passage.session, render.SPEECH_TITLES, _TURNS)
    places = [at for at, key in enumerate(passage.keys) if key in passage.matches]
    near = [
        key
        for at, key in enumerate(passage.keys)
        if any(abs(at - place) <= _REACH for place in places)
    ]
    allowed = lookup.filter_keys(connection, near, keep)
    rows = lookup.fetch_rows(connection, [key for key in near if key in allowed])
    passage.rows = {
        key: row for key in near if (row := rows.get(key)) is not None and may_quote(row)
    }


def _later_turns(
    connection: sqlite3.Connection,
    passage: Passage,
    keep: Filter,
    may_quote: Callable[[RecordRow], bool],
) -> dict[str, list[RankedRow]]:
    """Return turns of later sessions with an answer and enough of the rarest words of this one's last, by session."""
    last = [row.text for row in passage.rows.values() if row.by == "agent"][-1:]
    words = [
        word
        for word in query_terms("".join(last)[:_SETTLED])
        if word.text.lower() not in EVERYDAY_WORDS
    ]
    counts = lookup.frequencies(connection, list(dict.fromkeys(word.terms[0] for word in words)))
    rarest = [term for term in sorted(counts, key=lambda term: counts[term]) if counts[term] > 1][
        :_RARE
    ]
    if len(rarest) < _RARE_SHARED:
        return {}
    until = max(row.created_at for row in passage.rows.values())
    match = " OR ".join(f'"{term}"' for term in rarest)
    scores = dict(lookup.matching(connection, match, STANDARD.fields, _CANDIDATES))
    rows = lookup.fetch_rows(connection, list(lookup.filter_keys(connection, list(scores), keep)))
    sessions: dict[str, list[RankedRow]] = {}
    for row in (rows[key] for key in scores if key in rows):
        if (
            is_speech(row)
            and row.session != passage.session
            and row.created_at > until
            and may_quote(row)
        ):
            text = TermMatcher(row.text)
            if sum(1 for term in rarest if text.contains(term)) >= _RARE_SHARED:
                sessions.setdefault(row.session, []).append(RankedRow(row, scores[row.key]))
    return {
        name: turns
        for name, turns in sessions.items()
        if any(turn.row.by == "agent" for turn in turns)
    }


def _with_amendments(
    connection: sqlite3.Connection,
    passages: Sequence[Passage],
    keep: Filter,
    may_quote: Callable[[RecordRow], bool],
) -> list[Passage]:
    """Return the passages, each after the newest later session that settled the same subject anew."""
    by_session = {passage.session: passage for passage in passages}
    ordered: list[Passage] = []
    for passage in passages:
        if passage in ordered:
            continue
        later = _later_turns(connection, passage, keep, may_quote)
        session = max(later, key=lambda name: later[name][0].row.created_at, default="")
        newer = by_session.get(session)
        if session and newer is None:
            newer = by_session[session] = Passage(later[session])
            _read_turns(connection, newer, keep, may_quote)
        if newer is not None and newer.rows:
            if newer not in ordered:
                ordered.append(newer)
            newer.amends = newer.amends or ordered[-1] is newer
        ordered.append(passage)
    return ordered


def quote_all(
    passages: Sequence[Passage], budget: int, session: str = ""
) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return passages within a budget (for a session), each with the ids of its turns and what they cost."""
    quoted = []
    for passage in passages:
        block, turns = quote(passage, budget, session) if budget >= LEAST else ("", [])
        if block:
            budget -= estimate(block) + 1
            quoted.append((block, turns))
    return quoted


def quote(passage: Passage, budget: int, session: str = "") -> tuple[str, list[tuple[str, int]]]:
    """Return a passage as one block within a budget, and its turns with what each costs; "" where too little fits."""
    first = next(iter(passage.matches.values())).row
    day = max(row.created_at for row in passage.rows.values())[:10]
    where = (
        "this session before its compaction" if passage.session == session else "an earlier session"
    )
    head = f"- [{render.one_line(first.id)}] {day}, turns of {where}{_AMENDS if passage.amends else ''}:"
    room = budget - estimate(head) - 1
    texts = {key: _turn(row) for key, row in passage.rows.items()}
    if sum(estimate(text) + 1 for text in texts.values()) > room:
        texts = {
            key: text if passage.rows[key].by == "human" else shorten(text, _LONG, estimate)
            for key, text in texts.items()
        }
    chosen: set[int] = set()
    for unit in _units(passage):
        new = [key for key in unit if key not in chosen]
        cost = sum(estimate(texts[key]) + 2 for key in new)
        if cost <= room:
            chosen.update(new)
            room -= cost
    if chosen.isdisjoint(passage.matches):
        return "", []
    lines = [head]
    before = -1
    for at, key in enumerate(passage.keys):
        if key in chosen:
            if 0 <= before < at - 1:
                lines.append(f"  {GAP}")
            lines.append(texts[key])
            before = at
    return "\n".join(lines), [
        (passage.rows[key].id, estimate(texts[key])) for key in passage.keys if key in chosen
    ]


def _units(passage: Passage) -> Iterator[Sequence[int]]:
    """Yield turns that are not cut apart, an answer with what was said to it: matches, then the nearest to one."""
    units: list[list[int]] = []
    for at, key in enumerate(passage.keys):
        row = passage.rows.get(key)
        if row is None:
            continue
        follows = bool(units) and at > 0 and passage.keys[at - 1] == units[-1][-1]
        if row.by == "human" and follows and passage.rows[units[-1][-1]].by == "agent":
            units[-1].append(key)
        else:
            units.append([key])
    scores = [
        max((match.score for key in unit if (match := passage.matches.get(key))), default=0.0)
        for unit in units
    ]
    matching = [
        number for number, unit in enumerate(units) if not passage.matches.keys().isdisjoint(unit)
    ]
    distances = [min(abs(number - other) for other in matching) for number in range(len(units))]
    order = sorted(
        range(len(units)), key=lambda number: (distances[number], -scores[number], -number)
    )
    yield from (units[number] for number in order)


def _turn(row: RecordRow) -> str:
    """Return a turn with its speaker, indented below the head."""
    text = render.short_tracebacks(render.clean(row.text).strip("\n").rstrip())
    return f"  {_SPEAKERS[row.by]}: {text}".replace("\n", "\n    ")
