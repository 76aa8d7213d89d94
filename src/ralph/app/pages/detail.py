"""One record, task or session in full: what its page shows, as JSON.

A record comes from the index, with its text layers, citations, injections, graph neighbours, possible actions and git
history. Citations are checked now, as `ralph doctor --citations` does. A failure of git or of the graph leaves that
part empty and never fails the page.
"""

import sqlite3
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any

from ralph.app import chat_log, graph, index, insights, lists, outdated, sessions, usage
from ralph.app.json_shapes import node_json
from ralph.app.pages.explore import RecordRow
from ralph.app.repository import Repository, first_line
from ralph.app.tasks import progress as task_memory
from ralph.app.tasks import task
from ralph.context import render, tokens
from ralph.errors import NotFound, RalphError
from ralph.model.record import Family, Record, Status
from ralph.store import files, lookup, queries
from ralph.store import sessions as stored_sessions
from ralph.store.sources import Format, Source, contents

PAGE_SIZE = 200
"""Entries of a session's timeline on one page."""
MAX_COMMITS = 20
MAX_DIFF_CHARACTERS = 20_000
_NEIGHBOUR_HOPS = 2
_INJECTIONS = 200
_NEIGHBOURS = 200
_TITLE_LENGTH = 100
_LINE_LENGTH = 120
_FORMAT_OF = {
    "insights.json": Format.INSIGHTS,
    "memories.md": Format.MEMORIES,
    "guardrails.md": Format.GUARDRAILS,
    "global-patterns.md": Format.PATTERNS,
    "progress.txt": Format.PROGRESS,
}
"""The format by file name, for an index in memory, which does not store it."""


class Action(StrEnum):
    """What can be done with a record."""

    EDIT = "edit"
    RETAG = "retag"
    ARCHIVE = "archive"
    UNARCHIVE = "unarchive"
    DELETE = "delete"
    PROMOTE = "promote"
    ACCEPT = "accept"
    REJECT = "reject"


def possible_actions(record: Record, form: Format) -> tuple[Action, ...]:
    """Return what can be done with a record that is stored in a file of this format."""
    if form is Format.INSIGHTS:
        judged = {Status.ACCEPTED: (Action.REJECT,), insights.REJECTED: (Action.ACCEPT,)}
        return (*judged.get(record.status, (Action.ACCEPT, Action.REJECT)), Action.PROMOTE)
    if form in (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE):
        if record.status is Status.RETIRED:
            return (Action.UNARCHIVE, Action.DELETE)
        return (Action.EDIT, Action.RETAG, Action.ARCHIVE, Action.DELETE, Action.PROMOTE)
    return () if record.status is Status.RETIRED else (Action.PROMOTE,)


# --- a record --------------------------------------------------------------------------------------


def _find(connection: sqlite3.Connection, record_id: str) -> tuple[int, Record, str, int, Format]:
    key = queries.key_of(connection, record_id)
    record = queries.records(connection, [key]).get(key) if key is not None else None
    if key is None or record is None:
        raise NotFound(f"there is no record {record_id}", hint='`ralph search "words"` shows the ids')
    name, line = queries.locations(connection, [key])[key]
    stored = queries.source_format(connection, name)
    if stored:
        return key, record, name, line, Format(stored)
    usual = Format.LOG if name.endswith(".jsonl") else Format.KNOWLEDGE if "/knowledge/" in name else Format.PROGRESS
    return key, record, name, line, _FORMAT_OF.get(name.rpartition("/")[2], usual)


def locate_record(root: Path, record_id: str) -> tuple[Record, str, Format]:
    """Return a record, the name of its file and that file's format; NotFound when there is none."""
    _, record, name, _, form = index.ask(root, lambda connection: _find(connection, record_id))
    return record, name, form


def record_title(record: Record) -> str:
    """Return the title of a record, or else how its text begins."""
    line = record.title or " ".join(record.text[: 4 * _TITLE_LENGTH].split())
    if record.title or len(line) <= _TITLE_LENGTH:
        return line
    return f"{line[:_TITLE_LENGTH].rpartition(' ')[0] or line[:_TITLE_LENGTH]}…"


