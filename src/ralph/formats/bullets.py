"""Bullets: a list item with its continuation lines, read from lines and written again.

A line belongs to the bullet above it when it is indented by two columns or more, when it is in
a fence or comment that the bullet holds, or when it simply goes on with the paragraph. Blank
lines belong to a bullet only if it goes on after them. The words lose the indentation of their
bullet and nothing else, so that `bullet` can write what `bullets` read.
Proved by `tests/formats/test_lines.py`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ralph.formats.lines import BLANK, MARKERS, Line, Place, is_rule, runs_on

ANY_DEPTH = 1_000_000
_TAB = 4


class Bullet(NamedTuple):
    """A bullet with its continuation: `pad` is the column in which its words begin."""

    start: int
    end: int
    number: int
    indent: int
    pad: int
    text: str


def indent_of(text: str) -> int:
    """How many columns of white space a line begins with; a tab goes to the next multiple of four."""
    column = 0
    for char in text:
        if char == " ":
            column += 1
        elif char == "\t":
            column += _TAB - column % _TAB
        else:
            break
    return column


def marker(text: str) -> tuple[int, int, int] | None:
    """(indentation, column of the words, index of the words) of a bullet's first line, else None."""
    bare = text.lstrip(BLANK)
    if bare[:2] not in MARKERS or is_rule(bare):
        return None
    words = bare[1:].lstrip(BLANK)
    if not words:
        return None
    indent = indent_of(text)
    if bare[1] == " " and len(words) == len(bare) - 2:
        return indent, indent + 2, len(text) - len(words)
    gap = indent_of(" " * ((indent + 1) % _TAB) + bare[1 : len(bare) - len(words)]) - (indent + 1) % _TAB
    return indent, indent + 1 + (gap if gap <= _TAB else 1), len(text) - len(words)


def bullets(region: Iterable[Line], deepest: int = 3) -> Iterator[Bullet]:
    """The bullets of a section; `deepest` is the largest indentation that still starts one."""
    reader = BulletReader(deepest)
    for line in region:
        done = reader.feed(line)
        if done is not None:
            yield done
    done = reader.close()
    if done is not None:
        yield done


class BulletReader:
    """Takes lines and gives each bullet when the line after it comes."""

    def __init__(self, deepest: int = 3) -> None:
        self._deepest = deepest
        self._parts: list[str] = []
        self._waiting: list[str] = []  # blank lines that belong to the bullet only if it goes on
        self._first: Line | None = None
        self._end = 0
        self._indent = 0
        self._pad = 0
        self._paragraph = False  # the last line was running text: an unindented line may go on with it
        self._holds = False  # the fence or comment that is open belongs to the bullet

    def feed(self, line: Line) -> Bullet | None:
        """Take one line; the bullet that it ends, if any."""
        if self._first is None and not line.text:
            return None
        if self._first is not None and self._goes_on(line):
            return None
        done = self.close()
        found = marker(line.text) if line.place is not Place.INSIDE else None
        if found is not None and found[0] <= self._deepest:
            self._first, self._end = line, line.end
            self._indent, self._pad = found[0], found[1]
            self._parts = [line.text[found[2] :]]
            self._paragraph = line.plain
            self._holds = line.place is Place.OPENS
        return done

    def close(self) -> Bullet | None:
        """End the open bullet."""
        first, self._first = self._first, None
        self._waiting = []
        if first is None:
            return None
        text = "\n".join(self._parts).rstrip(BLANK)
        return Bullet(first.start, self._end, first.number, self._indent, self._pad, text)

    def _goes_on(self, line: Line) -> bool:
        if line.place is Place.CONFLICT:
            return False
        if line.place is Place.INSIDE:
            if self._holds:
                self._take(line)
            return self._holds
        if line.blank:
            self._waiting.append(dedent(line.text, self._pad))
            self._paragraph = False
            return True
        indent = indent_of(line.text)
        inside = indent >= self._indent + 2 or indent > self._deepest
        lazy = self._paragraph and line.place is Place.TEXT and marker(line.text) is None and runs_on(line)
        if not inside and not lazy:
            return False
        self._holds = line.place is Place.OPENS
        self._paragraph = line.plain
        self._take(line)
        return True

    def _take(self, line: Line) -> None:
        self._parts += self._waiting
        self._waiting.clear()
        self._parts.append(dedent(line.text, self._pad))
        self._end = line.end


def dedent(text: str, width: int) -> str:
    """A line without its first columns of white space, as far as it has them."""
    column = 0
    for at, char in enumerate(text):
        if column >= width or char not in BLANK:
            return text[at:]
        column += 1 if char == " " else _TAB - column % _TAB
    return ""


def bullet(text: str, newline: str, lead: str = "- ", pad: int = 2) -> str:
    """A bullet as it is written: the further lines are indented to its words."""
    first, *rest = text.split("\n")
    indent = " " * pad
    return "".join([lead, first, newline, *(f"{indent}{line}{newline}" if line else newline for line in rest)])
