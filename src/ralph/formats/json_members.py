"""Rules for the members of JSON objects that people and Ralph edit: tasks, stories and insights.

Each codec describes its objects by a table from member names to types, such as

    {"id": "text", "priority": "number", "blocked_by": "texts", "passes": "flag"}

`JsonReader.read_members` splits the members of an object according to such a table. A member of the
wrong type is reported and treated as if it were absent, but an edit does not remove it from the
file. Unknown members are kept as `extra`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ralph.core import json_text
from ralph.core.errors import Refused
from ralph.core.json_text import JsonReader, Members, Path

MAX_SHOWN_VALUE = 60  # characters of a value that a problem shows

_MAX_SHOWN_ID = 80  # characters of an id that a problem shows


def check_identity(reader: JsonReader, values: Members, *, noun: str, path: Path = ()) -> bool:
    """Return whether an object has a usable id, and report problems with its id and title.

    `noun` is `task`, `feature` or `story`. The ids of tasks and features name their folders.
    """
    record_id = values.get("id")
    if not record_id:
        reader.report(
            path,
            f"a {noun} without an id is not read",
            f'add an "id" that no other {noun} has',
            level="error",
            code="no-id",
        )
        return False
    if noun != "story" and not _is_folder_name(record_id):
        reader.report(
            (*path, "id"),
            f"the id {record_id[:_MAX_SHOWN_ID]!r} cannot be the name of a folder: "
            f"the {noun} is not read",
            "use letters, digits, `-`, `_` and `.`, as in t-1a2b3c",
            level="error",
            code="bad-id",
        )
        return False
    if "title" not in values:
        what = f"{noun} {record_id} has no title"
        reader.report(path, what, 'add a "title" of one line', code="no-title")
    return True


def _is_folder_name(name: str) -> bool:
    return name not in (".", "..") and not set(name) & set("/\\\0")


def join_members(named: Members, extra: Mapping[str, object]) -> Members:
    """Combine the members that a format defines with extra ones.

    Raises Refused if they overlap, or if the id is missing.
    """
    if not named["id"]:
        raise Refused("an id is missing", hint="create one, such as t-1a2b3c")
    for key in extra:
        if key in named:
            raise Refused(
                f"`extra` contains `{key}`, which is a field of the format",
                hint="set the field of that name",
            )
    return {**named, **extra}


def merge_members(stored: Members, *, before: Members, after: Members) -> Members:
    """Apply the difference between `before` and `after` to the members stored in a file.

    Unknown members, and members that did not change, stay exactly as they are stored. For example,
    if `stored` is `{"id": "t-1", "priority": 1.0, "note": "x"}`, and only the title was added from
    `before` to `after`, the result is `stored` with a title.
    """
    merged = {key: value for key, value in stored.items() if key in after or key not in before}
    for key, value in after.items():
        if key in before and json_text.same_json(before[key], value):
            continue
        old_value = before.get(key)
        stored_value = stored.get(key)
        if (
            isinstance(value, dict)
            and isinstance(old_value, dict)
            and isinstance(stored_value, dict)
        ):
            merged[key] = merge_members(stored_value, before=old_value, after=value)
        else:
            merged[key] = json_text.check_json(value)
    return merged
