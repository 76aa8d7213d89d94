"""Codec of the logs: one JSON object a line, and journal entries as records of them.

A torn line (crash, full disk) is reported and kept, and whatever can be read on it is read. An
object with a newer version is kept unread. A journal entry's id is made of run and iteration, so
that writing it again after a crash gives the same id.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from ralph.errors import NotFound, Refused, Unreadable
from ralph.formats.json_text import LENIENT_DECODER, dump_line, skip_blanks
from ralph.formats.text import BOM, Entry, Problem, find_entry
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

LOG_VERSION = 1

_KINDS: dict[Family, dict[str, MemoryKind | ObservationKind | Outcome]] = {
    Family.MEMORY: {kind.value: kind for kind in MemoryKind},
    Family.OBSERVATION: {kind.value: kind for kind in ObservationKind},
    Family.JOURNAL: {kind.value: kind for kind in Outcome},
}
_FAMILIES: dict[object, Family] = {family.value: family for family in Family}
_DEFAULTS = {
    Family.MEMORY: (Status.ACCEPTED, Scope.PROJECT),
    Family.OBSERVATION: (Status.RAW, Scope.SESSION),
    Family.JOURNAL: (Status.ACCEPTED, Scope.RUN),
}
"""Status and scope of a line without them; Ralph always writes both."""

_KEYS = frozenset(
    ["v", "type", "id", "kind", "text", "label", "title", "tags", "status", "scope", "origin",
     "created_at", "updated_at", "valid_until", "links", "extra"]
)  # fmt: skip
_BLANK = " \t\r"
_OPENING = re.compile(r'\{"v": ?[0-9]{1,9}, ?"type": ?"')
_READ_LIMIT = 32  # a broken line is searched for objects up to so many times its length

Value = dict[str, object]
Faults = list[tuple[str, str]]
"""What is wrong with a line: the code of the Problem, and its text."""
Choice = TypeVar("Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class LogLine:
    """An object of the log that is not read as a record: its type, members and place."""

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
    if not isinstance(member, list):
        faults.append(("wrong-type", f"`{key}` should be a list of texts"))
        return ()
    texts = tuple(item for item in member if isinstance(item, str))
    if len(texts) != len(member):
        faults.append(("wrong-type", f"`{key}` should hold texts only"))
    return texts


def _choice_member(value: Value, key: str, choices: type[Choice], default: Choice, faults: Faults) -> Choice:
    member = value.get(key)
    if member is None:
        return default
    try:
        return choices(str(member))
    except ValueError:
        faults.append(("wrong-type", f"`{key}` should be one of {', '.join(choices)}"))
        return default


def _origin(member: object, faults: Faults) -> Origin:
    if not isinstance(member, dict):
        faults.append(("wrong-type", "`origin` should be an object"))
        return NOWHERE
    iteration = member.get("iteration")
    if iteration is not None and type(iteration) is not int:
        faults.append(("wrong-type", "`iteration` should be a whole number"))
        iteration = None
    return Origin(
        _text_member(member, "by", faults),
        _text_member(member, "session", faults),
        _text_member(member, "run", faults),
        iteration,
        _text_member(member, "task", faults),
        _text_member(member, "agent", faults),
        _texts_member(member, "files", faults),
        _text_member(member, "commit", faults),
    )


def _links(member: object, faults: Faults) -> tuple[Link, ...]:
    pairs = member if isinstance(member, list) else [member]
    links = []
    for pair in pairs:
        relation = pair.get("relation") if isinstance(pair, dict) else None
        target = pair.get("target") if isinstance(pair, dict) else None
        if isinstance(relation, str) and isinstance(target, str):
            links.append(Link(relation, target))
        else:
            faults.append(("wrong-type", "`links` should be a list of objects with a relation and a target"))
    return tuple(links)


def _extra(value: Value, faults: Faults) -> Value:
    """The further members: those under `extra`, and those that another writer put beside the named ones."""
    extra = {key: member for key, member in value.items() if key not in _KEYS}
    inner = value.get("extra")
    if isinstance(inner, dict):
        extra |= inner
    elif inner is not None:
        faults.append(("wrong-type", "`extra` should be an object"))
    return extra


def _record(value: Value, family: Family, faults: Faults) -> Record | None:
    """The record of a line; `faults` says what is wrong, and None is given when too much is."""
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
    status, scope = _DEFAULTS[family]
    return Record(
        name,
        kind,
        _text_member(value, "text", faults),
        family,
        _text_member(value, "label", faults),
        _text_member(value, "title", faults),
        _texts_member(value, "tags", faults),
        _choice_member(value, "status", Status, status, faults),
        _choice_member(value, "scope", Scope, scope, faults),
        _origin(value["origin"], faults) if value.get("origin") is not None else NOWHERE,
        _text_member(value, "created_at", faults),
        _text_member(value, "updated_at", faults),
        _text_member(value, "valid_until", faults),
        _links(value["links"], faults) if value.get("links") is not None else (),
        _extra(value, faults),
    )


def _origin_members(origin: Origin) -> Value:
    named = {key: getattr(origin, key) for key in sorted(Origin.__dataclass_fields__)}
    return {key: member for key, member in named.items() if member or member == 0}


def _line(first: Value, others: Mapping[str, object]) -> str:
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
    members: Value = {
        "created_at": record.created_at,
        "extra": record.extra,
        "label": record.label,
        "links": [{"relation": link.relation, "target": link.target} for link in record.links],
        "origin": _origin_members(record.origin),
        "scope": record.scope.value,
        "status": record.status.value,
        "tags": record.tags,
        "text": record.text,
        "title": record.title,
        "updated_at": record.updated_at,
        "valid_until": record.valid_until,
    }
    first: Value = {"v": LOG_VERSION, "type": record.family.value, "id": record.id, "kind": record.kind.value}
    return _line(first, {key: value for key, value in members.items() if value})


def encode_line(line_type: str, value: Mapping[str, object]) -> str:
    """The line of something that is no record: a session, an injection."""
    if line_type in _FAMILIES or not line_type or "v" in value or "type" in value:
        hint = "records are written with `encode`; `v` and `type` are set here"
        raise Refused(f"this cannot be a log line of the type {line_type!r:.60}", hint=hint)
    return _line({"v": LOG_VERSION, "type": line_type}, value)


def decode_record(line: str) -> Record:
    """The record of one line; Unreadable when it holds none."""
    document = parse_log(line)
    if len(document.entries) != 1 or any(problem.level == "error" for problem in document.problems):
        what = document.problems[0].what if document.problems else "the line holds no record"
        raise Unreadable(what, hint="`ralph doctor` tells about every line of a log")
    return document.entries[0].record


# --- the log -----------------------------------------------------------------------------------


def _object_at(line: str, place: int) -> tuple[Value | None, int]:
    """The object that begins here and its end, or None and how far the reader came."""
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


class _Log:
    """What has been read so far."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.lines: list[LogLine] = []
        self.problems: list[Problem] = []
        self.torn: list[tuple[int, int]] = []
        self.seen: set[str] = set()

    def report(self, number: int, what: str, hint: str, level: str, code: str) -> None:
        self.problems.append(Problem(number, what, hint, level, code))

    def report_duplicate(self, name: str, number: int) -> None:
        if name in self.seen:
            hint = "both are read; `forget` removes both"
            self.report(number, f"a second record has the id {name}", hint, "warning", "duplicate-id")
        self.seen.add(name)

    def take(self, value: Value, start: int, end: int, number: int) -> None:
        """One object of the log."""
        faults: Faults = []
        line_type = value.get("type")
        version = value.get("v", 0)
        family = _FAMILIES.get(line_type) if isinstance(line_type, str) else None
        if type(version) is not int or not isinstance(line_type, str):
            faults.append(("wrong-type", "a line needs a `type` that is text and a `v` that is a whole number"))
        elif version > LOG_VERSION:
            what = f"version {version} is newer than {LOG_VERSION}, the newest that this Ralph knows"
            self.report(number, what, "update Ralph to read this line", "note", "newer-version")
        elif family is not None:
            record = _record(value, family, faults)
            if record is not None:
                self.entries.append(Entry(record, start, end, number))
                for code, what in faults:
                    self.report(number, what, "the value is kept but not used", "warning", code)
                self.report_duplicate(record.id, number)
                return
        for code, what in faults:
            self.report(number, what, "the line is kept but not read", "error", code)
        self.lines.append(LogLine(line_type if isinstance(line_type, str) else "", value, start, end, number))

    def take_pieces(self, line: str, at: int, number: int) -> None:
        """A line that is not just one object: everything that can be read in it, and the rest told."""
        objects = 0
        for start, end, value in _pieces(line):
            if value is not None:
                objects += 1
                self.take(value, at + start, at + end, number)
                continue
            self.torn.append((at + start, at + end))
            what = f"half a line, or no JSON object: {line[start : min(end, start + 40)]!r}"
            hint = "a crash or a full disk left it; it is kept, and the lines after it are read"
            self.report(number, what, hint, "error", "torn-line")
        if objects > 1:
            hint = "both are read; a line end got lost between them"
            self.report(number, f"{objects} objects on one line", hint, "warning", "torn-line")


