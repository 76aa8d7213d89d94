"""Merge the fields of a record that both sides changed, and decide which side is newer.

A field that only one side changed takes that side's value. If both did, the newer side wins. For
example, if one side archives an entry and the other adds a tag, the result is archived and has the
tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ralph.core.record import UNCONFIRMED, Record, Status

_T = TypeVar("_T")

_AUTHOR_KEYS = ("via", "who", "session")
"""The keys in `Record.extra` that describe who wrote the text."""
_UNSET_FIELDS: Mapping[str, Any] = {
    "status": Status.ACCEPTED,
    "valid_until": "",
    "tags": (),
    "links": (),
    "extra": {},
}


class Age(NamedTuple):
    """Decides which of two records is newer.

    The text and the tags break ties, so that merging in either direction gives the same result.
    """

    time: str
    text: str
    tags: tuple[str, ...]


def age_of(record: Record) -> Age:
    """Return the key by which records are sorted from the oldest to the newest."""
    return Age(record.updated_at or record.added_at, record.text, record.tags)


def merge_fields(base: Record | None, older: Record, newer: Record) -> Record:
    """Return the newer record, updated with the fields that only the other side changed.

    The author always stays with the text, and so does the mark of an unconfirmed one, unless the
    other side has confirmed the same text. `base` is None if both sides added the record.
    """
    if base is None:
        base = replace(newer, **_UNSET_FIELDS)
    return replace(
        newer,
        status=pick_changed(base.status, older.status, newer.status),
        valid_until=pick_changed(base.valid_until, older.valid_until, newer.valid_until),
        updated_at=max(newer.updated_at, older.updated_at),
        tags=_join_items(set(base.tags), newer.tags, older.tags),
        links=_join_items(set(base.links), newer.links, older.links),
        extra=_merge_extra(base, older, newer),
    )


def pick_changed(base: Any, older: Any, newer: Any) -> Any:
    """Return the value from the side that changed it, or the newer value if both did."""
    return older if newer == base else newer


def _merge_extra(base: Record, older: Record, newer: Record) -> dict[str, object]:
    extra: dict[str, object] = {}
    for key in dict.fromkeys((*newer.extra, *older.extra)):
        value = pick_changed(base.extra.get(key), older.extra.get(key), newer.extra.get(key))
        if key not in _AUTHOR_KEYS and value is not None:
            extra[key] = value
    for key, value in newer.extra.items():
        if key in _AUTHOR_KEYS:
            extra[key] = value
    extra.pop(UNCONFIRMED, None)
    if UNCONFIRMED in newer.extra and not _is_confirmed_by(older, newer):
        extra[UNCONFIRMED] = newer.extra[UNCONFIRMED]
    return extra


def _is_confirmed_by(other: Record, record: Record) -> bool:
    """Return whether the other side confirms an unconfirmed record, which it does word by word."""
    return other.text == record.text and UNCONFIRMED not in other.extra


def _join_items(base: set[_T], newer: Sequence[_T], older: Sequence[_T]) -> tuple[_T, ...]:
    """Combine the tags or links from both sides, except for those that one side removed."""
    joined: list[_T] = []
    for item in dict.fromkeys((*newer, *older)):
        if item not in base or (item in newer and item in older):
            joined.append(item)
    return tuple(joined)
