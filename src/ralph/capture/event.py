"""Event: what a host told a hook, in words that are the same for every host.

The adapters in `hosts/` make Events out of payloads; nothing behind them knows a host. Payloads are
somebody else's JSON: any member may be missing or of another type, so they are read with the functions
below, which give an empty value instead of an error and stop at a depth that no honest payload has.
A change to a file is kept as the text before and after, not as a patch: secrets are looked for in both
before a line gets a sign in front, for `-ghp_...` would no longer be known as a token.
`tests/capture/test_hosts.py` feeds the adapters the payloads of real hosts and any JSON at all.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ralph.model.record import NO_EXTRA


class Happening(StrEnum):
    """The moments at which a host calls us."""

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
    """What a tool does, whatever its host calls it."""

    SHELL = "shell"
    READ = "read"
    SEARCH = "search"
    FETCH = "fetch"
    CHANGE = "change"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Change:
    """One place of a file before and after; `whole` is the file as it was, where the host tells."""

    path: str
    before: str
    after: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One call of a hook; a member that the host did not tell is empty."""

    happening: Happening
    host: str
    session: str = ""
    at: str = ""
    cwd: str = ""
    agent: str = ""
    """The subagent's id."""
    mode: str = ""
    """`plan` or `agent`."""
    source: str = ""
    reason: str = ""
    prompt: str = ""
    message: str = ""
    """The last words of the assistant."""
    tool: str = ""
    action: Action = Action.OTHER
    parameters: Mapping[str, object] = field(default=NO_EXTRA, hash=False)
    response: str = ""
    error: str = ""
    failed: bool = False
    exit_code: int | None = None
    files: tuple[str, ...] = ()
    """Relative to `cwd` where they are inside of it."""
    changes: tuple[Change, ...] = ()
    call: str = ""
    """The host's id of this use of the tool."""


# --- reading somebody's JSON --------------------------------------------------------------------

_DEEPEST = 24
_MOST_FILES = 50
_PATH_KEYS = frozenset(
    """file_path filepath filePath path paths file files notebook_path absolute_path dir_path filename fileName
    target_file""".split()
)
_WORDS = ("content", "llmContent", "text", "result", "output", "message")
_PICTURES = ("image", "audio", "resource", "document", "video")


def text(payload: Mapping[str, object], *keys: str) -> str:
    """The first of these members that is text and not empty."""
    for key in keys:
        found = payload.get(key)
        if isinstance(found, str) and found:
            return found
    return ""


def flag(payload: Mapping[str, object], key: str) -> bool:
    """Whether a member is true."""
    return payload.get(key) is True


def whole_number(found: object) -> int | None:
    """A whole number of a sensible size, else None."""
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 2**31 else None


def members(payload: Mapping[str, object], key: str) -> Mapping[str, object]:
    """A member that is an object, else the empty one."""
    found = payload.get(key)
    return found if isinstance(found, Mapping) else NO_EXTRA


def outline(value: object, depth: int = 0) -> str:
    """A value in the manner of JSON, with texts as they are: an escape could hide what a secret begins with."""
    if isinstance(value, str):
        return f'"{value}"' if depth else value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if value.bit_length() < 128 else "..."
    if depth >= _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return "{" + ", ".join(f'"{key}": {outline(inner, depth + 1)}' for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(outline(inner, depth + 1) for inner in value) + "]"
    return str(value)


def words_of(value: object, depth: int = 0) -> str:
    """What a tool answered, as text: a string, a list of content blocks, or an object that holds one of them."""
    if value is None or value == "":
        return ""
    if depth >= _DEEPEST:
        return "..."
    if isinstance(value, list):
        return "\n".join(filter(None, (words_of(item, depth + 1) for item in value)))
    if isinstance(value, Mapping):
        return _words_of_object(value, depth)
    return outline(value)


def _words_of_object(value: Mapping[str, object], depth: int) -> str:
    if "stdout" in value or "stderr" in value:
        return "\n".join(filter(None, (words_of(value.get(key), depth + 1) for key in ("stdout", "stderr"))))
    kind = value.get("type")
    if kind in _PICTURES and not isinstance(value.get("text"), str):
        return f"[{kind}]"
    for key in _WORDS:
        if value.get(key):
            return words_of(value[key], depth + 1)
    return outline(value)


def within(path: str, cwd: str) -> str:
    """A path relative to `cwd` when it is inside of it, else as it was."""
    if not path or not cwd or "\0" in path or "\0" in cwd:
        return path
    place, top = os.path.normpath(path), os.path.normpath(cwd)
    if not place.startswith("/"):
        return path if place.startswith("..") else place
    if place == top:
        return "."
    return place[len(top.rstrip("/")) + 1 :] if place.startswith(top.rstrip("/") + "/") else path


def files_of(parameters: Mapping[str, object], cwd: str, more: Iterable[str] = ()) -> tuple[str, ...]:
    """The files that a call names, each once."""
    found = [path for path in (*more, *_paths(parameters, 0)) if path.strip() and "\n" not in path]
    return tuple(dict.fromkeys(within(path, cwd) for path in found))[:_MOST_FILES]


def _paths(value: Mapping[str, object], depth: int) -> Iterator[str]:
    for key, inner in value.items():
        for item in inner if isinstance(inner, list) else [inner]:
            if isinstance(item, str) and key in _PATH_KEYS:
                yield item
            elif isinstance(item, Mapping) and depth < _DEEPEST:
                yield from _paths(item, depth + 1)


def mode_of(payload: Mapping[str, object]) -> str:
    """`plan`, `agent`, or nothing when the host does not say."""
    mode = text(payload, "permission_mode", "approval_mode")
    return "" if not mode else "plan" if mode == "plan" else "agent"
