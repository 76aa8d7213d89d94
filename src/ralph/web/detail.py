"""One record, task or session in full: what its page shows, as JSON.

Citations are checked now, as `ralph doctor --citations` does. A failure of git or of the graph leaves that part empty
and never fails the page.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ralph.core import render, tokens
from ralph.core.errors import NotFound, RalphError
from ralph.core.ids import parse_time
from ralph.core.record import Family, Record, Status
from ralph.learning import insights
from ralph.memory import quarantine
from ralph.recall import chat_log, graph, outdated, sessions, usage
from ralph.recall import search as searching
from ralph.recall.json_shapes import node_json
from ralph.recall.usage import Injection
from ralph.search import filters, index
from ralph.storage import files, queries
from ralph.storage import sessions as stored_sessions
from ralph.storage.sources import Format, sources
from ralph.tasks import progress as task_memory
from ralph.tasks import task
from ralph.web import lists
from ralph.web.explore import record_row
from ralph.web.lists import one_line

PAGE_SIZE = 200
_EARLIEST = datetime.min.replace(tzinfo=UTC)
_MOMENTS = 4  # records around one in its text layer 2
_INJECTIONS = 200
_NEIGHBOURS = 200
_TITLE_LENGTH = 100
_LINE_LENGTH = 120
_HEADING_LENGTH = 200
_SPEAKERS = ("prompt", "answer")  # titles of observations that say who spoke
_BLOCKS = (
    "```",
    "~~~",
    "- ",
    "* ",
    "> ",
    "|",
    "#",
    "<",
    "    ",
)  # a line that begins so is no sentence in markdown
_CURATED = (Format.MEMORIES, Format.GUARDRAILS, Format.KNOWLEDGE, Format.PERSONAL)
ACTIONS = (
    "edit",
    "retag",
    "archive",
    "unarchive",
    "delete",
    "promote",
    "accept",
    "reject",
    "supersede",
    "merge",
)


def possible_actions(record: Record, form: Format) -> tuple[str, ...]:
    """Return what can be done with a record that is stored in a file of this format."""
    if form is Format.INSIGHTS:
        judged = {Status.ACCEPTED: ("reject",), insights.REJECTED: ("accept",)}
        return (*judged.get(record.status, ("accept", "reject")), "promote")
    if record.status is Status.RETIRED:
        return ("unarchive", "delete") if form in _CURATED else ()
    return ("edit", "retag", "archive", "delete", "promote") if form in _CURATED else ("promote",)


def _find(
    root: Path, connection: sqlite3.Connection, record_id: str
) -> tuple[int, Record, tuple[str, int], Format]:
    key = queries.key_of(connection, record_id)
    record = queries.records(connection, [key]).get(key) if key is not None else None
    if key is None or record is None:
        raise NotFound(
            f"there is no record {record_id}", hint='`ralph search "words"` shows the ids'
        )
    location = queries.locations(connection, [key])[key]
    form = queries.source_format(connection, location[0])
    if not form:  # an index in memory does not store it
        form = next((each.format for each in sources(root) if each.name == location[0]), Format.LOG)
    return key, record, location, Format(form)


def locate_record(root: Path, record_id: str) -> tuple[Record, str, Format]:
    """Return a record, the name of its file and that file's format; NotFound when there is none."""
    _, record, location, form = index.ask(
        root, lambda connection: _find(root, connection, record_id)
    )
    return record, location[0], form


def record_title(record: Record) -> str:
    """Return the title of a record, or else how its text begins."""
    return record.title or one_line(record.text, _TITLE_LENGTH)


def split_heading(title: str, text: str) -> tuple[str, str]:
    """Return the heading of a record and the text below it, which does not repeat the heading."""
    text = text.strip()
    if title and title not in _SPEAKERS:
        return title, "" if text == title else text
    heading, _, body = text.partition("\n")
    if len(heading) > _HEADING_LENGTH or heading.startswith(_BLOCKS):
        return one_line(text, _TITLE_LENGTH), text
    return heading, body.strip()


