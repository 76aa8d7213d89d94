"""Writes for a process that may load next to nothing: the hooks' append, and a counter that needs no space.

`append` is `files.append` with `posix` alone: under the lock of the same folder, so that it takes turns
with every rewrite there, one `write()`, a fresh line after a torn one, and a write that did not fit taken
back. Whatever is not the plain case (a link on the way, a file system that cannot lock folders) is Unsure:
then the caller takes the way through `files`, which knows what to do. `overwrite` changes the first
bytes of a file that was made large enough before, so that failures can be counted on a full disk.
Not for Windows, which has no `posix`. `tests/hooks/test_light.py` and `tests/soak/test_hooks.py` prove it.
"""

import fcntl
import posix
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_EACCES, _EAGAIN, _EFBIG, _ENOSPC = 13, 11, 27, 28
_KIND, _REGULAR, _FOLDER = 0o170000, 0o100000, 0o040000
FAILURES_SIZE = 4096
"""How large the file that counts failures is made, so that counting never needs space."""
_TRIES = 10_000
_PAUSE = 0.0005
"""Five seconds in all: a host waits no longer for a hook that only records."""


class Unsure(Exception):
    """This is not the plain case; nothing was written."""


def append(top: str, folders: tuple[str, ...], name: str, line: bytes) -> None:
    """Append one line to `top/folders.../name`; OSError when it cannot be kept, Unsure when `files` should try."""
    folder = top
    for each in folders:
        folder = f"{folder}/{each}"
        _make(folder)
    lock = _locked(folder)
    try:
        handle = _opened(f"{folder}/{name}")
        try:
            _append(handle, line)
        finally:
            posix.close(handle)
    finally:
        posix.close(lock)


def overwrite(path: str, edit: "Callable[[bytes], bytes]", size: int) -> bool:
    """Replace the first `size` bytes in place by what `edit` makes of them; False when there is no such file."""
    try:
        handle = posix.open(path, posix.O_RDWR | posix.O_NOFOLLOW | posix.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        _lock(handle)
        now = posix.fstat(handle)
        if now.st_mode & _KIND != _REGULAR or now.st_size < size:
            return False
        posix.pwrite(handle, edit(posix.pread(handle, size, 0))[:size].ljust(size), 0)
    finally:
        posix.close(handle)
    return True


def stamp() -> str:
    """This moment, as a log writes it."""
    now = time.time_ns() // 1000
    whole = time.gmtime(now // 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', whole)}.{now % 1_000_000:06d}Z"


def failure_line(before: bytes, event: str, what: str) -> bytes:
    """The line of a failure that follows this one: the count, when, at which event, and what; plain ASCII."""
    number = before[:12]
    count = int(number) + 1 if number.isdigit() else 1
    words = " ".join(f"{event}: {what}".encode("ascii", "replace").decode("ascii").split())
    return f"{count:012d} {stamp()} {words[:300]}".encode("ascii").ljust(FAILURES_SIZE - 1) + b"\n"


def count_failure(path: str, event: str, what: str) -> bool:
    """Count one more failure, on a full disk, too; False when there is no file to count in."""
    return overwrite(path, lambda before: failure_line(before, event, what), FAILURES_SIZE)


def _make(folder: str) -> None:
    """Make a folder for its owner alone; a link in its place is not for us to follow."""
    try:
        kind = posix.lstat(folder).st_mode & _KIND
    except FileNotFoundError:
        try:
            posix.mkdir(folder, 0o700)
        except FileExistsError:
            return _make(folder)
        return None
    if kind != _FOLDER:
        raise Unsure(folder)
    return None


def _locked(folder: str) -> int:
    """The lock that `files.lock` takes for this folder; held until it is closed."""
    while True:
        handle = posix.open(folder, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
        try:
            _lock(handle)
            mine, there = posix.fstat(handle), posix.stat(folder)
        except FileNotFoundError:
            posix.close(handle)
            raise Unsure(folder) from None
        except BaseException:
            posix.close(handle)
            raise
        if (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev):
            return handle
        posix.close(handle)


def _lock(handle: int) -> None:
    for _ in range(_TRIES):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        except OSError as error:
            raise Unsure(str(error)) from error
    raise OSError(_EAGAIN, "another process holds the lock")


def _opened(path: str) -> int:
    flags = posix.O_RDWR | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_CLOEXEC | posix.O_NONBLOCK
    try:
        handle = posix.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (_ENOSPC, _EACCES, _EFBIG):
            raise
        raise Unsure(path) from error
    mode = posix.fstat(handle).st_mode
    if mode & _KIND != _REGULAR or not mode & 0o222:
        posix.close(handle)
        raise Unsure(path)
    return handle


def _append(handle: int, line: bytes) -> None:
    size = posix.fstat(handle).st_size
    if size and posix.pread(handle, 1, size - 1) != b"\n":
        line = b"\n" + line
    if posix.write(handle, line) != len(line):
        posix.ftruncate(handle, size)
        raise OSError(_ENOSPC, "no space left")
