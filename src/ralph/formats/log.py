"""Codec of the logs: one JSON object a line, and journal entries as records of them.

A torn line (crash, full disk) is reported and kept, and whatever can be read on it is read. An
object with a newer version is kept unread. A journal entry's id is made of run and iteration, so
that writing it again after a crash gives the same id.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from ralph.errors import Refused
from ralph.formats.json_text import dump_line, skip_blanks
from ralph.formats.text import BOM, Entry, Problem
from ralph.model.record import (
    NOWHERE,
    Family,
    Link,
    MemoryKind,
    ObservationKind,
    Origin,
    Outcome,
    Record,
    Scope,
    Status,
)
from ralph.model.work import JournalEntry

LENIENT_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
"""For what a host wrote into a log: NaN and Infinity, which only Python accepts, are read as null."""
LOG_VERSION = 1
JOURNAL_PREFIX = "jrn"

_KINDS: dict[Family, dict[str, MemoryKind | ObservationKind | Outcome]] = {
    Family.MEMORY: {kind.value: kind for kind in MemoryKind},
    Family.OBSERVATION: {kind.value: kind for kind in ObservationKind},
    Family.JOURNAL: {kind.value: kind for kind in Outcome},
}
_FAMILIES: dict[object, Family] = {family.value: family for family in Family}
_DEFAULTS = {  # status and scope of a line without them; Ralph always writes both
    Family.MEMORY: (Status.ACCEPTED, Scope.PROJECT),
    Family.OBSERVATION: (Status.RAW, Scope.SESSION),
    Family.JOURNAL: (Status.ACCEPTED, Scope.RUN),
}
_ORIGIN_KEYS = sorted(Origin.__dataclass_fields__)
_KEYS = {"v", "type", *(Record.__dataclass_fields__)} - {"family"}
_BLANK = " \t\r"
_OPENING = re.compile(r'\{"v": ?[0-9]{1,9}, ?"type": ?"')
_READ_LIMIT = 32  # a broken line is searched for objects up to so many times its length
_LARGEST = 1e300  # somebody's whole number may be larger than a float can be
_EXTRA_KEYS = ("feature", "model", "duration_secs", "cost_usd")

Value = dict[str, object]
Faults = list[tuple[str, str]]
"""What is wrong with a line: the code of the Problem, and its text."""
Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class LogLine:
    """An object of the log that is not read as a record: its type, members and position."""

    type: str
    value: Mapping[str, object]
    start: int
    end: int
    line: int


# --- one record --------------------------------------------------------------------------------


def _text_member(value: Value, key: str, faults: Faults) -> str:
    member = value.get(key, "")
    if type(member) is str:
        return member
    if member is not None:
        faults.append(("wrong-type", f"`{key}` should be text"))
    return ""


def _texts_member(value: Value, key: str, faults: Faults) -> tuple[str, ...]:
    member = value.get(key)
    if member is None:
        return ()
    items = member if isinstance(member, list) else [None]
    texts = tuple(item for item in items if isinstance(item, str))
    if len(texts) != len(items):
        faults.append(("wrong-type", f"`{key}` should be a list of texts"))
    return texts


def _choice_member(value: Value, key: str, default: Choice, faults: Faults) -> Choice:
    member, choices = value.get(key), type(default)
    try:
        return default if member is None else choices(str(member))
    except ValueError:
        faults.append(("wrong-type", f"`{key}` should be one of {', '.join(choices)}"))
        return default


def _build_origin(member: object, faults: Faults) -> Origin:
    if not isinstance(member, dict):
        faults.append(("wrong-type", "`origin` should be an object"))
        return NOWHERE
    iteration = member.get("iteration")
    if iteration is not None and type(iteration) is not int:
        faults.append(("wrong-type", "`iteration` should be a whole number"))
        iteration = None
    by, session, run, task, agent, commit = (
        _text_member(member, key, faults) for key in ("by", "session", "run", "task", "agent", "commit")
    )
    return Origin(by, session, run, iteration, task, agent, _texts_member(member, "files", faults), commit)


def _build_links(member: object, faults: Faults) -> tuple[Link, ...]:
    links = []
    for pair in member if isinstance(member, list) else [member]:
        relation, target = (pair.get("relation"), pair.get("target")) if isinstance(pair, dict) else (None, None)
        if isinstance(relation, str) and isinstance(target, str):
            links.append(Link(relation, target))
        else:
            faults.append(("wrong-type", "`links` should be a list of objects with a relation and a target"))
    return tuple(links)


def _build_record(value: Value, family: Family, faults: Faults) -> Record | None:
    """The record of a line, or None when `faults` has what makes it unreadable."""
    name = value.get("id")
    kinds = _KINDS[family]
    kind = kinds.get(str(value.get("kind")))
    if type(name) is not str or not name:
        faults.append(("no-id", f"a record of the type {family} needs an `id`"))
        return None
    if kind is None:
        what = f"{value.get('kind')!r:.60} is no kind of {family}; the kinds are {', '.join(kinds)}"
        faults.append(("unknown-kind", what))
        return None
    extra = {key: member for key, member in value.items() if key not in _KEYS}  # another writer's members
    inner = value.get("extra")
    if isinstance(inner, dict):
        extra |= inner
    elif inner is not None:
        faults.append(("wrong-type", "`extra` should be an object"))
    status, scope = _DEFAULTS[family]
    return Record(
        name,
        kind,
        _text_member(value, "text", faults),
        family,
        _text_member(value, "label", faults),
        _text_member(value, "title", faults),
        _texts_member(value, "tags", faults),
        _choice_member(value, "status", status, faults),
        _choice_member(value, "scope", scope, faults),
        _build_origin(value["origin"], faults) if value.get("origin") is not None else NOWHERE,
        _text_member(value, "created_at", faults),
        _text_member(value, "updated_at", faults),
        _text_member(value, "valid_until", faults),
        _build_links(value["links"], faults) if value.get("links") is not None else (),
        extra,
    )


def _join_line(first: Value, others: Mapping[str, object]) -> str:
    """One line: some members in front, the others in alphabetical order at every depth."""
    # NUL is escaped in a log: what a tool printed is kept, and no such byte reaches the file.
    head, rest = dump_line(first, nul=True), dump_line(others, nul=True, ordered=True)
    return head if rest == "{}\n" else f"{head[:-2]},{rest[1:]}"


def encode_record(record: Record) -> str:
    """The line of one record, with its line end; the same record always gives the same bytes."""
    if record.kind not in _KINDS[record.family].values() or not record.id:
        raise Refused(
            f"a record of the family {record.family} needs an id and one of the kinds "
            f"{', '.join(_KINDS[record.family])}",
            hint=f"it has the id {record.id!r:.60} and the kind {record.kind!r}",
        )
    origin = {key: getattr(record.origin, key) for key in _ORIGIN_KEYS}
    members: Value = {
        "created_at": record.created_at,
        "extra": record.extra,
        "label": record.label,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
        "origin": {key: member for key, member in origin.items() if member or member == 0},
        "scope": record.scope.value,
        "status": record.status.value,
        "tags": record.tags,
        "text": record.text,
        "title": record.title,
        "updated_at": record.updated_at,
        "valid_until": record.valid_until,
    }
    first: Value = {"v": LOG_VERSION, "type": record.family.value, "id": record.id, "kind": record.kind.value}
    return _join_line(first, {key: value for key, value in members.items() if value})


def encode_line(line_type: str, value: Mapping[str, object]) -> str:
    """The line of something that is no record: a session, an injection."""
    if line_type in _FAMILIES or not line_type or "v" in value or "type" in value:
        hint = "records are written with `encode_record`; `v` and `type` are set here"
        raise Refused(f"this cannot be a log line of the type {line_type!r:.60}", hint=hint)
    return _join_line({"v": LOG_VERSION, "type": line_type}, value)


def put_record(text: str, record: Record) -> str:
    """The log with this record on a new last line, and without older ones with its id."""
    for entry in reversed(parse_log(text).entries):
        if entry.record.id == record.id:
            text = text[: entry.start] + text[entry.end :].removeprefix("\n")
    ended = text in ("", BOM) or text.endswith("\n")
    return text + ("" if ended else "\n") + encode_record(record)


# --- the log -----------------------------------------------------------------------------------


def _object_at(line: str, place: int) -> tuple[Value | None, int]:
    """The object that begins here and its end, or None and how far the decoder came."""
    if not line.startswith("{", place):
        return None, place
    try:
        value, end = LENIENT_DECODER.raw_decode(line, place)
    except json.JSONDecodeError as error:
        return None, error.pos
    except (ValueError, RecursionError):  # a number too long for Python, or nested too deeply
        return None, len(line)
    return value, end


def _pieces(line: str) -> Iterator[tuple[int, int, Value | None]]:
    """The objects of a line that is not just one object, and the fragments (None) before and between them."""
    place = 1 if line.startswith(BOM) else 0
    budget = _READ_LIMIT * len(line)
    while (place := skip_blanks(line, place)) < len(line):
        start = place
        value, end = _object_at(line, start)
        while value is None and start < len(line):  # a fragment, up to the next object that can be read
            budget -= end - start + end // 64  # the second part is what an error costs: it counts lines
            opening = _OPENING.search(line, start + 1) if budget > 0 else None
            start = opening.start() if opening else len(line)
            value, end = _object_at(line, start)
        if start > place:
            yield place, start, None
        if value is not None:
            yield start, end, value
        place = max(start, end)


@dataclass(slots=True)
class LogDocument:
    """A log: its records, its other lines, and the spans of torn lines."""

    text: str
    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    lines: list[LogLine] = field(default_factory=list)
    torn: list[tuple[int, int]] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return self.text

    def _report(self, number: int, what: str, hint: str, level: str, code: str) -> None:
        self.problems.append(Problem(number, what, hint, level, code))

    def take_object(self, value: Value, start: int, end: int, number: int) -> None:
        """Read one object of the log."""
        faults: Faults = []
        line_type, version = value.get("type"), value.get("v", 0)
        family = _FAMILIES.get(line_type) if isinstance(line_type, str) else None
        if type(version) is not int or not isinstance(line_type, str):
            faults.append(("wrong-type", "a line needs a `type` that is text and a `v` that is a whole number"))
        elif version > LOG_VERSION:
            what = f"version {version} is newer than {LOG_VERSION}, the newest that this Ralph knows"
            self._report(number, what, "update Ralph to read this line", "note", "newer-version")
        elif family is not None:
            record = _build_record(value, family, faults)
            if record is not None:
                self.entries.append(Entry(record, start, end, number))
                for code, what in faults:
                    self._report(number, what, "the value is kept but not used", "warning", code)
                if record.id in self._ids:
                    hint = "both are read; `forget` removes both"
                    self._report(number, f"a second record has the id {record.id}", hint, "warning", "duplicate-id")
                self._ids.add(record.id)
                return
        for code, what in faults:
            self._report(number, what, "the line is kept but not read", "error", code)
        self.lines.append(LogLine(line_type if isinstance(line_type, str) else "", value, start, end, number))

    def take_pieces(self, line: str, at: int, number: int) -> None:
        """Read what can be read of a line that is not just one object, and report the rest."""
        objects = 0
        for start, end, value in _pieces(line):
            if value is not None:
                objects += 1
                self.take_object(value, at + start, at + end, number)
                continue
            self.torn.append((at + start, at + end))
            what = f"half a line, or no JSON object: {line[start : min(end, start + 40)]!r}"
            hint = "a crash or a full disk left it; it is kept, and the lines after it are read"
            self._report(number, what, hint, "error", "torn-line")
        if objects > 1:
            hint = "both are read; a line end got lost between them"
            self._report(number, f"{objects} objects on one line", hint, "warning", "torn-line")


def parse_log(text: str) -> LogDocument:
    """Parse a log."""
    document = LogDocument(text)
    decode_at = LENIENT_DECODER.raw_decode
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line:
            try:
                value, end = decode_at(line) if line[0] == "{" else (None, 0)
            except (ValueError, RecursionError):
                value, end = None, 0
            if value is not None and (end == len(line) or not line[end:].strip(_BLANK)):
                document.take_object(value, at, at + end, number)
            else:
                document.take_pieces(line, at, number)
        at += len(line) + 1
    return document


# --- journal entries ---------------------------------------------------------------------------


def journal_id(run: str, iteration: int) -> str:
    """The id of the entry for an iteration of a run."""
    return f"{JOURNAL_PREFIX}-{run}-{iteration}"


def is_journal_entry(record: Record) -> bool:
    """Whether a record is how one iteration of a run ended; the label `run` marks the summary of a run."""
    origin = record.origin
    return (
        record.family is Family.JOURNAL and record.label != "run" and bool(origin.run) and origin.iteration is not None
    )


def journal_record(entry: JournalEntry) -> Record:
    """The entry as a record; further members that have the name of one of ours are left out."""
    values = (entry.feature, entry.model, _finite_number(entry.duration), _finite_number(entry.cost))
    extra: dict[str, object] = {name: value for name, value in zip(_EXTRA_KEYS, values, strict=True) if value}
    extra |= {name: value for name, value in entry.extra.items() if name not in _EXTRA_KEYS}
    return Record(
        journal_id(entry.run, entry.iteration),
        entry.outcome,
        entry.notes,
        Family.JOURNAL,
        title=entry.title,
        scope=Scope.RUN,
        origin=Origin("agent", entry.session, entry.run, entry.iteration, entry.task, entry.agent, entry.files),
        created_at=entry.created_at,
        extra=extra,
    )


def journal_entry(record: Record) -> JournalEntry:
    """The entry that a record of the journal holds; see `is_journal_entry`."""
    origin, extra = record.origin, record.extra
    if not isinstance(record.kind, Outcome):
        raise TypeError(f"{record.id} is no record of the journal")
    feature, model, duration, cost = (extra.get(name) for name in _EXTRA_KEYS)
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
        extra={name: value for name, value in extra.items() if name not in _EXTRA_KEYS},
    )


def _finite_number(value: object) -> float:
    """A number that JSON can hold, else 0: an agent's own count of its cost may be anything."""
    return float(value) if isinstance(value, int | float) and abs(value) < _LARGEST else 0.0
