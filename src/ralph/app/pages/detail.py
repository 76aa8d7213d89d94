"""One record with all that is known of it: what the Memory Explorer shows of a memory.

The record itself comes from the index; beside it stand its layers as an agent would be handed them, what it cites and
whether that is there, what took its place, where it was injected and whether it was used, what is near it in the graph,
and what can be done with it. Citations are looked at now, with git, as `ralph doctor --citations` does; what fails
there or in the graph costs the rest nothing. `tests/app/pages/test_detail.py` proves it on a real repository.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ralph.app import chat_history, graph, index, insights, lists, outdated, sessions, usage
from ralph.app import citations as check_look
from ralph.app.chat_history import Turn
from ralph.app.lists import RunRow, SessionRow, TaskRow
from ralph.app.pages.explore import RecordRow
from ralph.app.repository import GitHistory, Repository, first_line
from ralph.app.tasks import progress as task_memory
from ralph.app.tasks import task
from ralph.context import render, tokens
from ralph.context.tokens import estimate
from ralph.errors import NotFound, RalphError
from ralph.model.graph import Node, Relation
from ralph.model.record import Family, Record, Status
from ralph.model.work import Story
from ralph.search import citations
from ralph.search.citations import CheckedCitation
from ralph.store import files, lookup, queries
from ralph.store import sessions as stored_sessions
from ralph.store.sources import Format, Source, contents

_NEIGHBOUR_HOPS = 2
_INJECTIONS = 200
_NEIGHBOURS = 200
_TITLE_LENGTH = 100
"""Characters of a text that stand for a title."""


class Action(StrEnum):
    """What can be done with a record."""

    EDIT = "edit"
    RETAG = "retag"
    RETIRE = "retire"
    RESTORE = "restore"
    DELETE = "delete"
    PROMOTE = "promote"
    ACCEPT = "accept"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class TextLayer:
    """A record as one layer shows it, and what that costs."""

    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class RecordInjection:
    """One time that a record was handed over, and whether that session used it."""

    injection: usage.Injection
    used: bool


@dataclass(frozen=True, slots=True)
class GraphNeighbour:
    """What a record is connected with in the graph; `outward` when the record says so itself."""

    relation: Relation
    outward: bool
    node: Node


class Successor(NamedTuple):
    """The record that took another one's place."""

    id: str
    title: str


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A record and what is known of it."""

    row: RecordRow
    form: Format
    line: TextLayer
    moment: TextLayer
    full: TextLayer
    links: tuple[tuple[str, str, str], ...]
    successor: Successor | None = None
    citations: tuple[CheckedCitation, ...] = ()
    injections: tuple[RecordInjection, ...] = ()
    injected: int = 0
    used: int = 0
    neighbours: tuple[GraphNeighbour, ...] = ()
    actions: tuple[Action, ...] = ()


def record_page(root: Path, record_id: str) -> RecordPage:
    """Everything about one record; NotFound when there is none."""
    found = index.ask(root, lambda connection: _from_index(root, connection, record_id))
    book = usage.read_ledger(root)
    handed = tuple(_injections(book, record_id))
    injected, used = usage.count_uses(book).get(record_id, (0, 0))
    return RecordPage(
        row=found[0],
        form=found[1],
        line=found[2],
        moment=found[3],
        full=_text_layer(render.record_details(found[0].record)),
        links=found[4],
        successor=found[5],
        citations=_citations(root, found[0].record),
        injections=handed,
        injected=injected,
        used=used,
        neighbours=_neighbours(root, record_id),
        actions=possible_actions(found[0].record, found[1]),
    )


def locate_record(root: Path, record_id: str) -> tuple[Record, str, Format]:
    """A record, the name of its file and that file's format; NotFound when there is none."""
    row, form, *_ = index.ask(root, lambda connection: _from_index(root, connection, record_id))
    return row.record, row.source, form


def possible_actions(record: Record, form: Format) -> tuple[Action, ...]:
    """What can be done with a record that stands in such a file."""
    if form is Format.INSIGHTS:
        judged = {Status.ACCEPTED: (Action.REJECT,), insights.REJECTED: (Action.ACCEPT,)}
        return (*judged.get(record.status, (Action.ACCEPT, Action.REJECT)), Action.PROMOTE)
    if form in (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE):
        if record.status is Status.RETIRED:
            return (Action.RESTORE, Action.DELETE)
        return (Action.EDIT, Action.RETAG, Action.RETIRE, Action.DELETE, Action.PROMOTE)
    return () if record.status is Status.RETIRED else (Action.PROMOTE,)


