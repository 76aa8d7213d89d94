"""Convert records to rows of the index and back.

The three families have different tables, but `COLUMNS` selects the same column names from each of
them. Members of a record that have no column are stored in `metadata`, a JSON object that contains
only what differs from the family's usual values, for example

    {"by": "agent", "task": "t-1a2b", "links": [["supersedes", "mem-1736900000-c3d4"]]}
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring as _encode_string
from typing import Any

from ralph.core import ids
from ralph.core.errors import Unreadable
from ralph.core.record import (
    KINDS,
    NO_EXTRA,
    NOWHERE,
    USUAL,
    Family,
    Link,
    Origin,
    Record,
    Scope,
    Status,
)
from ralph.storage import lookup

Terms = Callable[[str], str]
"""Returns the search terms in a string, separated by spaces."""
Row = tuple[object, ...]
COLUMNS = {
    Family.MEMORY: (
        "key, id AS record_id, kind, title, text, tags, files, scope, dated, metadata, status"
    ),
    Family.OBSERVATION: (
        "key, id AS record_id, type AS kind, title, content AS text, tags, files, scope, "
        "created_at AS dated, metadata, session_id"
    ),
    Family.JOURNAL: (
        "id AS key, record_id, outcome AS kind, title, notes AS text, tags, "
        "files_modified AS files, scope, created_at AS dated, metadata, run_id, iteration, task_id"
    ),
}
"""The columns of a record, under the same names in every family.

An alias must not be the name of another column in the table, because a query may end in
`ORDER BY id`.
"""
_NOT_JUDGED = 0
"""The version of the classifier in a new row of an observation (see `judgements.py`)."""
ORIGIN = ("session", "run", "iteration", "task", "agent", "commit")
_ORIGIN_IN_METADATA = {
    Family.MEMORY: ORIGIN,
    Family.OBSERVATION: ("run", "iteration", "task", "agent", "commit"),
    Family.JOURNAL: ("session", "agent", "commit"),
}
"""The members of a record's origin that have no column."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)
"""Refuses infinite numbers, because SQLite parses the same JSON and does not accept them."""
_SIMPLE_TYPES = (str, int)
_ABSENT = ("", None)
"""A member of a record's origin that is not known."""
EMPTY_LIST = "[]"
"""An empty list in the columns that people query: `tags`, `files` and `files_modified`."""
_INTEGER_LIMIT = 2**63  # SQLite stores 64-bit integers


def decode_record(family: Family, row: sqlite3.Row) -> Record:
    """Turn a row with the family's `COLUMNS` into a record.

    Raises Unreadable if the row is damaged.
    """
    try:
        return _decode(family, row)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(
            "a row of the index is damaged", hint="`ralph index sync --rebuild` rebuilds it"
        ) from error


def _decode(family: Family, row: sqlite3.Row) -> Record:
    metadata = _text_in(row, "metadata")
    rest = json.loads(metadata) if metadata else {}
    usual_status, usual_scope, _ = USUAL[family]
    if family is Family.MEMORY:
        status = Status(_text_in(row, "status"))
    else:
        status = Status(rest.get("status", usual_status))
    scope = _text_in(row, "scope")
    return Record(
        id=_text_in(row, "record_id"),
        kind=KINDS[family][_text_in(row, "kind")],
        text=_text_in(row, "text"),
        family=family,
        label=rest.get("label", ""),
        title=_text_in(row, "title"),
        tags=_list_in(row, "tags"),
        status=status,
        scope=Scope(scope) if scope else usual_scope,
        origin=_decode_origin(family, row, rest),
        created_at=_text_in(row, "dated"),
        updated_at=rest.get("updated_at", ""),
        valid_until=rest.get("valid_until", ""),
        links=tuple(Link(relation, target) for relation, target in rest.get("links", ())),
        extra=rest.get("extra", NO_EXTRA),
    )


