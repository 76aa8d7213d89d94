"""The only module that writes files.

Every change of a file that people read is atomic: a temporary file in the same folder, fsync, rename. Writers of one
folder take turns by an advisory lock on the folder itself, or on a lock file where folders cannot be locked. Editors
take no lock, so `update` compares the file with what it read and starts again when it has changed. A write through a
symbolic link goes to its target, never to one that dangles or leaves the project. A log grows by one `write()` for
each append; the next append closes a torn last line.
"""

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar, overload

from ralph.errors import Conflict, Refused, Unreadable, WriteFailed
from ralph.store.dry_run import FileChange, WriteObserver

LOCK_NAME = ".ralph-lock"

_TRIES = 3000
_PAUSE = 0.01
_NO_FOLDER_LOCKS = {errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.EISDIR}


if sys.platform == "win32":
    import msvcrt

    def lock_folder(folder: Path) -> int:
        """Lock a folder until the handle is closed."""
        handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT)
        return _acquire(folder, handle, lambda: msvcrt.locking(handle, msvcrt.LK_NBLCK, 1))

    def try_lock(handle: int) -> bool:
        """Return True: a locked file could not be opened."""
        return True  # a file that is locked there could not be read

    def is_current(path: Path, handle: int) -> bool:
        """Whether there is something at all: what is open cannot be replaced there."""
        return path.exists()

else:
    import fcntl

    def lock_folder(folder: Path) -> int:
        """Lock a folder; the handle holds the lock until it is closed or its process ends."""
        try:
            return _locked(folder, folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno not in _NO_FOLDER_LOCKS:
                raise
        return _locked(folder, folder / LOCK_NAME, os.O_RDWR | os.O_CREAT)

    def _locked(folder: Path, path: Path, flags: int) -> int:
        while True:
            handle = os.open(path, flags, 0o666)
            _acquire(folder, handle, partial(fcntl.flock, handle, fcntl.LOCK_EX | fcntl.LOCK_NB))
            if is_current(path, handle):
                return handle
            os.close(handle)

    def try_lock(handle: int) -> bool:
        """Lock an open file if it is not locked; the lock is ours until the handle is closed."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_current(path: Path, handle: int) -> bool:
        """Whether what was opened still stands there: git or a person may have replaced it while we waited."""
        try:
            return os.path.samestat(os.fstat(handle), path.stat())
        except FileNotFoundError:
            return False


def _acquire(folder: Path, handle: int, attempt: Callable[[], None]) -> int:
    """Try until the lock is ours; the pause is short, a writer holds it for milliseconds."""
    for _ in range(_TRIES):
        try:
            attempt()
        except (BlockingIOError, PermissionError):
            time.sleep(_PAUSE)  # waiting in the kernel could not be ended after a time
        except BaseException:
            os.close(handle)
            raise
        else:
            return handle
    os.close(handle)
    raise WriteFailed(f"{folder}: another process has held the lock for 30 seconds", hint="end it and run again")


PRIVATE = 0o600
TEMP_SUFFIX = ".ralph-tmp"

_UPDATE_TRIES = 20

T = TypeVar("T")


def read(path: Path, observer: WriteObserver | None = None) -> str | None:
    """Return the text with every byte (undecodable ones as surrogates), after a dry run's changes; None for no file."""
    planned = observer.planned(path) if observer is not None else None
    if planned is not None:
        return planned.after
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "is not a regular file")  # a FIFO would wait for a writer
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(f"{path}: cannot be read: {error.strerror}", hint="check its type and permissions") from error


def target(path: Path, root: Path | None, *, folder: bool = False) -> Path:
    """Where a write to `path` really goes; Refused for a dangling or escaping link and for special files."""
    real = Path(os.path.realpath(path))
    if root is not None and not real.is_relative_to(os.path.realpath(root)):
        raise Refused(
            f"{path}: leads to {real}, outside the project {root}",
            hint=f"replace the symbolic link by a real {'folder' if folder else 'file'}; nothing was written",
        )
    try:
        for link in (path, *path.parents):
            if link.is_symlink() and not link.exists():
                raise Refused(
                    f"{link}: is a symbolic link to {link.readlink()}, which does not exist",
                    hint="restore the target or remove the link; nothing was written",
                )
        if real.exists() and not (real.is_dir() if folder else real.is_file()):
            kind = "folder" if folder else "regular file"
            raise Refused(f"{path}: is not a {kind}", hint="move it away; nothing was written")
    except OSError as error:
        raise WriteFailed(f"{path}: cannot be reached: {error.strerror}", hint=_hint(error)) from error
    return real


def write(
    path: Path, text: str, *, root: Path | None = None, expect: str | None = None, mode: int | None = None
) -> None:
    """Replace the whole file, atomically; with `expect`, only if it still holds that text (Conflict otherwise)."""
    real = target(path, root)
    make_folder(real.parent)
    with lock(real):
        if not _replace(real, text, expect, mode):
            raise Conflict(f"{path}: changed while it was being edited", hint="look at it and run the command again")


