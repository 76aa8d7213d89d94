"""Prepare transcripts in a second process, while this one prepares others and writes all logs.

Most of the time of an import goes into reading, redacting and interpreting transcripts, which needs
nothing that this process has. The helper writes nothing: it sends the lines of new logs, in the
order of the transcripts, so the logs are the same as without help. A transcript that continues a
log is left to this process, and so is everything else once the helper has ended.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ralph.core.side_process import SideProcess, choose_for_helper
from ralph.sharing.histories import Transcript
from ralph.sharing.session_import import PreparedTranscript, SessionRecorder
from ralph.storage.log_helper import has_free_core

_MIN_BYTES = 40_000_000  # of transcripts: these take 2 seconds, and starting a helper takes 0.2
_MAX_TRANSCRIPT_BYTES = 64_000_000  # the helper keeps all that it prepares of a transcript
_HELPER_SHARE = 1.5  # of what this process prepares: it also writes all logs


class ImportHelpRules(NamedTuple):
    """When a helper prepares transcripts, and how it gets its recorder.

    `make_recorder` must be picklable.
    """

    make_recorder: Callable[[], SessionRecorder]
    min_bytes: int = _MIN_BYTES
    is_core_free: Callable[[], bool] = has_free_core


def usual_rules(root: Path) -> ImportHelpRules:
    """Return the rules for the import of a project's transcripts."""
    return ImportHelpRules(partial(SessionRecorder, root))


class ImportHelper:
    """The transcripts that another process prepares."""

    def __init__(
        self, process: SideProcess[PreparedTranscript | None], assigned: Sequence[Transcript]
    ) -> None:
        self._process = process
        self._waiting = [_identity(transcript) for transcript in reversed(assigned)]

    def take(self, transcript: Transcript) -> PreparedTranscript | None:
        """Return a prepared transcript, or None if this process has to record it."""
        if not self._waiting or self._waiting[-1] != _identity(transcript):
            return None
        self._waiting.pop()
        try:
            return self._process.take()
        except EOFError:
            self._waiting.clear()
            return None


def _identity(transcript: Transcript) -> tuple[str, str]:
    return transcript.source, transcript.key


@contextmanager
def import_helper(
    rules: ImportHelpRules, transcripts: Sequence[Transcript]
) -> Iterator[ImportHelper | None]:
    """Start a helper, if there is enough to import and a core is free."""
    candidates = [
        transcript for transcript in transcripts if transcript.size <= _MAX_TRANSCRIPT_BYTES
    ]
    total_bytes = sum(transcript.size for transcript in candidates)
    process: SideProcess[PreparedTranscript | None] | None = None
    if total_bytes >= rules.min_bytes and rules.is_core_free():
        assigned = choose_for_helper(candidates, attrgetter("size"), _HELPER_SHARE)
        with suppress(OSError):
            process = SideProcess(partial(_prepare_all, rules.make_recorder, assigned))
    if process is None:
        yield None
        return
    with process:
        yield ImportHelper(process, assigned)


def _prepare_all(
    make_recorder: Callable[[], SessionRecorder], assigned: Sequence[Transcript]
) -> Iterator[PreparedTranscript | None]:
    """Yield the prepared transcripts, with None for each that cannot be read here."""
    recorder = make_recorder()
    for transcript in assigned:
        try:
            yield recorder.prepare(transcript)
        except (sqlite3.Error, OSError):
            yield None
