"""The lines of a Markdown file, and the splices that insert and remove them.

`scan_lines` gives every line a role, because lines inside a code fence or an HTML comment are
examples and never entries:

    # Title        TEXT
    ```sh          OPENS
    - not an entry INSIDE
    ```            INSIDE
    - an entry     TEXT

Every reader makes a single pass over the text, so that even a 10 MB file is fast to read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from ralph.core.documents import Problem
from ralph.core.errors import Refused

BOM = "\ufeff"
BLANK = " \t"
DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
MARKERS = ("- ", "* ", "-\t", "*\t")
_COMMENT_START = "<!--"
_COMMENT_END = "-->"
# A line that begins with any other character can only be plain text.
_FIRST_CHARACTERS_OF_MARKUP = frozenset(" \t<>=|`~-*")
_MAX_COMMENT_INDENT = 3  # spaces; Markdown treats a line that is indented further as code
_MAX_HEADING_LEVEL = 6
_CLOSING_FENCE = r"(?m)^[ \t]*(`{3,}|~{3,})[ \t]*\r?$"
_RULE = r"([-*_])[ \t]*(?:\1[ \t]*){2,}"
_FOOTER = r"(?i)[_*]+last updated:"
_NOT_A_PARAGRAPH = r"[-*+]\Z|\*\*|__|[>|]|\+ |[0-9]{1,9}[.)] "


class LineRole(Enum):
    """The part that a line plays in its file."""

    TEXT = "text"
    OPENS = "opens"  # opens a fence or a comment, or is a whole comment
    INSIDE = "inside"  # within a fence or a comment, including its last line
    UNCLOSED = "unclosed"  # would open a fence or comment, but nothing closes it; read as text
    CONFLICT = "conflict"  # a git conflict marker
    BLOCK = "block"  # several lines that the caller treats as one


class Line(NamedTuple):
    """One line without its line ending.

    `closer` is what would close the fence or comment still open after the line, or "".
    """

    number: int
    start: int
    end: int
    text: str
    role: LineRole
    closer: str

    @property
    def is_markdown(self) -> bool:
        """Whether the line is Markdown rather than an example or a conflict marker."""
        return self.role in (LineRole.TEXT, LineRole.UNCLOSED)

    @property
    def blank(self) -> bool:
        """Whether the line contains only spaces and tabs."""
        return not self.text.strip(BLANK)


def newline_of(text: str) -> str:
    """Return the line ending of the first line, or a line feed if there is only one line."""
    first = text.find("\n")
    if first > 0 and text[first - 1] == "\r":
        return "\r\n"
    return "\n"


def scan_lines(
    text: str, skip: re.Pattern[str] | None = None, *, hide_unclosed: bool = False
) -> Iterator[Line]:
    """Yield every line of `text` along with its role.

    Text that `skip` matches outside fences, comments and conflicts is yielded as one BLOCK line,
    without its text, which may be long. It ends at `end`, before the line break.
    With `hide_unclosed`, everything after an unclosed fence or comment counts as inside it.
    """
    roles = _RoleReader(text, hide_unclosed=hide_unclosed)
    number = 0
    position = _bom_length(text)
    while position <= len(text):
        number += 1
        if skip is not None and not roles.closer and not roles.in_conflict:
            block = skip.match(text, position)
            if block is not None:
                yield Line(number, position, block.end(), "", LineRole.BLOCK, "")
                number += text.count("\n", position, block.end())
                position = block.end() + 1
                continue
        stop = text.find("\n", position)
        if stop < 0:
            stop = len(text)
        line = text[position:stop].removesuffix("\r")
        if line[:1] in _FIRST_CHARACTERS_OF_MARKUP or roles.closer:
            role = roles.read(line, position, stop)
        else:
            role = LineRole.TEXT  # most lines, so they are not passed to the reader
        yield Line(number, position, min(stop + 1, len(text)), line, role, roles.closer)
        position = stop + 1


class _RoleReader:
    """Determines the role of each line in turn, and keeps track of what is open."""

    def __init__(self, text: str, *, hide_unclosed: bool) -> None:
        self.closer = ""  # what closes the fence or comment that is open
        self.in_conflict = False
        self._hide_unclosed = hide_unclosed
        self._last_comment_end = text.rfind(_COMMENT_END)
        self._text = text

    @cached_property
    def _closing_fences(self) -> Mapping[str, _ClosingFences]:
        return _find_closing_fences(self._text)  # most files contain no fence

    def read(self, line: str, start: int, stop: int) -> LineRole:
        """Return the role of the next line, which is at `start` and ends at `stop`."""
        if self.closer:
            if _closes(line, self.closer):
                self.closer = ""
            return LineRole.INSIDE
        content = line.lstrip(BLANK)
        if content.startswith(_COMMENT_START) and len(line) - len(content) <= _MAX_COMMENT_INDENT:
            if content.find(_COMMENT_END, 2) >= 0:
                return LineRole.OPENS
            return self._open(_COMMENT_END, is_closed=self._last_comment_end > stop)
        if _is_conflict_marker(line, in_conflict=self.in_conflict):
            self.in_conflict = not line.startswith(">")
            return LineRole.CONFLICT
        if content[:2] in MARKERS:
            content = content[2:].lstrip(BLANK)
        mark = fence_mark(content)
        if mark:
            fences = self._closing_fences[mark[0]]
            return self._open(mark, is_closed=fences.has_fence_after(start, len(mark)))
        return LineRole.TEXT

    def _open(self, closer: str, *, is_closed: bool) -> LineRole:
        if is_closed:
            self.closer = closer
            return LineRole.OPENS
        if self._hide_unclosed:
            self.closer = closer
        return LineRole.UNCLOSED


def _closes(line: str, closer: str) -> bool:
    if closer == _COMMENT_END:
        return _COMMENT_END in line
    mark = line.strip(BLANK)
    return mark.startswith(closer) and not mark.strip(closer[0])


def _is_conflict_marker(line: str, *, in_conflict: bool) -> bool:
    if line.startswith("<<<<<<< "):
        return True
    return in_conflict and (line == "=======" or line.startswith((">>>>>>> ", "||||||| ")))


class _ClosingFences(NamedTuple):
    """The lines that can close a fence.

    `starts` holds where each begins, and `longest` the length of the longest mark from there on.
    """

    starts: list[int]
    longest: list[int]

    def has_fence_after(self, position: int, length: int) -> bool:
        """Return whether a fence of this length is closed by a line after a position."""
        following = bisect_right(self.starts, position)
        return following < len(self.starts) and self.longest[following] >= length


def _find_closing_fences(text: str) -> dict[str, _ClosingFences]:
    fences = {"`": _ClosingFences([], []), "~": _ClosingFences([], [])}
    for match in re.finditer(_CLOSING_FENCE, text):
        found = fences[match[1][0]]
        found.starts.append(match.start())
        found.longest.append(len(match[1]))
    for _, longest in fences.values():
        for number in reversed(range(len(longest) - 1)):
            longest[number] = max(longest[number], longest[number + 1])
    return fences


def fence_mark(content: str) -> str:
    """Return the run of backticks or tildes that opens a fence, or "" if there is none."""
    if not content.startswith(("```", "~~~")):
        return ""
    info = content.lstrip(content[0])
    if content[0] == "`" and "`" in info:
        return ""  # inline code
    return content[: len(content) - len(info)]


def line_problem(line: Line) -> Problem | None:
    """Return the problem with a line, or None.

    A problem is a conflict marker, or a fence or comment that is never closed.
    """
    if line.role is LineRole.CONFLICT and line.text.startswith("<"):
        return Problem(
            line.number,
            "git conflict markers: both sides are read",
            "resolve the merge in this file",
            "error",
            "conflict",
        )
    if line.role is LineRole.UNCLOSED:
        kind = "code fence"
        if line.text.lstrip(BLANK).startswith("<"):
            kind = "HTML comment"
        return Problem(
            line.number,
            f"this {kind} is never closed: the text after it is read as if it were not there",
            f"close the {kind}",
            "warning",
            "unclosed",
        )
    return None


class Heading(NamedTuple):
    """A heading's level (the number of `#` characters) and its title."""

    level: int
    title: str


