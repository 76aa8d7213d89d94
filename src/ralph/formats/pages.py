"""The codecs for bullet lists in global-patterns.md and in regions of AGENTS.md or CLAUDE.md.

A bullet's id is derived from its text. A region is the part of a file between Ralph's two marks,
which are HTML comments. In a file that belongs to people, Ralph writes only there.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ralph.core import ids
from ralph.core import text as markdown
from ralph.core.errors import Refused
from ralph.core.record import MemoryKind, Record, kind_of, label_of
from ralph.core.text import BOM, Bullet, Entry, Line, LineRole, Problem, TextDocument

# --- global-patterns.md ------------------------------------------------------------------------

HEADINGS = {
    MemoryKind.PATTERN: "Conventions",
    MemoryKind.DECISION: "Decisions",
    MemoryKind.FIX: "Gotchas",
    MemoryKind.CONTEXT: "Tips",
}


class PatternSection(NamedTuple):
    """A `##` section, with its heading and where it starts.

    `tail` is the end of its last line, and `ends_with_bullet` says whether that is a bullet.
    """

    heading: str
    start: int
    tail: int
    ends_with_bullet: bool


class FooterSpan(NamedTuple):
    """The span `text[start:end]` of the footer."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PatternsDocument(TextDocument):
    """A parsed global-patterns.md. `closing` is the position at which to add a new section."""

    sections: tuple[PatternSection, ...]
    footer: FooterSpan | None
    closing: int

    def add(self, record: Record) -> PatternsDocument:
        """Return a copy of the document with a bullet added, unless it is already there.

        Raises Refused if the record is not a memory, or would not read back the same.
        """
        expected = as_pattern(record)
        if any(entry.record.id == expected.id for entry in self.entries):
            return self
        newline = markdown.newline_of(self.text)
        if not self.text.strip(BOM + " \t\r\n"):
            return parse_patterns(self.text + patterns_template(newline)).add(record)
        bullet = markdown.render_bullet(expected.text, newline).removesuffix(newline)
        section = self._section_for(expected, record.label)
        if section is None:
            block = f"## {HEADINGS[MemoryKind(expected.kind)]}{newline * 2}{bullet}"
            insertion = markdown.insertion_below(self.text, self.closing, block, newline)
        else:
            expected = as_pattern(record, section.heading)
            end = markdown.text_end(self.text, section.tail)
            apart = not section.ends_with_bullet and markdown.is_spaced_below(self.text, end)
            insertion = markdown.insertion_below(
                self.text, section.tail, bullet, newline, apart=apart
            )
        return self._spliced(insertion.position, insertion.position, insertion.text, expected)

    def _section_for(self, pattern: Record, label: str) -> PatternSection | None:
        """Return the section that a pattern belongs in, or None if there is none.

        A section named after the label is preferred, then one with our heading, then one whose
        heading is an alias for the kind.
        """
        fitting = [
            section for section in self.sections if _section_kind(section.heading) is pattern.kind
        ]
        for section in fitting:
            if label in (section.heading, label_of(section.heading)):
                return section
        names = (HEADINGS[MemoryKind(pattern.kind)].casefold(), label.casefold())
        for section in fitting:
            if section.heading.casefold() in names:
                return section
        for section in fitting:
            if kind_of(section.heading) is not None:
                return section
        return None

    def replace(self, record_id: str, record: Record) -> PatternsDocument:
        """Return a copy of the document with one bullet changed, and moved if its kind changed.

        Raises NotFound or Conflict if the id does not name exactly one bullet, and Refused if the
        new text would not read back the same.
        """
        entry = markdown.find_entry(self.entries, record_id)
        if record.kind is not entry.record.kind:
            return self.remove(record_id).add(record)
        expected = dataclasses.replace(as_pattern(record), label=entry.record.label)
        first_line = self.text[entry.start : entry.end].partition("\n")[0]
        newline = markdown.newline_of(self.text)
        marker = markdown.bullet_marker(first_line)
        if marker is None:
            written = markdown.render_bullet(expected.text, newline, "")
        else:
            lead = first_line[: marker.text_index]
            written = markdown.render_bullet(expected.text, newline, lead, marker.text_column)
        if not self.text[: entry.end].endswith("\n"):
            written = written.rstrip("\r\n")
        return self._spliced(entry.start, entry.end, written, expected)

    def remove(self, record_id: str) -> PatternsDocument:
        """Return a copy of the document without one bullet. Its section heading is kept.

        Raises NotFound or Conflict if the id does not name exactly one bullet.
        """
        entry = markdown.find_entry(self.entries, record_id)
        return parse_patterns(markdown.cut_lines(self.text, entry.start, entry.end))

    def stamped(self, date: str, task: str) -> PatternsDocument:
        """Return a copy of the document with the date and task of its last change in the footer.

        Raises Refused if either is longer than one line.
        """
        if any(char in date + task for char in "\r\n\x00"):
            raise Refused(
                "the date and the task in the footer must each be one line",
                hint="pass a date and a task id",
            )
        footer = f"_Last updated: {date} by {task}_"
        if self.footer is not None:
            above = self.text[: self.footer.start]
            return parse_patterns(above + footer + self.text[self.footer.end :])
        newline = markdown.newline_of(self.text)
        last_line = self.text.rstrip(" \t\r\n").rpartition("\n")[2]
        if not markdown.is_rule(last_line):
            footer = f"---{newline * 2}{footer}"
        position, block = markdown.insertion_below(self.text, len(self.text), footer, newline)
        return parse_patterns(self.text[:position] + block + self.text[position:])

    def _spliced(self, start: int, end: int, block: str, expected: Record) -> PatternsDocument:
        after = parse_patterns(self.text[:start] + block + self.text[end:])
        _check_splice(self.entries, after.entries, start, end, expected)
        return after


