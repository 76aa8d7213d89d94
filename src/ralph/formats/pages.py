"""Codecs of bullets in pages: global-patterns.md, and marked regions in AGENTS.md or CLAUDE.md.

Ids are derived from the text of a bullet. global-patterns.md has three sections and a footer, of
which only the footer line is rewritten. In a file that belongs to people, Ralph writes only
between `<!-- ralph:start -->` and `<!-- ralph:end -->`.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ralph.errors import Refused
from ralph.formats.text import (
    BOM,
    HEADING_ADDED,
    Bullet,
    BulletReader,
    Entry,
    Line,
    LineRole,
    Problem,
    blank_line_before,
    check_text,
    cut_lines,
    find_entry,
    framed_span,
    insertion_below,
    is_footer,
    is_rule,
    is_spaced_below,
    line_problem,
    newline_of,
    normalise_text,
    parse_heading,
    read_bullets,
    render_bullet,
    rewrite_bullet,
    scan_lines,
    text_end,
)
from ralph.model import ids
from ralph.model.record import MemoryKind, Record, kind_of, label_of

HEADINGS = {
    MemoryKind.PATTERN: "Conventions",
    MemoryKind.DECISION: "Decisions",
    MemoryKind.FIX: "Gotchas",
    MemoryKind.CONTEXT: "Tips",
}
"""The heading under which each kind is written here."""

_CONFLICT_HINT = (
    "keep the bullets of both sides and one footer, and delete the marker lines; "
    "`ralph task merge` does that by itself after `git merge --abort`"
)
_LAYOUT = (
    "# Global Codebase Patterns",
    "> What every task in this project should know.",
    "## Conventions",
    "## Gotchas",
    "## Tips",
)


@dataclass(frozen=True, slots=True)
class PatternSection:
    """A `## heading`: `tail` is the end of its last line, `ends_with_bullet` says whether a bullet ends there."""

    heading: str
    tail: int
    ends_with_bullet: bool


@dataclass(frozen=True, slots=True)
class PatternsDocument:
    """A parsed global-patterns.md."""

    text: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    sections: tuple[PatternSection, ...]
    footer: tuple[int, int] | None
    """Where the words of the footer line stand."""
    closing: int
    """Where a new section goes: before the footer and its rule, else the end."""

    def __str__(self) -> str:
        return self.text

    def add(self, record: Record) -> "PatternsDocument":
        """The document with one more bullet at its section's end, or itself when that is already said."""
        expected = as_pattern(record)
        if any(entry.record.id == expected.id for entry in self.entries):
            return self
        newline = newline_of(self.text)
        if not self.text.strip(BOM + " \t\r\n"):
            return parse_patterns(self.text + patterns_template(newline)).add(record)
        section = self._section(expected.kind, record.label)
        bullet = render_bullet(expected.text, newline).removesuffix(newline)
        if section is not None:
            expected = as_pattern(record, section.heading)
            apart = not section.ends_with_bullet and is_spaced_below(self.text, text_end(self.text, section.tail))
            at, block = insertion_below(self.text, section.tail, bullet, newline, apart=apart)
        else:
            above = _above(HEADINGS[MemoryKind(expected.kind)]).replace("\n", newline)
            at, block = insertion_below(self.text, self.closing, above + bullet, newline)
        return self._spliced(at, at, block, expected)

    def replace(self, record_id: str, record: Record) -> "PatternsDocument":
        """The document with one bullet written anew; in its own section, unless the kind is another one."""
        entry = find_entry(self.entries, record_id)
        if record.kind is not entry.record.kind:
            return self.remove(record_id).add(record)
        expected = dataclasses.replace(as_pattern(record), label=entry.record.label)
        return self._spliced(entry.start, entry.end, rewrite_bullet(self.text, entry, expected.text), expected)

    def remove(self, record_id: str) -> "PatternsDocument":
        """The document without one bullet, and without a heading that was made for it."""
        entry = find_entry(self.entries, record_id)
        others = [other.record for other in self.entries if other is not entry]
        last = any(section.tail == entry.end for section in self.sections)
        for name in HEADINGS.values() if last else ():
            span = framed_span(self.text, entry.start, entry.end, _above(name), "")
            after = parse_patterns(cut_lines(self.text, *span, apart=True)) if span is not None else None
            if after is not None and [other.record for other in after.entries] == others:
                return after
        return parse_patterns(cut_lines(self.text, entry.start, entry.end))

    def stamped(self, date: str, task: str) -> "PatternsDocument":
        """The document with the footer line saying when and by which task it was last changed."""
        if any(char in date + task for char in "\r\n\x00"):
            raise Refused("the footer's date and task must each be one line", hint="pass a date and a task id")
        line = f"_Last updated: {date} by {task}_"
        if self.footer is not None:
            return parse_patterns(self.text[: self.footer[0]] + line + self.text[self.footer[1] :])
        newline = newline_of(self.text)
        last = self.text.rstrip(" \t\r\n").rpartition("\n")[2]
        rule = "" if is_rule(last) else f"---{newline}{newline}"
        return parse_patterns(f"{self.text}{blank_line_before(self.text, newline)}{rule}{line}{newline}")

    def _section(self, kind: str, label: str) -> PatternSection | None:
        """The section for a kind: the one that the label names, else ours, else one by another word."""
        fitting = [section for section in self.sections if _section_kind(section.heading) is kind]
        heading = HEADINGS[MemoryKind(kind)]
        for name in (label, heading):
            for section in fitting:
                if name == section.heading or name == label_of(section.heading):
                    return section
        names = (label.casefold(), heading.casefold())
        folded = [section for section in fitting if section.heading.casefold() in names]
        aliases = [section for section in fitting if kind_of(section.heading) is not None]
        return next(iter(folded or aliases), None)

    def _spliced(self, start: int, end: int, block: str, expected: Record) -> "PatternsDocument":
        after = parse_patterns(self.text[:start] + block + self.text[end:])
        _check_splice(self.entries, after.entries, start, end, expected)
        return after


