"""Find a project, its git folders and its state folder from any folder inside it.

State lives in `<git common dir>/ralph/<project>/<machine id>/`, which `git clone` does not copy and
`git clean` does not delete. In a checkout of another user, it lives in the user's own state folder.
Git itself is never run, because hooks load this module on every event.
"""

from __future__ import annotations

import os
import sys

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Subfolders of the state folder. Other modules use these names instead of spelling them out.
LOG = "log"  # everything that was recorded
SESSIONS = f"{LOG}/sessions"  # one log per session
RUNS = f"{LOG}/runs"  # one log per run of the loop
LEARNED = "learned"  # the file in LOG that lists what accepted memories were learned from
CACHE = "cache"  # can be rebuilt, but that takes time
TREE_CACHES = f"{CACHE}/worktrees"  # one folder per linked worktree, under git's name for it
HEARTBEATS = f"{CACHE}/runs"  # which runs are alive, and which have been asked to stop
INJECTED = f"{CACHE}/injected"  # what each session was given
CATCH_UP = "catch-up"  # the file in CACHE that lists what prompts tried to index
SUBAGENTS = f"{CACHE}/subagents"  # the tasks of each session's subagents

REMOVED = "removed"
"""The folder in the user's state folder with one file per checkout that `ralph deinit` cleaned."""
PROJECTS = "projects"
"""The folder in the user's state folder for projects whose checkout belongs to another user."""

MARKERS = ("ralph.yml", ".ralph", ".agent/memories.md")
"""The files and folders that mark a folder as a project.

A git checkout with none of them is a project to commands, but not to hooks, unless it was set up
automatically.
"""
SET_UP = "set-up"
"""The file next to the state folders that marks a checkout as a project without any marker.

Hooks create it if the user's config has `init.auto`.
"""
NOT_SET_UP = "Ralph is not set up here: run `ralph init`"
CONFIG_FILES = (".ralph/config.sh", ".ralph.toml", "ralph.yml", "ralph.local.yml")
"""The files of a project that may hold settings. A later one overrides an earlier one."""
_XDG_FOLDERS = {"CONFIG": ".config", "STATE": ".local/state"}
WINDOWS_FOLDERS = {
    "CONFIG": ("APPDATA", "AppData/Roaming"),
    "STATE": ("LOCALAPPDATA", "AppData/Local"),
}
"""Variables that name the folders for application data, and where those are by default."""
HOME_VARIABLE = "USERPROFILE" if sys.platform == "win32" else "HOME"
_DEVICE_NAMES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789\u00b9\u00b2\u00b3"]
)
_MAX_NAME = 200  # characters of a folder's name; file systems allow 255 bytes
_BINARY = getattr(os, "O_BINARY", 0)
_MAX_FILE = 1 << 16  # bytes; the rest of a file is not read


class BrokenCheckout(Exception):
    """A `.git` file points to nothing, so the folder's project cannot be found."""

    def __init__(self, pointer: str, target: str) -> None:
        super().__init__(
            f"{pointer}: points to {target or 'nothing'}, which is not a git directory"
        )
        self.pointer = pointer


