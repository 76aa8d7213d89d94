"""Where a hook acts and what the settings say, found with a few system calls and no parser.

A project is the nearest folder upward with `ralph.yml`, `.ralph/` or `.agent/memories.md`, never above
the git root. The settings that matter to hooks stand in `.ralph/cache/hook`, written by
`app/hook_settings` together with the time and size of every config file they came from, and with the variables
that had a say; if any of these has changed, the cache says nothing and the full path reads the config.
A worktree keeps its log, cache and index in the main checkout, the index in a folder by git's name for it; git's
pointers are followed here as `paths` does it, but never through a link: what is odd is for the full path. A worktree
that has none of Ralph's files is of the project as well, if its main checkout has `.ralph/`. Who is in the worktree of
a task works on it, whether or not the environment says so. Classes are plain ones: `dataclasses` alone would double
the time of an event. `tests/hooks/test_place.py` and `tests/hooks/test_bare_tree.py` prove it.
"""

import _json
import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FIRST_LINE = b"ralph-hook 2\n"
VARIABLES = ("RALPH_MEMORIES_", "RALPH_CONTEXT_", "RALPH_PRIVACY_", "RALPH_CAPTURE_")
"""How the variables begin that set what hooks go by; `app/hook_settings` has the same."""
TASK = "RALPH_TASK"
"""The variable by which the loop and chats tell their agents, and so us, what they work on."""
_TREES, _TASK_ID = "/.worktrees", "t-"
"""Where the worktrees of tasks are, as `paths.task_of` has it, and how the id of a task begins."""
_KIND, _FOLDER, _REGULAR = 0o170000, 0o040000, 0o100000
_LARGEST = 65_536


class Settings:
    """What the cache holds."""

    __slots__ = ("budget", "capture", "compiled", "enabled", "inject", "paths", "patterns", "prepared", "recent",
                 "share", "tags", "types", "window")  # fmt: skip

    def __init__(self, said: "Mapping[str, str]", folder: str = "") -> None:
        self.prepared = (f"{folder}/cache/rules", said.get("rules", ""))
        self.compiled = said.get("compiled", "")
        self.capture = said["capture"] == "1"
        self.patterns = _words(said["patterns"])
        self.paths = _words(said["paths"])
        self.enabled = said["enabled"] == "1"
        self.inject = said["inject"]
        self.budget = int(said["budget"])
        self.recent = int(said["recent"])
        self.window = int(said["window"])
        self.share = float(said["share"])
        self.types = tuple(word for word in said["types"].split(",") if word)
        self.tags = tuple(word for word in said["tags"].split(",") if word)


def _words(said: str) -> tuple[str, ...]:
    """Texts as JSON, one behind the other; ValueError for anything else."""
    found, at = [], 0
    while at < len(said):
        if said[at] != '"':
            raise ValueError(said)
        try:
            text, at = _json.scanstring(said, at + 1, True)
        except SystemError as error:  # where `json` with its error is not loaded
            raise ValueError(said) from error
        found.append(text)
    return tuple(found)


class Place:
    """A project in which a hook acts: where its log, cache and index live; of a worktree, in the main checkout.

    `checkout` is where its files are, which is another folder in a worktree, and `tree` what git calls that; `task` is
    the one whose worktree it is.
    """

    __slots__ = ("checkout", "root", "settings", "task", "tree")

    def __init__(self, root: str, settings: Settings, checkout: str = "", tree: str = "", task: str = "") -> None:
        self.root = root
        self.settings = settings
        self.checkout = checkout or root
        self.tree = tree
        self.task = task

    @property
    def folder(self) -> str:
        """`.ralph` of this project."""
        return f"{self.root}/.ralph"

    @property
    def index(self) -> str:
        """The index of this checkout, as `paths.index_file` has it."""
        return f"{self.folder}/cache/worktrees/{self.tree}/ralph.db" if self.tree else f"{self.folder}/ralph.db"

    @property
    def paused(self) -> bool:
        """Whether `ralph capture off` has switched the hooks off here."""
        return _kind(f"{self.folder}/log/paused") != 0


class Found:
    """A project's folder, and the one that keeps its log, cache and index; "" where only the full path can tell.

    `tree` is what git calls the worktree that it is in, `task` the one whose worktree that is; "" in a main checkout.
    """

    __slots__ = ("root", "state", "task", "tree")

    def __init__(self, root: str, state: str, tree: str = "", task: str = "") -> None:
        self.root = root
        self.state = state
        self.tree = tree
        self.task = task


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
    begun, root = folder, None
    while True:
        base = folder.rstrip("/")
        if root is None and _marked(base):
            root = folder
        git = _kind(f"{base}/.git")
        if git or not base:
            if root is not None:
                return _found(root, base, git)
            return _bare(begun, base) if git == _REGULAR else None
        folder = base.rpartition("/")[0] or "/"