def _check_splice(before: Sequence[Entry], after: Sequence[Entry], start: int, end: int, expected: Record) -> None:
    """Refuse a splice unless the expected record reads back and its neighbours are unchanged."""
    above = [entry.record for entry in before if entry.start < start]
    below = [entry.record for entry in before if entry.start >= end]
    if [entry.record for entry in after] != [*above, expected, *below]:
        raise Refused(
            "this text cannot be written here: it would not read back the same",
            hint="close its fences and comments, and do not begin it with list marks or rules",
        )


def patterns_template(newline: str = "\n") -> str:
    """A new, empty file."""
    return (newline * 2).join(_LAYOUT) + newline


def parse_patterns(text: str) -> PatternsDocument:
    """Read global-patterns.md; any text is a valid file."""
    reader = _PatternReader()
    for line in scan_lines(text):
        reader.feed(line)
    reader.finish()
    closing = len(text) if reader.closing is None else reader.closing
    problems = sorted([*reader.problems, *_duplicates(reader.entries)], key=lambda problem: problem.line)
    return PatternsDocument(
        text, tuple(reader.entries), tuple(problems), tuple(reader.sections), reader.footer, closing
    )


def as_pattern(record: Record, name: str = "") -> Record:
    """What is left of a record in this file: kind and words, the heading as label, an id made of the words."""
    if not isinstance(record.kind, MemoryKind):
        raise Refused(f"{record.id} is no memory", hint="only memories stand in global-patterns.md")
    text = check_text(record.text, "pattern").strip(" \t\n")
    return Record(id=_pattern_id(text), kind=record.kind, text=text, label=label_of(name or HEADINGS[record.kind]))


def _above(name: str) -> str:
    """What stands above the first bullet of a section that was made for it."""
    return f"## {name}\n{HEADING_ADDED}\n\n"


def _section_kind(name: str) -> MemoryKind:
    return kind_of(name) or MemoryKind.CONTEXT


def _pattern_id(text: str) -> str:
    return ids.derived("pat", normalise_text(text))