@overload
def update(
    path: Path,
    change: Callable[[str], tuple[str, T]],
    *,
    root: Path | None = None,
    mode: int | None = None,
    observer: WriteObserver | None = None,
) -> T: ...


@overload
def update(
    path: Path,
    change: Callable[[str], str],
    *,
    root: Path | None = None,
    mode: int | None = None,
    observer: WriteObserver | None = None,
) -> str: ...


def update(
    path: Path,
    change: Callable[[str], str | tuple[str, T]],
    *,
    root: Path | None = None,
    mode: int | None = None,
    observer: WriteObserver | None = None,
) -> str | T:
    """Read, change and replace a file under its lock; return the result of `change`.

    `change(text)` returns the new text, or the new text and a result. It gets "" for a missing file, and runs again
    when another program changed the file meanwhile. An unchanged text is not written.
    """
    real = target(path, root)
    with _lock_folder_of(real, observer):
        for _ in range(_UPDATE_TRIES):
            before = read(real, observer) or ""
            changed = change(before)
            after, result = changed if isinstance(changed, tuple) else (changed, changed)
            if after == before or _replace(real, after, before, mode, observer):
                return result
    raise Conflict(f"{path}: keeps changing while it is being edited", hint="close the program that rewrites it")


def append(
    path: Path,
    line: str,
    *,
    root: Path | None = None,
    mode: int = PRIVATE,
    durable: bool = False,
    observer: WriteObserver | None = None,
) -> None:
    """Append one line with a single write; closes a torn line first, and takes back a write that did not fit."""
    real = target(path, root)
    wire = _bytes(real, line)
    with _lock_folder_of(real, observer, 0o700):
        if observer is not None:
            before = read(real, observer)
            gap = "\n" if before and not before.endswith("\n") else ""
            observer.change(FileChange(real, before, f"{before or ''}{gap}{line}", appended=True))
            if not observer.real:
                return
        _append(real, wire, mode, durable)


@contextlib.contextmanager
def _lock_folder_of(real: Path, observer: WriteObserver | None, mode: int = 0o777) -> Iterator[None]:
    """Make and lock a file's folder; a dry run does neither."""
    if observer is not None and not observer.real:
        yield
        return
    make_folder(real.parent, mode)
    with lock(real):
        yield


