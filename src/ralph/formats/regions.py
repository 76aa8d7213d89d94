"""The codec for regions in AGENTS.md and CLAUDE.md.

A region is the part of a file between two marks, which are HTML comments:

    <!-- ralph:start -->
    - Run `make gen` before the tests.
    <!-- ralph:end -->

In a file that belongs to people, Ralph writes only there. The bullets are memories whose ids are
derived from their text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ralph.core import bullets, documents, ids
from ralph.core import text as markdown
from ralph.core.documents import Entry, Problem, TextDocument
from ralph.core.errors import Refused
from ralph.core.record import MemoryKind, Record
from ralph.core.text import Line, LineRole
from ralph.formats.splices import check_splice

REGION_START = "<!-- ralph:start -->"
REGION_END = "<!-- ralph:end -->"
REGION_LABEL = "learned"

_MARK = re.compile(r"<!--[ \t]*ralph:(start|end)[ \t]*-->")


class Region(NamedTuple):
    """The span between two marks, from the end of the first mark's line to the second mark."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RegionDocument(TextDocument):
    """A parsed file, with the regions in it."""

    regions: tuple[Region, ...]

    def add(self, record: Record) -> RegionDocument:
        """Return a copy with a bullet added to the first region, unless it is already there.

        If there is no region, one is created. Raises Refused if a mark is unpaired, or if the text
        is empty, contains a mark, or would not read back the same.
        """
        self._check_marks()
        text = markdown.check_text(record.text, "text").strip(" \t\n")
        if _MARK.search(text):
            raise Refused(
                "the text contains a mark of the region itself",
                hint="leave out the `<!-- ralph: -->`",
            )
        expected = _region_record(text)
        if any(entry.record.id == expected.id for entry in self.entries):
            return self
        newline = markdown.newline_of(self.text)
        bullet = bullets.render_bullet(expected.text, newline)
        if self.regions:
            return self._spliced(self._end_of_text(self.regions[0]), bullet, expected)
        block = f"{REGION_START}{newline}{bullet}{REGION_END}"
        position, block = markdown.insertion_below(self.text, len(self.text), block, newline)
        return self._spliced(position, block, expected)

    def _end_of_text(self, region: Region) -> int:
        """Return the position below the last line of text in a region."""
        last = markdown.text_end(self.text[: region.end], region.end)
        if last <= region.start:
            return region.start
        return self.text.find("\n", last) + 1

    def remove(self, record_id: str) -> RegionDocument:
        """Return a copy of the document without one bullet. The region itself is kept.

        Raises NotFound or Conflict unless exactly one bullet has the id, and Refused if a
        mark is unpaired.
        """
        self._check_marks()
        entry = documents.find_entry(self.entries, record_id)
        return parse_region(self.text[: entry.start] + self.text[entry.end :])

    def _check_marks(self) -> None:
        for problem in self.problems:
            if problem.level == "error":
                raise Refused(
                    f"line {problem.line}: {problem.what}",
                    hint=f"{problem.hint}; nothing was written",
                )

    def _spliced(self, position: int, block: str, expected: Record) -> RegionDocument:
        after = parse_region(self.text[:position] + block + self.text[position:])
        entries = after.entries
        if any(problem.level == "error" for problem in after.problems):
            entries = ()  # the new text broke a mark
        check_splice(self.entries, entries, start=position, end=position, expected=expected)
        return after


def parse_region(text: str) -> RegionDocument:
    """Parse the regions in a file. Any text is valid."""
    lines = list(markdown.scan_lines(text))
    regions, problems = _pair_marks(lines)
    entries: list[Entry] = []
    for region in regions:
        inside = [line for line in lines if region.start <= line.start < region.end]
        for bullet in bullets.read_bullets(inside):
            record = _region_record(bullet.text)
            entries.append(Entry(record, bullet.start, bullet.end, bullet.number))
    return RegionDocument(text, tuple(entries), tuple(problems), tuple(regions))


def _pair_marks(lines: Iterable[Line]) -> tuple[list[Region], list[Problem]]:
    regions: list[Region] = []
    problems: list[Problem] = []
    opening: Line | None = None  # the start mark of the region that is still open
    for line in lines:
        if line.role is LineRole.INSIDE:
            continue
        mark = _MARK.fullmatch(line.text.strip())
        if mark is None:
            continue
        if mark[1] == "end" and opening is not None:
            regions.append(Region(opening.end, line.start))
            opening = None
        elif mark[1] == "end":
            problems.append(_unpaired_mark(line))
        else:
            if opening is not None:
                problems.append(_unpaired_mark(opening))
            opening = line
    if opening is not None:
        problems.append(_unpaired_mark(opening))
    return regions, problems


def _unpaired_mark(line: Line) -> Problem:
    return Problem(
        line.number,
        "this mark of a region has no partner",
        f"write {REGION_START} above and {REGION_END} below the bullets",
        level="error",
        code="unpaired-region",
    )


def _region_record(text: str) -> Record:
    return Record(
        ids.derived("reg", markdown.normalise_text(text)),
        MemoryKind.CONTEXT,
        text,
        label=REGION_LABEL,
    )
