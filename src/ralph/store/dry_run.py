"""Dry runs and guarded writes: collect what one call writes, or let it write only what was shown.

Before a person confirms a change, the call runs on the real project with a `DryRun`, which collects the new texts and
writes nothing. After that, a `GuardedWrite` checks under the lock that each file is still the one that was shown, and
notes the old text, so that the change can be undone. Both are passed to the functions of `store/files.py`.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ralph.errors import Conflict


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after; None where there is no file."""

    path: Path
    before: str | None
    after: str | None
    appended: bool = False


class WriteObserver(Protocol):
    """A DryRun or a GuardedWrite."""

    real: bool
    """Whether the disk is written."""

    def planned(self, path: Path) -> FileChange | None:
        """Return the change of a file that a dry run did not write."""

    def change(self, change: FileChange) -> None:
        """Note a change that is about to be made; Conflict when it must not be."""


class DryRun:
    """Collects what would be written, and reads it back."""

    real = False

    def __init__(self) -> None:
        self._changes: dict[str, FileChange] = {}

    def planned(self, path: Path) -> FileChange | None:
        """Return the change of a file so far."""
        return self._changes.get(os.path.realpath(path)) if self._changes else None

    def change(self, change: FileChange) -> None:
        """Note a change; of several to one file, from the first text to the last."""
        real = os.path.realpath(change.path)
        first = self._changes.get(real, change)
        self._changes[real] = FileChange(change.path, first.before, change.after, first.appended and change.appended)

    @property
    def changes(self) -> list[FileChange]:
        """The files whose text would differ, in the order in which they would be written."""
        return [change for change in self._changes.values() if change.before != change.after]


class GuardedWrite:
    """Lets only files change that are as they were shown, and notes their old texts.

    `shown` returns the digest of a file's text when it was shown.
    """

    real = True

    def __init__(self, shown: Callable[[Path], str | None]) -> None:
        self._shown = shown
        self.changes: list[FileChange] = []

    def planned(self, path: Path) -> FileChange | None:
        """Return None: everything is on the disk."""
        return None

    def change(self, change: FileChange) -> None:
        """Note a change; Conflict when the file is not as it was shown. A line appended to a log loses nothing."""
        real = os.path.realpath(change.path)
        earlier = [other for other in self.changes if os.path.realpath(other.path) == real]
        if earlier:
            is_shown = change.before == earlier[-1].after
        else:
            is_shown = self._shown(change.path) == text_digest(change.before)
        if not is_shown and not change.appended:
            raise changed_meanwhile(change.path)
        self.changes.append(change)


def text_digest(text: str | None) -> str:
    """Return the digest of a file's text; "" where there is no file."""
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def changed_meanwhile(path: Path) -> Conflict:
    """Return the error for a file that another program changed since it was shown."""
    name = path.name if path.is_absolute() else path.as_posix()
    return Conflict(f"{name}: was changed since it was shown", hint="nothing was written; look at it again")
