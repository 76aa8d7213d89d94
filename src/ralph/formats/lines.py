"""Lines, fences, comments and bullets: what the markdown-like formats have in common.

`lines` walks a text once and says for each line where it stands and whether it is markdown at
all: what is inside a code fence or an HTML comment is an example, never an entry. A fence or a
comment that is never closed hides nothing (the rest of the file would be lost to the reader);
it is told as a Problem instead. `bullets` groups the lines of one section into bullets with
their continuation, and `bullet` writes one so that it reads back the same. Everything is one
pass with a little state, so a large file or a very long line costs its length and no more.
Proved by `tests/formats/test_lines.py`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple

from ralph.errors import Refused
from ralph.formats.document import Problem

BOM = "\ufeff"
BLANK = " \t"
_CLOSER = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*\r?$", re.MULTILINE)
_MARKERS = ("- ", "* ", "-\t", "*\t")
_TAB = 4


class Place(Enum):
    """What a line is part of, before anybody looks at its words."""

    TEXT = "text"
    OPENS = "opens"  # the line that opens a fence or a comment (or is a whole comment)
    INSIDE = "inside"  # within a fence or a comment, its last line included
    UNCLOSED = "unclosed"  # would open one, but nothing closes it: read as text
    CONFLICT = "conflict"  # a git conflict marker


class Line(NamedTuple):
    """One line: `text` lacks the line end, `closer` closes what is still open after the line."""

    number: int
    start: int
    end: int
    text: str
    place: Place
    closer: str

    @property
    def plain(self) -> bool:
        """Whether the line is markdown, not an example or a marker."""
        return self.place is Place.TEXT or self.place is Place.UNCLOSED

    @property
    def blank(self) -> bool:
        """Whether nothing but spaces and tabs stands on the line."""
        return not self.text.strip(BLANK)


class _Fences:
    """Answers in logarithmic time whether a fence that opens here is closed anywhere below."""

    def __init__(self, text: str) -> None:
        self._starts: dict[str, list[int]] = {"`": [], "~": []}
        self._longest: dict[str, list[int]] = {"`": [], "~": []}
        for found in _CLOSER.finditer(text):
            self._starts[found[1][0]].append(found.start())
            self._longest[found[1][0]].append(len(found[1]))
        for lengths in self._longest.values():
            for at in range(len(lengths) - 2, -1, -1):
                lengths[at] = max(lengths[at], lengths[at + 1])

    def closed_after(self, mark: str, position: int) -> bool:
        """Whether a line after `position` closes the fence `mark`."""
        at = bisect_right(self._starts[mark[0]], position)
        return at < len(self._longest[mark[0]]) and self._longest[mark[0]][at] >= len(mark)


class _Tracker:
    """The state between lines: an open fence, an open comment, an open conflict."""

    def __init__(self, text: str) -> None:
        self._fences = _Fences(text) if "```" in text or "~~~" in text else None
        self._last_comment_end = text.rfind("-->")
        self._conflict = False
        self.closer = ""

    def place(self, line: str, start: int, end: int) -> Place:
        """What this line is part of; moves the state past it."""
        if self.closer:
            self._inside(line)
            return Place.INSIDE
        bare = line.lstrip(BLANK)
        if not bare:
            return Place.TEXT
        if bare[0] == "<" and bare.startswith("<!--") and len(line) - len(bare) <= 3:
            return self._comment(bare, end)
        if self._marks_conflict(line):
            return Place.CONFLICT
        if self._fences is None:
            return Place.TEXT
        if bare[:2] in _MARKERS:
            bare = bare[2:].lstrip(BLANK)
        mark = fence_mark(bare)
        if not mark:
            return Place.TEXT
        if not self._fences.closed_after(mark, start):
            return Place.UNCLOSED
        self.closer = mark
        return Place.OPENS

    def _inside(self, line: str) -> None:
        if self.closer == "-->":
            if "-->" in line:
                self.closer = ""
            return
        bare = line.strip(BLANK)
        if bare.startswith(self.closer) and not bare.strip(self.closer[0]):
            self.closer = ""

    def _comment(self, bare: str, end: int) -> Place:
        if bare.find("-->", 2) >= 0:
            return Place.OPENS
        if self._last_comment_end < end:
            return Place.UNCLOSED
        self.closer = "-->"
        return Place.OPENS

    def _marks_conflict(self, line: str) -> bool:
        if line.startswith("<<<<<<< "):
            self._conflict = True
            return True
        if not self._conflict:
            return False
        if line.startswith(">>>>>>> "):
            self._conflict = False
            return True
        return line == "=======" or line.startswith("||||||| ")


def lines(text: str) -> Iterator[Line]:
    """Every line with its place; a byte order mark stands before the first line, not in it."""
    tracker = _Tracker(text)
    position = len(BOM) if text.startswith(BOM) else 0
    last = len(text)
    for number, raw in enumerate(text[position:].split("\n"), 1):
        end = min(position + len(raw) + 1, last)
        words = raw[:-1] if raw.endswith("\r") else raw
        place = tracker.place(words, position, end)
        yield Line(number, position, end, words, place, tracker.closer)
        position = end


def fence_mark(bare: str) -> str:
    """The run of backticks or tildes that opens a fence on a line without its indentation, or ""."""
    if not bare.startswith(("```", "~~~")):
        return ""
    info = bare.lstrip(bare[0])
    if bare[0] == "`" and "`" in info:
        return ""
    return bare[: len(bare) - len(info)]


def oddity(line: Line) -> Problem | None:
    """The Problem that a line is by its place alone, if it is one."""
    if line.place is Place.CONFLICT and line.text.startswith("<"):
        what = "git conflict markers: both sides are read"
        return Problem(line.number, what, "resolve the merge in this file", "error", "conflict")
    if line.place is Place.UNCLOSED:
        kind = "HTML comment" if line.text.lstrip(BLANK).startswith("<") else "code fence"
        what = f"this {kind} is never closed: what follows is read as if it were not there"
        return Problem(line.number, what, f"close the {kind}", "warning", "unclosed")
    return None


def heading(line: Line) -> tuple[int, str] | None:
    """Level and words of a heading that starts in the first column, else None."""
    if not line.text.startswith("#") or not line.plain:
        return None
    bare = line.text.lstrip("#")
    level = len(line.text) - len(bare)
    if level > 6 or (bare and bare[0] not in BLANK):
        return None
    title = bare.strip(BLANK)
    opened = title.rstrip("#")
    if opened != title and (not opened or opened[-1] in BLANK):
        title = opened.rstrip(BLANK)
    return level, title


def is_rule(text: str) -> bool:
    """Whether a line is a thematic break: three or more of one of `-*_`, spaces between allowed."""
    if text[:1] not in ("-", "*", "_"):
        return False
    marks = text.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and not marks.strip(text[0])


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
    if bare[:2] not in _MARKERS or is_rule(bare):
        return None
    words = bare[1:].lstrip(BLANK)
    if not words:
        return None
    indent = indent_of(text)
    gap = indent_of(" " * ((indent + 1) % _TAB) + bare[1 : len(bare) - len(words)]) - (indent + 1) % _TAB
    return indent, indent + 1 + (gap if gap <= _TAB else 1), len(text) - len(words)


def bullets(region: Iterable[Line], deepest: int = 3) -> Iterator[Bullet]:
    """The bullets of a section; `deepest` is the largest indentation that still starts one."""
    reader = _BulletReader(deepest)
    for line in region:
        done = reader.feed(line)
        if done is not None:
            yield done
    done = reader.close()
    if done is not None:
        yield done


class _BulletReader:
    """Collects the lines of one bullet at a time."""

    def __init__(self, deepest: int) -> None:
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
        inside = indent_of(line.text) >= self._indent + 2
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


def runs_on(line: Line) -> bool:
    """Whether an unindented line may go on with the paragraph above it: no heading, rule, table, bold label."""
    bare = line.text.lstrip(BLANK)
    if heading(line) is not None or is_rule(bare) or bare.startswith(("**", "__", ">", "|", "+ ", "_Last ")):
        return False
    return re.match(r"[0-9]{1,9}[.)] ", bare) is None


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


def gap(before: str, newline: str) -> str:
    """What to write after `before` so that the next line stands below a blank line; nothing at the top."""
    if not before.strip(BOM):
        return ""
    if not before.endswith("\n"):
        return newline * 2
    return "" if before.endswith(("\n\n", "\n\r\n")) else newline


def without(text: str, start: int, end: int) -> str:
    """The text without a stretch of whole lines; of the blank lines around it one goes with it."""
    before, after = text[:start], text[end:]
    if before.endswith(("\n\n", "\n\r\n")):
        for line_end in ("\n", "\r\n"):
            if after.startswith(line_end):
                return before + after[len(line_end) :]
        if not after:
            return before[: -2 if before.endswith("\r\n") else -1]
    return before + after


def said(text: str) -> str:
    """The words of a text for comparing: letter case, white space, backticks and a last period do not count."""
    return " ".join(text.replace("`", "").casefold().split()).rstrip(". ")


def writable(text: str, what: str) -> str:
    """A text as these files can hold it; Refused when it is empty or holds a NUL."""
    if "\x00" in text:
        raise Refused(f"the {what} holds a NUL character", hint="remove it: text files cannot keep it")
    clean = text.replace("\r\n", "\n")
    if not clean.strip():
        raise Refused(f"the {what} is empty", hint="say in a sentence what is worth keeping")
    return clean