@dataclass(frozen=True, slots=True)
class LogDocument:
    """A log: its text, its records, its other lines, and where it is torn."""

    text: str
    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    lines: tuple[LogLine, ...] = ()
    torn: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        return self.text

    def add(self, record: Record) -> "LogDocument":
        """The log with one more line; after half a line it starts on a fresh one, and ends like that one."""
        ended = self.text in ("", BOM) or self.text.endswith("\n")
        return parse_log(
            self.text + (encode_record(record) if ended else "\n" + encode_record(record).removesuffix("\n"))
        )

    def replace(self, record_id: str, record: Record) -> "LogDocument":
        """The log with one record written anew, in its place."""
        entry = find_entry(self.entries, record_id)
        return parse_log(self.text[: entry.start] + encode_record(record).rstrip("\n") + self.text[entry.end :])

    def remove(self, record_id: str) -> "LogDocument":
        """The log without this record: every line of it, read or not, and its torn halves.

        What is forgotten may be a secret, so that a record which was written twice goes twice.
        """
        spans = [(entry.start, entry.end) for entry in self.entries if entry.record.id == record_id]
        for line in self.lines:
            if line.type in _FAMILIES and line.value.get("id") == record_id:
                spans.append((line.start, line.end))
        if not spans:
            raise NotFound(f"no entry {record_id}")
        unended = any(end == len(self.text) for _, end in spans)  # so was the line above it, before `add`
        name = f'"id":{dump_line(record_id, nul=True)}'.rstrip("\n")
        spans += [(start, end) for start, end in self.torn if name in self.text[start:end]]
        left = _without(self.text, sorted(spans))
        return parse_log(left.removesuffix("\n") if unended else left)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text without these places, and without the lines that hold nothing else."""
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        stop = len(text) if last < 0 else last + 1
        if first >= position and not text[first:start].strip(_BLANK) and not text[end:stop].strip(_BLANK + "\n"):
            start, end = first, stop
        pieces.append(text[position:start])
        position = end
    return "".join(pieces) + text[position:]


def parse_log(text: str) -> LogDocument:
    """Reads a log."""
    log = _Log()
    decode_at = LENIENT_DECODER.raw_decode
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line:
            try:
                value, end = decode_at(line) if line[0] == "{" else (None, 0)
            except (ValueError, RecursionError):
                value, end = None, 0
            if value is not None and (end == len(line) or not line[end:].strip(_BLANK)):
                log.take(value, at, at + end, number)
            else:
                log.take_pieces(line, at, number)
        at += len(line) + 1
    return LogDocument(text, tuple(log.entries), tuple(log.problems), tuple(log.lines), tuple(log.torn))


JOURNAL_PREFIX = "jrn"
RUN_LABEL = "run"
"""The label of a record that sums up a whole run."""

_FEATURE, _MODEL, _DURATION, _COST = "feature", "model", "duration_secs", "cost_usd"
_OWN_KEYS = (_FEATURE, _MODEL, _DURATION, _COST)


def journal_id(run: str, iteration: int) -> str:
    """The id of the entry for an iteration of a run."""
    return f"{JOURNAL_PREFIX}-{run}-{iteration}"


def is_journal_entry(record: Record) -> bool:
    """Whether a record is how one iteration of a run ended."""
    origin = record.origin
    named = record.family is Family.JOURNAL and record.label != RUN_LABEL
    return named and bool(origin.run) and origin.iteration is not None


def journal_record(entry: JournalEntry) -> Record:
    """The entry as a record; further members that have the name of one of ours are left out."""
    members: dict[str, object] = {
        _FEATURE: entry.feature,
        _MODEL: entry.model,
        _DURATION: _finite(entry.duration),
        _COST: _finite(entry.cost),
    }
    more = {name: value for name, value in entry.extra.items() if name not in _OWN_KEYS}
    origin = Origin("agent", entry.session, entry.run, entry.iteration, entry.task, entry.agent, entry.files)
    return Record(
        journal_id(entry.run, entry.iteration),
        entry.outcome,
        entry.notes,
        Family.JOURNAL,
        title=entry.title,
        scope=Scope.RUN,
        origin=origin,
        created_at=entry.created_at,
        extra={name: value for name, value in members.items() if value} | more,
    )


def journal_entry(record: Record) -> JournalEntry:
    """The entry that a record of the journal holds; see `is_entry`."""
    origin, extra = record.origin, record.extra
    if not isinstance(record.kind, Outcome):
        raise TypeError(f"{record.id} is no record of the journal")
    return JournalEntry(
        run=origin.run,
        iteration=origin.iteration or 0,
        outcome=record.kind,
        task=origin.task,
        title=record.title,
        feature=_text_or_empty(extra.get(_FEATURE)),
        agent=origin.agent,
        model=_text_or_empty(extra.get(_MODEL)),
        duration=_number(extra.get(_DURATION)),
        cost=_number(extra.get(_COST)),
        files=origin.files,
        notes=record.text,
        created_at=record.created_at,
        session=origin.session,
        extra={name: value for name, value in extra.items() if name not in _OWN_KEYS},
    )


def _text_or_empty(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    return _finite(float(value)) if isinstance(value, int | float) and abs(value) < _LARGEST else 0.0


def _finite(value: float) -> float:
    """A number that JSON can hold; an agent's own count of its cost may be none."""
    return value if math.isfinite(value) else 0.0


_LARGEST = 1e300
"""Somebody's whole number may be larger than a float can be."""
