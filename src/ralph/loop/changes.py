"""Fingerprint a project's files, and find which files differ between two snapshots.

Git is only used to list the files. Its hooks and its file monitor are turned off, so that nothing
the repository configures is run. Folders that are not in a git repository, and nested repositories,
are walked instead. Contents are hashed, so committing or touching a file is not a change.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ralph.core.work import never_stop
from ralph.lean import discovery
from ralph.loop.criteria import Runner

MAX_FILES = 100_000  # how many files a snapshot covers
_MAX_HASHED_BYTES = 16_000_000  # a larger file is identified by its modification time and size
# A file this many nanoseconds old is certain to get a new timestamp when it is written again.
_SETTLED_NS = 2_000_000_000
_GIT_SECONDS = 60.0
_FINGERPRINT_DIGITS = 16
_IGNORED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".ralph",
        ".agent",
        ".worktrees",
        "node_modules",
        ".venv",
        "venv",
        ".tox",
        ".nox",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
        ".hypothesis",
        ".gradle",
        ".idea",
        ".DS_Store",
        ".coverage",
    }
)
_GIT = (
    "git",
    "--no-optional-locks",
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
)
_LIST_FILES = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", ":/")


@dataclass(frozen=True, slots=True)
class DiskSnapshot:
    """What identifies each file's content, by path.

    With `by_git`, files that git ignores are not included.
    """

    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    by_git: bool = True

    @property
    def fingerprint(self) -> str:
        """A digest of all paths and contents."""
        listing = "\n".join(f"{path}\0{content}" for path, content in sorted(self.files.items()))
        text = f"{self.by_git}\n{listing}"
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        return digest[:_FINGERPRINT_DIGITS]


def changed_files(before: DiskSnapshot, after: DiskSnapshot) -> tuple[str, ...]:
    """Return the files that differ, sorted, or () if the snapshots cannot be compared."""
    if before.by_git != after.by_git:
        return ()
    paths = before.files.keys() | after.files.keys()
    return tuple(sorted(path for path in paths if before.files.get(path) != after.files.get(path)))


class _FileState(NamedTuple):
    """The attributes that change when a file is written. The same state means the same content."""

    modified_ns: int
    changed_ns: int
    size: int
    inode: int
    mode: int


class _CachedContent(NamedTuple):
    state: _FileState
    content: str


class ChangeTracker:
    """Takes snapshots of a project folder and the rest of its repository."""

    def __init__(self, folder: Path, run: Runner) -> None:
        self.folder = folder.resolve()
        self._run = run
        self._base = self.folder.as_posix().rstrip("/") + "/"
        self._cache: dict[str, _CachedContent] = {}
        self._by_git = self._is_listed_by_git()

    def _is_listed_by_git(self) -> bool:
        """Return whether the folder is in a repository that does not ignore it."""
        top = discovery.find_top(self.folder.as_posix())
        if not top:
            return False
        if self.folder == Path(top):
            return True
        return self._git("check-ignore", "-q", ".") is None

    def snapshot(self) -> DiskSnapshot:
        """Return the current state of the disk."""
        listing = None
        if self._by_git:
            listing = self._git(*_LIST_FILES)
        names: Iterable[str]
        if listing is None:
            self._by_git = False
            names = _walk(self._base)
        else:
            names = [name for name in sorted(listing.split("\0")) if name]
        contents = self._contents(name for name in names if _IGNORED.isdisjoint(name.split("/")))
        return DiskSnapshot(dict(islice(contents, MAX_FILES)), self._by_git)

    def _git(self, *arguments: str) -> str | None:
        """Return the output of a git command, or None if it failed."""
        ran = self._run(
            (*_GIT, *arguments), cwd=self.folder, timeout=_GIT_SECONDS, stopped=never_stop
        )
        if ran.code != 0:
            return None
        return ran.out

    def _contents(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the path of each file that exists, and what identifies its content."""
        for name in names:
            content = self._content(name)
            if content is None:  # a nested repository
                yield from self._contents(_walk(self._base, name))
            elif content:
                yield name, content

    def _content(self, name: str) -> str | None:
        """Return what identifies a file's content.

        The result is "" if the file is gone, and None if it is a folder.
        """
        path = f"{self._base}{name}"
        try:
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                return None
            state = _FileState(
                status.st_mtime_ns,
                status.st_ctime_ns,
                status.st_size,
                status.st_ino,
                status.st_mode,
            )
            cached = self._cache.get(name)
            if cached is not None and cached.state == state:
                return cached.content
            content = _identify(path, state)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError:
            return "unreadable"
        age = time.time_ns() - max(state.modified_ns, state.changed_ns)
        if age > _SETTLED_NS:
            self._cache[name] = _CachedContent(state, content)
        return content


def _identify(path: str, state: _FileState) -> str:
    """Return a string that identifies the content of a file.

    It is made of a link's target, a file's executable bit and hash, or the size and modification
    time of a large file.
    """
    if stat.S_ISLNK(state.mode):
        return f"link {Path(path).readlink()}"
    if not stat.S_ISREG(state.mode):
        return f"special {state.mode}"
    if state.size > _MAX_HASHED_BYTES:
        return f"large {state.size} {state.modified_ns}"
    digest = hashlib.sha1(Path(path).read_bytes(), usedforsecurity=False).hexdigest()
    return f"{state.mode & stat.S_IXUSR} {digest}"


def _walk(base: str, below: str = "") -> Iterator[str]:
    """Yield the path of every file below a folder, relative to `base`, in a stable order."""
    for folder, folders, names in os.walk(f"{base}{below}"):
        relative = f"{folder.rstrip('/')}/"[len(base) :]
        folders[:] = sorted(name for name in folders if name not in _IGNORED)
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted([*names, *links]):
            if name not in _IGNORED and not name.endswith(".pyc"):
                yield f"{relative}{name}"
