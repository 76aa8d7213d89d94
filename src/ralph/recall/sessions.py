"""List, find and show the recorded sessions (`ralph session`).

A session is listed even if the line that describes it was lost. An id may be shortened as long as
it is unique. A session that belongs to another task stays hidden until that task is finished.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar, assert_never

from ralph.capture import summary as summaries
from ralph.capture.small_talk import is_small_talk
from ralph.core import ids, record_lines
from ralph.core.errors import Conflict, Hint, NothingYet
from ralph.core.record import Detail, Family, Hit, Record, SearchResult
from ralph.recall import chat_log
from ralph.recall.search import SearchAnswer, ShownHit
from ralph.search import index, record_ids, visibility
from ralph.storage import queries, record_rows
from ralph.storage import sessions as stored_sessions

_MAX_NAMES = 5  # ids listed in an error
_MAX_SIMILAR = 500  # newest sessions among which a similar id is searched
_MAX_SMALL_TALK = 4  # prompts and answers of a session that only exchanges greetings
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation with an agent host, as shown in a list."""

    id: str
    started_at: str = ""
    ended_at: str = ""
    host: str = ""
    mode: str = ""
    project: str = ""
    observations: int = 0
    prompt: str = ""
    summary: str = ""
    tags: tuple[str, ...] = ()
    task: str = ""
    messages: int = 0  # prompts and answers

    @property
    def seconds(self) -> int | None:
        """The duration, or None if it is unknown."""
        try:
            start = datetime.fromisoformat(self.started_at)
            end = datetime.fromisoformat(self.ended_at)
            return max(int((end - start).total_seconds()), 0)
        except (ValueError, TypeError):  # a time is missing, or only one of them has a time zone
            return None


def list_(
    root: Path,
    *,
    limit: int | None = 20,
    since: str = "",
    task: str = "",
    words: str = "",
    offset: int = 0,
    within: str = "",
    hidden: Collection[str] = (),
) -> tuple[tuple[Session, ...], int]:
    """Return a page of sessions with their first prompts, newest first, and the total number.

    `task` and `words` restrict the list. A session matches `words` if they occur literally in an
    observation, its summary, its id, its host or its task. With `within`, only sessions that this
    task may see are listed. The sessions in `hidden` are left out.
    """

    def question(connection: sqlite3.Connection) -> tuple[tuple[Session, ...], int]:
        among = None
        if task:
            among = stored_sessions.sessions_of_task(connection, task)
        if words:
            matching = stored_sessions.sessions_with_text(connection, words)
            if among is None:
                among = matching
            else:
                among &= matching
        invisible = {*queries.hidden_sessions(connection, within), *hidden}
        return _list_page(
            connection, hidden=invisible, among=among, since=since, limit=limit, offset=offset
        )

    sessions, total = index.ask(root, question)
    return tuple(_with_chat_mode(root, session) for session in sessions), total


def newest(connection: sqlite3.Connection, limit: int) -> tuple[Session, ...]:
    """Return the newest sessions in an index as it is, newest first."""
    sessions, _ = _list_page(connection, limit=limit)
    return sessions


def _list_page(connection: sqlite3.Connection, **filters: Any) -> tuple[tuple[Session, ...], int]:
    """Return the sessions that `list_sessions` finds, with their prompts, and the total number."""
    rows, total = stored_sessions.list_sessions(connection, **filters)
    return tuple(_with_prompt(connection, Session(**fields)) for fields in rows), total


def list_empty(root: Path) -> set[str]:
    """Return the ids of the sessions in which nothing was said or done, except for small talk."""
    talks = index.ask(
        root, lambda connection: stored_sessions.short_talks(connection, _MAX_SMALL_TALK)
    )
    return {name for name, prompts in talks.items() if all(map(is_small_talk, prompts))}


def find(root: Path, session_id: str = "", *, within: str = "") -> Session:
    """Find a session by its id or a unique prefix of the id. The default is the newest session.

    Raises NotFound or NothingYet if there is none, and Conflict if several ids share the prefix.
    """
    session, _ = read_session(root, session_id, within, lambda connection, session: None)
    return session


def find_all(root: Path, names: Iterable[str]) -> dict[str, Session]:
    """Return the sessions that are recorded under these ids, by id."""

    def question(connection: sqlite3.Connection) -> dict[str, Session]:
        found: dict[str, Session] = {}
        for name in names:
            row = stored_sessions.session(connection, name)
            if row is not None:
                found[name] = _with_prompt(connection, Session(**row))
        return found

    return index.ask(root, question)


def session_records(
    root: Path, session_id: str, *, within: str = ""
) -> tuple[Session, list[Record]]:
    """Return a session with all its observations, in order. Raises the same errors as `find`."""

    def question(connection: sqlite3.Connection, session: Session) -> list[Record]:
        return queries.session_records(connection, session.id)

    return read_session(root, session_id, within, question)


