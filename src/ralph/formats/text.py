"""Lines, bullets and splices that the markdown formats share, and what every codec returns.

A Document is a value that keeps every byte of its file: `add`, `replace` and `remove` return a new
one that differs in one block; what cannot be read stays in the text and is reported as a Problem.
Lines inside a code fence or an HTML comment are examples, never entries. A fence or comment that
is never closed hides nothing. Every reader is one pass, linear in the size of the file.
"""

import gc
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, Self

from ralph.errors import Conflict, NotFound, Refused
from ralph.model.record import Record


@dataclass(frozen=True, slots=True)
class Problem:
    """Something odd at a line of a file: what it is and what to do about it.

    `level` is `error` (content is not read or may get lost: a person must look), `warning`
    (read, but not as its author may think) or `note` (harmless, explained). `code` is a short
    stable name; `ralph doctor --fix` knows the codes it can mend.
    """

    line: int
    what: str
    hint: str
    level: str = "warning"
    code: str = ""


class Entry(NamedTuple):
    """A record and where it stands in the text: `text[start:end]`, beginning at `line` (from 1)."""

    record: Record
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A parsed file; `str()` returns every byte of it."""

    text: str

    def __str__(self) -> str:
        return self.text


class Document(Protocol):
    """A parsed file; see the laws in `docs/formats.md`."""

    @property
    def text(self) -> str:
        """The whole file, byte for byte."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The records with their places, in file order."""

    @property
    def problems(self) -> Sequence[Problem]:
        """What is odd in this file, in file order."""

    def add(self, record: Record) -> Self:
        """The document with one more block."""

    def replace(self, record_id: str, record: Record) -> Self:
        """The document with one block written anew."""

    def remove(self, record_id: str) -> Self:
        """The document without one block."""


def find_entry(entries: Sequence[Entry], record_id: str) -> Entry:
    """The one entry with this id; NotFound when there is none, Conflict when there are several."""
    found = [entry for entry in entries if entry.record.id == record_id]
    if not found:
        raise NotFound(f"no entry {record_id}")
    if len(found) > 1:
        lines = ", ".join(str(entry.line) for entry in found)
        raise Conflict(
            f"{len(found)} entries have the id {record_id} (lines {lines})",
            hint="run `ralph doctor --fix` to give each its own id",
        )
    return found[0]


@contextmanager
def pause_gc() -> Iterator[None]:
    """Let Python's collector rest while a parser makes many values: none of them is garbage, and it would look
    at all of them again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def newline_of(text: str) -> str:
    r"""The line ending that a text uses: `\r\n` when its first line ends so, else `\n`."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


BOM = "\ufeff"
BLANK = " \t"
DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_CLOSER = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*\r?$", re.MULTILINE)
_SPECIAL = frozenset(" \t<>=|`~-*")  # what a line must begin with to be anything but text
HEADING_ADDED = "[//]: # (ralph: made)"
"""The line below a heading that `add` made for an entry; `remove` takes such a heading away again.

It shows nowhere in rendered markdown. An HTML comment would do the same, but its `-->` would close
a comment that somebody left open above, and so hide what stands between.
"""
MARKERS = ("- ", "* ", "-\t", "*\t")
_NUMBERED = re.compile(r"[0-9]{1,9}[.)] ")


class LineRole(Enum):
    """What a line is part of, whatever its text is."""

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
    role: LineRole
    closer: str

    @property
    def is_markdown(self) -> bool:
        """Whether the line is markdown, not an example or a conflict marker."""
        return self.role in (LineRole.TEXT, LineRole.UNCLOSED)

    @property
    def blank(self) -> bool:
        """Whether nothing but spaces and tabs stands on the line."""
        return not self.text.strip(BLANK)


class _Fences:
    """Answers in logarithmic time whether a fence that opens here is closed anywhere below."""

    def __init__(self, text: str) -> None:
        self._starts: dict[str, list[int]] = {"`": [], "~": []}
        self._longest: dict[str, list[int]] = {"`": [], "~": []}
        for closer in _CLOSER.finditer(text):
            self._starts[closer[1][0]].append(closer.start())
            self._longest[closer[1][0]].append(len(closer[1]))
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

    def next_role(self, line: str, start: int, end: int) -> LineRole:
        """Return what this line is part of, and move the state past it."""
        if self.closer:
            self._pass_inside(line)
            return LineRole.INSIDE
        if line[:1] not in _SPECIAL:
            return LineRole.TEXT
        content = line.lstrip(BLANK)
        if not content:
            return LineRole.TEXT
        if content.startswith("<!--") and len(line) - len(content) <= 3:
            return self._comment_role(content, end)
        if self._marks_conflict(line):
            return LineRole.CONFLICT
        if self._fences is None:
            return LineRole.TEXT
        if content[:2] in MARKERS:
            content = content[2:].lstrip(BLANK)
        mark = fence_mark(content)
        if not mark:
            return LineRole.TEXT
        if not self._fences.closed_after(mark, start):
            return LineRole.UNCLOSED
        self.closer = mark
        return LineRole.OPENS

    def _pass_inside(self, line: str) -> None:
        content = line.strip(BLANK)
        is_comment = self.closer == "-->"
        if "-->" in line if is_comment else content.startswith(self.closer) and not content.strip(self.closer[0]):
            self.closer = ""

    def _comment_role(self, content: str, end: int) -> LineRole:
        if content.find("-->", 2) >= 0:
            return LineRole.OPENS
        if self._last_comment_end < end:
            return LineRole.UNCLOSED
        self.closer = "-->"
        return LineRole.OPENS

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


