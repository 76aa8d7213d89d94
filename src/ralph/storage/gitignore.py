"""Keep Ralph's local state out of git with `.ralph/.gitignore`.

`ralph init` writes a file that git tracks. Until then, anything that writes below `.ralph` first
calls `ensure_gitignore`, which creates a file that ignores itself as well. People may write their
own file, but it should ignore everything that is private to a machine. `missing_lines` checks that.
"""

from __future__ import annotations

import contextlib
from fnmatch import fnmatchcase
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import Conflict, Refused
from ralph.storage import files

GITIGNORE = """\
# Written by `ralph init`. What happened stays on this machine; what was learned goes into git.
# Delete the line `tasks/` or `features/` to share those, too.
local/
cache/
tasks/
features/
ralph.db*
scratchpad.md
*.bak*
*.ralph-tmp
.ralph-lock
"""
SELF_IGNORING_GITIGNORE = (
    GITIGNORE
    + "# Made for a worktree: `ralph init` in this checkout makes it one for git.\n.gitignore\n"
)
_REQUIRED_LINES = {
    "local/": "local",
    "cache/": "cache",
    "ralph.db*": "ralph.db",
    "scratchpad.md": "scratchpad.md",
}
"""The lines that a hand-written file must contain, each with a name that it ignores."""


def ensure_gitignore(root: Path) -> None:
    """Write a `.ralph/.gitignore` that ignores itself, unless one exists or none is needed."""
    main = paths.main_checkout(root)
    ignore = paths.gitignore(main)
    if ignore.exists() or ignore.is_symlink():
        return
    if ignore.parent.is_dir() or paths.state_boundary(root) == main:
        # Another process was faster, or a link leads out of the project.
        with contextlib.suppress(Conflict, Refused):
            files.write(ignore, SELF_IGNORING_GITIGNORE, root=main, expect="")


def missing_lines(root: Path) -> tuple[str, ...]:
    """Return the required lines that are missing from a hand-written `.ralph/.gitignore`."""
    ignore_file = paths.gitignore(root)
    git_exclude = paths.git_exclude(ignore_file)
    if git_exclude is None or not ignore_file.is_file():
        return ()
    exclude_file, _ = git_exclude
    outer_lines = _read_lines(exclude_file) + _read_lines(root / ".gitignore")
    inner_lines = _read_lines(ignore_file)
    if _ignores(outer_lines, ".ralph"):
        return ()
    missing = []
    for line, name in _REQUIRED_LINES.items():
        if not _ignores(inner_lines, name) and not _ignores(outer_lines, f".ralph/{name}"):
            missing.append(line)
    return tuple(missing)


def _read_lines(path: Path) -> list[str]:
    return (files.read(path) or "").splitlines()


def _ignores(lines: list[str], name: str) -> bool:
    """Return whether these lines make git ignore a name. The last matching pattern decides."""
    ignored = False
    for line in lines:
        if line.startswith("#"):
            continue
        pattern = line.strip().removeprefix("!").rstrip("/")
        matches_anywhere = "/" not in pattern or pattern.startswith("**/")
        candidate = name.rpartition("/")[2] if matches_anywhere else name
        if fnmatchcase(candidate, pattern.removeprefix("**/").removeprefix("/")):
            ignored = not line.startswith("!")
    return ignored
