"""Who descends from a process or is of its group, so that a program that is ended leaves nobody.

Coding agents start their shells in groups of their own: a signal to the agent's group does not reach them. The
system is asked who is whose child: `/proc` on Linux, `ps` elsewhere. A process is known by its number and the
moment it began, so that a number which was given away meanwhile is left alone. Proof:
`tests/agents/test_process.py` (a grandchild in a session of its own).
"""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

_PROC = Path("/proc")
_AT_LEAST = 22
"""Fields of a stat line up to the one that says when a process began."""

Member = tuple[int, str]
"""A process: its number and when it began."""


def below(pid: int) -> set[Member]:
    """Every living descendant of a process and every member of its group, itself left out."""
    children: dict[int, list[Member]] = {}
    found: set[Member] = set()
    for parent, group, member in _processes():
        children.setdefault(parent, []).append(member)
        if group == pid != member[0]:
            found.add(member)
    waiting = [pid, *(member[0] for member in found)]
    while waiting:
        for member in children.get(waiting.pop(), ()):
            if member not in found:
                found.add(member)
                waiting.append(member[0])
    return found


def kill(members: set[Member]) -> None:
    """End those who still live (SIGKILL)."""
    if not members:
        return
    for _, _, member in _processes():
        if member in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(member[0], signal.SIGKILL)


def _processes() -> list[tuple[int, int, Member]]:
    """Every process of this machine with the numbers of its parent and its group."""
    return _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()


def _from_proc() -> list[tuple[int, int, Member]]:
    found: list[tuple[int, int, Member]] = []
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # the name in parentheses may hold anything, so fields are counted from behind it
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if len(fields) >= _AT_LEAST - 2:
                found.append((int(fields[1]), int(fields[2]), (int(folder.name), fields[19].decode())))
    return found


def _from_ps() -> list[tuple[int, int, Member]]:
    try:
        words = ["ps", "-A", "-o", "ppid=,pgid=,pid=,lstart="]
        said = subprocess.run(words, capture_output=True, check=False, timeout=5, encoding="utf-8").stdout
    except (OSError, subprocess.SubprocessError):
        return []
    found: list[tuple[int, int, Member]] = []
    for line in said.splitlines():
        parent, group, pid, began = [*line.split(None, 3), "", "", "", ""][:4]
        if parent.isdigit() and group.isdigit() and pid.isdigit():
            found.append((int(parent), int(group), (int(pid), began)))
    return found