def scan_lines(text: str) -> Iterator[Line]:
    """Every line with its place; a byte order mark stands before the first line, not in it."""
    tracker = _Tracker(text)
    position = len(BOM) if text.startswith(BOM) else 0
    last = len(text)
    for number, raw in enumerate(text[position:].split("\n"), 1):
        end = min(position + len(raw) + 1, last)
        content = raw.removesuffix("\r")
        role = tracker.next_role(content, position, end)
        yield Line(number, position, end, content, role, tracker.closer)
        position = end


def fence_mark(content: str) -> str:
    """The run of backticks or tildes that opens a fence on an unindented line, or ""."""
    if not content.startswith(("```", "~~~")):
        return ""
    info = content.lstrip(content[0])
    return "" if content[0] == "`" and "`" in info else content[: len(content) - len(info)]


def line_problem(line: Line) -> Problem | None:
    """The Problem that a line is by its place alone, if it is one."""
    if line.role is LineRole.CONFLICT and line.text.startswith("<"):
        what = "git conflict markers: both sides are read"
        return Problem(line.number, what, "resolve the merge in this file", "error", "conflict")
    if line.role is LineRole.UNCLOSED:
        kind = "HTML comment" if line.text.lstrip(BLANK).startswith("<") else "code fence"
        what = f"this {kind} is never closed: what follows is read as if it were not there"
        return Problem(line.number, what, f"close the {kind}", "warning", "unclosed")
    return None


def parse_heading(line: Line) -> tuple[int, str] | None:
    """Level and words of a heading that starts in the first column, else None."""
    if not line.text.startswith("#") or not line.is_markdown:
        return None
    content = line.text.lstrip("#")
    level = len(line.text) - len(content)
    if level > 6 or (content and content[0] not in BLANK):
        return None
    title = content.strip(BLANK)
    without_closing = title.rstrip("#")
    if without_closing != title and (not without_closing or without_closing[-1] in BLANK):
        title = without_closing.rstrip(BLANK)
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
    content = line.text.lstrip("_*")
    return line.is_markdown and content[:13].lower() == "last updated:"


def continues_paragraph(line: Line) -> bool:
    """Whether an unindented line may go on with the paragraph above it: no heading, rule, table or label."""
    content = line.text.strip(BLANK)
    if content in ("-", "*", "+") or content.startswith(("**", "__", ">", "|", "+ ")) or is_footer(line):
        return False
    return parse_heading(line) is None and not is_rule(content) and _NUMBERED.match(content) is None


def blank_line_before(before: str, newline: str) -> str:
    """What to write after `before` so that the next line stands below a blank line; nothing at the top."""
    if not before.strip(BOM):
        return ""
    if not before.endswith("\n"):
        return newline * 2
    return "" if before.endswith(("\n\n", "\n\r\n")) else newline


def insertion_below(text: str, at: int, block: str, newline: str, *, apart: bool = True) -> tuple[int, str]:
    """Where a block goes below the last words before `at`, and what to write there.

    The block takes no line end of its own but those above it, so that `without` finds them all
    again and the file ends as it did. With no words above, it goes to the top.
    """
    place = text_end(text, at)
    if place:
        # `\r` before `\n` would look like one line end, of which `without` would take both halves
        above = "\r\n" if text[place - 1] == "\r" else newline
        return place, above * (2 if apart else 1) + block
    if text_end(text, len(text)):
        return len(BOM) if text.startswith(BOM) else 0, block + newline * 2
    return len(text), ("" if text in ("", BOM) or text.endswith("\n") else newline) + block + newline


def cut_lines(text: str, start: int, end: int, *, apart: bool = False) -> str:
    """The text without a stretch of whole lines; of the blank lines around it one goes with it.

    `apart` says that it was put there with a blank line of its own, which goes in any case.
    """
    end = text_end(text, end)
    count = 2 if apart or is_spaced_below(text, end) else 1
    if not text[:start].strip(BOM):
        return text[:start] + text[after_line_ends(text, end, count) :]
    return text[: before_line_ends(text, start, count)] + text[end:]


