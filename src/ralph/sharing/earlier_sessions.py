"""Count the earlier sessions of a project that other clients hold and Ralph does not.

A session counts until its log exists here, because hooks recorded it or because it was imported.
Only names, and the first lines of transcripts, are read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ralph.core import paths
from ralph.sharing import histories
from ralph.sharing.histories import Transcript
from ralph.sharing.import_context import ImportContext
from ralph.sharing.import_ledger import ImportLedger
from ralph.storage import forgotten

_MAX_HEADS = 20_000  # transcripts that are opened, about half a second on a quiet machine
_SHORT_ID = 8  # characters of a session's id in the names of Gemini CLI's transcripts


@dataclass(frozen=True, slots=True)
class EarlierSessions:
    """How many sessions of a project can be imported, by client."""

    by_client: Mapping[str, int] = field(default_factory=dict)
    is_complete: bool = True  # False if there were too many transcripts to look at all of them

    @property
    def count(self) -> int:
        """The number of sessions of all clients."""
        return sum(self.by_client.values())

    def __str__(self) -> str:
        """Return a sentence with the command that imports them, or "" if there are none."""
        if not self.count:
            return ""
        noun = "session" if self.count == 1 else "sessions"
        number = f"{self.count}" if self.is_complete else f"At least {self.count}"
        return f"{number} earlier {noun} of this project found: run `ralph import --yes`"


def count_earlier_sessions(root: Path, env: Mapping[str, str]) -> EarlierSessions:
    """Count the sessions of a project that `ralph import` would add."""
    context = ImportContext(root, env, heads_left=_MAX_HEADS)
    known = _KnownSessions(root)
    counts: dict[str, int] = {}
    for client in histories.FINDERS:
        new = [found for found in histories.find(context, client) if not known.includes(found)]
        if new:
            counts[client] = len(new)
    return EarlierSessions(counts, is_complete=context.heads_left > 0)


class _KnownSessions:
    """The sessions of a project that were recorded, imported or forgotten."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ledger = ImportLedger(root)
        self._forgotten = forgotten.load()
        self._names = set(_log_names(paths.sessions_folder(root)))
        self._short_names = {name[:_SHORT_ID] for name in self._names}

    def includes(self, transcript: Transcript) -> bool:
        """Return whether there is nothing to import, as far as names can tell."""
        session = transcript.session
        if not session:
            return True  # a part of another session
        if len(session) == _SHORT_ID and session in self._short_names:
            return True
        if paths.session_log(self._root, session).stem in self._names:
            return True
        if self._ledger.has(transcript.source, transcript.key):
            return True
        return self._forgotten.has(forgotten.session_key(session))


def _log_names(folder: Path) -> list[str]:
    names = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name, _, suffix = entry.name.partition(".")
            if f".{suffix}" in paths.LOG_SUFFIXES:
                names.append(name)
    return names