class _PatternReader:
    """Takes the lines one by one; bullets become entries, headings begin sections."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.sections: list[PatternSection] = []
        self.footer: tuple[int, int] | None = None
        self.closing: int | None = None
        self._bullets = BulletReader()
        self._is_section = False
        self._name = ""
        self._tail: int | None = None  # None below the section's first rule, where nothing is added
        self._last = 0  # where the last bullet ended
        self._rule: int | None = None  # a rule with nothing but blank lines below it so far

    def feed(self, line: Line) -> None:
        """Take one line."""
        if line.role is not LineRole.TEXT:
            problem = line_problem(line)
            if problem is not None:
                is_conflict = problem.code == "conflict"
                self.problems.append(dataclasses.replace(problem, hint=_CONFLICT_HINT) if is_conflict else problem)
        heading = parse_heading(line)
        if heading is not None and heading[0] <= 2:
            level, title = heading
            self._begin(title if level == 2 else "", line, is_section=level == 2)
        elif is_footer(line):
            self.footer = (line.start, line.start + len(line.text))
            self.closing = line.start if self._rule is None else self._rule
            self._begin("", line, is_section=False)
        else:
            self._enter(self._bullets.feed(line))
            self._measure(line)

    def _measure(self, line: Line) -> None:
        """Keep track of the section's end and of a rule that may belong to the footer."""
        if line.blank:
            return
        self._rule = None
        if line.is_markdown and is_rule(line.text):
            self._rule = line.start
            self._close()
        elif self._tail is not None:
            self._tail = line.end

    def _begin(self, name: str, line: Line, *, is_section: bool) -> None:
        self.finish()
        self._name, self._is_section, self._tail, self._rule = name, is_section, line.end, None

    def finish(self) -> None:
        """End the section."""
        self._enter(self._bullets.close())
        self._close()

    def _close(self) -> None:
        if self._is_section and self._tail is not None:
            self.sections.append(PatternSection(self._name, self._tail, self._last == self._tail))
        self._tail = None

    def _enter(self, item: Bullet | None) -> None:
        if item is None:
            return
        self._last = item.end
        record = Record(
            id=_pattern_id(item.text), kind=_section_kind(self._name), text=item.text, label=label_of(self._name)
        )
        self.entries.append(Entry(record, item.start, item.end, item.number))


