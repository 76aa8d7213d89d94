"""Whether the user's own settings have our hook as well, so that of plugin and settings only one handles an event.

Both may be there: a plugin for all projects, and `ralph install claude` in one of them. The settings go first,
since they name the interpreter themselves. A hook counts if it is there for this event and would start: its
interpreter can be executed, and the file that it names, `ralph/hooks/run.py`, can be read. What was left
behind by an interpreter or a package that is gone starts nothing, nor do settings that the host cannot read.
`tests/hooks/test_twice.py` proves with real processes that each event is recorded once.
"""

import posix

from ralph.hooks.fast import scanned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RUNNER = "ralph/hooks/run.py"
_LARGEST = 1 << 22
_EXECUTABLE, _READABLE = 1, 4


def installed(env: "Mapping[str, str]", event: str) -> bool:
    """Whether one of the settings that hold for this session starts our hook at this event."""
    return any(map(_starts, (hook for file in _files(env) for hook in _hooks(_read(file), event))))


def _files(env: "Mapping[str, str]") -> "Iterator[str]":
    """The settings of the user and of the project, where they would be."""
    home = env.get("HOME")
    folder = env.get("CLAUDE_CONFIG_DIR") or (f"{home}/.claude" if home else "")
    if folder:
        yield f"{folder}/settings.json"
    project = env.get("CLAUDE_PROJECT_DIR")
    if project:
        yield f"{project}/.claude/settings.json"
        yield f"{project}/.claude/settings.local.json"


def _hooks(text: bytes, event: str) -> "Iterator[dict[str, object]]":
    """Every hook of the settings for an event."""
    found = scanned(text.decode("utf-8", "replace"))
    groups = _members(_members(found).get("hooks")).get(event)
    for group in groups if isinstance(groups, list) else ():
        hooks = _members(group).get("hooks")
        yield from (hook for hook in (hooks if isinstance(hooks, list) else ()) if isinstance(hook, dict))


def _starts(hook: "dict[str, object]") -> bool:
    """Whether a hook is ours, with an interpreter and a file that are there."""
    words = hook.get("args")
    ours = [word for word in words if str(word).endswith(_RUNNER)] if isinstance(words, list) else []
    return _may(hook.get("command"), _EXECUTABLE) and any(_may(word, _READABLE) for word in ours)


def _may(path: object, how: int) -> bool:
    try:
        return isinstance(path, str) and path.startswith("/") and posix.access(path, how)
    except ValueError:  # a NUL, or half a character
        return False


def _members(value: object) -> "dict[str, object]":
    return value if isinstance(value, dict) else {}


def _read(path: str) -> bytes:
    try:
        handle = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except (OSError, ValueError):
        return b""
    try:
        pieces: list[bytes] = []
        while (piece := posix.read(handle, _LARGEST)) and len(pieces) < 8:
            pieces.append(piece)
        return b"".join(pieces)
    except OSError:
        return b""
    finally:
        posix.close(handle)
