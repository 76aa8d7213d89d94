"""Whether the user's own settings have our hook as well, so that of plugin and settings only one handles an event.

Both may be there: a plugin for all projects, and `ralph install claude` in one of them. The settings go first,
since they name the interpreter themselves. They are read as bytes: what we put there is a text that ends with
`ralph/hooks/run.py`, and it counts if that file is there; one that was left behind by a package that is gone
starts nothing. `tests/hooks/test_twice.py` proves with real processes that each event is recorded once.
"""

import _json
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ENDING = b'ralph/hooks/run.py"'
_LARGEST = 1 << 22
_READABLE = 4


def installed(env: "Mapping[str, str]") -> bool:
    """Whether one of the settings that hold for this session starts our hook."""
    return any(posix.access(path, _READABLE) for file in _files(env) for path in _runners(_read(file)))


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


def _runners(text: bytes) -> "Iterator[str]":
    """Each text in the settings that ends like the name of our stub."""
    at = text.find(_ENDING)
    while at >= 0:
        start = text.rfind(b'"', 0, at) + 1
        try:
            path, _ = _json.scanstring(text[start : at + len(_ENDING)].decode("utf-8"), 0, True)
        except (ValueError, SystemError):  # the second where `json` with its error is not loaded
            path = ""
        if path.startswith("/") and "\0" not in path:
            yield path
        at = text.find(_ENDING, at + 1)


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
