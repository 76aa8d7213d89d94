"""Dry runs and guarded writes: observe what one call writes, or make sure that it writes only what was shown.

Before a person confirms a change, the same call runs on the real project with a `DryRun`, which keeps the new texts and
writes nothing. After that, a `GuardedWrite` checks under the lock that each file is still the one that was shown, and
notes the old text, so that the change can be undone. Both hold for one call of one thread; `store/files.py` asks.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from ralph.errors import Conflict

PathFilter = Callable[[Path], bool]
"""Whether a path is of those that are looked at; what is derived (an index, a cache) is not."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after; None where there is no file."""

    path: Path
    before: str | None
    after: str | None
    appended: bool = False


class PlannedText(NamedTuple):
    """What a file would say."""

    text: str | None


class WriteObserver(Protocol):
    """Who looks on."""

    real: bool
    """Whether what is written is written."""

    def takes(self, path: Path) -> bool:
        """Whether a path is looked at."""

    def held(self, path: Path) -> PlannedText | None:
        """What a file would say, when it was changed in a rehearsal."""

    def change(self, change: FileChange) -> None:
        """Note a change that is about to be made; Conflict when it must not be."""


_current: ContextVar[WriteObserver | None] = ContextVar("ralph_watch", default=None)


def observer_of(path: Path) -> WriteObserver | None:
    """Who looks at this path, if anybody does."""
    watch = _current.get()
    return watch if watch is not None and watch.takes(path) else None


def is_dry_run(path: Path) -> bool:
    """Whether nothing is to be done to this path."""
    watch = observer_of(path)
    return watch is not None and not watch.real


@contextlib.contextmanager
def observe(watch: WriteObserver) -> Iterator[None]:
    """Let somebody look on at what this thread writes."""
    token = _current.set(watch)
    try:
        yield
    finally:
        _current.reset(token)


def text_digest(text: str | None) -> str:
    """What a file says, as a few characters; "" where there is no file."""
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class DryRun:
    """Keeps what would be written, and reads it back to whoever asks."""

    real = False

    def __init__(self, takes: PathFilter) -> None:
        self._takes = takes
        self._changes: dict[str, FileChange] = {}

    def takes(self, path: Path) -> bool:
        """Whether a path is looked at."""
        return self._takes(path)

    def held(self, path: Path) -> PlannedText | None:
        """What a file would say by now; None for one that is as it was."""
        found = self._changes.get(os.path.realpath(path)) if self._changes else None
        return None if found is None else PlannedText(found.after)

    def change(self, change: FileChange) -> None:
        """Note a change; of several to one file, from the first text to the last."""
        real = os.path.realpath(change.path)
        first = self._changes.get(real, change)
        self._changes[real] = FileChange(change.path, first.before, change.after, first.appended and change.appended)

    @property
    def changes(self) -> list[FileChange]:
        """What would be another text than before, in the order in which it would be written."""
        return [each for each in self._changes.values() if each.before != each.after]


class GuardedWrite:
    """Sees that only what was shown is changed, and notes what stood there; `shown` gives the stamp of a file."""

    real = True

    def __init__(self, takes: PathFilter, shown: Callable[[Path], str | None]) -> None:
        self._takes = takes
        self._shown = shown
        self.changes: list[FileChange] = []

    def takes(self, path: Path) -> bool:
        """Whether a path is looked at."""
        return self._takes(path)

    def held(self, path: Path) -> PlannedText | None:
        """Nothing: what is written is read from the disk."""
        return None

    def change(self, change: FileChange) -> None:
        """Note a change; Conflict when the file is not as it was shown. A line at a log's end takes nothing away."""
        real = os.path.realpath(change.path)
        own = [each for each in self.changes if os.path.realpath(each.path) == real]
        as_shown = change.before == own[-1].after if own else self._shown(change.path) == text_digest(change.before)
        if not as_shown and not change.appended:
            raise changed_meanwhile(change.path)
        self.changes.append(change)


def changed_meanwhile(path: Path) -> Conflict:
    """The error for a file that somebody else changed meanwhile; a path that is relative is shown as it is."""
    shown = path.name if path.is_absolute() else path.as_posix()
    return Conflict(f"{shown}: was changed since it was shown", hint="nothing was written; look at it again")
