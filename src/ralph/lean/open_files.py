"""Lock, read and sync open files on every operating system.

On POSIX a process locks a folder by opening it. Windows cannot open folders, so there the lock is
a file: in the folder itself if it belongs to Ralph or git, and otherwise in the user's state
folder, named after the folder. Closing the file, or the end of the process, releases a lock.
"""

from __future__ import annotations

import errno
import os
import sys

from ralph.lean import discovery

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_NAME = ".ralph-lock"  # the lock file of a folder that cannot be locked itself

BINARY = getattr(os, "O_BINARY", 0)  # without it, Windows translates line endings
CLOEXEC = getattr(os, "O_CLOEXEC", 0)
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK = getattr(os, "O_NONBLOCK", 0)
DIRECTORY = getattr(os, "O_DIRECTORY", 0)
FOR_READING = os.O_RDONLY | BINARY | CLOEXEC | NONBLOCK  # never blocks on a FIFO

if sys.platform == "win32":
    # Windows denies access to locked bytes, so the lock is on a byte that no file contains.
    _LOCKED_BYTE = 1 << 30

    def user_locks() -> str:
        """Return the folder for locks of folders that people look at, or "" without a home."""
        state = discovery.user_folder("STATE")
        return state and f"{state}/locks"

    def folder_lock(folder: str) -> str:
        """Return the path of the file that locks a folder. Its own folder exists.

        In folders that people look at, it would be in the way, so it is in the user's state folder.
        """
        locks = user_locks()
        is_hidden = not {".git", ".ralph"}.isdisjoint(discovery.with_slashes(folder).split("/"))
        if is_hidden or not locks:
            return f"{folder}/{LOCK_NAME}"
        os.makedirs(locks, exist_ok=True)
        path = os.path.normcase(os.path.realpath(folder))
        return f"{locks}/{discovery.path_as_name(discovery.with_slashes(path))}"

    def open_to_lock_folder(folder: str) -> int:
        """Open what has to be locked to lock a folder."""
        return os.open(folder_lock(folder), os.O_RDWR | os.O_CREAT | BINARY, 0o666)

    def try_lock(handle: int) -> bool:
        """Lock an open file, or return False if another process holds the lock."""
        position = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in (errno.EBADF, errno.EINVAL):
                raise
            return False  # EACCES on Windows, and any code or none under Wine
        finally:
            os.lseek(handle, position, os.SEEK_SET)
        return True

    def is_locked(handle: int) -> bool:
        """Return whether another process holds the lock on an open file."""
        if not try_lock(handle):
            return True
        os.lseek(handle, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)
        return False

    def is_locked_file(handle: int, folder: str) -> bool:
        """Return whether an open file is what locks a folder at this moment."""
        return os.path.samestat(os.fstat(handle), os.stat(folder_lock(folder)))

    def read_at(handle: int, size: int, position: int) -> bytes:
        """Read bytes at a position of an open file."""
        os.lseek(handle, position, os.SEEK_SET)
        return os.read(handle, size)

    def write_at(handle: int, data: bytes, position: int) -> int:
        """Write bytes at a position of an open file, and return how many were written."""
        os.lseek(handle, position, os.SEEK_SET)
        return os.write(handle, data)

else:

    def user_locks() -> str:
        """Return "", because folders are locked themselves."""
        return ""

    def open_to_lock_folder(folder: str) -> int:
        """Open what has to be locked to lock a folder."""
        return os.open(folder, os.O_RDONLY | DIRECTORY | CLOEXEC)

    def try_lock(handle: int) -> bool:
        """Lock an open file, or return False if another process holds the lock."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_locked(handle: int) -> bool:
        """Return whether another process holds the lock on an open file."""
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        return False

    def is_locked_file(handle: int, folder: str) -> bool:
        """Return whether an open file is what locks a folder at this moment."""
        return os.path.samestat(os.fstat(handle), os.stat(folder))

    read_at = os.pread
    write_at = os.pwrite


def sync(handle: int) -> None:
    """Write an open file to the disk, so that it survives a power failure."""
    if sys.platform == "darwin":
        try:
            fcntl.fcntl(handle, fcntl.F_FULLFSYNC)  # fsync leaves the data in the disk's cache
            return
        except OSError:
            pass  # a file system that has no such call
    os.fsync(handle)
