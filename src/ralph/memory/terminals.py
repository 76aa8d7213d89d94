"""Judge whether a person sits at the terminal of this process.

An agent can start a command in a pseudo-terminal, without its variables and detached from itself:

    env -i setsid -f script -qec 'ralph review accept mem-1' /dev/null

Such a terminal differs from a person's in two ways. It was made for one command: an interactive
shell gives each command a process group of its own, `script -c` does not. And the program that owns
it is neither a terminal, a login nor a multiplexer, and has no terminal of its own, unlike `script`
that a person has started. A terminal that differs is not refused: it is *unsure*, and a person
there is asked to type a few letters (see `cli/invocation.py`).

This does not stop an agent that starts an interactive shell in tmux, types into a person's
terminal, or reads the letters from a screen (see docs/adr/0006-trust.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_MAX_OWNERS = 8  # terminals inside one another
_PS_SECONDS = 2.0
_TERMINALS = frozenset(
    {
        "abduco",
        "alacritty",
        "Alacritty",
        "clion",
        "code",
        "code-insiders",
        "code-server",
        "Code Helper",
        "codium",
        "contour",
        "cool-retro-term",
        "cursor",
        "deepin-terminal",
        "doas",
        "dropbear",
        "dtach",
        "Electron",
        "emacs",
        "foot",
        "ghostty",
        "gnome-terminal-",
        "gnome-terminal-server",
        "guake",
        "goland",
        "hyper",
        "iTerm2",
        "iTermServer",
        "idea",
        "java",
        "kgx",
        "kitty",
        "konsole",
        "login",
        "lxterminal",
        "mate-terminal",
        "mosh-server",
        "node",
        "nvim",
        "phpstorm",
        "ptyxis-agent",
        "pycharm",
        "qterminal",
        "rider",
        "rio",
        "rubymine",
        "rustrover",
        "sakura",
        "screen",
        "SCREEN",
        "sshd",
        "sshd-session",
        "st",
        "su",
        "sudo",
        "tabby",
        "Terminal",
        "terminator",
        "terminology",
        "tilix",
        "tmux",
        "urxvt",
        "urxvtd",
        "vim",
        "warp",
        "warp-terminal",
        "webstorm",
        "wezterm-gui",
        "wezterm-mux-ser",
        "windsurf",
        "xfce4-terminal",
        "xterm",
        "yakuake",
        "zed-editor",
        "zellij",
    }
)
"""Names of programs in whose windows people type. Linux cuts names after 15 characters."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process as the system lists it."""

    id: int
    parent: int
    group: int
    session: int
    user: int
    name: str
    has_terminal: bool


FindProcess = Callable[[int], Process | None]


def is_interactive(process: Process, find_process: FindProcess) -> bool:
    """Return whether an interactive shell runs a process in a terminal that a person uses."""
    for _ in range(_MAX_OWNERS):
        if process.group == process.session:
            return False  # the terminal was made for this command
        leader = find_process(process.session)
        if leader is None:
            return False
        if leader.parent == 0:
            return True  # somebody entered a container from outside
        if leader.parent == 1:
            return False  # whoever made the terminal is gone
        owner = find_process(leader.parent)
        if owner is None or owner.user != process.user:
            return True  # it belongs to the system, which has asked for a login
        if _is_terminal_program(owner.name):
            return True
        if not owner.has_terminal:
            return False
        process = owner
    return False


def _is_terminal_program(name: str) -> bool:
    base = name.rpartition("/")[2].lstrip("-")
    return base in _TERMINALS or base.partition(":")[0] in _TERMINALS


def is_at_own_terminal(descriptor: int) -> bool:
    """Return whether a descriptor is this process's own terminal, and a person uses it.

    Windows does not tell which program owns a console, so the answer there is always no.
    """
    if sys.platform == "win32":
        return False
    try:
        os.tcgetpgrp(descriptor)
    except OSError:
        return False  # not the controlling terminal
    process = find_process(os.getpid())
    return process is not None and is_interactive(process, find_process)


def find_process(process_id: int) -> Process | None:
    """Return a process, or None if it has ended or the system hides it."""
    if sys.platform == "win32":
        return None
    if Path("/proc/self/stat").exists():
        return _read_proc(process_id)
    return _ask_ps(process_id)


def _read_proc(process_id: int) -> Process | None:
    folder = Path(f"/proc/{process_id}")
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        user = folder.stat().st_uid
        head, _, tail = text.rpartition(")")
        _, parent, group, session, terminal = tail.split()[:5]
        return Process(
            process_id,
            int(parent),
            int(group),
            int(session),
            user,
            head.partition("(")[2],
            terminal != "0",
        )
    except (OSError, ValueError):
        return None


def _ask_ps(process_id: int) -> Process | None:
    """Ask `ps`, for systems without /proc such as macOS."""
    from ralph.core import process

    argv = ["ps", "-o", "ppid=,pgid=,uid=,tty=,comm=", "-p", str(process_id)]
    listed = process.run(argv, cwd=Path("/"), timeout=_PS_SECONDS)
    try:
        parent, group, user, terminal, name = listed.out.split(maxsplit=4)
        session = _session_of(process_id)
        return Process(
            process_id,
            int(parent),
            int(group),
            session,
            int(user),
            name.strip(),
            terminal not in ("?", "??", "-"),
        )
    except (OSError, ValueError):
        return None


def _session_of(process_id: int) -> int:
    if sys.platform == "win32":
        return process_id
    return os.getsid(process_id)