class Location:
    """Where a project lives in this checkout, in the main checkout and in the git directory.

    Outside git, `top`, `git` and `common` are empty.
    """

    __slots__ = ("boundary", "common", "git", "home", "main", "root", "state", "top", "worktree")

    def __init__(
        self, root: str, top: str, git: str, common: str, main: str, worktree: str
    ) -> None:
        self.root = root
        self.top = top  # the top folder of this checkout
        self.git = git  # the git directory of this checkout
        self.common = common  # the git directory that all checkouts of the repository share
        self.main = main  # the project's folder in the main checkout; `root` if that is this one
        self.worktree = worktree  # git's name for this linked worktree; "" in a main checkout
        # State must never be written outside this folder. If the state folder in the checkout has
        # been replaced by a committed symlink, logs would otherwise end up in the work tree.
        in_git = common and (state_home() != "project" or os.path.islink(f"{main}/.ralph/local"))
        self.boundary = common if in_git else main
        # The folder that holds the state of every machine that has used this copy.
        self.home = f"{main}/.ralph/local"
        if in_git:
            self.home = f"{common}/ralph/{self._escaped_inside}"
        machine = machine_id()
        user_state = user_folder("STATE")
        if _is_of_another_user(f"{self.home}/{machine}", self.boundary) and _is_ours(user_state):
            self.home = f"{user_state}/{PROJECTS}/{self._escaped_path}"
            self.boundary = user_state
        self.state = f"{self.home}/{machine}"  # this machine's logs, index, caches and ledger

    @property
    def inside(self) -> str:
        """The project's path within its repository, or "" for the top folder."""
        if not self.top:
            return ""
        return self.root[len(self.top) :].strip("/")

    @property
    def _escaped_inside(self) -> str:
        """The project's path within its repository as the name of a folder."""
        if self.inside == "_":
            return "%5F"
        return _escape_path(self.inside) or "_"

    @property
    def _escaped_path(self) -> str:
        """The project's path on this machine as the name of a folder.

        All worktrees have the same one.
        """
        path = self.main
        if self.common:
            path = f"{self.common}/{self.inside}"
        return path_as_name(_real_path(path))

    @property
    def index(self) -> str:
        """The path of this checkout's index.

        Each worktree has its own, because its files differ.
        """
        if self.worktree:
            return f"{self.state}/{TREE_CACHES}/{self.worktree}/ralph.db"
        return f"{self.state}/ralph.db"

    @property
    def task(self) -> str:
        """The id of the task that this worktree belongs to, or "" if it is not a task's."""
        folder, _, name = self.top.rpartition("/")
        if not self.worktree or not folder.endswith("/.worktrees"):
            return ""
        if name.startswith("t-") or os.path.isdir(f"{self.main}/.ralph/tasks/{name}"):
            return name
        return ""


def path_as_name(path: str) -> str:
    """Return a name for a file or folder that belongs to a path, different for every path."""
    name = _escape_path(path)
    if len(name) <= _MAX_NAME:
        return name
    import hashlib  # few paths are so long

    return hashlib.sha256(os.fsencode(name)).hexdigest()


def is_device_name(name: str) -> bool:
    """Check whether Windows takes a file's name for a device, whatever its suffix is."""
    return name.partition(".")[0].rstrip(" ").lower() in _DEVICE_NAMES


def _escape_path(path: str) -> str:
    escaped = path.replace("%", "%25").replace("/", "%2F")
    if sys.platform == "win32":
        return escaped.replace(":", "%3A")
    return escaped


def _is_of_another_user(state: str, boundary: str) -> bool:
    """Return whether state would be written into a folder of another user.

    That is the state folder itself, or the nearest folder above it that exists. Windows does not
    tell who owns a folder.
    """
    if sys.platform == "win32":
        return False
    folder = state
    while len(folder) >= len(boundary):
        try:
            return os.lstat(folder).st_uid != os.geteuid()
        except FileNotFoundError:
            folder = folder.rpartition("/")[0]
        except PermissionError:
            return True
        except (OSError, ValueError):
            return False
    return False


def _is_ours(folder: str) -> bool:
    if sys.platform == "win32":
        return True
    try:
        return os.stat(folder).st_uid == os.geteuid()
    except (OSError, ValueError):
        return False


# --- projects and checkouts ---------------------------------------------------------------------


def with_slashes(path: str) -> str:
    """Return a path with slashes as separators, as all functions of this module expect it."""
    if sys.platform == "win32":
        return path.replace("\\", "/")
    return path


def composed(name: str) -> str:
    """Return a file name with composed characters, as people type them.

    Programs on macOS may decompose them: a letter and its accent are two characters then.
    """
    if name.isascii():
        return name
    from unicodedata import normalize  # few names need it

    return normalize("NFC", name)


