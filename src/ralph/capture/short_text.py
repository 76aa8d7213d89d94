"""Shorten text for an observation without splitting a redaction marker.

    trim("a long output ...")   ->  its head, "[... 5,310 characters left out ...]", and its tail
    first_line("\\n\\n  npm  test\\n")  ->  "npm test"

Half of a marker such as `[redacted: github token]` would no longer be recognised as one, so a cut
inside a marker moves to one of its ends.
"""

from __future__ import annotations

import re

from ralph.privacy.secrets import MARKER

LIMIT = 2_000  # characters of text in one observation
_HEAD_SHARE = 0.55  # of what remains of a trimmed text; the tail gets the rest
_NOTE_CHARACTERS = 48  # reserved for the note about what was left out
_MARKER_REACH = 64  # characters around a cut in which a redaction marker may lie


def trim(text: str, limit: int = LIMIT) -> str:
    """Shorten text to its head and tail, with a note between them, if it exceeds `limit`."""
    if len(text) <= limit:
        return text
    room = limit - _NOTE_CHARACTERS
    if room < 2:
        return text[: _outside_marker(text, max(limit, 0), after=False)]
    # Cut at a line end, unless that would cost more than half of the head or the tail.
    head_end = int(room * _HEAD_SHARE)
    tail_start = len(text) - (room - head_end)
    head = text.rfind("\n", 0, head_end) + 1
    if head < head_end // 2:
        head = _outside_marker(text, head_end, after=False)
    tail = text.find("\n", tail_start) + 1
    middle_of_tail = tail_start + (len(text) - tail_start) // 2
    if not 0 < tail <= middle_of_tail:
        tail = _outside_marker(text, tail_start, after=True)
    before = "" if not head or text[head - 1] == "\n" else "\n"
    after = "" if text[tail : tail + 1] in ("", "\n") else "\n"
    note = f"[... {tail - head:,} characters left out ...]"
    return f"{text[:head]}{before}{note}{after}{text[tail:]}"


def first_line(text: str, limit: int) -> str:
    """Return the first line that is not blank, cut to `limit` characters, or ""."""
    for line in text.splitlines():
        words = " ".join(line.split())
        if not words:
            continue
        if len(words) <= limit:
            return words
        return words[: _outside_marker(words, limit - 3, after=False)].rstrip() + "..."
    return ""


def _outside_marker(text: str, position: int, *, after: bool) -> int:
    """Return where to cut a text: at `position`, unless that would split a redaction marker.

    In that case the cut moves to the marker's start, or to its end if `after`.
    """
    start = max(0, position - _MARKER_REACH)
    for marker in re.compile(MARKER).finditer(text, start, position + _MARKER_REACH):
        if marker.start() < position < marker.end():
            return marker.end() if after else marker.start()
    return position
