"""Keep `ralph doctor` bounded in time and depth, and say what it left out."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ralph.install.findings import Finding, new_finding

MAX_SECONDS = 15.0  # that the checks may take together, unless a person asks for all of them
MAX_GIT_SECONDS = 5.0  # that git may take; it hangs if one of its files is a FIFO
MAX_DEPTH = 40  # levels of folders that are searched below the project's root
_MAX_FOLDERS = 20_000  # that are searched


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The time until which checks may run. It counts from when this object was created."""

    seconds: float = MAX_SECONDS
    _deadline: float = field(init=False, default=math.inf)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_deadline", time.monotonic() + self.seconds)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._deadline


UNLIMITED = TimeLimit(math.inf)


def left_out(path: Path, what: str, hint: str = "run `ralph doctor --all` to check it") -> Finding:
    """Return the note about something that was not checked.

    `what` continues a sentence that starts with the path.
    """
    return new_finding(path, what, hint=hint, level="note", code="left-out")


class WalkedFolder(NamedTuple):
    """A folder with the names of its subfolders and files, and its depth below the first one.

    The walk goes on with the names that remain in `subfolders`. Links are not followed.
    """

    path: str
    subfolders: list[str]
    files: list[str]
    depth: int


def walk_folders(top: Path) -> Iterator[WalkedFolder]:
    """Yield a folder and all folders below it, each before its subfolders.

    Unlike `os.walk` before Python 3.12, this does not recurse, so that no depth is too deep.
    Folders that cannot be read are skipped.
    """
    waiting = [(os.fspath(top), 0)]
    while waiting:
        path, depth = waiting.pop()
        folder = WalkedFolder(path, [], [], depth)
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                names = folder.subfolders if entry.is_dir(follow_symlinks=False) else folder.files
                names.append(entry.name)
        folder.subfolders.sort()
        yield folder
        for name in reversed(folder.subfolders):
            waiting.append((f"{path}{os.sep}{name}", depth + 1))


def walk_within(top: Path, limit: TimeLimit) -> Iterator[WalkedFolder | Finding]:
    """Walk folders up to `MAX_DEPTH`. Yield a note about what is left out, if anything is."""
    too_deep = 0
    for count, folder in enumerate(walk_folders(top)):
        if count >= _MAX_FOLDERS:
            yield left_out(top, f"has more than {_MAX_FOLDERS:,} folders: the others were skipped")
            return
        if limit.is_over:
            what = f"has too many folders for {limit.seconds:g} seconds: the others were skipped"
            yield left_out(top, what)
            return
        yield folder
        if folder.depth >= MAX_DEPTH:
            too_deep += len(folder.subfolders)
            folder.subfolders.clear()
    if too_deep:
        what = f"has folders more than {MAX_DEPTH} levels deep, which were skipped"
        yield left_out(top, what, "nothing to do, unless a memory file is there")