def slash_paths(line: str, platform: str = sys.platform) -> str:
    """Return a command line with slashes in its paths. On Windows, they may have backslashes.

    A backslash before anything but a name escapes that character, as it does for bash.
    """
    if platform != "win32":
        return line
    slashed, *pieces = line.split("\\")
    for piece in pieces:
        is_in_path = piece[:1].isalnum() or piece.startswith(("_", ".", "~"))
        slashed += "/" if is_in_path else "\\"
        slashed += piece
    return slashed


def _real_path(path: str) -> str:
    return with_slashes(os.path.realpath(path))


def find_root(start: str) -> str:
    """Return the nearest project folder, searching upwards from `start`, or "" if there is none.

    The home folder and `/` are never returned, because a project there would record every session.
    """
    start = with_slashes(start)
    folder = start.rstrip("/")
    while True:
        if _has_marker(folder) and not is_home(folder):
            return folder
        if is_checkout(folder):
            return _root_by_main(start.rstrip("/"), folder) or _root_by_state(folder)
        if not folder:
            return ""
        folder = folder.rpartition("/")[0]


def _has_marker(folder: str) -> bool:
    return any(os.path.exists(f"{folder}/{marker}") for marker in MARKERS)


def is_home(folder: str) -> bool:
    """Check whether a folder is the user's home or the root of the file system."""
    home = with_slashes(os.environ.get(HOME_VARIABLE) or "")
    drive, inside = os.path.splitdrive(folder.rstrip("/"))
    if drive + inside == home.rstrip("/") or not inside:
        return True
    try:
        return os.path.samefile(folder, home)
    except (OSError, ValueError):
        return False


def is_checkout(folder: str) -> bool:
    """Check whether a folder has a `.git` with a HEAD, or a `.git` file that points elsewhere.

    An empty `.git` folder does not count, because sandboxes create one.
    """
    git = f"{folder}/.git"
    return os.path.lexists(f"{git}/HEAD") or (os.path.lexists(git) and not os.path.isdir(git))


def _root_by_main(folder: str, top: str) -> str:
    """Find the project in a linked worktree whose `.ralph` exists only in the main checkout.

    Returns "" if there is none.
    """
    if os.path.isdir(f"{top}/.git"):
        return ""
    main = locate(top).main
    while main != top and len(folder) >= len(top):
        if os.path.isdir(f"{main}{folder[len(top) :]}/.ralph"):
            return folder
        folder = folder.rpartition("/")[0]
    return ""


def _root_by_state(top: str) -> str:
    """Return the top of a checkout that was set up automatically, or "" if this one was not."""
    if not is_home(top) and os.path.exists(f"{locate(top).home}/{SET_UP}"):
        return top
    return ""


def enclosing_roots(root: str) -> list[str]:
    """Return the projects in the same checkout that enclose a project, nearest first.

    Outside git there are none.
    """
    top = find_top(root)
    if not top or root == top:
        return []
    checkouts = [top]
    if not os.path.isdir(f"{top}/.git"):
        checkouts.append(locate(top).main)
    roots = []
    folder = root
    while folder != top:
        folder = folder.rpartition("/")[0]
        if _is_project_in(checkouts, folder[len(top) :]):
            roots.append(folder)
    return roots


def _is_project_in(checkouts: Sequence[str], inside: str) -> bool:
    return any(_has_marker(f"{checkout}{inside}") for checkout in checkouts)


def find_top(start: str) -> str:
    """Return the top folder of the git checkout that contains a folder, or "" outside git."""
    folder = with_slashes(start).rstrip("/")
    while folder and not is_checkout(folder):
        folder = folder.rpartition("/")[0]
    return folder


def find_unset_up(folder: str, env: Mapping[str, str]) -> Location | None:
    """Locate the checkout in which Ralph could be set up for a folder, or return None.

    There is none outside git, in the home folder, and where the user does not want Ralph: capture
    is off, or `ralph deinit` removed it. The caller knows that the folder is not in a project.
    """
    top = find_top(folder)
    if not top or is_home(top):
        return None
    location = locate(top)
    if os.path.exists(f"{location.state}/{LOG}/paused"):
        return None
    if is_removed(location.main, env):
        return None
    return location


