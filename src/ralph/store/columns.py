"""How a record lies in its row: what the columns hold is read from them, the rest is a small JSON object.

A database of a thousand sessions must stay small, so that nothing is written twice: `metadata` has only
what no column has and what differs from the family's usual, and is empty for most observations. Every
family gives its columns in one order, so that one function makes records of them all. A second bearer of
an id has another one in its column; its own comes first in `metadata`.
`tests/store/test_rows.py` reads records of every shape back from their rows.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence

from ralph.errors import Unreadable
from ralph.model.record import (
    NO_EXTRA,
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

COLUMNS = {
    Family.MEMORY: "key, id, kind, title, text, tags, files, scope, created_at, metadata, status",
    Family.OBSERVATION: "key, id, type, title, content, tags, files, scope, created_at, metadata, session_id",
    Family.JOURNAL: "id, record_id, outcome, title, notes, tags, files_modified, scope, created_at, metadata, "
    "run_id, iteration, task_id",
}
"""What is selected to make a record of a row; the first ten mean the same in every family."""

USUAL = {
    Family.MEMORY: (Status.ACCEPTED, Scope.PROJECT, ""),
    Family.OBSERVATION: (Status.RAW, Scope.SESSION, "tool"),
    Family.JOURNAL: (Status.ACCEPTED, Scope.RUN, ""),
}
"""Status, scope and author that a row does not say."""

_KINDS: Mapping[Family, Mapping[str, MemoryKind | ObservationKind | Outcome]] = {
    Family.MEMORY: {kind.value: kind for kind in MemoryKind},
    Family.OBSERVATION: {kind.value: kind for kind in ObservationKind},
    Family.JOURNAL: {kind.value: kind for kind in Outcome},
}
_ORIGIN = ("session", "run", "iteration", "task", "agent", "commit")
_REST = {
    Family.MEMORY: _ORIGIN,
    Family.OBSERVATION: ("run", "iteration", "task", "agent", "commit"),
    Family.JOURNAL: ("session", "agent", "commit"),
}
"""What no column holds of a record's origin."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)
"""SQLite reads what it writes, too: it knows no infinite numbers."""

_ID = '{"id":'
_LARGEST = 2**63


def list_text(items: Sequence[str]) -> str:
    """A list of texts as a column holds it."""
    return _ENCODER.encode(items) if items else ""


def scope_text(record: Record) -> str:
    """The scope as a column holds it: nothing when it is the usual one of a log's records."""
    usual = record.family is not Family.MEMORY and record.scope is USUAL[record.family][1]
    return "" if usual else record.scope.value


def metadata_of(record: Record, given: str = "") -> str:
    """What no column holds of a record, as a JSON object, or nothing; `given` is its id when its column has another."""
    family, origin = record.family, record.origin
    status, _, author = USUAL[family]
    rest: dict[str, object] = {"id": given} if given else {}
    if family is not Family.MEMORY and record.status is not status:
        rest["status"] = record.status.value
    if origin.by != author:
        rest["by"] = origin.by
    if origin is not NOWHERE:
        for name in _REST[family]:
            if (said := getattr(origin, name)) or said == 0:
                rest[name] = said
        if origin.iteration is not None and abs(origin.iteration) >= _LARGEST:
            rest["iteration"] = origin.iteration  # too large for its column
    for name in ("label", "updated_at", "valid_until"):
        if said := getattr(record, name):
            rest[name] = said
    if record.links:
        rest["links"] = [[link.relation, link.target] for link in record.links]
    if record.extra:
        rest["extra"] = dict(record.extra)
    return _text(rest) if rest else ""


def _text(rest: dict[str, object]) -> str:
    try:
        return _ENCODER.encode(rest)
    except (ValueError, RecursionError):  # nested too deeply, or no finite number; the file still has it
        rest.pop("extra", None)
        return _ENCODER.encode(rest) if rest else ""


def given_id(name: str, metadata: str) -> str:
    """The id that a record has in its file; `name` is that of its row."""
    return str(json.loads(metadata)["id"]) if metadata.startswith(_ID) else name


def record_of(family: Family, row: sqlite3.Row) -> Record:
    """The record of a row that has the family's COLUMNS; Unreadable when the row is damaged."""
    try:
        return _record(family, tuple(row))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable("a row of the index is damaged", hint="`ralph index rebuild` makes it again") from error


def _record(family: Family, row: tuple[object, ...]) -> Record:
    name, kind, title, text, tags, files, scope, created, metadata = map(_textual, row[1:10])
    rest = json.loads(metadata) if metadata else {}
    status, usual, author = USUAL[family]
    said = {name: rest[name] for name in _ORIGIN if name in rest}
    if family is Family.OBSERVATION:
        said["session"] = _textual(row[10])
    elif family is Family.JOURNAL:
        said = {"run": _textual(row[10]), "iteration": row[11], "task": row[12] or "", **said}
    by = rest.get("by", author)
    paths = tuple(json.loads(files)) if files else ()
    return Record(
        rest.get("id", name),
        _KINDS[family][kind],
        text,
        family,
        rest.get("label", ""),
        title,
        tuple(json.loads(tags)) if tags else (),
        Status(_textual(row[10]) if family is Family.MEMORY else rest.get("status", status)),
        Scope(scope) if scope else usual,
        Origin(by=by, files=paths, **said) if by or paths or said else NOWHERE,
        created,
        rest.get("updated_at", ""),
        rest.get("valid_until", ""),
        tuple(Link(relation, target) for relation, target in rest.get("links", ())),
        rest.get("extra", NO_EXTRA),
    )


def _textual(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
