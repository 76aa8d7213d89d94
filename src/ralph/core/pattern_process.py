"""Search texts for a pattern in another process, so that the search can be interrupted.

Windows needs this, because nothing can interrupt a regular expression there (see `alarms.py`). The
process is started for the first search and kept for the next ones.
"""

from __future__ import annotations

import atexit
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from ralph.core.process import LineProgram

_SCRIPT = Path(__file__).with_name("pattern_searcher.py")

_lock = threading.Lock()
_programs: list[LineProgram] = []  # the running one, if there is one


def find_spans(
    pattern: str, text: str, parts: Sequence[tuple[int, int]]
) -> list[tuple[int, int]] | None:
    """Return where a pattern matches within parts of a text, or None if there is no process.

    Empty matches are left out. If the search is interrupted, the process is ended.
    """
    question = json.dumps({"pattern": pattern, "text": text, "parts": list(parts)})
    with _lock:
        try:
            if not _programs:
                _programs.append(LineProgram([sys.executable, "-I", "-S", str(_SCRIPT)]))
            answer = _programs[0].ask(question.encode("ascii"))
        except BaseException as error:
            _end_programs()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                return None
            raise
    return [(start, end) for start, end in json.loads(answer)]


@atexit.register
def _end_programs() -> None:
    while _programs:
        _programs.pop().end()