_Found = tuple[RecordRow, Format, TextLayer, TextLayer, tuple[tuple[str, str, str], ...], Successor | None]


def _from_index(root: Path, connection: sqlite3.Connection, record_id: str) -> _Found:
    key = queries.key_of(connection, record_id)
    held = queries.records(connection, [key]) if key is not None else {}
    if key is None or key not in held:
        raise NotFound(f"there is no record {record_id}", hint='`ralph search "words"` shows the ids')
    record = held[key]
    name, line = queries.locations(connection, [key])[key]
    form = queries.source_format(connection, name)
    owner = record.origin.task or queries.tasks_of(connection, [key]).get(key, "")
    stale = outdated.citation_notes(root, [record]).get(record.id, "")
    past = outdated.describe_outdated(connection, [record]).get(record.id, "")
    row = RecordRow(record, name, line, owner, tokens.estimate(record.text), stale=stale, past=past)
    newer = row.superseded_by
    links = tuple((link.relation, link.target, _title(connection, link.target)) for link in record.links)
    return (
        row,
        Format(form) if form else _format_from_name(name),
        _text_layer(render.record_line(record, None)),
        _neighbour_layer(connection, key, record),
        links,
        Successor(newer, _title(connection, newer)) if newer else None,
    )


def _format_from_name(name: str) -> Format:
    """The format of a file in an index that is made for one question, which does not say it."""
    for end, form in (
        ("insights.json", Format.INSIGHTS),
        ("memories.md", Format.MEMORIES),
        ("guardrails.md", Format.GUARDRAILS),
        ("global-patterns.md", Format.PATTERNS),
        (".jsonl", Format.LOG),
        ("progress.txt", Format.PROGRESS),
    ):
        if name.endswith(end):
            return form
    return Format.KNOWLEDGE if "/knowledge/" in name else Format.PROGRESS


def _neighbour_layer(connection: sqlite3.Connection, key: int, record: Record) -> TextLayer:
    """What happened just before and after, with the record in between, as layer 2 tells it."""
    near = [other for _, other, _ in lookup.neighbours(connection, [key], _NEIGHBOUR_HOPS)]
    near = near or queries.adjacent_keys(connection, key, record, _NEIGHBOUR_HOPS)
    everything = {**queries.records(connection, near), key: record}
    ordered = sorted(everything.items(), key=lambda pair: (pair[1].created_at, pair[0]))
    return _text_layer("\n".join(render.record_moment(each) for _, each in ordered))


def _text_layer(text: str) -> TextLayer:
    return TextLayer(text, tokens.estimate(text + "\n"))


def _title(connection: sqlite3.Connection, name: str) -> str:
    key = queries.key_of(connection, name)
    other = queries.records(connection, [key]).get(key) if key is not None else None
    return "" if other is None else record_title(other)


def record_title(record: Record) -> str:
    """How a record is called: its title, else how its text begins."""
    if record.title:
        return record.title
    line = " ".join(record.text[: 4 * _TITLE_LENGTH].split())
    return line if len(line) <= _TITLE_LENGTH else f"{line[:_TITLE_LENGTH].rpartition(' ')[0] or line[:_TITLE_LENGTH]}…"


def _citations(root: Path, record: Record) -> tuple[CheckedCitation, ...]:
    if record.family is not Family.MEMORY:
        return ()
    with suppress(RalphError, OSError):
        return tuple(check_look.check_targets(GitHistory(root), [(record, citations.find_citations(record))])[0])
    return ()


def _injections(book: usage.Ledger, record_id: str) -> Sequence[RecordInjection]:
    used = {use.session for use in book.uses if use.record == record_id}
    found = [each for each in book.injections if each.record == record_id]
    return [RecordInjection(each, each.session in used) for each in reversed(found[-_INJECTIONS:])]


def _neighbours(root: Path, record_id: str) -> tuple[GraphNeighbour, ...]:
    with suppress(RalphError, sqlite3.Error):
        shown = graph.show(root, record_id)
        return tuple(
            GraphNeighbour(edge.relation, edge.source == shown.node.id, other)
            for edge, other in shown.edges[:_NEIGHBOURS]
        )
    return ()


