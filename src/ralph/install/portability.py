"""Check what differs between operating systems: names, the length of paths, and permissions.

A team shares its files through git, so a name that Windows does not allow is a problem everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath, PureWindowsPath

from ralph.core import paths
from ralph.install.findings import Finding, new_finding
from ralph.lean import discovery

_LONGEST_STATE_NAME = len("/log/sessions/") + 80 + len(".jsonl.gz")
"""Characters of the longest path in the state folder: the log of a session with a long id."""


def find_problems(
    root: Path, env: Mapping[str, str], platform: str = sys.platform
) -> Iterator[Finding]:
    """Yield names that other systems do not allow, and what Windows does not protect."""
    yield from _find_bad_names(root)
    if platform == "win32":
        state = paths.state_folder(root)
        home = PureWindowsPath(env.get(discovery.HOME_VARIABLE) or "")
        yield privacy_note(state, home)
        if not _has_long_paths():
            yield from find_long_paths(state)


def _find_bad_names(root: Path) -> Iterator[Finding]:
    """Yield knowledge files that cannot be checked out on Windows, or there with another one."""
    by_folded_name: dict[str, Path] = {}
    for path in sorted(paths.knowledge_folder(root).glob("*.md")):
        if not paths.is_portable_name(path.name):
            what = "has a name that Windows does not allow, so nobody can check it out there"
            yield _bad_name(path, what)
        other = by_folded_name.setdefault(path.name.casefold(), path)
        if other != path:
            what = f"differs from {other.name} only in case, which Windows and macOS do not allow"
            yield _bad_name(path, what)


def _bad_name(path: Path, what: str) -> Finding:
    hint = "rename it with `git mv`"
    return new_finding(path, what, hint=hint, level="warning", code="name")


def privacy_note(state: PurePath, home: PurePath) -> Finding:
    """Return who can read the state folder on Windows, where it has no permissions of its own."""
    if home.is_absolute() and PureWindowsPath(state).is_relative_to(home):
        what = f"is private through {home}, from which Windows takes its permissions"
        hint = "nothing to do, unless you have shared that folder"
    else:
        what = "has the permissions of its parent folder, so other users may be able to read it"
        hint = "keep the project in your user folder, or restrict the parent folder"
    return new_finding(Path(state), what, hint=hint, level="note", code="windows-permissions")


def _has_long_paths() -> bool:
    """Return whether long paths are enabled in Windows."""
    if sys.platform != "win32":
        return False
    import winreg

    key = r"SYSTEM\CurrentControlSet\Control\FileSystem"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as folder:
            value, _ = winreg.QueryValueEx(folder, "LongPathsEnabled")
    except OSError:  # it has never been set
        return False
    return bool(value == 1)


def find_long_paths(state: Path) -> Iterator[Finding]:
    """Yield the state folder if its files would have paths that are too long for Windows."""
    length = len(str(state)) + _LONGEST_STATE_NAME
    if length > paths.MAX_WINDOWS_PATH:
        limit = paths.MAX_WINDOWS_PATH
        what = f"needs paths of up to {length} characters, but Windows allows {limit}"
        hint = "move the project to a shorter path, or enable long paths (see docs/platforms.md)"
        yield new_finding(state, what, hint=hint, level="warning", code="long-path")