def _check_splice(
    before: Sequence[Entry], after: Sequence[Entry], start: int, end: int, expected: Record
) -> None:
    """Raise Refused unless the splice put exactly the expected record between the old ones."""
    above = [entry.record for entry in before if entry.start < start]
    below = [entry.record for entry in before if entry.start >= end]
    if [entry.record for entry in after] != [*above, expected, *below]:
        raise Refused(
            "this text cannot be written here: it would not read back the same",
            hint="close its fences and comments, and do not begin it with list marks or rules",
        )


def patterns_template(newline: str = "\n") -> str:
    """Return the content of a new file without patterns."""
    paragraphs = (
        "# Global Codebase Patterns",
        "> What every task in this project should know.",
        "## Conventions",
        "## Gotchas",
        "## Tips",
    )
    return (newline * 2).join(paragraphs) + newline


class _Chunk(NamedTuple):
    """A heading and the lines below it. If `name` is None, it is not a section."""

    name: str | None
    lines: list[Line]


def parse_patterns(text: str) -> PatternsDocument:
    """Parse global-patterns.md. Any text is valid."""
    problems: list[Problem] = []
    chunks = [_Chunk(None, [])]
    footer: FooterSpan | None = None
    closing = len(text)
    for line in markdown.scan_lines(text):
        problem = markdown.line_problem(line)
        if problem is not None:
            problems.append(problem)
        heading = markdown.parse_heading(line)
        if heading is not None and heading.level <= 2:
            name = heading.title if heading.level == 2 else None
            chunks.append(_Chunk(name, [line]))
        elif markdown.is_footer(line):
            footer = FooterSpan(line.start, line.start + len(line.text))
            closing = _closing_position(line, chunks[-1].lines)
            chunks.append(_Chunk(None, [line]))
        else:
            chunks[-1].lines.append(line)
    entries: list[Entry] = []
    sections: list[PatternSection] = []
    for chunk in chunks:
        bullets = list(markdown.read_bullets(chunk.lines))
        kind = _section_kind(chunk.name or "")
        label = label_of(chunk.name or "")
        for bullet in bullets:
            record = Record(_pattern_id(bullet.text), kind, bullet.text, label=label)
            entries.append(Entry(record, bullet.start, bullet.end, bullet.number))
        if chunk.name is not None:
            sections.append(_read_section(chunk.name, chunk.lines, bullets))
    problems += _duplicate_problems(entries)
    return PatternsDocument(
        text, tuple(entries), markdown.sort_problems(problems), tuple(sections), footer, closing
    )