def record_page(root: Path, record_id: str) -> dict[str, Any]:
    """Return everything about one record; NotFound when there is none."""

    def question(connection: sqlite3.Connection) -> tuple[Record, Format, dict[str, Any]]:
        key, record, name, line, form = _find(connection, record_id)
        row = RecordRow(
            record,
            name,
            line,
            record.origin.task or queries.tasks_of(connection, [key]).get(key, ""),
            tokens.estimate(record.text),
            stale=outdated.citation_notes(root, [record]).get(record.id, ""),
            outdated=outdated.describe_outdated(connection, [record]).get(record.id, ""),
        )
        near = [neighbour for _, neighbour, _ in lookup.neighbours(connection, [key], _NEIGHBOUR_HOPS)]
        near = near or queries.adjacent_keys(connection, key, record, _NEIGHBOUR_HOPS)
        around = {**queries.records(connection, near), key: record}
        ordered = sorted(around.items(), key=lambda pair: (pair[1].created_at, pair[0]))
        layers = {
            "line": render.record_line(record, None),
            "moment": "\n".join(render.record_moment(each) for _, each in ordered),
            "full": render.record_details(record),
        }
        linked = {link.target for link in record.links} | {row.superseded_by} - {""}
        keys = {name: other for name in linked if (other := queries.key_of(connection, name)) is not None}
        records = queries.records(connection, list(keys.values()))
        titles = {name: record_title(records[other]) for name, other in keys.items() if other in records}
        newer = row.superseded_by
        origin = {"agent": record.origin.agent, "files": record.origin.files, "commit": record.origin.commit}
        return (
            record,
            form,
            {
                "record": {
                    **row.to_json(full=True),
                    "origin": {name: value for name, value in origin.items() if value},
                    "links": [
                        {"relation": link.relation, "target": link.target, "title": titles.get(link.target, "")}
                        for link in record.links
                    ],
                },
                "layers": {
                    name: {"text": text, "tokens": tokens.estimate(text + "\n")} for name, text in layers.items()
                },
                "superseded_by": {"id": newer, "title": titles.get(newer, "")} if newer else None,
            },
        )

    record, form, page = index.ask(root, question)
    ledger = usage.read_ledger(root)
    injected, used = usage.count_uses(ledger).get(record_id, (0, 0))
    return {
        **page,
        "citations": _citations(root, record),
        "injections": _injections(ledger, record_id),
        "used": {"injected": injected, "used": used},
        "neighbours": _neighbours(root, record_id),
        "actions": [action.value for action in possible_actions(record, form)],
    }


def _citations(root: Path, record: Record) -> list[dict[str, Any]]:
    if record.family is not Family.MEMORY:
        return []
    with suppress(RalphError, OSError):
        return [
            {
                "what": str(checked.citation.what),
                "type": checked.citation.kind.value,
                "state": checked.verdict.value,
                "where": checked.place,
                "detail": checked.why,
            }
            for checked in outdated.check_record(root, record)
        ]
    return []


def _injections(ledger: usage.Ledger, record_id: str) -> list[dict[str, Any]]:
    """Return the sessions into which a record was injected, the newest first."""
    used = {use.session for use in ledger.uses if use.record == record_id}
    own = [each for each in ledger.injections if each.record == record_id]
    return [
        {
            "session": each.session,
            "at": each.at,
            "event": each.event,
            "tokens": each.tokens,
            "used": each.session in used,
        }
        for each in reversed(own[-_INJECTIONS:])
    ]


def _neighbours(root: Path, record_id: str) -> list[dict[str, Any]]:
    with suppress(RalphError, sqlite3.Error):
        view = graph.show(root, record_id)
        return [
            {
                "relation": edge.relation.value,
                "direction": "out" if edge.source == view.node.id else "in",
                "node": node_json(other),
            }
            for edge, other in view.edges[:_NEIGHBOURS]
        ]
    return []


def record_history(root: Path, record_id: str) -> dict[str, Any]:
    """Return the commits that changed a record's lines, or a note why there are none; NotFound without a record."""
    record, name, form = locate_record(root, record_id)
    repository = Repository(root)
    note, lines = "", None
    if form is Format.LOG:
        note = "It is stored in a log, which stays on this machine."
    elif repository.top is None:
        note = "This project is in no git repository."
    elif (committed := repository.text(f"HEAD:./{name}")) is None:
        ignored = repository.answer("ls-files", "--others", "--ignored", "--exclude-standard", "--", name)
        note = f"Git ignores {name}." if ignored else f"{name} is not committed yet."
    else:
        lines = _record_lines(root, name, form, committed, record.id)
        note = "" if lines else "It is not committed yet."
    if lines is None:
        return {"items": [], "note": note}
    layout = ("--format=%x01%H%x00%aI%x00%an%x00%s%x00", "--no-color", "--no-ext-diff", "--no-textconv")
    log = repository.ask("log", f"-n{MAX_COMMITS}", *layout, f"-L{lines[0]},{lines[1]}:{name}")
    if log.code != 0:
        return {"items": [], "note": f"Git failed: {first_line(log)}"}
    items = []
    for text in log.out.split("\x01")[1:]:
        commit, at, author, subject, rest = text.split("\0", 4)
        diff = rest.strip("\n")
        if len(diff) > MAX_DIFF_CHARACTERS:
            diff = diff[:MAX_DIFF_CHARACTERS].rpartition("\n")[0] + "\n... the rest is not shown"
        items.append(
            {"commit": commit, "at": at, "author": author, "subject": subject, "diff": diff + "\n" if diff else ""}
        )
    return {"items": items, "note": ""}


