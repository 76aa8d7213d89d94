"""Merge three versions of an insights.json.

Insights are matched by id and merged member by member. For example, if one side sets the status of
an insight and the other adds a tag to it, the result has both. Nothing is ever left as a conflict,
because conflict markers would make the file unreadable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ralph.core.errors import Refused
from ralph.core.json_text import check_json, dump_file
from ralph.formats.merge_lines import Merged

Members = dict[str, Any]


def merge_insights(versions: Sequence[str]) -> Merged:
    """Merge base, ours and theirs.

    Raises Refused if a version is not an insights.json, or if two proposals have the same id.
    """
    files = [_read_file(text) for text in versions]
    base, ours, theirs = [_insights_by_id(members) for members in files]
    insights: list[object] = []
    new_ids = sorted({*ours, *theirs} - {*base})
    for insight_id in (*base, *new_ids):
        insight = _merge_members(base.get(insight_id), ours.get(insight_id), theirs.get(insight_id))
        if insight is not None:
            insights.append(insight)
    other_members = [{**members, "insights": None} for members in files]
    top = _merge_members(*other_members) or {}
    return Merged(dump_file({**top, "insights": insights}))


def _read_file(text: str) -> Members:
    if not text.strip():
        return {}
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unusual_form() from error
    if not isinstance(members, dict):
        raise _unusual_form()
    check_json(members)  # refuses a value that the merged file could not contain
    return members


def _insights_by_id(members: Members) -> dict[str, Members]:
    insights = members.get("insights", [])
    if not isinstance(insights, list):
        raise _unusual_form()
    by_id: dict[str, Members] = {}
    for insight in insights:
        if not isinstance(insight, dict) or not isinstance(insight.get("id"), str):
            raise _unusual_form()
        by_id[insight["id"]] = insight
    if len(by_id) < len(insights):
        raise Refused("two proposals have the same id")
    return by_id


def _unusual_form() -> Refused:
    return Refused("it does not have its usual form")


def _merge_members(
    base: Members | None, ours: Members | None, theirs: Members | None
) -> Members | None:
    """Merge a JSON object member by member. Return None if it was deleted."""
    if ours is None or theirs is None:
        side = theirs if ours is None else ours
        return None if side == base else side
    base = base or {}
    merged: Members = {}
    for key in dict.fromkeys((*base, *sorted({*ours, *theirs}))):
        value = _merge_value(base.get(key), ours.get(key), theirs.get(key))
        if value is not None or key in ours or key in theirs:
            merged[key] = value
    return merged


def _merge_value(base: Any, ours: Any, theirs: Any) -> Any:
    """Merge a value, preferring the side that changed it.

    If both did, lists are joined, and otherwise the larger value is kept.
    """
    if ours == base:
        return theirs
    if theirs in (ours, base):
        return ours
    if isinstance(ours, list) and isinstance(theirs, list):
        base_items = base or []
        if not isinstance(base_items, list):
            raise _unusual_form()
        return _merge_lists(base_items, ours, theirs)
    return max(ours, theirs, key=_size_of_value)


def _merge_lists(base: Iterable[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    new_items = [item for item in (*ours, *theirs) if item not in base]
    merged: list[Any] = []
    for item in (*base, *sorted(new_items, key=repr)):
        if item not in merged:
            merged.append(item)
    return merged


def _size_of_value(value: Any) -> tuple[int, str]:
    """Return a key by which any two JSON values can be compared. A larger number wins."""
    count = value if isinstance(value, int) else 0
    return count, json.dumps(value)
