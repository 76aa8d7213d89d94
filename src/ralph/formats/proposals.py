"""Read and write `proposals.jsonl`: proposed memories that belong to no task, one per line.

Each line is an object with the same members as an element of a task's insights.json. To share that
file's codec, the lines are wrapped into a document of its form and unwrapped again:

    {"id": "ins-1", "text": "..."}            {"version": 1, "insights": [{"id": "ins-1", ...},
    {"id": "ins-2", "text": "..."}      <->   {"id": "ins-2", ...}]}

The document has the same line numbers as the lines. A line that is not an object, such as one
that a crash has cut off, is ignored and dropped with the next change.
"""

from __future__ import annotations

import json

_OPENING = '{"version": 1, "insights": ['
_CLOSING = "]}"


def wrap_lines(text: str) -> str:
    """Return the lines of a proposals file as the text of an insights.json."""
    lines = [line for line in text.split("\n") if _is_object(line)]
    if not lines:
        return ""
    return _OPENING + ",\n".join(lines) + _CLOSING


def unwrap_lines(document: str) -> str:
    """Return the insights in the text of an insights.json as the lines of a proposals file."""
    if not document:
        return ""
    insights = json.loads(document)["insights"]
    return "".join(json.dumps(insight, ensure_ascii=False) + "\n" for insight in insights)


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
