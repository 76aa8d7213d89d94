"""The codec for logs, which consist of one JSON object per line.

    {"v":1,"type":"memory","id":"mem-1760000000-3f2a","kind":"fix","text":"Run `make gen`."}
    {"v":1,"type":"session","started_at":"2026-01-31T10:00:00Z"}

If the type is a family of records, as in the first line, the object is a record. Any other object
is a `LogLine`.

A torn line was left incomplete by a crash or a full disk. The next object may follow on the same
line, as in `{"v":1,"type":"mem{"v":1,"type":"session"}`. The torn part is reported and kept in the
file, and the object after it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from ralph.core.documents import Entry, Problem
from ralph.core.errors import Refused
from ralph.core.json_text import Members, dump_line, read_members
from ralph.core.record import KINDS, USUAL, Family, Link, Origin, Record, Scope, Status
from ralph.core.text import BOM

LOG_VERSION = 1

# A host may write NaN or Infinity to a log, which only Python accepts. They are read as null.
_LENIENT_DECODER = json.JSONDecoder(parse_constant=lambda _: None)
_MAX_SHOWN_VALUE = 60  # characters of a value that a problem shows
_MAX_SHOWN_LINE = 40  # characters of a torn line that a problem shows
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
_LINE_START = re.compile(r'\{"v": ?[0-9]{1,9}, ?"type": ?"')  # {"v":1,"type":"

Value = dict[str, object]
_Choice = TypeVar("_Choice", Status, Scope)


class _Span(NamedTuple):
    start: int
    end: int
    line: int


class LogLine(NamedTuple):
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
                    level="error",
                    code="torn-line",
                )
            )
        if value is not None:
            span = _Span(position + start, position + len(line.rstrip()), number)
            _add_object(document, value, span, ids)
        position += len(line) + 1
    return document


def _read_object(line: str) -> tuple[int, Value | None]:
    """Return where the object on a line starts, and the object, or None if there is none."""
    start = len(BOM) if line.startswith(BOM) else 0
    while start < len(line):
        try:
            value = _decode(line[start:])
        except (ValueError, RecursionError):  # including a number too long for Python
            value = None
        if isinstance(value, dict):
            return start, value
        # The start of the line is torn, so look for the last object that was begun after it. If
        # that one cannot be read either, `start` is already past all others.
        later_starts = [match.start() for match in _LINE_START.finditer(line, start + 1)]
        start = later_starts[-1] if later_starts else len(line)
    return len(line), None


def _decode(text: str) -> object:
    """Decode a JSON value. Values without surrounding whitespace take a faster path."""
    if text.startswith("{"):
        value, end = _LENIENT_DECODER.raw_decode(text)
        if end == len(text):
            return value
    return _LENIENT_DECODER.decode(text)


def _add_object(document: LogDocument, value: Value, span: _Span, ids: set[str]) -> None:
    """Add an object to the records or the other lines, and report what is wrong with it."""
    line_type = value.get("type")
    version = value.get("v", 0)
    is_known_version = type(version) is int and version <= LOG_VERSION
    if is_known_version and isinstance(line_type, str) and line_type not in _FAMILIES:
        document.lines.append(LogLine(line_type, value, *span))  # nearly every line of a log
        return
    record: Record | None = None
    faults = _Faults()
    if type(version) is not int or not isinstance(line_type, str):
        faults.add("wrong-type", "a line needs text as `type` and a whole number as `v`")
    elif version > LOG_VERSION:
        what = f"version {version} is newer than {LOG_VERSION}, the newest that this Ralph reads"
        hint = "update Ralph to read this line"
        document.problems.append(Problem(span.line, what, hint, level="note", code="newer-version"))
    elif line_type in _FAMILIES:
        record = _build_record(value, _FAMILIES[line_type], faults)
    document.problems += faults.problems(span.line, is_read=record is not None)
    if record is None:
        known_type = line_type if isinstance(line_type, str) else ""
        document.lines.append(LogLine(known_type, value, *span))
        return
    document.entries.append(Entry(record, span.start, span.end, span.line))
    if record.id in ids:
        what = f"a second record has the id {record.id}"
        hint = "both are read; `forget` removes both"
        document.problems.append(
            Problem(span.line, what, hint, level="warning", code="duplicate-id")
        )
    ids.add(record.id)


class _Faults:
    """Collects what is wrong with one object."""

    def __init__(self) -> None:
        self._faults: list[tuple[str, str]] = []

    def add(self, code: str, what: str) -> None:
        self._faults.append((code, what))

    def add_wrong_type(self, _path: object, name: str, expected: str, _value: object) -> None:
        """Add a member of the wrong type. `read_members` calls this."""
        self.add("wrong-type", f"`{name}` should be {expected}")

    def problems(self, line: int, *, is_read: bool) -> list[Problem]:
        hint = "it is kept but not used" if is_read else "it is kept but not read"
        level = "warning" if is_read else "error"
        return [Problem(line, what, hint, level=level, code=code) for code, what in self._faults]


def _build_record(value: Value, family: Family, faults: _Faults) -> Record | None:
    """Build a record from an object. If it has no id or kind, add a fault and return None."""
    kinds = KINDS[family]
    kind = kinds.get(str(value.get("kind")))
    if not isinstance(value.get("id"), str) or not value["id"]:
        faults.add("no-id", f"a record of the type {family} needs an `id`")
        return None
    if kind is None:
        shown = repr(value.get("kind"))[:_MAX_SHOWN_VALUE]
        what = f"{shown} is not a kind of {family}; the kinds are {', '.join(kinds)}"
        faults.add("unknown-kind", what)
        return None
    fields, others = read_members(value, _RECORD, faults.add_wrong_type)
    usual_status, usual_scope, _ = USUAL[family]
    # Members written by other programs are kept in `extra`.
    extra = {key: member for key, member in others.items() if key not in ("v", "type")}
    extra |= fields.get("extra", {})
    return Record(
        id=fields["id"],
        kind=kind,
        text=fields.get("text", ""),
        family=family,
        label=fields.get("label", ""),
        title=fields.get("title", ""),
        tags=fields.get("tags", ()),
        status=_choose(fields, "status", _STATUSES, usual_status, faults),
        scope=_choose(fields, "scope", _SCOPES, usual_scope, faults),
        origin=_read_origin(fields, faults),
        created_at=fields.get("created_at", ""),
        updated_at=fields.get("updated_at", ""),
        valid_until=fields.get("valid_until", ""),
        links=_read_links(fields, faults),
        extra=extra,
    )


def _choose(
    fields: Members, name: str, choices: Mapping[str, _Choice], usual: _Choice, faults: _Faults
) -> _Choice:
    """Return the choice that a member names, or the usual one if it is absent or unknown."""
    word = fields.get(name, usual)
    if word not in choices:
        faults.add("wrong-type", f"`{name}` should be one of {', '.join(choices)}")
    return choices.get(word, usual)


def _read_origin(fields: Members, faults: _Faults) -> Origin:
    members, _ = read_members(fields.get("origin", {}), _ORIGIN, faults.add_wrong_type)
    return Origin(**members)


def _read_links(fields: Members, faults: _Faults) -> tuple[Link, ...]:
    items = fields.get("links", ())
    links: list[Link] = []
    for item in items:
        members = item if isinstance(item, dict) else {}
        link, _ = read_members(members, _LINK, faults.add_wrong_type)
        if len(link) == len(_LINK):
            links.append(Link(**link))
    if len(links) != len(items):
        faults.add("wrong-type", "`links` should be a list of objects with a relation and a target")
    return tuple(links)


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
