"""Propose memories from sessions that belong to no task.

Proposals are extracted when a session stops, and again at the next session start for sessions that
were killed before they could stop. They wait in `ralph review` until a person decides. What a
memory file or another proposal already says is not proposed again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from ralph.capture.summary import error_line
from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.core.record import ObservationKind, Record, Status
from ralph.core.similarity import TextMatcher
from ralph.core.text import normalise_text
from ralph.learning import examined_sessions, insights, propose
from ralph.learning.insights import NO_TASK, Extraction
from ralph.learning.repetition import find_repetitions
from ralph.memory import reading
from ralph.privacy import injection
from ralph.search import index
from ralph.storage import queries

_MAX_RECORDS = 20_000  # per session, which takes a hook half a second
_MAX_EARLIER_PROMPTS = 500  # the newest prompts that are searched for repetitions
_MAX_OWN_PROMPTS = 100  # of a session whose earlier prompts need no query of their own
_NO_SESSION = "\0"  # a session id that no log can contain
_MAX_IMPORTED_SESSIONS = 500  # after an import
_MIN_ERROR_CHARACTERS = 12  # a shorter line does not identify an error


def extract(
    root: Path,
    session: Sequence[Record],
    earlier_prompts: Sequence[Record] = (),
    *,
    patterns: Sequence[str] = (),
) -> Extraction:
    """Propose memories from the records of one session.

    Records of a task are left to its own insights. Raises Unreadable if the proposals cannot be
    read.
    """
    records = [record for record in session if not record.origin.task and not record.origin.run]
    typed = [record for record in earlier_prompts if not record.origin.run]  # not by a loop
    repetitions = find_repetitions(records, typed)
    proposed = propose.propose(records, repetitions)
    cleaned = insights.clean_proposals(proposed, patterns)
    new = list(_without_known(root, filter(_may_propose, cleaned)))
    new += _further_sightings(root, records)
    return insights.save_proposals(root, NO_TASK, paths.proposals_file(root), new)


def extract_session(
    root: Path,
    connection: sqlite3.Connection,
    session_id: str,
    *,
    patterns: Sequence[str] = (),
) -> Extraction:
    """Propose memories from a session in the index, and note that this was done."""
    prompts = queries.earlier_prompts(connection, session_id, _MAX_EARLIER_PROMPTS)
    records = queries.session_records(connection, session_id, limit=_MAX_RECORDS)
    extraction = extract(root, records, prompts, patterns=patterns)
    if records:
        examined_sessions.note(root, {session_id: records[-1].created_at})
    return extraction


def extract_missed(
    root: Path,
    connection: sqlite3.Connection,
    *,
    running: str = "",
    limit: int = examined_sessions.MAX_MISSED,
    patterns: Sequence[str] = (),
) -> int:
    """Propose memories from sessions that were not examined yet, and return how many were found.

    At most `limit` of the most recent sessions are examined. `running` is the session that is just
    starting.
    """
    found = 0
    newest = _NewestPrompts(connection)
    last_records: dict[str, str] = {}
    try:
        for session in examined_sessions.missed(root, connection, running, limit):
            prompts = newest.of_others(session)
            records = queries.session_records(connection, session, limit=_MAX_RECORDS)
            extraction = extract(root, records, prompts, patterns=patterns)
            found += len(extraction.added)
            if records:
                last_records[session] = records[-1].created_at
    finally:
        examined_sessions.note(root, last_records)
    return found


def extract_imported(root: Path, *, patterns: Sequence[str] = ()) -> int:
    """Propose memories from imported sessions, and return how many were found."""
    return index.ask(
        root,
        lambda connection: extract_missed(
            root, connection, limit=_MAX_IMPORTED_SESSIONS, patterns=patterns
        ),
    )


class _NewestPrompts:
    """The newest prompts in the index, read once for all sessions that are examined."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def of_others(self, session_id: str) -> list[Record]:
        """Return the newest prompts from other sessions, as `queries.earlier_prompts` does."""
        others = [prompt for prompt in self._newest if prompt.origin.session != session_id]
        if len(self._newest) - len(others) > _MAX_OWN_PROMPTS:
            return queries.earlier_prompts(self._connection, session_id, _MAX_EARLIER_PROMPTS)
        return others[:_MAX_EARLIER_PROMPTS]

    @cached_property
    def _newest(self) -> list[Record]:
        limit = _MAX_EARLIER_PROMPTS + _MAX_OWN_PROMPTS
        return queries.earlier_prompts(self._connection, _NO_SESSION, limit)


def _may_propose(record: Record) -> bool:
    """Return whether a person should see a proposal. An instruction to agents is dropped."""
    return not injection.looks_like_instructions(record.text)


def _without_known(root: Path, proposed: Iterable[Record]) -> Iterator[Record]:
    """Yield the proposals that no memory file contains yet."""
    known: TextMatcher | None = None
    for record in proposed:
        if known is None:
            known = TextMatcher(_memory_texts(root))
        if known.nearest(record.text, min_overlap=propose.min_overlap(record)) is None:
            yield record


def _memory_texts(root: Path) -> Iterator[str]:
    try:
        entries = reading.list_entries(root, in_=(reading.ALL,))
    except RalphError:  # `ralph doctor` reports a file that cannot be read
        return
    for stored in entries:
        record = stored.record
        yield f"{record.title}: {record.text}" if record.title else record.text


def _further_sightings(root: Path, records: Sequence[Record]) -> Iterator[Record]:
    """Yield the waiting fixes whose error occurred in this session again, seen here as well."""
    errors: dict[str, Record] = {}
    for record in records:
        if record.kind is ObservationKind.ERROR:
            line = normalise_text(error_line(record))
            if len(line) >= _MIN_ERROR_CHARACTERS:
                errors.setdefault(line, record)
    if not errors:
        return
    for waiting in insights.list_(root, status=Status.PROPOSED):
        proposal = waiting.record
        if waiting.task != NO_TASK or not propose.is_proven(proposal):
            continue
        text = normalise_text(proposal.text)
        for line, record in errors.items():
            if line in text:
                yield propose.seen_again(proposal, record)
