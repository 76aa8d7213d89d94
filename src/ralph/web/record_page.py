"""A record in full, as the JSON that its page shows.

Citations are checked when the page is opened, as in `ralph doctor --citations`. If git or the graph
fails, that part of the page is empty. The page itself never fails.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import record_lines, tokens
from ralph.core.errors import RalphError
from ralph.core.record import Family, Record, Status
from ralph.learning import evidence, insights, learned
from ralph.memory import quarantine
from ralph.recall import (
    citation_check,
    graph,
    injection_ledger,
    outdated,
    sessions,
    stale_citations,
)
from ralph.recall.injection_ledger import Injection
from ralph.recall.json_shapes import node_json
from ralph.recall.locate import find_record
from ralph.recall.search import timeline
from ralph.search import index, record_ids
from ralph.storage import queries
from ralph.storage.sources import Format
from ralph.web import lists
from ralph.web.lists import one_line
from ralph.web.record_rows import RowMarks, injection_json, record_row

Json = dict[str, Any]

_MAX_SURROUNDING_RECORDS = 4  # shown in the second layer of a record's text
_MAX_INJECTIONS = 200  # the newest ones, for each record
_MAX_NEIGHBOURS = 200
_MAX_TITLE_CHARACTERS = 100
_MAX_HEADING_CHARACTERS = 200
_SPEAKER_TITLES = ("prompt", "answer")  # observation titles that only name the speaker
_BLOCK_MARKERS = (
    "```",
    "~~~",
    "- ",
    "* ",
    "> ",
    "|",
    "#",
    "<",
    "    ",
)
"""Prefixes of lines that start a Markdown block rather than a sentence."""
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
    """Return the actions that are possible for a record stored in a file of this format."""
    if form is Format.INSIGHTS:
        return _insight_actions(record.status)
    if form not in _CURATED:
        if record.status is Status.RETIRED:
            return ()
        return ("promote",)
    if record.status is Status.RETIRED:
        return ("unarchive", "delete")
    return ("edit", "retag", "archive", "delete", "promote")


def _insight_actions(status: Status) -> tuple[str, ...]:
    if status is Status.ACCEPTED:
        return ("reject", "promote")
    if status is insights.REJECTED:
        return ("accept", "promote")
    return ("accept", "reject", "promote")


def record_title(record: Record) -> str:
    """Return the title of a record, or the beginning of its text if it has none."""
    return record.title or one_line(record.text, _MAX_TITLE_CHARACTERS)


def split_heading(title: str, text: str) -> tuple[str, str]:
    """Return a record's heading, and its text without a repetition of that heading."""
    text = text.strip()
    if title and title not in _SPEAKER_TITLES:
        if text == title:
            return title, ""
        return title, text
    heading, _, body = text.partition("\n")
    if len(heading) > _MAX_HEADING_CHARACTERS or heading.startswith(_BLOCK_MARKERS):
        return one_line(text, _MAX_TITLE_CHARACTERS), text
    return heading, body.strip()


class _RecordView(NamedTuple):
    """A record with its file format, its row, and the titles of the records linked to it, by id."""

    record: Record
    form: Format
    row: Json
    titles: Mapping[str, str]


def record_page(root: Path, record_id: str) -> Json:
    """Return everything about one record. Raises NotFound for an unknown id."""
    record, form, row, titles = index.ask(
        root, lambda connection: _view_record(root, connection, record_id)
    )
    is_held = form in _CURATED and not quarantine.injection_filter(root)(record)
    actions = possible_actions(record, form)
    if is_held:
        actions = ("accept", *actions)
    successor = None
    if row["superseded_by"]:
        successor = {
            "id": row["superseded_by"],
            "title": titles.get(row["superseded_by"], ""),
        }
    ledger = lists.read_ledger(root)
    injected, used = injection_ledger.count_uses(ledger).get(record_id, (0, 0))
    injections = [entry for entry in ledger.injections if entry.record == record_id]
    injections = injections[-_MAX_INJECTIONS:]
    session_titles = _session_titles(root, row["session"], injections)
    row["session_title"] = session_titles.get(row["session"], "")
    return {
        "record": row,
        "layers": _text_layers(root, record),
        "superseded_by": successor,
        "evidence": _evidence(root, record),
        "citations": _citations(root, record),
        "given_to": _record_injections(ledger, record_id, injections, session_titles),
        "used": {"given": injected, "used": used},
        "neighbours": _neighbours(root, record_id),
        "actions": actions,
        "held": is_held,
    }


