"""Choose the lessons that an agent receives before an action or after a failed command.

At that point a wrong lesson costs more than none. Only a fix or a decision about that very file,
command or error is injected, and at most two of them. `lessons` finds them. If an earlier session
had the same error and solved it, what made the command pass is injected as well (`solutions`).
Hooks load this module.
"""

from __future__ import annotations

from ralph.lean import TYPE_CHECKING
from ralph.recall import lessons
from ralph.recall.eligibility import failure_filter, lesson_filter, may_inject
from ralph.recall.shown_records import NOTHING, citation_factor, render_layer, show_whole, tier_of
from ralph.search import scoring

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ralph.recall.eligibility import RecallOptions
    from ralph.recall.shown_records import Recalled, Shown
    from ralph.storage.lookup import RecordRow

ACTION_CHARACTERS = 600  # the most that is injected before or after an action
_MAX_RECORDS = 2
# Records that are checked for stale citations. One further down cannot move up far enough.
_MAX_VERIFIED_RECORDS = 2 * _MAX_RECORDS

# How many characters of the input are examined.
_MAX_COMMAND_CHARACTERS = 400
_MAX_ERROR_CHARACTERS = 600

# A lesson about `pytest` as such rarely explains a failure. One about `npm install` may.
_MIN_FAILED_COMMAND_WORDS = 2


def before_action(
    connection: sqlite3.Connection, files: Sequence[str], command: str, options: RecallOptions
) -> Recalled:
    """Return lessons about the files about to be touched, or the command about to run."""
    allowed = lesson_filter(connection, options)
    if files:
        rows = lessons.on_files(connection, files, allowed)
    else:
        rows = lessons.on_command(connection, command[:_MAX_COMMAND_CHARACTERS], allowed)
    return render_lessons(rows, options)


def after_failure(
    connection: sqlite3.Connection,
    files: Sequence[str],
    command: str,
    error: str,
    options: RecallOptions,
) -> Recalled:
    """Return lessons about a failure.

    Lessons about the error come first, then those about the files, then those about the command. A
    lesson that is found more than once takes the last of these places. What solved the same error
    in an earlier session follows.
    """
    from ralph.capture.error_lines import name_error  # only after a failure

    allowed = lesson_filter(connection, options)
    named = name_error(error)
    rows: dict[int, RecordRow] = {}
    for found in (
        lessons.on_error(connection, f"{named}\n{error[:_MAX_ERROR_CHARACTERS]}", allowed),
        lessons.on_files(connection, files, allowed),
        lessons.on_command(
            connection,
            command[:_MAX_COMMAND_CHARACTERS],
            allowed,
            min_words=_MIN_FAILED_COMMAND_WORDS,
        ),
    ):
        for row in found:
            rows.pop(row.key, None)  # move it to the end
            rows[row.key] = row
    solved = _solutions(connection, named, options) if options.enabled else []
    return render_lessons(list(rows.values()), options, solved)


def _solutions(connection: sqlite3.Connection, error: str, options: RecallOptions) -> list[Shown]:
    """Return what solved an error in earlier sessions, unless a memory was learned from it."""
    failures = []
    for row in lessons.failures_with_error(connection, error, failure_filter(options)):
        if row.id not in options.learned and may_inject(row, options):
            failures.append(row)
    if not failures:
        return []
    from ralph.recall.solutions import find_solutions  # few failures have come up before

    return list(find_solutions(connection, error, failures))


def render_lessons(
    rows: Sequence[RecordRow], options: RecallOptions, solved: Sequence[Shown] = ()
) -> Recalled:
    """Render the best new lessons, in full if all of them fit, otherwise on one line each.

    What solved the same error takes the places that are left.
    """
    candidates = [row for row in rows if may_inject(row, options)]
    candidates.sort(key=tier_of)
    verified = candidates[:_MAX_VERIFIED_RECORDS]
    verified.sort(key=lambda row: -citation_factor(row, options.citations))
    known = [show_whole(scoring.RankedRow(row)) for row in verified]
    shown = [*known, *solved][:_MAX_RECORDS]
    characters = min(ACTION_CHARACTERS, options.characters)
    in_full = render_layer(shown, 3, options, characters)
    if in_full.records and len(in_full.records) == len(shown):
        return in_full
    lines = render_layer(shown, 1, options, characters)
    if lines.records:
        return lines
    return NOTHING
