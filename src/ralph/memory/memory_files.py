"""Create memory files, and back them up before they change."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ralph.core.errors import Conflict, Hint, RalphError, UsageError
from ralph.memory.reading import collection_names
from ralph.storage import files
from ralph.storage.library import Library, check_folders

_COLLECTIONS = ("memories", "guardrails", "patterns", "personal")  # those with a single file


def init(root: Path, in_: str = "memories", *, force: bool = False) -> str:
    """Create a memory file, and return a message for the user.

    Raises Conflict if the file already exists. With `force`, the existing file is backed up and
    replaced instead.
    """
    from ralph.formats.patterns import patterns_template

    collection_names([in_])
    if in_ not in _COLLECTIONS:
        raise UsageError(
            f"{in_} needs no file", hint=f"ralph memory init --in {', '.join(_COLLECTIONS)}"
        )
    collection = Library(root).collection(in_)
    home = collection.home
    check_folders(home, collection.root)
    if in_ == "patterns":
        template = patterns_template()
    else:
        template = collection.layout.template()
    if not (home.exists() or home.is_symlink()):
        files.write(home, template, root=collection.root, expect="", mode=collection.mode)
        return f"created {home}"
    if not force:
        raise Conflict(
            f"{home}: already exists",
            hint=(Hint("force", "use --force to replace it"), "the old file is kept as a backup"),
        )
    files.target(home, collection.root)  # a refusal must come before the backup is written
    before = files.read(home) or ""
    copy = backup(home, collection.root, before)
    files.write(home, template, root=collection.root, expect=before, mode=collection.mode)
    return f"replaced {home}; the old file is {copy}"


def backup(path: Path, root: Path, text: str | None = None) -> Path | None:
    """Back up a file that is about to change, and hide the copy from git.

    Returns the path of the copy, or None if there is no such file.
    """
    from ralph.storage.config import hide_from_git

    copy = files.backup(path, root=root, text=text)
    if copy is not None:
        # A git exclude file that cannot be written must not stop the change.
        with contextlib.suppress(RalphError):
            hide_from_git(path.with_name(f"{path.name}.bak"), root, numbered=True)
    return copy
