"""Whether a process that wrote its number down somewhere still lives, and is the same one.

A number alone is not enough: after a crash or a reboot another process may have it. So the moment at which a
process began is written down with it (`/proc` on Linux, with the boot's own id; `ps` elsewhere). And numbers mean
something only where they were given: a sandbox with numbers of its own is another place (`place`), as is a machine.

What a killed loop left running is known by a variable that it was started with (`bearing`), where the system tells
that: on Linux. `tests/agents/test_alive.py` starts processes and ends them.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

GRACE = 1.0
"""Seconds between SIGTERM and SIGKILL for what nobody waits for any more."""
_TICK = 0.02
_PROC = Path("/proc")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_BEGAN = 19
"""The field that says when a process began, counted behind its name."""


def born(pid: int) -> str:
    """When a process began, as the system says it; "" when there is no such process."""
    if pid <= 0:
        return ""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return ""
        return f"{_BOOT.read_text(encoding='ascii').strip()[:8]}-{fields[_BEGAN].decode()}"
    except (OSError, IndexError):
        return "" if _BOOT.exists() else _from_ps(pid)


def _from_ps(pid: int) -> str:
    try:
        said = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, check=False, timeout=5, encoding="utf-8"
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return "-".join(said.stdout.split())


def lives(pid: int, began: str) -> bool:
    """Whether that very process lives."""
    return bool(began) and born(pid) == began


def here() -> tuple[int, str]:
    """This process: its number and when it began."""
    return os.getpid(), born(os.getpid())


def place() -> str:
    """Where numbers of processes mean the same: this machine, and on Linux this space of numbers."""
    try:
        return f"{socket.gethostname()} {(_PROC / 'self' / 'ns' / 'pid').readlink()}"
    except OSError:
        return socket.gethostname()


def bearing(name: str, value: str) -> dict[int, str]:
    """The processes of this user that have a variable of this value, with their birth; never we or our ancestors."""
    wanted = os.fsencode(f"{name}={value}")
    found: dict[int, str] = {}
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                pid = int(folder.name)
                found[pid] = born(pid)
    ours = _line_of(os.getpid())
    return {pid: began for pid, began in found.items() if pid not in ours and began}


def _line_of(pid: int) -> set[int]:
    """A process, its parent, and so on."""
    line: set[int] = set()
    with contextlib.suppress(OSError, IndexError, ValueError):
        while pid > 0 and pid not in line:
            line.add(pid)
            pid = int((_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    return line


def end(members: dict[int, str]) -> None:
    """End processes that are nobody's any more: SIGTERM, a short grace, SIGKILL."""
    _signalled(_living(members), signal.SIGTERM)
    until = time.monotonic() + GRACE
    while _living(members) and time.monotonic() < until:
        time.sleep(_TICK)  # they are not our children: the system offers nothing to wait on
    _signalled(_living(members), signal.SIGKILL)


def _living(members: dict[int, str]) -> dict[int, str]:
    return {pid: began for pid, began in members.items() if lives(pid, began)}


def _signalled(members: Collection[int], number: signal.Signals) -> None:
    for pid in members:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
