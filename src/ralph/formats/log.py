"""Codec of the logs: one JSON object a line, and journal entries as records of them.

A torn line (crash, full disk) is reported and kept, and what can be read on it is read. A journal entry's id is made of
run and iteration, so that writing it again after a crash gives the same id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ralph.errors import Refused
from ralph.formats.json_text import dump_line, read_members
from ralph.formats.text import BOM, Entry, Problem
from ralph.model.record import KINDS, USUAL, Family, Link, Origin, Outcome, Record, Scope, Status
from ralph.model.work import JournalEntry

LENIENT_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
"""For what a host wrote into a log: NaN and Infinity, which only Python accepts, are read as null."""
LOG_VERSION = 1
JOURNAL_PREFIX = "jrn"

_FAMILIES: dict[str, Family] = {family.value: family for family in Family}
_CHOICES: dict[str, dict[str, Status | Scope]] = {
    "status": {status.value: status for status in Status},
    "scope": {scope.value: scope for scope in Scope},
}
_TEXTS = ("text", "label", "title", "created_at", "updated_at", "valid_until")
_RECORD = dict.fromkeys((*_TEXTS, "id", "kind", "status", "scope"), "text")
_RECORD |= {"tags": "texts", "origin": "object", "links": "list", "extra": "object"}
_ORIGIN = dict.fromkeys(("by", "session", "run", "task", "agent", "commit"), "text")
_ORIGIN |= {"iteration": "number", "files": "texts"}
_LINK = {"relation": "text", "target": "text"}
_OPENING = re.compile(r'\{"v": ?[0-9]{1,9}, ?"type": ?"')
_EXTRA_KEYS = ("feature", "model", "duration_secs", "cost_usd")

Value = dict[str, object]
Faults = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LogLine:
    """An object of the log that is no record."""

    type: str
    value: Mapping[str, object]
    start: int
    end: int
    line: int


def _build_record(value: Value, family: Family, faults: Faults) -> Record | None:
    def report(_path: object, name: str, expected: str, _value: object) -> None:
        faults.append(("wrong-type", f"`{name}` should be {expected}"))

    kinds = KINDS[family]
    kind = kinds.get(str(value.get("kind")))
    if not isinstance(value.get("id"), str) or not value["id"]:
        faults.append(("no-id", f"a record of the type {family} needs an `id`"))
        return None
    if kind is None:
        what = f"{value.get('kind')!r:.60} is no kind of {family}; the kinds are {', '.join(kinds)}"
        faults.append(("unknown-kind", what))
        return None
    fields, others = read_members(value, _RECORD, report)
    for key, default in zip(
        ("status", "scope"), USUAL[family][:2], strict=True
    ):  # Ralph itself writes both
        choices = _CHOICES[key]
        if fields.get(key, default) not in choices:
            report((), key, f"one of {', '.join(choices)}", None)
        fields[key] = choices.get(fields.get(key, default), default)
    if "origin" in fields:
        fields["origin"] = Origin(**read_members(fields["origin"], _ORIGIN, report)[0])
    links = [
        read_members(link if isinstance(link, dict) else {}, _LINK, report)[0]
        for link in fields.get("links", ())
    ]
    fields["links"] = tuple(Link(**link) for link in links if len(link) == len(_LINK))
    if len(fields["links"]) != len(links):
        report((), "links", "a list of objects with a relation and a target", None)
    fields |= {"kind": kind, "family": family}
    extra = {
        key: member for key, member in others.items() if key not in ("v", "type")
    }  # another writer's members
    fields["extra"] = extra | fields.get("extra", {})
    fields.setdefault("text", "")
    return Record(**fields)


def _join_line(first: Value, others: Mapping[str, object]) -> str:
    # NUL is escaped in a log: what a tool printed is kept, and no such byte reaches the file.
    head = dump_line(first, nul=True)
    rest = dump_line(others, nul=True, ordered=True)
    return head if rest == "{}\n" else f"{head[:-2]},{rest[1:]}"


def encode_record(record: Record) -> str:
    """The line of one record; the same record always gives the same bytes."""
    kinds = KINDS[record.family]
    if record.kind not in kinds.values() or not record.id:
        what = f"a record of the family {record.family} needs an id and one of the kinds {', '.join(kinds)}"
        raise Refused(what, hint=f"it has the id {record.id!r:.60} and the kind {record.kind!r}")
    members: Value = {key: getattr(record, key) for key in (*_TEXTS, "tags", "extra")}
    origin = {key: getattr(record.origin, key) for key in _ORIGIN}
    members["origin"] = {key: member for key, member in origin.items() if member or member == 0}
    members["links"] = [{"relation": link.relation, "target": link.target} for link in record.links]
    members |= {"scope": record.scope.value, "status": record.status.value}
    first: Value = {
        "v": LOG_VERSION,
        "type": record.family.value,
        "id": record.id,
        "kind": record.kind.value,
    }
    return _join_line(first, {key: value for key, value in members.items() if value})


def encode_line(line_type: str, value: Mapping[str, object]) -> str:
    """The line of something that is no record: a session, an injection."""
    if line_type in _FAMILIES or not line_type or "v" in value or "type" in value:
        hint = "records are written with `encode_record`; `v` and `type` are set here"
        raise Refused(f"this cannot be a log line of the type {line_type!r:.60}", hint=hint)
    return _join_line({"v": LOG_VERSION, "type": line_type}, value)


def put_record(text: str, record: Record) -> str:
    """The log with this record last, and without older ones of its id."""
    for entry in reversed(parse_log(text).entries):
        if entry.record.id == record.id:
            text = text[: entry.start] + text[entry.end :].removeprefix("\n")
    return join_lines(text, encode_record(record))


def join_lines(text: str, lines: str) -> str:
    """The log with these lines at its end; a torn line before them is closed."""
    return text + ("" if text in ("", BOM) or text.endswith("\n") else "\n") + lines


def _read_object(line: str) -> tuple[int, Value | None]:
    """Where the object on a line begins; half a line of a crash may be before it."""
    start = int(line.startswith(BOM))
    while start < len(line):
        with suppress(ValueError, RecursionError):  # also: a number too long for Python
            value = LENIENT_DECODER.decode(line[start:])
            if isinstance(value, dict):
                return start, value
        *_, start = (
            len(line),
            *(opening.start() for opening in _OPENING.finditer(line, start + 1)),
        )
    return len(line), None


@dataclass(slots=True)
class LogDocument:
    """Records, other lines, and the spans of torn lines."""

    text: str
    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    torn: list[tuple[int, int]] = field(default_factory=list)

    def __str__(self) -> str:
        return self.text


def parse_log(text: str) -> LogDocument:
    """Parse a log; of a torn line what can be read."""
    document = LogDocument(text)
    ids: set[str] = set()
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        start, value = _read_object(line)
        if line[:start].strip(BOM + " \t\r"):
            document.torn.append((at, at + start))
            hint = "a crash or a full disk left it; it is kept, and the lines after it are read"
            what = f"half a line, or no JSON object: {line[: min(start, 40)]!r}"
            document.problems.append(Problem(number, what, hint, "error", "torn-line"))
        if value is not None:
            _take_object(document, value, (at + start, at + len(line.rstrip()), number), ids)
        at += len(line) + 1
    return document


def _take_object(
    document: LogDocument, value: Value, span: tuple[int, int, int], ids: set[str]
) -> None:
    faults: Faults = []
    record = None
    line_type = value.get("type")
    version = value.get("v", 0)
    if type(version) is not int or not isinstance(line_type, str):
        faults.append(
            ("wrong-type", "a line needs a `type` that is text and a `v` that is a whole number")
        )
    elif version > LOG_VERSION:
        what = f"version {version} is newer than {LOG_VERSION}, the newest that this Ralph knows"
        document.problems.append(
            Problem(span[2], what, "update Ralph to read this line", "note", "newer-version")
        )
    elif line_type in _FAMILIES:
        record = _build_record(value, _FAMILIES[line_type], faults)
    read, level = ("used", "warning") if record is not None else ("read", "error")
    for code, what in faults:
        document.problems.append(Problem(span[2], what, f"it is kept but not {read}", level, code))
    if record is None:
        document.lines.append(
            LogLine(line_type if isinstance(line_type, str) else "", value, *span)
        )
        return
    document.entries.append(Entry(record, *span))
    if record.id in ids:
        what = f"a second record has the id {record.id}"
        hint = "both are read; `forget` removes both"
        document.problems.append(Problem(span[2], what, hint, "warning", "duplicate-id"))
    ids.add(record.id)


def journal_id(run: str, iteration: int) -> str:
    """The id of the entry for an iteration of a run."""
    return f"{JOURNAL_PREFIX}-{run}-{iteration}"


def is_journal_entry(record: Record) -> bool:
    """Whether a record is an iteration's; the label `run` marks a run's summary."""
    is_iteration = bool(record.origin.run) and record.origin.iteration is not None
    return record.family is Family.JOURNAL and record.label != "run" and is_iteration


def journal_record(entry: JournalEntry) -> Record:
    """The entry as a record; members with the name of one of ours are left out."""
    values = (
        entry.feature,
        entry.model,
        _finite_number(entry.duration),
        _finite_number(entry.cost),
    )
    extra: dict[str, object] = {
        name: value for name, value in zip(_EXTRA_KEYS, values, strict=True) if value
    }
    extra |= {name: value for name, value in entry.extra.items() if name not in _EXTRA_KEYS}
    return Record(
        journal_id(entry.run, entry.iteration),
        entry.outcome,
        entry.notes,
        Family.JOURNAL,
        title=entry.title,
        scope=Scope.RUN,
        origin=Origin(
            "agent", entry.session, entry.run, entry.iteration, entry.task, entry.agent, entry.files
        ),
        created_at=entry.created_at,
        extra=extra,
    )


def journal_entry(record: Record) -> JournalEntry:
    """The entry that a record of the journal holds; see `is_journal_entry`."""
    origin = record.origin
    extra = record.extra
    if not isinstance(record.kind, Outcome):
        raise TypeError(f"{record.id} is no record of the journal")
    feature, model, duration, cost = (extra.get(name) for name in _EXTRA_KEYS)
    return JournalEntry(
        origin.run,
        origin.iteration or 0,
        record.kind,
        origin.task,
        record.title,
        feature if isinstance(feature, str) else "",
        origin.agent,
        model if isinstance(model, str) else "",
        _finite_number(duration),
        _finite_number(cost),
        origin.files,
        record.text,
        record.created_at,
        origin.session,
        {name: value for name, value in extra.items() if name not in _EXTRA_KEYS},
    )


def _finite_number(value: object) -> float:
    # an agent's own count of its cost may be anything, also a whole number that is larger than a float can be
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else 0.0
