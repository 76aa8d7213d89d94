"""The only module that writes files.

Files that people read are replaced atomically: Ralph writes a temporary file in the same folder,
syncs it to disk and renames it. Processes that write to the same folder take turns by locking the
folder, or a lock file where folders cannot be locked. Editors take no lock, so `update` compares
the file with what it read and starts again if the file has changed.

Functions that take an `observer` report every change to it before they make the change (see
`write_observers.py`). In a dry run they stop there.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, TypeVar

from ralph.core import paths
from ralph.core.errors import Conflict, Refused, Unreadable, WriteFailed
from ralph.lean import hook_files, open_files
from ralph.storage.write_observers import FileChange, WriteObserver, is_dry_run

LOCK_NAME = open_files.LOCK_NAME
TEMP_SUFFIX = ".ralph-tmp"

PRIVATE = 0o600  # mode of a file that only its owner may read
PRIVATE_PROGRAM = 0o700  # mode of a program that only its owner may run
PRIVATE_FOLDER = 0o700
_OTHERS_PERMISSIONS = 0o077
_SHARED_FILE = 0o666  # reduced by the umask
_SHARED_FOLDER = 0o777  # reduced by the umask
_ANY_WRITE_PERMISSION = 0o222

_MAX_UPDATE_ATTEMPTS = 20
_MAX_UNPACKED_BYTES = 1 << 28
_GZIP_WINDOW_BITS = 31  # tells zlib to expect a gzip header
_MAX_TEMP_NAME_CHARACTERS = 40  # of the original name, to stay below file system limits
_LOCK_POLL_SECONDS = 0.01
_REPLACE_SECONDS = 10.0  # how long Windows may refuse to replace a file that is being read
_OPEN_SECONDS = 0.5  # how long Windows may refuse to open a file that is being replaced
_LONG_PATH = "\\\\?\\"  # the prefix of a long path on Windows
_LONG_SHARE = "\\\\?\\UNC\\"  # the same on another machine
_SHARE = "\\\\"
_FOLDER_LOCK_UNSUPPORTED = {
    errno.EBADF,
    errno.ENOLCK,
    errno.EOPNOTSUPP,
    errno.EINVAL,
    errno.EISDIR,
}

LEFT_OUT = "bytes left out ...]"  # ends the note about what was cut out of a file
_CUT_NOTE = rb"\[\.\.\. (\d+) bytes left out \.\.\.\]\n"
_MAX_CUT_NOTE_BYTES = 60

_writes = 0  # how many files this process has locked for writing; see `count_writes`
_patience = 30.0  # seconds that this process waits for a lock; see `set_patience`

T = TypeVar("T", bound=str | tuple[str, object])


# --- reading ------------------------------------------------------------------------------------


def read(path: Path, observer: WriteObserver | None = None) -> str | None:
    """Return a file's text, or None if there is no file.

    Bytes that are not UTF-8 become surrogates. In a dry run, the result is the text as changed so
    far. Raises Unreadable if the file cannot be read.
    """
    if observer is not None and is_dry_run(observer):
        planned = observer.planned_change(path)
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
    """Open a regular file for reading.

    Raises OSError for a FIFO, a device or a folder, and never blocks on one.
    """
    file = os.fdopen(_open_while_replaced(path), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file")
    return file


def _open_while_replaced(path: Path) -> int:
    """Open a file for reading. On Windows, wait for a process that is replacing it."""
    deadline = time.monotonic() + limit_patience(_OPEN_SECONDS)
    while True:
        try:
            return os.open(path, open_files.FOR_READING)
        except PermissionError:
            if sys.platform != "win32" or path.is_dir() or time.monotonic() >= deadline:
                raise
        time.sleep(_LOCK_POLL_SECONDS)


def open_unpacked(path: Path) -> BinaryIO:
    """Open a file as `open_regular` does, decompressing a packed log."""
    file = open_regular(path)
    if not path.name.endswith(paths.PACKED):
        return file
    with file:
        return io.BytesIO(unpack(file.read()))


def unpack(raw: bytes) -> bytes:
    """Return the contents of a packed file. Raises OSError if it is damaged or far too large."""
    import zlib  # hooks do not need it

    stream = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    try:
        text = stream.decompress(raw, _MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise OSError(errno.EINVAL, "is not a packed file") from error
    if not stream.eof or stream.unused_data:
        raise OSError(errno.EINVAL, "is not a complete packed file")
    return text


# --- writing ------------------------------------------------------------------------------------


def _real_path(path: Path) -> Path:
    """Return the real path, on Windows without the prefix of long paths.

    There, `realpath` keeps the prefix if somebody replaces the file while it looks at it.
    """
    real = os.path.realpath(path)
    if real.startswith(_LONG_SHARE):
        return Path(real.replace(_LONG_SHARE, _SHARE, 1))
    return Path(real.removeprefix(_LONG_PATH))


def target(path: Path, root: Path | None, *, folder: bool = False) -> Path:
    """Return the real path that a write to `path` ends up at.

    Raises Refused for a dangling link, a link that leads out of `root`, and anything but a regular
    file (or a folder, if `folder` is set).
    """
    real = _real_path(path)
    if root is not None and not real.is_relative_to(_real_path(root)):
        kind = "folder" if folder else "file"
        raise Refused(
            f"{path}: points to {real}, outside the project {root}",
            hint=f"replace the symbolic link with a real {kind}; nothing was written",
        )
    with _explained(f"{path}: cannot be reached"):
        _refuse_dangling_link(path)
        if real.exists():
            _refuse_other_type(path, real, folder=folder)
    return real


def _refuse_dangling_link(path: Path) -> None:
    for link in (path, *path.parents):
        if link.is_symlink() and not link.exists():
            raise Refused(
                f"{link}: is a symbolic link to {link.readlink()}, which does not exist",
                hint="restore the target or remove the link; nothing was written",
            )


def _refuse_other_type(path: Path, real: Path, *, folder: bool) -> None:
    if folder:
        kind = "folder"
        is_expected = real.is_dir()
    else:
        kind = "regular file"
        is_expected = real.is_file()
    if not is_expected:
        raise Refused(f"{path}: is not a {kind}", hint="move it away; nothing was written")


def write(
    path: Path,
    text: str,
    *,
    root: Path | None = None,
    expect: str | None = None,
    mode: int | None = None,
) -> None:
    """Replace a whole file.

    With `expect`, raises Conflict unless the file still contains that text.
    """
    real = target(path, root)
    with _lock_folder_of(real, mode=_folder_mode(mode)):
        if not _replace(real, text, expect=expect, mode=mode):
            raise Conflict(
                f"{path}: changed while it was being edited",
                hint="review it and run the command again",
            )


def update(
    path: Path,
    change: Callable[[str], T],
    *,
    root: Path | None = None,
    mode: int | None = None,
    observer: WriteObserver | None = None,
) -> T:
    """Change a file under its lock and return what `change(text)` returned.

    `change` returns the new text, alone or as the first item of a tuple. It is called again
    whenever another program has written the file in the meantime. Raises Conflict if that keeps
    happening.
    """
    real = target(path, root)
    with _lock_folder_of(real, observer, _folder_mode(mode)):
        for _ in range(_MAX_UPDATE_ATTEMPTS):
            before = read(real, observer) or ""
            changed = change(before)
            after = changed if isinstance(changed, str) else changed[0]
            if after == before:
                return changed
            if _replace(real, after, expect=before, mode=mode, observer=observer):
                return changed
    raise Conflict(
        f"{path}: keeps changing while it is being edited",
        hint="close the program that rewrites it",
    )


def _folder_mode(file_mode: int | None) -> int:
    """Return the mode for new folders that will contain a file with this mode."""
    if file_mode is None or file_mode & _OTHERS_PERMISSIONS:
        return _SHARED_FOLDER
    return PRIVATE_FOLDER


def append(
    path: Path,
    line: str,
    *,
    root: Path | None = None,
    mode: int = PRIVATE,
    durable: bool = False,
    observer: WriteObserver | None = None,
) -> None:
    """Append one line with a single write.

    If an earlier writer left an unfinished line, a line break is added first. If the disk is too
    full for the whole line, the file is left as it was.
    """
    real = target(path, root)
    payload = _encode(real, line)
    with _lock_folder_of(real, observer, PRIVATE_FOLDER), _explained(f"{real}: cannot append"):
        if observer is not None:
            _note_appended(observer, real, line)
        if is_dry_run(observer):
            return
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | open_files.BINARY
        handle = os.open(real, flags, mode)
        try:
            size = _require_writable(os.fstat(handle)).st_size
            if size and open_files.read_at(handle, 1, size - 1) != b"\n":
                payload = b"\n" + payload
            if os.write(handle, payload) != len(payload):
                os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if durable:
                open_files.sync(handle)
        finally:
            os.close(handle)
        if durable and not size:  # the file may be new: its name must reach the disk as well
            _sync_folder(real.parent)


def _note_appended(observer: WriteObserver, real: Path, line: str) -> None:
    before = read(real, observer)
    after = before or ""
    if after and not after.endswith("\n"):
        after += "\n"
    observer.record(FileChange(real, before, after + line, appended=True))


def collect_spilled(root: Path) -> None:
    """Append the lines that hooks could not append in time (see `hook_files.spill`).

    A line that is already in its log is not appended again.
    """
    log = paths.log_folder(root)
    boundary = paths.state_boundary(root)
    for path in sorted((log / hook_files.SPILL).glob("*.jsonl")):
        name_parts = path.name.split("-", 2)  # the time, the process id and the log's name
        if len(name_parts) < 3:
            continue  # a hook did not write this file
        session = paths.sessions_folder(root) / name_parts[2]
        # If the log cannot be read, the line stays where it is.
        with contextlib.suppress(Unreadable):
            line = read(path) or ""
            if line not in (read(session) or ""):
                append(session, line, root=boundary)
            delete(path)


def output(path: Path, *, root: Path | None = None) -> int:
    """Open a file for appending another program's output.

    Return a descriptor that the caller must close.
    """
    real = target(path, root)
    make_folder(real.parent, PRIVATE_FOLDER)
    with _explained(f"{path}: cannot be opened"):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | open_files.BINARY | open_files.CLOEXEC
        return os.open(real, flags, PRIVATE)


def cut_middle(path: Path, *, keep_first: int, keep_last: int) -> None:
    """Cut whole lines out of the middle of a file, and say how many bytes are left out.

    The file is changed in place, so that a process can continue to append to it. A file that was
    cut before keeps its beginning, and both cuts are counted.
    """
    with open_regular(path) as file:
        beginning = file.read(keep_first + _MAX_CUT_NOTE_BYTES)
        earlier = re.search(_CUT_NOTE, beginning)
        if earlier is not None:
            beginning = beginning[: earlier.start()]
            left_out = int(earlier[1]) - len(earlier[0])
        else:
            beginning = beginning[: beginning.rfind(b"\n", 0, keep_first) + 1]
            left_out = 0
        size = file.seek(0, os.SEEK_END)
        file.seek(max(len(beginning), size - keep_last))
        end = file.read()
    end = end[end.find(b"\n") + 1 :]
    left_out += size - len(beginning) - len(end)
    if left_out <= 0:
        return
    note = f"[... {left_out} {LEFT_OUT}\n".encode()
    with _explained(f"{path}: cannot be shortened"), path.open("r+b") as file:
        file.seek(len(beginning))
        file.write(note + end)
        file.truncate()


def unnamed() -> TextIO:
    """Open an unnamed temporary file for the output of a program that Ralph runs."""
    from tempfile import TemporaryFile  # loads random

    return io.TextIOWrapper(TemporaryFile(), encoding="utf-8", errors="replace")


def backup(path: Path, *, root: Path | None = None, text: str | None = None) -> Path | None:
    """Copy a file to `<name>.bak`, `<name>.bak2` and so on.

    Return the path of the copy, or None if there is no file. A caller that has already read the
    text passes it as `text`, so that the copy contains exactly what is about to be replaced.
    """
    present = read(path)
    if present is None:
        return None
    number = 1
    copy = path.with_name(f"{path.name}.bak")
    while copy.exists() or copy.is_symlink():
        number += 1
        copy = path.with_name(f"{path.name}.bak{number}")
    if text is None:
        text = present
    write(copy, text, root=root, expect="", mode=stat.S_IMODE(path.stat().st_mode))
    return copy


def make_folder(path: Path, mode: int = _SHARED_FOLDER, *, root: Path | None = None) -> bool:
    """Create a folder and its parents, and return whether it is new.

    With `root`, raises Refused for a folder outside it.
    """
    if path.is_dir():
        return False
    if root is not None:
        target(path, root, folder=True)
    with _explained(f"{path}: cannot create this folder", is_folder=True):
        for folder in reversed([path, *path.parents]):
            if not folder.is_dir():
                folder.mkdir(mode, exist_ok=True)
                if mode == PRIVATE_FOLDER:
                    folder.chmod(mode)  # the umask may have removed the owner's permissions
    return True


def move(path: Path, to: Path, *, root: Path | None = None) -> None:
    """Rename a file or folder. Raises Conflict if the target exists.

    With `root`, raises Refused if either parent folder is outside it.
    """
    if to.exists() or to.is_symlink():
        raise Conflict(f"{to}: already exists", hint=f"merge {path} into it by hand")
    if root is not None:
        target(path.parent, root, folder=True)
        target(to.parent, root, folder=True)
    make_folder(to.parent)
    with _explained(f"{path}: cannot be moved to {to}"):
        path.rename(to)


def link(path: Path, to: Path) -> None:
    """Create a symbolic link at `path`, where nothing exists yet, that points to `to`."""
    with _explained(f"{path}: cannot be linked to {to}"):
        path.symlink_to(to)


def delete(path: Path, observer: WriteObserver | None = None) -> None:
    """Remove a file if it exists."""
    if observer is not None:
        before = read(path, observer)
        if before is not None:
            observer.record(FileChange(path, before, None))
    if is_dry_run(observer):
        return
    with _explained(f"{path}: cannot be removed"):
        path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove an empty folder."""
    with _explained(f"{path}: cannot be removed"):
        path.rmdir()