def _closing_position(footer: Line, above: Sequence[Line]) -> int:
    """Return the position of the rule above the footer, or of the footer itself."""
    for line in reversed(above):
        if line.blank:
            continue
        if line.is_markdown and markdown.is_rule(line.text):
            return line.start
        break
    return footer.start


def _read_section(name: str, lines: Sequence[Line], bullets: Sequence[Bullet]) -> PatternSection:
    tail = 0
    for line in lines:
        if line.is_markdown and markdown.is_rule(line.text):
            break
        if not line.blank:
            tail = line.end
    ends_with_bullet = any(bullet.end == tail for bullet in bullets)
    return PatternSection(name, lines[0].start, tail, ends_with_bullet)


def _duplicate_problems(entries: Sequence[Entry]) -> list[Problem]:
    problems: list[Problem] = []
    first_lines: dict[str, int] = {}
    for entry in entries:
        first_line = first_lines.setdefault(entry.record.id, entry.line)
        if first_line != entry.line:
            what = f"this is the same as line {first_line}"
            problems.append(
                Problem(entry.line, what, "delete one of the two", "warning", "duplicate-id")
            )
    return problems


def as_pattern(record: Record, name: str = "") -> Record:
    """Return a record in the form in which this file can store it, with an id based on the text.

    Raises Refused if the record is not a memory, or has no text.
    """
    if not isinstance(record.kind, MemoryKind):
        raise Refused(
            f"{record.id} is not a memory", hint="global-patterns.md contains only memories"
        )
    text = markdown.check_text(record.text, "pattern").strip(" \t\n")
    return Record(
        id=_pattern_id(text),
        kind=record.kind,
        text=text,
        label=label_of(name or HEADINGS[record.kind]),
    )


def _section_kind(name: str) -> MemoryKind:
    return kind_of(name) or MemoryKind.CONTEXT


def _pattern_id(text: str) -> str:
    return ids.derived("pat", markdown.normalise_text(text))


# --- regions -----------------------------------------------------------------------------------

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
        bullet = markdown.render_bullet(expected.text, newline)
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

        Raises NotFound or Conflict if the id does not name exactly one bullet, and Refused if a
        mark is unpaired.
        """
        self._check_marks()
        entry = markdown.find_entry(self.entries, record_id)
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
        _check_splice(self.entries, entries, position, position, expected)
        return after


def parse_region(text: str) -> RegionDocument:
    """Parse the regions in a file. Any text is valid."""
    lines = list(markdown.scan_lines(text))
    regions: list[Region] = []
    problems: list[Problem] = []
    start: Line | None = None
    for line in lines:
        if line.role is LineRole.INSIDE:
            continue
        mark = _MARK.fullmatch(line.text.strip())
        if mark is None:
            continue
        if mark[1] == "end" and start is not None:
            regions.append(Region(start.end, line.start))
            start = None
            continue
        if start is not None:
            problems.append(_unpaired_mark(start))
            start = None
        if mark[1] == "start":
            start = line
        else:
            problems.append(_unpaired_mark(line))
    if start is not None:
        problems.append(_unpaired_mark(start))
    entries: list[Entry] = []
    for region in regions:
        inside = [line for line in lines if region.start <= line.start < region.end]
        for bullet in markdown.read_bullets(inside):
            record = _region_record(bullet.text)
            entries.append(Entry(record, bullet.start, bullet.end, bullet.number))
    return RegionDocument(text, tuple(entries), tuple(problems), tuple(regions))


def _unpaired_mark(line: Line) -> Problem:
    return Problem(
        line.number,
        "this mark of a region has no partner",
        f"write {REGION_START} above and {REGION_END} below the bullets",
        "error",
        "unpaired-region",
    )


def _region_record(text: str) -> Record:
    return Record(
        ids.derived("reg", markdown.normalise_text(text)),
        MemoryKind.CONTEXT,
        text,
        label=REGION_LABEL,
    )
