"""Somebody who looks on while files are written: to see what would be written, or to see that nothing else is.

Before a person says yes to a change, the change is made in a rehearsal: the very same call, on the real project, with
a `Rehearsal` looking on, which keeps the new texts and lets nothing through. When the person has said yes, a `Witness`
looks on: under the lock, just before a file is replaced, it sees that the file is the one that was shown, and it notes
what stood there, so that the change can be taken back. Both are of one call alone (a context variable); whoever writes
without them pays for one look. `store/files.py` asks; `tests/store/test_watching.py` proves it.
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

Takes = Callable[[Path], bool]
"""Whether a path is of those that are looked at; what is derived (an index, a cache) is not."""


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after; None where there is no file."""

    path: Path
    before: str | None
    after: str | None
    appended: bool = False


class Held(NamedTuple):
    """What a file would say."""

    text: str | None


class Watch(Protocol):
    """Who looks on."""

    real: bool
    """Whether what is written is written."""

    def takes(self, path: Path) -> bool:
        """Whether a path is looked at."""

    def held(self, path: Path) -> Held | None:
        """What a file would say, when it was changed in a rehearsal."""

    def change(self, change: Change) -> None:
        """Note a change that is about to be made; Conflict when it must not be."""


_current: ContextVar[Watch | None] = ContextVar("ralph_watch", default=None)


def of(path: Path) -> Watch | None:
    """Who looks at this path, if anybody does."""
    watch = _current.get()
    return watch if watch is not None and watch.takes(path) else None


def is_rehearsal(path: Path) -> bool:
    """Whether nothing is to be done to this path."""
    watch = of(path)
    return watch is not None and not watch.real


@contextlib.contextmanager
def by(watch: Watch) -> Iterator[None]:
    """Let somebody look on at what this thread writes."""
    token = _current.set(watch)
    try:
        yield
    finally:
        _current.reset(token)


def stamp(text: str | None) -> str:
    """What a file says, as a few characters; "" where there is no file."""
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


class Rehearsal:
    """Keeps what would be written, and reads it back to whoever asks."""

    real = False

    def __init__(self, takes: Takes) -> None:
        self._takes = takes
        self._changes: dict[str, Change] = {}

    def takes(self, path: Path) -> bool:
        """Whether a path is looked at."""
        return self._takes(path)

    def held(self, path: Path) -> Held | None:
        """What a file would say by now; None for one that is as it was."""
        found = self._changes.get(os.path.realpath(path)) if self._changes else None
        return None if found is None else Held(found.after)

    def change(self, change: Change) -> None:
        """Note a change; of several to one file, from the first text to the last."""
        real = os.path.realpath(change.path)
        first = self._changes.get(real, change)
        self._changes[real] = Change(change.path, first.before, change.after, first.appended and change.appended)

    @property
    def changes(self) -> list[Change]:
        """What would be another text than before, in the order in which it would be written."""
        return [each for each in self._changes.values() if each.before != each.after]


class Witness:
    """Sees that only what was shown is changed, and notes what stood there; `shown` gives the stamp of a file."""

    real = True

    def __init__(self, takes: Takes, shown: Callable[[Path], str | None]) -> None:
        self._takes = takes
        self._shown = shown
        self.changes: list[Change] = []

    def takes(self, path: Path) -> bool:
        """Whether a path is looked at."""
        return self._takes(path)

    def held(self, path: Path) -> Held | None:
        """Nothing: what is written is read from the disk."""
        return None

    def change(self, change: Change) -> None:
        """Note a change; Conflict when the file is not as it was shown. A line at a log's end takes nothing away."""
        real = os.path.realpath(change.path)
        own = [each for each in self.changes if os.path.realpath(each.path) == real]
        as_shown = change.before == own[-1].after if own else self._shown(change.path) == stamp(change.before)
        if not as_shown and not change.appended:
            raise changed(change.path)
        self.changes.append(change)


def changed(path: Path) -> Conflict:
    """The error for a file that somebody else changed meanwhile; a path that is relative is shown as it is."""
    shown = path.name if path.is_absolute() else path.as_posix()
    return Conflict(f"{shown}: was changed since it was shown", hint="nothing was written; look at it again")
