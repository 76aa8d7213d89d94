"""`ralph session ...`: the conversations that were recorded, from the index.

A session is what its observations are: it is listed also when the line about itself got lost, or was never
written because the host was killed. Start and end are those of its line where it has them, else the times
of its first and last observation. The summary is the stored one (written at Stop and PreCompact), else it is
made now, the same way. What was done several times running is shown once, with a count. An id may be shortened
as long as one session is meant. A session belongs to the task that its line names, or in which its observations were
made; who asks from `within` another task does not see it before that is finished. What was said in it, turn by turn,
is told by `app/chats.py`.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ralph.app import chat_log, index, visibility
from ralph.app.search import SearchAnswer, ShownHit
from ralph.capture import summary as summaries
from ralph.context import render, tokens
from ralph.errors import Conflict, NotFound, NothingYet
from ralph.model.query import Detail, Hit, SearchResult
from ralph.model.record import Family, Record
from ralph.store import rows
from ralph.store import sessions as stored_sessions

SUMMARY = 600
"""Tokens that a summary which is made now may cost."""

_CANDIDATES = 5


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation with an agent host, as a listing shows it."""

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
    messages: int = 0
    """What was asked and answered, both counted."""

    @property
    def seconds(self) -> int | None:
        """How long it lasted; None when that cannot be told."""
        try:
            start, end = datetime.fromisoformat(self.started_at), datetime.fromisoformat(self.ended_at)
            return max(int((end - start).total_seconds()), 0)
        except (ValueError, TypeError):  # no time, or one of the two without its zone
            return None


@dataclass(frozen=True, slots=True)
class Summarized:
    """A session's summary, and whether it was stored or made now."""

    session: Session
    text: str
    stored: bool


def list_(
    root: Path,
    *,
    limit: int | None = 20,
    since: str = "",
    task: str = "",
    words: str = "",
    offset: int = 0,
    within: str = "",
) -> tuple[tuple[Session, ...], int]:
    """The sessions (of a task), newest first, with how they began; and how many there are in all.

    `words` must stand, as they are, in what was said or done, in the summary, or in a session's id, host or task.
    """

    def question(connection: sqlite3.Connection) -> tuple[tuple[Session, ...], int]:
        found = [each for each in _sessions(connection, within) if not since or each.started_at >= since]
        if task:
            own = stored_sessions.sessions_of_task(connection, task)
            found = [each for each in found if each.id in own]
        if words:
            own = stored_sessions.sessions_with_text(connection, words)
            found = [each for each in found if each.id in own]
        shown = found[offset:] if limit is None else found[offset : offset + limit]
        return tuple(_with_prompt(connection, each) for each in shown), len(found)

    found, total = index.ask(root, question)
    return tuple(_as_begun(root, each) for each in found), total


def left_out(root: Path, within: str, *, since: str = "", task: str = "") -> str:
    """That sessions of other tasks would be in a list; "" when none would."""
    if not within:
        return ""
    every = {each.id: each.task for each in list_(root, limit=None, since=since, task=task)[0]}
    seen = {each.id for each in list_(root, limit=None, since=since, task=task, within=within)[0]}
    hidden = [owner for name, owner in every.items() if name not in seen]
    return (
        visibility.hidden_note(f"{len(hidden)} session{'s' * (len(hidden) > 1)}", filter(None, hidden))
        if hidden
        else ""
    )


def _as_begun(root: Path, session: Session) -> Session:
    """The session in the mode in which it was begun, if it is a chat: hooks know the host's word alone."""
    chat = chat_log.read_chat(root, session.id) if session.task else None
    return session if chat is None else replace(session, mode=chat.mode.value, host=chat.agent or session.host)


def find(root: Path, session_id: str = "", *, within: str = "") -> Session:
    """The session with this id or the only one whose id begins so; without an id, the newest."""
    found = index.ask(root, lambda connection: _with_prompt(connection, _found(connection, session_id, within)))
    return _as_begun(root, found)


def happened(root: Path, session_id: str, *, within: str = "") -> tuple[Session, list[Record]]:
    """A session with everything that is recorded of it, in its order."""

    def question(connection: sqlite3.Connection) -> tuple[Session, list[Record]]:
        session = _with_prompt(connection, _found(connection, session_id, within))
        return session, observations(connection, session.id)

    session, held = index.ask(root, question)
    return _as_begun(root, session), held


