"""The `.ralph/.gitignore` that keeps what happened on this machine out of git.

`ralph init` writes one that git sees. Where it has not been called, anything that writes below `.ralph` first makes one
that also hides itself (`hide_state`), so that git sees nothing of it.
"""

from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from ralph import paths
from ralph.errors import Conflict, Refused
from ralph.store import files

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
UNTIL_INIT = GITIGNORE + "# Made for a worktree: `ralph init` in this checkout makes it one for git.\n.gitignore\n"
_MUST_BE_IGNORED = {"local/": "local", "cache/": "cache", "ralph.db*": "ralph.db", "scratchpad.md": "scratchpad.md"}
"""The lines that a person's own file must have, and a name that each of them covers."""


def hide_state(root: Path) -> None:
    """Write a `.ralph/.gitignore` that hides itself, where there is none and something is to hide."""
    main = paths.main_checkout(root)
    ignore = paths.gitignore(main)
    if ignore.exists() or ignore.is_symlink():
        return
    if ignore.parent.is_dir() or paths.state_boundary(root) == main:
        with suppress(Conflict, Refused):  # another process was faster, or a link leads out of the project
            files.write(ignore, UNTIL_INIT, root=main, expect="")


def missing_lines(root: Path) -> tuple[str, ...]:
    """Return the lines that a person's own `.ralph/.gitignore` lacks, so that git would see this machine's state."""
    own = paths.gitignore(root)
    exclude = paths.git_exclude(own)
    if exclude is None or not own.is_file():
        return ()
    outer = [line for file in (exclude[0], root / ".gitignore") for line in (files.read(file) or "").splitlines()]
    inner = (files.read(own) or "").splitlines()
    if _covers(outer, ".ralph"):
        return ()
    return tuple(
        line
        for line, name in _MUST_BE_IGNORED.items()
        if not _covers(inner, name) and not _covers(outer, f".ralph/{name}")
    )


def _covers(lines: list[str], name: str) -> bool:
    """Whether git's patterns ignore a name: the last line that matches decides."""
    ignored = False
    for line in lines:
        pattern = line.strip().removeprefix("!").rstrip("/")
        anywhere = "/" not in pattern or pattern.startswith("**/")
        candidate = name.rpartition("/")[2] if anywhere else name
        if not line.startswith("#") and fnmatchcase(candidate, pattern.removeprefix("**/").removeprefix("/")):
            ignored = not line.startswith("!")
    return ignored
