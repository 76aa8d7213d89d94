"""Set up a repository as a project without touching its work tree (`init.auto`).

A file next to the state folders marks the repository. `.agent/memories.md` and other files appear
when something is added to them. `ralph deinit` removes the file and notes the repository in the
user's state folder, so that it is not set up again until `ralph init`.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ralph.core import ids, paths
from ralph.core.errors import Conflict
from ralph.lean import discovery
from ralph.storage import files


def set_up(root: Path) -> bool:
    """Mark a repository as a project.

    Returns False if its state belongs in the work tree, or if this is not its checkout.

    Raises RalphError or OSError if the file cannot be written.
    """
    location = paths.location(root)
    if not location.common or location.boundary == location.main:
        return False
    if not discovery.is_own_repository(location):
        return False
    marker = Path(location.home, discovery.SET_UP)
    files.make_folder(marker.parent, 0o700)
    with suppress(Conflict):  # another process was faster
        text = f"{ids.timestamp()}\n"
        files.write(marker, text, root=Path(location.boundary), expect="", mode=files.PRIVATE)
    return True


def note_removed(root: Path) -> None:
    """Note that Ralph was removed from a repository, so that hooks leave it alone."""
    note = _removal_note(root)
    if note is None or note.exists():
        return
    files.make_folder(note.parent, files.PRIVATE_FOLDER)
    files.write(note, f"{ids.timestamp()}\n", mode=files.PRIVATE)


def note_wanted(root: Path) -> None:
    """Note that Ralph is wanted in a repository again."""
    note = _removal_note(root)
    if note is not None:
        files.delete(note)


def _removal_note(root: Path) -> Path | None:
    folder = paths.removed_projects()
    if folder is None:
        return None
    return folder / discovery.path_as_name(paths.location(root).main)
