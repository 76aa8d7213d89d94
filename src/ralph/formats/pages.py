"""Codecs of bullets in pages: global-patterns.md, and marked regions in AGENTS.md or CLAUDE.md.

Ids are derived from the text of a bullet. In a file that belongs to people, Ralph writes only between its two marks.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ralph.errors import Refused
from ralph.formats import text as markdown
from ralph.formats.text import BOM, Entry, Line, LineRole, Problem, TextDocument
from ralph.model import ids
from ralph.model.record import MemoryKind, Record, kind_of, label_of

HEADINGS = {
    MemoryKind.PATTERN: "Conventions",
    MemoryKind.DECISION: "Decisions",
    MemoryKind.FIX: "Gotchas",
    MemoryKind.CONTEXT: "Tips",
}


class PatternSection(NamedTuple):
    """A `## heading`, where it and its last line's end are, and whether a bullet ends there."""

    heading: str
    start: int
    tail: int
    ends_with_bullet: bool


@dataclass(frozen=True, slots=True)
class PatternsDocument(TextDocument):
    """A parsed global-patterns.md; `closing` is where a new section goes."""

    sections: tuple[PatternSection, ...]
    footer: tuple[int, int] | None
    closing: int

    def add(self, record: Record) -> PatternsDocument:
        """The document with one more bullet in its section, unless it is there."""
        expected = as_pattern(record)
        if any(entry.record.id == expected.id for entry in self.entries):
            return self
        newline = markdown.newline_of(self.text)
        if not self.text.strip(BOM + " \t\r\n"):
            return parse_patterns(self.text + patterns_template(newline)).add(record)
        fitting = [
            section for section in self.sections if _section_kind(section.heading) is expected.kind
        ]
        ours = (HEADINGS[MemoryKind(expected.kind)].casefold(), record.label.casefold())
        named = [
            section
            for section in fitting
            if record.label in (section.heading, label_of(section.heading))
        ]
        alike = [section for section in fitting if section.heading.casefold() in ours]
        aliases = [section for section in fitting if kind_of(section.heading) is not None]
        section = next(iter(named or alike or aliases), None)
        bullet = markdown.render_bullet(expected.text, newline).removesuffix(newline)
        if section is not None:
            expected = as_pattern(record, section.heading)
            end = markdown.text_end(self.text, section.tail)
            apart = not section.ends_with_bullet and markdown.is_spaced_below(self.text, end)
            at, block = markdown.insertion_below(
                self.text, section.tail, bullet, newline, apart=apart
            )
        else:
            above = f"## {HEADINGS[MemoryKind(expected.kind)]}{newline * 2}"
            at, block = markdown.insertion_below(self.text, self.closing, above + bullet, newline)
        return self._spliced(at, at, block, expected)

    def replace(self, record_id: str, record: Record) -> PatternsDocument:
        """The document with one bullet changed, moved when its kind changed."""
        entry = markdown.find_entry(self.entries, record_id)
        if record.kind is not entry.record.kind:
            return self.remove(record_id).add(record)
        expected = dataclasses.replace(as_pattern(record), label=entry.record.label)
        first = self.text[entry.start : entry.end].partition("\n")[0]
        _, pad, index = markdown.bullet_marker(first) or (0, 2, 0)
        written = markdown.render_bullet(
            expected.text, markdown.newline_of(self.text), first[:index], pad
        )
        written = written if self.text[: entry.end].endswith("\n") else written.rstrip("\r\n")
        return self._spliced(entry.start, entry.end, written, expected)

    def remove(self, record_id: str) -> PatternsDocument:
        """The document without one bullet; its heading stays."""
        entry = markdown.find_entry(self.entries, record_id)
        return parse_patterns(markdown.cut_lines(self.text, entry.start, entry.end))

    def stamped(self, date: str, task: str) -> PatternsDocument:
        """The document with date and task of its last change."""
        if any(char in date + task for char in "\r\n\x00"):
            raise Refused(
                "the footer's date and task must each be one line", hint="pass a date and a task id"
            )
        line = f"_Last updated: {date} by {task}_"
        if self.footer is not None:
            return parse_patterns(self.text[: self.footer[0]] + line + self.text[self.footer[1] :])
        newline = markdown.newline_of(self.text)
        rule = (
            ""
            if markdown.is_rule(self.text.rstrip(" \t\r\n").rpartition("\n")[2])
            else f"---{newline * 2}"
        )
        at, block = markdown.insertion_below(self.text, len(self.text), rule + line, newline)
        return parse_patterns(self.text[:at] + block + self.text[at:])

    def _spliced(self, start: int, end: int, block: str, expected: Record) -> PatternsDocument:
        after = parse_patterns(self.text[:start] + block + self.text[end:])
        _check_splice(self.entries, after.entries, start, end, expected)
        return after


def _check_splice(
    before: Sequence[Entry], after: Sequence[Entry], start: int, end: int, expected: Record
) -> None:
    above = [entry.record for entry in before if entry.start < start]
    below = [entry.record for entry in before if entry.start >= end]
    if [entry.record for entry in after] != [*above, expected, *below]:
        hint = "close its fences and comments, and do not begin it with list marks or rules"
        raise Refused(
            "this text cannot be written here: it would not read back the same", hint=hint
        )


def patterns_template(newline: str = "\n") -> str:
    """A new, empty file."""
    head = ("# Global Codebase Patterns", "> What every task in this project should know.")
    return (newline * 2).join((*head, "## Conventions", "## Gotchas", "## Tips")) + newline


