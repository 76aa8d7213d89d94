"""Lines, bullets and splices that the markdown formats share, and what every codec returns.

A Document keeps every byte of its file. Lines in a code fence or HTML comment are examples. Every reader is one pass.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import NamedTuple, Protocol, Self

from ralph.errors import Conflict, NotFound, Refused
from ralph.model.record import Record


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem at a line: what it is and what to do about it."""

    line: int
    what: str
    hint: str
    level: str = (
        "warning"  # read, but maybe not as meant; or `error` (not read, or may get lost), or `note`
    )
    code: str = ""


class Entry(NamedTuple):
    """A record and its span `text[start:end]`, which begins at `line` (from 1)."""

    record: Record
    start: int
    end: int
    line: int


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A parsed file; `str()` returns every byte of it. Entries and problems are in file order."""

    text: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return self.text


class Document(Protocol):
    """A parsed file; see the laws in `docs/formats.md`."""

    @property
    def text(self) -> str:
        """The file, byte for byte."""

    @property
    def entries(self) -> Sequence[Entry]:
        """The records and their spans, in file order."""

    @property
    def problems(self) -> Sequence[Problem]:
        """The problems of this file, in file order."""

    def add(self, record: Record) -> Self:
        """The document with one more block."""

    def remove(self, record_id: str) -> Self:
        """The document without one block."""


class EditableDocument(Document, Protocol):
    """A parsed file whose entries can be changed in their places."""

    def replace(self, record_id: str, record: Record) -> Self:
        """The document with one block changed."""


def sort_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """The problems in file order."""
    return tuple(sorted(problems, key=lambda problem: problem.line))


def find_entry(entries: Sequence[Entry], record_id: str) -> Entry:
    """The one entry with this id, else NotFound or Conflict."""
    if not (matches := [entry for entry in entries if entry.record.id == record_id]):
        raise NotFound(
            f"Memory not found: {record_id}", hint="`ralph memory list --in all` shows the ids"
        )
    if len(matches) > 1:
        lines = ", ".join(str(entry.line) for entry in matches)
        hint = "run `ralph doctor --fix` to give each its own id"
        raise Conflict(f"{len(matches)} entries have the id {record_id} (lines {lines})", hint=hint)
    return matches[0]


def newline_of(text: str) -> str:
    r"""The line ending that the first line of a text has."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


BOM = "\ufeff"
BLANK = " \t"
DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_CLOSER = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*\r?$", re.MULTILINE)
_SPECIAL = frozenset(" \t<>=|`~-*")  # what a line must begin with to be anything but text
MARKERS = ("- ", "* ", "-\t", "*\t")
_RULE = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}")
_FOOTER = re.compile(r"[_*]+last updated:", re.IGNORECASE)
_NO_PARAGRAPH = re.compile(r"[-*+]\Z|\*\*|__|[>|]|\+ |[0-9]{1,9}[.)] ")


class LineRole(Enum):
    """What a line is part of, whatever its text is."""

    TEXT = "text"
    OPENS = "opens"  # the line that opens a fence or a comment (or is a whole comment)
    INSIDE = "inside"  # within a fence or a comment, its last line included
    UNCLOSED = "unclosed"  # would open one, but nothing closes it: read as text
    CONFLICT = "conflict"  # a git conflict marker
    BLOCK = "block"  # several lines that a reader wants as one


class Line(NamedTuple):
    """One line without its end; `closer` closes what is still open after it."""

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
        """Whether the line has nothing but spaces and tabs."""
        return not self.text.strip(BLANK)


def _closing_fences(text: str) -> dict[str, tuple[list[int], list[int]]]:
    """Where closing lines start, and the longest mark from there on."""
    fences: dict[str, tuple[list[int], list[int]]] = {"`": ([], []), "~": ([], [])}
    for closer in _CLOSER.finditer(text) if "```" in text or "~~~" in text else ():
        starts, lengths = fences[closer[1][0]]
        starts.append(closer.start())
        lengths.append(len(closer[1]))
    return {
        mark: (starts, [*accumulate(lengths[::-1], max)][::-1])
        for mark, (starts, lengths) in fences.items()
    }


