"""The only module that writes files.

A file that people read changes atomically: a temporary file in the same folder, fsync, rename. Writers of one folder
take turns by a lock on it, or on a lock file where folders cannot be locked. Editors take no lock, so `update` compares
the file with what it read and starts again when it has changed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO, TypeVar

from ralph import paths
from ralph.errors import Conflict, Refused, Unreadable, WriteFailed
from ralph.store import hook_files

LOCK_NAME = ".ralph-lock"
PRIVATE = 0o600
TEMP_SUFFIX = ".ralph-tmp"

_writes = 0  # files that this process has locked in order to write them; see `count_writes`
_patience = 30.0  # seconds that a process waits for a lock; see `set_patience`
_NO_FOLDER_LOCKS = {errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.EISDIR}

T = TypeVar("T", bound=str | tuple[str, object])


# --- dry runs and guarded writes ----------------------------------------------------------------


class FileChange(NamedTuple):
    """One file before and after; None where there is no file."""

    path: Path
    before: str | None
    after: str | None
    appended: bool = False


class WriteObserver:
    """Notes every change before it is made."""

    real = True  # whether the disk is written

    def __init__(self) -> None:
        self._changes: dict[str, FileChange] = {}

    def planned(self, path: Path) -> FileChange | None:
        """Return the change of a file so far; None for no change."""
        return self._changes.get(os.path.realpath(path)) if self._changes else None

    def change(self, change: FileChange) -> None:
        """Note a change, of several to one file from the first text to the last."""
        first = self.planned(change.path) or change
        appended = first.appended and change.appended
        self._changes[os.path.realpath(change.path)] = FileChange(
            change.path, first.before, change.after, appended
        )

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """The files whose text differs, in the order in which they are written."""
        return tuple(change for change in self._changes.values() if change.before != change.after)


class DryRun(WriteObserver):
    """Collects what would be written; `read` returns it."""

    real = False


class GuardedWrite(WriteObserver):
    """Lets only files change whose text has the digest in `digests`, by name."""

    def __init__(self, digests: Mapping[str, str], name_of: Callable[[Path], str]) -> None:
        super().__init__()
        self._digests = digests
        self._name_of = name_of

    def change(self, change: FileChange) -> None:
        """Note a change; Conflict when the file is not as shown. Appending to a log loses nothing."""
        earlier = self.planned(change.path)
        name = self._name_of(change.path)
        shown = text_digest(earlier.after) if earlier is not None else self._digests.get(name)
        if text_digest(change.before) != shown and not change.appended:
            raise changed_meanwhile(name)
        super().change(change)


def text_digest(text: str | None) -> str:
    """Return the digest of a file's text; "" where there is no file."""
    import hashlib  # loads OpenSSL

    return (
        "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    )


def changed_meanwhile(name: str) -> Conflict:
    """Return the error for a file that another program changed since it was shown."""
    return Conflict(
        f"{name}: was changed since it was shown", hint="nothing was written; look at it again"
    )


# --- reading and writing ------------------------------------------------------------------------


def read(path: Path, observer: WriteObserver | None = None) -> str | None:
    """Return the text, undecodable bytes as surrogates, after a dry run's changes; None for no file."""
    planned = observer.planned(path) if observer is not None and not observer.real else None
    if planned is not None:
        return planned.after
    try:
        with open_unpacked(path) as file:
            return file.read().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(
            f"{path}: cannot be read: {error.strerror}", hint="check its type and permissions"
        ) from error


def open_regular(path: Path) -> BinaryIO:
    """Open a file; OSError at once for a FIFO, a device or a folder, which may have no end."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file")
    return file


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file like `open_regular`; of a packed log what is packed in it."""
    file = open_regular(path)
    if not path.name.endswith(paths.PACKED):
        return file
    with file:
        return io.BytesIO(unpack(file.read()))


def unpack(raw: bytes) -> bytes:
    """Return the contents of a packed file; OSError when it is damaged or unreasonably large."""
    import zlib  # hooks have no use for it

    stream = zlib.decompressobj(wbits=31)
    try:
        text = stream.decompress(raw, 1 << 28)
    except zlib.error as error:
        raise OSError(errno.EINVAL, "is not a packed file") from error
    if not stream.eof or stream.unused_data:
        raise OSError(errno.EINVAL, "is not a whole packed file")
    return text


def target(path: Path, root: Path | None, *, folder: bool = False) -> Path:
    """Return where a write goes; Refused for a dangling or escaping link and special files."""
    real = Path(os.path.realpath(path))
    kind = "folder" if folder else "file"
    if root is not None and not real.is_relative_to(os.path.realpath(root)):
        hint = f"replace the symbolic link by a real {kind}; nothing was written"
        raise Refused(f"{path}: leads to {real}, outside the project {root}", hint=hint)
    with _explained(f"{path}: cannot be reached"):
        for link in (path, *path.parents):
            if link.is_symlink() and not link.exists():
                what = f"{link}: is a symbolic link to {link.readlink()}, which does not exist"
                raise Refused(
                    what, hint="restore the target or remove the link; nothing was written"
                )
        if real.exists() and not (real.is_dir() if folder else real.is_file()):
            kind = "folder" if folder else "regular file"
            raise Refused(f"{path}: is not a {kind}", hint="move it away; nothing was written")
    return real


def write(
    path: Path,
    text: str,
    *,
    root: Path | None = None,
    expect: str | None = None,
    mode: int | None = None,
) -> None:
    """Replace the whole file; with `expect`, only if it still holds that text (else Conflict)."""
    real = target(path, root)
    with _lock_folder_of(real, mode=0o700 if mode == PRIVATE else 0o777):
        if not _replace(real, text, expect, mode):
            raise Conflict(
                f"{path}: changed while it was being edited",
                hint="look at it and run the command again",
            )


def update(
    path: Path,
    change: Callable[[str], T],
    *,
    root: Path | None = None,
    mode: int | None = None,
    observer: WriteObserver | None = None,
) -> T:
    """Change a file under its lock; return what `change(text)` did, which runs again when another program wrote."""
    real = target(path, root)
    with _lock_folder_of(real, observer, 0o700 if mode == PRIVATE else 0o777):
        for _ in range(20):
            before = read(real, observer) or ""
            changed = change(before)
            after = changed if isinstance(changed, str) else changed[0]
            if after == before or _replace(real, after, before, mode, observer):
                return changed
    raise Conflict(
        f"{path}: keeps changing while it is being edited",
        hint="close the program that rewrites it",
    )


def append(
    path: Path,
    line: str,
    *,
    root: Path | None = None,
    mode: int = PRIVATE,
    durable: bool = False,
    observer: WriteObserver | None = None,
) -> None:
    """Append one line with a single write; closes a torn line, takes back a write that did not fit."""
    real = target(path, root)
    payload = _encode(real, line)
    with _lock_folder_of(real, observer, 0o700), _explained(f"{real}: cannot append"):
        if observer is not None:
            before = read(real, observer)
            gap = "\n" if before and not before.endswith("\n") else ""
            observer.change(FileChange(real, before, f"{before or ''}{gap}{line}", appended=True))
            if not observer.real:
                return
        handle = os.open(real, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)
        try:
            size = _require_writable(os.fstat(handle)).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                payload = b"\n" + payload
            if os.write(handle, payload) != len(payload):
                os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        if durable and not size:  # it may be new, and its name must be on the disk as well
            _sync_folder(real.parent)


def collect_spilled(root: Path) -> None:
    """Append lines that a hook could not append in time, unless they are there already."""
    log = paths.log_folder(root)
    boundary = paths.state_boundary(root)
    for path in sorted((log / hook_files.SPILL).glob("*.jsonl")):
        session = log / "sessions" / path.name.split("-", 2)[2]
        with contextlib.suppress(
            Unreadable
        ):  # something else has the name of its log: the line stays here
            line = read(path) or ""
            if line not in (read(session) or ""):
                append(session, line, root=boundary)
            delete(path)


def output(path: Path, *, root: Path | None = None) -> int:
    """Open a descriptor that appends, for what another program prints; the caller closes it."""
    real = target(path, root)
    make_folder(real.parent, 0o700)
    with _explained(f"{path}: cannot be opened"):
        return os.open(real, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)


def unnamed() -> TextIO:
    """Open a file without a name, for what another program prints and we read."""
    from tempfile import TemporaryFile  # loads random

    return io.TextIOWrapper(TemporaryFile(), encoding="utf-8", errors="replace")


def backup(path: Path, *, root: Path | None = None, text: str | None = None) -> Path | None:
    """Copy a file to `<name>.bak`, `.bak2` ...; None if there is none. `text`: what the caller read and replaces."""
    if (present := read(path)) is None:
        return None
    number = 1
    copy = path.with_name(f"{path.name}.bak")
    while copy.exists() or copy.is_symlink():
        number += 1
        copy = path.with_name(f"{path.name}.bak{number}")
    write(
        copy,
        present if text is None else text,
        root=root,
        expect="",
        mode=stat.S_IMODE(path.stat().st_mode),
    )
    return copy


def make_folder(path: Path, mode: int = 0o777, *, root: Path | None = None) -> bool:
    """Make the folder and its parents, with `root` only inside of it; True when it was new."""
    if path.is_dir():
        return False
    if root is not None:
        target(path, root, folder=True)
    with _explained(f"{path}: cannot make this folder"):
        for folder in reversed([path, *path.parents]):
            if not folder.is_dir():
                folder.mkdir(mode, exist_ok=True)
    return True


def move(path: Path, to: Path, *, root: Path | None = None) -> None:
    """Rename a file or folder, with `root` only within it; Conflict when the target exists."""
    if to.exists() or to.is_symlink():
        raise Conflict(f"{to}: is already there", hint=f"merge {path} into it by hand")
    if root is not None:
        target(path.parent, root, folder=True)
        target(to.parent, root, folder=True)
    make_folder(to.parent)
    with _explained(f"{path}: cannot be moved to {to}"):
        path.rename(to)


def link(path: Path, to: Path) -> None:
    """Make a link to a file or folder where nothing is."""
    with _explained(f"{path}: cannot be linked to {to}"):
        path.symlink_to(to)


def delete(path: Path, observer: WriteObserver | None = None) -> None:
    """Remove one file; a missing one is fine."""
    if observer is not None:
        if (before := read(path, observer)) is not None:
            observer.change(FileChange(path, before, None))
        if not observer.real:
            return
    with _explained(f"{path}: cannot be removed"):
        path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove one empty folder."""
    with _explained(f"{path}: cannot be removed"):
        path.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a folder with everything in it; links in it go, their targets stay."""
    import shutil  # for one command

    with _explained(f"{path}: cannot be removed"):
        shutil.rmtree(path)


def restrict(path: Path, mode: int = PRIVATE) -> None:
    """Set a file's permissions."""
    with _explained(f"{path}: permissions cannot be changed"):
        path.chmod(mode)


def leftovers(folder: Path) -> list[Path]:
    """Return temporary files of killed writers; lock files may be in use."""
    return sorted(folder.glob(f"*{TEMP_SUFFIX}")) if folder.is_dir() else []


# --- locks --------------------------------------------------------------------------------------


class LockTaken(Conflict):
    """A lock that another process has; `by` is its owner in parentheses."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(f"{path}: another process holds it", hint="try again when it has ended")
        self.by = f" ({owner})" if owner else ""


@contextlib.contextmanager
def process_lock(path: Path, owner: str, *, root: Path | None = None) -> Iterator[None]:
    """Hold a lock file with the owner's description; LockTaken when another process has it."""
    real = target(path, root)
    make_folder(real.parent, 0o700)
    with _explained(f"{path}: cannot be held"):
        if (handle := lock_file(real)) is None:
            raise LockTaken(real, read(real) or "")
    try:
        with _explained(f"{path}: cannot be held"):
            os.ftruncate(handle, 0)
            os.write(handle, _encode(real, owner))
        yield
    finally:
        delete(real)  # while we have it: it is ours
        os.close(handle)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the lock of the real path's folder, released also by a kill."""
    folder = Path(os.path.realpath(path)).parent
    with _explained(f"{folder}: cannot be locked"):
        handle = lock_folder(folder)
    try:
        yield
    finally:
        os.close(handle)


def lock_folder(folder: Path) -> int:
    """Lock a folder until the handle is closed."""
    try:
        handle = lock_file(folder, _patience, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in _NO_FOLDER_LOCKS:
            raise
        handle = lock_file(folder / LOCK_NAME, _patience, mode=0o666)
    if handle is None:
        what = f"{folder}: another process has held the lock for {_patience:g} seconds"
        raise WriteFailed(what, hint="end it and run again")
    return handle


def count_writes() -> int:
    """Return how many files this process has written, or tried to."""
    return _writes


def set_patience(seconds: float) -> None:
    """Set how long this process waits for a lock: hooks cannot wait long."""
    global _patience  # noqa: PLW0603 - one value for the whole process, set once when it starts
    _patience = seconds


def limit_patience(seconds: float) -> float:
    """Return how long this process may wait for something that others lock in their own way, a database."""
    return min(seconds, _patience)


def lock_file(
    path: Path, patience: float = 0.0, flags: int = os.O_RDWR | os.O_CREAT, mode: int = PRIVATE
) -> int | None:
    """Lock a file or folder; None when another process keeps it for so many seconds."""
    end = time.monotonic() + patience
    while True:
        handle = os.open(path, flags | os.O_CLOEXEC, mode)
        try:
            while True:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() >= end:
                    os.close(handle)
                    return None
                time.sleep(0.01)  # waiting in the kernel could not be ended after a time
            with contextlib.suppress(
                FileNotFoundError
            ):  # it may have been deleted or replaced since we opened it
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


@contextlib.contextmanager
def _lock_folder_of(
    real: Path, observer: WriteObserver | None = None, mode: int = 0o777
) -> Iterator[None]:
    if observer is not None and not observer.real:
        yield
        return
    global _writes  # noqa: PLW0603 - of the process
    _writes += 1
    make_folder(real.parent, mode)
    with lock(real):
        yield


# --- parts --------------------------------------------------------------------------------------


def _replace(
    real: Path,
    text: str,
    expect: str | None,
    mode: int | None,
    observer: WriteObserver | None = None,
) -> bool:
    payload = _encode(real, text)
    temp = real.with_name(f".{real.name[:40]}.{os.getpid()}-{os.urandom(4).hex()}{TEMP_SUFFIX}")
    with _explained(f"{real}: cannot be written"):
        old = _require_writable(real.stat()) if real.exists() else None
        if observer is not None:
            before = read(real, observer)
            if (before or "") != expect:
                return False
            observer.change(FileChange(real, before, text))
            if not observer.real:
                return True
        for entry in real.parent.glob(
            f".*{TEMP_SUFFIX}"
        ):  # of killed writers: we have the lock, so nobody uses them
            with contextlib.suppress(OSError):
                entry.unlink()
        if mode is None:
            mode = stat.S_IMODE(old.st_mode) if old is not None else 0o666
        try:
            handle = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            try:
                view = memoryview(payload)
                while view:
                    view = view[os.write(handle, view) :]
                if old is not None:
                    os.fchmod(handle, mode)
                    with contextlib.suppress(PermissionError):
                        os.fchown(handle, old.st_uid, old.st_gid)
                os.fsync(handle)
            finally:
                os.close(handle)
            if expect is not None and (read(real) or "") != expect:
                return False
            temp.replace(real)
        finally:
            with contextlib.suppress(OSError):
                temp.unlink(missing_ok=True)
        _sync_folder(real.parent)
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _encode(path: Path, text: str) -> bytes:
    try:
        payload = text.encode("utf-8", "surrogateescape")
        if not path.name.endswith(paths.PACKED):
            return payload
        import gzip

        return gzip.compress(payload, mtime=0)  # without the time: the same text is the same file
    except UnicodeEncodeError as error:
        raise Refused(
            f"{path}: the new text has a character that UTF-8 cannot hold", hint="remove it"
        ) from error


def _require_writable(status: os.stat_result) -> os.stat_result:
    """Refuse a read-only file, also to root, although a rename would succeed; and a FIFO, which loses what it gets."""
    if stat.S_ISFIFO(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    if not status.st_mode & 0o222:
        raise PermissionError(errno.EACCES, "the file is read-only")
    return status


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "the file is as it was"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            hint += "; free some space and run again"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint += "; make the file and its folder writable and run again"
        raise WriteFailed(f"{what}: {error.strerror}", hint=hint) from error


# --- .ralph/.gitignore --------------------------------------------------------------------------
# `ralph init` writes one that git sees. Where it has not been called, anything that writes below `.ralph` first makes
# one that also hides itself.

GITIGNORE = """\
# Written by `ralph init`. What happened stays on this machine; what was learned goes into git.
# Delete the line `tasks/` or `features/` to share those, too.
local/
cache/
tasks/
features/
ralph.db*
scratchpad.md
*.bak*
*.ralph-tmp
.ralph-lock
"""
UNTIL_INIT = (
    GITIGNORE
    + "# Made for a worktree: `ralph init` in this checkout makes it one for git.\n.gitignore\n"
)
_MUST_BE_IGNORED = {
    "local/": "local",
    "cache/": "cache",
    "ralph.db*": "ralph.db",
    "scratchpad.md": "scratchpad.md",
}
"""The lines that a person's own file must have, and a name that each of them covers."""


def hide_state(root: Path) -> None:
    """Write a `.ralph/.gitignore` that hides itself, where it is needed."""
    main = paths.main_checkout(root)
    ignore = paths.gitignore(main)
    if ignore.exists() or ignore.is_symlink():
        return
    if ignore.parent.is_dir() or paths.state_boundary(root) == main:
        with contextlib.suppress(
            Conflict, Refused
        ):  # another process was faster, or a link leads out of the project
            write(ignore, UNTIL_INIT, root=main, expect="")


def missing_lines(root: Path) -> tuple[str, ...]:
    """Return the lines that a person's own `.ralph/.gitignore` lacks."""
    own = paths.gitignore(root)
    if (exclude := paths.git_exclude(own)) is None or not own.is_file():
        return ()
    outer = [
        line
        for file in (exclude[0], root / ".gitignore")
        for line in (read(file) or "").splitlines()
    ]
    inner = (read(own) or "").splitlines()
    if _covers(outer, ".ralph"):
        return ()
    names = _MUST_BE_IGNORED.items()
    return tuple(
        line
        for line, name in names
        if not _covers(inner, name) and not _covers(outer, f".ralph/{name}")
    )


def _covers(lines: list[str], name: str) -> bool:
    """Whether git ignores a name: the last pattern that matches decides."""
    ignored = False
    for line in lines:
        pattern = line.strip().removeprefix("!").rstrip("/")
        anywhere = "/" not in pattern or pattern.startswith("**/")
        candidate = name.rpartition("/")[2] if anywhere else name
        if not line.startswith("#") and fnmatchcase(
            candidate, pattern.removeprefix("**/").removeprefix("/")
        ):
            ignored = not line.startswith("!")
    return ignored
