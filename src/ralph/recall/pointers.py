"""Point to earlier work that likely relates to a prompt, on one line each.

A pointer names the date, the subject, the outcome and the id of a session or memory (`one_line`).
All pointers of a prompt together cost at most `MAX_TOKENS`. For a session, the subject is what a
person asked before the best match, and the outcome is the sentence of the following turns that has
most to do with the prompt. That may be the agent's conclusion or the person's correction. Hooks
load this module.
"""

from __future__ import annotations

from ralph.core import render
from ralph.core.terms import TermMatcher
from ralph.core.tokens import estimate
from ralph.lean import TYPE_CHECKING, record
from ralph.recall import one_line
from ralph.recall.eligibility import POINTED, may_inject, may_point_to
from ralph.recall.shown_records import is_failed_run
from ralph.storage import index_schema, lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Sequence

    from ralph.recall.eligibility import RecallOptions
    from ralph.recall.relevance import Judged, Unit
    from ralph.search.question import WeightedWord
    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import Filter

MAX_POINTERS = 3
MAX_TOKENS = 80  # for all pointers of a prompt together
_HEADING = "Perhaps related ({} shows more):"

# A pointer has at least this share of the evidence of the best unit. Of the 40 prompts in weeks 1
# to 4, 33 are reached with 0.5, and 32 with 0.6.
_MIN_SHARE_OF_BEST = 0.5
# The same for the third pointer, which makes the others shorter. Up to 0.8, it loses no prompt.
_MIN_SHARE_OF_LAST = 0.7
_MAX_LINE_TOKENS = 45  # for a single pointer
_MAX_UNITS_READ = 6  # to find pointers that the session has not been given yet
_TURNS_AFTER = 3  # turns after a question in which its outcome is looked for
_MAX_TURNS_READ = 2_000
_FRAME_TOKENS = 14  # for the date, the id and the marks of a line
_PROMPT_TITLE = "prompt"
_UNCONFIRMED = "unconfirmed memory by {}, which no person has accepted yet"


def heading(options: RecallOptions) -> str:
    """Return the line above pointers, with the tool or the command that shows more of a record."""
    if options.tool_prefix is None:
        return _HEADING.format("`ralph search ID`")
    return _HEADING.format(f"`{options.tool_prefix}search` with an ID")


@record
class Pointer:
    """A line that points to a record. `mark` is noted so that a session gets it only once."""

    row: RecordRow
    unit: Unit
    line: str
    mark: str

    @property
    def tokens(self) -> int:
        """What the line costs, with its line break."""
        return estimate(self.line) + 1


def _share_room(gists: Sequence[one_line.Gist]) -> list[int]:
    """Return how many tokens each line gets. What short lines leave is shared by the others."""
    needs = [estimate(f"{gist.subject}: {gist.outcome}") + _FRAME_TOKENS for gist in gists]
    rooms = [0] * len(gists)
    left = MAX_TOKENS
    shortest_first = sorted(range(len(gists)), key=needs.__getitem__)
    for number, position in enumerate(shortest_first):
        fair_share = left // (len(gists) - number)
        room = min(needs[position], fair_share, _MAX_LINE_TOKENS)
        rooms[position] = room - 1  # for the line break
        left -= room
    return rooms