def _decode_origin(family: Family, row: sqlite3.Row, rest: Mapping[str, Any]) -> Origin:
    members: dict[str, Any] = {}
    if family is Family.JOURNAL:
        members["run"] = _text_in(row, "run_id")
        members["iteration"] = row["iteration"]
        members["task"] = row["task_id"] or ""
    for name in ORIGIN:
        if name in rest:
            members[name] = rest[name]
    if family is Family.OBSERVATION:
        members["session"] = _text_in(row, "session_id")
    _, _, usual_author = USUAL[family]
    author = rest.get("by", usual_author)
    files = _list_in(row, "files")
    if not author and not files and not members:
        return NOWHERE
    return Origin(by=author, files=files, **members)


def _text_in(row: sqlite3.Row, column: str) -> str:
    value = row[column]
    if not isinstance(value, str):
        raise TypeError
    return value


def _list_in(row: sqlite3.Row, column: str) -> tuple[str, ...]:
    text = _text_in(row, column)
    if not text:
        return ()
    return tuple(json.loads(text))


def storable_text(text: str) -> str:
    """Return text that SQLite can store. Bytes that were not UTF-8 become question marks."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def digest_of(record: Record) -> str:
    """Return the digest of a record's title and text, under which its vectors are cached."""
    return _digest_value(record).hex()


def row_values(record: Record, *, is_order: bool) -> Row:
    """Return the values of a record's row that follow its line.

    In the row of an observation, its session and its position there come in between.
    """
    metadata = storable_text(_metadata(record, is_order=is_order))
    if record.family is Family.MEMORY:
        return _memory_values(record, metadata)
    if record.family is Family.OBSERVATION:
        return _observation_values(record, metadata, is_order=is_order)
    return _journal_values(record, metadata)


def _memory_values(record: Record, metadata: str) -> Row:
    return (
        record.kind.value,
        storable_text(record.title),
        storable_text(record.text),
        storable_text(encode_list(record.tags)) or EMPTY_LIST,
        storable_text(encode_list(record.origin.files)) or EMPTY_LIST,
        record.status.value,
        record.scope.value,
        storable_text(record.added_at),
        storable_text(record.created_at),
        metadata,
        _digest_value(record),
    )


def _observation_values(record: Record, metadata: str, *, is_order: bool) -> Row:
    return (
        record.kind.value,
        storable_text(record.title),
        storable_text(record.text),
        storable_text(encode_list(record.tags)) or EMPTY_LIST,
        storable_text(encode_list(record.origin.files)) or EMPTY_LIST,
        _scope_value(record),
        metadata,
        storable_text(record.created_at),
        _digest_value(record),
        _NOT_JUDGED,
        int(is_order),
    )


def _journal_values(record: Record, metadata: str) -> Row:
    origin = record.origin
    extra = record.extra
    return (
        storable_text(origin.run),
        column_value(origin.iteration),
        storable_text(origin.task) or None,
        column_value(extra.get("feature")),
        record.kind.value,
        column_value(extra.get("model")),
        column_value(extra.get("duration_secs")),
        column_value(extra.get("cost_usd")) or 0.0,
        storable_text(encode_list(origin.files)) or EMPTY_LIST,
        storable_text(record.title),
        storable_text(record.text),
        storable_text(encode_list(record.tags)) or EMPTY_LIST,
        _scope_value(record),
        storable_text(record.created_at),
        metadata,
        _digest_value(record),
    )


def _scope_value(record: Record) -> str:
    """Return the scope column of an observation or journal entry. "" means the usual scope."""
    _, usual_scope, _ = USUAL[record.family]
    if record.scope is usual_scope:
        return ""
    return record.scope.value


def _digest_value(record: Record) -> bytes:
    content = storable_text(f"{record.title}\n{record.text}").encode("utf-8")
    import hashlib  # loads OpenSSL

    return hashlib.sha1(content, usedforsecurity=False).digest()


