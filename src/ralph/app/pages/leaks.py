"""Where something looks like a secret in the project's files, looked for piece by piece for a page that waits.

`ralph doctor --secrets` looks at each file in one go; a file of megabytes would take a second in which the server's
other threads stand still, since a regular expression lets nobody else run. So a file is cut where an entry or a line of
a log ends: no rule looks across these. A piece without anything odd is looked at once, where the whole would be looked
at again for every finding. What was found is kept as long as the file is what it was; of a log that has only grown, the
new lines are looked at. Of logs only so much is searched at a time, and how many are left is told.
`tests/app/pages/test_leaks.py` compares with the whole, and `tests/app/pages/test_health.py` proves the rest.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ralph import paths
from ralph.app import doctor
from ralph.capture import privacy
from ralph.errors import RalphError
from ralph.store import files

PIECE = 16_000
"""Characters after which a piece ends as soon as it may."""
SEARCHED = 2_000_000
"""Characters of logs that are newly searched at a time."""
_ENTRY = re.compile(r"\n\s*\n(?=#{1,3} )")
_PARAGRAPH = re.compile(r"\n\s*\n")
_LINE = re.compile(r"\n")
_LINES = (".jsonl", ".json")
"""Files in which no text goes over the end of a line."""
_LONG = 4
"""So many pieces long a text without the end of an entry may be, before a paragraph's end, and then a line's, does."""
_TAIL = 200
_MOST_SEEN = 20_000


class Leak(NamedTuple):
    """Where something stands that looks like a secret; never what it is."""

    file: str
    line: int
    rule: str


@dataclass(frozen=True, slots=True)
class _Seen:
    """How far a file was searched, in which state of it, and what was found so far."""

    stamp: tuple[int, int]
    done: int = 0
    line: int = 1
    tail: str = ""
    whole: bool = False
    found: tuple[tuple[int, str], ...] = ()


_SEEN: dict[tuple[Path, tuple[str, ...]], _Seen] = {}


def look(root: Path, patterns: Sequence[str] = ()) -> tuple[list[Leak], int]:
    """What looks like a secret, in every file that people write and in as much of the logs as there is time for.

    The number is how many logs are not searched to their ends yet.
    """
    found: list[Leak] = []
    logs, room, left = paths.log_folder(root), SEARCHED, 0
    for path in doctor.secret_places(root):
        seen, spent = _searched(path, tuple(patterns), room if path.is_relative_to(logs) else None)
        room -= spent if path.is_relative_to(logs) else 0
        left += not seen.whole
        found += (Leak(paths.shown(path, root), line, rule) for line, rule in seen.found)
    return found, left


def _searched(path: Path, patterns: tuple[str, ...], room: int | None) -> tuple[_Seen, int]:
    """A file as far as it was searched by now, and how many characters were searched anew; None is room for all."""
    try:
        status = path.stat()
    except OSError:  # it went away meanwhile
        return _Seen((0, 0), whole=True), 0
    stamp, held = (status.st_mtime_ns, status.st_size), _SEEN.get((path, patterns))
    if held is not None and held.stamp == stamp and held.whole:
        return held, 0
    if room is not None and room <= 0:  # what was found so far stands, and more may be there
        return (_Seen(stamp) if held is None else replace(held, whole=False)), 0
    text = ""
    with suppress(RalphError):  # what cannot be read is told elsewhere
        text = files.read(path) or ""
    begun = _begun(text, held, stamp, path)
    seen = _went_on(text, begun, path.suffix in _LINES, patterns, room)
    if len(_SEEN) >= _MOST_SEEN:
        _SEEN.clear()
    _SEEN[path, patterns] = seen
    return seen, max(1, seen.done - begun.done)


def _begun(text: str, held: _Seen | None, stamp: tuple[int, int], path: Path) -> _Seen:
    """Where to go on: where the last look ended, in the same file or in a log that only grew; else the beginning."""
    if held is None:
        return _Seen(stamp)
    same = held.stamp == stamp or path.suffix == ".jsonl"
    if not same or not text[: held.done].endswith(held.tail) or len(text) < held.done:
        return _Seen(stamp)
    return _Seen(stamp, held.done, held.line, held.tail, found=held.found)


def _went_on(text: str, seen: _Seen, lines: bool, patterns: tuple[str, ...], room: int | None) -> _Seen:
    done, line, found = seen.done, seen.line, list(seen.found)
    for start, end in pieces(text, seen.done, lines=lines):
        if room is not None and start - seen.done >= room:
            break
        piece = text[start:end]
        found += ((line + each.line - 1, each.kind) for each in privacy.find_secrets(piece, patterns))
        done, line = end, line + piece.count("\n")
    tail = text[max(0, done - _TAIL) : done]
    return _Seen(seen.stamp, done, line, tail, done >= len(text), tuple(found))


def _cut(way: re.Pattern[str], text: str, start: int, size: int) -> re.Match[str] | None:
    return way.search(text, start + size * PIECE, min(len(text), start + 2 * _LONG * PIECE + PIECE))


def pieces(text: str, start: int = 0, *, lines: bool = False) -> Iterator[tuple[int, int]]:
    """Where the pieces of a text begin and end; with `lines` each of its lines stands for itself."""
    while start < len(text):
        ways = [(_LINE, 1)] if lines else [(_ENTRY, 1), (_PARAGRAPH, _LONG), (_LINE, 2 * _LONG)]
        end = next((match.end() for way, size in ways if (match := _cut(way, text, start, size)) is not None), 0)
        if not end:  # a line that is longer than all that: it is one piece, and what follows it is another
            end = text.find("\n", start + 2 * _LONG * PIECE) + 1 or len(text)
        yield start, end
        start = end