def parse_patterns(text: str) -> PatternsDocument:
    """Parse global-patterns.md; any text is a valid file."""
    scanned = list(markdown.scan_lines(text))
    problems = [*filter(None, map(markdown.line_problem, scanned))]
    chunks: list[tuple[str | None, list[Line]]] = [
        (None, [])
    ]  # the lines below each heading; None: no section
    footer = None
    closing = len(text)
    for line in scanned:
        if (heading := markdown.parse_heading(line)) is not None and heading[0] <= 2:
            chunks.append((heading[1] if heading[0] == 2 else None, [line]))
        elif markdown.is_footer(line):
            above = next((other for other in reversed(chunks[-1][1]) if not other.blank), None)
            has_rule = above is not None and above.is_markdown and markdown.is_rule(above.text)
            footer = (line.start, line.start + len(line.text))
            closing = above.start if above is not None and has_rule else line.start
            chunks.append((None, [line]))
        else:
            chunks[-1][1].append(line)
    entries: list[Entry] = []
    sections: list[PatternSection] = []
    first_lines: dict[str, int] = {}
    for name, lines in chunks:
        bullets = list(markdown.read_bullets(lines))
        kind = _section_kind(name or "")
        label = label_of(name or "")
        for item in bullets:
            record = Record(_pattern_id(item.text), kind, item.text, label=label)
            entries.append(Entry(record, item.start, item.end, item.number))
            first = first_lines.setdefault(record.id, item.number)
            if first != item.number:
                what = f"this is the same as line {first}"
                problems.append(
                    Problem(item.number, what, "delete one of the two", "warning", "duplicate-id")
                )
        if name is not None:
            until_rule = itertools.takewhile(
                lambda line: not (line.is_markdown and markdown.is_rule(line.text)), lines
            )
            tail = max(line.end for line in until_rule if not line.blank)
            sections.append(
                PatternSection(
                    name, lines[0].start, tail, any(item.end == tail for item in bullets)
                )
            )
    return PatternsDocument(
        text, tuple(entries), markdown.sort_problems(problems), tuple(sections), footer, closing
    )


def as_pattern(record: Record, name: str = "") -> Record:
    """A record as this file can hold it, with an id derived from the text."""
    if not isinstance(record.kind, MemoryKind):
        raise Refused(f"{record.id} is no memory", hint="global-patterns.md holds memories only")
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


REGION_START = "<!-- ralph:start -->"
REGION_END = "<!-- ralph:end -->"
REGION_LABEL = "learned"

_MARK = re.compile(r"<!--[ \t]*ralph:(start|end)[ \t]*-->")


@dataclass(frozen=True, slots=True)
class RegionDocument(TextDocument):
    """A parsed file with its regions."""

    regions: tuple[tuple[int, int], ...]  # from behind its first mark to its second one

    def add(self, record: Record) -> RegionDocument:
        """The document with one more bullet in its first region, unless it is there."""
        self._check()
        text = markdown.check_text(record.text, "text").strip(" \t\n")
        if _MARK.search(text):
            raise Refused(
                "the text holds a mark of the region itself",
                hint="leave the `<!-- ralph: -->` out of it",
            )
        expected = _region_record(text)
        if any(entry.record.id == expected.id for entry in self.entries):
            return self
        newline = markdown.newline_of(self.text)
        bullet = markdown.render_bullet(expected.text, newline)
        if self.regions:
            inner, stop = self.regions[0]
            last = markdown.text_end(self.text[:stop], stop)
            at = inner if last <= inner else self.text.find("\n", last) + 1
            return self._spliced(at, bullet, expected)
        block = f"{REGION_START}{newline}{bullet}{REGION_END}"
        at, block = markdown.insertion_below(self.text, len(self.text), block, newline)
        return self._spliced(at, block, expected)

    def remove(self, record_id: str) -> RegionDocument:
        """The document without one bullet; its region stays."""
        self._check()
        entry = markdown.find_entry(self.entries, record_id)
        return parse_region(self.text[: entry.start] + self.text[entry.end :])

    def _check(self) -> None:
        error = next((problem for problem in self.problems if problem.level == "error"), None)
        if error is not None:
            raise Refused(
                f"line {error.line}: {error.what}", hint=f"{error.hint}; nothing was written"
            )

    def _spliced(self, at: int, block: str, expected: Record) -> RegionDocument:
        after = parse_region(self.text[:at] + block + self.text[at:])
        broken = any(problem.level == "error" for problem in after.problems)
        _check_splice(self.entries, () if broken else after.entries, at, at, expected)
        return after


def parse_region(text: str) -> RegionDocument:
    """Parse the regions of a file; any text is a valid file."""
    lines = list(markdown.scan_lines(text))
    marks = [
        (line, mark[1])
        for line in lines
        if line.role is not LineRole.INSIDE and (mark := _MARK.fullmatch(line.text.strip()))
    ]
    pairs = [
        (one, two)
        for (one, first), (two, last) in itertools.pairwise(marks)
        if (first, last) == ("start", "end")
    ]
    paired = {line.number for pair in pairs for line in pair}
    what = "this mark of a region has no partner"
    hint = f"write {REGION_START} above and {REGION_END} below the bullets"
    alone = (line.number for line, _ in marks if line.number not in paired)
    problems = tuple(Problem(number, what, hint, "error", "unpaired-region") for number in alone)
    regions = tuple((one.end, two.start) for one, two in pairs)
    entries = tuple(
        Entry(_region_record(item.text), item.start, item.end, item.number)
        for inner, stop in regions
        for item in markdown.read_bullets([line for line in lines if inner <= line.start < stop])
    )
    return RegionDocument(text, entries, problems, regions)


def _region_record(text: str) -> Record:
    return Record(
        ids.derived("reg", markdown.normalise_text(text)),
        MemoryKind.CONTEXT,
        text,
        label=REGION_LABEL,
    )