def read_session(
    root: Path, session_id: str, within: str, question: Callable[[sqlite3.Connection, Session], _T]
) -> tuple[Session, _T]:
    """Find a session, and ask the index a question about it."""

    def ask(connection: sqlite3.Connection) -> tuple[Session, _T]:
        session = _with_prompt(connection, _find(connection, session_id, within))
        return session, question(connection, session)

    session, answer = index.ask(root, ask)
    return _with_chat_mode(root, session), answer


def _find(connection: sqlite3.Connection, session_id: str, within: str = "") -> Session:
    if not session_id:
        return _find_newest(connection, within)
    exact = stored_sessions.session(connection, session_id)
    if exact is None:
        return _find_by_prefix(connection, session_id, within)
    if not queries.sees_session(connection, session_id, within):
        raise visibility.hidden_error("session", session_id, filter(None, [exact["task"]]))
    return Session(**exact)


def _find_newest(connection: sqlite3.Connection, within: str) -> Session:
    hidden = queries.hidden_sessions(connection, within)
    newest, _ = stored_sessions.list_sessions(connection, hidden=hidden, limit=1)
    if not newest:
        raise NothingYet(
            "no session is recorded here",
            hint="run `ralph install claude` to record the sessions of Claude Code",
        )
    return Session(**newest[0])


def _find_by_prefix(connection: sqlite3.Connection, prefix: str, within: str) -> Session:
    hidden = queries.hidden_sessions(connection, within)
    matching, total = stored_sessions.list_sessions(
        connection, hidden=hidden, begin=prefix, limit=_MAX_NAMES
    )
    if total > 1:
        names = ", ".join(fields["id"] for fields in matching)
        raise Conflict(f"{total} sessions begin with {prefix}: {names}", hint="give more of the id")
    if matching:
        return Session(**matching[0])
    if within:
        _, hidden_total = stored_sessions.list_sessions(connection, begin=prefix, limit=1)
        if hidden_total:
            raise visibility.hidden_error("session", prefix)
    newest, _ = stored_sessions.list_sessions(connection, hidden=hidden, limit=_MAX_SIMILAR)
    raise ids.not_found(
        "session",
        prefix,
        hint=Hint("find-session", "`ralph session list` shows the ids"),
        known=[fields["id"] for fields in newest],
    )


def _with_prompt(connection: sqlite3.Connection, session: Session) -> Session:
    """Add the first prompt, the number of messages and the task, which are read from the notes."""
    where = "session_id = ? AND type = 'note' ORDER BY seq"
    rows = queries.select_records(
        connection, Family.OBSERVATION, where, (record_rows.storable_text(session.id),)
    )
    notes = [record for _, record in rows]
    task = session.task
    message_count = 0
    for record in notes:
        task = task or record.origin.task
        if summaries.is_prompt(record) or summaries.is_message(record):
            message_count += 1
    return replace(session, prompt=summaries.goal(notes), messages=message_count, task=task)


def _with_chat_mode(root: Path, session: Session) -> Session:
    """Add the mode and agent of a chat to its session.

    Hooks record only what the host reports, so these come from the chat's own log lines.
    """
    if not session.task:
        return session
    chat = chat_log.read_chat(root, session.id)
    if chat is None:
        return session
    return replace(session, mode=chat.mode.value, host=chat.agent or session.host)


def show(
    root: Path,
    session_id: str = "",
    *,
    layer: Detail = Detail.INDEX,
    limit: int | None = None,
    since: str = "",
    within: str = "",
) -> tuple[Session, SearchAnswer]:
    """Return the entries of a session in order. Repeats are shown once, with a count.

    With `limit`, only the newest entries are kept. Raises the same errors as `find`.
    """
    session, everything = session_records(root, session_id, within=within)
    records = [record for record in everything if record.created_at >= since]
    groups = _group_repeats(records)
    if limit is not None:
        groups = groups[-limit:]
    names: dict[str, str] = {}
    if layer is Detail.INDEX:
        names = record_ids.short_ids(root, [group[0].id for group in groups])
    shown: list[ShownHit] = []
    for group in groups:
        record = group[0]
        name = ""
        if layer is Detail.INDEX:
            name = names.get(record.id, record.id)
        text = _render(record, layer, name, len(group))
        repeats = tuple(repeat.id for repeat in group[1:])
        shown.append(ShownHit(Hit(record, 0.0), text, repeats, name=name))
    found = SearchResult(tuple(entry.hit for entry in shown), len(records))
    return session, SearchAnswer(found, tuple(shown))


def _group_repeats(records: Sequence[Record]) -> list[list[Record]]:
    groups = groupby(
        records, key=lambda record: (record.kind, record.title, record.text, record.origin.by)
    )
    return [list(group) for _, group in groups]


def _render(record: Record, layer: Detail, name: str, count: int) -> str:
    match layer:
        case Detail.FULL:
            return record_lines.record_details(record, count)
        case Detail.TIMELINE:
            return record_lines.record_moment(record, count=count)
        case Detail.INDEX:
            return record_lines.record_line(record, name, count)
    assert_never(layer)