def parse_heading(line: Line) -> Heading | None:
    """Return the heading on a line, or None. A heading must start in the first column."""
    if not line.text.startswith("#") or not line.is_markdown:
        return None
    content = line.text.lstrip("#")
    level = len(line.text) - len(content)
    if level > _MAX_HEADING_LEVEL or (content and content[0] not in BLANK):
        return None
    title = content.strip(BLANK)
    without_closing = title.rstrip("#")
    if without_closing != title and (not without_closing or without_closing[-1] in BLANK):
        title = without_closing.rstrip(BLANK)
    return Heading(level, title)


def is_rule(text: str) -> bool:
    """Return whether a line is a thematic break, such as `---`."""
    return re.fullmatch(_RULE, text) is not None


def is_footer(line: Line) -> bool:
    """Return whether a line is a `_Last updated: ..._` footer in the first column."""
    return line.is_markdown and re.match(_FOOTER, line.text) is not None


def continues_paragraph(line: Line) -> bool:
    """Return whether a line may continue the paragraph above it."""
    content = line.text.strip(BLANK)
    if re.match(_NOT_A_PARAGRAPH, content) or is_footer(line):
        return False
    return parse_heading(line) is None and not is_rule(content)


# --- splices -----------------------------------------------------------------------------------


class Insertion(NamedTuple):
    """Text to insert, including the line endings around it, and where to insert it."""

    position: int
    text: str


