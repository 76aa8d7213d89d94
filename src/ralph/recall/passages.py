"""Read the turns of an earlier session that are near the turns that match a prompt.

A turn is something that a person or the agent said, and a passage is a group of turns from one
session. `passage_search` finds the sessions that answer a prompt, `amendments` finds later sessions
that changed what an earlier one decided, and `quotes` renders passages. Hooks load these modules.
"""

from __future__ import annotations

from ralph.core import render
from ralph.lean import TYPE_CHECKING, record
from ralph.search.scoring import RankedRow
from ralph.storage import index_schema, lookup

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from ralph.storage.lookup import RecordRow
    from ralph.storage.record_filters import Filter

BUDGET_SHARE = 0.7  # of the budget, for passages
MIN_TOKENS = 120  # a shorter passage is not worth quoting
SPEAKERS = {"human": "user", "agent": "agent"}

_MAX_TURNS_READ = 2_000
_REACH_BEFORE = 6  # turns before a match
_REACH_AFTER = 10  # turns after it, which may include the recap


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


def is_speech(row: RecordRow) -> bool:
    """Return whether a record is something that a person or the agent said in a session."""
    return (
        index_schema.is_observation(row.key)
        and row.title in render.SPEECH_TITLES
        and row.by in SPEAKERS
    )


def read_passage(source: TurnSource, matches: Sequence[RankedRow]) -> Passage:
    """Read the turns near the matches, which are from one session."""
    connection = source.connection
    session = matches[0].row.session
    matching_keys = {match.row.key for match in matches}
    keys = lookup.keys_with_titles(connection, session, render.SPEECH_TITLES, _MAX_TURNS_READ)
    near: set[int] = set()
    for position, key in enumerate(keys):
        if key in matching_keys:
            near.update(keys[max(0, position - _REACH_BEFORE) : position + _REACH_AFTER + 1])
    ordered = [key for key in keys if key in near]
    allowed = lookup.filter_keys(connection, ordered, source.allowed)
    rows = lookup.fetch_rows(connection, [key for key in ordered if key in allowed])
    quotable: dict[int, RecordRow] = {}
    for key in ordered:
        row = rows.get(key)
        if row is not None and source.may_quote(row):
            quotable[key] = row
    return Passage(matches, keys, quotable)
