"""Long text made short: its beginning and its end, with a note of what is missing between them.

The beginning says what was done and the end how it went; the middle of a build log is what nobody reads
again. Whole lines are kept where lines are not too long for that, and a `[redacted: ...]` is never cut in
two. A line that repeats itself is said once. Text must be redacted before it comes here: half a secret, or
half a pair of private tags, is no longer known as one.
`tests/capture/test_trim.py` proves the bounds for any text.
"""

import re
from itertools import groupby

from ralph.capture.secret_values import MARKER

LIMIT = 2_000
"""Characters of text in one observation."""
_HEAD_SHARE = 0.55
_NOTE_ROOM = 48
_FEWEST_REPEATS = 3


def trim(text: str, limit: int = LIMIT) -> str:
    """The text when it is at most `limit` characters, else its head and tail around a note."""
    if len(text) <= limit:
        return text
    room = limit - _NOTE_ROOM
    if room < 2:
        return text[: _outside(text, max(limit, 0), last=False)]
    head = _head(text, int(room * _HEAD_SHARE))
    tail = _tail(text, len(text) - (room - int(room * _HEAD_SHARE)))
    note = f"[... {tail - head:,} characters left out ...]"
    before = "" if not head or text[head - 1] == "\n" else "\n"
    after = "" if text[tail : tail + 1] in ("", "\n") else "\n"
    return f"{text[:head]}{before}{note}{after}{text[tail:]}"


def first_line(text: str, limit: int) -> str:
    """The first line that says something, cut to `limit` characters."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    return line if len(line) <= limit else line[: _outside(line, limit - 3, last=False)].rstrip() + "..."


def squeeze(text: str) -> str:
    """The text with each line that repeats itself said once, and how often."""
    said: list[str] = []
    for line, group in groupby(text.split("\n")):
        times = sum(1 for _ in group)
        note = f"[the line above, {times - 1:,} more times]"
        if times >= _FEWEST_REPEATS and (times - 1) * (len(line) + 1) > len(note) + 1:
            said += [line, note]
        else:
            said += [line] * times
    return "\n".join(said)


def _head(text: str, end: int) -> int:
    """Where the head ends: behind a whole line, unless that would cost more than half of it."""
    line = text.rfind("\n", 0, end) + 1
    return line if line >= end // 2 else _outside(text, end, last=False)


def _tail(text: str, start: int) -> int:
    """Where the tail begins, by the same rule."""
    line = text.find("\n", start) + 1
    return line if 0 < line <= start + (len(text) - start) // 2 else _outside(text, start, last=True)


def _outside(text: str, at: int, *, last: bool) -> int:
    """A place to cut that is in no marker: in front of it, or behind it."""
    for marker in re.compile(MARKER).finditer(text, max(0, at - 64), at + 64):
        if marker.start() < at < marker.end():
            return marker.end() if last else marker.start()
    return at
