"""Read and write `proposals.jsonl`: proposed memories that belong to no task, one per line.

Each line is an object with a type and a version, like every line of a log, and with the members of
an element in a task's insights.json. To share that file's codec, the lines are wrapped into a
document of its form and unwrapped again:

    {"v": 1, "type": "proposal", "id": "ins-1"}       {"version": 1, "insights": [{"id": "ins-1"}
    {"v": 1, "type": "proposal", "id": "ins-2"}  <->  ,{"id": "ins-2"}]}

The document has the same line numbers as the lines. A line that is not a proposal, such as one that
a crash has cut off, is ignored and dropped with the next change.
"""

from __future__ import annotations

import json

_HEAD = {"v": 1, "type": "proposal"}
_OPENING = '{"version": 1, "insights": ['
_CLOSING = "]}"


def wrap_lines(text: str) -> str:
    """Return the lines of a proposals file as the text of an insights.json."""
    document_lines = []
    separator = ""
    for line in text.split("\n"):
        members = _read_line(line)
        if members:
            element = json.dumps(members, ensure_ascii=False)
            document_lines.append(f"{separator}{element}")
            separator = ","
        else:
            document_lines.append("")  # the lines below keep their numbers
    if not separator:
        return ""
    return _OPENING + "\n".join(document_lines) + _CLOSING


def unwrap_lines(document: str) -> str:
    """Return the insights in the text of an insights.json as the lines of a proposals file."""
    if not document:
        return ""
    lines = []
    for members in json.loads(document)["insights"]:
        line = {**_HEAD, **members, **_HEAD}  # the head comes first, and no member replaces it
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines)


def _read_line(line: str) -> dict[str, object]:
    """Return the members of a proposal, or {} if the line is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(value, dict) or value.get("type") != _HEAD["type"]:
        return {}
    return {name: member for name, member in value.items() if name not in _HEAD}