def framed_span(text: str, start: int, end: int, above: str, below: str) -> tuple[int, int] | None:
    """A stretch of lines with just these lines around it, in either line end; None when they are not there."""
    end = text_end(text, end)
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


def text_end(text: str, at: int) -> int:
    """The end of the last line with words before the line that begins at `at`; 0 when there is none."""
    while at > 0:
        stop = at - 1 if text[at - 1] == "\n" else at
        at = text.rfind("\n", 0, stop) + 1
        words = text[at:stop].removesuffix("\r")
        if words.strip(BLANK if at else BLANK + BOM):
            return at + len(words)
    return 0


def is_spaced_below(text: str, at: int) -> bool:
    """Whether a blank line or nothing follows the line that ends at `at`."""
    below = text.find("\n", at) + 1
    end = text.find("\n", below)
    return not below or not text[below : end if end >= 0 else len(text)].strip(BLANK + "\r")


def before_line_ends(text: str, at: int, count: int) -> int:
    """The position before up to `count` line ends of the same sort in front of `at`."""
    newline = "\r\n" if text.endswith("\r\n", 0, at) else "\n"
    for _ in range(count):
        at -= len(newline) if text.endswith(newline, 0, at) else 0
    return at


def after_line_ends(text: str, at: int, count: int) -> int:
    """The position after up to `count` line ends of the same sort behind `at`."""
    newline = "\r\n" if text.startswith("\r\n", at) else "\n"
    for _ in range(count):
        at += len(newline) if text.startswith(newline, at) else 0
    return at


def normalise_text(text: str) -> str:
    """The words of a text for comparing: case, white space, backticks and final marks do not count.

    A text of nothing but such marks is those marks.
    """
    words = " ".join(text.replace("`", "").casefold().split())
    return words.rstrip(".!?。 ") or words


def check_text(text: str, what: str) -> str:
    """A text as these files can hold it; Refused when it is empty or holds a NUL."""
    if "\x00" in text:
        raise Refused(f"the {what} holds a NUL character", hint="remove it: text files cannot keep it")
    clean = text.replace("\r\n", "\n")
    if not clean.strip():
        raise Refused(f"the {what} is empty", hint="say in a sentence what is worth keeping")
    return clean


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


def indentation(text: str) -> int:
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


def bullet_marker(text: str) -> tuple[int, int, int] | None:
    """(indentation, column of the words, index of the words) of a bullet's first line, else None."""
    item = text.lstrip(BLANK)
    if item[:2] not in MARKERS or is_rule(item):
        return None
    content = item[1:].lstrip(BLANK)
    if not content:
        return None
    indent = indentation(text)
    if item[1] == " " and len(content) == len(item) - 2:
        return indent, indent + 2, len(text) - len(content)
    gap = indentation(" " * ((indent + 1) % _TAB) + item[1 : len(item) - len(content)]) - (indent + 1) % _TAB
    return indent, indent + 1 + (gap if gap <= _TAB else 1), len(text) - len(content)


def read_bullets(region: Iterable[Line], deepest: int = 3) -> Iterator[Bullet]:
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
        found = bullet_marker(line.text) if line.role is not LineRole.INSIDE else None
        if found is not None and found[0] <= self._deepest:
            self._first, self._end = line, line.end
            self._indent, self._pad = found[0], found[1]
            self._parts = [line.text[found[2] :]]
            self._paragraph = line.is_markdown
            self._holds = line.role is LineRole.OPENS
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
        if line.role is LineRole.CONFLICT:
            return False
        if line.role is LineRole.INSIDE:
            if self._holds:
                self._take(line)
            return self._holds
        if line.blank:
            self._waiting.append(dedent(line.text, self._pad))
            self._paragraph = False
            return True
        indent = indentation(line.text)
        inside = indent >= self._indent + 2 or indent > self._deepest
        lazy = (
            self._paragraph
            and line.role is LineRole.TEXT
            and bullet_marker(line.text) is None
            and continues_paragraph(line)
        )
        if not inside and not lazy:
            return False
        self._holds = line.role is LineRole.OPENS
        self._paragraph = line.is_markdown
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


def render_bullet(text: str, newline: str, lead: str = "- ", pad: int = 2) -> str:
    """A bullet as it is written: the further lines are indented to its words."""
    first, *rest = text.split("\n")
    indent = " " * pad
    return "".join([lead, first, newline, *(f"{indent}{line}{newline}" if line else newline for line in rest)])


def rewrite_bullet(text: str, entry: Entry, content: str) -> str:
    """The bullet of an entry with other content, its own marker and indentation; no line end at the end of a file."""
    first = text[entry.start : entry.end].partition("\n")[0]
    marker = bullet_marker(first)
    lead, pad = (first[: marker[2]], marker[1]) if marker is not None else ("- ", 2)
    written = render_bullet(content, newline_of(text), lead, pad)
    return written if text[: entry.end].endswith("\n") else written.rstrip("\r\n")
