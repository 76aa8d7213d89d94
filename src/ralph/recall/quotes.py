"""Quote passages: the turns of an earlier session, in order.

A passage is rendered like this:

    - [obs-17] 2026-11-02, turns of an earlier session:
      user: Why does the login fail on Safari?
      agent: The cookie has no SameSite attribute. […]
      […]
      user: Then set it to Lax.

The turns around a match are chosen by position and form, never by the words of a particular
language. Turns near a match come first, and later ones before earlier ones. An answer is never
separated from the person's reply to it. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.render import GAP, shorten
from ralph.core.tokens import estimate
from ralph.lean import TYPE_CHECKING, record
from ralph.recall.passages import MIN_TOKENS, SPEAKERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ralph.recall.passages import Passage
    from ralph.storage.lookup import RecordRow

_SHORTENED_TOKENS = 160  # an agent's turn may be shortened to this if not everything fits
_AMENDS = ", newer than the next passage on this subject, which it amends"


@record
class Quote:
    """A rendered passage, with the id and token count of each turn in it."""

    text: str
    turns: Sequence[tuple[str, int]]


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
    return f"  {SPEAKERS[row.by]}: {text}".replace("\n", "\n    ")


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
