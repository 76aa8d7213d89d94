"""What changed on the disk: a fingerprint of a project's files, and which of them differ between two looks.

Both are about contents, told as the difference to where it all began: committing what is already there, staging
or touching a file changes nothing, going back to an earlier content gives the earlier fingerprint, and what an
agent commits counts like what it leaves uncommitted. With git a look is one `git status`, and one `git diff-tree`
when HEAD moved to a commit not seen before; files are named by their blob ids, computed for the few that are
dirty. Without git, or where it fails, times and sizes are compared with the first look's, and what differs is read.

Git is only asked, and may start nothing that the repository's config names: no hooks, monitors, filters, pagers or
transports, and nothing inside of submodules, which are walked like folders without git. What lies in `.ralph/`
and `.agent/` never counts. `tests/loop/test_changes.py` uses real repositories.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ralph.loop.criteria import Ran, Runner
from ralph.model.work import never_stop

MOST_FILES = 50_000
"""How many files a look takes in; beyond that it says so."""

_LARGEST = 16_000_000
"""A file larger than this is known by its time and size."""

_TIMEOUT = 60.0
_SETTLED = 2_000_000_000
"""Nanoseconds after which a file's time is sure to differ when it is written again."""

OURS = frozenset((".ralph", ".agent"))
_NEVER = frozenset(
    """.git .hg .svn .ralph .agent .worktrees node_modules .venv venv .tox .nox __pycache__ .mypy_cache .ruff_cache
    .pytest_cache .hypothesis .gradle .idea .DS_Store .coverage""".split()
)
_GONE = "gone"
_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_UNBORN = "(initial)"
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}|\(initial\)")