def _found(root: str, top: str, git: int) -> Found:
    """A project whose checkout is `top`, with the place of its log; without that when it is not plain to see."""
    if git in (0, _FOLDER):
        return Found(root, root)
    pointer = _pointer(f"{top}/.git") if git == _REGULAR else ""
    word, _, where = pointer.partition(": ")
    if word != "gitdir" or not where:
        return Found(root, "")
    own = where if where.startswith("/") else f"{top}/{where}"
    if _kind(f"{own}/HEAD") != _REGULAR:
        return Found(root, "")
    if not _kind(f"{own}/commondir"):
        return Found(root, root)  # a submodule, which is a checkout of its own
    common = _pointer(f"{own}/commondir")
    main, _, name = _real(common if common.startswith("/") else f"{own}/{common}").rpartition("/")
    tree = own.rpartition("/")[2]
    if not common or not main or tree in ("", ".", ".."):
        return Found(root, "")
    if name != ".git":
        return Found(root, root)
    state = f"{main}{root[len(top) :]}"
    return Found(root, state, tree, _task(top, state))


def _bare(folder: str, top: str) -> Found | None:
    """The project of a worktree without any of Ralph's files: where its main checkout has `.ralph`, or None."""
    held = _found(top, top, _REGULAR)
    if held.state == top:
        return None
    main = held.state or _main(top)
    while len(folder) >= len(top):
        inside = folder[len(top) :]
        if main and _kind(f"{main}{inside}/.ralph") == _FOLDER:
            state = f"{main}{inside}" if held.state else ""
            return Found(folder, state, held.tree, held.task or (_task(top, state) if state else ""))
        folder = folder.rpartition("/")[0]
    return None


def _main(top: str) -> str:
    """The main checkout of a worktree whose pointers are not plain; only to see whether there is anything to do."""
    where = _pointer(f"{top}/.git").partition(": ")[2]
    own = where if where.startswith("/") else f"{top}/{where}"
    common = _pointer(f"{own}/commondir")
    return f"{common if common.startswith('/') else f'{own}/{common}'}/.." if where and common else ""


def _task(top: str, state: str) -> str:
    """The task whose worktree begins here; nothing for a worktree that is no task's."""
    folder, _, name = top.rpartition("/")
    if not folder.endswith(_TREES):
        return ""
    return name if name.startswith(_TASK_ID) or _kind(f"{state}/.ralph/tasks/{name}") == _FOLDER else ""


def _pointer(path: str) -> str:
    """What one of git's files of one line says, or nothing."""
    try:
        return (read(path) or b"").decode("utf-8").strip()
    except UnicodeDecodeError:
        return ""


def _real(path: str) -> str:
    """A path without `..`, if no link is on the way; else nothing."""
    pieces: list[str] = []
    for piece in path.split("/"):
        if piece == "..":
            pieces = pieces[:-1]
        elif piece not in ("", "."):
            pieces.append(piece)
            try:
                if posix.lstat(f"/{'/'.join(pieces)}").st_mode & _KIND != _FOLDER:
                    return ""
            except (OSError, ValueError):
                return ""
    return f"/{'/'.join(pieces)}"


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
    return path is not None and b"everywhere" in (read(path) or b"")


def place(root: str, env: "Mapping[str, str]", state: str = "", tree: str = "", task: str = "") -> Place | None:
    """The project with its settings; None when the cache is missing, out of date or does not count."""
    state = state or root
    try:
        number = str(posix.stat(root).st_ino)  # a copy of the folder has another one
        cached = read(f"{state}/.ralph/cache/hook" if state == root else f"{state}/.ralph/cache/hook-{number}")
        if cached is None or not cached.startswith(FIRST_LINE) or not cached.endswith(b"\n"):
            return None
        said: dict[str, str] = {}
        files = 0
        for line in cached.decode("utf-8", "surrogateescape").split("\n")[1:-1]:
            key, _, value = line.partition(" ")
            if key != "file":
                said[key] = value
            elif _as_it_was(value):
                files += 1
            else:
                return None
        same = said["root"] == number and said["user"] == (user_config(env) or "") and said["env"] == variables(env)
        return Place(state, Settings(said, f"{state}/.ralph"), root, tree, task) if files and same else None
    except (KeyError, ValueError, OSError):
        return None


def variables(env: "Mapping[str, str]") -> str:
    """The variables that set what hooks go by, with their values, in the words of the cache."""
    found = [f"{name}={env[name]}" for name in env if name.startswith(VARIABLES)]
    return "".join(map(_json.encode_basestring_ascii, sorted(found)))


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


def read(path: str, largest: int = _LARGEST) -> bytes | None:
    """A small file's bytes, or None; of a larger one the beginning."""
    try:
        handle = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        return posix.read(handle, largest)
    except OSError:
        return None
    finally:
        posix.close(handle)
