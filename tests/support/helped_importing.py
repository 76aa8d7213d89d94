"""An import in which a second process always helps, as tests run it."""

import os
import sys
from functools import partial
from pathlib import Path

from ralph.sharing import imports
from ralph.sharing.histories import FINDERS, Transcript
from ralph.sharing.import_context import ImportContext
from ralph.sharing.import_helper import ImportHelpRules
from ralph.sharing.session_import import PreparedTranscript, SessionRecorder

TRANSCRIPTS_BEFORE_THE_END = 2


class _EndingRecorder(SessionRecorder):
    """A recorder whose process ends while it prepares a transcript."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._prepared = 0

    def prepare(self, transcript: Transcript) -> PreparedTranscript | None:
        self._prepared += 1
        if self._prepared > TRANSCRIPTS_BEFORE_THE_END:
            os._exit(1)
        return super().prepare(transcript)


def helping(root: Path) -> ImportHelpRules:
    return ImportHelpRules(partial(SessionRecorder, root), min_bytes=0, is_core_free=always)


def ending(root: Path) -> ImportHelpRules:
    return ImportHelpRules(partial(_EndingRecorder, root), min_bytes=0, is_core_free=always)


def absent(root: Path) -> ImportHelpRules:
    return ImportHelpRules(partial(SessionRecorder, root), min_bytes=0, is_core_free=never)


def always() -> bool:
    return True


def never() -> bool:
    return False


def import_all(root: Path, rules: ImportHelpRules) -> tuple[list[imports.Found], list[str]]:
    """Import the transcripts of all clients. Returns what was found, and the notes."""
    context = ImportContext(root, os.environ)
    found = imports.import_histories(root, list(FINDERS), context, really=True, help_rules=rules)
    return found, context.notes


if __name__ == "__main__":
    import_all(Path(sys.argv[1]), helping(Path(sys.argv[1])))