def _duplicates(entries: Sequence[Entry]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for entry in entries:
        first = seen.setdefault(entry.record.id, entry.line)
        if first != entry.line:
            what = f"this says the same as line {first}"
            yield Problem(entry.line, what, "delete one of the two", "warning", "duplicate-id")


REGION_START, REGION_END = "<!-- ralph:start -->", "<!-- ralph:end -->"
REGION_LABEL = "learned"

_MARK = re.compile(r"<!--[ \t]*ralph:(start|end)[ \t]*-->")


@dataclass(frozen=True, slots=True)
class MarkedRegion:
    """One region: `start` and `end` are those of its mark lines, `inner` and `stop` of what stands between them."""

    start: int
    inner: int
    stop: int
    end: int
    is_ours: bool


@dataclass(frozen=True, slots=True)
class RegionDocument:
    """A parsed file with its regions."""

    text: str
    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    regions: tuple[MarkedRegion, ...]

    def __str__(self) -> str:
        return self.text

    def add(self, record: Record) -> "RegionDocument":
        """The document with one more bullet at the end of its first region, or itself when that is already said."""
        self._check()
        expected = as_bullet(record)
        if any(entry.record.id == expected.id for entry in self.entries):
            return self
        newline = newline_of(self.text)
        bullet = render_bullet(expected.text, newline)
        if self.regions:
            at = self._tail(self.regions[0])
            return self._spliced(at, at, bullet, expected)
        block = f"{REGION_START}{newline}{HEADING_ADDED}{newline}{bullet}{REGION_END}"
        at, block = insertion_below(self.text, len(self.text), block, newline)
        return self._spliced(at, at, block, expected)

    def replace(self, record_id: str, record: Record) -> "RegionDocument":
        """The document with one bullet written anew."""
        self._check()
        entry = find_entry(self.entries, record_id)
        expected = as_bullet(record)
        return self._spliced(entry.start, entry.end, rewrite_bullet(self.text, entry, expected.text), expected)

    def remove(self, record_id: str) -> "RegionDocument":
        """The document without one bullet, and without a region that was made and is empty then."""
        self._check()
        entry = find_entry(self.entries, record_id)
        region = next(each for each in self.regions if each.inner <= entry.start < each.stop)
        rest = self.text[region.inner : entry.start] + self.text[entry.end : region.stop]
        if region.is_ours and rest.strip() == HEADING_ADDED:
            return parse_region(cut_lines(self.text, region.start, region.end, apart=True))
        return parse_region(self.text[: entry.start] + self.text[entry.end :])

    def _tail(self, region: MarkedRegion) -> int:
        """Where the next bullet goes: below the last words of a region."""
        last = text_end(self.text[: region.stop], region.stop)
        if last <= region.inner:
            return region.inner
        return self.text.find("\n", last) + 1

    def _check(self) -> None:
        wrong = next((each for each in self.problems if each.level == "error"), None)
        if wrong is not None:
            raise Refused(f"line {wrong.line}: {wrong.what}", hint=f"{wrong.hint}; nothing was written")

    def _spliced(self, start: int, end: int, block: str, expected: Record) -> "RegionDocument":
        """The new document, if it holds what it should and its neighbours are as they were."""
        after = parse_region(self.text[:start] + block + self.text[end:])
        broken = any(problem.level == "error" for problem in after.problems)
        _check_splice(self.entries, () if broken else after.entries, start, end, expected)
        return after


def parse_region(text: str) -> RegionDocument:
    """Read the regions of a file; any text is a valid file."""
    reader = _RegionReader()
    for line in scan_lines(text):
        reader.feed(line)
    reader.finish()
    entries = tuple(reader.entries)
    problems = sorted([*reader.problems, *_extra_regions(reader.regions, text)], key=lambda problem: problem.line)
    return RegionDocument(text, entries, tuple(problems), tuple(reader.regions))


def as_bullet(record: Record) -> Record:
    """What is left of a record in a region: its words, and an id made of them."""
    text = check_text(record.text, "text").strip(" \t\n")
    if _MARK.search(text):
        raise Refused("the text holds a mark of the region itself", hint="leave the `<!-- ralph: -->` out of it")
    return _region_record(text)


class _RegionReader:
    """Takes the lines one by one; what stands between a start and an end is read as bullets at the end."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.regions: list[MarkedRegion] = []
        self._open: Line | None = None
        self._lines: list[Line] = []

    def feed(self, line: Line) -> None:
        """Take one line."""
        mark = _MARK.fullmatch(line.text.strip()) if line.role is not LineRole.INSIDE else None
        if mark is None:
            if self._open is not None:
                self._lines.append(line)
        elif mark[1] == "start":
            if self._open is not None:
                self._report(line, f"a region begins within that of line {self._open.number}", "take one start out")
            self._open, self._lines = line, []
        elif self._open is None:
            self._report(
                line, "a region ends here that never began", f"write {REGION_START} above it, or take the line out"
            )
        else:
            self._close(line)

    def _close(self, line: Line) -> None:
        if self._open is None:
            return
        start, is_ours = self._open, bool(self._lines) and self._lines[0].text == HEADING_ADDED
        self.regions.append(MarkedRegion(start.start, start.end, line.start, line.end, is_ours))
        for item in read_bullets(self._lines):
            self.entries.append(Entry(_region_record(item.text), item.start, item.end, item.number))
        self._open, self._lines = None, []

    def finish(self) -> None:
        """End the file."""
        if self._open is not None:
            self._report(self._open, "a region begins here that never ends", f"write {REGION_END} below it")

    def _report(self, line: Line, what: str, hint: str) -> None:
        self.problems.append(Problem(line.number, what, hint, "error", "unpaired-region"))


def _region_record(text: str) -> Record:
    return Record(id=ids.derived("reg", normalise_text(text)), kind=MemoryKind.CONTEXT, text=text, label=REGION_LABEL)


def _extra_regions(regions: Sequence[MarkedRegion], text: str) -> Iterator[Problem]:
    for region in regions[1:]:
        what = "there is a second region; what is new goes into the first one"
        number = text.count("\n", 0, region.start) + 1
        yield Problem(number, what, "put the two together", "warning", "second-region")