# NOTE: One task and one session from near: everything that a page about it shows, put together from their o

PAGE_SIZE = 200
"""So much of what happened is told at once."""
_ARROW = " -> "
_MARK = "[//]: # (ralph: "
_PROGRESS_FIELDS = ("Thread: ", "Outcome: ")
_LINE_LENGTH = 120


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """Something that happened to a task: from which state to which, or an iteration that worked on it."""

    at: str
    before: str
    after: str
    by: str
    note: str


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A task with all around it."""

    row: TaskRow
    description: str
    stories: tuple[Story, ...]
    progress: str
    steps: tuple[TaskEvent, ...]
    sessions: tuple[SessionRow, ...]
    runs: tuple[RunRow, ...]
    children: tuple[tuple[str, str, str], ...]
    """The id, title and status of each part."""


@dataclass(frozen=True, slots=True)
class SessionInjection:
    """One record that a session was handed, and whether it referred to it."""

    at: str
    event: str
    id: str
    title: str
    tokens: int
    used: bool


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A session; `turns` are a chat's, `happened` is one page of `total`."""

    row: SessionRow
    summary: str
    turns: tuple[Turn, ...]
    happened: tuple[RecordRow, ...]
    total: int
    handed: tuple[SessionInjection, ...]


# --- a task --------------------------------------------------------------------------------------


def task_page(root: Path, task_id: str) -> TaskPage:
    """A task from near; NotFound when there is none of that id."""
    shown = task.show(root, task_id)
    held = shown.listed.task
    progress = readable_progress(files.read(task_memory.folder(root, held.id) / "progress.txt") or "")
    talks, _ = lists.session_rows(root, limit=None, task_id=held.id)
    runs, _ = lists.run_rows(root, limit=100, task_id=held.id)
    return TaskPage(
        lists.task_row(shown.listed),
        held.description,
        shown.stories,
        progress,
        tuple(_task_event(each) for each in task.log(root, held.id)),
        tuple(talks),
        tuple(runs),
        tuple((each.id, each.title, each.status) for each in shown.children),
    )


def readable_progress(progress: str) -> str:
    """A progress.txt as a page shows it: without the marks that are Ralph's own, its fields on lines of their own."""
    lines = [line for line in progress.split("\n") if not line.startswith(_MARK)]
    return "\n".join(f"{line}  " if line.startswith(_PROGRESS_FIELDS) else line for line in lines)


def _task_event(event: task.TaskEvent) -> TaskEvent:
    before, arrow, after = event.what.partition(_ARROW)
    return TaskEvent(event.at, before if arrow else "", after if arrow else event.what, event.by, event.note)


# --- a session -----------------------------------------------------------------------------------


def session_page(root: Path, session_id: str, *, offset: int = 0, limit: int = PAGE_SIZE) -> SessionPage:
    """A session from near; NotFound when there is none of that id."""
    if not session_id:
        raise NotFound("no session is named", hint="`ralph session list` shows the ids")
    session = sessions.find(root, session_id)
    summary = session.summary or sessions.summary(root, session.id).text
    handed = _session_injections(root, session.id)
    tokens = sum(each.tokens for each in handed)
    row = lists.session_row(session, tokens, is_over=lists.is_over(root, session.id))
    turns = chat_history.read_history(root, session.id).turns if row.mode else ()
    happened, total = session_timeline(root, session.id, offset=offset, limit=limit)
    return SessionPage(row, summary, turns, happened, total, handed)


def session_timeline(
    root: Path, session_id: str, *, offset: int = 0, limit: int = PAGE_SIZE
) -> tuple[tuple[RecordRow, ...], int]:
    """What happened in a session, in its order, and how much that is in all."""

    def question(connection: sqlite3.Connection) -> tuple[tuple[RecordRow, ...], int]:
        keys = stored_sessions.observation_keys(connection, session_id, limit, offset)
        held, places = queries.records(connection, keys), queries.locations(connection, keys)
        found = tuple(
            RecordRow(held[key], *places[key], held[key].origin.task, estimate(held[key].text))
            for key in keys
            if key in held
        )
        return found, stored_sessions.count_observations(connection, session_id)

    return index.ask(root, question)


