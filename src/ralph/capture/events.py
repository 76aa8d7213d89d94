"""The Event, which has the same fields for every host, and helpers to read its JSON.

`host_payloads` makes events from payloads. The helpers here treat foreign JSON with suspicion: a
member that is missing or has an unexpected type is read as empty, and reading stops at a depth that
no honest payload reaches.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from ralph.core.record import NO_EXTRA
from ralph.lean import discovery

Json = Mapping[str, object]
JSON_OBJECT = (dict, Mapping)
"""The types of an object. A `dict` comes first, because the test for a `Mapping` takes long."""


class EventKind(StrEnum):
    """The moments at which a host calls Ralph."""

    SESSION_START = "SessionStart"
    USER_PROMPT_SUBMIT = "UserPromptSubmit"
    PRE_TOOL_USE = "PreToolUse"
    POST_TOOL_USE = "PostToolUse"
    POST_TOOL_USE_FAILURE = "PostToolUseFailure"
    PRE_COMPACT = "PreCompact"
    STOP = "Stop"
    SUBAGENT_STOP = "SubagentStop"
    SESSION_END = "SessionEnd"


class Action(StrEnum):
    """What a tool does, whatever the host calls it."""

    SHELL = "shell"
    READ = "read"
    SEARCH = "search"
    FETCH = "fetch"
    CHANGE = "change"
    OTHER = "other"


class FileEdit(NamedTuple):
    """A changed part of a file, before and after.

    This is not a patch, because a secret in a patch would be hidden behind its `-` or `+`.
    """

    path: str
    before: str
    after: str
    whole: str = ""


class Event(NamedTuple):
    """One hook call. Fields that the host does not send are empty. `agent` is a subagent's id.

    It is a named tuple because an index creates one for every line of a log.
    """

    kind: EventKind
    host: str
    session: str = ""
    at: str = ""
    cwd: str = ""
    agent: str = ""
    mode: str = ""
    source: str = ""
    reason: str = ""
    prompt: str = ""
    message: str = ""
    tool: str = ""
    action: Action = Action.OTHER
    parameters: Json = NO_EXTRA
    response: str = ""
    error: str = ""
    failed: bool = False
    exit_code: int | None = None
    files: tuple[str, ...] = ()  # relative to `cwd` if inside it
    changes: tuple[FileEdit, ...] = ()
    call: str = ""

    def text_parameter(self, key: str) -> str:
        """Return a parameter of the tool call if it is a string, or "".

        Hosts send lists and numbers under the same keys.
        """
        value = self.parameters.get(key)
        if isinstance(value, str):
            return value
        return ""


TOOL_EVENTS = (EventKind.POST_TOOL_USE, EventKind.POST_TOOL_USE_FAILURE)
WRITERS = {
    EventKind.USER_PROMPT_SUBMIT: "human",
    EventKind.STOP: "agent",
    EventKind.SUBAGENT_STOP: "agent",
}
"""Who wrote an event's text. All other observations come from tools."""

_MAX_DEPTH = 24  # levels of nested JSON
_MAX_FILES = 50  # per event
_CACHED_PATHS = 4_096  # a session names the same files again and again
_MAX_NUMBER_BITS = 128  # a longer number is not printed
_PATH_KEYS = frozenset(
    {
        "file_path",
        "filepath",
        "filePath",
        "path",
        "paths",
        "file",
        "files",
        "notebook_path",
        "absolute_path",
        "dir_path",
        "filename",
        "fileName",
        "target_file",
    }
)
_TEXT_KEYS = ("content", "llmContent", "text", "result", "output", "message")
_MEDIA = ("image", "audio", "resource", "document", "video")


def text_member(payload: Json, key: str, *other_keys: str) -> str:
    """Return the first of these members that is a non-empty string, or ""."""
    value = payload.get(key)
    if value and isinstance(value, str):
        return value
    if other_keys:
        return text_member(payload, *other_keys)
    return ""


def as_object(value: object) -> Json:
    """Return an object, or an empty one if the value is something else."""
    if value is not None and isinstance(value, JSON_OBJECT):
        return value
    return NO_EXTRA


def whole_number(value: object) -> int | None:
    """Return the value if it is an integer that fits in 32 bits, or else None."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if abs(value) >= 2**31:
        return None
    return value


def outline(value: object, depth: int = 0) -> str:
    """Format a value like JSON, but without escapes, which could hide the start of a secret."""
    if isinstance(value, str):
        return f'"{value}"' if depth else value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value) if value.bit_length() < _MAX_NUMBER_BITS else "..."
    if depth >= _MAX_DEPTH:
        return "..."
    if isinstance(value, JSON_OBJECT):
        members = [f'"{key}": {outline(inner, depth + 1)}' for key, inner in value.items()]
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(outline(inner, depth + 1) for inner in value) + "]"
    return str(value)


def response_text(value: object, depth: int = 0) -> str:
    """Return a tool's answer as text.

    The answer may be a string, a list of content blocks, or an object that contains either.
    """
    if value is None or value == "":
        return ""
    if depth >= _MAX_DEPTH:
        return "..."
    if isinstance(value, str):
        return value
    if isinstance(value, JSON_OBJECT):
        if value.get("type") in _MEDIA and not isinstance(value.get("text"), str):
            return f"[{value['type']}]"
        if "stdout" in value or "stderr" in value:
            return response_text([value.get("stdout"), value.get("stderr")], depth)
        for key in _TEXT_KEYS:
            if value.get(key):
                return response_text(value[key], depth + 1)
        return outline(value)
    if isinstance(value, list):
        texts = [response_text(item, depth + 1) for item in value]
        return "\n".join(text for text in texts if text)
    return outline(value)


@lru_cache(_CACHED_PATHS)
def relative_path(path: str, cwd: str) -> str:
    """Return a path relative to `cwd` if it is inside it, with composed characters."""
    return discovery.composed(_relative_path(path, cwd))


def _relative_path(path: str, cwd: str) -> str:
    if not path or not _is_absolute(cwd) or "\0" in path or "\0" in cwd:
        return path
    if _is_absolute(path):
        try:
            relative = os.path.relpath(path, cwd)
        except ValueError:  # on another drive
            return path
    else:
        relative = os.path.normpath(path)
    if relative.startswith(".."):
        return path
    return discovery.with_slashes(relative)


def _is_absolute(path: str) -> bool:
    return os.path.isabs(path)  # noqa: PTH117 - called for every path of every event


def files_of(parameters: Json, cwd: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the files in `more` and those that a call's parameters name, without duplicates."""
    names: dict[str, None] = {}
    for path in (*more, *_paths(parameters, 0)):
        if path.strip() and "\n" not in path:
            names[relative_path(path, cwd)] = None
    return tuple(names)[:_MAX_FILES]


def _paths(value: Json, depth: int) -> Iterator[str]:
    for key, inner in value.items():
        for item in inner if isinstance(inner, list) else (inner,):
            if isinstance(item, str):
                if key in _PATH_KEYS:
                    yield item
            elif isinstance(item, JSON_OBJECT) and depth < _MAX_DEPTH:
                yield from _paths(item, depth + 1)
