"""The codec for global-patterns.md, which lists patterns as bullets in sections.

    # Global Codebase Patterns

    ## Conventions

    - Commands print results to stdout and notes to stderr.

    ## Gotchas

    - Run `make gen` before the tests.

    ---

    _Last updated: 2026-01-31 by t-1a2b3c_

The heading of a section determines the kind of its patterns, and a pattern's id is derived from its
text. After every edit the file is parsed again, and the edit is refused if it would alter another
pattern.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ralph.core import documents, ids
from ralph.core import text as markdown
from ralph.core.bullets import Bullet, bullet_marker, read_bullets, render_bullet
from ralph.core.documents import Entry, Problem, TextDocument
from ralph.core.errors import Refused
from ralph.core.record import MemoryKind, Record, kind_of, label_of
from ralph.core.text import BOM, Line
from ralph.formats.splices import check_splice

HEADINGS = {
    MemoryKind.PATTERN: "Conventions",
    MemoryKind.DECISION: "Decisions",
    MemoryKind.FIX: "Gotchas",
    MemoryKind.CONTEXT: "Tips",
}
"""The heading under which new patterns of each kind are added."""

_UNRELATED = 3  # the lowest preference for a section: its heading names no kind and no label


class PatternSection(NamedTuple):
    """A `##` section and its span.

    `end` is where its last line of text ends, and `ends_with_bullet` says whether that line belongs
    to a bullet.
    """

    heading: str
    start: int
    end: int
    ends_with_bullet: bool


class FooterSpan(NamedTuple):
    """The position of the footer, which is `text[start:end]`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class PatternsDocument(TextDocument):
    """A parsed global-patterns.md. `sections_end` is the position at which to add a section."""

    sections: tuple[PatternSection, ...]
    footer: FooterSpan | None
    sections_end: int

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
        bullet = render_bullet(expected.text, newline).removesuffix(newline)
        section = self._section_for(expected, record.label)
        if section is None:
            block = f"## {HEADINGS[MemoryKind(expected.kind)]}{newline * 2}{bullet}"
            insertion = markdown.insertion_below(self.text, self.sections_end, block, newline)
        else:
            expected = as_pattern(record, section.heading)
            end = markdown.text_end(self.text, section.end)
            # A list continues without a blank line, and so does a section that does not use them.
            apart = not section.ends_with_bullet and markdown.is_spaced_below(self.text, end)
            insertion = markdown.insertion_below(
                self.text, section.end, bullet, newline, apart=apart
            )
        position = insertion.position
        return self._spliced(start=position, end=position, block=insertion.text, expected=expected)

    def _section_for(self, pattern: Record, label: str) -> PatternSection | None:
        """Return the section that a pattern belongs in, or None if there is none.

        A section named after the label is preferred, then one with our heading, then one whose
        heading is an alias for the kind.
        """
        our_heading = HEADINGS[MemoryKind(pattern.kind)]

        def preference(section: PatternSection) -> int:
            if label in (section.heading, label_of(section.heading)):
                return 0
            if section.heading.casefold() in (our_heading.casefold(), label.casefold()):
                return 1
            if kind_of(section.heading) is not None:
                return 2
            return _UNRELATED

        fitting = [
            section for section in self.sections if _section_kind(section.heading) is pattern.kind
        ]
        best = min(fitting, key=preference, default=None)
        if best is None or preference(best) == _UNRELATED:
            return None
        return best

    def replace(self, record_id: str, record: Record) -> PatternsDocument:
        """Return a copy of the document with one bullet changed, and moved if its kind changed.

        Raises NotFound or Conflict unless exactly one bullet has the id, and Refused if the
        new text would not read back the same.
        """
        entry = documents.find_entry(self.entries, record_id)
        if record.kind is not entry.record.kind:
            return self.remove(record_id).add(record)
        expected = dataclasses.replace(as_pattern(record), label=entry.record.label)
        first_line = self.text[entry.start : entry.end].partition("\n")[0]
        newline = markdown.newline_of(self.text)
        marker = bullet_marker(first_line)
        if marker is None:
            written = render_bullet(expected.text, newline, "")
        else:
            lead = first_line[: marker.text_index]
            written = render_bullet(expected.text, newline, lead, marker.text_column)
        if not self.text[: entry.end].endswith("\n"):
            written = written.rstrip("\r\n")
        return self._spliced(start=entry.start, end=entry.end, block=written, expected=expected)

    def remove(self, record_id: str) -> PatternsDocument:
        """Return a copy of the document without one bullet. Its section heading is kept.

        Raises NotFound or Conflict unless exactly one bullet has the id.
        """
        entry = documents.find_entry(self.entries, record_id)
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

    def _spliced(self, *, start: int, end: int, block: str, expected: Record) -> PatternsDocument:
        after = parse_patterns(self.text[:start] + block + self.text[end:])
        check_splice(self.entries, after.entries, start=start, end=end, expected=expected)
        return after


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
    sections_end = len(text)
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
            sections_end = _sections_end(line, chunks[-1].lines)
            chunks.append(_Chunk(None, [line]))
        else:
            chunks[-1].lines.append(line)
    entries: list[Entry] = []
    sections: list[PatternSection] = []
    for chunk in chunks:
        bullets = list(read_bullets(chunk.lines))
        kind = _section_kind(chunk.name or "")
        label = label_of(chunk.name or "")
        for bullet in bullets:
            record = Record(_pattern_id(bullet.text), kind, bullet.text, label=label)
            entries.append(Entry(record, bullet.start, bullet.end, bullet.number))
        if chunk.name is not None:
            sections.append(_read_section(chunk.name, chunk.lines, bullets))
    problems += _duplicate_problems(entries)
    return PatternsDocument(
        text,
        tuple(entries),
        documents.sort_problems(problems),
        sections=tuple(sections),
        footer=footer,
        sections_end=sections_end,
    )


def _sections_end(footer: Line, above: Sequence[Line]) -> int:
    """Return the position of the rule above the footer, or of the footer if there is no rule."""
    for line in reversed(above):
        if line.blank:
            continue
        if line.is_markdown and markdown.is_rule(line.text):
            return line.start
        break
    return footer.start


def _read_section(name: str, lines: Sequence[Line], bullets: Sequence[Bullet]) -> PatternSection:
    end = 0
    for line in lines:
        if line.is_markdown and markdown.is_rule(line.text):
            break
        if not line.blank:
            end = line.end
    ends_with_bullet = any(bullet.end == end for bullet in bullets)
    return PatternSection(name, lines[0].start, end, ends_with_bullet)


def _duplicate_problems(entries: Sequence[Entry]) -> list[Problem]:
    problems: list[Problem] = []
    first_lines: dict[str, int] = {}
    for entry in entries:
        first_line = first_lines.setdefault(entry.record.id, entry.line)
        if first_line != entry.line:
            what = f"this is the same as line {first_line}"
            problems.append(
                Problem(
                    entry.line, what, "delete one of the two", level="warning", code="duplicate-id"
                )
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