def is_removed(main: str, env: Mapping[str, str]) -> bool:
    """Check whether `ralph deinit` removed Ralph from a main checkout."""
    user_state = user_folder("STATE", env)
    if not user_state:
        return False
    return os.path.exists(f"{user_state}/{REMOVED}/{path_as_name(main)}")


def is_own_repository(location: Location) -> bool:
    """Check whether a checkout belongs to the repository whose git directory it uses.

    Anybody can write a `.git` file or link that names the repository of somebody else. Only that
    repository can name its worktrees, and a submodule's names its checkout.
    """
    pointer = f"{location.top}/.git"
    if os.path.isdir(pointer):
        return not os.path.islink(pointer)
    if not location.worktree:
        return _main_checkout(location.common) == _real_path(location.top)
    if os.path.dirname(location.git) != f"{location.common}/worktrees":
        return False
    named = os.path.join(location.git, read_text(f"{location.git}/gitdir"))
    return _real_path(named) == _real_path(pointer)


def repository_folders(root: str) -> list[str]:
    """Return the folders whose files belong to a project: its checkout, and the main checkout.

    Outside git, that is the project itself. Links in the path of the checkout are followed, too.
    """
    location = locate(root)
    folders = [location.top or root]
    if location.worktree:
        folders.append(location.main[: len(location.main) - len(location.inside)])
    return [*folders, *map(_real_path, folders)]


def locate(root: str) -> Location:
    """Locate a project by following git's pointer files from its root.

    Raises BrokenCheckout if one of them points to nothing.
    """
    root = with_slashes(root).rstrip("/") or "/"
    top = find_top(root)
    if not top:
        return Location(root, "", "", "", root, "")
    pointer = f"{top}/.git"
    if os.path.isdir(pointer):
        return Location(root, top, pointer, pointer, root, "")
    git = _follow_pointer(pointer, top)
    if not os.path.exists(f"{git}/commondir"):  # a submodule or a separate git directory
        return Location(root, top, git, git, root, "")
    common = _real_path(os.path.join(git, read_text(f"{git}/commondir")))
    if not os.path.isdir(common):
        raise BrokenCheckout(pointer, common)
    main = root
    main_checkout = _main_checkout(common)
    if main_checkout:
        main = main_checkout + root[len(top) :]
    return Location(root, top, git, common, main, os.path.basename(git))


def _follow_pointer(pointer: str, top: str) -> str:
    """Return the git directory that a `.git` file points to.

    Raises BrokenCheckout if there is no git directory.
    """
    key, _, target = read_text(pointer).partition(": ")
    git = ""
    if key == "gitdir" and "\0" not in target:
        git = _real_path(os.path.join(top, target))
    if not target or not os.path.isfile(f"{git}/HEAD"):
        raise BrokenCheckout(pointer, target)
    return git


def _main_checkout(common: str) -> str:
    """Return the main checkout that a git directory belongs to, or "" for a bare repository."""
    is_bare = False
    worktree = ""
    section = ""
    config = f"{read_text(f'{common}/config')}\n{read_text(f'{common}/config.worktree')}"
    for line in config.split("\n"):
        raw_key, _, raw_value = line.partition("=")
        key = raw_key.strip().lower()
        value = raw_value.strip()
        if key.startswith("["):
            section = key
        elif section == "[core]" and key == "bare":
            is_bare = value.lower() in ("true", "yes", "on", "1", "")
        elif section == "[core]" and key == "worktree":
            worktree = value.strip('"')
    if worktree:
        return _real_path(os.path.join(common, worktree))
    if is_bare or os.path.basename(common) != ".git":
        return ""
    return os.path.dirname(common)


# --- the user and the machine -------------------------------------------------------------------


def state_home(env: Mapping[str, str] = os.environ) -> str:
    """Return the user's `state.home` setting, "git" by default.

    It is read without a YAML parser and before any cache. A project cannot set it, so that checking
    out a branch cannot move the state.
    """
    if env.get("RALPH_STATE_HOME"):
        return env["RALPH_STATE_HOME"]
    return _user_setting("state", "home", env) or "git"


