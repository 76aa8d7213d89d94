"""Set up a repository as a project without touching its work tree (`init.auto`).

A file next to the state folders marks the repository. `.agent/memories.md` and other files appear
when something is added to them. `ralph deinit` removes the file and notes the repository in the
user's state folder, so that it is not set up again until `ralph init`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import Conflict
from ralph.lean import discovery
from ralph.storage import files


def set_up(root: Path) -> bool:
    """Mark a repository as a project. Returns False if its state belongs in the work tree.

    Raises RalphError or OSError if the file cannot be written.
    """
    location = paths.location(root)
    if not location.common or location.boundary == location.main:
        return False
    marker = Path(location.home, discovery.SET_UP)
    files.make_folder(marker.parent, 0o700)
    with suppress(Conflict):  # another process was faster
        text = f"{ids.timestamp()}\n"
        files.write(marker, text, root=Path(location.boundary), expect="", mode=files.PRIVATE)
    return True


def note_removed(root: Path) -> None:
    """Note that Ralph was removed from a repository, so that hooks leave it alone."""
    _edit_removed(root, is_removed=True)


def note_wanted(root: Path) -> None:
    """Note that Ralph is wanted in a repository again."""
    _edit_removed(root, is_removed=False)


def _edit_removed(root: Path, *, is_removed: bool) -> None:
    file = paths.removed_projects()
    main = paths.location(root).main
    if file is None or "\n" in main:
        return
    if is_removed == discovery.is_removed(main, os.environ):
        return

    def edit(text: str) -> str:
        lines = [line for line in text.splitlines() if line != main]
        if is_removed:
            lines.append(main)
        return "".join(f"{line}\n" for line in lines)

    files.make_folder(file.parent, 0o700)
    files.update(file, edit, mode=files.PRIVATE)
