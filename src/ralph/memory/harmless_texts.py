"""Remember which texts the classifier has found harmless, so that each is judged once.

Judging a text takes longer than reading and printing it. Listings and the inbox judge every entry
of a project, and nearly all of them are harmless and have not changed since the last time. The
cache in the state folder has one hash per line, below the version of the rules that judged them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from ralph.core import paths
from ralph.core.errors import RalphError
from ralph.core.record import Record
from ralph.memory.quarantine import is_suspicious, text_key
from ralph.storage import files
from ralph.storage.index_schema import SCHEMA_VERSION

_HEAD = f"ralph harmless texts {SCHEMA_VERSION}\n"
"""The first line. The version of the index increases whenever the rules change."""
_MAX_BYTES = 4_000_000  # about 120,000 hashes; a larger file is begun again


class HarmlessTexts:
    """The entries of a project that were judged before, and the judgement of all others."""

    def __init__(self, root: Path) -> None:
        self._path = paths.harmless_texts(root)
        self._state_folder = paths.state_folder(root)
        self._boundary = paths.state_boundary(root)
        text = ""
        with contextlib.suppress(RalphError):  # such as a file that `sudo ralph` has written
            text = files.read(self._path) or ""
        self._is_usable = text.startswith(_HEAD) and len(text) < _MAX_BYTES
        self._known = frozenset(text.split("\n")[1:] if self._is_usable else ())
        self._new: list[str] = []

    def is_suspicious(self, record: Record) -> bool:
        """Return whether an entry reads like an instruction to an agent."""
        key = text_key(record)
        if key in self._known:
            return False
        if is_suspicious(record):
            return True
        self._new.append(key)
        return False

    def save(self) -> None:
        """Add the new harmless texts to the cache, unless the project has no state folder yet."""
        if not self._new or not self._state_folder.is_dir():
            return
        text = "".join(f"{key}\n" for key in self._new)
        with contextlib.suppress(RalphError, OSError):  # they are judged again next time
            if self._is_usable:
                files.append(self._path, text, root=self._boundary)
            else:
                files.write(self._path, _HEAD + text, root=self._boundary, mode=files.PRIVATE)


@contextlib.contextmanager
def judged_once(root: Path) -> Iterator[HarmlessTexts]:
    """Judge the entries of a project, and remember the harmless ones at the end."""
    texts = HarmlessTexts(root)
    yield texts
    texts.save()
