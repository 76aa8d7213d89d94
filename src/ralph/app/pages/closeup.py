"""One task and one session from near: everything that a page about it shows, put together from their own modules.

A task comes with its stories, its progress, what happened to it, its chats and its runs; a session with its summary,
what was said in it where it is a chat, what happened in it, page by page, and what it was handed and used. Nothing
here is written, and nothing is an error for being empty. `tests/app/pages/test_closeup.py` proves it.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from ralph.app import chat_history, index, lists, task, task_memory
from ralph.app import session as sessions
from ralph.app.chat_history import Turn
from ralph.app.lists import RunRow, SessionRow, TaskRow
from ralph.app.pages.explore import Row
from ralph.context.tokens import estimate
from ralph.errors import NotFound
from ralph.model.work import Story
from ralph.store import files, rows

PAGE = 200
"""So much of what happened is told at once."""
_ARROW = " -> "
_MARK = "[//]: # (ralph: "
_FIELDS = ("Thread: ", "Outcome: ")
_KEYS = "SELECT key FROM observations WHERE session_id = ? ORDER BY seq LIMIT ? OFFSET ?"
_COUNT = "SELECT count(*) FROM observations WHERE session_id = ?"
_TITLE = 120


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happened to a task: from which state to which, or an iteration that worked on it."""

    at: str
    before: str
    after: str
    by: str
    note: str


@dataclass(frozen=True, slots=True)
class TaskSeen:
    """A task with all around it."""

    row: TaskRow
    description: str
    stories: tuple[Story, ...]
    progress: str
    steps: tuple[Step, ...]
    sessions: tuple[SessionRow, ...]
    runs: tuple[RunRow, ...]
    children: tuple[tuple[str, str, str], ...]
    """The id, title and status of each part."""


@dataclass(frozen=True, slots=True)
class Handed:
    """One record that a session was handed, and whether it referred to it."""

    at: str
    event: str
    id: str
    title: str
    tokens: int
    used: bool


@dataclass(frozen=True, slots=True)
class SessionSeen:
    """A session; `turns` are a chat's, `happened` is one page of `total`."""

    row: SessionRow
    summary: str
    turns: tuple[Turn, ...]
    happened: tuple[Row, ...]
    total: int
    handed: tuple[Handed, ...]


# --- a task --------------------------------------------------------------------------------------


@index.one_look()
def task_seen(root: Path, task_id: str) -> TaskSeen:
    """A task from near; NotFound when there is none of that id."""
    shown = task.show(root, task_id)
    held = shown.listed.task
    progress = readable(files.read(task_memory.folder(root, held.id) / "progress.txt") or "")
    talks, _ = lists.session_rows(root, limit=None, task_id=held.id)
    runs, _ = lists.run_rows(root, limit=100, task_id=held.id)
    return TaskSeen(
        lists.task_row(shown.listed), held.description, shown.stories, progress,
        tuple(_step(each) for each in task.log(root, held.id)), tuple(talks), tuple(runs),
        tuple((each.id, each.title, each.status) for each in shown.children),
    )  # fmt: skip


def readable(progress: str) -> str:
    """A progress.txt as a page shows it: without the marks that are Ralph's own, its fields on lines of their own."""
    lines = [line for line in progress.split("\n") if not line.startswith(_MARK)]
    return "\n".join(f"{line}  " if line.startswith(_FIELDS) else line for line in lines)


def _step(event: task.Event) -> Step:
    before, arrow, after = event.what.partition(_ARROW)
    return Step(event.at, before if arrow else "", after if arrow else event.what, event.by, event.note)


# --- a session -----------------------------------------------------------------------------------


@index.one_look()
def session_seen(root: Path, session_id: str, *, offset: int = 0, limit: int = PAGE) -> SessionSeen:
    """A session from near; NotFound when there is none of that id."""
    if not session_id:
        raise NotFound("no session is named", hint="`ralph session list` shows the ids")
    session = sessions.find(root, session_id)
    summary = session.summary or sessions.summary(root, session.id).text
    handed = _handed(root, session.id)
    tokens = sum(each.tokens for each in handed)
    row = lists.session_row(session, tokens, is_over=lists.is_over(root, session.id))
    turns = chat_history.read_history(root, session.id).turns if row.mode else ()
    happened, total = timeline(root, session.id, offset=offset, limit=limit)
    return SessionSeen(row, summary, turns, happened, total, handed)


def timeline(root: Path, session_id: str, *, offset: int = 0, limit: int = PAGE) -> tuple[tuple[Row, ...], int]:
    """What happened in a session, in its order, and how much that is in all."""
    name = rows.safe(session_id)

    def question(connection: sqlite3.Connection) -> tuple[tuple[Row, ...], int]:
        keys = [int(row[0]) for row in connection.execute(_KEYS, (name, limit, offset))]
        held, places = rows.records(connection, keys), rows.places(connection, keys)
        found = tuple(
            Row(held[key], *places[key], held[key].origin.task, estimate(held[key].text)) for key in keys if key in held
        )
        return found, int(connection.execute(_COUNT, (name,)).fetchone()[0])

    return index.ask(root, question)


def _handed(root: Path, session_id: str) -> tuple[Handed, ...]:
    """What a session was handed, in its order."""
    book = lists.book(root)
    mine = [each for each in book.injections if each.session == session_id]
    used = {each.record for each in book.uses if each.session == session_id}
    titles = _titles(root, {each.record for each in mine}) if mine else {}
    return tuple(
        Handed(each.at, each.event, each.record, titles.get(each.record, ""), each.tokens, each.record in used)
        for each in mine
    )


def _titles(root: Path, names: set[str]) -> dict[str, str]:
    """What records are called, in a line; a session is called by what it was about."""

    def question(connection: sqlite3.Connection) -> dict[str, str]:
        keys = {name: key for name in names if (key := rows.key_of(connection, name)) is not None}
        held = rows.records(connection, list(keys.values()))
        found = {name: held[key].title or held[key].text for name, key in keys.items() if key in held}
        for name in names - found.keys():
            row = connection.execute("SELECT summary FROM sessions WHERE id = ?", (rows.safe(name),)).fetchone()
            found[name] = (row[0] or "") if row is not None else ""
        return {name: _line(text) for name, text in found.items()}

    return index.ask(root, question)


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[: _TITLE - 1]}…"
