"""Fingerprints of a project's files, and which files differ between two snapshots.

Contents are compared with a base commit: committing, staging or touching a file changes nothing, and going back to
an earlier content gives the earlier fingerprint. Git is run without anything that the repository's config could
start (hooks, monitors, filters, pagers, transports); submodules are walked like folders without git. Without git,
files whose time or size differs from the first snapshot are read. `.ralph/` and `.agent/` never count.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ralph import discovery
from ralph.loop.criteria import Runner
from ralph.model.work import ProcessResult, never_stop

MOST_FILES = 50_000  # how many files a snapshot covers; its note says when there are more
_LARGEST = 16_000_000  # a larger file is identified by its time and size
_TIMEOUT = 60.0
_SETTLED = 2_000_000_000  # nanoseconds after which a file's time is sure to differ when it is written again
RALPH_FOLDERS = frozenset((".ralph", ".agent"))
_IGNORED = frozenset(
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
class DiskSnapshot:
    """What differs from the base, by path from the folder; `note` says what could not be compared."""

    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    head: str = ""  # the commit, where there is git
    note: str = ""
    method: str = "git"
    dirty: tuple[str, ...] = ()  # modified or untracked for git, whenever that happened

    @property
    def fingerprint(self) -> str:
        """The same for the same contents."""
        listing = "\n".join(f"{path}\0{content}" for path, content in sorted(self.files.items()))
        return hashlib.sha256(f"{self.method}\n{listing}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


def changed_files(before: DiskSnapshot, after: DiskSnapshot) -> tuple[str, ...]:
    """Return the files whose content differs between two snapshots; () where they cannot be compared."""
    if before.method != after.method:
        return ()
    paths = before.files.keys() | after.files.keys()
    return tuple(sorted(path for path in paths if before.files.get(path) != after.files.get(path)))


class ChangeTracker:
    """Takes snapshots of a project's folder; fingerprints of one `base` commit can be compared."""

    def __init__(self, folder: Path, run: Runner, base: str = "") -> None:
        self.folder = folder.resolve()
        self.base = base if _COMMIT.fullmatch(base) else ""
        name = discovery.find_top(self.folder.as_posix())
        top = Path(name) if name else None
        self._git = None if top is None else _GitReader(top, run)
        self._why_not = "" if top is not None else "no git: files are compared by time and size"
        self._contents = _ContentCache()
        self._first_walks: dict[Path, dict[str, tuple[int, int]]] = {}
        self._has_snapshot = False

    def snapshot(self) -> DiskSnapshot:
        """Return the state of the disk now."""
        state = self._git_snapshot(self._git) if self._git is not None else None
        if state is None:
            self._git = None
            files, full = self._walk(self.folder, began_empty=False)
            note = _join_notes(self._why_not, full)
            state = DiskSnapshot(self._from_project(files, self.folder), note=note, method="walk")
        self._has_snapshot = True
        return state

    def _git_snapshot(self, git: "_GitReader") -> DiskSnapshot | None:
        """Return a snapshot by git, or None when git fails."""
        if not self._has_snapshot and git.ignores(self.folder):
            self._why_not = "git ignores this folder: files are compared by time and size"
            return None
        status = git.status()
        if isinstance(status, str):
            self._why_not = f"{status}; files are compared by time and size"
            return None
        head, changed = status
        committed = git.compare_commits(self.base or head, head)
        if committed is None or not self.base:
            self.base = head
        olds, news = committed or ({}, {})
        full = len(changed) > MOST_FILES
        folders = {*git.submodules()}
        for path, old in list(changed.items())[:MOST_FILES]:
            absolute = git.top / path
            if absolute.is_dir() and not absolute.is_symlink():
                folders.add(path.rstrip("/"))
                news.pop(path, None)
            else:
                olds.setdefault(path, old)
                news[path] = self._contents.read(absolute, len(head))
        files = self._from_project({path: new for path, new in news.items() if new != olds.get(path, _GONE)}, git.top)
        for folder in sorted(folders):
            more, cut = self._walk(git.top / folder, began_empty=self._has_snapshot)
            files |= self._from_project(more, git.top / folder)
            full = full or cut
        dirty = tuple(sorted(self._from_project(changed, git.top)))
        return DiskSnapshot(files, head, _join_notes(git.note, full), dirty=dirty)

    def _walk(self, root: Path, *, began_empty: bool) -> tuple[dict[str, str], bool]:
        """Return what differs in a folder from the first walk, and whether there were too many files.

        Only files whose time or size differs are read. A folder that did not exist at the first snapshot began empty.
        """
        files = _list_files(root)
        now = dict(islice(files, MOST_FILES))
        full = next(files, None) is not None
        first = self._first_walks.setdefault(root, {} if began_empty else now)
        differing = {path: self._contents.read(root / path) for path in now if now[path] != first.get(path)}
        return differing | dict.fromkeys(() if full else first.keys() - now.keys(), _GONE), full

    def _from_project(self, files: Mapping[str, str], root: Path) -> dict[str, str]:
        others = {path: text for path, text in files.items() if RALPH_FOLDERS.isdisjoint(path.split("/"))}
        if root == self.folder:
            return others
        return {os.path.relpath(root / path, self.folder): text for path, text in others.items()}


def _join_notes(note: str, full: bool) -> str:
    most = f"more than {MOST_FILES:,} files: the rest was not looked at" if full else ""
    return "; ".join(part for part in (note, most) if part)