def _view_record(root: Path, connection: sqlite3.Connection, record_id: str) -> _RecordView:
    key, record, location, form = find_record(root, connection, record_id)
    marks = RowMarks(
        stale=stale_citations.citation_notes(root, [record]).get(record.id, ""),
        past=outdated.describe_outdated(connection, [record]).get(record.id, ""),
    )
    task_id = queries.tasks_of(connection, [key]).get(key, "")
    row = record_row(record, location, task_id, marks, full=True)
    linked = {link.target for link in record.links}
    if row["superseded_by"]:
        linked.add(row["superseded_by"])
    titles = {}
    for name, other in graph.records(connection, list(linked)).items():
        titles[name] = record_title(other)
    origin = {
        "agent": record.origin.agent,
        "files": record.origin.files,
        "commit": record.origin.commit,
    }
    row["origin"] = {name: value for name, value in origin.items() if value}
    row["links"] = [
        {"relation": link.relation, "target": link.target, "title": titles.get(link.target, "")}
        for link in record.links
    ]
    return _RecordView(record, form, row, titles)


def _text_layers(root: Path, record: Record) -> Json:
    """Return a record's text as a search shows it in each layer, with token counts."""
    short_id = record_ids.short_ids(root, [record.id]).get(record.id, "")
    around = timeline(root, record.id, limit=_MAX_SURROUNDING_RECORDS).shown
    texts = {
        "line": record_lines.record_line(record, short_id),
        "moment": "\n".join(hit.text for hit in around),
        "full": record_lines.record_details(record),
    }
    layers = {}
    for name, text in texts.items():
        layers[name] = {"text": text, "tokens": tokens.estimate(text + "\n")}
    return layers


def _session_titles(root: Path, session_id: str, injections: Iterable[Injection]) -> dict[str, str]:
    """Return the titles of a record's own session and of the sessions it was injected into."""
    names = {injection.session for injection in injections}
    if session_id:
        names.add(session_id)
    found = sessions.find_all(root, names)
    return {name: lists.session_title(session) for name, session in found.items()}


def _record_injections(
    ledger: injection_ledger.Ledger,
    record_id: str,
    injections: Sequence[Injection],
    session_titles: Mapping[str, str],
) -> list[Json]:
    """Return a record's injections as JSON, newest first."""
    using_sessions = {session for session, used_id in ledger.uses if used_id == record_id}
    rows = []
    for injection in reversed(injections):
        row = injection_json(injection, used=injection.session in using_sessions)
        row["session"] = injection.session
        row["session_title"] = session_titles.get(injection.session, "")
        rows.append(row)
    return rows


def _evidence(root: Path, record: Record) -> list[Json]:
    """Return the records that a memory was learned from, as far as they are still there."""
    lines = evidence.quoted_lines(root, learned.evidence_of(root, record.id))
    return [asdict(line) for line in lines if line.text]


def _citations(root: Path, record: Record) -> list[Json]:
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
            for checked in citation_check.check_record(root, record)
        ]
    return []


def _neighbours(root: Path, record_id: str) -> list[Json]:
    with suppress(RalphError, sqlite3.Error):
        view = graph.show(root, record_id)
        return [
            {
                "relation": edge.relation.value,
                "direction": "out" if edge.source == view.node.id else "in",
                "node": node_json(other),
            }
            for edge, other in view.edges[:_MAX_NEIGHBOURS]
        ]
    return []