def show(
    root: Path,
    session_id: str = "",
    *,
    layer: Detail = Detail.INDEX,
    limit: int | None = None,
    since: str = "",
    within: str = "",
) -> tuple[Session, SearchAnswer]:
    """What happened in a session, in its order, a repeat once with its count; `limit` keeps the newest."""

    def question(connection: sqlite3.Connection) -> tuple[Session, SearchAnswer]:
        session = _found(connection, session_id, within)
        held = [each for each in observations(connection, session.id) if not since or each.created_at >= since]
        runs = _repeated(held)
        shown = tuple(_shown(run, layer) for run in (runs if limit is None else runs[-limit:]))
        return _with_prompt(connection, session), SearchAnswer(
            SearchResult(tuple(each.hit for each in shown), len(held)), shown
        )

    return index.ask(root, question)


def _repeated(held: Sequence[Record]) -> list[list[Record]]:
    """Observations in their order; those that follow each other and say the same stand together."""
    runs: list[list[Record]] = []
    for record in held:
        if runs and _says(runs[-1][0]) == _says(record):
            runs[-1].append(record)
        else:
            runs.append([record])
    return runs


def _says(record: Record) -> tuple[object, ...]:
    return record.kind, record.title, record.text, record.origin.by


def _shown(run: Sequence[Record], layer: Detail) -> ShownHit:
    text = _text(run[0], layer, len(run))
    return ShownHit(Hit(run[0], 0.0), text, tokens.estimate(text + "\n"), tuple(record.id for record in run[1:]))


def summary(root: Path, session_id: str = "", *, budget: int = SUMMARY, within: str = "") -> Summarized:
    """What a session was about: the stored summary, else one that is made now within a budget of tokens."""

    def question(connection: sqlite3.Connection) -> Summarized:
        session = _with_prompt(connection, _found(connection, session_id, within))
        if session.summary:
            return Summarized(session, session.summary, stored=True)
        made = summaries.summary(observations(connection, session.id))
        return Summarized(session, summaries.text(made, budget, tokens.estimate), stored=False)

    return index.ask(root, question)


def observations(connection: sqlite3.Connection, session_id: str, *, most: int | None = None) -> list[Record]:
    """Everything that is recorded of a session, in the order in which it happened; of too much, both ends."""
    return rows.of_session(connection, session_id, most=most)


def _sessions(connection: sqlite3.Connection, within: str = "") -> list[Session]:
    found = [Session(**row._asdict()) for row in stored_sessions.all_sessions(connection)]
    hidden = {"", *rows.hidden_sessions(connection, within)}
    return sorted(
        (each for each in found if each.id not in hidden), key=lambda each: (each.started_at, each.id), reverse=True
    )


def _with_prompt(connection: sqlite3.Connection, session: Session) -> Session:
    """The session with what was asked first, how much was said, and its task; only the notes are read for it."""
    where = "session_id = ? AND type = 'note' ORDER BY seq"
    notes = [record for _, record in rows.stored(connection, Family.OBSERVATION, where, (rows.safe(session.id),))]
    said = [record for record in notes if summaries.is_prompt(record) or summaries.is_message(record)]
    task = session.task or next((record.origin.task for record in notes if record.origin.task), "")
    return replace(session, prompt=summaries.goal(notes), messages=len(said), task=task)


def _found(connection: sqlite3.Connection, session_id: str, within: str = "") -> Session:
    exact = stored_sessions.session(connection, session_id) if session_id else None
    if exact is not None:
        if not rows.sees_session(connection, session_id, within):
            raise visibility.hidden_error(f"session {session_id}", filter(None, [exact.task]))
        return Session(**exact._asdict())
    everything = _sessions(connection, within)
    if not session_id:
        if not everything:
            raise NothingYet("no session is recorded here", hint="`ralph install claude` lets Claude Code record them")
        return everything[0]
    near = [each for each in everything if each.id.startswith(session_id)]
    if not near:
        if within and any(each.id.startswith(session_id) for each in _sessions(connection)):
            raise visibility.hidden_error(f"session {session_id}")
        raise NotFound(f"there is no session {session_id}", hint="`ralph session list` shows the ids")
    if len(near) > 1:
        names = ", ".join(each.id for each in near[:_CANDIDATES])
        more = f" and {len(near) - _CANDIDATES} more" if len(near) > _CANDIDATES else ""
        raise Conflict(f"{len(near)} sessions begin with {session_id}: {names}{more}", hint="give more of the id")
    return near[0]


def _text(record: Record, layer: Detail, count: int) -> str:
    if layer is Detail.FULL:
        return render.record_details(record, count)
    if layer is Detail.TIMELINE:
        return render.record_moment(record, count=count)
    return render.record_line(record, None, count)