def scan_lines(
    text: str, skip: re.Pattern[str] | None = None, *, hide_unclosed: bool = False
) -> Iterator[Line]:
    """Every line; `skip` makes one BLOCK of what it matches, `hide_unclosed` hides an open fence."""
    fences = _closing_fences(text)
    last_comment_end = text.rfind("-->")
    closer = ""
    in_conflict = False
    number = 0
    position = len(BOM) if text.startswith(BOM) else 0
    while position <= len(text):
        number += 1
        if (
            skip is not None
            and not closer
            and not in_conflict
            and (block := skip.match(text, position)) is not None
        ):
            yield Line(
                number, position, min(block.end() + 1, len(text)), block[0], LineRole.BLOCK, ""
            )
            number += block[0].count("\n")
            position = block.end() + 1
            continue
        stop = text.find("\n", position)
        stop = stop if stop >= 0 else len(text)
        line = text[position:stop].removesuffix("\r")
        role = LineRole.TEXT
        content = line.lstrip(BLANK) if line[:1] in _SPECIAL else ""
        if closer:
            role = LineRole.INSIDE
            mark = line.strip(BLANK)
            if (
                "-->" in line
                if closer == "-->"
                else mark.startswith(closer) and not mark.strip(closer[0])
            ):
                closer = ""
        elif content.startswith("<!--") and len(line) - len(content) <= 3:
            role = LineRole.OPENS
            if content.find("-->", 2) < 0:
                closer = "-->" if last_comment_end > stop or hide_unclosed else ""
                role = role if last_comment_end > stop else LineRole.UNCLOSED
        elif line.startswith("<<<<<<< ") or (
            in_conflict and (line == "=======" or line.startswith((">>>>>>> ", "||||||| ")))
        ):
            role = LineRole.CONFLICT
            in_conflict = not line.startswith(">")
        elif content and (
            mark := fence_mark(content[2:].lstrip(BLANK) if content[:2] in MARKERS else content)
        ):
            starts, lengths = fences[mark[0]]
            at = bisect_right(starts, position)
            closes = at < len(lengths) and lengths[at] >= len(mark)
            role = LineRole.OPENS if closes else LineRole.UNCLOSED
            closer = mark if closes or hide_unclosed else ""
        yield Line(number, position, min(stop + 1, len(text)), line, role, closer)
        position = stop + 1


def fence_mark(content: str) -> str:
    """The run of backticks or tildes that opens a fence, or ""."""
    if not content.startswith(("```", "~~~")):
        return ""
    info = content.lstrip(content[0])
    return "" if content[0] == "`" and "`" in info else content[: len(content) - len(info)]


def line_problem(line: Line) -> Problem | None:
    """The Problem of a conflict marker or an unclosed fence or comment."""
    if line.role is LineRole.CONFLICT and line.text.startswith("<"):
        what = "git conflict markers: both sides are read"
        return Problem(line.number, what, "resolve the merge in this file", "error", "conflict")
    if line.role is LineRole.UNCLOSED:
        kind = "HTML comment" if line.text.lstrip(BLANK).startswith("<") else "code fence"
        what = f"this {kind} is never closed: what follows is read as if it were not there"
        return Problem(line.number, what, f"close the {kind}", "warning", "unclosed")
    return None


def parse_heading(line: Line) -> tuple[int, str] | None:
    """Level and words of a heading in the first column."""
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
    """Whether a line is a thematic break."""
    return _RULE.fullmatch(text) is not None


def is_footer(line: Line) -> bool:
    """Whether a line is `_Last updated: ..._`, in the first column."""
    return line.is_markdown and _FOOTER.match(line.text) is not None


def continues_paragraph(line: Line) -> bool:
    """Whether a line may go on with the paragraph above it."""
    content = line.text.strip(BLANK)
    if _NO_PARAGRAPH.match(content) or is_footer(line):
        return False
    return parse_heading(line) is None and not is_rule(content)


def insertion_below(
    text: str, at: int, block: str, newline: str, *, apart: bool = True
) -> tuple[int, str]:
    """Where a block goes below the last text before `at`, and what to write: `cut_lines` finds all its line ends."""
    if position := text_end(text, at):
        # `\r` before `\n` would look like one line end, of which `cut_lines` would take both halves
        above = "\r\n" if text[position - 1] == "\r" else newline
        return position, above * (2 if apart else 1) + block
    if text_end(text, len(text)):
        return len(BOM) if text.startswith(BOM) else 0, block + newline * 2
    return len(text), (
        "" if text in ("", BOM) or text.endswith("\n") else newline
    ) + block + newline


def cut_lines(text: str, start: int, end: int, *, apart: bool = False) -> str:
    """The text without some lines and one blank line; `apart`: they brought one along."""
    end = text_end(text, end)
    count = 2 if apart or is_spaced_below(text, end) else 1
    is_top = not text[:start].strip(BOM)
    is_windows = text.startswith("\r\n", end) if is_top else text.endswith("\r\n", 0, start)
    newline = "\r\n" if is_windows else "\n"
    for _ in range(count):
        if is_top:
            end += len(newline) * text.startswith(newline, end)
        else:
            start -= len(newline) * text.endswith(newline, 0, start)
    return text[:start] + text[end:]


