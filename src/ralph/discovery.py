"""Find a project, its git folders and its state folder from any folder inside it, without starting git.

State is in `<git common dir>/ralph/<project>/<machine id>/`, which no clone or clean touches. Hooks load this module.
"""

from __future__ import annotations

import os

from ralph.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG = "log"  # the folder in the state folder that has what happened
MARKERS = ("ralph.yml", ".ralph", ".agent/memories.md")
"""What makes a folder a project. A git checkout without any of them is one for commands, but not for hooks."""


class BrokenCheckout(Exception):
    """A `.git` file that leads nowhere: the folder belongs to a project that cannot be found."""

    def __init__(self, pointer: str, target: str) -> None:
        super().__init__(f"{pointer}: points to {target or 'nothing'}, which is no git directory")
        self.pointer = pointer


class Location:
    """Where a project is: its folders in this checkout, in the main checkout and in the git directory."""

    __slots__ = ("boundary", "common", "git", "main", "root", "state", "top", "worktree")

    def __init__(
        self, root: str, top: str, git: str, common: str, main: str, worktree: str
    ) -> None:
        self.root = root
        self.top = top  # the top folder of this checkout; "" outside git, as with the next two
        self.git = git  # the git directory of this checkout
        self.common = common  # the git directory that all checkouts of the repository share
        self.main = (
            main  # the project's folder in the main checkout; `root` itself when there is no other
        )
        self.worktree = worktree  # git's name for this linked worktree; "" in a main checkout
        # no write to the state may leave the shared git directory, or the main checkout; where a committed link is in
        # place of the state folder, logs would get into the work tree
        in_git = common and (state_home() != "project" or os.path.islink(f"{main}/.ralph/local"))
        self.boundary = common if in_git else main
        self.state = f"{self.home}/{machine_id()}"  # logs, index, caches and ledger of this machine

    @property
    def inside(self) -> str:
        """The project's path inside its repository, "" for the top."""
        return self.root[len(self.top) :].strip("/") if self.top else ""

    @property
    def home(self) -> str:
        """The folder with the state of every machine that this copy of the project has been on."""
        if self.boundary == self.main:
            return f"{self.main}/.ralph/local"
        name = self.inside.replace("%", "%25").replace("/", "%2F")
        return f"{self.common}/ralph/{'%5F' if name == '_' else name or '_'}"

    @property
    def index(self) -> str:
        """The index of this checkout: each worktree has its own, because its files differ."""
        return (
            f"{self.state}/cache/worktrees/{self.worktree}/ralph.db"
            if self.worktree
            else f"{self.state}/ralph.db"
        )

    @property
    def task(self) -> str:
        """The id of the task whose worktree this is; "" elsewhere."""
        folder, _, name = self.top.rpartition("/")
        if not self.worktree or not folder.endswith("/.worktrees"):
            return ""
        return (
            name
            if name.startswith("t-") or os.path.isdir(f"{self.main}/.ralph/tasks/{name}")
            else ""
        )


def find_root(start: str) -> str:
    """Return the project folder upward from `start`; never the home or `/`, which would record every session."""
    folder = start.rstrip("/")
    while True:
        if any(map(os.path.exists, (f"{folder}/{marker}" for marker in MARKERS))) and not is_home(
            folder
        ):
            return folder
        if is_checkout(folder):
            return _root_by_main(start.rstrip("/"), folder)
        if not folder:
            return ""
        folder = folder.rpartition("/")[0]


def is_home(folder: str) -> bool:
    """Return whether a folder is the user's home or the root of the file system."""
    home = os.environ.get("HOME") or ""
    if folder.rstrip("/") in ("", home.rstrip("/")):
        return True
    try:
        return os.path.samefile(folder, home)
    except (OSError, ValueError):
        return False


def is_checkout(folder: str) -> bool:
    """Return whether a folder has a pointer file `.git`, or a HEAD: sandboxes create an empty `.git`."""
    git = f"{folder}/.git"
    return os.path.lexists(f"{git}/HEAD") or (os.path.lexists(git) and not os.path.isdir(git))


def _root_by_main(folder: str, top: str) -> str:
    if os.path.isdir(f"{top}/.git"):
        return ""
    main = locate(top).main
    while main != top and len(folder) >= len(top):
        if os.path.isdir(f"{main}{folder[len(top) :]}/.ralph"):
            return folder
        folder = folder.rpartition("/")[0]
    return ""


def enclosing_roots(root: str) -> list[str]:
    """Return the projects around a project's folder in its checkout, the nearest first; none outside of git."""
    top = find_top(root)
    folders: list[str] = []
    if not top or root == top:
        return folders
    bases = (top,) if os.path.isdir(f"{top}/.git") else (top, locate(top).main)
    folder = root
    while folder != top:
        folder = folder.rpartition("/")[0]
        inside = folder[len(top) :]
        if any(os.path.exists(f"{base}{inside}/{marker}") for base in bases for marker in MARKERS):
            folders.append(folder)
    return folders


