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
MADE = "[//]: # (ralph: made)"
"""The line below a heading that `add` made for an entry; `remove` takes such a heading away again.

It shows nowhere in rendered markdown. An HTML comment would do the same, but its `-->` would close
a comment that somebody left open above, and so hide what stands between.
"""
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


def put_below(text: str, at: int, block: str, newline: str, *, apart: bool = True) -> tuple[int, str]:
    """Where a block goes below the last words before `at`, and what to write there.

    The block takes no line end of its own but those above it, so that `without` finds them all
    again and the file ends as it did. With no words above, it goes to the top.
    """
    place = words_end(text, at)
    if place:
        # `\r` before `\n` would look like one line end, of which `without` would take both halves
        above = "\r\n" if text[place - 1] == "\r" else newline
        return place, above * (2 if apart else 1) + block
    if words_end(text, len(text)):
        return len(BOM) if text.startswith(BOM) else 0, block + newline * 2
    return len(text), ("" if text in ("", BOM) or text.endswith("\n") else newline) + block + newline


def without(text: str, start: int, end: int, *, apart: bool = False) -> str:
    """The text without a stretch of whole lines; of the blank lines around it one goes with it.

    `apart` says that it was put there with a blank line of its own, which goes in any case.
    """
    end = words_end(text, end)
    count = 2 if apart or spaced_below(text, end) else 1
    if not text[:start].strip(BOM):
        return text[:start] + text[_after(text, end, count) :]
    return text[: _before(text, start, count)] + text[end:]


def framed(text: str, start: int, end: int, above: str, below: str) -> tuple[int, int] | None:
    """A stretch of lines with just these lines around it, in either line end; None when they are not there."""
    end = words_end(text, end)
    for newline in ("\n", "\r\n"):
        first = start - len(above.replace("\n", newline))
        stop = end + len(below.replace("\n", newline))
        last = text.find("\n", stop) + 1 or len(text)
        if (
            first >= 0
            and text[first:start] + text[end:stop] == (above + below).replace("\n", newline)
            and text[first - 1 : first] in ("", "\n", BOM)
            and text[stop:last] in ("", "\r", "\n", "\r\n")
        ):
            return first, last
    return None


def words_end(text: str, at: int) -> int:
    """The end of the last line with words before the line that begins at `at`; 0 when there is none."""
    while at > 0:
        stop = at - 1 if text[at - 1] == "\n" else at
        at = text.rfind("\n", 0, stop) + 1
        words = text[at:stop].removesuffix("\r")
        if words.strip(BLANK if at else BLANK + BOM):
            return at + len(words)
    return 0


def spaced_below(text: str, at: int) -> bool:
    """Whether a blank line or nothing follows the line that ends at `at`."""
    below = text.find("\n", at) + 1
    end = text.find("\n", below)
    return not below or not text[below : end if end >= 0 else len(text)].strip(BLANK + "\r")


def _before(text: str, at: int, count: int) -> int:
    """The place before up to so many line ends, of the same sort, that stand in front of `at`."""
    newline = "\r\n" if text.endswith("\r\n", 0, at) else "\n"
    for _ in range(count):
        at -= len(newline) if text.endswith(newline, 0, at) else 0
    return at


def _after(text: str, at: int, count: int) -> int:
    """The place after up to so many line ends, of the same sort, that stand behind `at`."""
    newline = "\r\n" if text.startswith("\r\n", at) else "\n"
    for _ in range(count):
        at += len(newline) if text.startswith(newline, at) else 0
    return at


def said(text: str) -> str:
    """The words of a text for comparing: case, white space, backticks and final marks do not count.

    A text of nothing but such marks is those marks.
    """
    words = " ".join(text.replace("`", "").casefold().split())
    return words.rstrip(".!?。 ") or words


def writable(text: str, what: str) -> str:
    """A text as these files can hold it; Refused when it is empty or holds a NUL."""
    if "\x00" in text:
        raise Refused(f"the {what} holds a NUL character", hint="remove it: text files cannot keep it")
    clean = text.replace("\r\n", "\n")
    if not clean.strip():
        raise Refused(f"the {what} is empty", hint="say in a sentence what is worth keeping")
    return clean
