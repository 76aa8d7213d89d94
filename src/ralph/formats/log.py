"""The codec for logs, which hold one JSON object per line, including the journal's records.

A torn line, left incomplete by a crash or a full disk, is reported and kept, and whatever can be
read from it is read. The id of a journal entry is made up of its run and iteration, so writing the
entry again after a crash gives the same id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ralph.core.errors import Refused
from ralph.core.json_text import dump_line, read_members
from ralph.core.record import KINDS, USUAL, Family, Link, Origin, Outcome, Record, Scope, Status
from ralph.core.text import BOM, Entry, Problem
from ralph.core.work import JournalEntry

LOG_VERSION = 1
JOURNAL_PREFIX = "jrn"

# A host may write NaN or Infinity to a log, which only Python accepts. They are read as null.
_LENIENT_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
_MAX_SHOWN_VALUE = 60  # characters of a value that a problem shows
_MAX_SHOWN_LINE = 40  # characters of a torn line that a problem shows
_MAX_NUMBER = 1e300  # a larger number may not fit into a float
_FAMILIES: dict[str, Family] = {family.value: family for family in Family}
_STATUSES: dict[str, Status] = {status.value: status for status in Status}
_SCOPES: dict[str, Scope] = {scope.value: scope for scope in Scope}
_TEXTS = ("text", "label", "title", "created_at", "updated_at", "valid_until")
_RECORD = {
    **dict.fromkeys((*_TEXTS, "id", "kind", "status", "scope"), "text"),
    "tags": "texts",
    "origin": "object",
    "links": "list",
    "extra": "object",
}
_ORIGIN = {
    **dict.fromkeys(("by", "session", "run", "task", "agent", "commit"), "text"),
    "iteration": "number",
    "files": "texts",
}
_LINK = {"relation": "text", "target": "text"}
_LINE_START = re.compile(r'\{"v": ?[0-9]{1,9}, ?"type": ?"')
_JOURNAL_EXTRA = ("feature", "model", "duration_secs", "cost_usd")

Value = dict[str, object]


class _Fault(NamedTuple):
    code: str
    what: str


class _Span(NamedTuple):
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class LogLine:
    """An object in the log that is not a record."""

    type: str
    value: Mapping[str, object]
    start: int
    end: int
    line: int


@dataclass(slots=True)
class LogDocument:
    """A parsed log, with its records, its other lines, and the spans of torn lines."""

    text: str
    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    torn: list[tuple[int, int]] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text


# --- reading -----------------------------------------------------------------------------------


def parse_log(text: str) -> LogDocument:
    """Parse a log. Whatever can be read from a torn line is read."""
    document = LogDocument(text)
    ids: set[str] = set()
    position = 0
    for number, line in enumerate(text.split("\n"), 1):
        start, value = _read_object(line)
        if line[:start].strip(BOM + " \t\r"):
            document.torn.append((position, position + start))
            document.problems.append(
                Problem(
                    number,
                    f"half a line, or not a JSON object: {line[: min(start, _MAX_SHOWN_LINE)]!r}",
                    "a crash or a full disk left it; it is kept, and the lines after it are read",
                    "error",
                    "torn-line",
                )
            )
        if value is not None:
            span = _Span(position + start, position + len(line.rstrip()), number)
            _take_object(document, value, span, ids)
        position += len(line) + 1
    return document


def _read_object(line: str) -> tuple[int, Value | None]:
    """Return where the object on a line starts, and the object, or None if there is none.

    After a crash, part of another line may precede it.
    """
    start = len(BOM) if line.startswith(BOM) else 0
    while start < len(line):
        with suppress(ValueError, RecursionError):  # including a number too long for Python
            value = _LENIENT_DECODER.decode(line[start:])
            if isinstance(value, dict):
                return start, value
        starts = [match.start() for match in _LINE_START.finditer(line, start + 1)]
        start = starts[-1] if starts else len(line)
    return len(line), None


def _take_object(document: LogDocument, value: Value, span: _Span, ids: set[str]) -> None:
    """Add an object to the records or the other lines, and report what is wrong with it."""
    faults: list[_Fault] = []
    record: Record | None = None
    line_type = value.get("type")
    version = value.get("v", 0)
    if type(version) is not int or not isinstance(line_type, str):
        faults.append(
            _Fault("wrong-type", "a line needs a text as `type` and a whole number as `v`")
        )
    elif version > LOG_VERSION:
        what = f"version {version} is newer than {LOG_VERSION}, the newest that this Ralph reads"
        document.problems.append(
            Problem(span.line, what, "update Ralph to read this line", "note", "newer-version")
        )
    elif line_type in _FAMILIES:
        record = _build_record(value, _FAMILIES[line_type], faults)
    for fault in faults:
        document.problems.append(_fault_problem(fault, span.line, is_read=record is not None))
    if record is None:
        known_type = line_type if isinstance(line_type, str) else ""
        document.lines.append(LogLine(known_type, value, span.start, span.end, span.line))
        return
    document.entries.append(Entry(record, span.start, span.end, span.line))
    if record.id in ids:
        what = f"a second record has the id {record.id}"
        hint = "both are read; `forget` removes both"
        document.problems.append(Problem(span.line, what, hint, "warning", "duplicate-id"))
    ids.add(record.id)


def _fault_problem(fault: _Fault, line: int, *, is_read: bool) -> Problem:
    if is_read:
        return Problem(line, fault.what, "it is kept but not used", "warning", fault.code)
    return Problem(line, fault.what, "it is kept but not read", "error", fault.code)


def _build_record(value: Value, family: Family, faults: list[_Fault]) -> Record | None:
    """Build a record from an object. If it has no id or kind, add a fault and return None."""

    def report(_path: object, name: str, expected: str, _value: object) -> None:
        faults.append(_Fault("wrong-type", f"`{name}` should be {expected}"))

    kinds = KINDS[family]
    kind = kinds.get(str(value.get("kind")))
    if not isinstance(value.get("id"), str) or not value["id"]:
        faults.append(_Fault("no-id", f"a record of the type {family} needs an `id`"))
        return None
    if kind is None:
        shown = repr(value.get("kind"))[:_MAX_SHOWN_VALUE]
        what = f"{shown} is not a kind of {family}; the kinds are {', '.join(kinds)}"
        faults.append(_Fault("unknown-kind", what))
        return None
    fields, others = read_members(value, _RECORD, report)
    usual_status, usual_scope, _ = USUAL[family]
    status = fields.pop("status", usual_status)
    if status not in _STATUSES:
        report((), "status", f"one of {', '.join(_STATUSES)}", None)
    scope = fields.pop("scope", usual_scope)
    if scope not in _SCOPES:
        report((), "scope", f"one of {', '.join(_SCOPES)}", None)
    origin = Origin()
    if "origin" in fields:
        origin_fields, _ = read_members(fields.pop("origin"), _ORIGIN, report)
        origin = Origin(**origin_fields)
    links: list[Link] = []
    stated_links = fields.pop("links", ())
    for stated in stated_links:
        link, _ = read_members(stated if isinstance(stated, dict) else {}, _LINK, report)
        if len(link) == len(_LINK):
            links.append(Link(**link))
    if len(links) != len(stated_links):
        report((), "links", "a list of objects with a relation and a target", None)
    # Members written by other programs are kept in `extra`.
    extra = {key: member for key, member in others.items() if key not in ("v", "type")}
    extra |= fields.pop("extra", {})
    del fields["kind"]
    return Record(
        kind=kind,
        text=fields.pop("text", ""),
        family=family,
        status=_STATUSES.get(status, usual_status),
        scope=_SCOPES.get(scope, usual_scope),
        origin=origin,
        links=tuple(links),
        extra=extra,
        **fields,
    )


# --- writing -----------------------------------------------------------------------------------


def encode_record(record: Record) -> str:
    """Return a record as a log line. The same record always gives the same bytes.

    Raises Refused if the record has no id, or if its kind belongs to another family.
    """
    kinds = KINDS[record.family]
    if record.kind not in kinds.values() or not record.id:
        shown_id = repr(record.id)[:_MAX_SHOWN_VALUE]
        raise Refused(
            f"a record of the family {record.family} needs an id "
            f"and one of the kinds {', '.join(kinds)}",
            hint=f"it has the id {shown_id} and the kind {record.kind!r}",
        )
    members: Value = {key: getattr(record, key) for key in (*_TEXTS, "tags", "extra")}
    origin: Value = {}
    for key in _ORIGIN:
        member = getattr(record.origin, key)
        if member or member == 0:
            origin[key] = member
    members["origin"] = origin
    members["links"] = [{"relation": link.relation, "target": link.target} for link in record.links]
    members["scope"] = record.scope.value
    members["status"] = record.status.value
    first: Value = {
        "v": LOG_VERSION,
        "type": record.family.value,
        "id": record.id,
        "kind": record.kind.value,
    }
    return _join_line(first, {key: value for key, value in members.items() if value})


def encode_line(line_type: str, value: Mapping[str, object]) -> str:
    """Return the log line for an object that is not a record, such as a session or an injection.

    Raises Refused if the type is reserved for records, or if the value sets `v` or `type`.
    """
    if line_type in _FAMILIES or not line_type or "v" in value or "type" in value:
        shown_type = repr(line_type)[:_MAX_SHOWN_VALUE]
        raise Refused(
            f"this cannot be a log line of the type {shown_type}",
            hint="records are written with `encode_record`; `v` and `type` are set here",
        )
    return _join_line({"v": LOG_VERSION, "type": line_type}, value)


def _join_line(first: Value, others: Mapping[str, object]) -> str:
    # NUL is escaped, so tool output is kept without such a byte ending up in the file.
    head = dump_line(first, nul=True)
    rest = dump_line(others, nul=True, ordered=True)
    if rest == "{}\n":
        return head
    open_head = head.removesuffix("}\n")
    return f"{open_head},{rest.removeprefix('{')}"


def put_record(text: str, record: Record) -> str:
    """Return the log with this record at the end, and without older records with the same id."""
    for entry in reversed(parse_log(text).entries):
        if entry.record.id == record.id:
            text = text[: entry.start] + text[entry.end :].removeprefix("\n")
    return join_lines(text, encode_record(record))


def join_lines(text: str, lines: str) -> str:
    """Append lines to a log. After a torn line, they start on a new line."""
    if text in ("", BOM) or text.endswith("\n"):
        return text + lines
    return f"{text}\n{lines}"


# --- the journal -------------------------------------------------------------------------------


def journal_id(run: str, iteration: int) -> str:
    """Return the id of the journal entry for one iteration of a run."""
    return f"{JOURNAL_PREFIX}-{run}-{iteration}"


def is_journal_entry(record: Record) -> bool:
    """Return whether a record describes an iteration.

    The summary of a run, marked by the label `run`, does not.
    """
    is_iteration = bool(record.origin.run) and record.origin.iteration is not None
    return record.family is Family.JOURNAL and record.label != "run" and is_iteration


def journal_record(entry: JournalEntry) -> Record:
    """Convert a journal entry to a record. Extra members named like a field are left out."""
    values = (
        entry.feature,
        entry.model,
        _finite_number(entry.duration),
        _finite_number(entry.cost),
    )
    extra: dict[str, object] = {}
    for name, value in zip(_JOURNAL_EXTRA, values, strict=True):
        if value:
            extra[name] = value
    extra |= {name: value for name, value in entry.extra.items() if name not in _JOURNAL_EXTRA}
    return Record(
        journal_id(entry.run, entry.iteration),
        entry.outcome,
        entry.notes,
        Family.JOURNAL,
        title=entry.title,
        scope=Scope.RUN,
        origin=Origin(
            by="agent",
            session=entry.session,
            run=entry.run,
            iteration=entry.iteration,
            task=entry.task,
            agent=entry.agent,
            files=entry.files,
        ),
        created_at=entry.created_at,
        extra=extra,
    )


def journal_entry(record: Record) -> JournalEntry:
    """Convert a record for which `is_journal_entry` is true back to a journal entry.

    Raises TypeError if the record does not belong to the journal.
    """
    if not isinstance(record.kind, Outcome):
        raise TypeError(f"{record.id} is not a record of the journal")
    origin = record.origin
    feature, model, duration, cost = [record.extra.get(name) for name in _JOURNAL_EXTRA]
    others = {name: value for name, value in record.extra.items() if name not in _JOURNAL_EXTRA}
    return JournalEntry(
        run=origin.run,
        iteration=origin.iteration or 0,
        outcome=record.kind,
        task=origin.task,
        title=record.title,
        feature=feature if isinstance(feature, str) else "",
        agent=origin.agent,
        model=model if isinstance(model, str) else "",
        duration=_finite_number(duration),
        cost=_finite_number(cost),
        files=origin.files,
        notes=record.text,
        created_at=record.created_at,
        session=origin.session,
        extra=others,
    )


def _finite_number(value: object) -> float:
    # Agents report their own cost, which may be anything, even an integer too large for a float.
    if isinstance(value, int | float) and abs(value) < _MAX_NUMBER:
        return float(value)
    return 0.0