def remove_tree(path: Path) -> None:
    """Remove a folder and everything in it. The targets of links in it are kept."""
    import shutil  # only one command needs it

    with _explained(f"{path}: cannot be removed"):
        shutil.rmtree(path)


def restrict(path: Path, mode: int = PRIVATE) -> None:
    """Set a file's permissions."""
    with _explained(f"{path}: permissions cannot be changed"):
        path.chmod(mode)


def leftovers(folder: Path) -> list[Path]:
    """Return temporary files left behind by killed writers.

    Lock files are not included, because they may be in use.
    """
    if not folder.is_dir():
        return []
    return sorted(folder.glob(f"*{TEMP_SUFFIX}"))


# --- locks --------------------------------------------------------------------------------------


class LockTaken(Conflict):
    """Another process holds the lock. `by` describes that process for use in a message."""

    def __init__(self, path: Path, owner: str) -> None:
        super().__init__(
            f"{path}: another process holds this lock",
            hint="try again when that process has ended",
        )
        self.by = f" ({owner})" if owner else ""


@contextlib.contextmanager
def process_lock(path: Path, owner: str, *, root: Path | None = None) -> Iterator[None]:
    """Hold a lock file that describes its owner.

    Raises LockTaken if another process holds it.
    """
    real = target(path, root)
    make_folder(real.parent, PRIVATE_FOLDER)
    with _explained(f"{path}: cannot be held"):
        handle = lock_file(real)
        if handle is None:
            raise LockTaken(real, read(real) or "")
    try:
        with _explained(f"{path}: cannot be held"):
            os.ftruncate(handle, 0)
            os.write(handle, _encode(real, owner))
        yield
    finally:
        delete(real)  # before releasing the lock, while the file is still ours
        os.close(handle)


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Hold the lock on the folder that a path resolves to.

    The lock is released when the process ends, even if it is killed.
    """
    folder = _real_path(path).parent
    with _explained(f"{folder}: cannot be locked"):
        handle = lock_folder(folder)
    try:
        yield
    finally:
        os.close(handle)


def lock_folder(folder: Path) -> int:
    """Lock a folder and return a file descriptor. Closing it releases the lock.

    Raises WriteFailed if another process keeps the lock for too long.
    """
    try:
        if sys.platform == "win32":
            handle = lock_file(Path(open_files.folder_lock(str(folder))), _patience)
        else:
            handle = lock_file(folder, _patience, os.O_RDONLY | open_files.DIRECTORY)
    except OSError as error:
        if error.errno not in _FOLDER_LOCK_UNSUPPORTED:
            raise
        handle = lock_file(folder / LOCK_NAME, _patience, mode=_SHARED_FILE)
    if handle is None:
        raise WriteFailed(
            f"{folder}: another process has held the lock for {_patience:g} seconds",
            hint="end that process and run again",
        )
    return handle


def remove_folder_locks() -> None:
    """Delete the lock files in the user's state folder that no process has open.

    Only Windows has them, and it refuses to delete an open file.
    """
    folder = open_files.user_locks()
    if not folder:
        return
    for path in Path(folder).glob("*"):
        with contextlib.suppress(OSError):
            path.unlink()
    with contextlib.suppress(OSError):
        Path(folder).rmdir()


def count_writes() -> int:
    """Return how many files this process has written or tried to write."""
    return _writes


def set_patience(seconds: float) -> None:
    """Set how long this process waits for a lock. Hooks cannot wait long."""
    global _patience  # noqa: PLW0603 - one value for the whole process, set once when it starts
    _patience = seconds


def limit_patience(seconds: float) -> float:
    """Limit the time to wait for a lock not managed here, such as a database's.

    Return `seconds`, or the patience of this process if that is shorter.
    """
    return min(seconds, _patience)


def lock_file(
    path: Path, patience: float = 0.0, flags: int = os.O_RDWR | os.O_CREAT, mode: int = PRIVATE
) -> int | None:
    """Lock a file or folder and return a file descriptor. Closing it releases the lock.

    Return None if another process still holds the lock after `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        handle = os.open(path, flags | open_files.BINARY | open_files.CLOEXEC, mode)
        try:
            if not _wait_for_lock(handle, deadline):
                os.close(handle)
                return None
            # Whoever held the lock may have deleted or replaced the file while we waited.
            if _is_handle_of(path, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _wait_for_lock(handle: int, deadline: float) -> bool:
    """Lock an open file. Return False if another process still holds the lock at the deadline."""
    while True:
        if open_files.try_lock(handle):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOCK_POLL_SECONDS)  # the kernel cannot wait with a time limit


def _is_handle_of(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _lock_folder_of(
    real: Path, observer: WriteObserver | None = None, mode: int = _SHARED_FOLDER
) -> Iterator[None]:
    if is_dry_run(observer):
        yield
        return
    global _writes  # noqa: PLW0603 - counts for the whole process
    _writes += 1
    make_folder(real.parent, mode)
    with lock(real):
        yield


# --- steps of a write ---------------------------------------------------------------------------


def _replace(
    real: Path,
    text: str,
    *,
    expect: str | None,
    mode: int | None,
    observer: WriteObserver | None = None,
) -> bool:
    """Replace a file atomically. Return False if its text is no longer `expect`.

    The caller holds the folder's lock.
    """
    payload = _encode(real, text)
    temp = _temporary_path(real)
    with _explained(f"{real}: cannot be written"):
        old = _require_writable(real.stat()) if real.exists() else None
        if observer is not None:
            before = read(real, observer)
            if (before or "") != expect:
                return False
            observer.record(FileChange(real, before, text))
        if is_dry_run(observer):
            return True
        _remove_temporary_files(real.parent)
        try:
            _write_temporary(temp, payload, mode, old)
            # An editor takes no lock, so compare as late as possible.
            if expect is not None and (read(real) or "") != expect:
                return False
            _rename_over(temp, real)
        finally:
            with contextlib.suppress(OSError):
                temp.unlink(missing_ok=True)
        _sync_folder(real.parent)  # otherwise a power failure could undo the rename
    return True


def _rename_over(temp: Path, real: Path) -> None:
    """Rename a file to replace another one.

    Windows refuses while another process is reading the file, so try again for a while.
    """
    deadline = time.monotonic() + limit_patience(_REPLACE_SECONDS)
    while True:
        try:
            temp.replace(real)
            return
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() >= deadline:
                raise
        time.sleep(_LOCK_POLL_SECONDS)


def _temporary_path(real: Path) -> Path:
    name = real.name[:_MAX_TEMP_NAME_CHARACTERS]
    return real.with_name(f".{name}.{os.getpid()}-{os.urandom(4).hex()}{TEMP_SUFFIX}")


def _remove_temporary_files(folder: Path) -> None:
    """Remove temporary files left behind by killed writers.

    The caller holds the folder's lock, so nobody else is using them. An import writes many files to
    one folder, and `glob` would take ten times as long.
    """
    for name in os.listdir(folder):  # noqa: PTH208 - see above
        if name.startswith(".") and name.endswith(TEMP_SUFFIX):
            with contextlib.suppress(OSError):
                (folder / name).unlink()


def _write_temporary(
    temp: Path, payload: bytes, mode: int | None, old: os.stat_result | None
) -> None:
    """Write a new file and sync it to disk.

    It gets the mode and owner of the file that it will replace, whose status is `old`. A `mode`
    that is given holds whatever the umask is.
    """
    has_exact_mode = mode is not None or old is not None
    if mode is None:
        mode = _SHARED_FILE if old is None else stat.S_IMODE(old.st_mode)
    handle = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | open_files.BINARY, mode)
    try:
        unwritten = memoryview(payload)
        while unwritten:
            unwritten = unwritten[os.write(handle, unwritten) :]
        if sys.platform != "win32":
            if has_exact_mode:
                os.fchmod(handle, mode)
            if old is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(handle, old.st_uid, old.st_gid)
        open_files.sync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Write a folder's names to the disk. Windows does this when it renames a file."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY | open_files.DIRECTORY)
    try:
        open_files.sync(handle)
    finally:
        os.close(handle)


def _encode(path: Path, text: str) -> bytes:
    try:
        payload = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Refused(
            f"{path}: the new text has a character that UTF-8 cannot encode", hint="remove it"
        ) from error
    if not path.name.endswith(paths.PACKED):
        return payload
    import gzip

    return gzip.compress(payload, mtime=0)  # no timestamp, so that equal text gives equal files


def _require_writable(status: os.stat_result) -> os.stat_result:
    """Return a file's status. Raises OSError if the file must not be written.

    A read-only file is refused even to root, although a rename would succeed. A FIFO is refused
    because it does not keep what is written to it.
    """
    if stat.S_ISFIFO(status.st_mode):
        raise OSError(errno.EINVAL, "is not a regular file")
    if not status.st_mode & _ANY_WRITE_PERMISSION:
        raise PermissionError(errno.EACCES, "the file is read-only")
    return status


@contextlib.contextmanager
def _explained(problem: str, *, is_folder: bool = False) -> Iterator[None]:
    """Turn an OSError into WriteFailed, with advice."""
    try:
        yield
    except OSError as error:
        hint = "the file is unchanged"
        needed = "the file and its folder"
        if is_folder:
            hint = "no file was written"
            needed = "the folder that contains it"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            hint += "; free some space and run again"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            hint += f"; make {needed} writable and run again"
        raise WriteFailed(f"{problem}: {error.strerror}", hint=hint) from error