def find_top(start: str) -> str:
    """Return the top folder of the git checkout around a folder; "" outside git."""
    folder = start.rstrip("/")
    while folder and not is_checkout(folder):
        folder = folder.rpartition("/")[0]
    return folder


def locate(root: str) -> Location:
    """Follow git's pointer files from a project's root; BrokenCheckout when they lead nowhere."""
    root = root.rstrip("/") or "/"
    if not (top := find_top(root)):
        return Location(root, "", "", "", root, "")
    pointer = f"{top}/.git"
    if os.path.isdir(pointer):
        return Location(root, top, pointer, pointer, root, "")
    key, _, target = read_text(pointer).partition(": ")
    git = (
        os.path.realpath(os.path.join(top, target))
        if key == "gitdir" and "\0" not in target
        else ""
    )
    if not target or not os.path.isfile(f"{git}/HEAD"):
        raise BrokenCheckout(pointer, target)
    if not os.path.exists(
        f"{git}/commondir"
    ):  # a submodule or a separate git directory: a main checkout
        return Location(root, top, git, git, root, "")
    common = os.path.realpath(os.path.join(git, read_text(f"{git}/commondir")))
    if not os.path.isdir(common):
        raise BrokenCheckout(pointer, common)
    main = _main_checkout(common)
    return Location(
        root, top, git, common, main + root[len(top) :] if main else root, os.path.basename(git)
    )


def _main_checkout(common: str) -> str:
    bare = False
    worktree = ""
    section = ""
    for line in f"{read_text(f'{common}/config')}\n{read_text(f'{common}/config.worktree')}".split(
        "\n"
    ):
        key, _, value = (part.strip() for part in line.partition("="))
        if key.startswith("["):
            section = key.lower()
        elif section == "[core]" and key.lower() == "bare":
            bare = value.lower() in ("true", "yes", "on", "1", "")
        elif section == "[core]" and key.lower() == "worktree":
            worktree = value.strip('"')
    if worktree:
        return os.path.realpath(os.path.join(common, worktree))
    return "" if bare or os.path.basename(common) != ".git" else os.path.dirname(common)


def state_home(env: Mapping[str, str] = os.environ) -> str:
    """Return the user's own `state.home`, read without a YAML parser and before any cache; a branch decides nothing."""
    if env.get("RALPH_STATE_HOME"):
        return env["RALPH_STATE_HOME"]
    section = ""
    text = read_text(f"{folder}/config.yml") if (folder := user_folder("CONFIG", env)) else ""
    for raw in (
        text.split("\n") if "state" in text else ()
    ):  # `home` in this section, in block or flow style
        line = raw.partition(" #")[0].rstrip()
        if line and line[0] not in " \t#":
            section, _, line = line.partition(":")
            line = line.strip().strip("{}")
        key, value = (part.strip().strip("\"'") for part in line.partition(":")[::2])
        if section.strip("\"'") == "state" and key == "home" and value:
            return value
    return "git"


def user_folder(kind: str, env: Mapping[str, str] = os.environ) -> str:
    """Return Ralph's folder in the user's CONFIG or STATE folder (XDG); "" without a home."""
    folder = env.get(f"XDG_{kind}_HOME") or ""
    if not os.path.isabs(folder):
        if not os.path.isabs(env.get("HOME") or ""):
            return ""
        folder = f"{env['HOME']}/{'.config' if kind == 'CONFIG' else '.local/state'}"
    return f"{folder}/ralph"


def machine_id(env: Mapping[str, str] = os.environ) -> str:
    """Return the id of this user on this machine, made at the first call."""
    folder = user_folder("STATE", env)
    path = f"{folder}/machine-id"
    name = read_text(path) if folder else ""
    if not name and folder:
        draft = f"{path}.{os.getpid()}"
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(handle, os.urandom(6).hex().encode())
            os.close(handle)
            os.link(draft, path)  # fails when another process was faster: then its id counts
        except OSError:
            pass
        if os.path.lexists(draft):
            os.unlink(draft)
        name = read_text(path)
    if name.isalnum():
        return name
    host = (
        read_text("/etc/machine-id") or os.uname().nodename
    )  # not to be guessed: a clone could bring such a folder
    return "nohome" + "".join(filter(str.isalnum, f"{os.getuid()}x{host}"))[:40]


def read_text(path: str) -> str:
    """Return a small file's text without surrounding blanks; "" when it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return ""
    try:
        return os.read(handle, 1 << 16).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""
    finally:
        os.close(handle)