class _ContentCache:
    """Contents as git names them; a file is read again only when its times, size or inode changed."""

    def __init__(self) -> None:
        self._cache: dict[Path, tuple[tuple[int, ...], str]] = {}

    def read(self, path: Path, width: int = 40) -> str:
        """Return mode and blob id of a file or a link; time and size of a large one."""
        try:
            about = path.lstat()
            key = (width, about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_ino, about.st_mode)
            cached = self._cache.get(path)
            if cached is not None and cached[0] == key:
                return cached[1]
            content = _read_content(path, about, width)
        except OSError as error:
            return _GONE if isinstance(error, FileNotFoundError | NotADirectoryError) else "unreadable"
        if time.time_ns() - max(about.st_mtime_ns, about.st_ctime_ns) > _SETTLED:
            self._cache[path] = (key, content)
        return content


def _read_content(path: Path, about: os.stat_result, width: int) -> str:
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


def _list_files(root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the files below a folder in a fixed order with time and size; links are not followed."""
    folders = [""]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            for entry in entries:
                if entry.name in _IGNORED or entry.name.endswith(".pyc"):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                else:
                    about = entry.stat(follow_symlinks=False)
                    yield path, (about.st_mtime_ns, about.st_size)
        except OSError:
            continue  # deleted since, or not readable: an agent of this user cannot change it


class _GitReader:
    """A repository, read without side effects."""

    def __init__(self, top: Path, run: Runner) -> None:
        self.top, self._run = top, run
        self.note = ""
        self._unfiltered: tuple[str, ...] | None = None

    def _run_git(self, *arguments: str, settings: Iterable[str] = (), cwd: Path | None = None) -> ProcessResult:
        safe = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "protocol.allow=never", *settings)
        options = (option for setting in safe for option in ("-c", setting))
        argv = ["git", "--no-optional-locks", "--no-pager", *options, *arguments]
        return self._run(argv, cwd=cwd or self.top, timeout=_TIMEOUT, stopped=never_stop)

    def ignores(self, folder: Path) -> bool:
        return folder != self.top and self._run_git("check-ignore", "-q", ".", cwd=folder).code == 0

    def status(self) -> tuple[str, dict[str, str]] | str:
        """Return the commit and each dirty path with its content in that commit, or why git fails."""
        filters = self._filters()
        if filters is None:
            return "git has a filter with a name that cannot be switched off"
        options = "--porcelain=v2 -z --branch --untracked-files=all --no-renames --ignore-submodules=dirty"
        ran = self._run_git("status", *options.split(), settings=filters)
        if ran.code != 0:
            error = "took too long" if ran.timed_out else ran.err.strip().split("\n", 1)[0]
            return f"git status: {error or f'ended with {ran.code}'}"
        head, dirty = _UNBORN, {}
        for entry in ran.out.split("\0"):
            kind, _, rest = entry.partition(" ")
            if kind == "#" and rest.startswith("branch.oid "):
                head = rest.removeprefix("branch.oid ")
            elif kind == "?" and _IGNORED.isdisjoint(rest.split("/")):
                dirty[rest] = _GONE
            elif kind == "1" and rest.count(" ") >= 7:
                _, _, mode, _, _, blob, _, path = rest.split(" ", 7)
                dirty[path] = _blob(mode, blob)
            elif kind == "u" and rest.count(" ") >= 9:
                dirty[rest.split(" ", 9)[9]] = "in conflict"
        return head, dirty

    def _filters(self) -> tuple[str, ...] | None:
        """Return settings that disable every filter of the config, which status would run; None if one cannot be."""
        if self._unfiltered is None:
            ran = self._run_git("config", "-z", "--name-only", "--get-regexp", r"^filter\.")
            names = sorted(
                {key.split(".", 1)[1].rpartition(".")[0] for key in ran.out.split("\0") if key.count(".") > 1}
            )
            if any("=" in name or "\n" in name for name in names):
                return None
            off = ("clean=", "smudge=", "process=", "required=false")
            self._unfiltered = tuple(f"filter.{name}.{setting}" for name in names for setting in off)
        return self._unfiltered

    def compare_commits(self, base: str, head: str) -> tuple[dict[str, str], dict[str, str]] | None:
        """Return the contents that differ in two commits, by path; None when they cannot be compared."""
        olds: dict[str, str] = {}
        news: dict[str, str] = {}
        if base == head:
            return olds, news
        width = 64 if 64 in (len(base), len(head)) else 40
        commits = (_EMPTY_TREE[width] if commit == _UNBORN else commit for commit in (base, head))
        options = "-r -z --raw --no-renames --no-ext-diff --no-textconv --no-abbrev --ignore-submodules=dirty"
        ran = self._run_git("diff-tree", *options.split(), *commits, "--")
        if ran.code != 0:
            self.note = f"git cannot compare {base[:12]} with {head[:12]}: what was committed between was not seen"
            return None
        fields = ran.out.split("\0")
        for metadata, path in zip(fields[::2], fields[1::2], strict=False):
            parts = metadata.lstrip(":").split(" ")
            if len(parts) == 5:
                olds[path], news[path] = _blob(parts[0], parts[2]), _blob(parts[1], parts[3])
        return olds, news

    def submodules(self) -> tuple[str, ...]:
        try:
            text = (self.top / ".gitmodules").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ()
        settings = (line.partition("=") for line in text.splitlines())
        paths = (value.strip().strip('"') for key, _, value in settings if key.strip() == "path")
        inside = (path for path in paths if not path.startswith("/") and ".." not in path.split("/"))
        return tuple(path for path in inside if (self.top / path / ".git").exists())


def _blob(mode: str, blob: str) -> str:
    return _GONE if not blob.strip("0") else f"{mode} {blob}"