def insertion_below(
    text: str, at: int, block: str, newline: str, *, apart: bool = True
) -> Insertion:
    """Return how to insert a block below the last text before `at`.

    If `apart` is set, a blank line separates the block from that text. `cut_lines` can later find
    and remove every line ending that is added here.
    """
    position = text_end(text, at)
    if position:
        # `\r` followed by `\n` would look like one line ending, and `cut_lines` would remove both.
        above = "\r\n" if text[position - 1] == "\r" else newline
        if apart:
            above += above
        return Insertion(position, above + block)
    if text_end(text, len(text)):
        return Insertion(_bom_length(text), block + newline * 2)
    if text in ("", BOM) or text.endswith("\n"):
        return Insertion(len(text), block + newline)
    return Insertion(len(text), newline + block + newline)


def cut_lines(text: str, start: int, end: int, *, apart: bool = False) -> str:
    """Return the text without the lines from `start` to `end` and the blank line added with them.

    `apart` is set if a blank line was added, even if none follows the lines now.
    """
    end = text_end(text, end)
    line_endings = 1
    if apart or is_spaced_below(text, end):
        line_endings = 2
    is_top = not text[:start].strip(BOM)
    if is_top:
        is_windows = text.startswith("\r\n", end)
    else:
        is_windows = text.endswith("\r\n", 0, start)
    newline = "\r\n" if is_windows else "\n"
    for _ in range(line_endings):
        if is_top and text.startswith(newline, end):
            end += len(newline)
        elif not is_top and text.endswith(newline, 0, start):
            start -= len(newline)
    return text[:start] + text[end:]


def text_end(text: str, at: int) -> int:
    """Return the end of the last non-blank line before `at`, or 0 if there is none."""
    while at > 0:
        stop = at
        if text[at - 1] == "\n":
            stop = at - 1
        at = text.rfind("\n", 0, stop) + 1
        line = text[at:stop].removesuffix("\r")
        ignored = BLANK if at else BLANK + BOM
        if line.strip(ignored):
            return at + len(line)
    return 0


def is_spaced_below(text: str, at: int) -> bool:
    """Return whether the line at a position is followed by a blank line or the end of the text."""
    below = text.find("\n", at) + 1
    if not below:
        return True
    end = text.find("\n", below)
    if end < 0:
        end = len(text)
    return not text[below:end].strip(BLANK + "\r")


def _bom_length(text: str) -> int:
    return len(BOM) if text.startswith(BOM) else 0


def normalise_text(text: str) -> str:
    """Normalise text for comparison.

    Differences in case, whitespace, backticks and final punctuation are removed.
    """
    folded = " ".join(text.replace("`", "").casefold().split())
    return folded.rstrip(".!?。 ") or folded


def check_text(text: str, what: str) -> str:
    """Return text in the form in which it can be stored in these files.

    Raises Refused if it is empty or contains a NUL character. The error calls it `what`.
    """
    if "\x00" in text:
        raise Refused(
            f"the {what} contains a NUL character", hint="remove it: text files cannot hold it"
        )
    clean = text.replace("\r\n", "\n")
    if not clean.strip():
        raise Refused(f"the {what} is empty", hint="write what to remember, in a sentence")
    return clean
