"""Read the members of JSON that other programs wrote, where any member may be missing or wrong.

event = parse_object('{"message": {"model": "m-1", "usage": null}}')
get_text(get_object(event, "message"), "model")     # "m-1"
get_object(event, "message", "usage", "tokens")     # {}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping


def parse_object(line: str) -> Mapping[str, object] | None:
    """Parse a line as a JSON object. Returns None if it is anything else."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return value
    return None


def get_object(value: object, *keys: str) -> Mapping[str, object]:
    """Return the object nested under these keys, or an empty one."""
    for key in keys:
        if not isinstance(value, Mapping):
            return {}
        value = value.get(key)
    if isinstance(value, Mapping):
        return value
    return {}


def get_text(value: Mapping[str, object], key: str) -> str:
    """Return the string at a key, or "" if there is none."""
    text = value.get(key)
    if isinstance(text, str):
        return text
    return ""


def get_number(value: Mapping[str, object], key: str) -> float:
    """Return the number at a key, or 0 if there is none."""
    number = value.get(key)
    if isinstance(number, int | float) and not isinstance(number, bool):
        return float(number)
    return 0.0


def get_objects(value: Mapping[str, object], key: str) -> Iterator[Mapping[str, object]]:
    """Yield the objects in the list at a key."""
    yield from _objects_in(value.get(key))


def _objects_in(items: object) -> Iterator[Mapping[str, object]]:
    if not isinstance(items, list):
        return
    for item in items:
        if isinstance(item, Mapping):
            yield item


def content_text(content: object) -> str:
    """Return the text of a tool result, which is a string or a list of content blocks."""
    if isinstance(content, str):
        return content
    texts = [get_text(block, "text") for block in _objects_in(content)]
    return "\n".join(filter(None, texts))
