"""`ralph capture off` and `ralph capture on`: hooks stand still while `.ralph/log/paused` exists.

A file, since a hook must be able to see it without reading anything; it holds the time since when. It
stands beside the logs, so that a worktree and its main checkout pause together. Both verbs may be said
twice. A folder where hooks do nothing gets no `.ralph/` just for being paused.
"""

from contextlib import suppress
from pathlib import Path

from ralph import paths
from ralph.app.index import keep_out_of_git
from ralph.errors import Conflict, Refused
from ralph.model import ids
from ralph.store import files


def paused_file(root: Path) -> Path:
    """The file that stops the hooks."""
    return paths.log_folder(root) / "paused"


def since(root: Path) -> str | None:
    """When capture was paused ("" when the file does not say), or None while it goes on."""
    file = paused_file(root)
    return (files.read(file) or "").strip()[:40] if file.is_file() else None


def pause(root: Path, *, everywhere: bool = False) -> bool:
    """Stop capture and injection in this project; False when they were paused already."""
    if since(root) is not None:
        return False
    if not everywhere and not _acts(root):
        hint = "hooks act only where `ralph.yml`, `.ralph/` or `.agent/memories.md` is"
        raise Refused(f"{root}: nothing is captured here, so there is nothing to pause", hint=hint)
    keep_out_of_git(root)
    file = paused_file(root)
    files.make_folder(file.parent, 0o700)
    with suppress(Conflict):  # another process was faster: it is paused
        files.write(file, ids.timestamp() + "\n", root=paths.state_root(root), expect="", mode=files.PRIVATE)
    return True


def resume(root: Path) -> bool:
    """Let capture and injection go on; False when they were not paused."""
    if since(root) is None:
        return False
    files.delete(paused_file(root))
    return True


def _acts(root: Path) -> bool:
    """Whether hooks do anything in this project."""
    state = paths.ralph_folder(paths.state_root(root))
    places = (paths.config_file(root), paths.ralph_folder(root), state, paths.memories_files(root)[0])
    return any(place.exists() for place in places)