def encode_list(items: Sequence[str]) -> str:
    """Return a list as stored in a column: a JSON array, or "" if it is empty."""
    if not items:
        return ""
    return f"[{','.join(map(_encode_string, items))}]"


def _metadata(record: Record, *, is_order: bool) -> str:
    """Encode the members of a record that have no column, or return "" if there are none."""
    rest = _status_and_origin(record)
    for name in ("label", "updated_at", "valid_until"):
        value = getattr(record, name)
        if value:
            rest[name] = value
    if record.links:
        rest["links"] = [[link.relation, link.target] for link in record.links]
    if is_order:
        rest[lookup.ORDER] = 1
    if record.extra:
        rest["extra"] = dict(record.extra)
    try:
        return _object_text(rest)
    except (ValueError, RecursionError):  # an infinite number, or nested too deeply
        rest.pop("extra", None)  # it is still in the file
        return _object_text(rest)


def _status_and_origin(record: Record) -> dict[str, object]:
    origin = record.origin
    usual_status, _, usual_author = USUAL[record.family]
    rest: dict[str, object] = {}
    if record.family is not Family.MEMORY and record.status is not usual_status:
        rest["status"] = record.status.value
    if origin.by != usual_author:
        rest["by"] = origin.by
    if origin is NOWHERE:
        return rest
    for name in _ORIGIN_IN_METADATA[record.family]:
        value = getattr(origin, name)
        if value not in _ABSENT:  # an iteration may be 0
            rest[name] = value
    if origin.iteration is not None and abs(origin.iteration) >= _INTEGER_LIMIT:
        rest["iteration"] = origin.iteration  # too large for its column
    return rest


def _object_text(members: Mapping[str, object]) -> str:
    """Encode an object, or return "" if it has no members.

    Nearly all members are texts and numbers, in it or in `extra`. `json` prepares an encoder for
    each object, which takes longer than encoding them.
    """
    if not members:
        return ""
    parts = []
    for name, value in members.items():
        if type(value) is str:
            text = _encode_string(value)
        elif type(value) is int:
            text = str(value)
        elif name == "extra" and isinstance(value, dict) and _is_simple(value):
            text = _object_text(value)
        else:
            text = _ENCODER.encode(value)
        parts.append(f"{_encode_string(name)}:{text}")
    return f"{{{','.join(parts)}}}"


def _is_simple(members: Mapping[str, object]) -> bool:
    """Return whether there are members, and all are texts and numbers with texts as names."""
    for name, value in members.items():
        if type(name) is not str or type(value) not in _SIMPLE_TYPES:
            return False
    return bool(members)


def column_value(value: object, allowed: Sequence[str] | None = None) -> str | int | float | None:
    """Return a JSON value in a form that a column can store.

    An integer that is too large becomes None, and so does any value that is not `allowed`.
    """
    if allowed is not None and value not in allowed:
        return None
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, int):
        return int(value) if abs(value) < _INTEGER_LIMIT else None
    if value is None or isinstance(value, float):
        return value
    return storable_text(json.dumps(value, ensure_ascii=False))


def search_columns(record: Record, terms: Terms) -> tuple[str, str, str, str]:
    """Return the terms in a record's title, tags, text and files for the full-text index.

    They depend only on the record, so they can be computed again in order to delete them.
    """
    title = terms(record.title) if record.title else ""
    tags = terms(" ".join(record.tags)) if record.tags else ""
    files = _id_terms(record)
    if record.origin.files:
        files += terms(" ".join(record.origin.files))
    return title, tags, terms(record.text), files


def _id_terms(record: Record) -> str:
    """Return the terms under which a record's id can be found, each followed by a space."""
    if record.family is Family.OBSERVATION:
        return ""
    minted = ids.ID.fullmatch(record.id)
    if minted is None:
        return ""
    whole = record.id.replace("-", "").lower()
    return f"{minted['unix']} {minted['tail'].lower()} {whole} "