@dataclass(frozen=True, slots=True)
class State:
    """One look: what differs from the beginning, by path from the folder; `note` says what could not be seen."""

    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    head: str = ""  # the commit, where there is git
    note: str = ""
    way: str = "git"
    dirty: tuple[str, ...] = ()  # what git calls modified or untracked, whenever that happened

    @property
    def fingerprint(self) -> str:
        """The same for the same contents."""
        told = "\n".join(f"{path}\0{content}" for path, content in sorted(self.files.items()))
        return hashlib.sha256(f"{self.way}\n{told}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def changed(before: State, after: State) -> tuple[str, ...]:
    """The files whose content differs between two looks of one Disk, by name; () where they cannot be compared."""
    if before.way != after.way:
        return ()
    paths = before.files.keys() | after.files.keys()
    return tuple(sorted(path for path in paths if before.files.get(path) != after.files.get(path)))


class Disk:
    """A project's folder, looked at again and again; `base` is the commit that differences are told from.

    Fingerprints can be compared when they are of one Disk, or of two with the same `base`.
    """

    def __init__(self, folder: Path, run: Runner, base: str = "") -> None:
        self.folder = folder.resolve()
        self.base = base if _COMMIT.fullmatch(base) else ""
        top = next((each for each in (self.folder, *self.folder.parents) if (each / ".git").exists()), None)
        self._git = None if top is None else _Git(top, run)
        self._why_not = "" if top is not None else "no git: files are compared by time and size"
        self._contents = _Contents()
        self._walks: dict[Path, _Walk] = {}
        self._looked = False

    def look(self) -> State:
        """The state of the disk now."""
        state = self._git_look(self._git) if self._git is not None else None
        if state is None:
            self._git = None
            files, full = self._walk(self.folder, new=False).differences()
            state = State(self._named(files, self.folder), note=_notes(self._why_not, full), way="walk")
        self._looked = True
        return state

    def _git_look(self, git: "_Git") -> State | None:
        """A look through git, or None (and why) when git does not answer."""
        if not self._looked and git.ignores(self.folder):
            self._why_not = "git ignores this folder: files are compared by time and size"
            return None
        found = git.status()
        if isinstance(found, str):
            self._why_not = f"{found}; files are compared by time and size"
            return None
        moved = git.moved(self.base or found.head, found.head)
        if moved is None or not self.base:
            self.base = found.head
        olds, news = moved or ({}, {})
        full = len(found.dirty) > MOST_FILES
        folders = {*git.submodules()}
        for path, old in list(found.dirty.items())[:MOST_FILES]:
            place = git.top / path
            if place.is_dir() and not place.is_symlink():
                folders.add(path.rstrip("/"))
                news.pop(path, None)
            else:
                olds.setdefault(path, old)
                news[path] = self._contents.of(place, len(found.head))
        files = self._named({path: new for path, new in news.items() if new != olds.get(path, _GONE)}, git.top)
        for inner in sorted(folders):
            more, cut = self._walk(git.top / inner, new=self._looked).differences()
            files |= self._named(more, git.top / inner)
            full = full or cut
        dirty = tuple(sorted(self._named(found.dirty, git.top)))
        return State(files, found.head, _notes(git.note, full), dirty=dirty)

    def _walk(self, root: Path, *, new: bool) -> "_Walk":
        """The walk of a folder; one that was not there at the first look began empty."""
        if root not in self._walks:
            self._walks[root] = _Walk(root, self._contents, began_empty=new)
        return self._walks[root]

    def _named(self, files: Mapping[str, str], root: Path) -> dict[str, str]:
        """Files by their path from the project's folder, without those that are Ralph's own."""
        ours = (path for path in files if not OURS.isdisjoint(path.split("/")))
        kept = files.keys() - set(ours)
        if root == self.folder:
            return {path: files[path] for path in kept}
        return {os.path.relpath(root / path, self.folder): files[path] for path in kept}


def _notes(note: str, full: bool) -> str:
    most = f"more than {MOST_FILES:,} files: the rest was not looked at" if full else ""
    return "; ".join(part for part in (note, most) if part)


class _Contents:
    """What is in a file, as git would name it; read again only when its times, size or number changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], str]] = {}

    def of(self, path: Path, width: int = 40) -> str:
        """Mode and blob id of a file or a link; a large one by its time and size."""
        try:
            about = path.lstat()
            key = (width, about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino, about.st_mode)
            known = self._known.get(path)
            if known is not None and known[0] == key:
                return known[1]
            content = _content(path, about, width)
        except OSError as error:
            return _GONE if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
        if time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) > _SETTLED:
            self._known[path] = (key, content)
        return content


def _content(path: Path, about: os.stat_result, width: int) -> str:
    if stat.S_ISLNK(about.st_mode):
        mode, raw = "120000", os.fsencode(path.readlink())
    elif not stat.S_ISREG(about.st_mode):
        return f"special {about.st_mode}"
    elif about.st_size > _LARGEST:
        return f"large {about.st_size} {about.st_mtime_ns}"
    else:
        mode, raw = "100755" if about.st_mode & 0o100 else "100644", path.read_bytes()
    digest = hashlib.sha256() if width == 64 else hashlib.sha1(usedforsecurity=False)
    digest.update(b"blob %d\0" % len(raw))
    digest.update(raw)
    return f"{mode} {digest.hexdigest()}"


class _Walk:
    """A folder without git: files that differ in time or size from the first walk are read, the rest is not."""

    def __init__(self, root: Path, contents: _Contents, *, began_empty: bool) -> None:
        self._root, self._contents = root, contents
        self._first: dict[str, tuple[int, int]] | None = {} if began_empty else None

    def differences(self) -> tuple[dict[str, str], bool]:
        """What differs from the first walk, and whether there were too many files."""
        now: dict[str, tuple[int, int]] = {}
        full = False
        for path, about in _files(self._root):
            if len(now) >= MOST_FILES:
                full = True
                break
            now[path] = about
        if self._first is None:
            self._first = now
        first = self._first
        found = {path: self._contents.of(self._root / path) for path in now if now[path] != first.get(path)}
        return found | dict.fromkeys(() if full else first.keys() - now.keys(), _GONE), full


def _files(root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """The files below a folder in a fixed order, links not followed, with time and size."""
    folders = [""]
    while folders:
        inner = folders.pop()
        try:
            with os.scandir(root / inner) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            for entry in entries:
                if entry.name in _NEVER or entry.name.endswith(".pyc"):
                    continue
                path = f"{inner}/{entry.name}" if inner else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    about = entry.stat(follow_symlinks=False)
                    yield path, (about.st_mtime_ns, about.st_size)
        except OSError:
            continue  # gone since, or not ours to read: nothing that an agent of this user changes


@dataclass(frozen=True, slots=True)
class _Status:
    """What `git status` says: the commit, and each dirty path with its content in that commit."""

    head: str
    dirty: Mapping[str, str]


class _Git:
    """A repository, asked without side effects."""

    def __init__(self, top: Path, run: Runner) -> None:
        self.top, self._run = top, run
        self.note = ""
        self._unfiltered: tuple[str, ...] | None = None
        self._moves: dict[tuple[str, str], tuple[dict[str, str], dict[str, str]]] = {}

    def _ask(self, *words: str, settings: Iterable[str] = (), cwd: Path | None = None) -> Ran:
        safe = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", *settings)
        argv = ["git", "--no-optional-locks", "--no-pager", *(word for each in safe for word in ("-c", each)), *words]
        return self._run(argv, cwd=cwd or self.top, timeout=_TIMEOUT, stopped=never_stop)

    def ignores(self, folder: Path) -> bool:
        """Whether a folder below the top is one that git does not look into."""
        return folder != self.top and self._ask("check-ignore", "-q", ".", cwd=folder).code == 0

    def status(self) -> _Status | str:
        """What is dirty now, or why git does not say."""
        filters = self._filters()
        if filters is None:
            return "git has a filter with a name that cannot be switched off"
        ran = self._ask(
            "status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--no-renames",
            "--ignore-submodules=dirty", settings=filters,
        )  # fmt: skip
        if ran.code != 0:
            words = "took too long" if ran.timed_out else ran.err.strip().split("\n", 1)[0]
            return f"git status: {words or f'ended with {ran.code}'}"
        head, dirty = _UNBORN, {}
        for entry in ran.out.split("\0"):
            sort, _, rest = entry.partition(" ")
            if sort == "#" and rest.startswith("branch.oid "):
                head = rest.removeprefix("branch.oid ")
            elif sort == "?" and _NEVER.isdisjoint(rest.split("/")):
                dirty[rest] = _GONE
            elif sort == "1" and rest.count(" ") >= 7:
                _, _, mode, _, _, blob, _, path = rest.split(" ", 7)
                dirty[path] = _blob(mode, blob)
            elif sort == "u" and rest.count(" ") >= 9:
                dirty[rest.split(" ", 9)[9]] = "in conflict"
        return _Status(head, dirty)

    def _filters(self) -> tuple[str, ...] | None:
        """Settings that switch off every filter of the config, since status would run them; None when one cannot be."""
        if self._unfiltered is None:
            ran = self._ask("config", "-z", "--name-only", "--get-regexp", r"^filter\.")
            names = sorted(
                {key.split(".", 1)[1].rpartition(".")[0] for key in ran.out.split("\0") if key.count(".") > 1}
            )
            if any("=" in name or "\n" in name for name in names):
                return None
            off = ("clean=", "smudge=", "process=", "required=false")
            self._unfiltered = tuple(f"filter.{name}.{setting}" for name in names for setting in off)
        return self._unfiltered

    def moved(self, base: str, head: str) -> tuple[dict[str, str], dict[str, str]] | None:
        """Each path's content in two commits, where they differ; None when they cannot be compared."""
        if base == head:
            return {}, {}
        if (base, head) not in self._moves:
            found = self._compared(base, head)
            if found is None:
                self.note = f"git cannot compare {base[:12]} with {head[:12]}: what was committed between was not seen"
                return None
            self._moves[base, head] = found
        olds, news = self._moves[base, head]
        return dict(olds), dict(news)

    def _compared(self, base: str, head: str) -> tuple[dict[str, str], dict[str, str]] | None:
        width = 64 if 64 in (len(base), len(head)) else 40
        first, second = (_EMPTY_TREE[width] if each == _UNBORN else each for each in (base, head))
        ran = self._ask(
            "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-abbrev",
            "--ignore-submodules=dirty", first, second, "--",
        )  # fmt: skip
        if ran.code != 0:
            return None
        olds: dict[str, str] = {}
        news: dict[str, str] = {}
        words = ran.out.split("\0")
        for about, path in zip(words[::2], words[1::2], strict=False):
            parts = about.lstrip(":").split(" ")
            if len(parts) == 5:
                olds[path], news[path] = _blob(parts[0], parts[2]), _blob(parts[1], parts[3])
        return olds, news

    def submodules(self) -> tuple[str, ...]:
        """The folders of submodules that are checked out."""
        try:
            listed = (self.top / ".gitmodules").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()
        settings = (line.partition("=") for line in listed.splitlines())
        paths = (value.strip().strip('"') for key, _, value in settings if key.strip() == "path")
        inside = (path for path in paths if not path.startswith("/") and ".." not in path.split("/"))
        return tuple(path for path in inside if (self.top / path / ".git").exists())


def _blob(mode: str, blob: str) -> str:
    """A content as git names it."""
    return _GONE if not blob.strip("0") else f"{mode} {blob}"