class PointerSource:
    """Reads the records that pointers name, as far as they may be injected."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        words: Sequence[WeightedWord],
        allowed: Filter,
        options: RecallOptions,
    ) -> None:
        self._connection = connection
        self._words = words
        self._allowed = allowed
        self._options = options

    def point_to(self, judged: Sequence[Judged], shown: Collection[str]) -> list[Pointer]:
        """Return pointers to the best units, except those that are shown or were given before.

        `shown` has the ids of the records and sessions that are injected with this prompt.
        """
        found: list[tuple[Unit, RecordRow, one_line.Gist]] = []
        outcomes: set[str] = set()
        for unit in [each.unit for each in judged[:_MAX_UNITS_READ]]:
            min_share = _MIN_SHARE_OF_BEST
            if len(found) == MAX_POINTERS - 1:
                min_share = _MIN_SHARE_OF_LAST
            is_far_behind = unit.evidence < min_share * judged[0].unit.evidence
            if is_far_behind or len(found) == MAX_POINTERS:
                break
            if unit.session in shown or f"{POINTED}{unit.session}" in self._options.seen:
                continue
            described = self._describe(unit)
            if described is None or described[0].id in shown:
                continue
            row, gist = described
            if gist.outcome not in outcomes:
                found.append((unit, row, gist))
                outcomes.add(gist.outcome)
        if not found:
            return []
        rooms = _share_room([gist for _, _, gist in found])
        return [
            self._render(unit, row, gist, room)
            for (unit, row, gist), room in zip(found, rooms, strict=True)
        ]

    def point_to_unconfirmed(self, judged: Sequence[Judged]) -> list[Pointer]:
        """Return a pointer to the best memory, without its words: only its author and its id.

        Whoever follows the pointer sees the memory marked as unconfirmed.
        """
        for unit in [each.unit for each in judged[:_MAX_UNITS_READ]]:
            row = lookup.fetch_rows(self._connection, unit.keys[:1]).get(unit.keys[0])
            if row is None or f"{POINTED}{row.id}" in self._options.seen:
                continue
            if may_point_to(row, self._options):
                gist = one_line.Gist("", _UNCONFIRMED.format(row.by or "unknown"))
                return [self._render(unit, row, gist, _MAX_LINE_TOKENS)]
        return []

    def _render(self, unit: Unit, row: RecordRow, gist: one_line.Gist, room: int) -> Pointer:
        marker = "- "
        tokens = room - estimate(marker)
        line = one_line.render_line(row.id, row.created_at, gist, tokens, self._options.today)
        return Pointer(row, unit, f"{marker}{line}", f"{POINTED}{unit.session or row.id}")

    def _describe(self, unit: Unit) -> tuple[RecordRow, one_line.Gist] | None:
        """Return the record to point to and its gist, or None if it may not be injected."""
        best = unit.keys[0]
        row = lookup.fetch_rows(self._connection, [best]).get(best)
        if row is None or is_failed_run(row) or not may_point_to(row, self._options):
            return None
        if f"{POINTED}{row.id}" in self._options.seen:
            return None
        turns = self._exchange(unit, best)
        if any(turn.id in self._options.seen for turn in turns):
            return None
        if not turns:
            if index_schema.is_observation(row.key) or not row.is_confirmed:
                return None  # a command that nobody said anything about
            return row, one_line.gist_of(row)
        asked = ""
        if may_inject(turns[0], self._options):
            asked = turns[0].text
        replies = [turn.text for turn in turns[1:] if may_inject(turn, self._options)]
        gist = one_line.gist_of_exchange(asked, replies, self._weigh_sentence())
        if row.error and row.is_confirmed:
            gist = one_line.Gist(gist.subject, one_line.gist_of(row).outcome)
        if not (gist.subject or gist.outcome):
            return None
        return row, gist

    def _exchange(self, unit: Unit, key: int) -> list[RecordRow]:
        """Return the question before a record of a session, and the turns after the question."""
        if not unit.session:
            return []
        keys = lookup.keys_with_titles(
            self._connection, unit.session, render.SPEECH_TITLES, _MAX_TURNS_READ
        )
        until_match = [position for position, turn in enumerate(keys) if turn <= key]
        last = until_match[-1] if until_match else 0
        near = keys[max(0, last - _TURNS_AFTER) : last + _TURNS_AFTER + 1]
        visible = lookup.filter_keys(self._connection, near, self._allowed)
        rows = lookup.fetch_rows(self._connection, [turn for turn in near if turn in visible])
        turns = [rows[turn] for turn in near if turn in rows]
        questions = [
            position
            for position, turn in enumerate(turns)
            if turn.title == _PROMPT_TITLE and turn.key <= key
        ]
        if not questions:
            return []
        return turns[questions[-1] :][: _TURNS_AFTER + 1]

    def _weigh_sentence(self) -> Callable[[str], float]:
        """Return a function that tells how much a sentence has to do with the prompt."""
        words = [word for word in self._words if word.counts and word.certain]

        def weigh(sentence: str) -> float:
            text = TermMatcher(sentence)
            return sum(word.weight * word.match(text) for word in words)

        return weigh