def text_end(text: str, at: int) -> int:
    """The end of the last line with words before `at`; 0 when there is none."""
    while at > 0:
        stop = at - 1 if text[at - 1] == "\n" else at
        at = text.rfind("\n", 0, stop) + 1
        line = text[at:stop].removesuffix("\r")
        if line.strip(BLANK if at else BLANK + BOM):
            return at + len(line)
    return 0


def is_spaced_below(text: str, at: int) -> bool:
    """Whether a blank line or nothing follows."""
    below = text.find("\n", at) + 1
    end = text.find("\n", below)
    return not below or not text[below : end if end >= 0 else len(text)].strip(BLANK + "\r")


def normalise_text(text: str) -> str:
    """A text for comparing, without case, white space, backticks and final punctuation."""
    folded = " ".join(text.replace("`", "").casefold().split())
    return folded.rstrip(".!?。 ") or folded


def check_text(text: str, what: str) -> str:
    """A text as these files can hold it; Refused when empty or with a NUL."""
    if "\x00" in text:
        raise Refused(
            f"the {what} holds a NUL character", hint="remove it: text files cannot keep it"
        )
    clean = text.replace("\r\n", "\n")
    if not clean.strip():
        raise Refused(f"the {what} is empty", hint="write in a sentence what to remember")
    return clean


ANY_DEPTH = 1_000_000
_TAB = 4


class Bullet(NamedTuple):
    """A bullet with its continuation."""

    start: int
    end: int
    number: int
    text: str


def indentation(text: str) -> int:
    """Columns of white space; a tab goes to the next multiple of four."""
    return len(text[: len(text) - len(text.lstrip(BLANK))].expandtabs(_TAB))


def bullet_marker(text: str) -> tuple[int, int, int] | None:
    """Indentation, column and index of the words of a bullet's first line."""
    item = text.lstrip(BLANK)
    content = item[1:].lstrip(BLANK)
    if item[:2] not in MARKERS or not content or is_rule(item):
        return None
    indent = indentation(text)
    index = len(text) - len(content)
    column = len(text[:index].expandtabs(_TAB))
    return indent, column if column - indent <= _TAB + 1 else indent + 2, index


def read_bullets(region: Iterable[Line], deepest: int = 3) -> Iterator[Bullet]:
    """The bullets of a section; `deepest` is the largest indentation of one."""
    first: Line | None = None
    parts: list[str] = []
    waiting: list[str] = []  # blank lines that belong to the bullet only if it continues
    end = indent = pad = 0
    in_paragraph = False  # the last line was running text, which an unindented line may continue
    in_block = False  # the fence or comment that is open belongs to the bullet
    for line in region:
        if first is not None:
            if line.blank and line.role is not LineRole.INSIDE:
                waiting.append(dedent(line.text, pad))
                in_paragraph = False
                continue
            if line.role in (LineRole.INSIDE, LineRole.CONFLICT):
                continues = in_block and line.role is LineRole.INSIDE
            else:
                column = indentation(line.text)
                lazy = (
                    in_paragraph and line.role is LineRole.TEXT and bullet_marker(line.text) is None
                )
                continues = (
                    column >= indent + 2 or column > deepest or (lazy and continues_paragraph(line))
                )
                in_block = line.role is LineRole.OPENS
                in_paragraph = line.is_markdown
            if continues:
                parts += [*waiting, dedent(line.text, pad)]
                waiting.clear()
                end = line.end
                continue
            yield Bullet(first.start, end, first.number, "\n".join(parts).rstrip(BLANK))
            first = None
        marker = bullet_marker(line.text) if line.role is not LineRole.INSIDE else None
        if marker is not None and marker[0] <= deepest:
            first = line
            end = line.end
            indent = marker[0]
            pad = marker[1]
            parts = [line.text[marker[2] :]]
            waiting = []
            in_block = line.role is LineRole.OPENS
            in_paragraph = line.is_markdown
    if first is not None:
        yield Bullet(first.start, end, first.number, "\n".join(parts).rstrip(BLANK))


def dedent(text: str, width: int) -> str:
    """A line without its first columns of white space."""
    at = 0
    while text[at : at + 1] in (" ", "\t") and len(text[:at].expandtabs(_TAB)) < width:
        at += 1
    return text[at:]


def render_bullet(text: str, newline: str, lead: str = "- ", pad: int = 2) -> str:
    """A bullet; further lines are indented to its words."""
    first, *rest = text.split("\n")
    indent = " " * pad
    return "".join(
        [lead, first, newline, *(f"{indent}{line}{newline}" if line else newline for line in rest)]
    )
