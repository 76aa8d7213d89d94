"""Whether a process that wrote its number down somewhere still lives, and is the same one.

A number alone is not enough: after a crash or a reboot another process may have it. So the moment at which a
process began is written down with it (`/proc` on Linux, with the boot's own id; `ps` elsewhere).
"""

import os
import subprocess
from pathlib import Path

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
