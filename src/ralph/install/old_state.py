"""Move the logs and caches of earlier versions out of the work tree.

Earlier versions kept them in `.ralph/log`, `.ralph/cache` and `.ralph/ralph.db`. They now belong in
the state folder inside the git directory, where a clone cannot bring forged ones.
"""

from __future__ import annotations

from pathlib import Path

from ralph.core import paths
from ralph.core.repository import Repository
from ralph.storage import files


def move_old_state(root: Path) -> list[str]:
    """Move old logs and caches into the state folder, and return the lines to report.

    It is impossible to tell whether they were created here or came with an archive. The logs are
    therefore treated as those of another machine until `ralph trust` accepts them.
    """
    log_folder, cache_folder, index = paths.old_state(root)
    if not paths.has_old_state(root) or _is_old_state_tracked(root):
        return []
    state = paths.state_folder(root).with_name("earlier")
    has_index = index.exists() and not index.is_symlink()
    is_moved = has_index
    with files.lock(index):
        if not index.is_symlink():
            for path in (index, *index.parent.glob("ralph.db-*")):
                files.delete(path)
        for folder in (log_folder, cache_folder):
            if folder.is_dir() and not folder.is_symlink():
                moved = _move_contents(folder, state / folder.name, paths.mcp_status_file(root))
                is_moved = is_moved or moved
    if not is_moved:
        return []
    old_name = paths.shown(log_folder.parent, root)
    new_name = paths.shown(state, root)
    return [f"moved logs and caches from {old_name} to {new_name}; `ralph trust` accepts the logs"]


def _is_old_state_tracked(root: Path) -> bool:
    """Return whether git tracks old state. It then came with the repository and is never read."""
    names = (".ralph/log", ".ralph/cache", ".ralph/ralph.db")
    return bool(Repository(paths.main_checkout(root)).output_or_empty("ls-files", "--", *names))


def _move_contents(folder: Path, target: Path, kept: Path) -> bool:
    """Move all files except `kept`, remove empty folders, and return whether a file was moved."""
    is_moved = False
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                files.remove_folder(path)
        elif path != kept:
            _move_log(path, target / path.relative_to(folder))
            is_moved = True
    return is_moved


def _move_log(path: Path, target: Path) -> None:
    """Move a file. If its target is a log that already exists, prepend the old lines to it."""
    if not target.exists():
        files.make_folder(target.parent, 0o700)
        files.move(path, target)
        return
    if path.name.endswith(paths.LOG_SUFFIXES):
        old_lines = files.read(path) or ""
        files.update(target, lambda text: old_lines + text)
    files.delete(path)