def record_page(root: Path, record_id: str) -> dict[str, Any]:
    """Return everything about one record; NotFound when there is none."""

    def question(
        connection: sqlite3.Connection,
    ) -> tuple[Record, Format, dict[str, Any], dict[str, str]]:
        key, record, location, form = _find(root, connection, record_id)
        stale = outdated.citation_notes(root, [record]).get(record.id, "")
        past = outdated.describe_outdated(connection, [record]).get(record.id, "")
        owner = queries.tasks_of(connection, [key]).get(key, "")
        row = record_row(record, location, owner, stale=stale, past=past, full=True)
        linked = {link.target for link in record.links} | {row["superseded_by"]} - {""}
        titles = {
            name: record_title(other)
            for name, other in graph.records(connection, list(linked)).items()
        }
        return record, form, row, titles

    record, form, row, titles = index.ask(root, question)
    around = searching.timeline(root, record.id, limit=_MOMENTS).shown
    layers = {
        "line": render.record_line(record, filters.short_ids(root, [record.id]).get(record.id, "")),
        "moment": "\n".join(each.text for each in around),
        "full": render.record_details(record),
    }
    parts = ((name, getattr(record.origin, name)) for name in ("agent", "files", "commit"))
    row["origin"] = {name: value for name, value in parts if value}
    row["links"] = [
        {"relation": link.relation, "target": link.target, "title": titles.get(link.target, "")}
        for link in record.links
    ]
    newer = row["superseded_by"]
    ledger = lists.read_ledger(root)
    injected, used = usage.count_uses(ledger).get(record_id, (0, 0))
    using = {session for session, record in ledger.uses if record == record_id}
    injections = [each for each in ledger.injections if each.record == record_id][-_INJECTIONS:]
    names = {each.session for each in injections} | {row["session"]} - {""}
    session_titles = {
        name: lists.session_title(each) for name, each in sessions.find_all(root, names).items()
    }
    row["session_title"] = session_titles.get(row["session"], "")
    is_held = form in _CURATED and not quarantine.injectable(root)(record)
    return {
        "record": row,
        "layers": {
            name: {"text": text, "tokens": tokens.estimate(text + "\n")}
            for name, text in layers.items()
        },
        "superseded_by": {"id": newer, "title": titles.get(newer, "")} if newer else None,
        "citations": _citations(root, record),
        "injections": [
            _injection_json(each, each.session in using)
            | {"session": each.session, "session_title": session_titles.get(each.session, "")}
            for each in reversed(injections)
        ],
        "used": {"injected": injected, "used": used},
        "neighbours": _neighbours(root, record_id),
        "actions": (*(("accept",) if is_held else ()), *possible_actions(record, form)),
        "held": is_held,
    }


def _injection_json(injection: Injection, used: bool) -> dict[str, Any]:
    return {"at": injection.at, "event": injection.event, "tokens": injection.tokens, "used": used}


def _citations(root: Path, record: Record) -> list[dict[str, Any]]:
    if record.family is not Family.MEMORY:
        return []
    with suppress(RalphError, OSError):
        return [
            {
                "what": str(each.citation.what),
                "type": each.citation.kind.value,
                "state": each.verdict.value,
            }
            | {"where": each.place, "detail": each.why}
            for each in outdated.check_record(root, record)
        ]
    return []


def _neighbours(root: Path, record_id: str) -> list[dict[str, Any]]:
    with suppress(RalphError, sqlite3.Error):
        node, _, edges = graph.show(root, record_id)
        return [
            {
                "relation": edge.relation.value,
                "direction": "out" if edge.source == node.id else "in",
            }
            | {"node": node_json(other)}
            for edge, other in edges[:_NEIGHBOURS]
        ]
    return []


