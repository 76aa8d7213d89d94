"""Lines, fences and comments: what the markdown-like formats have in common.

`lines` walks a text once and says for each line where it stands and whether it is markdown at
all: what is inside a code fence or an HTML comment is an example, never an entry. A fence or a
comment that is never closed hides nothing (the rest of the file would be lost to the reader);
it is told as a Problem instead. Below are the few questions that are asked about a line, and
what the writers share. Everything is one pass with a little state, so a large file or a very
long line costs its length and no more. Proved by `tests/formats/test_lines.py`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from ralph.errors import Refused
from ralph.formats.document import Problem

BOM = "\ufeff"
BLANK = " \t"
_CLOSER = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*\r?$", re.MULTILINE)
_SPECIAL = frozenset(" \t<>=|`~-*")  # what a line must begin with to be anything but text
MARKERS = ("- ", "* ", "-\t", "*\t")
_NUMBERED = re.compile(r"[0-9]{1,9}[.)] ")


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
        if line[:1] not in _SPECIAL:
            return Place.TEXT
        bare = line.lstrip(BLANK)
        if not bare:
            return Place.TEXT
        if bare[0] == "<" and bare.startswith("<!--") and len(line) - len(bare) <= 3:
            return self._comment(bare, end)
        if self._marks_conflict(line):
            return Place.CONFLICT
        if self._fences is None:
            return Place.TEXT
        if bare[:2] in MARKERS:
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
    if text[:1] not in ("-", "*", "_") or text.rstrip(BLANK)[-1] != text[0]:
        return False
    marks = text.replace(" ", "").replace("\t", "")
    return len(marks) >= 3 and not marks.strip(text[0])


def is_footer(line: Line) -> bool:
    """Whether a line is `_Last updated: ..._`, in the first column."""
    if line.text[:1] not in ("_", "*"):
        return False
    bare = line.text.lstrip("_*")
    return line.plain and bare != line.text and bare[:13].lower() == "last updated:"


def runs_on(line: Line) -> bool:
    """Whether an unindented line may go on with the paragraph above it: no heading, rule, table or label."""
    bare = line.text.strip(BLANK)
    if bare in ("-", "*", "+") or bare.startswith(("**", "__", ">", "|", "+ ")) or is_footer(line):
        return False
    return heading(line) is None and not is_rule(bare) and _NUMBERED.match(bare) is None


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
    """The words of a text for comparing: case, white space, backticks and a last period do not count."""
    return " ".join(text.replace("`", "").casefold().split()).rstrip(". ")


def writable(text: str, what: str) -> str:
    """A text as these files can hold it; Refused when it is empty or holds a NUL."""
    if "\x00" in text:
        raise Refused(f"the {what} holds a NUL character", hint="remove it: text files cannot keep it")
    clean = text.replace("\r\n", "\n")
    if not clean.strip():
        raise Refused(f"the {what} is empty", hint="say in a sentence what is worth keeping")
    return clean