def wants_automatic_setup(env: Mapping[str, str]) -> bool:
    """Return whether the user's `init.auto` setting may be on. It is read like `state_home`."""
    if env.get("RALPH_INIT_AUTO"):
        return True
    return _user_setting("init", "auto", env).lower() == "true"


def _user_setting(section: str, name: str, env: Mapping[str, str]) -> str:
    """Return a value of a section of the user's config, block or flow style, or ""."""
    folder = user_folder("CONFIG", env)
    if not folder:
        return ""
    text = read_text(f"{folder}/config.yml")
    if section not in text:
        return ""
    current_section = ""
    for raw_line in text.split("\n"):
        line = raw_line.partition(" #")[0].rstrip()
        if line and line[0] not in " \t#":
            current_section, _, line = line.partition(":")
            line = line.strip().strip("{}")
        if current_section.strip("\"'") != section:
            continue
        for pair in line.split(","):
            key, _, value = pair.partition(":")
            if _unquote(key) == name and _unquote(value):
                return _unquote(value)
    return ""


def _unquote(text: str) -> str:
    return text.strip().strip("\"'")


def user_folder(kind: str, env: Mapping[str, str] = os.environ) -> str:
    """Return Ralph's folder in the user's folder for `kind` (CONFIG or STATE).

    That is the XDG folder, or on Windows the folder for application data. Returns "" if the user
    has no home folder.
    """
    folder = with_slashes(env.get(f"XDG_{kind}_HOME") or "")
    if os.path.isabs(folder):
        return f"{folder}/ralph"
    if sys.platform == "win32":
        variable, below_home = WINDOWS_FOLDERS[kind]
        folder = with_slashes(env.get(variable) or "")
        if os.path.isabs(folder):
            return f"{folder}/ralph"
    else:
        below_home = _XDG_FOLDERS[kind]
    home = with_slashes(env.get(HOME_VARIABLE) or "")
    if not os.path.isabs(home):
        return ""
    return f"{home}/{below_home}/ralph"


def machine_id(env: Mapping[str, str] = os.environ) -> str:
    """Return the id of this user on this machine. The first call creates it."""
    folder = user_folder("STATE", env)
    name = ""
    if folder:
        path = f"{folder}/machine-id"
        name = read_text(path)
        if not name:
            _create_machine_id(folder, path)
            name = read_text(path)
    if name.isalnum():
        return name
    # This must not be easy to guess, because a clone could bring along a folder with this name.
    return "nohome" + "".join(filter(str.isalnum, _user_and_host()))[:40]


def _user_and_host() -> str:
    if sys.platform == "win32":
        return f"{os.environ.get('USERNAME')}x{os.environ.get('COMPUTERNAME')}"
    host = read_text("/etc/machine-id") or os.uname().nodename
    return f"{os.getuid()}x{host}"


def has_machine_id(env: Mapping[str, str] = os.environ) -> bool:
    """Return whether `machine_id` would find an id instead of creating it."""
    folder = user_folder("STATE", env)
    return not folder or bool(read_text(f"{folder}/machine-id"))


def _create_machine_id(folder: str, path: str) -> None:
    draft = f"{path}.{os.getpid()}"
    try:
        _make_private_folder(folder)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o600)
        os.write(handle, os.urandom(6).hex().encode())
        os.close(handle)
        os.link(draft, path)  # fails if another process was faster; then its id is used
    except OSError:
        pass
    if os.path.lexists(draft):
        os.unlink(draft)


def _make_private_folder(folder: str) -> None:
    """Create a folder and its parents for their owner alone, whatever the umask is."""
    if os.path.isdir(folder):
        return
    _make_private_folder(os.path.dirname(folder))
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:  # another process was faster
        return
    os.chmod(folder, 0o700)


def read_text(path: str) -> str:
    """Return the stripped text of a small file, or "" if it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | _BINARY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return ""
    try:
        return os.read(handle, _MAX_FILE).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""
    finally:
        os.close(handle)
