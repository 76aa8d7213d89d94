"""Fingerprints of a project's files, and which files differ between two snapshots.

Git only lists the files, so that nothing of the repository's config is started; a folder without git and a nested
repository are walked. Contents are hashed: committing or touching a file changes nothing.
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

from ralph.core import discovery
from ralph.core.work import never_stop
from ralph.loop.criteria import Runner

MOST_FILES = 100_000  # how many files a snapshot covers
_LARGEST = 16_000_000  # a larger file is identified by its time and size
_SETTLED = 2_000_000_000  # nanoseconds after which a file's time is sure to differ when it is written again
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
    """The content of each file by its path; `by_git`: without ignored files."""

    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    by_git: bool = True

    @property
    def fingerprint(self) -> str:
        """The same for the same contents."""
        listing = "\n".join(f"{path}\0{content}" for path, content in sorted(self.files.items()))
        return hashlib.sha256(
            f"{self.by_git}\n{listing}".encode("utf-8", "surrogateescape")
        ).hexdigest()[:16]


def changed_files(before: DiskSnapshot, after: DiskSnapshot) -> tuple[str, ...]:
    """Return the files that differ; () when the snapshots cannot be compared."""
    if before.by_git != after.by_git:
        return ()
    paths = before.files.keys() | after.files.keys()
    return tuple(sorted(path for path in paths if before.files.get(path) != after.files.get(path)))


class ChangeTracker:
    """Takes snapshots of a project's folder, and of the rest of its repository."""

    def __init__(self, folder: Path, run: Runner) -> None:
        self.folder = folder.resolve()
        self._run = run
        self._base = self.folder.as_posix().rstrip("/") + "/"
        self._cache: dict[str, tuple[tuple[int, ...], str]] = {}
        top = discovery.find_top(self.folder.as_posix())
        is_ignored = (
            bool(top)
            and self.folder != Path(top)
            and self._git("check-ignore", "-q", ".") is not None
        )
        self._by_git = bool(top) and not is_ignored

    def snapshot(self) -> DiskSnapshot:
        """Return the state of the disk now."""
        listing = self._git(*_LIST_FILES) if self._by_git else None
        self._by_git = listing is not None
        names = _walk(self._base) if listing is None else filter(None, sorted(listing.split("\0")))
        contents = self._contents(name for name in names if _IGNORED.isdisjoint(name.split("/")))
        return DiskSnapshot(dict(islice(contents, MOST_FILES)), self._by_git)

    def _git(self, *words: str) -> str | None:
        ran = self._run((*_GIT, *words), cwd=self.folder, timeout=60.0, stopped=never_stop)
        return ran.out if ran.code == 0 else None

    def _contents(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        for name in names:
            if (content := self._content(name)) is None:  # a repository of its own
                yield from self._contents(_walk(self._base, name))
            elif content:
                yield name, content

    def _content(self, name: str) -> str | None:
        """Mode and hash of a file, time and size of a large one; "" when gone, None for a folder."""
        path = f"{self._base}{name}"
        try:
            about = os.lstat(path)
            if stat.S_ISDIR(about.st_mode):
                return None
            key = (about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino, about.st_mode)
            if (cached := self._cache.get(name)) is not None and cached[0] == key:
                return cached[1]
            if stat.S_ISLNK(about.st_mode):
                content = f"link {Path(path).readlink()}"
            elif not stat.S_ISREG(about.st_mode):
                content = f"special {about.st_mode}"
            elif about.st_size > _LARGEST:
                content = f"large {about.st_size} {about.st_mtime_ns}"
            else:
                digest = hashlib.sha1(Path(path).read_bytes(), usedforsecurity=False).hexdigest()
                content = f"{about.st_mode & 0o100} {digest}"
        except OSError as error:
            return "" if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
        if time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) > _SETTLED:
            self._cache[name] = (key, content)
        return content


def _walk(base: str, below: str = "") -> Iterator[str]:
    for folder, folders, names in os.walk(f"{base}{below}"):
        inside = f"{folder.rstrip('/')}/"[len(base) :]
        folders[:] = sorted(name for name in folders if name not in _IGNORED)
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in sorted([*names, *links]):
            if name not in _IGNORED and not name.endswith(".pyc"):
                yield f"{inside}{name}"
