"""Whether processes still live: what a test asks after a program was ended."""

import contextlib
import os
import select
import sys
from pathlib import Path

# A killed process needs a moment to die; this only ends the wait for one that does not.
_DYING = 10_000


def living(*pids: int) -> list[int]:
    """Those who live; the dying are waited for, and one that only waits for its parent counts as dead."""
    for pid in pids:
        if sys.platform != "linux":
            continue  # there is nothing to wait on
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                watch = select.poll()
                watch.register(descriptor, select.POLLIN)
                if not _is_zombie(pid):
                    watch.poll(_DYING)
            finally:
                os.close(descriptor)
    return [pid for pid in pids if is_alive(pid)]


def is_alive(pid: int) -> bool:
    """Whether a process lives at this moment."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    return False


def children() -> set[str]:
    """Return the ids of this process's children, dead ones that nobody waited for included.

    It is empty where the system does not list them.
    """
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    with contextlib.suppress(OSError):
        return set(path.read_text(encoding="ascii").split())
    return set()
