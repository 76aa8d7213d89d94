"""Advisory locks, as the system has them: on a folder itself, or on a lock file where folders cannot be locked.

A lock is a handle: closing it, or the end of its process however it comes, gives the lock back. `files.py` is the one
that uses them; `tests/store/test_files.py` and `tests/soak/` prove them.
"""

import errno
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ralph.errors import WriteFailed

LOCK_NAME = ".ralph-lock"

_TRIES = 3000
_PAUSE = 0.01
_NO_FOLDER_LOCKS = {errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL, errno.EISDIR}


if sys.platform == "win32":
    import msvcrt

    def of_folder(folder: Path) -> int:
        """A handle that holds the folder's lock until it is closed."""
        handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT)
        return _acquire(folder, handle, lambda: msvcrt.locking(handle, msvcrt.LK_NBLCK, 1))

    def is_free(handle: int) -> bool:
        """Whether nobody else holds what was opened."""
        return True  # a file that is locked there could not be read

    def is_current(path: Path, handle: int) -> bool:
        """Whether there is something at all: what is open cannot be replaced there."""
        return path.exists()

else:
    import fcntl

    def of_folder(folder: Path) -> int:
        """A handle that holds the folder's lock until it is closed; it ends with its process as well."""
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

    def is_free(handle: int) -> bool:
        """Whether nobody else holds what was opened; it is ours then, until the handle is closed."""
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
