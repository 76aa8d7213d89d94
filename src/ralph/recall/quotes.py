"""Quote passages: the turns of an earlier session that carry its decision, in order.

A passage is rendered like this:

    - [obs-17] 2026-11-02, turns of an earlier session:
      user: Why does the login fail on Safari?
      […]
      agent: The cookie has no SameSite attribute. Shall I set it to Strict?
      user: Lax. The payment page needs it.
      agent: The session cookie is now SameSite=Lax.

The recap comes first (`recaps.py`), and then the turns that it restates or that match the prompt.
Position, form and shared words decide, never the words of a particular language. An answer is never
separated from the person's reply to it. If not everything fits, answers are shortened: their code
goes first, and the question at their end stays. Hooks load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.render import GAP, cut, shorten
from ralph.core.tokens import estimate
from ralph.lean import TYPE_CHECKING, record
from ralph.recall.passages import MIN_TOKENS, SPEAKERS
from ralph.recall.recaps import find_recap, is_complete, recurring_terms, telling_terms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralph.recall.passages import Passage
    from ralph.storage.lookup import RecordRow

# For all passages of a prompt. The second limit applies if the best one has no complete recap.
_MAX_TOKENS = 640
_MAX_TOKENS_WITHOUT_RECAP = 960

# If not everything fits, an agent's turn is shortened to this many tokens.
_SHORT_ANSWER_TOKENS = 50
_SHORT_RECAP_TOKENS = 260

_NEWEST_SHARE = 0.65  # of the room, for a passage that amends the next one
_MAX_LESSER_TOKENS = 160  # for a passage that is neither the best one nor about its decision
_MIN_RELEVANT_TERMS = 2  # that a turn at the end of a passage shares with the recap or the prompt
_AMENDS = ", newer than the next passage; where they differ, this one holds"


@record
class Quote:
    """A rendered passage, with the id and token count of each turn in it."""

    text: str
    turns: Sequence[tuple[str, int]]


def quote_all(passages: Sequence[Passage], budget: int, session: str = "") -> list[Quote]:
    """Render the passages that fit into a budget of tokens.

    The best passage and those about the same decision come first and get most of the room. If an
    older passage does not fit after the one that amends it, it is left out. `session` is the
    session into which they are injected.
    """
    quotes: list[Quote] = []
    room = budget
    for number, group in enumerate(_split_groups(passages)):
        quoters = [_Quoter(passage, session) for passage in group]
        limit = min(room, _MAX_LESSER_TOKENS)
        if number == 0:
            room = min(room, quoters[0].max_tokens)
            limit = room
        for quote in _quote_group(quoters, limit):
            room -= estimate(quote.text) + 1
            quotes.append(quote)
    return quotes


def _split_groups(passages: Sequence[Passage]) -> list[list[Passage]]:
    """Split passages into groups about one decision, each from the newest to the oldest."""
    groups: list[list[Passage]] = [[]]
    for passage in passages:
        groups[-1].append(passage)
        if not passage.amends:
            groups.append([])
    return [group for group in groups if group]


def _quote_group(quoters: Sequence[_Quoter], room: int) -> list[Quote]:
    """Render the passages about one decision, but no older one without the newer ones."""
    quotes: list[Quote] = []
    for number, quoter in enumerate(quoters):
        if room < MIN_TOKENS:
            break
        quote = None
        is_last = number == len(quoters) - 1
        if not is_last:
            quote = quoter.quote(int(_NEWEST_SHARE * room))
        if quote is None:
            quote = quoter.quote(room)
        if quote is None:
            break
        room -= estimate(quote.text) + 1
        quotes.append(quote)
    return quotes


class _Quoter:
    """Chooses and renders the turns of one passage."""

    def __init__(self, passage: Passage, session: str) -> None:
        self._passage = passage
        self._head = _head(passage, session)
        self._terms = {key: telling_terms(row.text) for key, row in passage.rows.items()}
        self._recap = None
        self._subject = recurring_terms(self._terms.values())
        recap = find_recap(passage.rows.values())
        if recap is not None and is_complete(self._terms[recap.key], self._subject):
            self._recap = recap
            self._subject = self._terms[recap.key]
        self._units = _join_replies(passage)

    @property
    def max_tokens(self) -> int:
        """The room for all passages if this is the best one."""
        return _MAX_TOKENS_WITHOUT_RECAP if self._recap is None else _MAX_TOKENS

    def quote(self, budget: int) -> Quote | None:
        """Render the passage as one block within a budget, or return None if no match fits."""
        room = budget - estimate(self._head) - 1
        units = self._units
        texts = self._whole_texts(units)
        if self._recap is not None or _cost(texts) > room:
            units = self._without_tail(units)
            texts = self._short_texts(units, room)
        chosen: set[int] = set()
        for unit in sorted(units, key=self._importance):
            cost = sum(estimate(texts[key]) + 2 for key in unit)
            if cost <= room:
                chosen.update(unit)
                room -= cost
        if not self._carries(chosen):
            return None
        return self._render(chosen, texts)

    def _carries(self, chosen: set[int]) -> bool:
        """Return whether the chosen turns have a match or the recap among them."""
        if self._recap is not None and self._recap.key in chosen:
            return True
        return not chosen.isdisjoint(self._passage.matches)

    def _relevance(self, unit: Sequence[int]) -> int:
        """Count the words of the prompt and the terms of the recap in a unit."""
        relevance = 0
        for key in unit:
            relevance += len(self._terms[key] & self._subject)
            match = self._passage.matches.get(key)
            if match is not None:
                relevance += max(len(match.matched), _MIN_RELEVANT_TERMS)
        return relevance

    def _importance(self, unit: Sequence[int]) -> tuple[bool, float, int]:
        """Return a sort key: the recap first, then units with much that is relevant for their size.

        Ties are decided in favor of later units.
        """
        is_recap = self._recap is not None and self._recap.key in unit
        characters = sum(len(self._passage.rows[key].text) for key in unit)
        return not is_recap, -self._relevance(unit) / (characters + 1) ** 0.5, -unit[0]

    def _without_tail(self, units: list[list[int]]) -> list[list[int]]:
        """Drop the units after the last one that is about the subject.

        Sessions often end with something else: a test run, thanks, another task. A session without
        a recap is quoted with its end, if it fits, because its last turns may add to the decision.
        """
        last = len(units)
        while last > 1 and self._relevance(units[last - 1]) < _MIN_RELEVANT_TERMS:
            last -= 1
        last_turn = units[last - 1][-1]
        is_answered = self._passage.rows[last_turn].by == "human" and self._relevance([last_turn])
        return units[: last + 1] if is_answered else units[:last]

    def _whole_texts(self, units: Sequence[Sequence[int]]) -> dict[int, str]:
        rows = self._passage.rows
        return {key: _turn_text(rows[key]) for unit in units for key in unit}

    def _short_texts(self, units: Sequence[Sequence[int]], room: int) -> dict[int, str]:
        """Render the turns of these units. If they do not all fit, shorten the agent's turns."""
        texts = self._whole_texts(units)
        if _cost(texts) <= room:
            return texts
        for key, text in texts.items():
            row = self._passage.rows[key]
            if row.by == "human":
                continue
            if self._recap is not None and key == self._recap.key:
                texts[key] = _short_recap(row, min(_SHORT_RECAP_TOKENS, room))
            elif estimate(text) > _SHORT_ANSWER_TOKENS:
                texts[key] = _end_of_answer(row, _SHORT_ANSWER_TOKENS)
        return texts

    def _render(self, chosen: set[int], texts: Mapping[int, str]) -> Quote:
        lines = [self._head]
        turns: list[tuple[str, int]] = []
        previous = None  # the position of the turn that was added last
        for position, key in enumerate(self._passage.keys):
            if key not in chosen:
                continue
            if previous is not None and previous < position - 1:
                lines.append(f"  {GAP}")
            lines.append(texts[key])
            turns.append((self._passage.rows[key].id, estimate(texts[key])))
            previous = position
        return Quote("\n".join(lines), turns)


def _cost(texts: Mapping[int, str]) -> int:
    """Return how many tokens these turns have, each with its line break."""
    return sum(estimate(text) + 2 for text in texts.values())


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


def _turn_text(row: RecordRow) -> str:
    """Render a turn with its speaker, indented below the head."""
    text = render.short_tracebacks(render.clean(row.text).strip("\n").rstrip())
    return f"  {SPEAKERS[row.by]}: {text}".replace("\n", "\n    ")


def _end_of_answer(row: RecordRow, most: int) -> str:
    """Render the last sentences of an agent's turn, to which the person replied.

    Code is left out.
    """
    prose = f" {GAP} ".join(row.text.split("```")[::2])
    sentences = render.one_line(prose).replace("? ", "?\n").replace(". ", ".\n").split("\n")
    end = ""
    for sentence in reversed(sentences):
        longer = f"{sentence} {end}".strip()
        if end and estimate(longer) > most:
            end = f"{GAP} {end}"
            break
        end = longer
    return f"  {SPEAKERS[row.by]}: {cut(end, 2 * most, f' {GAP}')}"


def _short_recap(row: RecordRow, most: int) -> str:
    return cut(shorten(_turn_text(row), most, estimate), most, f" {GAP}")


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
