"""Where a hook acts and what the settings say, found with a few system calls and no parser.

A project is the nearest folder upward with `ralph.yml`, `.ralph/` or `.agent/memories.md`, never above
the git root. The settings that matter to hooks stand in `.ralph/cache/hook`, written by
`app/hook_settings` together with the time and size of every config file they came from; if any of these
has changed, or the environment sets something of its own, the cache says nothing and the full path reads
the config. A worktree keeps its log elsewhere, which is for the full path, too. Classes are plain ones:
`dataclasses` alone would double the time of an event. `tests/hooks/test_place.py` proves it.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_LINE = b"ralph-hook 1\n"
_KIND, _FOLDER, _REGULAR = 0o170000, 0o040000, 0o100000
_LARGEST = 16_384


class Settings:
    """What the cache holds."""

    __slots__ = ("budget", "capture", "enabled", "inject", "plain", "recent", "tags", "types", "window")

    def __init__(self, said: "Mapping[str, str]") -> None:
        self.capture = said["capture"] == "1"
        self.plain = said["plain"] == "1"
        self.enabled = said["enabled"] == "1"
        self.inject = said["inject"]
        self.budget = int(said["budget"])
        self.recent = int(said["recent"])
        self.window = int(said["window"])
        self.types = tuple(word for word in said["types"].split(",") if word)
        self.tags = tuple(word for word in said["tags"].split(",") if word)


class Place:
    """A project in which a hook acts: its folder, which is also where its log, cache and index live."""

    __slots__ = ("root", "settings")

    def __init__(self, root: str, settings: Settings) -> None:
        self.root = root
        self.settings = settings

    @property
    def folder(self) -> str:
        """`.ralph` of this project."""
        return f"{self.root}/.ralph"

    @property
    def paused(self) -> bool:
        """Whether `ralph pause` has switched the hooks off here."""
        return _kind(f"{self.folder}/log/paused") != 0


class Found:
    """A project's folder, and whether it is a plain one: neither in a worktree nor behind odd links."""

    __slots__ = ("plain", "root")

    def __init__(self, root: str, plain: bool) -> None:
        self.root = root
        self.plain = plain


def environment() -> dict[str, str]:
    """The environment of this process, as `os` would give it."""
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in posix.environ.items()
    }


def start(env: "Mapping[str, str]", said: object) -> str:
    """Where to begin: the host's project folder, else the folder that the payload names, else our own."""
    for folder in (env.get("CLAUDE_PROJECT_DIR"), said):
        if isinstance(folder, str) and folder.startswith("/") and "\0" not in folder:
            return folder.rstrip("/") or "/"
    return posix.getcwd()


def project(folder: str) -> Found | None:
    """The project that this folder lies in, or None."""
    root = None
    while True:
        base = folder.rstrip("/")
        if root is None and _marked(base):
            root = folder
        git = _kind(f"{base}/.git")
        if git or not base:
            return None if root is None else Found(root, git in (0, _FOLDER))
        folder = base.rpartition("/")[0] or "/"


def _marked(base: str) -> bool:
    if _kind(f"{base}/ralph.yml") == _REGULAR or _kind(f"{base}/.ralph") == _FOLDER:
        return True
    return _kind(f"{base}/.agent/memories.md") == _REGULAR


def _kind(path: str) -> int:
    """What a path leads to, as `st_mode` has it; 0 for nothing."""
    try:
        return posix.stat(path).st_mode & _KIND
    except (OSError, ValueError):
        return 0


def user_config(env: "Mapping[str, str]") -> str | None:
    """The settings of one person for all projects, where they would be."""
    folder = env.get("XDG_CONFIG_HOME") or ""
    if not folder.startswith("/"):
        folder = f"{env.get('HOME') or ''}/.config"
    return f"{folder}/ralph/config.yml" if folder.startswith("/") else None


def may_be_everywhere(env: "Mapping[str, str]") -> bool:
    """Whether the user's config may say that hooks act outside of projects, too: it has the word."""
    path = user_config(env)
    return path is not None and b"everywhere" in (_read(path) or b"")


def place(root: str, env: "Mapping[str, str]") -> Place | None:
    """The project with its settings; None when the cache is missing, out of date or does not count."""
    if any(name.startswith("RALPH_") for name in env):
        return None
    cached = _read(f"{root}/.ralph/cache/hook")
    if cached is None or not cached.startswith(FIRST_LINE) or not cached.endswith(b"\n"):
        return None
    said: dict[str, str] = {}
    files = 0
    for line in cached.decode("utf-8", "surrogateescape").split("\n")[1:-1]:
        key, _, value = line.partition(" ")
        if key == "file":
            files += 1
            if not _as_it_was(value):
                return None
        elif key == "user":
            if value != (user_config(env) or ""):
                return None
        else:
            said[key] = value
    try:
        own = said["root"] == str(posix.stat(root).st_ino)  # a copy of the folder has another number
        return Place(root, Settings(said)) if files and own else None
    except (KeyError, ValueError, OSError):
        return None


def _as_it_was(said: str) -> bool:
    """Whether a config file has the time and size that the cache noted; `0 0` for none."""
    time, _, rest = said.partition(" ")
    size, _, path = rest.partition(" ")
    try:
        now = posix.stat(path)
    except FileNotFoundError:
        return time == "0" and size == "0"
    except (OSError, ValueError):
        return False
    return time == str(now.st_mtime_ns) and size == str(now.st_size)


def _read(path: str) -> bytes | None:
    """A small file's bytes, or None; a larger one is not what we look for."""
    try:
        handle = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        return posix.read(handle, _LARGEST)
    except OSError:
        return None
    finally:
        posix.close(handle)
