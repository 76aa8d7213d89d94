"""Watch, preview or guard the changes that `files.py` makes.

A *write observer* is told about every change before it is made. A `DryRun` collects the changes
without writing them. A `GuardedWrite` refuses to change a file that is no longer what the user saw.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ralph.core.errors import Conflict


class FileChange(NamedTuple):
    """The text of a file before and after a change. None means that there is no file."""

    path: Path
    before: str | None
    after: str | None
    appended: bool = False


class WriteObserver:
    """Records every change before it is made."""

    writes_to_disk = True

    def __init__(self) -> None:
        self._changes: dict[str, FileChange] = {}

    def planned_change(self, path: Path) -> FileChange | None:
        """Return the change recorded for a file, or None if there is none."""
        if not self._changes:
            return None
        return self._changes.get(os.path.realpath(path))

    def record(self, change: FileChange) -> None:
        """Record a change. Several changes to one file are merged into one."""
        first = self.planned_change(change.path) or change
        appended = first.appended and change.appended
        self._changes[os.path.realpath(change.path)] = FileChange(
            change.path, first.before, change.after, appended
        )

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """The changes that alter a file's text, in the order in which the files are written."""
        return tuple(change for change in self._changes.values() if change.before != change.after)


class DryRun(WriteObserver):
    """Collects changes without writing them. `files.read` then returns the changed text."""

    writes_to_disk = False


class GuardedWrite(WriteObserver):
    """Allows a change only if the file still has the digest that was shown to the user.

    `digests` maps file names, as `name_of` returns them, to digests of the files' text.
    """

    def __init__(self, digests: Mapping[str, str], name_of: Callable[[Path], str]) -> None:
        super().__init__()
        self._digests = digests
        self._name_of = name_of

    def record(self, change: FileChange) -> None:
        """Record a change. Raises Conflict if the file has changed since it was shown.

        Appending to a log is always allowed, because nothing is lost.
        """
        name = self._name_of(change.path)
        earlier = self.planned_change(change.path)
        if earlier is None:
            expected = self._digests.get(name)
        else:
            expected = text_digest(earlier.after)
        if text_digest(change.before) != expected and not change.appended:
            raise changed_since_shown(name)
        super().record(change)


def text_digest(text: str | None) -> str:
    """Return the digest of a file's text, or "" if there is no file."""
    import hashlib  # loads OpenSSL

    if text is None:
        return ""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def changed_since_shown(name: str) -> Conflict:
    """Return the error for a file that another program has changed since it was shown."""
    return Conflict(
        f"{name}: has changed since it was shown",
        hint="nothing was written; review the file and try again",
    )


def is_dry_run(observer: WriteObserver | None) -> bool:
    """Return whether changes are only collected, and not written."""
    return observer is not None and not observer.writes_to_disk