def output(path: Path, *, root: Path | None = None) -> int:
    """A descriptor that adds to a file's end, for what another program prints; the caller closes it."""
    real = target(path, root)
    make_folder(real.parent, 0o700)
    try:
        return os.open(real, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        raise WriteFailed(f"{path}: cannot be opened: {error.strerror}", hint=_hint(error)) from error


def backup(path: Path, *, root: Path | None = None, text: str | None = None) -> Path | None:
    """A copy of the file beside it, `<name>.bak` or `<name>.bak2` ..., never over an older one; None if no file.

    `text` is what the caller read of it and is about to replace: then the copy is of that, whatever the file holds now.
    """
    there = read(path)
    if there is None:
        return None
    text = there if text is None else text
    number = 1
    while True:
        copy = path.with_name(f"{path.name}.bak{'' if number == 1 else number}")
        if not copy.exists() and not copy.is_symlink():
            write(copy, text, root=root, expect="", mode=stat.S_IMODE(path.stat().st_mode))
            return copy
        number += 1


def make_folder(path: Path, mode: int = 0o777, *, root: Path | None = None) -> bool:
    """Make the folder and its parents, with `root` only inside of it; True when it was not there."""
    if path.is_dir():
        return False
    if root is not None:
        target(path, root, folder=True)
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise WriteFailed(f"{path}: cannot make this folder: {error.strerror}", hint=_hint(error)) from error
    return True


def move(path: Path, to: Path, *, root: Path | None = None) -> None:
    """Rename a file or folder, with `root` only within it; Conflict when something is already there."""
    if to.exists() or to.is_symlink():
        raise Conflict(f"{to}: is already there", hint=f"merge {path} into it by hand")
    if root is not None:
        target(path.parent, root, folder=True)
        target(to.parent, root, folder=True)
    make_folder(to.parent)
    try:
        path.rename(to)
    except OSError as error:
        raise WriteFailed(f"{path}: cannot be moved to {to}: {error.strerror}", hint=_hint(error)) from error


def link(path: Path, to: Path) -> None:
    """Make a link to a file or folder where nothing is."""
    try:
        path.symlink_to(to)
    except OSError as error:
        raise WriteFailed(f"{path}: cannot be linked to {to}: {error.strerror}", hint=_hint(error)) from error


def delete(path: Path, observer: WriteObserver | None = None) -> None:
    """Remove one file; a missing one is fine."""
    if observer is not None:
        before = read(path, observer)
        if before is not None:
            observer.change(FileChange(path, before, None))
        if not observer.real:
            return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise WriteFailed(f"{path}: cannot be removed: {error.strerror}", hint=_hint(error)) from error


def remove_folder(path: Path) -> None:
    """Remove one empty folder."""
    try:
        path.rmdir()
    except OSError as error:
        raise WriteFailed(f"{path}: cannot be removed: {error.strerror}", hint=_hint(error)) from error


def restrict(path: Path, mode: int = PRIVATE) -> None:
    """Set a file's permissions."""
    try:
        path.chmod(mode)
    except OSError as error:
        raise WriteFailed(f"{path}: permissions cannot be changed: {error.strerror}", hint=_hint(error)) from error


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the lock of the real path's folder: one writer at a time, released also by a kill."""
    folder = Path(os.path.realpath(path)).parent
    try:
        handle = lock_folder(folder)
    except OSError as error:
        raise WriteFailed(f"{folder}: cannot be locked: {error.strerror}", hint=_hint(error)) from error
    try:
        yield
    finally:
        os.close(handle)


class LockTaken(Conflict):
    """A lock that another process has; `by` is its owner in parentheses, "" before it is written."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(f"{path}: another process holds it", hint="try again when it has ended")
        self.by = f" ({owner})" if owner else ""


@contextlib.contextmanager
def process_lock(path: Path, owner: str, *, root: Path | None = None) -> Iterator[None]:
    """Hold a lock file with the owner's description; LockTaken when another process has it.

    The kernel releases it when its process ends in whatever way.
    """
    real = target(path, root)
    make_folder(real.parent, 0o700)
    try:
        handle = _take_lock(real, owner)
    except OSError as error:
        raise WriteFailed(f"{path}: cannot be held: {error.strerror}", hint=_hint(error)) from error
    try:
        yield
    finally:
        delete(real)  # while we have it: it is ours
        os.close(handle)


def _take_lock(real: Path, owner: str) -> int:
    while True:
        handle = os.open(real, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            if not try_lock(handle):
                raise LockTaken(real, read(real) or "")
            if is_current(real, handle):  # else its owner has deleted it since we opened it
                os.ftruncate(handle, 0)
                os.write(handle, _bytes(real, owner))
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files that a killed writer left in a folder, without lock files, which may be in use."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.name.endswith(TEMP_SUFFIX))


def _append(real: Path, wire: bytes, mode: int, durable: bool) -> None:
    try:
        handle = os.open(real, os.O_RDWR | os.O_APPEND | os.O_CREAT, mode)
        try:
            size = _writable(os.fstat(handle)).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            wire = b"\n" + wire if torn else wire
            if os.write(handle, wire) != len(wire):
                os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                os.fsync(handle)
        finally:
            os.close(handle)
        if durable and not size:  # it may be new, and its name must be on the disk as well
            _sync_folder(real.parent)
    except OSError as error:
        raise WriteFailed(f"{real}: cannot append: {error.strerror}", hint=_hint(error)) from error


def _replace(
    real: Path, text: str, expect: str | None, mode: int | None, observer: WriteObserver | None = None
) -> bool:
    """Atomic replace under the lock; False when the file no longer holds `expect`."""
    payload = _bytes(real, text)
    temp: Path | None = None
    try:
        keep = _writable(real.stat()) if real.exists() else None
        if observer is not None:
            before = read(real, observer)
            if (before or "") != expect:
                return False
            observer.change(FileChange(real, before, text))
            if not observer.real:
                return True
        _sweep(real.parent)
        temp = real.with_name(f".{real.name[:40]}.{os.getpid()}-{os.urandom(4).hex()}{TEMP_SUFFIX}")
        _write_new(temp, payload, keep, mode)
        if expect is not None and (read(real) or "") != expect:
            return False
        temp.replace(real)
        temp = None
        _sync_folder(real.parent)
    except OSError as error:
        raise WriteFailed(f"{real}: cannot be written: {error.strerror}", hint=_hint(error)) from error
    finally:
        if temp is not None:
            with contextlib.suppress(OSError):
                temp.unlink(missing_ok=True)
    return True


def _write_new(temp: Path, payload: bytes, keep: os.stat_result | None, mode: int | None) -> None:
    wanted = mode if mode is not None else stat.S_IMODE(keep.st_mode) if keep is not None else 0o666
    handle = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL, wanted)
    try:
        view = memoryview(payload)
        while view:
            view = view[os.write(handle, view) :]
        if keep is not None and sys.platform != "win32":
            os.fchmod(handle, wanted)
            with contextlib.suppress(PermissionError):
                os.fchown(handle, keep.st_uid, keep.st_gid)
        os.fsync(handle)
    finally:
        os.close(handle)


def _bytes(path: Path, text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Refused(f"{path}: the new text has a character that UTF-8 cannot hold", hint="remove it") from error


def _writable(status: os.stat_result) -> os.stat_result:
    """Refuse a file without write permission, also to root, although a rename would succeed."""
    if not status.st_mode & 0o222:
        raise PermissionError(errno.EACCES, "the file is read-only")
    return status


def _sweep(folder: Path) -> None:
    """Remove what killed writers left; we have the folder's lock, so no process is using it."""
    for entry in folder.glob(f".*{TEMP_SUFFIX}"):
        with contextlib.suppress(OSError):
            entry.unlink()


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "the file is as it was; free some space and run again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "the file is as it was; make the file and its folder writable and run again"
    return "the file is as it was"