def task_page(root: Path, task_id: str) -> dict[str, Any]:
    """Return a task with its stories, progress, log, sessions and runs; NotFound when there is none of that id."""
    view = task.show(root, task_id)
    work = view.listed.task
    log = []
    for event in task.log(root, work.id):
        before, arrow, after = event["what"].partition(" -> ")
        states = {"from": before, "to": after} if arrow else {"from": "", "to": event["what"]}
        log.append({"at": event["at"], **states, "by": event["by"], "note": event["note"]})
    return {
        "task": {**lists.task_row(view.listed), "description": work.description},
        "stories": [
            {name: value for name, value in asdict(story).items() if name != "extra"}
            for story in view.stories
        ],
        "progress": readable_progress(
            files.read(task_memory.folder(root, work.id) / "progress.txt") or ""
        ),
        "log": log,
        "sessions": lists.session_rows(root, limit=None, task_id=work.id)[0],
        "runs": lists.run_rows(root, limit=100, task_id=work.id)[0],
        "children": [
            {"id": each.id, "title": each.title, "status": each.status} for each in view.children
        ],
    }


def readable_progress(progress: str) -> str:
    """Return a progress.txt without its markers, and with each field on a line of its own in markdown."""
    lines = [line for line in progress.split("\n") if not line.startswith("[//]: # (ralph: ")]
    return "\n".join(
        f"{line}  " if line.startswith(("Thread: ", "Outcome: ")) else line for line in lines
    )


def session_page(
    root: Path, session_id: str, *, offset: int = 0, limit: int = PAGE_SIZE
) -> dict[str, Any]:
    """Return a session with its messages, one page of its timeline, and its injections; NotFound without one."""
    if not session_id:
        raise NotFound("no session is named", hint="`ralph session list` shows the ids")
    session = sessions.find(root, session_id)
    row = lists.describe_sessions(root, [session])[0]
    history = chat_log.read_history(root, session.id).turns if row["mode"] else ()

    def question(connection: sqlite3.Connection) -> dict[str, Any]:
        keys = queries.observation_keys(connection, session.id, limit + 1, offset)
        records = queries.records(connection, keys)
        locations = queries.locations(connection, keys)
        items: list[dict[str, Any]] = [
            {
                **record_row(records[key], locations[key], ""),
                "at": records[key].created_at,
                "injected": [],
            }
            for key in keys
            if key in records
        ]
        times = [parse_time(item["at"]) or _EARLIEST for item in items]
        earlier: list[dict[str, Any]] = []
        for injection in injected:
            place = bisect_right(times, parse_time(injection["at"]) or _EARLIEST) - 1
            (items[place]["injected"] if place >= 0 else earlier).append(injection)
        return {
            "items": items[:limit],
            "total": session.observations,
            "before": [] if offset else earlier,
        }

    injected = _session_injections(root, session.id)
    return {
        "session": row,
        "summary": session.summary or sessions.summary(root, session.id).text,
        "turns": [
            {"role": turn.by.value, "at": turn.at, "text": turn.text, "tools": turn.tools}
            for turn in history
        ],
        "timeline": index.ask(root, question),
        "injected": injected,
    }


def _session_injections(root: Path, session_id: str) -> list[dict[str, Any]]:
    """Return what was injected into a session, in order; an injected session has its summary as title."""
    ledger = lists.read_ledger(root)
    injections = [each for each in ledger.injections if each.session == session_id]
    used = {record for session, record in ledger.uses if session == session_id}
    names = {each.record for each in injections}

    def question(connection: sqlite3.Connection) -> dict[str, str]:
        texts = {
            name: record.title or record.text
            for name, record in graph.records(connection, list(names)).items()
        }
        for name in names - texts.keys():
            texts[name] = stored_sessions.stored_summary(connection, name)
        return {name: one_line(text, _LINE_LENGTH) for name, text in texts.items()}

    titles = index.ask(root, question) if injections else {}
    return [
        {
            **_injection_json(each, each.record in used),
            "id": each.record,
            "title": titles.get(each.record, ""),
        }
        for each in injections
    ]