def _record_lines(root: Path, name: str, form: Format, text: str, record_id: str) -> tuple[int, int] | None:
    """Return the first and last line of a record in a text of its file; None when it is not there."""
    try:
        placed = contents(Source(root / name, name, form), text).records
    except RalphError:
        return None
    first = next((each.line for each in placed if each.record.id == record_id), None)
    if first is None:
        return None
    end = min((each.line for each in placed if each.line > first), default=text.count("\n") + 2)
    lines = text.split("\n")[first - 1 : end - 1]
    while len(lines) > 1 and (not lines[-1].strip() or (lines[-1].startswith("## ") and form is not Format.KNOWLEDGE)):
        lines.pop()
    return first, first + len(lines) - 1


# --- a task ----------------------------------------------------------------------------------------


def task_page(root: Path, task_id: str) -> dict[str, Any]:
    """Return a task with its stories, progress, log, sessions and runs; NotFound when there is none of that id."""
    view = task.show(root, task_id)
    own = view.listed.task
    log = []
    for event in task.log(root, own.id):
        before, arrow, after = event.what.partition(" -> ")
        states = {"from": before, "to": after} if arrow else {"from": "", "to": event.what}
        log.append({"at": event.at, **states, "by": event.by, "note": event.note})
    return {
        "task": {**asdict(lists.task_row(view.listed)), "description": own.description},
        "stories": [
            {name: value for name, value in asdict(story).items() if name != "extra"} for story in view.stories
        ],
        "progress": readable_progress(files.read(task_memory.folder(root, own.id) / "progress.txt") or ""),
        "log": log,
        "sessions": [asdict(row) for row in lists.session_rows(root, limit=None, task_id=own.id)[0]],
        "runs": [asdict(row) for row in lists.run_rows(root, limit=100, task_id=own.id)[0]],
        "children": [{"id": each.id, "title": each.title, "status": each.status} for each in view.children],
    }


def readable_progress(progress: str) -> str:
    """Return a progress.txt without its markers, and with each field on a line of its own in markdown."""
    lines = [line for line in progress.split("\n") if not line.startswith("[//]: # (ralph: ")]
    return "\n".join(f"{line}  " if line.startswith(("Thread: ", "Outcome: ")) else line for line in lines)


# --- a session -------------------------------------------------------------------------------------


def session_page(root: Path, session_id: str, *, offset: int = 0, limit: int = PAGE_SIZE) -> dict[str, Any]:
    """Return a session with its messages, one page of its timeline, and its injections; NotFound without one."""
    if not session_id:
        raise NotFound("no session is named", hint="`ralph session list` shows the ids")
    session = sessions.find(root, session_id)
    injected = _session_injections(root, session.id)
    spent = sum(each["tokens"] for each in injected)
    row = lists.session_row(session, spent, is_over=lists.is_over(root, session.id))
    history = chat_log.read_history(root, session.id).turns if row.mode else ()

    def question(connection: sqlite3.Connection) -> dict[str, Any]:
        keys = queries.observation_keys(connection, session.id, limit, offset)
        records, locations = queries.records(connection, keys), queries.locations(connection, keys)
        timeline = [
            RecordRow(record, *locations[key], record.origin.task, tokens.estimate(record.text))
            for key in keys
            if (record := records.get(key)) is not None
        ]
        total = stored_sessions.count_observations(connection, session.id)
        return {"items": [{**row.to_json(), "at": row.record.created_at} for row in timeline], "total": total}

    return {
        "session": asdict(row),
        "summary": session.summary or sessions.summary(root, session.id).text,
        "turns": [{"role": turn.by.value, "at": turn.at, "text": turn.text, "tools": turn.tools} for turn in history],
        "timeline": index.ask(root, question),
        "injected": injected,
    }


def _session_injections(root: Path, session_id: str) -> list[dict[str, Any]]:
    """Return what was injected into a session, in order; an injected session has its summary as title."""
    ledger = lists.read_ledger(root)
    own = [each for each in ledger.injections if each.session == session_id]
    used = {each.record for each in ledger.uses if each.session == session_id}
    names = {each.record for each in own}

    def question(connection: sqlite3.Connection) -> dict[str, str]:
        keys = {name: key for name in names if (key := queries.key_of(connection, name)) is not None}
        records = queries.records(connection, list(keys.values()))
        texts = {name: records[key].title or records[key].text for name, key in keys.items() if key in records}
        for name in names - texts.keys():
            texts[name] = stored_sessions.stored_summary(connection, name)
        return {name: one_line(text, _LINE_LENGTH) for name, text in texts.items()}

    titles = index.ask(root, question) if own else {}
    return [
        {
            "at": each.at,
            "event": each.event,
            "id": each.record,
            "title": titles.get(each.record, ""),
            "tokens": each.tokens,
            "used": each.record in used,
        }
        for each in own
    ]


def one_line(text: str, length: int) -> str:
    """Return a text on one line, truncated with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}…"
