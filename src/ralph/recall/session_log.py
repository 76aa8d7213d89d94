"""Read the newest records of a session from its log, for when the index may lack them."""

from __future__ import annotations

from pathlib import Path

from ralph.capture.own_traffic import is_own_traffic
from ralph.core import paths
from ralph.core.record import Record
from ralph.core.settings import Privacy
from ralph.search import index
from ralph.storage import files, forgotten
from ralph.storage.source_contents import parse_contents
from ralph.storage.sources import Format, Source

_MAX_CHARACTERS = 200_000  # at the end of a log; about 200 events, which take 30 ms


def newest_records(root: Path, session: str, privacy: Privacy) -> list[Record]:
    """Return the records at the end of a session's log, except forgotten ones.

    Raises RalphError if the log cannot be read.
    """
    path = paths.session_log(root, session)
    text = files.read(path) or ""
    start = 0
    if len(text) > _MAX_CHARACTERS:
        start = text.find("\n", len(text) - _MAX_CHARACTERS) + 1
    complete_lines = text[start : text.rfind("\n") + 1]
    source = Source(path, path.name, Format.LOG)
    interpret = index.interpreter(root, privacy)
    parsed = parse_contents(source, complete_lines, interpret, is_own_traffic)
    hidden = forgotten.load()
    return [placed.record for placed in parsed.records if not hidden.hides(placed.record)]