def _session_injections(root: Path, session_id: str) -> tuple[SessionInjection, ...]:
    """What a session was handed, in its order."""
    book = lists.read_ledger(root)
    mine = [each for each in book.injections if each.session == session_id]
    used = {each.record for each in book.uses if each.session == session_id}
    titles = _titles(root, {each.record for each in mine}) if mine else {}
    return tuple(
        SessionInjection(
            each.at, each.event, each.record, titles.get(each.record, ""), each.tokens, each.record in used
        )
        for each in mine
    )


def _titles(root: Path, names: set[str]) -> dict[str, str]:
    """What records are called, in a line; a session is called by what it was about."""

    def question(connection: sqlite3.Connection) -> dict[str, str]:
        keys = {name: key for name in names if (key := queries.key_of(connection, name)) is not None}
        held = queries.records(connection, list(keys.values()))
        found = {name: held[key].title or held[key].text for name, key in keys.items() if key in held}
        for name in names - found.keys():
            found[name] = stored_sessions.stored_summary(connection, name)
        return {name: _first_line(text) for name, text in found.items()}

    return index.ask(root, question)


def _first_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_LENGTH else f"{line[: _LINE_LENGTH - 1]}…"


# NOTE: How a record came to say what it says: the commits that changed its lines, as git knows them.

MAX_COMMITS = 20
"""Commits that are told, the newest."""
MAX_DIFF_CHARACTERS = 20_000
"""Characters of a commit's difference."""

_BEGIN = "\x01"
_COMMIT_FORMAT = "%x01%H%x00%aI%x00%an%x00%s%x00"


@dataclass(frozen=True, slots=True)
class RecordCommit:
    """A commit that changed a record, and what it changed."""

    commit: str
    at: str
    author: str
    subject: str
    diff: str


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """The commits, the newest first; when there are none, `note` says why."""

    commits: tuple[RecordCommit, ...] = ()
    note: str = ""


def record_history(root: Path, record_id: str) -> RecordHistory:
    """The commits that changed a record's lines; NotFound when there is no such record."""
    record, name, form = locate_record(root, record_id)
    repository = Repository(root)
    if form is Format.LOG:
        return RecordHistory(note="It stands in a log, which stays on this machine.")
    if repository.top is None:
        return RecordHistory(note="This project is in no git repository.")
    before = repository.text(f"HEAD:./{name}")
    if before is None:
        left_out = repository.answer("ls-files", "--others", "--ignored", "--exclude-standard", "--", name)
        return RecordHistory(note=f"Git leaves {name} out." if left_out else f"{name} is not committed yet.")
    lines = _record_lines(root, name, form, before, record.id)
    if lines is None:
        return RecordHistory(note="It is not committed yet.")
    return _line_history(repository, name, lines)


def _record_lines(root: Path, name: str, form: Format, text: str, record_id: str) -> tuple[int, int] | None:
    """The first and last line of a record in a text of its file; None when it is not there."""
    try:
        placed = contents(Source(root / name, name, form), text).records
    except RalphError:
        return None
    starts = sorted({each.line for each in placed})
    own = next((each.line for each in placed if each.record.id == record_id), None)
    if own is None:
        return None
    after = next((line for line in starts if line > own), text.count("\n") + 2)
    rows = text.split("\n")[own - 1 : after - 1]
    while len(rows) > 1 and (not rows[-1].strip() or (rows[-1].startswith("## ") and form is not Format.KNOWLEDGE)):
        rows.pop()
    return own, own + len(rows) - 1


def _line_history(repository: Repository, name: str, lines: tuple[int, int]) -> RecordHistory:
    words = ("log", f"-n{MAX_COMMITS}", f"--format={_COMMIT_FORMAT}", "--no-color", "--no-ext-diff", "--no-textconv")
    ran = repository.ask(*words, f"-L{lines[0]},{lines[1]}:{name}")
    if ran.code != 0:
        return RecordHistory(note=f"Git does not say: {first_line(ran)}")
    return RecordHistory(tuple(_parse_commit(each) for each in ran.out.split(_BEGIN)[1:]))


def _parse_commit(text: str) -> RecordCommit:
    commit, at, author, subject, rest = text.split("\0", 4)
    diff = rest.strip("\n")
    if len(diff) > MAX_DIFF_CHARACTERS:
        diff = diff[:MAX_DIFF_CHARACTERS].rpartition("\n")[0] + "\n... the rest is not shown"
    return RecordCommit(commit, at, author, subject, diff + "\n" if diff else "")
